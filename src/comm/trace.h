/* Messages in StarPU's trace. */
#ifndef WEFT_SRC_COMM_TRACE_H
#define WEFT_SRC_COMM_TRACE_H

#include "comm/comm.h"

void weft_comm_trace_event(const weft_message *message, bool receive, bool ended, const char *label);

/* Marks that a message is handed to the transport, or has ended. Does nothing unless tracing. */
static inline void weft_comm_trace(const weft_message *message, bool receive, bool ended, const char *label)
{
    if (weft_runtime.trace != NULL) {
        weft_comm_trace_event(message, receive, ended, label);
    }
}

#endif
