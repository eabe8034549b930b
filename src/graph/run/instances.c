/* Traces of one position of a graph: which one a run is compared with first, and which are kept. */
#include "graph/run/graph.h"

/* Recorded calls that one position keeps, and traces that it keeps however long they are. Counts, which are the same on all
 * processes, and no bytes: a trace that one process has freed would be captured by it alone. */
enum { MOST_NODES = 1 << 15, LEAST_TRACES = 16 };

weft_graph_trace *weft_segment_find(const weft_graph_segment *segment, uint64_t inputs)
{
    if (segment->newest == NULL || weft_segment_instance(segment, segment->newest_number)->inputs == inputs) {
        return segment->newest;
    }
    weft_graph_trace *found = NULL;
    for (size_t i = 0; i < segment->instances.count; i++) {
        const weft_graph_instance *instance = weft_segment_instance(segment, i);
        if (instance->inputs == inputs && (found == NULL || instance->trace->last_run > found->last_run)) {
            found = instance->trace;
        }
    }
    return found == NULL ? segment->newest : found;
}

void weft_segment_use(weft_graph_segment *segment, weft_graph_trace *trace, uint64_t inputs, uint64_t run)
{
    if (trace != segment->newest) {
        size_t i = 0;
        while (weft_segment_instance(segment, i)->trace != trace) {
            i++;
        }
        segment->newest = trace;
        segment->newest_number = i;
    }
    weft_segment_instance(segment, segment->newest_number)->inputs = inputs;
    trace->last_run = run;
}

static void drop_oldest(weft_graph_impl *graph, weft_graph_segment *segment)
{
    size_t oldest = 0;
    for (size_t i = 1; i < segment->instances.count; i++) {
        bool older = weft_segment_instance(segment, i)->trace->last_run < weft_segment_instance(segment, oldest)->trace->last_run;
        oldest = older ? i : oldest;
    }
    weft_graph_trace *trace = weft_segment_instance(segment, oldest)->trace;
    graph->info.bytes -= trace->bytes;
    graph->info.num_traces--;
    segment->num_nodes -= trace->nodes.count;
    if (graph->freezing != NULL) {
        weft_freezing_forget(graph->freezing, trace);
    }
    weft_graph_trace_free(trace);
    *weft_segment_instance(segment, oldest) = *weft_segment_instance(segment, --segment->instances.count);
}

bool weft_segment_add(weft_graph_impl *graph, weft_graph_segment *segment, weft_graph_trace *trace)
{
    weft_graph_instance *added = weft_vec_push(&segment->instances, sizeof(*added));
    if (added == NULL) {
        return false;
    }
    added->trace = trace;
    trace->last_run = graph->info.runs; /* else it would be the oldest one */
    segment->num_nodes += trace->nodes.count;
    graph->info.num_traces++;
    graph->info.bytes += trace->bytes;
    while (segment->num_nodes > MOST_NODES && segment->instances.count > LEAST_TRACES) {
        drop_oldest(graph, segment);
    }
    segment->newest = NULL; /* its number may be another one */
    return true;
}

void weft_segment_free(weft_graph_segment *segment)
{
    for (size_t i = 0; i < segment->instances.count; i++) {
        weft_graph_trace_free(weft_segment_instance(segment, i)->trace);
    }
    weft_vec_free(&segment->instances);
}
