/* src/plan: from one layout to another. PURE (no StarPU, no MPI, no threads): the same inputs give the same
 * plan on every rank, and a plan for rank 17 of a 65,536-rank mesh costs the same on a laptop as in the run.
 *
 * A plan is a short list of stages. A stage turns one layout into another by one box exchange:
 *   move    every rank receives each element of its destination box from exactly one source rank: itself if
 *           it has it, else a replica in its own process, else the replica at its own place of the mesh; or,
 *           where many want the same, another rank that has received it.
 *   reduce  the source has Partial placements that the destination has not: every rank receives every addend
 *           of each element of its destination box, and reduces them in the row-major order of their
 *           coordinates along the mesh dimensions that are reduced, and along these alone: which replica an
 *           addend comes from changes nothing.
 * All-reduce is a reduce stage to a sharded layout and a move stage from there (or one reduce stage, for tiny
 * tensors); a mesh-dimension-by-mesh-dimension all-gather is several move stages, and a mesh dimension of
 * many ranks is split for that. Which, the cost model says. Partial placements that both layouts have at the
 * same place of the same mesh stay as they are: every stage then happens within each coordinate of that mesh
 * dimension. */
#ifndef WEFT_SRC_PLAN_H
#define WEFT_SRC_PLAN_H

#include "layout/layout.h"

/* Which process hosts which rank: process p hosts first_rank[p] .. first_rank[p + 1] - 1. */
typedef struct weft_topology {
    int num_ranks;
    int num_processes;
    const int *first_rank; /* num_processes + 1 entries; NULL: one rank per process */
} weft_topology;

int weft_topology_process_of(const weft_topology *topology, int rank);

/* How a move stage gets a box to several ranks. All but the first relay: a rank that has received the box
 * sends it on. The order is that of the destination mesh, so that no rank ever waits for itself. */
typedef enum weft_algorithm {
    WEFT_DIRECT, /* the source rank sends a copy to each */
    WEFT_CHAIN,  /* each to the next; in panels, so that all links are busy at once */
    WEFT_TREE,   /* each to the half of those that are left: few steps */
    WEFT_ONCE,   /* the source to the first rank of each process, which serves the others of its process */
    WEFT_ALGORITHM_AUTO /* not of a stage: the cheapest */
} weft_algorithm;
const char *weft_algorithm_name(weft_algorithm algorithm); /* "direct", "chain", "tree", "once", "auto" */

/* What a stage costs a rank: the latency once, an overhead for every message, and the bytes of the busier
 * direction; within a process and between processes. Microseconds. */
typedef struct weft_cost_model {
    double local_latency_us, local_message_us, local_byte_us;
    double remote_latency_us, remote_message_us, remote_byte_us;
    weft_algorithm algorithm; /* of every move to several ranks */
} weft_cost_model;
/* In process: copy tasks at 5 GB/s; between processes: MPI over a 1 Gbit/s link. */
#define WEFT_COST_MODEL_DEFAULT                                                                              \
    {                                                                                                        \
        2.0, 2.0, 1.0 / 5000.0, 30.0, 3.0, 1.0 / 118.0, WEFT_ALGORITHM_AUTO                                  \
    }

/* A dimension that is seen through windows: rows [first, last] of a part of `cut` need the source's indices
 * from (first * times - before) / over, rounded up, to (last * times + after) / over, rounded down, as far as
 * there are such: 0 .. size - 1. over >= 1; times >= 1, or <= -1 where later rows need earlier indices: then
 * first and last change places. */
typedef struct weft_window {
    int64_t size; /* of the source's dimension */
    int64_t times, over, before, after;
} weft_window;

/* A move stage whose target gives each rank the windows of what it has of another layout (a halo, for
 * instance). The target is a tensor of its own: the placements are those of `cut`, along a dimension with
 * windows its size is the number of parts times weft_access_map_largest(), and a rank's window lies at the
 * beginning of its part; what is behind it is not written. Or, where a row needs one index and the next row
 * the next index, the windows may be placed: the target is of the layout `cut`, each index lies where the row
 * is that needs it, and rows that need none are not written. Boxes of moves are in the source's indices.
 *
 * With turns a rank gets what the part needs that lies turn[m] places further along mesh dimension m (and
 * around): so parts go round in a ring. Such a mesh dimension shards a dimension with windows. A window with
 * times = over = 1 and nothing before or after is the part itself. Windows that are placed do not turn. */
typedef struct weft_access_map {
    const weft_layout *cut; /* the source's mesh and placements; its sizes but along windows */
    bool has[WEFT_MAX_DIMS];
    weft_window of[WEFT_MAX_DIMS];
    bool placed;
    int64_t turn[WEFT_MAX_DIMS]; /* 0 .. size of the mesh dimension - 1; 0 where nothing turns */
} weft_access_map;

/* The windows of a tensor of layout `from`, along those of its sharded dimensions for which rows[d] >= 0 is
 * the size of what they are windows for, and of[d] tells them (all but the size). `cut` NULL: there are none.
 * False: no memory. */
bool weft_access_map_make(weft_layout_table *table, const weft_layout *from, const int64_t rows[],
                          const weft_window of[], weft_access_map *access_map);
/* What it costs to give each rank its windows of a tensor of this layout: an estimate, from some of the
 * ranks. */
double weft_access_map_cost(const weft_topology *topology, const weft_cost_model *cost,
                            const weft_layout *from, const weft_access_map *access_map);
/* Whether they may be placed. */
bool weft_access_map_consecutive(const weft_access_map *access_map);
/* Indices of the largest window of a part, or more. */
int64_t weft_access_map_largest(const weft_access_map *access_map, int dim);
/* What the rank at a coordinate gets, in the source's indices; where that is nothing, at the end. */
void weft_access_map_box(const weft_access_map *access_map, const int64_t coordinate[], weft_box *box);
/* The same of a rank of the mesh. */
void weft_access_map_rank_box(const weft_access_map *access_map, int rank, weft_box *box);

typedef struct weft_stage {
    const weft_layout *from, *to;
    const weft_access_map *access_map; /* of a move stage; NULL: none */
    bool reduces;
    weft_reduce_op op;        /* of a reduce stage; never WEFT_AVG, which is WEFT_SUM with a scale */
    double scale;             /* of a reduce stage: multiply the result (1.0: nothing to do) */
    weft_algorithm algorithm; /* of a move stage; a reduce stage is direct */
} weft_stage;

/* What a stage is among MPI's collectives. Within each group of ranks that differ along some mesh dimensions alone:
 *   local           each rank has what it gets: a slice of it
 *   all-gather      each rank gets the boxes of all
 *   reduce-scatter  each rank gets its box of the reduced whole
 *   all-reduce      each rank gets the reduced whole
 *   all-to-all      each rank cuts its box for all others (one mesh dimension)
 *   shift           each rank gets the box of another one, round a ring
 *   halo            each rank gets what lies beside its box
 * With one rank as the source or the target: broadcast, scatter, gather, reduce. Everything else is general. */
typedef enum weft_stage_kind {
    WEFT_STAGE_GENERAL,
    WEFT_STAGE_LOCAL,
    WEFT_STAGE_ALL_GATHER,
    WEFT_STAGE_REDUCE_SCATTER,
    WEFT_STAGE_ALL_REDUCE,
    WEFT_STAGE_ALL_TO_ALL,
    WEFT_STAGE_BROADCAST,
    WEFT_STAGE_SCATTER,
    WEFT_STAGE_GATHER,
    WEFT_STAGE_REDUCE,
    WEFT_STAGE_SHIFT,
    WEFT_STAGE_HALO,
    WEFT_STAGE_KINDS /* how many there are */
} weft_stage_kind;
const char *weft_stage_kind_name(weft_stage_kind kind); /* "all-gather", ... */
/* Read off the layouts, in a fixed number of steps. along[m], of WEFT_MAX_DIMS entries: ranks of a group differ
 * along mesh dimension m; none where it is general, or has a root. */
weft_stage_kind weft_stage_kind_of(const weft_stage *stage, bool along[]);

#define WEFT_MAX_STAGES (2 * WEFT_MAX_DIMS + 2)

typedef struct weft_plan {
    const weft_layout *from, *to;
    int num_stages; /* 0: the layouts are the same */
    /* Each begins where the former ends, the first at `from`, and the last one ends at `to`: with that layout
     * or with its equal on a finer mesh, where every rank has the same box, cut into the same panels. */
    weft_stage stages[WEFT_MAX_STAGES];
    const char *algorithm; /* "identity", "direct", "chain", "reduce", "reduce+move", ... static storage */
    double predicted_us;   /* slowest rank */
} weft_plan;

/* Chooses the stages; intermediate layouts, and finer meshes, are interned in `table`: the layouts' meshes
 * must live as long. The tensors' shapes and dtypes must agree. WEFT_ERR_LAYOUT with why: `to` has a Partial
 * that `from` has not, or keeps one inside a reduction of another operation. WEFT_ERR_DTYPE: Partial(avg) of
 * a type that is not floating point. The sum of WEFT_BOOL is or. */
weft_status weft_plan_make(weft_layout_table *table, const weft_topology *topology,
                           const weft_cost_model *cost, const weft_layout *from, const weft_layout *to,
                           weft_plan *plan, char *why, size_t why_size);

/* One box to move, in global indices. */
typedef struct weft_transfer {
    int peer; /* of a receive: the source rank; of a send: the destination rank. May be the rank itself. */
    /* From what the source rank has received in this stage: from its shard of `to`, not of `from`. */
    bool relayed;
    weft_box box;
} weft_transfer;

typedef struct weft_transfers {
    weft_transfer *items;
    size_t count, capacity;
} weft_transfers;
void weft_transfers_free(weft_transfers *moves);

/* What `rank` receives in this stage, itself included as a source; appended to `moves`. Boxes are not
 * empty and lie in its destination box. Of a move stage: disjoint, covering the destination box. Of a
 * reduce stage: the addends of one region follow each other, by weft_stage_addend(), with equal boxes;
 * regions are disjoint and cover the destination box. */
weft_status weft_stage_receives(const weft_stage *stage, const weft_topology *topology, int rank,
                                weft_transfers *moves);
/* Of a reduce stage: the number of a source rank's addend among those of its box, which is the order to
 * reduce them in. Row-major along the mesh dimensions that the stage reduces; replicas have one number. */
int64_t weft_stage_addend(const weft_stage *stage, int rank);
/* What the rank at a coordinate of the target gets, in the source's indices. */
void weft_stage_wanted(const weft_stage *stage, const int64_t coordinate[], weft_box *box);
/* Target's indices minus source's indices of what `rank` gets: 0 but along windows. */
void weft_stage_shift(const weft_stage *stage, int rank, int64_t shift[]);

/* What `rank` sends in this stage, to itself included: exactly the receives that name it, in no particular
 * order. */
weft_status weft_stage_sends(const weft_stage *stage, const weft_topology *topology, int rank,
                             weft_transfers *moves);

/* Sets the stage's algorithm, to the cheapest or as the cost model prescribes, and returns what
 * weft_stage_cost() says then. */
double weft_stage_choose(weft_stage *stage, const weft_topology *topology, const weft_cost_model *cost);
/* What one stage costs its slowest rank, from closed forms (no enumeration of peers). */
double weft_stage_cost(const weft_stage *stage, const weft_topology *topology, const weft_cost_model *cost);

/* Predicted microseconds of the whole plan on its slowest rank: what the dispatcher compares strategies
 * with. 0 for equal layouts; a negative value when there is no such plan. Intermediate layouts that it
 * considers are interned in `table`. */
double weft_plan_cost(weft_layout_table *table, const weft_topology *topology, const weft_cost_model *cost,
                      const weft_layout *from, const weft_layout *to);

typedef struct weft_plan_statistics {
    int64_t ranks;
    int64_t bytes_total;                 /* between different ranks, all stages */
    int64_t bytes_in_max, bytes_out_max; /* of one rank */
    int64_t lower_bound_bytes_in_max;    /* no algorithm can do with less on its busiest rank */
    int64_t messages_max;                /* received or sent by one rank, the larger */
    bool exact; /* false: too many messages to list, what ranks send is an even share */
} weft_plan_statistics;
weft_status weft_plan_measure(const weft_plan *plan, const weft_topology *topology,
                              weft_plan_statistics *out);

#endif
