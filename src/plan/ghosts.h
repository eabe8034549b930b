/* Ghosted arrays (<weft/ghosts.h>): the layout of the arrays, margins included, and what fills the margins. PURE. */
#ifndef WEFT_SRC_PLAN_GHOSTS_H
#define WEFT_SRC_PLAN_GHOSTS_H

#include <weft/ghosts.h>

#include "plan/plan.h"

/* Whether a tensor of this layout can have ghosts; WEFT_ERR_LAYOUT, WEFT_ERR_SHAPE with why. */
weft_status weft_ghosts_check(const weft_layout *layout, const weft_ghosts *ghosts, char *why, size_t why_size);

/* The same for the same ghosts of `ndim` dimensions, on all processes. */
uint64_t weft_ghosts_digest(int ndim, const weft_ghosts *ghosts);

/* The layout of the arrays: a tensor of which each rank's shard is its whole array. The tensor can have ghosts. `apart`: margins of
 * rows are panels of their own. NULL: no memory. */
const weft_layout *weft_ghosts_padded(weft_layout_table *table, const weft_layout *layout, const weft_ghosts *ghosts, bool apart);

/* The indices of the tensor that each rank's array holds, those of its margins beyond the tensor's borders included. */
void weft_ghosts_map(const weft_layout *layout, const weft_ghosts *ghosts, weft_access_map *map);

/* A box that one rank's shard gets from another's, or from its own. */
typedef struct weft_ghost_move {
    int source, target;
    weft_box box;              /* in the source's layout; not empty */
    int64_t to[WEFT_MAX_DIMS]; /* where it begins in the target's */
} weft_ghost_move;

/* Appends the moves that fill the margins of a rank (`receives`), or that take its elements to all margins. All moves are
 * then in the order of target, source and place there, which is the same for both ends. False: no memory. */
bool weft_ghosts_fill(const weft_layout *layout, const weft_layout *padded, const weft_ghosts *ghosts, int rank,
                      bool receives, weft_vec *moves);

/* A rank's own elements, from its shard of the layout to its array, or back. False: it has none. */
bool weft_ghosts_inside(const weft_layout *layout, const weft_layout *padded, const weft_ghosts *ghosts, int rank,
                        bool into_array, weft_ghost_move *move);

#endif
