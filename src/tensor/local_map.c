/* Local regions: a task for each hosted rank, or for each panel of rows, on its shards. */
#include "tensor/local_map.h"

#include <stdlib.h>
#include <string.h>

#include "comm/check_spmd.h"
#include "sharding/types.h"
#include "tensor/actions.h"
#include "tensor/arguments.h"
#include "tensor/explained.h"
#include "tensor/state.h"

static const char function_name[] = "weft_local_map";

/* Whether an input has no data: then the outputs have none, and nothing is submitted. */
static bool is_fake(const weft_local_region *r)
{
    bool fake = false;
    for (int i = 0; i < r->num_inputs; i++) {
        fake |= r->tensors[i]->fake;
    }
    return fake;
}

/* An input that is changed; where it is another input too, that is a copy. NULL with the error kept. */
static weft_tensor_impl *make_changed(const weft_local_region *r, int number)
{
    weft_tensor_impl *target = r->tensors[number];
    if (!weft_tensors_read_before(function_name, r->tensors, r->num_changed, r->num_inputs, number) ||
        !weft_tensor_make_writable(function_name, target, true)) {
        return NULL;
    }
    target->version++;
    return target;
}

/* An input that is changed needs data where another one has them none, and the other way round. False with the error kept. */
static bool check_fakes(const weft_local_region *r)
{
    for (int i = 0; i < r->num_changed && is_fake(r); i++) {
        if (!r->tensors[i]->fake) {
            weft_fail(WEFT_ERR_STATE, function_name, "inputs[%d] has data, and another input has none (weft_fake())", i);
            return false;
        }
    }
    return true;
}

static bool make_outputs(const weft_local_region *r, bool fake)
{
    bool done = true;
    for (int i = 0; i < r->num_outputs && done; i++) {
        const weft_layout *layout = r->layouts[r->num_inputs + i];
        weft_tensor_impl **output = &r->tensors[r->num_inputs + i];
        *output = i < r->num_changed ? (fake ? r->tensors[i] : make_changed(r, i))
                  : fake             ? weft_tensor_fake(function_name, layout)
                                     : weft_tensor_new(function_name, layout);
        done = *output != NULL;
    }
    return done;
}

static bool move_inputs(const weft_local_region *r)
{
    bool done = true;
    for (int i = 0; i < r->num_inputs && done; i++) {
        if (r->tensors[i]->layout != r->layouts[i]) {
            r->tensors[i] = weft_tensor_to_layout(function_name, r->tensors[i], r->layouts[i]);
            done = r->tensors[i] != NULL;
        }
    }
    return done;
}

/* After all checks. New tensors belong to the innermost scope. False with the error kept. */
static bool run(const weft_local_region *r)
{
    const bool fake = is_fake(r);
    weft_random_state none = { 0, 0 }, *state = weft_random_in_use();
    for (int i = 0; i < r->num_inputs && weft_runtime.explained != NULL; i++) {
        weft_explain_move(function_name, r->tensors[i]->layout, r->layouts[i]);
    }
    bool done = (fake || move_inputs(r)) && make_outputs(r, fake);
    weft_runtime.operations++;
    done = done && (fake || weft_local_submit(r, r->options.random ? *state : none));
    state->offset += done && !fake && r->options.random;
    return done;
}

/* Numbers of the call: the function, its gradient, whether it goes by rows and draws random numbers, the layouts, and which inputs
 * are whole. */
enum { FUNCTION, GRADIENT, BY_ROWS, RANDOM, LAYOUTS };

static int num_layouts(const weft_local_region *r)
{
    return 2 * r->num_inputs + r->num_outputs;
}

static void pack(const weft_local_region *r, int64_t numbers[])
{
    int count = num_layouts(r);
    numbers[FUNCTION] = (int64_t)(uintptr_t)r->function;
    numbers[GRADIENT] = (int64_t)(uintptr_t)r->options.gradient;
    numbers[BY_ROWS] = r->options.by_rows;
    numbers[RANDOM] = r->options.random;
    for (int i = 0; i < count; i++) {
        numbers[LAYOUTS + i] = (int64_t)(uintptr_t)r->layouts[i];
    }
    for (int i = 0; i < r->num_inputs; i++) {
        numbers[LAYOUTS + count + i] = r->whole[i];
    }
}

static void unpack(const weft_call *call, weft_local_region *r)
{
    const weft_call_details *details = call->details;
    const int64_t *numbers = details->numbers;
    int count = num_layouts(r);
    r->function = (weft_local_function)(uintptr_t)numbers[FUNCTION];
    r->num_changed = details->num_changed;
    r->options.gradient = (weft_local_function)(uintptr_t)numbers[GRADIENT];
    r->options.name = details->text;
    r->options.context = details->context;
    r->options.context_size = details->context_size;
    r->options.by_rows = numbers[BY_ROWS] != 0;
    r->options.random = numbers[RANDOM] != 0;
    for (int i = 0; i < count; i++) {
        r->layouts[i] = (const weft_layout *)(uintptr_t)numbers[LAYOUTS + i];
    }
    for (int i = 0; i < r->num_inputs; i++) {
        r->tensors[i] = weft_tensor_get(details->tensors[i]);
        r->whole[i] = numbers[LAYOUTS + count + i] != 0;
    }
}

static void meet_layouts(const weft_call *call)
{
    const weft_local_region r = { .num_inputs = call->details->num_tensors, .num_outputs = call->details->num_outputs };
    for (int i = 0, count = num_layouts(&r); i < count; i++) {
        weft_meet_layout((const weft_layout *)(uintptr_t)call->details->numbers[LAYOUTS + i]);
    }
}

static bool obtain_lists(weft_local_region *r)
{
    size_t count = (size_t)num_layouts(r);
    r->tensors = calloc(count, sizeof(*r->tensors));
    r->layouts = calloc(count, sizeof(*r->layouts));
    r->whole = calloc(count, sizeof(*r->whole));
    bool done = r->tensors != NULL && r->layouts != NULL && r->whole != NULL;
    if (!done) {
        weft_fail(WEFT_ERR_NOMEM, function_name, "no memory for %zu tensors", count);
    }
    return done;
}

static void free_lists(weft_local_region *r)
{
    free(r->tensors);
    free(r->layouts);
    free(r->whole);
}

static bool carry_out(weft_local_region *r, const weft_call *call, weft_tensor *outputs[])
{
    unpack(call, r);
    int num_whole = 0;
    for (int i = 0; i < r->num_inputs; i++) {
        num_whole += r->whole[i];
    }
    double numbers[] = { r->num_inputs,       r->num_outputs,    r->num_changed, r->options.by_rows,
                         (double)num_whole, r->options.random, (double)r->options.context_size };
    if (!weft_check_spmd(&(weft_call_signature){ .function = function_name,
                                                 .num_layouts = r->num_inputs + r->num_outputs,
                                                 .layouts = r->layouts,
                                                 .num_numbers = WEFT_ARRAY_SIZE(numbers),
                                                 .numbers = numbers })) {
        return false;
    }
    weft_scope_begin();
    bool done = check_fakes(r) && run(r);
    for (int i = 0; i < r->num_outputs && done; i++) {
        weft_tensor *handle = weft_tensor_handle(r->tensors[r->num_inputs + i]);
        outputs[i] = i < r->num_changed ? handle : weft_scope_keep(handle);
    }
    weft_scope_end_own();
    return done;
}

static weft_status perform_local_map(const weft_call *call, weft_tensor *outputs[])
{
    weft_local_region r = { .num_inputs = call->details->num_tensors, .num_outputs = call->details->num_outputs };
    bool done = obtain_lists(&r) && carry_out(&r, call, outputs);
    free_lists(&r);
    return done ? WEFT_OK : weft_latest_status();
}

/* ---- the gradient ---------------------------------------------------------------------------------------- */

/* The region of the gradients. */
typedef struct gradient_region {
    weft_tensor **inputs, **outputs;
    const weft_placement **in_placements;
    weft_local_output *descriptions;
    bool *whole;
    bool by_rows;
    int num_inputs, num_outputs;
} gradient_region;

/* The gradient of an output in its placements, without Partial; zeros for NULL. */
static bool add_output_gradient(gradient_region *g, const weft_layout *output, weft_tensor *gradient)
{
    const weft_layout *whole = weft_layout_like(function_name, output, output->dtype);
    if (whole == NULL) {
        return false;
    }
    g->in_placements[g->num_inputs] = whole->placements;
    g->inputs[g->num_inputs] = gradient != NULL ? gradient
                                                : weft_zeros(whole->dtype, whole->ndim, whole->shape,
                                                             whole->mesh->handle, whole->placements);
    return g->inputs[g->num_inputs++] != NULL;
}

static bool describe_gradients(gradient_region *g, const weft_local_region *r, const weft_gradient *of)
{
    const weft_layout *const *layouts = r->layouts + r->num_inputs + r->num_outputs;
    for (int i = 0; i < r->num_inputs; i++) {
        g->inputs[i] = weft_tensor_handle(r->tensors[i]);
        g->whole[i] = r->whole[i];
        g->in_placements[i] = r->layouts[i]->placements;
        if (weft_dtype_has_gradient(layouts[i]->dtype)) {
            g->descriptions[g->num_outputs++] = (weft_local_output){ layouts[i]->dtype, layouts[i]->ndim,
                                                                     layouts[i]->shape, layouts[i]->placements, false };
            g->by_rows = g->by_rows && weft_local_same_rows(layouts[i], r->layouts[r->num_inputs]);
        }
    }
    g->num_inputs = r->num_inputs;
    bool done = true;
    for (int i = 0; i < r->num_outputs && done; i++) {
        done = add_output_gradient(g, r->layouts[r->num_inputs + i], of->output_gradients[i]);
    }
    return done;
}

static bool run_gradient(gradient_region *g, const weft_local_region *r, const weft_gradient *of)
{
    bool done = describe_gradients(g, r, of);
    const weft_local_map_options options = { .name = r->options.name,
                                             .mesh = r->layouts[0]->mesh->handle,
                                             .in_placements = g->in_placements,
                                             .context = r->options.context,
                                             .context_size = r->options.context_size,
                                             .by_rows = g->by_rows,
                                             .whole_inputs = g->by_rows ? g->whole : NULL };
    done = done && weft_local_map(r->options.gradient, g->num_inputs, g->inputs, g->num_outputs, g->descriptions,
                               &options, g->outputs) == WEFT_OK;
    for (int i = 0, output = 0; i < r->num_inputs && done; i++) {
        if (weft_dtype_has_gradient(r->layouts[i]->dtype)) {
            of->gradients[i] = of->wanted[i] ? g->outputs[output] : NULL;
            output++;
        }
    }
    return done;
}

static bool gradients_of_region(const weft_gradient *of)
{
    weft_local_region r = { .num_inputs = of->call->details->num_tensors, .num_outputs = of->call->details->num_outputs };
    size_t all = (size_t)r.num_inputs + (size_t)r.num_outputs;
    gradient_region g = { .inputs = calloc(all, sizeof(weft_tensor *)),
                          .outputs = calloc(all, sizeof(weft_tensor *)),
                          .in_placements = calloc(all, sizeof(weft_placement *)),
                          .descriptions = calloc(all, sizeof(weft_local_output)),
                          .whole = calloc(all, sizeof(bool)) };
    bool done = obtain_lists(&r);
    if (g.inputs == NULL || g.outputs == NULL || g.in_placements == NULL || g.descriptions == NULL || g.whole == NULL) {
        weft_fail(WEFT_ERR_NOMEM, function_name, "no memory for %zu tensors", all);
        done = false;
    }
    if (done) {
        unpack(of->call, &r);
        g.by_rows = r.options.by_rows;
        done = run_gradient(&g, &r, of);
    }
    free_lists(&r);
    free(g.inputs);
    free(g.outputs);
    free(g.in_placements);
    free(g.descriptions);
    free(g.whole);
    return done;
}

static weft_status act(const weft_local_region *r, weft_tensor *const inputs[], weft_tensor *outputs[])
{
    static const weft_operation with_gradient = { .name = "local_map",
                                                  .perform = perform_local_map,
                                                  .gradient = { .function = gradients_of_region, .reads_inputs = true },
                                                  .meet_layouts = meet_layouts },
                                without = { .name = "local_map",
                                            .perform = perform_local_map,
                                            .gradient = { .missing = "options.gradient is NULL" },
                                            .meet_layouts = meet_layouts };
    const weft_operation *action = r->options.gradient == NULL ? &without : &with_gradient;
    int num_numbers = LAYOUTS + num_layouts(r) + r->num_inputs;
    int64_t *numbers = calloc((size_t)num_numbers, sizeof(*numbers));
    if (numbers == NULL) {
        return weft_fail(WEFT_ERR_NOMEM, function_name, "no memory for a call");
    }
    pack(r, numbers);
    const weft_call_details details = { .num_outputs = r->num_outputs,
                                        .num_changed = r->num_changed,
                                        .context = r->options.context,
                                        .context_size = r->options.context_size,
                                        .num_tensors = r->num_inputs,
                                        .tensors = inputs,
                                        .num_numbers = num_numbers,
                                        .numbers = numbers,
                                        .text = r->options.name };
    weft_status status =
        weft_act(&(weft_call){ .function = function_name, .operation = action, .details = &details }, outputs);
    free(numbers);
    return status;
}

weft_status weft_local_map(weft_local_function function, int num_inputs, weft_tensor *const inputs[],
                           int num_outputs, const weft_local_output descriptions[],
                           const weft_local_map_options *options, weft_tensor *outputs[])
{
    weft_local_region r = { .function = function, .num_inputs = num_inputs, .num_outputs = num_outputs };
    if (weft_require_init(function_name) != WEFT_OK) {
        return weft_latest_status();
    }
    bool right = options == NULL || WEFT_TAKE_OPTIONS(function_name, &r.options, options);
    r.options.name = r.options.name == NULL ? "local_map" : r.options.name;
    for (int i = 0; outputs != NULL && i < num_outputs; i++) {
        outputs[i] = NULL;
    }
    right = right && weft_local_check_arguments(&r, inputs, descriptions, outputs) && obtain_lists(&r) &&
            weft_local_check(&r, inputs, descriptions);
    weft_status status = WEFT_OK;
    if (right) {
        status = act(&r, inputs, outputs);
    } else {
        weft_check_spmd(&(weft_call_signature){ .function = function_name, .failed = true });
        status = weft_latest_status();
    }
    free_lists(&r);
    return status;
}
