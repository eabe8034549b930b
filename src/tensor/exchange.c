/* Builds this process's part of a stage: the steps that its pieces (exchange_pieces.h) become.
 *
 * The steps that receive are submitted in the order of the pieces. So what a step waits for, a landing that is
 * used again or a panel that is relayed, never waits for a message that comes later: sends.h builds on it.
 *
 * A piece that is relayed is read from the target tensor, where its source rank has received it. Relays go
 * up in the order of the target's mesh (plan/relay.h), and so do the steps that fill panels: a panel is
 * written by steps before those that read it, and StarPU keeps that order. */
#include <stdlib.h>
#include <string.h>

#include "tensor/exchange_pieces.h"

/* ---- where a piece lies in a panel --------------------------------------------------------------------- */

/* Strides (elements) of a shard, and the bytes from the first row of panel `panel` to the box's first
 * element. */
static int64_t box_in_panel(const weft_layout *layout, int rank, int64_t panel, const weft_box *box,
                            int64_t stride[])
{
    weft_box shard;
    weft_layout_shard_box(layout, rank, &shard);
    int64_t first, last;
    weft_panel_range(layout, &shard, panel, &first, &last);
    int64_t step = 1, elements = 0;
    for (int d = layout->ndim - 1; d >= 0; d--) {
        stride[d] = step;
        elements += (box->offset[d] - (d == 0 ? first : shard.offset[d])) * step;
        step *= shard.extent[d];
    }
    return elements * (int64_t)weft_dtype_size(layout->dtype);
}

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

static weft_message message_of(const weft_layout *layout, int rank, int64_t panel, const weft_box *box,
                               const piece *p)
{
    int64_t stride[WEFT_MAX_DIMS];
    int64_t offset = box_in_panel(layout, rank, panel, box, stride);
    return (weft_message){
        .peer = p->peer,
        .tag = p->tag,
        .region =
            weft_region_of_box(layout->ndim, p->box.extent, stride, weft_dtype_size(layout->dtype), offset),
        .bytes = p->bytes,
        .source_rank = p->source_rank,
        .target_rank = p->target_rank,
    };
}

/* ---- steps --------------------------------------------------------------------------------------------- */

/* Of a panel of a hosted shard. */
static double panel_position(const weft_layout *layout, place panel)
{
    int rank = weft_runtime.first_rank + panel.shard;
    weft_box shard;
    weft_layout_shard_box(layout, rank, &shard);
    int64_t first, last;
    weft_panel_range(layout, &shard, panel.panel, &first, &last);
    return weft_row_position(layout, rank, first);
}

static exchange_step *add_step(weft_exchange *exchange, step_kind kind, place target, bool whole)
{
    exchange_step *s = weft_vec_push(&exchange->steps, sizeof(*s));
    if (s != NULL) {
        *s = (exchange_step){ .kind = kind, .target = target, .whole = whole };
        s->position = kind == COPY || kind == REDUCE ? panel_position(exchange->stage.to, target) : 0;
    }
    return s;
}

static exchange_step *add_transfer(weft_exchange *exchange, step_kind kind, place target, bool whole,
                                   size_t count)
{
    exchange_step *s = add_step(exchange, kind, target, whole);
    if (s == NULL) {
        return NULL;
    }
    s->messages = malloc(count * sizeof(*s->messages));
    if ((int)count > exchange->max_messages) {
        exchange->max_messages = (int)count;
    }
    return s->messages == NULL ? NULL : s;
}

static int shard_of(int rank)
{
    return rank - weft_runtime.first_rank;
}

/* One SEND per source panel, with a message for each piece that leaves it: what is relayed, or what is
 * not. */
static bool add_sends(weft_exchange *exchange, const weft_vec *pieces, bool relayed)
{
    const piece *all = pieces->items;
    for (size_t begin = 0, end; begin < pieces->count; begin = end) {
        const piece *p = &all[begin];
        end = begin + 1;
        while (end < pieces->count && all[end].relayed == p->relayed &&
               all[end].source_rank == p->source_rank && all[end].source_panel == p->source_panel) {
            end++;
        }
        if (p->relayed != relayed) {
            continue;
        }
        place source = { shard_of(p->source_rank), p->source_panel, relayed };
        exchange_step *s = add_transfer(exchange, SEND, source, false, end - begin);
        if (s == NULL) {
            return false;
        }
        for (size_t i = begin; i < end; i++) {
            s->messages[s->count++] = message_of(source_layout(&exchange->stage, p), p->source_rank,
                                                 p->source_panel, &all[i].box, &all[i]);
        }
    }
    return true;
}

/* The pieces of one target panel that come from other processes: received in place, all in one transfer. */
static bool add_receive(weft_exchange *exchange, const piece *pieces, size_t count, bool *whole)
{
    size_t remote = 0;
    for (size_t i = 0; i < count; i++) {
        remote += pieces[i].peer >= 0;
    }
    if (remote == 0) {
        return true;
    }
    place target = { shard_of(pieces->target_rank), pieces->target_panel, true };
    exchange_step *s = add_transfer(exchange, RECEIVE, target, *whole, remote);
    if (s == NULL) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (pieces[i].peer >= 0) {
            weft_box box = box_in_target(&exchange->stage, &pieces[i]);
            s->messages[s->count++] =
                message_of(exchange->stage.to, pieces->target_rank, pieces->target_panel, &box, &pieces[i]);
        }
    }
    *whole = false;
    return true;
}

static weft_strided_box strided_box(const weft_layout *layout, const piece *p, const int64_t source_stride[],
                                    const int64_t target_stride[])
{
    weft_strided_box box = { .ndim = layout->ndim };
    size_t size = (size_t)layout->ndim * sizeof(int64_t);
    memcpy(box.extent, p->box.extent, size);
    memcpy(box.source_stride, source_stride, size);
    memcpy(box.target_stride, target_stride, size);
    return box;
}

/* The pieces of one target panel that are hosted here: tasks of up to MAX_SOURCES copies. */
static bool add_copies(weft_exchange *exchange, const piece *pieces, size_t count, bool whole)
{
    const weft_stage *stage = &exchange->stage;
    exchange_step *s = NULL;
    for (size_t i = 0; i < count; i++) {
        const piece *p = &pieces[i];
        if (p->peer >= 0) {
            continue;
        }
        if (s == NULL || s->count == MAX_SOURCES) {
            s = add_step(exchange, COPY, (place){ shard_of(p->target_rank), p->target_panel, true }, whole);
            if (s == NULL || (s->args = calloc(1, sizeof(*s->args))) == NULL) {
                return false;
            }
            s->args->copy.element_size = weft_dtype_size(stage->from->dtype);
            whole = false;
        }
        int64_t source_stride[WEFT_MAX_DIMS], target_stride[WEFT_MAX_DIMS];
        /* The source's place in its panel is the operand's offset, which run_copy() takes from here. */
        int64_t source_offset =
            box_in_panel(source_layout(stage, p), p->source_rank, p->source_panel, &p->box, source_stride);
        s->offsets[s->count + 1] = source_offset;
        weft_box in_target = box_in_target(stage, p);
        s->args->copy.target_offset[s->count] =
            box_in_panel(stage->to, p->target_rank, p->target_panel, &in_target, target_stride);
        s->args->copy.boxes[s->count] = strided_box(stage->from, p, source_stride, target_stride);
        s->sources[s->count++] = (place){ shard_of(p->source_rank), p->source_panel, p->relayed };
    }
    return true;
}

static int64_t add_new_landing(weft_exchange *exchange, landing_ring *ring, int64_t bytes)
{
    int64_t *number = weft_vec_push(&ring->numbers, sizeof(*number));
    landing *added = number == NULL ? NULL : weft_vec_push(&exchange->landings, sizeof(*added));
    if (added == NULL) {
        return -1;
    }
    *added = (landing){ .bytes = bytes };
    *number = (int64_t)exchange->landings.count - 1;
    exchange->landing_bytes += bytes;
    return *number;
}

/* The number of a landing for so many bytes: a new one, or, where there are enough, the one of that size that
 * was read first. Sizes are powers of two, so that the last piece of a panel finds one too. -1: no memory. */
static int64_t obtain_landing(weft_exchange *exchange, int64_t bytes)
{
    int size = 0;
    while ((int64_t)1 << size < bytes) {
        size++;
    }
    landing_ring *ring = &exchange->rings[size];
    bool enough = exchange->landing_bytes + bytes > weft_runtime.messages.landing_bytes;
    if (enough && ring->numbers.count > 0) {
        int64_t oldest = ((int64_t *)ring->numbers.items)[ring->oldest];
        landing *found = (landing *)exchange->landings.items + oldest;
        if (found->read) {
            found->read = false;
            ring->oldest = (ring->oldest + 1) % ring->numbers.count;
            return oldest;
        }
    }
    return add_new_landing(exchange, ring, (int64_t)1 << size);
}

/* An addend that another process has: received into a buffer of its own, contiguous. */
static bool add_landing(weft_exchange *exchange, const piece *p, place *where)
{
    int64_t number = obtain_landing(exchange, p->bytes);
    *where = (place){ -1, number, false };
    exchange_step *s = number < 0 ? NULL : add_transfer(exchange, LAND, *where, true, 1);
    if (s == NULL) {
        return false;
    }
    s->count = 1;
    s->messages[0] = (weft_message){
        .peer = p->peer,
        .tag = p->tag,
        .region = { .run_bytes = p->bytes },
        .bytes = p->bytes,
        .source_rank = p->source_rank,
        .target_rank = p->target_rank,
    };
    return true;
}

/* Where the addend is and how it lies there. */
static bool addend_source(weft_exchange *exchange, const piece *p, place *source, int64_t *offset,
                          int64_t stride[])
{
    if (p->peer < 0) {
        *source = (place){ shard_of(p->source_rank), p->source_panel, false };
        *offset = box_in_panel(exchange->stage.from, p->source_rank, p->source_panel, &p->box, stride);
        return true;
    }
    *offset = 0;
    int64_t step = 1;
    for (int d = exchange->stage.from->ndim - 1; d >= 0; d--) {
        stride[d] = step;
        step *= p->box.extent[d];
    }
    return add_landing(exchange, p, source);
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

/* Reduces the addends of one box, in their order: tasks of up to MAX_SOURCES addends, each going on from the
 * last. */
static bool add_reduction(weft_exchange *exchange, const piece *addends, size_t count, bool whole)
{
    const weft_stage *stage = &exchange->stage;
    int64_t target_stride[WEFT_MAX_DIMS];
    int64_t target_offset =
        box_in_panel(stage->to, addends->target_rank, addends->target_panel, &addends->box, target_stride);
    for (size_t begin = 0; begin < count; begin += MAX_SOURCES) {
        size_t end = begin + MAX_SOURCES < count ? begin + MAX_SOURCES : count;
        place sources[MAX_SOURCES];
        int64_t offsets[MAX_SOURCES], strides[MAX_SOURCES][WEFT_MAX_DIMS];
        for (size_t i = begin; i < end; i++) {
            /* Landings come before the task that reads them. */
            size_t k = i - begin;
            if (!addend_source(exchange, &addends[i], &sources[k], &offsets[k], strides[k])) {
                return false;
            }
        }
        place target = { shard_of(addends->target_rank), addends->target_panel, true };
        exchange_step *s = add_step(exchange, REDUCE, target, whole && begin == 0);
        if (s == NULL || (s->args = calloc(1, sizeof(*s->args))) == NULL) {
            return false;
        }
        s->count = (int)(end - begin);
        s->args->base.dtype = stage->from->dtype;
        s->args->reduce.combine = combine_of(stage->op);
        s->args->reduce.accumulate = begin > 0;
        s->args->reduce.scale = end == count ? stage->scale : 1.0;
        s->offsets[0] = target_offset;
        for (int k = 0; k < s->count; k++) {
            s->sources[k] = sources[k];
            if (sources[k].shard < 0) {
                landing *all = exchange->landings.items;
                all[sources[k].panel].read = true;
            }
            s->offsets[k + 1] = offsets[k];
            s->args->reduce.boxes[k] =
                strided_box(stage->from, &addends[begin + (size_t)k], strides[k], target_stride);
        }
    }
    return true;
}

/* Whether nothing of a panel's former contents is needed: windows that are placed may leave some of it. */
static bool fill_panel(const weft_stage *stage, const piece *pieces, size_t count)
{
    if (stage->access_map == NULL || !stage->access_map->placed) {
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

/* All that one target panel gets. */
static bool add_panel(weft_exchange *exchange, const piece *pieces, size_t count)
{
    bool whole = fill_panel(&exchange->stage, pieces, count);
    if (!exchange->stage.reduces) {
        return add_receive(exchange, pieces, count, &whole) && add_copies(exchange, pieces, count, whole);
    }
    for (size_t begin = 0, end; begin < count; begin = end) {
        end = begin + 1;
        while (end < count &&
               weft_box_equal(exchange->stage.from->ndim, &pieces[end].box, &pieces[begin].box)) {
            end++;
        }
        if (!add_reduction(exchange, &pieces[begin], end - begin, whole)) {
            return false;
        }
        whole = false;
    }
    return true;
}

static bool add_targets(weft_exchange *exchange, weft_vec *pieces)
{
    weft_sort_by_target(pieces);
    const piece *all = pieces->items;
    for (size_t begin = 0, end; begin < pieces->count; begin = end) {
        end = begin + 1;
        while (end < pieces->count && all[end].target_rank == all[begin].target_rank &&
               all[end].target_panel == all[begin].target_panel) {
            end++;
        }
        if (!add_panel(exchange, &all[begin], end - begin)) {
            return false;
        }
    }
    return true;
}

static void count_received(weft_exchange *exchange, const weft_vec *pieces)
{
    const piece *all = pieces->items;
    for (size_t i = 0; i < pieces->count; i++) {
        if (all[i].source_rank != all[i].target_rank) {
            exchange->transfers++;
            exchange->bytes += (uint64_t)all[i].bytes;
            exchange->messages += all[i].peer >= 0;
        }
    }
}

/* ---- building ------------------------------------------------------------------------------------------ */

static bool build(weft_exchange *exchange)
{
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
        count_received(exchange, &receives);
        weft_sort_by_source(&sends);
        done = add_sends(exchange, &sends, false) && add_targets(exchange, &receives) &&
               add_sends(exchange, &sends, true);
    }
    weft_vec_free(&sends);
    weft_vec_free(&receives);
    return done;
}

/* Whether the shards that are written here are more than the last cache holds: then what was written first is
 * not there any more when it is read. */
static bool outgrows_cache(const weft_layout *layout)
{
    double bytes = 0;
    for (int i = 0; i < weft_runtime.local_ranks; i++) {
        bytes += (double)weft_layout_shard_count(layout, weft_runtime.first_rank + i) *
                 (double)weft_dtype_size(layout->dtype);
    }
    return weft_runtime.cache_bytes > 0 && bytes > (double)weft_runtime.cache_bytes;
}

static uint64_t digest_of(const weft_stage *stage)
{
    uint64_t digest = stage->from->mesh->digest;
    digest = weft_digest_add(digest, stage->to->mesh->digest);
    digest = weft_digest_add(digest, stage->from->digest);
    digest = weft_digest_add(digest, stage->to->digest);
    digest = weft_digest_add(digest, (uint64_t)stage->from->panel_rows);
    return weft_digest_add(digest, (uint64_t)stage->to->panel_rows);
}

weft_exchange *weft_exchange_new(const char *function, const weft_stage *stage)
{
    weft_exchange *exchange = calloc(1, sizeof(*exchange));
    if (exchange != NULL) {
        exchange->stage = *stage;
        exchange->digest = digest_of(stage);
        exchange->streams = outgrows_cache(stage->to);
        exchange->sends = calloc((size_t)weft_runtime.num_processes, sizeof(tag_range));
        exchange->receives = calloc((size_t)weft_runtime.num_processes, sizeof(tag_range));
    }
    if (exchange == NULL || exchange->sends == NULL || exchange->receives == NULL || !build(exchange)) {
        weft_exchange_free(exchange);
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for a redistribution");
        return NULL;
    }
    return exchange;
}

size_t weft_exchange_bytes(const weft_exchange *exchange)
{
    const exchange_step *steps = exchange->steps.items;
    size_t bytes = sizeof(*exchange) + exchange->steps.capacity * sizeof(*steps) +
                   exchange->landings.capacity * sizeof(landing) +
                   2 * (size_t)weft_runtime.num_processes * sizeof(tag_range);
    for (size_t i = 0; i < exchange->steps.count; i++) {
        bytes += steps[i].args != NULL ? sizeof(*steps[i].args) : 0;
        bytes += steps[i].messages != NULL ? (size_t)steps[i].count * sizeof(weft_message) : 0;
    }
    return bytes;
}

void weft_exchange_free(weft_exchange *exchange)
{
    if (exchange == NULL) {
        return;
    }
    exchange_step *steps = exchange->steps.items;
    for (size_t i = 0; i < exchange->steps.count; i++) {
        free(steps[i].messages);
        free(steps[i].args);
    }
    weft_vec_free(&exchange->steps);
    weft_vec_free(&exchange->landings);
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(exchange->rings); i++) {
        weft_vec_free(&exchange->rings[i].numbers);
    }
    free(exchange->sends);
    free(exchange->receives);
    free(exchange);
}
