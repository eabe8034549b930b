/* The lowering of elementwise operations: a task for each piece of rows of the output that lies in one
 * panel of every operand. Inputs with fewer dimensions than the output broadcast along its rows; if one of
 * these has several panels, a task is also limited to the columns of one of them. */
#include <string.h>

#include "codelets/elementwise.h"
#include "dispatch/dispatch.h"
#include "runtime/last_cache.h"

typedef struct elementwise {
    const weft_lowering *lowering;
    weft_dtype common; /* type that operands are converted to */
    weft_dtype arithmetic;
    unsigned converted; /* bit i + 1: input i must be converted; for the others it makes no difference */
    unsigned aligned;   /* bit i: rows of input i are rows of the output */
    unsigned absent;    /* bit i: input i is an addend of another rank (weft_operation.joins) */
    weft_kernel_id kernel;
    bool streams;       /* the output leaves the caches before it is read */
    int64_t strides[WEFT_MAX_ELEMENTWISE_INPUTS]
                   [WEFT_MAX_DIMS]; /* in the output's dimensions; 0: broadcast */
} elementwise;

/* A task's part of the output: rows of the current piece, global columns [first, last) in each further
 * dimension; and the panel of each broadcast input. */
typedef struct part {
    int64_t first[WEFT_MAX_DIMS], last[WEFT_MAX_DIMS];
    int64_t panel[WEFT_MAX_ELEMENTWISE_INPUTS];
} part;

/* ---- what depends on the operation --------------------------------------------------------------------- */

/* Whether a conversion is computed in the type of its input: a common type would round a first time, or there is none. */
static bool converts_once(weft_dtype from, weft_dtype to)
{
    const unsigned bits = WEFT_TYPE_BIT(to), of_integers = WEFT_TYPES_INTEGER | WEFT_TYPES_BOOL | (WEFT_TYPES_FLOAT & ~WEFT_TYPES_WIDE);
    return weft_dtype_is_stored(from) || weft_dtype_is_stored(to) ||
           ((WEFT_TYPES_INTEGER & WEFT_TYPE_BIT(from)) != 0 && (of_integers & bits) != 0);
}

/* As in PyTorch: operands are converted to one type, 16-bit ones are computed in single precision, and the
 * result is rounded once. Operations on floating types take WEFT_F32 for integers. */
static weft_dtype common_type(const weft_lowering *lowering)
{
    weft_dtype first = lowering->inputs[0]->dtype, to = lowering->output->dtype;
    if (lowering->operation->kernel == WEFT_KERNEL_convert && converts_once(first, to)) {
        return weft_dtype_is_complex(to) ? to : first;
    }
    weft_dtype type = weft_promoted(lowering->num_inputs, lowering->inputs);
    weft_output_type kind = lowering->operation->outputs[0].type;
    if (kind == WEFT_TYPE_GIVEN || kind == WEFT_TYPE_COMPLEX) {
        type = weft_promote(type, lowering->output->dtype);
    }
    bool integers = weft_kernel_infos[lowering->operation->kernel].integers;
    return weft_dtype_has_gradient(type) || integers ? type : WEFT_F32;
}

static bool is_single(const weft_layout *layout)
{
    int64_t count = 0;
    weft_count_checked(layout->ndim, layout->shape, &count);
    return count == 1;
}

/* As in PyTorch, a one-element factor does not round the other operands first. */
static bool has_exact_scalar(weft_kernel_id kernel)
{
    return kernel == WEFT_KERNEL_mul || kernel == WEFT_KERNEL_div;
}

/* A single input has the common type, or is converted by the kernel. */
static bool must_convert(const elementwise *e, int input)
{
    const weft_layout *layout = e->lowering->inputs[input];
    return e->lowering->num_inputs > 1 && e->absent == 0 && weft_conversion_matters(layout->dtype, e->common) &&
           !(has_exact_scalar(e->lowering->operation->kernel) && input == 1 && is_single(layout));
}

/* Functions of floating numbers alone take longer than memory does, and longest in short pieces. */
static bool outgrows_cache(const weft_lowering *lowering)
{
    return weft_kernel_infos[lowering->operation->kernel].integers && !lowering->operation->outputs[0].in_place &&
           weft_outgrows_cache(lowering->output);
}

void weft_elementwise_types(const weft_lowering *lowering, weft_elementwise_args *args)
{
    elementwise e = { .lowering = lowering, .common = common_type(lowering) };
    memset(args, 0, sizeof(*args));
    args->base.dtype = weft_arithmetic_type(e.common);
    args->common = e.common;
    args->streams = outgrows_cache(lowering);
    args->types[0] = lowering->output->dtype;
    for (int i = 0; i < lowering->num_inputs; i++) {
        args->types[i + 1] = lowering->inputs[i]->dtype;
        args->converted |= must_convert(&e, i) ? 2u << i : 0;
    }
}

static bool is_absent(const elementwise *e, int input)
{
    return e->absent >> input & 1;
}

static bool is_aligned(const weft_layout *output, const weft_layout *input)
{
    return input->ndim == output->ndim && (output->ndim == 0 || input->shape[0] == output->shape[0]);
}

static void set_strides(elementwise *e, int input)
{
    const weft_layout *layout = e->lowering->inputs[input], *output = e->lowering->output;
    int64_t own[WEFT_MAX_DIMS];
    weft_box_strides(layout->ndim, &weft_lowering_input(e->lowering, input)->box, own);
    int missing = output->ndim - layout->ndim;
    for (int d = 0; d < output->ndim; d++) {
        bool repeated = d < missing || layout->shape[d - missing] != output->shape[d];
        e->strides[input][d] = repeated ? 0 : own[d - missing];
    }
}

static elementwise prepare(const weft_lowering *lowering)
{
    elementwise e = { .lowering = lowering, .common = common_type(lowering), .kernel = lowering->operation->kernel };
    for (int i = 0; i < lowering->num_inputs && lowering->operation->joins != 0; i++) {
        e.absent |= weft_lowering_adds(lowering, i) ? 0 : 1u << i;
    }
    e.kernel = e.absent != 0 ? WEFT_KERNEL_convert : e.kernel;
    e.arithmetic = weft_arithmetic_type(e.common);
    e.streams = outgrows_cache(lowering);
    for (int i = 0; i < lowering->num_inputs; i++) {
        set_strides(&e, i);
        e.converted |= must_convert(&e, i) ? 2u << i : 0;
        e.aligned |= !is_absent(&e, i) && is_aligned(lowering->output, lowering->inputs[i]) ? 1u << i : 0;
    }
    return e;
}

/* ---- one task ------------------------------------------------------------------------------------------ */

/* Bytes from the beginning of an aligned operand's row to the part's columns. */
static int64_t column_offset(const elementwise *e, const part *p, const int64_t strides[], weft_dtype type)
{
    const weft_box *box = &weft_lowering_output(e->lowering)->box;
    int64_t elements = 0;
    for (int d = 1; d < e->lowering->output->ndim; d++) {
        elements += (p->first[d] - box->offset[d]) * strides[d];
    }
    return elements * (int64_t)weft_dtype_size(type);
}

/* Bytes from the beginning of a broadcast input's panel. */
static int64_t offset_across(const elementwise *e, const part *p, int input)
{
    const weft_layout *layout = e->lowering->inputs[input];
    const weft_shard_info *shard = weft_lowering_input(e->lowering, input);
    int64_t offset = column_offset(e, p, e->strides[input], layout->dtype);
    int dim = e->lowering->output->ndim - layout->ndim;
    if (p->panel[input] > 0) {
        int64_t first, last;
        weft_panel_range(layout, &shard->box, p->panel[input], &first, &last);
        offset -=
            (first - shard->box.offset[0]) * e->strides[input][dim] * (int64_t)weft_dtype_size(layout->dtype);
    }
    return offset;
}

static void add_input(const elementwise *e, const weft_row_walk *walk, const part *p, int input)
{
    weft_task_list *tasks = e->lowering->tasks;
    weft_dtype type = e->lowering->inputs[input]->dtype;
    if (e->lowering->operation->outputs[0].in_place && input == 0) {
        int64_t offset = weft_rows_output_offset(walk) + column_offset(e, p, e->strides[0], type);
        weft_task_add(tasks, walk->output, offset, WEFT_SLOT_READ_WRITE);
    } else if (e->aligned & (1u << input)) {
        int64_t offset = weft_rows_input_offset(walk, input) + column_offset(e, p, e->strides[input], type);
        weft_task_add(tasks, walk->inputs[input], offset, WEFT_SLOT_READ);
    } else {
        weft_task_add(tasks, weft_input_slot(e->lowering, input, p->panel[input]), offset_across(e, p, input),
                      WEFT_SLOT_READ);
    }
}

static bool add_task(const elementwise *e, weft_row_walk *walk, const part *p)
{
    const weft_lowering *lowering = e->lowering;
    const weft_layout *output = lowering->output;
    weft_elementwise_args *args = weft_task_begin(lowering->tasks, e->kernel, sizeof(*args));
    int operand = 0;
    if (args == NULL) {
        return false;
    }
    args->base.dtype = e->arithmetic;
    args->ndim = output->ndim;
    args->types[0] = output->dtype;
    args->common = e->common;
    args->converted = e->converted;
    args->streams = e->streams;
    for (int d = 0; d < output->ndim; d++) {
        args->extent[d] = d == 0 ? walk->last - walk->first : p->last[d] - p->first[d];
    }
    weft_box_strides(output->ndim, &weft_lowering_output(lowering)->box, args->stride[0]);
    weft_task_add(lowering->tasks, walk->output,
                  weft_rows_output_offset(walk) + column_offset(e, p, args->stride[0], output->dtype),
                  walk->access);
    for (int i = 0; i < lowering->num_inputs; i++) {
        if (is_absent(e, i)) {
            continue;
        }
        args->types[++operand] = lowering->inputs[i]->dtype;
        for (int d = 0; d < output->ndim; d++) {
            args->stride[operand][d] = e->strides[i][d];
        }
        add_input(e, walk, p, i);
    }
    walk->access = WEFT_SLOT_READ_WRITE;
    return weft_rows_end_task(walk);
}

/* ---- all tasks ----------------------------------------------------------------------------------------- */

/* Narrows the part to one panel of each broadcast input from `input` on. */
static bool split(const elementwise *e, weft_row_walk *walk, const part *whole, int input)
{
    const weft_lowering *lowering = e->lowering;
    while (input < lowering->num_inputs &&
           (((e->aligned | e->absent) & (1u << input)) || weft_lowering_input(lowering, input)->num_panels <= 1)) {
        input++;
    }
    if (input == lowering->num_inputs) {
        return add_task(e, walk, whole);
    }
    const weft_layout *layout = lowering->inputs[input];
    const weft_shard_info *shard = weft_lowering_input(lowering, input);
    int dim = lowering->output->ndim - layout->ndim;
    for (int64_t panel = 0; panel < shard->num_panels; panel++) {
        int64_t first, last;
        weft_panel_range(layout, &shard->box, panel, &first, &last);
        part narrow = *whole;
        narrow.panel[input] = panel;
        narrow.first[dim] = weft_max_i64(narrow.first[dim], first);
        narrow.last[dim] = weft_min_i64(narrow.last[dim], last);
        if (narrow.first[dim] < narrow.last[dim] && !split(e, walk, &narrow, input + 1)) {
            return false;
        }
    }
    return true;
}

bool weft_lower_elementwise(const weft_lowering *lowering)
{
    elementwise e = prepare(lowering);
    if (lowering->num_inputs > 0 && e.absent == (1u << lowering->num_inputs) - 1) {
        return weft_lower_fill(lowering, (weft_exact){ 0, 0 });
    }
    const weft_box *box = &weft_lowering_output(lowering)->box;
    part whole = { .panel = { 0 } };
    for (int d = 0; d < lowering->output->ndim; d++) {
        whole.first[d] = box->offset[d];
        whole.last[d] = box->offset[d] + box->extent[d];
    }
    weft_row_walk walk;
    for (weft_rows_begin(&walk, lowering, e.aligned); weft_rows_next(&walk);) {
        if (!split(&e, &walk, &whole, 0)) {
            return false;
        }
    }
    return true;
}
