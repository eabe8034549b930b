/* Promised tensors: outputs of deferred calls (call/deferral.h). A new one has its layout, and shards without memory,
 * until it is fulfilled with the values of another tensor. One that a deferred call changes in place keeps its memory,
 * with its values before the call. */
#ifndef WEFT_SRC_TENSOR_PROMISED_H
#define WEFT_SRC_TENSOR_PROMISED_H

#include "tensor/tensor.h"

/* A new promised tensor of the innermost scope; `fake`: it will have no data. NULL with the error kept: no memory. */
weft_tensor_impl *weft_tensor_promise(const char *function, const weft_layout *layout, bool fake);
/* Gives it the values of a tensor of the same layout, by sharing memory; or of itself, changed. One without shards takes
 * NULL too. False with the error kept: no memory; it is
 * still pending. */
bool weft_tensor_fulfil(const char *function, weft_tensor_impl *promised, const weft_tensor_impl *values);
/* The values of all promised tensors will not come: a new one becomes a tensor without data, a changed one keeps its former
 * values. */
void weft_promised_break_all(void);

/* weft_tensor_save() of the values that a tensor has now, also where a deferred call is to change it. */
weft_tensor_impl *weft_tensor_save_memory(const char *function, const weft_tensor_impl *tensor);

/* Adds to the list of promised tensors (weft_tensors.promised); removes from it. */
void weft_promised_add(weft_tensor_impl *tensor);
void weft_promised_remove(weft_tensor_impl *tensor);

#endif
