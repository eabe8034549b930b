/* Traces of one position of a graph: which one a run is compared with first, and which are kept. */
#include "graph/run/graph.h"

#include <string.h>

/* Recorded calls that one position keeps, and traces that it keeps however long they are. Counts, which are the same on all
 * processes, and no bytes: a trace that one process has freed would be captured by it alone. */
enum { MOST_NODES = 1 << 15, LEAST_TRACES = 16 };

static weft_map_slot *slot_of(const weft_map *map, uint64_t hash, const weft_graph_trace *trace)
{
    weft_map_slot *slot = weft_map_first(map, hash);
    while (slot != NULL && slot->value != trace) {
        slot = weft_map_next(map, slot);
    }
    return slot;
}

static void forget(weft_map *map, uint64_t hash, const weft_graph_trace *trace)
{
    weft_map_slot *slot = slot_of(map, hash, trace);
    if (slot != NULL) {
        weft_map_remove(map, slot);
    }
}

weft_graph_trace *weft_segment_find(const weft_graph_segment *segment, uint64_t inputs)
{
    if (segment->newest == NULL || segment->newest->inputs == inputs) {
        return segment->newest;
    }
    weft_graph_trace *found = NULL;
    for (weft_map_slot *slot = weft_map_first(&segment->by_inputs, inputs); slot != NULL; slot = weft_map_next(&segment->by_inputs, slot)) {
        weft_graph_trace *trace = slot->value;
        found = found == NULL || trace->last_run > found->last_run ? trace : found;
    }
    return found == NULL ? segment->newest : found;
}

/* Takes it out of the order of use. */
static void unlink_trace(weft_graph_segment *segment, weft_graph_trace *trace)
{
    *(trace->older == NULL ? &segment->oldest : &trace->older->newer) = trace->newer;
    *(trace->newer == NULL ? &segment->newest : &trace->newer->older) = trace->older;
}

static void link_newest(weft_graph_segment *segment, weft_graph_trace *trace)
{
    trace->older = segment->newest;
    trace->newer = NULL;
    *(segment->newest == NULL ? &segment->oldest : &segment->newest->newer) = trace;
    segment->newest = trace;
}

/* Without memory for its place it is found by its calls. */
void weft_segment_use(weft_graph_segment *segment, weft_graph_trace *trace, uint64_t inputs, uint64_t run)
{
    if (trace != segment->newest) {
        unlink_trace(segment, trace);
        link_newest(segment, trace);
    }
    if (trace->inputs != inputs) {
        forget(&segment->by_inputs, trace->inputs, trace);
        trace->inputs = inputs;
        weft_map_add(&segment->by_inputs, inputs, trace);
    }
    trace->last_run = run;
}

static void drop_oldest(weft_graph_impl *graph, weft_graph_segment *segment)
{
    weft_graph_trace *trace = segment->oldest;
    graph->info.bytes -= trace->bytes;
    graph->info.num_traces--;
    segment->num_traces--;
    segment->num_nodes -= trace->nodes.count;
    if (graph->freezing != NULL) {
        weft_freezing_forget(graph->freezing, trace);
    }
    unlink_trace(segment, trace);
    forget(&segment->by_inputs, trace->inputs, trace);
    /* Others that begin with the same calls may be left, and stay found by their inputs; by these calls they are recorded again. To look
     * for them here would take each new size the time of all that are kept. */
    for (size_t i = 0; i < trace->nodes.count; i++) {
        forget(&segment->by_calls, trace->prefixes[i], trace);
    }
    weft_graph_trace_free(trace);
}

/* False: no memory. */
static bool index_calls(weft_graph_segment *segment, weft_graph_trace *trace)
{
    bool done = true;
    for (size_t i = 0; i < trace->nodes.count && done; i++) {
        weft_map_slot *slot = weft_map_first(&segment->by_calls, trace->prefixes[i]);
        if (slot != NULL) {
            slot->value = trace;
        } else {
            done = weft_map_add(&segment->by_calls, trace->prefixes[i], trace);
        }
    }
    return done;
}

bool weft_segment_add(weft_graph_impl *graph, weft_graph_segment *segment, weft_graph_trace *trace)
{
    trace->inputs = graph->inputs_hash;
    trace->last_run = graph->info.runs; /* else it would be the oldest one */
    link_newest(segment, trace);
    segment->num_traces++;
    segment->num_nodes += trace->nodes.count;
    graph->info.num_traces++;
    graph->info.bytes += trace->bytes;
    if (!index_calls(segment, trace) || !weft_map_add(&segment->by_inputs, trace->inputs, trace)) {
        return false;
    }
    while (segment->num_nodes > MOST_NODES && segment->num_traces > LEAST_TRACES) {
        drop_oldest(graph, segment);
    }
    return true;
}

void weft_segment_free(weft_graph_segment *segment)
{
    for (weft_graph_trace *trace = segment->newest; trace != NULL;) {
        weft_graph_trace *older = trace->older;
        weft_graph_trace_free(trace);
        trace = older;
    }
    weft_map_free(&segment->by_inputs);
    weft_map_free(&segment->by_calls);
}
