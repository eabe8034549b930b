/* Local regions: a task for each hosted rank, on its shards. */
#include <weft/local_map.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codelets/local.h"
#include "comm/check_spmd.h"
#include "sharding/types.h"
#include "tensor/actions.h"
#include "tensor/explained.h"
#include "tensor/regions.h"
#include "tensor/run.h"
#include "tensor/state.h"

static const char function_name[] = "weft_local_map";

/* Arguments and tensors of one call. */
typedef struct region {
    weft_local_function function;
    weft_local_map_options options;
    const weft_mesh_impl *mesh;
    int num_inputs, num_outputs;
    weft_tensor_impl **tensors;  /* inputs as given, inputs in the region's placements, outputs */
    const weft_layout **layouts; /* of the function's inputs and outputs, and of the inputs' gradients */
} region;

/* ---- checks -------------------------------------------------------------------------------------------- */

enum { MAX_CONTEXT = 1 << 20 }; /* bytes that are copied for each task */

static bool refuse(weft_status status, const char *what)
{
    weft_fail(status, function_name, "%s", what);
    return false;
}

static bool check_arguments(const region *r, weft_tensor *const inputs[], const weft_local_output descriptions[],
                            weft_tensor *const outputs[])
{
    if (r->function == NULL) {
        return refuse(WEFT_ERR_INVALID, "function is NULL");
    }
    if (r->num_inputs < 0 || r->num_outputs < 1) {
        weft_fail(WEFT_ERR_INVALID, function_name, "num_%s is %d, expected at least %d",
                  r->num_inputs < 0 ? "inputs" : "outputs", r->num_inputs < 0 ? r->num_inputs : r->num_outputs,
                  r->num_inputs < 0 ? 0 : 1);
        return false;
    }
    if (r->num_inputs > 0 && inputs == NULL) {
        return refuse(WEFT_ERR_INVALID, "inputs is NULL");
    }
    if (descriptions == NULL || outputs == NULL) {
        return refuse(WEFT_ERR_INVALID, descriptions == NULL ? "descriptions is NULL" : "outputs is NULL");
    }
    if (r->options.grad_placements != NULL && r->options.gradient == NULL) {
        return refuse(WEFT_ERR_INVALID, "options.grad_placements is given, but options.gradient is NULL");
    }
    if (r->options.context_size > MAX_CONTEXT) {
        char text[100];
        snprintf(text, sizeof(text), "options.context_size is %zu, expected at most %d", r->options.context_size,
                 MAX_CONTEXT);
        return refuse(WEFT_ERR_INVALID, text);
    }
    if (r->options.context_size > 0 && r->options.context == NULL) {
        return refuse(WEFT_ERR_INVALID, "options.context is NULL, but options.context_size is not 0");
    }
    return true;
}

/* Resolves handles, and finds the region's mesh. */
static bool find_inputs(region *r, weft_tensor *const inputs[])
{
    char name[32];
    for (int i = 0; i < r->num_inputs; i++) {
        snprintf(name, sizeof(name), "inputs[%d]", i);
        r->tensors[i] = weft_check_tensor(function_name, name, inputs[i]);
        if (r->tensors[i] == NULL) {
            return false;
        }
    }
    r->mesh = r->options.mesh == NULL && r->num_inputs > 0 ? r->tensors[0]->layout->mesh
                                                           : weft_check_mesh(function_name, r->options.mesh);
    return r->mesh != NULL;
}

enum { PLACE_SIZE = 64 };

/* "weft_local_map: descriptions[1]", the beginning of a message. Returns text. */
static const char *place_of(const char *list, int i, char text[PLACE_SIZE])
{
    snprintf(text, PLACE_SIZE, "%s: %s[%d]", function_name, list, i);
    return text;
}

/* The layout in which the function takes input i; NULL with the error kept. */
static const weft_layout *input_layout(const region *r, int i)
{
    char place[PLACE_SIZE];
    const weft_layout *given = r->tensors[i]->layout;
    const weft_placement *wanted = r->options.in_placements == NULL ? NULL : r->options.in_placements[i];
    if (wanted != NULL) {
        return weft_check_layout(place_of("options.in_placements", i, place), r->mesh, wanted, given->ndim,
                                 given->shape, given->dtype);
    }
    if (given->mesh != r->mesh) {
        char own[160], region_mesh[160];
        weft_fail(WEFT_ERR_MESH, function_name,
                  "inputs[%d] is on mesh %s and the region on mesh %s: give its in_placements, or "
                  "weft_redistribute() it",
                  i, weft_mesh_format(given->mesh, own, sizeof(own)),
                  weft_mesh_format(r->mesh, region_mesh, sizeof(region_mesh)));
        return NULL;
    }
    return given;
}

static const weft_layout *output_layout(const region *r, int i, const weft_local_output *output)
{
    char text[PLACE_SIZE];
    const char *place = place_of("descriptions", i, text);
    bool right = weft_check_dtype(place, output->dtype) && weft_check_shape(place, output->ndim, output->shape);
    return right ? weft_check_layout(place, r->mesh, output->placements, output->ndim, output->shape, output->dtype)
                 : NULL;
}

/* The same result on every process: counts the panels of any rank. */
static int64_t max_panels(const weft_layout *layout)
{
    return layout->ndim == 0 ? 1 : layout->shape[0] / layout->panel_rows + 2;
}

/* Of an input's gradient; NULL with the error kept. */
static const weft_layout *gradient_layout(const region *r, int i)
{
    char place[PLACE_SIZE];
    const weft_layout *taken = r->layouts[i];
    const weft_placement *wanted = r->options.grad_placements == NULL ? NULL : r->options.grad_placements[i];
    return wanted == NULL ? weft_layout_like(function_name, taken, taken->dtype)
                          : weft_check_layout(place_of("options.grad_placements", i, place), r->mesh, wanted,
                                              taken->ndim, taken->shape, taken->dtype);
}

static bool find_gradient_layouts(region *r)
{
    const weft_layout **layouts = r->layouts + r->num_inputs + r->num_outputs;
    bool right = true;
    for (int i = 0; i < r->num_inputs && right && r->options.gradient != NULL; i++) {
        layouts[i] = gradient_layout(r, i);
        right = layouts[i] != NULL;
    }
    return right;
}

static bool find_layouts(region *r, const weft_local_output descriptions[])
{
    int64_t panels = 0;
    for (int i = 0; i < r->num_inputs + r->num_outputs; i++) {
        int output = i - r->num_inputs;
        r->layouts[i] = output < 0 ? input_layout(r, i) : output_layout(r, output, &descriptions[output]);
        if (r->layouts[i] == NULL || !weft_check_boxes(function_name, output < 0 ? "inputs" : "outputs", r->layouts[i])) {
            return false;
        }
        panels = weft_add_saturated(panels, max_panels(r->layouts[i]));
    }
    if (panels > WEFT_LOCAL_MAX_PANELS) {
        weft_fail(WEFT_ERR_UNSUPPORTED, function_name,
                  "a task would need %lld panels, and takes at most %d: WEFT_PANEL_ROWS is too small",
                  (long long)panels, WEFT_LOCAL_MAX_PANELS);
        return false;
    }
    return find_gradient_layouts(r);
}

/* Planning shows impossible redistributions: to Partial from anything else. In a strict region none is made. */
static bool check_moves(const region *r)
{
    for (int i = 0; i < r->num_inputs; i++) {
        const weft_layout *given = r->tensors[i]->layout, *wanted = r->layouts[i];
        char name[32];
        snprintf(name, sizeof(name), "inputs[%d]", i);
        if (given != wanted && (!weft_plan_check(function_name, given, wanted) ||
                                !weft_check_explicit(function_name, name, given, wanted))) {
            return false;
        }
    }
    return true;
}

/* ---- tasks --------------------------------------------------------------------------------------------- */

static void describe_operand(weft_local_operand *operand, const weft_layout *layout,
                             const weft_local_shard *shard, int first_panel)
{
    weft_local_tensor *tensor = &operand->tensor;
    tensor->dtype = layout->dtype;
    tensor->ndim = layout->ndim;
    memcpy(tensor->shape, layout->shape, sizeof(tensor->shape));
    memcpy(tensor->offset, shard->box.offset, sizeof(tensor->offset));
    memcpy(tensor->extent, shard->box.extent, sizeof(tensor->extent));
    tensor->count = shard->count;
    operand->first_panel = first_panel;
    if (shard->count > 0) {
        weft_cut cut = weft_shard_cut(layout, shard);
        operand->total_bytes = cut.total;
        operand->first_bytes = cut.first;
        operand->step_bytes = cut.step;
        operand->num_panels = (int)shard->num_panels;
    }
}

/* Sizes of one shard's task. */
static int64_t count_panels(const region *r, int shard)
{
    int64_t panels = 0;
    for (int i = 0; i < r->num_inputs + r->num_outputs; i++) {
        panels += r->tensors[i]->shards[shard].num_panels;
    }
    return panels;
}

static bool writes_anything(const region *r, int shard)
{
    bool writes = false;
    for (int i = 0; i < r->num_outputs; i++) {
        writes |= r->tensors[r->num_inputs + i]->shards[shard].count > 0;
    }
    return writes;
}

static void fill_arguments(const region *r, int shard, weft_local_args *args, weft_bound_operand operands[])
{
    int count = r->num_inputs + r->num_outputs, num_panels = 0;
    args->base.dtype = r->layouts[r->num_inputs]->dtype;
    args->function = r->function;
    args->context = r->options.context;
    args->context_size = r->options.context_size;
    args->rank = weft_runtime.first_rank + shard;
    args->num_inputs = r->num_inputs;
    args->num_outputs = r->num_outputs;
    for (int i = 0; i < count; i++) {
        const weft_local_shard *at = &r->tensors[i]->shards[shard];
        describe_operand(&args->operands[i], r->layouts[i], at, num_panels);
        for (int64_t p = 0; p < at->num_panels; p++) {
            operands[num_panels++] = weft_bound(&at->panels[p], 0, i < r->num_inputs ? STARPU_R : STARPU_W);
        }
    }
    char *copied = (char *)args + weft_local_context_offset(count);
    if (args->context_size > 0) {
        memcpy(copied, args->context, args->context_size);
    }
    strcpy(copied + args->context_size, r->options.name);
}

/* False with the error kept. */
static bool submit(const region *r, int shard)
{
    int count = r->num_inputs + r->num_outputs, num_panels = (int)count_panels(r, shard);
    size_t size = weft_local_context_offset(count) + r->options.context_size + strlen(r->options.name) + 1;
    weft_local_args *args = calloc(1, size);
    weft_bound_operand *operands = malloc((size_t)num_panels * sizeof(*operands));
    bool done = args != NULL && operands != NULL;
    if (done) {
        fill_arguments(r, shard, args, operands);
        /* StarPU keeps a pointer to the name; traces have a copy. */
        done = weft_task_submit(&(weft_single_task){
            .kernel = WEFT_KERNEL_local_map,
            .name = weft_runtime.trace == NULL ? "local_map" : r->options.name,
            .function = function_name,
            .name_offset = weft_local_context_offset(count) + r->options.context_size,
            .arguments = args,
            .arguments_size = size,
            .num_operands = num_panels,
            .operands = operands,
        });
    } else {
        weft_fail(WEFT_ERR_NOMEM, function_name, "no memory for a task");
    }
    free(args);
    free(operands);
    return done;
}

/* ---- the call ------------------------------------------------------------------------------------------ */

/* Whether an input has no data: then the outputs have none, and nothing is submitted. */
static bool is_fake(const region *r)
{
    bool fake = false;
    for (int i = 0; i < r->num_inputs; i++) {
        fake |= r->tensors[i]->fake;
    }
    return fake;
}

/* After all checks. New tensors belong to the innermost scope. False with the error kept. */
static bool run(region *r)
{
    bool done = true, fake = is_fake(r);
    for (int i = 0; i < r->num_inputs && weft_runtime.explained != NULL; i++) {
        weft_explain_move(function_name, r->tensors[i]->layout, r->layouts[i]);
    }
    for (int i = 0; i < r->num_inputs && done && !fake; i++) {
        if (r->tensors[i]->layout != r->layouts[i]) {
            r->tensors[i] = weft_tensor_to_layout(function_name, r->tensors[i], r->layouts[i]);
            done = r->tensors[i] != NULL;
        }
    }
    for (int i = r->num_inputs; i < r->num_inputs + r->num_outputs && done; i++) {
        r->tensors[i] = fake ? weft_tensor_fake(function_name, r->layouts[i])
                             : weft_tensor_new(function_name, r->layouts[i]);
        done = r->tensors[i] != NULL;
    }
    weft_runtime.operations++;
    for (int shard = 0; shard < weft_runtime.local_ranks && done && !fake; shard++) {
        done = !writes_anything(r, shard) || submit(r, shard);
    }
    return done;
}

/* Numbers of the call: the function, its gradient, their context, the layouts, and the context's bytes if they are copied. */
enum { FUNCTION, GRADIENT, CONTEXT, CONTEXT_SIZE, LAYOUTS };

static int num_layouts(const region *r)
{
    return 2 * r->num_inputs + r->num_outputs;
}

static int context_words(size_t size)
{
    return (int)((size + sizeof(int64_t) - 1) / sizeof(int64_t));
}

static void pack(const region *r, int64_t numbers[])
{
    int count = num_layouts(r);
    numbers[FUNCTION] = (int64_t)(uintptr_t)r->function;
    numbers[GRADIENT] = (int64_t)(uintptr_t)r->options.gradient;
    numbers[CONTEXT] = (int64_t)(uintptr_t)r->options.context;
    numbers[CONTEXT_SIZE] = (int64_t)r->options.context_size;
    for (int i = 0; i < count; i++) {
        numbers[LAYOUTS + i] = (int64_t)(uintptr_t)r->layouts[i];
    }
    if (r->options.context_size > 0) {
        memcpy(numbers + LAYOUTS + count, r->options.context, r->options.context_size);
    }
}

static void unpack(const weft_call *call, region *r)
{
    const int64_t *numbers = call->details->numbers;
    int count = num_layouts(r);
    r->function = (weft_local_function)(uintptr_t)numbers[FUNCTION];
    r->options.gradient = (weft_local_function)(uintptr_t)numbers[GRADIENT];
    r->options.name = call->details->text;
    r->options.context_size = (size_t)numbers[CONTEXT_SIZE];
    r->options.context = r->options.context_size > 0 ? (void *)(uintptr_t)(numbers + LAYOUTS + count)
                                                     : (void *)(uintptr_t)numbers[CONTEXT];
    for (int i = 0; i < count; i++) {
        r->layouts[i] = (const weft_layout *)(uintptr_t)numbers[LAYOUTS + i];
        r->tensors[i] = i < r->num_inputs ? weft_tensor_get(call->details->tensors[i]) : NULL;
    }
}

static void meet_layouts(const weft_call *call)
{
    const region r = { .num_inputs = call->details->num_tensors, .num_outputs = call->details->num_outputs };
    for (int i = 0, count = num_layouts(&r); i < count; i++) {
        weft_meet_layout((const weft_layout *)(uintptr_t)call->details->numbers[LAYOUTS + i]);
    }
}

static bool obtain_lists(region *r)
{
    size_t count = (size_t)num_layouts(r);
    r->tensors = calloc(count, sizeof(*r->tensors));
    r->layouts = calloc(count, sizeof(*r->layouts));
    if (r->tensors == NULL || r->layouts == NULL) {
        weft_fail(WEFT_ERR_NOMEM, function_name, "no memory for %zu tensors", count);
    }
    return r->tensors != NULL && r->layouts != NULL;
}

static void free_lists(region *r)
{
    free(r->tensors);
    free(r->layouts);
}

static bool carry_out(region *r, const weft_call *call, weft_tensor *outputs[])
{
    unpack(call, r);
    double numbers[] = { r->num_inputs, r->num_outputs };
    if (!weft_check_spmd(&(weft_call_signature){ .function = function_name,
                                                 .num_layouts = r->num_inputs + r->num_outputs,
                                                 .layouts = r->layouts,
                                                 .num_numbers = 2,
                                                 .numbers = numbers })) {
        return false;
    }
    weft_scope_begin();
    bool done = run(r);
    for (int i = 0; i < r->num_outputs && done; i++) {
        outputs[i] = weft_scope_keep(r->tensors[r->num_inputs + i]->handle);
    }
    weft_scope_end_own();
    return done;
}

static weft_status perform_local_map(const weft_call *call, weft_tensor *outputs[])
{
    region r = { .num_inputs = call->details->num_tensors, .num_outputs = call->details->num_outputs };
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

static bool describe_gradients(gradient_region *g, const region *r, const weft_gradient *of)
{
    const weft_layout *const *layouts = r->layouts + r->num_inputs + r->num_outputs;
    for (int i = 0; i < r->num_inputs; i++) {
        g->inputs[i] = weft_tensor_handle(r->tensors[i]);
        g->in_placements[i] = r->layouts[i]->placements;
        if (weft_dtype_has_gradient(layouts[i]->dtype)) {
            g->descriptions[g->num_outputs++] = (weft_local_output){ layouts[i]->dtype, layouts[i]->ndim,
                                                                     layouts[i]->shape, layouts[i]->placements };
        }
    }
    g->num_inputs = r->num_inputs;
    bool done = true;
    for (int i = 0; i < r->num_outputs && done; i++) {
        done = add_output_gradient(g, r->layouts[r->num_inputs + i], of->output_gradients[i]);
    }
    return done;
}

static bool run_gradient(gradient_region *g, const region *r, const weft_gradient *of)
{
    const weft_local_map_options options = { .name = r->options.name,
                                             .mesh = r->layouts[0]->mesh->handle,
                                             .in_placements = g->in_placements,
                                             .context = r->options.context,
                                             .context_size = r->options.context_size };
    bool done = describe_gradients(g, r, of) &&
                weft_local_map(r->options.gradient, g->num_inputs, g->inputs, g->num_outputs, g->descriptions,
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
    region r = { .num_inputs = of->call->details->num_tensors, .num_outputs = of->call->details->num_outputs };
    size_t all = (size_t)r.num_inputs + (size_t)r.num_outputs;
    gradient_region g = { .inputs = calloc(all, sizeof(weft_tensor *)),
                          .outputs = calloc(all, sizeof(weft_tensor *)),
                          .in_placements = calloc(all, sizeof(weft_placement *)),
                          .descriptions = calloc(all, sizeof(weft_local_output)) };
    bool done = obtain_lists(&r);
    if (g.inputs == NULL || g.outputs == NULL || g.in_placements == NULL || g.descriptions == NULL) {
        weft_fail(WEFT_ERR_NOMEM, function_name, "no memory for %zu tensors", all);
        done = false;
    }
    if (done) {
        unpack(of->call, &r);
        done = run_gradient(&g, &r, of);
    }
    free_lists(&r);
    free(g.inputs);
    free(g.outputs);
    free(g.in_placements);
    free(g.descriptions);
    return done;
}

static weft_status act(const region *r, weft_tensor *const inputs[], weft_tensor *outputs[])
{
    static const weft_gradient_entry known = { .function = gradients_of_region, .reads_inputs = true },
                                     unknown = { .missing = "options.gradient is NULL" };
    static const weft_action with_gradient = { .name = "local_map",
                                               .perform = perform_local_map,
                                               .gradient = &known,
                                               .meet_layouts = meet_layouts },
                             without = { .name = "local_map",
                                         .perform = perform_local_map,
                                         .gradient = &unknown,
                                         .meet_layouts = meet_layouts };
    const weft_action *action = r->options.gradient == NULL ? &without : &with_gradient;
    int num_numbers = LAYOUTS + num_layouts(r) + context_words(r->options.context_size);
    int64_t *numbers = calloc((size_t)num_numbers, sizeof(*numbers));
    if (numbers == NULL) {
        return weft_fail(WEFT_ERR_NOMEM, function_name, "no memory for a call");
    }
    pack(r, numbers);
    const weft_call_details details = { .num_outputs = r->num_outputs,
                                        .num_tensors = r->num_inputs,
                                        .tensors = inputs,
                                        .num_numbers = num_numbers,
                                        .numbers = numbers,
                                        .text = r->options.name };
    weft_status status =
        weft_act(&(weft_call){ .function = function_name, .action = action, .details = &details }, outputs);
    free(numbers);
    return status;
}

weft_status weft_local_map(weft_local_function function, int num_inputs, weft_tensor *const inputs[],
                           int num_outputs, const weft_local_output descriptions[],
                           const weft_local_map_options *options, weft_tensor *outputs[])
{
    region r = { .function = function, .num_inputs = num_inputs, .num_outputs = num_outputs };
    if (weft_require_init(function_name) != WEFT_OK) {
        return weft_latest_status();
    }
    bool right = options == NULL || WEFT_TAKE_OPTIONS(function_name, &r.options, options);
    r.options.name = r.options.name == NULL ? "local_map" : r.options.name;
    for (int i = 0; outputs != NULL && i < num_outputs; i++) {
        outputs[i] = NULL;
    }
    right = right && check_arguments(&r, inputs, descriptions, outputs) && obtain_lists(&r) &&
            find_inputs(&r, inputs) && find_layouts(&r, descriptions) && check_moves(&r);
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
