#include "tensor/memory.h"

#include <stdlib.h>

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

/* The most ranks of a mesh that a process hosts; 0 without memory to count them. */
static int64_t most_hosted(const weft_mesh_impl *mesh)
{
    int *hosted = calloc((size_t)weft_runtime.num_processes, sizeof(*hosted)), most = 0;
    for (int64_t i = 0; i < mesh->num_ranks && hosted != NULL; i++) {
        const int count = ++hosted[weft_process_of(weft_mesh_rank_at(mesh, i))];
        most = count > most ? count : most;
    }
    free(hosted);
    return most;
}

/* The most that a process has of the tensors; `counts`: its ranks are counted, else their number is the largest that there may be. */
static double bytes_of_process(int count, const weft_layout *const layouts[], bool counts)
{
    double bytes = 0;
    for (int i = 0; i < count; i++) {
        const weft_mesh_impl *mesh = layouts[i]->mesh;
        bytes += bytes_of_rank(layouts[i]) *
                 (double)(counts ? most_hosted(mesh) : weft_min_i64(mesh->num_ranks, weft_most_local_ranks()));
    }
    return bytes;
}

bool weft_check_memory(const char *function, const char *name, int count, const weft_layout *const layouts[])
{
    const double memory = (double)weft_runtime.memory_bytes;
    if (weft_runtime.world == WEFT_WORLD_FAKE || bytes_of_process(count, layouts, false) <= memory) {
        return true;
    }
    const double bytes = bytes_of_process(count, layouts, true);
    if (bytes > memory) {
        char text[160];
        weft_fail_alike(WEFT_ERR_NOMEM, function,
                        "%s is too large: with %s the call needs %.3g GB of a process, which has %.3g GB (WEFT_MEMORY_BYTES)", name,
                        weft_layout_format(layouts[0], text, sizeof(text)), bytes * 1e-9, memory * 1e-9);
    }
    return bytes <= memory;
}
