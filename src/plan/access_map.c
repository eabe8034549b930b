#include "plan/access_map.h"

#include <string.h>

static int64_t ceil_div(int64_t a, int64_t b)
{
    return -weft_floor_div_i64(-a, b);
}

void weft_window_range(const weft_window *w, int64_t first, int64_t extent, int64_t *begin, int64_t *end)
{
    *begin = *end = w->size;
    if (extent == 0) {
        return;
    }
    int64_t last = first + extent - 1;
    int64_t least = (w->times > 0 ? first : last) * w->times, most = (w->times > 0 ? last : first) * w->times;
    int64_t low = ceil_div(least - w->before, w->over);
    int64_t high = weft_floor_div_i64(most + w->after, w->over) + 1;
    low = w->periodic ? low : weft_max_i64(low, 0);
    high = w->periodic ? high : weft_min_i64(high, w->size);
    if (low < high && w->size > 0) {
        *begin = low;
        *end = high;
    }
}

bool weft_access_map_make(weft_layout_table *table, const weft_layout *from, const int64_t rows[],
                          const weft_window of[], const weft_placement cuts[], weft_access_map *access_map)
{
    int64_t shape[WEFT_MAX_DIMS];
    weft_placement placements[WEFT_MAX_DIMS];
    bool any = false;
    for (int m = 0; m < from->mesh->ndim; m++) {
        placements[m] = from->placements[m];
        if (cuts != NULL && placements[m].kind == WEFT_SHARD) {
            placements[m].cut = cuts[m].cut;
            placements[m].sizes = cuts[m].sizes;
            placements[m].block = cuts[m].block;
            placements[m].level = cuts[m].level;
        }
    }
    *access_map = (weft_access_map){ .cut = NULL };
    for (int d = 0; d < from->ndim; d++) {
        shape[d] = from->shape[d];
        if (rows[d] >= 0 && (of[d].periodic || weft_layout_parts(from, d) > 1)) {
            any = access_map->has[d] = true;
            access_map->of[d] = of[d];
            access_map->of[d].size = shape[d];
            shape[d] = rows[d];
        }
    }
    if (any) {
        access_map->cut =
            weft_layout_intern(table, from->mesh, placements, from->ndim, shape, from->dtype);
    }
    return !any || access_map->cut != NULL;
}

bool weft_access_map_equal(const weft_access_map *a, const weft_access_map *b)
{
    return a->cut == b->cut && a->placed == b->placed && memcmp(a->has, b->has, sizeof(a->has)) == 0 &&
           memcmp(a->of, b->of, sizeof(a->of)) == 0 && memcmp(a->turn, b->turn, sizeof(a->turn)) == 0 &&
           memcmp(a->image, b->image, sizeof(a->image)) == 0;
}

bool weft_access_map_consecutive(const weft_access_map *access_map)
{
    bool consecutive = true;
    for (int d = 0; d < access_map->cut->ndim; d++) {
        const weft_window *w = &access_map->of[d];
        consecutive &= !access_map->has[d] || (w->times == 1 && w->over == 1 && w->before == -w->after && !w->periodic);
    }
    return consecutive;
}

int64_t weft_access_map_largest(const weft_access_map *access_map, int dim)
{
    const weft_window *w = &access_map->of[dim];
    const weft_layout *cut = access_map->cut;
    int64_t rows = cut->shape[dim];
    for (int i = 0; i < cut->mesh->ndim; i++) {
        int m = cut->order[i];
        if (weft_layout_shards(cut, m, dim)) {
            weft_part_largest(cut->placements[m], rows, cut->mesh->shape[m], &rows);
        }
    }
    int64_t step = w->times > 0 ? w->times : -w->times;
    int64_t most = rows == 0 ? 0 : weft_floor_div_i64((rows - 1) * step + w->before + w->after, w->over) + 1;
    return w->size == 0 ? 0 : weft_max_i64(0, w->periodic ? most : weft_min_i64(most, w->size));
}

void weft_access_map_shape(const weft_access_map *access_map, const weft_layout *from, int64_t shape[])
{
    for (int d = 0; d < from->ndim; d++) {
        shape[d] = access_map->has[d] ? weft_access_map_largest(access_map, d) : from->shape[d];
        if (access_map->has[d] && !weft_mul_checked(shape[d], weft_layout_parts(from, d), &shape[d])) {
            shape[d] = INT64_MAX;
        }
    }
}

/* The source indices that the part at a coordinate of `cut` reads. */
static void part_box(const weft_access_map *access_map, const int64_t coordinate[], weft_box *box)
{
    weft_layout_coordinate_box(access_map->cut, coordinate, box);
    for (int d = 0; d < access_map->cut->ndim; d++) {
        if (access_map->has[d]) {
            int64_t begin, end;
            weft_window_range(&access_map->of[d], box->offset[d], box->extent[d], &begin, &end);
            box->offset[d] = begin;
            box->extent[d] = end - begin;
        }
    }
}

void weft_access_map_box(const weft_access_map *access_map, const int64_t coordinate[], weft_box *box)
{
    const weft_mesh_impl *mesh = access_map->cut->mesh;
    int64_t turned[WEFT_MAX_DIMS];
    for (int m = 0; m < mesh->ndim; m++) {
        turned[m] = (coordinate[m] + access_map->turn[m]) % mesh->shape[m];
    }
    part_box(access_map, turned, box);
}

void weft_access_map_rank_box(const weft_access_map *access_map, int rank, weft_box *box)
{
    const weft_mesh_impl *mesh = access_map->cut->mesh;
    int64_t coordinate[WEFT_MAX_DIMS];
    weft_mesh_unravel(mesh, weft_mesh_index_of(mesh, rank), coordinate);
    weft_access_map_box(access_map, coordinate, box);
}

/* The position of the rank that receives for the part at a coordinate of dimension `dim`; moves the
 * coordinate there. */
static int64_t turned_back(const weft_access_map *access_map, int dim, int64_t coordinate[])
{
    const weft_layout *cut = access_map->cut;
    for (int m = 0; m < cut->mesh->ndim; m++) {
        if (weft_layout_shards(cut, m, dim)) {
            int64_t n = cut->mesh->shape[m];
            coordinate[m] = (coordinate[m] + n - access_map->turn[m]) % n;
        }
    }
    return weft_mesh_ravel(cut->mesh, coordinate);
}

/* ---- images --------------------------------------------------------------------------------------------- */

/* The images of a periodic dimension that its rows read, [*first, *end). */
static void images_of(const weft_access_map *access_map, int dim, int64_t *first, int64_t *end)
{
    const weft_window *w = &access_map->of[dim];
    int64_t low = 0, high = 0;
    if (access_map->has[dim] && w->periodic) {
        weft_window_range(w, 0, access_map->cut->shape[dim], &low, &high);
    }
    bool any = low < high;
    *first = any ? weft_floor_div_i64(low, w->size) : 0;
    *end = any ? weft_floor_div_i64(high - 1, w->size) + 1 : 1;
}

void weft_access_map_first_image(weft_access_map *access_map)
{
    for (int d = 0; d < access_map->cut->ndim; d++) {
        int64_t end;
        images_of(access_map, d, &access_map->image[d], &end);
    }
}

bool weft_access_map_next_image(weft_access_map *access_map)
{
    for (int d = access_map->cut->ndim - 1; d >= 0; d--) {
        int64_t first, end;
        images_of(access_map, d, &first, &end);
        if (++access_map->image[d] < end) {
            return true;
        }
        access_map->image[d] = first;
    }
    return false;
}

/* An index of the image minus the index of the source that it shows. */
static int64_t image_shift(const weft_access_map *access_map, int dim)
{
    return access_map->has[dim] ? access_map->image[dim] * access_map->of[dim].size : 0;
}

/* The part of a rank's box that lies in the map's image, as indices of the source; if empty, at the end. */
static void clip_to_image(const weft_access_map *access_map, weft_box *box)
{
    for (int d = 0; d < access_map->cut->ndim; d++) {
        if (access_map->has[d] && access_map->of[d].periodic) {
            int64_t size = access_map->of[d].size, begin = box->offset[d] - image_shift(access_map, d);
            int64_t end = weft_min_i64(begin + box->extent[d], size);
            begin = weft_max_i64(begin, 0);
            box->offset[d] = begin < end ? begin : size;
            box->extent[d] = begin < end ? end - begin : 0;
        }
    }
}

void weft_stage_wanted(const weft_stage *stage, const int64_t coordinate[], weft_box *box)
{
    if (stage->access_map == NULL) {
        weft_layout_coordinate_box(stage->to, coordinate, box);
    } else {
        weft_access_map_box(stage->access_map, coordinate, box);
        clip_to_image(stage->access_map, box);
    }
}

void weft_stage_shift(const weft_stage *stage, int rank, int64_t shift[])
{
    for (int d = 0; d < stage->to->ndim; d++) {
        shift[d] = 0;
    }
    if (stage->access_map == NULL) {
        return;
    }
    if (stage->access_map->placed) {
        for (int d = 0; d < stage->to->ndim; d++) {
            shift[d] = stage->access_map->has[d] ? stage->access_map->of[d].before : 0;
        }
        return;
    }
    weft_box there, wanted;
    int64_t coordinate[WEFT_MAX_DIMS];
    weft_mesh_unravel(stage->to->mesh, weft_mesh_index_of(stage->to->mesh, rank), coordinate);
    weft_layout_coordinate_box(stage->to, coordinate, &there);
    weft_access_map_box(stage->access_map, coordinate, &wanted);
    for (int d = 0; d < stage->to->ndim; d++) {
        shift[d] = stage->access_map->has[d] ? there.offset[d] - wanted.offset[d] + image_shift(stage->access_map, d) : 0;
    }
}

/* A range [*low, *high) of rows of `cut` that includes some row of every part that reads an index in
 * [begin, end). A part does if its first row's range begins before `end` and its last row's range ends
 * after `begin`. If ranges of consecutive rows leave gaps, the last row of the first kind may come before
 * the first row of the second. */
static void candidates(const weft_window *w, int64_t rows, int64_t begin, int64_t end, int64_t *low,
                       int64_t *high)
{
    if (w->times < 0) { /* mirrored about 0 */
        weft_window mirrored = { w->size, -w->times, w->over, w->after, w->before, w->periodic };
        candidates(&mirrored, rows, 1 - end, 1 - begin, low, high);
        return;
    }
    int64_t last = weft_floor_div_i64((end - 1) * w->over + w->before, w->times);
    int64_t first = ceil_div(begin * w->over - w->after, w->times);
    *low = weft_max_i64(0, weft_min_i64(first, last));
    *high = weft_min_i64(rows, weft_max_i64(first, last) + 1);
}

bool weft_access_map_intervals(const weft_access_map *access_map, int dim, int64_t begin, int64_t end,
                               const weft_fixed *fixed, weft_vec *intervals)
{
    const weft_layout *cut = access_map->cut;
    int64_t low, high, image = image_shift(access_map, dim);
    begin += image;
    end += image;
    candidates(&access_map->of[dim], cut->shape[dim], begin, end, &low, &high);
    weft_vec parts = { 0 };
    bool done = low >= high || weft_shard_intervals(cut, dim, low, high, fixed, &parts);
    for (size_t i = 0; done && i < parts.count; i++) {
        int64_t index = ((const weft_shard_interval *)parts.items)[i].index, coordinate[WEFT_MAX_DIMS];
        weft_box box;
        weft_mesh_unravel(cut->mesh, index, coordinate);
        part_box(access_map, coordinate, &box);
        int64_t first = weft_max_i64(begin, box.offset[dim]);
        int64_t last = weft_min_i64(end, box.offset[dim] + box.extent[dim]);
        weft_shard_interval *interval = first < last ? weft_vec_push(intervals, sizeof(*interval)) : NULL;
        if (interval != NULL) {
            *interval = (weft_shard_interval){ first - image, last - image, turned_back(access_map, dim, coordinate) };
        }
        done = interval != NULL || first >= last;
    }
    weft_vec_free(&parts);
    return done;
}
