/* Random whole programs against a dense reference.
 *
 * A program is data: meshes, and steps, each of which calls one public function on numbered values. It is
 * a function of a seed (generate.c), can be written and read as text (program.c), runs against weft
 * (run.c) and on dense arrays (evaluate.c), is shrunk while it still fails (shrink.c), and is printed as a
 * C program (print.c). driver.c runs many programs in worker processes, in
 * process or under mpirun, so that crashes and hangs are found and shrunk too.
 *
 * Every public function that makes or changes tensors has a row in a table (calls_*.c): the call, the
 * choice of valid arguments, and its dense reference. The generator proposes arguments loosely; the
 * reference decides whether they are valid, and computes the values. So changed programs (shrink.c) are
 * judged without weft.
 *
 * Comparison: each hosted shard with its box of the dense value, bit for bit if the reference is exact
 * (dense.h), else within the row's tolerance in roundings of the type; all replicas of a shard with each
 * other bit for bit, also across processes. An inexact value is fetched before it is used, so tolerances
 * do not accumulate. */
#ifndef WEFT_TESTS_PROGRAM_H
#define WEFT_TESTS_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <weft/weft.h>

enum {
    MAX_RANKS = 8,
    MAX_MESHES = 6,
    MAX_MESH_DIMS = 3,
    MAX_STEPS = 120,
    MAX_VALUES = 200,
    MAX_INPUTS = 12,
    MAX_OUTPUTS = 9,
    MAX_WHOLES = 16,
    MAX_REALS = 8,
    NO_VALUE = -1, /* an input that is not given: NULL */
};

typedef struct operation operation;

/* One call. The operation determines the meaning of each field. */
typedef struct step {
    const operation *operation;
    int num_inputs, num_outputs;
    int inputs[MAX_INPUTS];   /* values; NO_VALUE */
    int outputs[MAX_OUTPUTS]; /* values; in place: inputs too. New ones follow each other */
    int num_wholes, num_reals;
    int64_t wholes[MAX_WHOLES];
    double reals[MAX_REALS];
    /* For factories and redistributions; shape also for reshapes, and as lists of dimensions or sizes. */
    weft_dtype dtype;
    int ndim;
    int64_t shape[WEFT_MAX_DIMS];
    int mesh; /* index in the program; -1: none */
    weft_placement placements[MAX_MESH_DIMS];
    uint64_t salt; /* of values that the program gives */
} step;

typedef enum mesh_kind { MESH_GRID, MESH_OF_RANKS, MESH_FLATTENED, MESH_SLICE } mesh_kind;

typedef struct mesh_plan {
    mesh_kind kind;
    int ndim;
    int64_t shape[MAX_MESH_DIMS];
    int ranks[MAX_RANKS]; /* row-major */
    int of; /* which mesh's dimensions first .. last are joined; MESH_SLICE: its dimension first */
    int first, last;
} mesh_plan;

typedef struct program {
    uint64_t seed;
    /* The world. */
    int processes, ranks;
    int panel_rows; /* WEFT_PANEL_ROWS; 0: by default */
    int plan;       /* WEFT_PLAN: index in program_plans[] */
    int cache;      /* WEFT_TASK_CACHE: index in program_caches[] */
    bool compares;  /* WEFT_CHECK=1 */
    bool packs;     /* WEFT_PACK_BYTES=4096 */
    bool implicit;  /* all of it in weft_implicit_replication_begin() */
    bool scoped;    /* everything is in a scope; else the program releases its tensors */
    bool gradients; /* it has leaves, and ends with a loss and a backward pass (gradients.h) */
    bool graphs;    /* it is run in captured graphs (graphs.h) */
    bool repeated;  /* again and again, with WEFT_AUTOGRAPH=1 (graphs.h) */
    int num_meshes, num_steps, num_values;
    mesh_plan meshes[MAX_MESHES];
    step steps[MAX_STEPS];
} program;

extern const char *const program_plans[], *const program_caches[]; /* NULL: by default */
enum { NUM_PLANS = 5, NUM_CACHES = 3 };

/* Names of a mesh's dimensions. */
extern const char *const mesh_names[MAX_MESH_DIMS];
/* Ranks of a mesh. */
int mesh_count(const mesh_plan *mesh);
/* The number of a rank in a mesh; -1: it is not in it. */
int mesh_index(const mesh_plan *mesh, int rank);
void mesh_coordinate(const mesh_plan *mesh, int index, int64_t coordinate[]);

/* Leaves out steps without an operation, and those that need their values; numbers the values anew. */
void program_tidy(program *p);

/* As text, one line a step; false where it cannot be read (`why` says). */
void program_write(const program *p, FILE *file);
bool program_read(program *p, FILE *file, char *why, size_t size);

/* "S0,R" */
const char *placements_text(int count, const weft_placement placements[], char *text, size_t size);

#endif
