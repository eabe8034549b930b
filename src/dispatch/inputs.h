/* Inputs of other meshes, which may be moved without being asked for. What the inputs must be is checked for calls
 * that the cache does not know, for a layout holds mesh, shape and type (sharding/check.c). */
#ifndef WEFT_SRC_DISPATCH_INPUTS_H
#define WEFT_SRC_DISPATCH_INPUTS_H

#include "dispatch/dispatch.h"

/* The layouts that the search begins with: those of the inputs; and of inputs on other meshes than that of
 * the leading one, which may be moved without being asked for, Replicate on its mesh. What must not be moved
 * keeps its mesh, which is then found to differ. *guessed gets the first input with dimensions that is moved
 * because it has one element, or -1. False with the error kept: no memory. */
bool weft_gather_layouts(const weft_call *call, weft_tensor_impl *const inputs[],
                         const weft_layout *layouts[], int *guessed);
/* That an input has been taken for a scalar: once for each operation, on the first process. */
void weft_warn_of_guess(const weft_call *call, int guessed, const weft_layout *layout);

#endif
