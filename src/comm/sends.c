#include "comm/sends.h"

#include <stdlib.h>

/* Measured with 16 MB to each host over 1 Gbit/s and Open MPI's TCP (bench wire). With everything under way
 * at once: 0.77 of the line on four hosts, and every panel is complete at the end only; with a window of
 * 256 KB: 0.94. weft_machine_messages() chooses the window: 300 KB at least. */
enum { ALWAYS = 2, MOST = 64 };

typedef struct peer_queue {
    weft_vec heap;      /* weft_send; the oldest tag on top */
    weft_vec under_way; /* uint32_t: tags, in no order; room for those of the heap too */
    int64_t bytes;      /* under way */
    bool listed;        /* among `waiting` */
} peer_queue;

struct weft_sends {
    int process, num_processes;
    int64_t window_bytes;
    peer_queue **peers; /* NULL: nothing was ever sent there */
    int *waiting;       /* peers whose heaps are not empty */
    int num_waiting;
};

weft_sends *weft_sends_new(int process, int num_processes, int64_t window_bytes)
{
    weft_sends *sends = calloc(1, sizeof(*sends));
    if (sends != NULL) {
        sends->process = process;
        sends->num_processes = num_processes;
        sends->window_bytes = window_bytes;
        sends->peers = calloc((size_t)num_processes, sizeof(*sends->peers));
        sends->waiting = calloc((size_t)num_processes, sizeof(*sends->waiting));
    }
    if (sends != NULL && (sends->peers == NULL || sends->waiting == NULL)) {
        weft_sends_free(sends);
        return NULL;
    }
    return sends;
}

void weft_sends_free(weft_sends *sends)
{
    if (sends == NULL) {
        return;
    }
    for (int p = 0; sends->peers != NULL && p < sends->num_processes; p++) {
        if (sends->peers[p] != NULL) {
            weft_vec_free(&sends->peers[p]->heap);
            weft_vec_free(&sends->peers[p]->under_way);
            free(sends->peers[p]);
        }
    }
    free(sends->peers);
    free(sends->waiting);
    free(sends);
}

/* Tags wrap around; those that are alive together are close. */
static bool is_older(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b) < 0;
}

/* ---- the heap ------------------------------------------------------------------------------------------ */

static void sift_up(weft_send *heap, size_t i)
{
    while (i > 0 && is_older(heap[i].tag, heap[(i - 1) / 2].tag)) {
        weft_send above = heap[(i - 1) / 2];
        heap[(i - 1) / 2] = heap[i];
        heap[i] = above;
        i = (i - 1) / 2;
    }
}

static void sift_down(weft_send *heap, size_t count)
{
    for (size_t i = 0, child; (child = 2 * i + 1) < count; i = child) {
        if (child + 1 < count && is_older(heap[child + 1].tag, heap[child].tag)) {
            child++;
        }
        if (!is_older(heap[child].tag, heap[i].tag)) {
            return;
        }
        weft_send below = heap[child];
        heap[child] = heap[i];
        heap[i] = below;
    }
}

bool weft_sends_add(weft_sends *sends, const weft_send *send)
{
    peer_queue **queue = &sends->peers[send->peer];
    if (*queue == NULL && (*queue = calloc(1, sizeof(**queue))) == NULL) {
        return false;
    }
    size_t room = (*queue)->under_way.count + (*queue)->heap.count + 1;
    bool has_room = weft_vec_reserve(&(*queue)->under_way, room, sizeof(uint32_t));
    weft_send *last = has_room ? weft_vec_push(&(*queue)->heap, sizeof(*last)) : NULL;
    if (last == NULL) {
        return false;
    }
    *last = *send;
    sift_up((*queue)->heap.items, (*queue)->heap.count - 1);
    if (!(*queue)->listed) {
        (*queue)->listed = true;
        sends->waiting[sends->num_waiting++] = send->peer;
    }
    return true;
}

/* ---- the window ---------------------------------------------------------------------------------------- */

static bool older_than_all(const peer_queue *queue, uint32_t tag)
{
    const uint32_t *tags = queue->under_way.items;
    for (size_t i = 0; i < queue->under_way.count; i++) {
        if (!is_older(tag, tags[i])) {
            return false;
        }
    }
    return true;
}

static bool may_start(const weft_sends *sends, const peer_queue *queue)
{
    size_t count = queue->under_way.count;
    if (count < ALWAYS || (queue->bytes < sends->window_bytes && count < MOST)) {
        return true;
    }
    const weft_send *oldest = queue->heap.items;
    return older_than_all(queue, oldest->tag);
}

static void take_top(peer_queue *queue, weft_send *send)
{
    weft_send *heap = queue->heap.items;
    *send = heap[0];
    heap[0] = heap[--queue->heap.count];
    sift_down(heap, queue->heap.count);
    uint32_t *tag = weft_vec_push(&queue->under_way, sizeof(*tag)); /* there is room */
    *tag = send->tag;
    queue->bytes += send->bytes;
}

/* How far a process lies after this one: each begins with the next one, so that not all send to one. */
static int distance(const weft_sends *sends, int peer)
{
    return peer > sends->process ? peer - sends->process : peer - sends->process + sends->num_processes;
}

bool weft_sends_next(weft_sends *sends, weft_send *send)
{
    int best = -1;
    for (int i = 0; i < sends->num_waiting; i++) {
        int peer = sends->waiting[i];
        if (may_start(sends, sends->peers[peer]) &&
            (best < 0 || distance(sends, peer) < distance(sends, sends->waiting[best]))) {
            best = i;
        }
    }
    if (best < 0) {
        return false;
    }
    peer_queue *queue = sends->peers[sends->waiting[best]];
    take_top(queue, send);
    if (queue->heap.count == 0) {
        queue->listed = false;
        sends->waiting[best] = sends->waiting[--sends->num_waiting];
    }
    return true;
}

void weft_sends_ended(weft_sends *sends, int peer, uint32_t tag, int64_t bytes)
{
    peer_queue *queue = sends->peers[peer];
    if (queue == NULL) { /* nothing was ever added for that process: there was no memory */
        return;
    }
    uint32_t *tags = queue->under_way.items;
    for (size_t i = 0; i < queue->under_way.count; i++) {
        if (tags[i] == tag) {
            tags[i] = tags[--queue->under_way.count];
            queue->bytes -= bytes;
            return;
        }
    }
}

void weft_sends_clear(weft_sends *sends)
{
    for (int p = 0; p < sends->num_processes; p++) {
        peer_queue *queue = sends->peers[p];
        if (queue != NULL) {
            queue->heap.count = queue->under_way.count = 0;
            queue->bytes = 0;
            queue->listed = false;
        }
    }
    sends->num_waiting = 0;
}
