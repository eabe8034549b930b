/* Kernels that give the same bits on a CPU and on a CUDA device, so that it does not matter where a task runs. */
#ifndef WEFT_CODELETS_SAME_BITS_H
#define WEFT_CODELETS_SAME_BITS_H

#include "codelets/kernels.h"

/* `info`: a kernel's row; false for the program's own. */
bool weft_kernel_has_same_bits(const weft_kernel_info *info);

#endif
