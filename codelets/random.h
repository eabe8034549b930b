/* Kernels of random values. An element depends only on seed, offset and its row-major index in the GLOBAL
 * tensor, so any layout gives the same tensor. */
#ifndef WEFT_CODELETS_RANDOM_H
#define WEFT_CODELETS_RANDOM_H

#include <weft/kernel.h>

/* Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3, SC11). */
void weft_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* Scalars of all these kernels: seed and offset of the state, low and high 32 bits of each; then their
 * own. */
enum { WEFT_RANDOM_SEED = 0, WEFT_RANDOM_OFFSET = 2, WEFT_RANDOM_OWN = 4 };

static inline void weft_random_pack(double halves[2], uint64_t value)
{
    halves[0] = (double)(uint32_t)value;
    halves[1] = (double)(uint32_t)(value >> 32);
}

static inline uint64_t weft_random_unpack(const double halves[2])
{
    return (uint64_t)(uint32_t)halves[1] << 32 | (uint32_t)halves[0];
}

static inline weft_random_state weft_random_state_of(const double scalars[])
{
    const weft_random_state state = { weft_random_unpack(scalars + WEFT_RANDOM_SEED), weft_random_unpack(scalars + WEFT_RANDOM_OFFSET) };
    return state;
}

/* In [own[0], own[1]), or own[0] if they are equal, after rounding both to the output's type. 24 random
 * bits, for f64 53. Rounded down, so that the upper bound is excluded. */
void weft_kernel_uniform(const weft_kernel_call *call);
/* own[0] + own[1] z, z of mean 0 and variance 1 (Box-Muller); computed in f32, for f64 in f64. */
void weft_kernel_normal(const weft_kernel_call *call);
/* Integers from own[0..1] on, own[2..3] different ones (both packed); to integer types and WEFT_BOOL. */
void weft_kernel_randint(const weft_kernel_call *call);
/* 1 with probability own[0], else 0. */
void weft_kernel_bernoulli_scalar(const weft_kernel_call *call);
/* The same with the probability in the element of input 0. */
void weft_kernel_bernoulli(const weft_kernel_call *call);
/* To i64, one dimension: element i is the image of i in a random permutation of 0 .. shape[0] - 1. */
void weft_kernel_randperm(const weft_kernel_call *call);

#endif
