/* Inline functions for the C compiler and for nvcc (host and device): WEFT_INLINE. */
#ifndef WEFT_CODELETS_INLINE_H
#define WEFT_CODELETS_INLINE_H

#include <weft/kernel.h>

#endif
