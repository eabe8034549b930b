/* Inputs on other meshes, which may be redistributed implicitly. Other checks of inputs are made once per
 * cache entry, because a layout has mesh, shape and type (sharding/check.c). */
#ifndef WEFT_SRC_DISPATCH_INPUTS_H
#define WEFT_SRC_DISPATCH_INPUTS_H

#include "dispatch/dispatch.h"

/* The layouts that the search starts from: those of the inputs; an input on another mesh than the leading
 * one becomes Replicate on its mesh, if it may be redistributed implicitly, else it keeps its mesh, and
 * the check fails. *guessed: the first input with dimensions that is redistributed because it has one
 * element; -1: none. False with the error kept: no memory. */
bool weft_gather_layouts(const weft_call *call, weft_tensor_impl *const inputs[],
                         const weft_layout *layouts[], int *guessed);
/* Warns that an input was taken for a scalar: once per operation, on the first process. */
void weft_warn_of_guess(const weft_call *call, int guessed, const weft_layout *layout);

#endif
