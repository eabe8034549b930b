#include "tensor/memory.h"

/* A rank's part of a tensor whose cuts are even. */
static double bytes_of_rank(const weft_layout *layout)
{
    double bytes = (double)weft_dtype_size(layout->dtype);
    for (int d = 0; d < layout->ndim; d++) {
        bytes *= (double)layout->shape[d];
    }
    for (int m = 0; m < layout->mesh->ndim; m++) {
        bytes /= layout->placements[m].kind == WEFT_SHARD ? (double)layout->mesh->shape[m] : 1;
    }
    return bytes;
}

/* A process's bytes of the tensors. */
static double bytes_of_process(int process, int count, const weft_layout *const layouts[])
{
    double bytes = 0;
    for (int i = 0; i < count; i++) {
        const weft_mesh_impl *mesh = layouts[i]->mesh;
        int64_t hosted = 0;
        for (int64_t k = 0; k < mesh->num_ranks; k++) {
            hosted += weft_process_of(weft_mesh_rank_at(mesh, k)) == process;
        }
        bytes += bytes_of_rank(layouts[i]) * (double)hosted;
    }
    return bytes;
}

/* No process has more of the tensors. */
static double bound_of_process(int count, const weft_layout *const layouts[])
{
    double bytes = 0;
    for (int i = 0; i < count; i++) {
        bytes += bytes_of_rank(layouts[i]) * (double)weft_min_i64(layouts[i]->mesh->num_ranks, weft_most_local_ranks());
    }
    return bytes;
}

bool weft_check_memory(const char *function, const char *name, int count, const weft_layout *const layouts[])
{
    double memory = (double)weft_runtime.memory_bytes, most = 0;
    if (weft_runtime.world == WEFT_WORLD_FAKE || bound_of_process(count, layouts) <= memory) {
        return true;
    }
    int receivers = 0;
    for (int p = 0; p < weft_runtime.num_processes; p++) {
        const double bytes = bytes_of_process(p, count, layouts);
        most = bytes > most ? bytes : most;
        receivers += bytes > 0;
    }
    if (weft_runtime.spread.machines == 1 && receivers > 0) {
        memory *= (double)weft_runtime.num_processes / receivers;
    }
    if (most > memory) {
        char text[160];
        weft_fail_alike(WEFT_ERR_NOMEM, function,
                        "%s is too large: with %s the call needs %.3g GB of a process, which has %.3g GB (WEFT_MEMORY_BYTES)", name,
                        weft_layout_format(layouts[0], text, sizeof(text)), most * 1e-9, memory * 1e-9);
    }
    return most <= memory;
}
