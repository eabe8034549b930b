/* Builds the task list of a stage for this process: the transfers and tasks of its pieces
 * (exchange_pieces.h).
 *
 * Receives are in the order of the pieces. So a record never waits for a message that comes later, neither
 * for a reused staging buffer nor for a forwarded panel: comm/start_queue.h relies on it.
 *
 * A forwarded piece is read from the target tensor, into which its source rank has received it. Forwarding
 * goes from lower to higher mesh index of the target (plan/broadcast_tree.h), and so do the records that
 * fill panels: a panel is written before it is read, and StarPU keeps that order. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/last_cache.h"
#include "tasks/copies.h"
#include "tensor/exchange_pieces.h"
#include "tensor/staging.h"

enum { SOURCE = WEFT_EXCHANGE_SOURCE, TARGET = WEFT_EXCHANGE_TARGET, MAX_SOURCES = WEFT_MAX_OPERANDS - 1 };

/* the list under construction */
typedef struct lowering {
    const weft_stage *stage;
    weft_task_list *list;
    weft_staging staging;
    bool streams; /* copies use non-temporal stores */
} lowering;

/* ---- where a piece lies in a panel --------------------------------------------------------------------- */

/* The piece's box in the target's indices. */
static weft_box box_in_target(const weft_stage *stage, const piece *p)
{
    weft_box box = p->box;
    int64_t shift[WEFT_MAX_DIMS];
    weft_stage_shift(stage, p->target_rank, shift);
    for (int d = 0; d < stage->to->ndim; d++) {
        box.offset[d] += shift[d];
    }
    return box;
}

static weft_task_message message_of(const weft_layout *layout, int rank, int64_t panel, const weft_box *box,
                                    const piece *p)
{
    int64_t stride[WEFT_MAX_DIMS];
    int64_t offset = weft_panel_offset(layout, rank, panel, box, stride);
    return (weft_task_message){
        .peer = p->peer,
        .tag = p->tag,
        .source_rank = p->source_rank,
        .target_rank = p->target_rank,
        .region =
            weft_region_of_box(layout->ndim, p->box.extent, stride, weft_dtype_size(layout->dtype), offset),
    };
}


static weft_slot source_slot(const piece *p)
{
    return panel_slot(p->forwarded ? TARGET : SOURCE, p->source_rank, p->source_panel);
}

static weft_slot target_slot(const piece *p)
{
    return panel_slot(TARGET, p->target_rank, p->target_panel);
}

static weft_slot_access write_access(bool whole)
{
    return whole ? WEFT_SLOT_WRITE : WEFT_SLOT_READ_WRITE;
}

static double target_position(const weft_stage *stage, const piece *p)
{
    return panel_position(stage->to, p->target_rank, p->target_panel);
}

/* ---- transfers ----------------------------------------------------------------------------------------- */

/* One send for each source panel, with a message for each of its pieces; `forwarded` selects forwarded
 * pieces or the others. */
static bool add_sends(const lowering *l, const weft_vec *pieces, bool forwarded)
{
    const piece *all = pieces->items;
    for (size_t begin = 0, end; begin < pieces->count; begin = end) {
        const piece *p = &all[begin];
        end = begin + 1;
        while (end < pieces->count && all[end].forwarded == p->forwarded &&
               all[end].source_rank == p->source_rank && all[end].source_panel == p->source_panel) {
            end++;
        }
        if (p->forwarded != forwarded) {
            continue;
        }
        weft_transfer_begin(l->list, WEFT_RECORD_SEND, source_slot(p), WEFT_SLOT_READ);
        for (size_t i = begin; i < end; i++) {
            weft_task_message message =
                message_of(source_layout(l->stage, p), p->source_rank, p->source_panel, &all[i].box, &all[i]);
            if (!weft_transfer_add(l->list, &message)) {
                return false;
            }
        }
    }
    return true;
}

/* The pieces of one target panel that come from other processes: received in place, in one transfer. */
static bool add_receive(const lowering *l, const piece *pieces, size_t count, bool *whole)
{
    bool begun = false;
    for (size_t i = 0; i < count; i++) {
        if (pieces[i].peer < 0) {
            continue;
        }
        if (!begun) {
            weft_transfer_begin(l->list, WEFT_RECORD_RECEIVE, target_slot(pieces), write_access(*whole));
            begun = true;
            *whole = false;
        }
        weft_box box = box_in_target(l->stage, &pieces[i]);
        weft_task_message message =
            message_of(l->stage->to, pieces->target_rank, pieces->target_panel, &box, &pieces[i]);
        if (!weft_transfer_add(l->list, &message)) {
            return false;
        }
    }
    return true;
}

/* An addend of another process: received into a staging buffer, contiguous. */
static weft_slot add_staged(lowering *l, const piece *p)
{
    weft_slot slot = weft_staging_obtain(&l->staging, l->list, p->bytes);
    weft_task_message message = { .peer = p->peer,
                                  .tag = p->tag,
                                  .source_rank = p->source_rank,
                                  .target_rank = p->target_rank,
                                  .region = { .run_bytes = p->bytes } };
    weft_transfer_begin(l->list, WEFT_RECORD_RECEIVE, slot, WEFT_SLOT_WRITE);
    weft_transfer_add(l->list, &message);
    return slot;
}

/* ---- tasks --------------------------------------------------------------------------------------------- */

static bool add_copy(const lowering *l, const piece *p, weft_copies *copies)
{
    const weft_stage *stage = l->stage;
    int64_t source_stride[WEFT_MAX_DIMS], target_stride[WEFT_MAX_DIMS];
    int64_t source_offset = weft_panel_offset(source_layout(stage, p), p->source_rank, p->source_panel, &p->box, source_stride);
    weft_box in_target = box_in_target(stage, p);
    int64_t target_offset = weft_panel_offset(stage->to, p->target_rank, p->target_panel, &in_target, target_stride);
    weft_strided_box box = weft_strided_box_of(stage->from->ndim, p->box.extent, source_stride, target_stride);
    return weft_copies_add(copies, target_offset, source_slot(p), source_offset, &box);
}

/* The pieces of one target panel whose source is hosted here. */
static bool add_copies(const lowering *l, const piece *pieces, size_t count, bool whole)
{
    weft_copies copies = { .list = l->list,
                           .dtype = l->stage->from->dtype,
                           .element_size = weft_dtype_size(l->stage->from->dtype),
                           .streams = l->streams,
                           .target = target_slot(pieces),
                           .access = write_access(whole),
                           .position = target_position(l->stage, pieces) };
    for (size_t i = 0; i < count; i++) {
        if (pieces[i].peer < 0 && !add_copy(l, &pieces[i], &copies)) {
            return false;
        }
    }
    return weft_copies_end(&copies);
}

/* Slot, offset and strides of an addend. */
typedef struct addend {
    weft_slot slot;
    int64_t offset, stride[WEFT_MAX_DIMS];
} addend;

static addend addend_of(lowering *l, const piece *p)
{
    addend a = { .offset = 0 };
    if (p->peer < 0) {
        a.slot = source_slot(p);
        a.offset = weft_panel_offset(l->stage->from, p->source_rank, p->source_panel, &p->box, a.stride);
        return a;
    }
    for (int64_t d = l->stage->from->ndim - 1, step = 1; d >= 0; step *= p->box.extent[d--]) {
        a.stride[d] = step;
    }
    a.slot = add_staged(l, p);
    return a;
}

static weft_combine combine_of(weft_reduce_op op)
{
    switch (op) {
    case WEFT_PROD:
        return WEFT_COMBINE_PROD;
    case WEFT_MIN:
        return WEFT_COMBINE_MIN;
    case WEFT_MAX:
        return WEFT_COMBINE_MAX;
    default:
        return WEFT_COMBINE_SUM;
    }
}

/* A task that reduces `count` addends of one box, after the receives of remote addends. */
static bool add_reduction(lowering *l, const piece *pieces, int count, weft_slot_access access, bool first,
                          bool last)
{
    const weft_stage *stage = l->stage;
    addend addends[MAX_SOURCES];
    for (int i = 0; i < count; i++) {
        addends[i] = addend_of(l, &pieces[i]);
    }
    weft_reduce_args *args = weft_task_begin(l->list, WEFT_KERNEL_reduce, sizeof(*args));
    if (args == NULL) {
        return false;
    }
    int64_t stride[WEFT_MAX_DIMS];
    int64_t offset = weft_panel_offset(stage->to, pieces->target_rank, pieces->target_panel, &pieces->box, stride);
    args->base.dtype = stage->from->dtype;
    args->combine = combine_of(stage->op);
    args->accumulate = !first;
    args->scale = last ? stage->scale : 1.0;
    weft_task_add(l->list, target_slot(pieces), offset, access);
    for (int i = 0; i < count; i++) {
        args->boxes[i] = weft_strided_box_of(stage->from->ndim, pieces[i].box.extent, addends[i].stride, stride);
        weft_task_add(l->list, addends[i].slot, addends[i].offset, WEFT_SLOT_READ);
        weft_staging_was_read(&l->staging, addends[i].slot);
    }
    weft_task_trim(l->list, offsetof(weft_reduce_args, boxes) + (size_t)count * sizeof(args->boxes[0]));
    return weft_task_end(l->list, target_position(stage, pieces));
}

/* Reduces the addends of one box in their order, MAX_SOURCES per task, each task continuing from the last. */
static bool add_reductions(lowering *l, const piece *addends, size_t count, bool whole)
{
    for (size_t begin = 0; begin < count; begin += MAX_SOURCES) {
        size_t end = begin + MAX_SOURCES < count ? begin + MAX_SOURCES : count;
        if (!add_reduction(l, &addends[begin], (int)(end - begin), write_access(whole && begin == 0),
                           begin == 0, end == count)) {
            return false;
        }
    }
    return true;
}

/* ---- panels -------------------------------------------------------------------------------------------- */

/* Whether the map has several stages for one target. */
static bool has_images(const weft_access_map *map)
{
    bool has = false;
    for (int d = 0; d < map->cut->ndim; d++) {
        has = has || (map->has[d] && map->of[d].periodic);
    }
    return has;
}

/* Whether a panel's former contents are not needed: placed access maps may leave part of it unchanged, and other images have
 * others. */
static bool fills_panel(const weft_stage *stage, const piece *pieces, size_t count)
{
    if (stage->access_map == NULL || (!stage->access_map->placed && !has_images(stage->access_map))) {
        return true;
    }
    weft_box box;
    weft_layout_shard_box(stage->to, pieces->target_rank, &box);
    if (stage->to->ndim > 0) {
        int64_t first, last;
        weft_panel_range(stage->to, &box, pieces->target_panel, &first, &last);
        box.extent[0] = last - first;
    }
    int64_t left = weft_box_count(stage->to->ndim, &box);
    for (size_t i = 0; i < count; i++) {
        left -= weft_box_count(stage->to->ndim, &pieces[i].box);
    }
    return left == 0;
}

/* All records of one target panel. */
static bool add_panel(lowering *l, const piece *pieces, size_t count)
{
    bool whole = fills_panel(l->stage, pieces, count);
    if (!l->stage->reduces) {
        return add_receive(l, pieces, count, &whole) && add_copies(l, pieces, count, whole);
    }
    for (size_t begin = 0, end; begin < count; begin = end) {
        end = begin + 1;
        while (end < count && weft_box_equal(l->stage->from->ndim, &pieces[end].box, &pieces[begin].box)) {
            end++;
        }
        if (!add_reductions(l, &pieces[begin], end - begin, whole)) {
            return false;
        }
        whole = false;
    }
    return true;
}

static bool add_targets(lowering *l, const weft_vec *pieces)
{
    const piece *all = pieces->items;
    for (size_t begin = 0, end; begin < pieces->count; begin = end) {
        end = begin + 1;
        while (end < pieces->count && all[end].target_rank == all[begin].target_rank &&
               all[end].target_panel == all[begin].target_panel) {
            end++;
        }
        if (!add_panel(l, &all[begin], end - begin)) {
            return false;
        }
    }
    return true;
}

static weft_received count_received(const weft_vec *pieces)
{
    weft_received received = { 0 };
    const piece *all = pieces->items;
    for (size_t i = 0; i < pieces->count; i++) {
        if (all[i].source_rank != all[i].target_rank) {
            received.transfers++;
            received.bytes += (uint64_t)all[i].bytes;
            received.messages += all[i].peer >= 0;
        }
    }
    return received;
}

/* ---- all of it ----------------------------------------------------------------------------------------- */

bool weft_exchange_lower(weft_exchange *exchange, weft_task_list *list)
{
    lowering l = { .stage = &exchange->stage, .list = list, .streams = weft_outgrows_cache(exchange->stage.to) };
    l.staging.grows = exchange->grouped;
    weft_vec sends = { 0 }, receives = { 0 };
    bool done = true;
    for (int i = 0; i < weft_runtime.local_ranks && done; i++) {
        int rank = weft_runtime.first_rank + i;
        done = weft_collect_sends(&sends, &exchange->stage, rank) &&
               weft_collect_receives(&receives, &exchange->stage, rank);
    }
    if (done) {
        weft_number_messages(&sends, exchange->sends);
        weft_number_messages(&receives, exchange->receives);
        exchange->received = count_received(&receives);
        weft_sort_by_source(&sends);
        weft_sort_by_target(&receives);
        done = weft_stage_renumbers(l.stage) ? weft_exchange_lower_renumbered(l.stage, list, &l.staging, &sends, &receives)
                                             : add_sends(&l, &sends, false) && add_targets(&l, &receives) && add_sends(&l, &sends, true);
    }
    weft_vec_free(&sends);
    weft_vec_free(&receives);
    weft_staging_free(&l.staging);
    return weft_task_list_finish(list) && done;
}
