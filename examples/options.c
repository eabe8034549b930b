#include "options.h"

static const options defaults = {
    .mesh = { 2, 2 },
    .hidden = 256,
    .embed = 32,
    .dtype = WEFT_F32,
    .run = { .fewest_steps = 1,
             .steps = 1500,
             .batch = 256,
             .seed = 1,
             .sample = 320,
             .rate = 0.3,
             .temperature = 0.6,
             .text = "/usr/share/common-licenses/GPL-3" },
};

static const char introduction[] =
    "Trains a next-character model on a mesh of ranks, and lets it write. All ranks live in this\n"
    "process; under mpirun they are spread over the processes, and every loss stays what it was.\n";

int options_read(options *o, int argc, char *argv[])
{
    enum { MOST = 1 << 24 };
    *o = defaults;
    const argument table[] = {
        { "mesh", ARGUMENT_SIZES, o->mesh, "DPxTP", "dp splits the batch, tp the hidden layer", 1, MOST_RANKS },
        { "hidden", ARGUMENT_INTEGER, &o->hidden, "N", "width of the two hidden layers", 1, MOST },
        { "embed", ARGUMENT_INTEGER, &o->embed, "N", "numbers per character", 1, MOST },
        { "dtype", ARGUMENT_OTHER, &o->dtype, "f32|f64", "(f32)", .read = float_type_read },
    };
    return training_options_read(&o->run, (int)(sizeof(table) / sizeof(*table)), table, introduction, argc, argv);
}
