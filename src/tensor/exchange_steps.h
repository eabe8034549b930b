/* What an exchange is made of: shared by exchange.c, which builds it, and exchange_run.c, which submits it.
 */
#ifndef WEFT_SRC_TENSOR_EXCHANGE_STEPS_H
#define WEFT_SRC_TENSOR_EXCHANGE_STEPS_H

#include "codelets/copy.h"
#include "comm/comm.h"
#include "tensor/exchange.h"

enum { MAX_SOURCES = WEFT_MAX_OPERANDS - 1 };

/* A hosted shard's panel, of the source or of the target tensor; or (shard -1) the landing buffer of that
 * number. */
typedef struct place {
    int shard;
    int64_t panel;
    bool in_target;
} place;

typedef enum step_kind { SEND, RECEIVE, LAND, COPY, REDUCE } step_kind;

/* What is submitted at once: a transfer, or a task. */
typedef struct exchange_step {
    step_kind kind;
    place target;    /* the panel acquired or written; of SEND: the panel read; of LAND: the landing buffer */
    double position; /* of the panel's rows in the tensor: 0 to 1 */
    bool whole;      /* nothing of the panel's former contents is needed */
    int count;       /* messages, or sources */
    weft_message *messages;     /* SEND, RECEIVE, LAND; tags count from the run's first */
    place sources[MAX_SOURCES]; /* COPY, REDUCE */
    int64_t offsets[1 + MAX_SOURCES]; /* of these: the target, then the sources; bytes in their panels */
    union {
        weft_task_args base;
        weft_copy_args copy;
        weft_reduce_args reduce;
    } * args;
} exchange_step;

/* A buffer for addends of other processes. Used again when there are enough: StarPU orders the next use after
 * the reduction that reads it, and until then nothing is received. */
typedef struct landing {
    int64_t bytes;
    bool read; /* while building: the step that reads what comes next is there already */
} landing;

/* Landings of one size, in the order in which they are used. */
typedef struct landing_ring {
    weft_vec numbers; /* int64_t */
    size_t oldest;    /* index of the one that was used first */
} landing_ring;

typedef struct tag_range { /* messages with one process in one run */
    uint32_t count;
    uint32_t first; /* of the run under way */
} tag_range;

struct weft_exchange {
    weft_stage stage;
    uint64_t digest; /* of what both sides of a message have in common: layouts and ranks */
    bool streams;                        /* copies go past the caches */
    weft_vec steps;                      /* exchange_step */
    weft_vec landings;                   /* landing */
    landing_ring rings[63];              /* those of 2^i bytes */
    int64_t landing_bytes;               /* of all of them */
    tag_range *sends, *receives;         /* one per process */
    int max_messages;                    /* of one step */
    uint64_t transfers, bytes, messages; /* received in one run, for the counters */
};

#endif
