/* The error of weft_last_error(), and errors of tasks and of the progress thread, kept for later. */
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "runtime/failures.h"
#include "runtime/runtime.h"

enum { MESSAGE_SIZE = 2048 };

/* Per thread: an error of a thread that must not call weft disturbs no other. Works before weft_init() and
 * after weft_finalize(), so it is not part of weft_runtime. */
static _Thread_local struct {
    weft_status status;
    char message[MESSAGE_SIZE];
    weft_status latest;
} kept;

/* Any thread writes it. */
typedef struct late_error {
    weft_status status;
    char message[MESSAGE_SIZE];
} late_error;

static struct {
    pthread_mutex_t mutex;
    late_error next;        /* until it is collected */
    late_error broken;      /* until the world ends */
    bool broken_told;       /* a call has failed because of it; submitting thread only */
    weft_map operations; /* set: numbers of operations whose errors have arrived */
    atomic_bool is_broken;
} late = { .mutex = PTHREAD_MUTEX_INITIALIZER };

/* `here`: of a call that is made, at the line that the program has said. */
static void write_message(char *message, bool here, const char *function, const char *format, va_list arguments)
{
    here = here && weft_runtime.here != NULL;
    int used = here ? snprintf(message, MESSAGE_SIZE, "%s at %.1000s:%d: ", function, weft_runtime.here, weft_runtime.here_line)
                    : snprintf(message, MESSAGE_SIZE, "%s: ", function);
    if (used >= 0 && used < MESSAGE_SIZE) {
        vsnprintf(message + used, (size_t)(MESSAGE_SIZE - used), format, arguments);
    }
}

static void keep(weft_status status, const char *message)
{
    kept.latest = status;
    if (kept.status == WEFT_OK) {
        kept.status = status;
        memcpy(kept.message, message, sizeof(kept.message));
    }
}

/* True: the first error. The caller holds the mutex. */
static bool keep_first(late_error *error, weft_status status, const char *message)
{
    bool first = error->status == WEFT_OK;
    if (first) {
        error->status = status;
        memcpy(error->message, message, sizeof(error->message));
        atomic_store(&late.is_broken, late.broken.status != WEFT_OK);
    }
    return first;
}

static bool keep_late(late_error *error, weft_status status, const char *message)
{
    pthread_mutex_lock(&late.mutex);
    bool first = keep_first(error, status, message);
    pthread_mutex_unlock(&late.mutex);
    return first;
}

/* The other processes succeed in a call that failed here: breaks the world. */
static void tell_others(weft_status status, const char *message)
{
    const weft_runtime_state *state = &weft_runtime;
    if (!state->initialized || state->num_processes == 1 || state->comm == NULL || weft_is_broken()) {
        return;
    }
    char breaks[MESSAGE_SIZE];
    static const char addition[] = "; other processes may have gone on";
    snprintf(breaks, sizeof(breaks), "%.*s%s", (int)(MESSAGE_SIZE - sizeof(addition)), message, addition);
    late.broken_told = true;
    keep_late(&late.broken, status, breaks);
    state->give_up(state->comm);
}

/* `alone`: the call does not fail on the other processes. */
static void fail(weft_status status, bool alone, const char *function, const char *format, va_list arguments)
{
    char message[MESSAGE_SIZE];
    write_message(message, true, function, format, arguments);
    keep(status, message);
    weft_failure_count(message);
    weft_failure_show(message);
    if (alone) {
        tell_others(status, message);
    }
}

weft_status weft_fail(weft_status status, const char *function, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fail(status, status == WEFT_ERR_NOMEM, function, format, arguments);
    va_end(arguments);
    return status;
}

weft_status weft_fail_alone(weft_status status, const char *function, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fail(status, true, function, format, arguments);
    va_end(arguments);
    return status;
}

weft_status weft_fail_alike(weft_status status, const char *function, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fail(status, false, function, format, arguments);
    va_end(arguments);
    return status;
}

/* Whether this is the first error of an operation; without memory to record it, true. */
static bool is_first_of(uint64_t operation)
{
    const void *key = (const void *)(uintptr_t)operation;
    if (weft_map_has_pointer(&late.operations, key)) {
        return false;
    }
    weft_map_add_pointer(&late.operations, key);
    return true;
}

void weft_errors_forget_operations(void)
{
    pthread_mutex_lock(&late.mutex);
    weft_map_free(&late.operations);
    pthread_mutex_unlock(&late.mutex);
}

void weft_fail_later(uint64_t operation, weft_status status, const char *function, const char *format, ...)
{
    char message[MESSAGE_SIZE];
    /* The error is kept before the mutex is released: a later task of the operation may return at once, and the program may
     * then collect. */
    pthread_mutex_lock(&late.mutex);
    bool first = is_first_of(operation);
    if (first) {
        va_list arguments;
        va_start(arguments, format);
        write_message(message, false, function, format, arguments);
        va_end(arguments);
        keep_first(&late.next, status, message);
    }
    pthread_mutex_unlock(&late.mutex);
    if (first) {
        weft_failure_show(message);
    }
}

void weft_break(weft_status status, const char *function, const char *format, ...)
{
    char message[MESSAGE_SIZE];
    va_list arguments;
    va_start(arguments, format);
    write_message(message, false, function, format, arguments);
    va_end(arguments);
    if (keep_late(&late.broken, status, message)) {
        weft_failure_show(message);
    }
}

bool weft_is_broken(void)
{
    return atomic_load_explicit(&late.is_broken, memory_order_acquire);
}

weft_status weft_broken_by(char *message, size_t size)
{
    pthread_mutex_lock(&late.mutex);
    weft_status status = late.broken.status;
    snprintf(message, size, "%s", status == WEFT_OK ? "" : late.broken.message);
    pthread_mutex_unlock(&late.mutex);
    return status;
}

void weft_unbreak(void)
{
    pthread_mutex_lock(&late.mutex);
    late.broken.status = WEFT_OK;
    late.broken_told = false;
    atomic_store(&late.is_broken, false);
    pthread_mutex_unlock(&late.mutex);
}

weft_status weft_error_collect(void)
{
    pthread_mutex_lock(&late.mutex);
    /* Errors of tasks in a broken world follow from undefined inputs, and are dropped. */
    bool broken = late.broken.status != WEFT_OK;
    late_error error = broken ? late.broken : late.next;
    late.next.status = WEFT_OK;
    pthread_mutex_unlock(&late.mutex);
    if (error.status != WEFT_OK) {
        keep(error.status, error.message);
    }
    if (error.status != WEFT_OK && !(broken && late.broken_told)) {
        weft_failure_count(error.message);
        late.broken_told = broken;
    }
    return error.status;
}

weft_status weft_error_peek(char *message, size_t size)
{
    pthread_mutex_lock(&late.mutex);
    const late_error *error = late.broken.status != WEFT_OK ? &late.broken : &late.next;
    weft_status status = error->status;
    snprintf(message, size, "%s", status == WEFT_OK ? "" : error->message);
    pthread_mutex_unlock(&late.mutex);
    return status;
}

weft_status weft_latest_status(void)
{
    return kept.latest;
}

const char *weft_kept_message(void)
{
    return kept.status == WEFT_OK ? "" : kept.message;
}

weft_status weft_last_status(void)
{
    weft_failures_seen();
    return kept.status;
}

const char *weft_last_error(void)
{
    weft_failures_seen();
    return weft_kept_message();
}

void weft_clear_error(void)
{
    weft_failures_seen();
    kept.status = WEFT_OK;
    kept.message[0] = '\0';
}
