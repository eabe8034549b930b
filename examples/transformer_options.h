/* Command line of transformer_lm. */
#ifndef TRANSFORMER_OPTIONS_H
#define TRANSFORMER_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include <weft/base.h>

#include "training_options.h"

/* How the model is spread over the mesh: see the plan in transformer_lm.c. */
typedef enum parallel { DATA, TENSOR, SEQUENCE, CONTEXT, FULLY_SHARDED, TENSOR_AND_FULLY_SHARDED, AUTOMATIC, DEFAULT } parallel;

typedef struct transformer_options {
    int64_t dp, tp; /* sizes of the mesh's two dimensions */
    parallel parallel;
    bool table;               /* prints the reasons of AUTOMATIC */
    int64_t layers, width, heads, kv_heads;
    int64_t hidden;         /* width of the MLP: 8 / 3 of the width, rounded up to a multiple of 64 */
    bool tie;               /* the head is the embedding's table */
    bool muon;              /* Muon for the matrices of layers */
    int64_t context;        /* bytes in a sequence; a batch has run.batch sequences */
    int64_t warmup;
    int64_t stop;    /* the step before which the run ends; 0: steps */
    int64_t untimed; /* first steps, which are not in the summary's seconds */
    weft_dtype dtype; /* of products; weights and their updates are WEFT_F32 */
    int64_t validate; /* steps from one validation to the next; 0: only at the end */
    const char *load, *save;
    training_options run;
} transformer_options;

/* As options_read(). */
int transformer_options_read(transformer_options *o, int argc, char *argv[]);

/* Learning rate of a step: rises for `warmup` steps, then falls to a tenth along a cosine. */
double transformer_learning_rate(const transformer_options *o, int64_t step);

#endif
