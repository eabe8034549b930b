/* Whole tensors: distribution from one process, gathering to all, and queries. */
#include <stdlib.h>
#include <string.h>

#include "arrays/arrays.h"
#include "arrays/read.h"
#include "call/deferral.h"
#include "codelets/complex.h"
#include "codelets/convert.h"
#include "comm/check_spmd.h"
#include "tensor/actions.h"
#include "tensor/memory.h"
#include "tensor/state.h"

/* After all checks that are the same on every process. NULL with the error kept. */
static const weft_layout *distributed_layout(const char *function, weft_dtype dtype, int ndim,
                                             const int64_t shape[], const weft_mesh *handle,
                                             const weft_placement *placements)
{
    const weft_mesh_impl *mesh = weft_check_mesh(function, handle);
    if (mesh == NULL || !weft_check_given_type(function, dtype) || !weft_check_shape(function, ndim, shape)) {
        return NULL;
    }
    const weft_layout *layout = weft_check_layout(function, mesh, placements, ndim, shape, weft_plain_type(dtype));
    if (layout != NULL && layout->has_partial) {
        weft_fail(WEFT_ERR_LAYOUT, function,
                  "placements has a Partial: a global array is Shard or Replicate");
        return NULL;
    }
    return layout;
}

/* Only the process of the mesh's first rank reads the array, so it alone knows whether there is one, and
 * broadcasts that. The same result on every process; false with the error kept. */
static bool check_global(const char *function, const weft_layout *layout, const void *global)
{
    int64_t count = 1, missing = 0;
    weft_count_checked(layout->ndim, layout->shape, &count);
    int root = weft_mesh_rank_at(layout->mesh, 0);
    int process = weft_process_of(root);
    if (weft_hosts(root) && count > 0 && global == NULL) {
        weft_fail(WEFT_ERR_INVALID, function,
                  "global is NULL on the process that hosts the mesh's first rank");
        missing = 1;
    }
    if (!weft_numbers_broadcast(function, process, 1, &missing)) {
        return false;
    }
    if (missing != 0 && !weft_hosts(root)) {
        char name[64];
        weft_fail(WEFT_ERR_INVALID, function, "global is NULL on %s, which hosts the mesh's first rank",
                  weft_process_text(process, name, sizeof(name)));
    }
    return missing == 0;
}

/* Whether this process may wait for the reading process. False with the error kept: nothing has been
 * called. */
static bool may_wait_for_root(const char *function, const weft_layout *layout)
{
    return layout == NULL || weft_runtime.num_processes == 1 || weft_hosts(weft_mesh_rank_at(layout->mesh, 0)) ||
           weft_check_no_send_waits(function);
}

/* A tensor of this layout, whole on the root, whose memory is the caller's array or a copy of it. NULL
 * with the error kept. */
static weft_tensor_impl *lend_global(const char *function, const weft_layout *layout, const void *global,
                                     bool copied)
{
    int64_t one = 1;
    int root = weft_mesh_rank_at(layout->mesh, 0);
    const weft_mesh_impl *root_mesh = weft_mesh_obtain(function, 1, &one, &root, NULL);
    const weft_layout *whole = root_mesh == NULL ? NULL
                                                 : weft_check_layout(function, root_mesh, NULL, layout->ndim,
                                                                     layout->shape, layout->dtype);
    weft_tensor_impl *source = whole == NULL ? NULL : weft_tensor_allocate(function, whole);
    if (source == NULL) {
        return NULL;
    }
    bool lent = true;
    for (int i = 0; lent && i < source->num_shards; i++) {
        weft_local_shard *shard = &source->shards[i];
        if (shard->count > 0) {
            weft_cut cut = weft_shard_cut(whole, shard);
            lent = weft_shard_attach(
                shard, copied ? weft_buffer_copy(weft_runtime.pool, cut, global)
                              : weft_buffer_borrow(weft_runtime.pool, cut, (void *)(uintptr_t)global, STARPU_MAIN_RAM));
            if (lent && copied) {
                weft_truths_normalize(layout->dtype, shard->buffer->memory, shard->count);
            }
        }
    }
    if (!lent || !weft_tensor_register(function, source)) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for the tensor");
        weft_tensor_delete(source);
        return NULL;
    }
    return source;
}

/* BLOCKS until all tasks and sends have read the shards: acquires them for writing. */
static bool wait_for_readers(const char *function, const weft_tensor_impl *source)
{
    for (int i = 0; i < source->num_shards; i++) {
        weft_acquisition *hold = weft_acquisition_begin(&source->shards[i], STARPU_RW);
        if (hold == NULL) {
            weft_fail(WEFT_ERR_NOMEM, function, "no memory to hold a shard");
            return false;
        }
        weft_acquisition_end(hold);
    }
    return !weft_is_broken() || weft_error_collect() == WEFT_OK;
}

/* details->memory: the array. */
static weft_status perform_distribute(const weft_call *call, weft_tensor *outputs[])
{
    const char *function = call->function;
    const weft_layout *layout = call->details->layout;
    if (!weft_check_spmd(&(weft_call_signature){ function, .num_layouts = 1, .layouts = &layout }) ||
        !check_global(function, layout, call->details->memory)) {
        return weft_latest_status();
    }
    weft_scope_begin();
    /* While the program has acquired a shard, the target's memory may depend on its release. Truth values that are neither 0
     * nor 1 are not changed in the program's array. */
    bool copied = weft_tensors_acquired() > 0 || layout->dtype == WEFT_BOOL;
    weft_tensor_impl *source = lend_global(function, layout, call->details->memory, copied);
    /* A tensor of its own: on the same one-rank mesh a redistribution would return the caller's memory
     * itself. */
    weft_tensor_impl *target = source == NULL ? NULL : weft_tensor_new(function, layout);
    bool done = target != NULL && weft_tensor_copy_into(function, target, source) &&
                (copied || wait_for_readers(function, source));
    outputs[0] = done ? weft_scope_keep(target->handle) : NULL;
    weft_scope_end_own();
    return outputs[0] == NULL ? weft_latest_status() : WEFT_OK;
}

static const weft_operation action_distribute = {
    .name = "distribute", .perform = perform_distribute, .effects = WEFT_LEAVES_VALUES, .num_outputs = 1
};

weft_tensor *weft_distribute(weft_dtype dtype, int ndim, const int64_t shape[], const void *global,
                             weft_mesh *mesh, const weft_placement *placements)
{
    static const char function[] = "weft_distribute";
    const weft_layout *layout = distributed_layout(function, dtype, ndim, shape, mesh, placements);
    if (!may_wait_for_root(function, layout)) {
        return NULL;
    }
    if (layout == NULL) {
        weft_check_spmd(&(weft_call_signature){ function, .failed = true, .num_layouts = 1, .layouts = &layout });
        return NULL;
    }
    const weft_call_details details = { .layout = layout, .memory = (void *)(uintptr_t)global };
    return weft_made(dtype, weft_act_for_tensor(&(weft_call){
                                .function = function, .operation = &action_distribute, .details = &details }));
}

bool weft_check_not_acquired(const char *function, const char *argument, const weft_tensor_impl *tensor)
{
    for (int i = 0; i < tensor->num_shards; i++) {
        if (tensor->shards[i].hold != NULL) {
            weft_fail(WEFT_ERR_STATE, function, "%s: the shard of local rank %d is acquired", argument, i);
            return false;
        }
    }
    return true;
}

bool weft_check_room(const char *function, const char *name, const void *memory, size_t bytes, size_t needed)
{
    if (memory == NULL && needed > 0) {
        weft_fail(WEFT_ERR_INVALID, function, "%s is NULL", name);
        return false;
    }
    if (bytes < needed) {
        weft_fail(WEFT_ERR_INVALID, function, "bytes is %zu, but %s needs %zu bytes", bytes,
                  name, needed);
        return false;
    }
    return true;
}

static size_t bytes_of(const weft_layout *layout)
{
    int64_t count = 1;
    weft_count_checked(layout->ndim, layout->shape, &count);
    return (size_t)count * weft_dtype_size(layout->dtype);
}

/* The layout with the whole tensor on one rank of each process, after all checks; NULL with the error
 * kept. */
static const weft_layout *host_layout(const char *function, const weft_tensor_impl *tensor,
                                      const void *global, size_t bytes)
{
    const weft_layout *layout = tensor->layout;
    if (weft_runtime.world == WEFT_WORLD_FAKE) {
        weft_fail(WEFT_ERR_UNSUPPORTED, function, "a fake world has no data");
        return NULL;
    }
    if (!weft_check_room(function, "global", global, bytes, bytes_of(layout)) ||
        !weft_check_not_acquired(function, "tensor", tensor)) {
        return NULL;
    }
    const weft_mesh_impl *mesh = weft_host_mesh();
    return mesh == NULL ? NULL
                        : weft_check_layout(function, mesh, NULL, layout->ndim, layout->shape, layout->dtype);
}

/* Waits for the tasks that write this process' shards. BLOCKS. */
static void wait_for_shards(const weft_tensor_impl *tensor)
{
    for (int i = 0; i < tensor->num_shards; i++) {
        const weft_local_shard *shard = &tensor->shards[i];
        for (int64_t k = 0; k < shard->num_panels; k++) {
            starpu_data_handle_t handle = shard->panels[k].handle;
            if (starpu_data_acquire_on_node(handle, STARPU_ACQUIRE_NO_NODE, STARPU_R) == 0) {
                starpu_data_release_on_node(handle, STARPU_ACQUIRE_NO_NODE);
            }
        }
    }
}

/* Replicas may differ, so all processes get the values of the first one. */
static weft_status gather_on_host(const char *function, weft_tensor_impl *tensor,
                                  const weft_layout *everywhere, void *global)
{
    if (weft_is_read_in_place(tensor->layout)) {
        return weft_tensor_read_in_place(function, tensor, global);
    }
    if (!weft_check_memory(function, "tensor", 1, &everywhere)) {
        return weft_latest_status();
    }
    weft_scope_begin();
    weft_tensor_impl *source = weft_runtime.num_processes == 1 ? tensor
                               : weft_deferral_finish(function) ? weft_tensor_first_replicas(function, tensor)
                                                               : NULL;
    weft_tensor_impl *whole = source == NULL ? NULL : weft_tensor_to_layout(function, source, everywhere);
    weft_status status = whole == NULL ? weft_latest_status() : weft_shard_read(function, whole, 0, global);
    if (status == WEFT_OK && source != tensor) {
        wait_for_shards(tensor); /* nothing has read them: what their tasks found wrong is told here, as where they are read */
    }
    weft_scope_end_own();
    return status;
}

weft_status weft_tensor_gather(const char *function, weft_tensor_impl *tensor, void *global, size_t bytes)
{
    const weft_layout *everywhere = host_layout(function, tensor, global, bytes);
    return everywhere == NULL ? weft_latest_status() : gather_on_host(function, tensor, everywhere, global);
}

weft_status weft_tensor_to_host(const char *function, weft_tensor_impl *tensor, void *global, size_t bytes)
{
    const weft_layout *everywhere = tensor == NULL ? NULL : host_layout(function, tensor, global, bytes);
    weft_call_signature call = { .function = function, .failed = everywhere == NULL, .num_layouts = 1 };
    call.layouts = tensor == NULL ? &everywhere : &tensor->layout;
    if (!weft_check_spmd(&call) || everywhere == NULL) {
        return weft_latest_status();
    }
    weft_status status = gather_on_host(function, tensor, everywhere, global);
    return status == WEFT_OK ? weft_error_collect() : status;
}

static weft_status perform_to_host(const weft_call *call, weft_tensor *outputs[])
{
    (void)outputs;
    return weft_tensor_to_host(call->function, weft_tensor_get(call->inputs[0]), call->details->memory,
                               call->details->bytes);
}

static const weft_operation action_to_host = { .name = "to_host", .perform = perform_to_host, .effects = WEFT_NEEDS_DATA | WEFT_ONLY_READS };

weft_status weft_to_host(weft_tensor *handle, void *global, size_t bytes)
{
    static const char function[] = "weft_to_host";
    if (weft_check_tensor(function, "tensor", handle) == NULL) {
        return weft_tensor_to_host(function, NULL, global, bytes);
    }
    return weft_act(&(weft_call){ .function = function,
                                  .operation = &action_to_host,
                                  .num_inputs = 1,
                                  .inputs = { handle },
                                  .details = &(weft_call_details){ .memory = global, .bytes = bytes } },
                    NULL);
}

/* details->memory: receives the value. */
static weft_status perform_item(const weft_call *call, weft_tensor *outputs[])
{
    (void)outputs;
    weft_tensor_impl *tensor = weft_tensor_get(call->inputs[0]);
    int64_t element;
    weft_status status = weft_tensor_to_host(call->function, tensor, &element, sizeof(element));
    if (status == WEFT_OK) {
        weft_load(WEFT_F64, call->details->memory, tensor->layout->dtype, &element, 1, 1);
    }
    return status;
}

static const weft_operation action_item = { .name = "item", .perform = perform_item, .effects = WEFT_NEEDS_DATA | WEFT_ONLY_READS };

weft_status weft_tensor_item(weft_tensor *handle, double *value)
{
    static const char function[] = "weft_tensor_item";
    weft_tensor_impl *tensor = weft_check_tensor(function, "tensor", handle);
    if (tensor == NULL) {
        return weft_latest_status();
    }
    int64_t count = 1;
    weft_count_checked(tensor->layout->ndim, tensor->layout->shape, &count);
    if (value == NULL) {
        return weft_fail(WEFT_ERR_INVALID, function, "value is NULL");
    }
    if (count != 1) {
        return weft_fail(WEFT_ERR_SHAPE, function, "tensor has %lld elements, expected 1", (long long)count);
    }
    if (weft_dtype_is_complex(tensor->layout->dtype)) {
        return weft_fail(WEFT_ERR_DTYPE, function, "tensor is %s, expected a real type: weft_real() gives the real part",
                         weft_dtype_name(tensor->layout->dtype));
    }
    return weft_act(&(weft_call){ .function = function,
                                  .operation = &action_item,
                                  .num_inputs = 1,
                                  .inputs = { handle },
                                  .details = &(weft_call_details){ .memory = value } },
                    NULL);
}

/* ---- properties ---------------------------------------------------------------------------------------- */

int weft_tensor_ndim(const weft_tensor *handle)
{
    weft_tensor_impl *tensor = weft_check_tensor("weft_tensor_ndim", "tensor", handle);
    return tensor == NULL ? 0 : tensor->layout->ndim;
}

int64_t weft_tensor_size(const weft_tensor *handle, int dim)
{
    weft_tensor_impl *tensor = weft_check_tensor("weft_tensor_size", "tensor", handle);
    dim = tensor == NULL ? -1 : weft_check_dim("weft_tensor_size", "dim", dim, tensor->layout->ndim);
    return dim < 0 ? 0 : tensor->layout->shape[dim];
}

const int64_t *weft_tensor_shape(const weft_tensor *handle)
{
    weft_tensor_impl *tensor = weft_check_tensor("weft_tensor_shape", "tensor", handle);
    return tensor == NULL ? NULL : tensor->layout->shape;
}

int64_t weft_tensor_num_elements(const weft_tensor *handle)
{
    weft_tensor_impl *tensor = weft_check_tensor("weft_tensor_num_elements", "tensor", handle);
    int64_t count = 0;
    return tensor == NULL || !weft_count_checked(tensor->layout->ndim, tensor->layout->shape, &count) ? 0 : count;
}

weft_dtype weft_tensor_dtype(const weft_tensor *handle)
{
    weft_tensor_impl *tensor = weft_check_tensor("weft_tensor_dtype", "tensor", handle);
    return tensor == NULL ? WEFT_F32 : tensor->layout->dtype;
}

weft_mesh *weft_tensor_mesh(const weft_tensor *handle)
{
    weft_tensor_impl *tensor = weft_check_tensor("weft_tensor_mesh", "tensor", handle);
    return tensor == NULL ? NULL : tensor->layout->mesh->handle;
}

const weft_placement *weft_tensor_placements(const weft_tensor *handle)
{
    weft_tensor_impl *tensor = weft_check_tensor("weft_tensor_placements", "tensor", handle);
    return tensor == NULL ? NULL : tensor->layout->placements;
}

weft_status weft_local_box(const weft_tensor *handle, int local_rank, int64_t offset[], int64_t extent[])
{
    static const char function[] = "weft_local_box";
    weft_tensor_impl *tensor = weft_check_tensor(function, "tensor", handle);
    if (tensor == NULL) {
        return weft_latest_status();
    }
    int ndim = tensor->layout->ndim;
    if (local_rank < 0 || local_rank >= tensor->num_shards) {
        return weft_fail(WEFT_ERR_INVALID, function, "local_rank is %d, expected 0 to %d", local_rank,
                         tensor->num_shards - 1);
    }
    if (ndim > 0 && (offset == NULL || extent == NULL)) {
        return weft_fail(WEFT_ERR_INVALID, function, "%s is NULL", offset == NULL ? "offset" : "extent");
    }
    if (!weft_check_boxes(function, "tensor", tensor->layout)) {
        return weft_latest_status();
    }
    const weft_box *box = &tensor->shards[local_rank].box;
    for (int d = 0; d < ndim; d++) {
        offset[d] = box->offset[d];
        extent[d] = box->extent[d];
    }
    return WEFT_OK;
}

int64_t weft_local_runs(const weft_tensor *handle, int local_rank, int dim, int64_t most, weft_index_run runs[])
{
    static const char function[] = "weft_local_runs";
    const weft_tensor_impl *tensor = weft_check_tensor(function, "tensor", handle);
    int ndim = tensor == NULL ? 0 : tensor->layout->ndim;
    if (tensor == NULL) {
        return -1;
    }
    if (local_rank < 0 || local_rank >= tensor->num_shards || dim < -ndim || dim >= ndim || (most > 0 && runs == NULL)) {
        weft_fail(WEFT_ERR_INVALID, function, "local_rank is %d, dim is %d, and runs %s NULL, expected 0 to %d, %d to %d, and an array",
                  local_rank, dim, runs == NULL ? "is" : "is not", tensor->num_shards - 1, -ndim, ndim - 1);
        return -1;
    }
    weft_vec found = { 0 };
    int64_t index = weft_mesh_index_of(tensor->layout->mesh, tensor->shards[local_rank].rank), coordinate[WEFT_MAX_DIMS];
    bool done = true;
    if (index >= 0) {
        weft_mesh_unravel(tensor->layout->mesh, index, coordinate);
        done = weft_layout_runs(tensor->layout, coordinate, dim < 0 ? dim + ndim : dim, &found);
    }
    const weft_run *all = found.items;
    int64_t count = done ? (int64_t)found.count : -1;
    for (int64_t i = 0; i < count && i < most; i++) {
        runs[i] = (weft_index_run){ all[i].begin, all[i].rows };
    }
    weft_vec_free(&found);
    if (!done) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for the runs");
    }
    return count;
}

size_t weft_tensor_bytes(const weft_tensor *handle)
{
    const weft_tensor_impl *tensor = weft_check_tensor("weft_tensor_bytes", "tensor", handle);
    return tensor == NULL ? 0 : bytes_of(tensor->layout);
}

weft_status weft_tensor_set_name(weft_tensor *handle, const char *name)
{
    static const char function[] = "weft_tensor_set_name";
    weft_tensor_impl *tensor = weft_check_tensor(function, "tensor", handle);
    if (tensor == NULL) {
        return weft_latest_status();
    }
    char *copy = name == NULL ? NULL : strdup(name);
    if (copy == NULL && name != NULL) {
        return weft_fail(WEFT_ERR_NOMEM, function, "no memory for a name");
    }
    free(tensor->name);
    tensor->name = copy;
    if (weft_runtime.trace != NULL) {
        weft_tensor_trace_renamed(tensor);
    }
    return WEFT_OK;
}
