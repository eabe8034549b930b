/* Calls of public functions that are no operations (weft_action), and tensors without data.
 *
 * A tensor without data (`fake`) has a layout and no shards: shapes, placements and plans follow from it as from any other,
 * and every loop over its shards is empty, as in the fake world. What a call makes of tensors without data is
 * without data too, and nothing is submitted. So a call can be accepted, or a composite expanded, before anything
 * happens. */
#ifndef WEFT_SRC_TENSOR_ACTIONS_H
#define WEFT_SRC_TENSOR_ACTIONS_H

#include "runtime/recorder.h"
#include "tensor/tensor.h"

/* While weft_runtime.steps is not NULL, calls are collected instead of being carried out: their inputs are tensors
 * without data, and so are their outputs. */
typedef struct weft_steps {
    /* Scalars that are those of the outermost composite: of the calls that a composite within it makes. */
    unsigned inherited;
    /* Appends a call that has been accepted, with its outputs. False with the error kept: no memory. */
    bool (*add)(struct weft_steps *self, const weft_call *call, int num_outputs, weft_tensor *const outputs[]);
} weft_steps;

/* A new tensor without data, of the innermost scope; NULL with the error kept. */
weft_tensor_impl *weft_tensor_fake(const char *function, const weft_layout *layout);
/* False with the error kept: it has no data. */
bool weft_check_data(const char *function, const char *argument, const weft_tensor_impl *tensor);

/* Carries the call of an action out and tells of it; call->inputs are live. */
weft_status weft_act(const weft_call *call, weft_tensor *outputs[]);
/* The same where the only output is all that counts; NULL with the error kept. */
weft_tensor *weft_act_for_tensor(const weft_call *call);

/* What composites are made of beside operations. A tensor in details->layout (weft_tensor_to_layout()); a new one
 * of this layout with undefined values. */
extern const weft_action weft_action_to_layout, weft_action_new;

#endif
