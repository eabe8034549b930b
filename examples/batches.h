/* Batches of a text's bytes, in an order that depends on the seed and the text alone. */
#ifndef EXAMPLES_BATCHES_H
#define EXAMPLES_BATCHES_H

#include "text.h"

typedef struct batches {
    text text; /* the last tenth is for validation */
    int64_t context, rows, seed;
    int64_t count; /* bytes in the batch that the next two hold: sequences of `context`, one after another */
    int32_t *tokens, *targets; /* targets: the byte after each token */
} batches;

/* Reads the text. False: as text_load(), or no memory. */
bool batches_load(batches *b, const char *path, const char *program);
void batches_free(batches *b);

/* The batch of a step: `rows` sequences of the text for training. */
void batches_draw(batches *b, int64_t step);
/* The batch for validation: the first sequences of the last tenth, the same ones each time. */
void batches_validation(batches *b);

#endif
