#include "runtime/trace.h"

#include <starpu.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/map.h"
#include "machine/folder.h"

enum { EVENT_SIZE = 128, TEXT_SIZE = 256 };

struct weft_trace {
    weft_map texts; /* char * */
};

/* A StarPU without FxT has neither starpu_fxt_is_enabled() nor starpu_profiling_set_id(). */
static bool is_wanted(void)
{
#ifdef STARPU_USE_FXT
    return starpu_fxt_is_enabled() > 0;
#else
    return false;
#endif
}

static bool folder_is_writable(const char *path)
{
    int folder = weft_folder_open(path, S_IRWXU); /* with the mode that StarPU uses */
    bool writable = folder >= 0 && weft_folder_writable(folder);
    if (folder >= 0) {
        close(folder);
    }
    return writable;
}

weft_status weft_trace_identify(const char *function, int process)
{
    const char *folder = getenv("STARPU_FXT_PREFIX");
    if (!is_wanted()) {
        return WEFT_OK;
    }
    if (folder != NULL && !folder_is_writable(folder)) {
        return weft_fail(WEFT_ERR_IO, function,
                         "STARPU_FXT_PREFIX is \"%s\", a folder that cannot be written", folder);
    }
#ifdef STARPU_USE_FXT
    starpu_profiling_set_id(process);
#else
    (void)process;
#endif
    return WEFT_OK;
}

static long long now_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (long long)now.tv_sec * 1000000000 + now.tv_nsec;
}

weft_trace *weft_trace_start(weft_process_place place)
{
    weft_trace *trace = is_wanted() ? calloc(1, sizeof(*trace)) : NULL;
    if (trace != NULL) {
        char machine[40];
        weft_machine_name(machine, sizeof(machine));
        weft_trace_event("weft clock %d %d %lld %lld %s", place.process, place.num_processes,
                         now_ns(CLOCK_MONOTONIC), now_ns(CLOCK_REALTIME), machine);
    }
    return trace;
}

void weft_trace_stop(weft_trace *trace)
{
    if (trace == NULL) {
        return;
    }
    weft_map_free_texts(&trace->texts);
    free(trace);
}

/* Writes at most size - 1 bytes; quotes and bytes below `lowest` become '_'. */
static void write_plain(char *buffer, size_t size, unsigned char lowest, const char *format,
                        va_list arguments)
{
    vsnprintf(buffer, size, format, arguments);
    for (char *c = buffer; *c != '\0'; c++) {
        if ((unsigned char)*c < lowest || *c == '"' || *c == '\\' || *c == 127) {
            *c = '_';
        }
    }
}

const char *weft_trace_intern(const char *format, ...)
{
    char buffer[TEXT_SIZE];
    va_list arguments;
    va_start(arguments, format);
    write_plain(buffer, sizeof(buffer), ' ' + 1, format, arguments);
    va_end(arguments);
    const char *text = weft_map_intern(&weft_runtime.trace->texts, buffer);
    return text == NULL ? "" : text;
}

void weft_trace_event(const char *format, ...)
{
    char buffer[EVENT_SIZE];
    va_list arguments;
    va_start(arguments, format);
    write_plain(buffer, sizeof(buffer), ' ', format, arguments);
    va_end(arguments);
    starpu_fxt_trace_user_event_string(buffer);
}
