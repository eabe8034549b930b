/* How much one rank moves in a stage, in closed form. */
#ifndef WEFT_SRC_PLAN_TRAFFIC_H
#define WEFT_SRC_PLAN_TRAFFIC_H

#include "plan/plan.h"

/* Between this rank and others; what it moves to itself does not count. */
typedef struct weft_traffic {
    int64_t bytes_in, bytes_out, messages_in, messages_out;
} weft_traffic;

/* What comes in is exact. What goes out is where weft_stage_traffic_exact() says so; else an even share of
 * what the replicas of this rank's values send together. */
weft_traffic weft_stage_traffic(const weft_stage *stage, int rank);
/* What the rank gets of a stage with windows; what goes out is left out. */
weft_traffic weft_access_map_traffic(const weft_stage *stage, int rank);
/* Each target has one source to choose from; or, on one mesh, takes the one at its own coordinates because
 * no process hosts a nearer one (with one process, or one rank per process); and nothing is relayed. */
bool weft_stage_traffic_exact(const weft_stage *stage, const weft_topology *topology);

/* Bytes of the rank's box of `to` that it does not hold in `from`: what it has to receive, whatever the
 * algorithm. */
int64_t weft_missing_bytes(const weft_layout *from, const weft_layout *to, int rank);

#endif
