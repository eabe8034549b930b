/* Kernels that move elements: see kernel.h. */
#ifndef WEFT_CODELETS_SHAPES_H
#define WEFT_CODELETS_SHAPES_H

#include <weft/kernel.h>

/* Input 0 where column - row <= numbers[0] (weft_kernel_tril) or >= numbers[0] (weft_kernel_triu), of the
 * global indices of the last two dimensions; 0 elsewhere. */
void weft_kernel_tril(const weft_kernel_call *call);
void weft_kernel_triu(const weft_kernel_call *call);

#endif
