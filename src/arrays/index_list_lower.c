/* The task lists of index lists: their messages, and gathering.
 *
 * Both sides of a message cut a pair's rows alike: at the largest message, and at panels where a side is plain. They count messages in
 * the order of the target's ranks, panels (rows through a buffer first), and the source's parts, in which the target submits its
 * receives (comm/start_queue.h). */
#include <stdlib.h>

#include "arrays/index_list.h"
#include "codelets/kernel.h"
#include "codelets/lookup.h"

enum { SOURCE = WEFT_EXCHANGE_SOURCE, TARGET = WEFT_EXCHANGE_TARGET, INDICES = WEFT_EXCHANGE_INDICES };

/* ---- pieces -------------------------------------------------------------------------------------------------------- */

static int64_t first_row_of(const weft_layout *layout, int rank)
{
    weft_box box;
    weft_layout_shard_box(layout, rank, &box);
    return box.offset[0];
}

weft_pair_ends weft_pair_ends_of(const weft_list_lowering *l, const weft_row_pair *pair)
{
    bool plain = pair->first_place >= 0;
    const weft_layout *named = l->adds ? l->from : l->to;
    int64_t at_holder = weft_pair_has_plain_holder(pair) ? pair->rows[0] : -1;
    int64_t at_namer = plain ? first_row_of(named, pair->namer) + pair->first_place : -1;
    if (l->adds) {
        return (weft_pair_ends){ pair->namer, pair->holder, at_namer, -1, plain ? l->from->dtype : l->wide };
    }
    return (weft_pair_ends){ pair->holder, pair->namer, at_holder, at_namer, l->from->dtype };
}

/* The panel with this row of a rank's shard; *last: the end of its rows, not after *last. */
static int64_t panel_at(const weft_layout *layout, int rank, int64_t row, int64_t *last)
{
    weft_box box;
    int64_t begin, end;
    weft_layout_shard_box(layout, rank, &box);
    int64_t panel = weft_panel_of_row(layout, &box, row);
    weft_panel_range(layout, &box, panel, &begin, &end);
    *last = weft_min_i64(*last, end);
    return panel;
}

static int peer_of(const weft_pair_ends *ends)
{
    int other = weft_hosts(ends->source) ? ends->target : ends->source;
    return weft_process_of(other);
}

static bool cut(weft_list_lowering *l, const weft_row_pair *pair)
{
    weft_pair_ends ends = weft_pair_ends_of(l, pair);
    int64_t width = weft_row_width(l->from, ends.source), row_bytes = width * (int64_t)weft_dtype_size(ends.dtype);
    if (width == 0 || (weft_hosts(ends.source) && weft_hosts(ends.target))) {
        l->exchange->received.transfers += width > 0 && ends.source != ends.target;
        l->exchange->received.bytes += ends.source != ends.target ? (uint64_t)(pair->count * row_bytes) : 0;
        return true;
    }
    weft_vec *pieces = weft_hosts(ends.source) ? &l->sends : &l->receives;
    int64_t most = weft_max_i64(1, weft_runtime.messages.max_bytes / row_bytes);
    for (int64_t first = 0, last; first < pair->count; first = last) {
        weft_row_piece *piece = weft_vec_push(pieces, sizeof(*piece));
        if (piece == NULL) {
            return false;
        }
        *piece = (weft_row_piece){ .pair = pair,
                                   .first = first,
                                   .source_rank = ends.source,
                                   .target_rank = ends.target,
                                   .source_part = l->adds ? pair->namer_part : pair->holder_part,
                                   .source = -1,
                                   .target = -1,
                                   .row_bytes = row_bytes,
                                   .peer = peer_of(&ends) };
        last = weft_min_i64(first + most, pair->count);
        if (ends.source_first >= 0) {
            int64_t end = ends.source_first + last;
            piece->source = panel_at(l->from, ends.source, ends.source_first + first, &end);
            last = end - ends.source_first;
        }
        if (ends.target_first >= 0) {
            int64_t end = ends.target_first + last;
            piece->target = panel_at(l->to, ends.target, ends.target_first + first, &end);
            last = end - ends.target_first;
        }
        piece->last = last;
    }
    return true;
}

static int by_number(const void *a, const void *b)
{
    const weft_row_piece *p = a, *q = b;
    int order = weft_compare_i64(p->target_rank, q->target_rank);
    order = order != 0 ? order : weft_compare_i64(p->target, q->target);
    order = order != 0 ? order : weft_compare_i64(p->source_part, q->source_part);
    return order != 0 ? order : weft_compare_i64(p->first, q->first);
}

static int by_pair(const void *a, const void *b)
{
    const weft_row_piece *p = a, *q = b;
    return p->pair != q->pair ? (p->pair < q->pair ? -1 : 1) : weft_compare_i64(p->first, q->first);
}

static void number(weft_vec *pieces, weft_tag_range *ranges)
{
    weft_row_piece *all = pieces->items;
    if (pieces->count > 0) {
        qsort(all, pieces->count, sizeof(*all), by_number);
    }
    for (size_t i = 0; i < pieces->count; i++) {
        all[i].tag = ranges[all[i].peer].count++;
    }
}

bool weft_list_collect(weft_list_lowering *l)
{
    const weft_row_pair *pairs = l->list->pairs.items;
    for (size_t i = 0; i < l->list->pairs.count; i++) {
        if (!cut(l, &pairs[i])) {
            return false;
        }
    }
    number(&l->sends, l->exchange->sends);
    number(&l->receives, l->exchange->receives);
    const weft_row_piece *all = l->receives.items;
    for (size_t i = 0; i < l->receives.count; i++) {
        l->exchange->received.bytes += (uint64_t)((all[i].last - all[i].first) * all[i].row_bytes);
    }
    l->exchange->received.transfers += l->receives.count;
    l->exchange->received.messages += l->receives.count;
    if (l->sends.count > 0) {
        qsort(l->sends.items, l->sends.count, sizeof(weft_row_piece), by_pair);
    }
    return true;
}

void weft_list_add_message(weft_list_lowering *l, const weft_row_piece *piece, int64_t origin)
{
    weft_task_message message = { .peer = piece->peer,
                                  .tag = piece->tag,
                                  .source_rank = piece->source_rank,
                                  .target_rank = piece->target_rank,
                                  .region = { .offset = origin + piece->first * piece->row_bytes,
                                              .run_bytes = (piece->last - piece->first) * piece->row_bytes } };
    l->failed = !weft_transfer_add(&l->exchange->list, &message) || l->failed;
}

/* Byte of a panel at which a plain pair's first row would lie. */
static int64_t origin_in_panel(const weft_layout *layout, int rank, int64_t panel, int64_t first_row, int64_t row_bytes)
{
    weft_box box;
    int64_t begin, end;
    weft_layout_shard_box(layout, rank, &box);
    weft_panel_range(layout, &box, panel, &begin, &end);
    return (first_row - begin) * row_bytes;
}

void weft_list_add_sends(weft_list_lowering *l, size_t *next, weft_slot buffer, int64_t origin)
{
    const weft_row_piece *all = l->sends.items, *first = &all[*next];
    weft_pair_ends ends = weft_pair_ends_of(l, first->pair);
    for (; *next < l->sends.count && all[*next].pair == first->pair; (*next)++) {
        const weft_row_piece *piece = &all[*next];
        bool plain = piece->source >= 0;
        if (piece == first || piece->source != piece[-1].source) {
            weft_slot slot = plain ? (weft_slot){ SOURCE, ends.source - weft_runtime.first_rank, piece->source } : buffer;
            weft_transfer_begin(&l->exchange->list, WEFT_RECORD_SEND, slot, WEFT_SLOT_READ);
        }
        weft_list_add_message(l, piece,
                              plain ? origin_in_panel(l->from, ends.source, piece->source, ends.source_first, piece->row_bytes)
                                    : origin);
    }
}

bool weft_list_begin(weft_list_lowering *l, const weft_index_list_impl *list, weft_exchange *exchange, bool adds)
{
    *l = (weft_list_lowering){ .list = list, .exchange = exchange, .from = exchange->stage.from, .to = exchange->stage.to, .adds = adds };
    l->wide = l->from->dtype == WEFT_BF16 || l->from->dtype == WEFT_F16 ? WEFT_F32 : l->from->dtype;
    l->buffers = calloc((size_t)weft_runtime.local_ranks + 1, sizeof(*l->buffers));
    return l->buffers != NULL && weft_list_collect(l);
}

bool weft_list_end(weft_list_lowering *l)
{
    weft_vec_free(&l->sends);
    weft_vec_free(&l->receives);
    free(l->buffers);
    return weft_task_list_finish(&l->exchange->list) && !l->failed;
}

/* ---- look-ups ------------------------------------------------------------------------------------------------------- */

/* A task that looks rows up in a table: the rank's shard of the source, or a buffer. */
typedef struct look_up {
    weft_slot output;
    int64_t output_offset, count; /* bytes in the operand; rows */
    bool whole;                   /* nothing has been written to the output before */
    int rank;                     /* whose indices these are, from number `indices` on */
    int64_t indices;
    int64_t first_row, num_rows, total_rows, panel_rows; /* of the table's part in the operands after it */
    int64_t width;
    double position;
} look_up;

static weft_embedding_args *begin_look_up(weft_list_lowering *l, const look_up *t)
{
    weft_embedding_args *args = weft_task_begin(&l->exchange->list, WEFT_KERNEL_embedding, sizeof(*args));
    if (args == NULL) {
        l->failed = true;
        return NULL;
    }
    args->base.dtype = l->from->dtype;
    args->index_type = WEFT_I64;
    args->count = t->count;
    args->width = args->output_stride = args->table_stride = t->width;
    args->first_row = t->first_row;
    args->num_rows = t->num_rows;
    args->total_rows = t->total_rows;
    args->panel_rows = t->panel_rows;
    args->first = t->whole;
    weft_task_add(&l->exchange->list, t->output, t->output_offset, t->whole ? WEFT_SLOT_WRITE : WEFT_SLOT_READ_WRITE);
    weft_task_add(&l->exchange->list, (weft_slot){ INDICES, t->rank - weft_runtime.first_rank, 0 },
                  t->indices * (int64_t)sizeof(int64_t), WEFT_SLOT_READ);
    return args;
}

static void end_look_up(weft_list_lowering *l, const look_up *t)
{
    l->failed = !weft_task_end(&l->exchange->list, t->position) || l->failed;
}

/* Tasks that look up rows lowest .. highest of a hosted rank's shard, as many panels in each as it can have. */
static void look_up_shard(weft_list_lowering *l, look_up *t, int rank, int64_t lowest, int64_t highest)
{
    weft_box box;
    weft_layout_shard_box(l->from, rank, &box);
    int64_t end = weft_panel_of_row(l->from, &box, highest) + 1;
    t->total_rows = l->list->size;
    t->panel_rows = l->from->panel_rows;
    for (int64_t first = weft_panel_of_row(l->from, &box, lowest), last; first < end && !l->failed; first = last) {
        int64_t begin, behind, unused;
        last = weft_min_i64(end, first + WEFT_EMBEDDING_PANELS);
        weft_panel_range(l->from, &box, first, &begin, &unused);
        weft_panel_range(l->from, &box, last - 1, &unused, &behind);
        t->first_row = begin;
        t->num_rows = behind - begin;
        if (begin_look_up(l, t) == NULL) {
            return;
        }
        for (int64_t panel = first; panel < last; panel++) {
            weft_task_add(&l->exchange->list, (weft_slot){ SOURCE, rank - weft_runtime.first_rank, panel }, 0, WEFT_SLOT_READ);
        }
        end_look_up(l, t);
        t->whole = false;
    }
}

/* ---- gathering ------------------------------------------------------------------------------------------------------ */

/* Rows that are sent: from their panels, or from a buffer into which they are copied. */
static void add_sends(weft_list_lowering *l)
{
    const weft_row_piece *all = l->sends.items;
    for (size_t i = 0; i < l->sends.count && !l->failed;) {
        const weft_row_pair *pair = all[i].pair;
        weft_slot buffer = { 0 };
        if (all[i].source < 0) {
            buffer = weft_task_new_buffer(&l->exchange->list, pair->count * all[i].row_bytes);
            look_up t = { .output = buffer,
                          .count = pair->count,
                          .whole = true,
                          .rank = pair->holder,
                          .indices = pair->indices,
                          .width = weft_row_width(l->from, pair->holder),
                          .position = weft_row_position(l->from, pair->holder, pair->rows[0]) };
            look_up_shard(l, &t, pair->holder, pair->rows[0], pair->rows[pair->count - 1]);
        }
        weft_list_add_sends(l, &i, buffer, 0);
    }
}

/* The lowest and highest number in a range among some places; false: none is in it. */
static bool find_range(const int64_t places[], int64_t count, int64_t first, int64_t end, int64_t *lowest, int64_t *highest)
{
    *lowest = end;
    *highest = -1;
    for (int64_t i = 0; i < count; i++) {
        if (places[i] >= first && places[i] < end) {
            *lowest = weft_min_i64(*lowest, places[i]);
            *highest = weft_max_i64(*highest, places[i]);
        }
    }
    return *highest >= 0;
}

/* Messages of a hosted target: receives[*next] and those after it for this panel; -1: for its buffer. */
static bool add_receive(weft_list_lowering *l, size_t *next, int rank, int64_t panel, weft_slot slot)
{
    const weft_row_piece *all = l->receives.items;
    bool begun = false;
    for (; *next < l->receives.count && all[*next].target_rank == rank && all[*next].target == panel; (*next)++) {
        const weft_row_piece *piece = &all[*next];
        weft_pair_ends ends = weft_pair_ends_of(l, piece->pair);
        if (!begun) {
            weft_transfer_begin(&l->exchange->list, WEFT_RECORD_RECEIVE, slot, WEFT_SLOT_WRITE);
            begun = true;
        }
        weft_list_add_message(l, piece,
                              panel < 0 ? piece->pair->received * piece->row_bytes
                                        : origin_in_panel(l->to, rank, panel, ends.target_first, piece->row_bytes));
    }
    return begun;
}

/* All records of a panel of the result. */
static void add_panel(weft_list_lowering *l, const weft_shard_info *shard, int64_t panel, size_t *next)
{
    int64_t first, last, lowest, highest, size = l->list->size;
    int i = shard->rank - weft_runtime.first_rank;
    const weft_rank_names *names = &l->list->names[i];
    const weft_row_pair *pairs = l->list->pairs.items;
    weft_panel_range(l->to, &shard->box, panel, &first, &last);
    const int64_t *places = names->places + (first - shard->box.offset[0]);
    const weft_slot slot = { TARGET, i, panel };
    look_up t = { .output = slot,
                  .count = last - first,
                  .whole = !add_receive(l, next, shard->rank, panel, slot),
                  .rank = shard->rank,
                  .indices = first - shard->box.offset[0],
                  .width = weft_row_width(l->to, shard->rank),
                  .position = weft_row_position(l->to, shard->rank, first) };
    for (size_t p = 0; p < l->list->pairs.count && !l->failed; p++) {
        if (pairs[p].namer == shard->rank && weft_hosts(pairs[p].holder) &&
            find_range(places, t.count, pairs[p].rows[0], pairs[p].rows[pairs[p].count - 1] + 1, &lowest, &highest)) {
            look_up_shard(l, &t, pairs[p].holder, lowest, highest);
        }
    }
    if (!l->failed && find_range(places, t.count, size, size + names->num_received, &lowest, &highest)) {
        t.first_row = size;
        t.num_rows = names->num_received;
        t.total_rows = size + names->num_received + 1;
        t.panel_rows = WEFT_ONE_PANEL;
        if (begin_look_up(l, &t) != NULL) {
            weft_task_add(&l->exchange->list, l->buffers[i], 0, WEFT_SLOT_READ);
            end_look_up(l, &t);
        }
    }
}

static void add_targets(weft_list_lowering *l)
{
    size_t next = 0;
    for (int i = 0; i < weft_runtime.local_ranks && !l->failed; i++) {
        weft_shard_info shard = weft_layout_shard(l->to, weft_hosted_rank(i));
        int64_t received = l->list->names[i].num_received;
        if (shard.count > 0 && received > 0) {
            int64_t row_bytes = weft_row_width(l->to, weft_hosted_rank(i)) * (int64_t)weft_dtype_size(l->to->dtype);
            l->buffers[i] = weft_task_new_buffer(&l->exchange->list, received * row_bytes);
            add_receive(l, &next, weft_hosted_rank(i), -1, l->buffers[i]);
        }
        for (int64_t panel = 0; panel < shard.num_panels && !l->failed; panel++) {
            add_panel(l, &shard, panel, &next);
        }
    }
}

bool weft_index_list_lower_gather(const weft_index_list_impl *list, weft_exchange *exchange)
{
    weft_list_lowering l;
    if (weft_list_begin(&l, list, exchange, false)) {
        add_sends(&l);
        add_targets(&l);
    } else {
        l.failed = true;
    }
    return weft_list_end(&l);
}
