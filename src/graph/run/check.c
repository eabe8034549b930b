#include "graph/run/graph.h"

weft_graph_impl *weft_check_graph(const char *function, const weft_graph *graph)
{
    if (weft_require_init(function) != WEFT_OK) {
        return NULL;
    }
    weft_deferral_finish_implicit(function);
    weft_graph_impl *alive = graph == NULL ? NULL : weft_handle_get(&weft_runtime.handles.graphs, graph);
    if (alive == NULL) {
        weft_fail(WEFT_ERR_INVALID, function, graph == NULL ? "graph is NULL" : "graph is not a live graph: it was freed");
    }
    return alive;
}

bool weft_graph_check_no_ghosts(const char *function, const weft_graph_impl *graph)
{
    for (size_t i = 0; i < graph->num_newest; i++) {
        if (weft_trace_has_ghosts(((const weft_graph_segment *)graph->segments.items)[i].newest)) {
            weft_fail(WEFT_ERR_UNSUPPORTED, function, "graph %s has tensors in ghosted arrays (weft_from_ghosted())", graph->name);
            return false;
        }
    }
    return true;
}
