/* Stages that the transport carries out (weft_data.claims). */
#ifndef WEFT_SRC_TENSOR_CLAIMED_STAGE_H
#define WEFT_SRC_TENSOR_CLAIMED_STAGE_H

#include "tensor/tensor.h"

/* The same on every process. */
bool weft_stage_is_claimed(const weft_stage *stage);
/* Submits the stage. False with the error kept. */
bool weft_claimed_stage_run(const char *function, const weft_stage *stage, const weft_tensor_impl *source,
                            weft_tensor_impl *target);

#endif
