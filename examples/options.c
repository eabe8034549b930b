#include "options.h"

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

static bool read_mesh(const char *text, void *into)
{
    options *o = into;
    return mesh_read(text, &o->dp, &o->tp);
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
        { "dtype", ARGUMENT_OTHER, &o->dtype, "f32|f64", "(f32)", .read = float_type_read },
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
