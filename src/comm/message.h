/* Messages between two processes. */
#ifndef WEFT_SRC_COMM_MESSAGE_H
#define WEFT_SRC_COMM_MESSAGE_H

#include "tasks/region.h"

/* One message between two processes. */
typedef struct weft_message {
    int peer; /* process */
    uint32_t tag;
    weft_region region;
    int64_t bytes;
    int source_rank, target_rank; /* for reports */
    uint64_t
        calls; /* of the calls up to the one that submits it, and of its layouts */
} weft_message;

/* Digest of what both sides must agree on beside the tag. If the program's calls differ between processes,
 * a message then finds no partner instead of a wrong one. */
static inline uint64_t weft_message_digest(const weft_message *message)
{
    uint64_t ranks = (uint64_t)message->source_rank << 32 | (uint32_t)message->target_rank;
    return weft_hash_u64(weft_hash_u64((uint64_t)message->bytes ^ message->calls) ^ ranks);
}

/* A small send ends when it has left, so a process that only sends could run ahead of a slow receiver and
 * fill the receiver's memory with unexpected messages. One in 64 is therefore sent synchronously, as large
 * ones are: the window (start_queue.h) then holds the others back. */
static inline bool weft_message_is_paced(const weft_message *message)
{
    enum { PACE = 64 };
    return message->tag % PACE == PACE - 1;
}

#endif
