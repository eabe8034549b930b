/* Elements of parts with halos, for kernels of tests. */
#ifndef WEFT_TESTS_HALO_VALUES_H
#define WEFT_TESTS_HALO_VALUES_H

#include "view_values.h"

#include <math.h>

/* The element at indices as the kernel sees them; fails where the part lacks it. */
static inline double at(const weft_kernel_call *call, const weft_view *view, int64_t row, int64_t column)
{
    int64_t r = row - view->offset[0], c = view->ndim < 2 ? 0 : column - view->offset[1];
    if (r < 0 || r >= view->extent[0] || (view->ndim > 1 && (c < 0 || c >= view->extent[1]))) {
        weft_kernel_fail(call, WEFT_ERR_INTERNAL, "(%lld, %lld) is not there", (long long)row, (long long)column);
        return NAN;
    }
    return row_value(view, r, view->ndim < 2 ? 0 : c * view->strides[1]);
}

/* Of a part, or of a whole tensor. */
typedef double (*reader)(const void *context, int64_t row, int64_t column);

typedef struct part {
    const weft_kernel_call *call;
    const weft_view *view;
} part;

static inline double read_part(const void *context, int64_t row, int64_t column)
{
    const part *p = context;
    return at(p->call, p->view, row, column);
}

#endif
