/* src/simulate: the time that tasks and messages take, by a simulation of discrete events. PURE (no StarPU, no MPI,
 * no threads), and without tensors: a record names the data that it accesses by numbers.
 *
 * A simulation has processes. Each has a thread that submits RECORDS one after the other, and workers that run tasks:
 *
 *     task      ready when the earlier records of its process that it depends on by its data have ended; runs on any
 *               worker, the ready task of highest priority first, then the one that became ready first
 *     transfer  a send or a receive of messages; begins when its data are ready, ends with its last message
 *     spend     time of the submitting thread
 *     wait      the submitting thread waits until all former records have ended
 *
 * A send begins when the receive of its key has begun too, unless it is small. Messages of a host leave over one link and
 * come over another, one at a time, the oldest in the order of submission first; each link of two processes on one host is
 * their own. A message takes message_us and its bytes at the link's rate; it arrives latency_us later. */
#ifndef WEFT_SRC_SIMULATE_H
#define WEFT_SRC_SIMULATE_H

#include "base/map.h"
#include "base/text.h"

typedef struct weft_simulated_link {
    double latency_us, message_us, bytes_per_us;
} weft_simulated_link;

typedef struct weft_simulated_machine {
    weft_simulated_link near, far; /* between processes of one host, and of two */
    double submit_us;              /* of the submitting thread for each task and transfer */
    double operand_us;             /* and for each of its accesses */
    double task_us;                /* of the worker beside a task's kernel */
    double transfer_us;            /* from the moment when a transfer's data are ready to its first message */
    /* Processor time of a process for each message that it sends or receives, beside its bytes, and the bytes for which it
     * takes a microsecond; 0: none. It delays tasks where all cores compute. */
    double message_cpu_us, cpu_bytes_per_us;
    int64_t eager_bytes;           /* a send of at most so many bytes waits for no receive */
} weft_simulated_machine;

typedef enum weft_record_kind_simulated {
    WEFT_SIMULATED_TASK,
    WEFT_SIMULATED_SEND,
    WEFT_SIMULATED_RECEIVE,
    WEFT_SIMULATED_SPEND,
    WEFT_SIMULATED_WAIT
} weft_simulated_kind;

/* A record's access to data of its process. */
typedef struct weft_simulated_access {
    uint64_t data;
    bool writes;
} weft_simulated_access;

typedef struct weft_simulated_task {
    double us; /* of the kernel */
    int priority;
    uint32_t label; /* weft_simulation_label() */
    uint32_t family; /* for drawings: copied to the record */
} weft_simulated_task;

/* One message of a transfer. A receive has the message of the send with its key; sends have different keys. A receive
 * without a send takes as long as if it were sent when it is posted. */
typedef struct weft_simulated_message {
    uint64_t key;
    int64_t bytes;
    bool far; /* to another host */
    int32_t peer; /* for drawings */
    /* Set by the simulation: a send's time on the link; a receive's from the send's start to its arrival. Negative: never. */
    double start_us, end_us;
    uint32_t record;
    int32_t cause;  /* the record whose end let it start, if no other message was on the link; WEFT_CAUSE_NONE: submission */
    int32_t after;  /* the message that it had to wait for on the link; -1: none */
    int32_t other;  /* of a receive: its send; of a send: its first receive; -1: none */
    int32_t next_receive; /* of a receive: another one of the same send; -1: none */
    bool posted;
} weft_simulated_message;

enum { WEFT_CAUSE_NONE = -1 };

typedef struct weft_simulated_record {
    double us;
    int priority;
    uint32_t label, family;
    uint32_t process;
    weft_simulated_kind kind : 8;
    bool submitted, begun, ended;
    uint32_t waits;   /* for records */
    uint32_t accesses;
    uint32_t first_message, num_messages, unfinished;
    double submitted_us, start_us, end_us;
    int32_t worker;   /* of the process */
    /* The record whose end let this one start; WEFT_CAUSE_NONE: its submission. */
    int32_t cause;
} weft_simulated_record;

typedef struct weft_simulated_process {
    int host, workers, cores;
    double sharing; /* the host's links are shared with so many processes in all that are not simulated, and do as this one */
    int64_t peak_bytes; /* for reports */
    weft_vec records; /* uint32_t: numbers, in the order of submission */
    weft_map last;    /* while building: by data, 1 + the number in `uses` */
    /* Shares of the time, set by the simulation. */
    double computing, communicating, both, idle;
    double end_us;
    /* While running: */
    size_t next;         /* record to be submitted */
    size_t unfinished;   /* submitted records that have not ended */
    bool waiting;
    int busy;            /* workers */
    double debt_us;      /* of processor time */
    double submitting_since_us;
    int32_t wait_cause;  /* the record whose end ended the last wait */
    int32_t *worker_records; /* by worker: the task that it runs; -1: none */
    weft_vec ready;      /* heap of tasks */
} weft_simulated_process;

typedef struct weft_simulation {
    weft_simulated_machine machine;
    weft_vec processes; /* weft_simulated_process */
    weft_vec records;   /* weft_simulated_record, of all processes */
    weft_vec messages;  /* weft_simulated_message */
    weft_vec edges;     /* pairs of uint32_t */
    weft_vec uses;      /* data while building */
    weft_vec readers;   /* lists of readers while building */
    weft_vec labels;    /* char *, each once */
    weft_map label_index;
    bool failed;        /* no memory */
    /* Set by weft_simulation_run(). */
    double end_us;
    uint64_t assumed;   /* messages without their other side, and those that nothing else would have let start */
    struct weft_running *running;
} weft_simulation;

/* Zero-initialise and set the machine; free after use. */
void weft_simulation_free(weft_simulation *simulation);

/* ---- building (build.c). Without memory the simulation has failed: weft_simulation_run() tells. ----------- */

/* Returns the number of the process; `workers`, `cores` at least 1. */
int weft_simulation_add_process(weft_simulation *simulation, int host, int workers, int cores);
/* The number of a text; 0: "". */
uint32_t weft_simulation_label(weft_simulation *simulation, const char *text);
void weft_simulation_task(weft_simulation *simulation, int process, const weft_simulated_task *task, size_t count,
                          const weft_simulated_access accesses[]);
void weft_simulation_transfer(weft_simulation *simulation, int process, bool receive, uint32_t label,
                              const weft_simulated_access *access, size_t count,
                              const weft_simulated_message messages[]);
void weft_simulation_spend(weft_simulation *simulation, int process, double us);
void weft_simulation_wait(weft_simulation *simulation, int process);

static inline weft_simulated_process *weft_simulated_process_at(const weft_simulation *simulation, size_t i)
{
    return (weft_simulated_process *)simulation->processes.items + i;
}

static inline weft_simulated_record *weft_simulated_record_at(const weft_simulation *simulation, size_t i)
{
    return (weft_simulated_record *)simulation->records.items + i;
}

static inline weft_simulated_message *weft_simulated_message_at(const weft_simulation *simulation, size_t i)
{
    return (weft_simulated_message *)simulation->messages.items + i;
}

static inline const char *weft_simulated_label(const weft_simulation *simulation, uint32_t label)
{
    return label == 0 ? "" : ((char *const *)simulation->labels.items)[label - 1];
}

/* ---- running (run.c) ------------------------------------------------------------------------------------- */

/* Once. False: no memory. */
bool weft_simulation_run(weft_simulation *simulation);

/* ---- results --------------------------------------------------------------------------------------------- */

/* A part of the critical path: all time of one label, or of the submitting thread, or of messages. */
typedef struct weft_path_part {
    uint32_t label;
    enum { WEFT_PATH_TASKS, WEFT_PATH_MESSAGES, WEFT_PATH_SUBMISSION } kind;
    double us;
    uint64_t count;
} weft_path_part;

/* The chain of records that ends last, each of which began when the former one had ended: its parts, the longest first,
 * add up to the whole time (path.c). parts: weft_path_part. False: no memory. */
bool weft_simulation_path(const weft_simulation *simulation, weft_vec *parts);

/* ---- inside src/simulate --------------------------------------------------------------------------------- */

typedef enum weft_event_kind { WEFT_EVENT_SUBMIT, WEFT_EVENT_TASK_END, WEFT_EVENT_SENT, WEFT_EVENT_RECEIVED,
                               WEFT_EVENT_BEGIN } weft_event_kind;

typedef struct weft_event {
    double us;
    uint64_t order; /* of those at one time */
    weft_event_kind kind;
    uint32_t number; /* process, record or message */
} weft_event;

/* A link in one direction. */
typedef struct weft_simulated_lane {
    bool busy;
    double free_us; /* of an incoming one */
    weft_vec waiting; /* heap of sends: message numbers */
} weft_simulated_lane;

typedef struct weft_running {
    double now_us;
    uint64_t order;
    weft_vec events;          /* heap */
    uint32_t *first_edge, *edges; /* successors of each record */
    weft_simulated_lane *lanes;   /* out and in of each host, then of each process */
    size_t num_hosts;
    int32_t cause; /* the record whose end is being processed */
    bool failed;
} weft_running;

void weft_simulation_at(weft_simulation *simulation, double us, weft_event_kind kind, uint32_t number);
void weft_record_end(weft_simulation *simulation, uint32_t record);
/* Processor time that a process needs beside its tasks. */
void weft_process_owe(weft_simulated_process *process, double us);

/* Finds the other side of each message (messages.c). False: no memory. */
bool weft_messages_match(weft_simulation *simulation);
/* A transfer begins; a message has left; one has arrived. */
void weft_transfer_begin_simulated(weft_simulation *simulation, uint32_t record);
void weft_message_sent(weft_simulation *simulation, uint32_t message);
void weft_message_received(weft_simulation *simulation, uint32_t message);
/* Nothing happens any more, and records are left: lets the oldest waiting message go. False: there is none. */
bool weft_messages_assume(weft_simulation *simulation);

/* Shares of the time (shares.c). False: no memory. */
bool weft_simulation_shares(weft_simulation *simulation);

#endif
