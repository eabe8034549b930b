/* The softmax cross-entropy of logits with class numbers, and its gradient. */
#include "codelets/lookup.h"
#include "ops/ops.h"

#include <math.h>

static void report_target(const char *operation, int64_t value, int64_t limit)
{
    (void)operation;
    weft_fail_later(WEFT_ERR_INVALID, "weft_cross_entropy", "targets has %lld, expected 0 to %lld",
                    (long long)value, (long long)limit - 1);
}

static void report_target_backward(const char *operation, int64_t value, int64_t limit)
{
    (void)operation;
    weft_fail_later(WEFT_ERR_INVALID, "weft_cross_entropy_backward", "targets has %lld, expected 0 to %lld",
                    (long long)value, (long long)limit - 1);
}

/* Input 0 is the logits, input 1 the targets. The mean is over all rows, on every rank. */
static weft_cross_entropy_args *begin_task(weft_task *task, struct starpu_codelet *codelet,
                                           const weft_lowering *lowering, int64_t rows)
{
    const weft_layout *logits = lowering->inputs[0]->layout;
    weft_cross_entropy_args *args =
        weft_task_begin(task, codelet, lowering->call->operation->name, sizeof(*args), logits->dtype);
    if (args != NULL) {
        args->index_type = lowering->inputs[1]->layout->dtype;
        args->rows = rows;
        args->classes = logits->shape[1];
        args->scale = 1.0 / (double)logits->shape[0];
    }
    return args;
}

/* There are rows, but nothing to choose from. */
static bool check_classes(const char *function, const weft_tensor *logits)
{
    const weft_layout *layout = logits->layout;
    if (layout->ndim == 2 && layout->shape[0] > 0 && layout->shape[1] == 0) {
        weft_fail(WEFT_ERR_SHAPE, function, "logits has 0 classes for %lld rows",
                  (long long)layout->shape[0]);
        return false;
    }
    return true;
}

/* ---- forward ------------------------------------------------------------------------------------------- */

/* The output is one element, to which every piece of rows adds, in their order. */
static bool lower_cross_entropy(const weft_lowering *lowering)
{
    const weft_tensor *logits = lowering->inputs[0], *targets = lowering->inputs[1];
    const weft_local_shard *logits_shard = weft_lowering_input(lowering, 0);
    const weft_local_shard *targets_shard = weft_lowering_input(lowering, 1);
    if (logits->layout->shape[0] == 0) {
        return weft_lower_fill(lowering, NAN); /* 0 / 0, as in PyTorch */
    }
    if (logits_shard->count == 0) {
        return weft_lower_fill(lowering, 0);
    }
    int64_t classes = logits->layout->shape[1];
    int64_t begin = logits_shard->box.offset[0], end = begin + logits_shard->box.extent[0];
    for (int64_t row = begin, last; row < end; row = last) {
        int64_t logits_first, logits_last, targets_first, targets_last;
        const weft_panel *logits_panel =
            weft_shard_panel_at(logits, logits_shard, row, &logits_first, &logits_last);
        const weft_panel *targets_panel =
            weft_shard_panel_at(targets, targets_shard, row, &targets_first, &targets_last);
        last = weft_min_i64(logits_last, targets_last);
        weft_task task;
        weft_cross_entropy_args *args = begin_task(&task, &weft_codelet_cross_entropy, lowering, last - row);
        if (args == NULL) {
            return false;
        }
        args->first = row == begin;
        args->report = report_target;
        weft_task_add(&task, &weft_lowering_output(lowering)->panels[0], 0,
                      row == begin ? STARPU_W : STARPU_RW);
        weft_task_add(&task, logits_panel,
                      (row - logits_first) * classes * (int64_t)weft_dtype_size(logits->layout->dtype),
                      STARPU_R);
        weft_task_add(&task, targets_panel,
                      (row - targets_first) * (int64_t)weft_dtype_size(targets->layout->dtype), STARPU_R);
        if (!weft_task_submit(&task)) {
            return false;
        }
    }
    return true;
}

static const weft_operation operation_cross_entropy = {
    .name = "cross_entropy",
    .rules = { "n[c],n->" },
    .inputs = { { "logits", WEFT_TYPES_WIDE, true }, { "targets", WEFT_TYPES_INDEX, false } },
    .lower = lower_cross_entropy,
};

weft_tensor *weft_cross_entropy(weft_tensor *logits, weft_tensor *targets)
{
    static const char function[] = "weft_cross_entropy";
    logits = weft_check_tensor(function, "logits", logits);
    if (logits == NULL || !check_classes(function, logits)) {
        return NULL;
    }
    return weft_dispatch(&(weft_call){ .function = function,
                                       .operation = &operation_cross_entropy,
                                       .num_inputs = 2,
                                       .inputs = { logits, targets } });
}

/* ---- gradient of the logits ---------------------------------------------------------------------------- */

static bool lower_cross_entropy_backward(const weft_lowering *lowering)
{
    bool has_gradient = lowering->call->num_inputs == 3;
    weft_row_walk walk;
    for (weft_rows_begin(&walk, lowering, 3u); weft_rows_next(&walk);) {
        weft_task task;
        weft_cross_entropy_args *args =
            begin_task(&task, &weft_codelet_cross_entropy_backward, lowering, walk.last - walk.first);
        if (args == NULL) {
            return false;
        }
        args->has_gradient = has_gradient;
        args->report = report_target_backward;
        weft_rows_add_output(&task, &walk);
        weft_rows_add_input(&task, &walk, 0);
        weft_rows_add_input(&task, &walk, 1);
        if (has_gradient) {
            weft_task_add(&task, &weft_lowering_input(lowering, 2)->panels[0], 0, STARPU_R);
        }
        if (!weft_task_submit(&task)) {
            return false;
        }
    }
    return true;
}

/* Linear in `gradient`, but that is a scalar: reducing it is cheaper than carrying a Partial result on. */
static const weft_operation operation_cross_entropy_backward = {
    .name = "cross_entropy_backward",
    .rules = { "n[c],n->n[c]", "n[c],n,->n[c]" },
    .inputs = { { "logits", WEFT_TYPES_WIDE, true },
                { "targets", WEFT_TYPES_INDEX, false },
                { "gradient", WEFT_TYPES_WIDE, true } },
    .lower = lower_cross_entropy_backward,
};

weft_tensor *weft_cross_entropy_backward(weft_tensor *gradient, weft_tensor *logits, weft_tensor *targets)
{
    static const char function[] = "weft_cross_entropy_backward";
    logits = weft_check_tensor(function, "logits", logits);
    if (logits == NULL || !check_classes(function, logits)) {
        return NULL;
    }
    return weft_dispatch(&(weft_call){
        .function = function,
        .operation = &operation_cross_entropy_backward,
        .num_inputs = gradient == NULL ? 2 : 3,
        .inputs = { logits, targets, gradient },
        .attributes = { .rule = gradient == NULL ? 0 : 1 },
    });
}

const weft_operation *const weft_cross_entropy_operations[] = {
    &operation_cross_entropy,
    &operation_cross_entropy_backward,
    NULL,
};
