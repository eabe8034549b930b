/* A queue for all CPUs, and one for each device: heaps by priority, then by the order of arrival. */
#define _DEFAULT_SOURCE
#include "sched/sched.h"

#include <limits.h>
#include <sched.h>
#include <stdlib.h>

#include "sched/heap.h"

enum {
    /* The first rows of an operation go before the last rows of an operation submitted so many operations
     * earlier. Measured on two hosts, a step of char_lm: 118 ms with 1, 103 to 109 with 3 to 6, 150 with
     * 16. Gradients of weights are sums over all rows: the further ahead the first rows go, the later the
     * first gradient is complete and can leave. */
    LOOK_AHEAD = 4,
    /* Number of looks at an empty queue before a worker yields its core. */
    LOOKS_BEFORE_YIELDING = 8,
};

typedef struct queue {
    starpu_pthread_mutex_t mutex;
    /* By memory node: 0 for CPUs, others for the devices there. A task is in one of them. */
    weft_heap heaps[STARPU_MAXNODES];
    unsigned num_devices, devices[STARPU_MAXNODES];       /* a worker of each device's */
    unsigned char heap_of[STARPU_NMAXWORKERS];            /* number of the worker's heap */
    unsigned looks[STARPU_NMAXWORKERS]; /* unsuccessful ones; an entry is written by its worker */
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

/* The device that can execute the task and has most of its operands; of equal ones that with the fewest tasks. 0, the
 * CPUs': no device can. */
static unsigned choose_heap(const queue *q, struct starpu_task *task)
{
    unsigned best = 0;
    size_t most = 0;
    for (unsigned i = 0; i < q->num_devices; i++) {
        unsigned node = q->heap_of[q->devices[i]];
        if (!starpu_worker_can_execute_task_first_impl(q->devices[i], task, NULL)) {
            continue;
        }
        size_t bytes = q->num_devices == 1 ? 0 : bytes_there(task, node);
        if (best == 0 || bytes > most || (bytes == most && q->heaps[node].waiting < q->heaps[best].waiting)) {
            best = node;
            most = bytes;
        }
    }
    return best;
}

/* A device without tasks takes one of another device that has more than it can soon begin. 0: there is none. */
static unsigned busiest_other(const queue *q, unsigned own)
{
    enum { ENOUGH = 4 }; /* StarPU has two tasks of a device under way, and loads the operands of more */
    unsigned busiest = 0;
    for (unsigned i = 0; i < q->num_devices; i++) {
        unsigned node = q->heap_of[q->devices[i]];
        if (node != own && q->heaps[node].waiting > ENOUGH && (busiest == 0 || q->heaps[node].waiting > q->heaps[busiest].waiting)) {
            busiest = node;
        }
    }
    return busiest;
}

/* The heap that a worker takes its next task from; -1: there is none. Needs no mutex: the task may be gone. */
static int heap_for(const queue *q, unsigned worker)
{
    unsigned own = q->heap_of[worker];
    if (atomic_load_explicit(&q->heaps[own].waiting, memory_order_relaxed) > 0) {
        return (int)own;
    }
    unsigned other = own == 0 ? 0 : busiest_other(q, own);
    return other == 0 ? -1 : (int)other;
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
    starpu_pthread_mutex_destroy(&q->mutex);
    for (int i = 0; i < STARPU_MAXNODES; i++) {
        weft_heap_stop(&q->heaps[i]);
    }
    free(q);
}

static void add_workers(unsigned context, int *workers, unsigned count)
{
    queue *q = starpu_sched_ctx_get_policy_data(context);
    for (unsigned i = 0; i < count && q != NULL; i++) {
        unsigned worker = (unsigned)workers[i], node = starpu_worker_get_memory_node(worker);
        if (starpu_worker_get_type(workers[i]) == STARPU_CPU_WORKER || node >= STARPU_MAXNODES) {
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
#ifndef STARPU_NON_BLOCKING_DRIVERS
    helpers those;
    find_helpers(q, task, heap, &those);
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
    int heap = heap_for(q, worker);
    if (heap >= 0) {
        lock(q);
        task = weft_heap_take(&q->heaps[heap], worker);
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
    .add_workers = add_workers,
    .push_task = push,
    .pop_task = pop,
    .policy_name = "weft",
    .policy_description = "a queue for CPUs and one for each device, in the order of submission; workers without work yield their cores",
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
