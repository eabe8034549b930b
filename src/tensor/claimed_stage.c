/* Submits a stage of a redistribution that the transport carries out as a whole. */
#include <stdlib.h>

#include "comm/comm.h"
#include "tensor/claimed_stage.h"
#include "tensor/state.h"

static int count_panels(const weft_tensor_impl *tensor)
{
    int64_t count = 0;
    for (int i = 0; i < tensor->num_shards; i++) {
        count += tensor->shards[i].num_panels;
    }
    return (int)count;
}

static weft_stage_operand *add_panels(weft_stage_operand *next, const weft_tensor_impl *tensor, bool target)
{
    for (int i = 0; i < tensor->num_shards; i++) {
        const weft_local_shard *shard = &tensor->shards[i];
        if (shard->count == 0) {
            continue;
        }
        weft_cut cut = weft_shard_cut(tensor->layout, shard);
        for (int k = 0; k < (int)shard->num_panels; k++) {
            const weft_panel *panel = &shard->panels[k];
            int64_t first = weft_cut_start(&cut, k), bytes = weft_cut_end(&cut, k) - first;
            bool whole = panel->offset == 0 && (int64_t)starpu_variable_get_elemsize(panel->handle) == bytes;
            *next++ = (weft_stage_operand){
                .panel = { .rank = shard->rank, .target = target, .first = first, .bytes = bytes },
                .handle = panel->handle,
                .offset = panel->offset,
                .whole = target && whole,
            };
            weft_acquired_follow_transfer(panel->handle, target, weft_comm_pending_tasks(1));
        }
        shard->buffer->sends += !target;
    }
    return next;
}

bool weft_stage_is_claimed(const weft_stage *stage)
{
    return weft_runtime.comm != NULL && weft_comm_claims(weft_runtime.comm, stage);
}

bool weft_claimed_stage_run(const char *function, const weft_stage *stage, const weft_tensor_impl *source,
                            weft_tensor_impl *target)
{
    int count = count_panels(source) + count_panels(target);
    weft_stage_operand *operands = malloc((size_t)count * sizeof(*operands));
    if (operands == NULL) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for a redistribution");
        return false;
    }
    add_panels(add_panels(operands, source, false), target, true);
    weft_runtime.operations++;
    bool done = weft_comm_submit_stage(weft_runtime.comm, stage, count, operands, weft_tensor_label(source));
    free(operands);
    return done;
}
