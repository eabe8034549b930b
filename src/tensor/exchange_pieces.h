/* The boxes that a stage transfers, cut into pieces, from which exchange.c builds records.
 *
 * Every transfer of the stage (a box from one rank to another) is cut at the panel borders of source and
 * target, and where a message would exceed the limit: a piece lies in one panel on both sides. Both sides
 * of a message cut alike, so they agree on the messages between them and on their order: by target panel,
 * target rank, position in the panel, and number of the addend. First panels come first, so that the tasks
 * after them can begin.
 *
 * Pieces are in the source's numbers of rows (plan.h). Through an access map (weft_access_map) the target's indices differ,
 * and so do the rows at which its panels begin. */
#ifndef WEFT_SRC_TENSOR_EXCHANGE_PIECES_H
#define WEFT_SRC_TENSOR_EXCHANGE_PIECES_H

#include "tensor/exchange.h"
#include "tensor/staging.h"

typedef struct piece {
    int source_rank, target_rank;
    int64_t target_place; /* mesh index of the target rank */
    int64_t addend;       /* number of the addend of its box: the order of reduction */
    bool forwarded;         /* the source panel belongs to the target tensor */
    int64_t source_panel, target_panel;
    int peer; /* the other process; -1: both ranks are hosted here */
    uint32_t tag;
    int64_t bytes;
    weft_box box;
} piece;

/* The layout in whose shards the piece is read. */
static inline const weft_layout *source_layout(const weft_stage *stage, const piece *p)
{
    return p->forwarded ? stage->to : stage->from;
}

/* The number of a panel's first row, as a position (weft_row_position()). */
static inline double panel_position(const weft_layout *layout, int rank, int64_t panel)
{
    weft_box shard;
    int64_t first, last;
    weft_layout_shard_box(layout, rank, &shard);
    weft_panel_range(layout, &shard, panel, &first, &last);
    return weft_row_position(layout, rank, first);
}

/* The rows that two shards have in common, by dimension, in a stage that renumbers (weft_stage_renumbers()). The boxes of its pieces
 * count them from 0. */
typedef struct weft_shared_rows {
    int ndim;
    weft_vec dims[WEFT_MAX_DIMS]; /* weft_common_run */
} weft_shared_rows;
/* Finds them for a source rank and a target rank. False: no memory. The caller frees them in either case. */
bool weft_shared_rows_find(weft_shared_rows *shared, const weft_stage *stage, int source, int target);
void weft_shared_rows_free(weft_shared_rows *shared);

/* Appends the pieces that hosted ranks receive, from any rank, and those that they send to other
 * processes. Pieces between hosted ranks are appended once, by the receiving rank. False: no memory. */
bool weft_collect_receives(weft_vec *pieces, const weft_stage *stage, int target);
bool weft_collect_sends(weft_vec *pieces, const weft_stage *stage, int source);

static inline weft_slot panel_slot(int tensor, int rank, int64_t panel)
{
    return (weft_slot){ tensor, rank - weft_runtime.first_rank, panel };
}

/* Appends the tasks and transfers of a stage that renumbers, whose pieces are sorted by source panel and by target panel
 * (exchange_renumbered.c). False: no memory. */
bool weft_exchange_lower_renumbered(const weft_stage *stage, weft_task_list *list, weft_staging *staging, const weft_vec *sends,
                                    const weft_vec *receives);

/* Numbers the messages with each process from 0: both sides count alike. */
void weft_number_messages(weft_vec *pieces, weft_tag_range *ranges);
/* Sorts by written panels, or by read panels. */
void weft_sort_by_target(weft_vec *pieces);
void weft_sort_by_source(weft_vec *pieces);

#endif
