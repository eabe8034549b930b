/* Calls on lines that ranks hold parts of, each of which several local regions and moves carry out. */
#include "ops/line_parts.h"

#include "call/context.h"
#include "comm/check_spmd.h"
#include "tensor/ghosts.h"
#include "tensor/regions.h"
#include "tensor/state.h"

int weft_cutting_dim(const weft_layout *layout, int dim)
{
    int found = -1, count = 0;
    for (int d = 0; d < layout->mesh->ndim; d++) {
        const bool is_cut = weft_layout_shards(layout, d, dim) && layout->mesh->shape[d] > 1;
        found = is_cut ? d : found;
        count += is_cut;
    }
    return count == 1 && !layout->has_partial && !layout->has_runs ? found : -1;
}

bool weft_works_in_parts(const weft_tensor *a)
{
    const weft_context *now = &weft_runtime.context;
    const weft_layout *layout = weft_layout_of(a);
    return (WEFT_TYPES_ALL & WEFT_TYPE_BIT(layout->dtype)) != 0 && layout->mesh->handle != NULL && now->steps == NULL &&
           now->deferral == NULL && now->rehearsal == NULL && weft_runtime.world != WEFT_WORLD_FAKE &&
           weft_has_values(weft_tensor_get(a)) && weft_runtime.devices.bytes == 0 && !weft_is_strict();
}

weft_status weft_perform_in_parts(const weft_call *call, const weft_call_signature *signature, int num_outputs,
                                  bool (*body)(const weft_call *call, weft_tensor *outputs[]), weft_tensor *outputs[])
{
    if (!weft_composite_open(call->function)) {
        return weft_latest_status();
    }
    bool done = weft_check_spmd(signature);
    const weft_context outer = weft_context_enter(weft_context_expanded());
    done = done && body(call, outputs);
    weft_context_leave(outer);
    for (int i = 0; i < num_outputs; i++) {
        outputs[i] = done ? weft_scope_keep(outputs[i]) : NULL;
    }
    weft_composite_close();
    return done ? WEFT_OK : weft_latest_status();
}

bool weft_act_in_parts(const weft_call *call, weft_tensor **values, weft_tensor **indices)
{
    weft_tensor *outputs[2] = { NULL, NULL }, **wanted[2] = { values, indices };
    weft_scope_begin();
    bool done = weft_act(call, outputs) == WEFT_OK;
    for (int i = 0; i < 2; i++) {
        if (wanted[i] != NULL) {
            *wanted[i] = done ? weft_scope_keep(outputs[i]) : NULL;
        }
    }
    weft_scope_end_own();
    return done;
}
