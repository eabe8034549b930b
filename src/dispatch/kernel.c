/* The lowering of operations that have a kernel: the rule says which rows of each input a task needs. */
#include <string.h>

#include "codelets/kernel.h"
#include "codelets/move.h"
#include "dispatch/dispatch.h"

/* Rows [first, last) of a shard, by their global numbers, as an operand. */
typedef struct part {
    const weft_tensor_impl *tensor;
    const weft_windows *windows; /* of the tensor, or NULL */
    const weft_local_shard *shard;
    int64_t first, last;
    int64_t first_panel, num_panels;
    const weft_panel *own; /* of one panel: memory in place of the shard's; or NULL */
    enum starpu_data_access_mode mode;
} part;

static part part_of(const weft_tensor_impl *tensor, const weft_local_shard *shard, int64_t first,
                    int64_t last)
{
    part p = { .tensor = tensor, .shard = shard, .first = first, .last = last, .mode = STARPU_R };
    if (shard->count > 0 && last > first) {
        p.first_panel = weft_panel_of_row(tensor->layout, &shard->box, first);
        p.num_panels = weft_panel_of_row(tensor->layout, &shard->box, last - 1) - p.first_panel + 1;
    }
    return p;
}

static part whole_shard(const weft_tensor_impl *tensor, const weft_local_shard *shard)
{
    int64_t first = tensor->layout->ndim == 0 ? 0 : shard->box.offset[0];
    return part_of(tensor, shard, first, first + (tensor->layout->ndim == 0 ? 1 : shard->box.extent[0]));
}

static part panel_part(const weft_tensor_impl *tensor, const weft_local_shard *shard, int64_t panel)
{
    int64_t first, last;
    weft_panel_range(tensor->layout, &shard->box, panel, &first, &last);
    return part_of(tensor, shard, first, last);
}

/* Of a tensor of windows: as a part of the tensor that they are windows of. What its memory has room for
 * behind the window is part of the extent. */
static void move_windows(weft_view *view, const part *p)
{
    weft_box box;
    weft_windows_rank_box(p->windows, p->shard->rank, &box);
    for (int d = 0; d < view->ndim; d++) {
        if (p->windows->has[d]) {
            view->shape[d] = p->windows->of[d].size;
            view->offset[d] = box.offset[d];
        }
    }
}

static weft_view view_of(const part *p)
{
    const weft_layout *layout = p->tensor->layout;
    weft_view view = { .dtype = layout->dtype,
                       .ndim = layout->ndim,
                       .row_elements = weft_row_elements(layout->ndim, &p->shard->box),
                       .panel_rows = layout->panel_rows };
    for (int d = 0; d < layout->ndim; d++) {
        view.shape[d] = layout->shape[d];
        view.offset[d] = p->shard->box.offset[d];
        view.extent[d] = p->shard->box.extent[d];
    }
    if (layout->ndim > 0) {
        view.offset[0] = p->first;
        view.extent[0] = p->last - p->first;
    }
    if (p->windows != NULL) {
        move_windows(&view, p);
    }
    return view;
}

/* The first row of a part may lie inside a panel. */
static int64_t offset_in_panel(const part *p, int64_t panel)
{
    if (panel > p->first_panel || p->tensor->layout->ndim == 0) {
        return 0;
    }
    int64_t first, last;
    weft_panel_range(p->tensor->layout, &p->shard->box, panel, &first, &last);
    return (p->first - first) * weft_row_elements(p->tensor->layout->ndim, &p->shard->box) *
           (int64_t)weft_dtype_size(p->tensor->layout->dtype);
}

static void add_part(weft_task *task, weft_kernel_args *args, weft_kernel_operand *operand, const part *p)
{
    operand->view = view_of(p);
    operand->first_panel = args->num_panels;
    operand->num_panels = (int)p->num_panels;
    for (int64_t i = 0; i < p->num_panels; i++) {
        int64_t panel = p->first_panel + i;
        const weft_panel *memory = p->own != NULL ? p->own : &p->shard->panels[panel];
        args->panels[args->num_panels++] =
            weft_task_operand_of(task, memory, offset_in_panel(p, panel), p->mode);
    }
}

/* One task: the output's part, and the inputs'. */
static bool submit(const weft_lowering *lowering, const part *output, const part inputs[], int num_inputs,
                   bool first, bool last)
{
    const weft_call *call = lowering->call;
    int64_t num_panels = output->num_panels;
    for (int i = 0; i < num_inputs; i++) {
        num_panels += inputs[i].num_panels;
    }
    if (num_panels > WEFT_KERNEL_MAX_PANELS) {
        weft_fail_alone(WEFT_ERR_UNSUPPORTED, call->function,
                        "a task would need %lld panels, and takes at most %d: WEFT_PANEL_ROWS is too small",
                        (long long)num_panels, WEFT_KERNEL_MAX_PANELS);
        return false;
    }
    weft_task task;
    weft_kernel_args *args =
        weft_task_begin(&task, &weft_codelet_kernel, call->operation->name,
                        weft_kernel_args_size((int)num_panels), lowering->output->layout->dtype);
    if (args == NULL) {
        return false;
    }
    if (!weft_task_reserve(&task, (int)num_panels)) {
        weft_task_drop(&task);
        return false;
    }
    args->kernel = call->operation->kernel;
    args->function = call->function;
    args->fail = weft_fail_later;
    args->first = first;
    args->last = last;
    args->num_inputs = num_inputs;
    memcpy(args->numbers, call->attributes.numbers, sizeof(args->numbers));
    memcpy(args->scalars, call->scalars, sizeof(args->scalars));
    add_part(&task, args, &args->output, output);
    for (int i = 0; i < num_inputs; i++) {
        add_part(&task, args, &args->inputs[i], &inputs[i]);
    }
    task.position =
        weft_row_position(lowering->output->layout, weft_lowering_output(lowering)->rank, output->first);
    return weft_task_submit(&task);
}

/* The tensors that are read: in place, the target is input 0. */
static int first_read(const weft_lowering *lowering)
{
    return lowering->call->operation->in_place ? 1 : 0;
}

/* The parts of all inputs for rows [first, last) of what has relation `same` to them. */
static int choose_parts(const weft_lowering *lowering, weft_rows_relation same, int64_t first, int64_t last,
                        part parts[])
{
    int count = 0;
    for (int i = first_read(lowering); i < lowering->call->num_inputs; i++) {
        const weft_tensor_impl *tensor = lowering->inputs[i];
        const weft_local_shard *shard = weft_lowering_input(lowering, i);
        parts[count] = lowering->choice->rows[i] == same && same != WEFT_ROWS_ALL
                           ? part_of(tensor, shard, first, last)
                           : whole_shard(tensor, shard);
        parts[count++].windows = lowering->windows[i];
    }
    return count;
}

static bool lower_output(const weft_lowering *lowering, part output, bool in_place)
{
    part inputs[WEFT_MAX_INPUTS];
    output.mode = in_place ? STARPU_RW : STARPU_W;
    int count = choose_parts(lowering, WEFT_ROWS_SAME, output.first, output.last, inputs);
    return submit(lowering, &output, inputs, count, true, true);
}

/* Pieces [from, to) of the rows that are contracted, those of the panels of input 0, one after another. */
static bool accumulate_pieces(const weft_lowering *lowering, part output, int64_t from, int64_t to)
{
    const weft_tensor_impl *driver = lowering->inputs[0];
    const weft_local_shard *shard = weft_lowering_input(lowering, 0);
    for (int64_t piece = from; piece < to; piece++) {
        part rows = shard->num_panels == 0 ? whole_shard(driver, shard) : panel_part(driver, shard, piece);
        part inputs[WEFT_MAX_INPUTS];
        int count = choose_parts(lowering, WEFT_ROWS_SUMMED, rows.first, rows.last, inputs);
        output.mode = piece == from ? STARPU_W : STARPU_RW;
        if (!submit(lowering, &output, inputs, count, piece == from, piece == to - 1)) {
            return false;
        }
    }
    return true;
}

/* Pieces wait for each other. So they are shared out among groups, each of which gives what a rank would that
 * has its rows alone; then these are put together as ranks' are. How many groups there are follows from sizes,
 * not from workers: results repeat. */
enum { MOST_GROUPS = WEFT_MAX_OPERANDS };

static int64_t output_bytes(const weft_lowering *lowering, const part *output)
{
    const weft_layout *layout = lowering->output->layout;
    return (output->last - output->first) * weft_row_elements(layout->ndim, &output->shard->box) *
           (int64_t)weft_dtype_size(layout->dtype);
}

static int64_t groups_of(const weft_lowering *lowering, const part *output, int64_t pieces)
{
    const weft_local_shard *shard = weft_lowering_input(lowering, 0);
    int64_t input_bytes = shard->count * (int64_t)weft_dtype_size(lowering->inputs[0]->layout->dtype);
    int64_t groups = weft_min_i64(MOST_GROUPS, pieces / 2);
    /* What is written and read again is little beside what is read. */
    groups = weft_min_i64(groups, input_bytes / (4 * output_bytes(lowering, output)));
    return lowering->call->operation->in_place ? 1 : weft_max_i64(1, groups);
}

/* output = output op others[1] op ..., in their order. */
static bool combine(const weft_lowering *lowering, const part *output, weft_buffer *const others[],
                    int64_t groups)
{
    weft_task task;
    weft_dtype dtype = lowering->output->layout->dtype;
    weft_reduce_args *args =
        weft_task_begin(&task, &weft_codelet_reduce, lowering->call->operation->name, sizeof(*args), dtype);
    if (args == NULL) {
        return false;
    }
    int64_t count = output_bytes(lowering, output) / (int64_t)weft_dtype_size(dtype);
    args->combine = (weft_combine)lowering->call->operation->linear.contracts;
    args->accumulate = true;
    args->scale = 1;
    weft_task_add(&task, &output->shard->panels[output->first_panel], 0, STARPU_RW);
    for (int64_t g = 1; g < groups; g++) {
        args->boxes[g - 1] = (weft_strided_box){
            .ndim = 1, .extent = { count }, .source_stride = { 1 }, .target_stride = { 1 }
        };
        weft_task_add(&task, &others[g]->panels[0], 0, STARPU_R);
    }
    task.position =
        weft_row_position(lowering->output->layout, weft_lowering_output(lowering)->rank, output->first);
    return weft_task_submit(&task);
}

static bool accumulate(const weft_lowering *lowering, part output)
{
    int64_t pieces = weft_max_i64(1, weft_lowering_input(lowering, 0)->num_panels);
    int64_t groups = groups_of(lowering, &output, pieces), bytes = output_bytes(lowering, &output);
    weft_buffer *others[MOST_GROUPS] = { NULL };
    bool done = true;
    for (int64_t g = 1; g < groups && done; g++) {
        others[g] = weft_buffer_new(weft_runtime.pool, (weft_cut){ bytes, bytes, bytes });
        done = others[g] != NULL;
    }
    if (!done) {
        weft_fail(WEFT_ERR_NOMEM, lowering->call->function, "no memory for parts of a result");
    }
    for (int64_t g = 0; g < groups && done; g++) {
        part own = output;
        own.own = g == 0 ? NULL : &others[g]->panels[0];
        done = accumulate_pieces(lowering, own, pieces * g / groups, pieces * (g + 1) / groups);
    }
    done = done && (groups == 1 || combine(lowering, &output, others, groups));
    for (int64_t g = 1; g < groups; g++) {
        if (others[g] != NULL) {
            weft_buffer_release(others[g]);
        }
    }
    return done;
}

static bool has_windows_of_rows(const weft_lowering *lowering)
{
    bool has = false;
    for (int i = 0; i < lowering->call->num_inputs; i++) {
        has |= lowering->windows[i] != NULL && lowering->windows[i]->has[0];
    }
    return has;
}

bool weft_lower_kernel(const weft_lowering *lowering)
{
    if (has_windows_of_rows(lowering)) {
        weft_fail(WEFT_ERR_UNSUPPORTED, lowering->call->function,
                  "the rule has windows along dimension 0, where kernels take rows by number");
        return false;
    }
    const weft_operation *operation = lowering->call->operation;
    const weft_local_shard *shard = weft_lowering_output(lowering);
    bool by_piece = operation->accumulates && lowering->choice->rows[0] == WEFT_ROWS_SUMMED;
    if (lowering->choice->whole_rows) {
        return lower_output(lowering, whole_shard(lowering->output, shard), operation->in_place);
    }
    for (int64_t panel = 0; panel < shard->num_panels; panel++) {
        part output = panel_part(lowering->output, shard, panel);
        if (!(by_piece ? accumulate(lowering, output)
                       : lower_output(lowering, output, operation->in_place))) {
            return false;
        }
    }
    return true;
}
