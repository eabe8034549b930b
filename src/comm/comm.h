/* src/comm: the engine that releases task dependencies when bytes arrive.
 *
 * A transfer acquires one StarPU handle in main memory (read to send, write to receive) and keeps it while
 * its messages are under way; its release lets the tasks after it run. One progress thread makes all
 * calls of the data transport (transport.h). The submitting thread submits transfers in any order. A
 * message's tag is a counter for each ordered pair of processes; both sides count alike because both
 * execute the same plans in the same order. Transports match messages by tags, or by their order. */
#ifndef WEFT_SRC_COMM_H
#define WEFT_SRC_COMM_H

#include <starpu.h>

#include "comm/transport.h"

/* ---- the engine ---------------------------------------------------------------------------------------- */

typedef struct weft_comm weft_comm;

/* Takes over the transport. timeout_s > 0: if messages are under way and none moves for this time, reports
 * what is pending and breaks the world. NULL with the error kept: the transport is still the caller's. */
weft_comm *weft_comm_start(const char *function, weft_transport transport, double timeout_s);
/* Closes the transport. Everything must have ended before (weft_comm_wait). */
void weft_comm_stop(weft_comm *comm);

/* Called by the submitting thread after weft_break(): pending and later transfers end without their
 * messages. (The progress thread calls weft_break() itself when a message fails or nothing moves.) */
void weft_comm_give_up(weft_comm *comm);

/* Sends an abort notice to the others, because the process exits without weft_finalize(). Any thread;
 * BLOCKS for two seconds at most. */
void weft_comm_leave(weft_comm *comm);
/* From here on SIGTERM breaks the world (<weft/runtime.h>, "Signals"), until weft_comm_stop(). */
void weft_comm_heed_sigterm(weft_comm *comm);

double weft_comm_timeout_s(const weft_comm *comm);
/* As the functions of the control table. Submitting thread only. */
void weft_comm_gather(weft_comm *comm, const void *mine, void *all, size_t size, bool came[]);
bool weft_comm_broadcast(weft_comm *comm, void *bytes, size_t size);

enum { WEFT_BLAME_SIZE = 1024 };

/* Why a process has not come to a gather or broadcast. */
typedef struct weft_blame {
    weft_status status; /* WEFT_ERR_MISMATCH: calls differ; else WEFT_ERR_TIMEOUT */
    int process;        /* to blame; -1: unknown */
    bool has_come;      /* it has reached the gather or broadcast, and waits for others */
    char text[WEFT_BLAME_SIZE];
} weft_blame;

/* Asks all processes. BLOCKS for some seconds at most. */
void weft_comm_inquire(weft_comm *comm, int absent, weft_blame *blame);

/* Ends a sweep of layouts (src/sweep.c): those of pending transfers and of the flight record are met first. */
void weft_comm_sweep_layouts(weft_comm *comm);

/* The flight record (comm/flight.h). */
struct weft_flight *weft_comm_flight(weft_comm *comm);

/* Reserves `count` consecutive tags for messages to (or from) `peer`; returns the first. */
uint32_t weft_comm_reserve(weft_comm *comm, int peer, bool receive, uint32_t count);

/* A transfer of `count` messages, which the caller fills in (weft_comm_messages()) and then submits or
 * discards. NULL: no memory. */
struct weft_comm_transfer *weft_comm_prepare(int count);
weft_message *weft_comm_messages(struct weft_comm_transfer *transfer);
void weft_comm_discard(struct weft_comm_transfer *transfer);
/* As weft_comm_submit() below; takes over the transfer, and cannot fail. */
void weft_comm_submit_prepared(weft_comm *comm, struct weft_comm_transfer *transfer,
                               starpu_data_handle_t handle, bool receive, bool whole,
                               const weft_layout *layout, const char *label);

/* Submits a transfer of `count` messages (copied) on a handle. Sends read the handle; receives write it:
 * with `whole` its former contents are not needed (STARPU_W instead of STARPU_RW). `label` (copied, may be
 * NULL) and `layout` are for reports. False with the error kept: no memory, nothing submitted. */
bool weft_comm_submit(weft_comm *comm, starpu_data_handle_t handle, bool receive, bool whole, int count,
                      const weft_message messages[], const weft_layout *layout, const char *label);

/* Whether the transport carries out a stage as a whole: the same on every process (weft_data.claims). */
bool weft_comm_claims(const weft_comm *comm, const weft_stage *stage);

/* A panel of such a stage. */
typedef struct weft_stage_operand {
    weft_stage_panel panel; /* memory: set later */
    starpu_data_handle_t handle;
    int64_t offset; /* of the panel in its handle */
    bool whole;     /* target panels: the panel is the whole handle */
} weft_stage_operand;

/* Submits a claimed stage with the panels of all hosted ranks, at least one. Arguments are copied. False
 * with the error kept: no memory, nothing submitted. */
bool weft_comm_submit_stage(weft_comm *comm, const weft_stage *stage, int count,
                            const weft_stage_operand operands[], const char *label);

/* Whether the messages of a stage travel as a group: the same on every process (weft_data.groups). */
bool weft_comm_groups(const weft_comm *comm, const weft_stage *stage);
/* Whether there are groups at all. */
bool weft_comm_has_groups(const weft_comm *comm);
/* The next so many transfers, at least one, with so many messages in all, are a group: the part of this process in a
 * stage (its digest). No two of them need one handle, but for reading, and none depends on another. False with the error
 * kept: no memory. */
bool weft_comm_group_open(weft_comm *comm, int transfers, int messages, uint64_t stage);
/* Before the first of them. */
void weft_comm_group_cancel(weft_comm *comm);
/* Digest and number of the groups with messages to or from a process that have begun, in their order: both processes have
 * the same once all have. After weft_comm_wait(). */
uint64_t weft_comm_group_order(const weft_comm *comm, int process, uint64_t *count);
/* The number of transfers so far whose panels were granted in device memory. */
uint64_t weft_comm_on_devices(const weft_comm *comm);

/* The entries of a transfer of `count` messages in weft_pending. StarPU makes two tasks for an
 * acquisition; a message takes 0.2 KB more. */
static inline int64_t weft_comm_pending_tasks(int count)
{
    enum { TASKS = 2, MESSAGES_PER_TASK = 8 };
    return TASKS + count / MESSAGES_PER_TASK;
}

/* Transfers submitted from here on wait for something that may take long (a file that is written): weft_comm_wait() does
 * not wait for them. Or do not, again. */
void weft_comm_background(weft_comm *comm, bool on);

/* BLOCKS until no other transfer is pending. */
void weft_comm_wait(weft_comm *comm);
/* Whether weft_comm_wait() would return at once. */
bool weft_comm_is_idle(weft_comm *comm);

/* Prints the oldest 20 messages that have not ended, and the number of the others. */
void weft_comm_print_pending(weft_comm *comm, FILE *file);

#endif
