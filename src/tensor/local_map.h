/* Inside of local regions: their checks (local_checks.c), their calls and gradients (local_map.c), their tasks (local_tasks.c). */
#ifndef WEFT_SRC_TENSOR_LOCAL_MAP_H
#define WEFT_SRC_TENSOR_LOCAL_MAP_H

#include <weft/local_map.h>

#include "tensor/tensor.h"

/* Arguments and tensors of one call. */
typedef struct weft_local_region {
    weft_local_function function;
    weft_local_map_options options;
    const weft_mesh_impl *mesh;
    int num_inputs, num_outputs;
    int num_changed; /* outputs, the first ones, that are the inputs of the same numbers */
    weft_tensor_impl **tensors;  /* inputs as given, inputs in the region's placements, outputs */
    const weft_layout **layouts; /* of the function's inputs and outputs, and of the inputs' gradients */
    bool *whole; /* of each input of a region by rows: the function gets the whole shard */
} weft_local_region;

/* The arguments that need no list of tensors; counts those that are changed. False with the error kept. */
bool weft_local_check_arguments(weft_local_region *r, weft_tensor *const inputs[], const weft_local_output descriptions[],
                                weft_tensor *const outputs[]);
/* All others: finds the tensors, their layouts, and which are whole. False with the error kept. */
bool weft_local_check(weft_local_region *r, weft_tensor *const inputs[], const weft_local_output descriptions[]);
/* Whether two tensors have as many rows, cut alike. */
bool weft_local_same_rows(const weft_layout *a, const weft_layout *b);
/* Submits the tasks of all hosted ranks, with this random state. False with the error kept. */
bool weft_local_submit(const weft_local_region *r, weft_random_state random);

#endif
