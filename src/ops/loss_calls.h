/* Losses of rows with a target: what their operations (losses.c) and their calls (loss_calls.c) share. */
#ifndef WEFT_SRC_OPS_LOSS_CALLS_H
#define WEFT_SRC_OPS_LOSS_CALLS_H

#include "ops/ops.h"

extern const weft_operation *const weft_loss_cross_entropy, *const weft_loss_cross_entropy_of_parts, *const weft_loss_cross_entropy_backward,
    *const weft_loss_cross_entropy_backward_with_log_sums, *const weft_loss_nll, *const weft_loss_nll_backward;

/* Adds an optional input (WEFT_LOSS_HAS_..., in the order of codelets/losses.h), unless it is NULL. */
void weft_loss_add_part(weft_call *call, int64_t part, weft_tensor *tensor);

#endif
