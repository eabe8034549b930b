#define _DEFAULT_SOURCE
#include "sched/idle.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>

enum {
    /* Number of looks at an empty queue before a worker yields its core. */
    LOOKS_BEFORE_YIELDING = 8,
    AWAKE_US = 1000,
};

bool weft_idle_worker_start(weft_idle_worker *worker, unsigned number)
{
    worker->number = number;
    /* Nobody sets this clock, so a sleep ends in time even if the machine's time is set back. */
    pthread_condattr_t attributes;
    if (pthread_condattr_init(&attributes) != 0) {
        return false;
    }
    bool done = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 &&
                starpu_pthread_cond_init(&worker->wake, &attributes) == 0;
    pthread_condattr_destroy(&attributes);
    return done;
}

void weft_idle_worker_stop(weft_idle_worker *worker)
{
    starpu_pthread_cond_destroy(&worker->wake);
}

bool weft_idle_looked(weft_idle *idle, weft_idle_worker *worker, bool impatient)
{
    if (worker->looks == 0) {
        atomic_fetch_add_explicit(&idle->looking, 1, memory_order_relaxed);
    }
    if (worker->looks <= LOOKS_BEFORE_YIELDING) {
        worker->looks++;
    }
    if (impatient) {
        return true;
    }
    if (worker->looks < LOOKS_BEFORE_YIELDING) {
        return false;
    }
    if (worker->looks == LOOKS_BEFORE_YIELDING) {
        worker->since_us = starpu_timing_now();
    } else if (starpu_timing_now() - worker->since_us > AWAKE_US) {
        return true;
    }
    sched_yield();
    return false;
}

static void remove_sleeper(weft_idle *idle, weft_idle_worker *worker)
{
    weft_idle_worker **link = &idle->top;
    while (*link != worker) {
        link = &(*link)->below;
    }
    *link = worker->below;
    worker->is_asleep = false;
    atomic_fetch_sub_explicit(&idle->asleep, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&idle->looking, 1, memory_order_relaxed);
}

bool weft_idle_sleep(weft_idle *idle, weft_idle_worker *worker, starpu_pthread_mutex_t *mutex, double us)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)(us * 1e3);
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    worker->below = idle->top;
    idle->top = worker;
    worker->is_asleep = true;
    atomic_fetch_sub_explicit(&idle->looking, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&idle->asleep, 1, memory_order_relaxed);
    starpu_pthread_cond_timedwait(&worker->wake, mutex, &until);
    if (worker->is_asleep) { /* by the time, or without a reason: sleeps on after a look */
        remove_sleeper(idle, worker);
        return false;
    }
    worker->since_us = starpu_timing_now();
    return true;
}

weft_idle_worker *weft_idle_choose(weft_idle *idle, size_t waiting, struct starpu_task *task)
{
    if (idle->top == NULL || waiting <= atomic_load_explicit(&idle->looking, memory_order_relaxed)) {
        return NULL;
    }
    for (weft_idle_worker *worker = idle->top; worker != NULL; worker = worker->below) {
        if (starpu_worker_can_execute_task_first_impl(worker->number, task, NULL)) {
            remove_sleeper(idle, worker);
            return worker;
        }
    }
    return NULL;
}

void weft_idle_wake_all(weft_idle *idle)
{
    while (idle->top != NULL) {
        weft_idle_worker *worker = idle->top;
        remove_sleeper(idle, worker);
        weft_idle_wake(worker);
    }
}
