#include "plan/common_parts.h"

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

/* The next coordinate along the mesh dimensions that cut the dimension, the last one fastest. False: there is none. */
static bool next_part(const weft_layout *layout, int dim, const weft_fixed *fixed, int64_t coordinate[])
{
    for (int m = layout->mesh->ndim - 1; m >= 0; m--) {
        if (!weft_layout_shards(layout, m, dim) || fixed->coordinate[m] >= 0) {
            continue;
        }
        if (++coordinate[m] < layout->mesh->shape[m]) {
            return true;
        }
        coordinate[m] = 0;
    }
    return false;
}

bool weft_common_parts(const weft_layout *layout, int dim, const weft_fixed *fixed, const weft_layout *other,
                       const int64_t other_coordinate[], weft_vec *intervals)
{
    weft_vec held = { 0 };
    int64_t coordinate[WEFT_MAX_DIMS] = { 0 };
    for (int m = 0; m < layout->mesh->ndim; m++) {
        coordinate[m] = weft_layout_shards(layout, m, dim) ? weft_max_i64(0, fixed->coordinate[m]) : 0;
    }
    bool done = weft_layout_runs(other, other_coordinate, dim, &held);
    do {
        int64_t rows = done ? count_common(layout, dim, coordinate, &held) : -1;
        weft_shard_interval *interval = rows > 0 ? weft_vec_push(intervals, sizeof(*interval)) : NULL;
        if (interval != NULL) {
            *interval = (weft_shard_interval){ 0, rows, weft_mesh_ravel(layout->mesh, coordinate) };
        }
        done = rows == 0 || interval != NULL;
    } while (done && next_part(layout, dim, fixed, coordinate));
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
