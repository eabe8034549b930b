/* The full tensor on one process: it goes to a mesh of one rank, the first of that process. */
#include "arrays/arrays.h"
#include "comm/check_spmd.h"
#include "tensor/actions.h"
#include "tensor/memory.h"
#include "tensor/state.h"

/* Its layout there, after all checks; NULL with the error kept. */
static const weft_layout *layout_at(const weft_call *call, int process)
{
    const char *function = call->function;
    const weft_layout *layout = weft_layout_of(call->inputs[0]);
    if (weft_runtime.world == WEFT_WORLD_FAKE) {
        weft_fail(WEFT_ERR_UNSUPPORTED, function, "a fake world has no data");
        return NULL;
    }
    if (process < 0 || process >= weft_runtime.num_processes) {
        weft_fail(WEFT_ERR_INVALID, function, "process is %d, expected 0 to %d", process, weft_runtime.num_processes - 1);
        return NULL;
    }
    bool receives = process == weft_runtime.process;
    size_t needed = weft_tensor_bytes(call->inputs[0]);
    if (!weft_check_not_acquired(function, "tensor", weft_tensor_get(call->inputs[0])) ||
        (receives && !weft_check_room(function, "global", call->details->memory, call->details->bytes, needed))) {
        return NULL;
    }
    static const char *const name[] = { "one" };
    const weft_mesh_impl *mesh =
        weft_mesh_obtain(function, 1, (const int64_t[]){ 1 }, &weft_runtime.first_rank_of[process], name);
    return mesh == NULL ? NULL : weft_check_layout(function, mesh, NULL, layout->ndim, layout->shape, layout->dtype);
}

/* details->numbers: the process. */
static weft_status perform(const weft_call *call, weft_tensor *outputs[])
{
    (void)outputs;
    const char *function = call->function;
    int process = (int)call->details->numbers[0];
    const weft_layout *there = layout_at(call, process), *layout = weft_layout_of(call->inputs[0]);
    const double numbers[] = { process };
    if (!weft_check_spmd(&(weft_call_signature){ .function = function,
                                                 .failed = there == NULL,
                                                 .num_layouts = 1,
                                                 .layouts = &layout,
                                                 .num_numbers = 1,
                                                 .numbers = numbers }) ||
        there == NULL || !weft_check_memory(function, "tensor", 1, &there)) {
        return weft_latest_status();
    }
    weft_scope_begin();
    weft_tensor_impl *whole = weft_tensor_to_layout(function, weft_tensor_get(call->inputs[0]), there);
    weft_status status = whole == NULL                    ? weft_latest_status()
                         : process == weft_runtime.process ? weft_shard_read(function, whole, 0, call->details->memory)
                                                           : WEFT_OK;
    weft_scope_end_own();
    return status == WEFT_OK ? weft_error_collect() : status;
}

weft_status weft_to_host_on(weft_tensor *handle, int process, void *global, size_t bytes)
{
    static const char function[] = "weft_to_host_on";
    static const weft_operation action = { .name = "to_host_on", .perform = perform, .effects = WEFT_NEEDS_DATA | WEFT_ONLY_READS };
    if (weft_check_tensor(function, "tensor", handle) == NULL) {
        weft_check_spmd(&(weft_call_signature){ .function = function, .failed = true });
        return weft_latest_status();
    }
    const int64_t numbers[] = { process };
    return weft_act(&(weft_call){ .function = function,
                                  .operation = &action,
                                  .num_inputs = 1,
                                  .inputs = { handle },
                                  .details = &(weft_call_details){ .memory = global, .bytes = bytes,
                                                                   .num_numbers = 1, .numbers = numbers } },
                    NULL);
}
