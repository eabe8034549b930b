/* Shared by passes: which nodes they leave alone, redistributions, layouts of calls. */
#include "graph/passes/pass.h"

#include <stdlib.h>

#include "dispatch/cache.h"
#include "tensor/actions.h"
#include "tensor/state.h"

bool weft_pass_leaves_alone(const weft_graph_node *node)
{
    const weft_operation *operation = node->call->operation;
    bool fake = node->without_data && weft_runtime.world != WEFT_WORLD_FAKE;
    return fake || operation->num_inputs > 0;
}

bool weft_pass_is_move(const weft_graph_node *node)
{
    const weft_call *call = node->call;
    return weft_call_does(call, WEFT_MOVES) && !weft_pass_leaves_alone(node) && node->num_inputs == 1 &&
           node->num_outputs == 1 && call->access_map[0] == NULL;
}

bool weft_pass_insert_move(weft_graph_body *body, size_t before, int from, int to)
{
    weft_call call = { .function = "weft_redistribute",
                       .operation = &weft_action_to_layout,
                       .num_inputs = 1,
                       .details = &(weft_call_details){ .layout = weft_trace_value(body->trace, to)->layout } };
    return weft_body_insert(body, before, &call, &from, 1, &to);
}

/* In a scope of its own. False, with *done false: an error is kept. */
static bool obtain(const weft_graph_node *node, const weft_layout *const inputs[], weft_sharding *sharding, bool *done)
{
    weft_call call = *node->call;
    weft_tensor_impl *tensors[WEFT_MAX_INPUTS];
    for (int i = 0; i < node->num_inputs; i++) {
        tensors[i] = weft_tensor_fake(call.function, inputs[i]);
        if (tensors[i] == NULL) {
            *done = false;
            return false;
        }
        call.inputs[i] = tensors[i]->handle;
    }
    if (weft_call_expands(&call)) {
        return false;
    }
    weft_sharding own;
    weft_cached_call *cached;
    int guessed;
    const weft_sharding *found = weft_obtain_layouts(&call, tensors, &own, &guessed, &cached);
    *done = found != NULL;
    if (found != NULL) {
        *sharding = *found;
    }
    weft_cache_release(cached); /* and with it what was found, if it is not kept */
    return *done && !sharding->has_access_maps;
}

bool weft_pass_layouts(const weft_graph_node *node, const weft_layout *const inputs[], weft_sharding *sharding, bool *done)
{
    const weft_call *call = node->call;
    bool simple = !weft_call_is_action(call) && call->details == NULL && !node->implicit && node->num_inputs > 0;
    for (int i = 0; i < call->num_inputs && simple; i++) {
        simple = call->access_map[i] == NULL;
    }
    if (!simple) {
        return false;
    }
    if (!weft_scope_begin_unrecorded()) {
        *done = false;
        return false;
    }
    bool known = obtain(node, inputs, sharding, done);
    weft_scope_end_keeping(0, NULL, NULL, NULL);
    return known;
}

bool *weft_pass_find_changed(const weft_graph_trace *trace)
{
    bool *changed = calloc(trace->values.count + 1, sizeof(bool));
    for (size_t i = 0; i < trace->nodes.count && changed != NULL; i++) {
        const weft_graph_node *node = weft_trace_node(trace, i);
        for (int k = 0; k < node->num_outputs && k < node->num_inputs; k++) {
            if (weft_call_changes(node->call, k)) {
                changed[node->inputs[k]] = true;
            }
        }
    }
    return changed;
}

bool *weft_pass_find_outside(const weft_graph_trace *trace)
{
    bool *outside = calloc(trace->values.count + 1, sizeof(bool));
    for (size_t i = 0; i < trace->values.count && outside != NULL; i++) {
        outside[i] = weft_trace_value(trace, (int)i)->is_input;
    }
    for (size_t i = 0; i < trace->nodes.count && outside != NULL; i++) {
        const weft_graph_node *node = weft_trace_node(trace, i);
        for (int k = 0; k < node->num_outputs; k++) {
            if (node->outputs[k] >= 0 && weft_call_changes(node->call, k)) {
                outside[node->outputs[k]] = true;
            }
        }
    }
    return outside;
}

bool weft_pass_sharing_make(weft_pass_sharing *sharing, const weft_graph_trace *trace)
{
    sharing->changed = weft_pass_find_changed(trace);
    sharing->outside = weft_pass_find_outside(trace);
    return sharing->changed != NULL && sharing->outside != NULL;
}

void weft_pass_sharing_free(weft_pass_sharing *sharing)
{
    free(sharing->changed);
    free(sharing->outside);
}

bool weft_pass_may_replace(const weft_pass_sharing *sharing, const weft_graph_trace *trace, int value, int by)
{
    const weft_graph_value *former = weft_trace_value(trace, value), *other = weft_trace_value(trace, by);
    return !sharing->changed[value] && !sharing->changed[by] && former->is_fake == other->is_fake &&
           !(former->is_promised && sharing->outside[by]);
}
