/* Functions that both compilers read: the C compiler, and nvcc for both sides. */
#ifndef WEFT_CODELETS_INLINE_H
#define WEFT_CODELETS_INLINE_H

#ifdef __CUDACC__
#define WEFT_INLINE static __host__ __device__ inline
#else
#define WEFT_INLINE static inline
#endif

#endif
