/* src/graph/fuse: calls of a trace that follow each other, need no transfer and become tasks together.
 *
 *   small calls   one StarPU task for each hosted rank, which runs their kernels in the order of the calls. Values that
 *                 nothing else needs live in scratch memory of the task.
 *   fused calls   by rows, on large tensors: one task for each piece of rows that lies in one panel of every tensor. It
 *                 runs all kernels on a tile of the rows before it goes on to the next tile, so that values that nothing
 *                 else needs never leave the cache. */
#ifndef WEFT_SRC_GRAPH_FUSE_CLUSTER_H
#define WEFT_SRC_GRAPH_FUSE_CLUSTER_H

#include <stdatomic.h>

#include "graph/record/trace.h"
#include "runtime/codelets.h"
#include "tasks/tasks.h"

enum { WEFT_CLUSTER_SCRATCH = -1 };

/* An operand of a kernel: one of the cluster's task or its scratch memory, and bytes from its start. */
typedef struct weft_cluster_place {
    int64_t offset;
    int64_t unit_bytes; /* of a fused call: from unit to unit; 0: the same for all, or in the scratch memory */
    int32_t operand;
} weft_cluster_place;

/* A kernel. */
typedef struct weft_cluster_step {
    weft_kernel_id kernel;
    const char *function;            /* for messages */
    const weft_operation *operation; /* for messages */
    int32_t call;                    /* number in the cluster, of its scalars */
    uint32_t first_place, num_places;
    size_t arguments;        /* offset in the cluster's arguments */
    uint32_t arguments_size; /* of a fused call */
    unsigned moving;         /* of a fused call on views: bit i: operand i of the arguments goes by units */
} weft_cluster_step;

/* An operand of the task: a panel of one of the cluster's values. */
typedef struct weft_cluster_operand {
    int32_t value; /* number among the cluster's values */
    int32_t panel;
    unsigned access; /* weft_slot_access */
    bool written;    /* by one of the steps so far */
} weft_cluster_operand;

/* A task: the kernels of one hosted rank, or of one of its pieces of rows. */
typedef struct weft_cluster_program {
    int shard;
    weft_vec operands; /* weft_cluster_operand */
    weft_vec steps;    /* weft_cluster_step */
    weft_vec places;   /* weft_cluster_place */
    uint32_t max_places;
    bool cpu_only;      /* a kernel has no CUDA function */
    uint32_t num_views; /* kernels that are neither elementwise nor steps of optimisers */
    int64_t scratch_bytes;
    /* Fused calls: rows, or elements if no kernel needs rows; and how many of them are a tile. Others: 0. */
    int64_t num_units, tile_units;
    double position;
    uint32_t footprint;
} weft_cluster_program;

enum { WEFT_MAX_TILE_BYTES = 1 << 16, WEFT_MAX_TILE_ARGUMENTS = 4096 }; /* scratch memory and arguments of a fused task */

typedef struct weft_cluster {
    atomic_int references; /* of the trace, and of submitted tasks */
    int first, last;       /* nodes of the trace */
    int num_inputs, num_outputs;
    int *values;        /* numbers of the inputs and of the outputs */
    int *becomes;       /* by input: the value that it is changed to in place; -1: it is read */
    weft_vec arguments; /* words */
    bool fused;
    int64_t bytes, saved_bytes; /* of a fused one: read and written by its tasks; not read and written, because of it */
    int num_programs;
    weft_cluster_program programs[];
} weft_cluster;

static inline int weft_cluster_num_calls(const weft_cluster *cluster)
{
    return cluster->last - cluster->first + 1;
}

/* The clusters of a trace, where the values of is_promised[] are needed after it. */
typedef struct weft_clusters {
    weft_vec clusters; /* weft_cluster *, in the order of their calls */
    size_t num_values;
    bool is_promised[];
} weft_clusters;

/* Builds the clusters of a trace, and brings calls that are fused next to each other: of small calls if `passes` has
 * WEFT_PASS_CLUSTER, fused ones if it has WEFT_PASS_FUSE (cluster_build.c). NULL with the error kept: no memory. */
weft_clusters *weft_clusters_build(const char *function, weft_graph_trace *trace, const bool is_promised[], unsigned passes);
/* How much memory they take, without unused room. */
size_t weft_clusters_bytes(const weft_clusters *clusters);
/* May be NULL. */
void weft_clusters_free(weft_clusters *clusters);
void weft_cluster_release(weft_cluster *cluster);

/* Submits a cluster's tasks on tensors with data, one for each of its values; scalars: WEFT_MAX_SCALARS of each call
 * (cluster.c). False with the error kept. */
bool weft_cluster_submit(const char *function, weft_cluster *cluster, weft_tensor_impl *const tensors[], const double scalars[]);

/* Expansions' steps become clusters (joined.c). */
void weft_joined_start(void);

/* From the arguments of a task: its cluster and program, for predictions. */
weft_cluster *weft_cluster_of(const void *arguments, const weft_cluster_program **program);

#endif
