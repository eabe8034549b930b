/* Calls that read the layout of an input alone (weft_ones_like()): in a body they have no inputs, since their own layout is
 * recorded. So they do not keep the calls that made the value, nor its memory, and do not wait for its messages. */
#include <stdlib.h>

#include "graph/passes/pass.h"

static bool reads_layout_alone(const weft_graph_node *node)
{
    return weft_call_does(node->call, WEFT_READS_LAYOUTS) && node->num_inputs > 0 &&
           !weft_pass_leaves_alone(node);
}

/* False: no memory. */
static bool drop_inputs(weft_graph_trace *trace, weft_graph_node *node)
{
    weft_graph_node made;
    weft_call call = *node->call;
    call.num_inputs = 0;
    if (!weft_node_make(&made, &call, node->inputs, node->num_outputs, node->outputs)) {
        return false;
    }
    made.source = node->source;
    made.implicit = node->implicit;
    made.without_data = node->without_data;
    trace->bytes += weft_node_bytes(&made) - weft_node_bytes(node);
    weft_node_free(node);
    *node = made;
    return true;
}

bool weft_pass_unread(weft_graph_body *body)
{
    bool done = true;
    for (size_t i = 0; i < body->trace->nodes.count && done; i++) {
        weft_graph_node *node = weft_trace_node(body->trace, i);
        done = !reads_layout_alone(node) || drop_inputs(body->trace, node);
    }
    return done;
}
