/* What a graph's function asks about the sizes of its inputs. */
#include <stdlib.h>
#include <string.h>

#include "graph/run/graph.h"

void weft_graph_forget_tested(weft_graph_impl *graph)
{
    for (size_t i = 0; i < graph->tested.count; i++) {
        free(((char **)graph->tested.items)[i]);
    }
    graph->tested.count = 0;
}

/* The graph, whose function runs. NULL with the error kept. */
static weft_graph_impl *check_runs(const char *function, const weft_graph *handle)
{
    weft_graph_impl *graph = weft_check_graph(function, handle);
    if (graph != NULL && graph->running != 1) {
        weft_fail(WEFT_ERR_STATE, function, "%s graph %s",
                  graph->running == 0 ? "called outside of the function of" : "called within a call from its own function of", graph->name);
        return NULL;
    }
    return graph;
}

/* Each once. False: no memory. */
static bool note_tested(weft_graph_impl *graph, const char *text, bool truth)
{
    size_t size = strlen(text) + 3; /* an opposite comparison may be longer */
    char *noted = malloc(size);
    if (noted == NULL) {
        return false;
    }
    if (truth) {
        snprintf(noted, size, "%s", text);
    } else {
        weft_shape_negate(text, noted, size);
    }
    bool known = false;
    for (size_t i = 0; i < graph->tested.count && !known; i++) {
        known = strcmp(((char **)graph->tested.items)[i], noted) == 0;
    }
    char **place = known ? NULL : weft_vec_push(&graph->tested, sizeof(*place));
    if (place == NULL) {
        free(noted);
        return known;
    }
    *place = noted;
    return true;
}

weft_status weft_graph_test(weft_graph *handle, const char *relation, bool *truth)
{
    static const char function[] = "weft_graph_test";
    weft_graph_impl *graph = check_runs(function, handle);
    weft_shape_relation read;
    if (graph == NULL || !weft_graph_read_relation(function, graph, relation, &read)) {
        return weft_latest_status();
    }
    if (truth == NULL) {
        return weft_fail(WEFT_ERR_INVALID, function, "truth is NULL");
    }
    weft_all_sizes all = { .count = 0 };
    if (!weft_relation_has_dimensions(&read, graph->input_layouts)) {
        return weft_fail(WEFT_ERR_SHAPE, function, "relation: an input of graph %s has fewer dimensions than %s says", graph->name,
                         relation);
    }
    if (!weft_graph_collect_sizes(graph, graph->input_layouts, &all)) {
        return weft_fail(WEFT_ERR_NOMEM, function, "no memory for sizes");
    }
    bool defined = weft_shape_is_defined(&read, all.sizes, all.first);
    bool holds = defined && weft_shape_holds(&read, all.sizes, all.first);
    weft_all_sizes_free(&all);
    if (!defined) {
        return weft_fail(WEFT_ERR_INVALID, function, "relation: %s divides by a number below 1, or exceeds 64 bits, for these sizes",
                         relation);
    }
    *truth = holds;
    return note_tested(graph, relation, *truth) ? WEFT_OK : weft_fail(WEFT_ERR_NOMEM, function, "no memory for a relation");
}

weft_status weft_graph_size(const weft_graph *handle, const char *expression, int64_t *value)
{
    static const char function[] = "weft_graph_size";
    const weft_graph_impl *graph = check_runs(function, handle);
    if (graph == NULL) {
        return weft_latest_status();
    }
    if (expression == NULL || value == NULL) {
        return weft_fail(WEFT_ERR_INVALID, function, "%s is NULL", expression == NULL ? "expression" : "value");
    }
    weft_all_sizes all = { .count = 0 };
    if (!weft_graph_collect_sizes(graph, graph->input_layouts, &all)) {
        return weft_fail(WEFT_ERR_NOMEM, function, "no memory for sizes");
    }
    char why[160];
    int64_t result;
    bool done = weft_size_evaluate(expression, graph->num_inputs, all.counts, all.sizes, all.first, &result, why, sizeof(why));
    weft_all_sizes_free(&all);
    if (!done) {
        return weft_fail(WEFT_ERR_INVALID, function, "expression: %s", why);
    }
    *value = result;
    return WEFT_OK;
}
