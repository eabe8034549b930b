#include "comm/mpi_life.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "comm/mpi_requests.h"
#include "runtime/background.h"

/* MPI outlives weft_finalize(), and so do a broken world's messages, which finalize_at_exit() must know
 * of. */
static struct {
    atomic_bool happened;
    MPI_Comm comm;
    const weft_mpi_presence *presence;
    atomic_bool misses_one; /* a process may not come to the end */
} given_up = { .comm = MPI_COMM_NULL };

/* The processes of the first world that ended whole: that of all, where weft ends MPI. */
static const weft_mpi_presence *kept_presence;

/* The process that initialised MPI; its forked children have a copy of MPI's memory but no MPI. 0: none. */
static pid_t mpi_process;

/* Whether MPI_Finalize() ends the world. */
static bool watches_finalize;

void weft_mpi_leave(MPI_Comm comm, const weft_mpi_presence *presence)
{
    given_up.comm = comm;
    given_up.presence = presence;
    given_up.happened = true;
}

void weft_mpi_keep(weft_mpi_presence *presence)
{
    if (mpi_process != 0 && kept_presence == NULL) {
        kept_presence = presence;
    } else {
        weft_mpi_presence_free(presence);
    }
}

void weft_mpi_miss(void)
{
    given_up.misses_one = true;
}

bool weft_mpi_has_left(void)
{
    return given_up.happened;
}

/* ---- watches ------------------------------------------------------------------------------------------- */

/* A thread that looks on while MPI may wait for ever. */
typedef struct watch {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t ended;
    bool is_over;
    const char *function;
    double timeout_s;
} watch;

/* Waits for so long, the mutex held. */
static bool is_over_within(watch *w, double seconds)
{
    struct timespec until = weft_time_after(seconds * 1e6);
    int error = 0;
    while (!w->is_over && error == 0) {
        error = pthread_cond_timedwait(&w->ended, &w->mutex, &until);
    }
    return w->is_over;
}

/* Without a thread for it there is no watch. */
static bool begin_watch(watch *w, void *(*look_on)(void *))
{
    if (pthread_mutex_init(&w->mutex, NULL) != 0) {
        return false;
    }
    if (weft_cond_init(&w->ended)) {
        if (weft_background_start(&w->thread, look_on, w)) {
            return true;
        }
        pthread_cond_destroy(&w->ended);
    }
    pthread_mutex_destroy(&w->mutex);
    return false;
}

static void end_watch(watch *w)
{
    pthread_mutex_lock(&w->mutex);
    w->is_over = true;
    pthread_cond_signal(&w->ended);
    pthread_mutex_unlock(&w->mutex);
    pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->ended);
    pthread_mutex_destroy(&w->mutex);
}

/* ---- the end ------------------------------------------------------------------------------------------- */

/* Time that a process waits at exit for the others of a broken world: for those that have heard of it, or will; and where the
 * time-out has found one that has ended, is stopped, or does something else: it may still come and report what it hears. */
static const double LAST_WAIT_S = 30, LAST_WAIT_WITH_ABSENT_S = 5;

static int world_size(void)
{
    int processes = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &processes);
    return processes;
}

/* An empty message to each other process that is there. */
static void tell_others(int process, int processes, int tag)
{
    for (int p = 0; p < processes; p++) {
        MPI_Request request;
        bool told = p != process && weft_mpi_presence_of(given_up.presence, p) != WEFT_ENDED;
        if (told && MPI_Isend(NULL, 0, MPI_BYTE, p, tag, given_up.comm, &request) == MPI_SUCCESS) {
            MPI_Request_free(&request);
        }
    }
}

/* Takes such a message. -1: none has come. */
static int hear_one(int tag)
{
    int there = 0;
    MPI_Message message;
    MPI_Status status;
    if (MPI_Improbe(MPI_ANY_SOURCE, tag, given_up.comm, &there, &message, &status) != MPI_SUCCESS || !there) {
        return -1;
    }
    MPI_Mrecv(NULL, 0, MPI_BYTE, &message, MPI_STATUS_IGNORE);
    return status.MPI_SOURCE;
}

/* How many processes may still come, and, in *ended, how many will not. */
static int count_missing(int processes, const bool come[], int *ended)
{
    int missing = 0;
    *ended = 0;
    for (int p = 0; p < processes; p++) {
        bool gone = weft_mpi_presence_of(given_up.presence, p) == WEFT_ENDED;
        *ended += !come[p] && gone;
        missing += !come[p] && !gone;
    }
    return missing;
}

/* Waits for the others for a while; MPI_Finalize() is safe if all have come, and none has left before it heard of the last. */
static bool wait_for_others(int process, int processes, bool come[])
{
    const struct timespec pause = { 0, 1000000 };
    double last_s = MPI_Wtime(), waited_s = 0;
    int ended = 0, missing, from;
    tell_others(process, processes, WEFT_MPI_TAG_HERE_AT_END);
    come[process] = true;
    while ((missing = count_missing(processes, come, &ended)) > 0 &&
           waited_s < (ended > 0 || given_up.misses_one ? LAST_WAIT_WITH_ABSENT_S : LAST_WAIT_S)) {
        while ((from = hear_one(WEFT_MPI_TAG_HERE_AT_END)) >= 0) {
            come[from] = true;
        }
        nanosleep(&pause, NULL);
        double now_s = MPI_Wtime(), since_s = now_s - last_s;
        waited_s += since_s < 1 ? since_s : 0; /* else this process was stopped */
        last_s = now_s;
    }
    bool all = missing == 0 && ended == 0;
    if (!all) {
        tell_others(process, processes, WEFT_MPI_TAG_LEAVES);
    }
    return all && hear_one(WEFT_MPI_TAG_LEAVES) < 0;
}

/* MPI_Finalize() waits for all processes without limit. After a break each process first waits a while for
 * the others: a launcher that sees a process end without MPI_Finalize(), or with a non-zero status, kills
 * the others before they have reported their errors. */
static bool all_have_come(void)
{
    if (given_up.comm == MPI_COMM_NULL) {
        /* One is absent; the others began to wait for it at about the same time. */
        if (world_size() > 2) {
            nanosleep(&(struct timespec){ (time_t)LAST_WAIT_WITH_ABSENT_S, 0 }, NULL);
        }
        return false;
    }
    int process = 0, processes = 0;
    MPI_Comm_rank(given_up.comm, &process);
    MPI_Comm_size(given_up.comm, &processes);
    bool *come = calloc((size_t)processes, sizeof(*come));
    bool all = come != NULL && wait_for_others(process, processes, come);
    free(come);
    return all;
}

/* Watches MPI_Finalize(). Where all have come to it a process may end a little later than another; where one has ended without it
 * the others would wait for ever. */
static void *end_with_others(void *argument)
{
    enum { MOST_LOOKS = 20 }; /* one a second: a busy machine's processes need their time */
    const weft_mpi_presence *presence = given_up.happened ? given_up.presence : kept_presence;
    watch *w = argument;
    int looks = 0, ended = -1;
    pthread_mutex_lock(&w->mutex);
    while (looks < MOST_LOOKS && !is_over_within(w, 1)) {
        ended = weft_mpi_presence_ended(presence);
        looks += ended >= 0;
    }
    if (!w->is_over) {
        fprintf(stderr, "weft: process %d has ended without MPI_Finalize(), which waits for it here: this process ends too\n", ended);
        _exit(EXIT_FAILURE);
    }
    pthread_mutex_unlock(&w->mutex);
    return NULL;
}

static void finalize_watched(void)
{
    watch w = { .is_over = false };
    bool watched = world_size() > 1 && begin_watch(&w, end_with_others);
    MPI_Finalize();
    if (watched) {
        end_watch(&w);
    }
}

static void finalize_at_exit(void)
{
    if (getpid() != mpi_process) {
        return;
    }
    int finalized = 0;
    MPI_Finalized(&finalized);
    fflush(NULL); /* the launcher may end this process before exit() comes to it */
    if (!finalized && (!given_up.happened || all_have_come())) {
        finalize_watched();
    }
}

/* MPI_Finalize() deletes the attributes of MPI_COMM_SELF before anything else, while MPI still works. It would wait for ever
 * with what a broken world has left, and weft's thread would go on where the world cannot end (another thread's, a call within a
 * function that weft calls): then all processes end. */
static int end_world(MPI_Comm comm, int key, void *value, void *state)
{
    (void)comm, (void)key, (void)value, (void)state;
    if (!weft_runtime.initialized) {
        return MPI_SUCCESS;
    }
    weft_status status = weft_finalize();
    if (status != WEFT_OK) {
        fprintf(stderr, "weft: MPI_Finalize() was called before weft_finalize(), which failed: %s\n", weft_last_error());
    }
    if (weft_runtime.initialized || given_up.happened) {
        MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    }
    return MPI_SUCCESS;
}

/* Where the program ends MPI itself: weft's thread must have ended before. Once: the attribute stays. */
static void watch_finalize(void)
{
    int key = MPI_KEYVAL_INVALID;
    if (!watches_finalize && MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, end_world, &key, NULL) == MPI_SUCCESS) {
        watches_finalize = MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL) == MPI_SUCCESS;
        MPI_Comm_free_keyval(&key);
    }
}

/* ---- the beginning ------------------------------------------------------------------------------------- */

/* Watches MPI_Init_thread(). */
static void *tell_after_timeout(void *argument)
{
    watch *w = argument;
    pthread_mutex_lock(&w->mutex);
    if (!is_over_within(w, w->timeout_s)) {
        fprintf(
            stderr,
            "weft: %s: MPI_Init_thread() has not ended within %.1f s: a process has not come to it, or has "
            "ended before. MPI waits for it for ever\n",
            w->function, w->timeout_s);
    }
    pthread_mutex_unlock(&w->mutex);
    return NULL;
}

static weft_status initialize(const char *function, double timeout_s)
{
    watch w = { .function = function, .timeout_s = timeout_s };
    bool watched = timeout_s > 0 && begin_watch(&w, tell_after_timeout);
    int provided = 0;
    int error = MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided);
    if (watched) {
        end_watch(&w);
    }
    if (error != MPI_SUCCESS) {
        return weft_fail(WEFT_ERR_COMM, function, "MPI_Init_thread() failed");
    }
    mpi_process = getpid();
    atexit(finalize_at_exit);
    return WEFT_OK;
}

weft_status weft_mpi_begin(const char *function, bool own_communicator, double timeout_s)
{
    int initialized = 0, finalized = 0;
    if (mpi_process != 0 && getpid() != mpi_process) {
        return weft_fail(WEFT_ERR_STATE, function, "MPI is the parent's, from which this process was forked");
    }
    MPI_Finalized(&finalized);
    if (finalized) {
        return weft_fail(WEFT_ERR_UNSUPPORTED, function, "MPI has been finalised");
    }
    if (given_up.happened) {
        return weft_fail(WEFT_ERR_STATE, function,
                         "an earlier world of this process broke, and has left messages in MPI");
    }
    MPI_Initialized(&initialized);
    if (initialized) {
        if (mpi_process == 0) {
            watch_finalize();
        }
        return WEFT_OK;
    }
    return own_communicator ? weft_fail(WEFT_ERR_STATE, function, "comm is given but MPI is not initialised")
                            : initialize(function, timeout_s);
}
