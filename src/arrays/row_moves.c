/* The exchange of a list of moves. Both sides of a message cut a move alike, at panels and the largest message, and count messages in the
 * order in which the target submits its receives (comm/start_queue.h): by rank, and by row. */
#include "arrays/row_moves.h"

#include <stdlib.h>

#include "tasks/copies.h"
#include "tensor/exchange.h"

enum { SOURCE = WEFT_EXCHANGE_SOURCE, TARGET = WEFT_EXCHANGE_TARGET };

/* A part of a move within one panel of each side. */
typedef struct piece {
    weft_row_move move;
    int64_t source_panel, target_panel;
    int64_t source_offset, target_offset; /* bytes in the panels */
    int peer;                             /* the other process; -1: both ranks are hosted here */
    uint32_t tag;
} piece;

typedef struct lowering {
    weft_exchange *exchange;
    const weft_layout *from, *to;
    int64_t row_bytes;
    weft_vec sends, written; /* piece: to other processes; all that hosted ranks get */
    bool failed;
} lowering;

/* ---- pieces ---------------------------------------------------------------------------------------------------- */

/* The panel with a row of a rank, and the row's place there in rows; *rows: at most those up to the panel's end. */
static int64_t panel_at(const weft_layout *layout, int rank, int64_t row, int64_t *place, int64_t *rows)
{
    weft_box box;
    int64_t begin, end;
    weft_layout_shard_box(layout, rank, &box);
    int64_t panel = weft_panel_of_row(layout, &box, row);
    weft_panel_range(layout, &box, panel, &begin, &end);
    *place = row - begin;
    *rows = weft_min_i64(*rows, end - row);
    return panel;
}

static void cut(lowering *l, const weft_row_move *move)
{
    const bool from_here = weft_hosts(move->source), to_here = weft_hosts(move->target);
    const int64_t most = weft_max_i64(1, weft_runtime.messages.max_bytes / l->row_bytes);
    for (int64_t done = 0, rows; done < move->rows && (from_here || to_here) && !l->failed; done += rows) {
        piece *p = weft_vec_push(to_here ? &l->written : &l->sends, sizeof(*p));
        if (p == NULL) {
            l->failed = true;
            return;
        }
        rows = from_here && to_here ? move->rows - done : weft_min_i64(most, move->rows - done);
        int64_t source_place, target_place;
        p->source_panel = panel_at(l->from, move->source, move->from + done, &source_place, &rows);
        p->target_panel = panel_at(l->to, move->target, move->to + done, &target_place, &rows);
        p->move = (weft_row_move){ move->source, move->target, move->from + done, move->to + done, rows };
        p->source_offset = source_place * l->row_bytes;
        p->target_offset = target_place * l->row_bytes;
        p->peer = from_here && to_here ? -1 : weft_process_of(from_here ? move->target : move->source);
    }
}

static int by_target(const void *a, const void *b)
{
    const piece *p = a, *q = b;
    int order = weft_compare_i64(p->move.target, q->move.target);
    return order != 0 ? order : weft_compare_i64(p->move.to, q->move.to);
}

static int by_source(const void *a, const void *b)
{
    const piece *p = a, *q = b;
    int order = weft_compare_i64(p->move.source, q->move.source);
    order = order != 0 ? order : weft_compare_i64(p->source_panel, q->source_panel);
    return order != 0 ? order : by_target(a, b);
}

static void sort(weft_vec *pieces, int (*compare)(const void *a, const void *b))
{
    if (pieces->count > 0) {
        qsort(pieces->items, pieces->count, sizeof(piece), compare);
    }
}

static void number(weft_vec *pieces, weft_tag_range *ranges)
{
    piece *all = pieces->items;
    sort(pieces, by_target);
    all = pieces->items;
    for (size_t i = 0; i < pieces->count; i++) {
        all[i].tag = all[i].peer < 0 ? 0 : ranges[all[i].peer].count++;
    }
}

static void count_received(lowering *l)
{
    const piece *all = l->written.items;
    weft_received *received = &l->exchange->received;
    for (size_t i = 0; i < l->written.count; i++) {
        if (all[i].move.source != all[i].move.target) {
            received->transfers++;
            received->bytes += (uint64_t)(all[i].move.rows * l->row_bytes);
            received->messages += all[i].peer >= 0;
        }
    }
}

/* ---- records --------------------------------------------------------------------------------------------------- */

static weft_slot slot_of(int tensor, int rank, int64_t panel)
{
    return (weft_slot){ tensor, rank - weft_runtime.first_rank, panel };
}

static void add_message(lowering *l, const piece *p, int64_t offset)
{
    const weft_task_message message = { .peer = p->peer,
                                        .tag = p->tag,
                                        .source_rank = p->move.source,
                                        .target_rank = p->move.target,
                                        .region = { .offset = offset, .run_bytes = p->move.rows * l->row_bytes } };
    l->failed = !weft_transfer_add(&l->exchange->list, &message) || l->failed;
}

static void add_sends(lowering *l)
{
    const piece *all = l->sends.items;
    for (size_t i = 0; i < l->sends.count; i++) {
        const weft_slot slot = slot_of(SOURCE, all[i].move.source, all[i].source_panel);
        if (i == 0 || all[i].move.source != all[i - 1].move.source || all[i].source_panel != all[i - 1].source_panel) {
            weft_transfer_begin(&l->exchange->list, WEFT_RECORD_SEND, slot, WEFT_SLOT_READ);
        }
        add_message(l, &all[i], all[i].source_offset);
    }
}

/* All records of one panel of the target. */
static void add_panel(lowering *l, const piece pieces[], size_t count)
{
    const weft_slot slot = slot_of(TARGET, pieces->move.target, pieces->target_panel);
    bool begun = false;
    for (size_t i = 0; i < count; i++) {
        if (pieces[i].peer >= 0) {
            if (!begun) {
                weft_transfer_begin(&l->exchange->list, WEFT_RECORD_RECEIVE, slot, WEFT_SLOT_WRITE);
                begun = true;
            }
            add_message(l, &pieces[i], pieces[i].target_offset);
        }
    }
    const int64_t element = (int64_t)weft_dtype_size(l->to->dtype), one = 1;
    weft_copies copies = { .list = &l->exchange->list,
                           .dtype = l->to->dtype,
                           .element_size = (size_t)element,
                           .target = slot,
                           .access = begun ? WEFT_SLOT_READ_WRITE : WEFT_SLOT_WRITE,
                           .position = weft_row_position(l->to, pieces->move.target, pieces->move.to) };
    for (size_t i = 0; i < count && !l->failed; i++) {
        if (pieces[i].peer < 0) {
            const int64_t elements = pieces[i].move.rows * l->row_bytes / element;
            const weft_strided_box box = weft_strided_box_of(1, &elements, &one, &one);
            l->failed = !weft_copies_add(&copies, pieces[i].target_offset,
                                         slot_of(SOURCE, pieces[i].move.source, pieces[i].source_panel), pieces[i].source_offset, &box);
        }
    }
    l->failed = l->failed || !weft_copies_end(&copies);
}

static void add_targets(lowering *l)
{
    const piece *all = l->written.items;
    for (size_t begin = 0, end; begin < l->written.count && !l->failed; begin = end) {
        end = begin + 1;
        while (end < l->written.count && all[end].move.target == all[begin].move.target &&
               all[end].target_panel == all[begin].target_panel) {
            end++;
        }
        add_panel(l, &all[begin], end - begin);
    }
}

static bool lower(lowering *l, int64_t num_moves, const weft_row_move moves[])
{
    for (int64_t i = 0; i < num_moves && !l->failed; i++) {
        cut(l, &moves[i]);
    }
    if (!l->failed) {
        number(&l->sends, l->exchange->sends);
        number(&l->written, l->exchange->receives);
        count_received(l);
        sort(&l->sends, by_source);
        add_sends(l);
        add_targets(l);
    }
    weft_vec_free(&l->sends);
    weft_vec_free(&l->written);
    return weft_task_list_finish(&l->exchange->list) && !l->failed;
}

weft_tensor_impl *weft_move_rows(const char *function, weft_tensor_impl *source, const weft_layout *to, int64_t num_moves,
                                 const weft_row_move moves[])
{
    const weft_stage stage = { .from = source->layout, .to = to, .scale = 1.0 };
    int64_t width = 1;
    for (int d = 1; d < to->ndim; d++) {
        width *= to->shape[d];
    }
    lowering l = { .exchange = weft_exchange_allocate(&stage),
                   .from = source->layout,
                   .to = to,
                   .row_bytes = width * (int64_t)weft_dtype_size(to->dtype) };
    bool done = l.exchange != NULL && lower(&l, width == 0 ? 0 : num_moves, moves);
    if (!done) {
        weft_fail_alone(WEFT_ERR_NOMEM, function, "no memory for the moves of rows");
    } else {
        l.exchange->of_boxes = true;
    }
    weft_tensor_impl *target = done ? weft_tensor_new(function, to) : NULL;
    weft_runtime.counters.stages += target != NULL;
    done = target != NULL && weft_exchange_run(function, l.exchange, source, target, true);
    weft_exchange_free(l.exchange);
    return done ? target : weft_tensor_discard(target);
}
