#include "dispatch/check.h"

/* Through an access map a rank may read part of its shard only; data movement may leave out indices. */
static bool reads_parts(const weft_lowering *lowering, int input)
{
    const weft_sharding *sharding = lowering->sharding;
    bool parts = lowering->access_map[input] != NULL || lowering->neighbours[input] != NULL || lowering->operation->places;
    for (int d = 0; d < sharding->inputs[input]->ndim && sharding->has_access_maps; d++) {
        parts = parts || sharding->window_rows[input][d] >= 0;
    }
    return parts;
}

/* Placed inputs are written to the output after the list. */
static weft_task_share share_written(const weft_lowering *lowering, int output)
{
    const weft_operation *operation = lowering->operation;
    bool parts = operation->outputs[output].in_place && operation->lower != NULL;
    for (int i = 0; i < lowering->num_inputs; i++) {
        parts = parts || (lowering->access_map[i] != NULL && lowering->access_map[i]->placed);
    }
    return parts ? WEFT_TASKS_SOME : WEFT_TASKS_ALL;
}

/* Elementwise tasks load all operands, also those that the expression does not use. */
static bool is_undefined(const weft_operation *operation)
{
    return operation->overwrites && !weft_kernel_is_elementwise(operation->kernel);
}

int weft_lowered_tensors(const weft_lowering *lowering, weft_task_tensor tensors[])
{
    const weft_operation *operation = lowering->operation;
    for (int i = 0; i < lowering->num_inputs; i++) {
        tensors[i] =
            (weft_task_tensor){ .layout = lowering->inputs[i],
                                .given = true,
                                .read = reads_parts(lowering, i) ? WEFT_TASKS_SOME : WEFT_TASKS_ALL };
    }
    for (int o = 0; o < lowering->num_outputs; o++) {
        bool in_place = operation->outputs[o].in_place;
        weft_task_tensor *output = &tensors[in_place ? o : lowering->num_inputs + o];
        tensors[lowering->num_inputs + o] = (weft_task_tensor){ .layout = lowering->outputs[o] };
        *output = (weft_task_tensor){ .layout = lowering->outputs[o],
                                      .given = in_place && !is_undefined(operation),
                                      .written = share_written(lowering, o) };
    }
    int count = lowering->num_inputs + lowering->num_outputs;
    for (int i = 0; i < lowering->num_inputs; i++) {
        for (int s = 0; lowering->neighbours[i] != NULL && s < WEFT_ROWS_SIDES; s++) {
            const weft_neighbour_rows *side = &lowering->neighbours[i]->sides[s];
            if (side->rows > 0) {
                tensors[count++] = (weft_task_tensor){ .layout = side->layout, .given = true, .read = WEFT_TASKS_SOME };
            }
        }
    }
    return count;
}

bool weft_check_lowered(const weft_lowering *lowering)
{
    weft_task_tensor tensors[WEFT_MAX_LIST_TENSORS];
    char why[300] = "no memory";
    int count = weft_lowered_tensors(lowering, tensors);
    weft_task_call checked = { .num_tensors = count,
                               .tensors = tensors,
                               .first_rank = weft_runtime.first_rank,
                               .num_shards = weft_runtime.local_ranks };
    weft_status status = weft_task_list_check(lowering->tasks, &checked, why, sizeof(why));
    if (status != WEFT_OK) {
        weft_fail_alone(status, lowering->function, "the tasks of %s: %s", lowering->operation->name, why);
        return false;
    }
    return true;
}
