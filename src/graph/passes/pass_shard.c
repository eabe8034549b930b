/* The recorded calls on the layouts that weft_graph_shard() has chosen. */
#include <stdlib.h>
#include <string.h>

#include "graph/passes/pass.h"
#include "graph/shard/shard.h"
#include "tensor/actions.h"

typedef struct sharding_pass {
    weft_graph_body *body;
    const weft_trace_sharding *sharding;
    int *now; /* by recorded value: its number in the body, in the layout that it is passed on in; -1: none yet */
} sharding_pass;

/* The value in another layout, made before node `before`. -1: no memory. */
static int redistribute(const sharding_pass *p, int number, const weft_layout *layout, size_t before)
{
    if (weft_trace_layout(p->body->trace, number) == layout) {
        return number;
    }
    const weft_call call = { .function = "weft_redistribute", .operation = &weft_action_to_layout, .num_inputs = 1,
                             .details = &(weft_call_details){ .layout = layout } };
    int moved = weft_body_add_value(p->body, layout);
    return moved >= 0 && weft_body_insert(p->body, before, &call, &number, 1, &moved) ? moved : -1;
}

/* The program's redistribution: the value passes as it is, or in the layout that it is passed on in. */
static bool pass_on(const sharding_pass *p, size_t i)
{
    weft_graph_node *node = weft_trace_node(p->body->trace, i);
    int input = node->inputs[0], output = node->outputs[0];
    weft_body_remove(node);
    if (output < 0 || output == input) {
        return true;
    }
    int moved = redistribute(p, p->now[input], p->sharding->passed[output], i);
    p->now[output] = moved;
    return moved >= 0;
}

/* Drops a call's wish, which was for the layouts of the capture, unless these were chosen. False: no memory. */
static bool settle_wish(const sharding_pass *p, size_t i)
{
    weft_graph_node *node = weft_trace_node(p->body->trace, i);
    const weft_graph_node *recorded = weft_trace_node(p->body->recorded, i);
    int output = node->num_outputs == 0 ? -1 : recorded->outputs[0];
    bool same = output < 0 || p->sharding->values[output] == weft_trace_value(p->body->recorded, output)->layout;
    for (int k = 0; k < recorded->num_inputs && same; k++) {
        int input = recorded->inputs[k];
        same = input < 0 || p->sharding->inputs[p->sharding->first_input[i] + k] == weft_trace_value(p->body->recorded, input)->layout;
    }
    if (node->call->attributes.wish == 0 || same) {
        return true;
    }
    size_t bytes;
    weft_call *own = weft_call_copy(node->call, &bytes);
    if (own != NULL) {
        own->attributes.wish = 0;
        node->call = own;
        node->shares_call = false;
        node->bytes = bytes;
        p->body->trace->bytes += bytes;
    }
    return own != NULL;
}

static bool shard_node(const sharding_pass *p, size_t i)
{
    const weft_layout *const *wanted = p->sharding->inputs + p->sharding->first_input[i];
    int num_inputs = weft_trace_node(p->body->trace, i)->num_inputs;
    for (int k = 0; k < num_inputs; k++) {
        int recorded = weft_trace_node(p->body->trace, i)->inputs[k];
        int number = recorded < 0 ? -1 : redistribute(p, p->now[recorded], wanted[k], i);
        if (recorded >= 0 && number < 0) {
            return false;
        }
        weft_trace_node(p->body->trace, i)->inputs[k] = number;
    }
    for (int o = 0; o < weft_trace_node(p->body->trace, i)->num_outputs; o++) {
        int output = weft_trace_node(p->body->trace, i)->outputs[o];
        int returned = weft_shard_returned_input(weft_trace_node(p->body->recorded, i), o);
        if (returned >= 0) { /* in the layout that the value is passed on in */
            weft_graph_node *node = weft_trace_node(p->body->trace, i);
            node->outputs[o] = node->inputs[returned];
        }
        if (output < 0 || p->now[output] >= 0) {
            continue;
        }
        weft_trace_value(p->body->trace, output)->layout = p->sharding->values[output];
        p->now[output] = redistribute(p, output, p->sharding->passed[output], i + 1);
        if (p->now[output] < 0) {
            return false;
        }
    }
    return true;
}

/* Promised values have the layouts of the capture. */
static bool give_promised(const sharding_pass *p)
{
    size_t end = p->body->recorded->nodes.count;
    for (size_t v = 0; v < p->body->recorded->values.count; v++) {
        weft_trace_value(p->body->trace, (int)v)->is_promised = false;
        if (p->now[v] < 0) {
            continue;
        }
        p->body->values[v] = p->now[v];
        if (p->body->wanted[v]) {
            int moved = redistribute(p, p->now[v], weft_trace_value(p->body->recorded, (int)v)->layout, end);
            p->body->values[v] = moved;
            if (moved < 0) {
                return false;
            }
        }
    }
    return true;
}

/* Whether all promised values can be brought to the layouts of the capture: nothing becomes Partial. */
static bool can_give_promised(const weft_graph_body *body)
{
    bool can = true;
    for (size_t v = 0; v < body->recorded->values.count && can; v++) {
        const weft_layout *from = body->recorded->sharding->passed[v];
        const weft_layout *to = weft_trace_value(body->recorded, (int)v)->layout;
        can = !body->wanted[v] || from == to ||
              weft_plan_cost(weft_runtime.layouts, &weft_runtime.topology, &weft_runtime.cost, from, to) >= 0;
    }
    return can;
}

bool weft_pass_shard(weft_graph_body *body)
{
    const weft_graph_trace *recorded = body->recorded;
    sharding_pass p = { .body = body, .sharding = recorded->sharding };
    if (p.sharding == NULL || p.sharding->has_moved_inputs || !can_give_promised(body)) {
        return true;
    }
    p.now = malloc((recorded->values.count + 1) * sizeof(int));
    bool done = p.now != NULL;
    for (size_t v = 0; v < recorded->values.count && done; v++) {
        p.now[v] = weft_trace_value(recorded, (int)v)->is_input ? (int)v : -1;
    }
    for (size_t i = 0; i < recorded->nodes.count && done; i++) {
        const weft_call *call = weft_trace_node(recorded, i)->call;
        bool passes = weft_call_does(call, WEFT_MOVES) && p.sharding->is_passed[i];
        done = passes ? pass_on(&p, i) : settle_wish(&p, i) && shard_node(&p, i);
    }
    done = done && give_promised(&p);
    free(p.now);
    return done;
}
