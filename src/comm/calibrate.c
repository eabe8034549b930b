#include "comm/calibrate.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/calibrate.h"

/* ---- one link ------------------------------------------------------------------------------------------ */

/* A probe's messages go between process 0 and a partner, which do the same steps with the roles of sender and
 * receiver exchanged. The stream is of messages of 60 KB, as weft's own are (weft_machine_messages()), and
 * none travels with others: the transport packs nothing before it is settled. */
enum {
    WORD_BYTES = 8,
    PIECE_BYTES = 60 * 1024,
    PIECES = 17,
    PING_PONGS = 25,
    BURSTS = 5,
    BURST = 48,
    MAX_ROUNDS = 7
};

/* After that a slow link has told enough. */
static const double max_rate_us = 60e3;

typedef struct probe {
    const weft_transport *transport;
    int process, peer;
    bool asks; /* process 0 */
    double timeout_us;
    char *memory; /* PIECES pieces */
    bool failed;
} probe;

/* Waits without sleeping at first: how soon a message is noticed is measured as well. But where there are
 * more processes than cores the partner may need this one. */
static void wait_for(probe *p, int messages)
{
    const double awake_us = 200, stopped_us = 1e6;
    double begin_us = starpu_timing_now(), last_us = begin_us, looked_us = begin_us;
    while (messages > 0 && !p->failed) {
        weft_finished finished[BURST];
        int count = p->transport->poll(p->transport->state, finished, BURST);
        for (int i = 0; i < count; i++) {
            p->failed = p->failed || finished[i].status != WEFT_OK;
        }
        messages -= count;
        double now_us = starpu_timing_now();
        last_us = count > 0 ? now_us : last_us;
        begin_us += now_us - looked_us > stopped_us ? now_us - looked_us : 0; /* this process was */
        looked_us = now_us;
        p->failed = p->failed || weft_is_broken() || (p->timeout_us > 0 && now_us - begin_us > p->timeout_us);
        if (count == 0 && now_us - last_us > awake_us) {
            nanosleep(&(struct timespec){ 0, 1000 }, NULL);
        } else if (count == 0) {
            sched_yield();
        }
    }
}

/* `count` messages one way: from the asking process if `forth`. */
static void pass(probe *p, bool forth, int count, int64_t bytes)
{
    bool receive = p->asks != forth;
    int source = receive ? p->peer : p->process, target = receive ? p->process : p->peer;
    for (int i = 0; i < count && !p->failed; i++) {
        weft_message message = { .peer = p->peer,
                                 .tag = (uint32_t)i,
                                 .region = { .offset = i * bytes, .run_bytes = bytes },
                                 .bytes = bytes,
                                 .source_rank = weft_runtime.first_rank_of[source],
                                 .target_rank = weft_runtime.first_rank_of[target] };
        p->failed = p->transport->start(p->transport->state, &message, receive, p->memory, p) != WEFT_OK;
    }
    wait_for(p, count);
}

/* So many messages to the partner, and its word that they are there. */
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

/* The lower quartile: what disturbs a message only slows it down, but one that is found at once is luck. */
static double typical(double values[], int count)
{
    qsort(values, (size_t)count, sizeof(values[0]), compare);
    return values[count / 4];
}

/* Of several, without the first. */
static double typical_trip_us(probe *p, int times, int count, int64_t bytes)
{
    double us[PING_PONGS];
    round_trip_us(p, count, bytes);
    for (int i = 0; i < times; i++) {
        us[i] = round_trip_us(p, count, bytes);
    }
    return typical(us, times);
}

/* Streams until there are enough, or the time is over: process 0 says before each whether it will be. The
 * first is not counted: it may find room on its way (buffers, a token bucket) that a long stream has not. */
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

/* The world is broken with the process that does not answer, unless it was broken before. */
static void give_up_on(const char *function, int process, double timeout_s)
{
    weft_break(WEFT_ERR_TIMEOUT, function,
               "process %d has not answered within %.1f s while the machines were measured", process,
               timeout_s);
}

/* Collective on the two processes. False: the world is broken, and messages may be left. */
static bool measure_link(const char *function, const weft_transport *transport, int peer, double timeout_s,
                         weft_link *link)
{
    /* What is cut off is the clock's and the scheduler's. */
    const double min_us = 0.05;
    probe p = { .transport = transport,
                .process = transport->place.process,
                .peer = peer,
                .asks = transport->place.process == 0,
                .timeout_us = timeout_s * 1e6,
                .memory = calloc(PIECES, PIECE_BYTES) };
    if (p.memory == NULL) {
        weft_break(WEFT_ERR_NOMEM, function, "no memory to measure a link");
        return false;
    }
    double trip_us = typical_trip_us(&p, PING_PONGS, 1, WORD_BYTES);
    double burst_us = typical_trip_us(&p, BURSTS, BURST, WORD_BYTES);
    double bytes_us = stream_us(&p, trip_us);
    *link = (weft_link){ at_least(trip_us / 2, min_us), at_least((burst_us - trip_us) / (BURST - 1), min_us),
                         (double)PIECES * PIECE_BYTES / at_least(bytes_us, min_us) };
    if (p.failed) {
        give_up_on(function, peer, timeout_s);
        return false; /* the transport may still use the memory */
    }
    free(p.memory);
    return true;
}

/* ---- all processes ------------------------------------------------------------------------------------- */

/* What process 0 tells all. First with what is to be measured (a partner is 0 where nothing is), and, where
 * something is, again when it has been. */
typedef struct briefing {
    weft_machine machine;
    bool builtin, kept;
    int machines;
    int near_partner, far_partner;
} briefing;

/* Figures of this machine alone: the built-in ones, all of them, where any could not be measured. Returns the
 * machine's lock, or -1. */
static int own_figures(const weft_settings *settings, briefing *b)
{
    static const weft_machine builtin = WEFT_MACHINE_DEFAULT;
    b->machine = builtin;
    b->builtin = settings->calibration == WEFT_CALIBRATE_OFF || settings->world == WEFT_WORLD_FAKE;
    if (b->builtin) {
        return -1;
    }
    int lock = weft_machine_lock();
    b->kept = weft_machine_load(&b->machine);
    if (!b->kept) {
        b->machine.near = b->machine.far = (weft_link){ 0 };
    }
    if (!b->kept || settings->calibration == WEFT_CALIBRATE_AGAIN) {
        b->kept = false;
        b->builtin = !weft_machine_measure(&b->machine);
        b->machine = b->builtin ? builtin : b->machine;
    }
    return lock;
}

/* Which links there are, and which of them have to be measured. `nodes`: of each process, the first one of
 * its machine. */
static void choose_partners(const int nodes[], int processes, bool again, briefing *b)
{
    int near = 0, far = 0;
    for (int p = processes - 1; p > 0; p--) {
        near = nodes[p] == nodes[0] ? p : near;
        far = nodes[p] != nodes[0] ? p : far;
        b->machines += nodes[p] == p;
    }
    b->machines += nodes[0] == 0;
    bool measures = !b->builtin;
    b->near_partner = measures && (again || !weft_link_known(&b->machine.near)) ? near : 0;
    b->far_partner = measures && (again || !weft_link_known(&b->machine.far)) ? far : 0;
}

static bool has_partners(const briefing *b)
{
    return b->near_partner > 0 || b->far_partner > 0;
}

/* With process 0 in the one role, and its partners in the other. */
static bool measure_links(const char *function, const weft_transport *transport, double timeout_s,
                          briefing *b)
{
    const struct {
        int partner;
        weft_link *link;
    } links[] = { { b->near_partner, &b->machine.near }, { b->far_partner, &b->machine.far } };
    int process = transport->place.process;
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(links); i++) {
        int partner = links[i].partner;
        if (partner > 0 && (process == 0 || process == partner) &&
            !measure_link(function, transport, process == 0 ? partner : 0, timeout_s, links[i].link)) {
            return false;
        }
    }
    return true;
}

/* Of process 0. It takes the machine's lock when all have come, so that other worlds do not wait for those of
 * this one. */
static void decide(const char *function, const weft_settings *settings, const weft_transport *transport,
                   briefing *b, int *lock)
{
    int processes = transport->place.num_processes;
    int *nodes = calloc((size_t)processes, sizeof(*nodes));
    bool *came = calloc((size_t)processes, sizeof(*came));
    if (nodes == NULL || came == NULL) {
        weft_break(WEFT_ERR_NOMEM, function, "no memory to measure the machines of %d processes", processes);
    } else {
        transport->gather(transport->state, &transport->place.node, nodes, sizeof(*nodes),
                          settings->timeout_s, came);
        for (int p = 1; p < processes; p++) {
            if (!came[p]) {
                give_up_on(function, p, settings->timeout_s);
            }
        }
    }
    if (!weft_is_broken()) {
        nodes[0] = transport->place.node;
        *lock = own_figures(settings, b);
        choose_partners(nodes, processes, settings->calibration == WEFT_CALIBRATE_AGAIN, b);
    }
    free(nodes);
    free(came);
}

/* From process 0 to all. */
static bool pass_on(const char *function, const weft_settings *settings, const weft_transport *transport,
                    briefing *b)
{
    if (!weft_is_broken() && !transport->tell(transport->state, b, sizeof(*b), settings->timeout_s)) {
        give_up_on(function, 0, settings->timeout_s);
    }
    return !weft_is_broken();
}

/* Everyone says where it is; process 0 says what is to be done, and what came of it. False: the world is
 * broken. */
static bool agree(const char *function, const weft_settings *settings, const weft_transport *transport,
                  briefing *b, int *lock)
{
    if (transport->place.process == 0) {
        decide(function, settings, transport, b, lock);
    } else {
        transport->gather(transport->state, &transport->place.node, NULL, sizeof(int), settings->timeout_s,
                          NULL);
    }
    if (!pass_on(function, settings, transport, b)) {
        return false;
    }
    if (!has_partners(b)) {
        return true;
    }
    b->kept = false;
    return measure_links(function, transport, settings->timeout_s, b) &&
           pass_on(function, settings, transport, b);
}

weft_status weft_calibrate(const char *function, const weft_settings *settings,
                           const weft_transport *transport)
{
    int process = transport->place.process, processes = transport->place.num_processes;
    int lock = -1; /* until what is measured has been kept */
    briefing b;
    memset(&b, 0, sizeof(b)); /* it travels whole */
    bool agreed = true;
    if (processes > 1) {
        agreed = agree(function, settings, transport, &b, &lock);
    } else {
        lock = own_figures(settings, &b);
        b.machines = 1;
    }
    if (agreed && process == 0 && !b.kept && !b.builtin) {
        weft_machine_keep(&b.machine);
    }
    weft_machine_unlock(lock);
    weft_runtime.machine = b.machine;
    weft_runtime.machine_source = b.builtin ? weft_machine_builtin
                                  : b.kept  ? weft_machine_kept
                                            : weft_machine_measured;
    weft_runtime.spread = (weft_spread){ processes, b.machines };
    if (agreed) {
        return WEFT_OK;
    }
    transport->abandon(transport->state);
    return weft_error_collect();
}
