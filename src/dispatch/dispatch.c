/* The road of every operation: checks, layouts, moves, the output, its tasks. */
#include <string.h>

#include "codelets/random.h"
#include "dispatch/cache.h"
#include "dispatch/check.h"
#include "dispatch/inputs.h"
#include "tensor/run.h"

/* The tensors of a call on their way. */
typedef struct operands {
    const weft_call *call;
    const weft_sharding *sharding;
    weft_tensor_impl *inputs[WEFT_MAX_INPUTS];          /* as given, then in the layouts that were chosen */
    const weft_access_map *access_map[WEFT_MAX_INPUTS]; /* see weft_lowering */
    weft_tensor_impl *output;
    weft_cached_call *cached; /* where its tasks are kept; NULL: nowhere */
} operands;

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
static weft_tensor_impl *moved_before(const operands *o, int input, const weft_layout *wanted)
{
    const weft_call *call = o->call;
    for (int i = 0; i < input; i++) {
        if (call->inputs[i] == call->inputs[input] && o->inputs[i]->layout == wanted) {
            return o->inputs[i];
        }
    }
    return NULL;
}

/* Brings the inputs into the layouts chosen. New tensors belong to the innermost scope. */
static bool move_inputs(operands *o)
{
    for (int i = 0; i < o->call->num_inputs; i++) {
        const weft_layout *wanted = o->sharding->inputs[i];
        weft_tensor_impl *given = o->inputs[i];
        if (given->layout == wanted) {
            continue;
        }
        o->inputs[i] = moved_before(o, i, wanted);
        if (o->inputs[i] == NULL) {
            o->inputs[i] = weft_tensor_to_layout(o->call->function, given, wanted);
        }
        if (o->inputs[i] == NULL) {
            return false;
        }
    }
    return true;
}

/* Where a dimension that is seen through windows is sharded, ranks get what they need of their neighbours'.
 * `windows`: of this input, as long as the call lasts. */
static bool make_access(operands *o, int input, weft_access_map *access_map)
{
    const weft_call *call = o->call;
    const weft_sharding *sharding = o->sharding;
    const weft_layout *layout = sharding->inputs[input];
    weft_window of[WEFT_MAX_DIMS] = { { 0 } };
    weft_call_layouts layouts = { call->operation, call->num_inputs, { NULL }, &call->attributes };
    memcpy(layouts.inputs, sharding->inputs, sizeof(layouts.inputs));
    for (int d = 0; d < layout->ndim; d++) {
        if (sharding->window_rows[input][d] >= 0) {
            of[d] = call->operation->window(&layouts, input, d);
        }
    }
    if (!weft_access_map_make(weft_runtime.layouts, layout, sharding->window_rows[input], of, access_map)) {
        weft_fail(WEFT_ERR_NOMEM, call->function, "no memory for a layout");
        return false;
    }
    if (access_map->cut == NULL) {
        return true;
    }
    o->access_map[input] = access_map;
    access_map->placed = call->operation->places && access_map->cut == sharding->output &&
                         weft_access_map_consecutive(access_map);
    if (access_map->placed) {
        return true;
    }
    o->inputs[input] = weft_tensor_access(call->function, o->inputs[input], access_map);
    return o->inputs[input] != NULL;
}

static bool make_all_access(operands *o, weft_access_map access_map[])
{
    for (int i = 0; i < o->call->num_inputs; i++) {
        if (!make_access(o, i, &access_map[i])) {
            return false;
        }
    }
    return true;
}

/* What the lowering is told of the call: no tensor. */
static weft_lowering begin_lowering(const operands *o, weft_task_list *tasks)
{
    const weft_call *call = o->call;
    weft_lowering lowering = { .function = call->function,
                               .operation = call->operation,
                               .attributes = &call->attributes,
                               .num_inputs = call->num_inputs,
                               .output = o->sharding->output,
                               .sharding = o->sharding,
                               .tasks = tasks };
    for (int i = 0; i < call->num_inputs; i++) {
        lowering.inputs[i] = o->inputs[i]->layout;
        lowering.access_map[i] = o->access_map[i];
    }
    return lowering;
}

/* Appends the tasks of all shards that are hosted here. False with the error kept. */
static bool lower_shards(const operands *o, weft_task_list *tasks)
{
    weft_lowering lowering = begin_lowering(o, tasks);
    const weft_operation *operation = o->call->operation;
    weft_lower_function lower = operation->lower != NULL                        ? operation->lower
                                : weft_kernel_is_elementwise(operation->kernel) ? weft_lower_elementwise
                                                                                : weft_lower_kernel;
    bool done = true;
    for (int i = 0; i < weft_runtime.local_ranks && done; i++) {
        int rank = weft_runtime.first_rank + i;
        lowering.shard = i;
        lowering.output_shard = weft_layout_shard(lowering.output, rank);
        if (lowering.output_shard.count == 0) {
            continue;
        }
        for (int k = 0; k < lowering.num_inputs; k++) {
            lowering.input_shards[k] = weft_layout_shard(lowering.inputs[k], rank);
        }
        done = lower(&lowering);
    }
    done = weft_task_list_finish(tasks) && done;
    if (tasks->failed) {
        weft_fail(WEFT_ERR_NOMEM, o->call->function, "no memory for tasks");
    }
    return done && (weft_runtime.task_cache != WEFT_TASK_CACHE_CHECK || weft_check_lowered(&lowering));
}

/* Whether the tasks that are kept are those that the lowering makes now. False with the error kept. */
static bool check_tasks(const operands *o)
{
    weft_task_list tasks = { .failed = false };
    bool done = lower_shards(o, &tasks), same = done && weft_task_list_equal(&tasks, &o->cached->tasks);
    weft_task_list_free(&tasks);
    if (done && !same) {
        weft_fail_alone(WEFT_ERR_STATE, o->call->function,
                        "the tasks of %s that are kept are not those that a new call makes",
                        o->call->operation->name);
    }
    return same;
}

/* Submits the tasks that make the output. False with the error kept. */
static bool run_tasks(const operands *o)
{
    const weft_call *call = o->call;
    weft_tensor_impl *tensors[WEFT_MAX_INPUTS + 1];
    memcpy(tensors, o->inputs, sizeof(o->inputs));
    tensors[call->num_inputs] = o->output;
    weft_bindings bindings = {
        .name = call->operation->name,
        .function = call->function,
        .tensors = tensors,
        .scalars = call->scalars,
    };
    weft_runtime.operations++;
    weft_cached_call *cached = o->cached;
    if (cached != NULL && cached->has_tasks) {
        bool right = weft_runtime.task_cache != WEFT_TASK_CACHE_CHECK || check_tasks(o);
        return right && weft_task_list_run(&cached->tasks, &bindings);
    }
    weft_task_list tasks = { .failed = false };
    bool done = lower_shards(o, &tasks);
    if (done && cached != NULL && weft_cache_wants_tasks(cached)) {
        weft_cache_keep_tasks(cached, &tasks);
    }
    done =
        done && weft_task_list_run(cached != NULL && cached->has_tasks ? &cached->tasks : &tasks, &bindings);
    weft_task_list_free(&tasks);
    return done;
}

static bool place_access(const operands *o)
{
    for (int i = 0; i < o->call->num_inputs; i++) {
        const weft_access_map *access_map = o->access_map[i];
        if (access_map != NULL && access_map->placed &&
            !weft_tensor_place(o->call->function, o->output, o->inputs[i], access_map)) {
            return false;
        }
    }
    return true;
}

/* The output with its tasks submitted; NULL with the error kept. A new tensor belongs to the innermost scope.
 */
static weft_tensor_impl *make_output(operands *o)
{
    const weft_call *call = o->call;
    const weft_operation *operation = call->operation;
    if (operation->in_place) {
        o->output = o->inputs[0];
        if (operation->overwrites && call->num_inputs > 1 && weft_tensor_take(o->output, o->inputs[1])) {
            return o->output;
        }
        bool writable = weft_tensor_make_writable(call->function, o->output, !operation->overwrites);
        return writable && run_tasks(o) && place_access(o) ? o->output : NULL;
    }
    if (operation->views) {
        weft_lowering lowering = begin_lowering(o, NULL);
        int64_t row = operation->first_row == NULL ? 0 : operation->first_row(&lowering);
        weft_tensor_impl *view =
            row < 0 ? NULL : weft_tensor_view(call->function, o->inputs[0], row, o->sharding->output);
        if (view != NULL) {
            return view;
        }
    }
    o->output = weft_tensor_new(call->function, o->sharding->output);
    return o->output != NULL && run_tasks(o) && place_access(o) ? o->output : NULL;
}

/* The target is another input as well, and tasks that write to some of it may read more: what was there
 * before the call is meant. Elementwise tasks read what they write. */
static bool reads_target(const weft_call *call)
{
    const weft_operation *operation = call->operation;
    bool reads = false;
    bool may = operation->in_place && !weft_kernel_is_elementwise(operation->kernel);
    for (int i = 1; i < call->num_inputs && may; i++) {
        reads |= call->inputs[i] == call->inputs[0];
    }
    return reads;
}

/* Gives those inputs a copy, of the innermost scope. Others that share the target's memory keep it:
 * weft_tensor_make_writable(). False with the error kept. */
static bool copy_target(operands *o)
{
    const weft_call *call = o->call;
    weft_tensor_impl *target = o->inputs[0];
    weft_tensor_impl *copy = weft_tensor_new(call->function, target->layout);
    if (copy == NULL || !weft_tensor_copy_into(call->function, copy, target)) {
        return false;
    }
    for (int i = 1; i < call->num_inputs; i++) {
        if (o->inputs[i] == target) {
            o->inputs[i] = copy;
        }
    }
    return true;
}

static bool needs_moves(const weft_call *call, const weft_sharding *sharding,
                        weft_tensor_impl *const inputs[])
{
    if (sharding->has_access_maps || reads_target(call)) {
        return true;
    }
    for (int i = 0; i < call->num_inputs; i++) {
        if (inputs[i]->layout != sharding->inputs[i]) {
            return true;
        }
    }
    return false;
}

bool weft_dispatch_accepts(const weft_call *call)
{
    weft_tensor_impl *inputs[WEFT_MAX_INPUTS];
    weft_sharding own;
    weft_cached_call *cached;
    int guessed;
    bool accepts =
        check_inputs(call, inputs) && weft_obtain_layouts(call, inputs, &own, &guessed, &cached) != NULL;
    if (!accepts) {
        weft_dispatch_check_spmd(call, inputs, false);
    }
    return accepts;
}

/* Nothing is submitted, and no other process need come along. */
static weft_tensor *make_without_data(const operands *o)
{
    const weft_call *call = o->call;
    weft_tensor *output = NULL;
    if (!call->operation->in_place) {
        output = weft_tensor_handle(weft_tensor_fake(call->function, o->sharding->output));
    } else if (o->inputs[0]->fake) {
        output = call->inputs[0];
    } else {
        weft_fail(WEFT_ERR_STATE, call->function, "%s has data, and another input has none (weft_fake())",
                  call->operation->inputs[0].name);
    }
    bool done = output != NULL && (weft_runtime.steps == NULL || weft_runtime.steps->add(weft_runtime.steps, call, 1, &output));
    return done ? output : NULL;
}

static bool any_without_data(const weft_call *call, weft_tensor_impl *const inputs[])
{
    bool any = false;
    for (int i = 0; i < call->num_inputs; i++) {
        any |= inputs[i]->fake;
    }
    return any;
}

/* The call of an operation that becomes tasks by itself. */
static weft_tensor *dispatch(const weft_call *call)
{
    operands o = { .call = call };
    weft_tensor_impl **inputs = o.inputs;
    weft_sharding own;
    int guessed = -1;
    bool live = check_inputs(call, inputs);
    const weft_sharding *sharding = live ? weft_obtain_layouts(call, inputs, &own, &guessed, &o.cached) : NULL;
    o.sharding = sharding;
    if (live && any_without_data(call, inputs)) {
        return sharding == NULL ? NULL : make_without_data(&o);
    }
    if (!weft_dispatch_check_spmd(call, inputs, sharding != NULL) || sharding == NULL) {
        return NULL;
    }
    if (guessed >= 0) {
        weft_warn_of_guess(call, guessed, inputs[guessed]->layout);
    }
    memcpy(o.access_map, call->access_map, sizeof(o.access_map));
    if (weft_runtime.task_cache == WEFT_TASK_CACHE_OFF) {
        o.cached = NULL;
    }
    if (!needs_moves(call, sharding, inputs)) {
        return weft_tensor_handle(make_output(&o));
    }
    weft_access_map access_map[WEFT_MAX_INPUTS] = { { 0 } };
    weft_scope_open();
    bool done = move_inputs(&o) && (!reads_target(call) || copy_target(&o)) &&
                (!sharding->has_access_maps || make_all_access(&o, access_map));
    weft_tensor *output = done ? weft_tensor_handle(make_output(&o)) : NULL;
    if (output != NULL && !call->operation->in_place) {
        weft_scope_keep(output);
    }
    weft_scope_close();
    return output;
}

/* ---- every call of an operation ------------------------------------------------------------------------- */

/* With the state in use, which has moved on when this succeeds. */
static weft_tensor *dispatch_drawing(const weft_call *call)
{
    weft_call drawing = *call;
    weft_random_state *state = weft_random_in_use();
    weft_random_pack(drawing.scalars + WEFT_RANDOM_SEED, state->seed);
    weft_random_pack(drawing.scalars + WEFT_RANDOM_OFFSET, state->offset);
    weft_tensor *output = dispatch(&drawing);
    state->offset += output != NULL && !weft_tensor_get(output)->fake;
    return output;
}

weft_tensor *weft_dispatch_itself(const weft_call *call)
{
    bool draws = call->operation->draws && weft_require_init(call->function) == WEFT_OK;
    return draws && weft_runtime.steps == NULL ? dispatch_drawing(call) : dispatch(call);
}

static weft_status carry_out(const weft_call *call, weft_tensor *outputs[])
{
    if (weft_call_expands(call)) {
        return weft_composite_call(call, outputs) ? WEFT_OK : weft_latest_status();
    }
    outputs[0] = weft_dispatch_itself(call);
    return outputs[0] != NULL ? WEFT_OK : weft_latest_status();
}

weft_tensor *weft_dispatch(const weft_call *call)
{
    weft_tensor *output = NULL;
    return weft_dispatch_all(call, &output) ? output : NULL;
}

bool weft_dispatch_all(const weft_call *call, weft_tensor *outputs[])
{
    return (weft_is_listened_to() ? weft_call_tell(call, weft_call_num_outputs(call), outputs, carry_out)
                                  : carry_out(call, outputs)) == WEFT_OK;
}

weft_status weft_invoke(const weft_call *call, weft_tensor *outputs[])
{
    if (call->action != NULL) {
        return weft_act(call, outputs);
    }
    return weft_dispatch_all(call, outputs) ? WEFT_OK : weft_latest_status();
}
