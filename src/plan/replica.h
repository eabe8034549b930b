/* Which of several ranks with the same values serves a target: the target itself if it is one of them;
 * else the one at the target's own position of the mesh (on another mesh: replicas take turns) if the
 * target's process hosts it; else the lowest rank that the process hosts; else the one at the target's own
 * position.
 *
 * Source ranks with the same values differ only along the Replicate dimensions of the source mesh. Their
 * row-major indices share the base, the index with 0 there, and differ in the replica part. */
#ifndef WEFT_SRC_PLAN_REPLICA_H
#define WEFT_SRC_PLAN_REPLICA_H

#include "plan/plan.h"

/* The first rank that a process hosts; for num_processes: the number of ranks. */
int weft_topology_first_rank(const weft_topology *topology, int process);

/* The roles of the source mesh's dimensions in a stage. */
typedef struct weft_roles {
    const weft_stage *stage;
    const weft_topology *topology;
    bool same_mesh;
    bool replicates[WEFT_MAX_DIMS]; /* any coordinate has the values */
    bool reduces[WEFT_MAX_DIMS];    /* every coordinate has an addend */
    bool keeps[WEFT_MAX_DIMS];      /* Partial before and after: coordinates do not mix */
    int64_t stride[WEFT_MAX_DIMS];
    int64_t num_replicas;
    /* No process hosts a replica nearer than the one at the target's own position: with one process, one
     * rank per process, or no replicas. */
    bool aligned;
} weft_roles;

weft_roles weft_roles_of(const weft_stage *stage, const weft_topology *topology);

/* The replica part of a source mesh coordinate. */
int64_t weft_replica_part(const weft_roles *roles, const int64_t coordinate[]);

/* The replica part of the turn-th replica, row-major along the Replicate dimensions. */
int64_t weft_replica_part_of_turn(const weft_roles *roles, int64_t turn);

/* The inverse: the number of a source mesh coordinate among its replicas. */
int64_t weft_replica_turn_of(const weft_roles *roles, const int64_t coordinate[]);

/* Replicas by a key, for targets that are not aligned. For receives: replicas of one process, by base. For
 * sends: replicas of one base, by process. Filled at the first use; zero-initialise all but the first two
 * members. */
typedef struct weft_replica_entry {
    int64_t key, index;
    int rank;
} weft_replica_entry;

typedef struct weft_replica_table {
    int process;  /* hosted by this process; -1: */
    int64_t base; /* all with this base */
    bool filled, out_of_memory;
    weft_replica_entry *entries; /* by key, then rank; one for each key */
    size_t count;
} weft_replica_table;

void weft_replica_table_free(weft_replica_table *table);

typedef struct weft_target {
    int rank, process;
    int64_t own;          /* its index in the source mesh; -1: it is not in that mesh */
    int64_t own_base;     /* the base of that; -1 */
    int64_t aligned_part; /* the replica part of its own place */
} weft_target;

/* `index` is the rank's in the destination mesh. */
weft_target weft_target_of(const weft_roles *roles, int rank, int64_t index);

/* The source mesh index that serves the target with the values of `base`. */
int64_t weft_replica_choose(const weft_roles *roles, weft_replica_table *table, const weft_target *target,
                            int64_t base);

#endif
