/* Back-pressure: a count of what this process has submitted and what has not ended. Between two public calls
 * the submitting thread waits while there is too much of it, for each pending task takes some KB.
 *
 * No wait is for ever. Calls have one order on all processes. A pending task or transfer of call n needs
 * messages of calls up to n alone, and the process that has come least far waits before a call whose
 * predecessors all processes have submitted: all that it waits for is under way, the progress thread ends the
 * transfers, and it goes on. Inside a call this does not hold: there processes submit in different orders.
 *
 * What waits for the program (weft_local_acquire()) is no part of what is waited for. A program that has its
 * tasks wait for itself without end is refused further calls. */
#ifndef WEFT_SRC_RUNTIME_PENDING_H
#define WEFT_SRC_RUNTIME_PENDING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <starpu.h>

typedef struct weft_pending {
    atomic_llong count; /* of tasks that have not ended, and of transfers in tasks' worth; any thread */
    /* The submitting thread is to be woken when the count has fallen to that; -1: it does not wait. */
    atomic_llong wake_at;
    starpu_pthread_mutex_t mutex;
    starpu_pthread_cond_t fewer;
    /* Of the submitting thread: */
    int64_t most; /* 0: no limit */
    bool held;    /* the program holds shards (weft_local_acquire()) */
    /* Tasks among these that wait for the program, at most; those that have ended since are counted until it
     * holds nothing any more. */
    int64_t for_program;
    int64_t bytes_for_program; /* the same of the pool's buffers that are given up */
    /* Of src/tensor: whether who writes to the handle waits for the program; and keeping the error, which
     * says why and names what the program holds (returns false). */
    bool (*waits)(starpu_data_handle_t handle);
    bool (*refuse)(const char *function, const char *why);
    uint64_t calls; /* admitted; for tests */
    int composites; /* calls put together from others that are under way, one inside the other */
} weft_pending;

/* NULL: no memory. */
weft_pending *weft_pending_new(int64_t most);
/* All must have ended. */
void weft_pending_delete(weft_pending *pending);

/* What is submitted, and its end, on any thread. */
static inline void weft_pending_begin(weft_pending *pending, int64_t tasks)
{
    atomic_fetch_add_explicit(&pending->count, tasks, memory_order_relaxed);
}

void weft_pending_end(weft_pending *pending, int64_t tasks);

/* Before a call submits anything. BLOCKS while too many tasks are pending, until half of them have ended.
 * False with the error kept (WEFT_ERR_STATE): too many wait for the program. Inside a composite nothing is
 * waited for. */
bool weft_pending_admit(weft_pending *pending, const char *function);

#endif
