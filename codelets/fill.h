/* Kernels that write values without reading any: constants and random numbers. */
#ifndef WEFT_CODELETS_FILL_H
#define WEFT_CODELETS_FILL_H

#include "codelets/args.h"

/* Operand 0 (W): `count` elements of base.dtype get `value`, converted as C does (bool: value != 0). */
typedef struct weft_fill_args {
    weft_task_args base;
    int64_t count;
    double value;
} weft_fill_args;
extern struct starpu_codelet weft_codelet_fill;

/* Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3, SC11). */
void weft_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* Operand 0 (W): a box of a tensor, row-major and contiguous. An element's value depends on seed, stream and
 * its row-major index in the GLOBAL tensor alone, so any layout gives the same tensor. Uniform: [0, 1), f32
 * with 24 random bits, f64 with 53. Normal: Box-Muller, mean 0, variance 1. bf16, f16: the f32 value rounded
 * (uniform: rounded down, so that 1 is never reached). */
typedef struct weft_random_args {
    weft_task_args base;
    bool normal;
    uint64_t seed;
    uint64_t stream; /* which random operation of the program this is */
    int ndim;
    int64_t shape[WEFT_MAX_DIMS];  /* global */
    int64_t offset[WEFT_MAX_DIMS]; /* of the box */
    int64_t extent[WEFT_MAX_DIMS];
} weft_random_args;
extern struct starpu_codelet weft_codelet_random;

#endif
