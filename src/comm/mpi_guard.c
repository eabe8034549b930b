#include "comm/mpi_guard.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

struct weft_mpi_guard {
    pthread_mutex_t mutex;
    weft_control control; /* the guarded tables */
    weft_data data;
};

weft_mpi_guard *weft_mpi_guard_new(void)
{
    weft_mpi_guard *guard = calloc(1, sizeof(*guard));
    if (guard != NULL && pthread_mutex_init(&guard->mutex, NULL) != 0) {
        free(guard);
        guard = NULL;
    }
    return guard;
}

void weft_mpi_guard_free(weft_mpi_guard *guard)
{
    if (guard != NULL) {
        pthread_mutex_destroy(&guard->mutex);
        free(guard);
    }
}

void weft_mpi_guard_sleep(weft_mpi_guard *guard, double us)
{
    if (guard != NULL) {
        pthread_mutex_unlock(&guard->mutex);
    }
    nanosleep(&(struct timespec){ 0, (long)(us * 1e3) }, NULL);
    if (guard != NULL) {
        pthread_mutex_lock(&guard->mutex);
    }
}

/* ---- control ------------------------------------------------------------------------------------------- */

static void gather(void *state, const void *mine, void *all, size_t size, double timeout_s, bool came[])
{
    weft_mpi_guard *guard = state;
    pthread_mutex_lock(&guard->mutex);
    guard->control.gather(guard->control.state, mine, all, size, timeout_s, came);
    pthread_mutex_unlock(&guard->mutex);
}

static bool broadcast(void *state, void *bytes, size_t size, double timeout_s)
{
    weft_mpi_guard *guard = state;
    pthread_mutex_lock(&guard->mutex);
    bool received = guard->control.broadcast(guard->control.state, bytes, size, timeout_s);
    pthread_mutex_unlock(&guard->mutex);
    return received;
}

static void send_text(void *state, int process, const void *bytes, size_t size)
{
    weft_mpi_guard *guard = state;
    pthread_mutex_lock(&guard->mutex);
    guard->control.send(guard->control.state, process, bytes, size);
    pthread_mutex_unlock(&guard->mutex);
}

static size_t receive_text(void *state, int *process, void *bytes, size_t size)
{
    weft_mpi_guard *guard = state;
    pthread_mutex_lock(&guard->mutex);
    size_t received = guard->control.receive(guard->control.state, process, bytes, size);
    pthread_mutex_unlock(&guard->mutex);
    return received;
}

static void send_abort(void *state)
{
    weft_mpi_guard *guard = state;
    pthread_mutex_lock(&guard->mutex);
    guard->control.send_abort(guard->control.state);
    pthread_mutex_unlock(&guard->mutex);
}

static void hear_abort(void *state)
{
    weft_mpi_guard *guard = state;
    pthread_mutex_lock(&guard->mutex);
    guard->control.hear_abort(guard->control.state);
    pthread_mutex_unlock(&guard->mutex);
}

/* These two call no MPI. */
static weft_presence presence(void *state, int process)
{
    const weft_mpi_guard *guard = state;
    return guard->control.presence(guard->control.state, process);
}

static void miss(void *state)
{
    const weft_mpi_guard *guard = state;
    guard->control.miss(guard->control.state);
}

/* The last call: the progress thread has ended. */
static void close_control(void *state)
{
    weft_mpi_guard *guard = state;
    pthread_mutex_lock(&guard->mutex);
    guard->control.close(guard->control.state);
    pthread_mutex_unlock(&guard->mutex);
    weft_mpi_guard_free(guard);
}

/* ---- data ---------------------------------------------------------------------------------------------- */

static weft_status start(void *state, const weft_message *message, bool receive, void *memory, void *token)
{
    weft_mpi_guard *guard = state;
    pthread_mutex_lock(&guard->mutex);
    weft_status status = guard->data.start(guard->data.state, message, receive, memory, token);
    pthread_mutex_unlock(&guard->mutex);
    return status;
}

static int poll_ended(void *state, weft_finished finished[], int max)
{
    weft_mpi_guard *guard = state;
    pthread_mutex_lock(&guard->mutex);
    int count = guard->data.poll(guard->data.state, finished, max);
    pthread_mutex_unlock(&guard->mutex);
    return count;
}

/* A function of the data table that takes nothing else. */
static void call(weft_mpi_guard *guard, void (*function)(void *state))
{
    pthread_mutex_lock(&guard->mutex);
    function(guard->data.state);
    pthread_mutex_unlock(&guard->mutex);
}

static void flush(void *state)
{
    weft_mpi_guard *guard = state;
    call(guard, guard->data.flush);
}

static void abandon(void *state)
{
    weft_mpi_guard *guard = state;
    call(guard, guard->data.abandon);
}

static void enable_packing(void *state)
{
    weft_mpi_guard *guard = state;
    call(guard, guard->data.enable_packing);
}

static void close_data(void *state)
{
    weft_mpi_guard *guard = state;
    call(guard, guard->data.close);
}

void weft_mpi_guard_tables(weft_mpi_guard *guard, weft_transport *transport)
{
    guard->control = transport->control;
    guard->data = transport->data;
    transport->control = (weft_control){
        .state = guard,
        .gather = gather,
        .broadcast = broadcast,
        .send = send_text,
        .receive = receive_text,
        .send_abort = send_abort,
        .hear_abort = hear_abort,
        .presence = presence,
        .miss = miss,
        .close = close_control,
    };
    transport->data.state = guard;
    transport->data.start = start;
    transport->data.flush = flush;
    transport->data.poll = poll_ended;
    transport->data.abandon = abandon;
    transport->data.enable_packing = enable_packing;
    transport->data.close = close_data;
}
