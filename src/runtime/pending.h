/* Back-pressure: a count of submitted tasks and transfers that have not ended. Between two public calls
 * the submitting thread waits while it exceeds a limit, because each pending task takes some KB.
 *
 * The wait ends. Calls have the same order on all processes. A pending task or transfer of call n needs
 * messages of calls up to n only, and the process that is furthest behind waits before a call whose
 * predecessors have been submitted everywhere: everything it waits for is under way. Inside a call this
 * does not hold, because processes submit in different orders there.
 *
 * Tasks that wait for the program's own acquired shards (weft_local_acquire()) are not waited for. Too
 * many of them, and further calls are refused. */
#ifndef WEFT_SRC_RUNTIME_PENDING_H
#define WEFT_SRC_RUNTIME_PENDING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <starpu.h>

typedef struct weft_pending {
    atomic_llong count; /* unfinished tasks and transfers, in units of tasks; any thread */
    /* Wakes the submitting thread when count <= wake_at; -1: it does not wait. */
    atomic_llong wake_at;
    starpu_pthread_mutex_t mutex;
    starpu_pthread_cond_t fewer;
    /* Submitting thread only: */
    int64_t most; /* 0: no limit */
    bool held;    /* the program has acquired shards (weft_local_acquire()) */
    /* Upper bound of the tasks that wait for the program: reset when no shard is acquired, so it may
     * include ended ones. */
    int64_t for_program;
    int64_t bytes_for_program; /* the same for the pool's retired buffers */
    /* Set by src/tensor: whether writing the handle waits for the program; and keeping the error, which
     * names `why` and the acquired shards (returns false). */
    bool (*waits)(starpu_data_handle_t handle);
    bool (*refuse)(const char *function, const char *why);
    uint64_t calls; /* admitted calls; for tests */
    int composites; /* depth of nested composites */
} weft_pending;

/* NULL: no memory. */
weft_pending *weft_pending_new(int64_t most);
/* Everything must have ended. */
void weft_pending_delete(weft_pending *pending);

/* Counts submitted tasks, and their end on any thread. */
static inline void weft_pending_begin(weft_pending *pending, int64_t tasks)
{
    atomic_fetch_add_explicit(&pending->count, tasks, memory_order_relaxed);
}

void weft_pending_end(weft_pending *pending, int64_t tasks);

/* To be called before the first submission of a call. BLOCKS while too many tasks are pending, until half
 * have ended; does nothing inside a composite. False with the error kept (WEFT_ERR_STATE): too many tasks
 * wait for the program. */
bool weft_pending_admit(weft_pending *pending, const char *function);

#endif
