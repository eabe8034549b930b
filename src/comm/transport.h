/* The transport between the processes of a world: two tables of functions.
 *
 *   control  short texts among all processes, in host memory: start, WEFT_CHECK, inquiries, abort notices
 *   data     panels, in any memory that the transport reaches
 *
 * One library may serve both (MPI), or one of them (NCCL moves data, but cannot carry error reports). The
 * engine (engine.c) does the rest: order of messages, dependencies, time-outs, reports. docs/transports.md
 * describes the duties of a transport; tests/support/sockets.h is a small one. */
#ifndef WEFT_SRC_COMM_TRANSPORT_H
#define WEFT_SRC_COMM_TRANSPORT_H

#include <starpu.h>

#include "comm/message.h"
#include "plan/plan.h"
#include "runtime/runtime.h"

/* ---- control ------------------------------------------------------------------------------------------- */

/* What this machine knows of a process. */
typedef enum weft_presence { WEFT_PRESENCE_UNKNOWN, WEFT_PRESENT, WEFT_ENDED } weft_presence;

/* All may be NULL in a world of one process. */
typedef struct weft_control {
    void *state;
    /* Collective; submitting thread only. Both return early when the world breaks. */
    /* Gathers `size` bytes of each process. On process 0 they lie in `all`, by process, and came[p] tells
     * whether p came within the time-out (0: without limit). Other processes do not wait, and `all` is not
     * used. */
    void (*gather)(void *state, const void *mine, void *all, size_t size, double timeout_s, bool came[]);
    /* Broadcasts `size` bytes from process 0. The others wait until process 0 has come to the gather
     * before it, if there was one, for the time-out, and then somewhat longer, because process 0 waits for
     * the others. False: not received. */
    bool (*broadcast)(void *state, void *bytes, size_t size, double timeout_s);
    /* Sends a text (copied) to one process, at once or not at all, without waiting. Progress thread only.
     * NULL: not supported, and there are no inquiries. */
    void (*send)(void *state, int process, const void *bytes, size_t size);
    /* Receives a text of at most `size` bytes from another process. Returns its size; 0: none. */
    size_t (*receive)(void *state, int *process, void *bytes, size_t size);
    /* In a broken world: sends the others an abort notice with weft_broken_by(), without waiting. Nothing
     * collective is called afterwards. */
    void (*send_abort)(void *state);
    /* Calls weft_break() if an abort notice has arrived. Any thread. */
    void (*hear_abort)(void *state);
    /* Whether a process has ended; unknown for those of other machines. Any thread. NULL: unknown for all. */
    weft_presence (*presence)(void *state, int process);
    /* Before send_abort(): a process may not come to the end, where the others then wait for a shorter time. NULL: not used. */
    void (*miss)(void *state);
    /* Collective, unless send_abort() has been called. Called after the data table's. */
    void (*close)(void *state);
} weft_control;

/* ---- data ---------------------------------------------------------------------------------------------- */

typedef struct weft_finished {
    void *token;
    weft_status status;
} weft_finished;

/* How a message is matched with its receive. */
typedef enum weft_matching {
    /* By tag and digest: messages of two processes may start in any order on either side. */
    WEFT_MATCH_TAGS,
    /* By order: the n-th send to a process meets the n-th receive from it. The engine starts the messages
     * of two processes in the order of their tags, on both sides. */
    WEFT_MATCH_ORDER,
} weft_matching;

/* A panel of a hosted rank in a claimed stage. */
typedef struct weft_stage_panel {
    int rank;
    bool target;   /* in the stage's target; else in its source */
    int64_t first; /* byte offset in the rank's shard */
    int64_t bytes;
    char *memory; /* address of the panel's first byte */
} weft_stage_panel;

/* A stage with the panels of all ranks hosted here: source panels are read, target panels written in
 * whole. */
typedef struct weft_stage_work {
    const weft_stage *stage;
    uint64_t number; /* among the claimed stages, from 0 on: the same on every process */
    int count;
    const weft_stage_panel *panels;
} weft_stage_work;

/* A message of a group. */
typedef struct weft_group_message {
    const weft_message *message;
    bool receive, on_device;
    void *memory; /* the handle's start */
    void *token;
} weft_group_message;

/* The progress thread alone calls all but claims() and groups() (before its start: the thread that starts it). */
typedef struct weft_data {
    void *state;
    /* Memory nodes in which panels may lie: bits 1u << STARPU_CPU_RAM, 1u << STARPU_CUDA_RAM. */
    unsigned memories;
    weft_matching matching;
    /* Messages may lie in device memory: those of panels that are there are sent from there, and all are received there, as
     * far as device_bytes reach. */
    bool takes_devices;
    int node;             /* the memory node of the device that is used */
    int64_t device_bytes; /* of granted panels there, at most; 0: all lie in main memory */
    /* Begins a message from or to memory (the handle's start); poll reports `token` at its end, and until
     * then `message` and `memory` stay valid. Must not wait for the peer. An error: it has not begun. */
    weft_status (*start)(void *state, const weft_message *message, bool receive, void *memory, void *token);
    /* Messages started since the last flush may leave, grouped. NULL: each leaves by itself. */
    void (*flush)(void *state);
    /* Writes up to `max` ended messages and stages, returns their number. Does not wait. */
    int (*poll)(void *state, weft_finished finished[], int max);
    /* Whether the transport carries out this stage as a whole, instead of messages. A function of the
     * arguments alone, because all processes must decide alike. Called only for stages between ranks of
     * all processes. `along`: as in weft_stage_kind_of(). Submitting thread. NULL: it claims none. */
    bool (*claims)(void *state, const weft_stage *stage, weft_stage_kind kind, const bool along[]);
    /* Begins a claimed stage, as start() begins a message: work and memory stay valid until its end.
     * Stages are begun in the order of their numbers. */
    weft_status (*start_stage)(void *state, const weft_stage_work *work, void *token);
    /* Whether the messages of this stage travel as a group, which begins when all of them are ready, in the order of the
     * calls, on every process. As claims() otherwise, but for any stage. Their panels lie in memory node `node`, as far
     * as device_bytes reach, others in main memory. NULL: there are no groups. */
    bool (*groups)(void *state, const weft_stage *stage, weft_stage_kind kind);
    /* Begins a group: its messages by direction, process and tag, valid until they end, which poll reports one by one.
     * An error: none has begun. */
    weft_status (*start_group)(void *state, int count, const weft_group_message messages[]);
    /* In a broken world: cancels what can be cancelled, without waiting. poll is not called afterwards,
     * and nothing is started; the memory of the others may be read and written until the process ends. */
    void (*abandon)(void *state);
    /* Called after the links were measured with single messages: from now on messages may travel together.
     * Before the first thread. NULL: nothing changes. */
    void (*enable_packing)(void *state);
    /* Collective, unless abandon() has been called. */
    void (*close)(void *state);
} weft_data;

typedef struct weft_transport {
    const char *name;
    weft_process_place place;
    weft_control control;
    weft_data data;
} weft_transport;

/* `communicator`: pointer to an MPI_Comm, or NULL for MPI_COMM_WORLD. pack_bytes: largest message that
 * travels in packs, the least of all processes (comm/mpi_packs.h); 0: none; -1: the default size, between
 * machines only; enable_packing() starts it. Collective: WEFT_ERR_TIMEOUT if a process does not come
 * within timeout_s (0: no limit). takes_devices: messages in device memory; 1: MPI can, 0: it must not, -1: if it says so
 * (MPIX_Query_cuda_support()); then nothing is packed. An error with *transport filled in: this process cannot go on, and can
 * report that to the others (comm/handshake.h). */
weft_status weft_mpi_open(const char *function, const void *communicator, int64_t pack_bytes,
                          double timeout_s, int takes_devices, weft_transport *transport);

/* A process has not come within the time-out, unless another error is the cause: before weft_break(). */
static inline void weft_transport_miss(const weft_transport *transport)
{
    if (transport->control.miss != NULL && !weft_is_broken()) {
        transport->control.miss(transport->control.state);
    }
}

/* Sends abort notices and gives up all that is under way. */
static inline void weft_transport_abort(const weft_transport *transport)
{
    if (transport->control.send_abort != NULL) {
        transport->control.send_abort(transport->control.state);
    }
    transport->data.abandon(transport->data.state);
}

static inline void weft_transport_close(const weft_transport *transport)
{
    transport->data.close(transport->data.state);
    if (transport->control.close != NULL) {
        transport->control.close(transport->control.state);
    }
}

#endif
