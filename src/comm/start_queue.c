#include "comm/start_queue.h"

#include "base/heap.h"

#include <stdlib.h>

/* Bytes under way to one process. Measured with 16 MB to each host over 1 Gbit/s and Open MPI's TCP (bench
 * wire): without a limit 0.77 of the line on four hosts, and every panel is complete at the end only; with
 * 256 KB 0.94. weft_machine_messages() chooses the window: 300 KB at least. */
enum { ALWAYS = 2, MOST = 64 };

typedef struct peer_queue {
    weft_vec heap;      /* weft_waiting_message; a heap, the oldest tag on top */
    weft_vec under_way; /* uint32_t: tags under way, in no order; with room for those of the heap too */
    int64_t bytes;      /* of messages under way */
    uint32_t next;      /* with in_order: the next tag */
    bool listed;        /* in `waiting` */
} peer_queue;

struct weft_start_queue {
    int process, num_processes;
    int64_t window_bytes;
    bool in_order;
    peer_queue **peers; /* NULL: no message ever waited for that process */
    int *waiting;       /* peers with non-empty heaps */
    int num_waiting;
};

weft_start_queue *weft_start_queue_new(int process, int num_processes, int64_t window_bytes, bool in_order)
{
    weft_start_queue *all = calloc(1, sizeof(*all));
    if (all != NULL) {
        all->process = process;
        all->num_processes = num_processes;
        all->window_bytes = window_bytes;
        all->in_order = in_order;
        all->peers = calloc((size_t)num_processes, sizeof(*all->peers));
        all->waiting = calloc((size_t)num_processes, sizeof(*all->waiting));
    }
    if (all != NULL && (all->peers == NULL || all->waiting == NULL)) {
        weft_start_queue_free(all);
        return NULL;
    }
    return all;
}

void weft_start_queue_free(weft_start_queue *all)
{
    if (all == NULL) {
        return;
    }
    for (int p = 0; all->peers != NULL && p < all->num_processes; p++) {
        if (all->peers[p] != NULL) {
            weft_vec_free(&all->peers[p]->heap);
            weft_vec_free(&all->peers[p]->under_way);
            free(all->peers[p]);
        }
    }
    free(all->peers);
    free(all->waiting);
    free(all);
}

/* Tags wrap around; those alive together are close. */
static bool is_older(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b) < 0;
}

static bool message_is_older(const void *context, const void *a, const void *b)
{
    (void)context;
    return is_older(((const weft_waiting_message *)a)->tag, ((const weft_waiting_message *)b)->tag);
}

bool weft_start_queue_add(weft_start_queue *all, const weft_waiting_message *send)
{
    peer_queue **queue = &all->peers[send->peer];
    if (*queue == NULL && (*queue = calloc(1, sizeof(**queue))) == NULL) {
        return false;
    }
    size_t room = (*queue)->under_way.count + (*queue)->heap.count + 1;
    bool has_room = weft_vec_reserve(&(*queue)->under_way, room, sizeof(uint32_t));
    if (!has_room || !weft_heap_push(&(*queue)->heap, sizeof(*send), send, message_is_older, NULL)) {
        return false;
    }
    if (!(*queue)->listed) {
        (*queue)->listed = true;
        all->waiting[all->num_waiting++] = send->peer;
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

static bool may_start(const weft_start_queue *all, const peer_queue *queue)
{
    size_t count = queue->under_way.count;
    const weft_waiting_message *oldest = queue->heap.items;
    if (all->in_order && oldest->tag != queue->next) {
        return false;
    }
    if (count < ALWAYS || (queue->bytes < all->window_bytes && count < MOST)) {
        return true;
    }
    return older_than_all(queue, oldest->tag);
}

static void take_top(peer_queue *queue, weft_waiting_message *send)
{
    weft_heap_pop(&queue->heap, sizeof(*send), send, message_is_older, NULL);
    uint32_t *tag = weft_vec_push(&queue->under_way, sizeof(*tag)); /* room is reserved */
    *tag = send->tag;
    queue->bytes += send->bytes;
    queue->next = send->tag + 1;
}

/* Distance of a process after this one: each process begins with its successor, so that not all send to
 * the same one. */
static int distance(const weft_start_queue *all, int peer)
{
    return peer > all->process ? peer - all->process : peer - all->process + all->num_processes;
}

bool weft_start_queue_next(weft_start_queue *all, weft_waiting_message *send)
{
    int best = -1;
    for (int i = 0; i < all->num_waiting; i++) {
        int peer = all->waiting[i];
        if (may_start(all, all->peers[peer]) &&
            (best < 0 || distance(all, peer) < distance(all, all->waiting[best]))) {
            best = i;
        }
    }
    if (best < 0) {
        return false;
    }
    peer_queue *queue = all->peers[all->waiting[best]];
    take_top(queue, send);
    if (queue->heap.count == 0) {
        queue->listed = false;
        all->waiting[best] = all->waiting[--all->num_waiting];
    }
    return true;
}

void weft_start_queue_ended(weft_start_queue *all, int peer, uint32_t tag, int64_t bytes)
{
    peer_queue *queue = all->peers[peer];
    if (queue == NULL) { /* no message was ever added for that process */
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

void weft_start_queue_clear(weft_start_queue *all)
{
    for (int p = 0; p < all->num_processes; p++) {
        peer_queue *queue = all->peers[p];
        if (queue != NULL) {
            queue->heap.count = queue->under_way.count = 0;
            queue->bytes = 0;
            queue->listed = false;
        }
    }
    all->num_waiting = 0;
}
