/* The task list of moves of boxes (plan/ghosts.h). Within a process a task copies them from panel to panel. Between processes one
 * buffer for each pair of ranks travels: tasks pack it, messages carry it, and tasks unpack it. What lies together in one panel, as
 * whole rows do, is sent from there, and received in a panel that is a margin. A panel of rows inside is both read by sends and
 * written by receives: a receive into the panel itself would wait for its sends, and these for the other process's receive, which
 * waits likewise. */
#include <stdlib.h>
#include <string.h>

#include "tasks/copies.h"
#include "tensor/exchange_pieces.h"
#include "tensor/ghosts.h"

/* One end of a copy: a box of a shard, or a buffer that has the box alone. */
typedef struct box_end {
    const weft_layout *layout; /* NULL: a buffer */
    int tensor, rank;
    int64_t begin[WEFT_MAX_DIMS];
    weft_slot buffer;
    int64_t offset; /* bytes before the box in the buffer */
} box_end;

/* Where some row of the box begins, and how many follow it in the same slot. */
typedef struct row_place {
    weft_slot slot;
    int64_t offset; /* bytes */
    int64_t stride[WEFT_MAX_DIMS];
    int64_t rows;
    int64_t elements; /* of the panel */
    bool is_margin;   /* it is a margin of rows */
    double position;  /* of the panel; see weft_row_position() */
} row_place;

/* The part of a copy that lies in one slot at both ends. */
typedef struct part {
    row_place source, target;
    int64_t extent[WEFT_MAX_DIMS];
    bool whole; /* the target's slot gets nothing but this copy's elements */
} part;

typedef struct lowering {
    weft_exchange *exchange;
    int ndim;
    size_t element_size;
    weft_vec parts; /* that are not tasks yet */
    bool failed;
} lowering;

/* ---- copies -------------------------------------------------------------------------------------------- */

static row_place place_of(const lowering *l, const box_end *end, const int64_t extent[], int64_t row)
{
    weft_box shard = { .extent = { 0 } };
    row_place place = { .slot = end->buffer, .offset = end->offset, .rows = extent[0] - row };
    int64_t first = 0, last, step = (int64_t)l->element_size;
    if (end->layout != NULL) {
        weft_layout_shard_box(end->layout, end->rank, &shard);
        int64_t panel = weft_panel_of_row(end->layout, &shard, end->begin[0] + row);
        weft_panel_range(end->layout, &shard, panel, &first, &last);
        place.slot = panel_slot(end->tensor, end->rank, panel);
        place.rows = last - end->begin[0] - row;
        place.elements = (last - first) * weft_row_elements(l->ndim, &shard);
        place.is_margin = weft_panel_is_margin(end->layout, &shard, panel);
        place.position = panel_position(end->layout, end->rank, panel);
    }
    for (int d = l->ndim - 1; d >= 0; d--) {
        int64_t begin = end->layout == NULL ? 0 : end->begin[d] - (d == 0 ? first : shard.offset[d]);
        place.stride[d] = step / (int64_t)l->element_size;
        place.offset += (begin + (d == 0 ? row : 0)) * step;
        step *= end->layout == NULL ? extent[d] : shard.extent[d];
    }
    return place;
}

static void add_parts(lowering *l, const box_end *source, const box_end *target, const int64_t extent[])
{
    for (int64_t row = 0, rows; row < extent[0]; row += rows) {
        part *p = weft_vec_push(&l->parts, sizeof(*p));
        if (p == NULL) {
            l->failed = true;
            return;
        }
        *p = (part){ .source = place_of(l, source, extent, row), .target = place_of(l, target, extent, row) };
        rows = weft_min_i64(extent[0] - row, weft_min_i64(p->source.rows, p->target.rows));
        memcpy(p->extent, extent, (size_t)l->ndim * sizeof(*extent));
        p->extent[0] = rows;
        weft_box box = { .extent = { 0 } };
        memcpy(box.extent, p->extent, sizeof(box.extent));
        p->whole = target->layout == NULL || weft_box_count(l->ndim, &box) == p->target.elements;
    }
}

static int compare_slots(const weft_slot *a, const weft_slot *b)
{
    int order = weft_compare_i64(a->tensor, b->tensor);
    order = order != 0 ? order : weft_compare_i64(a->shard, b->shard);
    return order != 0 ? order : weft_compare_i64(a->panel, b->panel);
}

/* By panel first, so that the tasks after the first panels can begin. */
static int by_target(const void *a, const void *b)
{
    const part *p = a, *q = b;
    int order = weft_compare_i64(p->target.slot.panel, q->target.slot.panel);
    order = order != 0 ? order : compare_slots(&p->target.slot, &q->target.slot);
    order = order != 0 ? order : weft_compare_i64(p->target.offset, q->target.offset);
    return order != 0 ? order : compare_slots(&p->source.slot, &q->source.slot);
}

/* Makes tasks of all parts. */
static void add_tasks(lowering *l)
{
    const part *all = l->parts.items;
    const bool fills = l->exchange->stage.from == l->exchange->stage.to; /* margins, for which neighbours wait */
    weft_copies copies = { .list = &l->exchange->list, .dtype = l->exchange->stage.from->dtype, .element_size = l->element_size };
    if (l->parts.count > 0) {
        qsort(l->parts.items, l->parts.count, sizeof(part), by_target);
    }
    for (size_t i = 0; i < l->parts.count && !l->failed; i++) {
        const row_place *from = &all[i].source, *to = &all[i].target;
        if (i == 0 || !weft_slot_equal(to->slot, copies.target)) {
            l->failed = !weft_copies_end(&copies);
            copies.target = to->slot;
            copies.access = all[i].whole ? WEFT_SLOT_WRITE : WEFT_SLOT_READ_WRITE;
            copies.position = fills ? 0 : to->position;
        }
        weft_strided_box box = weft_strided_box_of(l->ndim, all[i].extent, from->stride, to->stride);
        l->failed = l->failed || !weft_copies_add(&copies, to->offset, from->slot, from->offset, &box);
    }
    l->failed = l->failed || !weft_copies_end(&copies);
    l->parts.count = 0;
}

/* ---- messages ------------------------------------------------------------------------------------------ */

static int64_t bytes_of(const lowering *l, const weft_ghost_move *move)
{
    return weft_box_count(l->ndim, &move->box) * (int64_t)l->element_size;
}

/* The moves between two ranks from `begin` on, and their bytes. */
static size_t end_of_pair(const lowering *l, const weft_vec *moves, size_t begin, int64_t *bytes)
{
    const weft_ghost_move *all = moves->items;
    size_t end = begin;
    *bytes = 0;
    while (end < moves->count && all[end].source == all[begin].source && all[end].target == all[begin].target) {
        *bytes += bytes_of(l, &all[end++]);
    }
    return end;
}

/* The bytes of two ranks, from `first` on in the slot, in one message, or several where they are too many for one. */
static void add_transfer(lowering *l, const weft_ghost_move *of, weft_slot slot, int64_t first, int64_t bytes,
                         weft_slot_access access)
{
    weft_task_list *list = &l->exchange->list;
    const bool receives = access != WEFT_SLOT_READ;
    const int peer = weft_process_of(receives ? of->source : of->target);
    weft_tag_range *range = receives ? &l->exchange->receives[peer] : &l->exchange->sends[peer];
    weft_transfer_begin(list, receives ? WEFT_RECORD_RECEIVE : WEFT_RECORD_SEND, slot, access);
    for (int64_t at = 0, size; at < bytes && !l->failed; at += size) {
        size = weft_min_i64(bytes - at, weft_runtime.messages.max_bytes);
        weft_task_message message = { .peer = peer,
                                      .tag = range->count++,
                                      .source_rank = of->source,
                                      .target_rank = of->target,
                                      .region = { .offset = first + at, .run_bytes = size } };
        l->failed = !weft_transfer_add(list, &message);
        l->exchange->received.messages += receives;
    }
}

static box_end end_in(const weft_layout *layout, int tensor, int rank, const int64_t begin[], int ndim)
{
    box_end end = { .layout = layout, .tensor = tensor, .rank = rank };
    memcpy(end.begin, begin, (size_t)ndim * sizeof(*begin));
    return end;
}

static box_end source_of(const lowering *l, const weft_ghost_move *move)
{
    return end_in(l->exchange->stage.from, WEFT_EXCHANGE_SOURCE, move->source, move->box.offset, l->ndim);
}

static box_end target_of(const lowering *l, const weft_ghost_move *move)
{
    return end_in(l->exchange->stage.to, WEFT_EXCHANGE_TARGET, move->target, move->to, l->ndim);
}

/* Whether the box lies together in one panel at this end, and where. */
static bool find_together(const lowering *l, const box_end *end, const int64_t extent[], row_place *place)
{
    *place = place_of(l, end, extent, 0);
    bool together = place->rows >= extent[0];
    int64_t step = 1;
    for (int d = l->ndim - 1; d >= 0; d--) {
        together = together && (extent[d] == 1 || place->stride[d] == step);
        step *= extent[d];
    }
    return together;
}

static void add_sends(lowering *l, const weft_vec *moves)
{
    const weft_ghost_move *all = moves->items;
    int64_t bytes;
    for (size_t begin = 0, end; begin < moves->count && !l->failed; begin = end) {
        end = end_of_pair(l, moves, begin, &bytes);
        box_end source = source_of(l, &all[begin]);
        row_place place;
        if (end == begin + 1 && find_together(l, &source, all[begin].box.extent, &place)) {
            add_transfer(l, &all[begin], place.slot, place.offset, bytes, WEFT_SLOT_READ);
            continue;
        }
        box_end packed = { .buffer = weft_task_new_buffer(&l->exchange->list, bytes) };
        for (size_t i = begin; i < end; i++) {
            source = source_of(l, &all[i]);
            add_parts(l, &source, &packed, all[i].box.extent);
            packed.offset += bytes_of(l, &all[i]);
        }
        add_tasks(l);
        add_transfer(l, &all[begin], packed.buffer, 0, bytes, WEFT_SLOT_READ);
    }
}

/* The moves of two ranks in one message, or of a process's own ranks. */
static void add_receive(lowering *l, const weft_ghost_move moves[], size_t count, int64_t bytes)
{
    const bool comes = !weft_hosts(moves->source);
    box_end packed = { .offset = 0 }, target = target_of(l, moves);
    row_place place;
    if (comes && count == 1 && find_together(l, &target, moves->box.extent, &place) && place.is_margin) {
        const bool whole = bytes == place.elements * (int64_t)l->element_size;
        add_transfer(l, moves, place.slot, place.offset, bytes, whole ? WEFT_SLOT_WRITE : WEFT_SLOT_READ_WRITE);
        return;
    }
    if (comes) {
        packed.buffer = weft_task_new_buffer(&l->exchange->list, bytes);
        add_transfer(l, moves, packed.buffer, 0, bytes, WEFT_SLOT_WRITE);
    }
    for (size_t i = 0; i < count; i++) {
        box_end source = comes ? packed : source_of(l, &moves[i]);
        target = target_of(l, &moves[i]);
        add_parts(l, &source, &target, moves[i].box.extent);
        packed.offset += bytes_of(l, &moves[i]);
    }
}

static void add_receives(lowering *l, const weft_vec *moves)
{
    const weft_ghost_move *all = moves->items;
    int64_t bytes;
    for (size_t begin = 0, end; begin < moves->count && !l->failed; begin = end) {
        end = end_of_pair(l, moves, begin, &bytes);
        add_receive(l, &all[begin], end - begin, bytes);
        if (all[begin].source != all[begin].target) {
            l->exchange->received.transfers++;
            l->exchange->received.bytes += (uint64_t)bytes;
        }
    }
    add_tasks(l);
}

bool weft_exchange_lower_moves(weft_exchange *exchange, const weft_vec *sends, const weft_vec *receives)
{
    const weft_layout *from = exchange->stage.from;
    lowering l = { .exchange = exchange, .ndim = from->ndim, .element_size = weft_dtype_size(from->dtype) };
    add_sends(&l, sends);
    add_receives(&l, receives);
    weft_vec_free(&l.parts);
    return weft_task_list_finish(&exchange->list) && !l.failed;
}
