/* Who sends what to whom in one stage. Receives are found from the target's box, sends from the source's
 * box; both decide with the same function, weft_replica_choose(), which replica serves a target. */
#include <stdlib.h>

#include "plan/moves.h"
#include "plan/replica.h"
#include "plan/segments.h"

/* ---- products of segments ------------------------------------------------------------------------------ */

/* The shards of a layout that meet a box: one list of segments per tensor dimension, and a walk over their
 * product. */
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

/* ---- coordinates that do not matter for the box -------------------------------------------------------- */

/* Index parts of all coordinates along the mesh dimensions marked, row-major; a fixed one is not varied. */
static int64_t *free_indices(const weft_mesh *mesh, const bool marked[], const weft_fixed *fixed,
                             size_t *count)
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

/* ---- receives ------------------------------------------------------------------------------------------ */

weft_status weft_stage_receives(const weft_stage *stage, const weft_topology *topology, int rank,
                                weft_moves *moves)
{
    const weft_layout *from = stage->from;
    weft_box box;
    if (!weft_layout_shard_box(stage->to, rank, &box) || is_empty(from, &box)) {
        return WEFT_OK;
    }
    weft_roles roles = weft_roles_of(stage, topology);
    int64_t index = weft_mesh_index_of(stage->to->mesh, rank), coordinate[WEFT_MAX_DIMS];
    weft_mesh_unravel(stage->to->mesh, index, coordinate);
    weft_target target = weft_target_of(&roles, rank, index);
    weft_replica_table table = { .process = target.process };
    weft_fixed none = weft_fixed_none(), kept = none;
    bool partial[WEFT_MAX_DIMS];
    for (int m = 0; m < from->mesh->ndim; m++) {
        partial[m] = roles.keeps[m] || roles.reduces[m];
        kept.coordinate[m] = roles.keeps[m] ? coordinate[m] : -1;
    }
    size_t num_addends = 0;
    int64_t *addends = free_indices(from->mesh, partial, &kept, &num_addends);
    product p;
    if (addends == NULL || !product_make(&p, from, &box, &none)) {
        free(addends);
        return WEFT_ERR_NOMEM;
    }
    bool done = weft_moves_reserve(moves, p.count * num_addends);
    for (size_t i = 0; done && i < p.count; i++, product_next(&p)) {
        weft_box part;
        int64_t base = product_box(&p, &part);
        for (size_t a = 0; a < num_addends; a++) {
            int64_t source = weft_replica_choose(&roles, &table, &target, base + addends[a]);
            weft_moves_add(moves, weft_mesh_rank_at(from->mesh, source), from->ndim, &part);
        }
    }
    done = done && !table.out_of_memory;
    weft_replica_table_free(&table);
    product_free(&p);
    free(addends);
    return done ? WEFT_OK : WEFT_ERR_NOMEM;
}

/* ---- sends --------------------------------------------------------------------------------------------- */

/* The rank whose sends are planned. */
typedef struct sender {
    const weft_roles *roles;
    weft_replica_table table;
    int64_t index, base, coordinate[WEFT_MAX_DIMS];
    weft_box box;
    weft_moves *moves;
} sender;

static bool serves(sender *s, const weft_target *target)
{
    return weft_replica_choose(s->roles, &s->table, target, s->base) == s->index;
}

/* Targets that the box meets, over the coordinates of the destination mesh that are not fixed. Of several
 * replicas only those targets that this one serves; `certain`: it serves them all. */
static bool send_to_all(sender *s, const weft_fixed *fixed, bool certain)
{
    const weft_layout *to = s->roles->stage->to;
    bool whole[WEFT_MAX_DIMS];
    for (int m = 0; m < to->mesh->ndim; m++) {
        whole[m] = to->placements[m].kind != WEFT_SHARD;
    }
    size_t num_copies = 0;
    int64_t *copies = free_indices(to->mesh, whole, fixed, &num_copies);
    product p;
    if (copies == NULL || !product_make(&p, to, &s->box, fixed)) {
        free(copies);
        return false;
    }
    bool done = weft_moves_reserve(s->moves, certain ? p.count * num_copies : 0);
    for (size_t i = 0; done && i < p.count; i++, product_next(&p)) {
        weft_box part;
        int64_t place = product_box(&p, &part);
        for (size_t c = 0; done && c < num_copies; c++) {
            int64_t index = place + copies[c];
            int peer = weft_mesh_rank_at(to->mesh, index);
            if (!certain) {
                weft_target target = weft_target_of(s->roles, peer, index);
                if (!serves(s, &target)) {
                    continue;
                }
                done = weft_moves_reserve_one(s->moves);
            }
            if (done) {
                weft_moves_add(s->moves, peer, to->ndim, &part);
            }
        }
    }
    product_free(&p);
    free(copies);
    return done;
}

/* Targets of the sender's own process that are not at its place: it may be the nearest to them all the
 * same. */
static bool send_within_process(sender *s)
{
    const weft_stage *stage = s->roles->stage;
    const weft_topology *topology = s->roles->topology;
    int process = weft_topology_process_of(topology, weft_mesh_rank_at(stage->from->mesh, s->index));
    int last = weft_topology_first_rank(topology, process + 1);
    for (int peer = weft_topology_first_rank(topology, process); peer < last; peer++) {
        int64_t index = weft_mesh_index_of(stage->to->mesh, peer);
        if (index < 0) {
            continue;
        }
        weft_target target = weft_target_of(s->roles, peer, index);
        if (target.aligned_part == s->index - s->base || !serves(s, &target)) {
            continue;
        }
        int64_t coordinate[WEFT_MAX_DIMS];
        weft_mesh_unravel(stage->to->mesh, index, coordinate);
        bool meets = true;
        for (int m = 0; m < stage->from->mesh->ndim; m++) {
            meets = meets && (!s->roles->keeps[m] || coordinate[m] == s->coordinate[m]);
        }
        weft_box part;
        weft_layout_coordinate_box(stage->to, coordinate, &part);
        if (meets && weft_box_intersect(stage->to->ndim, &part, &s->box, &part)) {
            if (!weft_moves_reserve_one(s->moves)) {
                return false;
            }
            weft_moves_add(s->moves, peer, stage->to->ndim, &part);
        }
    }
    return true;
}

weft_status weft_stage_sends(const weft_stage *stage, const weft_topology *topology, int rank,
                             weft_moves *moves)
{
    sender s = { .moves = moves };
    if (!weft_layout_shard_box(stage->from, rank, &s.box) || is_empty(stage->from, &s.box)) {
        return WEFT_OK;
    }
    weft_roles roles = weft_roles_of(stage, topology);
    s.roles = &roles;
    s.index = weft_mesh_index_of(stage->from->mesh, rank);
    weft_mesh_unravel(stage->from->mesh, s.index, s.coordinate);
    s.base = s.index - weft_replica_part(&roles, s.coordinate);
    s.table = (weft_replica_table){ .process = -1, .base = s.base };
    weft_fixed fixed = weft_fixed_none();
    for (int m = 0; roles.same_mesh && m < stage->from->mesh->ndim; m++) {
        fixed.coordinate[m] = roles.keeps[m] || roles.replicates[m] ? s.coordinate[m] : -1;
    }
    bool certain = roles.num_replicas == 1 || (roles.same_mesh && roles.aligned);
    bool done = send_to_all(&s, &fixed, certain);
    if (done && roles.same_mesh && !roles.aligned) {
        done = send_within_process(&s);
    }
    done = done && !s.table.out_of_memory;
    weft_replica_table_free(&s.table);
    return done ? WEFT_OK : WEFT_ERR_NOMEM;
}
