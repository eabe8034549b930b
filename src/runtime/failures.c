#include "runtime/failures.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "runtime/runtime.h"
#include "runtime/variables.h"

enum { MESSAGE_SIZE = 1024 };

/* Failures that the program has not queried: of the thread that may call weft, and of all others, whose
 * errors that thread cannot query. */
typedef struct unseen {
    uint64_t count;
    char first[MESSAGE_SIZE];
} unseen;

/* Valid before weft_init(), as the errors are. */
static struct {
    pthread_mutex_t mutex;
    unseen own, elsewhere;
    atomic_bool any;
} failures = { .mutex = PTHREAD_MUTEX_INITIALIZER };

weft_on_error weft_on_error_read(void)
{
    const char *text = weft_variable_text(WEFT_VARIABLE_ON_ERROR);
    return text == NULL                     ? WEFT_ON_ERROR_KEEP
           : strcasecmp(text, "print") == 0 ? WEFT_ON_ERROR_PRINT
           : strcasecmp(text, "abort") == 0 ? WEFT_ON_ERROR_ABORT
                                            : WEFT_ON_ERROR_UNKNOWN;
}

const char *weft_stderr_prefix(char *text, size_t size)
{
    if (weft_runtime.num_processes > 1) {
        snprintf(text, size, "weft: process %d: ", weft_runtime.process);
    } else {
        snprintf(text, size, "weft: ");
    }
    return text;
}

void weft_failure_show(const char *message)
{
    weft_on_error wanted = weft_on_error_read();
    if (wanted == WEFT_ON_ERROR_PRINT || wanted == WEFT_ON_ERROR_ABORT) {
        char prefix[48];
        fprintf(stderr, "%s%s\n", weft_stderr_prefix(prefix, sizeof(prefix)), message);
    }
    if (wanted == WEFT_ON_ERROR_ABORT) {
        abort(); /* the debugger's stack shows the call that failed */
    }
}

void weft_failure_count(const char *message)
{
    pthread_mutex_lock(&failures.mutex);
    unseen *mine = weft_may_call() ? &failures.own : &failures.elsewhere;
    if (mine->count++ == 0) {
        snprintf(mine->first, sizeof(mine->first), "%s", message);
    }
    atomic_store(&failures.any, true);
    pthread_mutex_unlock(&failures.mutex);
}

void weft_failures_seen(void)
{
    if (!atomic_load_explicit(&failures.any, memory_order_relaxed)) {
        return;
    }
    pthread_mutex_lock(&failures.mutex);
    (weft_may_call() ? &failures.own : &failures.elsewhere)->count = 0;
    atomic_store(&failures.any, failures.own.count + failures.elsewhere.count > 0);
    pthread_mutex_unlock(&failures.mutex);
}

void weft_failures_forget(void)
{
    pthread_mutex_lock(&failures.mutex);
    failures.own.count = failures.elsewhere.count = 0;
    atomic_store(&failures.any, false);
    pthread_mutex_unlock(&failures.mutex);
}

static void tell(FILE *file, const unseen *u, const char *where)
{
    char prefix[48];
    if (u->count > 0) {
        fprintf(file,
                "%s%llu call%s failed%s, and the program did not ask (weft_last_status()); %s: %s "
                "(WEFT_ON_ERROR=print shows each, WEFT_SILENT=1 none)\n",
                weft_stderr_prefix(prefix, sizeof(prefix)), (unsigned long long)u->count,
                u->count == 1 ? "" : "s", where, u->count == 1 ? "it was" : "the first was", u->first);
    }
}

void weft_failures_tell(FILE *file)
{
    if (weft_on_error_read() != WEFT_ON_ERROR_PRINT) {
        tell(file, &failures.own, "");
        tell(file, &failures.elsewhere, " before weft_init(), on other threads or in deleters");
    }
    weft_failures_forget();
}
