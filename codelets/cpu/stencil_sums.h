/* Stencils whose steps are sums of shifted tensors with factors: one loop instead of one for each step. */
#ifndef WEFT_CODELETS_CPU_STENCIL_SUMS_H
#define WEFT_CODELETS_CPU_STENCIL_SUMS_H

#include "codelets/stencil.h"

enum { WEFT_STENCIL_TERMS = 9 };

/* other_factor * other + factor * (factors[0] * terms[0] + factors[1] * terms[1] + ...), rounded after each operation, from the left to
 * the right. A factor of 1 changes nothing, so that there is one everywhere. */
typedef struct weft_stencil_sum {
    int num_terms; /* 0: it is no such sum */
    int terms[WEFT_STENCIL_TERMS], other; /* views; other -1: none */
    double factors[WEFT_STENCIL_TERMS], factor, other_factor;
} weft_stencil_sum;

/* The sum that all steps are together, rounded where they round; num_terms 0: they are none. */
weft_stencil_sum weft_stencil_find_sum(const weft_stencil *stencil);
/* `count` consecutive elements of WEFT_F64 or WEFT_F32; at[]: where each view has them. `out` overlaps none of them. */
void weft_stencil_run_sum(const weft_stencil_sum *sum, weft_dtype type, void *out, const char *const at[], int64_t count);

#endif
