/* Tasks of matrix products: a block of C for each panel of A's rows and each panel of B, or, where B is packed first, for all of
 * B. */
#include "codelets/elementwise.h"
#include "ops/matmul.h"

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
    bool apart;     /* of 16 bits, and several tasks add to a block: to a temporary; else the block's task rounds it */
    weft_slot sums; /* this temporary, for the current piece of rows */
    weft_slot_access output_access; /* of the piece, by the task that rounds it */
    int64_t packed_rows; /* not 0: B is packed for products of so many rows */
    weft_slot packed;    /* all of B; transposed, its first panel: others are the next temporaries */
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
    gemm->dtype = weft_wide_type(lowering->output->dtype);
    args->base.dtype = p->apart ? gemm->dtype : lowering->output->dtype;
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
    args->packed_rows = p->packed_rows;
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
    if (p->packed_rows > 0) {
        weft_slot slot = p->packed;
        slot.panel += p->transpose_b ? b->b_panel : 0;
        weft_task_add(lowering->tasks, slot, 0, WEFT_SLOT_READ);
        return;
    }
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

/* Whether the last of the tasks that add to a block rounds it, which then has all of n. */
static bool last_rounds(const product *p)
{
    bool all_of_n = !addend_lies_along_n(p) || weft_lowering_input(p->lowering, C)->num_panels == 1;
    return p->apart && all_of_n;
}

static bool add_block(const product *p, weft_row_walk *walk, const block *b)
{
    const weft_lowering *lowering = p->lowering;
    weft_gemm_args *args = begin_gemm(p, walk, b);
    if (args == NULL) {
        return false;
    }
    if (p->apart) {
        weft_task_add(lowering->tasks, p->sums, b->n_first * (int64_t)sizeof(float), walk->access);
    } else {
        weft_task_add(lowering->tasks, walk->output,
                      weft_rows_output_offset(walk) + element_offset(lowering->output, 0, b->n_first, p->n), walk->access);
    }
    if (args->gemm.k > 0) {
        add_a(p, walk, b);
        add_b(p, b);
    }
    if (b->k_first == 0 && p->adds) {
        add_addend(args, p, walk, b);
    }
    if (b->k_last == p->k && last_rounds(p)) {
        args->rounds = true;
        weft_task_add(lowering->tasks, walk->output, weft_rows_output_offset(walk), p->output_access);
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
    if (p->k == 0 || (p->packed_rows > 0 && !p->transpose_b)) {
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

/* ---- rounding ------------------------------------------------------------------------------------------ */

/* Whether several tasks add to a block. */
static bool adds_up(const product *p)
{
    bool panels_along_k = p->transpose_a || (!p->transpose_b && p->packed_rows == 0);
    return panels_along_k && weft_lowering_input(p->lowering, p->b)->num_panels > 1;
}

static bool add_rounding(const product *p, const weft_row_walk *walk)
{
    const weft_lowering *lowering = p->lowering;
    weft_elementwise_args *args = weft_task_begin(lowering->tasks, WEFT_KERNEL_convert, sizeof(*args));
    if (args == NULL) {
        return false;
    }
    args->base.dtype = args->common = args->types[1] = WEFT_F32;
    args->types[0] = lowering->output->dtype;
    args->ndim = 1;
    args->extent[0] = (walk->last - walk->first) * p->rows * p->n;
    args->stride[0][0] = args->stride[1][0] = 1;
    weft_rows_add_output(walk);
    weft_task_add(lowering->tasks, p->sums, 0, WEFT_SLOT_READ);
    return weft_rows_end_task(walk);
}

/* The sums of a piece, and their rounding. */
static bool lower_rounded_piece(product *p, weft_row_walk *walk)
{
    int64_t count = (walk->last - walk->first) * p->rows * p->n;
    p->output_access = walk->access;
    p->sums = weft_task_new_buffer(p->lowering->tasks, count * (int64_t)sizeof(float)); /* else pieces would wait for each other */
    walk->access = WEFT_SLOT_WRITE;
    bool done = lower_piece(p, walk);
    walk->access = p->output_access;
    done = done && (last_rounds(p) || add_rounding(p, walk));
    walk->access = WEFT_SLOT_READ_WRITE;
    return done;
}

/* ---- packing B ----------------------------------------------------------------------------------------- */

/* The product of a panel of A with B, or, transposed, with its rows [first, last). */
static weft_gemm gemm_of_panel(const product *p, int64_t first, int64_t last)
{
    int64_t rows = p->lowering->output->panel_rows;
    return (weft_gemm){ .dtype = weft_wide_type(p->lowering->output->dtype),
                        .transpose_b = p->transpose_b,
                        .m = weft_min_i64(p->m, weft_mul_saturated(rows, p->rows)),
                        .n = p->transpose_b ? last - first : p->n,
                        .k = p->k,
                        .ldb = p->transpose_b ? p->k : p->n,
                        .alpha = 1 };
}

/* Whether several panels of A meet each part of B, and parts are those that a pack takes. Where k lies along the rows of both,
 * products begin with the first panel that arrives, so nothing waits for all of B. With several processes a pack waits for the
 * products of the call before, whose temporary it gets, and so holds up those that could be computed while messages are under way:
 * a tensor-parallel step on two hosts took 12 % longer. Devices have an order of their own. */
static bool may_pack(const product *p)
{
    const weft_lowering *lowering = p->lowering;
    const weft_layout *layout = lowering->inputs[p->b];
    const weft_shard_info *shard = weft_lowering_input(lowering, p->b);
    if (weft_runtime.num_processes > 1 || weft_runtime.cuda_queues != NULL || p->transpose_a || layout->ndim != 2 || p->k == 0 || p->n == 0 ||
        weft_lowering_output(lowering)->num_panels < 2 || (addend_lies_along_n(p) && weft_lowering_input(lowering, C)->num_panels > 1)) {
        return false;
    }
    for (int64_t panel = 1; panel < shard->num_panels && !p->transpose_b; panel++) {
        int64_t first, last;
        panel_rows(layout, shard, panel, &first, &last);
        if (first % WEFT_PACKED_ROWS != 0) {
            return false;
        }
    }
    return true;
}

static bool add_pack(const product *p, const weft_gemm *gemm, weft_slot slot, int64_t panel, int64_t first, int64_t count)
{
    weft_task_list *tasks = p->lowering->tasks;
    weft_pack_args *args = weft_task_begin(tasks, WEFT_KERNEL_pack, sizeof(*args));
    if (args == NULL) {
        return false;
    }
    args->base.dtype = p->lowering->inputs[p->b]->dtype;
    args->gemm = *gemm;
    args->first = first;
    args->count = count;
    weft_task_add(tasks, slot, 0, first == 0 ? WEFT_SLOT_WRITE : WEFT_SLOT_READ_WRITE);
    weft_task_add(tasks, weft_input_slot(p->lowering, p->b, panel), 0, WEFT_SLOT_READ);
    return weft_task_end(tasks, 0);
}

/* Packs B once for all panels of A, if that pays. False: the list has failed. */
static bool pack_b(product *p)
{
    enum { MAX_BYTES = 256 << 20, MIN_ROWS = 32 }; /* fewer rows wait for B's bytes, which a pack would read and write once more */
    const weft_layout *layout = p->lowering->inputs[p->b];
    const weft_shard_info *shard = weft_lowering_input(p->lowering, p->b);
    int64_t first, last, own = 0, bytes = 0;
    if (!may_pack(p) || gemm_of_panel(p, 0, p->n).m < MIN_ROWS) {
        return true;
    }
    for (int64_t panel = 0; panel < shard->num_panels; panel++) { /* either all of them or none */
        panel_rows(layout, shard, panel, &first, &last);
        weft_gemm gemm = gemm_of_panel(p, first, last);
        if (panel == 0 || p->transpose_b) {
            own = weft_packed_bytes(&gemm, layout->dtype);
            bytes += own;
        }
        if (own == 0 || bytes > MAX_BYTES) {
            return true;
        }
    }
    for (int64_t panel = 0; panel < shard->num_panels; panel++) {
        panel_rows(layout, shard, panel, &first, &last);
        weft_gemm gemm = gemm_of_panel(p, first, last);
        weft_slot slot = p->packed;
        if (panel == 0 || p->transpose_b) {
            slot = weft_task_new_temporary(p->lowering->tasks, weft_packed_bytes(&gemm, layout->dtype));
            p->packed = panel == 0 ? slot : p->packed;
        }
        if (!add_pack(p, &gemm, slot, panel, p->transpose_b ? 0 : first, last - first)) {
            return false;
        }
        p->packed_rows = gemm.m;
    }
    return true;
}

bool weft_lower_product(const weft_lowering *lowering)
{
    product p;
    if (!product_of(lowering, &p)) {
        return weft_lower_kernel(lowering);
    }
    if (!pack_b(&p)) {
        return false;
    }
    unsigned aligned = p.transpose_a ? 0 : 1u << p.a;
    if (p.adds && lowering->sharding->rows[C] == WEFT_ROWS_SAME) {
        aligned |= 1u << C;
    }
    p.apart = weft_wide_type(lowering->output->dtype) != lowering->output->dtype && adds_up(&p);
    weft_row_walk walk;
    for (weft_rows_begin(&walk, lowering, aligned); weft_rows_next(&walk);) {
        if (!(p.apart ? lower_rounded_piece(&p, &walk) : lower_piece(&p, &walk))) {
            return false;
        }
    }
    return true;
}
