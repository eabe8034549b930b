/* weft_to_dlpack(): shards as managed tensors. */
#include <stdlib.h>

#include "arrays/dlpack.h"
#include "runtime/cuda.h"
#include "runtime/lease.h"
#include "tensor/actions.h"
#include "tensor/state.h"

/* A managed tensor with its memory, until its deleter is called. The deleter needs no thread of weft's and no state of a
 * world. */
typedef struct exported {
    struct DLManagedTensorVersioned versioned;
    struct DLManagedTensor unversioned; /* or this one is given out */
    int64_t shape[WEFT_MAX_DIMS], strides[WEFT_MAX_DIMS];
    weft_lease *lease; /* of shared memory; NULL: none is shared */
    void *copy;        /* memory of its own; NULL: none */
    int node;          /* memory node of what is shared */
} exported;

static void end(exported *e)
{
    if (e->lease != NULL) {
        weft_lease_give_back(e->lease);
    }
    free(e->copy);
    free(e);
}

static void delete_versioned(struct DLManagedTensorVersioned *self)
{
    end(self->context);
}

static void delete_unversioned(struct DLManagedTensor *self)
{
    end(self->context);
}

/* ---- memory -------------------------------------------------------------------------------------------- */

/* The memory of a non-empty shard; NULL with the error kept. */
static void *share(const char *function, const weft_local_shard *shard, exported *e)
{
    e->lease = weft_lease_take(shard->buffer);
    if (e->lease == NULL) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory to share a shard");
        return NULL;
    }
    return (char *)shard->buffer->memory + shard->offset;
}

static void *copy(const char *function, const weft_tensor_impl *tensor, int local_rank, exported *e)
{
    enum { ALIGNMENT = 64 }; /* as all memory of the library's (start_starpu()) */
    size_t bytes = (size_t)tensor->shards[local_rank].count * weft_dtype_size(tensor->layout->dtype);
    size_t room = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    e->copy = aligned_alloc(ALIGNMENT, room);
    if (e->copy == NULL) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for a copy of a shard of %zu bytes", bytes);
        return NULL;
    }
    return weft_shard_read(function, tensor, local_rank, e->copy) == WEFT_OK ? e->copy : NULL;
}

/* BLOCKS until the values are in the host's memory, where no task changes them any more: the lease's reference makes each
 * writer get other memory. */
static bool wait_for_values(const char *function, const weft_local_shard *shard)
{
    if (!weft_check_shard_waits_not(function, shard, false)) {
        return false;
    }
    weft_acquisition *hold = weft_acquisition_begin(shard, STARPU_R);
    if (hold == NULL) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory to hold a shard");
        return false;
    }
    weft_acquisition_end(hold);
    return true;
}

/* Half of the memory is for tasks' operands, a quarter for messages (runtime/cuda.c). */
static bool check_room(const char *function, starpu_data_handle_t handle)
{
    int64_t bytes = (int64_t)starpu_data_get_size(handle), held = weft_lease_held_bytes(), most = weft_runtime.device_bytes / 4;
    if (bytes <= most - held) {
        return true;
    }
    weft_fail(WEFT_ERR_NOMEM, function,
              "WEFT_ON_DEVICE: the shard's %lld bytes and the %lld of others that are in use exceed a quarter of the devices' memory, %lld",
              (long long)bytes, (long long)held, (long long)most);
    return false;
}

/* BLOCKS until the values are in the memory of a device. NULL with the error kept. */
static void *share_on_device(const char *function, const weft_local_shard *shard, int local_rank, exported *e)
{
    const char *wrong = weft_runtime.cuda_queues == NULL ? "this process computes on no devices (WEFT_DEVICES)"
                        : shard->buffer->borrowed        ? "the shard lies in the program's memory"
                        : shard->num_panels > 1          ? "the shard lies in several panels (WEFT_BITS, WEFT_PANEL_ROWS)"
                                                         : NULL;
    if (wrong != NULL) {
        weft_fail(WEFT_ERR_UNSUPPORTED, function, "WEFT_ON_DEVICE: %s", wrong);
        return NULL;
    }
    weft_leases_collect(); /* memory that has been given back has room again */
    starpu_data_handle_t handle = shard->panels[0].handle;
    bool has_room = weft_lease_holds(shard->buffer->lease, handle) || check_room(function, handle);
    if (!has_room || !weft_check_shard_waits_not(function, shard, false)) {
        return NULL;
    }
    e->lease = weft_lease_take(shard->buffer);
    char *panel = e->lease == NULL ? NULL : weft_lease_hold(e->lease, handle, local_rank, &e->node);
    if (panel == NULL) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory to share a shard");
        return NULL;
    }
    return panel + shard->panels[0].offset;
}

/* ---- the calls ----------------------------------------------------------------------------------------- */

static void fill_in(exported *e, const weft_layout *layout, const weft_local_shard *shard, void *memory, uint64_t flags)
{
    bool on_device = e->node != STARPU_MAIN_RAM;
    weft_dl_type type = weft_dl_type_of(layout->dtype);
    int64_t row_major = 1;
    for (int d = layout->ndim - 1; d >= 0; d--) {
        e->shape[d] = shard->box.extent[d];
        e->strides[d] = row_major;
        row_major *= weft_max_i64(1, e->shape[d]);
    }
    weft_dl_tensor tensor = { .data = memory,
                              .device_type = on_device ? WEFT_DL_CUDA : WEFT_DL_CPU,
                              .device_id = on_device ? starpu_memory_node_get_devid((unsigned)e->node) : 0,
                              .ndim = layout->ndim,
                              .kind = type.kind,
                              .bits = type.bits,
                              .lanes = 1,
                              .shape = e->shape,
                              .strides = e->strides };
    e->versioned = (struct DLManagedTensorVersioned){ .major = WEFT_DL_MAJOR,
                                                      .minor = WEFT_DL_MINOR,
                                                      .context = e,
                                                      .deleter = delete_versioned,
                                                      .flags = flags,
                                                      .tensor = tensor };
    e->unversioned = (struct DLManagedTensor){ .tensor = tensor, .context = e, .deleter = delete_unversioned };
}

/* Indices into call->numbers. */
enum { LOCAL_RANK, FLAGS };

/* details->memory: receives the exported *. */
static weft_status perform(const weft_call *call, weft_tensor *outputs[])
{
    (void)outputs;
    const weft_tensor_impl *tensor = weft_tensor_get(call->inputs[0]);
    int local_rank = (int)call->attributes.numbers[LOCAL_RANK];
    const weft_local_shard *shard = &tensor->shards[local_rank];
    int64_t flags = call->attributes.numbers[FLAGS];
    bool wants_copy = (flags & WEFT_COPY) != 0, on_device = (flags & WEFT_ON_DEVICE) != 0;
    bool copies = wants_copy || (shard->count > 0 && shard->buffer->borrowed && !on_device);
    if (weft_is_broken()) {
        return weft_error_collect();
    }
    exported *e = calloc(1, sizeof(*e));
    if (e == NULL) {
        return weft_fail(WEFT_ERR_NOMEM, call->function, "no memory for a managed tensor");
    }
    e->node = STARPU_MAIN_RAM;
    void *memory = NULL;
    bool done = shard->count == 0;
    if (!done && on_device) {
        memory = share_on_device(call->function, shard, local_rank, e);
        done = memory != NULL;
    } else if (!done && (copies || wait_for_values(call->function, shard))) {
        memory = copies ? copy(call->function, tensor, local_rank, e) : share(call->function, shard, e);
        done = memory != NULL;
    }
    /* Also a task's error; or the world broke during the wait. */
    weft_status status = done ? weft_error_collect() : weft_latest_status();
    if (status != WEFT_OK) {
        end(e);
        return status;
    }
    fill_in(e, tensor->layout, shard, memory, (wants_copy ? 0 : WEFT_DL_READ_ONLY) | (copies ? WEFT_DL_IS_COPIED : 0));
    *(exported **)call->details->memory = e;
    return WEFT_OK;
}

static exported *export_shard(const char *function, weft_tensor *handle, int local_rank, unsigned flags)
{
    static const weft_operation action = { .name = "to_dlpack", .perform = perform, .effects = WEFT_NEEDS_DATA };
    weft_tensor_impl *tensor = weft_check_tensor(function, "tensor", handle);
    if (tensor == NULL || weft_check_shard(function, tensor, local_rank) == NULL) {
        return NULL;
    }
    if (flags != 0 && flags != WEFT_COPY && flags != WEFT_ON_DEVICE) {
        weft_fail(WEFT_ERR_INVALID, function, "flags is 0x%x, expected 0, WEFT_COPY or WEFT_ON_DEVICE", flags);
        return NULL;
    }
    exported *e = NULL;
    weft_act(&(weft_call){ .function = function,
                           .operation = &action,
                           .num_inputs = 1,
                           .inputs = { handle },
                           .attributes = { .num_numbers = 2, .numbers = { [LOCAL_RANK] = local_rank, [FLAGS] = flags } },
                           .details = &(weft_call_details){ .memory = &e } },
             NULL);
    return e;
}

struct DLManagedTensorVersioned *weft_to_dlpack(weft_tensor *tensor, int local_rank, unsigned flags)
{
    exported *e = export_shard("weft_to_dlpack", tensor, local_rank, flags);
    return e == NULL ? NULL : &e->versioned;
}

struct DLManagedTensor *weft_to_dlpack_unversioned(weft_tensor *tensor, int local_rank, unsigned flags)
{
    exported *e = export_shard("weft_to_dlpack_unversioned", tensor, local_rank, flags);
    return e == NULL ? NULL : &e->unversioned;
}
