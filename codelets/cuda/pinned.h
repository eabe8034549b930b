/* Main memory of the process that devices read and write themselves. */
#ifndef WEFT_CODELETS_CUDA_PINNED_H
#define WEFT_CODELETS_CUDA_PINNED_H

#include <stdbool.h>
#include <stddef.h>

#include "codelets/cuda/call.h"

WEFT_BEGIN_DECLS

/* Pins memory for all devices. False, and nothing has changed, if CUDA cannot. */
bool weft_cuda_pin(void *memory, size_t bytes);
void weft_cuda_unpin(void *memory);

WEFT_END_DECLS

#endif
