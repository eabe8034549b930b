/* What the machines of a world can do: the same figures on every process. */
#ifndef WEFT_SRC_MACHINE_AGREE_H
#define WEFT_SRC_MACHINE_AGREE_H

#include "machine/machine.h"

/* WEFT_CALIBRATE */
typedef enum weft_calibration {
    WEFT_CALIBRATE_ONCE, /* figures not kept from an earlier start are measured */
    WEFT_CALIBRATE_AGAIN,
    WEFT_CALIBRATE_OFF /* the built-in figures */
} weft_calibration;

/* The ways to other processes, filled in by the level that has them (comm/calibrate.c). A function that
 * returns false has kept an error; no other is called then. */
typedef struct weft_peers {
    void *state;
    int process, num_processes;
    int node; /* number of the first process of the same machine */
    /* All give `size` bytes; process 0 gets them in `all`, one after another. */
    bool (*gather)(void *state, const void *mine, void *all, size_t size);
    /* From process 0 to all. */
    bool (*broadcast)(void *state, void *bytes, size_t size);
    /* BLOCKS until `count` messages of `bytes` bytes, contiguous in `memory`, have gone to the peer or
     * come from it, each by itself. */
    bool (*pass)(void *state, int peer, bool receive, int count, int64_t bytes, char *memory);
} weft_peers;

/* The values of weft_machine_found.source. */
extern const char weft_machine_builtin[], weft_machine_kept[], weft_machine_measured[];

typedef struct weft_machine_found {
    weft_machine machine; /* as measured: not rounded */
    const char *source;   /* static storage */
    weft_spread spread;
} weft_machine_found;

/* Process 0 reads, or measures, the figures of its machine and of its links to a process of the same
 * machine and to one of another, keeps new ones, and tells all. If something cannot be measured, all take
 * the built-in figures, and nothing is kept. BLOCKS; collective. WEFT_ERR_NOMEM, on this process alone;
 * WEFT_ERR_COMM: a function of `peers` has returned false, and memory may be left to its messages. */
weft_status weft_machine_agree(const weft_peers *peers, weft_calibration calibration, weft_machine_found *found);

/* Measures a link to one of the peers, for agree.c. Collective on the two processes. Errors as above. */
weft_status weft_link_measure(const weft_peers *peers, int peer, weft_link *link);

#endif
