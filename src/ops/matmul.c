/* Products of matrices and vectors. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "codelets/linear.h"
#include "ops/ops.h"

/* Attributes: numbers[FORM], numbers[TRANSPOSES] (1: a, 2: b is transposed); with an addend scalars[ALPHA]
 * and [BETA]: alpha a b + beta c. */
enum { TRANSPOSES, FORM };
enum { ALPHA = WEFT_GEMM_ALPHA, BETA = WEFT_GEMM_BETA };
enum { MATMUL, DOT, ADDMM, LINEAR, OVER_ROWS }; /* forms */
enum { A, B, C };                    /* inputs */

/* ---- the rule ------------------------------------------------------------------------------------------ */

/* The letters of an addend of an [m, n] matrix: aligned at the last dimensions; those of size 1 broadcast. */
static void write_addend(const weft_layout *const inputs[], char text[3])
{
    const weft_layout *c = inputs[C];
    int64_t target[] = { inputs[A]->ndim == 2 ? inputs[A]->shape[0] : 1,
                         inputs[B]->ndim == 2 ? inputs[B]->shape[1] : 1 };
    int first = c->ndim > 2 ? 0 : 2 - c->ndim, used = 0;
    for (int d = first; d < 2; d++) {
        bool repeated = c->ndim <= 2 && c->shape[d - first] == 1 && target[d] != 1;
        text[used++] = repeated ? '1' : "mn"[d];
    }
    text[used] = '\0';
}

/* PyTorch's rules: dimensions before the matrix broadcast; an operand with one dimension is a vector. */
static void write_matmul_rule(const weft_call_layouts *call, char *text, size_t size)
{
    bool row = call->inputs[A]->ndim == 1, column = call->inputs[B]->ndim == 1;
    int64_t transposes = call->attributes->numbers[TRANSPOSES];
    const char *left = row ? "k" : transposes & 1 ? "...km" : "...mk";
    const char *right = column ? "k" : transposes & 2 ? "...nk" : "...kn";
    snprintf(text, size, "%s,%s->%s%s%s", left, right, row && column ? "" : "...", row ? "" : "m",
             column ? "" : "n");
}

static void write_rule(const weft_call_layouts *call, char *text, size_t size)
{
    char addend[3];
    switch (call->attributes->numbers[FORM]) {
    case DOT:
        snprintf(text, size, "k,k->");
        break;
    case ADDMM:
        write_addend(call->inputs, addend);
        snprintf(text, size, "mk,kn,%s->mn", addend);
        break;
    case LINEAR:
        snprintf(text, size, call->num_inputs > C ? "Ak,nk,n->An" : "Ak,nk->An");
        break;
    case OVER_ROWS:
        snprintf(text, size, "Ak,An->kn");
        break;
    default:
        write_matmul_rule(call, text, size);
        break;
    }
}

/* ---- lowering ------------------------------------------------------------------------------------------ */

/* The shards of one matrix product. A, from input `a`, is m x k, or k x m transposed; B is k x n, or n x k
 * transposed. The rows of C, and of an untransposed A, run over all dimensions but the last: a row of the
 * tensor is `rows` of them. A single vector is B, with one column. */
typedef struct product {
    const weft_lowering *lowering;
    int a, b;
    bool transpose_a, transpose_b;
    int64_t m, n, k;
    int64_t rows;
    int64_t k_rows; /* of A and B, where k lies along these, in one row of the tensors */
    bool adds; /* this rank adds c */
} product;

/* False: not one matrix product: B has further dimensions, or A has and is transposed. */
static bool product_of(const weft_lowering *lowering, product *p)
{
    int64_t transposes = lowering->attributes->numbers[TRANSPOSES];
    int ndim_a = lowering->inputs[A]->ndim, ndim_b = lowering->inputs[B]->ndim;
    bool swaps = ndim_a == 1 && ndim_b > 1; /* a b = b^T a */
    *p = (product){ .lowering = lowering,
                    .a = swaps ? B : A,
                    .b = swaps ? A : B,
                    .transpose_a = swaps ? !(transposes & 2) : (transposes & 1) || ndim_a == 1,
                    .transpose_b = !swaps && (transposes & 2),
                    .k_rows = 1 };
    bool over_rows = lowering->attributes->numbers[FORM] == OVER_ROWS;
    p->transpose_a |= over_rows;
    if (!over_rows &&
        (lowering->inputs[p->b]->ndim > 2 || (p->transpose_a && lowering->inputs[p->a]->ndim > 2))) {
        return false;
    }
    const weft_shard_info *output = weft_lowering_output(lowering), *a = weft_lowering_input(lowering, p->a),
                          *b = weft_lowering_input(lowering, p->b);
    int output_ndim = lowering->output->ndim, a_ndim = lowering->inputs[p->a]->ndim;
    for (int d = 1; d < a_ndim - 1 && over_rows; d++) {
        p->k_rows *= a->box.extent[d];
    }
    p->k = p->transpose_a ? a->box.extent[0] * p->k_rows : a->box.extent[a_ndim - 1];
    p->n = over_rows                             ? b->box.extent[a_ndim - 1]
           : lowering->inputs[p->b]->ndim == 1 ? 1
                                                 : b->box.extent[p->transpose_b ? 0 : 1];
    p->rows = weft_row_elements(output_ndim, &output->box) / p->n;
    p->m = output->count / p->n;
    p->adds = lowering->num_inputs > C && weft_lowering_adds(lowering, C);
    return true;
}

/* A task's block of C, for a range of k; its rows are those of the current piece. Local indices, from the
 * shards' first rows and columns. */
typedef struct block {
    int64_t row, n_first, n_last, k_first, k_last;
    int64_t a_panel, b_panel;         /* a_panel: only if A is transposed; else the walk has it */
    int64_t a_panel_row, b_panel_row; /* first local rows of these panels */
} block;

/* Byte offset of the element at (row, column) of a panel whose rows have `width` elements. */
static int64_t element_offset(const weft_layout *layout, int64_t row, int64_t column, int64_t width)
{
    return (row * width + column) * (int64_t)weft_dtype_size(layout->dtype);
}

static weft_gemm_args *begin_gemm(const product *p, const weft_row_walk *walk, const block *b)
{
    const weft_lowering *lowering = p->lowering;
    weft_gemm_args *args = weft_task_begin(lowering->tasks, WEFT_KERNEL_matmul, sizeof(*args));
    if (args == NULL) {
        return NULL;
    }
    weft_gemm *gemm = &args->gemm;
    args->base.dtype = gemm->dtype = lowering->output->dtype;
    gemm->transpose_a = p->transpose_a;
    gemm->transpose_b = p->transpose_b;
    gemm->m = (walk->last - walk->first) * p->rows;
    gemm->n = b->n_last - b->n_first;
    gemm->k = b->k_last - b->k_first;
    gemm->lda = weft_max_i64(1, p->transpose_a ? p->m : p->k);
    gemm->ldb = weft_max_i64(1, p->transpose_b ? p->k : p->n);
    gemm->ldc = weft_max_i64(1, p->n);
    gemm->alpha = 1;
    gemm->beta = b->k_first == 0 ? 0 : 1;
    args->scaled = lowering->num_inputs > C;
    args->input_type = lowering->inputs[A]->dtype;
    return args;
}

static void add_a(const product *p, const weft_row_walk *walk, const block *b)
{
    const weft_lowering *lowering = p->lowering;
    const weft_layout *layout = lowering->inputs[p->a];
    if (!p->transpose_a) {
        weft_task_add(lowering->tasks, walk->inputs[p->a],
                      weft_rows_input_offset(walk, p->a) + element_offset(layout, 0, b->k_first, p->k),
                      WEFT_SLOT_READ);
        return;
    }
    weft_task_add(lowering->tasks, weft_input_slot(lowering, p->a, b->a_panel),
                  element_offset(layout, b->k_first - b->a_panel_row, b->row, p->m), WEFT_SLOT_READ);
}

static void add_b(const product *p, const block *b)
{
    const weft_lowering *lowering = p->lowering;
    int64_t row = p->transpose_b ? b->n_first : b->k_first, column = p->transpose_b ? b->k_first : b->n_first;
    weft_task_add(
        lowering->tasks, weft_input_slot(lowering, p->b, b->b_panel),
        element_offset(lowering->inputs[p->b], row - b->b_panel_row, column, p->transpose_b ? p->k : p->n),
        WEFT_SLOT_READ);
}

/* Whether rows of c are columns of the product. */
static bool addend_lies_along_n(const product *p)
{
    const weft_layout *output = p->lowering->output;
    return p->adds && p->lowering->inputs[C]->ndim == 1 && output->ndim > 1 &&
           p->lowering->inputs[C]->shape[0] == output->shape[output->ndim - 1];
}

static void add_addend(weft_gemm_args *args, const product *p, const weft_row_walk *walk, const block *b)
{
    const weft_lowering *lowering = p->lowering;
    const weft_layout *c = lowering->inputs[C], *output = lowering->output;
    const weft_shard_info *shard = weft_lowering_input(lowering, C);
    bool aligned = walk->aligned & 1u << C;
    args->adds = true;
    args->addend_row_stride = aligned ? weft_row_elements(c->ndim, &shard->box) : 0;
    args->addend_column_stride =
        output->ndim > 1 && c->ndim > 0 && c->shape[c->ndim - 1] == output->shape[output->ndim - 1];
    int64_t column = b->n_first * args->addend_column_stride;
    if (aligned) {
        weft_task_add(lowering->tasks, walk->inputs[C],
                      weft_rows_input_offset(walk, C) + element_offset(c, 0, column, 0), WEFT_SLOT_READ);
        return;
    }
    int64_t panel = 0, first = 0, last;
    if (addend_lies_along_n(p)) {
        panel = weft_panel_of_row(c, &shard->box, b->n_first + shard->box.offset[0]);
        weft_panel_range(c, &shard->box, panel, &first, &last);
        first -= shard->box.offset[0];
    }
    weft_task_add(lowering->tasks, weft_input_slot(lowering, C, panel),
                  element_offset(c, 0, column - first, 0), WEFT_SLOT_READ);
}

static bool add_block(const product *p, weft_row_walk *walk, const block *b)
{
    const weft_lowering *lowering = p->lowering;
    weft_gemm_args *args = begin_gemm(p, walk, b);
    if (args == NULL) {
        return false;
    }
    weft_task_add(lowering->tasks, walk->output,
                  weft_rows_output_offset(walk) + element_offset(lowering->output, 0, b->n_first, p->n),
                  walk->access);
    if (args->gemm.k > 0) {
        add_a(p, walk, b);
        add_b(p, b);
    }
    if (b->k_first == 0 && p->adds) {
        add_addend(args, p, walk, b);
    }
    walk->access = WEFT_SLOT_READ_WRITE;
    /* A transposed A is consumed panel by panel along k, in row order: the gradient of weights. */
    return weft_task_end(lowering->tasks, p->transpose_a && p->k > 0
                                              ? (double)b->k_first / (double)p->k
                                              : weft_lowering_position(lowering, walk->first));
}

/* Local rows [*first, *last) of a panel. */
static void panel_rows(const weft_layout *layout, const weft_shard_info *shard, int64_t panel, int64_t *first,
                       int64_t *last)
{
    weft_panel_range(layout, &shard->box, panel, first, last);
    *first -= shard->box.offset[0];
    *last -= shard->box.offset[0];
}

/* Splits the block's range of k, which is in one panel of B, by the panels of A if they lie along k. */
static bool split_over_a(const product *p, weft_row_walk *walk, block b)
{
    if (!p->transpose_a) {
        return add_block(p, walk, &b);
    }
    const weft_layout *layout = p->lowering->inputs[p->a];
    const weft_shard_info *shard = weft_lowering_input(p->lowering, p->a);
    int64_t k_last = b.k_last;
    while (b.k_first < k_last) {
        b.a_panel = weft_panel_of_row(layout, &shard->box, b.k_first / p->k_rows + shard->box.offset[0]);
        panel_rows(layout, shard, b.a_panel, &b.a_panel_row, &b.k_last);
        b.a_panel_row *= p->k_rows;
        b.k_last = weft_min_i64(b.k_last * p->k_rows, k_last);
        if (!add_block(p, walk, &b)) {
            return false;
        }
        b.k_first = b.k_last;
    }
    return true;
}

/* The panels of B lie along k, or, transposed, along n. In both cases each element of C gets its addends
 * in the order of k. */
static bool split_over_b(const product *p, weft_row_walk *walk, block b)
{
    const weft_layout *layout = p->lowering->inputs[p->b];
    const weft_shard_info *shard = weft_lowering_input(p->lowering, p->b);
    int64_t n_first = b.n_first, n_last = b.n_last;
    b.k_last = p->k;
    if (p->k == 0) {
        return add_block(p, walk, &b);
    }
    for (b.b_panel = 0; b.b_panel < shard->num_panels; b.b_panel++) {
        int64_t first, last;
        panel_rows(layout, shard, b.b_panel, &first, &last);
        b.b_panel_row = first * (p->transpose_b ? 1 : p->k_rows);
        if (p->transpose_b) {
            b.n_first = weft_max_i64(n_first, first);
            b.n_last = weft_min_i64(n_last, last);
        } else {
            b.k_first = first * p->k_rows;
            b.k_last = last * p->k_rows;
        }
        if (b.n_first < b.n_last && !split_over_a(p, walk, b)) {
            return false;
        }
    }
    return true;
}

/* If c is a vector along n, a block uses one panel of it. */
static bool lower_piece(const product *p, weft_row_walk *walk)
{
    block b = { .row = walk->first };
    if (p->lowering->output->ndim > 0) {
        b.row -= weft_lowering_output(p->lowering)->box.offset[0];
    }
    if (!addend_lies_along_n(p)) {
        b.n_last = p->n;
        return split_over_b(p, walk, b);
    }
    const weft_shard_info *shard = weft_lowering_input(p->lowering, C);
    for (int64_t panel = 0; panel < shard->num_panels; panel++) {
        panel_rows(p->lowering->inputs[C], shard, panel, &b.n_first, &b.n_last);
        if (!split_over_b(p, walk, b)) {
            return false;
        }
    }
    return true;
}

static bool lower_product(const weft_lowering *lowering)
{
    product p;
    if (!product_of(lowering, &p)) {
        return weft_lower_kernel(lowering);
    }
    unsigned aligned = p.transpose_a ? 0 : 1u << p.a;
    if (p.adds && lowering->sharding->rows[C] == WEFT_ROWS_SAME) {
        aligned |= 1u << C;
    }
    weft_row_walk walk;
    for (weft_rows_begin(&walk, lowering, aligned); weft_rows_next(&walk);) {
        if (!lower_piece(&p, &walk)) {
            return false;
        }
    }
    return true;
}

/* ---- gradients ----------------------------------------------------------------------------------------- */

static bool gradients_of_matmul(const weft_gradient *of);
static bool gradients_of_linear(const weft_gradient *of);

/* ---- the operation ------------------------------------------------------------------------------------- */

#define PRODUCT(variable, a, b, c, like, gradient_)                                                          \
    static const weft_operation variable = {                                                                 \
        .name = "matmul",                                                                                    \
        .gradient = { .function = gradient_,                                                                 \
                      .reads = { WEFT_READS_INPUT(B), WEFT_READS_INPUT(A) } },                               \
        .write_rule = write_rule,                                                                            \
        .rule_like = like,                                                                                   \
        .outputs[0].linear = { .kind = WEFT_LINEAR_EACH,                                                     \
                               .inputs = 1u << A | 1u << B,                                                  \
                               .ops = WEFT_LINEAR_OPS },                                                     \
        .inputs = { { a, WEFT_TYPES_NUMBER, true },                                                          \
                    { b, WEFT_TYPES_NUMBER, true },                                                          \
                    { c, WEFT_TYPES_NUMBER, true } },                                                        \
        .outputs[0].type = WEFT_TYPE_GIVEN,                                                                  \
        .kernel = WEFT_KERNEL_bmm,                                                                           \
        .lower = lower_product,                                                                              \
        WEFT_ROUNDED_SUM,                                                                                    \
    };

/* Operations that differ only in the names of their inputs. */
PRODUCT(operation_matmul, "a", "b", "c", "...mk,...kn->...mn", gradients_of_matmul)
PRODUCT(operation_linear, "x", "weight", "bias", "Ak,nk,n->An", gradients_of_linear)

static weft_tensor *product_call(weft_call call, int form, int transposes)
{
    call.attributes.num_numbers = 2;
    call.attributes.numbers[TRANSPOSES] = transposes;
    call.attributes.numbers[FORM] = form;
    return weft_dispatch_sum(&call);
}

/* ---- public -------------------------------------------------------------------------------------------- */

/* False with the error kept: an operand without dimensions, or a transposed vector. */
static bool check_matrix(const char *function, const char *name, weft_tensor *a, bool transposed)
{
    int least = transposed ? 2 : 1;
    const weft_tensor_impl *matrix = weft_check_tensor(function, name, a);
    if (matrix != NULL && matrix->layout->ndim < least) {
        weft_fail(WEFT_ERR_SHAPE, function, "%s has %d dimension%s, expected at least %d", name,
                  matrix->layout->ndim, matrix->layout->ndim == 1 ? "" : "s", least);
        return false;
    }
    return matrix != NULL;
}

weft_tensor *weft_matmul_ex(weft_tensor *a, bool transpose_a, weft_tensor *b, bool transpose_b)
{
    static const char function[] = "weft_matmul_ex";
    if (!check_matrix(function, "a", a, transpose_a) || !check_matrix(function, "b", b, transpose_b)) {
        return NULL;
    }
    weft_call call = {
        .function = function, .operation = &operation_matmul, .num_inputs = 2, .inputs = { a, b }
    };
    return product_call(call, MATMUL, (transpose_a ? 1 : 0) + (transpose_b ? 2 : 0));
}

weft_tensor *weft_matmul(weft_tensor *a, weft_tensor *b)
{
    static const char function[] = "weft_matmul";
    if (!check_matrix(function, "a", a, false) || !check_matrix(function, "b", b, false)) {
        return NULL;
    }
    weft_call call = {
        .function = function, .operation = &operation_matmul, .num_inputs = 2, .inputs = { a, b }
    };
    return product_call(call, MATMUL, 0);
}

weft_tensor *weft_dot(weft_tensor *a, weft_tensor *b)
{
    weft_call call = {
        .function = "weft_dot", .operation = &operation_matmul, .num_inputs = 2, .inputs = { a, b }
    };
    return product_call(call, DOT, 0);
}

weft_tensor *weft_addmm(weft_tensor *c, weft_tensor *a, weft_tensor *b, double beta, double alpha)
{
    static const char function[] = "weft_addmm";
    if (weft_check_tensor(function, "c", c) == NULL || weft_check_tensor(function, "a", a) == NULL ||
        !weft_check_number(function, "beta", weft_layout_of(a)->dtype, beta) ||
        !weft_check_number(function, "alpha", weft_layout_of(a)->dtype, alpha)) {
        return NULL;
    }
    weft_call call = { .function = function,
                       .operation = &operation_matmul,
                       .num_inputs = 3,
                       .inputs = { a, b, c },
                       .scalars = { [ALPHA] = alpha, [BETA] = beta } };
    return product_call(call, ADDMM, 0);
}

weft_tensor *weft_linear(weft_tensor *x, weft_tensor *weight, weft_tensor *bias)
{
    weft_call call = { .function = "weft_linear",
                       .operation = &operation_linear,
                       .num_inputs = bias == NULL ? 2 : 3,
                       .inputs = { x, weight, bias },
                       .scalars = { [ALPHA] = 1, [BETA] = 1 } };
    return product_call(call, LINEAR, 2);
}

static bool expand_outer(const weft_call *call, weft_tensor *outputs[])
{
    const int64_t column[] = { weft_layout_of(call->inputs[0])->shape[0], 1 };
    outputs[0] = weft_mul(weft_reshape(call->inputs[0], 2, column), call->inputs[1]);
    return outputs[0] != NULL;
}

/* The inputs may be of different types; a product's are of one. */
static bool gradients_of_outer(const weft_gradient *of)
{
    weft_tensor *g = weft_gradient_of_output(of, 0), *a = of->call->inputs[0], *b = of->call->inputs[1];
    weft_dtype dtype = weft_layout_of(g)->dtype;
    return (!weft_gradient_wanted(of, 0) || weft_give_gradient(of, 0, weft_matmul(g, weft_to_type(b, dtype)))) &&
           (!weft_gradient_wanted(of, 1) ||
            weft_give_gradient(of, 1, weft_matmul_ex(g, true, weft_to_type(a, dtype), false)));
}

static const weft_operation operation_outer = {
    .name = "outer",
    .gradient = { .function = gradients_of_outer, .reads = { WEFT_READS_INPUT(1), WEFT_READS_INPUT(0) } },
    .inputs = { { "a", WEFT_TYPES_ALL, false }, { "b", WEFT_TYPES_ALL, false } },
    .expand = expand_outer,
};

weft_tensor *weft_outer(weft_tensor *a, weft_tensor *b)
{
    static const char function[] = "weft_outer";
    weft_tensor *operands[] = { a, b };
    for (int i = 0; i < 2; i++) {
        const char *name = i == 0 ? "a" : "b";
        if (weft_check_tensor(function, name, operands[i]) == NULL) {
            return NULL;
        }
        if (weft_layout_of(operands[i])->ndim != 1) {
            weft_fail(WEFT_ERR_SHAPE, function, "%s has %d dimensions, expected 1", name,
                      weft_layout_of(operands[i])->ndim);
            return NULL;
        }
    }
    return weft_dispatch(
        &(weft_call){ .function = function, .operation = &operation_outer, .num_inputs = 2, .inputs = { a, b } });
}

/* ---- gradients ----------------------------------------------------------------------------------------- */

/* The product over all dimensions but the last: of [.., k] and [.., n], [k, n]. */
static weft_tensor *product_over_rows(const char *function, weft_tensor *a, weft_tensor *b)
{
    weft_call call = { .function = function, .operation = &operation_matmul, .num_inputs = 2, .inputs = { a, b } };
    return product_call(call, OVER_ROWS, 0);
}

/* Dimensions are kept; a vector is a matrix of one row, or of one column. */
typedef struct matrices {
    weft_tensor *a, *b, *g; /* g: the gradient of the product */
    bool transpose_a, transpose_b;
} matrices;

static matrices matrices_of(const weft_gradient *of)
{
    const weft_call *call = of->call;
    int64_t transposes = call->attributes.numbers[TRANSPOSES];
    matrices m = { call->inputs[A], call->inputs[B], weft_gradient_of_output(of, 0), transposes & 1, transposes & 2 };
    bool row = weft_layout_of(m.a)->ndim == 1, column = weft_layout_of(m.b)->ndim == 1;
    if (column) {
        m.b = weft_unsqueeze_dim(call->function, m.b, 1);
        m.g = weft_unsqueeze_dim(call->function, m.g, weft_layout_of(m.g)->ndim);
    }
    if (row) {
        m.a = weft_unsqueeze_dim(call->function, m.a, 0);
        m.g = m.g == NULL ? NULL : weft_unsqueeze_dim(call->function, m.g, weft_layout_of(m.g)->ndim - 1);
    }
    return m;
}

/* The gradient a = g b^T, or its transpose; leading dimensions that a lacks are summed. */
static bool give_a(const weft_gradient *of, const matrices *m)
{
    weft_tensor *gradient = m->transpose_a ? weft_matmul_ex(m->b, m->transpose_b, m->g, true)
                                           : weft_matmul_ex(m->g, false, m->b, !m->transpose_b);
    return weft_give_gradient(of, A, gradient);
}

/* The gradient b = a^T g, or its transpose. One b for all leading dimensions of a is summed in the
 * product. */
static bool give_b(const weft_gradient *of, const matrices *m)
{
    const char *function = of->call->function;
    bool shared = weft_layout_of(m->b)->ndim == 2 && !m->transpose_a;
    weft_tensor *gradient = shared && m->transpose_b ? product_over_rows(function, m->g, m->a)
                            : shared                 ? product_over_rows(function, m->a, m->g)
                            : m->transpose_b         ? weft_matmul_ex(m->g, true, m->a, m->transpose_a)
                                                     : weft_matmul_ex(m->a, !m->transpose_a, m->g, false);
    bool column = weft_layout_of(of->call->inputs[B])->ndim == 1;
    if (column && gradient != NULL) {
        int last = weft_layout_of(gradient)->ndim - 1;
        gradient = weft_squeeze_dims(function, gradient, (int64_t)1 << last);
    }
    return weft_give_gradient(of, B, gradient);
}

/* For alpha a b + beta c; the form determines whether c and the two numbers exist. */
static bool gradients_of_matmul(const weft_gradient *of)
{
    const weft_call *call = of->call;
    double alpha = call->scalars[ALPHA], beta = call->scalars[BETA];
    bool adds = call->attributes.numbers[FORM] == ADDMM;
    if (call->attributes.numbers[FORM] == OVER_ROWS) {
        weft_tensor *g = weft_gradient_of_output(of, 0), *a = call->inputs[A], *b = call->inputs[B];
        return (!weft_gradient_wanted(of, A) || weft_give_gradient(of, A, weft_matmul_ex(b, false, g, true))) &&
               (!weft_gradient_wanted(of, B) || weft_give_gradient(of, B, weft_matmul(a, g)));
    }
    matrices m = matrices_of(of);
    if (adds && alpha != 1 && m.g != NULL) {
        m.g = weft_scale(m.g, alpha);
    }
    return m.a != NULL && m.b != NULL && m.g != NULL && (!weft_gradient_wanted(of, A) || give_a(of, &m)) &&
           (!weft_gradient_wanted(of, B) || give_b(of, &m)) &&
           (!adds || !weft_gradient_wanted(of, C) ||
            weft_give_gradient(of, C, weft_scale(weft_gradient_of_output(of, 0), beta)));
}

static bool gradients_of_linear(const weft_gradient *of)
{
    const weft_call *call = of->call;
    weft_tensor *g = weft_gradient_of_output(of, 0), *x = call->inputs[A], *weight = call->inputs[B];
    bool row = weft_layout_of(x)->ndim == 1;
    return (!weft_gradient_wanted(of, A) || weft_give_gradient(of, A, weft_matmul(g, weight))) &&
           (!weft_gradient_wanted(of, B) ||
            weft_give_gradient(of, B, row ? weft_outer(g, x) : product_over_rows(call->function, g, x))) &&
           (call->num_inputs <= C || !weft_gradient_wanted(of, C) || weft_give_gradient(of, C, g));
}

const weft_operation *const weft_matmul_operations[] = {
    &operation_matmul,
    &operation_linear,
    &operation_outer,
    NULL,
};
