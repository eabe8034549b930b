#include "plan/boxes.h"

#include <stdlib.h>
#include <string.h>

bool weft_box_is_empty(int ndim, const weft_box *box)
{
    bool empty = false;
    for (int d = 0; d < ndim; d++) {
        empty = empty || box->extent[d] == 0;
    }
    return empty;
}

/* ---- memory of one box --------------------------------------------------------------------------------- */

bool weft_strides_are_row_major(int ndim, const int64_t extent[], const int64_t strides[])
{
    int64_t expected = 1;
    bool row_major = true;
    for (int d = ndim - 1; d >= 0; d--) {
        row_major &= extent[d] == 1 || strides[d] == expected;
        expected *= extent[d];
    }
    return row_major || expected == 0;
}

/* The next dimension of more than one index by stride, after `last` (stride, then dimension); -1: none. */
static int next_by_stride(int ndim, const int64_t extent[], const int64_t strides[], int last)
{
    int next = -1;
    for (int d = 0; d < ndim; d++) {
        bool behind = last < 0 || strides[d] > strides[last] || (strides[d] == strides[last] && d > last);
        if (extent[d] > 1 && behind && (next < 0 || strides[d] < strides[next])) {
            next = d;
        }
    }
    return next;
}

int64_t weft_strides_span(int ndim, const int64_t extent[], const int64_t strides[], int *dim)
{
    int64_t span = 1;
    for (int d = 0; d < ndim; d++) {
        span = extent[d] == 0 ? 0 : span;
    }
    for (int d = next_by_stride(ndim, extent, strides, -1); d >= 0 && span > 0;
         d = next_by_stride(ndim, extent, strides, d)) {
        int64_t steps = weft_mul_saturated(extent[d] - 1, weft_max_i64(0, strides[d]));
        *dim = d;
        if (strides[d] < span || steps >= INT64_MAX / 64) {
            return -1;
        }
        span = weft_add_saturated(span, steps);
    }
    return span;
}

int weft_strides_slowest(int ndim, const int64_t extent[], const int64_t strides[])
{
    int slowest = -1;
    for (int d = 0; d < ndim; d++) {
        if (extent[d] > 1 && (slowest < 0 || strides[d] > strides[slowest])) {
            slowest = d;
        }
    }
    return slowest < 0 ? 0 : slowest;
}

/* Few chunks, and none small: each is a StarPU handle, and tasks on one chunk wait for each other. */
int64_t weft_box_chunk(const weft_owned_box *owned, int ndim, size_t element_size)
{
    enum { MOST_CHUNKS = 16, LEAST_BYTES = 1 << 18 };
    if (ndim == 0) {
        return 1;
    }
    int64_t extent = weft_max_i64(1, owned->box.extent[owned->slowest]);
    int64_t bytes = weft_box_count(ndim, &owned->box) / extent * (int64_t)element_size;
    int64_t least = weft_ceil_div(LEAST_BYTES, weft_max_i64(1, bytes));
    return weft_max_i64(least, weft_ceil_div(extent, MOST_CHUNKS));
}

/* ---- coverage ------------------------------------------------------------------------------------------ */

/* The region is halved at borders of boxes until at most one box is in it, or all boxes in it fill it. */
typedef struct coverage {
    const weft_box_set *set;
    weft_box_fault fault;
} coverage;

static int compare_numbers(const void *a, const void *b)
{
    return weft_compare_i64(*(const int64_t *)a, *(const int64_t *)b);
}

/* The borders of the boxes along a dimension, strictly inside the region. */
static int64_t borders_inside(const coverage *c, const weft_box *region, int64_t count, const int64_t members[], int dim,
                              int64_t borders[])
{
    int64_t begin = region->offset[dim], end = begin + region->extent[dim], num = 0;
    for (int64_t i = 0; i < count; i++) {
        const weft_box *box = &c->set->boxes[members[i]].box;
        int64_t ends[] = { box->offset[dim], box->offset[dim] + box->extent[dim] };
        for (int k = 0; k < 2; k++) {
            if (ends[k] > begin && ends[k] < end) {
                borders[num++] = ends[k];
            }
        }
    }
    return num;
}

/* How many boxes lie on both sides of a border. */
static int64_t boxes_across(const coverage *c, int64_t count, const int64_t members[], int dim, int64_t border)
{
    int64_t across = 0;
    for (int64_t i = 0; i < count; i++) {
        const weft_box *box = &c->set->boxes[members[i]].box;
        across += box->offset[dim] < border && box->offset[dim] + box->extent[dim] > border;
    }
    return across;
}

/* The median border of the dimension where it cuts the fewest boxes. False: no border is inside. */
static bool choose_border(const coverage *c, const weft_box *region, int64_t count, const int64_t members[],
                          int64_t borders[], int *dim, int64_t *border)
{
    int64_t fewest = INT64_MAX;
    for (int d = 0; d < c->set->ndim && fewest > 0; d++) {
        int64_t num = borders_inside(c, region, count, members, d, borders);
        if (num == 0) {
            continue;
        }
        qsort(borders, (size_t)num, sizeof(*borders), compare_numbers);
        int64_t across = boxes_across(c, count, members, d, borders[num / 2]);
        if (across < fewest) {
            fewest = across;
            *dim = d;
            *border = borders[num / 2];
        }
    }
    return fewest < INT64_MAX;
}

static bool examine(coverage *c, const weft_box *region, int64_t count, const int64_t members[]);

static bool examine_half(coverage *c, const weft_box *half, int64_t count, const int64_t members[], int64_t own[])
{
    int64_t num = 0;
    for (int64_t i = 0; i < count; i++) {
        weft_box part;
        if (weft_box_intersect(c->set->ndim, half, &c->set->boxes[members[i]].box, &part)) {
            own[num++] = members[i];
        }
    }
    return examine(c, half, num, own);
}

/* False: c->fault is set. */
static bool examine(coverage *c, const weft_box *region, int64_t count, const int64_t members[])
{
    if (count == 0) {
        c->fault = (weft_box_fault){ .kind = WEFT_BOXES_GAP, .where = *region };
        return false;
    }
    int64_t *room = malloc((size_t)count * 3 * sizeof(*room));
    if (room == NULL) {
        c->fault.kind = WEFT_BOXES_NOMEM;
        return false;
    }
    int dim = 0;
    int64_t border = 0;
    bool right;
    if (choose_border(c, region, count, members, room, &dim, &border)) {
        weft_box low = *region, high = *region;
        low.extent[dim] = border - region->offset[dim];
        high.offset[dim] = border;
        high.extent[dim] = region->extent[dim] - low.extent[dim];
        right = examine_half(c, &low, count, members, room) && examine_half(c, &high, count, members, room);
    } else {
        right = count == 1;
        if (!right) {
            c->fault = (weft_box_fault){ WEFT_BOXES_OVERLAP, *region, members[0], members[1] };
        }
    }
    free(room);
    return right;
}

weft_box_fault weft_box_set_check(const weft_box_set *set, const int64_t shape[])
{
    coverage c = { .set = set, .fault = { .kind = WEFT_BOXES_RIGHT } };
    weft_box whole = weft_box_whole(set->ndim, shape);
    if (weft_box_count(set->ndim, &whole) == 0) {
        return c.fault;
    }
    int64_t *members = malloc(((size_t)set->count + 1) * sizeof(*members)), count = 0;
    for (int64_t i = 0; i < set->count && members != NULL; i++) {
        if (weft_box_count(set->ndim, &set->boxes[i].box) > 0) {
            members[count++] = i;
        }
    }
    if (members == NULL) {
        c.fault.kind = WEFT_BOXES_NOMEM;
    } else {
        examine(&c, &whole, count, members);
    }
    free(members);
    return c.fault;
}

/* ---- transfers ----------------------------------------------------------------------------------------- */

/* Whether a rank's shard is held by others too. */
static bool is_replicated(const weft_layout *layout)
{
    bool replicated = false;
    for (int m = 0; m < layout->mesh->ndim; m++) {
        replicated = replicated || (layout->placements[m].kind != WEFT_SHARD && layout->mesh->shape[m] > 1);
    }
    return replicated;
}

int weft_box_own_shard(const weft_owned_box *owned, const weft_layout *layout, const weft_topology *topology)
{
    if (!owned->contiguous || weft_box_count(layout->ndim, &owned->box) == 0 || is_replicated(layout)) {
        return -1;
    }
    for (int64_t i = 0; i < layout->mesh->num_ranks; i++) {
        int rank = weft_mesh_rank_at(layout->mesh, i);
        weft_box shard;
        weft_layout_shard_box(layout, rank, &shard);
        if (weft_topology_process_of(topology, rank) == owned->process &&
            weft_box_equal(layout->ndim, &shard, &owned->box)) {
            return rank;
        }
    }
    return -1;
}

/* Whether the rank at `index` is the replica of its shard that a process reads: the first one at the process; else they
 * take turns. */
static bool is_chosen(const weft_layout *layout, const weft_topology *topology, int64_t index, int process)
{
    const weft_mesh_impl *mesh = layout->mesh;
    int64_t coordinate[WEFT_MAX_DIMS], replicas = 1;
    weft_mesh_unravel(mesh, index, coordinate);
    for (int m = 0; m < mesh->ndim; m++) {
        replicas *= layout->placements[m].kind == WEFT_SHARD ? 1 : mesh->shape[m];
    }
    int64_t chosen = -1;
    for (int64_t r = 0; r < replicas; r++) {
        int64_t rest = (r + process) % replicas;
        for (int m = mesh->ndim - 1; m >= 0; m--) {
            if (layout->placements[m].kind != WEFT_SHARD) {
                coordinate[m] = rest % mesh->shape[m];
                rest /= mesh->shape[m];
            }
        }
        int64_t other = weft_mesh_ravel(mesh, coordinate);
        if (weft_topology_process_of(topology, weft_mesh_rank_at(mesh, other)) == process) {
            return other == index;
        }
        chosen = r == 0 ? other : chosen;
    }
    return chosen == index;
}

static bool add_transfer(weft_vec *transfers, int64_t box, int rank, const weft_box *part)
{
    weft_box_transfer *transfer = weft_vec_push(transfers, sizeof(*transfer));
    if (transfer != NULL) {
        *transfer = (weft_box_transfer){ .box = box, .rank = rank };
        transfer->part = *part;
    }
    return transfer != NULL;
}

bool weft_box_transfers(const weft_box_set *set, const weft_layout *layout, const weft_topology *topology,
                        bool into_tensor, int process, weft_vec *transfers)
{
    const weft_mesh_impl *mesh = layout->mesh;
    bool done = true;
    for (int64_t i = 0; i < mesh->num_ranks && done; i++) {
        int rank = weft_mesh_rank_at(mesh, i);
        bool at_process = weft_topology_process_of(topology, rank) == process;
        weft_box shard;
        weft_layout_shard_box(layout, rank, &shard);
        for (int64_t b = 0; b < set->count && done; b++) {
            const weft_owned_box *owned = &set->boxes[b];
            weft_box part = { .offset = { 0 } };
            if ((at_process || owned->process == process) &&
                weft_box_intersect(layout->ndim, &shard, &owned->box, &part) &&
                (into_tensor || is_chosen(layout, topology, i, owned->process))) {
                done = add_transfer(transfers, b, rank, &part);
            }
        }
    }
    return done;
}
