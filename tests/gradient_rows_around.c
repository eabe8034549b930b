/* Gradients of elements around a tensor, and of diagonals. */
#include "gradient_rows.h"

static weft_tensor *pad(weft_tensor *a, weft_pad_mode mode, double value)
{
    return weft_pad(a, 2, (int64_t[]){ 2, 0 }, (int64_t[]){ 1, 2 }, mode, value);
}

CALL(call_pad_zeros, pad(x[0], WEFT_PAD_CONSTANT, 0))
CALL(call_pad, pad(x[0], WEFT_PAD_CONSTANT, 1.5))
CALL(call_pad_less, weft_pad(x[0], 2, (int64_t[]){ -1, 2 }, (int64_t[]){ -2, -1 }, WEFT_PAD_CONSTANT, 0))
CALL(call_pad_reflect, pad(x[0], WEFT_PAD_REFLECT, 0))
CALL(call_pad_replicate, pad(x[0], WEFT_PAD_REPLICATE, 0))
CALL(call_pad_circular, pad(x[0], WEFT_PAD_CIRCULAR, 0))
CALL(call_diagonal, weft_diagonal(x[0], 0, 0, 1))
CALL(call_diagonal_below, weft_diagonal(x[0], -1, 2, 0))
CALL(call_trace, weft_trace(x[0]))
CALL(call_movedims, weft_movedims(x[0], 2, (int[]){ 0, 1 }, (int[]){ 2, 0 }))

const call_row gradient_rows_around[] = {
    { THIS_ROW, { "5x3:u" }, call_pad_zeros, false },
    { THIS_ROW, { "5x3:u" }, call_pad, false },
    { THIS_ROW, { "5x3:u" }, call_pad_less, false },
    { THIS_ROW, { "5x3:u" }, call_pad_reflect, false },
    { THIS_ROW, { "5x3:u" }, call_pad_replicate, false },
    { THIS_ROW, { "5x3:u" }, call_pad_circular, false },
    { THIS_ROW, { "5x4:u" }, call_diagonal, false },
    { THIS_ROW, { "3x2x4:u" }, call_diagonal_below, false },
    { THIS_ROW, { "4x5:u" }, call_trace, false },
    { THIS_ROW, { "3x2x4:u" }, call_movedims, false },
    { .call = NULL },
};
