/* Plans of Fourier transforms: factors and twiddles of a size, made once and shared by threads. */
#ifndef WEFT_CODELETS_CPU_FFT_PLAN_H
#define WEFT_CODELETS_CPU_FFT_PLAN_H

#include "codelets/cpu/fft_cache.h"

enum { WEFT_FFT_MAX_PASSES = 64, WEFT_FFT_MAX_RADIX = 13 };
/* Numbers of a vector of 32 bytes; and the columns that long lines are transformed by. */
enum { WEFT_FFT_LANES_F64 = 4, WEFT_FFT_LANES_F32 = 8, WEFT_FFT_COLUMNS = 8 };
/* Numbers between arrays of lanes: equal elements of two are not in the same set of a cache. */
enum { WEFT_FFT_GAP = 16 };

/* In vectors of a long line's neighbouring columns column l is number order[l], so that complex numbers become two vectors, and back,
 * without crossing from half to half. Each is its own inverse. */
static const int weft_fft_order_f64[WEFT_FFT_LANES_F64] = { 0, 2, 1, 3 };
static const int weft_fft_order_f32[WEFT_FFT_LANES_F32] = { 0, 1, 4, 5, 2, 3, 6, 7 };

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
    int64_t count;
} weft_fft_table;

typedef struct weft_fft_plan weft_fft_plan;
struct weft_fft_plan {
    weft_fft_kept kept;
    int64_t n;
    bool part; /* of a long line */
    int num_passes; /* 0: n is 1, or it is long, or Bluestein's algorithm is used */
    weft_fft_pass passes[WEFT_FFT_MAX_PASSES];
    weft_fft_table twiddles;
    weft_fft_table units; /* e^(-2 pi i k / n), k < n / 2 + 1: of real transforms */
    /* A long line is transformed as a matrix of first->n rows. `turns` has e^(-2 pi i k1 j2 / n) at k1 second->n + j2, where
     * columns j2 have the order of vectors: all cosines, then all sines. NULL: the line is short, and passes transform it. */
    const weft_fft_plan *first, *second;
    weft_fft_table turns;
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

/* cos and sin of 2 pi k / n, 0 <= k < n. */
void weft_fft_unit(int64_t k, int64_t n, double *cosine, double *sine);

/* Transforms `lanes` lines, a multiple of the numbers of a vector, of plan->n complex numbers, without a factor: element k of line l is
 * re[k lanes + l] + i im[...]. `buffers`: re, im and two more arrays of weft_fft_room(plan) lanes each; the results are in *re and *im
 * afterwards, which are two of these. To transform with e^(+2 pi i ...), exchange re and im. */
int64_t weft_fft_room(const weft_fft_plan *plan);
void weft_fft_execute_f64(const weft_fft_plan *plan, int64_t lanes, double *buffers[4]);
void weft_fft_execute_f32(const weft_fft_plan *plan, int64_t lanes, float *buffers[4]);

/* From complex numbers to elements of lanes, and back: of as many lines as a vector has numbers; or of neighbouring columns, from row to
 * row `step` parts apart. Results are multiplied by `scale`. */
void weft_fft_gather_f64(const double *const lines[WEFT_FFT_LANES_F64], int64_t count, int64_t lanes, double *re, double *im);
void weft_fft_gather_f32(const float *const lines[WEFT_FFT_LANES_F32], int64_t count, int64_t lanes, float *re, float *im);
void weft_fft_scatter_f64(double *const lines[WEFT_FFT_LANES_F64], int64_t count, int64_t lanes, double scale, const double *re,
                          const double *im);
void weft_fft_scatter_f32(float *const lines[WEFT_FFT_LANES_F32], int64_t count, int64_t lanes, float scale, const float *re,
                          const float *im);
void weft_fft_split_f64(const double *numbers, int64_t step, int64_t count, int64_t columns, int64_t lanes, double *re, double *im);
void weft_fft_split_f32(const float *numbers, int64_t step, int64_t count, int64_t columns, int64_t lanes, float *re, float *im);
void weft_fft_join_f64(double *numbers, int64_t step, int64_t count, int64_t columns, int64_t lanes, double scale, const double *re,
                       const double *im);
void weft_fft_join_f32(float *numbers, int64_t step, int64_t count, int64_t columns, int64_t lanes, float scale, const float *re,
                       const float *im);

/* The spectrum, k <= n / 2, of real lines of whole->n numbers, an even one, from the transform of half the size of lines whose element k is
 * x_2k + i x_(2k + 1); and back, but for a factor of 2: of lanes, and of one line of complex numbers. Imaginary parts of the first and the
 * last element are 0 for _pack(), and not read by _pack_line(). */
void weft_fft_unpack_f64(const weft_fft_plan *whole, int64_t lanes, const double *re, const double *im, double *to_re, double *to_im);
void weft_fft_unpack_f32(const weft_fft_plan *whole, int64_t lanes, const float *re, const float *im, float *to_re, float *to_im);
void weft_fft_pack_f64(const weft_fft_plan *whole, int64_t lanes, const double *re, const double *im, double *to_re, double *to_im);
void weft_fft_pack_f32(const weft_fft_plan *whole, int64_t lanes, const float *re, const float *im, float *to_re, float *to_im);
void weft_fft_unpack_line_f64(const weft_fft_plan *whole, const double *numbers, double scale, double *to);
void weft_fft_unpack_line_f32(const weft_fft_plan *whole, const float *numbers, float scale, float *to);
void weft_fft_pack_line_f64(const weft_fft_plan *whole, const double *numbers, double *to);
void weft_fft_pack_line_f32(const weft_fft_plan *whole, const float *numbers, float *to);

/* One line of complex numbers, of a plan with `first`, to the same bits as weft_fft_execute(). `buffers`: as there; their contents are
 * lost; of WEFT_FFT_COLUMNS lanes, and gaps. */
void weft_fft_line_f64(const weft_fft_plan *plan, const double *line, double *target, bool inverse, double scale,
                       double *buffers[4]);
void weft_fft_line_f32(const weft_fft_plan *plan, const float *line, float *target, bool inverse, float scale, float *buffers[4]);
/* The same of at most WEFT_FFT_COLUMNS neighbouring columns: those from `at` parts on of plan->n rows, which lie anywhere. */
void weft_fft_columns_f64(const weft_fft_plan *plan, double *const rows[], double *const targets[], int64_t at, int64_t columns,
                          bool inverse, double scale, double *buffers[4]);
void weft_fft_columns_f32(const weft_fft_plan *plan, float *const rows[], float *const targets[], int64_t at, int64_t columns, bool inverse,
                          float scale, float *buffers[4]);

#endif
