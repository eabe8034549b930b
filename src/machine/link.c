/* Measures the link between two processes. Process 0 asks and its partner answers: both take the same
 * steps with the roles of sender and receiver exchanged. The stream consists of messages of 60 KB, like
 * weft's own (weft_machine_messages()), and none travels in a pack. */
#include <starpu.h>
#include <stdlib.h>
#include <string.h>

#include "machine/agree.h"

enum {
    WORD_BYTES = 8,
    PIECE_BYTES = 60 * 1024,
    PIECES = 17,
    PING_PONGS = 25,
    BURSTS = 5,
    BURST = 48,
    MAX_ROUNDS = 7
};

/* By then a slow link has been measured well enough. */
static const double max_rate_us = 60e3;

typedef struct probe {
    const weft_peers *peers;
    int peer;
    bool asks;    /* process 0 */
    char *memory; /* PIECES pieces */
    bool failed;
} probe;

/* `count` messages one way: from the asking process if `forth`. */
static void pass(probe *p, bool forth, int count, int64_t bytes)
{
    bool receive = p->asks != forth;
    p->failed = p->failed || !p->peers->pass(p->peers->state, p->peer, receive, count, bytes, p->memory);
}

/* `count` messages to the partner, and its confirmation. */
static double round_trip_us(probe *p, int count, int64_t bytes)
{
    double begin_us = starpu_timing_now();
    pass(p, true, count, bytes);
    pass(p, false, 1, WORD_BYTES);
    return starpu_timing_now() - begin_us;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The lower quartile: disturbances only slow a message down, but one that is there at the first look is
 * luck. */
static double typical(double values[], int count)
{
    qsort(values, (size_t)count, sizeof(values[0]), compare);
    return values[count / 4];
}

/* The median of several, without the first. */
static double typical_trip_us(probe *p, int times, int count, int64_t bytes)
{
    double us[PING_PONGS];
    round_trip_us(p, count, bytes);
    for (int i = 0; i < times; i++) {
        us[i] = round_trip_us(p, count, bytes);
    }
    return typical(us, times);
}

/* Streams until there are enough, or the time is over, which process 0 announces before each. The first
 * one is not counted: it may find free buffers on its way (a token bucket) that a long stream does not
 * have. */
static double stream_us(probe *p, double trip_us)
{
    double us[MAX_ROUNDS], begin_us = starpu_timing_now();
    int rounds = 0;
    for (bool more = true; more && !p->failed;) {
        more = rounds < MAX_ROUNDS && (rounds < 2 || starpu_timing_now() - begin_us < max_rate_us);
        memcpy(p->memory, &more, sizeof(more));
        pass(p, true, 1, WORD_BYTES);
        memcpy(&more, p->memory, sizeof(more));
        if (more && !p->failed) {
            us[rounds++] = round_trip_us(p, PIECES, PIECE_BYTES) - trip_us;
        }
    }
    return rounds > 1 ? typical(us + 1, rounds - 1) : 0;
}

static double at_least(double value, double least)
{
    return value > least ? value : least;
}

weft_status weft_link_measure(const weft_peers *peers, int peer, weft_link *link)
{
    /* The remainder is below the resolution of clock and scheduler. */
    const double least_us = 0.05;
    probe p = {
        .peers = peers, .peer = peer, .asks = peers->process == 0, .memory = calloc(PIECES, PIECE_BYTES)
    };
    if (p.memory == NULL) {
        return WEFT_ERR_NOMEM;
    }
    double trip_us = typical_trip_us(&p, PING_PONGS, 1, WORD_BYTES);
    double burst_us = typical_trip_us(&p, BURSTS, BURST, WORD_BYTES);
    double bytes_us = stream_us(&p, trip_us);
    *link =
        (weft_link){ at_least(trip_us / 2, least_us), at_least((burst_us - trip_us) / (BURST - 1), least_us),
                     (double)PIECES * PIECE_BYTES / at_least(bytes_us, least_us) };
    if (p.failed) {
        return WEFT_ERR_COMM; /* messages may still use the memory */
    }
    free(p.memory);
    return WEFT_OK;
}
