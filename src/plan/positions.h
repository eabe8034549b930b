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

/* Whether ranks exchange data along mesh dimension m of the one mesh of both layouts: its placement changes, or it shards a
 * tensor dimension that a change further left cuts anew. Called for m = 0, 1, ...; cut[d] collects such tensor dimensions. */
bool weft_stage_exchanges_along(const weft_stage *stage, int m, bool cut[]);

/* Along each dimension that ranks exchange data along, the first and the last coordinate, those of the last whole and the
 * last non-empty chunk of both layouts, and their largest parts. A rank at one of them receives the most bytes of all; in very
 * few stages with uneven chunks, and where sizes are listed, another one sends more, or has more messages. `mesh`: of either
 * layout. */
weft_positions weft_stage_positions(const weft_stage *stage, const weft_mesh_impl *mesh);
/* The mesh's index of position i, 0 <= i < count. */
int64_t weft_position_index(const weft_positions *positions, int64_t i);

#endif
