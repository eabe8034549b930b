/* Which elements the windows of pooling have, along one dimension: shared by the kernels of all kinds of devices. */
#ifndef WEFT_CODELETS_POOLING_WINDOWS_H
#define WEFT_CODELETS_POOLING_WINDOWS_H

#include <stdbool.h>
#include <stdint.h>

#include <weft/base.h>

/* The windows along one dimension: `size` elements become `count` windows. */
typedef struct weft_pooling_axis {
    int64_t kernel, stride, padding, dilation, size, count;
} weft_pooling_axis;

/* Indices first, first + step, ... below last. */
typedef struct weft_pooling_range {
    int64_t first, last, step;
} weft_pooling_range;

WEFT_INLINE int64_t weft_pooling_ceil(int64_t a, int64_t b)
{
    return a >= 0 ? (a + b - 1) / b : -(-a / b);
}

/* Window i, with its padding. */
WEFT_INLINE weft_pooling_range weft_pooling_whole_window(const weft_pooling_axis *a, int64_t i)
{
    weft_pooling_range r;
    if (a->kernel == 0) {
        r.first = i * a->size / a->count;
        r.last = weft_pooling_ceil((i + 1) * a->size, a->count);
        r.step = 1;
    } else {
        r.first = i * a->stride - a->padding;
        r.last = r.first + (a->kernel - 1) * a->dilation + 1;
        r.step = a->dilation;
    }
    return r;
}

/* Window i inside the image. */
WEFT_INLINE weft_pooling_range weft_pooling_window(const weft_pooling_axis *a, int64_t i)
{
    weft_pooling_range r = weft_pooling_whole_window(a, i);
    r.first = r.first < 0 ? r.first + weft_pooling_ceil(-r.first, r.step) * r.step : r.first;
    r.last = r.last > a->size ? a->size : r.last;
    return r;
}

WEFT_INLINE bool weft_pooling_has(const weft_pooling_range *r, int64_t i)
{
    return i >= r->first && i < r->last && (i - r->first) % r->step == 0;
}

/* The windows that may have element x. */
WEFT_INLINE weft_pooling_range weft_pooling_windows_with(const weft_pooling_axis *a, int64_t x)
{
    weft_pooling_range r;
    r.step = 1;
    if (a->kernel == 0) {
        r.first = x * a->count / a->size;
        r.last = weft_pooling_ceil((x + 1) * a->count, a->size);
    } else {
        r.first = weft_pooling_ceil(x + a->padding - (a->kernel - 1) * a->dilation, a->stride);
        r.last = (x + a->padding) / a->stride + 1;
    }
    r.first = r.first < 0 ? 0 : r.first;
    r.last = r.last > a->count ? a->count : r.last;
    return r;
}

/* By how much window i contributes to the divisor of an average. */
WEFT_INLINE double weft_pooling_length(const weft_pooling_axis *a, int64_t i, int64_t divisor)
{
    weft_pooling_range r = divisor < 0 ? weft_pooling_window(a, i) : weft_pooling_whole_window(a, i);
    int64_t end = divisor < 0 ? a->size : a->size + a->padding;
    return divisor > 0 ? 1 : (double)((r.last < end ? r.last : end) - r.first);
}

#endif
