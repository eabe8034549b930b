/** \file
 * How the library was built. <weft/weft.h> does not include this header. */
#ifndef WEFT_BUILD_H
#define WEFT_BUILD_H

#include <weft/base.h>

WEFT_BEGIN_DECLS

/** Returns what the library that is running was built with, one "name: value" in each line: version, MPI, StarPU, BLAS, oneDNN, HDF5,
 * FFT, GLPK, CUDA, NCCL, cuDNN. Static storage; call it at any time. */
WEFT_API const char *weft_build_info(void);

WEFT_END_DECLS

#endif
