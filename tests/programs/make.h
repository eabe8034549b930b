/* For the rows' make functions, which choose a step's inputs and attributes. */
#ifndef WEFT_TESTS_MAKE_H
#define WEFT_TESTS_MAKE_H

#include "prng.h"
#include "calls.h"

enum { MAX_ELEMENTS = 700, MAX_TENSOR_DIMS = 5 };

/* The generator's knowledge of a value beside the value. */
typedef struct knowledge {
    int group;           /* values that may be one tensor have one */
    bool may_be_partial; /* the tensor may be: its layout is weft's choice */
    bool is_partial;     /* it was made so: then these are known */
    weft_placement placements[MAX_MESH_DIMS];
    bool lent;  /* it may be on memory that the program has lent */
    bool stale; /* one of its group was changed: its value depends on whether they are the same tensor */
} knowledge;

struct maker {
    prng random;
    program *program;
    evaluation evaluation;
    knowledge known[MAX_VALUES];
    int64_t largest;  /* elements of a tensor */
    bool special;     /* values that are not finite are welcome */
    bool calm;        /* only exactly known values: nothing is fetched before it is compared */
    int repeating;    /* one step in so many is a call that was made before */
    int eager;        /* one result in so many is compared at once, others at the end or at random */
    const char *only; /* names of rows, separated by commas; NULL: all. "-" before the first: all but these */
};

#define BIT(dtype) (1u << (dtype))
enum {
    FLOATS = BIT(WEFT_F64) | BIT(WEFT_F32) | BIT(WEFT_BF16) | BIT(WEFT_F16),
    INDICES = BIT(WEFT_I64) | BIT(WEFT_I32),
    SHORT_INTEGERS = BIT(WEFT_I8) | BIT(WEFT_I16) | BIT(WEFT_U16) | BIT(WEFT_U32),
    NUMBERS = FLOATS | INDICES | BIT(WEFT_U8) | SHORT_INTEGERS,
    ALL_TYPES = NUMBERS | BIT(WEFT_BOOL),
    EVERY_TYPE = ALL_TYPES | BIT(WEFT_U64) /* where elements only move, or wrap around whatever their sign */
};

/* ---- chance -------------------------------------------------------------------------------------------- */

/* 0 .. n - 1; low .. high */
int64_t below(maker *m, int64_t n);
int64_t between(maker *m, int64_t low, int64_t high);
/* True once in n times. */
bool one_in(maker *m, int64_t n);
weft_dtype any_type(maker *m, unsigned types);
/* Sizes of 1 to maker.largest elements, some of them 0. Returns how many: least .. most. */
int any_shape(maker *m, int least, int most, int64_t shape[]);
void any_placements(maker *m, int mesh, int ndim, bool partial, weft_placement out[]);
/* Lists sizes, in place of some shards, where no other mesh dimension cuts before. */
void any_cut_sizes(maker *m, int mesh, int ndim, const int64_t shape[], weft_placement placements[]);
/* And cyclic and zigzag cuts, for what is not given by shards. */
void any_cuts(maker *m, int mesh, int ndim, const int64_t shape[], weft_placement placements[]);
int any_mesh(maker *m);
/* A number that suits a tensor of this type: whole for integers. */
double any_number(maker *m, weft_dtype dtype);
/* A dimension of ndim, sometimes counted from the end. */
int any_dim(maker *m, int ndim);

/* ---- values -------------------------------------------------------------------------------------------- */

typedef struct wish {
    unsigned types;
    int mesh; /* -1: any */
    /* shape NULL: any of least .. most dimensions; else of `least` dimensions, these sizes (-1: any). */
    int least, most;
    const int64_t *shape;
    value_kind kind; /* VALUES_SMALL: finite, not large; INDEX, UNIT, POSITIVE: all elements are */
    int64_t limit;   /* of VALUES_INDEX */
    bool whole;      /* not Partial */
    bool writable;   /* of the program's own choice of layout, or not: in place */
} wish;

/* A value like that: one that there is, or a new one, by a step that gives it. NO_VALUE: there is no room. */
int choose_value(maker *m, const wish *w);
/* A new one in any case. */
int give_value(maker *m, const wish *w);
/* Any shape of least .. most dimensions, on any mesh. */
int choose_any(maker *m, unsigned types, int least, int most);
/* On the mesh of another, of this shape. */
int choose_like(maker *m, int other, unsigned types, int ndim, const int64_t shape[]);
const dense *value_of(const maker *m, int value);
int mesh_of(const maker *m, int value);

/* Indices below a limit, of this shape, on the mesh of another value (calls_indexing.c). */
int choose_indices(maker *m, int other, int64_t limit, int ndim, const int64_t shape[]);

/* A value that may be changed, not Partial; redistributed if no existing one is known to be. */
int choose_target(maker *m, unsigned types, int least, int most);

/* Adds a step: outputs that are not inputs get numbers. False where it is not valid, or nothing good comes of
 * it; then nothing has changed. */
bool add_step(maker *m, step *s);

/* A step with these inputs and one output. */
step step_of(const operation *row, int num_inputs, ...);

/* Fills in a program from its seed; the world is there already. `only`: the names of rows, or NULL. */
void generate(program *p, const char *only);
/* Sums some values up to a loss, and differentiates it by leaves (calls_gradients.c). False: there is nothing to
 * differentiate. */
bool end_with_loss(maker *m);
/* The world of a seed: seeds that follow each other share one, up to a multiple of this. */
enum { PROGRAMS_PER_WORLD = 64 };
void choose_world(program *p, uint64_t seed, int processes);

#endif
