/* Inline functions for the C compiler and for nvcc (host and device): as in <weft/kernel.h>, for files that include none of the
 * public headers. */
#ifndef WEFT_CODELETS_INLINE_H
#define WEFT_CODELETS_INLINE_H

#ifndef WEFT_INLINE
#ifdef __CUDACC__
#define WEFT_INLINE static __host__ __device__ inline
#elif defined(__GNUC__)
/* Always: a loop that calls one is not vectorised, and GCC leaves calls in large files. */
#define WEFT_INLINE static inline __attribute__((always_inline))
#else
#define WEFT_INLINE static inline
#endif
#endif

#endif
