#include "draw.h"

#include <stdio.h>
#include <string.h>

#include "prng.h"

enum { CALLS = 72, KERNELS = 6 };

enum {
    M_BEFORE = 1 << 0,
    M_MPI = 1 << 1,
    M_INIT = 1 << 2,
    M_CALL = 1 << 3,
    M_KERNEL = 1 << 4,
    M_WAIT = 1 << 5,
    M_TO_HOST = 1 << 6,
    M_FINALIZE = 1 << 7,
    M_AFTER = 1 << 8,
    NUM_MOMENT_BITS = 9,
    M_LOOP = M_CALL | M_KERNEL | M_WAIT | M_TO_HOST,
    M_ALL = (1 << NUM_MOMENT_BITS) - 1,
    M_PROGRAM =
        M_BEFORE | M_CALL | M_KERNEL | M_AFTER /* where exit() is called, and not in a signal's handler */
};

static const char *const moment_names[NUM_MOMENT_BITS] = { "before", "mpi",     "init",     "call", "kernel",
                                                           "wait",   "to_host", "finalize", "after" };

typedef enum way { DIES, STAYS, GOES_ON, MAY_FAIL, MAY_DIE, DIVERGES } way;

static const struct {
    const char *name;
    way way;
    int moments;
    bool alone; /* also where there is one process */
} faults[] = {
    { "kill", DIES, M_ALL, false },
    { "abort", DIES, M_ALL, false },
    { "quit", DIES, M_ALL, false },
    { "exit0", DIES, M_PROGRAM, false },
    { "exit3", DIES, M_PROGRAM, false },
    { "stop", STAYS, M_LOOP, false },
    { "slow:600", GOES_ON, M_ALL, true },
    { "slow:2500", GOES_ON, M_ALL, true },
    { "pause:600", GOES_ON, M_ALL, true },
    { "pause:2500", GOES_ON, M_ALL, true },
    { "pause:5000", MAY_FAIL, M_ALL, false },
    { "memory", MAY_FAIL, M_BEFORE | M_INIT | M_CALL | M_KERNEL | M_FINALIZE, true },
    { "memory_once", MAY_FAIL, M_BEFORE | M_INIT | M_CALL | M_KERNEL | M_FINALIZE, true },
    { "exhausted", MAY_DIE, M_CALL | M_KERNEL, true },
    { "address", MAY_DIE, M_CALL | M_KERNEL, true },
    { "threads", MAY_FAIL, M_MPI, true }, /* after it: MPI itself does not start without */
    { "operation", DIVERGES, M_CALL, false },
    { "shape", DIVERGES, M_CALL, false },
    { "type", DIVERGES, M_CALL, false },
    { "attribute", DIVERGES, M_CALL, false },
    { "missing", DIVERGES, M_CALL, false },
    { "extra", DIVERGES, M_CALL, false },
    { "argument", DIVERGES, M_CALL, false },
    { "return", DIVERGES, M_CALL, false },
};

static int draw_moment(prng *random, int moments)
{
    int m;
    do {
        m = (int)prng_below(random, NUM_MOMENT_BITS);
    } while ((moments >> m & 1) == 0);
    return 1 << m;
}

/* See fault.h. Allocations are counted in steps that grow, for most fail early. */
static long draw_number(prng *random, int moment, const char *fault)
{
    if (moment == M_CALL) {
        return 1 + (long)prng_below(random, CALLS);
    }
    if (moment == M_KERNEL) {
        return 1 + (long)prng_below(random, KERNELS);
    }
    if (strcmp(fault, "threads") == 0) {
        return (long)prng_below(random, 6);
    }
    if (strncmp(fault, "memory", 6) == 0) {
        return (long)prng_below(random, INT64_C(1) << prng_below(random, 9));
    }
    long max_us = moment == M_INIT ? 400000 : moment == M_MPI ? 2 : 3000;
    return (long)prng_below(random, max_us);
}

static expectation expect(way kind, int moment, bool check)
{
    switch (kind) {
    case DIES:
    case STAYS:
        return (moment & M_LOOP) != 0 ? OTHERS_FAIL : LAUNCHER_ENDS;
    case GOES_ON:
        return ALL_WELL;
    case MAY_FAIL:
        return moment == M_FINALIZE ? LAUNCHER_ENDS : ALL_AGREE;
    case MAY_DIE:
        return OTHERS_AGREE;
    case DIVERGES:
        return check ? ALL_FAIL : ALL_AGREE;
    }
    return LAUNCHER_ENDS;
}

fault_case draw(uint64_t seed)
{
    enum { COUNT = sizeof(faults) / sizeof(faults[0]) };
    static const int worlds[] = { 1, 2, 2, 3, 3, 3, 5 };
    prng random = { seed };
    int f;
    fault_case c = { .seed = seed };
    c.processes = worlds[prng_below(&random, sizeof(worlds) / sizeof(worlds[0]))];
    do {
        f = (int)prng_below(&random, COUNT);
    } while (c.processes == 1 && !faults[f].alone);
    c.culprit = (int)prng_below(&random, c.processes);
    c.check = prng_below(&random, 3) == 0;
    c.packed = prng_below(&random, 3) == 0;
    c.two_ranks = prng_below(&random, 2) == 0;
    c.two_workers = prng_below(&random, 2) == 0;
    c.calibrates = prng_below(&random, 4) == 0;
    /* Runs that continue are slow for less than this, also on a busy machine. */
    c.timeout_s = faults[f].way == GOES_ON ? 10 : 2 + (int)prng_below(&random, 2);
    int moment = draw_moment(&random, faults[f].moments);
    c.expected = expect(faults[f].way, moment, c.check);
    c.recovers = (c.expected == OTHERS_FAIL && faults[f].way != STAYS) || c.expected == OTHERS_AGREE;
    const char *name = moment_names[0];
    for (int m = 0; m < NUM_MOMENT_BITS; m++) {
        name = moment == 1 << m ? moment_names[m] : name;
    }
    snprintf(c.fault, sizeof(c.fault), "%s", faults[f].name);
    snprintf(c.moment, sizeof(c.moment), "%s", name);
    snprintf(c.number, sizeof(c.number), "%ld", draw_number(&random, moment, faults[f].name));
    c.launched = prng_below(&random, 2) == 0 || c.processes > 1;
    /* Processes that capture other graphs go on: tests/graph/test_graph_divergence.c. */
    c.graph = prng_below(&random, 3) != 0 && (faults[f].way == DIES || faults[f].way == STAYS);
    return c;
}

const char *describe(const fault_case *c, char *text, int size)
{
    snprintf(text, (size_t)size, "seed %" PRIu64 ": process %d of %d: %s, %s %s%s%s%s%s%s%s%s", c->seed,
             c->culprit, c->processes, c->fault, c->moment, c->number, c->check ? ", WEFT_CHECK" : "",
             c->packed ? ", packed" : "", c->two_ranks ? ", two ranks" : "",
             c->two_workers ? ", two workers" : "", c->graph ? ", in a graph" : "",
             c->calibrates ? ", calibrates" : "", c->launched ? "" : ", no mpirun");
    return text;
}
