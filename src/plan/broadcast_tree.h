/* Moves in which ranks forward data that they have received: chains, binomial trees, once per process
 * (weft_algorithm).
 *
 * The ranks that want the same box of the destination form a group: they differ only along its Replicate
 * dimensions. A group is in the order of the destination mesh; each replica of the source serves one block
 * of it. For each part of the box its owner in the source is the root. The root and the block's other
 * ranks in their order are the elements 0, 1, 2, ... of a tree in which parents precede children. A rank
 * takes a part that it owns in the source from itself, and forwards it from there.
 *
 * So edges go from lower to higher mesh index of the destination, whatever part they carry, and there is
 * no cycle: ranks may wait for whole panels, which gather parts of several roots. Rings that start at each
 * root would wait for each other. */
#ifndef WEFT_SRC_PLAN_BROADCAST_TREE_H
#define WEFT_SRC_PLAN_BROADCAST_TREE_H

#include "plan/plan.h"

/* weft_stage_receives() and weft_stage_sends() for a stage that is not direct. */
weft_status weft_broadcast_tree_receives(const weft_stage *stage, const weft_topology *topology, int rank,
                                         weft_transfers *moves);
weft_status weft_broadcast_tree_sends(const weft_stage *stage, const weft_topology *topology, int rank,
                                      weft_transfers *moves);

/* The size of a broadcast: ranks that one root serves, and processes that host them; of the group of mesh
 * index 0 of the destination. */
typedef struct weft_broadcast_shape {
    int64_t ranks, processes;
} weft_broadcast_shape;
weft_broadcast_shape weft_broadcast_shape_of(const weft_stage *stage, const weft_topology *topology);

#endif
