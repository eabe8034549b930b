/* The life of a transfer from its submission to the release of its panel. engine.c has the part in
 * between. */
#include <stdlib.h>
#include <string.h>

#include "comm/engine.h"
#include "runtime/cuda.h"
#include "runtime/pending.h"

uint32_t weft_comm_reserve(weft_comm *comm, int peer, bool receive, uint32_t count)
{
    uint32_t *next = &(receive ? comm->next_receive : comm->next_send)[peer];
    uint32_t first = *next;
    *next += count;
    return first;
}

static void pending_add(weft_comm *comm, weft_comm_transfer *t)
{
    starpu_pthread_mutex_lock(&comm->mutex);
    t->in_background = comm->submits_in_background;
    comm->pending++;
    comm->in_background += t->in_background;
    t->older = comm->newest;
    *(comm->newest ? &comm->newest->newer : &comm->oldest) = t;
    comm->newest = t;
    if (weft_groups_follow(t)) {
        weft_groups_hold(comm, t);
    }
    starpu_pthread_mutex_unlock(&comm->mutex);
}

/* Runs on any thread. */
static void on_acquired(void *argument)
{
    weft_comm_transfer *t = argument;
    weft_comm *comm = t->comm;
    starpu_pthread_mutex_lock(&comm->mutex);
    t->phase = WEFT_READY;
    comm->granted++;
    if (weft_groups_follow(t)) {
        weft_groups_release(comm, t);
    }
    comm->last_progress_us = starpu_timing_now();
    bool first = comm->first_ready == NULL; /* else the progress thread has been woken for earlier ones */
    *(first ? &comm->first_ready : &comm->last_ready->next) = t;
    comm->last_ready = t;
    if (first) {
        starpu_pthread_cond_signal(&comm->wake);
    }
    starpu_pthread_mutex_unlock(&comm->mutex);
}

weft_comm_transfer *weft_comm_prepare(int count)
{
    size_t size = sizeof(weft_comm_transfer) + (size_t)count * sizeof(weft_message);
    weft_comm_transfer *t = calloc(1, size + (size_t)count * sizeof(weft_posted));
    if (t == NULL) {
        return NULL;
    }
    t->count = t->unfinished = count;
    t->posted = (weft_posted *)((char *)t + size);
    for (int i = 0; i < count; i++) {
        t->posted[i].transfer = t;
    }
    return t;
}

weft_message *weft_comm_messages(weft_comm_transfer *transfer)
{
    return transfer->messages;
}

void weft_comm_discard(weft_comm_transfer *transfer)
{
    free(transfer);
}

/* Frees all but the messages. */
static void fill_in(weft_comm_transfer *t, weft_comm *comm, starpu_data_handle_t handle, bool receive,
                    const weft_layout *layout, const char *label)
{
    t->comm = comm;
    t->handle = handle;
    t->receive = receive;
    t->submitted_us = starpu_timing_now();
    t->call = weft_runtime.call;
    t->call_number = weft_runtime.call_number;
    t->layout = layout;
    strncpy(t->label, label == NULL ? "" : label, WEFT_LABEL_SIZE - 1);
}

weft_comm_transfer *weft_comm_transfer_new(weft_comm *comm, starpu_data_handle_t handle, bool receive,
                                           int count, const weft_message messages[],
                                           const weft_layout *layout, const char *label)
{
    weft_comm_transfer *t = weft_comm_prepare(count);
    if (t == NULL) {
        weft_fail(WEFT_ERR_NOMEM, "weft_comm_submit", "no memory for a transfer of %d messages", count);
        return NULL;
    }
    fill_in(t, comm, handle, receive, layout, label);
    memcpy(t->messages, messages, (size_t)count * sizeof(t->messages[0]));
    return t;
}

/* Whether a granted panel may lie in the transport's device memory. Granted panels are not evicted; as they wait for others
 * there, they get a part of the memory alone, or tasks in between would find none. */
static bool reserve_on_device(weft_comm_transfer *t)
{
    weft_comm *comm = t->comm;
    long long bytes = (long long)starpu_data_get_size(t->handle);
    if (comm->transport.data.device_bytes == 0) {
        return false;
    }
    if (atomic_fetch_add(&comm->device_bytes, bytes) + bytes > comm->transport.data.device_bytes) {
        atomic_fetch_sub(&comm->device_bytes, bytes);
        return false;
    }
    t->device_bytes = bytes;
    comm->on_devices++;
    return true;
}

/* The dependencies are fulfilled: StarPU asks where it is to bring the values. Any thread. */
static void choose_node(void *argument, int *node, enum starpu_data_access_mode mode)
{
    weft_comm_transfer *t = argument;
    const weft_data *data = &t->comm->transport.data;
    int allocated, loading, requested, valid = mode != STARPU_R; /* what is received becomes so */
    if (data->takes_devices && mode == STARPU_R) {
        starpu_data_query_status2(t->handle, data->node, &allocated, &valid, &loading, &requested);
    }
    bool wanted = t->group != NULL || (data->takes_devices && valid);
    if (wanted && reserve_on_device(t)) {
        t->node = data->node;
    }
    *node = t->node;
    if (mode == STARPU_W) {
        weft_cuda_free_stale(t->handle, t->node);
    }
}

uint64_t weft_comm_on_devices(const weft_comm *comm)
{
    return comm->on_devices;
}

void weft_comm_transfer_submit(weft_comm_transfer *t, bool whole)
{
    t->node = STARPU_MAIN_RAM;
    if (t->comm->open_group != NULL) {
        weft_group_join(t->comm, t);
    }
    pending_add(t->comm, t);
    weft_pending_begin(weft_runtime.pending, weft_comm_pending_tasks(t->count));
    enum starpu_data_access_mode mode = !t->receive ? STARPU_R : whole ? STARPU_W : STARPU_RW;
    if (t->comm->transport.data.device_bytes == 0 && weft_runtime.device_bytes == 0) {
        starpu_data_acquire_on_node_cb(t->handle, STARPU_MAIN_RAM, mode, on_acquired, t);
        return;
    }
    starpu_data_acquire_on_node_cb_sequential_consistency_sync_jobids(t->handle, STARPU_MAIN_RAM, mode, choose_node, on_acquired,
                                                                      t, 1, 0, NULL, NULL, STARPU_DEFAULT_PRIO);
}

void weft_comm_submit_prepared(weft_comm *comm, weft_comm_transfer *t, starpu_data_handle_t handle,
                               bool receive, bool whole, const weft_layout *layout, const char *label)
{
    fill_in(t, comm, handle, receive, layout, label);
    weft_comm_transfer_submit(t, whole);
}

bool weft_comm_submit(weft_comm *comm, starpu_data_handle_t handle, bool receive, bool whole, int count,
                      const weft_message messages[], const weft_layout *layout, const char *label)
{
    weft_comm_transfer *t = weft_comm_transfer_new(comm, handle, receive, count, messages, layout, label);
    if (t != NULL) {
        weft_comm_transfer_submit(t, whole);
    }
    return t != NULL;
}

/* ---- the end ------------------------------------------------------------------------------------------- */

void weft_comm_transfer_leave_memory(const weft_comm_transfer *t)
{
    if (t->node != STARPU_MAIN_RAM) { /* nothing takes over device memory in a broken world: StarPU gives it back */
        return;
    }
    struct starpu_variable_interface *panel = starpu_data_get_interface_on_node(t->handle, STARPU_MAIN_RAM);
    void *elsewhere = malloc(panel->elemsize);
    if (elsewhere != NULL) {
        memcpy(elsewhere, (void *)panel->ptr, panel->elemsize);
        panel->ptr = panel->dev_handle = (uintptr_t)elsewhere;
    }
}

weft_comm_transfer *weft_comm_transfers_active(weft_comm *comm)
{
    weft_comm_transfer *first = NULL;
    starpu_pthread_mutex_lock(&comm->mutex);
    for (weft_comm_transfer *t = comm->oldest; t != NULL; t = t->newer) {
        if (t->phase == WEFT_ACTIVE) {
            t->next = first;
            first = t;
        }
    }
    starpu_pthread_mutex_unlock(&comm->mutex);
    return first;
}

void weft_comm_transfer_end(weft_comm *comm, weft_comm_transfer *t)
{
    starpu_data_release_on_node(t->handle, t->node);
    atomic_fetch_sub(&comm->device_bytes, t->device_bytes);
    starpu_pthread_mutex_lock(&comm->mutex);
    comm->granted--;
    *(t->newer ? &t->newer->older : &comm->newest) = t->older;
    *(t->older ? &t->older->newer : &comm->oldest) = t->newer;
    comm->last_progress_us = starpu_timing_now();
    comm->in_background -= t->in_background;
    if (--comm->pending == comm->in_background) {
        starpu_pthread_cond_broadcast(&comm->idle);
    }
    starpu_pthread_mutex_unlock(&comm->mutex);
    weft_pending_end(weft_runtime.pending, weft_comm_pending_tasks(t->count));
    weft_claimed_stage *claimed = t->claimed;
    void (*claimed_ended)(weft_claimed_stage *claimed) = t->claimed_ended;
    weft_comm_group *group = t->group;
    free(t);
    if (group != NULL) {
        weft_group_transfer_ended(group);
    }
    if (claimed != NULL) {
        claimed_ended(claimed);
    }
}
