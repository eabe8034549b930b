/* The control table, over sockets that keep packets apart. */
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "sockets.h"

static void send_packet(sockets_use use, int process, const void *bytes, size_t size)
{
    send(sockets_to(use, process), bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* The packet's size; 0: none is there. */
static size_t take_packet(sockets_use use, int process, void *bytes, size_t size)
{
    ssize_t count = recv(sockets_to(use, process), bytes, size, MSG_DONTWAIT);
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
    for (int p = 0; p < sockets_processes(); p++) {
        if (p != sockets_self() && take_packet(SOCKETS_ABORT, p, &notice, sizeof(notice)) == sizeof(notice)) {
            sockets_break();
            weft_break(notice.status, "weft", "process %d gave up: %s", p, notice.message);
        }
    }
}

static void send_abort(void *state)
{
    (void)state;
    abort_notice notice = { .message = "" };
    sockets_break();
    notice.status = weft_broken_by(notice.message, sizeof(notice.message));
    for (int p = 0; p < sockets_processes(); p++) {
        if (p != sockets_self()) {
            send_packet(SOCKETS_ABORT, p, &notice, sizeof(notice));
        }
    }
}

/* Waits for a packet, for as long as the time-out, and for an abort notice. */
static bool await_packet(int process, void *bytes, size_t size, double timeout_s)
{
    const int look_ms = 10;
    struct pollfd socket = { .fd = sockets_to(SOCKETS_COLLECTIVE, process), .events = POLLIN };
    for (double waited_s = 0; timeout_s <= 0 || waited_s < timeout_s; waited_s += look_ms * 1e-3) {
        if (poll(&socket, 1, look_ms) > 0) {
            return take_packet(SOCKETS_COLLECTIVE, process, bytes, size) == size;
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
    if (sockets_self() != 0) {
        send_packet(SOCKETS_COLLECTIVE, 0, mine, size);
        return;
    }
    memcpy(all, mine, size);
    came[0] = true;
    for (int p = 1; p < sockets_processes(); p++) {
        came[p] = await_packet(p, (char *)all + (size_t)p * size, size, timeout_s);
    }
}

static bool broadcast(void *state, void *bytes, size_t size, double timeout_s)
{
    (void)state;
    const double work_s = 5;
    if (sockets_self() != 0) { /* process 0 may wait for the others as long as the time-out */
        return await_packet(0, bytes, size, timeout_s > 0 ? 2 * timeout_s + work_s : 0);
    }
    for (int p = 1; p < sockets_processes(); p++) {
        send_packet(SOCKETS_COLLECTIVE, p, bytes, size);
    }
    return true;
}

static void send_text(void *state, int process, const void *bytes, size_t size)
{
    (void)state;
    send_packet(SOCKETS_TEXT, process, bytes, size);
}

static size_t receive_text(void *state, int *process, void *bytes, size_t size)
{
    (void)state;
    size_t count = 0;
    for (int p = 0; p < sockets_processes() && count == 0; p++) {
        *process = p;
        count = p == sockets_self() ? 0 : take_packet(SOCKETS_TEXT, p, bytes, size);
    }
    return count;
}

weft_control sockets_control(void)
{
    return (weft_control){
        .gather = gather,
        .broadcast = broadcast,
        .send = send_text,
        .receive = receive_text,
        .send_abort = send_abort,
        .hear_abort = hear_abort,
    };
}
