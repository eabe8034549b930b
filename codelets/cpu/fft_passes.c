/* Fourier transforms of many lines, in both precisions. */
#include <string.h>

#include "codelets/cpu/clones.h"
#include "codelets/cpu/fft_plan.h"

#define UNROLL _Pragma("GCC unroll 16")
#define PICK __builtin_shufflevector

/* Squares of numbers within each half of vectors, 16 bytes, which processors mix faster than numbers of two halves. */
#define TURN2(r)                                                                                             \
    {                                                                                                        \
        const V a = r[0], b = r[1];                                                                          \
        r[0] = PICK(a, b, 0, 4, 2, 6);                                                                       \
        r[1] = PICK(a, b, 1, 5, 3, 7);                                                                       \
    }
#define TURN4(r)                                                                                             \
    {                                                                                                        \
        const V a = PICK(r[0], r[1], 0, 8, 1, 9, 4, 12, 5, 13), b = PICK(r[2], r[3], 0, 8, 1, 9, 4, 12, 5, 13); \
        const V c = PICK(r[0], r[1], 2, 10, 3, 11, 6, 14, 7, 15), d = PICK(r[2], r[3], 2, 10, 3, 11, 6, 14, 7, 15); \
        r[0] = PICK(a, b, 0, 1, 8, 9, 4, 5, 12, 13);                                                         \
        r[1] = PICK(a, b, 2, 3, 10, 11, 6, 7, 14, 15);                                                       \
        r[2] = PICK(c, d, 0, 1, 8, 9, 4, 5, 12, 13);                                                         \
        r[3] = PICK(c, d, 2, 3, 10, 11, 6, 7, 14, 15);                                                       \
    }

#define T double
#define LANES WEFT_FFT_LANES_F64
#define OF(name) name##_f64
#define TABLE f64
#define TURN TURN2
#define ORDER weft_fft_order_f64
#define EVENS(a, b) PICK(a, b, 0, 4, 2, 6)
#define ODDS(a, b) PICK(a, b, 1, 5, 3, 7)
#define LOWS(a, b) PICK(a, b, 0, 4, 2, 6)
#define HIGHS(a, b) PICK(a, b, 1, 5, 3, 7)
#define JOINED(a, b) PICK(a, b, 0, 1, 2, 3)
#define UPPER(a) PICK(a, a, 2, 3)
#define LOWER(a) PICK(a, a, 0, 1)
#define EVEN(a, b) PICK(a, b, 0, 2, 4, 6)
#define ODD(a, b) PICK(a, b, 1, 3, 5, 7)
#define LOW(a, b) PICK(a, b, 0, 4, 1, 5)
#define HIGH(a, b) PICK(a, b, 2, 6, 3, 7)
#include "codelets/cpu/fft_passes.inc"
#include "codelets/cpu/fft_numbers.inc"

#define T float
#define LANES WEFT_FFT_LANES_F32
#define OF(name) name##_f32
#define TABLE f32
#define TURN TURN4
#define ORDER weft_fft_order_f32
#define EVENS(a, b) PICK(a, b, 0, 2, 8, 10, 4, 6, 12, 14)
#define ODDS(a, b) PICK(a, b, 1, 3, 9, 11, 5, 7, 13, 15)
#define LOWS(a, b) PICK(a, b, 0, 8, 1, 9, 4, 12, 5, 13)
#define HIGHS(a, b) PICK(a, b, 2, 10, 3, 11, 6, 14, 7, 15)
#define JOINED(a, b) PICK(a, b, 0, 1, 2, 3, 4, 5, 6, 7)
#define UPPER(a) PICK(a, a, 4, 5, 6, 7)
#define LOWER(a) PICK(a, a, 0, 1, 2, 3)
#define EVEN(a, b) PICK(a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#define ODD(a, b) PICK(a, b, 1, 3, 5, 7, 9, 11, 13, 15)
#define LOW(a, b) PICK(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH(a, b) PICK(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#include "codelets/cpu/fft_passes.inc"
#include "codelets/cpu/fft_numbers.inc"
