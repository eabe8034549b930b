/* Kernels of fast mode (weft_cuda_queue): each returns a weft_cuda_run's result, or WEFT_NOT_FAST (fast_lines.cuh) where the call
 * is none that it computes, and has then launched nothing. */
#ifndef WEFT_CODELETS_CUDA_FAST_H
#define WEFT_CODELETS_CUDA_FAST_H

#include "codelets/cuda/kernels.h"

WEFT_BEGIN_DECLS

/* Softmax, its logarithm and their gradients, by the kernel's identifier. */
int weft_fast_softmax(weft_kernel_id kernel, const weft_device_call *call, weft_cuda_queue *queue);
/* Reductions along dimensions; not the places of extremes. */
int weft_fast_reduction(weft_kernel_id kernel, const weft_device_call *call, weft_cuda_queue *queue);
/* Attention, or its states, with arithmetic in single precision. */
int weft_fast_attention(const weft_device_call *call, bool as_state, weft_cuda_queue *queue);
/* Gradients of q, and those of k and v that the call wants. */
int weft_fast_attention_rows(const weft_device_call *call, weft_cuda_queue *queue);
int weft_fast_attention_keys(const weft_device_call *call, weft_cuda_queue *queue);
/* Statistics of attention's rows. */
int weft_fast_statistics(const weft_device_call *call, weft_cuda_queue *queue);
/* Rotary position embedding of vectors that have elements. */
int weft_fast_rotary(const weft_device_call *call, weft_cuda_queue *queue);

WEFT_END_DECLS

#endif
