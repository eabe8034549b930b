/* Inline functions for the C compiler and for nvcc (host and device). */
#ifndef WEFT_CODELETS_INLINE_H
#define WEFT_CODELETS_INLINE_H

#ifdef __CUDACC__
#define WEFT_INLINE static __host__ __device__ inline
#else
#define WEFT_INLINE static inline
#endif

#endif
