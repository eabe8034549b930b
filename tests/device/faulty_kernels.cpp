#include "faulty_kernels.h"

#include "codelets/cuda/launch.h"

#define __syncthreads()
#define weft_cuda_sort faulty_sort
#define weft_cuda_order faulty_order
#include "codelets/cuda/sorting.cu"
