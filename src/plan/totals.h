/* How much one rank moves in a stage, in closed form. */
#ifndef WEFT_SRC_PLAN_TOTALS_H
#define WEFT_SRC_PLAN_TOTALS_H

#include "plan/plan.h"

/* Between this rank and others; what it moves to itself does not count. */
typedef struct weft_totals {
    int64_t bytes_in, bytes_out, messages_in, messages_out;
} weft_totals;

/* Exact when both layouts are on one mesh and no process hosts a nearer replica than the one at the target's own
 * coordinates: with one process, or one rank per process. Otherwise bytes and messages out are an even share. */
weft_totals weft_stage_totals(const weft_stage *stage, int rank);

/* Bytes of the rank's box of `to` that it does not hold in `from`: what it has to receive, whatever the algorithm. */
int64_t weft_missing_bytes(const weft_layout *from, const weft_layout *to, int rank);

#endif
