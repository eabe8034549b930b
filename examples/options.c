#include "options.h"

#include <string.h>

#include "arguments.h"

static const options defaults = {
    .dp = 2,
    .tp = 2,
    .steps = 1500,
    .batch = 256,
    .hidden = 256,
    .embed = 32,
    .sample = 320,
    .rate = 0.3,
    .temperature = 0.6,
    .text = "/usr/share/common-licenses/GPL-3",
    .seed = 1,
    .dtype = WEFT_F32,
};

static const char introduction[] =
    "Trains a next-character model on a mesh of ranks, and lets it write. All ranks live in this\n"
    "process; under mpirun they are spread over the processes, and every loss stays what it was.\n";

/* "2x2": exactly two sizes. */
static bool read_mesh(const char *text, void *into)
{
    enum { MOST = 64 }; /* limit of each size: without mpirun all share one machine */
    options *o = into;
    const char *cross = strchr(text, 'x');
    char first[8] = "";
    if (cross == NULL || cross == text || (size_t)(cross - text) >= sizeof(first)) {
        return false;
    }
    memcpy(first, text, (size_t)(cross - text));
    return integer_read(first, 1, MOST, &o->dp) && integer_read(cross + 1, 1, MOST, &o->tp);
}

static bool read_dtype(const char *text, void *into)
{
    bool single = strcmp(text, "f32") == 0;
    *(weft_dtype *)into = single ? WEFT_F32 : WEFT_F64;
    return single || strcmp(text, "f64") == 0;
}

int options_read(options *o, int argc, char *argv[])
{
    enum { MOST = 1 << 24 };
    *o = defaults;
    const argument table[] = {
        { "mesh", ARGUMENT_OTHER, o, "DPxTP", "dp splits the batch, tp the hidden layer (2x2)",
          .read = read_mesh },
        { "steps", ARGUMENT_INTEGER, &o->steps, "N", "updates of the weights", 1, MOST },
        { "batch", ARGUMENT_INTEGER, &o->batch, "N", "characters predicted in a step", 1, MOST },
        { "hidden", ARGUMENT_INTEGER, &o->hidden, "N", "width of the two hidden layers", 1, MOST },
        { "embed", ARGUMENT_INTEGER, &o->embed, "N", "numbers per character", 1, MOST },
        { "lr", ARGUMENT_NUMBER, &o->rate, "X", "learning rate of plain gradient descent" },
        { "dtype", ARGUMENT_OTHER, &o->dtype, "f32|f64", "(f32)", .read = read_dtype },
        { "text", ARGUMENT_STRING, &o->text, "FILE", "what to learn" },
        { "sample", ARGUMENT_INTEGER, &o->sample, "N", "characters to write at the end", 0, MOST },
        { "temperature", ARGUMENT_NUMBER, &o->temperature, "X", "of that writing: low is cautious" },
        { "seed", ARGUMENT_INTEGER, &o->seed, "N", "of the weights, the batches and the writing", 1,
          INT64_MAX },
        { "curve", ARGUMENT_STRING, &o->curve, "FILE", "write the loss of every step, one per line" },
        { "json", ARGUMENT_FLAG, &o->json, NULL, "last line of the output: the summary as one JSON object" },
    };
    return arguments_read((int)(sizeof(table) / sizeof(*table)), table, introduction, argc, argv);
}
