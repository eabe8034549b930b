/* From a call and its layouts to its tasks. */
#include "codelets/kernels.h"
#include "dispatch/dispatch.h"

/* The access map of an input of which a sharded dimension has one in the rule; else its `cut` is NULL. False with the error
 * kept. */
bool weft_find_access(const weft_call *call, const weft_sharding *sharding, int input,
                      weft_access_map *access_map)
{
    const weft_call_layouts layouts = { call->operation, call->num_inputs, { NULL }, &call->attributes };
    if (!weft_sharding_access(weft_runtime.layouts, &layouts, sharding, input, access_map)) {
        weft_fail(WEFT_ERR_NOMEM, call->function, "no memory for a layout");
        return false;
    }
    return true;
}

/* Whether an access map's data go straight into the output. */
bool weft_is_placed(const weft_call *call, const weft_sharding *sharding, const weft_access_map *map)
{
    return call->operation->places && map->cut == sharding->outputs[0] && weft_access_map_consecutive(map);
}

/* The output shards of a hosted rank; false: all are empty. */
static bool find_output_shards(weft_lowering *lowering, int rank)
{
    bool any = false;
    for (int i = 0; i < lowering->num_outputs; i++) {
        lowering->output_shards[i] = weft_layout_shard(lowering->outputs[i], rank);
        any |= lowering->output_shards[i].count > 0;
    }
    return any;
}

/* Appends the tasks of all hosted shards. False with the error kept. */
bool weft_lower_shards(weft_lowering *lowering)
{
    const weft_operation *operation = lowering->operation;
    weft_lower_function lower = operation->lower != NULL                        ? operation->lower
                                : weft_kernel_is_elementwise(operation->kernel) ? weft_lower_elementwise
                                                                                : weft_lower_kernel;
    bool done = true;
    for (int i = 0; i < weft_runtime.local_ranks && done; i++) {
        int rank = weft_runtime.first_rank + i;
        lowering->shard = i;
        if (!find_output_shards(lowering, rank)) {
            continue;
        }
        for (int k = 0; k < lowering->num_inputs; k++) {
            lowering->input_shards[k] = weft_layout_shard(lowering->inputs[k], rank);
        }
        done = lower(lowering);
    }
    done = weft_task_list_finish(lowering->tasks) && done;
    if (lowering->tasks->failed) {
        weft_fail(WEFT_ERR_NOMEM, lowering->function, "no memory for tasks");
    }
    return done;
}

/* The layout in which a task finds an input: that of an access map's data, where there is one. NULL with the error
 * kept. */
static const weft_layout *find_lowered_input(const weft_call *call, const weft_sharding *sharding, int input,
                                             weft_access_map *map, const weft_access_map **used)
{
    const weft_layout *layout = sharding->inputs[input];
    *used = call->access_map[input];
    if (!sharding->has_access_maps) {
        return layout;
    }
    if (!weft_find_access(call, sharding, input, map)) {
        return NULL;
    }
    if (map->cut == NULL) {
        return layout;
    }
    *used = map;
    map->placed = weft_is_placed(call, sharding, map);
    if (map->placed) {
        return layout;
    }
    return weft_access_layout(call->function, layout, map);
}

bool weft_dispatch_lower(const weft_call *call, const weft_sharding *sharding, const weft_layout *layouts[],
                         weft_task_list *tasks)
{
    weft_access_map maps[WEFT_MAX_INPUTS] = { { 0 } };
    weft_lowering lowering = { .function = call->function,
                               .operation = call->operation,
                               .attributes = &call->attributes,
                               .num_inputs = call->num_inputs,
                               .num_outputs = sharding->num_outputs,
                               .output = sharding->outputs[0],
                               .sharding = sharding,
                               .tasks = tasks };
    for (int i = 0; i < call->num_inputs; i++) {
        layouts[i] = lowering.inputs[i] =
            find_lowered_input(call, sharding, i, &maps[i], &lowering.access_map[i]);
        if (layouts[i] == NULL) {
            return false;
        }
    }
    for (int i = 0; i < sharding->num_outputs; i++) {
        layouts[call->num_inputs + i] = lowering.outputs[i] = sharding->outputs[i];
    }
    return weft_lower_shards(&lowering);
}
