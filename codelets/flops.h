/* Operations on floating numbers that a task makes. */
#ifndef WEFT_CODELETS_FLOPS_H
#define WEFT_CODELETS_FLOPS_H

#include "codelets/kernels.h"

/* About so many for a kernel with these arguments; 0: of the kernels that are as fast as memory, and of the program's. */
double weft_kernel_flops(weft_kernel_id kernel, const void *arguments);

#endif
