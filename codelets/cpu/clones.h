/* Loops that the compiler makes several versions of, one for each generation of vector units; the machine's
 * is chosen when the program is loaded. The arithmetic is the same in all of them: ISO C forbids contraction
 * into fused operations, so results do not depend on the machine. */
#ifndef WEFT_CODELETS_CPU_CLONES_H
#define WEFT_CODELETS_CPU_CLONES_H

/* Sanitizers start later than the functions that choose. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) &&     \
    !defined(__SANITIZE_THREAD__)
#define WEFT_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define WEFT_CLONES
#endif

#endif
