/* Random numbers from counters: block b of four random words serves elements 4 b .. 4 b + 3 of the global
 * tensor, or two elements of 64 bits. */
#include "codelets/random.h"

#include <math.h>

#include "codelets/cpu/clones.h"
#include "codelets/convert.h"
#include "codelets/problems.h"
#include "codelets/random_normal.h"
#include "codelets/random_words.h"

enum { WORDS = WEFT_RANDOM_WORDS, BLOCKS = 128 };

void weft_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    const weft_random_state state = { (uint64_t)key[1] << 32 | key[0], (uint64_t)counter[3] << 32 | counter[2] };
    weft_random_words(&state, (uint64_t)counter[1] << 32 | counter[0], out);
}

/* For the program's kernels. */
double weft_random_normal(const weft_random_state *state, uint64_t number)
{
    uint32_t words[WORDS];
    double pair[2];
    weft_random_words(state, number / 2, words);
    weft_normals_f64(words, pair);
    return pair[number % 2];
}

float weft_random_normal_f32(const weft_random_state *state, uint64_t number)
{
    uint32_t words[WORDS];
    float pair[2];
    weft_random_words(state, number / 4, words);
    weft_normals_f32(words + number % 4 / 2 * 2, pair);
    return pair[number % 2];
}

/* Blocks first .. first + count - 1. */
WEFT_CLONES static void make_words(weft_random_state s, uint64_t first, int64_t count, uint32_t words[])
{
    for (int64_t i = 0; i < count; i++) {
        weft_random_words(&s, first + (uint64_t)i, words + WORDS * i);
    }
}

/* ---- runs of elements that follow each other in the global tensor -------------------------------------- */

typedef struct runner runner;

/* Conversion of words to elements: `per_block` elements per block. */
typedef struct method {
    int per_block;
    /* Writes `count` elements to `out`; `in`: the same elements of input 0, if any; `words`: those of the
     * elements' blocks, beginning `skip` elements earlier. */
    void (*write)(const runner *r, void *out, const void *in, const uint32_t words[], int64_t skip,
                  int64_t count);
} method;

struct runner {
    const weft_kernel_call *call;
    const method *method;
    weft_random_state state;
    weft_dtype type; /* of the output */
    double own[2];   /* the kernel's scalars */
};

static void write_run(const runner *r, char *out, const char *in, uint64_t first, int64_t count)
{
    const int per_block = r->method->per_block;
    const size_t size = weft_dtype_size(r->type);
    uint32_t words[WORDS * BLOCKS];
    while (count > 0) {
        uint64_t block = first / (uint64_t)per_block;
        int64_t skip = (int64_t)(first % (uint64_t)per_block);
        int64_t room = (int64_t)BLOCKS * per_block - skip, taken = count < room ? count : room;
        make_words(r->state, block, (skip + taken + per_block - 1) / per_block, words);
        r->method->write(r, out, in, words, skip, taken);
        out += (size_t)taken * size;
        in = in == NULL ? NULL : in + (size_t)taken * weft_dtype_size(r->call->inputs[0].dtype);
        first += (uint64_t)taken;
        count -= taken;
    }
}

/* Length of runs that are contiguous in the global tensor too; INT64_MAX: all. */
static int64_t run_length(const weft_view *view)
{
    int64_t length = 1;
    for (int d = view->ndim - 1; d > 0; d--) {
        length *= view->extent[d];
        if (view->extent[d] != view->shape[d]) {
            return length;
        }
    }
    return INT64_MAX;
}

static void run(const weft_kernel_call *call, const method *how, double own0, double own1)
{
    const weft_view *out = &call->output;
    const weft_view *in = call->num_inputs > 0 ? &call->inputs[0] : NULL;
    runner r = { call, how, weft_random_state_of(call->scalars), out->dtype, { own0, own1 } };
    const int64_t length = run_length(out), width = out->ndim == 0 ? 1 : out->row_elements;
    if (weft_view_count(out) == 0) {
        return;
    }
    for (int64_t row = 0, rows; row < weft_view_rows(out); row += rows) {
        int64_t in_rows = INT64_MAX;
        char *target = weft_view_row(out, row, &rows);
        const char *source = in == NULL ? NULL : weft_view_row(in, row, &in_rows);
        rows = rows < in_rows ? rows : in_rows;
        for (int64_t place = 0, taken; place < rows * width; place += taken) {
            taken = length < rows * width - place ? length : rows * width - place;
            write_run(&r, target + (size_t)place * weft_dtype_size(out->dtype),
                      source == NULL ? NULL : source + (size_t)place * weft_dtype_size(in->dtype),
                      weft_view_number(out, row, place), taken);
        }
    }
}

/* ---- uniform ------------------------------------------------------------------------------------------- */

static void uniform_f64(const runner *r, void *out, const void *in, const uint32_t words[], int64_t skip,
                        int64_t count)
{
    (void)in;
    const double low = r->own[0], high = r->own[1];
    double *values = out;
    for (int64_t i = 0; i < count; i++) {
        double value = low + (high - low) * weft_unit_of_words(words + 2 * (skip + i));
        values[i] = value < high || low == high ? value : nextafter(high, low);
    }
}

/* In f64, where own[0] + u (own[1] - own[0]) for two f32 an ulp apart does not round to the upper one. */
static void uniform_f32(const runner *r, void *out, const void *in, const uint32_t words[], int64_t skip,
                        int64_t count)
{
    (void)in;
    const double low = r->own[0], width = r->own[1] - r->own[0];
    for (int64_t i = 0; i < count; i++) {
        float value = weft_f32_rounded_down(low + width * ((double)(words[skip + i] >> 8) * 0x1p-24));
        if (r->type == WEFT_F32) {
            ((float *)out)[i] = value;
        } else {
            ((uint16_t *)out)[i] = r->type == WEFT_BF16 ? weft_bf16_rounded_down(value) : weft_f16_rounded_down(value);
        }
    }
}

/* Rounds to a floating type. */
static double as_type(weft_dtype type, double value)
{
    switch (type) {
    case WEFT_F32:
        return (double)(float)value;
    case WEFT_BF16:
        return (double)weft_bf16_to_f32(weft_f64_to_bf16(value));
    case WEFT_F16:
        return (double)weft_f16_to_f32(weft_f64_to_f16(value));
    default:
        return value;
    }
}

void weft_kernel_uniform(const weft_kernel_call *call)
{
    static const method wide = { 2, uniform_f64 }, narrow = { 4, uniform_f32 };
    const double *own = call->scalars + WEFT_RANDOM_OWN;
    weft_dtype type = call->output.dtype;
    run(call, type == WEFT_F64 ? &wide : &narrow, as_type(type, own[0]), as_type(type, own[1]));
}

/* ---- normal -------------------------------------------------------------------------------------------- */

WEFT_CLONES static void normals_f64(double values[], const uint32_t words[], int64_t pairs)
{
    for (int64_t i = 0; i < pairs; i++) {
        weft_normals_f64(words + 4 * i, values + 2 * i);
    }
}

WEFT_CLONES static void normals_f32(float values[], const uint32_t words[], int64_t pairs)
{
    for (int64_t i = 0; i < pairs; i++) {
        weft_normals_f32(words + 2 * i, values + 2 * i);
    }
}

static void normal_f64(const runner *r, void *out, const void *in, const uint32_t words[], int64_t skip,
                       int64_t count)
{
    (void)in;
    double values[2 * BLOCKS];
    normals_f64(values, words, (skip + count + 1) / 2);
    for (int64_t i = skip; i < skip + count; i++) {
        values[i] = r->own[0] + r->own[1] * values[i];
    }
    weft_store(r->type, out, 1, WEFT_F64, values + skip, count);
}

static void normal_f32(const runner *r, void *out, const void *in, const uint32_t words[], int64_t skip,
                       int64_t count)
{
    (void)in;
    float values[WORDS * BLOCKS];
    normals_f32(values, words, (skip + count + 1) / 2);
    for (int64_t i = skip; i < skip + count; i++) {
        values[i] = (float)(r->own[0] + r->own[1] * (double)values[i]);
    }
    weft_store(r->type, out, 1, WEFT_F32, values + skip, count);
}

void weft_kernel_normal(const weft_kernel_call *call)
{
    static const method wide = { 2, normal_f64 }, narrow = { 4, normal_f32 };
    const double *own = call->scalars + WEFT_RANDOM_OWN;
    run(call, call->output.dtype == WEFT_F64 ? &wide : &narrow, own[0], own[1]);
}

/* ---- whole numbers ------------------------------------------------------------------------------------- */

/* High part of a 64-bit random fraction times the count: probabilities differ by at most 2^-64. */
static void write_whole(const runner *r, void *out, const void *in, const uint32_t words[], int64_t skip,
                        int64_t count)
{
    (void)in;
    const double *own = r->call->scalars + WEFT_RANDOM_OWN;
    const uint64_t low = weft_random_unpack(own), numbers = weft_random_unpack(own + 2);
    int64_t values[2 * BLOCKS];
    for (int64_t i = 0; i < count; i++) {
        const uint32_t *pair = words + 2 * (skip + i);
        values[i] = (int64_t)(low + weft_high_product((uint64_t)pair[1] << 32 | pair[0], numbers));
    }
    weft_store(r->type, out, 1, WEFT_I64, values, count);
}

void weft_kernel_randint(const weft_kernel_call *call)
{
    static const method how = { 2, write_whole };
    run(call, &how, 0, 0);
}

/* ---- truth values -------------------------------------------------------------------------------------- */

static void write_chance(const runner *r, void *out, const void *in, const uint32_t words[], int64_t skip,
                         int64_t count)
{
    (void)in;
    uint8_t values[WORDS * BLOCKS];
    for (int64_t i = 0; i < count; i++) {
        values[i] = (double)words[skip + i] * 0x1p-32 < r->own[0];
    }
    weft_store(r->type, out, 1, WEFT_BOOL, values, count);
}

void weft_kernel_bernoulli_scalar(const weft_kernel_call *call)
{
    static const method how = { 4, write_chance };
    run(call, &how, call->scalars[WEFT_RANDOM_OWN], 0);
}

static void write_chances(const runner *r, void *out, const void *in, const uint32_t words[], int64_t skip,
                          int64_t count)
{
    uint8_t values[WORDS * BLOCKS];
    double p[WORDS * BLOCKS];
    weft_load(WEFT_F64, p, r->call->inputs[0].dtype, in, 1, count);
    for (int64_t i = 0; i < count; i++) {
        bool valid = p[i] >= 0 && p[i] <= 1;
        if (!valid) {
            weft_problem_chance(r->call->error, 0, p[i]);
        }
        values[i] = valid && (double)words[skip + i] * 0x1p-32 < p[i];
    }
    weft_store(r->type, out, 1, WEFT_BOOL, values, count);
}

void weft_kernel_bernoulli(const weft_kernel_call *call)
{
    static const method how = { 4, write_chances };
    run(call, &how, 0, 0);
}

/* ---- permutations -------------------------------------------------------------------------------------- */

void weft_kernel_randperm(const weft_kernel_call *call)
{
    const weft_view *out = &call->output;
    const uint64_t n = (uint64_t)out->shape[0];
    const weft_random_state own = weft_random_state_of(call->scalars);
    const weft_network net = weft_network_of(own.seed, own.offset, n);
    for (int64_t row = 0, rows; row < weft_view_rows(out); row += rows) {
        int64_t *values = weft_view_row(out, row, &rows);
        for (int64_t i = 0; i < rows; i++) {
            /* Cycle walking: a cycle leads back into the range. */
            uint64_t x = (uint64_t)(out->offset[0] + row + i);
            do {
                x = weft_permuted(&net, x);
            } while (x >= n);
            values[i] = (int64_t)x;
        }
    }
}
