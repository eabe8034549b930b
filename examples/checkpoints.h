/* Checkpoints of a training run: written while it goes on, and continued from. */
#ifndef EXAMPLES_CHECKPOINTS_H
#define EXAMPLES_CHECKPOINTS_H

#include <stdbool.h>

#include <weft/weft.h>

typedef struct checkpoints {
    int num_weights, num_tensors; /* tensors: the weights first, then the optimiser's states */
    const char *const *names;
    weft_tensor *const *tensors;
    weft_checkpoint_saving *saving; /* the last one, under way or ended; NULL: none */
} checkpoints;

/* The values of this moment, after `step` steps; the training goes on meanwhile. Before the first step: weights alone. */
void checkpoints_save(checkpoints *c, const char *path, int64_t step);
/* BLOCKS until the last save has ended. */
void checkpoints_end(checkpoints *c);

/* BLOCKS: sets *step to that of the file, at most `steps`; a file of weights alone leaves it. False: an error, kept by weft
 * or after a message. */
bool checkpoints_load(checkpoints *c, const char *path, int64_t steps, int64_t *step, const char *program);

#endif
