/* Shared by the kernels that copy boxes: rows of a box, and non-temporal stores. */
#ifndef WEFT_CODELETS_CPU_BOXES_H
#define WEFT_CODELETS_CPU_BOXES_H

#include <stdbool.h>

#include "codelets/copy.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* Iterates over all but the last dimension of a box: offsets in elements. */
typedef struct row_walk {
    int64_t index[WEFT_MAX_DIMS];
    int64_t source, target, rows;
} row_walk;

static inline row_walk walk_start(const weft_strided_box *box)
{
    row_walk walk = { .rows = 1 };
    for (int d = 0; d < box->ndim - 1; d++) {
        walk.rows *= box->extent[d];
    }
    return walk;
}

static inline void walk_next(row_walk *walk, const weft_strided_box *box)
{
    for (int d = box->ndim - 2; d >= 0; d--) {
        walk->source += box->source_stride[d];
        walk->target += box->target_stride[d];
        if (++walk->index[d] < box->extent[d]) {
            return;
        }
        walk->source -= box->extent[d] * box->source_stride[d];
        walk->target -= box->extent[d] * box->target_stride[d];
        walk->index[d] = 0;
    }
}

/* A fence: streamed data must be visible before later stores of this thread, because other threads may
 * read it. */
static inline void end_stream(void)
{
#if defined(__SSE2__)
    _mm_sfence();
#endif
}

/* Copies bytes with non-temporal stores, without the fence (copy.c). next: what will be copied then; from + n: it follows. */
void weft_cpu_stream_row(char *to, const char *from, const char *next, size_t n);
/* Copies n elements, with strides in elements (copy.c). */
void weft_cpu_copy_row(char *target, const char *source, int64_t n, int64_t target_stride,
                       int64_t source_stride, size_t element_size);
/* Copies a box whose source and target are contiguous in different dimensions (transpose.c). False: not such
 * a box. */
bool weft_cpu_transpose_box(char *target, const char *source, const weft_strided_box *box,
                            size_t element_size, bool streams);

#endif
