/* src/comm: the engine that releases task edges when bytes arrive.
 *
 * A transfer acquires one StarPU handle in main memory (read to send, write to receive) and holds it while
 * its messages are under way; releasing it releases the tasks behind it. One progress thread owns every call
 * of the transport (transport.h). The submitting thread gives transfers in any order. Messages are numbered by a
 * tag, a counter for each ordered pair of processes, which both sides advance alike because both execute the
 * same plans in the same order; transports match them by tags, or by their order. */
#ifndef WEFT_SRC_COMM_H
#define WEFT_SRC_COMM_H

#include <starpu.h>

#include "comm/transport.h"

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

double weft_comm_timeout_s(const weft_comm *comm);
/* As the control table's. Of the submitting thread. */
void weft_comm_gather(weft_comm *comm, const void *mine, void *all, size_t size, bool came[]);
bool weft_comm_broadcast(weft_comm *comm, void *bytes, size_t size);

enum { WEFT_BLAME_SIZE = 1024 };

/* Why a process has not come to a gather or broadcast. */
typedef struct weft_blame {
    weft_status status; /* WEFT_ERR_MISMATCH: calls differ; else WEFT_ERR_TIMEOUT */
    int process;        /* to blame; -1: not known */
    bool has_come;      /* it has come there, and waits for others */
    char text[WEFT_BLAME_SIZE];
} weft_blame;

/* BLOCKS for some seconds at most, in which all processes are asked. */
void weft_comm_inquire(weft_comm *comm, int absent, weft_blame *blame);

/* Where calls are noted for reports (comm/flight.h). */
struct weft_flight *weft_comm_flight(weft_comm *comm);

/* The next `count` tags for messages to (or from) `peer`: returns the first. */
uint32_t weft_comm_reserve(weft_comm *comm, int peer, bool receive, uint32_t count);

/* A transfer of `count` messages that the caller fills in, weft_comm_messages(), and submits or discards. NULL:
 * no memory. */
struct weft_comm_transfer *weft_comm_prepare(int count);
weft_message *weft_comm_messages(struct weft_comm_transfer *transfer);
void weft_comm_discard(struct weft_comm_transfer *transfer);
/* As weft_comm_submit() below; takes the transfer, and cannot fail. */
void weft_comm_submit_prepared(weft_comm *comm, struct weft_comm_transfer *transfer,
                               starpu_data_handle_t handle, bool receive, bool whole,
                               const weft_layout *layout, const char *label);

/* Submits a transfer of `count` messages, which are copied, on a handle. Sends read the handle; receives
 * write it: `whole` says that nothing of its former contents is needed (STARPU_W instead of STARPU_RW).
 * `label` (copied, may be NULL) and `layout` are for reports. False with the error kept: no memory, nothing
 * submitted. */
bool weft_comm_submit(weft_comm *comm, starpu_data_handle_t handle, bool receive, bool whole, int count,
                      const weft_message messages[], const weft_layout *layout, const char *label);

/* Whether the transport carries out a stage as a whole: the same on every process (weft_data.claims). */
bool weft_comm_claims(const weft_comm *comm, const weft_stage *stage);

/* A panel of such a stage. */
typedef struct weft_stage_operand {
    weft_stage_panel panel; /* memory: filled in later */
    starpu_data_handle_t handle;
    int64_t offset; /* of the panel in it */
    bool whole;     /* of a target: the panel is all of the handle */
} weft_stage_operand;

/* Submits a stage that was claimed: with the panels of all hosted ranks, of which there is one at least. What it
 * is given is copied. False with the error kept: no memory, nothing submitted. */
bool weft_comm_submit_stage(weft_comm *comm, const weft_stage *stage, int count,
                            const weft_stage_operand operands[], const char *label);

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
