/* Growing lists of transfers. */
#ifndef WEFT_SRC_PLAN_TRANSFERS_H
#define WEFT_SRC_PLAN_TRANSFERS_H

#include "plan/plan.h"

/* Makes room for exactly `more` transfers after the present ones. False: no memory. */
bool weft_transfers_reserve(weft_transfers *moves, size_t more);
/* For at least one more, if their number is unknown: room doubles. */
bool weft_transfers_reserve_one(weft_transfers *moves);

static inline void weft_transfers_add(weft_transfers *moves, int peer, bool forwarded, int ndim,
                                      const weft_box *box)
{
    weft_transfer *move = &moves->items[moves->count++];
    move->peer = peer;
    move->forwarded = forwarded;
    for (int d = 0; d < ndim; d++) {
        move->box.offset[d] = box->offset[d];
        move->box.extent[d] = box->extent[d];
    }
}

#endif
