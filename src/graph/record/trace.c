/* Traces: recorded calls. */
#include <stdlib.h>
#include <string.h>

#include "call/interposer.h"
#include "graph/record/trace.h"

weft_graph_trace *weft_trace_new(void)
{
    weft_graph_trace *trace = calloc(1, sizeof(*trace));
    if (trace != NULL) {
        trace->bytes = sizeof(*trace);
    }
    return trace;
}

void weft_trace_free(weft_graph_trace *trace)
{
    for (size_t i = 0; trace != NULL && i < trace->nodes.count; i++) {
        weft_node_free(weft_trace_node(trace, i));
    }
    if (trace != NULL) {
        free(trace->wanted);
        free(trace->outputs);
        free(trace->prefixes);
        weft_vec_free(&trace->nodes);
        weft_vec_free(&trace->values);
    }
    free(trace);
}

void weft_trace_meet_layouts(const weft_graph_trace *trace)
{
    for (size_t i = 0; i < trace->nodes.count; i++) {
        weft_call_meet_layouts(weft_trace_node(trace, i)->call);
    }
    for (size_t i = 0; i < trace->values.count; i++) {
        weft_meet_layout(weft_trace_value(trace, (int)i)->layout);
    }
}

bool weft_trace_add_value(weft_graph_trace *trace, const weft_layout *layout, bool is_input)
{
    weft_graph_value *value = weft_vec_push(&trace->values, sizeof(*value));
    if (value != NULL) {
        *value = (weft_graph_value){ .layout = layout, .is_input = is_input, .argument = -1, .constant = -1,
                                     .last_use = -1, .replaced = -1 };
        value->recorded = (int)trace->values.count - 1;
        trace->bytes += sizeof(*value);
    }
    return value != NULL;
}

bool weft_trace_add_like(weft_graph_trace *trace, const weft_graph_value *value)
{
    bool done = weft_trace_add_value(trace, value->layout, value->is_input);
    if (done) {
        weft_graph_value *added = weft_trace_value(trace, (int)trace->values.count - 1);
        added->is_fake = value->is_fake;
        added->is_memory = value->is_memory;
        added->argument = value->argument;
        added->constant = value->constant;
        added->ghosts = value->ghosts;
    }
    return done;
}

bool weft_trace_has_ghosts(const weft_graph_trace *trace)
{
    bool has = false;
    for (size_t i = 0; i < trace->values.count; i++) {
        has |= weft_trace_value(trace, (int)i)->ghosts != 0;
    }
    return has;
}

bool weft_node_has_ghosts(const weft_graph_trace *trace, const weft_graph_node *node)
{
    bool has = false;
    for (int i = 0; i < node->num_inputs; i++) {
        has |= node->inputs[i] >= 0 && weft_trace_value(trace, node->inputs[i])->ghosts != 0;
    }
    return has;
}

/* Memory for the numbers of a node's tensors. False: no memory. */
static bool set_numbers(weft_graph_node *node, const int inputs[], const int outputs[])
{
    size_t num_inputs = (size_t)node->num_inputs, num_outputs = (size_t)node->num_outputs;
    node->inputs = malloc((num_inputs + num_outputs + 1) * sizeof(int));
    if (node->inputs == NULL) {
        return false;
    }
    node->outputs = node->inputs + num_inputs;
    memcpy(node->inputs, inputs, num_inputs * sizeof(int));
    memcpy(node->outputs, outputs, num_outputs * sizeof(int));
    return true;
}

bool weft_node_make(weft_graph_node *node, const weft_call *call, const int inputs[], int num_outputs,
                    const int outputs[])
{
    *node = (weft_graph_node){ .num_inputs = weft_call_num_tensors(call), .num_outputs = num_outputs, .source = -1 };
    bool done = set_numbers(node, inputs, outputs);
    node->call = done ? weft_call_copy(call, &node->bytes) : NULL;
    if (node->call == NULL) {
        free(node->inputs);
        return false;
    }
    node->implicit = weft_runtime.implicit_replications > 0;
    node->draws = call->operation->draws;
    return true;
}

void weft_node_free(weft_graph_node *node)
{
    if (!node->shares_call) {
        free(node->call);
    }
    free(node->inputs);
}

size_t weft_node_bytes(const weft_graph_node *node)
{
    return sizeof(*node) + (node->shares_call ? 0 : node->bytes) +
           (size_t)(node->num_inputs + node->num_outputs) * sizeof(int);
}

/* Takes over the node. False: no memory, and it is freed. */
static bool append(weft_graph_trace *trace, weft_graph_node *node)
{
    weft_graph_node *added = weft_vec_push(&trace->nodes, sizeof(*node));
    if (added == NULL) {
        weft_node_free(node);
        return false;
    }
    *added = *node;
    trace->bytes += weft_node_bytes(node);
    return true;
}

bool weft_trace_add_node(weft_graph_trace *trace, const weft_call *call, const int inputs[], int num_outputs,
                         const int outputs[])
{
    weft_graph_node node;
    if (!weft_node_make(&node, call, inputs, num_outputs, outputs)) {
        return false;
    }
    node.source = (int)trace->nodes.count;
    return append(trace, &node);
}

bool weft_trace_share_node(weft_graph_trace *trace, const weft_graph_trace *other, size_t number)
{
    const weft_graph_node *shared = weft_trace_node(other, number);
    weft_graph_node node = *shared;
    node.shares_call = true;
    return set_numbers(&node, shared->inputs, shared->outputs) && append(trace, &node);
}

weft_graph_trace *weft_trace_begin_like(const weft_graph_trace *trace, size_t num_nodes, int num_values)
{
    weft_graph_trace *like = weft_trace_new();
    bool done = like != NULL;
    for (int i = 0; i < num_values && done; i++) {
        done = weft_trace_add_like(like, weft_trace_value(trace, i));
    }
    for (size_t i = 0; i < num_nodes && done; i++) {
        const weft_graph_node *node = weft_trace_node(trace, i);
        done = weft_trace_add_node(like, node->call, node->inputs, node->num_outputs, node->outputs);
        if (done) {
            weft_trace_node(like, i)->here = node->here;
            weft_trace_node(like, i)->here_line = node->here_line;
            weft_trace_node(like, i)->implicit = node->implicit;
            weft_trace_node(like, i)->draws = node->draws;
            weft_trace_node(like, i)->without_data = node->without_data;
        }
    }
    if (!done) {
        weft_trace_free(like);
    }
    return done ? like : NULL;
}

void weft_trace_finish(weft_graph_trace *trace)
{
    for (size_t i = 0; i < trace->nodes.count; i++) {
        const weft_graph_node *node = weft_trace_node(trace, i);
        for (int k = 0; k < node->num_inputs; k++) {
            if (node->inputs[k] >= 0) {
                weft_trace_value(trace, node->inputs[k])->last_use = (int)i;
            }
        }
    }
}

/* ---- comparison ------------------------------------------------------------------------------------------ */

static bool same_maps(const weft_call *a, const weft_call *b)
{
    bool same = true;
    for (int i = 0; i < a->num_inputs && same; i++) {
        const weft_access_map *one = a->access_map[i], *other = b->access_map[i];
        same = one == other || (one != NULL && other != NULL && weft_access_map_equal(one, other));
    }
    return same;
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static bool same_numbers(const weft_call_details *a, const weft_call_details *b)
{
    return a->num_numbers == b->num_numbers &&
           (a->num_numbers == 0 || memcmp(a->numbers, b->numbers, (size_t)a->num_numbers * sizeof(a->numbers[0])) == 0);
}

static bool same_context(const weft_call_details *a, const weft_call_details *b)
{
    return a->context_size == b->context_size &&
           (a->context_size == 0 ? a->context == b->context : memcmp(a->context, b->context, a->context_size) == 0);
}

/* The first difference of two calls' details, in words; NULL: none. */
static const char *compare_details(const weft_call_details *a, const weft_call_details *b)
{
    static const weft_call_details none = { 0 };
    if (a == b) {
        return NULL;
    }
    a = a == NULL ? &none : a;
    b = b == NULL ? &none : b;
    return a->layout != b->layout                                                          ? "the layout"
           : a->num_tensors != b->num_tensors                                              ? "the number of tensors"
           : a->num_outputs != b->num_outputs || a->num_changed != b->num_changed ? "the number of outputs"
           : !same_numbers(a, b)                                                           ? "an attribute"
           : !same_text(a->text, b->text)                                                  ? "a name"
           : !same_context(a, b)                                                           ? "the context"
                                                                                           : NULL;
}

static const char *compare(const weft_call *a, const weft_call *b)
{
    return a->operation != b->operation ? "the function"
           : a->num_inputs != b->num_inputs                        ? "the number of tensors"
           : memcmp(&a->attributes, &b->attributes, sizeof(a->attributes)) != 0 ? "an attribute"
           : !same_maps(a, b)                                                    ? "an access map"
                                                                                  : compare_details(a->details, b->details);
}

bool weft_call_is_like(const weft_call *a, const weft_call *b)
{
    return compare(a, b) == NULL;
}

bool weft_node_is(const weft_graph_node *node, const weft_call *call, char *why, size_t size)
{
    const char *difference = compare(node->call, call);
    if (difference == NULL && node->implicit != (weft_runtime.implicit_replications > 0)) {
        difference = "weft_implicit_replication_begin()";
    }
    if (difference != NULL && why != NULL) {
        snprintf(why, size, "%s differs: recorded %s, came %s", difference, node->call->function, call->function);
    }
    return difference == NULL;
}

static bool same_value(const weft_graph_value *a, const weft_graph_value *b)
{
    return a->layout == b->layout && a->is_fake == b->is_fake && a->is_memory == b->is_memory && a->ghosts == b->ghosts;
}

bool weft_trace_begins_like(const weft_graph_trace *a, const weft_graph_trace *b, size_t count)
{
    bool same = a->nodes.count >= count && b->nodes.count >= count;
    for (size_t i = 0; i < count && same; i++) {
        const weft_graph_node *one = weft_trace_node(a, i), *other = weft_trace_node(b, i);
        same = compare(one->call, other->call) == NULL && one->implicit == other->implicit && one->num_inputs == other->num_inputs &&
               one->num_outputs == other->num_outputs &&
               memcmp(one->inputs, other->inputs, (size_t)(one->num_inputs + one->num_outputs) * sizeof(int)) == 0;
        for (int k = 0; k < one->num_inputs && same; k++) {
            int number = one->inputs[k];
            same = number < 0 || same_value(weft_trace_value(a, number), weft_trace_value(b, number));
        }
    }
    return same;
}

/* ---- digests: no addresses, which differ between processes ------------------------------------------------- */

/* One digest covers all that does not depend on sizes, the other one the rest. */
typedef struct digests {
    uint64_t template, sizes;
} digests;

static void add_layout(digests *d, const weft_layout *layout)
{
    d->template = weft_digest_add(weft_digest_add(d->template, layout->sizeless_digest), layout->mesh->digest);
    d->sizes = weft_digest_add(d->sizes, layout->digest);
}

static void add_numbers(digests *d, int64_t count, const int64_t numbers[])
{
    d->template = weft_digest_add(d->template, (uint64_t)count);
    for (int64_t i = 0; i < count; i++) {
        d->sizes = weft_digest_add(d->sizes, (uint64_t)numbers[i]);
    }
}

static void add_call(digests *d, const weft_call *call)
{
    const weft_attributes *a = &call->attributes;
    const uint64_t fixed = (uint64_t)a->rule ^ (uint64_t)a->leading << 16 ^ (uint64_t)a->type << 32 ^ (uint64_t)a->omitted << 48;
    d->template = weft_digest_text(d->template, call->operation->name);
    d->template = weft_digest_add(d->template, fixed);
    d->sizes = weft_digest_add(d->sizes, (uint64_t)a->wish);
    add_numbers(d, a->num_sizes, a->sizes);
    add_numbers(d, a->num_numbers, a->numbers);
    if (call->details != NULL) {
        add_numbers(d, call->details->num_numbers, call->details->numbers);
        d->template = call->details->text == NULL ? d->template : weft_digest_text(d->template, call->details->text);
    }
}

uint64_t weft_trace_digest(const weft_graph_trace *trace, uint64_t *template)
{
    digests d = { .template = weft_digest_add(trace->nodes.count, trace->values.count), .sizes = 0 };
    for (size_t i = 0; i < trace->values.count; i++) {
        const weft_graph_value *value = weft_trace_value(trace, (int)i);
        add_layout(&d, value->layout);
        d.template = weft_digest_add(d.template, (uint64_t)value->is_input << 2 | (uint64_t)value->is_fake << 1 | value->is_memory);
        d.template = value->ghosts == 0 ? d.template : weft_digest_add(d.template, value->ghosts);
    }
    for (size_t i = 0; i < trace->nodes.count; i++) {
        const weft_graph_node *node = weft_trace_node(trace, i);
        add_call(&d, node->call);
        for (int k = 0; k < node->num_inputs + node->num_outputs; k++) { /* the outputs follow the inputs */
            d.template = weft_digest_add(d.template, (uint64_t)(int64_t)node->inputs[k]);
        }
    }
    if (template != NULL) {
        *template = d.template;
    }
    return weft_digest_add(d.template, d.sizes);
}

/* ---- digests of the first calls: of this process alone ------------------------------------------------------ */

static uint64_t add_map(uint64_t digest, const weft_access_map *map)
{
    digest = weft_digest_add(digest, (uint64_t)(uintptr_t)map->cut);
    for (int d = 0; d < map->cut->ndim; d++) {
        const weft_window *window = &map->of[d];
        digest = map->has[d] ? weft_digest_add(weft_digest_add(digest, (uint64_t)window->before), (uint64_t)window->after) : digest;
    }
    return digest;
}

/* Of all that compare() compares, or it would not be found again. */
uint64_t weft_prefix_call(uint64_t so_far, const weft_call *call, bool implicit)
{
    digests d = { .template = weft_digest_add(so_far, implicit), .sizes = (uint64_t)(uintptr_t)call->operation };
    add_call(&d, call);
    for (int i = 0; i < call->num_inputs; i++) {
        d.sizes = call->access_map[i] == NULL ? d.sizes : add_map(d.sizes, call->access_map[i]);
    }
    const weft_call_details *details = call->details;
    if (details != NULL) {
        d.sizes = weft_digest_add(d.sizes, (uint64_t)(uintptr_t)details->layout);
        d.sizes = weft_digest_add(d.sizes, (uint64_t)details->num_outputs << 32 | (uint64_t)details->num_changed);
        d.sizes = details->context_size == 0 ? weft_digest_add(d.sizes, (uint64_t)(uintptr_t)details->context)
                                             : weft_hash_bytes(details->context, details->context_size, d.sizes);
    }
    return weft_digest_add(d.template, d.sizes);
}

bool weft_trace_find_prefixes(weft_graph_trace *trace)
{
    trace->prefixes = malloc((trace->nodes.count + 1) * sizeof(*trace->prefixes));
    uint64_t digest = 0;
    for (size_t i = 0, known = 0; i < trace->nodes.count && trace->prefixes != NULL; i++) {
        const weft_graph_node *node = weft_trace_node(trace, i);
        size_t next = known;
        digest = weft_prefix_call(digest, node->call, node->implicit);
        for (int k = 0; k < node->num_inputs + node->num_outputs; k++) { /* the outputs follow the inputs */
            int number = node->inputs[k];
            bool is_new = number >= 0 && (size_t)number >= known;
            if (k < node->num_inputs) {
                const weft_graph_value *value = is_new ? weft_trace_value(trace, number) : NULL;
                digest = value == NULL ? weft_prefix_input(digest, number, NULL, false, false, 0)
                                       : weft_prefix_input(digest, number, value->layout, value->is_fake, value->is_memory, value->ghosts);
            }
            next = is_new && (size_t)number >= next ? (size_t)number + 1 : next;
        }
        known = next;
        trace->prefixes[i] = digest;
    }
    return trace->prefixes != NULL;
}
