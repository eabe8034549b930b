/* Iterates over the shards of a layout that intersect a box. */
#ifndef WEFT_SRC_PLAN_BOX_ITERATOR_H
#define WEFT_SRC_PLAN_BOX_ITERATOR_H

#include "plan/shard_intervals.h"

/* One list of intervals per tensor dimension, and an iterator over their product. */
typedef struct weft_box_iterator {
    int ndim;
    weft_vec intervals[WEFT_MAX_DIMS];
    size_t at[WEFT_MAX_DIMS];
    size_t count; /* number of boxes */
} weft_box_iterator;

/* False: no memory; then there is nothing to free. */
bool weft_box_iterator_make(weft_box_iterator *p, const weft_layout *layout, const weft_box *box,
                            const weft_fixed *fixed);
/* The same for the boxes that the stage's sources have of the box that the target at a coordinate wants. */
bool weft_box_iterator_of_sources(weft_box_iterator *p, const weft_stage *stage, const int64_t coordinate[], const weft_box *box,
                                  const weft_fixed *fixed);
/* The same for the boxes that the stage's targets read of the box of the source at a coordinate. */
bool weft_box_iterator_of_targets(weft_box_iterator *p, const weft_stage *stage, const int64_t coordinate[], const weft_box *box,
                                  const weft_fixed *fixed);
void weft_box_iterator_free(weft_box_iterator *p);
/* The current box; returns its part of the mesh index. */
int64_t weft_box_iterator_box(const weft_box_iterator *p, weft_box *box);
void weft_box_iterator_next(weft_box_iterator *p);

/* Parts of the mesh index for all coordinates along the marked mesh dimensions, row-major; a fixed
 * coordinate does not vary. The caller frees them. NULL: no memory. */
int64_t *weft_free_indices(const weft_mesh_impl *mesh, const bool marked[], const weft_fixed *fixed,
                           size_t *count);

#endif
