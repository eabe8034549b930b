/* What weft adds to StarPU's traces (STARPU_FXT_TRACE=1): names, and events that script/profile reads. When
 * the process does not trace, weft_runtime.trace is NULL, and looking at it is all that tracing costs.
 *
 * Events are StarPU's "user events", lines of text that begin with "weft"; tools/profile/traces.py reads
 * them:
 *
 *     weft clock PROCESS PROCESSES MONOTONIC_NS REALTIME_NS MACHINE     once, at the start
 *     weft send|recv >|< PEER TAG SOURCE TARGET BYTES LABEL             a message begins, has ended
 * (src/comm) */
#ifndef WEFT_SRC_RUNTIME_TRACE_H
#define WEFT_SRC_RUNTIME_TRACE_H

#include "runtime/runtime.h"

typedef struct weft_trace weft_trace;

/* Before starpu_init(): gives the trace of each process a file of its own. Errors are kept: StarPU ends the
 * program where it cannot make the folder. */
weft_status weft_trace_identify(const char *function, int process);
/* After it: what the process traces with; NULL when it does not trace, or for lack of memory. */
weft_trace *weft_trace_start(weft_process_place place);
/* After starpu_shutdown(): tasks and handles hold the strings. */
void weft_trace_stop(weft_trace *trace);

/* The string, kept until weft_trace_stop(): equal strings are the same pointer. "" for lack of memory. Spaces
 * become
 * '_', because starpu_fxt_tool writes names into Paje traces without quotes. Of the submitting thread; only
 * while tracing. */
const char *weft_trace_intern(const char *format, ...) WEFT_PRINTF(1, 2);

/* Writes an event into the trace; any thread. StarPU cuts it after 127 bytes. Quotes and control characters,
 * which would end a text or a line in the files of starpu_fxt_tool, become '_'. */
void weft_trace_event(const char *format, ...) WEFT_PRINTF(1, 2);

#endif
