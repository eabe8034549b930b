/* The layouts that a call works on. */
#include <stdio.h>
#include <string.h>

#include "dispatch/cache.h"
#include "dispatch/inputs.h"

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

/* Of an operation that is told its output's shape: whether its rule gives that. */
static bool gives_shape_asked_for(const weft_call *call, const weft_binding *binding, char *why,
                                  size_t why_size)
{
    const weft_attributes *attributes = &call->attributes;
    bool same = binding->output_ndim == attributes->num_numbers;
    for (int d = 0; d < binding->output_ndim && same; d++) {
        same = binding->output_shape[d] == attributes->numbers[d];
    }
    if (!same) {
        snprintf(why, why_size, "a mistake in weft: the rule of %s does not give the shape asked for",
                 call->operation->name);
    }
    return same;
}

static void list_windows(const weft_call *call, const weft_binding *binding,
                         weft_window access_map[][WEFT_MAX_DIMS])
{
    for (int i = 0; i < binding->num_inputs; i++) {
        for (int d = 0; d < binding->input_ndim[i]; d++) {
            access_map[i][d] =
                binding->input_access[i][d] ? call->operation->window(call, i, d) : (weft_window){ 0 };
        }
    }
}

static weft_status choose_by_rule(const weft_call *call, const weft_layout *const inputs[],
                                  weft_sharding *sharding, char *why, size_t why_size)
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
    if (operation->numbers_are_shape && !gives_shape_asked_for(call, &binding, why, why_size)) {
        return WEFT_ERR_INTERNAL;
    }
    weft_window access_map[WEFT_MAX_INPUTS][WEFT_MAX_DIMS];
    list_windows(call, &binding, access_map);
    weft_search search = {
        .table = weft_runtime.layouts,
        .topology = &weft_runtime.topology,
        .cost = &weft_runtime.cost,
        .in_place = operation->in_place,
        .forced = weft_forced(),
        .access_map = access_map,
    };
    weft_dtype type = weft_output_dtype(operation->output_type, call->num_inputs, inputs,
                                        (weft_dtype)call->attributes.type);
    return weft_strategy_search(&search, &binding, &operation->linear, inputs, type, sharding, why, why_size);
}

const weft_sharding *weft_obtain_layouts(const weft_call *call, weft_tensor_impl *const tensors[],
                                         weft_sharding *own, int *guessed, weft_cached_call **cached)
{
    const weft_layout *inputs[WEFT_MAX_INPUTS];
    *cached = NULL;
    if (!weft_gather_layouts(call, tensors, inputs, guessed)) {
        return NULL;
    }
    bool forced = weft_forced()->active;
    uint64_t hash = weft_cache_hash(call, inputs);
    *cached = forced ? NULL : weft_cache_find(call, inputs, hash);
    if (*cached != NULL) {
        weft_runtime.counters.dispatch_hits++;
        return &(*cached)->sharding;
    }
    weft_runtime.counters.dispatch_misses++;
    if (!weft_check_types(call, inputs) || !weft_check_meshes(call, inputs)) {
        return NULL;
    }
    *own = (weft_sharding){ .output = NULL };
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
    if (forced) {
        return own;
    }
    *cached = weft_cache_add(call, inputs, hash, own);
    return *cached == NULL ? NULL : &(*cached)->sharding;
}
