/* The road of every operation: checks, layouts, moves, the output, its tasks. */
#include <string.h>

#include "comm/calls.h"
#include "dispatch/cache.h"
#include "dispatch/inputs.h"

/* False with the error kept. */
static bool check_inputs(const weft_call *call, weft_tensor_impl *inputs[])
{
    for (int i = 0; i < call->num_inputs; i++) {
        inputs[i] = weft_check_tensor(call->function, call->operation->inputs[i].name, call->inputs[i]);
        if (inputs[i] == NULL) {
            return false;
        }
    }
    return true;
}

/* One tensor that is several inputs is moved once. */
static weft_tensor_impl *moved_before(const weft_call *call, const weft_lowering *lowering, int input,
                                      const weft_layout *wanted)
{
    for (int i = 0; i < input; i++) {
        if (call->inputs[i] == call->inputs[input] && lowering->inputs[i]->layout == wanted) {
            return lowering->inputs[i];
        }
    }
    return NULL;
}

/* Brings the inputs into the layouts chosen. New tensors belong to the innermost scope. */
static bool move_inputs(const weft_call *call, const weft_choice *choice, weft_lowering *lowering)
{
    for (int i = 0; i < call->num_inputs; i++) {
        const weft_layout *wanted = choice->inputs[i];
        weft_tensor_impl *given = lowering->inputs[i];
        if (given->layout == wanted) {
            continue;
        }
        lowering->inputs[i] = moved_before(call, lowering, i, wanted);
        if (lowering->inputs[i] == NULL) {
            lowering->inputs[i] = weft_tensor_to_layout(call->function, given, wanted);
        }
        if (lowering->inputs[i] == NULL) {
            return false;
        }
    }
    return true;
}

/* Where a dimension that is seen through windows is sharded, ranks get what they need of their neighbours'.
 * `windows`: of this input, as long as the lowering lasts. */
static bool make_windows(const weft_call *call, const weft_choice *choice, weft_lowering *lowering, int input,
                         weft_windows *windows)
{
    const weft_layout *layout = choice->inputs[input];
    weft_window of[WEFT_MAX_DIMS] = { { 0 } };
    for (int d = 0; d < layout->ndim; d++) {
        if (choice->window_rows[input][d] >= 0) {
            of[d] = call->operation->window(call, input, d);
        }
    }
    if (!weft_windows_make(weft_runtime.layouts, layout, choice->window_rows[input], of, windows)) {
        weft_fail(WEFT_ERR_NOMEM, call->function, "no memory for a layout");
        return false;
    }
    if (windows->cut == NULL) {
        return true;
    }
    lowering->windows[input] = windows;
    windows->placed =
        call->operation->places && windows->cut == choice->output && weft_windows_consecutive(windows);
    if (windows->placed) {
        return true;
    }
    lowering->inputs[input] = weft_tensor_windows(call->function, lowering->inputs[input], windows);
    return lowering->inputs[input] != NULL;
}

static bool make_all_windows(const weft_call *call, const weft_choice *choice, weft_lowering *lowering,
                             weft_windows windows[])
{
    for (int i = 0; i < call->num_inputs; i++) {
        if (!make_windows(call, choice, lowering, i, &windows[i])) {
            return false;
        }
    }
    return true;
}

static bool lower_shards(const weft_call *call, weft_lowering *lowering)
{
    const weft_operation *operation = call->operation;
    weft_lower_function lower = operation->lower != NULL         ? operation->lower
                                : operation->elementwise != NULL ? weft_lower_elementwise
                                                                 : weft_lower_kernel;
    weft_runtime.operations++;
    for (int i = 0; i < lowering->output->num_shards; i++) {
        lowering->shard = i;
        if (lowering->output->shards[i].count > 0 && !lower(lowering)) {
            return false;
        }
    }
    return true;
}

static bool place_windows(const weft_call *call, const weft_lowering *lowering)
{
    for (int i = 0; i < call->num_inputs; i++) {
        const weft_windows *windows = lowering->windows[i];
        if (windows != NULL && windows->placed &&
            !weft_tensor_place(call->function, lowering->output, lowering->inputs[i], windows)) {
            return false;
        }
    }
    return true;
}

/* The output with its tasks submitted; NULL with the error kept. A new tensor belongs to the innermost scope.
 */
static weft_tensor_impl *make_output(const weft_call *call, const weft_choice *choice,
                                     weft_lowering *lowering)
{
    const weft_operation *operation = call->operation;
    if (operation->in_place) {
        lowering->output = lowering->inputs[0];
        if (operation->overwrites && call->num_inputs > 1 &&
            weft_tensor_take(lowering->output, lowering->inputs[1])) {
            return lowering->output;
        }
        bool writable = weft_tensor_make_writable(call->function, lowering->output, !operation->overwrites);
        return writable && lower_shards(call, lowering) && place_windows(call, lowering) ? lowering->output
                                                                                         : NULL;
    }
    if (operation->views) {
        int64_t row = operation->first_row == NULL ? 0 : operation->first_row(lowering);
        weft_tensor_impl *view =
            row < 0 ? NULL : weft_tensor_view(call->function, lowering->inputs[0], row, choice->output);
        if (view != NULL) {
            return view;
        }
    }
    lowering->output = weft_tensor_new(call->function, choice->output);
    if (lowering->output == NULL) {
        return NULL;
    }
    return lower_shards(call, lowering) && place_windows(call, lowering) ? lowering->output : NULL;
}

/* The target is another input as well, and tasks that write to some of it may read more: what was there
 * before the call is meant. Elementwise tasks read what they write. */
static bool reads_target(const weft_call *call)
{
    const weft_operation *operation = call->operation;
    bool reads = false;
    for (int i = 1; i < call->num_inputs && operation->in_place && operation->elementwise == NULL; i++) {
        reads |= call->inputs[i] == call->inputs[0];
    }
    return reads;
}

/* Gives those inputs a copy, of the innermost scope. Others that share the target's memory keep it:
 * weft_tensor_make_writable(). False with the error kept. */
static bool copy_target(const weft_call *call, weft_lowering *lowering)
{
    weft_tensor_impl *target = lowering->inputs[0];
    weft_tensor_impl *copy = weft_tensor_new(call->function, target->layout);
    if (copy == NULL || !weft_tensor_copy_into(call->function, copy, target)) {
        return false;
    }
    for (int i = 1; i < call->num_inputs; i++) {
        if (lowering->inputs[i] == target) {
            lowering->inputs[i] = copy;
        }
    }
    return true;
}

static bool needs_moves(const weft_call *call, const weft_choice *choice, weft_tensor_impl *const inputs[])
{
    if (choice->has_windows || reads_target(call)) {
        return true;
    }
    for (int i = 0; i < call->num_inputs; i++) {
        if (inputs[i]->layout != choice->inputs[i]) {
            return true;
        }
    }
    return false;
}

/* `valid`: the inputs are live tensors that fit together. */
static bool admit(const weft_call *call, weft_tensor_impl *const inputs[], bool valid)
{
    if (weft_runtime.comm == NULL) {
        return true;
    }
    const weft_attributes *attributes = &call->attributes;
    const weft_layout *layouts[WEFT_MAX_INPUTS];
    enum { OWN = 3, MOST = OWN + WEFT_MAX_SCALARS + WEFT_MAX_SIZES + WEFT_MAX_ATTRIBUTES };
    double numbers[MOST] = { (double)attributes->rule, (double)attributes->leading,
                             (double)attributes->type };
    int num_numbers = OWN;
    for (int i = 0; i < WEFT_MAX_SCALARS; i++) {
        numbers[num_numbers++] = call->scalars[i];
    }
    for (int i = 0; i < attributes->num_sizes; i++) {
        numbers[num_numbers++] = (double)attributes->sizes[i];
    }
    for (int i = 0; i < attributes->num_numbers; i++) {
        numbers[num_numbers++] = (double)attributes->numbers[i];
    }
    while (num_numbers > 0 && numbers[num_numbers - 1] == 0) {
        num_numbers--; /* most operations have few of them */
    }
    for (int i = 0; valid && i < call->num_inputs; i++) {
        layouts[i] = inputs[i]->layout;
    }
    return weft_call_admit(&(weft_public_call){
        .function = call->function,
        .failed = !valid,
        .num_layouts = valid ? call->num_inputs : 0,
        .layouts = layouts,
        .num_numbers = num_numbers,
        .numbers = numbers,
    });
}

bool weft_dispatch_accepts(const weft_call *call)
{
    weft_tensor_impl *inputs[WEFT_MAX_INPUTS];
    weft_choice own;
    int guessed;
    return check_inputs(call, inputs) && weft_obtain_layouts(call, inputs, &own, &guessed) != NULL;
}

weft_tensor *weft_dispatch(const weft_call *call)
{
    weft_lowering lowering = { .call = call };
    weft_tensor_impl **inputs = lowering.inputs;
    weft_choice own;
    int guessed = -1;
    const weft_choice *choice =
        check_inputs(call, inputs) ? weft_obtain_layouts(call, inputs, &own, &guessed) : NULL;
    if (!admit(call, inputs, choice != NULL) || choice == NULL) {
        return NULL;
    }
    if (guessed >= 0) {
        weft_warn_of_guess(call, guessed, inputs[guessed]->layout);
    }
    lowering.choice = choice;
    memcpy(lowering.windows, call->windows, sizeof(lowering.windows));
    if (!needs_moves(call, choice, inputs)) {
        return weft_tensor_handle(make_output(call, choice, &lowering));
    }
    weft_windows windows[WEFT_MAX_INPUTS] = { { 0 } };
    weft_scope_open();
    bool done = move_inputs(call, choice, &lowering) &&
                (!reads_target(call) || copy_target(call, &lowering)) &&
                (!choice->has_windows || make_all_windows(call, choice, &lowering, windows));
    weft_tensor *output = done ? weft_tensor_handle(make_output(call, choice, &lowering)) : NULL;
    if (output != NULL && !call->operation->in_place) {
        weft_scope_keep(output);
    }
    weft_scope_close();
    return output;
}
