/* Groups: the messages of a stage that the transport starts together (weft_data.groups).
 *
 * StarPU grants each panel as that of any transfer. A group begins when all its panels are granted and all earlier groups
 * have begun (sequencer.h). Its messages end one by one. */
#include <stdlib.h>

#include "comm/engine.h"

struct weft_comm_group {
    weft_sequenced sequenced; /* missing: transfers that are not granted */
    weft_comm *comm;
    uint64_t number, stage;
    int total, transfers, left; /* all; submitted so far; not ended: progress thread */
    int num_messages;
    weft_comm_transfer **members;
    weft_group_message messages[];
};

/* ---- the submitting thread ----------------------------------------------------------------------------- */

bool weft_comm_groups(const weft_comm *comm, const weft_stage *stage)
{
    const weft_data *data = &comm->transport.data;
    bool along[WEFT_MAX_DIMS];
    return data->groups != NULL && data->groups(data->state, stage, weft_stage_kind_of(stage, along));
}

bool weft_comm_has_groups(const weft_comm *comm)
{
    return comm->transport.data.groups != NULL;
}

static void free_group(weft_comm_group *g)
{
    if (g != NULL) {
        free(g->members);
    }
    free(g);
}

bool weft_comm_group_open(weft_comm *comm, int transfers, int messages, uint64_t stage)
{
    weft_comm_group *g = calloc(1, sizeof(*g) + (size_t)messages * sizeof(g->messages[0]));
    if (g != NULL) {
        g->members = calloc((size_t)transfers, sizeof(*g->members));
    }
    if (g == NULL || g->members == NULL) {
        free_group(g);
        weft_fail(WEFT_ERR_NOMEM, "weft_comm_group_open", "no memory for a group of %d messages", messages);
        return false;
    }
    g->comm = comm;
    g->stage = stage;
    g->sequenced.missing = g->total = g->left = transfers;
    g->num_messages = messages;
    comm->open_group = g;
    return true;
}

void weft_comm_group_cancel(weft_comm *comm)
{
    free_group(comm->open_group);
    comm->open_group = NULL;
}

void weft_group_join(weft_comm *comm, weft_comm_transfer *t)
{
    weft_comm_group *g = comm->open_group;
    if (g->transfers == 0) {
        starpu_pthread_mutex_lock(&comm->mutex);
        g->number = comm->groups++;
        if (!comm->gave_up) {
            weft_sequencer_add(&comm->sequencer, &g->sequenced);
        }
        starpu_pthread_mutex_unlock(&comm->mutex);
    }
    t->group = g;
    g->members[g->transfers++] = t;
    if (g->transfers == g->total) {
        comm->open_group = NULL;
    }
}

bool weft_groups_follow(const weft_comm_transfer *t)
{
    return weft_comm_has_groups(t->comm) && t->group == NULL && t->claimed == NULL && !t->receive;
}

void weft_groups_hold(weft_comm *comm, weft_comm_transfer *t)
{
    t->groups_before = comm->groups;
    t->older_alone = comm->newest_alone;
    *(comm->newest_alone ? &comm->newest_alone->newer_alone : &comm->oldest_alone) = t;
    comm->newest_alone = t;
}

void weft_groups_release(weft_comm *comm, weft_comm_transfer *t)
{
    *(t->newer_alone ? &t->newer_alone->older_alone : &comm->newest_alone) = t->older_alone;
    *(t->older_alone ? &t->older_alone->newer_alone : &comm->oldest_alone) = t->newer_alone;
}

uint64_t weft_comm_group_order(const weft_comm *comm, int process, uint64_t *count)
{
    *count = comm->group_orders[process].count;
    return comm->group_orders[process].digest;
}

/* ---- the progress thread ------------------------------------------------------------------------------- */

/* By direction, process and tag: on both sides of a pair the same. */
static int by_pair(const void *a, const void *b)
{
    const weft_group_message *p = a, *q = b;
    if (p->receive != q->receive) {
        return p->receive ? 1 : -1;
    }
    if (p->message->peer != q->message->peer) {
        return p->message->peer < q->message->peer ? -1 : 1;
    }
    return (int32_t)(p->message->tag - q->message->tag) < 0 ? -1 : 1;
}

static void gather_messages(weft_comm_group *g)
{
    int count = 0;
    for (int i = 0; i < g->transfers; i++) {
        weft_comm_transfer *t = g->members[i];
        for (int k = 0; k < t->count; k++) {
            g->messages[count++] = (weft_group_message){ .message = &t->messages[k],
                                                         .receive = t->receive,
                                                         .on_device = t->node != STARPU_MAIN_RAM,
                                                         .memory = weft_comm_transfer_memory(t),
                                                         .token = &t->posted[k] };
        }
    }
    qsort(g->messages, (size_t)count, sizeof(g->messages[0]), by_pair);
}

/* What both sides of each pair must have begun alike. */
static void note_order(weft_comm *comm, const weft_comm_group *g)
{
    for (int i = 0; i < g->num_messages; i++) {
        const weft_message *m = g->messages[i].message;
        weft_group_order *order = &comm->group_orders[m->peer];
        if (order->last != g->number + 1) {
            order->last = g->number + 1;
            order->count++;
            order->digest = weft_digest_add(order->digest, g->stage);
        }
    }
}

/* Returns the number of messages now under way. */
static int start_group(weft_comm *comm, weft_comm_group *g)
{
    const weft_data *data = &comm->transport.data;
    int count = g->num_messages;
    gather_messages(g);
    note_order(comm, g);
    for (int i = 0; i < count; i++) {
        comm->active_bytes += g->messages[i].message->bytes;
    }
    comm->active += count;
    weft_status status = data->start_group(data->state, count, g->messages);
    if (status == WEFT_OK) {
        return count;
    }
    weft_break(status, "weft", "transport %s: a group of %d messages has not begun: %s", comm->transport.name, count,
               weft_status_string(status));
    return 0; /* give_up() ends its transfers */
}

/* A group that is under way keeps a device busy. A task that waits for the device (to allocate memory, say) then waits for the peers to
 * begin the group too, and so must not be one that they wait for: what this process sends outside of groups has left the device. */
static weft_comm_group *next_group(weft_comm *comm)
{
    weft_sequenced *next = NULL;
    starpu_pthread_mutex_lock(&comm->mutex);
    const weft_comm_group *first = (const weft_comm_group *)comm->sequencer.first;
    if (first != NULL && (comm->oldest_alone == NULL || comm->oldest_alone->groups_before > first->number)) {
        next = weft_sequencer_next(&comm->sequencer);
    }
    starpu_pthread_mutex_unlock(&comm->mutex);
    return (weft_comm_group *)next;
}

int weft_groups_begin(weft_comm *comm)
{
    int started = 0;
    for (weft_comm_group *g; !weft_is_broken() && (g = next_group(comm)) != NULL;) {
        started += start_group(comm, g);
    }
    return started;
}

int weft_group_granted(weft_comm *comm, weft_comm_transfer *t)
{
    starpu_pthread_mutex_lock(&comm->mutex);
    t->group->sequenced.missing--;
    starpu_pthread_mutex_unlock(&comm->mutex);
    return weft_groups_begin(comm);
}

void weft_group_transfer_ended(weft_comm_group *g)
{
    if (--g->left == 0) {
        free_group(g);
    }
}

void weft_groups_clear(weft_comm *comm)
{
    starpu_pthread_mutex_lock(&comm->mutex);
    comm->sequencer = (weft_sequencer){ 0 };
    starpu_pthread_mutex_unlock(&comm->mutex);
}
