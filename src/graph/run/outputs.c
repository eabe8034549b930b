/* Where the outputs of a graph come from, for its listing. */
#include <stdlib.h>
#include <string.h>

#include "graph/run/graph.h"

/* Two for each output: the segment that has made it, or OF_INPUTS or OF_PROGRAM; and its number there or among the inputs. */
enum { OF_INPUTS = -1, OF_PROGRAM = -2 };

static const weft_graph_segment *segment_at(const weft_graph_impl *graph, size_t position)
{
    return (const weft_graph_segment *)graph->segments.items + position;
}

static void find_place(const weft_graph_run *run, const weft_tensor *handle, int place[2])
{
    const weft_tensor_impl *tensor = weft_tensor_get(handle);
    place[0] = OF_PROGRAM;
    place[1] = 0;
    for (int i = 0; i < run->graph->num_inputs; i++) {
        if (run->inputs[i] == handle) {
            place[0] = OF_INPUTS;
            place[1] = i;
            break;
        }
    }
    bool is_new = tensor->graph_run == run->deferral.number;
    for (size_t i = 0; i <= run->position && tensor->graph_run != 0; i++) {
        if (i == run->position ? is_new : segment_at(run->graph, i)->newest->run_number == tensor->graph_run) {
            place[0] = (int)i;
            place[1] = tensor->number;
        }
    }
}

void weft_run_note_outputs(const weft_graph_run *run, weft_tensor *const outputs[])
{
    for (int i = 0; i < run->graph->num_outputs; i++) {
        find_place(run, outputs[i], run->graph->output_places + 2 * (size_t)i);
    }
}

void weft_run_keep_outputs(const weft_graph_run *run)
{
    size_t bytes = 2 * (size_t)run->graph->num_outputs * sizeof(int);
    weft_graph_trace *trace = run->position == 0 ? NULL : segment_at(run->graph, run->position - 1)->newest;
    if (trace != NULL && trace->outputs == NULL) {
        trace->outputs = malloc(bytes + 1); /* without memory the listing lacks them */
    }
    if (trace != NULL && trace->outputs != NULL) {
        memcpy(trace->outputs, run->graph->output_places, bytes);
    }
}

void weft_graph_print_outputs(const weft_graph_impl *graph, FILE *file)
{
    const weft_graph_trace *trace = graph->num_newest == 0 ? NULL : segment_at(graph, graph->num_newest - 1)->newest;
    for (int i = 0; i < graph->num_outputs && trace != NULL && trace->outputs != NULL; i++) {
        int segment = trace->outputs[2 * i], number = trace->outputs[2 * i + 1];
        if (segment == OF_PROGRAM) {
            fprintf(file, "  outputs[%d] = a tensor from before the run\n", i);
        } else if (segment == OF_INPUTS) {
            fprintf(file, "  outputs[%d] = inputs[%d]\n", i, number);
        } else if (segment == (int)graph->num_newest - 1) {
            fprintf(file, "  outputs[%d] = %%%d\n", i, number);
        } else {
            fprintf(file, "  outputs[%d] = %%%d of part %d\n", i, number, segment);
        }
    }
}
