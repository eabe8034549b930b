/* The table of kernels for CUDA devices. */
#include "codelets/cuda/kernels.h"

#define WEFT_TASK_KERNEL(name, color, cuda) [WEFT_KERNEL_##name] = cuda,
#define WEFT_VIEW_KERNEL(name, color, cuda) [WEFT_KERNEL_##name] = cuda,
#define WEFT_FLOATING(name, inputs, expression) [WEFT_KERNEL_##name] = weft_cuda_elementwise,
#define WEFT_NUMBER(name, inputs, expression, integer) [WEFT_KERNEL_##name] = weft_cuda_elementwise,
#define WEFT_TRUTH(name, inputs, expression) [WEFT_KERNEL_##name] = weft_cuda_elementwise,
#define WEFT_WHOLE(name, inputs, expression) [WEFT_KERNEL_##name] = weft_cuda_elementwise,

const weft_cuda_run weft_cuda_kernels[WEFT_KERNEL_COUNT] = {
#include "codelets/elementwise.inc"
#include "codelets/kernels.inc"
};
