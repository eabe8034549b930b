/* Copies into and out of buckets. Sizes and offsets follow from layouts, so that all processes find the same flat tensor. */
#include "graph/passes/bucket.h"

#include <stdlib.h>
#include <string.h>

#include "tensor/regions.h"
#include "tensor/state.h"

/* More addends than this are reduced in several stages (plan/plan.c), which may depend on the shape. */
enum { MAX_ADDENDS = 64, ALIGNMENT = 64 };

/* ---- which redistributions ------------------------------------------------------------------------------- */

static bool is_sharded(weft_placement placement)
{
    return placement.kind == WEFT_SHARD;
}

/* Shards of one mesh dimension are not cut again by another one. */
static bool shards_apart(const weft_layout *from, const weft_layout *to)
{
    bool taken[WEFT_MAX_DIMS] = { false }, apart = true;
    for (int m = 0; m < from->mesh->ndim && apart; m++) {
        weft_placement before = from->placements[m], after = to->placements[m];
        if (is_sharded(before) || is_sharded(after)) {
            int dim = is_sharded(before) ? before.dim : after.dim;
            apart = !taken[dim];
            taken[dim] = true;
        }
    }
    return apart;
}

/* The flat tensor has parts of one size. */
static bool is_in_chunks(weft_placement placement)
{
    return !is_sharded(placement) || weft_cut_is_chunks(placement);
}

/* A mesh dimension stays, reduces or gathers; *changes: not all stay. */
static bool is_of_a_kind(const weft_layout *from, const weft_layout *to, bool *changes)
{
    bool kind = true;
    int64_t addends = 1;
    *changes = false;
    for (int m = 0; m < from->mesh->ndim && kind; m++) {
        weft_placement before = from->placements[m], after = to->placements[m];
        bool stays = weft_placement_equal(before, after);
        bool reduces = before.kind == WEFT_PARTIAL && after.kind != WEFT_PARTIAL;
        bool gathers = is_sharded(before) && after.kind == WEFT_REPLICATE;
        addends *= reduces ? from->mesh->shape[m] : 1;
        kind = (stays || reduces || gathers) && addends <= MAX_ADDENDS && is_in_chunks(before) && is_in_chunks(after);
        *changes |= !stays;
    }
    return kind;
}

static int num_sharded(const weft_layout *from, const weft_layout *to)
{
    int count = 0;
    for (int m = 0; m < from->mesh->ndim; m++) {
        count += is_sharded(from->placements[m]) || is_sharded(to->placements[m]);
    }
    return count;
}

static int64_t count_of(const weft_layout *layout)
{
    return weft_layout_shard(layout, weft_mesh_rank_at(layout->mesh, 0)).count; /* as many as any rank has */
}

int64_t weft_bucket_bytes(const weft_layout *from, const weft_layout *to)
{
    return weft_max_i64(count_of(from), count_of(to)) * (int64_t)weft_dtype_size(from->dtype);
}

bool weft_bucket_takes(const weft_layout *from, const weft_layout *to)
{
    bool changes;
    if (from->mesh != to->mesh || from->mesh->num_ranks < 2 || from->dtype != to->dtype ||
        weft_is_local_slice(from, to) || num_sharded(from, to) >= WEFT_MAX_DIMS || !is_of_a_kind(from, to, &changes) || !changes || !shards_apart(from, to)) {
        return false;
    }
    int64_t bytes = weft_bucket_bytes(from, to);
    return bytes > 0 && bytes <= WEFT_BUCKET_MEMBER_BYTES;
}

/* The tensor dimensions that are sharded may differ. */
static bool same_kinds(const weft_layout *a, const weft_layout *b)
{
    bool same = true;
    for (int m = 0; m < a->mesh->ndim && same; m++) {
        weft_placement one = a->placements[m], other = b->placements[m];
        same = weft_placement_equal(one, other) || (is_sharded(one) && is_sharded(other));
    }
    return same;
}

bool weft_bucket_takes_both(const weft_layout *from, const weft_layout *to, const weft_layout *other_from,
                            const weft_layout *other_to)
{
    return from->mesh == other_from->mesh && from->dtype == other_from->dtype && same_kinds(from, other_from) &&
           same_kinds(to, other_to);
}

/* ---- the flat tensor ------------------------------------------------------------------------------------- */

/* The layout that is cut along all mesh dimensions that shard before or after. NULL: no memory. */
static const weft_layout *cut_of(const weft_layout *from, const weft_layout *to)
{
    weft_placement placements[WEFT_MAX_DIMS];
    for (int m = 0; m < from->mesh->ndim; m++) {
        weft_placement before = from->placements[m], after = to->placements[m];
        placements[m] = is_sharded(before) ? before : is_sharded(after) ? after : weft_replicate();
    }
    return weft_layout_intern(weft_runtime.layouts, from->mesh, placements, from->ndim, from->shape, from->dtype);
}

/* A tensor's layout carried over to the flat tensor, whose rows have so many elements. NULL: no memory. */
static const weft_layout *flatten(const weft_bucket *bucket, const weft_layout *layout, int64_t elements)
{
    const weft_mesh_impl *mesh = layout->mesh;
    weft_placement placements[WEFT_MAX_DIMS];
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = 0;
    for (int m = 0; m < mesh->ndim; m++) {
        weft_placement own = layout->placements[m];
        placements[m] = is_sharded(own) ? weft_shard(ndim) : own;
        if (is_sharded(bucket->from[0]->placements[m]) || is_sharded(bucket->to[0]->placements[m])) {
            shape[ndim++] = mesh->shape[m];
        }
    }
    if (ndim == 0) {
        shape[ndim++] = 1; /* one row: one panel */
    }
    shape[ndim++] = elements;
    return weft_layout_intern(weft_runtime.layouts, mesh, placements, ndim, shape, layout->dtype);
}

/* False: no memory. */
static bool make_flat(weft_bucket *bucket)
{
    int64_t elements = 0, unit = ALIGNMENT / (int64_t)weft_dtype_size(bucket->from[0]->dtype);
    const int64_t first[WEFT_MAX_DIMS] = { 0 };
    for (int i = 0; i < bucket->num_tensors; i++) {
        const weft_layout *cut = cut_of(bucket->from[i], bucket->to[i]);
        if (cut == NULL) {
            return false;
        }
        weft_box box;
        weft_layout_coordinate_box(cut, first, &box); /* as large as any */
        bucket->offsets[i] = elements;
        elements += weft_ceil_div(weft_box_count(cut->ndim, &box), unit) * unit;
    }
    bucket->flat_from = flatten(bucket, bucket->from[0], elements);
    bucket->flat_to = flatten(bucket, bucket->to[0], elements);
    return bucket->flat_from != NULL && bucket->flat_to != NULL;
}

/* ---- copies ---------------------------------------------------------------------------------------------- */

/* The part of one rank before or after, under construction. */
typedef struct parting {
    const weft_bucket *bucket;
    weft_bucket_part *part;
    const weft_layout *const *layouts; /* of the tensors on this side */
    const weft_layout *flat;
    int rank;
    int64_t coordinate[WEFT_MAX_DIMS]; /* of the mesh */
    weft_shard_info flat_shard;
} parting;

/* A row of the flat tensor: its panel, and bytes from the panel's start. */
static void find_row(const parting *p, const int64_t index[], int *panel, int64_t *offset)
{
    const weft_layout *flat = p->flat;
    const weft_box *box = &p->flat_shard.box;
    int64_t first = 0, last = 0, row = 0;
    for (*panel = 0; *panel < (int)p->flat_shard.num_panels; ++*panel) {
        weft_panel_range(flat, box, *panel, &first, &last);
        if (index[0] >= first && index[0] < last) {
            break;
        }
    }
    for (int d = 0; d < flat->ndim - 1; d++) {
        row = row * box->extent[d] + index[d] - (d == 0 ? first : box->offset[d]);
    }
    *offset = row * flat->shape[flat->ndim - 1] * (int64_t)weft_dtype_size(flat->dtype);
}

/* The pieces of a tensor's block, which lies in the flat tensor from *begin on: one in each panel. False: no memory. */
static bool add_block(const parting *p, int tensor, int first_operand, const weft_box *block, int flat_panel, int64_t begin)
{
    const weft_layout *layout = p->layouts[tensor];
    weft_shard_info shard = weft_layout_shard(layout, p->rank);
    size_t size = weft_dtype_size(layout->dtype);
    int ndim = layout->ndim;
    int64_t strides[WEFT_MAX_DIMS] = { 0 }, row = ndim == 0 ? 1 : weft_row_elements(ndim, block);
    for (int64_t d = ndim - 1, step = 1; d >= 0; step *= shard.box.extent[d--]) {
        strides[d] = step;
    }
    for (int panel = 0; panel < (int)shard.num_panels; panel++) {
        int64_t first, last, offset = 0, from = 0;
        weft_box piece = *block;
        weft_panel_range(layout, &shard.box, panel, &first, &last);
        if (ndim > 0) {
            from = weft_max_i64(first, block->offset[0]);
            int64_t end = weft_min_i64(last, block->offset[0] + block->extent[0]);
            if (end <= from) {
                continue;
            }
            piece.offset[0] = from;
            piece.extent[0] = end - from;
            from -= block->offset[0];
        }
        for (int d = 0; d < ndim; d++) {
            offset += (piece.offset[d] - (d == 0 ? first : shard.box.offset[d])) * strides[d];
        }
        weft_bucket_copy *copy = weft_vec_push(&p->part->copies, sizeof(*copy));
        if (copy == NULL) {
            return false;
        }
        *copy = (weft_bucket_copy){ .operand = first_operand + panel,
                                    .flat = p->part->first_flat + flat_panel,
                                    .flat_offset = begin + from * row * (int64_t)size,
                                    .region = weft_region_of_box(ndim, piece.extent, strides, size,
                                                                 offset * (int64_t)size) };
    }
    return true;
}

/* The blocks of a tensor in all rows that the rank has. False: no memory. */
static bool add_tensor(parting *p, int tensor, int first_operand)
{
    const weft_bucket *bucket = p->bucket;
    const weft_layout *cut = cut_of(bucket->from[tensor], bucket->to[tensor]);
    const weft_box *box = &p->flat_shard.box;
    int num_dims = p->flat->ndim - 1;
    int64_t index[WEFT_MAX_DIMS], rows = 1;
    for (int d = 0; d < num_dims; d++) {
        rows *= box->extent[d];
    }
    for (int64_t r = 0; r < rows && cut != NULL; r++) {
        int64_t left = r;
        for (int d = num_dims - 1; d >= 0; left /= box->extent[d--]) {
            index[d] = box->offset[d] + left % box->extent[d];
        }
        int64_t coordinate[WEFT_MAX_DIMS];
        memcpy(coordinate, p->coordinate, sizeof(coordinate));
        for (int m = 0, d = 0; m < cut->mesh->ndim; m++) {
            if (is_sharded(cut->placements[m])) {
                coordinate[m] = index[d++];
            }
        }
        weft_box block;
        int panel;
        int64_t offset;
        weft_layout_coordinate_box(cut, coordinate, &block);
        find_row(p, index, &panel, &offset);
        offset += bucket->offsets[tensor] * (int64_t)weft_dtype_size(cut->dtype);
        if (weft_box_count(cut->ndim, &block) > 0 && !add_block(p, tensor, first_operand, &block, panel, offset)) {
            return false;
        }
    }
    return cut != NULL;
}

static bool set_flat_bytes(const parting *p)
{
    int count = (int)p->flat_shard.num_panels;
    int64_t row = weft_row_elements(p->flat->ndim, &p->flat_shard.box) * (int64_t)weft_dtype_size(p->flat->dtype);
    p->part->flat_bytes = malloc(((size_t)count + 1) * sizeof(int64_t));
    for (int i = 0; i < count && p->part->flat_bytes != NULL; i++) {
        int64_t first, last;
        weft_panel_range(p->flat, &p->flat_shard.box, i, &first, &last);
        p->part->flat_bytes[i] = (last - first) * row;
    }
    return p->part->flat_bytes != NULL;
}

/* False: no memory. */
static bool make_part(const weft_bucket *bucket, const weft_layout *const layouts[], const weft_layout *flat, int shard,
                      weft_bucket_part *part)
{
    parting p = { .bucket = bucket, .part = part, .layouts = layouts, .flat = flat,
                  .rank = weft_runtime.first_rank + shard };
    p.flat_shard = weft_layout_shard(flat, p.rank);
    if (p.flat_shard.count == 0) {
        return true; /* not a rank of the mesh */
    }
    weft_mesh_unravel(flat->mesh, weft_mesh_index_of(flat->mesh, p.rank), p.coordinate);
    for (int i = 0; i < bucket->num_tensors; i++) {
        part->first_flat += (int)weft_layout_shard(layouts[i], p.rank).num_panels;
    }
    part->num_operands = part->first_flat + (int)p.flat_shard.num_panels;
    bool done = set_flat_bytes(&p);
    for (int i = 0, operand = 0; i < bucket->num_tensors && done; i++) {
        done = add_tensor(&p, i, operand);
        operand += (int)weft_layout_shard(layouts[i], p.rank).num_panels;
    }
    return done;
}

/* Whether each rank's results are one row of the flat tensor, in one panel. */
static bool has_views(const weft_bucket *bucket)
{
    bool views = true;
    for (int m = 0; m < bucket->from[0]->mesh->ndim; m++) {
        views &= !is_sharded(bucket->from[0]->placements[m]) || is_sharded(bucket->to[0]->placements[m]);
    }
    for (int i = 0; i < weft_runtime.local_ranks && views; i++) {
        views = weft_layout_shard(bucket->flat_to, weft_runtime.first_rank + i).num_panels <= 1;
    }
    return views;
}

static bool make_parts(weft_bucket *bucket)
{
    bool done = true;
    for (int i = 0; i < bucket->num_shards && done; i++) {
        done = make_part(bucket, bucket->from, bucket->flat_from, i, &bucket->packs[i]) &&
               (bucket->views || make_part(bucket, bucket->to, bucket->flat_to, i, &bucket->unpacks[i]));
    }
    return done;
}

weft_bucket *weft_bucket_new(int num_tensors, const weft_layout *const from[], const weft_layout *const to[])
{
    weft_bucket *bucket = calloc(1, sizeof(*bucket));
    if (bucket == NULL) {
        return NULL;
    }
    size_t count = (size_t)num_tensors, shards = (size_t)weft_runtime.local_ranks;
    atomic_init(&bucket->references, 1);
    bucket->num_tensors = num_tensors;
    bucket->num_shards = (int)shards;
    bucket->from = malloc(count * sizeof(*bucket->from));
    bucket->to = malloc(count * sizeof(*bucket->to));
    bucket->offsets = malloc(count * sizeof(*bucket->offsets));
    bucket->packs = calloc(shards + 1, sizeof(*bucket->packs));
    bucket->unpacks = calloc(shards + 1, sizeof(*bucket->unpacks));
    bool done = bucket->from != NULL && bucket->to != NULL && bucket->offsets != NULL && bucket->packs != NULL &&
                bucket->unpacks != NULL;
    if (done) {
        memcpy(bucket->from, from, count * sizeof(*from));
        memcpy(bucket->to, to, count * sizeof(*to));
        done = make_flat(bucket);
        bucket->views = done && has_views(bucket);
        done = done && make_parts(bucket);
    }
    if (!done) {
        weft_bucket_release(bucket);
    }
    return done ? bucket : NULL;
}

static void free_parts(weft_bucket_part *parts, int count)
{
    for (int i = 0; i < count && parts != NULL; i++) {
        weft_vec_free(&parts[i].copies);
        free(parts[i].flat_bytes);
    }
    free(parts);
}

void weft_bucket_release(weft_bucket *bucket)
{
    if (bucket == NULL || atomic_fetch_sub(&bucket->references, 1) > 1) {
        return;
    }
    free_parts(bucket->packs, bucket->num_shards);
    free_parts(bucket->unpacks, bucket->num_shards);
    free(bucket->from);
    free(bucket->to);
    free(bucket->offsets);
    free(bucket);
}

void weft_bucket_meet_layouts(const weft_bucket *bucket)
{
    for (int i = 0; i < bucket->num_tensors; i++) {
        weft_meet_layout(bucket->from[i]);
        weft_meet_layout(bucket->to[i]);
    }
    weft_meet_layout(bucket->flat_from);
    weft_meet_layout(bucket->flat_to);
}
