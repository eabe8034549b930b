#include "runtime/pending.h"

#include <stdio.h>
#include <stdlib.h>

#include "runtime/pool.h"
#include "runtime/runtime.h"

/* A pending task takes 2 to 5 KB. Half of the limit, left when submission resumes, is 16 ms of the
 * smallest tasks (2 us) for one worker: more than waking takes. */
enum { DEFAULT_MOST = 16384 };

weft_pending *weft_pending_new(int64_t most)
{
    weft_pending *pending = calloc(1, sizeof(*pending));
    if (pending != NULL) {
        pending->most = most == 0 ? DEFAULT_MOST : weft_max_i64(most, 0);
        atomic_init(&pending->count, 0);
        atomic_init(&pending->wake_at, -1);
        starpu_pthread_mutex_init(&pending->mutex, NULL);
        starpu_pthread_cond_init(&pending->fewer, NULL);
    }
    return pending;
}

void weft_pending_delete(weft_pending *pending)
{
    if (pending != NULL) {
        starpu_pthread_mutex_destroy(&pending->mutex);
        starpu_pthread_cond_destroy(&pending->fewer);
        free(pending);
    }
}

/* Either this thread sees wake_at, or the submitting thread sees the new count before it waits
 * (sequentially consistent accesses). The thread that takes wake_at signals; later ones need no lock. */
void weft_pending_end(weft_pending *pending, int64_t tasks)
{
    long long left = atomic_fetch_sub(&pending->count, tasks) - tasks;
    if (left <= atomic_load(&pending->wake_at) && atomic_exchange(&pending->wake_at, -1) >= 0) {
        starpu_pthread_mutex_lock(&pending->mutex);
        starpu_pthread_cond_signal(&pending->fewer);
        starpu_pthread_mutex_unlock(&pending->mutex);
    }
}

/* Waits until count <= left. The count cannot rise meanwhile: only this thread submits. */
static void wait_for(weft_pending *pending, int64_t left)
{
    weft_end_pause();
    starpu_pthread_mutex_lock(&pending->mutex);
    atomic_store(&pending->wake_at, left);
    while (atomic_load(&pending->count) > left) {
        starpu_pthread_cond_wait(&pending->fewer, &pending->mutex);
        /* A late thread of the previous wait may have taken wake_at. */
        atomic_store(&pending->wake_at, left);
    }
    atomic_store(&pending->wake_at, -1);
    starpu_pthread_mutex_unlock(&pending->mutex);
}

static bool refuse(const weft_pending *pending, const char *function)
{
    char why[160];
    snprintf(why, sizeof(why),
             "%lld tasks wait for weft_local_release(), as many as may be pending (WEFT_MAX_PENDING_TASKS)",
             (long long)pending->for_program);
    return pending->refuse(function, why);
}

bool weft_pending_admit(weft_pending *pending, const char *function)
{
    if (pending->composites > 0) {
        return true;
    }
    int64_t most = pending->most;
    if (most > 0 && atomic_load_explicit(&pending->count, memory_order_relaxed) >= most) {
        if (pending->for_program >= most) {
            return refuse(pending, function);
        }
        wait_for(pending, weft_max_i64(most / 2, pending->for_program));
    }
    if (!weft_pool_admit(weft_runtime.pool, function)) {
        return false;
    }
    pending->calls++;
    return true;
}
