/* Function multiversioning: a version of a loop for each generation of vector units, selected when the
 * program is loaded. All versions have the same arithmetic, because ISO C forbids contraction into fused
 * operations: results do not depend on the machine. */
#ifndef WEFT_CODELETS_CPU_CLONES_H
#define WEFT_CODELETS_CPU_CLONES_H

/* sanitizers start later than the resolver functions */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) &&     \
    !defined(__SANITIZE_THREAD__)
#define WEFT_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define WEFT_CLONES
#endif

#endif
