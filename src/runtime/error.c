/* The error that weft_last_error() tells, and those that tasks and the progress thread leave for later. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "runtime/runtime.h"

enum { MESSAGE_SIZE = 512 };

/* Works before weft_init() and after weft_finalize(), so it is not part of weft_runtime. */
static struct {
    weft_status status;
    char message[MESSAGE_SIZE];
    weft_status latest;
} kept;

/* Written by any thread. */
static struct {
    pthread_mutex_t mutex;
    weft_status status;
    char message[MESSAGE_SIZE];
} late = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static void write_message(char *message, const char *function, const char *format, va_list arguments)
{
    int used = snprintf(message, MESSAGE_SIZE, "%s: ", function);
    if (used >= 0 && used < MESSAGE_SIZE) {
        vsnprintf(message + used, (size_t)(MESSAGE_SIZE - used), format, arguments);
    }
}

weft_status weft_fail(weft_status status, const char *function, const char *format, ...)
{
    kept.latest = status;
    if (kept.status == WEFT_OK) {
        kept.status = status;
        va_list arguments;
        va_start(arguments, format);
        write_message(kept.message, function, format, arguments);
        va_end(arguments);
    }
    return status;
}

void weft_fail_later(weft_status status, const char *function, const char *format, ...)
{
    pthread_mutex_lock(&late.mutex);
    if (late.status == WEFT_OK) {
        late.status = status;
        va_list arguments;
        va_start(arguments, format);
        write_message(late.message, function, format, arguments);
        va_end(arguments);
    }
    pthread_mutex_unlock(&late.mutex);
}

weft_status weft_error_collect(void)
{
    pthread_mutex_lock(&late.mutex);
    weft_status status = late.status;
    if (status != WEFT_OK && kept.status == WEFT_OK) {
        kept.status = status;
        memcpy(kept.message, late.message, sizeof(kept.message));
    }
    late.status = WEFT_OK;
    pthread_mutex_unlock(&late.mutex);
    return status;
}

weft_status weft_latest_status(void)
{
    return kept.latest;
}

weft_status weft_require_init(const char *function)
{
    if (weft_runtime.initialized) {
        return WEFT_OK;
    }
    return weft_fail(WEFT_ERR_STATE, function, "weft_init() has not been called");
}

weft_status weft_last_status(void)
{
    return kept.status;
}

const char *weft_last_error(void)
{
    return kept.status == WEFT_OK ? "" : kept.message;
}

void weft_clear_error(void)
{
    kept.status = WEFT_OK;
    kept.message[0] = '\0';
}
