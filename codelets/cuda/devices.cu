/* The devices of this machine, and the names of their errors. */
#include <cuda_runtime_api.h>

#include "codelets/cuda/blas_library.h"
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

int weft_cuda_device_of(const void *memory)
{
    struct cudaPointerAttributes attributes;
    if (cudaPointerGetAttributes(&attributes, memory) != cudaSuccess) {
        cudaGetLastError(); /* else the next launch would have it */
        return -1;
    }
    return attributes.type == cudaMemoryTypeDevice ? attributes.device : -1;
}

int weft_cuda_synchronize(int device)
{
    cudaError_t failed = cudaSetDevice(device);
    return (int)(failed == cudaSuccess ? cudaDeviceSynchronize() : failed);
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

/* As cublasGetStatusName() has it, which is in the library. */
static const char *blas_status_name(int status)
{
    switch (status) {
#define NAME(status) \
    case status:     \
        return #status;
        NAME(CUBLAS_STATUS_NOT_INITIALIZED)
        NAME(CUBLAS_STATUS_ALLOC_FAILED)
        NAME(CUBLAS_STATUS_INVALID_VALUE)
        NAME(CUBLAS_STATUS_ARCH_MISMATCH)
        NAME(CUBLAS_STATUS_MAPPING_ERROR)
        NAME(CUBLAS_STATUS_EXECUTION_FAILED)
        NAME(CUBLAS_STATUS_INTERNAL_ERROR)
        NAME(CUBLAS_STATUS_NOT_SUPPORTED)
        NAME(CUBLAS_STATUS_LICENSE_ERROR)
#undef NAME
    default:
        return "an unknown status of cuBLAS";
    }
}

const char *weft_cuda_error_name(int failed)
{
    if (failed == WEFT_CUDA_NO_CUBLAS) {
        return "ld.so finds no " WEFT_BLAS_NAME " with the functions that weft needs";
    }
    if (failed == WEFT_CUDA_NO_THREAD) {
        return "no thread to wait for the device";
    }
    if (failed >= WEFT_CUDA_CUFFT) {
        static const char *const names[] = { "CUFFT_SUCCESS", "CUFFT_INVALID_PLAN", "CUFFT_ALLOC_FAILED", "CUFFT_INVALID_TYPE",
                                             "CUFFT_INVALID_VALUE", "CUFFT_INTERNAL_ERROR", "CUFFT_EXEC_FAILED", "CUFFT_SETUP_FAILED",
                                             "CUFFT_INVALID_SIZE" };
        return (size_t)(failed - WEFT_CUDA_CUFFT) < sizeof(names) / sizeof(names[0]) ? names[failed - WEFT_CUDA_CUFFT] : "an error of cuFFT";
    }
    return failed >= WEFT_CUDA_CUBLAS ? blas_status_name(failed - WEFT_CUDA_CUBLAS) : cudaGetErrorName((cudaError_t)failed);
}
