#include "runtime/thread.h"

#include <pthread.h>
#include <starpu.h>
#include <stdatomic.h>

/* its address identifies the thread */
static _Thread_local char here;

/* In the place of the owner while no thread may call. */
static const char barred;

/* Any thread reads it, and forked children: so it is not part of weft_runtime. */
static struct {
    _Atomic(const char *) owner; /* NULL: not running */
    atomic_bool forked;
    pthread_once_t once;
    int follow_error; /* of pthread_atfork() */
} callers = { .once = PTHREAD_ONCE_INIT };

/* In the child of fork(), which has a single thread. */
static void become_child(void)
{
    if (atomic_load(&callers.owner) != NULL) {
        atomic_store(&callers.forked, true);
        atomic_store(&callers.owner, NULL);
    }
}

static void follow_forks(void)
{
    callers.follow_error = pthread_atfork(NULL, NULL, become_child);
}

/* Keeps the error that says why the calling thread may not call. */
static weft_status refuse(const char *function, const char *owner)
{
    if (atomic_load(&callers.forked)) {
        return weft_fail(WEFT_ERR_STATE, function,
                         "weft was running when this process was forked: it is the parent's, and cannot be "
                         "called or started here");
    }
    if (owner == NULL) {
        return weft_fail(WEFT_ERR_STATE, function, "weft_init() has not been called");
    }
    if (owner == &barred) {
        return weft_fail(WEFT_ERR_STATE, function, "called by a deleter of a managed tensor, or by another thread while one "
                                                   "runs: weft cannot be called until it returns");
    }
    if (starpu_worker_get_id() >= 0) {
        return weft_fail(WEFT_ERR_STATE, function,
                         "called from a task: kernels and callbacks cannot call weft");
    }
    return weft_fail(WEFT_ERR_STATE, function, "called from another thread than weft_init() was");
}

weft_status weft_thread_claim(const char *function)
{
    pthread_once(&callers.once, follow_forks);
    if (callers.follow_error != 0) {
        return weft_fail(WEFT_ERR_NOMEM, function, "no memory to follow fork()");
    }
    const char *owner = NULL;
    if (atomic_load(&callers.forked) || !atomic_compare_exchange_strong(&callers.owner, &owner, &here)) {
        return owner == &here ? weft_fail(WEFT_ERR_STATE, function, "weft is initialised already")
                              : refuse(function, owner);
    }
    return WEFT_OK;
}

void weft_thread_leave(void)
{
    atomic_store(&callers.owner, NULL);
}

void weft_thread_call_barred(void (*function)(void *argument), void *argument)
{
    const char *owner = atomic_exchange(&callers.owner, &barred);
    function(argument);
    const char *expected = &barred;
    atomic_compare_exchange_strong(&callers.owner, &expected, owner); /* a forked child has no owner */
}

bool weft_thread_none(void)
{
    return atomic_load(&callers.owner) == NULL && !atomic_load(&callers.forked);
}

bool weft_thread_forked(void)
{
    return atomic_load(&callers.forked);
}

bool weft_may_call(void)
{
    return atomic_load_explicit(&callers.owner, memory_order_relaxed) == &here;
}

weft_status weft_require_init(const char *function)
{
    const char *owner = atomic_load_explicit(&callers.owner, memory_order_relaxed);
    return owner == &here ? WEFT_OK : refuse(function, owner);
}
