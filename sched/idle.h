/* Workers without a task. Such a worker looks at its heap again and again for a millisecond, since the next task often
 * comes soon, and then sleeps until a task wakes it: its core belongs to the program.
 *
 * A new task wakes a sleeper only if more tasks wait than workers look. None is forgotten: a worker counted as looking
 * looks once more, with the mutex held, before it sleeps. */
#ifndef WEFT_SCHED_IDLE_H
#define WEFT_SCHED_IDLE_H

#include <stdatomic.h>
#include <stdbool.h>

#include <starpu.h>

typedef struct weft_idle_worker {
    unsigned looks;  /* unsuccessful ones since its last task; of its own thread, as the next */
    double since_us; /* when it was awake without a task for the first time */
    /* With the mutex: */
    bool is_asleep;
    unsigned number;                /* of StarPU's */
    struct weft_idle_worker *below; /* fell asleep before it */
    starpu_pthread_cond_t wake;
} weft_idle_worker;

/* The workers of one heap. */
typedef struct weft_idle {
    atomic_uint looking;   /* awake, without a task */
    atomic_uint asleep;    /* written with the mutex */
    weft_idle_worker *top; /* the last one to fall asleep, which wakes first: its cache is the warmest */
} weft_idle;

bool weft_idle_worker_start(weft_idle_worker *worker, unsigned number);
void weft_idle_worker_stop(weft_idle_worker *worker);

/* By the worker's own thread: it has found no task. `impatient`: it sleeps without further looks. True: it may sleep now,
 * and has let no other thread run; false: it has looked too few times. */
bool weft_idle_looked(weft_idle *idle, weft_idle_worker *worker, bool impatient);

/* All others with the mutex held. */

/* It has a task. */
static inline void weft_idle_found(weft_idle *idle, weft_idle_worker *worker)
{
    if (worker->looks > 0) {
        worker->looks = 0;
        atomic_fetch_sub_explicit(&idle->looking, 1, memory_order_relaxed);
    }
}

/* Sleeps until it is woken, or so many microseconds are over (false). */
bool weft_idle_sleep(weft_idle *idle, weft_idle_worker *worker, starpu_pthread_mutex_t *mutex, double us);

/* Takes a worker that can execute the task from the sleepers, if more tasks are `waiting` than workers look; NULL:
 * there is none. To be signalled with weft_idle_wake(), without the mutex. */
weft_idle_worker *weft_idle_choose(weft_idle *idle, size_t waiting, struct starpu_task *task);
static inline void weft_idle_wake(weft_idle_worker *worker)
{
    if (worker != NULL) {
        starpu_pthread_cond_signal(&worker->wake);
    }
}

void weft_idle_wake_all(weft_idle *idle);

#endif
