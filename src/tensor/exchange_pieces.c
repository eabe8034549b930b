/* Cuts the transfers of a stage into pieces, and sorts them. */
#include "tensor/exchange_pieces.h"

#include <stdlib.h>
#include <string.h>

static bool add_piece(weft_vec *pieces, const piece *like, int64_t bytes, const weft_box *box)
{
    piece *p = weft_vec_push(pieces, sizeof(*p));
    if (p != NULL) {
        *p = *like;
        p->bytes = bytes;
        p->box = *box;
    }
    return p != NULL;
}

/* Upper limit of a message: larger ones are cut by rows, and rows by columns. The values of one can be
 * used while the next is under way. And eager messages keep a link busy in both directions: over TCP, the
 * rendezvous reply for a larger one queues after data in the other direction. Measured over 1 Gbit/s,
 * both hosts sending: 48 and 60 KB 119 MB/s, 1 MB 67 to 119 MB/s. On faster links messages are larger
 * (weft_machine_messages()). */
static bool cut_to_messages(weft_vec *pieces, const weft_layout *layout, const piece *like,
                            const weft_box *box, int dim)
{
    int64_t most = weft_runtime.messages.max_bytes;
    int64_t bytes = weft_box_count(layout->ndim, box) * (int64_t)weft_dtype_size(layout->dtype);
    if (bytes <= most || dim == layout->ndim) {
        return add_piece(pieces, like, bytes, box);
    }
    int64_t slice = bytes / box->extent[dim], step = weft_max_i64(1, most / slice);
    int64_t end = box->offset[dim] + box->extent[dim];
    weft_box part = *box;
    for (; part.offset[dim] < end; part.offset[dim] += part.extent[dim]) {
        part.extent[dim] = weft_min_i64(step, end - part.offset[dim]);
        if (!cut_to_messages(pieces, layout, like, &part, dim + 1)) {
            return false;
        }
    }
    return true;
}

/* Cuts the box of a transfer into pieces and appends them. */
static bool cut_move(weft_vec *pieces, const weft_stage *stage, const piece *like, const weft_box *box)
{
    const weft_layout *from = source_layout(stage, like), *to = stage->to;
    weft_box source, target;
    weft_layout_shard_box(from, like->source_rank, &source);
    weft_layout_shard_box(to, like->target_rank, &target);
    int64_t begin = from->ndim == 0 ? 0 : box->offset[0];
    int64_t end = from->ndim == 0 ? 1 : begin + box->extent[0];
    int64_t shift[WEFT_MAX_DIMS] = { 0 };
    weft_stage_shift(stage, like->target_rank, shift);
    /* Local and remote addends are cut alike. */
    bool messages = like->peer >= 0 || (stage->reduces && weft_runtime.num_processes > 1);
    while (begin < end) {
        int64_t source_panel = weft_panel_of_row(from, &source, begin);
        int64_t target_panel = weft_panel_of_row(to, &target, begin + shift[0]);
        int64_t first, source_last, target_last;
        weft_panel_range(from, &source, source_panel, &first, &source_last);
        weft_panel_range(to, &target, target_panel, &first, &target_last);
        int64_t last = weft_min_i64(end, weft_min_i64(source_last, target_last - shift[0]));
        piece p = *like;
        p.source_panel = source_panel;
        p.target_panel = target_panel;
        weft_box part = { .offset = { 0 } }; /* whole arrays: boxes are compared */
        memcpy(part.offset, box->offset, (size_t)from->ndim * sizeof(int64_t));
        memcpy(part.extent, box->extent, (size_t)from->ndim * sizeof(int64_t));
        if (from->ndim > 0) {
            part.offset[0] = begin;
            part.extent[0] = last - begin;
        }
        int64_t bytes = weft_box_count(from->ndim, &part) * (int64_t)weft_dtype_size(from->dtype);
        if (!(messages ? cut_to_messages(pieces, from, &p, &part, 0) : add_piece(pieces, &p, bytes, &part))) {
            return false;
        }
        begin = last;
    }
    return true;
}

/* ---- stages that renumber ------------------------------------------------------------------------------ */

/* Numbered alike, the common rows of one dimension are one run. */
static bool find_common(const weft_stage *stage, const int64_t source[], const int64_t target[], int dim, weft_vec *common)
{
    weft_vec held = { 0 }, wanted = { 0 };
    bool done;
    if (weft_layouts_number_alike(stage->from, stage->to, dim)) {
        weft_box from, to;
        weft_layout_coordinate_box(stage->from, source, &from);
        weft_layout_coordinate_box(stage->to, target, &to);
        weft_run here = { from.offset[dim], from.extent[dim], 0 }, there = { to.offset[dim], to.extent[dim], 0 };
        weft_run *one = weft_vec_push(&held, sizeof(here)), *other = weft_vec_push(&wanted, sizeof(there));
        done = one != NULL && other != NULL;
        if (done) {
            *one = here;
            *other = there;
        }
    } else {
        done = weft_layout_runs(stage->from, source, dim, &held) && weft_layout_runs(stage->to, target, dim, &wanted);
    }
    done = done && weft_common_runs(&held, &wanted, common);
    weft_vec_free(&held);
    weft_vec_free(&wanted);
    return done;
}

bool weft_shared_rows_find(weft_shared_rows *shared, const weft_stage *stage, int source, int target)
{
    int64_t from[WEFT_MAX_DIMS], to[WEFT_MAX_DIMS];
    weft_mesh_unravel(stage->from->mesh, weft_mesh_index_of(stage->from->mesh, source), from);
    weft_mesh_unravel(stage->to->mesh, weft_mesh_index_of(stage->to->mesh, target), to);
    *shared = (weft_shared_rows){ .ndim = stage->from->ndim };
    bool done = true;
    for (int d = 0; d < shared->ndim && done; d++) {
        done = find_common(stage, from, to, d, &shared->dims[d]);
    }
    return done;
}

void weft_shared_rows_free(weft_shared_rows *shared)
{
    for (int d = 0; d < shared->ndim; d++) {
        weft_vec_free(&shared->dims[d]);
    }
}

/* A panel, and the rows of its shard, by their numbers in it, up to the panel's end. */
typedef struct panel_end {
    int64_t panel, last;
} panel_end;

static panel_end panel_at(const weft_layout *layout, const weft_box *shard, int64_t row)
{
    panel_end p = { .panel = weft_panel_of_row(layout, shard, shard->offset[0] + row) };
    int64_t first;
    weft_panel_range(layout, shard, p.panel, &first, &p.last);
    p.last -= shard->offset[0];
    return p;
}

/* Cuts at the panel borders of the common rows of dimension 0. */
static bool cut_shared(weft_vec *pieces, const weft_stage *stage, const piece *like, const weft_box *box,
                       const weft_common_run *runs)
{
    weft_box source, target, part = { .offset = { 0 } };
    weft_layout_shard_box(stage->from, like->source_rank, &source);
    weft_layout_shard_box(stage->to, like->target_rank, &target);
    memcpy(part.extent, box->extent, (size_t)stage->from->ndim * sizeof(int64_t));
    int64_t end = box->extent[0], inside = 0; /* rows of the run that earlier pieces have */
    for (part.extent[0] = 0; part.offset[0] < end; part.offset[0] += part.extent[0]) {
        piece p = *like;
        panel_end from = panel_at(stage->from, &source, runs->source + inside);
        panel_end to = panel_at(stage->to, &target, runs->target + inside);
        p.source_panel = from.panel;
        p.target_panel = to.panel;
        part.extent[0] = 0;
        while (part.offset[0] + part.extent[0] < end && runs->source + inside < from.last && runs->target + inside < to.last) {
            int64_t rows = weft_min_i64(from.last - runs->source, to.last - runs->target) - inside;
            rows = weft_min_i64(rows, runs->rows - inside);
            part.extent[0] += rows;
            inside += rows;
            if (inside == runs->rows) {
                runs++;
                inside = 0;
            }
        }
        int64_t bytes = weft_box_count(stage->from->ndim, &part) * (int64_t)weft_dtype_size(stage->from->dtype);
        if (!(like->peer >= 0 ? cut_to_messages(pieces, stage->from, &p, &part, 0) : add_piece(pieces, &p, bytes, &part))) {
            return false;
        }
    }
    return true;
}

static bool cut_renumbered(weft_vec *pieces, const weft_stage *stage, const piece *like, const weft_box *box)
{
    weft_shared_rows shared;
    bool done = weft_shared_rows_find(&shared, stage, like->source_rank, like->target_rank) &&
                cut_shared(pieces, stage, like, box, shared.dims[0].items);
    weft_shared_rows_free(&shared);
    return done;
}

/* ---- all ----------------------------------------------------------------------------------------------- */

static bool cut(weft_vec *pieces, const weft_stage *stage, const piece *like, const weft_box *box)
{
    return (weft_stage_renumbers(stage) ? cut_renumbered : cut_move)(pieces, stage, like, box);
}

static piece piece_between(const weft_stage *stage, int source, int target, bool forwarded)
{
    return (piece){
        .source_rank = source,
        .target_rank = target,
        .target_place = weft_mesh_index_of(stage->to->mesh, target),
        .addend = stage->reduces ? weft_stage_addend(stage, source) : 0,
        .forwarded = forwarded,
    };
}

bool weft_collect_receives(weft_vec *pieces, const weft_stage *stage, int target)
{
    weft_transfers moves = { 0 };
    bool done = weft_stage_receives(stage, &weft_runtime.topology, target, &moves) == WEFT_OK;
    for (size_t i = 0; i < moves.count && done; i++) {
        int source = moves.items[i].peer;
        piece like = piece_between(stage, source, target, moves.items[i].forwarded);
        like.peer = weft_hosts(source) ? -1 : weft_process_of(source);
        done = cut(pieces, stage, &like, &moves.items[i].box);
    }
    weft_transfers_free(&moves);
    return done;
}

bool weft_collect_sends(weft_vec *pieces, const weft_stage *stage, int source)
{
    weft_transfers moves = { 0 };
    bool done = weft_stage_sends(stage, &weft_runtime.topology, source, &moves) == WEFT_OK;
    for (size_t i = 0; i < moves.count && done; i++) {
        int target = moves.items[i].peer;
        if (weft_hosts(target)) {
            continue;
        }
        piece like = piece_between(stage, source, target, moves.items[i].forwarded);
        like.peer = weft_process_of(target);
        done = cut(pieces, stage, &like, &moves.items[i].box);
    }
    weft_transfers_free(&moves);
    return done;
}

/* -1, 0 or 1: lexicographic. */
static int compare(int count, const int64_t a[], const int64_t b[])
{
    for (int i = 0; i < count; i++) {
        if (a[i] != b[i]) {
            return a[i] < b[i] ? -1 : 1;
        }
    }
    return 0;
}

/* By target panel; then target ranks in forwarding order; within a target panel boxes by position, and
 * addends of one box in the order of their reduction. */
static int by_target_panel(const void *a, const void *b)
{
    const piece *p = a, *q = b;
    int order = compare(2, (int64_t[]){ p->target_panel, p->target_place },
                        (int64_t[]){ q->target_panel, q->target_place });
    order = order != 0 ? order : compare(WEFT_MAX_DIMS, p->box.offset, q->box.offset);
    order = order != 0 ? order : compare(1, &p->addend, &q->addend);
    return order != 0 ? order : compare(1, (int64_t[]){ p->source_rank }, (int64_t[]){ q->source_rank });
}

static int by_message_order(const void *a, const void *b)
{
    const piece *p = a, *q = b;
    return p->peer != q->peer ? (p->peer < q->peer ? -1 : 1) : by_target_panel(a, b);
}

static int by_source_panel(const void *a, const void *b)
{
    const piece *p = a, *q = b;
    int order = compare(3, (int64_t[]){ p->forwarded, p->source_rank, p->source_panel },
                        (int64_t[]){ q->forwarded, q->source_rank, q->source_panel });
    return order != 0 ? order : by_message_order(a, b);
}

static void sort(weft_vec *pieces, int (*order)(const void *a, const void *b))
{
    if (pieces->count > 0) {
        qsort(pieces->items, pieces->count, sizeof(piece), order);
    }
}

void weft_sort_by_target(weft_vec *pieces)
{
    sort(pieces, by_target_panel);
}

void weft_sort_by_source(weft_vec *pieces)
{
    sort(pieces, by_source_panel);
}

void weft_number_messages(weft_vec *pieces, weft_tag_range *ranges)
{
    piece *all = pieces->items;
    sort(pieces, by_message_order);
    for (size_t i = 0; i < pieces->count; i++) {
        if (all[i].peer >= 0) {
            all[i].tag = ranges[all[i].peer].count++;
        }
    }
}
