#include "plan/replica.h"

#include <stdlib.h>

#include "plan/shard_intervals.h"

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

int weft_topology_first_rank(const weft_topology *topology, int process)
{
    return topology->first_rank == NULL ? process : topology->first_rank[process];
}

static bool is_hosted_by(const weft_topology *topology, int rank, int process)
{
    return rank >= weft_topology_first_rank(topology, process) &&
           rank < weft_topology_first_rank(topology, process + 1);
}

weft_roles weft_roles_of(const weft_stage *stage, const weft_topology *topology)
{
    const weft_layout *from = stage->from, *to = stage->to;
    weft_roles r = {
        .stage = stage, .topology = topology, .same_mesh = from->mesh == to->mesh, .num_replicas = 1
    };
    weft_mesh_strides(from->mesh, r.stride);
    for (int m = 0; m < from->mesh->ndim; m++) {
        r.replicates[m] = from->placements[m].kind == WEFT_REPLICATE;
        if (from->placements[m].kind == WEFT_PARTIAL) {
            r.keeps[m] = r.same_mesh && to->placements[m].kind == WEFT_PARTIAL;
            r.reduces[m] = !r.keeps[m];
        }
        r.num_replicas *= r.replicates[m] ? from->mesh->shape[m] : 1;
    }
    r.aligned =
        topology->num_processes == 1 || topology->num_processes == topology->num_ranks || r.num_replicas == 1;
    return r;
}

int64_t weft_replica_part(const weft_roles *roles, const int64_t coordinate[])
{
    int64_t part = 0;
    for (int m = 0; m < roles->stage->from->mesh->ndim; m++) {
        part += roles->replicates[m] ? coordinate[m] * roles->stride[m] : 0;
    }
    return part;
}

static int64_t base_of(const weft_roles *roles, int64_t index)
{
    int64_t coordinate[WEFT_MAX_DIMS];
    weft_mesh_unravel(roles->stage->from->mesh, index, coordinate);
    return index - weft_replica_part(roles, coordinate);
}

int64_t weft_replica_part_of_turn(const weft_roles *roles, int64_t turn)
{
    const weft_mesh_impl *mesh = roles->stage->from->mesh;
    int64_t part = 0;
    for (int m = mesh->ndim - 1; m >= 0; m--) {
        if (roles->replicates[m]) {
            part += turn % mesh->shape[m] * roles->stride[m];
            turn /= mesh->shape[m];
        }
    }
    return part;
}

int64_t weft_replica_turn_of(const weft_roles *roles, const int64_t coordinate[])
{
    const weft_mesh_impl *mesh = roles->stage->from->mesh;
    int64_t turn = 0;
    for (int m = 0; m < mesh->ndim; m++) {
        turn = roles->replicates[m] ? turn * mesh->shape[m] + coordinate[m] : turn;
    }
    return turn;
}

weft_target weft_target_of(const weft_roles *roles, int rank, int64_t index)
{
    weft_target t = { .rank = rank,
                      .process = weft_topology_process_of(roles->topology, rank),
                      .own_base = -1 };
    t.own = roles->same_mesh ? index : weft_mesh_index_of(roles->stage->from->mesh, rank);
    t.own_base = t.own < 0 ? -1 : base_of(roles, t.own);
    t.aligned_part =
        roles->same_mesh ? t.own - t.own_base : weft_replica_part_of_turn(roles, index % roles->num_replicas);
    return t;
}

/* ---- replicas that are not aligned --------------------------------------------------------------------- */

static int by_key_and_rank(const void *a, const void *b)
{
    const weft_replica_entry *p = a, *q = b;
    if (p->key != q->key) {
        return p->key < q->key ? -1 : 1;
    }
    return p->rank < q->rank ? -1 : p->rank > q->rank;
}

static size_t list_of_process(const weft_roles *roles, int process, weft_replica_entry entries[])
{
    size_t count = 0;
    int first = weft_topology_first_rank(roles->topology, process),
        last = weft_topology_first_rank(roles->topology, process + 1);
    for (int rank = first; rank < last; rank++) {
        int64_t index = weft_mesh_index_of(roles->stage->from->mesh, rank);
        if (index >= 0) {
            entries[count++] = (weft_replica_entry){ base_of(roles, index), index, rank };
        }
    }
    return count;
}

static size_t list_of_base(const weft_roles *roles, int64_t base, weft_replica_entry entries[])
{
    for (int64_t turn = 0; turn < roles->num_replicas; turn++) {
        int64_t index = base + weft_replica_part_of_turn(roles, turn);
        int rank = weft_mesh_rank_at(roles->stage->from->mesh, index);
        entries[turn] = (weft_replica_entry){ weft_topology_process_of(roles->topology, rank), index, rank };
    }
    return (size_t)roles->num_replicas;
}

static void fill(weft_replica_table *table, const weft_roles *roles)
{
    bool of_process = table->process >= 0;
    int64_t most = roles->num_replicas;
    if (of_process) {
        most = weft_topology_first_rank(roles->topology, table->process + 1) -
               weft_topology_first_rank(roles->topology, table->process);
    }
    table->filled = true;
    table->entries = malloc((size_t)most * sizeof(*table->entries));
    if (table->entries == NULL) {
        table->out_of_memory = true;
        return;
    }
    size_t listed = of_process ? list_of_process(roles, table->process, table->entries)
                               : list_of_base(roles, table->base, table->entries);
    qsort(table->entries, listed, sizeof(*table->entries), by_key_and_rank);
    for (size_t i = 0; i < listed; i++) {
        if (table->count == 0 || table->entries[i].key != table->entries[table->count - 1].key) {
            table->entries[table->count++] = table->entries[i];
        }
    }
}

void weft_replica_table_free(weft_replica_table *table)
{
    free(table->entries);
    table->entries = NULL;
}

/* The replica of the lowest rank, as an index of the source mesh; or -1. */
static int64_t hosted_replica(const weft_roles *roles, weft_replica_table *table, const weft_target *target,
                              int64_t base)
{
    if (!table->filled) {
        fill(table, roles);
    }
    int64_t key = table->process >= 0 ? base : target->process;
    size_t low = 0, high = table->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (table->entries[middle].key < key) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < table->count && table->entries[low].key == key ? table->entries[low].index : -1;
}

int64_t weft_replica_choose(const weft_roles *roles, weft_replica_table *table, const weft_target *target,
                            int64_t base)
{
    if (target->own_base == base) {
        return target->own;
    }
    int64_t aligned = base + target->aligned_part;
    if (roles->aligned || is_hosted_by(roles->topology, weft_mesh_rank_at(roles->stage->from->mesh, aligned),
                                       target->process)) {
        return aligned;
    }
    int64_t hosted = hosted_replica(roles, table, target, base);
    return hosted >= 0 ? hosted : aligned;
}
