/* Sums. */
#include "codelets/linear.h"
#include "ops/ops.h"

/* One task: sums of `n` elements each. False with the error kept. */
static weft_sum_args *begin_sum(weft_task *task, const weft_lowering *lowering, int64_t outer, int64_t n,
                                int64_t inner)
{
    weft_sum_args *args = weft_task_begin(task, &weft_codelet_sum, lowering->call->operation->name,
                                          sizeof(*args), lowering->output->layout->dtype);
    if (args != NULL) {
        args->outer = outer;
        args->n = n;
        args->inner = inner;
    }
    return args;
}

/* The output is one panel, to which every panel of the input adds, in their order: `inner` sums of all its
 * rows. */
static bool add_panels(const weft_lowering *lowering, int64_t inner)
{
    const weft_tensor *input = lowering->inputs[0];
    const weft_local_shard *shard = weft_lowering_input(lowering, 0);
    int64_t row_elements = weft_row_elements(input->layout->ndim, &shard->box);
    for (int64_t panel = 0; panel < shard->num_panels; panel++) {
        int64_t first, last;
        weft_panel_range(input->layout, &shard->box, panel, &first, &last);
        weft_task task;
        weft_sum_args *args = begin_sum(&task, lowering, 1, (last - first) * row_elements / inner, inner);
        if (args == NULL) {
            return false;
        }
        args->accumulate = panel > 0;
        weft_task_add(&task, &weft_lowering_output(lowering)->panels[0], 0, panel > 0 ? STARPU_RW : STARPU_W);
        weft_task_add(&task, &shard->panels[panel], 0, STARPU_R);
        if (!weft_task_submit(&task)) {
            return false;
        }
    }
    return true;
}

/* ---- over one dimension -------------------------------------------------------------------------------- */

/* Product of the extents of dimensions first .. last - 1. */
static int64_t extents(const weft_local_shard *shard, int first, int last)
{
    int64_t product = 1;
    for (int d = first; d < last; d++) {
        product *= shard->box.extent[d];
    }
    return product;
}

/* Sums over another dimension than the first: row by row. */
static bool lower_rows(const weft_lowering *lowering, int dim)
{
    const weft_local_shard *input = weft_lowering_input(lowering, 0);
    int64_t inner = extents(input, dim + 1, lowering->inputs[0]->layout->ndim);
    weft_row_walk walk;
    for (weft_rows_begin(&walk, lowering, 1); weft_rows_next(&walk);) {
        weft_task task;
        int64_t outer = (walk.last - walk.first) * extents(input, 1, dim);
        if (begin_sum(&task, lowering, outer, input->box.extent[dim], inner) == NULL) {
            return false;
        }
        weft_rows_add_output(&task, &walk);
        weft_rows_add_input(&task, &walk, 0);
        if (!weft_task_submit(&task)) {
            return false;
        }
    }
    return true;
}

static bool lower_sum(const weft_lowering *lowering)
{
    const weft_local_shard *input = weft_lowering_input(lowering, 0);
    int dim = (int)lowering->call->attributes.leading;
    if (input->count == 0) {
        return weft_lower_fill(lowering, 0);
    }
    return dim > 0 ? lower_rows(lowering, dim)
                   : add_panels(lowering, weft_row_elements(lowering->inputs[0]->layout->ndim, &input->box));
}

/* attributes.leading: the dimension; attributes.rule: keepdim. Dimension 0 of more than one is always kept:
 * so the output is one panel. */
static const weft_operation operation_sum = {
    .name = "sum",
    .rules = { "AbC->AC", "AbC->A1C" },
    .linear = { .kind = WEFT_LINEAR_JOINTLY, .ops = WEFT_LINEAR_OPS },
    .inputs = { { "a", WEFT_TYPES_WIDE | WEFT_TYPES_INDEX, true } },
    .lower = lower_sum,
};

static weft_tensor *sum(weft_tensor *a, int dim, bool keepdim)
{
    return weft_dispatch(&(weft_call){
        .function = "weft_sum",
        .operation = &operation_sum,
        .num_inputs = 1,
        .inputs = { a },
        .attributes = { .rule = keepdim ? 1 : 0, .leading = dim },
    });
}

weft_tensor *weft_sum(weft_tensor *a, int dim, bool keepdim)
{
    a = weft_check_tensor("weft_sum", "a", a);
    if (a == NULL) {
        return NULL;
    }
    int ndim = a->layout->ndim;
    if (ndim == 0) {
        weft_fail(WEFT_ERR_SHAPE, "weft_sum", "a is a scalar: it has no dimension %d", dim);
        return NULL;
    }
    dim = weft_check_dim("weft_sum", "dim", dim, ndim);
    if (dim < 0) {
        return NULL;
    }
    if (dim > 0 || ndim == 1 || keepdim) {
        return sum(a, dim, keepdim);
    }
    weft_scope_open();
    weft_tensor *kept = sum(a, 0, true);
    weft_tensor *result = kept == NULL ? NULL : weft_squeeze_first("weft_sum", kept);
    if (result != NULL) {
        weft_scope_keep(result);
    }
    weft_scope_close();
    return result;
}

/* ---- over all ------------------------------------------------------------------------------------------ */

static bool lower_sum_all(const weft_lowering *lowering)
{
    return weft_lowering_input(lowering, 0)->count == 0 ? weft_lower_fill(lowering, 0)
                                                        : add_panels(lowering, 1);
}

static const weft_operation operation_sum_all = {
    .name = "sum_all",
    .rules = { "A->" },
    .linear = { .kind = WEFT_LINEAR_JOINTLY, .ops = WEFT_LINEAR_OPS },
    .inputs = { { "a", WEFT_TYPES_WIDE | WEFT_TYPES_INDEX, true } },
    .lower = lower_sum_all,
};

weft_tensor *weft_sum_all(weft_tensor *a)
{
    return weft_dispatch(&(weft_call){
        .function = "weft_sum_all", .operation = &operation_sum_all, .num_inputs = 1, .inputs = { a } });
}

const weft_operation *const weft_sum_operations[] = {
    &operation_sum,
    &operation_sum_all,
    NULL,
};
