/* The many products of a kernel on views (weft_kernel_bmm()): which matrices of its inputs each takes. */
#ifndef WEFT_CODELETS_PRODUCTS_H
#define WEFT_CODELETS_PRODUCTS_H

#include "codelets/linear.h"

/* One input: a matrix, or one for each index of the other dimensions. */
typedef struct weft_product_side {
    const weft_view *view;
    int batch_dims;
    int64_t rows, columns; /* as stored */
} weft_product_side;

/* A vector is a row as input 0, a column as input 1. */
static inline weft_product_side weft_product_side_of(const weft_view *view, bool is_row)
{
    weft_product_side s = { .view = view, .batch_dims = view->ndim - 2 };
    if (view->ndim == 1) {
        s.batch_dims = 0;
        s.rows = is_row ? 1 : view->extent[0];
        s.columns = is_row ? view->extent[0] : 1;
    } else {
        s.rows = view->extent[view->ndim - 2];
        s.columns = view->extent[view->ndim - 1];
    }
    return s;
}

/* The matrix for an index (global) of the output's batch: a row of the view, and the matrix's number there. Of a side
 * without further dimensions both are 0. */
static inline void weft_product_place(const weft_product_side *s, const weft_view *output, int output_batch_dims,
                                      const int64_t index[], int64_t *row, int64_t *number)
{
    *row = *number = 0;
    for (int d = 0; d < s->batch_dims; d++) {
        int own = output_batch_dims - s->batch_dims + d;
        bool repeated = s->view->shape[d] != output->shape[own];
        int64_t local = repeated ? 0 : index[own] - s->view->offset[d];
        *row = d == 0 ? local : *row;
        *number = d == 0 ? 0 : *number * s->view->extent[d] + local;
    }
}

/* The sizes and strides of all products of a call. */
static inline weft_gemm weft_product_gemm(const weft_product_side *a, const weft_product_side *b, int64_t transposes,
                                          weft_dtype dtype)
{
    bool ta = transposes & 1, tb = (transposes & 2) != 0;
    weft_gemm g = { .dtype = dtype,
                    .transpose_a = ta,
                    .transpose_b = tb,
                    .m = ta ? a->columns : a->rows,
                    .n = tb ? b->rows : b->columns,
                    .k = ta ? a->rows : a->columns,
                    .alpha = 1 };
    g.lda = a->columns > 0 ? a->columns : 1;
    g.ldb = b->columns > 0 ? b->columns : 1;
    g.ldc = g.n > 0 ? g.n : 1;
    return g;
}

/* The index (global) of product `number` of a row (local) of the output. */
static inline void weft_product_index(const weft_view *output, int batch_dims, int64_t row, int64_t number, int64_t index[])
{
    index[0] = output->offset[0] + row;
    for (int d = batch_dims - 1; d >= 1; d--) {
        index[d] = output->offset[d] + number % output->extent[d];
        number /= output->extent[d];
    }
}

#endif
