/* Running clusters: a task's arguments, and the operands and arguments of its kernels, on CPUs (cluster.c) and devices
 * (cluster_cuda.c). */
#ifndef WEFT_SRC_GRAPH_FUSE_CLUSTER_RUN_H
#define WEFT_SRC_GRAPH_FUSE_CLUSTER_RUN_H

#include "codelets/elementwise.h"
#include "codelets/kernel.h"
#include "graph/fuse/cluster.h"

/* Arguments of a cluster's task. */
typedef struct weft_cluster_args {
    weft_task_args base; /* must be the first member */
    weft_cluster *cluster;
    const weft_cluster_program *program;
    double scalars[]; /* WEFT_MAX_SCALARS of each call */
} weft_cluster_args;

/* Where the program's operands lie. */
typedef struct weft_cluster_memory {
    void *const *operands;
    char *scratch;
    int64_t times; /* tiles are so many times as large as the program's */
} weft_cluster_memory;

/* The operands of a step, from unit `first` on. */
static inline void weft_cluster_find_operands(const weft_cluster_program *program, const weft_cluster_step *step,
                                              const weft_cluster_memory *memory, int64_t first, void *operands[])
{
    const weft_cluster_place *places = (const weft_cluster_place *)program->places.items + step->first_place;
    for (uint32_t i = 0; i < step->num_places; i++) {
        const weft_cluster_place *place = &places[i];
        operands[i] = place->operand == WEFT_CLUSTER_SCRATCH
                          ? memory->scratch + place->offset * memory->times
                          : (char *)memory->operands[place->operand] + place->offset + first * place->unit_bytes;
    }
}

static inline const void *weft_cluster_arguments(const weft_cluster_args *args, const weft_cluster_step *step)
{
    return (const char *)args->cluster->arguments.items + step->arguments;
}

/* The arguments of a fused call for `count` units from `first` on; in `own`, which has room for them. */
static inline void weft_cluster_narrow(const weft_cluster_step *step, int64_t first, int64_t count, void *own)
{
    if (weft_kernel_is_elementwise(step->kernel)) {
        ((weft_elementwise_args *)own)->extent[0] = count;
        return;
    }
    weft_kernel_args *args = own;
    for (int i = 0; i < args->num_outputs + args->num_inputs; i++) {
        if (step->moving >> i & 1) {
            args->operands[i].offset[0] += first;
            args->operands[i].extent[0] = count;
        }
    }
}

/* The CUDA function of clusters; takes the task's reference to the cluster. */
int weft_cluster_run_cuda(const weft_task_run *run, weft_cuda_queue *queue);

#endif
