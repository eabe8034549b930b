/* The devices of this machine. */
#include <cuda_runtime_api.h>

#include "codelets/cuda/kernels.h"

int weft_cuda_count_devices(void)
{
    int count = 0;
    return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}
