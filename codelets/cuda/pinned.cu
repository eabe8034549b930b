#include <cuda_runtime_api.h>

#include "codelets/cuda/pinned.h"

bool weft_cuda_pin(void *memory, size_t bytes)
{
    bool pinned = cudaHostRegister(memory, bytes, cudaHostRegisterPortable) == cudaSuccess;
    if (!pinned) {
        cudaGetLastError(); /* else the next launch would report it */
    }
    return pinned;
}

void weft_cuda_unpin(void *memory)
{
    if (cudaHostUnregister(memory) != cudaSuccess) {
        cudaGetLastError();
    }
}
