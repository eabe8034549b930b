/* The shards of a layout that meet a box. */
#ifndef WEFT_SRC_PLAN_PRODUCT_H
#define WEFT_SRC_PLAN_PRODUCT_H

#include "plan/segments.h"

/* One list of segments per tensor dimension, and a walk over their product. */
typedef struct weft_product {
    int ndim;
    weft_vec segments[WEFT_MAX_DIMS];
    size_t at[WEFT_MAX_DIMS];
    size_t count; /* of the product */
} weft_product;

/* False: no memory; then there is nothing to free. */
bool weft_product_make(weft_product *p, const weft_layout *layout, const weft_box *box,
                       const weft_fixed *fixed);
/* The same for what the stage's targets want of a box of its source. */
bool weft_product_of_targets(weft_product *p, const weft_stage *stage, const weft_box *box,
                             const weft_fixed *fixed);
void weft_product_free(weft_product *p);
/* The box of the walk's place; returns its part of the mesh index. */
int64_t weft_product_box(const weft_product *p, weft_box *box);
void weft_product_next(weft_product *p);

/* Index parts of all coordinates along the mesh dimensions marked, row-major; a fixed one is not varied. The
 * caller frees them; NULL: no memory. */
int64_t *weft_free_indices(const weft_mesh_impl *mesh, const bool marked[], const weft_fixed *fixed,
                           size_t *count);

#endif
