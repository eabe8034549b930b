/* The table of a trace's tensors and their layouts. */
#include <stdio.h>
#include <string.h>

#include "graph/shard/shard.h"

/* The call that gives each value, in the order of calls; inputs first. */
static void print_value(const weft_graph_trace *trace, const weft_trace_sharding *sharding,
                        int number, const char *from, FILE *file)
{
    const weft_graph_value *value = weft_trace_value(trace, number);
    const weft_layout *chosen = sharding->passed[number];
    char shape[160], before[80], after[80], more[40] = "-";
    weft_layout_format(value->layout, shape, sizeof(shape));
    char *end = strrchr(shape, '[');
    if (end != NULL && end > shape) {
        end[-1] = '\0'; /* type and shape alone */
    }
    weft_placements_text(value->layout->placements, value->layout->mesh->ndim, before, sizeof(before));
    weft_placements_text(chosen->placements, chosen->mesh->ndim, after, sizeof(after));
    if (sharding->alternatives[number] >= 0) {
        snprintf(more, sizeof(more), "+%.1f us", (double)sharding->alternatives[number] * 1e-6);
    }
    fprintf(file, "  %%%-5d %-28s %-22s %-14s %s%-14s %12s\n", number, from, shape, before,
            chosen == value->layout ? "  " : "* ", after, more);
}

void weft_shard_print(const weft_graph_trace *trace, const weft_trace_sharding *sharding, FILE *file)
{
    const weft_assignment *found = &sharding->search;
    fprintf(file, "predicted: %.1f us", (double)found->cost * 1e-6);
    if (sharding->recorded_cost < WEFT_ASSIGN_IMPOSSIBLE) {
        fprintf(file, "; with the layouts of the capture %.1f us", (double)sharding->recorded_cost * 1e-6);
    }
    fprintf(file, "\nbytes of a rank: %lld; with the layouts of the capture %lld\n", (long long)sharding->peak,
            (long long)sharding->recorded_peak);
    if (found->proved) {
        fprintf(file, "search: exact");
    } else {
        fprintf(file, "search: not proved to be the least, which is %.1f us or more", (double)found->least_cost * 1e-6);
    }
    fprintf(file, "; %zu tables, %zu reused, the largest of %zu entries\n", found->tables, found->reused, found->widest);
    fprintf(file, "  value  call                         tensor                 captured         chosen         best other\n");
    for (int v = 0; v < (int)trace->values.count; v++) {
        if (weft_trace_value(trace, v)->is_input) {
            print_value(trace, sharding, v, "input", file);
        }
    }
    for (size_t i = 0; i < trace->nodes.count; i++) {
        const weft_graph_node *node = weft_trace_node(trace, i);
        for (int o = 0; o < node->num_outputs; o++) {
            if (node->outputs[o] >= 0) {
                print_value(trace, sharding, node->outputs[o], node->call->function, file);
            }
        }
    }
}
