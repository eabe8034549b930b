/* Loops over the rows of sparse matrices: the part of one rank. */
#ifndef WEFT_CODELETS_SPARSE_H
#define WEFT_CODELETS_SPARSE_H

#include <weft/base.h>

/* Entries of the rows that a rank holds, and rows of a dense matrix by the numbers of columns. Entries of row i are ends[i - 1] ..
 * ends[i] - 1 (row 0: from 0 on). Numbers below `num_own` are rows of `own`, the others of `others`; both have `width` elements. */
typedef struct weft_sparse_part {
    weft_dtype dtype; /* WEFT_F32, WEFT_F64, WEFT_C64 or WEFT_C128 */
    const int64_t *ends;
    const int32_t *numbers;
    int64_t num_rows, num_own, num_others, width;
    const void *values; /* of entries */
    void *own, *others;
    bool conjugate; /* the values */
} weft_sparse_part;

/* Rows first .. last - 1 of the product with the dense matrix, into `out`, which begins with row `first`. */
void weft_sparse_rows_times(const weft_sparse_part *p, int64_t first, int64_t last, void *out);
/* The product of the transpose with the matrix x, of num_rows rows, into own and others. */
void weft_sparse_transpose_times(const weft_sparse_part *p, const void *x);
/* An entry joins a row of x and a row of the dense matrix. Writes the inner product of both to `out`, for each entry. Rows of the dense
 * matrix are conjugated, or (`of_x`) rows of x. */
void weft_sparse_inner_products(const weft_sparse_part *p, const void *x, bool of_x, void *out);

/* Entries of rows first .. last - 1 into the dense rows `out`, [last - first, columns], by the columns that own and others name
 * (int64_t); and the elements of `from`, of all rows, at the entries. */
void weft_sparse_write_dense(const weft_sparse_part *p, int64_t first, int64_t last, int64_t columns, void *out);
void weft_sparse_read_dense(const weft_sparse_part *p, int64_t columns, const void *from, void *out);

#endif
