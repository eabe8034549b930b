#include "comm/trace.h"

#include "runtime/trace.h"

void weft_comm_trace_event(const weft_message *message, bool receive, bool ended, const char *label)
{
    weft_trace_event("weft %s %s %d %u %d %d %lld %s", receive ? "recv" : "send", ended ? "<" : ">",
                     message->peer, (unsigned)message->tag, message->source_rank, message->target_rank,
                     (long long)message->bytes, label);
}
