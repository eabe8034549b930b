/* Moves in which ranks pass on what they have received: chains, trees, once per process (weft_algorithm).
 *
 * The ranks that want the same box of the destination are a group: they differ along its Replicate dimensions
 * alone. A group is in the order of the destination mesh; each replica of the source serves one block of it.
 * For each part of the box its holder in the source is the root; it and the block's other ranks in their
 * order are the elements 0, 1, 2, ... of a tree in which parents come before their children. What a rank
 * holds in the source it takes from itself, and passes on from there.
 *
 * So a relay always goes up in the order of the destination mesh, whatever part it carries. That is why ranks
 * can wait for whole panels, which gather parts of several roots, without waiting for each other in a circle;
 * rings that start at each root would. */
#ifndef WEFT_SRC_PLAN_BROADCAST_TREE_H
#define WEFT_SRC_PLAN_BROADCAST_TREE_H

#include "plan/plan.h"

/* What weft_stage_receives() and weft_stage_sends() do for a stage that is not direct. */
weft_status weft_broadcast_tree_receives(const weft_stage *stage, const weft_topology *topology, int rank,
                                weft_transfers *moves);
weft_status weft_broadcast_tree_sends(const weft_stage *stage, const weft_topology *topology, int rank,
                             weft_transfers *moves);

/* What relaying has to do with: how many ranks one root serves, and by how many processes they are hosted. Of
 * the group of mesh index 0 of the destination. */
typedef struct weft_broadcast_shape {
    int64_t ranks, processes;
} weft_broadcast_shape;
weft_broadcast_shape weft_broadcast_shape_of(const weft_stage *stage, const weft_topology *topology);

#endif
