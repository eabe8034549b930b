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

bool weft_run_tell(weft_run_end end)
{
    return weft_check_spmd_number("weft_graph_call", (uint64_t)end, true);
}
