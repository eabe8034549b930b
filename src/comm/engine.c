/* The progress thread and the life of a transfer:
 *
 *   submitted   the submitting thread asked StarPU for the handle
 *   ready       StarPU granted it (on_acquired, on whichever thread ended the last task before): in the ready
 * queue active      the progress thread has started its messages ended       all messages have ended: the
 * handle is released, which releases the tasks behind it
 *
 * StarPU's own thread wrappers are used, so that a StarPU built for simulation can run this code too. */
#include <stdlib.h>
#include <string.h>

#include "comm/comm.h"
#include "comm/trace.h"

enum { MAX_FINISHED = 64, LABEL_SIZE = 32 };

/* How long the progress thread sleeps between polls that find nothing: it must leave the core to the
 * computation. */
static const double shortest_sleep_us = 5, longest_sleep_us = 200;

typedef enum phase { SUBMITTED, READY, ACTIVE } phase;

typedef struct transfer {
    weft_comm *comm;
    starpu_data_handle_t handle;
    bool receive;
    phase phase;
    int count, unfinished; /* messages */
    double submitted_us;
    const weft_layout *layout;
    char label[LABEL_SIZE];
    struct transfer *next;          /* in the ready queue */
    struct transfer *newer, *older; /* among the pending */
    weft_message messages[];
} transfer;

struct weft_comm {
    weft_transport transport;
    double timeout_us;
    uint32_t *next_send, *next_receive; /* tags, one per process; of the submitting thread */
    starpu_pthread_t thread;
    /* The mutex guards everything below. */
    starpu_pthread_mutex_t mutex;
    starpu_pthread_cond_t wake; /* there is something ready, or `stopping` */
    starpu_pthread_cond_t idle; /* nothing is pending */
    transfer *first_ready, *last_ready;
    transfer *newest, *oldest; /* pending: from submitted to ended */
    int pending;
    bool stopping;
    double last_progress_us;
};

/* ---- the submitting thread ----------------------------------------------------------------------------- */

uint32_t weft_comm_reserve(weft_comm *comm, int peer, bool receive, uint32_t count)
{
    uint32_t *next = &(receive ? comm->next_receive : comm->next_send)[peer];
    uint32_t first = *next;
    *next += count;
    return first;
}

static void pending_add(weft_comm *comm, transfer *t)
{
    starpu_pthread_mutex_lock(&comm->mutex);
    if (comm->pending++ == 0) {
        comm->last_progress_us = t->submitted_us;
    }
    t->older = comm->newest;
    *(comm->newest ? &comm->newest->newer : &comm->oldest) = t;
    comm->newest = t;
    starpu_pthread_mutex_unlock(&comm->mutex);
}

/* Runs on any thread. */
static void on_acquired(void *argument)
{
    transfer *t = argument;
    weft_comm *comm = t->comm;
    starpu_pthread_mutex_lock(&comm->mutex);
    t->phase = READY;
    *(comm->last_ready ? &comm->last_ready->next : &comm->first_ready) = t;
    comm->last_ready = t;
    starpu_pthread_cond_signal(&comm->wake);
    starpu_pthread_mutex_unlock(&comm->mutex);
}

bool weft_comm_submit(weft_comm *comm, starpu_data_handle_t handle, bool receive, bool whole, int count,
                      const weft_message messages[], const weft_layout *layout, const char *label)
{
    transfer *t = calloc(1, sizeof(*t) + (size_t)count * sizeof(t->messages[0]));
    if (t == NULL) {
        weft_fail(WEFT_ERR_NOMEM, "weft_comm_submit", "no memory for a transfer of %d messages", count);
        return false;
    }
    t->comm = comm;
    t->handle = handle;
    t->receive = receive;
    t->count = t->unfinished = count;
    t->submitted_us = starpu_timing_now();
    t->layout = layout;
    strncpy(t->label, label == NULL ? "" : label, LABEL_SIZE - 1);
    memcpy(t->messages, messages, (size_t)count * sizeof(t->messages[0]));
    pending_add(comm, t);
    enum starpu_data_access_mode mode = !receive ? STARPU_R : whole ? STARPU_W : STARPU_RW;
    starpu_data_acquire_on_node_cb(handle, STARPU_MAIN_RAM, mode, on_acquired, t);
    return true;
}

void weft_comm_wait(weft_comm *comm)
{
    starpu_pthread_mutex_lock(&comm->mutex);
    while (comm->pending > 0) {
        starpu_pthread_cond_wait(&comm->idle, &comm->mutex);
    }
    starpu_pthread_mutex_unlock(&comm->mutex);
}

/* ---- reports ------------------------------------------------------------------------------------------- */

static void print_transfer(const transfer *t, int process, double now_us, FILE *file)
{
    static const char *const phases[] = { "waits for its panel", "ready", "under way" };
    char layout[200] = "";
    if (t->layout != NULL) {
        weft_layout_format(t->layout, layout, sizeof(layout));
    }
    for (int i = 0; i < t->count; i++) {
        const weft_message *m = &t->messages[i];
        fprintf(file,
                "weft: process %d: %s %s process %d, rank %d to rank %d, tag %u, %lld bytes, %s %s, %s for "
                "%.3f s\n",
                process, t->receive ? "receive" : "send", t->receive ? "from" : "to", m->peer, m->source_rank,
                m->target_rank, (unsigned)m->tag, (long long)m->bytes, t->label, layout, phases[t->phase],
                (now_us - t->submitted_us) * 1e-6);
    }
}

/* The mutex is held. */
static void print_pending_locked(weft_comm *comm, FILE *file)
{
    double now_us = starpu_timing_now();
    fprintf(file, "weft: process %d: %d transfers pending\n", comm->transport.place.process, comm->pending);
    for (const transfer *t = comm->oldest; t != NULL; t = t->newer) {
        print_transfer(t, comm->transport.place.process, now_us, file);
    }
    fflush(file);
}

void weft_comm_print_pending(weft_comm *comm, FILE *file)
{
    starpu_pthread_mutex_lock(&comm->mutex);
    print_pending_locked(comm, file);
    starpu_pthread_mutex_unlock(&comm->mutex);
}

/* ---- the progress thread ------------------------------------------------------------------------------- */

static void end_transfer(weft_comm *comm, transfer *t)
{
    starpu_data_release_on_node(t->handle, STARPU_MAIN_RAM);
    starpu_pthread_mutex_lock(&comm->mutex);
    *(t->newer ? &t->newer->older : &comm->newest) = t->older;
    *(t->older ? &t->older->newer : &comm->oldest) = t->newer;
    comm->last_progress_us = starpu_timing_now();
    if (--comm->pending == 0) {
        starpu_pthread_cond_broadcast(&comm->idle);
    }
    starpu_pthread_mutex_unlock(&comm->mutex);
    free(t);
}

static void message_ended(weft_comm *comm, const weft_message *message, weft_status status)
{
    transfer *t = message->owner;
    weft_comm_trace(message, t->receive, true, t->label);
    if (status != WEFT_OK) {
        weft_fail_later(status, "weft", "a message %s of transport %s failed",
                        t->receive ? "receive" : "send", comm->transport.name);
    }
    if (--t->unfinished == 0) {
        end_transfer(comm, t);
    }
}

/* Returns the number of messages now under way. */
static int start_transfer(weft_comm *comm, transfer *t)
{
    void *memory = (void *)starpu_variable_get_local_ptr(t->handle);
    int started = 0;
    int count = t->count;
    for (int i = 0; i < count; i++) {
        weft_message *message = &t->messages[i];
        message->owner = t;
        weft_comm_trace(message, t->receive, false, t->label);
        weft_status status =
            comm->transport.start(comm->transport.state, message, t->receive, memory, message);
        if (status == WEFT_OK) {
            started++;
        } else {
            message_ended(comm, message, status); /* frees t at the last message: count is a copy */
        }
    }
    return started;
}

/* Starts what has become ready. Returns the number of messages. */
static int start_ready(weft_comm *comm)
{
    starpu_pthread_mutex_lock(&comm->mutex);
    transfer *t = comm->first_ready;
    comm->first_ready = comm->last_ready = NULL;
    for (transfer *each = t; each != NULL; each = each->next) {
        each->phase = ACTIVE;
    }
    starpu_pthread_mutex_unlock(&comm->mutex);
    int started = 0;
    while (t != NULL) {
        transfer *next = t->next;
        started += start_transfer(comm, t);
        t = next;
    }
    return started;
}

/* Returns the number of messages that have ended. */
static int poll_transport(weft_comm *comm)
{
    weft_finished finished[MAX_FINISHED];
    int count = comm->transport.poll(comm->transport.state, finished, MAX_FINISHED);
    for (int i = 0; i < count; i++) {
        message_ended(comm, finished[i].token, finished[i].status);
    }
    return count;
}

static void watch(weft_comm *comm)
{
    double now_us = starpu_timing_now();
    if (comm->timeout_us > 0 && comm->pending > 0 && now_us - comm->last_progress_us > comm->timeout_us) {
        print_pending_locked(comm, stderr);
        comm->last_progress_us = now_us;
    }
}

static void sleep_locked(weft_comm *comm, double sleep_us)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)(sleep_us * 1e3);
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    starpu_pthread_cond_timedwait(&comm->wake, &comm->mutex, &until);
}

/* Sleeps until something is ready, or for *sleep_us while messages are under way. False: time to stop. */
static bool rest(weft_comm *comm, int active, double *sleep_us)
{
    starpu_pthread_mutex_lock(&comm->mutex);
    while (comm->first_ready == NULL && !comm->stopping) {
        watch(comm);
        if (active > 0) {
            sleep_locked(comm, *sleep_us);
            *sleep_us = *sleep_us * 2 < longest_sleep_us ? *sleep_us * 2 : longest_sleep_us;
            break;
        }
        if (comm->timeout_us > 0) {
            sleep_locked(comm, 100e3); /* to look at the clock */
        } else {
            starpu_pthread_cond_wait(&comm->wake, &comm->mutex);
        }
    }
    bool go_on = !comm->stopping || comm->first_ready != NULL || active > 0;
    starpu_pthread_mutex_unlock(&comm->mutex);
    return go_on;
}

static void *progress(void *argument)
{
    weft_comm *comm = argument;
    int active = 0; /* messages under way */
    double sleep_us = shortest_sleep_us;
    do {
        int started = start_ready(comm);
        active += started;
        int ended = active > 0 ? poll_transport(comm) : 0;
        active -= ended;
        if (started > 0 || ended > 0) {
            sleep_us = shortest_sleep_us;
            continue;
        }
        if (!rest(comm, active, &sleep_us)) {
            break;
        }
    } while (true);
    return NULL;
}

/* ---- start and stop ------------------------------------------------------------------------------------ */

weft_comm *weft_comm_start(const char *function, weft_transport transport, double timeout_s)
{
    weft_comm *comm = calloc(1, sizeof(*comm));
    size_t processes = (size_t)transport.place.num_processes;
    if (comm != NULL) {
        comm->next_send = calloc(processes, sizeof(uint32_t));
        comm->next_receive = calloc(processes, sizeof(uint32_t));
    }
    if (comm == NULL || comm->next_send == NULL || comm->next_receive == NULL) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for the communication engine");
        transport.close(transport.state);
        if (comm != NULL) {
            free(comm->next_send);
            free(comm->next_receive);
        }
        free(comm);
        return NULL;
    }
    comm->transport = transport;
    comm->timeout_us = timeout_s * 1e6;
    starpu_pthread_mutex_init(&comm->mutex, NULL);
    starpu_pthread_cond_init(&comm->wake, NULL);
    starpu_pthread_cond_init(&comm->idle, NULL);
    starpu_pthread_create(&comm->thread, NULL, progress, comm);
    return comm;
}

void weft_comm_stop(weft_comm *comm)
{
    if (comm == NULL) {
        return;
    }
    starpu_pthread_mutex_lock(&comm->mutex);
    comm->stopping = true;
    starpu_pthread_cond_signal(&comm->wake);
    starpu_pthread_mutex_unlock(&comm->mutex);
    starpu_pthread_join(comm->thread, NULL);
    comm->transport.close(comm->transport.state);
    starpu_pthread_mutex_destroy(&comm->mutex);
    starpu_pthread_cond_destroy(&comm->wake);
    starpu_pthread_cond_destroy(&comm->idle);
    free(comm->next_send);
    free(comm->next_receive);
    free(comm);
}
