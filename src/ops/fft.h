/* Fourier transforms of one dimension, as the functions of several make them. */
#ifndef WEFT_SRC_OPS_FFT_H
#define WEFT_SRC_OPS_FFT_H

#include <weft/fft.h>

#include "codelets/fft.h"
#include "ops/ops.h"

typedef struct weft_transform {
    const char *function;
    weft_fft_kind kind;
    int dim;   /* checked */
    int64_t n; /* at least 1 */
    double scale;
    bool weighted;
    /* A step of a transform of a longer line (codelets/fft.h); line 0: none. */
    int64_t line, size; /* size: results of each line */
    int step;
    unsigned inherited; /* weft_call.inherited */
} weft_transform;

/* The factor of a transform of size n. */
double weft_fft_scale(weft_fft_kind kind, int64_t n, weft_fft_norm norm);
/* Transforms a live tensor. NULL with the error kept. */
weft_tensor *weft_transform_dim(const weft_transform *t, weft_tensor *a);
/* The size of a transform along a dimension of this size, n as the functions take it; -1 with the error kept. */
int64_t weft_fft_size(const char *function, const char *argument, weft_fft_kind kind, int64_t size, int dim, int64_t n);
/* The gradient of a tensor of this size: elements that were cut get 0, and zeros that were filled in are dropped. NULL of NULL. */
weft_tensor *weft_fft_fit(weft_tensor *gradient, int dim, int64_t size);
/* Whether ranks share lines that they cannot share out; whether the four-step algorithm is possible then, and predicted to be faster
 * than a transform of whole lines; and that transform (fft_shared.c). NULL with the error kept. */
bool weft_fft_may_be_shared(const weft_call_layouts *call);
bool weft_fft_is_shared(const weft_transform *t, const weft_layout *a);
weft_tensor *weft_fft_share(const weft_transform *t, weft_tensor *a);
/* `expands` and `expand` of a transform: integers and 16 bits become WEFT_F32 first. */
bool weft_fft_is_narrow(const weft_call_layouts *call);
bool weft_fft_expand_narrow(const weft_call *call, weft_tensor *outputs[]);
/* False with the error kept. */
bool weft_check_fft_norm(const char *function, weft_fft_norm norm);

#endif
