/* Matrix products. */
#include "codelets/linear.h"
#include "ops/ops.h"

/* ---- lowering ------------------------------------------------------------------------------------------ */

/* The shards of one product. A is m x k, or k x m transposed; B is k x n, or n x k transposed. */
typedef struct product {
    const weft_lowering *lowering;
    bool transpose_a, transpose_b;
    int64_t m, n, k; /* of the shards; batched: of each matrix */
} product;

/* Sizes of the last two dimensions of a shard. */
static void matrix_extent(const weft_tensor *tensor, const weft_local_shard *shard, int64_t *rows,
                          int64_t *columns)
{
    *rows = shard->box.extent[tensor->layout->ndim - 2];
    *columns = shard->box.extent[tensor->layout->ndim - 1];
}

static product product_of(const weft_lowering *lowering)
{
    int64_t rule = lowering->call->attributes.rule;
    product p = { .lowering = lowering, .transpose_a = rule & 1, .transpose_b = (rule & 2) != 0 };
    int64_t rows, columns;
    matrix_extent(lowering->output, weft_lowering_output(lowering), &p.m, &p.n);
    matrix_extent(lowering->inputs[0], weft_lowering_input(lowering, 0), &rows, &columns);
    p.k = p.transpose_a ? rows : columns;
    return p;
}

static weft_gemm_args *begin_gemm(weft_task *task, const product *p)
{
    const weft_lowering *lowering = p->lowering;
    weft_gemm_args *args = weft_task_begin(task, &weft_codelet_gemm, lowering->call->operation->name,
                                           sizeof(*args), lowering->output->layout->dtype);
    if (args == NULL) {
        return NULL;
    }
    args->transpose_a = p->transpose_a;
    args->transpose_b = p->transpose_b;
    args->m = p->m;
    args->n = p->n;
    args->k = p->k;
    args->lda = weft_max_i64(1, p->transpose_a ? p->m : p->k);
    args->ldb = weft_max_i64(1, p->transpose_b ? p->k : p->n);
    args->ldc = weft_max_i64(1, p->n);
    args->batch = 1;
    return args;
}

/* One task computes a block of C from a range of k: its rows are those of the walk's present piece. Local
 * indices, from the shards' first rows and columns. */
typedef struct block {
    int64_t row, n_first, n_last, k_first, k_last;
    int64_t a_panel, b_panel;         /* a_panel only where A is transposed: else the walk has it */
    int64_t a_panel_row, b_panel_row; /* first local rows of these panels */
} block;

/* Bytes of the element at (row, column) of a panel whose rows have `width` elements. */
static int64_t element_offset(const product *p, int64_t row, int64_t column, int64_t width)
{
    return (row * width + column) * (int64_t)weft_dtype_size(p->lowering->output->layout->dtype);
}

static void add_a(weft_task *task, const product *p, const weft_row_walk *walk, const block *b)
{
    if (!p->transpose_a) {
        weft_task_add(task, walk->inputs[0],
                      weft_rows_input_offset(walk, 0) + element_offset(p, 0, b->k_first, p->k), STARPU_R);
        return;
    }
    weft_task_add(task, &weft_lowering_input(p->lowering, 0)->panels[b->a_panel],
                  element_offset(p, b->k_first - b->a_panel_row, b->row, p->m), STARPU_R);
}

static void add_b(weft_task *task, const product *p, const block *b)
{
    int64_t row = p->transpose_b ? b->n_first : b->k_first, column = p->transpose_b ? b->k_first : b->n_first;
    weft_task_add(task, &weft_lowering_input(p->lowering, 1)->panels[b->b_panel],
                  element_offset(p, row - b->b_panel_row, column, p->transpose_b ? p->k : p->n), STARPU_R);
}

static bool submit_block(const product *p, weft_row_walk *walk, const block *b)
{
    weft_task task;
    weft_gemm_args *args = begin_gemm(&task, p);
    if (args == NULL) {
        return false;
    }
    args->m = walk->last - walk->first;
    args->n = b->n_last - b->n_first;
    args->k = b->k_last - b->k_first;
    args->beta = b->k_first == 0 ? 0 : 1;
    /* A transposed A comes panel by panel along k: a gradient of weights grows with its rows. */
    task.position = p->transpose_a ? (double)b->k_first / (double)p->k
                                   : weft_row_position(p->lowering->output->layout,
                                                       weft_lowering_output(p->lowering)->rank, walk->first);
    weft_task_add(&task, walk->output, weft_rows_output_offset(walk) + element_offset(p, 0, b->n_first, p->n),
                  walk->mode);
    add_a(&task, p, walk, b);
    add_b(&task, p, b);
    walk->mode = STARPU_RW;
    return weft_task_submit(&task);
}

/* Local rows [*first, *last) of a panel. */
static void panel_rows(const weft_tensor *tensor, const weft_local_shard *shard, int64_t panel,
                       int64_t *first, int64_t *last)
{
    weft_panel_range(tensor->layout, &shard->box, panel, first, last);
    *first -= shard->box.offset[0];
    *last -= shard->box.offset[0];
}

/* Splits the block's range of k, which is in one panel of B, over the panels of A when they lie along k. */
static bool split_over_a(const product *p, weft_row_walk *walk, block b)
{
    if (!p->transpose_a) {
        return submit_block(p, walk, &b);
    }
    const weft_tensor *tensor = p->lowering->inputs[0];
    const weft_local_shard *shard = weft_lowering_input(p->lowering, 0);
    int64_t k_last = b.k_last;
    while (b.k_first < k_last) {
        b.a_panel = weft_panel_of_row(tensor->layout, &shard->box, b.k_first + shard->box.offset[0]);
        panel_rows(tensor, shard, b.a_panel, &b.a_panel_row, &b.k_last);
        b.k_last = weft_min_i64(b.k_last, k_last);
        if (!submit_block(p, walk, &b)) {
            return false;
        }
        b.k_first = b.k_last;
    }
    return true;
}

/* The panels of B lie along k, or, transposed, along n. In both cases each element of C gets its addends in
 * the order of k. */
static bool lower_piece(const product *p, weft_row_walk *walk)
{
    const weft_tensor *tensor = p->lowering->inputs[1];
    const weft_local_shard *shard = weft_lowering_input(p->lowering, 1);
    block b = { .row = walk->first - weft_lowering_output(p->lowering)->box.offset[0],
                .n_last = p->n,
                .k_last = p->k };
    for (b.b_panel = 0; b.b_panel < shard->num_panels; b.b_panel++) {
        int64_t first, last;
        panel_rows(tensor, shard, b.b_panel, &first, &last);
        b.b_panel_row = first;
        if (p->transpose_b) {
            b.n_first = first;
            b.n_last = last;
        } else {
            b.k_first = first;
            b.k_last = last;
        }
        if (!split_over_a(p, walk, b)) {
            return false;
        }
    }
    return true;
}

/* Panels lie along the first batch dimension: a piece is a number of whole products. */
static bool lower_batch(const product *p, const weft_row_walk *walk)
{
    weft_task task;
    weft_gemm_args *args = begin_gemm(&task, p);
    if (args == NULL) {
        return false;
    }
    const weft_local_shard *output = weft_lowering_output(p->lowering);
    args->batch = walk->last - walk->first;
    for (int d = 1; d < p->lowering->output->layout->ndim - 2; d++) {
        args->batch *= output->box.extent[d];
    }
    args->batch_stride_a = p->m * p->k;
    args->batch_stride_b = p->k * p->n;
    args->batch_stride_c = p->m * p->n;
    weft_rows_add_output(&task, walk);
    weft_rows_add_input(&task, walk, 0);
    weft_rows_add_input(&task, walk, 1);
    return weft_task_submit(&task);
}

static bool lower_matmul(const weft_lowering *lowering)
{
    product p = product_of(lowering);
    if (p.k == 0) {
        return weft_lower_fill(lowering, 0);
    }
    bool batched = lowering->output->layout->ndim > 2;
    unsigned aligned = batched ? 3u : p.transpose_a ? 0u : 1u;
    weft_row_walk walk;
    for (weft_rows_begin(&walk, lowering, aligned); weft_rows_next(&walk);) {
        if (!(batched ? lower_batch(&p, &walk) : lower_piece(&p, &walk))) {
            return false;
        }
    }
    return true;
}

/* ---- the operation ------------------------------------------------------------------------------------- */

/* attributes.rule: 1 for a transposed a, plus 2 for a transposed b. */
static const weft_operation operation_matmul = {
    .name = "matmul",
    .rules = { "Bmk,Bkn->Bmn", "Bkm,Bkn->Bmn", "Bmk,Bnk->Bmn", "Bkm,Bnk->Bmn" },
    .linear = { .kind = WEFT_LINEAR_EACH, .inputs = 1u << 0 | 1u << 1, .ops = WEFT_LINEAR_OPS },
    .inputs = { { "a", WEFT_TYPES_WIDE, true }, { "b", WEFT_TYPES_WIDE, true } },
    .lower = lower_matmul,
};

static weft_tensor *matmul(const char *function, weft_tensor *a, bool transpose_a, weft_tensor *b,
                           bool transpose_b)
{
    return weft_dispatch(&(weft_call){
        .function = function,
        .operation = &operation_matmul,
        .num_inputs = 2,
        .inputs = { a, b },
        .attributes = { .rule = (transpose_a ? 1 : 0) + (transpose_b ? 2 : 0) },
    });
}

weft_tensor *weft_matmul(weft_tensor *a, weft_tensor *b)
{
    return matmul("weft_matmul", a, false, b, false);
}

weft_tensor *weft_matmul_ex(weft_tensor *a, bool transpose_a, weft_tensor *b, bool transpose_b)
{
    return matmul("weft_matmul_ex", a, transpose_a, b, transpose_b);
}

const weft_operation *const weft_matmul_operations[] = {
    &operation_matmul,
    NULL,
};
