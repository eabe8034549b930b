/* The data table over NCCL: groups go to a thread of their own, rounds end after their events, and all else goes to the table
 * below.
 *
 * One thread alone calls NCCL, because a call may take until a peer makes its own (connections, a full queue of the device),
 * and the peer may wait for a message of the progress thread meanwhile. */
#include "comm/nccl_data.h"

#include <sched.h>
#include <stdlib.h>

#include "comm/nccl_round.h"
#include "runtime/background.h"

/* ---- the issuing thread -------------------------------------------------------------------------------- */

/* While groups are under way, from time to time: a peer that has ended is known to NCCL alone. */
static void look_for_errors(weft_nccl_data *state)
{
    ncclResult_t result = ncclSuccess;
    state->parts.nccl.CommGetAsyncError(state->parts.comm, &result);
    if (result != ncclSuccess && result != ncclInProgress) {
        pthread_mutex_lock(&state->mutex);
        state->failed = result;
        pthread_mutex_unlock(&state->mutex);
    }
}

/* Looks for a round for a while without a sleep, from which the thread would wake late. The mutex is held, but for between looks. */
static void spin(weft_nccl_data *state)
{
    const double spin_us = 100;
    double until = starpu_timing_now() + spin_us;
    while (state->next == NULL && !state->stopping && starpu_timing_now() < until) {
        pthread_mutex_unlock(&state->mutex);
        sched_yield();
        pthread_mutex_lock(&state->mutex);
    }
}

/* Waits for a round to issue. NULL: there is none yet. */
static weft_nccl_round *await_round(weft_nccl_data *state, bool *stopping)
{
    const double look_us = 10e3;
    pthread_mutex_lock(&state->mutex);
    spin(state);
    if (state->next == NULL && state->first == NULL && !state->stopping) {
        pthread_cond_wait(&state->wake, &state->mutex);
    } else if (state->next == NULL && !state->stopping) {
        struct timespec until = weft_time_after(look_us);
        pthread_cond_timedwait(&state->wake, &state->mutex, &until);
    }
    *stopping = state->stopping;
    weft_nccl_round *round = state->failed == ncclSuccess && state->device_failed == 0 ? state->next : NULL;
    pthread_mutex_unlock(&state->mutex);
    return round;
}

static void *issue_rounds(void *argument)
{
    weft_nccl_data *state = argument;
    cudaSetDevice(state->parts.device);
    weft_background_wake_on_time();
    for (bool stopping = false; !stopping;) {
        weft_nccl_round *round = await_round(state, &stopping);
        if (stopping) {
            break;
        }
        if (round != NULL) {
            weft_nccl_round_issue(state, round);
        } else {
            look_for_errors(state);
        }
    }
    return NULL;
}

/* ---- the table's functions ----------------------------------------------------------------------------- */

static weft_status nccl_start_group(void *opaque, int count, const weft_group_message messages[])
{
    weft_nccl_data *state = opaque;
    weft_nccl_round *first = weft_nccl_rounds_new(state, count, messages), *last = first;
    if (first == NULL) {
        return WEFT_ERR_NOMEM;
    }
    while (last->next != NULL) {
        last = last->next;
    }
    pthread_mutex_lock(&state->mutex);
    *(state->first == NULL ? &state->first : &state->last->next) = first;
    state->last = last;
    state->next = state->next == NULL ? first : state->next;
    pthread_cond_signal(&state->wake);
    pthread_mutex_unlock(&state->mutex);
    return WEFT_OK;
}

/* ---- the table's other functions ----------------------------------------------------------------------- */

/* Every process has a device, so every rank is on one. */
static bool nccl_groups(void *opaque, const weft_stage *stage, weft_stage_kind kind)
{
    (void)opaque;
    (void)stage;
    return kind != WEFT_STAGE_LOCAL;
}

static weft_status nccl_start(void *opaque, const weft_message *message, bool receive, void *memory, void *token)
{
    weft_nccl_data *state = opaque;
    return state->below.start(state->below.state, message, receive, memory, token);
}

static void nccl_flush(void *opaque)
{
    weft_nccl_data *state = opaque;
    state->below.flush(state->below.state);
}

/* The oldest round, if it has been issued; NULL: none. */
static weft_nccl_round *first_issued(weft_nccl_data *state)
{
    pthread_mutex_lock(&state->mutex);
    weft_nccl_round *round = state->first != NULL && state->first->issued ? state->first : NULL;
    pthread_mutex_unlock(&state->mutex);
    return round;
}

static void end_first_round(weft_nccl_data *state)
{
    pthread_mutex_lock(&state->mutex);
    weft_nccl_round *round = state->first;
    state->first = round->next;
    if (round->pinned != NULL) {
        round->pinned->next = state->spare;
        state->spare = round->pinned;
        round->pinned = NULL;
    }
    pthread_mutex_unlock(&state->mutex);
    round->next = NULL;
    weft_nccl_rounds_free(state, round);
}

static void check_errors(weft_nccl_data *state)
{
    pthread_mutex_lock(&state->mutex);
    ncclResult_t failed = state->failed;
    int device_failed = state->device_failed;
    pthread_mutex_unlock(&state->mutex);
    if (device_failed != 0) {
        weft_break(WEFT_ERR_COMM, "weft", "a group of messages has failed on its device: %s",
                   cudaGetErrorString((cudaError_t)device_failed));
    } else if (failed != ncclSuccess) {
        weft_break(WEFT_ERR_COMM, "weft", "NCCL has failed: %s", state->parts.nccl.GetErrorString(failed));
    }
}

/* Rounds end in their order, as the stream does. */
static int poll_rounds(weft_nccl_data *state, weft_finished finished[], int max)
{
    int count = 0;
    for (weft_nccl_round *round; count < max && (round = first_issued(state)) != NULL;) {
        cudaError_t ended = round->reported > 0 ? cudaSuccess : cudaEventQuery(round->end);
        if (ended == cudaErrorNotReady) {
            break;
        }
        if (ended != cudaSuccess) {
            weft_break(WEFT_ERR_COMM, "weft", "a group of messages has failed on its device: %s", cudaGetErrorString(ended));
            break;
        }
        if (round->reported == 0) {
            weft_nccl_round_write(round);
        }
        while (count < max && round->reported < round->count) {
            finished[count++] = (weft_finished){ round->messages[round->reported++].message->token, WEFT_OK };
        }
        if (round->reported == round->count) {
            end_first_round(state);
        }
    }
    return count;
}

static int nccl_poll(void *opaque, weft_finished finished[], int max)
{
    weft_nccl_data *state = opaque;
    cudaSetDevice(state->parts.device); /* of the progress thread */
    int count = poll_rounds(state, finished, max);
    check_errors(state);
    return count + state->below.poll(state->below.state, finished + count, max - count);
}

static void stop_thread(weft_nccl_data *state)
{
    if (state->has_thread) {
        pthread_mutex_lock(&state->mutex);
        state->stopping = true;
        pthread_cond_signal(&state->wake);
        pthread_mutex_unlock(&state->mutex);
        pthread_join(state->thread, NULL);
        state->has_thread = false;
    }
}

/* What NCCL does on the device ends, so panels there are not written any more. */
static void nccl_abandon(void *opaque)
{
    weft_nccl_data *state = opaque;
    state->below.abandon(state->below.state);
    stop_thread(state);
    if (state->parts.comm != NULL) {
        state->parts.nccl.CommAbort(state->parts.comm);
        state->parts.comm = NULL;
    }
}

static void nccl_enable_packing(void *opaque)
{
    weft_nccl_data *state = opaque;
    if (state->below.enable_packing != NULL) {
        state->below.enable_packing(state->below.state);
    }
}

static void free_state(weft_nccl_data *state)
{
    weft_nccl_rounds_free(state, state->first); /* of a broken world */
    while (state->spare != NULL) {
        weft_pinned *block = state->spare;
        state->spare = block->next;
        cudaFreeHost(block->memory);
        free(block);
    }
    weft_cuda_queue_free(&state->queue);
    cudaFree(state->staging);
    if (state->stream != NULL) {
        cudaStreamDestroy(state->stream);
    }
    pthread_mutex_destroy(&state->mutex);
    pthread_cond_destroy(&state->wake);
    free(state);
}

static void nccl_close(void *opaque)
{
    weft_nccl_data *state = opaque;
    weft_data below = state->below;
    weft_nccl_library nccl = state->parts.nccl;
    int former = 0;
    cudaGetDevice(&former);
    cudaSetDevice(state->parts.device);
    stop_thread(state);
    cudaStreamSynchronize(state->stream); /* nothing is under way, or it was aborted */
    if (state->parts.comm != NULL) {
        nccl.CommDestroy(state->parts.comm);
    }
    free_state(state);
    cudaSetDevice(former);
    weft_nccl_unload(&nccl);
    below.close(below.state);
}

int64_t weft_nccl_staging_bytes(int processes, int64_t round_bytes)
{
    return 2 * (int64_t)(processes - 1) * weft_nccl_rounded(round_bytes);
}

int weft_nccl_data_open(const weft_nccl_parts *parts, weft_data *data)
{
    weft_nccl_data *state = calloc(1, sizeof(*state));
    bool locks = state != NULL && pthread_mutex_init(&state->mutex, NULL) == 0;
    if (!locks || !weft_cond_init(&state->wake)) {
        if (locks) {
            pthread_mutex_destroy(&state->mutex);
        }
        free(state);
        return (int)cudaErrorMemoryAllocation;
    }
    int64_t bytes = weft_nccl_staging_bytes(parts->processes, parts->round_bytes);
    state->below = *data;
    state->parts = *parts;
    state->half = bytes / 2;
    cudaError_t failed = cudaSetDevice(parts->device);
    failed = failed == cudaSuccess ? cudaStreamCreateWithFlags(&state->stream, cudaStreamNonBlocking) : failed;
    failed = failed == cudaSuccess ? cudaMalloc((void **)&state->staging, (size_t)bytes) : failed;
    state->queue.stream = state->stream;
    if (failed == cudaSuccess && !weft_background_start(&state->thread, issue_rounds, state)) {
        failed = cudaErrorMemoryAllocation;
    }
    if (failed != cudaSuccess) {
        free_state(state);
        return (int)failed;
    }
    state->has_thread = true;
    *data = (weft_data){
        .state = state,
        .memories = data->memories | 1u << STARPU_CUDA_RAM,
        .matching = data->matching,
        .takes_devices = data->takes_devices,
        .node = parts->node,
        .device_bytes = parts->granted_bytes,
        .start = nccl_start,
        .flush = data->flush == NULL ? NULL : nccl_flush,
        .poll = nccl_poll,
        .groups = nccl_groups,
        .start_group = nccl_start_group,
        .abandon = nccl_abandon,
        .enable_packing = nccl_enable_packing,
        .close = nccl_close,
    };
    return 0;
}
