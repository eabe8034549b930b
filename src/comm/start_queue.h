/* Decides which messages start: few at a time, in an order that both sides agree on.
 *
 * Messages under way together share the link, and all end late: of eight panels started at once the first
 * arrives when the last does, and nothing can be computed meanwhile. So only as many bytes are under way
 * to one process as keep the link busy; other messages wait here.
 *
 * A window could deadlock: its messages may need receives that wait for a message queued here. So tags
 * follow the order in which the receiver submits its receives: in the order of the calls, and within a
 * redistribution panel by panel, box by box, addend by addend (tensor/exchange.c). A receive only depends
 * on receives submitted before it, so the oldest message never waits for a younger one; and a message
 * older than all those under way to its process always starts.
 *
 * Where messages are matched by their order (WEFT_MATCH_ORDER) both sides start them strictly by tag: a
 * ready message waits for all older ones of its pair. There is no cycle for the same reason. */
#ifndef WEFT_SRC_COMM_START_QUEUE_H
#define WEFT_SRC_COMM_START_QUEUE_H

#include "base/base.h"

typedef struct weft_waiting_message {
    void *transfer; /* in the engine */
    int message;    /* of the message in its transfer */
    int peer;       /* process */
    uint32_t tag;   /* position in the order of one peer */
    int64_t bytes;
} weft_waiting_message;

typedef struct weft_start_queue weft_start_queue;

/* `window_bytes`: per process, about. `in_order`: tags count from 0 without gaps. NULL: no memory. */
weft_start_queue *weft_start_queue_new(int process, int num_processes, int64_t window_bytes, bool in_order);
void weft_start_queue_free(weft_start_queue *queue);

/* Adds a message. False: no memory; without in_order it may then start at once. Its end may be reported
 * all the same. */
bool weft_start_queue_add(weft_start_queue *queue, const weft_waiting_message *message);
/* Takes the next message that may start. False: none now. */
bool weft_start_queue_next(weft_start_queue *queue, weft_waiting_message *message);
/* A taken message has ended. Others are ignored. */
void weft_start_queue_ended(weft_start_queue *queue, int peer, uint32_t tag, int64_t bytes);
/* Removes all messages. */
void weft_start_queue_clear(weft_start_queue *queue);

#endif
