/* Shared by the files of the engine: engine.c (progress thread), transfer.c (life of a transfer), report.c
 * (texts of pending work) and inquiry.c (who is to blame when nothing moves). */
#ifndef WEFT_SRC_COMM_ENGINE_H
#define WEFT_SRC_COMM_ENGINE_H

#include <stdatomic.h>

#include "comm/comm.h"
#include "comm/flight.h"
#include "comm/judge.h"
#include "comm/sequencer.h"
#include "comm/start_queue.h"

enum { WEFT_LABEL_SIZE = 32 };

typedef enum weft_phase { WEFT_SUBMITTED, WEFT_READY, WEFT_ACTIVE } weft_phase;

/* The transport's token of one message. */
typedef struct weft_posted {
    struct weft_comm_transfer *transfer;
    atomic_bool ended; /* written by the progress thread, read by reports */
} weft_posted;

typedef struct weft_claimed_stage weft_claimed_stage; /* claimed_stage.c */
typedef struct weft_comm_group weft_comm_group;       /* group.c */

typedef struct weft_comm_transfer {
    weft_comm *comm;
    weft_claimed_stage *claimed; /* the claimed stage of the panel; NULL: a transfer of messages */
    void (*claimed_ended)(weft_claimed_stage *claimed); /* the transfer has ended */
    weft_comm_group *group;      /* NULL: its messages begin alone */
    starpu_data_handle_t handle;
    int node; /* the memory node where it is granted */
    int64_t device_bytes;
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
    /* Among the sends outside of groups, until it is granted; groups that were submitted before it. */
    struct weft_comm_transfer *newer_alone, *older_alone;
    uint64_t groups_before;
    bool in_background;                       /* weft_comm_wait() does not wait for it */
    weft_posted *posted;                      /* one per message */
    weft_message messages[];
} weft_comm_transfer;

/* Messages between inquiries (weft_control.send). */
typedef enum weft_text_kind { WEFT_ASK = 1, WEFT_ANSWER } weft_text_kind;

typedef struct weft_ask {
    uint32_t kind, id;
    uint64_t call; /* call whose text is asked for */
} weft_ask;

typedef struct weft_answer {
    uint32_t kind, id; /* of the question */
    weft_account account;
} weft_answer;

/* An inquiry. Progress thread only; `wanted` to `blame` are guarded by the engine's mutex. */
typedef struct weft_inquiry {
    enum { WEFT_INQUIRY_NONE, WEFT_INQUIRY_STUCK, WEFT_INQUIRY_DIFFERS, WEFT_INQUIRY_WANTED } reason;
    uint32_t id; /* number of the inquiry; answers to earlier ones are ignored */
    double began_us, waited_us;
    uint64_t call; /* the call asked for */
    bool second;   /* asked again, for the text of the call that differs */
    int accused;   /* STUCK: a process that has ended, or cannot be reached; -1: none, the time is over */
    double still_us; /* STUCK: how long nothing had moved when it began */
    double last_search_us; /* for processes that have ended */
    double *heard_us;      /* one per process: when a text of it came last */
    weft_awaited wait;
    weft_account *accounts; /* one per process; kept for the report */
    const weft_account **heard;
    int missing; /* answers */
    double last_listen_us;
    double suspect_after_us, suspect_since_us; /* time without progress before the peers are asked */
    bool wanted;                               /* the submitting thread waits for the inquiry */
    int absent;                                /* the process that it waits for */
    weft_blame blame;
} weft_inquiry;

/* Groups with messages to or from one process. */
typedef struct weft_group_order {
    uint64_t digest, count;
    uint64_t last; /* 1 + the number of the last one */
} weft_group_order;

struct weft_comm {
    weft_transport transport;
    double timeout_us;
    uint32_t *next_send, *next_receive; /* next tags, one per process; submitting thread only */
    uint64_t claimed_stages;            /* so far; submitting thread only */
    bool submits_in_background;         /* weft_comm_background(); submitting thread only */
    weft_comm_group *open_group;        /* submitting thread only */
    atomic_llong device_bytes;          /* of granted panels, on devices */
    atomic_ullong on_devices;           /* panels granted there so far */
    weft_flight *flight;
    char *report_path;   /* file named by WEFT_REPORT; NULL: none */
    atomic_bool gathers; /* the submitting thread is in a gather or broadcast */
    atomic_bool told;    /* an abort notice has been sent */
    /* Progress thread only: */
    weft_start_queue *sends;
    weft_start_queue *receives; /* NULL where the transport matches by tags: messages start at once */
    weft_inquiry inquiry;
    weft_group_order *group_orders; /* one per process */
    int active; /* messages under way */
    int active_long; /* of these: each takes a link to another machine for longer than other polls are apart */
    int64_t active_bytes;
    starpu_pthread_t thread;
    /* The mutex guards all members below. */
    starpu_pthread_mutex_t mutex;
    starpu_pthread_cond_t wake; /* something is ready, or `stopping`, or an inquiry is wanted */
    starpu_pthread_cond_t idle; /* nothing is pending, or an inquiry has ended */
    weft_comm_transfer *first_ready, *last_ready;
    weft_comm_transfer *newest, *oldest;              /* pending transfers: from submitted to ended */
    weft_claimed_stage *first_claimed, *last_claimed; /* stages that have not begun */
    weft_sequencer sequencer;                         /* groups that have not begun */
    uint64_t groups;                                  /* so far */
    weft_comm_transfer *newest_alone, *oldest_alone;  /* sends outside of groups that are not granted */
    int pending;
    int in_background; /* of the pending */
    int granted; /* pending transfers whose handle is granted: these wait for messages */
    bool stopping;
    bool gave_up; /* written by the progress thread: broken, and all active messages have ended */
    double last_progress_us;
    double last_look_us; /* for the watchdog */
    double told_to_end_us; /* when SIGTERM was noted; 0: it was not. Progress thread only */
};

/* ---- transfer.c ---------------------------------------------------------------------------------------- */

/* weft_comm_submit() in two steps. NULL with the error kept; an unsubmitted transfer is the caller's to
 * free. */
weft_comm_transfer *weft_comm_transfer_new(weft_comm *comm, starpu_data_handle_t handle, bool receive,
                                           int count, const weft_message messages[],
                                           const weft_layout *layout, const char *label);
void weft_comm_transfer_submit(weft_comm_transfer *t, bool whole);
/* A granted panel's handle: its start, where it was granted. */
static inline void *weft_comm_transfer_memory(const weft_comm_transfer *t)
{
    const struct starpu_variable_interface *panel = starpu_data_get_interface_on_node(t->handle, (unsigned)t->node);
    return (void *)panel->ptr;
}
/* Releases the panel, and with it the tasks after it. */
void weft_comm_transfer_end(weft_comm *comm, weft_comm_transfer *t);
/* Ends transfers whose messages have been started: a list linked by `next`. They stay among the pending. */
weft_comm_transfer *weft_comm_transfers_active(weft_comm *comm);
/* Gives the panel other memory, so that a message that could not be cancelled goes on with memory that
 * nothing else uses: a peer that resumes late must not receive values of later tasks. The old memory is
 * left to the transport. */
void weft_comm_transfer_leave_memory(const weft_comm_transfer *t);

/* ---- claimed_stage.c: of the progress thread ----------------------------------------------------------- */

/* A panel is granted. Returns the number of stages that begin with it. */
int weft_claimed_granted(weft_comm *comm, weft_comm_transfer *t);
/* The stage has ended or failed, and with it the transfers of all its panels. */
void weft_claimed_end(weft_claimed_stage *claimed, weft_status status);
/* weft_meet_layout() for the stage's layouts. The mutex is held. */
void weft_claimed_meet_layouts(const weft_claimed_stage *claimed);
/* In a broken world: forgets the stages that have not begun. Their panels end when they are granted. */
void weft_claimed_clear(weft_comm *comm);

/* ---- group.c ------------------------------------------------------------------------------------------- */

/* Submitting thread: the transfer joins the open group. */
void weft_group_join(weft_comm *comm, weft_comm_transfer *t);
/* Whether groups that are submitted after the transfer begin after it is granted: a send outside of groups. */
bool weft_groups_follow(const weft_comm_transfer *t);
/* Such a transfer is submitted, or granted. The mutex is held. \{ */
void weft_groups_hold(weft_comm *comm, weft_comm_transfer *t);
void weft_groups_release(weft_comm *comm, weft_comm_transfer *t);
/* \} */
/* Progress thread. A transfer of a group is granted. Returns the number of messages that begin with it. */
int weft_group_granted(weft_comm *comm, weft_comm_transfer *t);
/* Progress thread. Begins the groups that nothing holds back. Returns the number of their messages. */
int weft_groups_begin(weft_comm *comm);
/* Called for each of its transfers. */
void weft_group_transfer_ended(weft_comm_group *group);
/* In a broken world: forgets the groups that have not begun. */
void weft_groups_clear(weft_comm *comm);

/* ---- report.c ------------------------------------------------------------------------------------------ */

/* The oldest message of a transfer that has not ended. */
int weft_first_unfinished(const weft_comm_transfer *t);
/* The mutex is held. The oldest transfer whose panel is granted; NULL: none. */
const weft_comm_transfer *weft_oldest_granted(const weft_comm *comm, bool receive);
/* The mutex is held, and released meanwhile. */
void weft_print_pending_locked(weft_comm *comm, FILE *file);
/* Breaks the world; the error names the event and the message that does not come. */
void weft_break_for(const weft_comm_transfer *t, int message, weft_status status, const char *what);
/* The result in words; "": none. `accounts`: one per process. */
void weft_finding_text(const weft_account *accounts, const weft_finding *finding, char *text, size_t size);
/* The file named by WEFT_REPORT for this process; the caller frees it. NULL: none. */
char *weft_report_path(int process);
/* After a break: writes that file. */
void weft_report_write(weft_comm *comm);

/* ---- inquiry.c: of the progress thread ----------------------------------------------------------------- */

/* Answers other processes and watches for progress; without progress asks the others, and breaks the world
 * once the cause is known. Cheap; may be called at any time. */
void weft_inquiry_step(weft_comm *comm);
/* The first process that has ended, by what this machine knows; -1: none. */
int weft_inquiry_ended(const weft_comm *comm);
/* Called when the world is broken: ends all inquiries. */
void weft_inquiry_end(weft_comm *comm);

#endif
