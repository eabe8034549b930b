/* The kernel that sorts, compiled without its barriers. */
#ifndef WEFT_TESTS_FAULTY_KERNELS_H
#define WEFT_TESTS_FAULTY_KERNELS_H

#include "codelets/cuda/kernels.h"

WEFT_BEGIN_DECLS

int faulty_sort(const weft_task_run *run, weft_cuda_queue *queue);
int faulty_order(const weft_task_run *run, weft_cuda_queue *queue);

WEFT_END_DECLS

#endif
