/* The operation that a captured graph makes of a stencil's calls (src/graph/passes/pass_stencil.c). The program cannot call it. */
#ifndef WEFT_SRC_OPS_STENCIL_H
#define WEFT_SRC_OPS_STENCIL_H

#include "ops/affine.h"

/* Input i is a tensor of the output's number of dimensions, of which row r of the output reads the indices r - before .. r + after in
 * each dimension (clipped), or without dimensions. attributes.type: of the output; numbers: weft_stencil_reach() of each dimension of
 * each input; sizes: of the dimensions that no input has as it is. The context is a weft_stencil (codelets/stencil.h). */
extern const weft_operation weft_operation_stencil;

/* Before and after in one number. WEFT_STENCIL_SAME: the dimension is that of the output, and index by index the same. */
enum { WEFT_STENCIL_SAME = -1 };

/* -1 << 30 < before, after < 1 << 30. */
static inline int64_t weft_stencil_reach(int64_t before, int64_t after)
{
    return ((before + (1 << 30)) << 31) | (after + (1 << 30));
}

#endif
