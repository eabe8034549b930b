/* Adding by index lists.
 *
 * A namer sums its rows of one index in their order into a buffer, unless they are plain: then each is a sum already. A holder adds the
 * sums of its namers in the order of their parts. So the bits depend neither on processes nor on which sides are plain. Sums of
 * 16 bits are WEFT_F32, and rounded when they are complete. */
#include <stdlib.h>

#include "arrays/index_list.h"
#include "codelets/elementwise.h"
#include "codelets/indexing.h"
#include "codelets/kernel.h"

enum { SOURCE = WEFT_EXCHANGE_SOURCE, TARGET = WEFT_EXCHANGE_TARGET, INDICES = WEFT_EXCHANGE_INDICES };

/* Rows of a rank's shard, or of a buffer, as a matrix. */
typedef struct rows_of {
    weft_dtype dtype;
    int64_t total, first, count; /* rows of the whole; those that the task has */
    const weft_layout *layout;   /* of the shard in `tensor`; NULL: a buffer */
    int tensor, rank;
    weft_slot buffer;
    int64_t buffer_offset;       /* bytes in it of the first row */
} rows_of;

/* A task that adds rows of a source to the output's rows that indices name. */
typedef struct addition {
    rows_of output, source;
    int rank;        /* whose indices these are, */
    int64_t indices; /* from this number on */
    bool first;      /* nothing has been written to the output before */
    int64_t width;
    double position;
} addition;

static weft_slot shard_slot(int tensor, int rank, int64_t panel)
{
    return (weft_slot){ tensor, rank - weft_runtime.first_rank, panel };
}

/* Adds the panels of some rows as operands. */
static void add_rows(weft_list_lowering *l, weft_kernel_operand *operand, const rows_of *rows, int64_t width, int *num_panels,
                     weft_slot_access access)
{
    weft_task_list *tasks = &l->exchange->list;
    *operand = (weft_kernel_operand){ .dtype = rows->dtype,
                                      .ndim = 2,
                                      .shape = { rows->total, width },
                                      .offset = { rows->first, 0 },
                                      .extent = { rows->count, width },
                                      .panel_rows = rows->layout == NULL ? WEFT_ONE_PANEL : rows->layout->panel_rows,
                                      .first_panel = *num_panels };
    if (rows->count > 0 && rows->layout == NULL) {
        weft_task_add(tasks, rows->buffer, rows->buffer_offset, access);
        operand->num_panels = 1;
    } else if (rows->count > 0) {
        weft_box box;
        weft_layout_shard_box(rows->layout, rows->rank, &box);
        int64_t row_bytes = width * (int64_t)weft_dtype_size(rows->dtype);
        int64_t panel = weft_panel_of_row(rows->layout, &box, rows->first), end = rows->first + rows->count;
        for (int64_t row = rows->first, begin, behind; row < end; row = behind, panel++) {
            weft_panel_range(rows->layout, &box, panel, &begin, &behind);
            weft_task_add(tasks, shard_slot(rows->tensor, rows->rank, panel), (row - begin) * row_bytes, access);
            operand->num_panels++;
        }
    }
    *num_panels += operand->num_panels;
}

static void add(weft_list_lowering *l, const addition *a)
{
    weft_task_list *tasks = &l->exchange->list;
    weft_kernel_args *args = weft_task_begin(tasks, WEFT_KERNEL_scatter, weft_kernel_args_size(3, 0));
    if (args == NULL) {
        l->failed = true;
        return;
    }
    args->base.dtype = a->output.dtype;
    args->first = a->first;
    args->last = true;
    args->num_outputs = 1;
    args->num_inputs = 2;
    args->numbers[WEFT_INDEXED_DIM] = 0;
    args->numbers[WEFT_INDEXED_TOGETHER] = 1;
    args->numbers[WEFT_SCATTER_OP] = WEFT_SUM;
    int num_panels = 0;
    add_rows(l, &args->operands[0], &a->output, a->width, &num_panels, a->first ? WEFT_SLOT_WRITE : WEFT_SLOT_READ_WRITE);
    add_rows(l, &args->operands[1], &a->source, a->width, &num_panels, WEFT_SLOT_READ);
    weft_kernel_operand *indices = &args->operands[2];
    *indices = (weft_kernel_operand){ .dtype = WEFT_I64,
                                      .ndim = 1,
                                      .shape = { a->source.count },
                                      .extent = { a->source.count },
                                      .panel_rows = WEFT_ONE_PANEL,
                                      .first_panel = num_panels,
                                      .num_panels = a->source.count > 0 };
    if (a->source.count > 0) {
        weft_task_add(tasks, (weft_slot){ INDICES, a->rank - weft_runtime.first_rank, 0 }, a->indices * (int64_t)sizeof(int64_t),
                      WEFT_SLOT_READ);
    }
    l->failed = !weft_task_end(tasks, a->position) || l->failed;
}

/* ---- at the namers --------------------------------------------------------------------------------------------------- */

static int64_t row_bytes_of(const weft_list_lowering *l, weft_dtype dtype, int rank)
{
    return weft_row_width(l->from, rank) * (int64_t)weft_dtype_size(dtype);
}

/* The sums of a hosted rank's rows that are not plain, a task for each of their panels. */
static weft_slot add_sums(weft_list_lowering *l, const weft_shard_info *shard)
{
    const weft_rank_names *names = &l->list->names[shard->rank - weft_runtime.first_rank];
    weft_slot buffer = weft_task_new_buffer(&l->exchange->list, names->num_summed * row_bytes_of(l, l->wide, shard->rank));
    for (int64_t panel = 0; panel < shard->num_panels && !l->failed; panel++) {
        int64_t first, last;
        weft_panel_range(l->from, &shard->box, panel, &first, &last);
        addition a = { .output = { .dtype = l->wide, .total = names->num_summed + 1, .count = names->num_summed, .buffer = buffer },
                       .source = { .dtype = l->from->dtype,
                                   .total = l->list->total,
                                   .first = first,
                                   .count = last - first,
                                   .layout = l->from,
                                   .tensor = SOURCE,
                                   .rank = shard->rank },
                       .rank = shard->rank,
                       .indices = names->count + first - shard->box.offset[0],
                       .first = panel == 0,
                       .width = weft_row_width(l->from, shard->rank),
                       .position = weft_row_position(l->from, shard->rank, first) };
        add(l, &a);
    }
    return buffer;
}

/* sums[]: by hosted rank. */
static void add_sends(weft_list_lowering *l, weft_slot sums[])
{
    const weft_row_piece *all = l->sends.items;
    for (int i = 0; i < weft_runtime.local_ranks && !l->failed; i++) {
        weft_shard_info shard = weft_layout_shard(l->from, weft_runtime.first_rank + i);
        if (shard.count > 0 && l->list->names[i].num_summed > 0) {
            sums[i] = add_sums(l, &shard);
        }
    }
    for (size_t i = 0; i < l->sends.count && !l->failed;) {
        const weft_row_pair *pair = all[i].pair;
        weft_list_add_sends(l, &i, sums[pair->namer - weft_runtime.first_rank], pair->summed * all[i].row_bytes);
    }
}

/* ---- at the holders -------------------------------------------------------------------------------------------------- */

/* Rows lowest .. highest of a pair's, as they come to the holder; `received`: bytes of the holder's buffer before them. */
static rows_of source_of(const weft_list_lowering *l, const weft_row_pair *pair, int64_t lowest, int64_t highest, int64_t received,
                         const weft_slot sums[])
{
    weft_pair_ends ends = weft_pair_ends_of(l, pair);
    rows_of rows = { .dtype = ends.dtype, .total = l->list->total, .first = lowest, .count = highest - lowest };
    int64_t row_bytes = row_bytes_of(l, ends.dtype, pair->holder);
    if (!weft_hosts(pair->namer)) {
        rows.buffer = l->buffers[pair->holder - weft_runtime.first_rank];
        rows.buffer_offset = received + lowest * row_bytes;
    } else if (ends.source_first < 0) {
        rows.buffer = sums[pair->namer - weft_runtime.first_rank];
        rows.buffer_offset = (pair->summed + lowest) * row_bytes;
    } else {
        rows.layout = l->from;
        rows.tensor = SOURCE;
        rows.rank = pair->namer;
        rows.first = ends.source_first + lowest;
    }
    return rows;
}

/* The first of a pair's rows that is not before this one. */
static int64_t lower_bound(const weft_row_pair *pair, int64_t row)
{
    int64_t low = 0, high = pair->count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        low = pair->rows[middle] < row ? middle + 1 : low;
        high = pair->rows[middle] < row ? high : middle;
    }
    return low;
}

/* Bytes that a pair's rows take in its holder's buffer. */
static int64_t received_bytes(const weft_list_lowering *l, const weft_row_pair *pair)
{
    int64_t bytes = pair->count * row_bytes_of(l, weft_pair_ends_of(l, pair).dtype, pair->holder);
    return weft_hosts(pair->namer) ? 0 : (int64_t)weft_aligned((size_t)bytes);
}

/* Rounds sums to 16 bits. */
static void round_panel(weft_list_lowering *l, weft_slot sums, weft_slot panel, int64_t count, double position)
{
    weft_elementwise_args *args = weft_task_begin(&l->exchange->list, WEFT_KERNEL_convert, sizeof(*args));
    if (args == NULL) {
        l->failed = true;
        return;
    }
    *args = (weft_elementwise_args){ .base.dtype = l->wide,
                                     .ndim = 1,
                                     .common = l->wide,
                                     .types = { l->to->dtype, l->wide },
                                     .stride = { { 1 }, { 1 } } };
    args->extent[0] = count;
    weft_task_add(&l->exchange->list, panel, 0, WEFT_SLOT_WRITE);
    weft_task_add(&l->exchange->list, sums, 0, WEFT_SLOT_READ);
    l->failed = !weft_task_end(&l->exchange->list, position) || l->failed;
}

/* All sums of a panel. */
static void add_panel(weft_list_lowering *l, const weft_shard_info *shard, int64_t panel, const weft_slot sums[])
{
    int64_t first, last, received = 0;
    const weft_row_pair *pairs = l->list->pairs.items;
    weft_panel_range(l->to, &shard->box, panel, &first, &last);
    bool narrow = l->wide != l->to->dtype;
    int64_t width = weft_row_width(l->to, shard->rank);
    const weft_slot slot = shard_slot(TARGET, shard->rank, panel);
    addition a = { .output = { .dtype = l->wide, .total = l->list->size, .first = first, .count = last - first },
                   .rank = shard->rank,
                   .first = true,
                   .width = width,
                   .position = weft_row_position(l->to, shard->rank, first) };
    a.output.buffer = narrow ? weft_task_new_buffer(&l->exchange->list, (last - first) * width * (int64_t)weft_dtype_size(l->wide)) : slot;
    for (size_t p = 0; p < l->list->pairs.count && !l->failed; p++) {
        const weft_row_pair *pair = &pairs[p];
        if (pair->holder != shard->rank) {
            continue;
        }
        int64_t lowest = lower_bound(pair, first), highest = lower_bound(pair, last);
        if (lowest < highest) {
            a.source = source_of(l, pair, lowest, highest, received, sums);
            a.indices = pair->indices + lowest;
            add(l, &a);
            a.first = false;
        }
        received += received_bytes(l, pair);
    }
    if (a.first && !l->failed) { /* zeros */
        a.source = (rows_of){ .dtype = l->wide, .total = l->list->total };
        add(l, &a);
    }
    if (narrow && !l->failed) {
        round_panel(l, a.output.buffer, slot, (last - first) * width, a.position);
    }
}

/* The buffer of all sums that a hosted rank receives, and their messages; nothing: it receives none. */
static void add_receive(weft_list_lowering *l, int rank, size_t *next)
{
    int64_t bytes = 0;
    const weft_row_pair *pairs = l->list->pairs.items;
    const weft_row_piece *all = l->receives.items;
    if (*next == l->receives.count || all[*next].target_rank != rank) {
        return;
    }
    for (size_t p = 0; p < l->list->pairs.count; p++) {
        bytes += pairs[p].holder == rank ? received_bytes(l, &pairs[p]) : 0;
    }
    weft_slot buffer = weft_task_new_buffer(&l->exchange->list, bytes);
    l->buffers[rank - weft_runtime.first_rank] = buffer;
    weft_transfer_begin(&l->exchange->list, WEFT_RECORD_RECEIVE, buffer, WEFT_SLOT_WRITE);
    int64_t origin = 0;
    const weft_row_pair *pair = pairs;
    for (; *next < l->receives.count && all[*next].target_rank == rank; (*next)++) {
        for (; pair != all[*next].pair; pair++) {
            origin += pair->holder == rank ? received_bytes(l, pair) : 0;
        }
        weft_list_add_message(l, &all[*next], origin);
    }
}

static void add_targets(weft_list_lowering *l, const weft_slot sums[])
{
    size_t next = 0;
    for (int i = 0; i < weft_runtime.local_ranks && !l->failed; i++) {
        weft_shard_info shard = weft_layout_shard(l->to, weft_runtime.first_rank + i);
        add_receive(l, shard.rank, &next);
        for (int64_t panel = 0; panel < shard.num_panels && !l->failed; panel++) {
            add_panel(l, &shard, panel, sums);
        }
    }
}

bool weft_index_list_lower_sums(const weft_index_list_impl *list, weft_exchange *exchange)
{
    weft_list_lowering l;
    bool begun = weft_list_begin(&l, list, exchange, true);
    weft_slot *sums = begun ? calloc((size_t)weft_runtime.local_ranks + 1, sizeof(*sums)) : NULL;
    if (sums != NULL) {
        add_sends(&l, sums);
        add_targets(&l, sums);
    }
    l.failed = l.failed || sums == NULL;
    free(sums);
    return weft_list_end(&l);
}
