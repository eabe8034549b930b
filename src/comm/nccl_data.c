/* Groups of messages over NCCL.
 *
 * A group is carried out in rounds, so that staging buffers are bounded: a round takes of each pair of processes as many
 * messages as fit, which both sides count alike. Messages that are contiguous in device memory leave from and arrive in their
 * panels; others are packed and unpacked by kernels. A round is put into the stream as a whole (packing, one ncclGroup,
 * unpacking, an event), so rounds use the same buffers without any wait, and nothing but the event is looked at. Panels that
 * lie in main memory pass through pinned memory of the round.
 *
 * One thread alone calls NCCL, because a call may take until a peer makes its own (connections, a full queue of the device),
 * and the peer may wait for a message of the progress thread meanwhile. */
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "codelets/copy.h"
#include "codelets/cuda/kernels.h"
#include "comm/nccl_data.h"

enum { ALIGNMENT = 16 };

/* Pinned memory, in use by a round or kept for the next. */
typedef struct pinned {
    struct pinned *next;
    char *memory;
    size_t size;
} pinned;

/* A message on its way through staging buffers. */
typedef struct staged {
    const weft_group_message *message;
    char *device; /* packed */
    char *host;   /* packed, of a panel in main memory; NULL: the panel is on the device */
} staged;

typedef struct nccl_round {
    struct nccl_round *next;
    cudaEvent_t end;
    pinned *pinned;
    bool issued;
    int count, reported; /* messages */
    staged messages[];
} nccl_round;

typedef struct nccl_data {
    weft_data below;
    weft_nccl_parts parts;
    cudaStream_t stream;
    weft_cuda_queue queue; /* for kernels on the stream */
    char *staging;         /* of sends, then of receives */
    int64_t half;          /* bytes of each */
    pinned *spare;
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t mutex; /* guards all below, and spare */
    pthread_cond_t wake;
    nccl_round *first, *last, *next; /* next: to be issued */
    bool stopping;
    ncclResult_t failed;
    int device_failed; /* a cudaError_t */
} nccl_data;

static int64_t rounded(int64_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* ---- packing ------------------------------------------------------------------------------------------- */

/* The largest element that the region consists of. */
static size_t element_of(const weft_region *region, const void *memory)
{
    uint64_t all = (uint64_t)region->run_bytes | (uint64_t)(uintptr_t)memory | (uint64_t)region->offset;
    for (int d = 0; d < region->ndim; d++) {
        all |= (uint64_t)region->stride[d];
    }
    size_t size = 8;
    while (all % size != 0) {
        size /= 2;
    }
    return size;
}

/* Packs a region of a panel on the device, or unpacks it; behind the stream. */
static int launch_copy(nccl_data *state, const weft_region *region, char *panel, char *packed, bool unpacks)
{
    size_t size = element_of(region, panel);
    weft_copy_args args = { .base.dtype = WEFT_U8, .element_size = size };
    weft_strided_box *box = &args.boxes[0];
    int64_t *strided = unpacks ? box->target_stride : box->source_stride;
    int64_t *plain = unpacks ? box->source_stride : box->target_stride;
    int64_t step = region->run_bytes / (int64_t)size;
    box->ndim = region->ndim + 1;
    box->extent[region->ndim] = step;
    strided[region->ndim] = plain[region->ndim] = 1;
    for (int d = region->ndim - 1; d >= 0; d--) {
        box->extent[d] = region->count[d];
        strided[d] = region->stride[d] / (int64_t)size;
        plain[d] = step;
        step *= region->count[d];
    }
    void *at = panel + region->offset;
    void *operands[] = { unpacks ? at : packed, unpacks ? packed : at };
    weft_task_run run = { .kernel = WEFT_KERNEL_copy, .arguments = &args, .num_operands = 2, .operands = operands };
    return weft_cuda_copy(&run, &state->queue);
}

static int pack(nccl_data *state, const staged *s)
{
    const weft_region *region = &s->message->message->region;
    if (s->host == NULL) {
        return launch_copy(state, region, s->message->memory, s->device, false);
    }
    weft_region_read(region, s->message->memory, s->host);
    return (int)cudaMemcpyAsync(s->device, s->host, (size_t)s->message->message->bytes, cudaMemcpyHostToDevice, state->stream);
}

static int unpack(nccl_data *state, const staged *s)
{
    if (s->host == NULL) {
        return launch_copy(state, &s->message->message->region, s->message->memory, s->device, true);
    }
    return (int)cudaMemcpyAsync(s->host, s->device, (size_t)s->message->message->bytes, cudaMemcpyDeviceToHost, state->stream);
}

/* Behind the round's end: what arrived for main memory. */
static void write_to_panels(nccl_round *round)
{
    for (int i = 0; i < round->count; i++) {
        const staged *s = &round->messages[i];
        if (s->host != NULL && s->message->receive) {
            weft_region_write(&s->message->message->region, s->message->memory, s->host);
        }
    }
}

/* ---- rounds -------------------------------------------------------------------------------------------- */

static pinned *find_spare(nccl_data *state, size_t size)
{
    pinned *found = NULL;
    pthread_mutex_lock(&state->mutex);
    for (pinned **at = &state->spare; *at != NULL && found == NULL; at = &(*at)->next) {
        if ((*at)->size >= size) {
            found = *at;
            *at = found->next;
            break;
        }
    }
    pthread_mutex_unlock(&state->mutex);
    return found;
}

/* Pinned memory of at least so many bytes; NULL: there is none. */
static pinned *take_pinned(nccl_data *state, size_t size)
{
    pinned *block = find_spare(state, size);
    if (block != NULL) {
        return block;
    }
    block = calloc(1, sizeof(*block));
    if (block != NULL && cudaHostAlloc((void **)&block->memory, size, cudaHostAllocDefault) != cudaSuccess) {
        free(block);
        return NULL;
    }
    if (block != NULL) {
        block->size = size;
    }
    return block;
}

static void free_round(nccl_data *state, nccl_round *round)
{
    if (round->pinned != NULL) { /* of a broken world */
        round->pinned->next = state->spare;
        state->spare = round->pinned;
    }
    if (round->end != NULL) {
        cudaEventDestroy(round->end);
    }
    free(round);
}

/* Where each message is sent from or received into. */
static bool place(nccl_data *state, nccl_round *round)
{
    int64_t used[2] = { 0, 0 }, host = 0;
    for (int i = 0; i < round->count; i++) {
        staged *s = &round->messages[i];
        const weft_message *m = s->message->message;
        if (s->message->on_device && m->region.ndim == 0) {
            s->device = (char *)s->message->memory + m->region.offset;
            continue;
        }
        int64_t *next = &used[s->message->receive];
        s->device = state->staging + (s->message->receive ? state->half : 0) + *next;
        *next += rounded(m->bytes);
        host += s->message->on_device ? 0 : rounded(m->bytes);
    }
    if (host == 0) {
        return true;
    }
    round->pinned = take_pinned(state, (size_t)host);
    char *at = round->pinned == NULL ? NULL : round->pinned->memory;
    for (int i = 0; i < round->count && at != NULL; i++) {
        staged *s = &round->messages[i];
        if (!s->message->on_device) {
            s->host = at;
            at += rounded(s->message->message->bytes);
        }
    }
    return at != NULL;
}

static bool is_packed(const staged *s)
{
    return s->host != NULL || s->message->message->region.ndim > 0;
}

static bool is_stopping(nccl_data *state)
{
    pthread_mutex_lock(&state->mutex);
    bool stopping = state->stopping;
    pthread_mutex_unlock(&state->mutex);
    return stopping;
}

/* Until NCCL has put into the stream what was asked for: the communicator does not block. */
static ncclResult_t finish_call(nccl_data *state, ncclResult_t result)
{
    while (result == ncclInProgress && !is_stopping(state)) {
        nanosleep(&(struct timespec){ 0, 20000 }, NULL);
        state->parts.library.CommGetAsyncError(state->parts.comm, &result);
    }
    return result;
}

/* Sends and receives between all processes of the round at once. */
static ncclResult_t exchange(nccl_data *state, const nccl_round *round)
{
    const weft_nccl_library *nccl = &state->parts.library;
    ncclResult_t result = nccl->GroupStart();
    for (int i = 0; i < round->count && result == ncclSuccess; i++) {
        const staged *s = &round->messages[i];
        const weft_message *m = s->message->message;
        result = s->message->receive
                     ? nccl->Recv(s->device, (size_t)m->bytes, ncclUint8, m->peer, state->parts.comm, state->stream)
                     : nccl->Send(s->device, (size_t)m->bytes, ncclUint8, m->peer, state->parts.comm, state->stream);
    }
    ncclResult_t ended = nccl->GroupEnd();
    return finish_call(state, result == ncclSuccess ? ended : result);
}

static int copy_all(nccl_data *state, const nccl_round *round, bool receives)
{
    int failed = 0;
    for (int i = 0; i < round->count && failed == 0; i++) {
        const staged *s = &round->messages[i];
        if (s->message->receive == receives && is_packed(s)) {
            failed = receives ? unpack(state, s) : pack(state, s);
        }
    }
    return failed;
}

/* Puts a round into the stream. */
static void issue(nccl_data *state, nccl_round *round)
{
    ncclResult_t result = ncclSuccess;
    int failed = place(state, round) ? 0 : (int)cudaErrorMemoryAllocation;
    failed = failed == 0 ? (int)cudaEventCreateWithFlags(&round->end, cudaEventDisableTiming) : failed;
    failed = failed == 0 ? copy_all(state, round, false) : failed;
    if (failed == 0) {
        result = exchange(state, round);
    }
    if (failed == 0 && result == ncclSuccess) {
        failed = copy_all(state, round, true);
        failed = failed == 0 ? (int)cudaEventRecord(round->end, state->stream) : failed;
    }
    pthread_mutex_lock(&state->mutex);
    round->issued = failed == 0 && result == ncclSuccess;
    state->device_failed = failed != 0 ? failed : state->device_failed;
    state->failed = result != ncclSuccess ? result : state->failed;
    state->next = round->next;
    pthread_mutex_unlock(&state->mutex);
}

/* While groups are under way, from time to time: a peer that has ended is known to NCCL alone. */
static void look_for_errors(nccl_data *state)
{
    ncclResult_t result = ncclSuccess;
    state->parts.library.CommGetAsyncError(state->parts.comm, &result);
    if (result != ncclSuccess && result != ncclInProgress) {
        pthread_mutex_lock(&state->mutex);
        state->failed = result;
        pthread_mutex_unlock(&state->mutex);
    }
}

/* Waits for a round to issue. NULL: there is none yet. */
static nccl_round *await_round(nccl_data *state, bool *stopping)
{
    enum { LOOK_NS = 10000000 };
    pthread_mutex_lock(&state->mutex);
    if (state->next == NULL && state->first == NULL && !state->stopping) {
        pthread_cond_wait(&state->wake, &state->mutex);
    } else if (state->next == NULL && !state->stopping) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += LOOK_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&state->wake, &state->mutex, &until);
    }
    *stopping = state->stopping;
    nccl_round *round = state->failed == ncclSuccess && state->device_failed == 0 ? state->next : NULL;
    pthread_mutex_unlock(&state->mutex);
    return round;
}

static void *issue_rounds(void *argument)
{
    nccl_data *state = argument;
    cudaSetDevice(state->parts.device);
    for (bool stopping = false; !stopping;) {
        nccl_round *round = await_round(state, &stopping);
        if (stopping) {
            break;
        }
        if (round != NULL) {
            issue(state, round);
        } else {
            look_for_errors(state);
        }
    }
    return NULL;
}

/* The round of each message, counted from 0: both sides of a pair find the same. Returns the number of rounds. */
static int number_rounds(const nccl_data *state, int count, const weft_group_message messages[], int rounds[])
{
    int most = 0;
    int64_t bytes = 0;
    for (int i = 0; i < count; i++) {
        bool same = i > 0 && messages[i].receive == messages[i - 1].receive &&
                    messages[i].message->peer == messages[i - 1].message->peer;
        int64_t own = rounded(messages[i].message->bytes);
        bytes = same ? bytes : 0;
        bool full = bytes > 0 && bytes + own > state->parts.round_bytes;
        rounds[i] = same ? rounds[i - 1] + full : 0;
        bytes = full ? own : bytes + own;
        most = rounds[i] > most ? rounds[i] : most;
    }
    return most + 1;
}

static nccl_round *new_round(int number, int count, const weft_group_message messages[], const int rounds[])
{
    int own = 0;
    for (int i = 0; i < count; i++) {
        own += rounds[i] == number;
    }
    nccl_round *round = calloc(1, sizeof(*round) + (size_t)own * sizeof(round->messages[0]));
    for (int i = 0; i < count && round != NULL; i++) {
        if (rounds[i] == number) {
            round->messages[round->count++].message = &messages[i];
        }
    }
    return round;
}

static void free_rounds(nccl_data *state, nccl_round *first)
{
    while (first != NULL) {
        nccl_round *round = first;
        first = round->next;
        free_round(state, round);
    }
}

static weft_status nccl_start_group(void *opaque, int count, const weft_group_message messages[])
{
    nccl_data *state = opaque;
    int *rounds = malloc((size_t)count * sizeof(*rounds));
    if (rounds == NULL) {
        return WEFT_ERR_NOMEM;
    }
    int num_rounds = number_rounds(state, count, messages, rounds);
    nccl_round *first = NULL, *last = NULL;
    for (int i = 0; i < num_rounds; i++) {
        nccl_round *round = new_round(i, count, messages, rounds);
        if (round == NULL) {
            free_rounds(state, first);
            free(rounds);
            return WEFT_ERR_NOMEM;
        }
        *(first == NULL ? &first : &last->next) = round;
        last = round;
    }
    free(rounds);
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
    nccl_data *state = opaque;
    return state->below.start(state->below.state, message, receive, memory, token);
}

static void nccl_flush(void *opaque)
{
    nccl_data *state = opaque;
    state->below.flush(state->below.state);
}

/* The oldest round, if it has been issued; NULL: none. */
static nccl_round *first_issued(nccl_data *state)
{
    pthread_mutex_lock(&state->mutex);
    nccl_round *round = state->first != NULL && state->first->issued ? state->first : NULL;
    pthread_mutex_unlock(&state->mutex);
    return round;
}

static void end_first_round(nccl_data *state)
{
    pthread_mutex_lock(&state->mutex);
    nccl_round *round = state->first;
    state->first = round->next;
    if (round->pinned != NULL) {
        round->pinned->next = state->spare;
        state->spare = round->pinned;
        round->pinned = NULL;
    }
    pthread_mutex_unlock(&state->mutex);
    free_round(state, round);
}

static void check_errors(nccl_data *state)
{
    pthread_mutex_lock(&state->mutex);
    ncclResult_t failed = state->failed;
    int device_failed = state->device_failed;
    pthread_mutex_unlock(&state->mutex);
    if (device_failed != 0) {
        weft_break(WEFT_ERR_COMM, "weft", "a group of messages has failed on its device: %s",
                   cudaGetErrorString((cudaError_t)device_failed));
    } else if (failed != ncclSuccess) {
        weft_break(WEFT_ERR_COMM, "weft", "NCCL has failed: %s", state->parts.library.GetErrorString(failed));
    }
}

/* Rounds end in their order, as the stream does. */
static int poll_rounds(nccl_data *state, weft_finished finished[], int max)
{
    int count = 0;
    for (nccl_round *round; count < max && (round = first_issued(state)) != NULL;) {
        cudaError_t ended = round->reported > 0 ? cudaSuccess : cudaEventQuery(round->end);
        if (ended == cudaErrorNotReady) {
            break;
        }
        if (ended != cudaSuccess) {
            weft_break(WEFT_ERR_COMM, "weft", "a group of messages has failed on its device: %s", cudaGetErrorString(ended));
            break;
        }
        if (round->reported == 0) {
            write_to_panels(round);
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
    nccl_data *state = opaque;
    cudaSetDevice(state->parts.device); /* of the progress thread */
    int count = poll_rounds(state, finished, max);
    check_errors(state);
    return count + state->below.poll(state->below.state, finished + count, max - count);
}

static void stop_thread(nccl_data *state)
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
    nccl_data *state = opaque;
    state->below.abandon(state->below.state);
    stop_thread(state);
    if (state->parts.comm != NULL) {
        state->parts.library.CommAbort(state->parts.comm);
        state->parts.comm = NULL;
    }
}

static void nccl_enable_packing(void *opaque)
{
    nccl_data *state = opaque;
    if (state->below.enable_packing != NULL) {
        state->below.enable_packing(state->below.state);
    }
}

static void free_state(nccl_data *state)
{
    free_rounds(state, state->first); /* of a broken world */
    while (state->spare != NULL) {
        pinned *block = state->spare;
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
    nccl_data *state = opaque;
    weft_data below = state->below;
    weft_nccl_library library = state->parts.library;
    int former = 0;
    cudaGetDevice(&former);
    cudaSetDevice(state->parts.device);
    stop_thread(state);
    cudaStreamSynchronize(state->stream); /* nothing is under way, or it was aborted */
    if (state->parts.comm != NULL) {
        library.CommDestroy(state->parts.comm);
    }
    free_state(state);
    cudaSetDevice(former);
    weft_nccl_unload(&library);
    below.close(below.state);
}

int64_t weft_nccl_staging_bytes(int processes, int64_t round_bytes)
{
    return 2 * (int64_t)(processes - 1) * rounded(round_bytes);
}

int weft_nccl_data_open(const weft_nccl_parts *parts, weft_data *data)
{
    nccl_data *state = calloc(1, sizeof(*state));
    if (state == NULL || pthread_mutex_init(&state->mutex, NULL) != 0) {
        free(state);
        return (int)cudaErrorMemoryAllocation;
    }
    pthread_cond_init(&state->wake, NULL);
    int64_t bytes = weft_nccl_staging_bytes(parts->processes, parts->round_bytes);
    state->below = *data;
    state->parts = *parts;
    state->half = bytes / 2;
    cudaError_t failed = cudaSetDevice(parts->device);
    failed = failed == cudaSuccess ? cudaStreamCreateWithFlags(&state->stream, cudaStreamNonBlocking) : failed;
    failed = failed == cudaSuccess ? cudaMalloc((void **)&state->staging, (size_t)bytes) : failed;
    state->queue.stream = state->stream;
    if (failed == cudaSuccess && pthread_create(&state->thread, NULL, issue_rounds, state) != 0) {
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
