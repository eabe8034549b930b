#include "plan_reference.h"

#include <stdlib.h>
#include <string.h>

role role_of(const weft_stage *stage, int m)
{
    switch (stage->from->placements[m].kind) {
    case WEFT_REPLICATE:
        return REPLICATES;
    case WEFT_SHARD:
        return SHARDS;
    default:
        return stage->from->mesh == stage->to->mesh && stage->to->placements[m].kind == WEFT_PARTIAL
                   ? KEEPS
                   : REDUCES;
    }
}

/* Whether two places of the source mesh hold the same: they differ along replicating dimensions only. */
static bool same_values(const weft_stage *stage, const int64_t a[], const int64_t b[])
{
    for (int m = 0; m < stage->from->mesh->ndim; m++) {
        if (role_of(stage, m) != REPLICATES && a[m] != b[m]) {
            return false;
        }
    }
    return true;
}

/* The replica at the target's own place: its own coordinates, or on another mesh replicas in turns. */
static int aligned_replica(const weft_stage *stage, int64_t target_index, const int64_t like[])
{
    const weft_mesh_impl *mesh = stage->from->mesh;
    int64_t own[WEFT_MAX_DIMS], place[WEFT_MAX_DIMS];
    bool same_mesh = mesh == stage->to->mesh;
    if (same_mesh) {
        weft_mesh_unravel(mesh, target_index, own);
    }
    int64_t turn = target_index;
    for (int m = mesh->ndim - 1; m >= 0; m--) {
        place[m] = like[m];
        if (role_of(stage, m) == REPLICATES) {
            place[m] = same_mesh ? own[m] : turn % mesh->shape[m];
            turn /= mesh->shape[m];
        }
    }
    return weft_mesh_rank_at(mesh, weft_mesh_ravel(mesh, place));
}

/* The rank that sends `target` the part at mesh index `like` of the source mesh. */
static int serving_rank(const weft_stage *stage, const weft_topology *topology, int target,
                        const int64_t like[])
{
    const weft_mesh_impl *mesh = stage->from->mesh;
    int process = weft_topology_process_of(topology, target);
    int hosted = -1;
    for (int rank = 0; rank < topology->num_ranks; rank++) {
        int64_t index = weft_mesh_index_of(mesh, rank), coordinate[WEFT_MAX_DIMS];
        if (index < 0) {
            continue;
        }
        weft_mesh_unravel(mesh, index, coordinate);
        if (!same_values(stage, coordinate, like)) {
            continue;
        }
        if (rank == target) {
            return rank;
        }
        if (hosted < 0 && weft_topology_process_of(topology, rank) == process) {
            hosted = rank;
        }
    }
    int aligned = aligned_replica(stage, weft_mesh_index_of(stage->to->mesh, target), like);
    bool near = weft_topology_process_of(topology, aligned) == process;
    return near || hosted < 0 ? aligned : hosted;
}

static int by_content(const void *a, const void *b)
{
    const transfer *p = a, *q = b;
    if (p->source != q->source || p->target != q->target) {
        return p->source != q->source ? p->source - q->source : p->target - q->target;
    }
    if (p->forwarded != q->forwarded) {
        return p->forwarded ? 1 : -1;
    }
    int order = memcmp(p->box.offset, q->box.offset, sizeof(p->box.offset));
    return order != 0 ? order : memcmp(p->box.extent, q->box.extent, sizeof(p->box.extent));
}

void add_transfer(weft_vec *transfers, int ndim, int source, int target, bool forwarded, const weft_box *box)
{
    transfer *t = weft_vec_push(transfers, sizeof(*t));
    assert_non_null(t);
    t->source = source;
    t->target = target;
    t->forwarded = forwarded;
    memcpy(t->box.offset, box->offset, (size_t)ndim * sizeof(int64_t));
    memcpy(t->box.extent, box->extent, (size_t)ndim * sizeof(int64_t));
}

void add_expected(weft_vec *expected, const weft_stage *stage, const weft_topology *topology, int target)
{
    const weft_layout *from = stage->from, *to = stage->to;
    int64_t target_index = weft_mesh_index_of(to->mesh, target), place[WEFT_MAX_DIMS];
    if (target_index < 0) {
        return;
    }
    weft_box box = reference_box(to, target_index);
    if (weft_box_count(to->ndim, &box) == 0) {
        return;
    }
    weft_mesh_unravel(to->mesh, target_index, place);
    for (int64_t index = 0; index < from->mesh->num_ranks; index++) {
        int64_t coordinate[WEFT_MAX_DIMS];
        weft_mesh_unravel(from->mesh, index, coordinate);
        bool counts = true;
        for (int m = 0; m < from->mesh->ndim; m++) {
            role r = role_of(stage, m);
            counts = counts && (r != REPLICATES || coordinate[m] == 0) &&
                     (r != KEEPS || coordinate[m] == place[m]);
        }
        weft_box source = reference_box(from, index), common;
        if (counts && weft_box_count(from->ndim, &source) > 0 &&
            weft_box_intersect(from->ndim, &box, &source, &common)) {
            add_transfer(expected, from->ndim, serving_rank(stage, topology, target, coordinate), target,
                         false, &common);
        }
    }
}

void assert_same_transfers(weft_vec *expected, weft_vec *found, const char *what)
{
    if (expected->count != found->count) {
        fail_msg("%s: %zu instead of %zu", what, found->count, expected->count);
    }
    if (expected->count == 0) {
        return;
    }
    qsort(expected->items, expected->count, sizeof(transfer), by_content);
    qsort(found->items, found->count, sizeof(transfer), by_content);
    for (size_t i = 0; i < expected->count; i++) {
        const transfer *p = (transfer *)expected->items + i, *q = (transfer *)found->items + i;
        if (by_content(p, q) != 0) {
            fail_msg("%s: expected %d to %d, found %d to %d (or other boxes)", what, p->source, p->target,
                     q->source, q->target);
        }
    }
}
