/* A few integers exchanged between processes before a call can go on. They travel as tensors in memory of
 * their own that no task waits for. */
#include <stdlib.h>
#include <string.h>

#include "arrays/arrays.h"
#include "call/deferral.h"
#include "comm/check_spmd.h"
#include "tensor/state.h"

/* One row of `count` numbers for each entry of the mesh; this process's are `mine`. Belongs to the
 * innermost scope. NULL with the error kept. */
static weft_tensor_impl *numbers_tensor(const char *function, const weft_mesh_impl *mesh, weft_placement placement,
                                        int count, const int64_t mine[])
{
    const int64_t shape[] = { placement.kind == WEFT_SHARD ? mesh->num_ranks : 1, count };
    const weft_layout *layout = weft_check_layout(function, mesh, &placement, 2, shape, WEFT_I64);
    void **locals = calloc((size_t)weft_runtime.local_ranks, sizeof(*locals));
    weft_tensor_impl *tensor = NULL;
    if (locals == NULL) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for %d pointers", weft_runtime.local_ranks);
    } else if (layout != NULL) {
        locals[0] = (void *)(uintptr_t)mine;
        tensor = weft_tensor_import(function, layout, locals, true);
    }
    free(locals);
    return tensor;
}

bool weft_numbers_gather(const char *function, int count, const int64_t mine[], int64_t all[])
{
    size_t bytes = (size_t)count * sizeof(*mine);
    weft_deferral_note(function);
    if (weft_runtime.num_processes == 1) {
        memcpy(all, mine, bytes);
        return true;
    }
    if (!weft_deferral_finish(function)) {
        return false;
    }
    weft_scope_begin();
    const weft_mesh_impl *mesh = weft_host_mesh();
    weft_tensor_impl *tensor = mesh == NULL ? NULL : numbers_tensor(function, mesh, weft_shard(0), count, mine);
    bool done = tensor != NULL && weft_tensor_gather(function, tensor, all,
                                                     bytes * (size_t)weft_runtime.num_processes) == WEFT_OK;
    weft_scope_end_own();
    return done;
}

/* One rank of each process, that of process `first` in front; NULL with the error kept. */
static const weft_mesh_impl *processes_from(const char *function, int first)
{
    int64_t size = weft_runtime.num_processes;
    int *ranks = malloc((size_t)size * sizeof(*ranks));
    if (ranks == NULL) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for %lld ranks", (long long)size);
        return NULL;
    }
    for (int64_t i = 0; i < size; i++) {
        ranks[i] = weft_runtime.first_rank_of[i == 0 ? first : i <= first ? i - 1 : i];
    }
    const weft_mesh_impl *mesh = weft_mesh_obtain(function, 1, &size, ranks, NULL);
    free(ranks);
    return mesh;
}

bool weft_numbers_broadcast(const char *function, int process, int count, int64_t numbers[])
{
    weft_deferral_note(function);
    if (weft_runtime.num_processes == 1) {
        return true;
    }
    if (!weft_deferral_finish(function)) {
        return false;
    }
    weft_scope_begin();
    const weft_mesh_impl *mesh = processes_from(function, process);
    weft_tensor_impl *tensor =
        mesh == NULL ? NULL : numbers_tensor(function, mesh, weft_replicate(), count, numbers);
    bool done = tensor != NULL && weft_tensor_replicate_first(function, tensor) &&
                (weft_runtime.process == process || weft_shard_read(function, tensor, 0, numbers) == WEFT_OK);
    weft_scope_end_own();
    return done;
}

bool weft_numbers_agree(const char *function, int count, const int64_t all[], bool right)
{
    for (int p = 0; p < weft_runtime.num_processes && right; p++) {
        weft_status status = (weft_status)all[(ptrdiff_t)p * count + WEFT_NUMBERS_STATUS];
        right = status == WEFT_OK;
        if (!right) {
            char name[64];
            weft_fail(status, function, "%s gave wrong arguments: %s. Its own error names them",
                      weft_process_text(p, name, sizeof(name)), weft_status_string(status));
        }
    }
    for (int p = 1; p < weft_runtime.num_processes && right; p++) {
        right = all[(ptrdiff_t)p * count + WEFT_NUMBERS_FINGERPRINT] == all[WEFT_NUMBERS_FINGERPRINT];
        if (!right) {
            weft_fail(WEFT_ERR_MISMATCH, function,
                      "process %d gave other arguments than process 0 (shape, dtype, placements, mesh, size or ghosts)", p);
        }
    }
    return right;
}
