/* Kernels for CUDA devices, launched on a stream. */
#ifndef WEFT_CODELETS_CUDA_KERNELS_H
#define WEFT_CODELETS_CUDA_KERNELS_H

#include "codelets/args.h"

WEFT_BEGIN_DECLS

/* Launches the kernel of a task whose operands are addresses in the device's memory; does not wait. `stream`
 * is a cudaStream_t. Returns a cudaError_t, 0 if it was launched. The task's arguments are read before it
 * returns; run->error is not written. */
typedef int (*weft_cuda_run)(const weft_task_run *run, void *stream);

/* NULL: the kernel runs on CPUs only. All are NULL in a build without CUDA (none.c). */
extern const weft_cuda_run weft_cuda_kernels[WEFT_KERNEL_COUNT];

/* Devices of this machine, 0 without a driver; -1: a build without CUDA. */
int weft_cuda_count_devices(void);

int weft_cuda_copy(const weft_task_run *run, void *stream);
int weft_cuda_reduce(const weft_task_run *run, void *stream);
int weft_cuda_constant(const weft_task_run *run, void *stream);
int weft_cuda_elementwise(const weft_task_run *run, void *stream);

WEFT_END_DECLS

#endif
