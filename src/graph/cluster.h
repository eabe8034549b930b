/* Clusters: calls of a trace that follow each other, need no transfer and are small become one StarPU task for each hosted
 * rank. It runs their kernels in the order of the calls. Values that nothing else needs live in scratch memory of the
 * task. */
#ifndef WEFT_SRC_GRAPH_CLUSTER_H
#define WEFT_SRC_GRAPH_CLUSTER_H

#include <stdatomic.h>

#include "graph/graph.h"
#include "runtime/codelets.h"

/* An operand of a kernel: one of the cluster's task, and bytes from its start. */
typedef struct weft_cluster_place {
    int64_t offset;
    int32_t operand;
} weft_cluster_place;

/* A kernel. */
typedef struct weft_cluster_step {
    weft_kernel_id kernel;
    const char *function;            /* for messages */
    const weft_operation *operation; /* for messages */
    int32_t call;                    /* number in the cluster, of its scalars */
    uint32_t first_place, num_places;
    size_t arguments; /* offset in the program's arguments */
} weft_cluster_step;

/* The kernels of one hosted rank. Operands of the task: panels of inputs, panels of outputs, scratch memory. */
typedef struct weft_cluster_program {
    weft_vec steps;     /* weft_cluster_step */
    weft_vec places;    /* weft_cluster_place */
    weft_vec arguments; /* words */
    uint32_t max_places;
    int num_operands;
    int64_t scratch_bytes;
    uint32_t footprint;
} weft_cluster_program;

typedef struct weft_cluster {
    atomic_int references; /* of the trace, and of submitted tasks */
    int first, last;       /* nodes of the trace */
    int num_inputs, num_outputs;
    int *values; /* numbers of the inputs and of the outputs */
    int num_programs;
    weft_cluster_program programs[];
} weft_cluster;

static inline int weft_cluster_num_calls(const weft_cluster *cluster)
{
    return cluster->last - cluster->first + 1;
}

/* The clusters of a trace, where the values of is_promised[] are needed behind it. */
typedef struct weft_clusters {
    weft_vec clusters; /* weft_cluster *, in the order of their calls */
    size_t num_values;
    bool is_promised[];
} weft_clusters;

/* Builds the clusters of a trace (cluster_build.c). NULL with the error kept: no memory. */
weft_clusters *weft_clusters_build(const weft_graph_trace *trace, const bool is_promised[]);
/* May be NULL. */
void weft_clusters_free(weft_clusters *clusters);
void weft_cluster_release(weft_cluster *cluster);

/* Submits a cluster's tasks on tensors with data, one for each of its values; scalars: WEFT_MAX_SCALARS of each call
 * (cluster.c). False with the error kept. */
bool weft_cluster_submit(weft_cluster *cluster, weft_tensor_impl *const tensors[], const double scalars[]);

#endif
