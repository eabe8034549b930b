#include "plan/box_iterator.h"

#include "plan/access_map.h"
#include "plan/common_parts.h"

#include <stdlib.h>

/* ---- products of segments ------------------------------------------------------------------------------ */

void weft_box_iterator_free(weft_box_iterator *p)
{
    for (int d = 0; d < p->ndim; d++) {
        weft_vec_free(&p->intervals[d]);
    }
}

/* `other`: the layout of the box, which is that of the shard at a coordinate. */
static bool make(weft_box_iterator *p, const weft_layout *layout, const weft_access_map *access_map, const weft_layout *other,
                 const int64_t coordinate[], const weft_box *box, const weft_fixed *fixed)
{
    *p = (weft_box_iterator){ .ndim = layout->ndim, .count = 1 };
    for (int d = 0; d < layout->ndim; d++) {
        int64_t begin = box->offset[d], end = begin + box->extent[d];
        bool done = access_map != NULL && access_map->has[d]
                        ? weft_access_map_intervals(access_map, d, begin, end, fixed, &p->intervals[d])
                    : weft_layouts_number_alike(layout, other, d)
                        ? weft_shard_intervals(layout, d, begin, end, fixed, &p->intervals[d])
                        : weft_common_parts(layout, d, fixed, other, coordinate, &p->intervals[d]);
        if (!done) {
            weft_box_iterator_free(p);
            return false;
        }
        p->count *= p->intervals[d].count;
    }
    return true;
}

bool weft_box_iterator_make(weft_box_iterator *p, const weft_layout *layout, const weft_box *box,
                            const weft_fixed *fixed)
{
    return make(p, layout, NULL, layout, NULL, box, fixed);
}

bool weft_box_iterator_of_sources(weft_box_iterator *p, const weft_stage *stage, const int64_t coordinate[], const weft_box *box,
                                  const weft_fixed *fixed)
{
    /* A map's box has the source's numbers. */
    return make(p, stage->from, NULL, stage->access_map == NULL ? stage->to : stage->from, coordinate, box, fixed);
}

bool weft_box_iterator_of_targets(weft_box_iterator *p, const weft_stage *stage, const int64_t coordinate[], const weft_box *box,
                                  const weft_fixed *fixed)
{
    return make(p, stage->to, stage->access_map, stage->from, coordinate, box, fixed);
}

int64_t weft_box_iterator_box(const weft_box_iterator *p, weft_box *box)
{
    int64_t index = 0;
    for (int d = 0; d < p->ndim; d++) {
        const weft_shard_interval *interval = (const weft_shard_interval *)p->intervals[d].items + p->at[d];
        box->offset[d] = interval->begin;
        box->extent[d] = interval->end - interval->begin;
        index += interval->index;
    }
    return index;
}

void weft_box_iterator_next(weft_box_iterator *p)
{
    for (int d = p->ndim - 1; d >= 0; d--) {
        if (++p->at[d] < p->intervals[d].count) {
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
