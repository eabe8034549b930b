/* The data table, over streams. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "sockets.h"

/* A message that has begun. The engine begins those of two processes in the same order on both sides, so a
 * stream needs no tags. */
typedef struct item {
    struct item *next;
    const weft_message *message;
    void *memory, *token;
    int64_t size, done; /* bytes of what follows: all, and those that have come or gone */
    uint64_t digest;    /* of what both sides must agree on */
    char packed[];      /* the region, contiguous */
} item;

typedef struct queue {
    item *first, **end;
} queue;

typedef struct sockets {
    queue sends[SOCKETS_MAX_PROCESSES], receives[SOCKETS_MAX_PROCESSES];
} sockets;

static weft_status start(void *state, const weft_message *message, bool receive, void *memory, void *token)
{
    queue *of = &(receive ? ((sockets *)state)->receives : ((sockets *)state)->sends)[message->peer];
    item *new = malloc(sizeof(*new) + (size_t)message->bytes);
    if (new == NULL) {
        return WEFT_ERR_NOMEM;
    }
    *new = (item){ .message = message, .memory = memory, .token = token };
    new->size = (int64_t)sizeof(new->digest) + message->bytes;
    if (!receive) {
        new->digest = weft_message_digest(message);
        weft_region_read(&message->region, memory, new->packed);
    }
    *of->end = new;
    of->end = &new->next;
    return WEFT_OK;
}

/* As far as the socket takes or has bytes. */
static weft_status go_on(item *i, int socket, bool receive)
{
    ssize_t count = 1;
    while (i->done < i->size && count > 0) {
        char *rest = (char *)i + offsetof(item, digest) + i->done;
        size_t left = (size_t)(i->size - i->done);
        count = receive ? recv(socket, rest, left, MSG_DONTWAIT)
                        : send(socket, rest, left, MSG_DONTWAIT | MSG_NOSIGNAL);
        i->done += count > 0 ? count : 0;
    }
    bool waits = count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
    return count > 0 || waits ? WEFT_OK : WEFT_ERR_COMM;
}

static int finish_some(queue *of, int socket, bool receive, weft_finished finished[], int max)
{
    int count = 0;
    while (of->first != NULL && count < max) {
        item *i = of->first;
        weft_status status = go_on(i, socket, receive);
        if (status == WEFT_OK && i->done < i->size) {
            break;
        }
        if (receive && status == WEFT_OK && i->digest != weft_message_digest(i->message)) {
            status = WEFT_ERR_MISMATCH;
        } else if (receive && status == WEFT_OK) {
            weft_region_write(&i->message->region, i->memory, i->packed);
        }
        finished[count++] = (weft_finished){ i->token, status };
        of->first = i->next;
        of->end = of->first == NULL ? &of->first : of->end;
        free(i);
    }
    return count;
}

static int poll_all(void *state, weft_finished finished[], int max)
{
    sockets *s = state;
    int count = 0;
    for (int p = 0; p < sockets_processes(); p++) {
        int socket = sockets_to(SOCKETS_DATA, p);
        count += finish_some(&s->receives[p], socket, true, finished + count, max - count);
        count += finish_some(&s->sends[p], socket, false, finished + count, max - count);
    }
    return count;
}

static void drop(queue *of)
{
    while (of->first != NULL) {
        item *next = of->first->next;
        free(of->first);
        of->first = next;
    }
    of->end = &of->first;
}

static void abandon(void *state)
{
    sockets *s = state;
    for (int p = 0; p < sockets_processes(); p++) {
        drop(&s->sends[p]);
        drop(&s->receives[p]);
    }
}

static void close_data(void *state)
{
    free(state);
}

bool sockets_data(weft_data *data)
{
    sockets *s = calloc(1, sizeof(*s));
    if (s == NULL) {
        return false;
    }
    abandon(s); /* empty queues */
    *data = (weft_data){
        .state = s,
        .memories = 1u << STARPU_CPU_RAM,
        .matching = WEFT_MATCH_ORDER,
        .start = start,
        .poll = poll_all,
        .abandon = abandon,
        .close = close_data,
    };
    return true;
}
