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

/* From here on SIGUSR1, sent to any process, asks for a checkpoint: Slurm's --signal, before a job's time is over. */
void checkpoints_heed_signal(void);
/* Whether one of the processes has been asked: submits the sum of their answers, a tensor of one element, which all read at the
 * same step (read_loss()), and so write the checkpoint at the same step. */
weft_tensor *checkpoints_asked(void);

/* BLOCKS: sets *step to that of the file, at most `steps`; a file of weights alone leaves it. False: an error, kept by weft
 * or after a message. */
bool checkpoints_load(checkpoints *c, const char *path, int64_t steps, int64_t *step, const char *program);

#endif
