/* src/comm: the engine that releases task edges when bytes arrive.
 *
 * A transfer acquires one StarPU handle in main memory (read to send, write to receive) and holds it while
 * its messages are under way; releasing it releases the tasks behind it. One progress thread owns every call
 * of the transport. The submitting thread gives transfers in any order: messages are matched by a tag, a
 * counter per ordered pair of processes that both sides advance alike because both execute the same plans in
 * the same order. */
#ifndef WEFT_SRC_COMM_H
#define WEFT_SRC_COMM_H

#include <starpu.h>

#include "layout/layout.h"
#include "runtime/runtime.h"
#include "tasks/region.h"

/* One message between two processes. */
typedef struct weft_message {
    int peer; /* process */
    uint32_t tag;
    weft_region region;
    int64_t bytes;
    int source_rank, target_rank; /* for reports */
    uint64_t
        calls; /* digest of the calls up to the one that submits it, and of the layouts it moves between */
} weft_message;

/* Of what both sides must agree on beside the tag. In a program whose processes differ, a message then finds
 * no partner, and does not match another one. */
static inline uint64_t weft_message_digest(const weft_message *message)
{
    uint64_t ranks = (uint64_t)message->source_rank << 32 | (uint32_t)message->target_rank;
    return weft_hash_u64(weft_hash_u64((uint64_t)message->bytes ^ message->calls) ^ ranks);
}

/* Small messages end when they have left. So a process that only sends could run ahead of a slow receiver as far
 * as it likes, and fill its memory with messages that are not expected yet. One in 64 therefore ends when its
 * receiver has come to it, as large ones do: the window (sends.h) then holds the others back. */
static inline bool weft_message_is_paced(const weft_message *message)
{
    enum { PACE = 64 };
    return message->tag % PACE == PACE - 1;
}

/* ---- transports ---------------------------------------------------------------------------------------- */

typedef struct weft_finished {
    void *token;
    weft_status status;
} weft_finished;

/* What moves messages between processes. start and poll are called by the progress thread alone. */
typedef struct weft_transport {
    const char *name;
    void *state;
    weft_process_place place;
    /* Begins a message from or to memory (the handle's start); reports `token` when it has ended: until then
     * `message` and `memory` stay. An error other than WEFT_OK means it has not begun. Must not wait for the
     * peer. */
    weft_status (*start)(void *state, const weft_message *message, bool receive, void *memory, void *token);
    /* Writes up to `max` messages that have ended; returns how many. Does not wait. Calls weft_break() when
     * another process has told that it gave up. */
    int (*poll)(void *state, weft_finished finished[], int max);
    /* The world is broken. Tells all processes, and gives up every message under way: takes back what can be,
     * waits for nothing. poll is not called any more; the memory of those that could not be taken back may be
     * read and written until the process ends. Nothing is started afterwards. */
    void (*abandon)(void *state);
    /* What links can do has been measured, with every message one of its own: from here on messages may
     * travel together. Before the first thread; NULL: nothing changes. */
    void (*settle)(void *state);
    /* Collective, unless abandon() has been called. */
    void (*close)(void *state);
    /* Words to one process beside the messages: sent at once, or not at all, and nobody waits for them; their
     * bytes are copied. Called by the progress thread alone. NULL: not in this transport. */
    void (*send_words)(void *state, int process, const void *words, size_t size);
    /* Takes words that another process has sent, of at most `size` bytes. Returns how many bytes there are;
     * 0: none are there. Calls weft_break() as poll does. */
    size_t (*take_words)(void *state, int *process, void *words, size_t size);
    /* A meeting of all processes at process 0, of the submitting thread alone: for the start, WEFT_CHECK, and
     * the end. (NULL where there is one process.) Both return early when the world breaks. */
    /* Everyone gives `size` bytes. At process 0 they are in `all`, one after another, and came[p] says who
     * came within the time-out (0: for ever); elsewhere it does not wait and `all` is not used. */
    void (*gather)(void *state, const void *mine, void *all, size_t size, double timeout_s, bool came[]);
    /* Process 0 tells everyone `size` bytes. Elsewhere waits for them: for process 0 to come to the gathering
     * before it, if there was one, as long as the time-out, and somewhat longer from there on, for process 0
     * waits for the others. False when they did not come. */
    bool (*tell)(void *state, void *words, size_t size, double timeout_s);
} weft_transport;

/* `communicator`: pointer to an MPI_Comm, or NULL for MPI_COMM_WORLD. pack_bytes: messages of at most so many
 * bytes, of the least that any process gives, travel in packs (comm/mpi_packs.h); 0: none; -1: those between
 * machines, of a usual size; settle() says from when on. Collective: WEFT_ERR_TIMEOUT where a process does not
 * come within timeout_s (0: for ever). An error with *transport filled in: this process cannot go on, and can
 * tell the others (comm/agree.h). */
weft_status weft_mpi_open(const char *function, const void *communicator, int64_t pack_bytes,
                          double timeout_s, weft_transport *transport);

/* ---- the engine ---------------------------------------------------------------------------------------- */

typedef struct weft_comm weft_comm;

/* Takes the transport; NULL with the error kept, and the transport as it was. timeout_s > 0: when messages
 * are under way and nothing has moved for so long, print what is pending and break. */
weft_comm *weft_comm_start(const char *function, weft_transport transport, double timeout_s);
/* Everything must have ended (weft_comm_wait). Closes the transport. */
void weft_comm_stop(weft_comm *comm);

/* After weft_break() by the submitting thread: has what is pending, and what will be submitted, end without
 * its messages. (The progress thread calls weft_break() itself when a message fails, or nothing moves.) */
void weft_comm_give_up(weft_comm *comm);

/* The process ends, and the world has not: the others are told at once, and need not wait for it. Any thread;
 * waits for this a second or two at most. */
void weft_comm_leave(weft_comm *comm);

/* The transport's meeting. */
double weft_comm_timeout_s(const weft_comm *comm);
void weft_comm_gather(weft_comm *comm, const void *mine, void *all, size_t size, bool came[]);
bool weft_comm_tell(weft_comm *comm, void *words, size_t size);

enum { WEFT_BLAME_SIZE = 1024 };

/* Why a process has not come to a meeting. */
typedef struct weft_blame {
    weft_status status; /* WEFT_ERR_MISMATCH: calls differ; else WEFT_ERR_TIMEOUT */
    int process;        /* to blame; -1: not known */
    bool has_come;      /* it has come to the meeting, and waits for others */
    char text[WEFT_BLAME_SIZE];
} weft_blame;

/* BLOCKS for some seconds at most, in which all processes are asked. */
void weft_comm_inquire(weft_comm *comm, int absent, weft_blame *blame);

/* Where calls are noted for reports (comm/flight.h). */
struct weft_flight *weft_comm_flight(weft_comm *comm);

/* The next `count` tags for messages to (or from) `peer`: returns the first. */
uint32_t weft_comm_reserve(weft_comm *comm, int peer, bool receive, uint32_t count);

/* Submits a transfer of `count` messages, which are copied, on a handle. Sends read the handle; receives
 * write it: `whole` says that nothing of its former contents is needed (STARPU_W instead of STARPU_RW).
 * `label` (copied, may be NULL) and `layout` are for reports. False with the error kept: no memory, nothing
 * submitted. */
bool weft_comm_submit(weft_comm *comm, starpu_data_handle_t handle, bool receive, bool whole, int count,
                      const weft_message messages[], const weft_layout *layout, const char *label);

/* What a transfer of `count` messages counts in weft_pending. StarPU makes two tasks of an acquisition, and a
 * message takes 0.2 KB more. */
static inline int64_t weft_comm_pending_tasks(int count)
{
    enum { TASKS = 2, MESSAGES_PER_TASK = 8 };
    return TASKS + count / MESSAGES_PER_TASK;
}

/* BLOCKS until no transfer is pending. */
void weft_comm_wait(weft_comm *comm);

/* The oldest 20 messages that have not ended, and how many more there are. */
void weft_comm_print_pending(weft_comm *comm, FILE *file);

#endif
