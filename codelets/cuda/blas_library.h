/* cuBLAS' functions, and cuBLASLt's. The library is opened by the first product on a device, so a weft that was built with CUDA does not
 * map cuBLAS (600 MB with cuBLASLt, which it needs) into programs that use no device. */
#ifndef WEFT_CODELETS_CUDA_BLAS_LIBRARY_H
#define WEFT_CODELETS_CUDA_BLAS_LIBRARY_H

#include <cublasLt.h>
#include <cublas_v2.h>
#include <stdbool.h>
#include <weft/base.h>

WEFT_BEGIN_DECLS

#define WEFT_BLAS_FUNCTIONS(each)                                                                              \
    each(Create_v2) each(Destroy_v2) each(SetStream_v2) each(SetWorkspace_v2) each(SetMathMode)                \
    each(GemmStridedBatchedEx_64)

typedef struct weft_blas_library {
    void *handle;
#define WEFT_BLAS_POINTER(name) __typeof__(cublas##name) *name;
    WEFT_BLAS_FUNCTIONS(WEFT_BLAS_POINTER)
#undef WEFT_BLAS_POINTER
} weft_blas_library;

/* The library's name: the version of the headers. */
#define WEFT_BLAS_TEXT(words) #words
#define WEFT_BLAS_FILE(major) "libcublas.so." WEFT_BLAS_TEXT(major)
#define WEFT_BLAS_NAME WEFT_BLAS_FILE(CUBLAS_VER_MAJOR)

/* False: there is none, or one without these functions. */
bool weft_blas_load(weft_blas_library *library);

/* cuBLASLt comes with cuBLAS, and cuBLAS opens it. */
#define WEFT_LT_FUNCTIONS(each)                                                                                \
    each(Create) each(Destroy) each(Matmul) each(MatmulAlgoGetHeuristic) each(MatmulDescCreate)                \
    each(MatmulDescDestroy) each(MatmulDescSetAttribute) each(MatrixLayoutCreate) each(MatrixLayoutDestroy)    \
    each(MatmulPreferenceCreate) each(MatmulPreferenceDestroy) each(MatmulPreferenceSetAttribute)

typedef struct weft_lt_library {
    void *handle;
#define WEFT_LT_POINTER(name) __typeof__(cublasLt##name) *name;
    WEFT_LT_FUNCTIONS(WEFT_LT_POINTER)
#undef WEFT_LT_POINTER
} weft_lt_library;

#define WEFT_LT_FILE(major) "libcublasLt.so." WEFT_BLAS_TEXT(major)
#define WEFT_LT_NAME WEFT_LT_FILE(CUBLAS_VER_MAJOR)

bool weft_lt_load(weft_lt_library *library);

/* The handle of either; NULL: nothing. */
void weft_blas_close(void **handle);

WEFT_END_DECLS

#endif
