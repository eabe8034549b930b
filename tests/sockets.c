#include "sockets.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

/* One pair of sockets for each use, so that nothing has to be told apart. Packets keep their borders; data is a
 * stream. */
typedef enum use { COLLECTIVE, TEXT, ABORT, DATA, NUM_USES } use;

static int pairs[NUM_USES][SOCKETS_MAX_PROCESSES][SOCKETS_MAX_PROCESSES]; /* of process a, to process b */
static int self, num_processes;
static bool is_broken;

bool sockets_make(int processes)
{
    num_processes = processes;
    for (int u = 0; u < NUM_USES; u++) {
        for (int a = 0; a < processes; a++) {
            for (int b = a + 1; b < processes; b++) {
                int pair[2];
                if (socketpair(AF_UNIX, u == DATA ? SOCK_STREAM : SOCK_SEQPACKET, 0, pair) != 0) {
                    return false;
                }
                pairs[u][a][b] = pair[0];
                pairs[u][b][a] = pair[1];
            }
        }
    }
    return true;
}

void sockets_choose(int process)
{
    self = process;
}

/* ---- control ------------------------------------------------------------------------------------------- */

static void send_packet(use u, int process, const void *bytes, size_t size)
{
    send(pairs[u][self][process], bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* The packet's size; 0: none is there. */
static size_t take_packet(use u, int process, void *bytes, size_t size)
{
    ssize_t count = recv(pairs[u][self][process], bytes, size, MSG_DONTWAIT);
    return count > 0 ? (size_t)count : 0;
}

typedef struct abort_notice {
    weft_status status;
    char message[1000];
} abort_notice;

static void hear_abort(void *state)
{
    (void)state;
    abort_notice notice;
    for (int p = 0; p < num_processes; p++) {
        if (p != self && take_packet(ABORT, p, &notice, sizeof(notice)) == sizeof(notice)) {
            is_broken = true;
            weft_break(notice.status, "weft", "process %d gave up: %s", p, notice.message);
        }
    }
}

static void send_abort(void *state)
{
    (void)state;
    abort_notice notice = { .message = "" };
    is_broken = true;
    notice.status = weft_broken_by(notice.message, sizeof(notice.message));
    for (int p = 0; p < num_processes; p++) {
        if (p != self) {
            send_packet(ABORT, p, &notice, sizeof(notice));
        }
    }
}

/* Waits for a packet, for as long as the time-out, and for an abort notice. */
static bool await_packet(int process, void *bytes, size_t size, double timeout_s)
{
    const int look_ms = 10;
    struct pollfd socket = { .fd = pairs[COLLECTIVE][self][process], .events = POLLIN };
    for (double waited_s = 0; timeout_s <= 0 || waited_s < timeout_s; waited_s += look_ms * 1e-3) {
        if (poll(&socket, 1, look_ms) > 0) {
            return take_packet(COLLECTIVE, process, bytes, size) == size;
        }
        hear_abort(NULL);
        if (weft_is_broken()) {
            return false;
        }
    }
    return false;
}

static void gather(void *state, const void *mine, void *all, size_t size, double timeout_s, bool came[])
{
    (void)state;
    if (self != 0) {
        send_packet(COLLECTIVE, 0, mine, size);
        return;
    }
    memcpy(all, mine, size);
    came[0] = true;
    for (int p = 1; p < num_processes; p++) {
        came[p] = await_packet(p, (char *)all + (size_t)p * size, size, timeout_s);
    }
}

static bool broadcast(void *state, void *bytes, size_t size, double timeout_s)
{
    (void)state;
    const double work_s = 5;
    if (self != 0) { /* process 0 may wait for the others as long as the time-out */
        return await_packet(0, bytes, size, timeout_s > 0 ? 2 * timeout_s + work_s : 0);
    }
    for (int p = 1; p < num_processes; p++) {
        send_packet(COLLECTIVE, p, bytes, size);
    }
    return true;
}

static void send_text(void *state, int process, const void *bytes, size_t size)
{
    (void)state;
    send_packet(TEXT, process, bytes, size);
}

static size_t receive_text(void *state, int *process, void *bytes, size_t size)
{
    (void)state;
    size_t count = 0;
    for (int p = 0; p < num_processes && count == 0; p++) {
        *process = p;
        count = p == self ? 0 : take_packet(TEXT, p, bytes, size);
    }
    return count;
}

/* ---- data ---------------------------------------------------------------------------------------------- */

/* A message that has begun. The engine begins those of two processes in the same order on both sides, so a stream
 * needs no tags. */
typedef struct item {
    struct item *next;
    const weft_message *message;
    void *memory, *token;
    int64_t done;  /* bytes */
    char packed[]; /* the region, contiguous */
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
    if (!receive) {
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
    while (i->done < i->message->bytes && count > 0) {
        char *rest = i->packed + i->done;
        size_t left = (size_t)(i->message->bytes - i->done);
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
        if (status == WEFT_OK && i->done < i->message->bytes) {
            break;
        }
        if (receive && status == WEFT_OK) {
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
    for (int p = 0; p < num_processes; p++) {
        int socket = pairs[DATA][self][p];
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
    for (int p = 0; p < num_processes; p++) {
        drop(&s->sends[p]);
        drop(&s->receives[p]);
    }
}

static void close_data(void *state)
{
    free(state);
}

weft_status sockets_open(weft_transport *transport)
{
    sockets *s = is_broken ? NULL : calloc(1, sizeof(*s));
    if (s == NULL) {
        return is_broken ? WEFT_ERR_COMM : WEFT_ERR_NOMEM;
    }
    abandon(s); /* empty queues */
    *transport = (weft_transport){
        .name = "sockets",
        .place = { .process = self,
                   .num_processes = num_processes,
                   .node_process = self,
                   .node_processes = num_processes },
        .control = { .gather = gather,
                     .broadcast = broadcast,
                     .send = send_text,
                     .receive = receive_text,
                     .send_abort = send_abort,
                     .hear_abort = hear_abort },
        .data = { .state = s,
                  .memories = 1u << STARPU_CPU_RAM,
                  .matching = WEFT_MATCH_ORDER,
                  .start = start,
                  .poll = poll_all,
                  .abandon = abandon,
                  .close = close_data },
    };
    return WEFT_OK;
}
