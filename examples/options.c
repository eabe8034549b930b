#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static void print_help(const char *program)
{
    const options *d = &defaults;
    printf("usage: %s [OPTION]...\n"
           "Trains a next-character model on a mesh of ranks, and lets it write. All ranks live in this\n"
           "process; under mpirun they are spread over the processes, and every loss stays what it was.\n\n",
           program);
    printf("  --mesh DPxTP      dp splits the batch, tp the hidden layer (%dx%d)\n", (int)d->dp, (int)d->tp);
    printf("  --steps N         (%d)\n", (int)d->steps);
    printf("  --batch N         characters predicted in a step (%d)\n", (int)d->batch);
    printf("  --hidden N        width of the two hidden layers (%d)\n", (int)d->hidden);
    printf("  --embed N         numbers per character (%d)\n", (int)d->embed);
    printf("  --lr X            learning rate of plain gradient descent (%g)\n", d->rate);
    printf("  --dtype f32|f64   (f32)\n");
    printf("  --text FILE       what to learn (%s)\n", d->text);
    printf("  --sample N        characters to write at the end (%d)\n", (int)d->sample);
    printf("  --temperature X   of that writing: low is cautious (%g)\n", d->temperature);
    printf("  --seed N          of the weights, the batches and the writing (%d)\n", (int)d->seed);
    printf("  --curve FILE      write the loss of every step, one per line\n");
    printf("  --json            last line of the output: the summary as one JSON object\n");
    printf("  --help\n");
}

static bool read_integer(const char *text, int64_t least, int64_t most, int64_t *value)
{
    char *end = NULL;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || number < least || number > most) {
        return false;
    }
    *value = number;
    return true;
}

static bool read_positive(const char *text, double *value)
{
    char *end = NULL;
    double number = strtod(text, &end);
    if (end == text || *end != '\0' || !(number > 0) || number > 1e6) {
        return false;
    }
    *value = number;
    return true;
}

/* "2x2": exactly two sizes. */
static bool read_mesh(const char *text, int64_t *dp, int64_t *tp)
{
    enum { MOST = 64 }; /* limit of each size: without mpirun all share one machine */
    const char *cross = strchr(text, 'x');
    char first[8] = "";
    if (cross == NULL || cross == text || (size_t)(cross - text) >= sizeof(first)) {
        return false;
    }
    memcpy(first, text, (size_t)(cross - text));
    return read_integer(first, 1, MOST, dp) && read_integer(cross + 1, 1, MOST, tp);
}

static bool read_dtype(const char *text, weft_dtype *dtype)
{
    if (strcmp(text, "f32") == 0) {
        *dtype = WEFT_F32;
    } else if (strcmp(text, "f64") == 0) {
        *dtype = WEFT_F64;
    } else {
        return false;
    }
    return true;
}

enum { MESH, STEPS, BATCH, HIDDEN, EMBED, RATE, DTYPE, TEXT, SAMPLE, TEMPERATURE, SEED, CURVE, JSON, HELP };

static const struct option long_options[] = {
    { "mesh", required_argument, NULL, MESH },
    { "steps", required_argument, NULL, STEPS },
    { "batch", required_argument, NULL, BATCH },
    { "hidden", required_argument, NULL, HIDDEN },
    { "embed", required_argument, NULL, EMBED },
    { "lr", required_argument, NULL, RATE },
    { "dtype", required_argument, NULL, DTYPE },
    { "text", required_argument, NULL, TEXT },
    { "sample", required_argument, NULL, SAMPLE },
    { "temperature", required_argument, NULL, TEMPERATURE },
    { "seed", required_argument, NULL, SEED },
    { "curve", required_argument, NULL, CURVE },
    { "json", no_argument, NULL, JSON },
    { "help", no_argument, NULL, HELP },
    { NULL, 0, NULL, 0 },
};

static bool read_option(options *o, int which, const char *text)
{
    enum { MOST = 1 << 24 };
    int64_t seed = 0;
    switch (which) {
    case MESH: return read_mesh(text, &o->dp, &o->tp);
    case STEPS: return read_integer(text, 1, MOST, &o->steps);
    case BATCH: return read_integer(text, 1, MOST, &o->batch);
    case HIDDEN: return read_integer(text, 1, MOST, &o->hidden);
    case EMBED: return read_integer(text, 1, MOST, &o->embed);
    case RATE: return read_positive(text, &o->rate);
    case DTYPE: return read_dtype(text, &o->dtype);
    case TEXT: o->text = text; return true;
    case SAMPLE: return read_integer(text, 0, MOST, &o->sample);
    case TEMPERATURE: return read_positive(text, &o->temperature);
    case SEED:
        if (!read_integer(text, 1, INT64_MAX, &seed)) {
            return false;
        }
        o->seed = (uint64_t)seed;
        return true;
    case CURVE: o->curve = text; return true;
    case JSON: o->json = true; return true;
    default: return false;
    }
}

int options_read(options *o, int argc, char *argv[])
{
    *o = defaults;
    int which = 0, place = 0;
    while ((which = getopt_long(argc, argv, "", long_options, &place)) != -1) {
        if (which == HELP) {
            print_help(argv[0]);
            return 0;
        }
        if (which == '?') {
            return 2; /* getopt has printed a message */
        }
        if (!read_option(o, which, optarg)) {
            fprintf(stderr, "%s: --%s cannot be \"%s\" (see --help)\n", argv[0], long_options[place].name,
                    optarg);
            return 2;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "%s: \"%s\" is no option (see --help)\n", argv[0], argv[optind]);
        return 2;
    }
    return -1;
}
