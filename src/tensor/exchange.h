/* One stage of a plan as this process executes it: which panels it sends, receives, copies and reduces. Built
 * once for a pair of layouts, run for any pair of tensors that have them. */
#ifndef WEFT_SRC_TENSOR_EXCHANGE_H
#define WEFT_SRC_TENSOR_EXCHANGE_H

#include "tensor/tensor.h"

typedef struct weft_exchange weft_exchange;

/* NULL with the error kept. */
weft_exchange *weft_exchange_new(const char *function, const weft_stage *stage);
void weft_exchange_free(weft_exchange *exchange);
/* Of memory, about. */
size_t weft_exchange_bytes(const weft_exchange *exchange);
/* Submits the stage's tasks and transfers. False with the error kept. */
bool weft_exchange_run(const char *function, const weft_exchange *exchange, const weft_tensor_impl *source,
                       weft_tensor_impl *target);

#endif
