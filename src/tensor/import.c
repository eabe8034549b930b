/* Tensors of the program's own shards: weft_from_local() and what its flags ask for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/check_spmd.h"
#include "tensor/state.h"

/* ---- from_local ---------------------------------------------------------------------------------------- */

static bool check_flags(const char *function, unsigned flags)
{
    if ((flags & ~(unsigned)(WEFT_COPY | WEFT_CHECK_RANKS)) != 0) {
        weft_fail(WEFT_ERR_INVALID, function, "flags is 0x%x, expected WEFT_COPY and WEFT_CHECK_RANKS only",
                  flags);
        return false;
    }
    return true;
}

static bool check_locals(const char *function, const weft_layout *layout, void *const locals[])
{
    for (int i = 0; i < weft_runtime.local_ranks; i++) {
        int rank = weft_runtime.first_rank + i;
        if (weft_layout_shard_count(layout, rank) > 0 && (locals == NULL || locals[i] == NULL)) {
            char name[32] = "locals";
            if (locals != NULL) {
                snprintf(name, sizeof(name), "locals[%d]", i);
            }
            weft_fail(WEFT_ERR_INVALID, function, "%s is NULL, but rank %d holds %lld elements", name, rank,
                      (long long)weft_layout_shard_count(layout, rank));
            return false;
        }
    }
    return true;
}

static weft_tensor_impl *import_shards(const char *function, const weft_layout *layout, void *const locals[],
                                       bool copy)
{
    weft_tensor_impl *tensor = weft_tensor_allocate(function, layout);
    for (int i = 0; tensor != NULL && i < tensor->num_shards; i++) {
        weft_local_shard *shard = &tensor->shards[i];
        if (shard->count == 0) {
            continue;
        }
        weft_cut cut = weft_shard_cut(layout, shard);
        weft_buffer *buffer = copy ? weft_buffer_copy(weft_runtime.pool, cut, locals[i])
                                   : weft_buffer_borrow(weft_runtime.pool, cut, locals[i]);
        if (!weft_shard_attach(shard, buffer)) {
            weft_fail(WEFT_ERR_NOMEM, function, "no memory for a shard of %lld elements",
                      (long long)shard->count);
            weft_tensor_delete(tensor);
            return NULL;
        }
    }
    if (tensor != NULL && !weft_tensor_register(function, tensor)) {
        weft_tensor_delete(tensor);
        return NULL;
    }
    return tensor;
}

/* ---- the check flag ------------------------------------------------------------------------------------ */

static uint64_t layout_fingerprint(const weft_layout *layout)
{
    uint64_t hash = weft_hash_bytes(layout->shape, (size_t)layout->ndim * sizeof(layout->shape[0]),
                                    (uint64_t)layout->dtype * 16 + (uint64_t)layout->ndim);
    for (int d = 0; d < layout->mesh->ndim; d++) {
        weft_placement p = layout->placements[d];
        int64_t words[4] = { (int64_t)p.kind, p.dim, (int64_t)p.op, layout->mesh->shape[d] };
        hash = weft_hash_bytes(words, sizeof(words), hash);
    }
    return hash;
}

/* The same answer on every process: whether all gave the same layout. BLOCKS. What tasks of this process
 * report meanwhile concerns other calls, and must not part it from the others: it stays where it is. */
static bool layouts_agree(const char *function, const weft_layout *layout)
{
    int64_t processes = weft_runtime.num_processes;
    if (processes == 1) {
        return true;
    }
    int64_t mine = (int64_t)layout_fingerprint(layout);
    const weft_mesh_impl *mesh = weft_host_mesh();
    weft_placement split = weft_shard(0);
    int64_t *all = malloc((size_t)processes * sizeof(*all));
    void *locals[] = { &mine };
    const weft_layout *one_each =
        mesh == NULL ? NULL : weft_check_layout(function, mesh, &split, 1, &processes, WEFT_I64);
    void **hosted = calloc((size_t)weft_runtime.local_ranks, sizeof(*hosted));
    bool agree = all != NULL && hosted != NULL && one_each != NULL;
    if (agree) {
        hosted[0] = locals[0];
        weft_scope_open();
        weft_tensor_impl *fingerprints = import_shards(function, one_each, hosted, true);
        agree = fingerprints != NULL &&
                weft_tensor_gather(function, fingerprints, all, (size_t)processes * sizeof(*all)) == WEFT_OK;
        weft_scope_close();
    }
    for (int64_t i = 0; i < processes && agree; i++) {
        agree = all[i] == all[0];
        if (!agree) {
            weft_fail(WEFT_ERR_MISMATCH, function,
                      "process %lld gave another shape, dtype or placements than process 0", (long long)i);
        }
    }
    free(hosted);
    free(all);
    return agree;
}

static weft_tensor *from_local(const char *function, const weft_layout *layout, void *const locals[],
                               unsigned flags)
{
    bool check = (flags & WEFT_CHECK_RANKS) != 0;
    if (check && !weft_check_nothing_waits(function)) {
        return NULL;
    }
    double number = flags;
    weft_call_signature call = { .function = function, .num_numbers = 1, .numbers = &number };
    call.num_layouts = check ? 0 : 1; /* else compared below, where a difference breaks nothing */
    call.layouts = &layout;
    if (!weft_check_spmd(&call)) {
        return NULL;
    }
    if (check && !layouts_agree(function, layout)) {
        return NULL;
    }
    weft_tensor_impl *tensor = import_shards(function, layout, locals, (flags & WEFT_COPY) != 0);
    if (tensor != NULL && check && !weft_tensor_replicate_first(function, tensor)) {
        return NULL;
    }
    return weft_tensor_handle(tensor);
}

weft_tensor *weft_from_local(weft_dtype dtype, int ndim, const int64_t shape[], void *const locals[],
                             weft_mesh *handle, const weft_placement *placements, unsigned flags)
{
    static const char function[] = "weft_from_local";
    const weft_mesh_impl *mesh = weft_check_mesh(function, handle);
    if (mesh == NULL || !weft_check_dtype(function, dtype) || !weft_check_shape(function, ndim, shape) ||
        !check_flags(function, flags)) {
        return NULL;
    }
    const weft_layout *layout = weft_check_layout(function, mesh, placements, ndim, shape, dtype);
    if (layout == NULL || !check_locals(function, layout, locals)) {
        return NULL;
    }
    return from_local(function, layout, locals, flags);
}

weft_tensor *weft_from_local_even(weft_dtype dtype, int ndim, const int64_t local_shape[],
                                  void *const locals[], weft_mesh *handle, const weft_placement *placements,
                                  unsigned flags)
{
    static const char function[] = "weft_from_local_even";
    const weft_mesh_impl *mesh = weft_check_mesh(function, handle);
    if (mesh == NULL || !weft_check_dtype(function, dtype) ||
        !weft_check_shape(function, ndim, local_shape) || !check_flags(function, flags)) {
        return NULL;
    }
    weft_placement canonical[WEFT_MAX_DIMS];
    char why[200];
    weft_status status = weft_placements_normalize(placements, mesh->ndim, ndim, canonical, why, sizeof(why));
    if (status != WEFT_OK) {
        weft_fail(status, function, "placements: %s", why);
        return NULL;
    }
    int64_t shape[WEFT_MAX_DIMS] = { 0 };
    for (int d = 0; d < ndim; d++) {
        shape[d] = local_shape[d];
    }
    for (int m = 0; m < mesh->ndim; m++) {
        int d = canonical[m].dim;
        if (canonical[m].kind == WEFT_SHARD && !weft_mul_checked(shape[d], mesh->shape[m], &shape[d])) {
            weft_fail(WEFT_ERR_SHAPE, function, "local_shape[%d] times the mesh is too large", d);
            return NULL;
        }
    }
    if (!weft_check_shape(function, ndim, shape)) {
        return NULL;
    }
    const weft_layout *layout = weft_check_layout(function, mesh, canonical, ndim, shape, dtype);
    if (layout == NULL || !check_locals(function, layout, locals)) {
        return NULL;
    }
    return from_local(function, layout, locals, flags);
}
