/* The messages of one stage. Receives follow from the target's box, sends from the source's box; one
 * function, weft_replica_choose(), decides for both which replica serves a target. */
#include <stdlib.h>

#include "plan/access_map.h"
#include "plan/box_iterator.h"
#include "plan/broadcast_tree.h"
#include "plan/common_parts.h"
#include "plan/replica.h"
#include "plan/transfers.h"

/* ---- addends ------------------------------------------------------------------------------------------- */

int64_t weft_stage_addend(const weft_stage *stage, int rank)
{
    const weft_layout *from = stage->from, *to = stage->to;
    int64_t coordinate[WEFT_MAX_DIMS], number = 0;
    weft_mesh_unravel(from->mesh, weft_mesh_index_of(from->mesh, rank), coordinate);
    for (int m = 0; m < from->mesh->ndim; m++) {
        bool keeps = from->mesh == to->mesh && to->placements[m].kind == WEFT_PARTIAL;
        if (from->placements[m].kind == WEFT_PARTIAL && !keeps) {
            number = number * from->mesh->shape[m] + coordinate[m];
        }
    }
    return number;
}

bool weft_stage_renumbers(const weft_stage *stage)
{
    return stage->access_map == NULL && (stage->from->has_runs || stage->to->has_runs) &&
           !weft_layouts_number_all_alike(stage->from, stage->to);
}

/* ---- receives ------------------------------------------------------------------------------------------ */

weft_status weft_stage_receives(const weft_stage *stage, const weft_topology *topology, int rank,
                                weft_transfers *moves)
{
    const weft_layout *from = stage->from;
    weft_box box;
    if (stage->algorithm != WEFT_DIRECT) {
        return weft_broadcast_tree_receives(stage, topology, rank, moves);
    }
    int64_t index = weft_mesh_index_of(stage->to->mesh, rank), coordinate[WEFT_MAX_DIMS];
    if (index < 0) {
        return WEFT_OK;
    }
    weft_mesh_unravel(stage->to->mesh, index, coordinate);
    weft_stage_wanted(stage, coordinate, &box);
    if (weft_box_count(from->ndim, &box) == 0) {
        return WEFT_OK;
    }
    weft_roles roles = weft_roles_of(stage, topology);
    weft_target target = weft_target_of(&roles, rank, index);
    weft_replica_table table = { .process = target.process };
    weft_fixed none = weft_fixed_none(), kept = none;
    bool partial[WEFT_MAX_DIMS];
    for (int m = 0; m < from->mesh->ndim; m++) {
        partial[m] = roles.keeps[m] || roles.reduces[m];
        kept.coordinate[m] = roles.keeps[m] ? coordinate[m] : -1;
    }
    size_t num_addends = 0;
    int64_t *addends = weft_free_indices(from->mesh, partial, &kept, &num_addends);
    weft_box_iterator p;
    if (addends == NULL || !weft_box_iterator_of_sources(&p, stage, coordinate, &box, &none)) {
        free(addends);
        return WEFT_ERR_NOMEM;
    }
    bool done = weft_transfers_reserve(moves, p.count * num_addends);
    for (size_t i = 0; done && i < p.count; i++, weft_box_iterator_next(&p)) {
        weft_box part;
        int64_t base = weft_box_iterator_box(&p, &part);
        for (size_t a = 0; a < num_addends; a++) {
            int64_t source = weft_replica_choose(&roles, &table, &target, base + addends[a]);
            weft_transfers_add(moves, weft_mesh_rank_at(from->mesh, source), false, from->ndim, &part);
        }
    }
    done = done && !table.out_of_memory;
    weft_replica_table_free(&table);
    weft_box_iterator_free(&p);
    free(addends);
    return done ? WEFT_OK : WEFT_ERR_NOMEM;
}

/* ---- sends --------------------------------------------------------------------------------------------- */

/* The rank whose sends are planned. */
typedef struct sender {
    const weft_roles *roles;
    weft_replica_table table;
    int64_t index, base, coordinate[WEFT_MAX_DIMS];
    int64_t turn;                 /* its number among the replicas */
    int first_hosted, end_hosted; /* the ranks of its process */
    weft_box box;
    weft_transfers *moves;
} sender;

/* On another mesh a replica serves at most the targets whose turn it is and those of its own process.
 * Testing all 65,536 would take longer than everything else. */
static bool may_serve(const sender *s, int peer, int64_t index)
{
    return s->roles->same_mesh || index % s->roles->num_replicas == s->turn ||
           (peer >= s->first_hosted && peer < s->end_hosted);
}

static bool serves(sender *s, const weft_target *target)
{
    return weft_replica_choose(s->roles, &s->table, target, s->base) == s->index;
}

/* Targets that intersect the box, over the free coordinates of the destination mesh. With several replicas
 * only the targets that this one serves; `certain`: it serves them all. */
static bool send_to_all(sender *s, const weft_fixed *fixed, bool certain)
{
    const weft_layout *to = s->roles->stage->to;
    bool whole[WEFT_MAX_DIMS];
    for (int m = 0; m < to->mesh->ndim; m++) {
        whole[m] = to->placements[m].kind != WEFT_SHARD;
    }
    size_t num_copies = 0;
    int64_t *copies = weft_free_indices(to->mesh, whole, fixed, &num_copies);
    weft_box_iterator p;
    if (copies == NULL || !weft_box_iterator_of_targets(&p, s->roles->stage, s->coordinate, &s->box, fixed)) {
        free(copies);
        return false;
    }
    bool done = weft_transfers_reserve(s->moves, certain ? p.count * num_copies : 0);
    for (size_t i = 0; done && i < p.count; i++, weft_box_iterator_next(&p)) {
        weft_box part;
        int64_t place = weft_box_iterator_box(&p, &part);
        for (size_t c = 0; done && c < num_copies; c++) {
            int64_t index = place + copies[c];
            int peer = weft_mesh_rank_at(to->mesh, index);
            if (!certain) {
                if (!may_serve(s, peer, index)) {
                    continue;
                }
                weft_target target = weft_target_of(s->roles, peer, index);
                if (!serves(s, &target)) {
                    continue;
                }
                done = weft_transfers_reserve_one(s->moves);
            }
            if (done) {
                weft_transfers_add(s->moves, peer, false, to->ndim, &part);
            }
        }
    }
    weft_box_iterator_free(&p);
    free(copies);
    return done;
}

/* Whether the target at a coordinate reads some of the sender's box. */
static bool meet(sender *s, const int64_t coordinate[], weft_box *part)
{
    const weft_stage *stage = s->roles->stage;
    if (stage->access_map == NULL) {
        weft_common_box(stage->from, s->coordinate, stage->to, coordinate, part, &s->table.out_of_memory);
        return weft_box_count(stage->to->ndim, part) > 0;
    }
    weft_stage_wanted(stage, coordinate, part);
    return weft_box_intersect(stage->to->ndim, part, &s->box, part);
}

/* Targets of the sender's own process at other positions: it may be the nearest to them all the same. */
static bool send_within_process(sender *s)
{
    const weft_stage *stage = s->roles->stage;
    for (int peer = s->first_hosted; peer < s->end_hosted; peer++) {
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
        if (meets && meet(s, coordinate, &part)) {
            if (!weft_transfers_reserve_one(s->moves)) {
                return false;
            }
            weft_transfers_add(s->moves, peer, false, stage->to->ndim, &part);
        }
    }
    return true;
}

weft_status weft_stage_sends(const weft_stage *stage, const weft_topology *topology, int rank,
                             weft_transfers *moves)
{
    sender s = { .moves = moves };
    if (stage->algorithm != WEFT_DIRECT) {
        return weft_broadcast_tree_sends(stage, topology, rank, moves);
    }
    if (!weft_layout_shard_box(stage->from, rank, &s.box) || weft_box_count(stage->from->ndim, &s.box) == 0) {
        return WEFT_OK;
    }
    weft_roles roles = weft_roles_of(stage, topology);
    s.roles = &roles;
    s.index = weft_mesh_index_of(stage->from->mesh, rank);
    weft_mesh_unravel(stage->from->mesh, s.index, s.coordinate);
    s.base = s.index - weft_replica_part(&roles, s.coordinate);
    s.turn = weft_replica_turn_of(&roles, s.coordinate);
    int process = weft_topology_process_of(topology, rank);
    s.first_hosted = weft_topology_first_rank(topology, process);
    s.end_hosted = weft_topology_first_rank(topology, process + 1);
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
