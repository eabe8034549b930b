/* The tasks of a stage between layouts that number rows differently, because a cut is cyclic or zigzag. Two panels have a product of
 * runs of rows in common. Within a process one task copies it from panel to panel. Between processes one task packs it into a buffer,
 * a message carries the buffer, and another task unpacks it.
 *
 * A buffer is sent once and not used again: a task that waited for its message could keep another process waiting. */
#include <stdlib.h>

#include "base/map.h"
#include "codelets/rearrange.h"
#include "tensor/exchange_pieces.h"

typedef struct pair {
    int source, target;
    weft_shared_rows shared;
} pair;

typedef struct lowering {
    const weft_stage *stage;
    weft_task_list *list;
    weft_staging *staging;
    weft_map *pairs; /* of ranks: pair */
} lowering;

/* Found once for all pieces of two ranks. NULL: no memory. */
static const weft_shared_rows *shared_by(const lowering *l, const piece *p)
{
    uint64_t hash = weft_hash_u64((uint64_t)(uint32_t)p->source_rank << 32 | (uint32_t)p->target_rank);
    for (weft_map_slot *slot = weft_map_first(l->pairs, hash); slot != NULL; slot = weft_map_next(l->pairs, slot)) {
        const pair *known = slot->value;
        if (known->source == p->source_rank && known->target == p->target_rank) {
            return &known->shared;
        }
    }
    pair *added = malloc(sizeof(*added));
    if (added == NULL) {
        return NULL;
    }
    added->source = p->source_rank;
    added->target = p->target_rank;
    if (!weft_shared_rows_find(&added->shared, l->stage, added->source, added->target) || !weft_map_add(l->pairs, hash, added)) {
        weft_shared_rows_free(&added->shared);
        free(added);
        return NULL;
    }
    return &added->shared;
}

static void free_pairs(weft_map *pairs)
{
    for (weft_map_slot *slot = weft_map_each(pairs, NULL); slot != NULL; slot = weft_map_each(pairs, slot)) {
        pair *each = slot->value;
        weft_shared_rows_free(&each->shared);
        free(each);
    }
    weft_map_free(pairs);
}

/* ---- moved rows ---------------------------------------------------------------------------------------- */

/* Continues the last group, or begins another one. False: no memory. */
static bool add_group(weft_vec *moved, size_t first, int64_t source, int64_t target, int64_t rows)
{
    weft_moved_rows *last = moved->count == first ? NULL : (weft_moved_rows *)moved->items + moved->count - 1;
    if (last != NULL && last->rows == rows) {
        int64_t source_step = source - last->source - (last->count - 1) * last->source_step;
        int64_t target_step = target - last->target - (last->count - 1) * last->target_step;
        if (last->count == 1 || (source_step == last->source_step && target_step == last->target_step)) {
            last->source_step = source_step;
            last->target_step = target_step;
            last->count++;
            return true;
        }
    }
    weft_moved_rows *added = weft_vec_push(moved, sizeof(*added));
    if (added != NULL) {
        *added = (weft_moved_rows){ .source = source, .target = target, .rows = rows, .count = 1 };
    }
    return added != NULL;
}

/* The run that has common row number `row`. */
static size_t run_of(const weft_vec *common, int64_t row)
{
    const weft_common_run *runs = common->items;
    size_t low = 0, high = common->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        bool after = runs[middle].before + runs[middle].rows > row;
        high = after ? middle : high;
        low = after ? low : middle + 1;
    }
    return low;
}

/* Which side of a copy is a buffer, where the common rows lie one after the other. */
typedef enum side { NEITHER, SOURCE, TARGET } side;

/* The common rows number begin .. end - 1 of a dimension; `from` and `to`: the panels' first rows in their shards. */
static bool add_dim(weft_vec *moved, const weft_vec *common, int64_t begin, int64_t end, int64_t from, int64_t to, side packed)
{
    const weft_common_run *runs = common->items;
    const size_t first = moved->count;
    bool done = true;
    for (size_t i = run_of(common, begin); i < common->count && runs[i].before < end && done; i++) {
        int64_t skip = weft_max_i64(0, begin - runs[i].before), rows = weft_min_i64(runs[i].rows, end - runs[i].before) - skip;
        int64_t place = runs[i].before + skip - begin;
        done = add_group(moved, first, packed == SOURCE ? place : runs[i].source + skip - from,
                         packed == TARGET ? place : runs[i].target + skip - to, rows);
    }
    return done;
}

static int64_t first_row(const weft_layout *layout, int rank, int64_t panel)
{
    weft_box shard;
    int64_t first, last;
    weft_layout_shard_box(layout, rank, &shard);
    weft_panel_range(layout, &shard, panel, &first, &last);
    return first - shard.offset[0];
}

static void set_strides(int ndim, const int64_t extent[], int64_t stride[])
{
    int64_t step = 1;
    for (int d = ndim - 1; d >= 0; step *= extent[d--]) {
        stride[d] = step;
    }
}

/* The arguments of the task that copies a piece; freed by the caller. NULL: no memory. */
static weft_rearrange_args *arguments_of(const lowering *l, const piece *p, side packed, size_t *size)
{
    const weft_layout *from = l->stage->from, *to = l->stage->to;
    const weft_shared_rows *shared = shared_by(l, p);
    weft_vec moved = { 0 };
    weft_box source, target;
    int64_t num_moved[WEFT_MAX_DIMS] = { 0 };
    bool done = shared != NULL;
    for (int d = 0; d < from->ndim && done; d++) {
        size_t before = moved.count;
        done = add_dim(&moved, &shared->dims[d], p->box.offset[d], p->box.offset[d] + p->box.extent[d],
                       d == 0 ? first_row(from, p->source_rank, p->source_panel) : 0,
                       d == 0 ? first_row(to, p->target_rank, p->target_panel) : 0, packed);
        num_moved[d] = (int64_t)(moved.count - before);
    }
    *size = sizeof(weft_rearrange_args) + moved.count * sizeof(weft_moved_rows);
    weft_rearrange_args *args = done ? calloc(1, *size) : NULL;
    if (args != NULL) {
        args->base.dtype = from->dtype;
        args->element_size = weft_dtype_size(from->dtype);
        args->ndim = from->ndim;
        weft_layout_shard_box(from, p->source_rank, &source);
        weft_layout_shard_box(to, p->target_rank, &target);
        set_strides(from->ndim, packed == SOURCE ? p->box.extent : source.extent, args->source_stride);
        set_strides(from->ndim, packed == TARGET ? p->box.extent : target.extent, args->target_stride);
        memcpy(args->num_moved, num_moved, sizeof(num_moved));
        memcpy(args->moved, moved.items, moved.count * sizeof(weft_moved_rows));
    }
    weft_vec_free(&moved);
    return args;
}

/* ---- tasks and messages -------------------------------------------------------------------------------- */

static bool add_task(const lowering *l, const piece *p, side packed, weft_slot source, weft_slot target, weft_slot_access access,
                     double position)
{
    size_t size;
    weft_rearrange_args *made = arguments_of(l, p, packed, &size);
    void *args = made == NULL ? NULL : weft_task_begin(l->list, WEFT_KERNEL_rearrange, size);
    if (args != NULL) {
        memcpy(args, made, size);
        weft_task_add(l->list, target, 0, access);
        weft_task_add(l->list, source, 0, WEFT_SLOT_READ);
    }
    free(made);
    return args != NULL && weft_task_end(l->list, position);
}

static bool add_message(const lowering *l, const piece *p, weft_record_kind kind, weft_slot slot, weft_slot_access access)
{
    weft_task_message message = { .peer = p->peer,
                                  .tag = p->tag,
                                  .source_rank = p->source_rank,
                                  .target_rank = p->target_rank,
                                  .region = { .run_bytes = p->bytes } };
    weft_transfer_begin(l->list, kind, slot, access);
    return weft_transfer_add(l->list, &message);
}

static bool add_send(const lowering *l, const piece *p)
{
    weft_slot source = panel_slot(WEFT_EXCHANGE_SOURCE, p->source_rank, p->source_panel);
    weft_slot buffer = weft_task_new_buffer(l->list, p->bytes);
    return add_task(l, p, TARGET, source, buffer, WEFT_SLOT_WRITE, panel_position(l->stage->from, p->source_rank, p->source_panel)) &&
           add_message(l, p, WEFT_RECORD_SEND, buffer, WEFT_SLOT_READ);
}

static bool add_target(const lowering *l, const piece *p, bool first)
{
    weft_slot target = panel_slot(WEFT_EXCHANGE_TARGET, p->target_rank, p->target_panel);
    weft_slot source = p->peer < 0 ? panel_slot(WEFT_EXCHANGE_SOURCE, p->source_rank, p->source_panel)
                                   : weft_staging_obtain(l->staging, l->list, p->bytes);
    bool done = p->peer < 0 || add_message(l, p, WEFT_RECORD_RECEIVE, source, WEFT_SLOT_WRITE);
    done = done && add_task(l, p, p->peer < 0 ? NEITHER : SOURCE, source, target, first ? WEFT_SLOT_WRITE : WEFT_SLOT_READ_WRITE,
                            panel_position(l->stage->to, p->target_rank, p->target_panel));
    weft_staging_was_read(l->staging, source);
    return done;
}

bool weft_exchange_lower_renumbered(const weft_stage *stage, weft_task_list *list, weft_staging *staging, const weft_vec *sends,
                                    const weft_vec *receives)
{
    weft_map pairs = { 0 };
    const lowering l = { stage, list, staging, &pairs };
    const piece *out = sends->items, *in = receives->items;
    bool done = true;
    for (size_t i = 0; i < sends->count && done; i++) {
        done = add_send(&l, &out[i]);
    }
    staging->first = list->temporaries.count;
    for (size_t i = 0; i < receives->count && done; i++) {
        bool same = i > 0 && in[i].target_rank == in[i - 1].target_rank && in[i].target_panel == in[i - 1].target_panel;
        done = add_target(&l, &in[i], !same);
    }
    free_pairs(&pairs);
    return done;
}
