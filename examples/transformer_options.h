/* Command line of transformer_lm. */
#ifndef TRANSFORMER_OPTIONS_H
#define TRANSFORMER_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include <weft/base.h>

/* How the model is spread over the mesh: see the plan in transformer_lm.c. */
typedef enum parallel { DATA, TENSOR, SEQUENCE, FULLY_SHARDED, TENSOR_AND_FULLY_SHARDED, DEFAULT } parallel;

typedef struct transformer_options {
    int64_t dp, tp; /* sizes of the mesh's two dimensions */
    parallel parallel;
    int64_t layers, width, heads, kv_heads;
    int64_t hidden;         /* width of the MLP: 8 / 3 of the width, rounded up to a multiple of 64 */
    bool tie;               /* the head is the embedding's table */
    int64_t context, batch; /* bytes in a sequence, sequences in a batch */
    int64_t steps, warmup;
    int64_t stop; /* the step before which the run ends; 0: steps */
    double rate;
    weft_dtype dtype; /* of products; weights and their updates are WEFT_F32 */
    int64_t seed;
    int64_t validate; /* steps from one validation to the next; 0: only at the end */
    int64_t sample;   /* bytes to write at the end */
    double temperature;
    const char *text, *load, *save, *curve;
    bool json;
} transformer_options;

/* As options_read(). */
int transformer_options_read(transformer_options *o, int argc, char *argv[]);

#endif
