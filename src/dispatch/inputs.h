/* What the inputs of a call must be: of one mesh, or such as may be moved to it, and of the right types. Only
 * calls that the cache does not know are checked, for a layout holds mesh, shape and type. */
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

/* False with the error kept. */
bool weft_check_meshes(const weft_call *call, const weft_layout *const inputs[]);
bool weft_check_types(const weft_call *call, const weft_layout *const inputs[]);

#endif
