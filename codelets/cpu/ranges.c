/* Ranges, and identity matrices. */
#include "codelets/ranges.h"

#include <string.h>

#include "codelets/constant.h"
#include "codelets/convert.h"

enum { BLOCK = 256 };

void weft_kernel_range(const weft_kernel_call *call)
{
    const weft_view *out = &call->output;
    bool floating = out->dtype < WEFT_I64;
    for (int64_t row = 0, together; row < weft_view_rows(out); row += together) {
        union {
            double real[BLOCK];
            int64_t whole[BLOCK];
        } values;
        char *target = weft_view_row(out, row, &together);
        together = together < BLOCK ? together : BLOCK;
        for (int64_t i = 0; i < together; i++) {
            int64_t index = out->offset[0] + row + i;
            if (floating) {
                values.real[i] = weft_range_real(call->scalars, out->shape[0], index);
            } else {
                values.whole[i] = weft_range_whole(call->scalars, index);
            }
        }
        weft_store(out->dtype, target, 1, floating ? WEFT_F64 : WEFT_I64, &values, together);
    }
}

void weft_kernel_eye(const weft_kernel_call *call)
{
    const weft_view *out = &call->output;
    size_t size = weft_dtype_size(out->dtype);
    const uint64_t one = weft_constant_bits(out->dtype, 1, 0);
    for (int64_t row = 0; row < weft_view_rows(out); row++) {
        char *target = weft_view_row(out, row, NULL);
        int64_t place = out->offset[0] + row - out->offset[1];
        memset(target, 0, (size_t)out->row_elements * size);
        if (place >= 0 && place < out->extent[1]) {
            memcpy(target + (size_t)place * size, &one, size < sizeof(one) ? size : sizeof(one)); /* the lowest bytes */
        }
    }
}
