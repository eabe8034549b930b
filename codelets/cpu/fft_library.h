/* Fourier transforms by a library with FFTW3's interface, where weft was built with one (-Dfft=fftw). */
#ifndef WEFT_CODELETS_CPU_FFT_LIBRARY_H
#define WEFT_CODELETS_CPU_FFT_LIBRARY_H

#include <weft/base.h>

#include "codelets/fft.h"

/* Lines whose elements have a constant distance, in elements: complex numbers, or real ones for the values of REAL and the results of
 * HALF. As many values as the transform reads, and room for all results. */
typedef struct weft_fft_batch {
    weft_fft_kind kind; /* FORWARD, INVERSE, REAL or HALF */
    bool single;
    int64_t n, count;
    int64_t in_step, out_step;   /* from element to element */
    int64_t in_apart, out_apart; /* from line to line */
} weft_fft_batch;

bool weft_fft_has_library(void);
/* Transforms them, without a factor; *in is left as it is. False, with nothing done: it has no plan. */
bool weft_fft_by_library(const weft_fft_batch *batch, const void *in, void *out);

#endif
