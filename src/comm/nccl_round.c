#include "comm/nccl_round.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "codelets/copy.h"

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

/* Packs a region of a panel on the device, or unpacks it; on the stream. */
static int launch_copy(weft_nccl_data *state, const weft_region *region, char *panel, char *packed, bool unpacks)
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

static int pack(weft_nccl_data *state, const weft_staged *s)
{
    const weft_region *region = &s->message->message->region;
    if (s->host == NULL) {
        return launch_copy(state, region, s->message->memory, s->device, false);
    }
    weft_region_read(region, s->message->memory, s->host);
    return (int)cudaMemcpyAsync(s->device, s->host, (size_t)s->message->message->bytes, cudaMemcpyHostToDevice, state->stream);
}

static int unpack(weft_nccl_data *state, const weft_staged *s)
{
    if (s->host == NULL) {
        return launch_copy(state, &s->message->message->region, s->message->memory, s->device, true);
    }
    return (int)cudaMemcpyAsync(s->host, s->device, (size_t)s->message->message->bytes, cudaMemcpyDeviceToHost, state->stream);
}

void weft_nccl_round_write(const weft_nccl_round *round)
{
    for (int i = 0; i < round->count; i++) {
        const weft_staged *s = &round->messages[i];
        if (s->host != NULL && s->message->receive) {
            weft_region_write(&s->message->message->region, s->message->memory, s->host);
        }
    }
}

/* ---- rounds -------------------------------------------------------------------------------------------- */

static weft_pinned *find_spare(weft_nccl_data *state, size_t size)
{
    weft_pinned *found = NULL;
    pthread_mutex_lock(&state->mutex);
    for (weft_pinned **at = &state->spare; *at != NULL && found == NULL; at = &(*at)->next) {
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
static weft_pinned *take_pinned(weft_nccl_data *state, size_t size)
{
    weft_pinned *block = find_spare(state, size);
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

static void free_round(weft_nccl_data *state, weft_nccl_round *round)
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
static bool place(weft_nccl_data *state, weft_nccl_round *round)
{
    int64_t used[2] = { 0, 0 }, host = 0;
    for (int i = 0; i < round->count; i++) {
        weft_staged *s = &round->messages[i];
        const weft_message *m = s->message->message;
        if (s->message->on_device && m->region.ndim == 0) {
            s->device = (char *)s->message->memory + m->region.offset;
            continue;
        }
        int64_t *next = &used[s->message->receive];
        s->device = state->staging + (s->message->receive ? state->half : 0) + *next;
        *next += weft_nccl_rounded(m->bytes);
        host += s->message->on_device ? 0 : weft_nccl_rounded(m->bytes);
    }
    if (host == 0) {
        return true;
    }
    round->pinned = take_pinned(state, (size_t)host);
    char *at = round->pinned == NULL ? NULL : round->pinned->memory;
    for (int i = 0; i < round->count && at != NULL; i++) {
        weft_staged *s = &round->messages[i];
        if (!s->message->on_device) {
            s->host = at;
            at += weft_nccl_rounded(s->message->message->bytes);
        }
    }
    return at != NULL;
}

static bool is_packed(const weft_staged *s)
{
    return s->host != NULL || s->message->message->region.ndim > 0;
}

static bool is_stopping(weft_nccl_data *state)
{
    pthread_mutex_lock(&state->mutex);
    bool stopping = state->stopping;
    pthread_mutex_unlock(&state->mutex);
    return stopping;
}

/* Until NCCL has put into the stream what was asked for: the communicator does not block. */
static ncclResult_t finish_call(weft_nccl_data *state, ncclResult_t result)
{
    while (result == ncclInProgress && !is_stopping(state)) {
        nanosleep(&(struct timespec){ 0, 20000 }, NULL);
        state->parts.nccl.CommGetAsyncError(state->parts.comm, &result);
    }
    return result;
}

/* Sends and receives between all processes of the round at once. */
static ncclResult_t exchange(weft_nccl_data *state, const weft_nccl_round *round)
{
    const weft_nccl_library *nccl = &state->parts.nccl;
    ncclResult_t result = nccl->GroupStart();
    for (int i = 0; i < round->count && result == ncclSuccess; i++) {
        const weft_staged *s = &round->messages[i];
        const weft_message *m = s->message->message;
        result = s->message->receive
                     ? nccl->Recv(s->device, (size_t)m->bytes, ncclUint8, m->peer, state->parts.comm, state->stream)
                     : nccl->Send(s->device, (size_t)m->bytes, ncclUint8, m->peer, state->parts.comm, state->stream);
    }
    ncclResult_t ended = nccl->GroupEnd();
    return finish_call(state, result == ncclSuccess ? ended : result);
}

static int copy_all(weft_nccl_data *state, const weft_nccl_round *round, bool receives)
{
    int failed = 0;
    for (int i = 0; i < round->count && failed == 0; i++) {
        const weft_staged *s = &round->messages[i];
        if (s->message->receive == receives && is_packed(s)) {
            failed = receives ? unpack(state, s) : pack(state, s);
        }
    }
    return failed;
}

void weft_nccl_round_issue(weft_nccl_data *state, weft_nccl_round *round)
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

/* The round of each message, counted from 0: both sides of a pair find the same. Returns the number of rounds. */
static int number_rounds(const weft_nccl_data *state, int count, const weft_group_message messages[], int rounds[])
{
    int most = 0;
    int64_t bytes = 0;
    for (int i = 0; i < count; i++) {
        bool same = i > 0 && messages[i].receive == messages[i - 1].receive &&
                    messages[i].message->peer == messages[i - 1].message->peer;
        int64_t own = weft_nccl_rounded(messages[i].message->bytes);
        bytes = same ? bytes : 0;
        bool full = bytes > 0 && bytes + own > state->parts.round_bytes;
        rounds[i] = same ? rounds[i - 1] + full : 0;
        bytes = full ? own : bytes + own;
        most = rounds[i] > most ? rounds[i] : most;
    }
    return most + 1;
}

static weft_nccl_round *new_round(int number, int count, const weft_group_message messages[], const int rounds[])
{
    int own = 0;
    for (int i = 0; i < count; i++) {
        own += rounds[i] == number;
    }
    weft_nccl_round *round = calloc(1, sizeof(*round) + (size_t)own * sizeof(round->messages[0]));
    for (int i = 0; i < count && round != NULL; i++) {
        if (rounds[i] == number) {
            round->messages[round->count++].message = &messages[i];
        }
    }
    return round;
}

void weft_nccl_rounds_free(weft_nccl_data *state, weft_nccl_round *first)
{
    while (first != NULL) {
        weft_nccl_round *round = first;
        first = round->next;
        free_round(state, round);
    }
}

weft_nccl_round *weft_nccl_rounds_new(weft_nccl_data *state, int count, const weft_group_message messages[])
{
    int *rounds = malloc((size_t)count * sizeof(*rounds));
    int num_rounds = rounds == NULL ? 0 : number_rounds(state, count, messages, rounds);
    weft_nccl_round *first = NULL, *last = NULL;
    for (int i = 0; i < num_rounds; i++) {
        weft_nccl_round *round = new_round(i, count, messages, rounds);
        if (round == NULL) {
            weft_nccl_rounds_free(state, first);
            first = NULL;
            break;
        }
        *(first == NULL ? &first : &last->next) = round;
        last = round;
    }
    free(rounds);
    return first;
}
