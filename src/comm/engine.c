/* The progress thread and the states of a transfer:
 *
 *   submitted  the submitting thread has asked StarPU for the handle
 *   ready      StarPU has granted it (on_acquired, on the thread of the previous task): in the ready queue
 *   active     the progress thread has started its messages
 *   ended      all messages have ended; the handle is released, so the tasks after it can run
 *
 * A failed message or a time-out breaks the engine: all transfers then end at once. Tasks after them run
 * on undefined values, which weft_is_broken() keeps from the program.
 *
 * Threads are StarPU's wrappers, so that a StarPU built for simulation can run this code too. */
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "comm/engine.h"
#include "comm/signals.h"
#include "comm/trace.h"
#include "runtime/background.h"

enum { MAX_FINISHED = 64 };

/* Sleep of the progress thread between polls, which must leave the core to the computation. After an event
 * it is a message's time on the link, because nothing can arrive sooner. If that is short, the thread
 * first yields a few times, which suffices when nothing is computed: the shortest sleep takes 60 us on
 * kernels that round times up. Each poll without an event doubles the sleep. Over 1 Gbit/s a product
 * beside large messages then takes 1.2 times as long as alone; with 5 to 200 us 1.5 times (two hosts,
 * bench overlap). Over 250 Mbit/s, where a message takes 2 ms, polls every 0.5 ms make a step of equal
 * halves 1.14 times as long as the longer one, every 2 ms 1.07; so a sleep is longer than 0.5 ms where only
 * such messages are under way. A sleep of two messages' time leaves a link of 1 Gbit/s idle at times. */
static const double shortest_sleep_us = 5, longest_sleep_us = 200, message_us = 500, longest_message_us = 2000;

enum { YIELDS_FOR_SHORT = 4, SHORT_MESSAGE_US = 50 };

/* Where devices compute, messages take microseconds, and tasks that take no longer wait for them; cores have time for that. */
static const double device_spin_us = 100, longest_device_sleep_us = 20;

typedef struct backoff {
    int yields;
    double spin_until_us; /* 0: does not */
    double sleep_us, longest_us;
} backoff;

/* ---- the submitting thread ----------------------------------------------------------------------------- */

void weft_comm_background(weft_comm *comm, bool on)
{
    comm->submits_in_background = on;
}

void weft_comm_wait(weft_comm *comm)
{
    starpu_pthread_mutex_lock(&comm->mutex);
    while (comm->pending > comm->in_background) {
        starpu_pthread_cond_wait(&comm->idle, &comm->mutex);
    }
    starpu_pthread_mutex_unlock(&comm->mutex);
}

bool weft_comm_is_idle(weft_comm *comm)
{
    starpu_pthread_mutex_lock(&comm->mutex);
    bool idle = comm->pending <= comm->in_background;
    starpu_pthread_mutex_unlock(&comm->mutex);
    return idle;
}

double weft_comm_timeout_s(const weft_comm *comm)
{
    return comm->timeout_us * 1e-6;
}

void weft_comm_sweep_layouts(weft_comm *comm)
{
    starpu_pthread_mutex_lock(&comm->mutex);
    for (const weft_comm_transfer *t = comm->oldest; t != NULL; t = t->newer) {
        weft_meet_layout(t->layout);
        if (t->claimed != NULL) {
            weft_claimed_meet_layouts(t->claimed);
        }
    }
    starpu_pthread_mutex_unlock(&comm->mutex);
    weft_flight_sweep_layouts(comm->flight);
}

struct weft_flight *weft_comm_flight(weft_comm *comm)
{
    return comm->flight;
}

void weft_comm_gather(weft_comm *comm, const void *mine, void *all, size_t size, bool came[])
{
    weft_end_pause();
    const weft_control *control = &comm->transport.control;
    comm->gathers = true;
    control->gather(control->state, mine, all, size, weft_comm_timeout_s(comm), came);
}

bool weft_comm_broadcast(weft_comm *comm, void *bytes, size_t size)
{
    weft_end_pause();
    const weft_control *control = &comm->transport.control;
    bool came = control->broadcast(control->state, bytes, size, weft_comm_timeout_s(comm));
    comm->gathers = !came;
    return came;
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

/* Time in which the program may end by itself after SIGTERM. Slurm kills after 30 seconds. */
static const double ending_us = 5e6;

void weft_comm_heed_sigterm(weft_comm *comm)
{
    if (comm->transport.control.receive != NULL) { /* else the thread may sleep for as long as no messages are under way */
        weft_sigterm_watch();
    }
}

/* A notice of another process that has come before the signal goes first: a launcher sends the signal because that one has
 * ended. */
static void hear_before_signal(const weft_comm *comm)
{
    enum { LOOKS = 10 };
    const weft_control *control = &comm->transport.control;
    for (int i = 0; i < LOOKS && control->hear_abort != NULL && !weft_is_broken(); i++) {
        control->hear_abort(control->state);
        nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
    }
}

/* If the launcher ends this process because another one has vanished, the message names that one. */
static void break_for_sigterm(weft_comm *comm)
{
    hear_before_signal(comm);
    if (weft_is_broken()) {
        return;
    }
    char last[256] = "", host[64] = "", who[64] = "", before[128] = "";
    uint64_t calls = weft_flight_last(comm->flight);
    weft_flight_text(comm->flight, calls, last, sizeof(last), NULL);
    gethostname(host, sizeof(host) - 1);
    int ended = weft_inquiry_ended(comm);
    if (ended >= 0) {
        snprintf(before, sizeof(before), "%s has ended without weft_finalize(); then ",
                 weft_process_text(ended, who, sizeof(who)));
    }
    weft_break(WEFT_ERR_COMM, "signal", "%sSIGTERM told process %d on %s to end, after call %llu%s%s", before,
               comm->transport.place.process, host, (unsigned long long)calls, last[0] != '\0' ? ", " : "", last);
}

/* Progress thread. SIGTERM breaks the world; after a while it ends the process as it would have without weft: its disposition is
 * the default again. */
static void heed_sigterm(weft_comm *comm)
{
    if (!weft_sigterm_noted()) {
        return;
    }
    double now = starpu_timing_now();
    if (comm->told_to_end_us == 0) {
        comm->told_to_end_us = now;
        break_for_sigterm(comm);
    } else if (now - comm->told_to_end_us > ending_us) {
        kill(getpid(), SIGTERM);
    }
}

/* Progress thread. Ends active transfers; the others end when they become ready. */
static void give_up(weft_comm *comm)
{
    starpu_pthread_mutex_lock(&comm->mutex);
    comm->gave_up = true;
    starpu_pthread_mutex_unlock(&comm->mutex);
    weft_transport_abort(&comm->transport);
    weft_report_write(comm);
    weft_inquiry_end(comm);
    comm->told = true;
    weft_claimed_clear(comm);
    weft_groups_clear(comm);
    weft_start_queue_clear(comm->sends);
    if (comm->receives != NULL) {
        weft_start_queue_clear(comm->receives);
    }
    comm->active = comm->active_long = 0;
    comm->active_bytes = 0;
    for (weft_comm_transfer *t = weft_comm_transfers_active(comm); t != NULL;) {
        weft_comm_transfer *next = t->next;
        weft_comm_transfer_leave_memory(t);
        weft_comm_transfer_end(comm, t);
        t = next;
    }
}

/* ---- the progress thread ------------------------------------------------------------------------------- */

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
    weft_start_queue *queue = t->receive ? comm->receives : comm->sends;
    if (queue != NULL) {
        const weft_message *m = &t->messages[message - t->posted];
        weft_start_queue_ended(queue, m->peer, m->tag, m->bytes);
    }
    if (--t->unfinished == 0) {
        weft_comm_transfer_end(comm, t);
    }
}

/* Whether a message takes a link to another machine for longer than message_us. Messages of groups are not on such a link,
 * and where processes share a machine one figure stands for both kinds of links. */
static bool takes_long(const weft_comm *comm, const weft_comm_transfer *t, const weft_message *m)
{
    return t->group == NULL && comm->transport.place.node_processes == 1 &&
           (double)m->bytes * weft_runtime.cost.remote_byte_us > message_us;
}

/* Returns the number of messages now under way; 0 on failure, after which the transfer may be freed. */
static int start_message(weft_comm *comm, weft_comm_transfer *t, int i)
{
    void *memory = weft_comm_transfer_memory(t);
    weft_comm_trace(&t->messages[i], t->receive, false, t->label);
    const weft_data *data = &comm->transport.data;
    weft_status status = data->start(data->state, &t->messages[i], t->receive, memory, &t->posted[i]);
    if (status != WEFT_OK) {
        message_ended(comm, &t->posted[i], status);
        return 0;
    }
    comm->active++;
    comm->active_long += takes_long(comm, t, &t->messages[i]);
    comm->active_bytes += t->messages[i].bytes;
    return 1;
}

/* Returns the number of messages now under way. */
static int enqueue_message(weft_comm *comm, weft_comm_transfer *t, int i)
{
    const weft_message *m = &t->messages[i];
    weft_start_queue *queue = t->receive ? comm->receives : comm->sends;
    weft_waiting_message message = { t, i, m->peer, m->tag, m->bytes };
    if (queue != NULL && weft_start_queue_add(queue, &message)) {
        return 0;
    }
    if (comm->receives != NULL) { /* out of turn it would match another message */
        message_ended(comm, &t->posted[i], WEFT_ERR_NOMEM);
        return 0;
    }
    return start_message(comm, t, i);
}

/* Receives start at once, so that no message arrives unexpected, and sends in their turn; both in turn if
 * messages are matched by their order. Returns the number of messages now under way. */
static int start_transfer(weft_comm *comm, weft_comm_transfer *t)
{
    if (comm->gave_up) {
        weft_comm_transfer_end(comm, t);
        return 0;
    }
    if (t->claimed != NULL) {
        return weft_claimed_granted(comm, t);
    }
    if (t->group != NULL) {
        return weft_group_granted(comm, t);
    }
    int started = 0;
    int count = t->count; /* the last message to fail ends the transfer */
    for (int i = 0; i < count; i++) {
        started += enqueue_message(comm, t, i);
    }
    return started + (weft_comm_has_groups(comm) ? weft_groups_begin(comm) : 0);
}

/* Returns the number of messages. */
static int start_from(weft_comm *comm, weft_start_queue *queue)
{
    int started = 0;
    weft_waiting_message next;
    while (weft_start_queue_next(queue, &next)) {
        started += start_message(comm, next.transfer, next.message);
    }
    return started;
}

/* Messages that were ready together may leave together. */
static void flush(weft_comm *comm)
{
    const weft_data *data = &comm->transport.data;
    if (data->flush != NULL && !comm->gave_up) {
        data->flush(data->state);
    }
}

/* Starts the messages whose turn has come. */
static int start_waiting(weft_comm *comm)
{
    return (comm->receives == NULL ? 0 : start_from(comm, comm->receives)) + start_from(comm, comm->sends);
}

/* Starts the transfers that have become ready. Returns the number of messages. */
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
    started += start_waiting(comm);
    if (started > 0) {
        flush(comm);
    }
    return started;
}

/* Returns the number of ended messages. */
static int poll_transport(weft_comm *comm)
{
    weft_finished finished[MAX_FINISHED];
    int count = comm->transport.data.poll(comm->transport.data.state, finished, MAX_FINISHED);
    for (int i = 0; i < count; i++) {
        weft_posted *message = finished[i].token;
        if (message->transfer->claimed != NULL) {
            weft_claimed_end(message->transfer->claimed, finished[i].status);
            continue;
        }
        const weft_message *ended = &message->transfer->messages[message - message->transfer->posted];
        comm->active--;
        comm->active_long -= takes_long(comm, message->transfer, ended);
        comm->active_bytes -= ended->bytes;
        message_ended(comm, message, finished[i].status);
    }
    return count;
}

static void sleep_locked(weft_comm *comm, double sleep_us)
{
    struct timespec until = weft_time_after(sleep_us);
    starpu_pthread_cond_timedwait(&comm->wake, &comm->mutex, &until);
}

/* An abort is pending. */
static bool must_give_up(const weft_comm *comm)
{
    return !comm->gave_up && weft_is_broken();
}

/* Sleep of an idle thread that other processes may send inquiries or abort notices. */
static const double idle_sleep_us = 100e3;

/* The mutex is held. True if there was something to wait for. */
static void sleep_idle(weft_comm *comm)
{
    if (comm->inquiry.reason != WEFT_INQUIRY_NONE) {
        sleep_locked(comm, longest_sleep_us);
    } else if (comm->transport.control.receive != NULL && (!comm->gave_up || comm->told_to_end_us > 0)) {
        sleep_locked(comm, idle_sleep_us);
    } else {
        starpu_pthread_cond_wait(&comm->wake, &comm->mutex);
    }
}

/* Waits until something is ready; with messages under way, or where inquiries may arrive, for a limited
 * time. False: stop. */
static bool rest(weft_comm *comm, backoff *left)
{
    if (comm->active > 0 && (left->yields > 0 || starpu_timing_now() < left->spin_until_us)) {
        left->yields -= left->yields > 0;
        sched_yield();
        return true;
    }
    starpu_pthread_mutex_lock(&comm->mutex);
    bool waits = comm->first_ready == NULL && !comm->stopping && !must_give_up(comm);
    if (waits && comm->active > 0) {
        sleep_locked(comm, left->sleep_us);
        left->sleep_us = left->sleep_us >= left->longest_us      ? left->sleep_us
                         : left->sleep_us * 2 < left->longest_us ? left->sleep_us * 2
                                                                 : left->longest_us;
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
    bool on_devices = weft_runtime.cuda_queues != NULL;
    double longest_us = comm->active_long == comm->active ? longest_message_us : message_us;
    return (backoff){
        .yields = us < SHORT_MESSAGE_US ? YIELDS_FOR_SHORT : 0,
        .spin_until_us = on_devices ? starpu_timing_now() + device_spin_us : 0,
        .longest_us = on_devices ? longest_device_sleep_us : longest_sleep_us,
        .sleep_us = on_devices || us < shortest_sleep_us ? shortest_sleep_us : us > longest_us ? longest_us : us,
    };
}

/* Messages have begun or ended: progress, for the watchdog. */
static void note_progress(weft_comm *comm)
{
    starpu_pthread_mutex_lock(&comm->mutex);
    comm->last_progress_us = starpu_timing_now();
    starpu_pthread_mutex_unlock(&comm->mutex);
}

static void *progress(void *argument)
{
    weft_comm *comm = argument;
    if (weft_runtime.cuda_queues != NULL) {
        weft_background_wake_on_time();
    }
    backoff left = fresh_backoff(comm);
    do {
        int started = start_ready(comm);
        int ended = comm->active > 0 ? poll_transport(comm) : 0;
        weft_inquiry_step(comm);
        heed_sigterm(comm);
        if (must_give_up(comm)) {
            give_up(comm);
        }
        if (ended > 0) { /* which has made room */
            started += start_ready(comm);
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
    bool wakes = weft_cond_init(&comm->wake);
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
        free(comm->group_orders);
        weft_start_queue_free(comm->sends);
        weft_start_queue_free(comm->receives);
        weft_flight_free(comm->flight);
        free(comm->report_path);
        free(comm->inquiry.accounts);
        free(comm->inquiry.heard);
        free(comm->inquiry.heard_us);
    }
    free(comm);
}

static bool allocate(weft_comm *comm, const weft_transport *transport)
{
    int process = transport->place.process, processes = transport->place.num_processes;
    bool ordered = transport->data.matching == WEFT_MATCH_ORDER;
    comm->next_send = calloc((size_t)processes, sizeof(uint32_t));
    comm->next_receive = calloc((size_t)processes, sizeof(uint32_t));
    comm->group_orders = calloc((size_t)processes, sizeof(*comm->group_orders));
    comm->sends = weft_start_queue_new(process, processes, weft_runtime.messages.window_bytes, ordered);
    comm->receives = ordered ? weft_start_queue_new(process, processes, INT64_MAX, true) : NULL;
    comm->flight = weft_flight_new();
    comm->report_path = weft_report_path(process);
    comm->inquiry.heard_us = calloc((size_t)processes, sizeof(double));
    return comm->inquiry.heard_us != NULL && comm->next_send != NULL && comm->next_receive != NULL && comm->group_orders != NULL && comm->sends != NULL &&
           (comm->receives != NULL) == ordered && comm->flight != NULL;
}

weft_comm *weft_comm_start(const char *function, weft_transport transport, double timeout_s)
{
    if ((transport.data.memories & 1u << STARPU_CPU_RAM) == 0) {
        weft_fail(WEFT_ERR_UNSUPPORTED, function,
                  "the transport %s does not reach main memory, where the engine acquires panels",
                  transport.name);
        return NULL;
    }
    weft_comm *comm = calloc(1, sizeof(*comm));
    if (comm == NULL || !allocate(comm, &transport) || !make_locks(comm)) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for the communication engine");
        comm_free(comm);
        return NULL;
    }
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
    weft_sigterm_leave();
    weft_transport_close(&comm->transport);
    free_locks(comm);
    comm_free(comm);
}
