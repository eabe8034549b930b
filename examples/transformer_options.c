#include "transformer_options.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const transformer_options defaults = {
    .dp = 1,
    .tp = 1,
    .parallel = DEFAULT,
    .layers = 4,
    .width = 128,
    .heads = 4,
    .kv_heads = 2,
    .context = 128,
    .warmup = 40,
    .dtype = WEFT_F32,
    .validate = 50,
    .run = { .steps = 200,
             .batch = 16,
             .seed = 1,
             .sample = 320,
             .rate = 3e-3,
             .temperature = 0.6,
             .text = "/usr/share/common-licenses/GPL-3" },
};

static const char introduction[] =
    "Trains a transformer to continue a text, byte by byte, on a mesh of ranks. All ranks live in this\n"
    "process; under mpirun they are spread over the processes. Batches depend on the seed and the text "
    "alone.\n";

static const char *const parallel_names[] = { "dp", "tp", "sequence", "context", "fsdp", "tp+fsdp", "auto" };

/* "tp=2,dp=4": each name at most once; a missing one has size 1. */
static bool read_mesh(const char *text, void *into)
{
    enum { MOST = 4096 }; /* limit of each size: predictions have many ranks */
    transformer_options *o = into;
    int64_t sizes[2] = { 0, 0 };
    const char *rest = text;
    do {
        char entry[16] = "";
        size_t length = strcspn(rest, ",");
        if (length >= sizeof(entry)) {
            return false;
        }
        memcpy(entry, rest, length);
        int which = strncmp(entry, "tp=", 3) == 0;
        if ((which == 0 && strncmp(entry, "dp=", 3) != 0) || sizes[which] > 0 ||
            !integer_read(entry + 3, 1, MOST, &sizes[which])) {
            return false;
        }
        rest += length;
    } while (*rest++ == ',');
    o->dp = sizes[0] > 0 ? sizes[0] : 1;
    o->tp = sizes[1] > 0 ? sizes[1] : 1;
    return true;
}

static bool read_parallel(const char *text, void *into)
{
    for (int i = 0; i < DEFAULT; i++) {
        if (strcmp(text, parallel_names[i]) == 0) {
            *(parallel *)into = (parallel)i;
            return true;
        }
    }
    return false;
}

static bool read_dtype(const char *text, void *into)
{
    bool half = strcmp(text, "bf16") == 0;
    *(weft_dtype *)into = half ? WEFT_BF16 : WEFT_F32;
    return half || strcmp(text, "f32") == 0;
}

/* Checks options against one another. Returns an error message, or NULL. */
static const char *conflict(const transformer_options *o)
{
    bool tensor = o->parallel == TENSOR || o->parallel == SEQUENCE || o->parallel == TENSOR_AND_FULLY_SHARDED;
    if (o->width % o->heads != 0 || o->width / o->heads % 2 != 0) {
        return "--width must be an even multiple of --heads";
    }
    if (o->heads % o->kv_heads != 0) {
        return "--heads must be a multiple of --kv-heads";
    }
    if (tensor && o->kv_heads % o->tp != 0) {
        return "--kv-heads must be a multiple of the mesh's tp: each rank has whole heads";
    }
    if (o->table && o->parallel != AUTOMATIC) {
        return "--table goes with --parallel auto";
    }
    if (o->stop > o->run.steps) {
        return "--stop must not be above --steps";
    }
    return NULL;
}

int transformer_options_read(transformer_options *o, int argc, char *argv[])
{
    enum { MOST = 1 << 24, LARGE = 1 << 16 };
    *o = defaults;
    const argument table[] = {
        { "mesh", ARGUMENT_OTHER, o, "dp=N,tp=N", "sizes of the mesh, in any order (dp=1,tp=1)",
          .read = read_mesh },
        { "parallel", ARGUMENT_OTHER, &o->parallel, "HOW",
          "dp, tp, fsdp, tp+fsdp, sequence, context, auto (tp if the mesh has it, else dp)", .read = read_parallel },
        { "table", ARGUMENT_FLAG, &o->table, NULL, "with auto: print the chosen layouts and what others would cost" },
        { "layers", ARGUMENT_INTEGER, &o->layers, "N", "blocks of attention and MLP", 1, 256 },
        { "width", ARGUMENT_INTEGER, &o->width, "N", "numbers per byte of the text", 2, LARGE },
        { "heads", ARGUMENT_INTEGER, &o->heads, "N", "of queries", 1, LARGE },
        { "kv-heads", ARGUMENT_INTEGER, &o->kv_heads, "N", "of keys and values", 1, LARGE },
        { "tie", ARGUMENT_FLAG, &o->tie, NULL, "the head's weight is the embedding's" },
        { "muon", ARGUMENT_FLAG, &o->muon, NULL, "Muon, not AdamW, for the matrices of layers" },
        { "context", ARGUMENT_INTEGER, &o->context, "N", "bytes in a sequence", 1, LARGE },
        { "stop", ARGUMENT_INTEGER, &o->stop, "N", "end before this step; 0: after all", 0, MOST },
        { "untimed", ARGUMENT_INTEGER, &o->untimed, "N", "first steps, which the seconds leave out", 0, MOST },
        { "warmup", ARGUMENT_INTEGER, &o->warmup, "N", "steps until the learning rate is reached", 0, MOST },
        { "dtype", ARGUMENT_OTHER, &o->dtype, "f32|bf16", "of products; weights are f32 (f32)",
          .read = read_dtype },
        { "validate", ARGUMENT_INTEGER, &o->validate, "N", "steps between validations; 0: one at the end", 0,
          MOST },
        { "load", ARGUMENT_STRING, &o->load, "FILE", "begin with these weights, or resume that run" },
        { "save", ARGUMENT_STRING, &o->save, "FILE", "write a checkpoint at each validation, at the end, and on SIGUSR1" },
    };
    int code = training_options_read(&o->run, (int)(sizeof(table) / sizeof(*table)), table, introduction, argc, argv);
    if (code >= 0) {
        return code;
    }
    if (o->parallel == DEFAULT) {
        o->parallel = o->tp > 1 ? TENSOR : DATA;
    }
    o->run.graph |= o->parallel == AUTOMATIC;
    const char *trouble = conflict(o);
    if (trouble != NULL) {
        fprintf(stderr, "%s: %s\n", argv[0], trouble);
        return 2;
    }
    o->hidden = ((8 * o->width + 2) / 3 + 63) / 64 * 64;
    return -1;
}

double transformer_learning_rate(const transformer_options *o, int64_t step)
{
    if (step < o->warmup) {
        return o->run.rate * (double)(step + 1) / (double)o->warmup;
    }
    double part = (double)(step - o->warmup) / (double)(o->run.steps - o->warmup);
    return o->run.rate * (0.1 + 0.9 * (1 + cos(acos(-1) * part)) / 2);
}
