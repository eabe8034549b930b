/* Fourier transforms of many lines, in both precisions. */
#include <string.h>

#include "codelets/cpu/clones.h"
#include "codelets/cpu/fft_plan.h"

#define UNROLL _Pragma("GCC unroll 16")
#define PICK __builtin_shufflevector

/* A square of numbers, by exchanging ever smaller squares beside the diagonal. */
#define EXCHANGE(r, i, d, low, high)                                                                         \
    {                                                                                                        \
        const V one = r[i], other = r[(i) + (d)];                                                            \
        r[i] = low(one, other);                                                                              \
        r[(i) + (d)] = high(one, other);                                                                     \
    }

#define LOW4_2(a, b) PICK(a, b, 0, 1, 4, 5)
#define HIGH4_2(a, b) PICK(a, b, 2, 3, 6, 7)
#define LOW4_1(a, b) PICK(a, b, 0, 4, 2, 6)
#define HIGH4_1(a, b) PICK(a, b, 1, 5, 3, 7)
#define TRANSPOSE4(r)                                                                                        \
    EXCHANGE(r, 0, 2, LOW4_2, HIGH4_2)                                                                       \
    EXCHANGE(r, 1, 2, LOW4_2, HIGH4_2) EXCHANGE(r, 0, 1, LOW4_1, HIGH4_1) EXCHANGE(r, 2, 1, LOW4_1, HIGH4_1)

#define LOW8_4(a, b) PICK(a, b, 0, 1, 2, 3, 8, 9, 10, 11)
#define HIGH8_4(a, b) PICK(a, b, 4, 5, 6, 7, 12, 13, 14, 15)
#define LOW8_2(a, b) PICK(a, b, 0, 1, 8, 9, 4, 5, 12, 13)
#define HIGH8_2(a, b) PICK(a, b, 2, 3, 10, 11, 6, 7, 14, 15)
#define LOW8_1(a, b) PICK(a, b, 0, 8, 2, 10, 4, 12, 6, 14)
#define HIGH8_1(a, b) PICK(a, b, 1, 9, 3, 11, 5, 13, 7, 15)
#define TRANSPOSE8(r)                                                                                        \
    EXCHANGE(r, 0, 4, LOW8_4, HIGH8_4)                                                                       \
    EXCHANGE(r, 1, 4, LOW8_4, HIGH8_4)                                                                       \
    EXCHANGE(r, 2, 4, LOW8_4, HIGH8_4)                                                                       \
    EXCHANGE(r, 3, 4, LOW8_4, HIGH8_4)                                                                       \
    EXCHANGE(r, 0, 2, LOW8_2, HIGH8_2)                                                                       \
    EXCHANGE(r, 1, 2, LOW8_2, HIGH8_2)                                                                       \
    EXCHANGE(r, 4, 2, LOW8_2, HIGH8_2)                                                                       \
    EXCHANGE(r, 5, 2, LOW8_2, HIGH8_2)                                                                       \
    EXCHANGE(r, 0, 1, LOW8_1, HIGH8_1)                                                                       \
    EXCHANGE(r, 2, 1, LOW8_1, HIGH8_1) EXCHANGE(r, 4, 1, LOW8_1, HIGH8_1) EXCHANGE(r, 6, 1, LOW8_1, HIGH8_1)

#define T double
#define LANES WEFT_FFT_LANES_F64
#define OF(name) name##_f64
#define TABLE f64
#define TRANSPOSE TRANSPOSE4
#define EVEN(a, b) PICK(a, b, 0, 2, 4, 6)
#define ODD(a, b) PICK(a, b, 1, 3, 5, 7)
#define LOW(a, b) PICK(a, b, 0, 4, 1, 5)
#define HIGH(a, b) PICK(a, b, 2, 6, 3, 7)
#include "codelets/cpu/fft_passes.inc"

#define T float
#define LANES WEFT_FFT_LANES_F32
#define OF(name) name##_f32
#define TABLE f32
#define TRANSPOSE TRANSPOSE8
#define EVEN(a, b) PICK(a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#define ODD(a, b) PICK(a, b, 1, 3, 5, 7, 9, 11, 13, 15)
#define LOW(a, b) PICK(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH(a, b) PICK(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#include "codelets/cpu/fft_passes.inc"
