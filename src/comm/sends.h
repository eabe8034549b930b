/* Which sends may start: few at a time, in the order that both sides agree on.
 *
 * Messages that are under way together share the link, and all end late: of eight panels begun at once the
 * first arrives when the last does, and nothing can be computed meanwhile. So only as many bytes are under
 * way to one process as keep the link busy; the others wait here.
 *
 * A window could wait for itself: its messages may be such as the receiver cannot take before it has got one
 * that waits here. So tags follow the order in which the receiver submits its receives: in the order of the
 * calls, and within a redistribution panel by panel, box by box, addend by addend (tensor/exchange.c). What a
 * receive waits for was submitted before it, so the oldest message never waits for a younger one; and a
 * message that is older than all that are under way to its process always starts. */
#ifndef WEFT_SRC_COMM_SENDS_H
#define WEFT_SRC_COMM_SENDS_H

#include "base/base.h"

typedef struct weft_send {
    void *transfer; /* of the engine */
    int message;    /* number of the message in it */
    int peer;       /* process */
    uint32_t tag;   /* the order among those for one peer */
    int64_t bytes;
} weft_send;

typedef struct weft_sends weft_sends;

/* `window_bytes`: to one process at a time, about. NULL: no memory. */
weft_sends *weft_sends_new(int process, int num_processes, int64_t window_bytes);
void weft_sends_free(weft_sends *sends);

/* False: no memory; then start it at once. To tell of its end does no harm. */
bool weft_sends_add(weft_sends *sends, const weft_send *send);
/* Takes the next that may start. False: none may, now. */
bool weft_sends_next(weft_sends *sends, weft_send *send);
/* One that was taken has ended. Any other is ignored. */
void weft_sends_ended(weft_sends *sends, int peer, uint32_t tag, int64_t bytes);
/* Forgets all. */
void weft_sends_clear(weft_sends *sends);

#endif
