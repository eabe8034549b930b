/* Positions of a mesh among which the busiest rank of a stage is found, without a look at each rank. */
#ifndef WEFT_SRC_PLAN_POSITIONS_H
#define WEFT_SRC_PLAN_POSITIONS_H

#include "plan/plan.h"

enum { WEFT_POSITION_KINDS = 10 };

/* The product of some coordinates along each dimension. */
typedef struct weft_positions {
    const weft_mesh_impl *mesh;
    int64_t count;
    int kinds[WEFT_MAX_DIMS];
    int64_t coordinates[WEFT_MAX_DIMS][WEFT_POSITION_KINDS];
} weft_positions;

/* The mesh dimensions along which ranks exchange data, where both layouts have one mesh: their placements change, or they shard a
 * tensor dimension that is cut otherwise before them, or that the access map maps. along[m] of all of them is written. */
void weft_stage_exchanges(const weft_stage *stage, bool along[]);

/* Along each dimension that ranks exchange data along, the first and the last coordinate, those of the last whole and the
 * last non-empty chunk of both layouts, and their largest parts. A rank at one of them receives the most bytes of all; in very
 * few stages with uneven chunks, and where sizes are listed, another one sends more, or has more messages. `mesh`: of either
 * layout. */
weft_positions weft_stage_positions(const weft_stage *stage, const weft_mesh_impl *mesh);
/* The mesh's index of position i, 0 <= i < count. */
int64_t weft_position_index(const weft_positions *positions, int64_t i);

#endif
