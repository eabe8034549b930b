#include "plan/shard_intervals.h"

weft_fixed weft_fixed_none(void)
{
    weft_fixed fixed;
    for (int m = 0; m < WEFT_MAX_DIMS; m++) {
        fixed.coordinate[m] = -1;
    }
    return fixed;
}

void weft_mesh_strides(const weft_mesh_impl *mesh, int64_t stride[])
{
    int64_t step = 1;
    for (int m = mesh->ndim - 1; m >= 0; m--) {
        stride[m] = step;
        step *= mesh->shape[m];
    }
}

typedef struct descent {
    const weft_layout *layout;
    const weft_fixed *fixed;
    int dim;
    int64_t begin, end; /* the interval to intersect */
    int64_t stride[WEFT_MAX_DIMS]; /* of a list: of the mesh, and where it is kept */
    weft_vec *intervals;
} descent;

/* The first mesh dimension of the layout's order, from place `i` on, that shards the tensor dimension: its place; mesh->ndim: none. */
static int next_cut(const descent *down, int i)
{
    const weft_layout *layout = down->layout;
    for (; i < layout->mesh->ndim; i++) {
        if (weft_layout_shards(layout, layout->order[i], down->dim)) {
            break;
        }
    }
    return i;
}

/* The coordinates first .. last of mesh dimension m whose part of `n` rows from `offset` on intersects
 * the interval; false: none does. The first and the last part are not empty; parts between them may be. */
static bool meeting(const descent *down, int m, int64_t offset, int64_t n, int64_t *first, int64_t *last)
{
    weft_placement shard = down->layout->placements[m];
    int64_t parts = down->layout->mesh->shape[m];
    int64_t low = weft_max_i64(down->begin, offset), high = weft_min_i64(down->end, offset + n);
    if (low >= high) {
        return false;
    }
    *first = weft_part_of_row(shard, n, parts, low - offset);
    *last = weft_part_of_row(shard, n, parts, high - 1 - offset);
    int64_t fixed = down->fixed->coordinate[m];
    if (fixed >= 0) {
        if (fixed < *first || fixed > *last) {
            return false;
        }
        *first = *last = fixed;
    }
    return true;
}

/* From place `i` of the order on. */
static bool list(const descent *down, int i, int64_t offset, int64_t n, int64_t index)
{
    i = next_cut(down, i);
    if (i == down->layout->mesh->ndim) {
        int64_t begin = weft_max_i64(down->begin, offset), end = weft_min_i64(down->end, offset + n);
        if (begin >= end) {
            return true;
        }
        weft_shard_interval *interval = weft_vec_push(down->intervals, sizeof(*interval));
        if (interval != NULL) {
            *interval = (weft_shard_interval){ begin, end, index };
        }
        return interval != NULL;
    }
    int m = down->layout->order[i];
    int64_t first, last;
    if (!meeting(down, m, offset, n, &first, &last)) {
        return true;
    }
    for (int64_t c = first; c <= last; c++) {
        int64_t part, extent;
        weft_part_range(down->layout->placements[m], n, down->layout->mesh->shape[m], c, &part, &extent);
        if (!list(down, i + 1, offset + part, extent, index + c * down->stride[m])) {
            return false;
        }
    }
    return true;
}

bool weft_shard_intervals(const weft_layout *layout, int dim, int64_t begin, int64_t end,
                          const weft_fixed *fixed, weft_vec *intervals)
{
    descent down = { layout, fixed, dim, begin, end, .intervals = intervals };
    weft_mesh_strides(layout->mesh, down.stride);
    weft_coverage coverage = weft_shard_intervals_measure(layout, dim, begin, end, fixed);
    return weft_vec_reserve(intervals, intervals->count + (size_t)coverage.count,
                            sizeof(weft_shard_interval)) &&
           list(&down, 0, 0, layout->shape[dim], 0);
}

static weft_coverage measure(const descent *down, int i, int64_t offset, int64_t n)
{
    i = next_cut(down, i);
    int64_t low = weft_max_i64(down->begin, offset), high = weft_min_i64(down->end, offset + n);
    weft_coverage coverage = { 0, 0 };
    if (low >= high) {
        return coverage;
    }
    if (i == down->layout->mesh->ndim) {
        return (weft_coverage){ 1, high - low };
    }
    int m = down->layout->order[i];
    int64_t first, last;
    if (!meeting(down, m, offset, n, &first, &last)) {
        return coverage;
    }
    if (first < last && next_cut(down, i + 1) == down->layout->mesh->ndim) {
        weft_placement innermost = down->layout->placements[m];
        return (weft_coverage){ weft_parts_filled(innermost, n, down->layout->mesh->shape[m], first, last), high - low };
    }
    /* Parts between the first and the last lie inside the interval: one represents all others of its size beside it. */
    weft_placement shard = down->layout->placements[m];
    int64_t parts = down->layout->mesh->shape[m], times;
    for (int64_t c = first; c <= last; c += times) {
        int64_t alike = c == first || c == last ? 1 : weft_parts_alike(shard, n, parts, c), part, extent;
        times = c < last ? weft_min_i64(alike, last - c) : 1;
        weft_part_range(shard, n, parts, c, &part, &extent);
        weft_coverage inner = measure(down, i + 1, offset + part, extent);
        coverage.count += times * inner.count;
        coverage.length += times * inner.length;
    }
    return coverage;
}

weft_coverage weft_shard_intervals_measure(const weft_layout *layout, int dim, int64_t begin, int64_t end,
                                           const weft_fixed *fixed)
{
    descent down = { layout, fixed, dim, begin, end };
    return measure(&down, 0, 0, layout->shape[dim]);
}
