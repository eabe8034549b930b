/* Batches of dense matrices, and tensors of them in random layouts, for the tests of linear algebra. */
#ifndef WEFT_TESTS_MATRICES_H
#define WEFT_TESTS_MATRICES_H

#include "complex_operand.h"

/* Residuals in LAPACK's units. */
enum { ALLOWED = 30 };

/* A batch of row-major matrices. */
typedef struct batch {
    int64_t count, rows, columns;
    number *values;
} batch;

typedef enum shape_kind { ANY, HERMITIAN, POSITIVE, TRIANGULAR } shape_kind;

batch new_batch(int64_t count, int64_t rows, int64_t columns);
number *at(const batch *b, int64_t matrix, int64_t row, int64_t column);
batch adjoint_of(const batch *a);
/* A batch of one matrix meets all of the other. */
batch product_of(const batch *a, const batch *b);
batch unit_of(int64_t count, int64_t n);
/* The largest sum of sizes in a column. */
double norm_of(const batch *a, int64_t i);
/* Asserts ||a - b|| <= ALLOWED * scale * norms[i] * eps for each matrix; frees b. norms: of `of`, and of `and` (NULL: 1). */
void assert_close(const batch *a, batch b, double scale, const batch *of, const batch *and, weft_dtype type, const char *what);
/* The tensor's values, the same on every rank, as a batch of matrices of its last dimensions (item_dims: 2, 1, or 0). */
batch read_back(weft_tensor *tensor, weft_dtype type, int item_dims, const char *what);
weft_dtype any_type(void);
weft_dtype real_type(weft_dtype type);
int64_t any_order(void);
/* Matrices with these first dimensions, and the values that their ranks have. */
complex_operand make_matrices(weft_mesh *mesh, weft_dtype type, int batch_dims, const int64_t first[], int64_t rows,
                              int64_t columns, shape_kind kind, batch *values);
/* The triangle that is read, also in the place of the other: sums of addends are rounded. */
void mirror(batch *a, bool upper);
int any_batch(int64_t first[]);
const char *text_of(const char *function, const complex_operand *a, char *text, size_t size);
void assert_shape(weft_tensor *tensor, int batch_dims, const int64_t first[], int num, const int64_t last[]);
/* The triangle, with 0 or (unit) 1 elsewhere. */
void keep_triangle(batch *a, bool upper, bool unit);
void assert_triangle(const batch *a, bool upper, const char *what);
void check_system(bool left, const batch *a, const batch *b, const batch *x, weft_dtype type, const char *what);
/* Columns are orthonormal. */
void assert_orthonormal(const batch *q, weft_dtype type, const char *what);
/* Matrices that are hard to compute with. */
typedef enum hard_kind {
    HILBERT,
    GRADED,          /* rows and columns of sizes from 1 to 10^-6 */
    GRADED_POSITIVE, /* the same, and Hermitian */
    RANK_TWO,
    ZEROS,
    WILKINSON, /* clusters of eigenvalues */
    HARD_KINDS
} hard_kind;
extern const char *const hard_names[];
bool is_hermitian(hard_kind kind);
/* Complex ones are D A D^H of the real one, for a diagonal D of phases. */
weft_tensor *hard_matrix(hard_kind kind, weft_dtype type, int64_t rows, int64_t columns, weft_mesh *mesh, const char *placements);

/* The columns times numbers. */
batch scaled_columns(const batch *a, const batch *factors);

#endif
