/* Access to the shards of hosted ranks. */
#include <string.h>

#include "arrays/arrays.h"
#include "arrays/read.h"
#include "runtime/lease.h"
#include "tensor/actions.h"
#include "tensor/state.h"

/* False with the error kept. */
static bool check_local_rank(const char *function, int local_rank)
{
    bool hosted = local_rank >= 0 && local_rank < weft_runtime.local_ranks;
    if (!hosted) {
        weft_fail(WEFT_ERR_INVALID, function, "local_rank is %d, expected 0 to %d", local_rank,
                  weft_runtime.local_ranks - 1);
    }
    return hosted;
}

weft_local_shard *weft_check_shard(const char *function, weft_tensor_impl *tensor, int local_rank)
{
    if (!check_local_rank(function, local_rank) || !weft_check_data(function, "tensor", tensor)) {
        return NULL;
    }
    weft_local_shard *shard = &tensor->shards[local_rank];
    if (tensor->layout->ndim == 0 && !shard->member) {
        char text[160];
        weft_fail(WEFT_ERR_MESH, function,
                  "tensor is %s, and local rank %d (rank %d) is not in its mesh: it has no value",
                  weft_layout_format(tensor->layout, text, sizeof(text)), local_rank, shard->rank);
        return NULL;
    }
    return shard;
}

static size_t shard_bytes(const weft_tensor_impl *tensor, const weft_local_shard *shard)
{
    return (size_t)shard->count * weft_dtype_size(tensor->layout->dtype);
}

static enum starpu_data_access_mode starpu_mode(weft_access access)
{
    return access == WEFT_READ ? STARPU_R : access == WEFT_WRITE ? STARPU_W : STARPU_RW;
}

/* Before writing to shared memory the shard gets a copy, from which it is also read. */
static bool make_accessible(const char *function, weft_tensor_impl *tensor, const weft_local_shard *shard,
                            bool write)
{
    bool shared = shard->count > 0 && weft_buffer_is_shared(shard->buffer);
    if (!weft_check_shard_waits_not(function, shard, write && !shared)) {
        return false;
    }
    if (!write) {
        return true;
    }
    return weft_tensor_make_writable(function, tensor, true) &&
           weft_check_shard_waits_not(function, shard, true);
}

/* Indices into call->numbers. */
enum { LOCAL_RANK, ACCESS };

static weft_status act(const char *function, const weft_operation *action, weft_tensor *tensor, int local_rank,
                       weft_access access, void *memory, size_t bytes)
{
    return weft_act(&(weft_call){ .function = function,
                                  .operation = action,
                                  .num_inputs = 1,
                                  .inputs = { tensor },
                                  .attributes = { .num_numbers = 2,
                                                  .numbers = { [LOCAL_RANK] = local_rank, [ACCESS] = access } },
                                  .details = &(weft_call_details){ .memory = memory, .bytes = bytes } },
                    NULL);
}

static weft_local_shard *shard_of(const weft_call *call)
{
    return &weft_tensor_get(call->inputs[0])->shards[call->attributes.numbers[LOCAL_RANK]];
}

/* details->memory: receives the pointer. */
static weft_status perform_acquire(const weft_call *call, weft_tensor *outputs[])
{
    (void)outputs;
    weft_tensor_impl *tensor = weft_tensor_get(call->inputs[0]);
    weft_local_shard *shard = shard_of(call);
    int local_rank = (int)call->attributes.numbers[LOCAL_RANK];
    weft_access access = (weft_access)call->attributes.numbers[ACCESS];
    if (weft_is_broken()) {
        return weft_error_collect();
    }
    if (!make_accessible(call->function, tensor, shard, access != WEFT_READ)) {
        return weft_latest_status();
    }
    if (!weft_shard_hold(tensor, local_rank, starpu_mode(access))) {
        return weft_fail(WEFT_ERR_NOMEM, call->function, "no memory to hold a shard");
    }
    weft_status status = weft_error_collect();
    if (status != WEFT_OK) { /* a task's error; or the world broke during the wait */
        weft_shard_let_go(shard);
        return status;
    }
    static int64_t nothing; /* an address for empty shards */
    *(void **)call->details->memory =
        shard->count == 0 ? (void *)&nothing : (char *)shard->buffer->memory + shard->offset;
    return WEFT_OK;
}

static const weft_operation action_acquire = { .name = "local_acquire", .perform = perform_acquire, .effects = WEFT_NEEDS_DATA };
static const weft_operation action_acquire_to_write = {
    .name = "local_acquire", .perform = perform_acquire, .effects = WEFT_NEEDS_DATA | WEFT_LENDS
};

void *weft_local_acquire(weft_tensor *handle, int local_rank, weft_access access)
{
    static const char function[] = "weft_local_acquire";
    weft_tensor_impl *tensor = weft_check_tensor(function, "tensor", handle);
    weft_local_shard *shard = tensor == NULL ? NULL : weft_check_shard(function, tensor, local_rank);
    if (shard == NULL) {
        return NULL;
    }
    if (access != WEFT_READ && access != WEFT_WRITE && access != WEFT_READ_WRITE) {
        weft_fail(WEFT_ERR_INVALID, function, "access is %d, which is no weft_access", (int)access);
        return NULL;
    }
    if (shard->hold != NULL) {
        weft_fail(WEFT_ERR_STATE, function, "the shard of local rank %d is acquired already", local_rank);
        return NULL;
    }
    void *memory = NULL;
    const weft_operation *action = access == WEFT_READ ? &action_acquire : &action_acquire_to_write;
    return act(function, action, handle, local_rank, access, &memory, 0) == WEFT_OK ? memory : NULL;
}

/* details->memory: receives the answer, a bool. */
static weft_status perform_test(const weft_call *call, weft_tensor *outputs[])
{
    (void)outputs;
    const weft_tensor_impl *tensor = weft_tensor_get(call->inputs[0]);
    bool ready = true;
    weft_end_pause();
    for (int i = 0; i < tensor->num_shards && ready && !weft_is_broken(); i++) {
        const weft_local_shard *shard = &tensor->shards[i];
        for (int64_t k = 0; k < shard->num_panels && ready && shard->hold == NULL; k++) {
            starpu_data_handle_t handle = shard->panels[k].handle;
            if (weft_lease_holds(shard->buffer->lease, handle)) { /* it has its values, but is not granted at once */
                continue;
            }
            ready = starpu_data_acquire_on_node_try(handle, STARPU_ACQUIRE_NO_NODE, STARPU_R) == 0;
            if (ready) {
                starpu_data_release_on_node(handle, STARPU_ACQUIRE_NO_NODE);
            }
        }
    }
    *(bool *)call->details->memory = ready;
    return WEFT_OK;
}

static const weft_operation action_test = { .name = "tensor_test", .perform = perform_test, .effects = WEFT_NEEDS_DATA };

weft_status weft_tensor_test(weft_tensor *handle, bool *ready)
{
    static const char function[] = "weft_tensor_test";
    weft_tensor_impl *tensor = weft_check_tensor(function, "tensor", handle);
    if (tensor == NULL || !weft_check_data(function, "tensor", tensor)) {
        return weft_latest_status();
    }
    if (ready == NULL) {
        return weft_fail(WEFT_ERR_INVALID, function, "ready is NULL");
    }
    *ready = false;
    return act(function, &action_test, handle, 0, WEFT_READ, ready, sizeof(*ready));
}

static weft_status perform_release(const weft_call *call, weft_tensor *outputs[])
{
    (void)outputs;
    weft_local_shard *shard = shard_of(call);
    if (shard->count > 0) { /* the program may have written others than 0 and 1 */
        weft_truths_normalize(weft_layout_of(call->inputs[0])->dtype, (char *)shard->buffer->memory + shard->offset,
                              shard->count);
    }
    weft_shard_let_go(shard);
    return WEFT_OK;
}

static const weft_operation action_release = { .name = "local_release", .perform = perform_release, .effects = WEFT_NEEDS_DATA };

weft_status weft_local_release(weft_tensor *handle, int local_rank)
{
    static const char function[] = "weft_local_release";
    weft_tensor_impl *tensor = weft_check_tensor(function, "tensor", handle);
    weft_local_shard *shard = tensor == NULL ? NULL : weft_check_shard(function, tensor, local_rank);
    if (shard == NULL) {
        return weft_latest_status();
    }
    if (shard->hold == NULL) {
        return weft_fail(WEFT_ERR_STATE, function, "the shard of local rank %d is not acquired", local_rank);
    }
    return act(function, &action_release, handle, local_rank, 0, NULL, 0);
}

/* The shard is acquired. */
static void copy_out(const weft_layout *layout, const weft_local_shard *shard, void *host)
{
    weft_cut cut = shard->count == 0 ? (weft_cut){ .total = 0 } : weft_shard_cut(layout, shard);
    for (int i = 0; i < (int)shard->num_panels; i++) {
        const weft_panel *panel = &shard->panels[i];
        int64_t begin = weft_cut_start(&cut, i);
        const char *memory = (const char *)starpu_variable_get_local_ptr(panel->handle);
        memcpy((char *)host + begin, memory + panel->offset, (size_t)(weft_cut_end(&cut, i) - begin));
    }
}

/* All panels are acquired before the first byte is copied: a world that breaks meanwhile leaves undefined
 * values. */
weft_status weft_shard_read(const char *function, const weft_tensor_impl *tensor, int local_rank, void *host)
{
    const weft_local_shard *shard = &tensor->shards[local_rank];
    if (weft_runtime.cuda_queues != NULL) {
        return weft_shard_read_in_place(function, tensor, local_rank, host);
    }
    if (weft_is_broken()) {
        return weft_error_collect();
    }
    if (!weft_check_shard_waits_not(function, shard, false)) {
        return WEFT_ERR_STATE;
    }
    weft_acquisition *hold = weft_acquisition_begin(shard, STARPU_R);
    if (hold == NULL) {
        return weft_fail(WEFT_ERR_NOMEM, function, "no memory to hold a shard");
    }
    bool broken = weft_is_broken();
    if (!broken) {
        copy_out(tensor->layout, shard, host);
    }
    weft_acquisition_end(hold);
    return broken ? weft_error_collect() : WEFT_OK;
}

static weft_status perform_to_host(const weft_call *call, weft_tensor *outputs[])
{
    (void)outputs;
    weft_status status = weft_shard_read(call->function, weft_tensor_get(call->inputs[0]),
                                         (int)call->attributes.numbers[LOCAL_RANK], call->details->memory);
    return status == WEFT_OK ? weft_error_collect() : status;
}

static const weft_operation action_to_host = {
    .name = "local_to_host", .perform = perform_to_host, .effects = WEFT_NEEDS_DATA | WEFT_ONLY_READS
};

weft_status weft_local_to_host(weft_tensor *handle, int local_rank, void *host, size_t bytes)
{
    static const char function[] = "weft_local_to_host";
    weft_tensor_impl *tensor = weft_check_tensor(function, "tensor", handle);
    weft_local_shard *shard = tensor == NULL ? NULL : weft_check_shard(function, tensor, local_rank);
    if (shard == NULL) {
        return weft_latest_status();
    }
    if (!weft_check_room(function, "shard", host, bytes, shard_bytes(tensor, shard))) {
        return WEFT_ERR_INVALID;
    }
    if (shard->hold != NULL) {
        return weft_fail(WEFT_ERR_STATE, function, "the shard of local rank %d is acquired", local_rank);
    }
    return act(function, &action_to_host, handle, local_rank, 0, host, bytes);
}

size_t weft_local_bytes(const weft_tensor *handle, int local_rank)
{
    static const char function[] = "weft_local_bytes";
    const weft_tensor_impl *tensor = weft_check_tensor(function, "tensor", handle);
    if (tensor == NULL || !check_local_rank(function, local_rank)) {
        return 0;
    }
    int64_t count = weft_layout_shard_count(tensor->layout, weft_runtime.first_rank + local_rank);
    return (size_t)count * weft_dtype_size(tensor->layout->dtype);
}
