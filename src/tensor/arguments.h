/* What local regions and user-defined operations have in common: contexts, and tensors that a call changes and reads. */
#ifndef WEFT_SRC_TENSOR_ARGUMENTS_H
#define WEFT_SRC_TENSOR_ARGUMENTS_H

#include "tensor/tensor.h"

/* Whether options.context and options.context_size fit each other. False with the error kept. */
bool weft_check_context(const char *function, const void *context, size_t size);
/* Replaces tensors[number], which a call is about to change, by a copy in the other places of tensors[] from `first` on: these
 * mean the values before. The copy is of the innermost scope; other tensors that share the memory of the changed one keep it
 * (weft_tensor_make_writable()). False with the error kept. */
bool weft_tensors_read_before(const char *function, weft_tensor_impl *tensors[], int first, int count, int number);

#endif
