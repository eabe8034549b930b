/* Elementwise operations, with broadcasting. */
#include "codelets/elementwise.h"
#include "ops/ops.h"

/* ---- lowering ------------------------------------------------------------------------------------------ */

/* The part of a row piece that one task computes: all of it, or, where an input with fewer dimensions than
 * the output has several panels, what meets one of them. Global indices of output dimension `dim`. */
typedef struct column_range {
    int dim; /* -1: all columns */
    int64_t first, last;
} column_range;

/* The tensors that are read; in place the target is input 0. */
static int first_read(const weft_lowering *lowering)
{
    return lowering->call->operation->in_place ? 1 : 0;
}

static bool is_aligned(const weft_layout *output, const weft_layout *input)
{
    return input->ndim == output->ndim && (output->ndim == 0 || input->shape[0] == output->shape[0]);
}

static unsigned aligned_inputs(const weft_lowering *lowering)
{
    unsigned aligned = 0;
    for (int i = first_read(lowering); i < lowering->call->num_inputs; i++) {
        if (is_aligned(lowering->output->layout, lowering->inputs[i]->layout)) {
            aligned |= 1u << i;
        }
    }
    return aligned;
}

/* The input that is cut into panels along another dimension than the output's rows, or -1. There is at most
 * one: the output has as many dimensions as its largest input, and a row that is repeated is one panel. */
static int cut_input(const weft_lowering *lowering)
{
    for (int i = first_read(lowering); i < lowering->call->num_inputs; i++) {
        if (!is_aligned(lowering->output->layout, lowering->inputs[i]->layout) &&
            weft_lowering_input(lowering, i)->num_panels > 1) {
            return i;
        }
    }
    return -1;
}

/* Strides of an input in the output's dimensions: 0 where it is repeated. */
static void input_strides(const weft_lowering *lowering, int input, int64_t strides[WEFT_MAX_DIMS])
{
    const weft_layout *layout = lowering->inputs[input]->layout, *output = lowering->output->layout;
    int64_t own[WEFT_MAX_DIMS];
    weft_box_strides(layout->ndim, &weft_lowering_input(lowering, input)->box, own);
    int missing = output->ndim - layout->ndim;
    for (int d = 0; d < output->ndim; d++) {
        bool repeated = d < missing || layout->shape[d - missing] != output->shape[d];
        strides[d] = repeated ? 0 : own[d - missing];
    }
}

/* Bytes between an operand's first element and the first one of the range. */
static int64_t range_offset(const weft_lowering *lowering, const column_range *range, const int64_t strides[])
{
    if (range->dim < 0) {
        return 0;
    }
    int64_t columns = range->first - weft_lowering_output(lowering)->box.offset[range->dim];
    return columns * strides[range->dim] * (int64_t)weft_dtype_size(lowering->output->layout->dtype);
}

static void set_extents(weft_elementwise_args *args, const weft_row_walk *walk, const column_range *range)
{
    const weft_lowering *lowering = walk->lowering;
    args->ndim = lowering->output->layout->ndim;
    for (int d = 0; d < args->ndim; d++) {
        args->extent[d] = weft_lowering_output(lowering)->box.extent[d];
    }
    if (args->ndim > 0) {
        args->extent[0] = walk->last - walk->first;
    }
    if (range->dim >= 0) {
        args->extent[range->dim] = range->last - range->first;
    }
}

/* One task. `cut`: the input whose panel `panel` the range is, or -1. */
static bool submit_piece(const weft_row_walk *walk, struct starpu_codelet *codelet, const column_range *range,
                         int cut, int64_t panel)
{
    const weft_lowering *lowering = walk->lowering;
    weft_task task;
    weft_elementwise_args *args = weft_task_begin(&task, codelet, lowering->call->operation->name,
                                                  sizeof(*args), lowering->output->layout->dtype);
    if (args == NULL) {
        return false;
    }
    args->alpha = lowering->call->scalar;
    set_extents(args, walk, range);
    weft_box_strides(args->ndim, &weft_lowering_output(lowering)->box, args->stride[0]);
    weft_task_add(&task, walk->output,
                  weft_rows_output_offset(walk) + range_offset(lowering, range, args->stride[0]),
                  lowering->call->operation->in_place ? STARPU_RW : walk->mode);
    for (int i = first_read(lowering), operand = 1; i < lowering->call->num_inputs; i++, operand++) {
        input_strides(lowering, i, args->stride[operand]);
        int64_t offset = range_offset(lowering, range, args->stride[operand]);
        if (i == cut) {
            weft_task_add(&task, &weft_lowering_input(lowering, i)->panels[panel], 0, STARPU_R);
        } else if (walk->aligned & (1u << i)) {
            weft_task_add(&task, walk->inputs[i], weft_rows_input_offset(walk, i) + offset, STARPU_R);
        } else {
            weft_task_add(&task, &weft_lowering_input(lowering, i)->panels[0], offset, STARPU_R);
        }
    }
    return weft_task_submit(&task);
}

/* The tasks of one piece of rows: one for each panel of the input that is cut along other dimensions. */
static bool lower_piece(weft_row_walk *walk, struct starpu_codelet *codelet, int cut)
{
    if (cut < 0) {
        return submit_piece(walk, codelet, &(column_range){ .dim = -1 }, -1, 0);
    }
    const weft_tensor *tensor = walk->lowering->inputs[cut];
    const weft_local_shard *shard = weft_lowering_input(walk->lowering, cut);
    column_range range = { .dim = walk->lowering->output->layout->ndim - tensor->layout->ndim };
    for (int64_t panel = 0; panel < shard->num_panels; panel++) {
        weft_panel_range(tensor->layout, &shard->box, panel, &range.first, &range.last);
        if (!submit_piece(walk, codelet, &range, cut, panel)) {
            return false;
        }
        walk->mode = STARPU_RW;
    }
    return true;
}

static bool lower_elementwise(const weft_lowering *lowering, struct starpu_codelet *codelet)
{
    int cut = cut_input(lowering);
    weft_row_walk walk;
    for (weft_rows_begin(&walk, lowering, aligned_inputs(lowering)); weft_rows_next(&walk);) {
        if (!lower_piece(&walk, codelet, cut)) {
            return false;
        }
    }
    return true;
}

/* ---- the operations ------------------------------------------------------------------------------------ */

static bool lower_add(const weft_lowering *lowering)
{
    return lower_elementwise(lowering, &weft_codelet_add);
}

const weft_operation weft_operation_add = {
    .name = "add",
    .rules = { "...,...->..." },
    .linear = { .kind = WEFT_LINEAR_JOINTLY, .ops = WEFT_LINEAR_OPS },
    .inputs = { { "a", WEFT_TYPES_NUMBER, true }, { "b", WEFT_TYPES_NUMBER, true } },
    .lower = lower_add,
};

weft_tensor *weft_add(weft_tensor *a, weft_tensor *b)
{
    return weft_dispatch(&(weft_call){
        .function = "weft_add", .operation = &weft_operation_add, .num_inputs = 2, .inputs = { a, b } });
}

static bool lower_sub(const weft_lowering *lowering)
{
    return lower_elementwise(lowering, &weft_codelet_sub);
}

const weft_operation weft_operation_sub = {
    .name = "sub",
    .rules = { "...,...->..." },
    .linear = { .kind = WEFT_LINEAR_JOINTLY, .ops = WEFT_LINEAR_OPS },
    .inputs = { { "a", WEFT_TYPES_NUMBER, true }, { "b", WEFT_TYPES_NUMBER, true } },
    .lower = lower_sub,
};

weft_tensor *weft_sub(weft_tensor *a, weft_tensor *b)
{
    return weft_dispatch(&(weft_call){
        .function = "weft_sub", .operation = &weft_operation_sub, .num_inputs = 2, .inputs = { a, b } });
}

static bool lower_mul(const weft_lowering *lowering)
{
    return lower_elementwise(lowering, &weft_codelet_mul);
}

const weft_operation weft_operation_mul = {
    .name = "mul",
    .rules = { "...,...->..." },
    .linear = { .kind = WEFT_LINEAR_EACH, .inputs = 1u << 0 | 1u << 1, .ops = WEFT_LINEAR_OPS },
    .inputs = { { "a", WEFT_TYPES_NUMBER, true }, { "b", WEFT_TYPES_NUMBER, true } },
    .lower = lower_mul,
};

weft_tensor *weft_mul(weft_tensor *a, weft_tensor *b)
{
    return weft_dispatch(&(weft_call){
        .function = "weft_mul", .operation = &weft_operation_mul, .num_inputs = 2, .inputs = { a, b } });
}

static bool lower_scale(const weft_lowering *lowering)
{
    return lower_elementwise(lowering, &weft_codelet_scale);
}

const weft_operation weft_operation_scale = {
    .name = "scale",
    .rules = { "A->A" },
    .linear = { .kind = WEFT_LINEAR_JOINTLY, .ops = WEFT_LINEAR_OPS },
    .inputs = { { "a", WEFT_TYPES_FLOAT, true } },
    .lower = lower_scale,
};

weft_tensor *weft_scale(weft_tensor *a, double factor)
{
    return weft_dispatch(&(weft_call){ .function = "weft_scale",
                                       .operation = &weft_operation_scale,
                                       .num_inputs = 1,
                                       .inputs = { a },
                                       .scalar = factor });
}

static bool lower_axpy(const weft_lowering *lowering)
{
    return lower_elementwise(lowering, &weft_codelet_axpy);
}

const weft_operation weft_operation_add_in_place = {
    .name = "add_",
    .rules = { "...,...->..." },
    .linear = { .kind = WEFT_LINEAR_JOINTLY, .ops = WEFT_LINEAR_OPS },
    .inputs = { { "a", WEFT_TYPES_FLOAT, true }, { "b", WEFT_TYPES_FLOAT, true } },
    .in_place = true,
    .lower = lower_axpy,
};

weft_tensor *weft_add_(weft_tensor *a, weft_tensor *b, double alpha)
{
    return weft_dispatch(&(weft_call){ .function = "weft_add_",
                                       .operation = &weft_operation_add_in_place,
                                       .num_inputs = 2,
                                       .inputs = { a, b },
                                       .scalar = alpha });
}

static bool lower_relu(const weft_lowering *lowering)
{
    return lower_elementwise(lowering, &weft_codelet_relu);
}

const weft_operation weft_operation_relu = {
    .name = "relu",
    .rules = { "A->A" },
    .inputs = { { "a", WEFT_TYPES_FLOAT, true } },
    .lower = lower_relu,
};

weft_tensor *weft_relu(weft_tensor *a)
{
    return weft_dispatch(&(weft_call){
        .function = "weft_relu", .operation = &weft_operation_relu, .num_inputs = 1, .inputs = { a } });
}

static bool lower_relu_backward(const weft_lowering *lowering)
{
    return lower_elementwise(lowering, &weft_codelet_relu_backward);
}

const weft_operation weft_operation_relu_backward = {
    .name = "relu_backward",
    .rules = { "A,A->A" },
    .linear = { .kind = WEFT_LINEAR_EACH, .inputs = 1u << 0, .ops = WEFT_LINEAR_OPS },
    .inputs = { { "gradient", WEFT_TYPES_FLOAT, true }, { "input", WEFT_TYPES_FLOAT, true } },
    .lower = lower_relu_backward,
};

weft_tensor *weft_relu_backward(weft_tensor *gradient, weft_tensor *input)
{
    return weft_dispatch(&(weft_call){ .function = "weft_relu_backward",
                                       .operation = &weft_operation_relu_backward,
                                       .num_inputs = 2,
                                       .inputs = { gradient, input } });
}

static bool lower_gelu(const weft_lowering *lowering)
{
    return lower_elementwise(lowering, &weft_codelet_gelu);
}

const weft_operation weft_operation_gelu = {
    .name = "gelu",
    .rules = { "A->A" },
    .inputs = { { "a", WEFT_TYPES_FLOAT, true } },
    .lower = lower_gelu,
};

weft_tensor *weft_gelu(weft_tensor *a)
{
    return weft_dispatch(&(weft_call){
        .function = "weft_gelu", .operation = &weft_operation_gelu, .num_inputs = 1, .inputs = { a } });
}

static bool lower_gelu_backward(const weft_lowering *lowering)
{
    return lower_elementwise(lowering, &weft_codelet_gelu_backward);
}

const weft_operation weft_operation_gelu_backward = {
    .name = "gelu_backward",
    .rules = { "A,A->A" },
    .linear = { .kind = WEFT_LINEAR_EACH, .inputs = 1u << 0, .ops = WEFT_LINEAR_OPS },
    .inputs = { { "gradient", WEFT_TYPES_FLOAT, true }, { "input", WEFT_TYPES_FLOAT, true } },
    .lower = lower_gelu_backward,
};

weft_tensor *weft_gelu_backward(weft_tensor *gradient, weft_tensor *input)
{
    return weft_dispatch(&(weft_call){ .function = "weft_gelu_backward",
                                       .operation = &weft_operation_gelu_backward,
                                       .num_inputs = 2,
                                       .inputs = { gradient, input } });
}
