/* src/plan: from one layout to another. PURE (no StarPU, no MPI, no threads): the same inputs give the
 * same plan on every rank, and a plan for rank 17 of a 65,536-rank mesh costs the same on a laptop as in
 * the run.
 *
 * A plan is a short list of stages. A stage turns one layout into another by one exchange of boxes:
 *   move    every rank receives each element of its destination box from exactly one source rank: itself if
 *           it has it, else a replica in its own process, else the replica at its own position of the mesh;
 *           or, in a broadcast tree, another rank that has received it.
 *   reduce  the source has Partial placements that the destination has not: every rank receives every addend
 *           of each element of its destination box, and reduces them in the row-major order of their
 *           coordinates along the reduced mesh dimensions. The choice of the replica that sends an addend
 *           changes nothing.
 * All-reduce is a reduce stage to a sharded layout and a move stage from there (or one reduce stage, for
 * tiny tensors). An all-gather by mesh dimensions is several move stages; a mesh dimension of many ranks
 * is factored for that. The cost model decides. Partial placements that both layouts have at the same
 * position of the same mesh stay: every stage then works within each coordinate of that mesh dimension. */
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

/* How a move stage brings a box to several ranks. In all but the first, a rank that has received the box
 * forwards it, in the order of the destination mesh, so there is no cycle. */
typedef enum weft_algorithm {
    WEFT_DIRECT,        /* the source rank sends a copy to each */
    WEFT_CHAIN,         /* each rank to the next; in panels, so that all links are busy at once */
    WEFT_TREE,          /* each rank to the middle of those left to it: few steps */
    WEFT_ONCE,          /* the source to the first rank of each process, which serves the others there */
    WEFT_ALGORITHM_AUTO /* not of a stage: the cheapest */
} weft_algorithm;
const char *weft_algorithm_name(weft_algorithm algorithm); /* "direct", "chain", "tree", "once", "auto" */

/* The cost of a stage for a rank: latency once, an overhead for every message, and the bytes of the busier
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

/* One dimension of an access map: rows [first, last] of a part of `cut` read the source's indices from
 * (first * times - before) / over, rounded up, to (last * times + after) / over, rounded down, clipped to
 * 0 .. size - 1. over >= 1; times >= 1, or <= -1 if later rows read earlier indices: then first and last
 * change roles. */
typedef struct weft_window {
    int64_t size; /* of the source's dimension */
    int64_t times, over, before, after;
    /* 0 or 1: indices are not clipped. Index i is that of the source modulo its size, so one of the source's may be read several
     * times. */
    int64_t periodic;
} weft_window;

/* The source's indices [*begin, *end) that rows [first, first + extent) read; empty, at the end, if none. Periodic ones may begin
 * below 0 and end behind the size. */
void weft_window_range(const weft_window *w, int64_t first, int64_t extent, int64_t *begin, int64_t *end);

/* A move stage whose target gives each rank the indices that its part of another layout reads (a halo, for
 * instance). The target is a tensor of its own with the placements of `cut`, in chunks along a mapped dimension. There its
 * size is the number of parts times weft_access_map_largest(); a rank's indices lie at the beginning of
 * its part, and the rest is not written. If consecutive rows read consecutive indices, the map may be
 * placed: the target has the layout `cut`, each index lies in the row that reads it, and rows that read
 * none are not written. Boxes of transfers use the source's indices.
 *
 * With turns a rank gets the indices of the part that lies turn[m] positions further along mesh dimension
 * m, cyclically: parts go round in a ring. Such a mesh dimension shards a mapped dimension. A map with
 * times = over = 1 and nothing before or after is the part itself. Placed maps do not turn.
 *
 * Along a periodic dimension there is a stage for each image of the source, of which image k has the indices from k times the
 * size on (weft_access_map_next_image()). */
typedef struct weft_access_map {
    const weft_layout *cut; /* the source's mesh and placements; its sizes except along mapped dimensions */
    bool has[WEFT_MAX_DIMS];
    weft_window of[WEFT_MAX_DIMS];
    bool placed;
    int64_t turn[WEFT_MAX_DIMS]; /* 0 .. size of the mesh dimension - 1; 0 where nothing turns */
    int64_t image[WEFT_MAX_DIMS]; /* of a stage: along periodic dimensions; else 0 */
} weft_access_map;

/* Sets the first image of which a rank may read an index, and the next one; false: that was the last one. */
void weft_access_map_first_image(weft_access_map *access_map);
bool weft_access_map_next_image(weft_access_map *access_map);

/* The access map of a tensor of layout `from`, along those of its sharded or periodic dimensions with rows[d] >= 0:
 * rows[d] is the size of the dimension that reads, of[d] the map (all but the size). cuts[m]: how mesh dimension m cuts the
 * dimension that reads, where it shards `from`; NULL: as it cuts `from`. `cut` NULL: there is none. False: no memory. */
bool weft_access_map_make(weft_layout_table *table, const weft_layout *from, const int64_t rows[],
                          const weft_window of[], const weft_placement cuts[], weft_access_map *access_map);
/* The cost of giving each rank the indices that it reads of a tensor of this layout: an estimate, from
 * some ranks. */
double weft_access_map_cost(const weft_topology *topology, const weft_cost_model *cost,
                            const weft_layout *from, const weft_access_map *access_map);
/* Maps are compared as bytes: what says nothing is zero. */
bool weft_access_map_equal(const weft_access_map *a, const weft_access_map *b);
/* Whether the map may be placed. */
bool weft_access_map_consecutive(const weft_access_map *access_map);
/* An upper bound of the number of indices that a part reads. */
int64_t weft_access_map_largest(const weft_access_map *access_map, int dim);
/* The shape of the tensor that has the data of a map of `from` (see weft_access_map); INT64_MAX for a size that 64 bits
 * cannot tell. */
void weft_access_map_shape(const weft_access_map *access_map, const weft_layout *from, int64_t shape[]);
/* The box that the rank at a coordinate gets, in the source's indices, all images together; if empty, at the end. */
void weft_access_map_box(const weft_access_map *access_map, const int64_t coordinate[], weft_box *box);
/* The same for a rank of the mesh. */
void weft_access_map_rank_box(const weft_access_map *access_map, int rank, weft_box *box);

typedef struct weft_stage {
    const weft_layout *from, *to;
    const weft_access_map *access_map; /* of a move stage; NULL: none */
    bool reduces;
    weft_reduce_op op;        /* of a reduce stage; never WEFT_AVG, which is WEFT_SUM with a scale */
    double scale;             /* of a reduce stage: multiply the result (1.0: nothing to do) */
    weft_algorithm algorithm; /* of a move stage; a reduce stage is direct */
} weft_stage;

/* The MPI collective that a stage is. Within each group of ranks that differ only along some mesh
 * dimensions:
 *     local           each rank already has its part
 *     all-gather      each rank gets the boxes of all
 *     reduce-scatter  each rank gets its box of the reduced whole
 *     all-reduce      each rank gets the reduced whole
 *     all-to-all      each rank cuts its box for all others (one mesh dimension)
 *     shift           each rank gets the box of another one, around a ring
 *     halo            each rank gets the indices beside its box
 * With one rank as the source or the target: broadcast, scatter, gather, reduce. Everything else is
 * general. */
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

/* Whether the two layouts number the rows of a dimension differently (layout.h). Such a stage has no access map, and is a direct move. */
bool weft_stage_renumbers(const weft_stage *stage);

#define WEFT_MAX_STAGES (2 * WEFT_MAX_DIMS + 2)

typedef struct weft_plan {
    const weft_layout *from, *to;
    int num_stages; /* 0: equal layouts */
    /* Each stage begins where the former ends; the first begins at `from`, the last ends at `to`, or at
     * its equal on a factored mesh, where every rank has the same box, cut into the same panels. */
    weft_stage stages[WEFT_MAX_STAGES];
    const char *algorithm; /* "identity", "direct", "chain", "reduce", "reduce+move", ... static storage */
    double predicted_us;   /* slowest rank */
} weft_plan;

/* Chooses the stages. Intermediate layouts and factored meshes are interned in `table`: the layouts'
 * meshes must live as long. Shapes and dtypes must agree. WEFT_ERR_LAYOUT with why: `to` has a Partial
 * that `from` has not, or keeps one inside a reduction of another operation. WEFT_ERR_DTYPE: Partial(avg)
 * of a type that is not floating point. The sum of WEFT_BOOL is or. */
weft_status weft_plan_make(weft_layout_table *table, const weft_topology *topology,
                           const weft_cost_model *cost, const weft_layout *from, const weft_layout *to,
                           weft_plan *plan, char *why, size_t why_size);

/* One box to move, in the source's numbers of rows, which are global indices but where cuts are cyclic or zigzag. */
typedef struct weft_transfer {
    int peer; /* of a receive: the source rank; of a send: the destination rank. May be the rank itself. */
    /* The peer sends from its shard of `to`, which it has received in this stage, not from its shard of
     * `from`. */
    bool forwarded;
    /* Along a dimension whose rows the two layouts number differently (weft_stage_renumbers()): from 0 to the number of rows that
     * both shards have. */
    weft_box box;
} weft_transfer;

typedef struct weft_transfers {
    weft_transfer *items;
    size_t count, capacity;
} weft_transfers;
void weft_transfers_free(weft_transfers *moves);

/* The receives of `rank` in this stage, including those from itself; appended to `moves`. Boxes are not
 * empty and lie in its destination box. Of a move stage: disjoint, covering the destination box. Of a
 * reduce stage: the addends of one region follow each other, by weft_stage_addend(), with equal boxes;
 * regions are disjoint and cover the destination box. */
weft_status weft_stage_receives(const weft_stage *stage, const weft_topology *topology, int rank,
                                weft_transfers *moves);
/* For a reduce stage: the number of a source rank's addend among those of its box, which is the order of
 * reduction. Row-major along the reduced mesh dimensions; replicas have one number. */
int64_t weft_stage_addend(const weft_stage *stage, int rank);
/* The box that the rank at a coordinate of the target gets, in the source's indices. */
void weft_stage_wanted(const weft_stage *stage, const int64_t coordinate[], weft_box *box);
/* Target's indices minus source's indices for `rank`: 0 except along mapped dimensions. */
void weft_stage_shift(const weft_stage *stage, int rank, int64_t shift[]);

/* The sends of `rank` in this stage, including those to itself: exactly the receives that name it, in any
 * order. */
weft_status weft_stage_sends(const weft_stage *stage, const weft_topology *topology, int rank,
                             weft_transfers *moves);

/* Of the busiest rank. */
typedef struct weft_stage_load {
    double bytes;    /* into it */
    double messages; /* into it, or from it if these are more */
} weft_stage_load;

/* Sets the stage's algorithm, to the cheapest or as the cost model prescribes; returns weft_stage_cost() for it. */
double weft_stage_choose(weft_stage *stage, const weft_topology *topology, const weft_cost_model *cost, weft_stage_load *load);
/* The cost of one stage for its slowest rank, in closed form (peers are not enumerated). */
double weft_stage_cost(const weft_stage *stage, const weft_topology *topology, const weft_cost_model *cost);

/* Predicted microseconds of the whole plan on its slowest rank. 0 for equal layouts; negative if there is no such plan. Intermediate
 * layouts are interned in `table`. */
double weft_plan_cost(weft_layout_table *table, const weft_topology *topology, const weft_cost_model *cost,
                      const weft_layout *from, const weft_layout *to);
/* The same of a plan without slices of replicas, and whose stages change one mesh dimension each or all: not less, and found in a third
 * of the time. The dispatcher compares thousands of layouts by it. */
double weft_plan_estimate(weft_layout_table *table, const weft_topology *topology, const weft_cost_model *cost,
                          const weft_layout *from, const weft_layout *to);

typedef struct weft_plan_statistics {
    int64_t ranks;
    int64_t bytes_total;                 /* between different ranks, over all stages */
    int64_t bytes_in_max, bytes_out_max; /* of one rank */
    int64_t lower_bound_bytes_in_max;    /* lower bound for the busiest rank, for any algorithm */
    int64_t messages_max;                /* received or sent by one rank, the larger */
    bool exact; /* false: too many messages to list; outgoing traffic is an even share */
} weft_plan_statistics;
weft_status weft_plan_measure(const weft_plan *plan, const weft_topology *topology,
                              weft_plan_statistics *out);

#endif
