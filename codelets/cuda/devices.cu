/* The devices of this machine, and the names of their errors. */
#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include "codelets/cuda/kernels.h"

int weft_cuda_count_devices(void)
{
    int count = 0;
    return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

int64_t weft_cuda_device_bytes(int device)
{
    struct cudaDeviceProp properties;
    return cudaGetDeviceProperties(&properties, device) == cudaSuccess ? (int64_t)properties.totalGlobalMem : 0;
}

void weft_cuda_watch_begin(void)
{
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    cudaThreadExchangeStreamCaptureMode(&mode);
}

int weft_cuda_stream_status(int device, void *stream)
{
    cudaError_t answer = cudaSetDevice(device);
    answer = answer == cudaSuccess ? cudaStreamQuery((cudaStream_t)stream) : answer;
    switch (answer) {
    case cudaErrorNotReady:
    case cudaErrorMemoryAllocation:
    case cudaErrorStreamCaptureUnsupported:
    case cudaErrorStreamCaptureInvalidated:
    case cudaErrorStreamCaptureImplicit: /* these do not stay */
        return 0;
    default:
        return (int)answer;
    }
}

const char *weft_cuda_error_name(int failed)
{
    return failed >= WEFT_CUDA_CUBLAS ? cublasGetStatusName((cublasStatus_t)(failed - WEFT_CUDA_CUBLAS))
                                      : cudaGetErrorName((cudaError_t)failed);
}
