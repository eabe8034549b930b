/* Which messages may start: few at a time, in the order that both sides agree on.
 *
 * Messages that are under way together share the link, and all end late: of eight panels begun at once the
 * first arrives when the last does, and nothing can be computed meanwhile. So only as many bytes are under
 * way to one process as keep the link busy; the others wait here.
 *
 * A window could wait for itself: its messages may be such as the receiver cannot take before it has got one
 * that waits here. So tags follow the order in which the receiver submits its receives: in the order of the
 * calls, and within a redistribution panel by panel, box by box, addend by addend (tensor/exchange.c). What a
 * receive waits for was submitted before it, so the oldest message never waits for a younger one; and a
 * message that is older than all that are under way to its process always starts.
 *
 * Where messages are matched by their order (WEFT_MATCH_ORDER) both sides start them strictly by their tags: one that
 * is ready waits for all older ones of its pair. For the same reason no circle arises: what an older message waits for
 * was submitted before it, on its side. */
#ifndef WEFT_SRC_COMM_START_QUEUE_H
#define WEFT_SRC_COMM_START_QUEUE_H

#include "base/base.h"

typedef struct weft_waiting_message {
    void *transfer; /* of the engine */
    int message;    /* number of the message in it */
    int peer;       /* process */
    uint32_t tag;   /* the order among those for one peer */
    int64_t bytes;
} weft_waiting_message;

typedef struct weft_start_queue weft_start_queue;

/* `window_bytes`: with one process at a time, about. `in_order`: no tag is left out, from 0 on. NULL: no memory. */
weft_start_queue *weft_start_queue_new(int process, int num_processes, int64_t window_bytes, bool in_order);
void weft_start_queue_free(weft_start_queue *queue);

/* False: no memory; then it may start at once, unless all go in order. Its end may be reported all the same. */
bool weft_start_queue_add(weft_start_queue *queue, const weft_waiting_message *message);
/* Takes the next that may start. False: none may, now. */
bool weft_start_queue_next(weft_start_queue *queue, weft_waiting_message *message);
/* One that was taken has ended. Any other is ignored. */
void weft_start_queue_ended(weft_start_queue *queue, int peer, uint32_t tag, int64_t bytes);
/* Forgets all. */
void weft_start_queue_clear(weft_start_queue *queue);

#endif
