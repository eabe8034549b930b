/* Shards acquired by the program (weft_local_acquire()), and what waits for their release: tasks that use
 * them, tasks after those, and so on. Blocking on one of these would deadlock. Costs nothing while no
 * shard is acquired. */
#include <stdio.h>
#include <stdlib.h>

#include "runtime/pending.h"
#include "tensor/state.h"

struct weft_acquisition {
    const weft_tensor_impl *tensor; /* with weft_shard_hold() */
    int local_rank;
    bool written;
    struct weft_acquisition *next, *previous; /* with weft_shard_hold() */
    int count;
    starpu_data_handle_t handles[];
};

weft_acquisition *weft_acquisition_begin(const weft_local_shard *shard, enum starpu_data_access_mode mode)
{
    weft_acquisition *hold = calloc(1, sizeof(*hold) + (size_t)shard->num_panels * sizeof(starpu_data_handle_t));
    if (hold == NULL) {
        return NULL;
    }
    weft_end_pause();
    hold->written = (mode & STARPU_W) != 0;
    for (int64_t i = 0; i < shard->num_panels; i++) {
        starpu_data_handle_t handle = shard->panels[i].handle;
        /* Neighbouring panels of a view may share a handle. */
        if (i == 0 || handle != shard->panels[i - 1].handle) {
            starpu_data_acquire_on_node(handle, STARPU_MAIN_RAM, mode);
            hold->handles[hold->count++] = handle;
        }
    }
    return hold;
}

void weft_acquisition_end(weft_acquisition *hold)
{
    for (int i = 0; i < hold->count; i++) {
        starpu_data_release_on_node(hold->handles[i], STARPU_MAIN_RAM);
    }
    free(hold);
}

/* ---- what waits for the program ------------------------------------------------------------------------ */

/* From now on writers of the handle wait, and with `written` also its readers. Without memory for the
 * entry, everything is taken to wait. */
static void note_handle(weft_acquired *held, starpu_data_handle_t handle, bool written)
{
    bool noted = weft_map_add_pointer(&held->unwritable, handle) &&
                 (!written || weft_map_add_pointer(&held->unreadable, handle));
    held->all_wait |= !noted;
}

static void note_hold(weft_acquired *held, const weft_acquisition *hold)
{
    for (int i = 0; i < hold->count; i++) {
        note_handle(held, hold->handles[i], hold->written);
    }
}

static void forget_all(weft_acquired *held)
{
    weft_map_free(&held->unwritable);
    weft_map_free(&held->unreadable);
    held->tasks_wait = held->sends_wait = held->all_wait = false;
    weft_runtime.pending->for_program = weft_runtime.pending->bytes_for_program = 0;
}

static bool handle_waits(const weft_acquired *held, starpu_data_handle_t handle, bool write)
{
    return held->all_wait || weft_map_has_pointer(write ? &held->unwritable : &held->unreadable, handle);
}

bool weft_acquired_waits(starpu_data_handle_t handle)
{
    return handle_waits(&weft_runtime.tensors->held, handle, true);
}

void weft_acquired_follow_task(int count, const starpu_data_handle_t handles[],
                           const enum starpu_data_access_mode modes[])
{
    weft_acquired *held = &weft_runtime.tensors->held;
    bool waits = false;
    for (int i = 0; i < count && held->count > 0 && !waits; i++) {
        waits = handle_waits(held, handles[i], (modes[i] & STARPU_W) != 0);
    }
    for (int i = 0; i < count && waits; i++) {
        note_handle(held, handles[i], (modes[i] & STARPU_W) != 0);
    }
    held->tasks_wait |= waits;
    weft_runtime.pending->for_program += waits;
}

void weft_acquired_follow_transfer(starpu_data_handle_t handle, bool receive, int64_t tasks)
{
    weft_acquired *held = &weft_runtime.tensors->held;
    /* Received values may depend on own sends that wait. */
    if (held->count > 0 && (handle_waits(held, handle, receive) || (receive && held->sends_wait))) {
        note_handle(held, handle, receive);
        held->tasks_wait = true;
        held->sends_wait |= !receive;
        weft_runtime.pending->for_program += tasks;
    }
}

/* ---- shards -------------------------------------------------------------------------------------------- */

bool weft_shard_hold(weft_tensor_impl *tensor, int local_rank, enum starpu_data_access_mode mode)
{
    weft_acquisition *hold = weft_acquisition_begin(&tensor->shards[local_rank], mode);
    if (hold == NULL) {
        return false;
    }
    weft_acquired *held = &weft_runtime.tensors->held;
    hold->tensor = tensor;
    hold->local_rank = local_rank;
    hold->next = held->newest;
    if (held->newest != NULL) {
        held->newest->previous = hold;
    }
    held->newest = hold;
    held->count++;
    weft_runtime.pending->held = true;
    note_hold(held, hold);
    tensor->shards[local_rank].hold = hold;
    return true;
}

void weft_shard_let_go(weft_local_shard *shard)
{
    weft_acquisition *hold = shard->hold;
    if (hold == NULL) {
        return;
    }
    weft_acquired *held = &weft_runtime.tensors->held;
    *(hold->previous == NULL ? &held->newest : &hold->previous->next) = hold->next;
    if (hold->next != NULL) {
        hold->next->previous = hold->previous;
    }
    shard->hold = NULL;
    weft_acquisition_end(hold);
    /* Tasks that waited for this shard may wait for others too: their entries stay until nothing is
     * acquired. */
    weft_runtime.pending->held = --held->count > 0;
    if (held->count == 0 || !held->tasks_wait) {
        forget_all(held);
        for (const weft_acquisition *other = held->newest; other != NULL; other = other->next) {
            note_hold(held, other);
        }
    }
}

/* Keeps an error: `why`, then the name of an acquired shard. Returns false. */
bool weft_acquired_refuse(const char *function, const char *why)
{
    const weft_acquisition *hold = weft_runtime.tensors->held.newest;
    const char *label = weft_tensor_label(hold->tensor);
    weft_fail(
        WEFT_ERR_STATE, function,
        "%s: weft_local_acquire() holds %d of the shards, the last one that of local rank %d of %s%s", why,
        weft_runtime.tensors->held.count, hold->local_rank, label[0] == '\0' ? "a tensor" : "tensor ", label);
    return false;
}

static bool refuse_to_wait(const char *function)
{
    return weft_acquired_refuse(function, "would wait for weft_local_release()");
}

bool weft_check_shard_waits_not(const char *function, const weft_local_shard *shard, bool write)
{
    const weft_acquired *held = &weft_runtime.tensors->held;
    bool waits = false;
    for (int64_t i = 0; i < shard->num_panels && held->count > 0 && !waits; i++) {
        waits = handle_waits(held, shard->panels[i].handle, write);
    }
    return !waits || refuse_to_wait(function);
}

bool weft_check_nothing_waits(const char *function)
{
    return !weft_runtime.tensors->held.tasks_wait || refuse_to_wait(function);
}

bool weft_check_no_send_waits(const char *function)
{
    return !weft_runtime.tensors->held.sends_wait || refuse_to_wait(function);
}

/* ---- all of them --------------------------------------------------------------------------------------- */

int weft_tensors_acquired(void)
{
    return weft_runtime.tensors->held.count;
}

void weft_tensors_let_go(void)
{
    for (weft_tensor_impl *tensor = weft_runtime.tensors->newest; tensor != NULL; tensor = tensor->older) {
        for (int i = 0; i < tensor->num_shards; i++) {
            weft_shard_let_go(&tensor->shards[i]);
        }
    }
}
