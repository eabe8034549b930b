/* Plans of Fourier transforms: factors and twiddles of a size, made once and shared by threads. */
#ifndef WEFT_CODELETS_CPU_FFT_PLAN_H
#define WEFT_CODELETS_CPU_FFT_PLAN_H

#include <weft/base.h>

enum { WEFT_FFT_MAX_PASSES = 64, WEFT_FFT_MAX_RADIX = 13 };

/* One pass of Stockham's algorithm: transforms of `length` remain, `stride` of them interleaved. */
typedef struct weft_fft_pass {
    int radix;
    int64_t length, stride;
    int64_t twiddles; /* where those of the pass begin: radix - 1 complex numbers for each of length / radix */
} weft_fft_pass;

/* Tables are in double precision and in single precision. */
typedef struct weft_fft_table {
    double *f64; /* pairs */
    float *f32;
} weft_fft_table;

typedef struct weft_fft_plan weft_fft_plan;
struct weft_fft_plan {
    int64_t n;
    int num_passes; /* 0: n is 1, or Bluestein's algorithm is used */
    weft_fft_pass passes[WEFT_FFT_MAX_PASSES];
    weft_fft_table twiddles;
    weft_fft_table units; /* e^(-2 pi i k / n), k < n / 2 + 1: of real transforms */
    /* Bluestein's algorithm: a convolution of size `padded`, 0: none; e^(-pi i j^2 / n), j < n; and the transform of the conjugates,
     * divided by `padded`. */
    int64_t padded;
    const weft_fft_plan *convolution;
    weft_fft_table chirp, spectrum;
};

/* The plan of a size, at least 1; kept for the next call of any thread. NULL: no memory. Give it back with
 * weft_fft_plan_release(). */
const weft_fft_plan *weft_fft_plan_obtain(int64_t n);
void weft_fft_plan_release(const weft_fft_plan *plan);

/* The factors of `radix`'s transform: cos and sin of 2 pi k / radix, k < radix. */
void weft_fft_unit(int64_t k, int64_t n, double *cosine, double *sine);

/* Transforms `lanes` lines of plan->n complex numbers, without a factor: element k of line l is re[k lanes + l] + i im[...]. `buffers`: re,
 * im and two more arrays of weft_fft_room(plan) lanes each; the results are in *re and *im afterwards, which are two of these. To
 * transform with e^(+2 pi i ...), exchange re and im. */
int64_t weft_fft_room(const weft_fft_plan *plan);
void weft_fft_execute_f64(const weft_fft_plan *plan, int64_t lanes, double *buffers[4]);
void weft_fft_execute_f32(const weft_fft_plan *plan, int64_t lanes, float *buffers[4]);

#endif
