#include "codelets/shapes.h"

#include <string.h>

/* Copies of `n` elements those up to the diagonal at `to_diagonal`, or those from it on; zeros elsewhere. */
static void copy_part(char *target, const char *source, int64_t n, int64_t to_diagonal, bool lower,
                      size_t size)
{
    int64_t cut = lower ? to_diagonal + 1 : to_diagonal; /* border between elements and zeros */
    cut = cut < 0 ? 0 : cut > n ? n : cut;
    size_t before = (size_t)cut * size, after = (size_t)(n - cut) * size;
    if (lower) {
        memcpy(target, source, before);
        memset(target + before, 0, after);
    } else {
        memset(target, 0, before);
        memcpy(target + before, source + before, after);
    }
}

/* `row` of the output, with all matrix rows in it: one if it has two dimensions. */
static void copy_row(const weft_kernel_call *call, int64_t row, bool lower)
{
    const weft_view *output = &call->output;
    int last = output->ndim - 1;
    size_t size = weft_dtype_size(output->dtype);
    int64_t n = output->extent[last], rows = n == 0 ? 0 : output->row_elements / n;
    char *target = weft_view_row(output, row, NULL);
    const char *source = weft_view_row(&call->inputs[0], row, NULL);
    for (int64_t i = 0; i < rows; i++) {
        int64_t line = output->offset[last - 1] + (last == 1 ? row : i % output->extent[last - 1]);
        int64_t at = line + call->numbers[0] - output->offset[last];
        size_t offset = (size_t)(i * n) * size;
        copy_part(target + offset, source + offset, n, at, lower, size);
    }
}

static void copy_rows(const weft_kernel_call *call, bool lower)
{
    for (int64_t row = 0; row < weft_view_rows(&call->output); row++) {
        copy_row(call, row, lower);
    }
}

void weft_kernel_tril(const weft_kernel_call *call)
{
    copy_rows(call, true);
}

void weft_kernel_triu(const weft_kernel_call *call)
{
    copy_rows(call, false);
}
