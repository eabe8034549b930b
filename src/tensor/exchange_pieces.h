/* The boxes that a stage moves, cut into pieces: which exchange.c makes records of.
 *
 * Every move of the stage (a box from one rank to another) is cut where panels of the source or of the
 * target begin, and where a message would become too large: into pieces, each of which lies in one panel
 * on both sides. Both sides of a message cut alike, so they agree on the messages between them, and on
 * their order: by target panel, target rank, where in the panel, and number of the addend. First panels
 * come first, so that what waits for them can begin.
 *
 * Pieces are in the source's indices. Along windows (weft_access_map) the target's are others, and so are the
 * numbers of the rows at which its panels begin. */
#ifndef WEFT_SRC_TENSOR_EXCHANGE_PIECES_H
#define WEFT_SRC_TENSOR_EXCHANGE_PIECES_H

#include "tensor/exchange.h"

typedef struct piece {
    int source_rank, target_rank;
    int64_t target_place; /* of the target rank in its mesh */
    int64_t addend;       /* its number among those of its box: the order to reduce them in */
    bool relayed;         /* the source panel is one of the target tensor */
    int64_t source_panel, target_panel;
    int peer; /* the other process, or -1: both ranks are hosted here */
    uint32_t tag;
    int64_t bytes;
    weft_box box;
} piece;

/* The layout that the piece is read in. */
static inline const weft_layout *source_layout(const weft_stage *stage, const piece *p)
{
    return p->relayed ? stage->to : stage->from;
}

/* Appends what a hosted rank receives, from whichever rank; and what it sends to other processes: what stays
 * here is seen from the target's side. False: no memory. */
bool weft_collect_receives(weft_vec *pieces, const weft_stage *stage, int target);
bool weft_collect_sends(weft_vec *pieces, const weft_stage *stage, int source);

/* Gives the messages with each process their tags, which count from 0: both sides count alike. */
void weft_number_messages(weft_vec *pieces, weft_tag_range *ranges);
/* By the panels that are written, or read. */
void weft_sort_by_target(weft_vec *pieces);
void weft_sort_by_source(weft_vec *pieces);

#endif
