/* The progress thread and the life of a transfer:
 *
 *   submitted  the submitting thread asked StarPU for the handle
 *   ready      StarPU granted it (on_acquired, on whichever thread ended the last task before): in the ready
 *              queue
 *   active     the progress thread has started its messages
 *   ended      all messages have ended: the handle is released, which releases the tasks behind it
 *
 * A message that fails, or time that passes without anything moving, breaks the engine: then all transfers go
 * straight to their end. Tasks behind them run on values that are not there; weft_is_broken() keeps these
 * from the program.
 *
 * StarPU's own thread wrappers are used, so that a StarPU built for simulation can run this code too. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "comm/engine.h"
#include "comm/trace.h"
#include "runtime/pending.h"

enum { MAX_FINISHED = 64 };

/* How long the progress thread waits between polls: it must leave the core to the computation. After
 * something has happened, as long as a message takes on the link: there is no use in looking sooner. Where
 * that is short, it yields a few times first, after which the answer is there when nothing is computed; the
 * shortest sleep takes 60 us where the kernel rounds times up. Then twice as long each time that nothing has
 * happened. Over 1 Gbit/s a product beside large messages then takes 1.2 times as long as alone; with 5 to
 * 200 us 1.5 times (two hosts, bench overlap). */
static const double shortest_sleep_us = 5, longest_sleep_us = 200, longest_message_us = 500;

enum { YIELDS_FOR_SHORT = 4, SHORT_MESSAGE_US = 50 };

typedef struct backoff {
    int yields;
    double sleep_us;
} backoff;

/* ---- the submitting thread ----------------------------------------------------------------------------- */

uint32_t weft_comm_reserve(weft_comm *comm, int peer, bool receive, uint32_t count)
{
    uint32_t *next = &(receive ? comm->next_receive : comm->next_send)[peer];
    uint32_t first = *next;
    *next += count;
    return first;
}

static void pending_add(weft_comm *comm, weft_comm_transfer *t)
{
    starpu_pthread_mutex_lock(&comm->mutex);
    comm->pending++;
    t->older = comm->newest;
    *(comm->newest ? &comm->newest->newer : &comm->oldest) = t;
    comm->newest = t;
    starpu_pthread_mutex_unlock(&comm->mutex);
}

/* Runs on any thread. */
static void on_acquired(void *argument)
{
    weft_comm_transfer *t = argument;
    weft_comm *comm = t->comm;
    starpu_pthread_mutex_lock(&comm->mutex);
    t->phase = WEFT_READY;
    comm->granted++;
    comm->last_progress_us = starpu_timing_now();
    bool first = comm->first_ready == NULL; /* else the progress thread has been woken for those before it */
    *(first ? &comm->first_ready : &comm->last_ready->next) = t;
    comm->last_ready = t;
    if (first) {
        starpu_pthread_cond_signal(&comm->wake);
    }
    starpu_pthread_mutex_unlock(&comm->mutex);
}

bool weft_comm_submit(weft_comm *comm, starpu_data_handle_t handle, bool receive, bool whole, int count,
                      const weft_message messages[], const weft_layout *layout, const char *label)
{
    size_t size = sizeof(weft_comm_transfer) + (size_t)count * sizeof(weft_message);
    weft_comm_transfer *t = calloc(1, size + (size_t)count * sizeof(weft_posted));
    if (t == NULL) {
        weft_fail(WEFT_ERR_NOMEM, "weft_comm_submit", "no memory for a transfer of %d messages", count);
        return false;
    }
    t->comm = comm;
    t->handle = handle;
    t->receive = receive;
    t->count = t->unfinished = count;
    t->submitted_us = starpu_timing_now();
    t->call = weft_runtime.call;
    t->call_number = weft_runtime.call_number;
    t->layout = layout;
    strncpy(t->label, label == NULL ? "" : label, WEFT_LABEL_SIZE - 1);
    memcpy(t->messages, messages, (size_t)count * sizeof(t->messages[0]));
    t->posted = (weft_posted *)((char *)t + size);
    for (int i = 0; i < count; i++) {
        t->posted[i].transfer = t;
    }
    pending_add(comm, t);
    weft_pending_begin(weft_runtime.pending, weft_comm_pending_tasks(count));
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

double weft_comm_timeout_s(const weft_comm *comm)
{
    return comm->timeout_us * 1e-6;
}

struct weft_flight *weft_comm_flight(weft_comm *comm)
{
    return comm->flight;
}

void weft_comm_gather(weft_comm *comm, const void *mine, void *all, size_t size, bool came[])
{
    comm->meets = true;
    comm->transport.gather(comm->transport.state, mine, all, size, weft_comm_timeout_s(comm), came);
}

bool weft_comm_tell(weft_comm *comm, void *words, size_t size)
{
    bool told = comm->transport.tell(comm->transport.state, words, size, weft_comm_timeout_s(comm));
    comm->meets = !told;
    return told;
}

/* ---- breaking ------------------------------------------------------------------------------------------ */

void weft_comm_give_up(weft_comm *comm)
{
    starpu_pthread_mutex_lock(&comm->mutex);
    starpu_pthread_cond_signal(&comm->wake);
    starpu_pthread_mutex_unlock(&comm->mutex);
}

void weft_comm_leave(weft_comm *comm)
{
    enum { LOOKS = 200 }; /* one every 10 ms */
    char last[256] = "";
    uint64_t calls = weft_flight_last(comm->flight);
    weft_flight_text(comm->flight, calls, last, sizeof(last), NULL);
    weft_break(WEFT_ERR_COMM, "exit", "the process has ended without weft_finalize(), after call %llu%s%s",
               (unsigned long long)calls, last[0] != '\0' ? ", " : "", last);
    weft_comm_give_up(comm);
    for (int i = 0; i < LOOKS && !comm->told; i++) {
        nanosleep(&(struct timespec){ 0, 10000000 }, NULL);
    }
}

/* Puts the panel elsewhere, so that a message that could not be taken back goes on with memory that nothing
 * else uses: a peer that wakes up late must not be sent what later tasks write. The old memory is left to the
 * transport. */
static void leave_memory(const weft_comm_transfer *t)
{
    struct starpu_variable_interface *panel = starpu_data_get_interface_on_node(t->handle, STARPU_MAIN_RAM);
    void *elsewhere = malloc(panel->elemsize);
    if (elsewhere != NULL) {
        memcpy(elsewhere, (void *)panel->ptr, panel->elemsize);
        panel->ptr = panel->dev_handle = (uintptr_t)elsewhere;
    }
}

static void end_transfer(weft_comm *comm, weft_comm_transfer *t);

/* A list linked by `next`; they stay among the pending. */
static weft_comm_transfer *active_transfers(weft_comm *comm)
{
    weft_comm_transfer *first = NULL;
    starpu_pthread_mutex_lock(&comm->mutex);
    for (weft_comm_transfer *t = comm->oldest; t != NULL; t = t->newer) {
        if (t->phase == WEFT_ACTIVE) {
            t->next = first;
            first = t;
        }
    }
    starpu_pthread_mutex_unlock(&comm->mutex);
    return first;
}

/* On the progress thread. Ends what is under way; the rest ends as it becomes ready. */
static void give_up(weft_comm *comm)
{
    starpu_pthread_mutex_lock(&comm->mutex);
    comm->gave_up = true;
    starpu_pthread_mutex_unlock(&comm->mutex);
    comm->transport.abandon(comm->transport.state);
    weft_report_write(comm);
    weft_inquiry_end(comm);
    comm->told = true;
    weft_sends_clear(comm->sends);
    comm->active = 0;
    comm->active_bytes = 0;
    for (weft_comm_transfer *t = active_transfers(comm); t != NULL;) {
        weft_comm_transfer *next = t->next;
        leave_memory(t);
        end_transfer(comm, t);
        t = next;
    }
}

/* ---- the progress thread ------------------------------------------------------------------------------- */

static void end_transfer(weft_comm *comm, weft_comm_transfer *t)
{
    starpu_data_release_on_node(t->handle, STARPU_MAIN_RAM);
    starpu_pthread_mutex_lock(&comm->mutex);
    comm->granted--;
    *(t->newer ? &t->newer->older : &comm->newest) = t->older;
    *(t->older ? &t->older->newer : &comm->oldest) = t->newer;
    comm->last_progress_us = starpu_timing_now();
    if (--comm->pending == 0) {
        starpu_pthread_cond_broadcast(&comm->idle);
    }
    starpu_pthread_mutex_unlock(&comm->mutex);
    weft_pending_end(weft_runtime.pending, weft_comm_pending_tasks(t->count));
    free(t);
}

static void message_ended(weft_comm *comm, weft_posted *message, weft_status status)
{
    weft_comm_transfer *t = message->transfer;
    message->ended = true;
    weft_comm_trace(&t->messages[message - t->posted], t->receive, true, t->label);
    if (status != WEFT_OK) {
        char what[64];
        snprintf(what, sizeof(what), "transport %s: %s", comm->transport.name, weft_status_string(status));
        weft_break_for(t, (int)(message - t->posted), status, what);
    }
    if (!t->receive) {
        const weft_message *m = &t->messages[message - t->posted];
        weft_sends_ended(comm->sends, m->peer, m->tag, m->bytes);
    }
    if (--t->unfinished == 0) {
        end_transfer(comm, t);
    }
}

/* Returns the number of messages now under way: 0 when it has failed; then the transfer may be gone. */
static int start_message(weft_comm *comm, weft_comm_transfer *t, int i)
{
    void *memory = (void *)starpu_variable_get_local_ptr(t->handle);
    weft_comm_trace(&t->messages[i], t->receive, false, t->label);
    weft_status status =
        comm->transport.start(comm->transport.state, &t->messages[i], t->receive, memory, &t->posted[i]);
    if (status != WEFT_OK) {
        message_ended(comm, &t->posted[i], status);
        return 0;
    }
    comm->active++;
    comm->active_bytes += t->messages[i].bytes;
    return 1;
}

/* Receives start at once, so that nothing arrives that is not expected; sends when it is their turn. Returns
 * the number of messages now under way. */
static int start_transfer(weft_comm *comm, weft_comm_transfer *t)
{
    if (comm->gave_up) {
        end_transfer(comm, t);
        return 0;
    }
    int started = 0;
    int count = t->count; /* the last message to fail ends the weft_comm_transfer */
    bool receive = t->receive;
    for (int i = 0; i < count; i++) {
        const weft_message *m = &t->messages[i];
        bool waits = !receive && weft_sends_add(comm->sends, &(weft_send){ t, i, m->peer, m->tag, m->bytes });
        started += waits ? 0 : start_message(comm, t, i);
    }
    return started;
}

/* Returns the number of messages. */
static int start_sends(weft_comm *comm)
{
    int started = 0;
    weft_send send;
    while (weft_sends_next(comm->sends, &send)) {
        started += start_message(comm, send.transfer, send.message);
    }
    return started;
}

/* Starts what has become ready. Returns the number of messages. */
static int start_ready(weft_comm *comm)
{
    starpu_pthread_mutex_lock(&comm->mutex);
    weft_comm_transfer *t = comm->first_ready;
    comm->first_ready = comm->last_ready = NULL;
    for (weft_comm_transfer *each = t; each != NULL; each = each->next) {
        each->phase = WEFT_ACTIVE;
    }
    starpu_pthread_mutex_unlock(&comm->mutex);
    int started = 0;
    while (t != NULL) {
        weft_comm_transfer *next = t->next;
        started += start_transfer(comm, t);
        t = next;
    }
    return started + start_sends(comm);
}

/* Returns the number of messages that have ended. */
static int poll_transport(weft_comm *comm)
{
    weft_finished finished[MAX_FINISHED];
    int count = comm->transport.poll(comm->transport.state, finished, MAX_FINISHED);
    for (int i = 0; i < count; i++) {
        weft_posted *message = finished[i].token;
        comm->active--;
        comm->active_bytes -= message->transfer->messages[message - message->transfer->posted].bytes;
        message_ended(comm, message, finished[i].status);
    }
    return count;
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

/* The world has broken, and this thread has not drawn the consequences yet. */
static bool must_give_up(const weft_comm *comm)
{
    return !comm->gave_up && weft_is_broken();
}

/* How long an idle thread sleeps where other processes may ask it, or tell it that they gave up. */
static const double idle_sleep_us = 100e3;

/* The mutex is held. True when there was something to wait for. */
static void sleep_idle(weft_comm *comm)
{
    if (comm->inquiry.reason != WEFT_INQUIRY_NONE) {
        sleep_locked(comm, longest_sleep_us);
    } else if (comm->transport.take_words != NULL && !comm->gave_up) {
        sleep_locked(comm, idle_sleep_us);
    } else {
        starpu_pthread_cond_wait(&comm->wake, &comm->mutex);
    }
}

/* Waits until something is ready, or for a while when messages are under way, or others may ask. False: time
 * to stop. */
static bool rest(weft_comm *comm, backoff *left)
{
    if (comm->active > 0 && left->yields > 0) {
        left->yields--;
        sched_yield();
        return true;
    }
    starpu_pthread_mutex_lock(&comm->mutex);
    bool waits = comm->first_ready == NULL && !comm->stopping && !must_give_up(comm);
    if (waits && comm->active > 0) {
        sleep_locked(comm, left->sleep_us);
        left->sleep_us = left->sleep_us >= longest_sleep_us      ? left->sleep_us
                         : left->sleep_us * 2 < longest_sleep_us ? left->sleep_us * 2
                                                                 : longest_sleep_us;
    } else if (waits && !comm->inquiry.wanted) {
        sleep_idle(comm);
    }
    bool go_on = !comm->stopping || comm->first_ready != NULL || comm->active > 0 || must_give_up(comm);
    starpu_pthread_mutex_unlock(&comm->mutex);
    return go_on;
}

static backoff fresh_backoff(const weft_comm *comm)
{
    double bytes = comm->active > 0 ? (double)comm->active_bytes / comm->active : 0;
    double us = bytes * weft_runtime.cost.remote_byte_us;
    return (backoff){
        .yields = us < SHORT_MESSAGE_US ? YIELDS_FOR_SHORT : 0,
        .sleep_us = us < shortest_sleep_us    ? shortest_sleep_us
                    : us > longest_message_us ? longest_message_us
                                              : us,
    };
}

/* Messages have begun or ended: that is what the watchdog waits for. */
static void note_progress(weft_comm *comm)
{
    starpu_pthread_mutex_lock(&comm->mutex);
    comm->last_progress_us = starpu_timing_now();
    starpu_pthread_mutex_unlock(&comm->mutex);
}

static void *progress(void *argument)
{
    weft_comm *comm = argument;
    backoff left = fresh_backoff(comm);
    do {
        int started = start_ready(comm);
        int ended = comm->active > 0 ? poll_transport(comm) : 0;
        weft_inquiry_step(comm);
        if (must_give_up(comm)) {
            give_up(comm);
        }
        if (ended > 0) {
            started += start_sends(comm);
        }
        if (started > 0 || ended > 0) {
            left = fresh_backoff(comm);
            note_progress(comm);
        }
    } while (rest(comm, &left));
    return NULL;
}

/* ---- start and stop ------------------------------------------------------------------------------------ */

static bool make_locks(weft_comm *comm)
{
    if (starpu_pthread_mutex_init(&comm->mutex, NULL) != 0) {
        return false;
    }
    bool wakes = starpu_pthread_cond_init(&comm->wake, NULL) == 0;
    if (wakes && starpu_pthread_cond_init(&comm->idle, NULL) == 0) {
        return true;
    }
    if (wakes) {
        starpu_pthread_cond_destroy(&comm->wake);
    }
    starpu_pthread_mutex_destroy(&comm->mutex);
    return false;
}

static void free_locks(weft_comm *comm)
{
    starpu_pthread_mutex_destroy(&comm->mutex);
    starpu_pthread_cond_destroy(&comm->wake);
    starpu_pthread_cond_destroy(&comm->idle);
}

static void comm_free(weft_comm *comm)
{
    if (comm != NULL) {
        free(comm->next_send);
        free(comm->next_receive);
        weft_sends_free(comm->sends);
        weft_flight_free(comm->flight);
        free(comm->report_path);
        free(comm->inquiry.accounts);
        free(comm->inquiry.heard);
    }
    free(comm);
}

weft_comm *weft_comm_start(const char *function, weft_transport transport, double timeout_s)
{
    weft_comm *comm = calloc(1, sizeof(*comm));
    size_t processes = (size_t)transport.place.num_processes;
    if (comm != NULL) {
        comm->next_send = calloc(processes, sizeof(uint32_t));
        comm->next_receive = calloc(processes, sizeof(uint32_t));
        comm->sends = weft_sends_new(transport.place.process, transport.place.num_processes,
                                     weft_runtime.messages.window_bytes);
        comm->flight = weft_flight_new();
        comm->report_path = weft_report_path(transport.place.process);
    }
    if (comm == NULL || comm->next_send == NULL || comm->next_receive == NULL || comm->sends == NULL ||
        comm->flight == NULL || !make_locks(comm)) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for the communication engine");
        comm_free(comm);
        return NULL;
    }
    weft_unbreak();
    comm->transport = transport;
    comm->timeout_us = timeout_s * 1e6;
    int error = starpu_pthread_create(&comm->thread, NULL, progress, comm);
    if (error != 0) {
        weft_fail(WEFT_ERR_NOMEM, function, "no thread for messages: %s", strerror(error));
        free_locks(comm);
        comm_free(comm);
        return NULL;
    }
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
    free_locks(comm);
    comm_free(comm);
}
