/* The memory that the values of a trace need at once, from their lifetimes; and which of them take over the memory of others. */
#include "graph/fuse/lifetimes.h"

#include <stdlib.h>
#include <string.h>

#include "codelets/kernel.h"

/* Values in one memory: a call in place, or a view, puts its output where the input is. */
typedef struct lifetimes {
    const weft_graph_trace *trace;
    const bool *is_promised;
    int *storage;    /* by value: the first value in its memory */
    int *end;        /* by storage: the last node that needs it */
    int64_t *bytes;  /* by storage, on the ranks of this process; 0: from before the trace, or in scratch memory */
    int64_t *change; /* by node: bytes that come into use with it, less those whose last node is the one before */
    bool *is_sent;   /* by storage: a redistribution reads it */
} lifetimes;

static int64_t bytes_of(const weft_layout *layout)
{
    int64_t bytes = 0;
    for (int i = 0; i < weft_runtime.local_ranks; i++) {
        bytes += weft_layout_shard(layout, weft_runtime.first_rank + i).count * (int64_t)weft_dtype_size(layout->dtype);
    }
    return bytes;
}

static void add_use(const lifetimes *l, int value, int node)
{
    int storage = l->storage[value], last = (int)l->trace->nodes.count;
    node = l->is_promised[value] ? last : node;
    l->end[storage] = node > l->end[storage] ? node : l->end[storage];
}

static bool shares_memory(const weft_graph_node *node, int output)
{
    const weft_operation *operation = node->call->operation;
    return weft_call_changes(node->call, output) || (operation->views && output == 0);
}

/* Nodes from `first` to `last` are executed together: their values are in use from the first to the last. */
static void follow(const lifetimes *l, int number, int first, int last)
{
    const weft_graph_node *node = weft_trace_node(l->trace, (size_t)number);
    for (int i = 0; i < node->num_inputs; i++) {
        if (node->inputs[i] >= 0) {
            add_use(l, node->inputs[i], last);
        }
    }
    for (int i = 0; i < node->num_outputs; i++) {
        int value = node->outputs[i];
        if (value < 0 || l->storage[value] != value || l->end[value] >= 0) {
            continue;
        }
        if (shares_memory(node, i) && node->inputs[i] >= 0) {
            l->storage[value] = l->storage[node->inputs[i]];
        } else if (!weft_trace_value(l->trace, value)->is_input) {
            l->bytes[value] = bytes_of(weft_trace_value(l->trace, value)->layout);
            l->change[first] += l->bytes[value];
        }
        add_use(l, value, last);
    }
    bool moves = weft_call_does(node->call, WEFT_MOVES);
    for (int i = 0; i < node->num_inputs && moves; i++) {
        if (node->inputs[i] >= 0) {
            l->is_sent[l->storage[node->inputs[i]]] = true;
        }
    }
}

/* Values that stay in a cluster's scratch memory are no tensors. */
static void remove_inner(const lifetimes *l, const weft_cluster *cluster)
{
    for (int n = cluster->first; n <= cluster->last; n++) {
        const weft_graph_node *node = weft_trace_node(l->trace, (size_t)n);
        for (int i = 0; i < node->num_outputs; i++) {
            int value = node->outputs[i];
            bool inner = !l->is_promised[value] && weft_trace_value(l->trace, value)->last_use <= cluster->last;
            if (inner && l->storage[value] == value) {
                l->change[cluster->first] -= l->bytes[value];
                l->bytes[value] = 0;
            }
        }
    }
    for (int i = 0; i < cluster->num_programs; i++) {
        int64_t scratch = cluster->fused ? 0 : cluster->programs[i].scratch_bytes;
        l->change[cluster->first] += scratch;
        l->change[cluster->last + 1] -= scratch;
    }
}

/* ---- taking over memory ---------------------------------------------------------------------------------- */

static int find_storage(const lifetimes *l, int value)
{
    while (l->storage[value] != value) {
        value = l->storage[value];
    }
    return value;
}

/* Nodes that are executed together: a cluster, or one by itself. */
typedef struct together {
    const weft_cluster *cluster; /* NULL: one by itself */
    int first, last;
} together;

static bool is_elementwise(const weft_graph_node *node)
{
    const weft_operation *operation = node->call->operation;
    return operation->expand == NULL && weft_kernel_is_elementwise(operation->kernel);
}

/* Whether an output, which node `number` makes, may be written to the memory of an input: elementwise kernels alone read it,
 * none of them after that node, and nothing else that they read is there. */
static bool may_overwrite(const lifetimes *l, const together *t, int number, int input)
{
    bool may = true;
    for (int n = t->first; n <= t->last && may; n++) {
        const weft_graph_node *node = weft_trace_node(l->trace, (size_t)n);
        for (int i = 0; i < node->num_inputs && may; i++) {
            int value = node->inputs[i];
            bool reads = value >= 0 && find_storage(l, value) == find_storage(l, input);
            may = !reads || (value == input && n <= number && is_elementwise(node));
        }
    }
    return may;
}

/* The output comes into the memory of an input that nothing needs after these nodes, if it can; takes[output]: that input.
 * Memory that is being sent is left: writing to it would wait for the messages. */
static void take_over(const lifetimes *l, const together *t, int number, int output, int input, int takes[])
{
    const weft_layout *layout = weft_trace_value(l->trace, output)->layout;
    int from = input < 0 || takes[output] >= 0 ? -1 : find_storage(l, input);
    bool can = from >= 0 && l->storage[output] == output && l->bytes[output] > 0 && l->bytes[from] == l->bytes[output] &&
               l->end[from] == t->last && !l->is_sent[from] && weft_trace_value(l->trace, input)->layout == layout &&
               may_overwrite(l, t, number, input);
    if (can) {
        takes[output] = input;
        l->change[t->first] -= l->bytes[output];
        l->bytes[output] = 0;
        l->storage[output] = from;
        l->end[from] = l->end[output];
    }
}

/* The node of a cluster that makes a value. */
static int find_maker(const lifetimes *l, const weft_cluster *cluster, int value)
{
    int maker = cluster->first;
    for (int n = cluster->first; n <= cluster->last; n++) {
        const weft_graph_node *node = weft_trace_node(l->trace, (size_t)n);
        for (int i = 0; i < node->num_outputs; i++) {
            maker = node->outputs[i] == value ? n : maker;
        }
    }
    return maker;
}

static void take_over_in(const lifetimes *l, const together *t, int takes[])
{
    const weft_cluster *cluster = t->cluster;
    const weft_graph_node *node = weft_trace_node(l->trace, (size_t)t->first);
    if (cluster == NULL && is_elementwise(node) && node->num_outputs == 1 && node->outputs[0] >= 0) {
        for (int i = 0; i < node->num_inputs; i++) {
            take_over(l, t, t->first, node->outputs[0], node->inputs[i], takes);
        }
    }
    int count = cluster == NULL || !cluster->fused ? 0 : cluster->num_inputs + cluster->num_outputs;
    for (int o = count == 0 ? 0 : cluster->num_inputs; o < count; o++) {
        int output = cluster->values[o], maker = find_maker(l, cluster, output);
        for (int i = 0; i < cluster->num_inputs; i++) {
            take_over(l, t, maker, output, cluster->becomes[i] < 0 ? cluster->values[i] : -1, takes);
        }
    }
}

/* ---- all ------------------------------------------------------------------------------------------------- */

static int64_t find_peak(const lifetimes *l)
{
    int64_t bytes = 0, peak = 0;
    for (size_t i = 0; i < l->trace->values.count; i++) {
        if (l->bytes[i] > 0 && l->end[i] < (int)l->trace->nodes.count) {
            l->change[l->end[i] + 1] -= l->bytes[i];
        }
    }
    for (size_t n = 0; n < l->trace->nodes.count; n++) {
        bytes += l->change[n];
        peak = weft_max_i64(peak, bytes);
    }
    return peak;
}

/* The nodes from `first` on that are executed together; *next: number of the next cluster. */
static together find_together(const weft_clusters *clusters, int first, size_t *next)
{
    bool more = clusters != NULL && *next < clusters->clusters.count;
    const weft_cluster *cluster = more ? ((weft_cluster **)clusters->clusters.items)[*next] : NULL;
    bool begins = cluster != NULL && cluster->first == first;
    *next += begins;
    return (together){ begins ? cluster : NULL, first, begins ? cluster->last : first };
}

static void follow_all(const lifetimes *l, const weft_clusters *clusters)
{
    size_t next = 0;
    for (int n = 0; n < (int)l->trace->nodes.count;) {
        together t = find_together(clusters, n, &next);
        for (; n <= t.last; n++) {
            follow(l, n, t.first, t.last);
        }
        if (t.cluster != NULL) {
            remove_inner(l, t.cluster);
        }
    }
}

static void take_over_all(const lifetimes *l, const weft_clusters *clusters, int takes[])
{
    size_t next = 0;
    for (int n = 0; n < (int)l->trace->nodes.count;) {
        together t = find_together(clusters, n, &next);
        take_over_in(l, &t, takes);
        n = t.last + 1;
    }
}

int64_t weft_trace_peak(const weft_graph_trace *trace, const bool is_promised[], const weft_clusters *clusters, int takes[])
{
    size_t values = trace->values.count + 1, nodes = trace->nodes.count + 2;
    lifetimes l = { .trace = trace, .is_promised = is_promised };
    l.bytes = calloc(values + nodes, sizeof(int64_t));
    l.storage = malloc(values * 2 * sizeof(int));
    l.is_sent = calloc(values, sizeof(bool));
    int64_t peak = -1;
    if (l.bytes != NULL && l.storage != NULL && l.is_sent != NULL) {
        l.change = l.bytes + values;
        l.end = l.storage + values;
        for (size_t i = 0; i < values; i++) {
            l.storage[i] = (int)i;
            l.end[i] = -1;
        }
        follow_all(&l, clusters);
        if (takes != NULL) {
            take_over_all(&l, clusters, takes);
        }
        peak = find_peak(&l);
    }
    free(l.bytes);
    free(l.storage);
    free(l.is_sent);
    return peak;
}
