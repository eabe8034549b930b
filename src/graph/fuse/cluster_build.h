/* Building clusters: which calls are lowered (cluster_calls.c), a cluster and its values (cluster_make.c), and the tasks of small
 * calls (cluster_build.c); which calls are fused (fuse.c), in which order (fuse_arrange.c), and their tasks (fuse_build.c). */
#ifndef WEFT_SRC_GRAPH_FUSE_CLUSTER_BUILD_H
#define WEFT_SRC_GRAPH_FUSE_CLUSTER_BUILD_H

#include <weft/graph.h>

#include "graph/fuse/cluster.h"
#include "graph/fuse/scratch.h"

enum { WEFT_MAX_FUSED_OPERANDS = WEFT_MAX_KERNEL_INPUTS + WEFT_MAX_KERNEL_OUTPUTS };

/* An operand of the kernel of a call that may be fused. */
typedef struct weft_fused_operand {
    int value; /* of the trace */
    bool moves; /* its rows are those of the output; else each task reads all of it */
    weft_slot_access access;
} weft_fused_operand;

/* A call as it would be in a cluster. */
typedef struct weft_lowered {
    bool fits;            /* it is small, */
    bool any_size;        /* or need not be */
    bool fuses;           /* it goes by rows: */
    bool pointwise;       /* even element by element */
    int num_operands;
    weft_fused_operand operands[WEFT_MAX_FUSED_OPERANDS];
    int64_t bytes;        /* of all its tensors on a rank */
    weft_task_list tasks; /* of all hosted ranks */
} weft_lowered;

typedef struct weft_cluster_building {
    const weft_graph_trace *trace;
    const bool *is_promised;
    unsigned passes;
    weft_lowered *calls; /* by node */
    bool failed;         /* an error is kept */
    int *defined;        /* by value: the node that makes it; -1: an input of the segment */
    int *takes;          /* by value: the value in whose memory it is made, by a change in place; -1: none */
    bool *is_changed;    /* by value: some call changes it in place */
} weft_cluster_building;

/* For tests: a third of all calls, others on each process. */
static inline bool weft_cluster_ends_at_random(int call)
{
    uint64_t seed = weft_runtime.cluster_seed;
    return seed != 0 && weft_hash_u64(seed + (uint64_t)call) % 3 == 0;
}

/* ---- cluster_calls.c ------------------------------------------------------------------------------------- */

/* Lowers the calls that may be clustered or fused. */
void weft_cluster_lower_all(weft_cluster_building *b);

/* ---- cluster_make.c -------------------------------------------------------------------------------------- */

/* The first value of the nodes [first, last] that lies in the same memory: values follow each other by changes in place. */
int weft_cluster_home(const weft_cluster_building *b, int first, int last, int value);
/* A cluster without tasks, with its values. NULL: no memory. */
weft_cluster *weft_cluster_new(const weft_cluster_building *b, int first, int last, int num_programs);
/* By value: where it lies, as one of the cluster's values (of its home); -1: in scratch memory. */
void weft_cluster_index(const weft_cluster_building *b, const weft_cluster *cluster, int index[]);
/* Number of an operand of the task, which is added at its first access. -1: no memory. */
int weft_cluster_add_operand(weft_cluster_program *program, int value, int64_t panel, weft_slot_access access);
/* A kernel after the others of the task. False: no memory. */
bool weft_cluster_add_step(weft_cluster_program *program, const weft_cluster_step *step, const void *arguments);
/* The hosted rank of a task, by its first operand that is no temporary; -1: it has none. */
int weft_task_shard(const weft_task_list *tasks, const weft_task *task);
/* The first task of a call on a rank; NULL: none. */
const weft_task *weft_lowered_task(const weft_lowered *call, int shard);

/* ---- fuse.c, fuse_arrange.c, fuse_build.c -------------------------------------------------------------------------------- */

/* Finds out whether a call in these layouts may be fused: sets the members of weft_lowered. */
void weft_fuse_examine(const weft_cluster_building *b, const weft_graph_node *node, const weft_sharding *sharding,
                       weft_lowered *call);
/* Brings calls that are fused together next to each other. False: no memory. */
bool weft_fuse_arrange(weft_cluster_building *b, weft_graph_trace *trace);
/* The last call of those that are fused from `first` on; `first`: none. */
int weft_fuse_find(const weft_cluster_building *b, int first);
/* Changes in place of values from outside, which nothing after the calls needs, become new values of the tiles. */
void weft_fuse_drop_changes(weft_cluster_building *b, int first, int last);
/* The cluster of fused calls. NULL: no memory, or (*possible false) a row is too large for a tile. */
weft_cluster *weft_fuse_build(const weft_cluster_building *b, int first, int last, bool *possible);

#endif
