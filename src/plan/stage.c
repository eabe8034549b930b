/* Who sends what to whom in one stage. Receives are found from the target's box, sends from the source's box; both decide
 * with the same function, choose(), which replica serves a target. */
#include <stdlib.h>

#include "plan/segments.h"

int weft_topology_process_of(const weft_topology *topology, int rank)
{
    if (topology->first_rank == NULL) {
        return rank;
    }
    int low = 0, high = topology->num_processes - 1;
    while (low < high) {
        int middle = low + (high - low + 1) / 2;
        if (topology->first_rank[middle] <= rank) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return low;
}

void weft_moves_free(weft_moves *moves)
{
    free(moves->items);
    *moves = (weft_moves){ 0 };
}

static bool moves_reserve(weft_moves *moves, size_t more)
{
    if (moves->count + more <= moves->capacity) {
        return true;
    }
    weft_move *items = realloc(moves->items, (moves->count + more) * sizeof(*items));
    if (items == NULL) {
        return false;
    }
    moves->items = items;
    moves->capacity = moves->count + more;
    return true;
}

/* ---- the roles of the source's mesh dimensions ---------------------------------------------------------------- */

typedef struct roles {
    const weft_stage *stage;
    const weft_topology *topology;
    bool same_mesh;
    int64_t stride[WEFT_MAX_DIMS];     /* of the source mesh */
    bool replicates[WEFT_MAX_DIMS];    /* any coordinate has the values */
    bool reduces[WEFT_MAX_DIMS];       /* every coordinate has an addend */
    bool keeps[WEFT_MAX_DIMS];         /* Partial before and after: coordinates do not mix */
    int64_t num_replicas;
} roles;

static roles roles_of(const weft_stage *stage, const weft_topology *topology)
{
    const weft_layout *from = stage->from, *to = stage->to;
    roles r = { .stage = stage, .topology = topology, .same_mesh = from->mesh == to->mesh, .num_replicas = 1 };
    weft_mesh_strides(from->mesh, r.stride);
    for (int m = 0; m < from->mesh->ndim; m++) {
        r.replicates[m] = from->placements[m].kind == WEFT_REPLICATE;
        if (from->placements[m].kind == WEFT_PARTIAL) {
            r.keeps[m] = r.same_mesh && to->placements[m].kind == WEFT_PARTIAL;
            r.reduces[m] = !r.keeps[m];
        }
        r.num_replicas *= r.replicates[m] ? from->mesh->shape[m] : 1;
    }
    return r;
}

/* The part of a source mesh index that the replicating dimensions make. */
static int64_t replica_part(const roles *r, const int64_t coordinate[])
{
    int64_t part = 0;
    for (int m = 0; m < r->stage->from->mesh->ndim; m++) {
        part += r->replicates[m] ? coordinate[m] * r->stride[m] : 0;
    }
    return part;
}

/* True when every target is served by the replica at its own coordinates: no process hosts a nearer one. */
static bool always_aligned(const roles *r)
{
    return r->topology->num_processes == 1 || r->topology->num_processes == r->topology->num_ranks;
}

/* ---- which replica serves a target ------------------------------------------------------------------------------ */

typedef struct target {
    int rank, process;
    int64_t index;           /* in the destination mesh */
    int64_t own, own_part;   /* its index in the source mesh (-1: not in it) and that index's replica part */
    int64_t aligned_part;    /* the replica part of its own place */
} target;

static target target_of(const roles *r, int rank, int64_t index)
{
    const weft_mesh *mesh = r->stage->from->mesh;
    target t = { .rank = rank, .index = index };
    t.process = weft_topology_process_of(r->topology, rank);
    t.own = r->same_mesh ? index : weft_mesh_index_of(mesh, rank);
    int64_t coordinate[WEFT_MAX_DIMS];
    if (t.own >= 0) {
        weft_mesh_unravel(mesh, t.own, coordinate);
        t.own_part = replica_part(r, coordinate);
    }
    if (r->same_mesh) {
        t.aligned_part = t.own_part;
        return t;
    }
    /* On another mesh targets take replicas in turns. */
    int64_t turn = index % r->num_replicas;
    for (int m = mesh->ndim - 1; m >= 0; m--) {
        if (r->replicates[m]) {
            t.aligned_part += turn % mesh->shape[m] * r->stride[m];
            turn /= mesh->shape[m];
        }
    }
    return t;
}

/* The lowest rank of the target's process that holds what `base` names, as an index of the source mesh; or -1. */
static int64_t hosted_replica(const roles *r, const target *t, int64_t base)
{
    const weft_topology *topology = r->topology;
    int first = topology->first_rank == NULL ? t->process : topology->first_rank[t->process];
    int last = topology->first_rank == NULL ? t->process + 1 : topology->first_rank[t->process + 1];
    for (int rank = first; rank < last; rank++) {
        int64_t index = weft_mesh_index_of(r->stage->from->mesh, rank);
        if (index < 0) {
            continue;
        }
        int64_t coordinate[WEFT_MAX_DIMS];
        weft_mesh_unravel(r->stage->from->mesh, index, coordinate);
        if (index - replica_part(r, coordinate) == base) {
            return index;
        }
    }
    return -1;
}

/* The source mesh index that serves the target; `base` is the index without its replica part. */
static int64_t choose(const roles *r, const target *t, int64_t base)
{
    if (t->own >= 0 && t->own - t->own_part == base) {
        return t->own;
    }
    int64_t aligned = base + t->aligned_part;
    if (r->num_replicas == 1 || always_aligned(r)
        || weft_topology_process_of(r->topology, weft_mesh_rank_at(r->stage->from->mesh, aligned)) == t->process) {
        return aligned;
    }
    int64_t hosted = hosted_replica(r, t, base);
    return hosted >= 0 ? hosted : aligned;
}

/* ---- products of segments --------------------------------------------------------------------------------------- */

/* The shards of a layout that meet a box: one list of segments per tensor dimension, and a walk over their product. */
typedef struct product {
    int ndim;
    weft_vec segments[WEFT_MAX_DIMS];
    size_t at[WEFT_MAX_DIMS];
    size_t count; /* of the product */
} product;

static void product_free(product *p)
{
    for (int d = 0; d < p->ndim; d++) {
        weft_vec_free(&p->segments[d]);
    }
}

static bool product_make(product *p, const weft_layout *layout, const weft_box *box, const weft_fixed *fixed)
{
    *p = (product){ .ndim = layout->ndim, .count = 1 };
    for (int d = 0; d < layout->ndim; d++) {
        int64_t begin = box->offset[d];
        if (!weft_segments(layout, d, begin, begin + box->extent[d], fixed, &p->segments[d])) {
            product_free(p);
            return false;
        }
        p->count *= p->segments[d].count;
    }
    return true;
}

/* The box of the walk's place, and its part of the mesh index. */
static int64_t product_box(const product *p, weft_box *box)
{
    int64_t index = 0;
    for (int d = 0; d < p->ndim; d++) {
        const weft_segment *segment = (const weft_segment *)p->segments[d].items + p->at[d];
        box->offset[d] = segment->begin;
        box->extent[d] = segment->end - segment->begin;
        index += segment->index;
    }
    return index;
}

static void product_next(product *p)
{
    for (int d = p->ndim - 1; d >= 0; d--) {
        if (++p->at[d] < p->segments[d].count) {
            return;
        }
        p->at[d] = 0;
    }
}

/* ---- coordinates that do not matter for the box -------------------------------------------------------------------- */

/* Index parts of all coordinates along the mesh dimensions marked, row-major; a fixed one is not varied. */
static int64_t *free_indices(const weft_mesh *mesh, const bool marked[], const weft_fixed *fixed, size_t *count)
{
    int64_t stride[WEFT_MAX_DIMS];
    weft_mesh_strides(mesh, stride);
    *count = 1;
    for (int m = 0; m < mesh->ndim; m++) {
        *count *= marked[m] && fixed->coordinate[m] < 0 ? (size_t)mesh->shape[m] : 1;
    }
    int64_t *indices = malloc(*count * sizeof(*indices));
    for (size_t i = 0; indices != NULL && i < *count; i++) {
        int64_t rest = (int64_t)i, index = 0;
        for (int m = mesh->ndim - 1; m >= 0; m--) {
            if (!marked[m]) {
                continue;
            }
            int64_t coordinate = fixed->coordinate[m];
            if (coordinate < 0) {
                coordinate = rest % mesh->shape[m];
                rest /= mesh->shape[m];
            }
            index += coordinate * stride[m];
        }
        indices[i] = index;
    }
    return indices;
}

static bool is_empty(const weft_layout *layout, const weft_box *box)
{
    for (int d = 0; d < layout->ndim; d++) {
        if (box->extent[d] <= 0) {
            return true;
        }
    }
    return false;
}

/* ---- receives ------------------------------------------------------------------------------------------------------- */

weft_status weft_stage_receives(const weft_stage *stage, const weft_topology *topology, int rank, weft_moves *moves)
{
    const weft_layout *from = stage->from;
    weft_box box;
    if (!weft_layout_shard_box(stage->to, rank, &box) || is_empty(from, &box)) {
        return WEFT_OK;
    }
    roles r = roles_of(stage, topology);
    target t = target_of(&r, rank, weft_mesh_index_of(stage->to->mesh, rank));
    weft_fixed none = weft_fixed_none(), kept = none;
    bool partial[WEFT_MAX_DIMS];
    int64_t coordinate[WEFT_MAX_DIMS];
    weft_mesh_unravel(stage->to->mesh, t.index, coordinate);
    for (int m = 0; m < from->mesh->ndim; m++) {
        partial[m] = r.keeps[m] || r.reduces[m];
        kept.coordinate[m] = r.keeps[m] ? coordinate[m] : -1;
    }
    size_t num_addends = 0;
    int64_t *addends = free_indices(from->mesh, partial, &kept, &num_addends);
    product p;
    if (addends == NULL || !product_make(&p, from, &box, &none)) {
        free(addends);
        return WEFT_ERR_NOMEM;
    }
    bool done = moves_reserve(moves, p.count * num_addends);
    for (size_t i = 0; done && i < p.count; i++, product_next(&p)) {
        weft_box part;
        int64_t base = product_box(&p, &part);
        for (size_t a = 0; a < num_addends; a++) {
            weft_move *move = &moves->items[moves->count++];
            move->peer = weft_mesh_rank_at(from->mesh, choose(&r, &t, base + addends[a]));
            move->box = part;
        }
    }
    product_free(&p);
    free(addends);
    return done ? WEFT_OK : WEFT_ERR_NOMEM;
}

/* ---- sends ------------------------------------------------------------------------------------------------------------- */

/* Coordinates that all targets of this source have in the destination mesh. */
static weft_fixed targets_fixed(const roles *r, const int64_t coordinate[])
{
    weft_fixed fixed = weft_fixed_none();
    for (int m = 0; r->same_mesh && m < r->stage->from->mesh->ndim; m++) {
        if (r->keeps[m] || (r->replicates[m] && always_aligned(r))) {
            fixed.coordinate[m] = coordinate[m];
        }
    }
    return fixed;
}

weft_status weft_stage_sends(const weft_stage *stage, const weft_topology *topology, int rank, weft_moves *moves)
{
    const weft_layout *from = stage->from, *to = stage->to;
    weft_box box;
    if (!weft_layout_shard_box(from, rank, &box) || is_empty(from, &box)) {
        return WEFT_OK;
    }
    roles r = roles_of(stage, topology);
    int64_t source = weft_mesh_index_of(from->mesh, rank);
    int64_t coordinate[WEFT_MAX_DIMS];
    weft_mesh_unravel(from->mesh, source, coordinate);
    int64_t base = source - replica_part(&r, coordinate);
    weft_fixed fixed = targets_fixed(&r, coordinate);
    bool whole[WEFT_MAX_DIMS];
    for (int m = 0; m < to->mesh->ndim; m++) {
        whole[m] = to->placements[m].kind != WEFT_SHARD;
    }
    size_t num_copies = 0;
    int64_t *copies = free_indices(to->mesh, whole, &fixed, &num_copies);
    product p;
    if (copies == NULL || !product_make(&p, to, &box, &fixed)) {
        free(copies);
        return WEFT_ERR_NOMEM;
    }
    bool certain = r.num_replicas == 1 || (r.same_mesh && always_aligned(&r));
    bool done = moves_reserve(moves, p.count * num_copies);
    for (size_t i = 0; done && i < p.count; i++, product_next(&p)) {
        weft_box part;
        int64_t place = product_box(&p, &part);
        for (size_t c = 0; c < num_copies; c++) {
            int64_t index = place + copies[c];
            int peer = weft_mesh_rank_at(to->mesh, index);
            if (!certain) {
                target t = target_of(&r, peer, index);
                if (choose(&r, &t, base) != source) {
                    continue;
                }
            }
            weft_move *move = &moves->items[moves->count++];
            move->peer = peer;
            move->box = part;
        }
    }
    product_free(&p);
    free(copies);
    return done ? WEFT_OK : WEFT_ERR_NOMEM;
}
