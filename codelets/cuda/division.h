/* Division by numbers that the host knows before the launch. */
#ifndef WEFT_CODELETS_CUDA_DIVISION_H
#define WEFT_CODELETS_CUDA_DIVISION_H

#include "codelets/cuda/box.h"

/* Division of numbers up to `most` by the same number: of those below 2^31 by a multiplication (Granlund and Montgomery 1994). */
struct weft_divisor {
    int64_t by;
    uint32_t factor;
    int shift;
    bool narrow;
};

static inline weft_divisor weft_divisor_of(int64_t by, int64_t most)
{
    weft_divisor divisor = { by, 0, 0, by < (int64_t)1 << 31 && most < (int64_t)1 << 31 };
    if (divisor.narrow) {
        while ((int64_t)1 << divisor.shift < by) {
            divisor.shift++;
        }
        divisor.factor = (uint32_t)((((uint64_t)1 << divisor.shift) - (uint64_t)by) * ((uint64_t)1 << 32) / (uint64_t)by + 1);
    }
    return divisor;
}

static __device__ inline int64_t weft_divided(int64_t a, const weft_divisor &divisor)
{
    const uint32_t low = (uint32_t)a;
    return divisor.narrow ? (int64_t)(((uint32_t)((uint64_t)low * divisor.factor >> 32) + low) >> divisor.shift) : weft_quotient(a, divisor.by);
}

#endif
