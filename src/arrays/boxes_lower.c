/* The task list of a box plan for this process: copies between panels and chunks, messages for those of other processes.
 *
 * Both sides of a message cut a transfer alike: at panels, chunks and the largest message; and count messages in the order
 * in which the receiver's panels or chunks are written (comm/start_queue.h). Messages carry elements in row-major
 * order of the piece, whatever the order in memory. */
#include <stdlib.h>
#include <string.h>

#include "arrays/boxes.h"
#include "tasks/copies.h"

enum { SOURCE = WEFT_EXCHANGE_SOURCE, TARGET = WEFT_EXCHANGE_TARGET };

/* A part of a transfer inside one panel and one chunk. */
typedef struct box_piece {
    int64_t box; /* position in the set */
    int rank;
    int64_t panel, chunk;
    int peer; /* process at the other end; -1: this one */
    bool sent;
    uint32_t tag;
    weft_box part;
} box_piece;

typedef struct lowering {
    const weft_box_plan *plan;
    weft_exchange *exchange;
    size_t element_size;
    weft_vec pieces; /* box_piece */
    bool failed;
} lowering;

static const weft_owned_box *owned_of(const lowering *l, int64_t box)
{
    return &l->plan->set.boxes[box];
}

/* ---- cutting ------------------------------------------------------------------------------------------- */

static void add_piece(lowering *l, const box_piece *like, const weft_box *part)
{
    box_piece *piece = weft_vec_push(&l->pieces, sizeof(*piece));
    if (piece == NULL) {
        l->failed = true;
        return;
    }
    *piece = *like;
    piece->part = *part;
}

static void cut_to_messages(lowering *l, const box_piece *like, const weft_box *part, int dim)
{
    int ndim = l->plan->set.ndim;
    int64_t bytes = weft_box_count(ndim, part) * (int64_t)l->element_size, most = weft_runtime.messages.max_bytes;
    if (like->peer < 0 || bytes <= most || dim == ndim) {
        add_piece(l, like, part);
        return;
    }
    int64_t step = weft_max_i64(1, most / (bytes / part->extent[dim]));
    int64_t end = part->offset[dim] + part->extent[dim];
    weft_box slice = *part;
    for (; slice.offset[dim] < end; slice.offset[dim] += slice.extent[dim]) {
        slice.extent[dim] = weft_min_i64(step, end - slice.offset[dim]);
        cut_to_messages(l, like, &slice, dim + 1);
    }
}

static void cut_to_chunks(lowering *l, const box_piece *like, const weft_box *part)
{
    const weft_owned_box *owned = owned_of(l, like->box);
    int dim = owned->slowest, ndim = l->plan->set.ndim;
    int64_t rows = weft_box_chunk(owned, ndim, l->element_size);
    box_piece piece = *like;
    if (ndim == 0) {
        cut_to_messages(l, &piece, part, 0);
        return;
    }
    int64_t first = owned->box.offset[dim], end = part->offset[dim] + part->extent[dim];
    weft_box slice = *part;
    for (; slice.offset[dim] < end; slice.offset[dim] += slice.extent[dim]) {
        piece.chunk = (slice.offset[dim] - first) / rows;
        slice.extent[dim] = weft_min_i64(first + (piece.chunk + 1) * rows, end) - slice.offset[dim];
        cut_to_messages(l, &piece, &slice, 0);
    }
}

static void cut_to_panels(lowering *l, const box_piece *like, const weft_box *part)
{
    const weft_layout *layout = l->plan->layout;
    box_piece piece = *like;
    if (layout->ndim == 0) {
        cut_to_chunks(l, &piece, part);
        return;
    }
    weft_box shard, slice = *part;
    weft_layout_shard_box(layout, like->rank, &shard);
    int64_t end = part->offset[0] + part->extent[0];
    for (; slice.offset[0] < end; slice.offset[0] += slice.extent[0]) {
        int64_t first, last;
        piece.panel = weft_panel_of_row(layout, &shard, slice.offset[0]);
        weft_panel_range(layout, &shard, piece.panel, &first, &last);
        slice.extent[0] = weft_min_i64(last, end) - slice.offset[0];
        cut_to_chunks(l, &piece, &slice);
    }
}

static void cut_transfer(lowering *l, const weft_box_transfer *transfer)
{
    const weft_box_plan *plan = l->plan;
    int own = weft_runtime.process;
    int at_box = owned_of(l, transfer->box)->process;
    int at_rank = weft_process_of(transfer->rank);
    bool in_place = at_box == own && plan->in_place[transfer->box - plan->first_own] && at_rank == own;
    box_piece piece = { .box = transfer->box, .rank = transfer->rank, .peer = -1 };
    if (at_box != at_rank) {
        piece.peer = at_box == own ? at_rank : at_box;
        piece.sent = (at_box == own) == plan->into_tensor;
    }
    if (!in_place) {
        cut_to_panels(l, &piece, &transfer->part);
    }
}

/* ---- the order of messages ----------------------------------------------------------------------------- */

static int compare_places(const box_piece *p, const box_piece *q)
{
    int order = 0;
    for (int d = 0; d < WEFT_MAX_DIMS && order == 0; d++) {
        order = weft_compare_i64(p->part.offset[d], q->part.offset[d]);
    }
    return order;
}

/* By the panel that is written; then by the box that is read. */
static int by_panel(const void *a, const void *b)
{
    const box_piece *p = a, *q = b;
    int order = weft_compare_i64(p->panel, q->panel);
    order = order != 0 ? order : weft_compare_i64(p->rank, q->rank);
    order = order != 0 ? order : weft_compare_i64(p->box, q->box);
    return order != 0 ? order : compare_places(p, q);
}

/* By the chunk that is written; then by the shard that is read. */
static int by_chunk(const void *a, const void *b)
{
    const box_piece *p = a, *q = b;
    int order = weft_compare_i64(p->chunk, q->chunk);
    order = order != 0 ? order : weft_compare_i64(p->box, q->box);
    order = order != 0 ? order : weft_compare_i64(p->rank, q->rank);
    return order != 0 ? order : compare_places(p, q);
}

static void number_messages(lowering *l)
{
    box_piece *all = l->pieces.items;
    for (size_t i = 0; i < l->pieces.count; i++) {
        if (all[i].peer >= 0) {
            weft_tag_range *ranges = all[i].sent ? l->exchange->sends : l->exchange->receives;
            all[i].tag = ranges[all[i].peer].count++;
        }
    }
}

/* ---- records ------------------------------------------------------------------------------------------- */

/* Slot, offset (bytes) and strides (elements) of a piece in its panel, or in its region. */
typedef struct piece_place {
    weft_slot slot;
    int64_t offset, stride[WEFT_MAX_DIMS];
} piece_place;

static piece_place place_in_panel(const lowering *l, const box_piece *p)
{
    piece_place place = { .slot = { l->plan->into_tensor ? TARGET : SOURCE, p->rank - weft_runtime.first_rank, p->panel } };
    place.offset = weft_panel_offset(l->plan->layout, p->rank, p->panel, &p->part, place.stride);
    return place;
}

static const weft_box_place *chunk_of(const lowering *l, const box_piece *p)
{
    return &l->plan->places.of_chunk[l->plan->places.first[p->box - l->plan->first_own] + p->chunk];
}

static piece_place place_in_region(const lowering *l, const box_piece *p)
{
    const weft_owned_box *owned = owned_of(l, p->box);
    const weft_box_place *chunk = chunk_of(l, p);
    int ndim = l->plan->set.ndim;
    int64_t rows = weft_box_chunk(owned, ndim, l->element_size), number = p->box - l->plan->first_own;
    piece_place place = { .slot = { l->plan->into_tensor ? SOURCE : TARGET, (int32_t)chunk->region, 0 },
                          .offset = chunk->offset };
    memcpy(place.stride, l->plan->strides + number * ndim, (size_t)ndim * sizeof(int64_t));
    for (int d = 0; d < ndim; d++) {
        int64_t begin = owned->box.offset[d] + (d == owned->slowest ? p->chunk * rows : 0);
        place.offset += (p->part.offset[d] - begin) * place.stride[d] * (int64_t)l->element_size;
    }
    return place;
}

static piece_place written_place(const lowering *l, const box_piece *p)
{
    return l->plan->into_tensor ? place_in_panel(l, p) : place_in_region(l, p);
}

static piece_place read_place(const lowering *l, const box_piece *p)
{
    return l->plan->into_tensor ? place_in_region(l, p) : place_in_panel(l, p);
}

static void add_message(lowering *l, const box_piece *p, const piece_place *place)
{
    int own_rank = weft_runtime.first_rank, other_rank = weft_runtime.first_rank_of[p->peer];
    bool rank_here = weft_hosts(p->rank), rank_reads = !l->plan->into_tensor;
    int at_box = rank_here ? other_rank : own_rank;
    weft_task_message message = {
        .peer = p->peer,
        .tag = p->tag,
        .source_rank = rank_reads ? p->rank : at_box,
        .target_rank = rank_reads ? at_box : p->rank,
        .region = weft_region_of_box(l->plan->set.ndim, p->part.extent, place->stride, l->element_size, place->offset),
    };
    l->failed = !weft_transfer_add(&l->exchange->list, &message) || l->failed;
}

/* Sends of one panel or region that follow each other become one record. */
static void add_sends(lowering *l)
{
    const box_piece *all = l->pieces.items;
    weft_slot last = { -2, 0, 0 };
    for (size_t i = 0; i < l->pieces.count; i++) {
        if (!all[i].sent) {
            continue;
        }
        piece_place place = read_place(l, &all[i]);
        if (!weft_slot_equal(place.slot, last)) {
            weft_transfer_begin(&l->exchange->list, WEFT_RECORD_SEND, place.slot, WEFT_SLOT_READ);
            last = place.slot;
        }
        add_message(l, &all[i], &place);
    }
}

static double position_of(const lowering *l, const box_piece *p)
{
    return l->plan->set.ndim == 0 ? 0 : weft_row_position(l->plan->layout, p->rank, p->part.offset[0]);
}

/* Copies into one panel or region. */
static void add_copies(lowering *l, const box_piece *pieces, size_t count, bool whole)
{
    weft_copies copies = { .list = &l->exchange->list,
                           .dtype = l->plan->layout->dtype,
                           .element_size = l->element_size,
                           .target = written_place(l, pieces).slot,
                           .access = whole ? WEFT_SLOT_WRITE : WEFT_SLOT_READ_WRITE };
    for (size_t i = 0; i < count && !l->failed; i++) {
        const box_piece *p = &pieces[i];
        if (p->peer < 0) {
            piece_place to = written_place(l, p), from = read_place(l, p);
            weft_strided_box box = weft_strided_box_of(l->plan->set.ndim, p->part.extent, from.stride, to.stride);
            l->failed = !weft_copies_add(&copies, to.offset, from.slot, from.offset, &box);
            copies.position = position_of(l, p);
        }
    }
    l->failed = l->failed || !weft_copies_end(&copies);
}

/* All records of one panel or region. A panel is filled whole; beside boxes' elements there may be others in a region. */
static void add_written(lowering *l, const box_piece *pieces, size_t count)
{
    bool whole = l->plan->into_tensor, begun = false;
    for (size_t i = 0; i < count; i++) {
        if (pieces[i].peer < 0) {
            continue;
        }
        piece_place place = written_place(l, &pieces[i]);
        if (!begun) {
            weft_transfer_begin(&l->exchange->list, WEFT_RECORD_RECEIVE, place.slot,
                                whole ? WEFT_SLOT_WRITE : WEFT_SLOT_READ_WRITE);
            begun = true;
            whole = false;
        }
        add_message(l, &pieces[i], &place);
    }
    add_copies(l, pieces, count, whole);
}

static bool same_written(const lowering *l, const box_piece *a, const box_piece *b)
{
    return l->plan->into_tensor ? a->panel == b->panel && a->rank == b->rank
                                : chunk_of(l, a)->region == chunk_of(l, b)->region;
}

/* Pieces that this process does not send, in the order in which they are written. */
static void add_targets(lowering *l)
{
    box_piece *all = l->pieces.items;
    size_t kept = 0;
    for (size_t i = 0; i < l->pieces.count; i++) {
        if (!all[i].sent) {
            all[kept++] = all[i];
        }
    }
    for (size_t begin = 0, end; begin < kept; begin = end) {
        end = begin + 1;
        while (end < kept && same_written(l, &all[begin], &all[end])) {
            end++;
        }
        add_written(l, &all[begin], end - begin);
    }
}

static weft_received count_received(const lowering *l)
{
    weft_received received = { 0 };
    const box_piece *all = l->pieces.items;
    for (size_t i = 0; i < l->pieces.count; i++) {
        if (all[i].peer >= 0 && !all[i].sent) {
            received.transfers++;
            received.messages++;
            received.bytes += (uint64_t)weft_box_count(l->plan->set.ndim, &all[i].part) * l->element_size;
        }
    }
    return received;
}

bool weft_box_plan_lower(const weft_box_plan *plan, weft_exchange *exchange)
{
    lowering l = { .plan = plan, .exchange = exchange, .element_size = weft_dtype_size(plan->layout->dtype) };
    weft_vec transfers = { 0 };
    l.failed = !weft_box_transfers(&plan->set, plan->layout, &weft_runtime.topology, plan->into_tensor,
                                   weft_runtime.process, &transfers);
    const weft_box_transfer *all = transfers.items;
    for (size_t i = 0; i < transfers.count && !l.failed; i++) {
        cut_transfer(&l, &all[i]);
    }
    if (!l.failed && l.pieces.count > 0) {
        qsort(l.pieces.items, l.pieces.count, sizeof(box_piece), plan->into_tensor ? by_panel : by_chunk);
        number_messages(&l);
        exchange->received = count_received(&l);
        add_sends(&l);
        add_targets(&l);
    }
    weft_vec_free(&transfers);
    weft_vec_free(&l.pieces);
    return weft_task_list_finish(&exchange->list) && !l.failed;
}
