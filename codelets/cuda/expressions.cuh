/* The expressions of elementwise.inc as structures NAME_TYPE, for each type of arithmetic: `of` computes one. */
#ifndef WEFT_CODELETS_CUDA_EXPRESSIONS_CUH
#define WEFT_CODELETS_CUDA_EXPRESSIONS_CUH

#include <float.h>
#include <math.h>
#include <stdint.h>

#include "codelets/cuda/convert.h"

template <typename T> struct weft_dtype_of;
template <> struct weft_dtype_of<double> {
    static const weft_dtype value = WEFT_F64;
};
template <> struct weft_dtype_of<float> {
    static const weft_dtype value = WEFT_F32;
};
template <> struct weft_dtype_of<int64_t> {
    static const weft_dtype value = WEFT_I64;
};
template <> struct weft_dtype_of<uint8_t> {
    static const weft_dtype value = WEFT_BOOL;
};

namespace expressions
{
#define LOOP(name, T_, R, count, expression)                                                                 \
    struct name##_##T_ {                                                                                     \
        typedef T_ type;                                                                                     \
        typedef R result;                                                                                    \
        static const int inputs = count;                                                                     \
        static const weft_dtype result_type = weft_dtype_of<R>::value;                                       \
        static __device__ R of(const T_ a, const T_ b, const T_ c, const double *scalars)                    \
        {                                                                                                    \
            SCALARS(T_)                                                                                      \
            (void)a, (void)b, (void)c;                                                                       \
            return (R)(expression);                                                                          \
        }                                                                                                    \
    };
#include "codelets/elementwise_loops.inc"
}

#endif
