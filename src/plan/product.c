#include "plan/product.h"

#include "plan/windows.h"

#include <stdlib.h>

/* ---- products of segments ------------------------------------------------------------------------------ */

void weft_product_free(weft_product *p)
{
    for (int d = 0; d < p->ndim; d++) {
        weft_vec_free(&p->segments[d]);
    }
}

static bool make(weft_product *p, const weft_layout *layout, const weft_windows *windows, const weft_box *box,
                 const weft_fixed *fixed)
{
    *p = (weft_product){ .ndim = layout->ndim, .count = 1 };
    for (int d = 0; d < layout->ndim; d++) {
        int64_t begin = box->offset[d], end = begin + box->extent[d];
        bool done = windows != NULL && windows->has[d]
                        ? weft_window_segments(windows, d, begin, end, fixed, &p->segments[d])
                        : weft_segments(layout, d, begin, end, fixed, &p->segments[d]);
        if (!done) {
            weft_product_free(p);
            return false;
        }
        p->count *= p->segments[d].count;
    }
    return true;
}

bool weft_product_make(weft_product *p, const weft_layout *layout, const weft_box *box,
                       const weft_fixed *fixed)
{
    return make(p, layout, NULL, box, fixed);
}

bool weft_product_of_targets(weft_product *p, const weft_stage *stage, const weft_box *box,
                             const weft_fixed *fixed)
{
    return make(p, stage->to, stage->windows, box, fixed);
}

int64_t weft_product_box(const weft_product *p, weft_box *box)
{
    int64_t index = 0;
    for (int d = 0; d < p->ndim; d++) {
        const weft_segment *segment = (const weft_segment *)p->segments[d].items + p->at[d];
        box->offset[d] = segment->begin;
        box->extent[d] = segment->end - segment->begin;
        index += segment->index;
    }
    return index;
}

void weft_product_next(weft_product *p)
{
    for (int d = p->ndim - 1; d >= 0; d--) {
        if (++p->at[d] < p->segments[d].count) {
            return;
        }
        p->at[d] = 0;
    }
}

/* ---- coordinates that do not matter for the box -------------------------------------------------------- */

int64_t *weft_free_indices(const weft_mesh_impl *mesh, const bool marked[], const weft_fixed *fixed,
                           size_t *count)
{
    int64_t stride[WEFT_MAX_DIMS];
    weft_mesh_strides(mesh, stride);
    *count = 1;
    for (int m = 0; m < mesh->ndim; m++) {
        *count *= marked[m] && fixed->coordinate[m] < 0 ? (size_t)mesh->shape[m] : 1;
    }
    int64_t *indices = malloc(*count * sizeof(*indices));
    for (size_t i = 0; indices != NULL && i < *count; i++) {
        int64_t rest = (int64_t)i, index = 0;
        for (int m = mesh->ndim - 1; m >= 0; m--) {
            if (!marked[m]) {
                continue;
            }
            int64_t coordinate = fixed->coordinate[m];
            if (coordinate < 0) {
                coordinate = rest % mesh->shape[m];
                rest /= mesh->shape[m];
            }
            index += coordinate * stride[m];
        }
        indices[i] = index;
    }
    return indices;
}
