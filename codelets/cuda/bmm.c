/* Many products, as cpu/gemm.c: those whose matrices lie at equal distances become one call. */
#include "codelets/products.h"

#include "codelets/cuda/products.h"
#include "codelets/kernel.h"

typedef struct span {
    int64_t first, last;
} span;

typedef struct job {
    weft_gemm gemm; /* of whole products */
    weft_view output;
    weft_view inputs[2];
    weft_product_side sides[2];
    int batch_dims;
    weft_cuda_queue *queue;
    weft_device_products pending; /* not yet submitted; count 0: none */
} job;

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* ---- runs of products ---------------------------------------------------------------------------------- */

static int flush(job *j)
{
    int failed = j->pending.count == 0 ? 0 : weft_cuda_multiply(&j->pending, j->queue);
    j->pending.count = 0;
    return failed;
}

/* The elements from one address to another; false: not a whole number, or backwards. */
static bool step_between(const void *from, const void *to, size_t size, int64_t *step)
{
    int64_t bytes = (const char *)to - (const char *)from;
    *step = bytes / (int64_t)size;
    return bytes >= 0 && bytes % (int64_t)size == 0;
}

/* Whether the product continues those that are pending. */
static bool continues(weft_device_products *p, const weft_device_products *next)
{
    int64_t a, b, c;
    size_t size = weft_dtype_size(p->input_type);
    if (p->count == 0 || !step_between(p->a, next->a, size, &a) || !step_between(p->b, next->b, size, &b) ||
        !step_between(p->c, next->c, weft_dtype_size(p->gemm.dtype), &c) || c == 0) {
        return false;
    }
    if (p->count == 1) {
        p->a_step = a;
        p->b_step = b;
        p->c_step = c;
    }
    return a == p->count * p->a_step && b == p->count * p->b_step && c == p->count * p->c_step;
}

static int add(job *j, const weft_device_products *next)
{
    if (continues(&j->pending, next)) {
        j->pending.count++;
        return 0;
    }
    int failed = flush(j);
    j->pending = *next;
    return failed;
}

/* ---- parts --------------------------------------------------------------------------------------------- */

/* The side's stored rows from `first` to the end of their panel; a vector's elements are its rows. With a batch, each matrix is
 * contiguous. */
static span piece(const job *j, int number, int64_t first)
{
    const weft_view *view = &j->inputs[number];
    int64_t all = view->ndim == 1 ? view->extent[0] : j->sides[number].rows, together = all;
    if (j->sides[number].batch_dims == 0 && first < weft_view_rows(view)) {
        weft_view_row(view, first, &together);
    }
    return (span){ first, least(all, first + together) };
}

/* Whether panel borders of this side cut the summed dimension k, rather than m or n. */
static bool divides_terms(const job *j, int number)
{
    bool transposed = number == 0 ? j->gemm.transpose_a : j->gemm.transpose_b;
    return j->inputs[number].ndim == 1 || transposed == (number == 0);
}

/* Element (row, column) of a side's matrix for an index of the batch. */
static const char *element(const job *j, int number, const int64_t index[], int64_t row, int64_t column)
{
    const weft_product_side *s = &j->sides[number];
    const weft_view *view = &j->inputs[number];
    size_t size = weft_dtype_size(view->dtype);
    if (view->ndim == 1) {
        return weft_view_row(view, most(row, column), NULL);
    }
    if (s->batch_dims == 0) {
        return (const char *)weft_view_row(view, row, NULL) + (size_t)column * size;
    }
    int64_t panel_row, matrix;
    weft_product_place(s, &j->output, j->batch_dims, index, &panel_row, &matrix);
    return (const char *)weft_view_row(view, panel_row, NULL) + (size_t)((matrix * s->rows + row) * s->columns + column) * size;
}

/* One part of the product for every index of the batch. */
static int multiply_part(job *j, span m, span n, span k)
{
    const weft_gemm *whole = &j->gemm;
    int64_t matrix = whole->m * whole->n, count = matrix == 0 ? 0 : j->output.row_elements / matrix;
    weft_device_products next = { .gemm = *whole, .input_type = j->inputs[0].dtype, .count = 1 };
    next.gemm.m = m.last - m.first;
    next.gemm.n = n.last - n.first;
    next.gemm.k = k.last - k.first;
    next.gemm.beta = k.first == 0 ? 0 : 1;
    int failed = 0;
    for (int64_t row = 0; row < j->output.extent[0] && count > 0; row++) {
        char *c = (char *)weft_view_row(&j->output, row, NULL) +
                  (size_t)(m.first * whole->n + n.first) * weft_dtype_size(whole->dtype);
        for (int64_t i = 0; i < count && failed == 0; i++) {
            int64_t index[WEFT_MAX_DIMS];
            weft_product_index(&j->output, j->batch_dims, row, i, index);
            if (next.gemm.k > 0) {
                next.a = whole->transpose_a ? element(j, 0, index, k.first, m.first) : element(j, 0, index, m.first, k.first);
                next.b = whole->transpose_b ? element(j, 1, index, n.first, k.first) : element(j, 1, index, k.first, n.first);
            }
            next.c = c + (size_t)(i * matrix) * weft_dtype_size(whole->dtype);
            failed = add(j, &next);
        }
    }
    return failed != 0 ? failed : flush(j);
}

int weft_cuda_bmm(const weft_task_run *run, weft_cuda_queue *queue)
{
    const weft_kernel_args *args = run->arguments;
    job j = { .output = weft_kernel_view(args, 0), .queue = queue };
    j.output.panels = run->operands;
    for (int i = 0; i < 2; i++) {
        j.inputs[i] = weft_kernel_view(args, 1 + i);
        j.inputs[i].panels = run->operands + args->operands[1 + i].first_panel;
        j.sides[i] = weft_product_side_of(&j.inputs[i], i == 0);
    }
    j.gemm = weft_product_gemm(&j.sides[0], &j.sides[1], args->numbers[0], j.output.dtype);
    j.batch_dims = j.output.ndim - (j.inputs[0].ndim > 1) - (j.inputs[1].ndim > 1);
    const span all_m = { 0, j.gemm.m }, all_n = { 0, j.gemm.n }, all_k = { 0, j.gemm.k };
    int failed = 0;
    /* Parts over k come in order: the one from 0 on overwrites C, the others add to it. */
    for (span a = piece(&j, 0, 0);; a = piece(&j, 0, a.last)) {
        for (span b = piece(&j, 1, 0);; b = piece(&j, 1, b.last)) {
            span k = divides_terms(&j, 0) ? a : all_k;
            k = divides_terms(&j, 1) ? (span){ most(k.first, b.first), least(k.last, b.last) } : k;
            if (failed == 0 && (k.first < k.last || j.gemm.k == 0)) {
                failed = multiply_part(&j, divides_terms(&j, 0) ? all_m : a, divides_terms(&j, 1) ? all_n : b, k);
            }
            if (b.last >= (j.inputs[1].ndim == 1 ? j.inputs[1].extent[0] : j.sides[1].rows)) {
                break;
            }
        }
        if (a.last >= (j.inputs[0].ndim == 1 ? j.inputs[0].extent[0] : j.sides[0].rows)) {
            break;
        }
    }
    return failed;
}
