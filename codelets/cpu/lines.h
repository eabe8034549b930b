/* A view as lines along one dimension, for kernels that work along any dimension. */
#ifndef WEFT_CODELETS_CPU_LINES_H
#define WEFT_CODELETS_CPU_LINES_H

#include <weft/kernel.h>

/* Element (outer, k, j): k along the dimension, `outer` row-major over the dimensions before it, j over
 * those after it. The elements (outer, k, 0 .. inner - 1) are contiguous. */
typedef struct weft_lines {
    const weft_view *view;
    int dim;
    int64_t outer, length, inner;
    int64_t middle; /* number of `outer` indices per row (dimension 0) */
} weft_lines;

static inline weft_lines weft_lines_of(const weft_view *view, int dim)
{
    weft_lines lines = { view, dim, 1, view->extent[dim], 1, 1 };
    for (int d = 0; d < view->ndim; d++) {
        lines.outer *= d < dim ? view->extent[d] : 1;
        lines.middle *= d > 0 && d < dim ? view->extent[d] : 1;
        lines.inner *= d > dim ? view->extent[d] : 1;
    }
    return lines;
}

/* Address of (outer, k, 0); `*together` gets the number of k, this one included, that follow at a distance
 * of `inner` elements. Along dimension 0 these end with the panel. */
static inline void *weft_line_at(const weft_lines *lines, int64_t outer, int64_t k, int64_t *together)
{
    if (lines->dim == 0) {
        return weft_view_row(lines->view, k, together);
    }
    *together = lines->length - k;
    char *row = weft_view_row(lines->view, outer / lines->middle, NULL);
    return row + (size_t)((outer % lines->middle * lines->length + k) * lines->inner) *
                     weft_dtype_size(lines->view->dtype);
}

/* Address of (outer, 0, 0) if the whole line follows at a distance of `inner` elements; else NULL. The
 * view is not empty. */
static inline void *weft_line_whole(const weft_lines *lines, int64_t outer)
{
    int64_t together;
    void *line = weft_line_at(lines, outer, 0, &together);
    return together == lines->length ? line : NULL;
}

#endif
