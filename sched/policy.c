/* One queue for all workers: a heap by priority, then by the order of arrival. */
#define _DEFAULT_SOURCE
#include "sched/sched.h"

#include <limits.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

enum {
    /* The first rows of an operation go before the last rows of an operation submitted so many operations
     * earlier. Measured on two hosts, a step of char_lm: 118 ms with 1, 103 to 109 with 3 to 6, 150 with
     * 16. Gradients of weights are sums over all rows: the further ahead the first rows go, the later the
     * first gradient is complete and can leave. */
    LOOK_AHEAD = 4,
    /* Number of looks at an empty queue before a worker yields its core. */
    LOOKS_BEFORE_YIELDING = 8,
};

typedef struct entry {
    struct starpu_task *task;
    int priority;
    uint64_t arrival;
} entry;

typedef struct queue {
    starpu_pthread_mutex_t mutex;
    entry *heap;
    size_t count, capacity;
    uint64_t arrivals;
    struct starpu_task_list unordered; /* without memory for the heap */
    atomic_size_t waiting;             /* tasks in both; read without the mutex */
    unsigned looks[STARPU_NMAXWORKERS]; /* unsuccessful ones; an entry is written by its worker */
} queue;

static bool goes_first(const entry *a, const entry *b)
{
    return a->priority != b->priority ? a->priority > b->priority : a->arrival < b->arrival;
}

static void swap(entry *a, entry *b)
{
    entry c = *a;
    *a = *b;
    *b = c;
}

static void sift_up(queue *q, size_t i)
{
    for (; i > 0 && goes_first(&q->heap[i], &q->heap[(i - 1) / 2]); i = (i - 1) / 2) {
        swap(&q->heap[i], &q->heap[(i - 1) / 2]);
    }
}

static void sift_down(queue *q, size_t i)
{
    for (size_t child; (child = 2 * i + 1) < q->count; i = child) {
        if (child + 1 < q->count && goes_first(&q->heap[child + 1], &q->heap[child])) {
            child++;
        }
        if (!goes_first(&q->heap[child], &q->heap[i])) {
            return;
        }
        swap(&q->heap[i], &q->heap[child]);
    }
}

static void add(queue *q, struct starpu_task *task)
{
    q->waiting++;
    if (q->count == q->capacity) {
        size_t capacity = q->capacity == 0 ? 256 : 2 * q->capacity;
        entry *heap = realloc(q->heap, capacity * sizeof(*heap));
        if (heap == NULL) {
            starpu_task_list_push_back(&q->unordered, task);
            return;
        }
        q->heap = heap;
        q->capacity = capacity;
    }
    q->heap[q->count] = (entry){ task, task->priority, q->arrivals++ };
    sift_up(q, q->count++);
}

static struct starpu_task *take(queue *q, size_t i)
{
    struct starpu_task *task = q->heap[i].task;
    q->heap[i] = q->heap[--q->count];
    if (i < q->count) {
        sift_up(q, i);
        sift_down(q, i);
    }
    return task;
}

static bool can_execute(unsigned worker, struct starpu_task *task)
{
    unsigned implementation;
    if (!starpu_worker_can_execute_task_first_impl(worker, task, &implementation)) {
        return false;
    }
    starpu_task_set_implementation(task, implementation);
    return true;
}

/* The first task for this worker: nearly always the top. If kinds of workers differ and the top is for
 * another kind, the best of the others. */
static struct starpu_task *find_for(queue *q, unsigned worker)
{
    if (q->count > 0 && can_execute(worker, q->heap[0].task)) {
        return take(q, 0);
    }
    size_t best = 0; /* none: the top cannot be it */
    for (size_t i = 1; i < q->count; i++) {
        if ((best == 0 || goes_first(&q->heap[i], &q->heap[best])) && can_execute(worker, q->heap[i].task)) {
            best = i;
        }
    }
    if (best > 0) {
        can_execute(worker, q->heap[best].task); /* says which implementation */
        return take(q, best);
    }
    for (struct starpu_task *task = starpu_task_list_begin(&q->unordered); task != NULL;
         task = starpu_task_list_next(task)) {
        if (can_execute(worker, task)) {
            starpu_task_list_erase(&q->unordered, task);
            return task;
        }
    }
    return NULL;
}

static struct starpu_task *take_for(queue *q, unsigned worker)
{
    struct starpu_task *task = find_for(q, worker);
    q->waiting -= task != NULL;
    return task;
}

/* ---- what StarPU calls --------------------------------------------------------------------------------- */

static void start(unsigned context)
{
    queue *q = calloc(1, sizeof(*q));
    if (q != NULL && starpu_pthread_mutex_init(&q->mutex, NULL) != 0) {
        free(q);
        q = NULL; /* read by weft_sched_has_started() */
    }
    if (q != NULL) {
        starpu_task_list_init(&q->unordered);
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
    starpu_pthread_mutex_destroy(&q->mutex);
    free(q->heap);
    free(q);
}

static void lock(queue *q)
{
    /* Other threads may read this worker's state meanwhile. */
    starpu_worker_relax_on();
    starpu_pthread_mutex_lock(&q->mutex);
    starpu_worker_relax_off();
}

#ifndef STARPU_NON_BLOCKING_DRIVERS
/* Workers that can execute a task. */
typedef struct helpers {
    int count;
    unsigned workers[STARPU_NMAXWORKERS];
} helpers;

/* The mutex is held: afterwards the task may be gone at any time. */
static void find_helpers(struct starpu_task *task, helpers *out)
{
    struct starpu_worker_collection *workers = starpu_sched_ctx_get_worker_collection(task->sched_ctx);
    struct starpu_sched_ctx_iterator iterator;
    out->count = 0;
    workers->init_iterator(workers, &iterator);
    while (workers->has_next(workers, &iterator)) {
        unsigned worker = (unsigned)workers->get_next(workers, &iterator);
        if (starpu_worker_can_execute_task_first_impl(worker, task, NULL)) {
            out->workers[out->count++] = worker;
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
    add(q, task);
    starpu_push_task_end(task);
#ifndef STARPU_NON_BLOCKING_DRIVERS
    helpers those;
    find_helpers(task, &those);
#endif
    starpu_pthread_mutex_unlock(&q->mutex);
#ifndef STARPU_NON_BLOCKING_DRIVERS
    wake_one(&those);
#endif
    return 0;
}

/* A worker that has often found nothing yields its core. If drivers block, it sleeps anyway, and yielding
 * would only delay the threads that want to wake it: StarPU holds the worker's mutex here. */
static void let_others_run(queue *q, unsigned worker)
{
#ifdef STARPU_NON_BLOCKING_DRIVERS
    if (++q->looks[worker] > LOOKS_BEFORE_YIELDING) {
        sched_yield();
    }
#else
    (void)q;
    (void)worker;
#endif
}

static struct starpu_task *pop(unsigned context)
{
    queue *q = starpu_sched_ctx_get_policy_data(context);
    if (q == NULL) {
        return NULL;
    }
    unsigned worker = starpu_worker_get_id_check();
    struct starpu_task *task = NULL;
    if (atomic_load_explicit(&q->waiting, memory_order_relaxed) > 0) {
        lock(q);
        task = take_for(q, worker);
        starpu_pthread_mutex_unlock(&q->mutex);
    }
    if (task != NULL) {
        q->looks[worker] = 0;
        return task;
    }
    let_others_run(q, worker);
    return NULL;
}

static struct starpu_sched_policy policy = {
    .init_sched = start,
    .deinit_sched = stop,
    .push_task = push,
    .pop_task = pop,
    .policy_name = "weft",
    .policy_description = "one queue, in the order of submission; workers without work yield their cores",
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

int weft_sched_priority(uint64_t operation, double position)
{
    /* Restarts every thirty million operations: that disturbs the order for a moment, and nothing else. */
    enum { GRAIN = 64, MAX_OPERATIONS = INT_MAX / GRAIN - LOOK_AHEAD };
    return -(int)(operation % MAX_OPERATIONS * GRAIN) - (int)(position * LOOK_AHEAD * GRAIN);
}
