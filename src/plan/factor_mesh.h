/* A mesh of very many ranks with a dimension factored: 65,536 ranks as 256 x 256 of the same ranks in the
 * same order. Instead of all with all, ranks exchange along one of the two dimensions and then along the
 * other: 510 messages instead of 65,535. */
#ifndef WEFT_SRC_PLAN_FACTOR_MESH_H
#define WEFT_SRC_PLAN_FACTOR_MESH_H

#include "plan/plan.h"

/* Dimension m of the coarse mesh is dimensions first[m] .. first[m + 1] - 1 of the fine one, row-major. */
typedef struct weft_factored_mesh {
    const weft_mesh_impl *coarse, *fine;
    int first[WEFT_MAX_DIMS + 1];
} weft_factored_mesh;

/* Splits each marked dimension of more than `above` ranks into two factors, as equal as possible; `rounds`
 * times. fine == coarse if nothing can be split. False: no memory. */
bool weft_factor_mesh(weft_layout_table *table, const weft_mesh_impl *mesh, const bool marked[],
                      int64_t above, int rounds, weft_factored_mesh *out);

/* The layout's placements on the fine mesh: each placement is repeated for all dimensions that its own
 * became. */
void weft_factored_placements(const weft_factored_mesh *factored, const weft_layout *layout,
                              weft_placement placements[]);
/* Whether every rank has the same box with these placements. Nested chunks may be cut elsewhere: 100 rows
 * over 16 ranks are chunks of 7; over 4 x 4 ranks chunks of 25, cut into 7, 7, 7, 4. */
bool weft_factored_is_exact(const weft_factored_mesh *factored, const weft_layout *layout);

#endif
