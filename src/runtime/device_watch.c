/* A thread that looks at the devices' streams. StarPU 1.4 asks for the end of a kernel until CUDA answers cudaSuccess; after any
 * other answer the task never ends, and nor does a wait for it. StarPU calls abort() if any other CUDA call fails. So a
 * process whose device is lost cannot go on: it tells the others, and ends. */
#include "runtime/device_watch.h"

#include <pthread.h>
#include <signal.h>
#include <starpu.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "codelets/cuda/kernels.h"
#include "runtime/background.h"
#include "runtime/runtime.h"

enum {
    LOOK_MS = 100,
    MOST_UNDER_WAY = 8, /* kernels whose names are kept */
    /* Time in which the other processes hear of it, and the program may end by itself: as after SIGTERM. */
    ENDING_S = 5
};

typedef struct launched {
    _Atomic(const char *) kernel, function;
} launched;

typedef struct watched {
    void *stream; /* NULL: the worker is none of a device's */
    int device;
    int failed; /* what the last look found */
    atomic_uint launches;
    launched last[MOST_UNDER_WAY];
} watched;

struct weft_device_watch {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t stop;
    bool started, stopping;
    bool leaving; /* weft_device_watch_leave() */
    unsigned under_way; /* kernels that StarPU launches on a device before the first of them has ended */
    watched workers[STARPU_NMAXWORKERS];
};

/* What a handler can reach. */
static struct {
    atomic_int process; /* a forked child inherits the handler, and has no thread that looks */
    atomic_uint looks;
    atomic_bool watching, lost, goes_on, has_looker;
    pthread_t looker; /* the thread that looks, if has_looker */
    struct sigaction before; /* what the handler goes on with */
} sigabrt;

/* ---- abort() ------------------------------------------------------------------------------------------- */

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000 }, NULL);
}

static void go_on(int number, siginfo_t *info, void *context)
{
    const struct sigaction *before = &sigabrt.before;
    bool again = atomic_exchange(&sigabrt.goes_on, true); /* two handlers may each call the other one */
    if (again || (!(before->sa_flags & SA_SIGINFO) && before->sa_handler == SIG_DFL)) {
        signal(number, SIG_DFL);
        raise(number); /* delivered when the handler returns */
    } else if (before->sa_flags & SA_SIGINFO) {
        before->sa_sigaction(number, info, context);
    } else if (before->sa_handler != SIG_IGN) {
        before->sa_handler(number);
    }
}

/* A thread that has called abort() waits for the looks that find a lost device, and for the end of the process if one is
 * found. Both are bounded: CUDA may not answer. */
static bool must_hold(unsigned looks, int held_ms)
{
    enum { LOOKS = 4, MOST_MS = 1000 }; /* LOOKS: the one under way, and two that agree */
    return sigabrt.lost ? held_ms < 1000 * (ENDING_S + 1)
                        : sigabrt.watching && sigabrt.looks - looks < LOOKS && held_ms < MOST_MS;
}

/* Holds a thread that calls abort(), until the process has told the others if a device is lost: StarPU does so on any thread, where
 * it loads, allocates or launches. */
static void hold(int number, siginfo_t *info, void *context)
{
    unsigned looks = sigabrt.looks;
    if (sigabrt.has_looker && pthread_equal(pthread_self(), sigabrt.looker)) {
        if (sigabrt.lost) { /* WEFT_ON_ERROR=abort */
            sleep_ms(1000 * ENDING_S);
            _exit(EXIT_FAILURE);
        }
    } else {
        for (int ms = 0; getpid() == sigabrt.process && must_hold(looks, ms); ms += 10) {
            sleep_ms(10);
        }
    }
    go_on(number, info, context);
}

static void heed_abort(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof(action));
    action.sa_sigaction = hold;
    action.sa_flags = SA_SIGINFO;
    sigabrt.goes_on = false;
    sigabrt.process = (int)getpid();
    sigaction(SIGABRT, NULL, &sigabrt.before);
    sigaction(SIGABRT, &action, NULL);
}

/* Unless another handler has been installed, which may call this one. */
static void leave_abort(void)
{
    struct sigaction now;
    if (sigaction(SIGABRT, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) && now.sa_sigaction == hold) {
        sigaction(SIGABRT, &sigabrt.before, NULL);
    }
}

/* ---- looking ------------------------------------------------------------------------------------------- */

/* "matmul of weft_matmul(), add of weft_add()": the newest last. */
static void write_last(weft_device_watch *watch, watched *w, char *text, size_t size)
{
    size_t used = 0;
    snprintf(text, size, "none");
    pthread_mutex_lock(&watch->mutex); /* against weft_device_watch_leave() */
    unsigned launches = w->launches;
    for (unsigned back = watch->under_way; back > 0; back--) {
        const launched *l = &w->last[(launches - back) % MOST_UNDER_WAY];
        if (launches >= back && used < size) {
            used += (size_t)snprintf(text + used, size - used, "%s%s of %s()", used == 0 ? "" : ", ", l->kernel, l->function);
        }
    }
    pthread_mutex_unlock(&watch->mutex);
}

/* The progress thread may be asleep. */
static void tell_engine(weft_device_watch *watch)
{
    pthread_mutex_lock(&watch->mutex);
    if (!watch->leaving && weft_runtime.comm != NULL) {
        weft_runtime.give_up(weft_runtime.comm);
    }
    pthread_mutex_unlock(&watch->mutex);
}

/* Does not return. The program's own thread may be waiting for a task that never ends. */
static void end_process(weft_device_watch *watch, watched *w)
{
    char host[64] = "", last[256], lost[512];
    gethostname(host, sizeof(host) - 1);
    write_last(watch, w, last, sizeof(last));
    snprintf(lost, sizeof(lost), "device %d of process %d on %s is lost: %s; its last kernels: %s", w->device, weft_runtime.process,
             host, weft_cuda_error_name(w->failed), last);
    sigabrt.lost = true;
    weft_break(WEFT_ERR_COMM, "device", "%s", lost);
    tell_engine(watch);
    fprintf(stderr, "weft: %s. Tasks on it do not end: the process ends in %d s\n", lost, ENDING_S);
    sleep_ms(1000 * ENDING_S);
    _exit(EXIT_FAILURE);
}

/* An error that stays. */
static void look(weft_device_watch *watch, watched *w)
{
    int before = w->failed;
    w->failed = weft_cuda_stream_status(w->device, w->stream);
    if (w->failed != 0 && w->failed == before) {
        end_process(watch, w);
    }
}

static void *look_on(void *argument)
{
    weft_device_watch *watch = argument;
    sigabrt.looker = pthread_self();
    sigabrt.has_looker = true;
    weft_cuda_watch_begin();
    pthread_mutex_lock(&watch->mutex);
    while (!watch->stopping) {
        pthread_mutex_unlock(&watch->mutex);
        for (int i = 0; i < STARPU_NMAXWORKERS; i++) {
            if (watch->workers[i].stream != NULL) {
                look(watch, &watch->workers[i]);
            }
        }
        sigabrt.looks++;
        struct timespec until = weft_time_after(LOOK_MS * 1e3);
        pthread_mutex_lock(&watch->mutex);
        if (!watch->stopping) {
            pthread_cond_timedwait(&watch->stop, &watch->mutex, &until);
        }
    }
    pthread_mutex_unlock(&watch->mutex);
    return NULL;
}

/* ---- start and stop ------------------------------------------------------------------------------------ */

weft_device_watch *weft_device_watch_new(void)
{
    weft_device_watch *watch = calloc(1, sizeof(*watch));
    if (watch != NULL) {
        const char *pipeline = getenv("STARPU_CUDA_PIPELINE");
        int64_t most = pipeline == NULL ? 2 : atoi(pipeline);
        watch->under_way = (unsigned)weft_min_i64(weft_max_i64(most, 1), MOST_UNDER_WAY);
    }
    if (watch != NULL && pthread_mutex_init(&watch->mutex, NULL) != 0) {
        free(watch);
        return NULL;
    }
    if (watch != NULL && !weft_cond_init(&watch->stop)) {
        pthread_mutex_destroy(&watch->mutex);
        free(watch);
        return NULL;
    }
    return watch;
}

int weft_device_watch_tasks(const weft_device_watch *watch)
{
    return (int)watch->under_way;
}

void weft_device_watch_add(weft_device_watch *watch, int device, void *stream)
{
    watched *w = &watch->workers[starpu_worker_get_id()];
    w->device = device;
    w->stream = stream;
}

bool weft_device_watch_start(weft_device_watch *watch, bool signals)
{
    watch->started = weft_background_start(&watch->thread, look_on, watch);
    sigabrt.watching = watch->started;
    if (watch->started && signals) {
        heed_abort();
    }
    return watch->started;
}

void weft_device_watch_launch(weft_device_watch *watch, const char *kernel, const char *function)
{
    watched *w = &watch->workers[starpu_worker_get_id()];
    launched *next = &w->last[w->launches % MOST_UNDER_WAY];
    next->kernel = kernel;
    next->function = function;
    w->launches++;
}

void weft_device_watch_leave(weft_device_watch *watch)
{
    if (watch == NULL) {
        return;
    }
    pthread_mutex_lock(&watch->mutex);
    watch->leaving = true;
    for (int i = 0; i < STARPU_NMAXWORKERS; i++) {
        watch->workers[i].launches = 0;
    }
    pthread_mutex_unlock(&watch->mutex);
}

void weft_device_watch_stop(weft_device_watch *watch)
{
    if (watch == NULL) {
        return;
    }
    if (watch->started) {
        pthread_mutex_lock(&watch->mutex);
        watch->stopping = true;
        pthread_cond_signal(&watch->stop);
        pthread_mutex_unlock(&watch->mutex);
        pthread_join(watch->thread, NULL);
        sigabrt.watching = sigabrt.has_looker = false;
        leave_abort();
    }
    pthread_cond_destroy(&watch->stop);
    pthread_mutex_destroy(&watch->mutex);
    free(watch);
}
