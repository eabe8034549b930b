/* Calls of public functions that are no operations (weft_operation), and tensors without data.
 *
 * A tensor without data (`fake`) has a layout and no shards: shapes, placements and plans follow from it
 * as from any other, and every loop over its shards is empty, as in the fake world. Outputs of calls on
 * such tensors have no data either, and nothing is submitted. So a call can be checked, or a composite
 * expanded, before anything is carried out. */
#ifndef WEFT_SRC_TENSOR_ACTIONS_H
#define WEFT_SRC_TENSOR_ACTIONS_H

#include "call/interposer.h"
#include "tensor/tensor.h"

/* While weft_runtime.context.steps is not NULL, calls are collected instead of being carried out: their inputs and
 * outputs are tensors without data. */
typedef struct weft_steps {
    /* Scalars of the outermost composite, for the calls of a composite within it. */
    unsigned inherited;
    bool explains; /* no run follows in which the calls would be explained (explained.h) */
    /* Appends a checked call with its outputs. False with the error kept: no memory. */
    bool (*add)(struct weft_steps *self, const weft_call *call, int num_outputs, weft_tensor *const outputs[]);
} weft_steps;

/* The outputs of a checked call without data, which is collected where calls are: new tensors of these layouts, or (`changed`, if
 * not NULL: those of its entries) inputs that the call changes in place. False with the error kept. */
bool weft_make_without_data(const weft_call *call, int num_outputs, const weft_layout *const layouts[],
                            weft_tensor_impl *const changed[], weft_tensor *outputs[]);
/* A new tensor without data, owned by the innermost scope; NULL with the error kept. */
weft_tensor_impl *weft_tensor_fake(const char *function, const weft_layout *layout);
/* False with the error kept: the tensor has no data. One that is gathered when it is used gets its data here. */
bool weft_check_data(const char *function, const char *argument, weft_tensor_impl *tensor);

/* Makes the call of an action; call->inputs are live. */
weft_status weft_act(const weft_call *call, weft_tensor *outputs[]);
/* The same for an action with one output, which it returns; NULL with the error kept. */
weft_tensor *weft_act_for_tensor(const weft_call *call);

/* Steps of composites that are no operations: a tensor in the layout details->layout
 * (weft_tensor_to_layout()); a new tensor of this layout with undefined values; what ranks read of a tensor through
 * access_map[0] (weft_tensor_access()), in the layout details->layout. */
extern const weft_operation weft_action_to_layout, weft_action_new, weft_action_access;
/* weft_redistribute(), weft_empty(), weft_full() and those that are made of it. */
extern const weft_operation weft_action_redistribute, weft_action_empty, weft_action_full;

#endif
