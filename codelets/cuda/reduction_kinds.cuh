/* The reductions over dimensions (reductions.inc), and how a result begins and ends. */
#ifndef WEFT_CODELETS_CUDA_REDUCTION_KINDS_CUH
#define WEFT_CODELETS_CUDA_REDUCTION_KINDS_CUH

#include <limits.h>
#include <math.h>

#include "codelets/cuda/views.h"

namespace
{

namespace kinds
{
#define REDUCTION(name, identity_, whole_identity_, prepared, operation, whole_operation)                    \
    struct name {                                                                                            \
        static const weft_kernel_id kernel = WEFT_KERNEL_##name;                                             \
        static const int64_t whole_identity = whole_identity_;                                               \
        static __device__ double identity(double)                                                            \
        {                                                                                                    \
            return identity_;                                                                                \
        }                                                                                                    \
        static __device__ int64_t identity(int64_t)                                                          \
        {                                                                                                    \
            return whole_identity_;                                                                          \
        }                                                                                                    \
        static __device__ double prepare(const double b)                                                     \
        {                                                                                                    \
            return prepared;                                                                                 \
        }                                                                                                    \
        static __device__ int64_t prepare(const int64_t b)                                                   \
        {                                                                                                    \
            return b;                                                                                        \
        }                                                                                                    \
        static __device__ double combine(const double a, const double b)                                     \
        {                                                                                                    \
            return operation;                                                                                \
        }                                                                                                    \
        static __device__ int64_t combine(const int64_t a, const int64_t b)                                  \
        {                                                                                                    \
            return whole_operation;                                                                          \
        }                                                                                                    \
    };
#include "codelets/reductions.inc"
}

/* The identity in the range of the type: the result without elements. */
static __device__ inline int64_t identity_within(int64_t identity, weft_dtype type)
{
    int64_t least = type == WEFT_I64 ? INT64_MIN : type == WEFT_I32 ? INT32_MIN : 0;
    int64_t most = type == WEFT_I64 ? INT64_MAX : type == WEFT_I32 ? INT32_MAX : type == WEFT_U8 ? UINT8_MAX : 1;
    return identity < least ? least : identity > most ? most : identity;
}

/* The value that a reduction starts with. */
template <typename Kind> __device__ double start_of(const weft_device_call &, double identity)
{
    return identity;
}

template <typename Kind> __device__ int64_t start_of(const weft_device_call &call, int64_t)
{
    return identity_within(Kind::whole_identity, call.views[0].dtype);
}

static __device__ inline double finished(const weft_device_call &call, double total)
{
    return call.last && call.scalars[0] != 0 ? total * call.scalars[0] : total;
}

static __device__ inline int64_t finished(const weft_device_call &, int64_t total)
{
    return total;
}

}

#endif
