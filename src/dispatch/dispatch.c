#include <weft/ops.h>

#include "dispatch/cache.h"

#include <stdio.h>
#include <string.h>

#include "comm/calls.h"

/* ---- checks: only what is not in the cache needs them, for a layout holds mesh, shape and type --------- */

/* "2x2 (data, model)", and the ranks where they are not 0, 1, 2, ... */
static const char *mesh_text(const weft_mesh *mesh, char *text, size_t size)
{
    size_t used = 0;
#define APPEND(...) used += used < size ? (size_t)snprintf(text + used, size - used, __VA_ARGS__) : 0
    for (int d = 0; d < mesh->ndim; d++) {
        APPEND("%s%lld", d == 0 ? "" : "x", (long long)mesh->shape[d]);
    }
    for (int d = 0; d < mesh->ndim; d++) {
        if (mesh->names[d] != NULL) {
            APPEND(" %s", mesh->names[d]);
        }
    }
    enum { SHOWN = 8 };
    for (int64_t i = 0; mesh->ranks != NULL && i < mesh->num_ranks && i <= SHOWN; i++) {
        if (i == SHOWN) {
            APPEND(", ...");
        } else {
            APPEND("%s%d", i == 0 ? " of ranks " : ", ", mesh->ranks[i]);
        }
    }
#undef APPEND
    return text;
}

/* "f32 or f64" */
static const char *types_text(unsigned types, char *text, size_t size)
{
    size_t used = 0;
    for (int t = WEFT_DTYPE_COUNT - 1; t >= 0; t--) {
        if (!(types & WEFT_TYPE_BIT(t))) {
            continue;
        }
        unsigned left = types & (WEFT_TYPE_BIT(t) - 1);
        const char *between = left == 0 ? "" : (left & (left - 1)) == 0 ? " or " : ", ";
        used += (size_t)snprintf(text + used, size - used, "%s%s", weft_dtype_name((weft_dtype)t), between);
        if (used >= size) {
            break;
        }
    }
    return text;
}

bool weft_check_same_mesh(const char *function, const char *first_name, const weft_layout *first,
                          const char *other_name, const weft_layout *other)
{
    if (other->mesh == first->mesh) {
        return true;
    }
    char first_text[160], other_text[160];
    weft_fail(WEFT_ERR_MESH, function, "%s is on mesh %s and %s on mesh %s: weft_redistribute() one of them",
              first_name, mesh_text(first->mesh, first_text, sizeof(first_text)), other_name,
              mesh_text(other->mesh, other_text, sizeof(other_text)));
    return false;
}

static bool check_meshes(const weft_call *call, const weft_layout *const inputs[])
{
    const weft_operation_input *described = call->operation->inputs;
    for (int i = 1; i < call->num_inputs; i++) {
        if (!weft_check_same_mesh(call->function, described[0].name, inputs[0], described[i].name,
                                  inputs[i])) {
            return false;
        }
    }
    return true;
}

/* ---- inputs on several meshes -------------------------------------------------------------------------- */

static bool one_mesh(const weft_call *call)
{
    for (int i = 1; i < call->num_inputs; i++) {
        if (call->inputs[i]->layout->mesh != call->inputs[0]->layout->mesh) {
            return false;
        }
    }
    return true;
}

static int64_t count_of(const weft_layout *layout)
{
    int64_t count = 0;
    weft_count_checked(layout->ndim, layout->shape, &count);
    return count;
}

/* The input to whose mesh the others go: the target, which stays where it is; else the first one of several
 * elements, or at least with dimensions, if there is one. */
static int leading_input(const weft_call *call)
{
    if (call->operation->in_place) {
        return 0;
    }
    int with_dimensions = 0;
    for (int i = call->num_inputs - 1; i >= 0; i--) {
        with_dimensions = call->inputs[i]->layout->ndim > 0 ? i : with_dimensions;
    }
    for (int i = 0; i < call->num_inputs; i++) {
        if (count_of(call->inputs[i]->layout) != 1) {
            return i;
        }
    }
    return with_dimensions;
}

/* The layouts that the search begins with: those of the inputs; and of inputs on other meshes than that of
 * the leading one, which may be moved without being asked for, Replicate on its mesh. What must not be moved
 * keeps its mesh, which is then found to differ. *guessed gets the first input with dimensions that is moved
 * because it has one element, or -1. False with the error kept: no memory. */
static bool gather_layouts(const weft_call *call, const weft_layout *layouts[], int *guessed)
{
    *guessed = -1;
    for (int i = 0; i < call->num_inputs; i++) {
        layouts[i] = call->inputs[i]->layout;
    }
    if (one_mesh(call)) {
        return true;
    }
    const weft_mesh *mesh = layouts[leading_input(call)]->mesh;
    for (int i = 0; i < call->num_inputs; i++) {
        const weft_layout *own = layouts[i];
        bool single = count_of(own) == 1;
        if (own->mesh == mesh || !(single || weft_runtime.implicit_replication)) {
            continue;
        }
        if (own->ndim > 0 && !weft_runtime.implicit_replication && *guessed < 0) {
            *guessed = i;
        }
        weft_placement replicated[WEFT_MAX_DIMS];
        for (int d = 0; d < mesh->ndim; d++) {
            replicated[d] = weft_replicate();
        }
        layouts[i] =
            weft_layout_intern(weft_runtime.layouts, mesh, replicated, own->ndim, own->shape, own->dtype);
        if (layouts[i] == NULL) {
            weft_fail(WEFT_ERR_NOMEM, call->function, "no memory for a layout");
            return false;
        }
    }
    return true;
}

/* Once for each operation, on the first process. */
static void warn_of_guess(const weft_call *call, int guessed)
{
    if (weft_runtime.silent || weft_runtime.process != 0 || !weft_cache_first_warning(call->operation)) {
        return;
    }
    char text[160];
    fprintf(
        stderr,
        "weft: %s: %s is %s, on another mesh than the others; it has one element and is taken for a scalar. "
        "weft_redistribute() it, or set WEFT_SILENT=1\n",
        call->function, call->operation->inputs[guessed].name,
        weft_layout_format(call->inputs[guessed]->layout, text, sizeof(text)));
}

weft_status weft_set_implicit_replication(bool allowed)
{
    static const char function[] = "weft_set_implicit_replication";
    const double number = allowed;
    if (weft_require_init(function) != WEFT_OK ||
        !weft_call_admit(&(weft_public_call){ .function = function, .num_numbers = 1, .numbers = &number })) {
        return weft_latest_status();
    }
    weft_runtime.implicit_replication = allowed;
    return WEFT_OK;
}

/* ---- types --------------------------------------------------------------------------------------------- */

static bool check_types(const weft_call *call, const weft_layout *const inputs[])
{
    for (int i = 0; i < call->num_inputs; i++) {
        const weft_operation_input *described = &call->operation->inputs[i];
        weft_dtype type = inputs[i]->dtype;
        if (!(described->types & WEFT_TYPE_BIT(type))) {
            char expected[80];
            weft_fail(WEFT_ERR_DTYPE, call->function, "%s is %s, expected %s", described->name,
                      weft_dtype_name(type), types_text(described->types, expected, sizeof(expected)));
            return false;
        }
        if (described->type_of_first && type != inputs[0]->dtype) {
            weft_fail(WEFT_ERR_DTYPE, call->function, "%s is %s, expected %s, the type of %s",
                      described->name, weft_dtype_name(type), weft_dtype_name(inputs[0]->dtype),
                      call->operation->inputs[0].name);
            return false;
        }
    }
    weft_dtype type = weft_promoted(call->num_inputs, inputs);
    if (call->operation->in_place && !weft_dtype_can_hold(inputs[0]->dtype, type)) {
        weft_fail(WEFT_ERR_DTYPE, call->function, "%s is %s and cannot hold the result, which is %s",
                  call->operation->inputs[0].name, weft_dtype_name(inputs[0]->dtype), weft_dtype_name(type));
        return false;
    }
    return true;
}

/* ---- choosing layouts ---------------------------------------------------------------------------------- */

static bool same_shape(int ndim, const int64_t shape[], const weft_layout *layout)
{
    return ndim == layout->ndim && memcmp(shape, layout->shape, (size_t)ndim * sizeof(shape[0])) == 0;
}

/* Whether a shape, aligned at its end, can be repeated to a layout's. */
static bool broadcasts_to(const weft_layout *layout, const weft_layout *target)
{
    bool fits = layout->ndim <= target->ndim;
    for (int d = 0; d < layout->ndim && fits; d++) {
        int64_t size = layout->shape[d];
        fits = size == 1 || size == target->shape[target->ndim - layout->ndim + d];
    }
    return fits;
}

/* Of an operation in place whose result has another shape than its target. */
static void describe_misfit(const weft_call *call, const weft_layout *const inputs[],
                            const weft_binding *binding, char *why, size_t why_size)
{
    const weft_operation_input *described = call->operation->inputs;
    char target[160], other[160];
    weft_layout_format(inputs[0], target, sizeof(target));
    for (int i = 1; i < call->num_inputs; i++) {
        if (!broadcasts_to(inputs[i], inputs[0])) {
            snprintf(why, why_size, "%s, %s, does not broadcast to %s, %s", described[i].name,
                     weft_layout_format(inputs[i], other, sizeof(other)), described[0].name, target);
            return;
        }
    }
    int64_t count = 0;
    weft_count_checked(binding->output_ndim, binding->output_shape, &count);
    snprintf(why, why_size, "%s is %s, and the result would have %d dimensions and %lld elements",
             described[0].name, target, binding->output_ndim, (long long)count);
}

static void list_windows(const weft_call *call, const weft_binding *binding,
                         weft_window windows[][WEFT_MAX_DIMS])
{
    for (int i = 0; i < binding->num_inputs; i++) {
        for (int d = 0; d < binding->input_ndim[i]; d++) {
            windows[i][d] =
                binding->input_windows[i][d] ? call->operation->window(call, i, d) : (weft_window){ 0 };
        }
    }
}

static weft_status choose_by_rule(const weft_call *call, const weft_layout *const inputs[],
                                  weft_choice *choice, char *why, size_t why_size)
{
    const weft_operation *operation = call->operation;
    weft_rule written;
    const weft_rule *rule = operation->write_rule != NULL ? &written : weft_cached_rule(call);
    if (operation->write_rule != NULL) {
        char text[160];
        operation->write_rule(call, inputs, text, sizeof(text));
        weft_status status = weft_rule_parse(text, &written, why, why_size);
        if (status != WEFT_OK) {
            return status;
        }
    }
    if (rule == NULL) {
        return weft_latest_status();
    }
    weft_operand_shape shapes[WEFT_MAX_INPUTS];
    for (int i = 0; i < call->num_inputs; i++) {
        shapes[i] = (weft_operand_shape){ operation->inputs[i].name, inputs[i]->ndim, inputs[i]->shape };
    }
    weft_binding binding;
    weft_status status = weft_rule_bind(rule, shapes, &call->attributes, &binding, why, why_size);
    if (status != WEFT_OK) {
        return status;
    }
    if (!weft_check_shape(call->function, binding.output_ndim, binding.output_shape)) {
        return weft_latest_status();
    }
    if (operation->in_place && !same_shape(binding.output_ndim, binding.output_shape, inputs[0])) {
        describe_misfit(call, inputs, &binding, why, why_size);
        return WEFT_ERR_SHAPE;
    }
    weft_window windows[WEFT_MAX_INPUTS][WEFT_MAX_DIMS];
    list_windows(call, &binding, windows);
    weft_search search = {
        .table = weft_runtime.layouts,
        .topology = &weft_runtime.topology,
        .cost = &weft_runtime.cost,
        .in_place = operation->in_place,
        .forced = weft_forced(),
        .windows = windows,
    };
    weft_dtype type = weft_output_dtype(operation->output_type, call->num_inputs, inputs,
                                        (weft_dtype)call->attributes.type);
    return weft_strategy_search(&search, &binding, &operation->linear, inputs, type, choice, why, why_size);
}

/* From the cache, or chosen and added to it, valid until the next call; NULL with the error kept. *guessed: see
 * gather_layouts(). `own`: room for what is not kept. */
static const weft_choice *obtain_layouts(const weft_call *call, weft_choice *own, int *guessed)
{
    const weft_layout *inputs[WEFT_MAX_INPUTS];
    if (!gather_layouts(call, inputs, guessed)) {
        return NULL;
    }
    bool forced = weft_forced()->active;
    uint64_t hash = weft_cache_hash(call, inputs);
    const weft_choice *known = forced ? NULL : weft_cache_find(call, inputs, hash);
    if (known != NULL) {
        weft_runtime.counters.dispatch_hits++;
        return known;
    }
    weft_runtime.counters.dispatch_misses++;
    if (!check_types(call, inputs) || !check_meshes(call, inputs)) {
        return NULL;
    }
    *own = (weft_choice){ .output = NULL };
    char why[400] = "";
    weft_status status = call->operation->choose != NULL
                             ? call->operation->choose(call, inputs, own, why, sizeof(why))
                             : choose_by_rule(call, inputs, own, why, sizeof(why));
    if (status != WEFT_OK) {
        if (why[0] != '\0' || status == WEFT_ERR_NOMEM) {
            weft_fail(status, call->function, "%s", why[0] != '\0' ? why : "no memory for the layouts");
        }
        return NULL;
    }
    return forced ? own : weft_cache_add(call, inputs, hash, own);
}

/* ---- the road ------------------------------------------------------------------------------------------ */

static bool check_inputs(const weft_call *call)
{
    for (int i = 0; i < call->num_inputs; i++) {
        if (weft_check_tensor(call->function, call->operation->inputs[i].name, call->inputs[i]) == NULL) {
            return false;
        }
    }
    return true;
}

/* One tensor that is several inputs is moved once. */
static weft_tensor *moved_before(const weft_call *call, const weft_lowering *lowering, int input,
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
        lowering->inputs[i] = call->inputs[i];
        if (call->inputs[i]->layout == wanted) {
            continue;
        }
        lowering->inputs[i] = moved_before(call, lowering, i, wanted);
        if (lowering->inputs[i] == NULL) {
            lowering->inputs[i] = weft_tensor_to_layout(call->function, call->inputs[i], wanted);
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
static weft_tensor *make_output(const weft_call *call, const weft_choice *choice, weft_lowering *lowering)
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
        weft_tensor *view =
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

/* The target is another input as well, and tasks that write to some of it may read more: what was there before
 * the call is meant. Elementwise tasks read what they write. */
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
    weft_tensor *target = lowering->inputs[0];
    weft_tensor *copy = weft_tensor_new(call->function, target->layout);
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

static bool needs_moves(const weft_call *call, const weft_choice *choice)
{
    if (choice->has_windows || reads_target(call)) {
        return true;
    }
    for (int i = 0; i < call->num_inputs; i++) {
        if (call->inputs[i]->layout != choice->inputs[i]) {
            return true;
        }
    }
    return false;
}

/* `valid`: the inputs are live tensors that fit together. */
static bool admit(const weft_call *call, bool valid)
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
        layouts[i] = call->inputs[i]->layout;
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
    weft_choice own;
    int guessed;
    return check_inputs(call) && obtain_layouts(call, &own, &guessed) != NULL;
}

weft_tensor *weft_dispatch(const weft_call *call)
{
    weft_choice own;
    int guessed = -1;
    const weft_choice *choice = check_inputs(call) ? obtain_layouts(call, &own, &guessed) : NULL;
    if (!admit(call, choice != NULL) || choice == NULL) {
        return NULL;
    }
    if (guessed >= 0) {
        warn_of_guess(call, guessed);
    }
    weft_lowering lowering = { .call = call, .choice = choice };
    memcpy(lowering.windows, call->windows, sizeof(lowering.windows));
    if (!needs_moves(call, choice)) {
        memcpy(lowering.inputs, call->inputs, sizeof(lowering.inputs));
        return make_output(call, choice, &lowering);
    }
    weft_windows windows[WEFT_MAX_INPUTS] = { { 0 } };
    weft_scope_open();
    bool done = move_inputs(call, choice, &lowering) &&
                (!reads_target(call) || copy_target(call, &lowering)) &&
                (!choice->has_windows || make_all_windows(call, choice, &lowering, windows));
    weft_tensor *output = done ? make_output(call, choice, &lowering) : NULL;
    if (output != NULL && !call->operation->in_place) {
        weft_scope_keep(output);
    }
    weft_scope_close();
    return output;
}
