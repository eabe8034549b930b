/* What connects the processes of a world: two tables of functions.
 *
 *   control  short texts among all processes, in host memory: the start, WEFT_CHECK, inquiries, abort notices
 *   data     panels, in any memory that the transport reaches
 *
 * One library may serve both (MPI), or one of them (NCCL moves data, and cannot say why a process gives up). The
 * engine (engine.c) does the rest: which message comes next, what waits for it, time-outs, reports.
 * docs/transports.md tells what a transport has to do, and tests/sockets.h is a small one. */
#ifndef WEFT_SRC_COMM_TRANSPORT_H
#define WEFT_SRC_COMM_TRANSPORT_H

#include <starpu.h>

#include "comm/message.h"
#include "plan/plan.h"
#include "runtime/runtime.h"

/* ---- control ------------------------------------------------------------------------------------------- */

/* All may be NULL in a world of one process. */
typedef struct weft_control {
    void *state;
    /* Collective, of the submitting thread alone. Both return early when the world breaks. */
    /* Everyone gives `size` bytes. At process 0 they are in `all`, one after another, and came[p] says who
     * came within the time-out (0: for ever); elsewhere it does not wait and `all` is not used. */
    void (*gather)(void *state, const void *mine, void *all, size_t size, double timeout_s, bool came[]);
    /* `size` bytes from process 0 to everyone. Elsewhere waits for them: for process 0 to come to the gather
     * before it, if there was one, as long as the time-out, and somewhat longer from there on, for process 0
     * waits for the others. False when they did not come. */
    bool (*broadcast)(void *state, void *bytes, size_t size, double timeout_s);
    /* A text to one process, of the progress thread alone: sent at once, or not at all, and nobody waits for it;
     * its bytes are copied. NULL: not in this transport, which then has no inquiries. */
    void (*send)(void *state, int process, const void *bytes, size_t size);
    /* A text that another process has sent, of at most `size` bytes. Returns how many bytes there are; 0: none is
     * there. */
    size_t (*receive)(void *state, int *process, void *bytes, size_t size);
    /* The world is broken: sends the others an abort notice with weft_broken_by(), and waits for nothing. Nothing
     * collective is called afterwards. */
    void (*send_abort)(void *state);
    /* Calls weft_break() when an abort notice has come. Any thread. */
    void (*hear_abort)(void *state);
    /* Collective, unless send_abort() has been called. After the data's. */
    void (*close)(void *state);
} weft_control;

/* ---- data ---------------------------------------------------------------------------------------------- */

typedef struct weft_finished {
    void *token;
    weft_status status;
} weft_finished;

/* How a message finds its receive. */
typedef enum weft_matching {
    /* By its tag and digest: the messages of two processes may start in any order, on each side in another. */
    WEFT_MATCH_TAGS,
    /* By a computed order: the n-th send to a process meets the n-th receive from it. The engine starts the
     * messages of two processes in the order of their tags, on both sides. */
    WEFT_MATCH_ORDER,
} weft_matching;

/* A panel of a hosted rank in a stage that the transport carries out. */
typedef struct weft_stage_panel {
    int rank;
    bool target;   /* of the stage's target; else of its source */
    int64_t first; /* byte in the rank's shard */
    int64_t bytes;
    char *memory; /* what the panel begins with */
} weft_stage_panel;

/* A stage with the panels of all ranks hosted here: those of the source to be read, those of the target to be
 * written in whole. */
typedef struct weft_stage_work {
    const weft_stage *stage;
    uint64_t number; /* of the stages that were claimed, from 0 on: the same on every process */
    int count;
    const weft_stage_panel *panels;
} weft_stage_work;

/* All but claims() are called by the progress thread alone (before there is one: by the thread that starts it). */
typedef struct weft_data {
    void *state;
    /* Memory nodes that panels may be in: bits 1u << STARPU_CPU_RAM, 1u << STARPU_CUDA_RAM. */
    unsigned memories;
    weft_matching matching;
    /* Begins a message from or to memory (the handle's start); poll reports `token` when it has ended: until then
     * `message` and `memory` stay. An error other than WEFT_OK means it has not begun. Must not wait for the
     * peer. */
    weft_status (*start)(void *state, const weft_message *message, bool receive, void *memory, void *token);
    /* Grouped: the messages that were ready together have been started, and may leave together from here on.
     * NULL: each leaves by itself. */
    void (*flush)(void *state);
    /* Completion is learned by asking: writes up to `max` messages and stages that have ended, returns how many.
     * Does not wait. */
    int (*poll)(void *state, weft_finished finished[], int max);
    /* Whether the transport carries out this stage as a whole, instead of messages. Must follow from the arguments
     * alone, for all processes have to say the same. Asked for stages between ranks of all processes only. `along`
     * as weft_stage_kind_of() has it. NULL: it claims none. Of the submitting thread. */
    bool (*claims)(void *state, const weft_stage *stage, weft_stage_kind kind, const bool along[]);
    /* Begins a stage that was claimed, as start() begins a message: work and memory stay until it has ended. Stages
     * are begun in the order of their numbers. */
    weft_status (*start_stage)(void *state, const weft_stage_work *work, void *token);
    /* The world is broken: gives up all that is under way; takes back what can be, waits for nothing. poll is not
     * called any more; the memory of those that could not be taken back may be read and written until the process
     * ends. Nothing is started afterwards. */
    void (*abandon)(void *state);
    /* What links can do has been measured, with every message one of its own: from here on messages may travel
     * together. Before the first thread; NULL: nothing changes. */
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

/* `communicator`: pointer to an MPI_Comm, or NULL for MPI_COMM_WORLD. pack_bytes: messages of at most so many
 * bytes, of the least that any process gives, travel in packs (comm/mpi_packs.h); 0: none; -1: those between
 * machines, of a usual size; enable_packing() says from when on. Collective: WEFT_ERR_TIMEOUT where a process does not
 * come within timeout_s (0: for ever). An error with *transport filled in: this process cannot go on, and can
 * tell the others (comm/handshake.h). */
weft_status weft_mpi_open(const char *function, const void *communicator, int64_t pack_bytes,
                          double timeout_s, weft_transport *transport);

/* Tells the others that the world is broken, and gives up what is under way. */
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
