/* Calls whose outputs nothing needs. Left are calls that can report a wrong value when they run (indices out of range,
 * probabilities), since a program relies on their errors, and those of the program's operations. Random numbers that a
 * removed call would have drawn are drawn all the same: states move on where calls are made. */
#include <stdlib.h>

#include "graph/passes/pass.h"

static bool is_integer(weft_dtype dtype)
{
    return (WEFT_TYPES_INTEGER & WEFT_TYPE_BIT(dtype)) != 0;
}

/* Integers may be indices, where the operation is not elementwise; inputs of a call that draws, probabilities. */
static bool may_report(const weft_graph_trace *trace, const weft_graph_node *node)
{
    const weft_operation *operation = node->call->operation;
    bool may = node->draws && node->num_inputs > 0;
    if (may || weft_call_is_action(node->call) || weft_kernel_is_elementwise(operation->kernel)) {
        return may;
    }
    for (int i = 0; i < node->num_inputs && !may; i++) {
        may = node->inputs[i] >= 0 && is_integer(weft_trace_value(trace, node->inputs[i])->layout->dtype);
    }
    return may;
}

static bool is_needed(const weft_graph_trace *trace, const weft_graph_node *node, const bool needed[])
{
    bool found = weft_pass_leaves_alone(node) || may_report(trace, node) ||
                 (weft_call_is_action(node->call) && !weft_call_does(node->call, WEFT_MAKES));
    for (int i = 0; i < node->num_outputs && !found; i++) {
        found = node->outputs[i] >= 0 && (needed[node->outputs[i]] || weft_trace_value(trace, node->outputs[i])->is_promised);
    }
    return found;
}

bool weft_pass_dead(weft_graph_body *body)
{
    weft_graph_trace *trace = body->trace;
    bool *needed = calloc(trace->values.count + 1, sizeof(bool));
    for (size_t i = trace->nodes.count; i-- > 0 && needed != NULL;) {
        weft_graph_node *node = weft_trace_node(trace, i);
        bool keeps = is_needed(trace, node, needed);
        for (int k = 0; k < node->num_inputs && keeps; k++) {
            if (node->inputs[k] >= 0) {
                needed[node->inputs[k]] = true;
            }
        }
        if (!keeps) {
            weft_body_remove(node);
            body->counts.dead++;
        }
    }
    bool done = needed != NULL;
    free(needed);
    return done;
}
