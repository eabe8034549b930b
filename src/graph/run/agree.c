/* Numbers that the processes of a run compare. */
#include <stdlib.h>

#include "arrays/arrays.h"
#include "comm/check_spmd.h"
#include "graph/run/graph.h"
#include "tensor/state.h"

weft_status weft_run_compare(int64_t mine, int *process)
{
    static const char function[] = "weft_graph_call";
    int count = weft_runtime.num_processes;
    *process = 0;
    if (count == 1 || weft_runtime.context.rehearsal != NULL) {
        return WEFT_OK;
    }
    int64_t *all = malloc((size_t)count * sizeof(*all));
    if (all == NULL) {
        return weft_fail(WEFT_ERR_NOMEM, function, "no memory to compare %d processes", count);
    }
    weft_status status = weft_numbers_gather(function, 1, &mine, all) ? WEFT_OK : weft_latest_status();
    for (int i = count - 1; i > 0 && status == WEFT_OK; i--) {
        *process = all[i] != all[0] ? i : *process;
    }
    free(all);
    return status;
}

/* Of a graph: enough for hundreds of templates. The oldest ones go first, and would be compared again. */
enum { MOST_AGREED = 4096 };

bool weft_graph_has_agreed(const weft_graph_impl *graph, uint64_t what)
{
    const uint64_t *agreed = graph->agreed.items;
    bool has = false;
    for (size_t i = 0; i < graph->agreed.count && !has; i++) {
        has = agreed[i] == what;
    }
    return has;
}

bool weft_graph_agree(weft_graph_impl *graph, uint64_t what)
{
    if (weft_runtime.context.rehearsal != NULL) { /* of a copy of the graph */
        return true;
    }
    bool full = graph->agreed.count == MOST_AGREED;
    uint64_t *place = full ? (uint64_t *)graph->agreed.items + graph->next_agreed++ % MOST_AGREED
                           : weft_vec_push(&graph->agreed, sizeof(*place));
    if (place != NULL) {
        *place = what;
    }
    return place != NULL;
}

bool weft_run_tell(uint64_t what)
{
    return weft_check_spmd_number("weft_graph_call", what, true);
}
