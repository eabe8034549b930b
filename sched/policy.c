/* A queue for all CPUs, and one for each device: heaps by priority, then by the order of arrival. choice.h decides which. */
#define _DEFAULT_SOURCE
#include "sched/sched.h"

#include <limits.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>

#include "sched/choice.h"
#include "sched/heap.h"
#include "sched/idle.h"

enum {
    /* The first rows of an operation go before the last rows of an operation submitted so many operations
     * earlier. Measured on two hosts, a step of char_lm: 118 ms with 1, 103 to 109 with 3 to 6, 150 with
     * 16. Gradients of weights are sums over all rows: the further ahead the first rows go, the later the
     * first gradient is complete and can leave. */
    LOOK_AHEAD = 4,
    /* Longest sleep of a worker. Its tasks wake it; what StarPU gives to this worker alone, past the policy, does not. */
    SLEEP_US = 100000,
    /* The same where the worker moves data too, of which nothing tells it: a device's, and all with several nodes of main memory. */
    NAP_US = 500,
};

typedef struct queue {
    starpu_pthread_mutex_t mutex;
    /* By memory node: 0 for CPUs, others for the devices there. A task is in one of them. */
    weft_heap heaps[STARPU_MAXNODES];
    double queued_us[STARPU_MAXNODES]; /* of the tasks in each and of those under way, where StarPU's models know it */
    unsigned num_devices, devices[STARPU_MAXNODES];       /* a worker of each device's */
    unsigned num_cpus, cpu;                               /* CPU workers, and one of them */
    unsigned char heap_of[STARPU_NMAXWORKERS];            /* number of the worker's heap */
    weft_sched_asks asks;               /* NULL: models are not asked */
    bool explores;                      /* STARPU_CALIBRATE: models are being measured */
    weft_idle idle[STARPU_MAXNODES];                      /* of each heap's workers */
    weft_idle_worker workers[STARPU_NMAXWORKERS];
    atomic_bool paused;  /* no worker takes a task; written with the mutex */
    bool stopping;       /* no worker sleeps any more */
    atomic_uint missed;  /* tasks that no worker was awake for */
} queue;

/* ---- which heap ---------------------------------------------------------------------------------------- */

/* Of the operands that a task reads: those that are in a memory node, or on their way there. */
static size_t bytes_there(struct starpu_task *task, unsigned node)
{
    size_t bytes = 0;
    for (unsigned i = 0; i < (unsigned)STARPU_TASK_GET_NBUFFERS(task); i++) {
        starpu_data_handle_t handle = STARPU_TASK_GET_HANDLE(task, i);
        bool reads = STARPU_TASK_GET_MODE(task, i) & STARPU_R;
        bytes += reads && starpu_data_is_on_node(handle, node) ? starpu_data_get_size(handle) : 0;
    }
    return bytes;
}

/* A worker of number `i` of the places: the CPUs together, and the devices. */
static unsigned worker_of(const queue *q, int i)
{
    return i == 0 ? q->cpu : q->devices[i - 1];
}

static weft_sched_place look_at(const queue *q, struct starpu_task *task, int i, bool asks)
{
    unsigned worker = worker_of(q, i), node = q->heap_of[worker], implementation = 0;
    weft_sched_place place = { .device = i > 0, .waiting = q->heaps[node].waiting, .task_us = NAN };
    place.can = (i > 0 || q->num_cpus > 0) && starpu_worker_can_execute_task_first_impl(worker, task, &implementation);
    if (place.can && asks) {
        place.task_us = starpu_task_worker_expected_length(task, worker, task->sched_ctx, implementation);
        place.transfer_us = starpu_task_expected_data_transfer_time_for(task, worker);
        place.queued_us = q->queued_us[node] / (i == 0 ? q->num_cpus : 1);
    }
    place.bytes = place.can && q->num_devices > 1 ? bytes_there(task, node) : 0;
    return place;
}

/* The heap of a task; 0 without devices. task->sched_data is not NULL where its time is known, and counted in queued_us. */
static unsigned choose_heap(queue *q, struct starpu_task *task)
{
    weft_sched_place places[STARPU_MAXNODES] = { { .can = false } };
    if (q->num_devices == 0) {
        return 0;
    }
    bool asks = q->asks != NULL && q->asks(task);
    int count = (int)q->num_devices + 1;
    for (int i = 0; i < count; i++) {
        places[i] = look_at(q, task, i, asks);
    }
    int best = weft_sched_choose(count, places, asks && q->explores);
    unsigned heap = best <= 0 ? 0 : q->heap_of[worker_of(q, best)];
    task->sched_data = NULL;
    if (best >= 0 && asks && !isnan(places[best].task_us)) {
        task->predicted = places[best].task_us;
        task->sched_data = &q->queued_us[heap];
        q->queued_us[heap] += task->predicted;
    }
    return heap;
}

/* Whether a device without tasks may take one of another device, and of which. 0: there is none. */
static unsigned busiest_other(const queue *q, unsigned own)
{
    size_t waiting[STARPU_MAXNODES];
    int number = -1;
    for (unsigned i = 0; i < q->num_devices; i++) {
        unsigned node = q->heap_of[q->devices[i]];
        waiting[i] = q->heaps[node].waiting;
        number = node == own ? (int)i : number;
    }
    int victim = weft_sched_victim((int)q->num_devices, waiting, number);
    return victim < 0 ? 0 : q->heap_of[q->devices[victim]];
}

/* The mutex is held: the task will be executed with another heap's tasks, or (NULL) has ended. */
static void count_elsewhere(struct starpu_task *task, double *queued_us)
{
    double *former = task->sched_data;
    if (former == NULL || former == queued_us) {
        return;
    }
    *former = *former > task->predicted ? *former - task->predicted : 0;
    if (queued_us != NULL) {
        *queued_us += task->predicted;
    }
    task->sched_data = queued_us;
}

static bool is_paused(const queue *q)
{
    return atomic_load_explicit(&q->paused, memory_order_relaxed);
}

/* The heap that a worker takes its next task from; -1: there is none. Needs no mutex: the task may be gone. */
static int heap_for(const queue *q, unsigned worker)
{
    unsigned own = q->heap_of[worker];
    if (is_paused(q)) {
        return -1;
    }
    if (atomic_load_explicit(&q->heaps[own].waiting, memory_order_relaxed) > 0) {
        return (int)own;
    }
    unsigned other = own == 0 ? 0 : busiest_other(q, own);
    return other == 0 ? -1 : (int)other;
}

/* ---- what StarPU calls --------------------------------------------------------------------------------- */

static void free_queue(queue *q, unsigned num_workers)
{
    for (unsigned i = 0; i < num_workers; i++) {
        weft_idle_worker_stop(&q->workers[i]);
    }
    starpu_pthread_mutex_destroy(&q->mutex);
    free(q);
}

static queue *new_queue(void)
{
    queue *q = calloc(1, sizeof(*q));
    if (q != NULL && starpu_pthread_mutex_init(&q->mutex, NULL) != 0) {
        free(q);
        q = NULL;
    }
    for (unsigned i = 0; q != NULL && i < STARPU_NMAXWORKERS; i++) {
        if (!weft_idle_worker_start(&q->workers[i], i)) {
            free_queue(q, i);
            q = NULL;
        }
    }
    return q;
}

static void start(unsigned context)
{
    queue *q = new_queue(); /* NULL: weft_sched_has_started() tells */
    if (q != NULL) {
        for (int i = 0; i < STARPU_MAXNODES; i++) {
            weft_heap_start(&q->heaps[i]);
        }
    }
    starpu_sched_ctx_set_policy_data(context, q);
    if (!starpu_sched_ctx_min_priority_is_set(context)) {
        starpu_sched_ctx_set_min_priority(context, INT_MIN);
    }
    if (!starpu_sched_ctx_max_priority_is_set(context)) {
        starpu_sched_ctx_set_max_priority(context, INT_MAX);
    }
}

static void stop(unsigned context)
{
    queue *q = starpu_sched_ctx_get_policy_data(context);
    if (q == NULL) {
        return;
    }
    for (int i = 0; i < STARPU_MAXNODES; i++) {
        weft_heap_stop(&q->heaps[i]);
    }
    free_queue(q, STARPU_NMAXWORKERS);
}

static void add_workers(unsigned context, int *workers, unsigned count)
{
    queue *q = starpu_sched_ctx_get_policy_data(context);
    for (unsigned i = 0; i < count && q != NULL; i++) {
        unsigned worker = (unsigned)workers[i], node = starpu_worker_get_memory_node(worker);
        if (starpu_worker_get_type(workers[i]) == STARPU_CPU_WORKER || node >= STARPU_MAXNODES) {
            q->cpu = worker;
            q->num_cpus++;
            continue;
        }
        bool is_known = false;
        for (unsigned k = 0; k < q->num_devices; k++) {
            is_known |= q->heap_of[q->devices[k]] == node;
        }
        q->heap_of[worker] = (unsigned char)node;
        if (!is_known) {
            q->devices[q->num_devices++] = worker;
        }
    }
}

static void lock(queue *q)
{
    /* Other threads may read this worker's state meanwhile. */
    starpu_worker_relax_on();
    starpu_pthread_mutex_lock(&q->mutex);
    starpu_worker_relax_off();
}

#ifndef STARPU_NON_BLOCKING_DRIVERS
/* Workers that can execute a task, those of its heap first. */
typedef struct helpers {
    int count;
    unsigned workers[STARPU_NMAXWORKERS];
} helpers;

/* The mutex is held: afterwards the task may be gone at any time. */
static void find_helpers(const queue *q, struct starpu_task *task, unsigned heap, helpers *out)
{
    struct starpu_worker_collection *workers = starpu_sched_ctx_get_worker_collection(task->sched_ctx);
    struct starpu_sched_ctx_iterator iterator;
    out->count = 0;
    for (int others = 0; others < (q->num_devices > 1 ? 2 : 1); others++) {
        workers->init_iterator(workers, &iterator);
        while (workers->has_next(workers, &iterator)) {
            unsigned worker = (unsigned)workers->get_next(workers, &iterator);
            if ((q->heap_of[worker] != heap) == (others == 1) &&
                starpu_worker_can_execute_task_first_impl(worker, task, NULL)) {
                out->workers[out->count++] = worker;
            }
        }
    }
}

/* Wakes one sleeping worker that no other task has woken: enough for one task. A worker that is awake
 * looks into the queue before it sleeps. */
static void wake_one(const helpers *those)
{
    for (int i = 0; i < those->count; i++) {
        if (starpu_wake_worker_relax_light((int)those->workers[i])) {
            return;
        }
    }
}
#endif

static int push(struct starpu_task *task)
{
    queue *q = starpu_sched_ctx_get_policy_data(task->sched_ctx);
    lock(q);
    unsigned heap = choose_heap(q, task);
    weft_heap_add(&q->heaps[heap], task);
    starpu_push_task_end(task);
#ifdef STARPU_NON_BLOCKING_DRIVERS
    weft_idle_worker *sleeper = is_paused(q) ? NULL : weft_idle_choose(&q->idle[heap], q->heaps[heap].waiting, task);
    starpu_pthread_mutex_unlock(&q->mutex);
    weft_idle_wake(sleeper);
#else
    helpers those;
    find_helpers(q, task, heap, &those);
    starpu_pthread_mutex_unlock(&q->mutex);
    wake_one(&those);
#endif
    return 0;
}

#ifdef STARPU_NON_BLOCKING_DRIVERS
/* How long a worker may sleep; 0: not at all. A device's moves the data of unfinished tasks, and learns by looking that its
 * kernels have ended. */
static double longest_sleep_us(unsigned worker)
{
    if (starpu_worker_get_type((int)worker) == STARPU_CPU_WORKER) {
        return starpu_memory_nodes_get_numa_count() > 1 ? NAP_US : SLEEP_US;
    }
    return starpu_task_nsubmitted() == 0 ? NAP_US : 0;
}

static void sleep_until_woken(queue *q, unsigned worker, unsigned own, double us)
{
    starpu_worker_relax_on(); /* other threads may read the sleeper's state */
    starpu_pthread_mutex_lock(&q->mutex);
    bool has_task = q->heaps[own].waiting > 0 && !is_paused(q);
    if (!has_task && !q->stopping && !weft_idle_sleep(&q->idle[own], &q->workers[worker], &q->mutex, us)) {
        unsigned others = atomic_load_explicit(&q->idle[own].looking, memory_order_relaxed) - 1;
        q->missed += q->heaps[own].waiting > others && !is_paused(q);
    }
    starpu_pthread_mutex_unlock(&q->mutex);
    starpu_worker_relax_off();
}

static void found_nothing(queue *q, unsigned worker)
{
    unsigned own = q->heap_of[worker];
    if (weft_idle_looked(&q->idle[own], &q->workers[worker], is_paused(q))) {
        double us = longest_sleep_us(worker);
        if (us > 0) {
            sleep_until_woken(q, worker, own, us);
        } else {
            sched_yield();
        }
    }
}
#else
/* Drivers that block let the worker sleep. To yield here would delay the threads that want to wake it: StarPU holds its mutex. */
static void found_nothing(queue *q, unsigned worker)
{
    (void)q;
    (void)worker;
}
#endif

static struct starpu_task *pop(unsigned context)
{
    queue *q = starpu_sched_ctx_get_policy_data(context);
    if (q == NULL) {
        return NULL;
    }
    unsigned worker = starpu_worker_get_id_check();
    struct starpu_task *task = NULL;
    int heap = heap_for(q, worker);
    if (heap >= 0) {
        lock(q);
        task = is_paused(q) ? NULL : weft_heap_take(&q->heaps[heap], worker); /* again: it may have begun since */
        if (task != NULL) {
            count_elsewhere(task, &q->queued_us[q->heap_of[worker]]);
            weft_idle_found(&q->idle[q->heap_of[worker]], &q->workers[worker]);
        }
        starpu_pthread_mutex_unlock(&q->mutex);
    }
    if (task == NULL) {
        found_nothing(q, worker);
    }
    return task;
}

/* The task has been executed: its time is not queued any more. */
static void note_end(struct starpu_task *task, unsigned context)
{
    queue *q = starpu_sched_ctx_get_policy_data(context);
    if (q == NULL || q->asks == NULL || task->sched_data == NULL) {
        return;
    }
    lock(q);
    count_elsewhere(task, NULL);
    starpu_pthread_mutex_unlock(&q->mutex);
}

static struct starpu_sched_policy policy = {
    .init_sched = start,
    .deinit_sched = stop,
    .add_workers = add_workers,
    .push_task = push,
    .pop_task = pop,
    .post_exec_hook = note_end,
    .policy_name = "weft",
    .policy_description = "a queue for CPUs and one for each device, in the order of submission; workers without tasks sleep",
    .worker_type = STARPU_WORKER_LIST,
};

struct starpu_sched_policy *weft_sched_policy(void)
{
    return getenv("STARPU_SCHED") == NULL ? &policy : NULL;
}

bool weft_sched_has_started(void)
{
    return starpu_sched_ctx_get_policy_data(0) != NULL; /* of the context that starpu_init() makes */
}

void weft_sched_use_models(weft_sched_asks asks, bool explores)
{
    queue *q = starpu_sched_ctx_get_policy_data(0);
    if (q != NULL) {
        q->asks = asks;
        q->explores = explores;
    }
}

/* ---- sleeping ------------------------------------------------------------------------------------------ */

/* NULL: another policy decides. */
static queue *own_queue(void)
{
    const struct starpu_sched_policy *used = starpu_sched_get_sched_policy_in_ctx(0);
    return used != NULL && used->pop_task == pop ? starpu_sched_ctx_get_policy_data(0) : NULL;
}

static void wake_all(queue *q)
{
    for (int i = 0; i < STARPU_MAXNODES; i++) {
        weft_idle_wake_all(&q->idle[i]);
    }
}

void weft_sched_pause(void)
{
    queue *q = own_queue();
    if (q == NULL) {
        starpu_pause();
        return;
    }
    starpu_pthread_mutex_lock(&q->mutex);
    atomic_store(&q->paused, true);
    starpu_pthread_mutex_unlock(&q->mutex);
}

void weft_sched_resume(void)
{
    queue *q = own_queue();
    if (q == NULL) {
        starpu_resume();
        return;
    }
    starpu_pthread_mutex_lock(&q->mutex);
    atomic_store(&q->paused, false);
    wake_all(q);
    starpu_pthread_mutex_unlock(&q->mutex);
#ifndef STARPU_NON_BLOCKING_DRIVERS
    starpu_wake_all_blocked_workers();
#endif
}

void weft_sched_stop(void)
{
    queue *q = own_queue();
    if (q != NULL) {
        starpu_pthread_mutex_lock(&q->mutex);
        q->stopping = true;
        wake_all(q);
        starpu_pthread_mutex_unlock(&q->mutex);
    }
}

unsigned weft_sched_missed(void)
{
    queue *q = own_queue();
    return q == NULL ? 0 : atomic_load(&q->missed);
}

int weft_sched_asleep(void)
{
    queue *q = own_queue();
    unsigned asleep = 0;
    for (int i = 0; i < STARPU_MAXNODES && q != NULL; i++) {
        asleep += atomic_load(&q->idle[i].asleep);
    }
    return (int)asleep;
}

int weft_sched_priority(int64_t operation, double position)
{
    /* Restarts every thirty million operations: that disturbs the order for a moment, and nothing else. */
    enum { GRAIN = 64, MAX_OPERATIONS = INT_MAX / GRAIN - LOOK_AHEAD };
    return -(int)(operation % MAX_OPERATIONS * GRAIN) - (int)(position * LOOK_AHEAD * GRAIN);
}
