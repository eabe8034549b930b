/* What the kernels of norms have in common, and those of fast mode (fast_norms.cu). */
#ifndef WEFT_CODELETS_CUDA_NORMS_CUH
#define WEFT_CODELETS_CUDA_NORMS_CUH

#include "codelets/cuda/fast_lines.cuh"

struct weft_norm_work {
    weft_device_call call;
    int mean, variance, sums, gain, bias; /* numbers of views; 0: none */
    int64_t count;                        /* vectors */
    void *scratch;
};

struct weft_norm_statistics {
    double mean, inverse;
};

/* Each returns a weft_cuda_run's result, or WEFT_NOT_FAST and has launched nothing. */
int weft_fast_norm(const weft_norm_work *work, weft_cuda_queue *queue);
int weft_fast_norm_backward(const weft_norm_work *work, weft_cuda_queue *queue);
int weft_fast_norm_gain_backward(const weft_norm_work *work, weft_cuda_queue *queue);

#endif
