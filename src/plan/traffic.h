/* The traffic of one rank in a stage, in closed form. */
#ifndef WEFT_SRC_PLAN_TRAFFIC_H
#define WEFT_SRC_PLAN_TRAFFIC_H

#include "plan/plan.h"

/* Between this rank and others; without copies to itself. */
typedef struct weft_traffic {
    int64_t bytes_in, bytes_out, messages_in, messages_out;
    int64_t held; /* bytes of what it has afterwards */
} weft_traffic;

/* Incoming traffic is exact. Outgoing traffic is exact if weft_stage_traffic_exact() says so; else an even
 * share of the traffic of all replicas of this rank's values. */
weft_traffic weft_stage_traffic(const weft_stage *stage, int rank);
/* The rank's incoming traffic in a stage with access maps; outgoing traffic is left out. */
weft_traffic weft_access_map_traffic(const weft_stage *stage, int rank);
/* Each target has one possible source; or, on one mesh, takes the one at its own coordinates because no
 * process hosts a nearer one (one process, or one rank per process); and there is no broadcast tree. */
bool weft_stage_traffic_exact(const weft_stage *stage, const weft_topology *topology);

/* Bytes of the rank's box of `to` that it does not hold in `from`: the data that it must receive, whatever
 * the algorithm. */
int64_t weft_missing_bytes(const weft_layout *from, const weft_layout *to, int rank);

#endif
