#include "plan/ghosts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t weft_ghosts_digest(int ndim, const weft_ghosts *ghosts)
{
    uint64_t digest = ghosts->star;
    for (int d = 0; d < ndim; d++) {
        digest = weft_digest_add(digest, (uint64_t)ghosts->before[d]);
        digest = weft_digest_add(digest, (uint64_t)ghosts->after[d]);
        digest = weft_digest_add(digest, ghosts->periodic[d]);
    }
    return digest;
}

/* ---- layouts ------------------------------------------------------------------------------------------- */

/* The mesh dimension of more than one rank that cuts a tensor dimension; -1: none. */
static int cut_by(const weft_layout *layout, int dim)
{
    int found = -1;
    for (int m = 0; m < layout->mesh->ndim; m++) {
        found = weft_layout_shards(layout, m, dim) && layout->mesh->shape[m] > 1 ? m : found;
    }
    return found;
}

static weft_status check_cuts(const weft_layout *layout, char *why, size_t why_size)
{
    int cuts[WEFT_MAX_DIMS] = { 0 };
    for (int m = 0; m < layout->mesh->ndim; m++) {
        const weft_placement *p = &layout->placements[m];
        if (p->kind == WEFT_PARTIAL) {
            snprintf(why, why_size, "placements[%d] is Partial, and ghosted arrays hold values, not addends", m);
            return WEFT_ERR_LAYOUT;
        }
        if (p->kind != WEFT_SHARD || layout->mesh->shape[m] == 1) {
            continue;
        }
        if (weft_cut_has_runs(*p)) {
            snprintf(why, why_size, "placements[%d] deals rows out, and a ghosted array holds consecutive ones", m);
            return WEFT_ERR_LAYOUT;
        }
        if (++cuts[p->dim] > 1) {
            snprintf(why, why_size, "placements[%d] cuts dimension %d again, and ghosts allow one cut of each", m, p->dim);
            return WEFT_ERR_LAYOUT;
        }
    }
    return WEFT_OK;
}

/* Elements of all parts together along a dimension, margins included. False: too many for 64 bits. */
static bool padded_size(const weft_layout *layout, const weft_ghosts *ghosts, int dim, int64_t *size)
{
    int64_t margins, all;
    return weft_add_checked(ghosts->before[dim], ghosts->after[dim], &margins) &&
           weft_mul_checked(margins, weft_layout_parts(layout, dim), &all) &&
           weft_add_checked(layout->shape[dim], all, size);
}

weft_status weft_ghosts_check(const weft_layout *layout, const weft_ghosts *ghosts, char *why, size_t why_size)
{
    int64_t shape[WEFT_MAX_DIMS];
    weft_status status = check_cuts(layout, why, why_size);
    for (int d = 0; d < layout->ndim && status == WEFT_OK; d++) {
        if (ghosts->before[d] < 0 || ghosts->after[d] < 0) {
            bool first = ghosts->before[d] < 0;
            snprintf(why, why_size, "%s[%d] is %lld, expected at least 0", first ? "before" : "after", d,
                     (long long)(first ? ghosts->before[d] : ghosts->after[d]));
            return WEFT_ERR_INVALID;
        }
        if (!padded_size(layout, ghosts, d, &shape[d])) {
            snprintf(why, why_size, "before[%d] and after[%d] make the arrays too large", d, d);
            return WEFT_ERR_SHAPE;
        }
    }
    return status != WEFT_OK ? status : weft_shape_check(layout->ndim, shape, why, why_size);
}

/* The rows of the part at a coordinate along the mesh dimension that cuts dimension `dim`. */
static void part_of(const weft_layout *layout, int dim, int64_t part, int64_t *begin, int64_t *count)
{
    int64_t coordinate[WEFT_MAX_DIMS] = { 0 };
    int m = cut_by(layout, dim);
    if (m >= 0) {
        coordinate[m] = part;
    }
    weft_box box;
    weft_layout_coordinate_box(layout, coordinate, &box);
    *begin = box.offset[dim];
    *count = box.extent[dim];
}

/* The cut of the arrays along a dimension, and its size. False: no memory. */
static bool pad_dimension(const weft_layout *layout, const weft_ghosts *ghosts, int dim, int64_t *size, weft_placement placements[])
{
    const int m = cut_by(layout, dim);
    const int64_t parts = m < 0 ? 1 : layout->mesh->shape[m];
    int64_t *sizes = malloc((size_t)parts * sizeof(*sizes)), begin;
    if (sizes == NULL) {
        return false;
    }
    *size = 0;
    for (int64_t p = 0; p < parts; p++) {
        part_of(layout, dim, p, &begin, &sizes[p]);
        sizes[p] += sizes[p] == 0 ? 0 : ghosts->before[dim] + ghosts->after[dim];
        *size += sizes[p];
    }
    bool done = true;
    if (m >= 0) {
        placements[m] = (weft_placement){ .kind = WEFT_SHARD, .dim = dim, .cut = WEFT_CUT_SIZES };
        placements[m].sizes = weft_sizes_intern(parts, sizes);
        done = placements[m].sizes != NULL;
    }
    free(sizes);
    return done;
}

const weft_layout *weft_ghosts_padded(weft_layout_table *table, const weft_layout *layout, const weft_ghosts *ghosts, bool apart)
{
    int64_t shape[WEFT_MAX_DIMS];
    weft_placement placements[WEFT_MAX_DIMS];
    memcpy(placements, layout->placements, (size_t)layout->mesh->ndim * sizeof(placements[0]));
    for (int d = 0; d < layout->ndim; d++) {
        if (!pad_dimension(layout, ghosts, d, &shape[d], placements)) {
            return NULL;
        }
    }
    const weft_margins margins = { apart ? ghosts->before[0] : 0, apart ? ghosts->after[0] : 0, layout->panel_rows,
                                   ghosts->periodic[0] };
    return weft_layout_intern_margins(table, layout->mesh, placements, layout->ndim, shape, layout->dtype, &margins);
}

void weft_ghosts_map(const weft_layout *layout, const weft_ghosts *ghosts, weft_access_map *map)
{
    *map = (weft_access_map){ .cut = layout };
    for (int d = 0; d < layout->ndim; d++) {
        map->has[d] = true;
        map->of[d] = (weft_window){ .size = layout->shape[d],
                                    .times = 1,
                                    .over = 1,
                                    .before = ghosts->before[d],
                                    .after = ghosts->after[d],
                                    .periodic = 1 }; /* not clipped */
    }
}

/* ---- moves --------------------------------------------------------------------------------------------- */

/* Along one dimension: indices that the array of one part holds, and the part that has them. */
typedef struct segment {
    int64_t source, target;    /* parts */
    int64_t first, to, count;  /* indices of the tensor; `to`: where they lie if the target's go on beyond its borders */
    bool own;                  /* the target's own part, not its margin */
} segment;

/* The indices [first, last) of the tensor that part `source` has, which lie at first + shift in the target's array. */
static bool add_overlap(const weft_layout *layout, int dim, int64_t source, int64_t target, int64_t first, int64_t last,
                        int64_t shift, weft_vec *segments)
{
    int64_t begin, count;
    part_of(layout, dim, source, &begin, &count);
    first = weft_max_i64(first, begin);
    last = weft_min_i64(last, begin + count);
    if (first >= last) {
        return true;
    }
    segment *added = weft_vec_push(segments, sizeof(*added));
    if (added != NULL) {
        *added = (segment){ source, target, first, first + shift, last - first, source == target && shift == 0 };
    }
    return added != NULL;
}

/* Finds the indices of part `source` (negative: of all parts) in the array of part `target`. A periodic dimension is a row of images of the
 * tensor. */
static bool find_segments(const weft_layout *layout, const weft_ghosts *ghosts, int dim, int64_t target, int64_t source,
                          weft_vec *segments)
{
    const int64_t n = layout->shape[dim], parts = weft_layout_parts(layout, dim);
    int64_t begin, count;
    part_of(layout, dim, target, &begin, &count);
    if (count == 0) {
        return true;
    }
    const int64_t low = begin - ghosts->before[dim], high = begin + count + ghosts->after[dim];
    const bool periodic = ghosts->periodic[dim];
    const int64_t first_image = periodic ? weft_floor_div_i64(low, n) : 0, last_image = periodic ? weft_floor_div_i64(high - 1, n) : 0;
    bool done = true;
    for (int64_t image = first_image; image <= last_image; image++) {
        int64_t shift = image * n, first = weft_max_i64(low, shift) - shift, last = weft_min_i64(high, shift + n) - shift;
        for (int64_t p = weft_max_i64(source, 0); p < (source < 0 ? parts : source + 1) && done; p++) {
            done = add_overlap(layout, dim, p, target, first, last, shift, segments);
        }
    }
    return done;
}

/* The moves of one rank under construction: a product of segments, one for each dimension. */
typedef struct product {
    const weft_layout *layout, *padded;
    const weft_ghosts *ghosts;
    int rank;
    bool receives;
    weft_vec dims[WEFT_MAX_DIMS]; /* segment */
    const segment *chosen[WEFT_MAX_DIMS];
    weft_vec *moves;
} product;

/* The rank that has, or gets, the chosen segments; along other mesh dimensions it lies where the product's rank does. */
static int rank_with(const product *p, bool of_sources)
{
    const weft_mesh_impl *mesh = p->layout->mesh;
    int64_t coordinate[WEFT_MAX_DIMS];
    weft_mesh_unravel(mesh, weft_mesh_index_of(mesh, p->rank), coordinate);
    for (int d = 0; d < p->layout->ndim; d++) {
        int m = cut_by(p->layout, d);
        if (m >= 0) {
            coordinate[m] = of_sources ? p->chosen[d]->source : p->chosen[d]->target;
        }
    }
    int64_t index = weft_mesh_ravel(mesh, coordinate);
    return mesh->ranks == NULL ? (int)index : mesh->ranks[index];
}

/* Where an index of the tensor that is inside of a rank's part, or in its margin, lies in the array. */
static int64_t place_in_array(const product *p, int rank, int dim, int64_t index)
{
    weft_box own, array;
    weft_layout_shard_box(p->layout, rank, &own);
    weft_layout_shard_box(p->padded, rank, &array);
    return array.offset[dim] + p->ghosts->before[dim] + index - own.offset[dim];
}

static bool add_move(const product *p)
{
    int margins = 0;
    for (int d = 0; d < p->layout->ndim; d++) {
        margins += !p->chosen[d]->own;
    }
    if (margins == 0 || (p->ghosts->star && margins > 1)) {
        return true;
    }
    weft_ghost_move *move = weft_vec_push(p->moves, sizeof(*move));
    if (move == NULL) {
        return false;
    }
    *move = (weft_ghost_move){ .source = rank_with(p, true), .target = rank_with(p, false) };
    for (int d = 0; d < p->layout->ndim; d++) {
        move->box.offset[d] = place_in_array(p, move->source, d, p->chosen[d]->first);
        move->box.extent[d] = p->chosen[d]->count;
        move->to[d] = place_in_array(p, move->target, d, p->chosen[d]->to);
    }
    return true;
}

static bool choose_segments(product *p, int dim)
{
    if (dim == p->layout->ndim) {
        return add_move(p);
    }
    bool done = true;
    for (size_t i = 0; i < p->dims[dim].count && done; i++) {
        p->chosen[dim] = (const segment *)p->dims[dim].items + i;
        done = choose_segments(p, dim + 1);
    }
    return done;
}

/* The segments of a dimension in which the rank takes part. */
static bool find_dimension(product *p, int dim, const int64_t coordinate[])
{
    const int m = cut_by(p->layout, dim);
    const int64_t own = m < 0 ? 0 : coordinate[m], parts = weft_layout_parts(p->layout, dim);
    if (p->receives) {
        return find_segments(p->layout, p->ghosts, dim, own, -1, &p->dims[dim]);
    }
    bool done = true;
    for (int64_t target = 0; target < parts && done; target++) {
        done = find_segments(p->layout, p->ghosts, dim, target, own, &p->dims[dim]);
    }
    return done;
}

static int by_ends(const void *a, const void *b)
{
    const weft_ghost_move *x = a, *y = b;
    int order = x->target != y->target ? (x->target < y->target ? -1 : 1) : 0;
    order = order != 0 || x->source == y->source ? order : (x->source < y->source ? -1 : 1);
    for (int d = 0; d < WEFT_MAX_DIMS && order == 0; d++) {
        order = x->to[d] == y->to[d] ? 0 : (x->to[d] < y->to[d] ? -1 : 1);
    }
    return order;
}

static void sort(weft_vec *moves)
{
    if (moves->count > 0) {
        qsort(moves->items, moves->count, sizeof(weft_ghost_move), by_ends);
    }
}

bool weft_ghosts_fill(const weft_layout *layout, const weft_layout *padded, const weft_ghosts *ghosts, int rank,
                      bool receives, weft_vec *moves)
{
    const int64_t index = weft_mesh_index_of(layout->mesh, rank);
    if (index < 0) {
        return true;
    }
    int64_t coordinate[WEFT_MAX_DIMS];
    weft_mesh_unravel(layout->mesh, index, coordinate);
    product p = { .layout = layout, .padded = padded, .ghosts = ghosts, .rank = rank, .receives = receives, .moves = moves };
    bool done = true;
    for (int d = 0; d < layout->ndim && done; d++) {
        done = find_dimension(&p, d, coordinate);
    }
    done = done && choose_segments(&p, 0);
    for (int d = 0; d < layout->ndim; d++) {
        weft_vec_free(&p.dims[d]);
    }
    sort(moves);
    return done;
}

bool weft_ghosts_inside(const weft_layout *layout, const weft_layout *padded, const weft_ghosts *ghosts, int rank,
                        bool into_array, weft_ghost_move *move)
{
    weft_box own, array;
    *move = (weft_ghost_move){ .source = rank, .target = rank };
    bool inside = weft_layout_shard_box(layout, rank, &own) && weft_box_count(layout->ndim, &own) > 0;
    for (int d = 0; d < layout->ndim && inside; d++) {
        weft_layout_shard_box(padded, rank, &array);
        int64_t there = array.offset[d] + ghosts->before[d];
        move->box.offset[d] = into_array ? own.offset[d] : there;
        move->box.extent[d] = own.extent[d];
        move->to[d] = into_array ? there : own.offset[d];
    }
    return inside;
}
