/* weft's part of StarPU's traces (STARPU_FXT_TRACE=1): names, and events that script/profile reads.
 * Without tracing weft_runtime.trace is NULL, and the check of it is the only cost.
 *
 * Events are StarPU's "user events", lines of text that begin with "weft", read by
 * tools/profile/traces.py:
 *
 *     weft clock PROCESS PROCESSES MONOTONIC_NS REALTIME_NS MACHINE     once, at the start
 *     weft part WORKER NS TIMES OPERATION                               what a fused task on this worker did (src/graph/fuse)
 *     weft send|recv >|< PEER TAG SOURCE TARGET BYTES LABEL             a message begins, has ended (src/comm)
 */
#ifndef WEFT_SRC_RUNTIME_TRACE_H
#define WEFT_SRC_RUNTIME_TRACE_H

#include "runtime/runtime.h"

typedef struct weft_trace weft_trace;

/* Before starpu_init(): gives the trace of each process a file of its own. Errors are kept: StarPU aborts
 * if it cannot create the folder. */
weft_status weft_trace_identify(const char *function, int process);
/* After starpu_init(): the state of tracing; NULL: not tracing, or no memory. */
weft_trace *weft_trace_start(weft_process_place place);
/* After starpu_shutdown(), because tasks and handles point to the strings. */
void weft_trace_stop(weft_trace *trace);

/* Interns a string until weft_trace_stop(): equal strings are one pointer. "": no memory. Spaces become
 * '_', because starpu_fxt_tool writes names into Paje traces without quotes. Submitting thread, only while
 * tracing. */
const char *weft_trace_intern(const char *format, ...) WEFT_PRINTF(1, 2);

/* Writes an event into the trace; any thread. StarPU truncates it to 127 bytes. Quotes and control
 * characters, which would end a text or a line in starpu_fxt_tool's files, become '_'. */
void weft_trace_event(const char *format, ...) WEFT_PRINTF(1, 2);

#endif
