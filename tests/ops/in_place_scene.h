/* Random tensors for calls in place: a target, inputs that may share memory with it, and other tensors
 * that share memory with those. */
#ifndef WEFT_TESTS_IN_PLACE_SCENE_H
#define WEFT_TESTS_IN_PLACE_SCENE_H

#include "operand.h"

enum { MAX_TENSORS = 5, MAX_OTHERS = 8 };

typedef enum role {
    NONE,
    LIKE,    /* of the target's shape and type */
    BESIDE,  /* the same, or smaller and repeated */
    STATE,   /* of the target's layout, and changed */
    INDICES, /* of the target's shape, in the range of dimension 0: the target has such values */
    ROWS     /* of one dimension, of the target's size in dimension 0, and in its range */
} role;

typedef struct call {
    row_place place;
    const char *function;
    const char *operations[6]; /* names of those in place that it carries out */
    role roles[MAX_TENSORS];   /* of tensors 1, 2, ...; the target is tensor 0 */
    bool floating;             /* the types that it takes */
    bool distinct;             /* the changed tensor must not be another argument of the call */
    bool partial;              /* the target may be Partial(sum) */
    int ndim;                  /* of the target; 0: any */
    bool (*run)(weft_tensor *const t[]);
} call;

typedef struct scene {
    const call *call;
    weft_mesh *mesh;
    weft_placement placements[3];
    weft_dtype dtype;
    int ndim;
    int64_t shape[3];
    weft_tensor *tensors[MAX_TENSORS];
    int num_tensors;
    weft_tensor *others[MAX_OTHERS]; /* share memory with those */
    int num_others;
    char *lent[MAX_RANKS]; /* memory that the target's shards lie in */
    char text[500];
} scene;

scene make_scene(const call *c);
/* A tensor with memory of its own. */
weft_tensor *copy_of(weft_tensor *tensor);

#endif
