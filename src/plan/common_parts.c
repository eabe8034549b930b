#include "plan/common_parts.h"

#include <stdlib.h>

/* The number of rows in common with the part at a coordinate; -1: no memory. */
static int64_t count_common(const weft_layout *layout, int dim, const int64_t coordinate[], const weft_vec *held)
{
    weft_vec runs = { 0 }, common = { 0 };
    bool done = weft_layout_runs(layout, coordinate, dim, &runs) && weft_common_runs(&runs, held, &common);
    int64_t rows = done ? weft_common_rows(&common) : -1;
    weft_vec_free(&runs);
    weft_vec_free(&common);
    return rows;
}

static int by_index(const void *a, const void *b)
{
    const weft_shard_interval *p = a, *q = b;
    return weft_compare_i64(p->index, q->index);
}

/* Makes one interval, from 0 on, of all those of a part. */
static void join_parts(weft_vec *intervals, size_t first)
{
    weft_shard_interval *all = intervals->items;
    size_t kept = first;
    if (intervals->count == first) {
        return;
    }
    qsort(all + first, intervals->count - first, sizeof(*all), by_index);
    for (size_t i = first; i < intervals->count; i++) {
        if (kept > first && all[kept - 1].index == all[i].index) {
            all[kept - 1].end += all[i].end;
        } else {
            all[kept++] = all[i];
        }
    }
    intervals->count = kept;
}

static bool is_fixed_elsewhere(const weft_layout *layout, int dim, const weft_fixed *fixed, const int64_t coordinate[])
{
    bool elsewhere = false;
    for (int m = 0; m < layout->mesh->ndim; m++) {
        elsewhere |= weft_layout_shards(layout, m, dim) && fixed->coordinate[m] >= 0 && fixed->coordinate[m] != coordinate[m];
    }
    return elsewhere;
}

/* Appends an interval of so many rows; joins them when there are many. False: no memory. */
static bool add_rows(const weft_layout *layout, int dim, const int64_t coordinate[], int64_t rows, size_t first, weft_vec *intervals)
{
    if (intervals->count - first >= 2 * (size_t)weft_layout_parts(layout, dim) + 64) {
        join_parts(intervals, first);
    }
    weft_shard_interval *interval = weft_vec_push(intervals, sizeof(*interval));
    if (interval != NULL) {
        *interval = (weft_shard_interval){ 0, rows, weft_mesh_ravel(layout->mesh, coordinate) };
    }
    return interval != NULL;
}

/* Whether one part alone is not fixed elsewhere: its coordinate; 0 along mesh dimensions that do not cut this one. */
static bool is_one_part(const weft_layout *layout, int dim, const weft_fixed *fixed, int64_t coordinate[])
{
    bool one = true;
    for (int m = 0; m < layout->mesh->ndim; m++) {
        bool cuts = weft_layout_shards(layout, m, dim);
        coordinate[m] = cuts ? fixed->coordinate[m] : 0;
        one = one && coordinate[m] >= 0;
    }
    return one;
}

/* All parts that have rows of the runs. */
static bool find_parts(const weft_layout *layout, int dim, const weft_fixed *fixed, const weft_vec *held, weft_vec *intervals)
{
    int64_t coordinate[WEFT_MAX_DIMS] = { 0 };
    const size_t first = intervals->count;
    const weft_run *runs = held->items;
    bool done = true;
    for (size_t r = 0; r < held->count && done; r++) {
        int64_t end = runs[r].begin + runs[r].rows;
        for (int64_t row = runs[r].begin, rows; row < end && done; row += rows) {
            rows = weft_min_i64(weft_layout_place(layout, dim, row, coordinate), end - row);
            done = is_fixed_elsewhere(layout, dim, fixed, coordinate) || add_rows(layout, dim, coordinate, rows, first, intervals);
        }
    }
    join_parts(intervals, first);
    return done;
}

bool weft_common_parts(const weft_layout *layout, int dim, const weft_fixed *fixed, const weft_layout *other,
                       const int64_t other_coordinate[], weft_vec *intervals)
{
    weft_vec held = { 0 };
    int64_t coordinate[WEFT_MAX_DIMS];
    bool done = weft_layout_runs(other, other_coordinate, dim, &held);
    if (done && is_one_part(layout, dim, fixed, coordinate)) {
        int64_t rows = count_common(layout, dim, coordinate, &held);
        done = rows == 0 || (rows > 0 && add_rows(layout, dim, coordinate, rows, intervals->count, intervals));
    } else if (done) {
        done = find_parts(layout, dim, fixed, &held, intervals);
    }
    weft_vec_free(&held);
    return done;
}

void weft_common_box(const weft_layout *from, const int64_t source[], const weft_layout *to, const int64_t target[], weft_box *box,
                     bool *out_of_memory)
{
    weft_box there;
    weft_layout_coordinate_box(from, source, box);
    weft_layout_coordinate_box(to, target, &there);
    for (int d = 0; d < from->ndim; d++) {
        if (weft_layouts_number_alike(from, to, d)) {
            int64_t begin = weft_max_i64(box->offset[d], there.offset[d]);
            int64_t end = weft_min_i64(box->offset[d] + box->extent[d], there.offset[d] + there.extent[d]);
            box->offset[d] = begin;
            box->extent[d] = weft_max_i64(0, end - begin);
            continue;
        }
        weft_vec held = { 0 };
        int64_t rows = weft_layout_runs(to, target, d, &held) ? count_common(from, d, source, &held) : -1;
        weft_vec_free(&held);
        box->offset[d] = 0;
        box->extent[d] = weft_max_i64(0, rows);
        *out_of_memory = *out_of_memory || rows < 0;
    }
}
