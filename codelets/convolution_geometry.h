/* Where the elements of a convolution's task lie, and which of them meet: shared by the kernels of all kinds of devices. */
#ifndef WEFT_CODELETS_CONVOLUTION_GEOMETRY_H
#define WEFT_CODELETS_CONVOLUTION_GEOMETRY_H

#include "codelets/convolution.h"

/* A part of a tensor as four dimensions: with one spatial dimension, h has size 1. */
typedef struct weft_image {
    const weft_view *view;
    int64_t offset[4], extent[4], shape[4];
    int64_t room[4]; /* extents of the memory */
} weft_image;

typedef struct weft_geometry {
    int64_t stride[2], padding[2], dilation[2], groups;
    int64_t kernel[2];          /* i, j */
    int64_t channels, features; /* per group, on this rank: of c and of o */
    int64_t taps;               /* channels * i * j: rows of the columns */
    weft_dtype type;            /* of the arithmetic: that of the output */
    size_t size;                /* of its elements */
} weft_geometry;

static inline weft_image weft_image_of(const weft_view *view)
{
    weft_image m = { .view = view };
    int64_t inner = view->row_elements; /* elements of an index of the dimension before */
    for (int d = 0; d < 4; d++) {
        int own = view->ndim == 4 || d < 2 ? d : d - 1;
        bool added = view->ndim == 3 && d == 2;
        m.offset[d] = added ? 0 : view->offset[own];
        m.extent[d] = added ? 1 : view->extent[own];
        m.shape[d] = added ? 1 : view->shape[own];
        m.room[d] = m.extent[d];
        if (d > 0 && !added) {
            m.room[d] = inner == 0 ? 0 : inner / view->strides[own];
            inner = view->strides[own];
        }
    }
    return m;
}

/* `weight`: the weights, or their gradient. */
static inline weft_geometry weft_geometry_of(const int64_t numbers[], weft_dtype type, const weft_image *weight,
                                             int64_t channels, int64_t features)
{
    weft_geometry g = { .groups = numbers[WEFT_CONVOLUTION_GROUPS],
                        .kernel = { weight->extent[2], weight->extent[3] },
                        .type = type,
                        .size = weft_dtype_size(type) };
    for (int d = 0; d < 2; d++) {
        g.stride[d] = numbers[WEFT_CONVOLUTION_STRIDE + d];
        g.padding[d] = numbers[WEFT_CONVOLUTION_PADDING + d];
        g.dilation[d] = numbers[WEFT_CONVOLUTION_DILATION + d];
    }
    g.channels = channels / g.groups;
    g.features = features / g.groups;
    g.taps = g.channels * g.kernel[0] * g.kernel[1];
    return g;
}

static inline int64_t weft_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t weft_most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Division rounded up, and down; b > 0. */
static inline int64_t weft_ceil_of(int64_t a, int64_t b)
{
    return a >= 0 ? (a + b - 1) / b : -(-a / b);
}

static inline int64_t weft_floor_of(int64_t a, int64_t b)
{
    return a >= 0 ? a / b : -((-a + b - 1) / b);
}

/* The position under tap `t` of spatial dimension `d` for output index 0. */
static inline int64_t weft_tap_place(const weft_geometry *g, int d, int64_t t)
{
    return t * g->dilation[d] - g->padding[d];
}

/* The indices [*first, *last) of [begin, end) for which tap `t` is at positions [low, high). */
static inline void weft_tap_meets(const weft_geometry *g, int d, int64_t t, int64_t low, int64_t high, int64_t begin,
                                  int64_t end, int64_t *first, int64_t *last)
{
    int64_t place = weft_tap_place(g, d, t);
    *first = weft_least(end, weft_most(begin, weft_ceil_of(low - place, g->stride[d])));
    *last = weft_most(*first, weft_least(end, weft_floor_of(high - 1 - place, g->stride[d]) + 1));
}

/* The indices [*first, *last) of the gradient that contribute to this part of x. */
static inline void weft_gradient_meets(const weft_geometry *g, int d, const weft_image *gradient, const weft_image *x,
                                       int64_t *first, int64_t *last)
{
    int64_t low = x->offset[2 + d], high = low + x->extent[2 + d], unused;
    weft_tap_meets(g, d, g->kernel[d] - 1, low, high, 0, gradient->shape[2 + d], first, &unused);
    weft_tap_meets(g, d, 0, low, high, 0, gradient->shape[2 + d], &unused, last);
    *last = weft_most(*first, *last);
}

#endif
