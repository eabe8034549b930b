#include "training_options.h"

#include <string.h>

enum { MOST = 1 << 24, MOST_OWN = 20 };

int training_options_read(training_options *t, int num_own, const argument own[], const char *introduction, int argc,
                          char *argv[])
{
    const argument common[] = {
        { "batch", ARGUMENT_INTEGER, &t->batch, "N", "predictions or sequences in a step", 1, MOST },
        { "steps", ARGUMENT_INTEGER, &t->steps, "N", "updates of the weights", t->fewest_steps, MOST },
        { "lr", ARGUMENT_NUMBER, &t->rate, "X", "learning rate, the highest where it changes" },
        { "seed", ARGUMENT_INTEGER, &t->seed, "N", "of the weights, the batches and the writing", 0, UINT32_MAX },
        { "text", ARGUMENT_STRING, &t->text, "FILE", "what to learn" },
        { "sample", ARGUMENT_INTEGER, &t->sample, "N", "bytes to write at the end", 0, MOST },
        { "temperature", ARGUMENT_NUMBER, &t->temperature, "X", "of that writing: low is cautious" },
        { "graph", ARGUMENT_FLAG, &t->graph, NULL, "capture the first step and replay it: the same numbers, sooner" },
        { "curve", ARGUMENT_STRING, &t->curve, "FILE", "write the loss of every step, one per line" },
        { "json", ARGUMENT_FLAG, &t->json, NULL, "last line of the output: the summary as one JSON object" },
    };
    enum { NUM_COMMON = sizeof(common) / sizeof(*common) };
    argument all[MOST_OWN + NUM_COMMON];
    memcpy(all, own, (size_t)num_own * sizeof(*own));
    memcpy(all + num_own, common, sizeof(common));
    return arguments_read(num_own + NUM_COMMON, all, introduction, argc, argv);
}
