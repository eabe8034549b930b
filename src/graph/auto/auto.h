/* src/graph/auto: calls that the program repeats, found without a graph of its own (WEFT_AUTOGRAPH=1).
 *
 * Every public call outside graphs passes here, as a TOKEN: a hash of its operation, layouts and attributes. A PERIOD is a number of
 * calls after which the tokens repeat (observe.c). It is cut into WINDOWS: runs of calls that may be deferred, at most
 * WEFT_MOST_WINDOW of them. A window has a graph of its own, without a function: where its first call comes again, after the same
 * calls, a run of the graph takes it and those that follow (window.c), and executes all when the next call comes. Tokens only say
 * where to begin and when to stop: the run compares every call with its trace.
 *
 * A window ends early where another call comes (LEFT), or where the program needs a value or computes for itself (FLUSHED): then the
 * calls up to there are executed, and it rests for a while if that happens often. */
#ifndef WEFT_SRC_GRAPH_AUTO_H
#define WEFT_SRC_GRAPH_AUTO_H

#include "graph/run/graph.h"

/* LEAST: a run costs about as much as two calls. */
enum { WEFT_LEAST_WINDOW = 3, WEFT_MOST_WINDOW = 64, WEFT_MOST_WINDOWS = 1024 };

typedef struct weft_repeated {
    uint64_t context; /* of its first call */
    uint64_t tokens[WEFT_MOST_WINDOW]; /* of its calls */
    int length;
    bool sends;    /* the last of them does, to another process */
    bool is_open;  /* a run of it has begun: it is to stay as it is */
    bool is_wrong; /* a call before the last has sent: it is not to be used */
    weft_graph_impl *graph;
    int merit; /* above 0: it is mostly taken to its end */
    uint64_t rests; /* how many of its beginnings are to be ignored */
    int failures; /* in a row: doubles the next rest */
} weft_repeated;

/* ---- observation (observe.c) ------------------------------------------------------------------------------- */

enum { WEFT_RING = 1 << 12, WEFT_TABLE = 1 << 12 };

typedef struct weft_seen_call {
    uint64_t token;
    uint32_t live; /* number of tensors when it came */
    bool ends;     /* it is none that a window can have: windows end before it */
    bool sends;    /* to another process: windows end with it */
} weft_seen_call;

/* The newest place where these four tokens followed each other. */
typedef struct weft_place {
    uint64_t context;
    uint64_t position;
} weft_place;

typedef struct weft_observation {
    uint64_t position; /* number of calls so far */
    uint64_t context;  /* of the newest call and the three before it */
    uint64_t period;   /* 0: none is likely */
    uint64_t repeated; /* calls that were those a period before */
    bool is_known;     /* its windows have been made */
    weft_seen_call ring[WEFT_RING];
    weft_place places[WEFT_TABLE];
    weft_repeated *beginnings[WEFT_TABLE]; /* windows, each in the place of its context; NULL: none */
    weft_vec windows; /* weft_repeated *, all of them */
    size_t oldest;    /* of these: the next one to be made into another where there are enough */
} weft_observation;

/* A call has come, and is not executed yet. False: no memory for windows (nothing is lost but these). */
bool weft_observe(weft_observation *o, uint64_t token, bool ends);
/* The newest call has sent messages, or waits for some. */
void weft_observe_sends(weft_observation *o);
/* The window that begins with the newest call; NULL: none. */
weft_repeated *weft_observed_beginning(const weft_observation *o);
void weft_observation_free(weft_observation *o);

/* ---- windows (window.c) -------------------------------------------------------------------------------------- */

/* Makes the window, which is not open, into another one: without calls yet, and without a graph. It goes on resting if its context stays
 * the same. */
void weft_repeated_renew(weft_repeated *window, uint64_t context);
/* The graph of a window that is used for the first time; false: no memory. */
bool weft_repeated_prepare(weft_repeated *window);
/* Whether it is to be used now that its first call has come. */
bool weft_repeated_is_ready(weft_repeated *window);
/* It has been used: to its end, or not. `captured`: its calls were others than before. */
void weft_repeated_used(weft_repeated *window, bool complete, bool captured);

/* ---- all (auto.c) ----------------------------------------------------------------------------------------------- */

/* For weft_init(): nothing without WEFT_AUTOGRAPH=1. */
weft_status weft_auto_start(void);
void weft_auto_stop(void);
/* weft_meet_layout() for the layouts of a window that is being recorded. */
void weft_auto_meet_layouts(void);

#endif
