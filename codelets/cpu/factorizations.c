/* Linear algebra of the matrices of views, one after the other. */
#include "codelets/factorizations.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codelets/cpu/lapack.h"
#include "codelets/problems.h"

/* ---- matrices in a view -------------------------------------------------------------------------------- */

/* The items of a view, one for each index of its first dimensions: matrices, vectors or numbers in its last ones. An item of a view
 * without first dimensions may lie in several panels: it is copied. */
typedef struct stack {
    const weft_view *view;
    int batch_dims;
    int64_t elements; /* of an item */
    int64_t per_row;  /* items in a row of the view */
    char *memory;     /* NULL: nothing was copied */
} stack;

static size_t element_size(const stack *s)
{
    return weft_dtype_size(s->view->dtype);
}

/* Copies the rows of the view to the memory, or from it. */
static void copy_rows(const stack *s, bool into_view)
{
    size_t row_bytes = (size_t)s->view->row_elements * element_size(s);
    for (int64_t row = 0, rows; row < weft_view_rows(s->view); row += rows) {
        char *in_view = weft_view_row(s->view, row, &rows), *in_memory = s->memory + (size_t)row * row_bytes;
        memcpy(into_view ? in_view : in_memory, into_view ? in_memory : in_view, (size_t)rows * row_bytes);
    }
}

/* False: no memory. */
static bool open_stack(stack *s, const weft_view *view, int item_dims, bool reads)
{
    *s = (stack){ .view = view, .batch_dims = view->ndim - item_dims, .elements = 1, .per_row = 1 };
    for (int d = 1; d < s->batch_dims; d++) {
        s->per_row *= view->extent[d];
    }
    for (int d = s->batch_dims; d < view->ndim; d++) {
        s->elements *= view->extent[d];
    }
    int64_t rows = weft_view_rows(view), together = rows;
    if (s->batch_dims == 0 && rows > 0) {
        weft_view_row(view, 0, &together);
    }
    if (together >= rows) {
        return true;
    }
    s->memory = malloc((size_t)s->elements * element_size(s));
    if (s->memory != NULL && reads) {
        copy_rows(s, false);
    }
    return s->memory != NULL;
}

/* NULL: the view is empty. */
static void *item_of(const stack *s, int64_t i)
{
    if (s->memory != NULL || weft_view_rows(s->view) == 0) {
        return s->memory;
    }
    if (s->batch_dims == 0) {
        return weft_view_row(s->view, 0, NULL);
    }
    char *row = weft_view_row(s->view, i / s->per_row, NULL);
    return row + (size_t)(i % s->per_row * s->elements) * element_size(s);
}

static void close_stack(stack *s, bool writes)
{
    if (s->memory != NULL && writes) {
        copy_rows(s, true);
    }
    free(s->memory);
}

/* ---- calls --------------------------------------------------------------------------------------------- */

enum { MAX_INPUTS = 3, MAX_OUTPUTS = 3 };

typedef struct job {
    const weft_kernel_call *call;
    const weft_lapack *lapack;
    stack inputs[MAX_INPUTS], outputs[MAX_OUTPUTS];
    int rows, columns; /* of the matrices of input 0 */
    int64_t count;
} job;

/* One item: 0, or why there is no result, as lapack.h says. */
typedef int (*item_function)(const job *j, int64_t i);

/* The meaning of a positive result. */
typedef enum failure { NOT_POSITIVE, SINGULAR, SINGULAR_FACTOR, NO_CONVERGENCE } failure;

/* The name of the matrix in messages: "a", or, by its place in the batch, "matrix [1, 2] of a". */
static const char *name_of(const job *j, int64_t i, const char *matrix, char *text, size_t size)
{
    const stack *s = &j->inputs[0];
    int64_t index[WEFT_MAX_DIMS];
    if (s->batch_dims == 0) {
        return matrix;
    }
    for (int d = s->batch_dims - 1; d >= 0; d--) {
        index[d] = s->view->offset[d] + i % s->view->extent[d];
        i /= s->view->extent[d];
    }
    size_t used = (size_t)snprintf(text, size, "matrix [");
    for (int d = 0; d < s->batch_dims && used < size; d++) {
        used += (size_t)snprintf(text + used, size - used, d == 0 ? "%lld" : ", %lld", (long long)index[d]);
    }
    if (used < size) {
        snprintf(text + used, size - used, "] of %s", matrix);
    }
    return text;
}

static void report(const job *j, int64_t i, int info, failure positive)
{
    char text[96];
    const char *name = name_of(j, i, positive == SINGULAR_FACTOR ? "factor" : "a", text, sizeof(text));
    weft_kernel_error *error = j->call->error;
    if (info == WEFT_LAPACK_NO_MEMORY) {
        weft_problem_memory(error, WEFT_PROBLEM_RESULTS, 0);
    } else if (info == WEFT_LAPACK_NOT_FINITE) {
        weft_kernel_error_set(error, WEFT_ERR_INVALID, "%s has elements that are not finite", name);
    } else if (info == WEFT_LAPACK_NO_EXCHANGES) {
        weft_kernel_error_set(error, WEFT_ERR_INVALID, "%s: a pivot is no row from its own one on",
                              name_of(j, i, "pivots", text, sizeof(text)));
    } else if (positive == NOT_POSITIVE) {
        weft_kernel_error_set(error, WEFT_ERR_INVALID, "%s is not positive-definite: its leading minor of order %d is not positive",
                              name, info);
    } else if (positive == SINGULAR || positive == SINGULAR_FACTOR) {
        weft_kernel_error_set(error, WEFT_ERR_INVALID, "%s is singular: pivot %d is 0", name, info - 1);
    } else {
        weft_kernel_error_set(error, WEFT_ERR_INVALID, "the iteration for %s does not converge", name);
    }
}

/* The view's only item, where it lies: it may lie in several panels, if there was no memory to copy it. */
static void set_panels_to_zero(const stack *s)
{
    const int64_t all = weft_view_rows(s->view);
    for (int64_t row = 0, rows; row < all; row += rows) {
        char *in_view = weft_view_row(s->view, row, &rows);
        memset(in_view, 0, (size_t)(rows * (s->elements / all)) * element_size(s));
    }
}

static void set_to_zero(const job *j, int64_t i)
{
    for (int o = 0; o < j->call->num_outputs; o++) {
        const stack *s = &j->outputs[o];
        void *item = item_of(s, i);
        if (s->memory == NULL && s->batch_dims == 0) {
            set_panels_to_zero(s);
        } else if (item != NULL) {
            memset(item, 0, (size_t)s->elements * element_size(s));
        }
    }
}

/* All items; item_dims: of the inputs, then of the outputs. */
static void run(const weft_kernel_call *call, const int input_dims[], const int output_dims[], item_function function,
                failure positive)
{
    job j = { .call = call, .lapack = weft_lapack_of(call->inputs[0].dtype), .count = 1 };
    bool done = true;
    for (int i = 0; i < call->num_inputs; i++) {
        done = open_stack(&j.inputs[i], &call->inputs[i], input_dims[i], true) && done;
    }
    for (int o = 0; o < call->num_outputs; o++) {
        done = open_stack(&j.outputs[o], &call->outputs[o], output_dims[o], false) && done;
    }
    const weft_view *a = &call->inputs[0];
    j.rows = a->ndim > 1 ? (int)a->extent[a->ndim - 2] : 1;
    j.columns = (int)a->extent[a->ndim - 1];
    for (int d = 0; d < j.outputs[0].batch_dims; d++) {
        j.count *= call->output.extent[d];
    }
    for (int64_t i = 0; i < j.count && weft_view_count(&call->output) > 0; i++) {
        int info = done ? function(&j, i) : WEFT_LAPACK_NO_MEMORY;
        if (info != 0) {
            report(&j, i, info, positive);
            set_to_zero(&j, i);
        }
    }
    for (int i = 0; i < call->num_inputs; i++) {
        close_stack(&j.inputs[i], false);
    }
    for (int o = 0; o < call->num_outputs; o++) {
        close_stack(&j.outputs[o], done);
    }
}

/* ---- the kernels --------------------------------------------------------------------------------------- */

static void *input(const job *j, int number, int64_t i)
{
    return item_of(&j->inputs[number], i);
}

/* NULL: not wanted. */
static void *output(const job *j, int number, int64_t i)
{
    return number < j->call->num_outputs ? item_of(&j->outputs[number], i) : NULL;
}

/* Output 0, with the values of an input. */
static void *copied(const job *j, int number, int64_t i)
{
    const stack *s = &j->inputs[number];
    return memcpy(output(j, 0, i), input(j, number, i), (size_t)s->elements * element_size(s));
}

static int cholesky(const job *j, int64_t i)
{
    return j->lapack->cholesky(j->call->numbers[0] != 0, j->rows, copied(j, 0, i));
}

void weft_kernel_cholesky(const weft_kernel_call *call)
{
    run(call, (const int[]){ 2 }, (const int[]){ 2 }, cholesky, NOT_POSITIVE);
}

static int triangular_solve(const job *j, int64_t i)
{
    const weft_view *x = &j->call->output;
    const int64_t *numbers = j->call->numbers;
    const weft_triangular t = { .upper = numbers[WEFT_TRIANGULAR_UPPER] != 0,
                                .left = numbers[WEFT_TRIANGULAR_LEFT] != 0,
                                .unit = numbers[WEFT_TRIANGULAR_UNIT] != 0,
                                .adjoint = numbers[WEFT_TRIANGULAR_ADJOINT] != 0 };
    int info = j->lapack->triangular_solve(&t, (int)x->extent[x->ndim - 2], (int)x->extent[x->ndim - 1], input(j, 0, i), copied(j, 1, i));
    return info > 0 ? info + (int)numbers[WEFT_TRIANGULAR_FIRST] : info;
}

void weft_kernel_triangular_solve(const weft_kernel_call *call)
{
    failure zero = call->numbers[WEFT_TRIANGULAR_FACTOR] != 0 ? SINGULAR_FACTOR : SINGULAR;
    run(call, (const int[]){ 2, 2 }, (const int[]){ 2 }, triangular_solve, zero);
}

static int lu_factor(const job *j, int64_t i)
{
    int info = j->lapack->lu_factor(j->rows, j->columns, copied(j, 0, i), output(j, 1, i));
    return info > 0 && j->call->numbers[0] == 0 ? 0 : info;
}

void weft_kernel_lu_factor(const weft_kernel_call *call)
{
    run(call, (const int[]){ 2 }, (const int[]){ 2, 1 }, lu_factor, SINGULAR);
}

/* Pivots may be the program's. */
static bool are_exchanges(const int64_t pivots[], int64_t count, int64_t rows)
{
    for (int64_t i = 0; i < count; i++) {
        if (pivots[i] < i || pivots[i] >= rows) {
            return false;
        }
    }
    return true;
}

static int lu_solve(const job *j, int64_t i)
{
    const weft_view *x = &j->call->output;
    if (!are_exchanges(input(j, 2, i), j->rows, j->rows)) {
        return WEFT_LAPACK_NO_EXCHANGES;
    }
    return j->lapack->lu_solve(j->call->numbers[0] != 0, j->rows, (int)x->extent[x->ndim - 1], input(j, 0, i), input(j, 2, i),
                               copied(j, 1, i));
}

void weft_kernel_lu_solve(const weft_kernel_call *call)
{
    run(call, (const int[]){ 2, 2, 1 }, (const int[]){ 2 }, lu_solve, SINGULAR);
}

static int row_order(const job *j, int64_t i)
{
    const int64_t count = j->columns, rows = j->outputs[0].elements, *pivots = input(j, 0, i);
    int64_t *order = output(j, 0, i);
    bool of_product = j->call->numbers[0] != 0;
    if (!are_exchanges(pivots, count, rows)) {
        return WEFT_LAPACK_NO_EXCHANGES;
    }
    for (int64_t r = 0; r < rows; r++) {
        order[r] = r;
    }
    for (int64_t k = 0; k < count; k++) {
        int64_t own = of_product ? count - 1 - k : k, held = order[own];
        order[own] = order[pivots[own]];
        order[pivots[own]] = held;
    }
    return 0;
}

void weft_kernel_row_order(const weft_kernel_call *call)
{
    run(call, (const int[]){ 1 }, (const int[]){ 1 }, row_order, SINGULAR);
}

static int determinant(const job *j, int64_t i)
{
    bool logarithm = j->call->numbers[0] != 0;
    double unwanted;
    void *second = output(j, 1, i);
    j->lapack->determinant(j->columns, input(j, 0, i), input(j, 1, i), output(j, 0, i),
                           !logarithm ? NULL : second != NULL ? second : &unwanted);
    return 0;
}

void weft_kernel_determinant(const weft_kernel_call *call)
{
    run(call, (const int[]){ 1, 1 }, (const int[]){ 0, 0 }, determinant, SINGULAR);
}

static int inverse(const job *j, int64_t i)
{
    return j->lapack->inverse(j->rows, copied(j, 0, i));
}

void weft_kernel_inverse(const weft_kernel_call *call)
{
    run(call, (const int[]){ 2 }, (const int[]){ 2 }, inverse, SINGULAR);
}

static int cofactors(const job *j, int64_t i)
{
    return j->lapack->cofactors(j->rows, input(j, 0, i), output(j, 0, i));
}

void weft_kernel_cofactors(const weft_kernel_call *call)
{
    run(call, (const int[]){ 2 }, (const int[]){ 2 }, cofactors, NO_CONVERGENCE);
}

static int qr(const job *j, int64_t i)
{
    const weft_view *q = &j->call->output;
    return j->lapack->qr(j->rows, j->columns, (int)q->extent[q->ndim - 1], input(j, 0, i), output(j, 0, i), output(j, 1, i));
}

void weft_kernel_qr(const weft_kernel_call *call)
{
    run(call, (const int[]){ 2 }, (const int[]){ 2, 2 }, qr, NO_CONVERGENCE);
}

static int eigh(const job *j, int64_t i)
{
    return j->lapack->eigh(j->call->numbers[0] != 0, j->rows, input(j, 0, i), output(j, 0, i), output(j, 1, i));
}

void weft_kernel_eigh(const weft_kernel_call *call)
{
    run(call, (const int[]){ 2 }, (const int[]){ 1, 2 }, eigh, NO_CONVERGENCE);
}

static int eig(const job *j, int64_t i)
{
    return j->lapack->eig(j->rows, input(j, 0, i), output(j, 0, i), output(j, 1, i));
}

void weft_kernel_eig(const weft_kernel_call *call)
{
    run(call, (const int[]){ 2 }, (const int[]){ 1, 2 }, eig, NO_CONVERGENCE);
}

static int svd(const job *j, int64_t i)
{
    return j->lapack->svd(j->rows, j->columns, input(j, 0, i), output(j, 0, i), output(j, 1, i), output(j, 2, i));
}

void weft_kernel_svd(const weft_kernel_call *call)
{
    run(call, (const int[]){ 2 }, (const int[]){ 1, 2, 2 }, svd, NO_CONVERGENCE);
}

static int matrix_exp(const job *j, int64_t i)
{
    return j->lapack->matrix_exp(j->rows, input(j, 0, i), output(j, 0, i));
}

void weft_kernel_matrix_exp(const weft_kernel_call *call)
{
    run(call, (const int[]){ 2 }, (const int[]){ 2 }, matrix_exp, NO_CONVERGENCE);
}

/* ---- blocks of rows ------------------------------------------------------------------------------------ */

static int cholesky_panel(const job *j, int64_t i)
{
    const int64_t *numbers = j->call->numbers;
    return j->lapack->cholesky_panel(j->rows, j->columns, (int)numbers[0], (int)numbers[1], copied(j, 0, i));
}

void weft_kernel_cholesky_panel(const weft_kernel_call *call)
{
    run(call, (const int[]){ 2 }, (const int[]){ 2 }, cholesky_panel, NOT_POSITIVE);
}

static int lu_panel(const job *j, int64_t i)
{
    const int64_t *numbers = j->call->numbers;
    int info = j->lapack->lu_panel(j->rows, j->columns, (int)numbers[0], (int)numbers[1], copied(j, 0, i), output(j, 1, i));
    return info > 0 && numbers[2] == 0 ? 0 : info;
}

void weft_kernel_lu_panel(const weft_kernel_call *call)
{
    run(call, (const int[]){ 2 }, (const int[]){ 2, 1 }, lu_panel, SINGULAR);
}

static int qr_panel(const job *j, int64_t i)
{
    const int64_t *numbers = j->call->numbers;
    return j->lapack->qr_panel(j->rows, j->columns, (int)numbers[0], (int)numbers[1], copied(j, 0, i), output(j, 1, i));
}

void weft_kernel_qr_panel(const weft_kernel_call *call)
{
    run(call, (const int[]){ 2 }, (const int[]){ 2, 2 }, qr_panel, NO_CONVERGENCE);
}

/* An update, which changes the rows [row, row + rows) of the matrix, `size` bytes each. */
typedef struct update {
    const weft_kernel_call *call;
    const weft_lapack *lapack;
    stack inputs[2]; /* a panel and its pivots or triangle, or all pivots */
    int n;
    size_t size;
} update;
typedef void (*update_function)(const update *u, int64_t row, int64_t rows, char *block);

/* All rows of a tensor [blocks, q, n], in place. */
static void run_update(const weft_kernel_call *call, const int item_dims[], update_function function)
{
    const weft_view *a = &call->output;
    const int n = (int)a->extent[2];
    update u = { .call = call, .lapack = weft_lapack_of(a->dtype), .n = n, .size = (size_t)n * weft_dtype_size(a->dtype) };
    bool done = true;
    for (int i = 0; i < call->num_inputs; i++) {
        done = open_stack(&u.inputs[i], &call->inputs[i], item_dims[i], true) && done;
    }
    if (!done) {
        weft_problem_memory(call->error, WEFT_PROBLEM_RESULTS, 0);
    }
    for (int64_t b = 0; b < weft_view_rows(a) && done; b++) {
        int64_t row = (a->offset[0] + b) * a->shape[1] + a->offset[1];
        function(&u, row, a->extent[1], weft_view_row(a, b, NULL));
    }
    for (int i = 0; i < call->num_inputs; i++) {
        close_stack(&u.inputs[i], false);
    }
}

/* Rows [first, first + k) become the panel's. Returns how many of the rows are not after them. */
static int64_t copy_panel(const update *u, int64_t first, int64_t row, int64_t rows, char *block)
{
    const int64_t last = first + u->inputs[0].view->extent[0];
    const char *panel = item_of(&u->inputs[0], 0);
    for (int64_t r = row > first ? row : first; r < row + rows && r < last; r++) {
        memcpy(block + (size_t)(r - row) * u->size, panel + (size_t)(r - first) * u->size, u->size);
    }
    return last < row ? 0 : last - row < rows ? last - row : rows;
}

static void cholesky_update(const update *u, int64_t row, int64_t rows, char *block)
{
    int64_t done = copy_panel(u, u->call->numbers[0], row, rows, block);
    if (done < rows) {
        u->lapack->cholesky_update((int)(rows - done), (int)(row + done), (int)u->inputs[0].view->extent[0], u->n,
                                   item_of(&u->inputs[0], 0), block + (size_t)done * u->size);
    }
}

void weft_kernel_cholesky_update(const weft_kernel_call *call)
{
    run_update(call, (const int[]){ 2 }, cholesky_update);
}

static void lu_update(const update *u, int64_t row, int64_t rows, char *block)
{
    const int64_t *numbers = u->call->numbers, done = copy_panel(u, numbers[0], row, rows, block);
    const int64_t after = (row + rows < numbers[1] ? row + rows : numbers[1]) - row - done; /* the others are 0 */
    if (after > 0) {
        u->lapack->lu_update((int)after, (int)u->inputs[0].view->extent[0], u->n, (int)numbers[0], (int)numbers[1],
                             item_of(&u->inputs[0], 0), item_of(&u->inputs[1], 0), block + (size_t)done * u->size);
    }
}

void weft_kernel_lu_update(const weft_kernel_call *call)
{
    run_update(call, (const int[]){ 2, 1 }, lu_update);
}

static void qr_update(const update *u, int64_t row, int64_t rows, char *block)
{
    const int64_t *numbers = u->call->numbers;
    const bool forms_q = numbers[2] != 0;
    const int64_t before = numbers[0] > row ? numbers[0] - row : 0;
    const int64_t done = !forms_q ? copy_panel(u, numbers[0], row, rows, block) : before < rows ? before : rows;
    if (done < rows && u->lapack->qr_update(!forms_q, (int)(rows - done), (int)u->inputs[0].view->extent[0], u->n, (int)numbers[0],
                                            (int)numbers[1], item_of(&u->inputs[0], 0), item_of(&u->inputs[1], 0),
                                            block + (size_t)done * u->size) != 0) {
        weft_problem_memory(u->call->error, WEFT_PROBLEM_RESULTS, 0);
    }
}

void weft_kernel_qr_update(const weft_kernel_call *call)
{
    run_update(call, (const int[]){ 2, 2 }, qr_update);
}

static void lu_exchange(const update *u, int64_t row, int64_t rows, char *block)
{
    const int64_t size = u->call->numbers[0], end = u->call->numbers[1], *pivots = item_of(&u->inputs[0], 0);
    for (int64_t r = 0; r < rows; r++) {
        int64_t first = ((row + r) / size + 1) * size;
        if (first < end) {
            u->lapack->exchange_columns(1, u->n, (int)first, (int)(end - first), pivots + first, block + (size_t)r * u->size);
        }
    }
}

void weft_kernel_lu_exchange(const weft_kernel_call *call)
{
    run_update(call, (const int[]){ 1 }, lu_exchange);
}
