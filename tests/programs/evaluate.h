/* Evaluates a program on dense arrays: its values, and whether its calls are valid. */
#ifndef WEFT_TESTS_EVALUATE_H
#define WEFT_TESTS_EVALUATE_H

#include "dense.h"
#include "program.h"

/* ---- random states ------------------------------------------------------------------------------------- */

enum { MAX_STATES = 3, MAX_STACK = 3 };

/* The first is the default one. A program begins with seeds that follow from its own. */
typedef struct random_states {
    int in_use;
    weft_random_state states[MAX_STATES];
} random_states;

/* "state1": state number i, 1 and above. */
const char *random_state_name(int i);

/* ---- one step ------------------------------------------------------------------------------------------ */

/* A step on dense values: what its reference sees and gives. */
typedef struct scene {
    const program *program;
    const step *step;
    arena *arena;
    random_states *states;
    const dense *in[MAX_INPUTS]; /* NULL: not given */
    dense *out[MAX_OUTPUTS];     /* new ones, also in place */
    int mesh;                    /* of the outputs */
    bool truth;
    double number;
} scene;

/* A new output. */
dense *scene_output(scene *s, int i, weft_dtype dtype, int ndim, const int64_t shape[]);

/* ---- all of it ----------------------------------------------------------------------------------------- */

/* References to a value. */
typedef struct life {
    int owner;    /* depth of the scope that does; 0: the program; -1: none */
    int retained; /* further ones of the program's own */
} life;

typedef struct evaluation {
    const program *program;
    arena arena;
    dense *values[MAX_VALUES];
    int meshes[MAX_VALUES]; /* that they are on */
    life lives[MAX_VALUES];
    random_states states;
    int depth;                       /* open scopes */
    int num_stack, stack[MAX_STACK]; /* meshes */
    int no_grad;                     /* open regions without recording */
    bool is_leaf[MAX_VALUES];        /* or may be the same tensor as a leaf */
    bool requires_grad[MAX_VALUES];  /* computed from leaves, by operations that may all have gradients */
} evaluation;

void evaluation_start(evaluation *e, const program *p);
void evaluation_end(evaluation *e);
bool is_alive(const evaluation *e, int value);

/* Whether the results of a step are constants, whatever its inputs. */
bool is_unrecorded(const evaluation *e, const step *s);

/* The scene of a step that has been looked at, but not yet done; false where it is not valid. */
bool evaluate_step(evaluation *e, const step *s, scene *seen);
/* Does it: outputs become values, references change hands. */
void evaluation_commit(evaluation *e, const scene *seen);

/* Whether all steps of a program are valid; its values are left in *e, which the caller ends. */
bool evaluate(evaluation *e, const program *p);

/* ---- values that a program gives ----------------------------------------------------------------------- */

typedef enum value_kind {
    VALUES_ANY = 0, /* as a wish: any of these */
    VALUES_SMALL,   /* whole numbers -5 .. 5; 0 .. 9 of WEFT_U8; truth values */
    VALUES_EIGHTHS, /* multiples of 1/8 up to 4 */
    VALUES_FINE,    /* reals with many digits */
    VALUES_WIDE,    /* integers of all sizes; floating numbers of many magnitudes */
    VALUES_SPECIAL, /* small ones, some of which are NaN, infinite or -0 */
    VALUES_INDEX,   /* 0 .. limit - 1 */
    VALUES_UNIT,    /* multiples of 1/16 from 0 to 1 */
    VALUES_POSITIVE /* multiples of 1/4 from 1/4 to 4 */
} value_kind;

element given_value(value_kind kind, int64_t limit, weft_dtype dtype, uint64_t salt, int64_t i);
/* One of the addends, `part` of `parts`, of such a value. */
element given_addend(weft_reduce_op op, weft_dtype dtype, element value, int64_t parts, int64_t part,
                     uint64_t salt, int64_t i);
/* Number of a coordinate among those that differ along Partial dimensions; *parts: their count. */
int64_t addend_index(const mesh_plan *mesh, const weft_placement placements[], const int64_t coordinate[],
                     int64_t *parts, weft_reduce_op *op);
/* The values of a step that gives some: kind and limit are its first two whole numbers. */
dense *given_values(scene *s, weft_dtype dtype, int ndim, const int64_t shape[]);
uint64_t hash3(uint64_t a, uint64_t b, uint64_t c);

#endif
