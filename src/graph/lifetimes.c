/* The memory that the values of a trace need at once, from their lifetimes. */
#include "graph/lifetimes.h"

#include <stdlib.h>
#include <string.h>

/* Values in one memory: a call in place, or a view, puts its output where the input is. */
typedef struct lifetimes {
    const weft_graph_trace *trace;
    const bool *is_promised;
    int *storage;    /* by value: the first value in its memory */
    int *end;        /* by storage: the last node that needs it */
    int64_t *bytes;  /* by storage, on the ranks of this process; 0: from before the trace, or in scratch memory */
    int64_t *change; /* by node: bytes that come into use with it, less those whose last node is the one before */
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
    return weft_call_changes(node->call, output) || (operation != NULL && operation->views && output == 0);
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

int64_t weft_trace_peak(const weft_graph_trace *trace, const bool is_promised[], const weft_clusters *clusters)
{
    size_t values = trace->values.count + 1, nodes = trace->nodes.count + 2, next = 0;
    lifetimes l = { .trace = trace, .is_promised = is_promised };
    l.bytes = calloc(values + nodes, sizeof(int64_t));
    l.storage = malloc(values * 2 * sizeof(int));
    int64_t peak = -1;
    if (l.bytes != NULL && l.storage != NULL) {
        l.change = l.bytes + values;
        l.end = l.storage + values;
        for (size_t i = 0; i < values; i++) {
            l.storage[i] = (int)i;
            l.end[i] = -1;
        }
        for (int n = 0, last; n < (int)trace->nodes.count; n = last + 1) {
            bool more = clusters != NULL && next < clusters->clusters.count;
            const weft_cluster *cluster = more ? ((weft_cluster **)clusters->clusters.items)[next] : NULL;
            bool begins = cluster != NULL && cluster->first == n;
            last = begins ? cluster->last : n;
            for (int m = n; m <= last; m++) {
                follow(&l, m, n, last);
            }
            if (begins) {
                remove_inner(&l, cluster);
                next++;
            }
        }
        peak = find_peak(&l);
    }
    free(l.bytes);
    free(l.storage);
    return peak;
}
