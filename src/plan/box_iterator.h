/* The shards of a layout that meet a box. */
#ifndef WEFT_SRC_PLAN_BOX_ITERATOR_H
#define WEFT_SRC_PLAN_BOX_ITERATOR_H

#include "plan/shard_intervals.h"

/* One list of segments per tensor dimension, and a walk over their product. */
typedef struct weft_box_iterator {
    int ndim;
    weft_vec intervals[WEFT_MAX_DIMS];
    size_t at[WEFT_MAX_DIMS];
    size_t count; /* of the product */
} weft_box_iterator;

/* False: no memory; then there is nothing to free. */
bool weft_box_iterator_make(weft_box_iterator *p, const weft_layout *layout, const weft_box *box,
                       const weft_fixed *fixed);
/* The same for what the stage's targets want of a box of its source. */
bool weft_box_iterator_of_targets(weft_box_iterator *p, const weft_stage *stage, const weft_box *box,
                             const weft_fixed *fixed);
void weft_box_iterator_free(weft_box_iterator *p);
/* The box of the walk's place; returns its part of the mesh index. */
int64_t weft_box_iterator_box(const weft_box_iterator *p, weft_box *box);
void weft_box_iterator_next(weft_box_iterator *p);

/* Index parts of all coordinates along the mesh dimensions marked, row-major; a fixed one is not varied. The
 * caller frees them; NULL: no memory. */
int64_t *weft_free_indices(const weft_mesh_impl *mesh, const bool marked[], const weft_fixed *fixed,
                           size_t *count);

#endif
