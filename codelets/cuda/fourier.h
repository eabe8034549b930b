/* Fourier transforms of lines by cuFFT. Lines are copied to scratch memory, cut or filled up, transformed there, as many as it holds, and
 * copied to the result; complex results of whole lines without gaps are computed from them directly. The library is opened by the first
 * transform; without it, or in a build without its header (fourier_none.c), CPUs compute them. */
#ifndef WEFT_CODELETS_CUDA_FOURIER_H
#define WEFT_CODELETS_CUDA_FOURIER_H

#include "codelets/cuda/kernels.h"

WEFT_BEGIN_DECLS

/* Whether there is a cuFFT. */
bool weft_fourier_is_there(void);
/* Whether it computes a task of the kernel fft: no step of a transform that ranks share, no cosines and sines. */
bool weft_fourier_serves(const weft_task_run *run);
/* Plans made for the queue so far. */
int64_t weft_fourier_count_plans(const weft_cuda_queue *queue);
void weft_fourier_free(weft_cuda_queue *queue);

/* Lines of a view on their way to or from `memory`, where they lie one after the other, or, if `columns`, element after element. */
typedef struct weft_fourier_copy {
    weft_dtype part; /* WEFT_F32 or WEFT_F64 */
    int view, dim;   /* 0: the output, 1: the input */
    int64_t first, lines, elements; /* elements of each line there; beyond the view's they are 0 */
    int64_t bins;    /* those from 1 to before it are multiplied by `twice`, which stand for two; 0: none */
    int64_t real;    /* the imaginary parts of elements 0 and `real` become 0; -1: none */
    bool columns, complex; /* complex: numbers in memory are */
    double scale, twice;
    void *memory;
} weft_fourier_copy;

/* Each on the queue's stream; a weft_cuda_run's result. */
int weft_fourier_load(const weft_fourier_copy *copy, const weft_task_run *run, weft_cuda_queue *queue);
int weft_fourier_store(const weft_fourier_copy *copy, const weft_task_run *run, weft_cuda_queue *queue);

WEFT_END_DECLS

#endif
