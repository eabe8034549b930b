/* In the place of libcuda.so.1, for cuDNN where there is no driver: it compiles kernels, and "loads" them. No device is there, and
 * nothing runs. */
#include <stddef.h>

#define DOES_NOTHING(name) int name(void);

#define FUNCTIONS(each)                                                                                                       \
    each(cuCtxGetCurrent) each(cuCtxGetDevice) each(cuCtxGetLimit) each(cuCtxPopCurrent) each(cuCtxPushCurrent)               \
    each(cuDeviceGet) each(cuDeviceGetAttribute) each(cuDeviceGetCount) each(cuDevicePrimaryCtxRelease)                       \
    each(cuDevicePrimaryCtxReset) each(cuDevicePrimaryCtxRetain) each(cuFuncGetAttribute) each(cuFuncSetAttribute)            \
    each(cuGetErrorName) each(cuGetErrorString) each(cuKernelGetAttribute) each(cuKernelSetAttribute)                         \
    each(cuLaunchCooperativeKernel) each(cuLaunchKernel) each(cuLaunchKernelEx) each(cuLibraryLoadFromFile)                   \
    each(cuLibraryUnload) each(cuLinkAddData) each(cuLinkAddData_v2) each(cuLinkAddFile_v2) each(cuLinkComplete)              \
    each(cuLinkCreate) each(cuLinkCreate_v2) each(cuLinkDestroy) each(cuMemcpyDtoH_v2) each(cuModuleGetGlobal_v2)             \
    each(cuModuleLoadDataEx) each(cuModuleLoadFatBinary) each(cuModuleUnload)                                                 \
    each(cuOccupancyMaxActiveBlocksPerMultiprocessor) each(cuOccupancyMaxPotentialClusterSize) each(cuStreamGetCtx)           \
    each(cuStreamSynchronize) each(cuTensorMapEncodeTiled)
#define LOADS(each) each(cuLibraryGetKernel) each(cuLibraryLoadData) each(cuModuleGetFunction) each(cuModuleLoadData)

FUNCTIONS(DOES_NOTHING)
#define DEFINE(name)                                                                                         \
    int name(void)                                                                                           \
    {                                                                                                        \
        return 0;                                                                                            \
    }
FUNCTIONS(DEFINE)

#define DEFINE_LOAD(name)                                                                                    \
    int name(size_t *handle);                                                                                \
    int name(size_t *handle)                                                                                 \
    {                                                                                                        \
        *handle = 1;                                                                                         \
        return 0;                                                                                            \
    }
LOADS(DEFINE_LOAD)

int cuInit(unsigned flags);
int cuInit(unsigned flags)
{
    (void)flags;
    return 100; /* CUDA_ERROR_NO_DEVICE */
}

int cuDriverGetVersion(int *version);
int cuDriverGetVersion(int *version)
{
    *version = 13000;
    return 0;
}
