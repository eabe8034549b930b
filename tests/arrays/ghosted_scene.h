/* A pair of tensors in ghosted arrays with dense references, and steps of programs on them. */
#ifndef WEFT_TESTS_GHOSTED_SCENE_H
#define WEFT_TESTS_GHOSTED_SCENE_H

#include "support.h"

enum { MAX_RANKS = 6, MAX_DIMS = 3, MAX_LOCAL = 6 };

/* Two arrays of one shape. The dense reference of each has all elements; `border` those of margins beyond the tensor's borders. */
typedef struct field {
    int ndim;
    int64_t shape[MAX_DIMS];
    weft_ghosts ghosts;
    weft_mesh *mesh;
    weft_placement placements[WEFT_MAX_DIMS];
    int num_local;
    weft_box own[MAX_LOCAL];
    int64_t padded[MAX_LOCAL][MAX_DIMS]; /* extents of the arrays; 0: none */
    int64_t *arrays[2][MAX_LOCAL];
    int64_t *dense[2];
    weft_tensor *tensors[2];
} field;

/* A field of a random shape, mesh and ghosts, in the innermost scope. */
void field_random(prng *random, field *f);
void field_free(field *f);
/* Writes the inside, and the margins beyond borders; other margins get what must not be read. */
void field_store(const field *f, int which);
/* The inside has the values; with `margins` these too, but for corners that a star leaves out. */
void field_check(const field *f, int which, bool margins);
int64_t field_count_in_array(const field *f, int local);

/* A stencil "a~b~,..": its weights follow from the numbers: before and after of each dimension, then whether it is a star. */
const weft_operation *register_stencil(int ndim);

typedef enum step_kind {
    STEP_STENCIL,  /* one tensor becomes a stencil of the other */
    STEP_ADD,      /* in place */
    STEP_COPY,     /* in place */
    STEP_EXCHANGE, /* of halos */
    STEP_SUM,      /* its number is read */
    STEP_READ,     /* all elements are read */
    NUM_STEPS
} step_kind;

typedef struct step {
    step_kind kind;
    int which; /* the tensor that it changes or reads */
    weft_apply_options options;
} step;

/* A step of a kind below `most`. */
step step_random(prng *random, const field *f, step_kind most);
/* Makes the step's calls; compares what is read with the dense tensors. */
void step_make(const field *f, const weft_operation *stencil, const step *s);
/* The same on the dense tensors. */
void step_compute(field *f, const step *s);

#endif
