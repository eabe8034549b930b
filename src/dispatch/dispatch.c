/* The path of every operation: checks, layouts, redistributions, outputs, tasks. */
#include <string.h>

#include "call/deferral.h"
#include "codelets/random.h"
#include "dispatch/cache.h"
#include "dispatch/check.h"
#include "dispatch/inputs.h"
#include "dispatch/operands.h"
#include "tensor/arguments.h"
#include "tensor/ghosts.h"
#include "tensor/memory.h"
#include "tensor/regions.h"
#include "tensor/run.h"

/* Several inputs changed in place must be different tensors. False with the error kept. */
static bool check_targets(const weft_call *call)
{
    const weft_operation *operation = call->operation;
    for (int t = 1; t < WEFT_MAX_OUTPUTS; t++) {
        for (int i = 0; operation->outputs[t].in_place && i < t; i++) {
            if (operation->outputs[i].in_place && call->inputs[i] == call->inputs[t]) {
                weft_fail(WEFT_ERR_INVALID, call->function, "%s and %s are one tensor, and both are changed",
                          operation->inputs[i].name, operation->inputs[t].name);
                return false;
            }
        }
    }
    return true;
}

/* False with the error kept. */
static bool check_inputs(const weft_call *call, weft_tensor_impl *inputs[])
{
    for (int i = 0; i < call->num_inputs; i++) {
        inputs[i] = weft_check_tensor(call->function, call->operation->inputs[i].name, call->inputs[i]);
        if (inputs[i] == NULL) {
            return false;
        }
    }
    return check_targets(call);
}

/* A tensor that is several inputs is redistributed once. */
static weft_tensor_impl *moved_before(const weft_operands *o, int input, const weft_layout *wanted)
{
    const weft_call *call = o->call;
    for (int i = 0; i < input; i++) {
        if (call->inputs[i] == call->inputs[input] && o->inputs[i]->layout == wanted) {
            return o->inputs[i];
        }
    }
    return NULL;
}

/* Redistributes the inputs to the chosen layouts. New tensors belong to the innermost scope. */
static bool move_inputs(weft_operands *o)
{
    for (int i = 0; i < o->call->num_inputs; i++) {
        const weft_layout *wanted = o->sharding->inputs[i];
        weft_tensor_impl *given = o->inputs[i];
        if (given->layout == wanted || (o->ghosted >> i & 1)) {
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

/* Brings neighbours' rows of an input that is read in place. */
static bool bring_neighbours(weft_operands *o, int input, weft_neighbours *neighbours)
{
    o->neighbours[input] = neighbours;
    for (int s = 0; s < WEFT_ROWS_SIDES; s++) {
        weft_neighbour_rows *side = &neighbours->sides[s];
        if (side->rows == 0) {
            continue;
        }
        weft_tensor_impl *rows = weft_tensor_access(o->call->function, o->inputs[input], &side->map);
        if (rows == NULL) {
            return false;
        }
        side->tensor = o->call->num_inputs + o->num_outputs + o->num_neighbours;
        o->neighbour_rows[o->num_neighbours++] = rows;
    }
    return true;
}

/* The state of a call while it runs. */
typedef struct accesses {
    weft_access_map maps[WEFT_MAX_INPUTS];
    weft_neighbours neighbours[WEFT_MAX_INPUTS];
} accesses;

/* Redistributes an input through its access map: ranks receive other ranks' indices (halo). */
static bool make_access(weft_operands *o, int input, accesses *all)
{
    weft_access_map *access_map = &all->maps[input];
    weft_neighbours *neighbours = &all->neighbours[input];
    const weft_call *call = o->call;
    const weft_sharding *sharding = o->sharding;
    if (!weft_find_access(call, sharding, input, access_map)) {
        return false;
    }
    if (access_map->cut == NULL) {
        return true;
    }
    access_map->placed = weft_is_placed(call, sharding, access_map);
    if (!weft_find_neighbours(call, sharding->inputs[input], access_map, neighbours)) {
        return false;
    }
    if (neighbours->height > 0) {
        return bring_neighbours(o, input, neighbours);
    }
    o->access_map[input] = access_map;
    if (access_map->placed) {
        return true;
    }
    o->inputs[input] = weft_tensor_access(call->function, o->inputs[input], access_map);
    return o->inputs[input] != NULL;
}

static bool make_all_access(weft_operands *o, accesses *all)
{
    for (int i = 0; i < o->call->num_inputs; i++) {
        if (!(o->ghosted >> i & 1) && !make_access(o, i, all)) {
            return false;
        }
    }
    return true;
}

/* The lowering's view of the call: no tensors. */
static weft_lowering begin_lowering(const weft_operands *o, weft_task_list *tasks)
{
    const weft_call *call = o->call;
    weft_lowering lowering = { .function = call->function,
                               .operation = call->operation,
                               .attributes = &call->attributes,
                               .num_inputs = call->num_inputs,
                               .num_outputs = o->num_outputs,
                               .output = o->sharding->outputs[0],
                               .sharding = o->sharding,
                               .tasks = tasks,
                               .ghosted = o->ghosted };
    for (int i = 0; i < call->num_inputs; i++) {
        lowering.inputs[i] = o->inputs[i]->layout;
        lowering.access_map[i] = o->access_map[i];
        lowering.neighbours[i] = o->neighbours[i];
    }
    memcpy(lowering.outputs, o->sharding->outputs, sizeof(lowering.outputs));
    return lowering;
}

static bool lower_shards(const weft_operands *o, weft_task_list *tasks)
{
    weft_lowering lowering = begin_lowering(o, tasks);
    return weft_lower_shards(&lowering) &&
           (weft_runtime.task_cache != WEFT_TASK_CACHE_CHECK || o->ghosted != 0 || weft_check_lowered(&lowering));
}

/* Whether the cached list equals the one that the lowering builds now. False with the error kept. */
static bool check_tasks(const weft_operands *o)
{
    weft_task_list tasks = { .failed = false };
    bool done = lower_shards(o, &tasks), same = done && weft_task_list_equal(&tasks, &o->cached->tasks);
    weft_task_list_free(&tasks);
    if (done && !same) {
        weft_fail_alone(WEFT_ERR_STATE, o->call->function,
                        "the cached task list of %s differs from a new one",
                        o->call->operation->name);
    }
    return same;
}

static bool run_list(const weft_operands *o, const weft_bindings *bindings)
{
    weft_cached_call *cached = weft_runtime.task_cache == WEFT_TASK_CACHE_OFF ? NULL : o->cached;
    if (cached != NULL && cached->has_tasks) {
        bool right = weft_runtime.task_cache != WEFT_TASK_CACHE_CHECK || check_tasks(o);
        return right && weft_task_list_run(&cached->tasks, bindings);
    }
    weft_task_list tasks = { .failed = false };
    bool done = lower_shards(o, &tasks);
    if (done && cached != NULL && weft_cache_wants_tasks(cached)) {
        weft_cache_keep_tasks(cached, &tasks);
    }
    done =
        done && weft_task_list_run(cached != NULL && cached->has_tasks ? &cached->tasks : &tasks, bindings);
    weft_task_list_free(&tasks);
    return done;
}

/* Submits the tasks of the outputs. False with the error kept. */
static bool run_tasks(const weft_operands *o)
{
    const weft_call *call = o->call;
    weft_tensor_impl *tensors[WEFT_MAX_LIST_TENSORS];
    memcpy(tensors, o->inputs, (size_t)call->num_inputs * sizeof(tensors[0]));
    memcpy(tensors + call->num_inputs, o->outputs, (size_t)o->num_outputs * sizeof(tensors[0]));
    memcpy(tensors + call->num_inputs + o->num_outputs, o->neighbour_rows, (size_t)o->num_neighbours * sizeof(tensors[0]));
    weft_bindings bindings = {
        .name = call->operation->name,
        .function = call->function,
        .tensors = tensors,
        .scalars = call->scalars,
        .operation = call->operation,
    };
    weft_runtime.operations++;
    if (call->details != NULL && call->details->context_size > 0) {
        bindings.shared = weft_shared_bytes_copy(call->details->context, call->details->context_size);
        if (bindings.shared == NULL) {
            weft_fail(WEFT_ERR_NOMEM, call->function, "no memory for a context");
            return false;
        }
    } else if (call->details != NULL) {
        bindings.context = call->details->context;
    }
    bool done = run_list(o, &bindings);
    weft_shared_bytes_release(bindings.shared);
    return done;
}

static bool place_access(const weft_operands *o)
{
    for (int i = 0; i < o->call->num_inputs && o->call->operation->places; i++) {
        const weft_access_map *access_map = o->access_map[i];
        if (access_map != NULL && access_map->placed &&
            !weft_tensor_place(o->call->function, o->outputs[0], o->inputs[i], access_map)) {
            return false;
        }
    }
    return true;
}

/* Makes the output input 1 itself, or a view of input 0, if memory allows. False: that is not possible, or there is no memory for
 * a view; then tasks make the output. */
static bool share_memory(weft_operands *o)
{
    const weft_call *call = o->call;
    const weft_operation *operation = call->operation;
    if (operation->overwrites && call->num_inputs > 1 && weft_tensor_take(o->inputs[0], o->inputs[1])) {
        o->outputs[0] = o->inputs[0];
        return true;
    }
    if (!operation->views) {
        return false;
    }
    weft_lowering lowering = begin_lowering(o, NULL);
    int64_t row = operation->first_row == NULL ? 0 : operation->first_row(&lowering);
    o->outputs[0] =
        row < 0 ? NULL : weft_tensor_view(call->function, o->inputs[0], row, o->sharding->outputs[0]);
    return o->outputs[0] != NULL;
}

/* A new tensor; in the memory of an input that nothing needs any more, if it fits. NULL with the error kept. */
static weft_tensor_impl *obtain_output(const weft_operands *o, int output)
{
    const weft_layout *layout = o->sharding->outputs[output];
    weft_tensor_impl *dying = weft_runtime.context.dying;
    for (int i = 0; dying != NULL && i < o->call->num_inputs; i++) {
        if (o->inputs[i] == dying && dying->layout == layout && o->neighbours[i] == NULL) {
            return weft_tensor_new_over(o->call->function, dying);
        }
    }
    return weft_tensor_new(o->call->function, layout);
}

/* Allocates all outputs. False with the error kept. */
static bool obtain_outputs(weft_operands *o)
{
    const weft_call *call = o->call;
    const weft_operation *operation = call->operation;
    for (int i = 0; i < o->num_outputs; i++) {
        bool in_place = operation->outputs[i].in_place;
        o->outputs[i] = in_place ? o->inputs[i] : obtain_output(o, i);
        if (o->outputs[i] == NULL ||
            (in_place && !weft_tensor_make_writable(call->function, o->outputs[i], !operation->overwrites))) {
            return false;
        }
        o->outputs[i]->version += in_place;
    }
    return true;
}

/* Makes the outputs and submits their tasks. New tensors belong to the innermost scope. False with the
 * error kept, and none of them is left. */
static bool make_outputs(weft_operands *o)
{
    bool done = share_memory(o) || (obtain_outputs(o) && run_tasks(o) && place_access(o));
    for (int i = 0; i < o->num_outputs && !done; i++) {
        if (!o->call->operation->outputs[i].in_place) {
            o->outputs[i] = weft_tensor_discard(o->outputs[i]);
        }
    }
    return done;
}

/* Whether an input changed in place is also another input: that one means the values before the call,
 * which some tasks may read after others have written them. Elementwise tasks read only the elements that
 * they write. */
static bool reads_target(const weft_call *call)
{
    const weft_operation *operation = call->operation;
    bool reads = false;
    for (int t = 0; t < WEFT_MAX_OUTPUTS; t++) {
        bool may = operation->outputs[t].in_place && !weft_kernel_is_elementwise(operation->kernel);
        for (int i = 0; i < call->num_inputs && may; i++) {
            reads |= i != t && call->inputs[i] == call->inputs[t];
        }
    }
    return reads;
}

static bool copy_targets(weft_operands *o)
{
    bool done = true;
    for (int t = 0; t < o->num_outputs && done; t++) {
        done = !o->call->operation->outputs[t].in_place ||
               weft_tensors_read_before(o->call->function, o->inputs, 0, o->call->num_inputs, t);
    }
    return done;
}

static bool needs_moves(const weft_operands *o)
{
    const weft_call *call = o->call;
    const weft_sharding *sharding = o->sharding;
    weft_tensor_impl *const *inputs = o->inputs;
    if (sharding->has_access_maps || o->ghosted != 0 || reads_target(call)) {
        return true;
    }
    for (int i = 0; i < call->num_inputs; i++) {
        if (inputs[i]->layout != sharding->inputs[i]) {
            return true;
        }
    }
    return false;
}

/* Whether the inputs that are redistributed, and the outputs, fit each process's memory. False with the error kept, on all processes. */
static bool check_memory(const weft_operands *o)
{
    const weft_call *call = o->call;
    const weft_layout *made[WEFT_MAX_INPUTS + WEFT_MAX_OUTPUTS];
    int count = 0, first = -1;
    for (int i = 0; i < call->num_inputs; i++) {
        if (o->inputs[i]->layout != o->sharding->inputs[i]) {
            first = first < 0 ? i : first;
            made[count++] = o->sharding->inputs[i];
        }
    }
    for (int i = 0; i < o->num_outputs && count > 0; i++) {
        if (!call->operation->outputs[i].in_place) {
            made[count++] = o->sharding->outputs[i];
        }
    }
    return count == 0 || weft_check_memory(call->function, call->operation->inputs[first].name, count, made);
}

/* Submits nothing, and needs no other process. */
static bool make_without_data(weft_operands *o)
{
    const weft_call *call = o->call;
    weft_tensor_impl *changed[WEFT_MAX_OUTPUTS];
    weft_tensor *outputs[WEFT_MAX_OUTPUTS];
    for (int i = 0; i < o->num_outputs; i++) {
        changed[i] = call->operation->outputs[i].in_place ? o->inputs[i] : NULL;
        if (changed[i] != NULL && !changed[i]->fake) {
            weft_fail(WEFT_ERR_STATE, call->function, "%s has data, and another input has none (weft_fake())",
                      call->operation->inputs[i].name);
            return false;
        }
    }
    if (!weft_make_without_data(call, o->num_outputs, o->sharding->outputs, changed, outputs)) {
        return false;
    }
    for (int i = 0; i < o->num_outputs; i++) {
        o->outputs[i] = weft_tensor_get(outputs[i]);
    }
    return true;
}

static bool any_without_data(const weft_operands *o)
{
    bool any = false;
    for (int i = 0; i < o->call->num_inputs; i++) {
        any |= o->inputs[i]->fake && !((o->ghosted >> i & 1) && weft_has_values(o->inputs[i]));
    }
    return any;
}

/* In a strict region implicit redistributions are refused. */
static bool check_explicit(const weft_operands *o, const weft_sharding *sharding)
{
    const weft_call *call = o->call;
    weft_tensor_impl *const *inputs = o->inputs;
    bool right = true;
    for (int i = 0; i < call->num_inputs && right; i++) {
        if ((o->ghosted >> i & 1) && !weft_fills_array(o, i)) {
            continue;
        }
        const char *name = call->operation->inputs[i].name;
        weft_access_map map = { .cut = NULL };
        right =
            weft_check_explicit(call->function, name, inputs[i]->layout, sharding->inputs[i]) &&
            (!sharding->has_access_maps || weft_find_access(call, sharding, i, &map)) &&
            (map.cut == NULL || weft_check_explicit_access(call->function, name, sharding->inputs[i], &map));
    }
    return right;
}

static bool access_and_make(weft_operands *o)
{
    accesses all = { .maps = { { 0 } } };
    return make_all_access(o, &all) && make_outputs(o);
}

/* Redistributes the inputs in a scope of its own, then makes the outputs. */
static bool move_and_make(weft_operands *o)
{
    const weft_operation *operation = o->call->operation;
    weft_scope_begin();
    bool done = weft_use_arrays(o) && move_inputs(o) && (!reads_target(o->call) || copy_targets(o)) &&
                (o->sharding->has_access_maps ? access_and_make(o) : make_outputs(o));
    for (int i = 0; i < o->num_outputs && done; i++) {
        if (!operation->outputs[i].in_place) {
            weft_scope_keep(weft_tensor_handle(o->outputs[i]));
        }
    }
    weft_scope_end_own();
    return weft_leave_arrays(o) && done;
}

/* Executes a call by tasks of its own operation; the caller releases o->cached. */
static bool dispatch_held(weft_operands *o)
{
    weft_tensor_impl **inputs = o->inputs;
    weft_sharding own;
    weft_call in_arrays;
    int guessed = -1;
    bool live = check_inputs(o->call, inputs);
    const weft_sharding *sharding = NULL;
    if (live && weft_any_ghosted(o)) {
        sharding = weft_obtain_in_arrays(o, &in_arrays, &own, &guessed);
    } else if (live) {
        sharding = weft_obtain_layouts(o->call, inputs, &own, &guessed, &o->cached);
    }
    const weft_call *call = o->call;
    if (sharding != NULL && weft_runtime.explained != NULL) {
        weft_explain_dispatch(call, inputs);
    }
    if (sharding != NULL && weft_runtime.regions != NULL && weft_runtime.context.expanded == 0 &&
        !check_explicit(o, sharding)) {
        sharding = NULL;
    }
    o->sharding = sharding;
    o->num_outputs = sharding == NULL ? 0 : sharding->num_outputs - (int)call->attributes.omitted;
    if (live && any_without_data(o)) {
        return sharding != NULL && make_without_data(o);
    }
    if (!weft_dispatch_check_spmd(call, inputs, sharding != NULL) || sharding == NULL) {
        return false;
    }
    if (guessed >= 0) {
        weft_warn_of_guess(call, guessed, inputs[guessed]->layout);
    }
    memcpy(o->access_map, call->access_map, sizeof(o->access_map));
    return needs_moves(o) ? check_memory(o) && move_and_make(o) : make_outputs(o);
}

/* ---- every call of an operation ------------------------------------------------------------------------- */

/* Uses the current random state, which advances on success. */
static bool dispatch_drawing(const weft_call *call, weft_operands *o)
{
    weft_call drawing = *call;
    weft_random_state *state = weft_random_in_use();
    weft_random_pack(drawing.scalars + WEFT_RANDOM_SEED, state->seed);
    weft_random_pack(drawing.scalars + WEFT_RANDOM_OFFSET, state->offset);
    o->call = &drawing;
    bool done = dispatch_held(o);
    state->offset += done && !o->outputs[0]->fake;
    return done;
}

/* The call as it is dispatched: of the operation that has taken its operation's place, in `own`. */
static const weft_call *call_in_use(const weft_call *call, weft_call *own)
{
    const weft_operation *operation =
        weft_runtime.replaced.count == 0 ? call->operation : weft_operation_in_use(call->operation);
    if (operation == call->operation) {
        return call;
    }
    *own = *call;
    own->operation = operation;
    return own;
}

static bool dispatch(const weft_call *call, weft_tensor *outputs[])
{
    weft_operands o = { .call = call };
    bool draws = call->operation->draws && weft_require_init(call->function) == WEFT_OK;
    bool done = draws && weft_runtime.context.steps == NULL ? dispatch_drawing(call, &o) : dispatch_held(&o);
    weft_cache_release(o.cached);
    for (int i = 0; i < o.num_outputs && done; i++) {
        outputs[i] = weft_tensor_handle(o.outputs[i]);
    }
    for (int i = 0; i < (int)call->attributes.omitted && done; i++) {
        outputs[o.num_outputs + i] = NULL;
    }
    return done;
}

bool weft_dispatch_itself_all(const weft_call *call, weft_tensor *outputs[])
{
    weft_call own;
    return dispatch(call_in_use(call, &own), outputs);
}

weft_tensor *weft_dispatch_itself(const weft_call *call)
{
    weft_tensor *outputs[WEFT_MAX_OUTPUTS];
    return weft_dispatch_itself_all(call, outputs) ? outputs[0] : NULL;
}

static weft_status perform(const weft_call *given, weft_tensor *outputs[])
{
    weft_call own;
    const weft_call *call = call_in_use(given, &own);
    bool done = weft_call_expands(call) ? weft_composite_call(call, outputs) : dispatch(call, outputs);
    return done ? WEFT_OK : weft_latest_status();
}

weft_tensor *weft_dispatch(const weft_call *call)
{
    weft_tensor *outputs[WEFT_MAX_OUTPUTS] = { NULL };
    return weft_dispatch_all(call, outputs) ? outputs[0] : NULL;
}

bool weft_dispatch_all(const weft_call *call, weft_tensor *outputs[])
{
    return weft_call_make(call, outputs, perform) == WEFT_OK;
}

weft_status weft_invoke(const weft_call *call, weft_tensor *outputs[])
{
    if (weft_call_is_action(call)) {
        return weft_act(call, outputs);
    }
    return weft_dispatch_all(call, outputs) ? WEFT_OK : weft_latest_status();
}
