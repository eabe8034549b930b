/* What the files of the engine share: engine.c (the progress thread), transfer.c (the life of a transfer), report.c
 * (what is pending, in words) and inquiry.c (who is to blame when nothing moves). */
#ifndef WEFT_SRC_COMM_ENGINE_H
#define WEFT_SRC_COMM_ENGINE_H

#include <stdatomic.h>

#include "comm/comm.h"
#include "comm/flight.h"
#include "comm/judge.h"
#include "comm/start_queue.h"

enum { WEFT_LABEL_SIZE = 32 };

typedef enum weft_phase { WEFT_SUBMITTED, WEFT_READY, WEFT_ACTIVE } weft_phase;

/* The transport's token for one message. */
typedef struct weft_posted {
    struct weft_comm_transfer *transfer;
    atomic_bool ended; /* set by the progress thread; whoever prints reads it */
} weft_posted;

typedef struct weft_claimed_stage weft_claimed_stage; /* claimed_stage.c */

typedef struct weft_comm_transfer {
    weft_comm *comm;
    weft_claimed_stage *claimed; /* that it is a panel of; NULL: a transfer of messages */
    starpu_data_handle_t handle;
    bool receive;
    weft_phase phase;
    int count, unfinished; /* messages */
    double submitted_us;
    const char *call; /* the public function that submitted it */
    uint64_t call_number;
    const weft_layout *layout;
    char label[WEFT_LABEL_SIZE];
    struct weft_comm_transfer *next;          /* in the ready queue */
    struct weft_comm_transfer *newer, *older; /* among the pending */
    weft_posted *posted;                      /* one per message */
    weft_message messages[];
} weft_comm_transfer;

/* What inquiries send to other processes (weft_control.send). */
typedef enum weft_text_kind { WEFT_ASK = 1, WEFT_ANSWER } weft_text_kind;

typedef struct weft_ask {
    uint32_t kind, id;
    uint64_t call; /* to be described */
} weft_ask;

typedef struct weft_answer {
    uint32_t kind, id; /* of the question */
    weft_account account;
} weft_answer;

/* Processes are being asked. Of the progress thread; `wanted` to `blame`: guarded by the engine's mutex. */
typedef struct weft_inquiry {
    enum { WEFT_INQUIRY_NONE, WEFT_INQUIRY_STUCK, WEFT_INQUIRY_DIFFERS, WEFT_INQUIRY_WANTED } reason;
    uint32_t id; /* of the questions; what answers others is old */
    double began_us, waited_us;
    uint64_t call; /* that is asked for */
    bool second;   /* asked again, for the call that differs */
    weft_awaited wait;
    weft_account *accounts; /* one per process; kept for the report */
    const weft_account **heard;
    int missing; /* answers */
    double last_listen_us;
    double suspect_after_us, suspect_since_us; /* how long nothing may move before the peers are asked */
    bool wanted;                               /* the submitting thread waits for it */
    int absent;                                /* the process that it waits for */
    weft_blame blame;
} weft_inquiry;

struct weft_comm {
    weft_transport transport;
    double timeout_us;
    uint32_t *next_send, *next_receive; /* tags, one per process; of the submitting thread */
    uint64_t claimed_stages;            /* so far; of the submitting thread */
    weft_flight *flight;
    char *report_path;   /* WEFT_REPORT; NULL: none */
    atomic_bool gathers; /* the submitting thread is in a gather or broadcast */
    atomic_bool told;    /* the others know that the world is broken */
    /* Of the progress thread: */
    weft_start_queue *sends;
    weft_start_queue *receives; /* NULL where the transport matches by tags: they start at once */
    weft_inquiry inquiry;
    int active; /* messages under way */
    int64_t active_bytes;
    starpu_pthread_t thread;
    /* The mutex guards everything below. */
    starpu_pthread_mutex_t mutex;
    starpu_pthread_cond_t wake; /* there is something ready, or `stopping`, or an inquiry is wanted */
    starpu_pthread_cond_t idle; /* nothing is pending, or an inquiry is done */
    weft_comm_transfer *first_ready, *last_ready;
    weft_comm_transfer *newest, *oldest;              /* pending: from submitted to ended */
    weft_claimed_stage *first_claimed, *last_claimed; /* that have not begun */
    int pending;
    int granted; /* of these, those whose handle is held: it is the messages that they wait for */
    bool stopping;
    bool gave_up; /* of the progress thread: the world is broken, and what was under way has ended */
    double last_progress_us;
    double last_look_us; /* of the watchdog */
};

/* ---- transfer.c ---------------------------------------------------------------------------------------- */

/* As weft_comm_submit(), in two steps. NULL with the error kept; what has not been submitted is to be freed. */
weft_comm_transfer *weft_comm_transfer_new(weft_comm *comm, starpu_data_handle_t handle, bool receive,
                                           int count, const weft_message messages[],
                                           const weft_layout *layout, const char *label);
void weft_comm_transfer_submit(weft_comm_transfer *t, bool whole);
/* The panel is released, which lets go of the tasks behind it. */
void weft_comm_transfer_end(weft_comm *comm, weft_comm_transfer *t);
/* Of those whose messages have been started: a list linked by `next`; they stay among the pending. */
weft_comm_transfer *weft_comm_transfers_active(weft_comm *comm);
/* Puts the panel elsewhere, so that a message that could not be taken back goes on with memory that nothing else
 * uses: a peer that wakes up late must not be sent what later tasks write. The old memory is left to the
 * transport. */
void weft_comm_transfer_leave_memory(const weft_comm_transfer *t);

/* ---- claimed_stage.c: of the progress thread ----------------------------------------------------------- */

/* A panel has been granted. Returns the number of stages that have begun with that. */
int weft_claimed_granted(weft_comm *comm, weft_comm_transfer *t);
/* The stage has ended, or has failed: so have the transfers of all its panels. */
void weft_claimed_end(weft_claimed_stage *claimed, weft_status status);
/* Called for each of them. */
void weft_claimed_panel_ended(weft_claimed_stage *claimed);
/* The world is broken: forgets the stages that have not begun. Their panels end when they are granted. */
void weft_claimed_clear(weft_comm *comm);

/* ---- report.c ------------------------------------------------------------------------------------------ */

/* The oldest message of a transfer that has not ended. */
int weft_first_unfinished(const weft_comm_transfer *t);
/* The mutex is held. The oldest transfer that has its panel; NULL: there is none. */
const weft_comm_transfer *weft_oldest_granted(const weft_comm *comm, bool receive);
/* The mutex is held, and given back meanwhile. */
void weft_print_pending_locked(weft_comm *comm, FILE *file);
/* Breaks the world, with what happened, and the message that will not come. */
void weft_break_for(const weft_comm_transfer *t, int message, weft_status status, const char *what);
/* What was found, in words; "": nothing. `accounts`: one per process. */
void weft_finding_text(const weft_account *accounts, const weft_finding *finding, char *text, size_t size);
/* The file that WEFT_REPORT names for this process: to be freed. NULL: none. */
char *weft_report_path(int process);
/* The world is broken: writes that file. */
void weft_report_write(weft_comm *comm);

/* ---- inquiry.c: of the progress thread ----------------------------------------------------------------- */

/* Answers other processes, and looks whether something moves; asks them when nothing does, and breaks the
 * world when it is known why. Cheap, and may be called at any time. */
void weft_inquiry_step(weft_comm *comm);
/* Called when the world is broken: nobody is asked any more. */
void weft_inquiry_end(weft_comm *comm);

#endif
