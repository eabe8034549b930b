/* The products that oneDNN must compute on this machine. */
#ifndef WEFT_TESTS_ONEDNN_SUPPORT_H
#define WEFT_TESTS_ONEDNN_SUPPORT_H

#include <stdbool.h>
#include <stdlib.h>

#include <weft/base.h>

#if defined WEFT_HAVE_ONEDNN && defined __x86_64__
#include <cpuid.h>
#endif

#if defined WEFT_HAVE_ONEDNN
#include "codelets/cpu/onednn_versions.h"
#endif

/* Whether it was found, and the processor has instructions for products of the type. */
static inline bool onednn_has_instructions(weft_dtype dtype)
{
#if defined WEFT_HAVE_ONEDNN && defined __x86_64__
    __builtin_cpu_init();
    bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                __builtin_cpu_supports("avx512dq");
    unsigned a, b, c, d = 0; /* compilers know no name for these instructions yet */
    bool halves = DNNL_VERSION_MAJOR >= 3 && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 23 & 1);
    return wide && (dtype == WEFT_F32 || (dtype == WEFT_BF16 && __builtin_cpu_supports("avx512bf16")) ||
                    (dtype == WEFT_F16 && halves));
#else
    (void)dtype;
    return false;
#endif
}

/* Whether it is kept from them. */
static inline bool onednn_is_limited(void)
{
#if defined WEFT_HAVE_ONEDNN
    return getenv("ONEDNN_MAX_CPU_ISA") != NULL || getenv("DNNL_MAX_CPU_ISA") != NULL || !weft_dnnl_has_one_thread();
#else
    return false;
#endif
}

#endif
