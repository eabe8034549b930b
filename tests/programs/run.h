/* Runs a program against weft and the reference. */
#ifndef WEFT_TESTS_RUN_H
#define WEFT_TESTS_RUN_H

#include "evaluate.h"

/* Counts of comparisons over all programs of a process. */
typedef struct tally {
    int64_t steps, tensors, elements;
    int64_t unknown; /* elements that could be anything; of gradients: not differentiable there */
    int64_t differences; /* elements of gradients that were compared with differences */
    int64_t refused;     /* programs whose backward pass was */
    int64_t frozen, donated; /* calls of frozen graphs without their function; inputs that graphs have taken */
    int64_t sharded; /* calls of graphs for which layouts were chosen then */
    int64_t windows, window_calls; /* submitted together with WEFT_AUTOGRAPH=1 */
    int64_t resized; /* programs that were run with other sizes in the same graphs */
} tally;

typedef struct lent {
    int value;
    void *memory[MAX_RANKS]; /* of the hosted ranks */
    struct lent *next;
} lent;

typedef struct digest {
    uint64_t bits[MAX_RANKS]; /* of each rank's shard; 0: not hosted here, or outside the mesh */
    uint64_t box[MAX_RANKS];  /* ranks with the same have the same values */
    int value, step;
} digest;

enum { MAX_DIGESTS = 400, MAX_HELD = 4 };

/* Values that a run has read, in order: to be compared with another run. */
typedef struct entry {
    int step, value; /* NO_VALUE: a number */
    uint64_t bits;   /* of the shards that are hosted here */
} entry;

typedef struct trail {
    size_t count, capacity;
    entry *entries;
} trail;

void trail_add(trail *t, entry added);
void trail_clear(trail *t);

typedef struct running {
    const program *program;
    evaluation evaluation;
    weft_mesh *meshes[MAX_MESHES];
    weft_tensor *tensors[MAX_VALUES];
    bool compared[MAX_VALUES]; /* since it was last written to */
    lent *lent;
    int num_held, held[MAX_HELD]; /* values whose shards the program has acquired */
    bool write_waits;             /* perhaps for these: what it writes must not be acquired before they are released */
    int step;                     /* that is being done */
    int num_digests;
    digest digests[MAX_DIGESTS];
    tally *tally;
    size_t live;   /* tensors, and bytes of the pool, at the beginning */
    int64_t bytes;
    bool plain;         /* values are not compared with their reference */
    trail *trail;       /* then, what is read goes there; or NULL */
    bool refused;       /* a backward pass was, and the rest has not been done */
    char refusal[1000]; /* with this status and error */
} running;

/* Runs it in the world that is there. A difference is printed, and ends the process with RUN_FAILED. */
void run_program(const program *p, tally *counts);
enum { RUN_FAILED = 3 };
/* Its parts, for those who compare something else. */
running *run_begin(const program *p, tally *counts);
void run_step(running *r, const step *s);
void run_end(running *r);
/* Reads and compares all that is left, and ends. */
void run_finish(running *r);

/* ---- what run.c and compare.c share -------------------------------------------------------------------- */

/* Prints where the program is, and why it failed; does not return. */
_Noreturn void run_fail(const running *r, const char *format, ...);
/* Ends the process where weft has kept an error. */
void run_expect_no_error(const running *r, const char *what);

/* Before shards are read or written here: that ends a segment of a graph, on all processes alike. */
void end_segment(const running *r);
/* Releases the shards that the program holds: before anything that waits. */
void let_shards_go(running *r);
/* Compares a value with its reference: shape, type, mesh, each hosted shard. BLOCKS. */
void compare_value(running *r, int value);
/* Adds a tensor's hosted shards to the trail; `value`: that it stands for. */
void note_tensor(running *r, int value, weft_tensor *tensor);
/* Replaces the reference's inexact values by weft's. BLOCKS; on all processes. */
void adopt_value(running *r, int value);
/* Compares replicas across processes; on all of them. */
void compare_replicas(running *r);
/* Whether it is made of addends; of sums or averages. */
bool is_partial(weft_tensor *tensor);
bool is_partial_sum(weft_tensor *tensor);

/* The indices that a shard has, by dimension. */
typedef struct shard_rows {
    int64_t extent[WEFT_MAX_DIMS], *rows[WEFT_MAX_DIMS];
} shard_rows;
shard_rows rows_of_box(int ndim, const int64_t offset[], const int64_t extent[]);
shard_rows rows_of_shard(weft_tensor *tensor, int local_rank);
void free_rows(shard_rows *rows, int ndim);
/* The index of element `number` of the shard. */
void element_of_shard(const shard_rows *rows, int ndim, int64_t number, int64_t at[]);
/* Whether a shard may be several runs of indices. */
bool has_runs(int count, const weft_placement placements[]);

/* The part of a dense value that a rank has, in memory of the element type; of Partial tensors its
 * addends. */
void fill_shard(const running *r, const mesh_plan *mesh, const weft_placement placements[], const dense *x,
                const shard_rows *rows, int rank, uint64_t salt, void *memory);

#endif
