/* Constants and random numbers. */
#include "codelets/fill.h"

#include <math.h>

#include "codelets/cpu/half.h"

/* ---- fill ---------------------------------------------------------------------------------------------- */

/* Conversions that C leaves undefined: NaN gives 0, what is too large the nearest value. */
static int64_t saturate(double value, double lowest, double highest, int64_t min, int64_t max)
{
    return value != value ? 0 : value <= lowest ? min : value >= highest ? max : (int64_t)value;
}

#define FILL(type, converted)                                                                                \
    {                                                                                                        \
        type *out = pointer;                                                                                 \
        type v = (type)(converted);                                                                          \
        for (int64_t i = 0; i < count; i++) {                                                                \
            out[i] = v;                                                                                      \
        }                                                                                                    \
        break;                                                                                               \
    }

static void fill(weft_dtype dtype, void *pointer, int64_t count, double value)
{
    switch (dtype) {
    case WEFT_F64:
        FILL(double, value)
    case WEFT_F32:
        FILL(float, value)
    case WEFT_BF16:
        FILL(uint16_t, weft_f32_to_bf16((float)value))
    case WEFT_F16:
        FILL(uint16_t, weft_f32_to_f16((float)value))
    case WEFT_I64:
        FILL(int64_t, saturate(value, -0x1p63, 0x1p63, INT64_MIN, INT64_MAX))
    case WEFT_I32:
        FILL(int32_t, saturate(value, -0x1p31, 0x1p31 - 1, INT32_MIN, INT32_MAX))
    case WEFT_U8:
        FILL(uint8_t, saturate(value, 0, 255, 0, 255))
    case WEFT_BOOL:
        FILL(uint8_t, value != 0)
    }
}

static void fill_cpu(void *buffers[], void *argument)
{
    const weft_fill_args *args = argument;
    fill(args->base.dtype, weft_task_pointer(buffers, &args->base, 0), args->count, args->value);
}

struct starpu_codelet weft_codelet_fill = {
    .cpu_funcs = { fill_cpu },
    .cpu_funcs_name = { "fill_cpu" },
    .nbuffers = STARPU_VARIABLE_NBUFFERS,
    .name = "weft_fill",
    .color = WEFT_COLOR_FILL,
};

/* ---- Philox4x32-10 ------------------------------------------------------------------------------------- */

void weft_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = UINT64_C(0xD2511F53) * c0, p1 = UINT64_C(0xCD9E8D57) * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* ---- random tensors ------------------------------------------------------------------------------------ */

/* One block of random words: for the elements 4b .. 4b + 3 in single precision, 2b and 2b + 1 in double. */
static void random_block(const weft_random_args *args, uint64_t block, uint32_t words[4])
{
    uint32_t counter[4] = { (uint32_t)block, (uint32_t)(block >> 32), (uint32_t)args->stream,
                            (uint32_t)(args->stream >> 32) };
    uint32_t key[2] = { (uint32_t)args->seed, (uint32_t)(args->seed >> 32) };
    weft_philox4x32(counter, key, words);
}

static double double_of_words(uint32_t low, uint32_t high)
{
    uint64_t bits = (uint64_t)high << 32 | low;
    return (double)(bits >> 11) * 0x1p-53;
}

/* Box and Muller, 1958: two uniforms give two normals. 1 - u is in (0, 1], where the logarithm is finite. */
static void double_block(const weft_random_args *args, uint64_t block, double values[2])
{
    uint32_t words[4];
    random_block(args, block, words);
    double u = double_of_words(words[0], words[1]), v = double_of_words(words[2], words[3]);
    values[0] = u;
    values[1] = v;
    if (args->normal) {
        double radius = sqrt(-2.0 * log(1.0 - u)), angle = 2.0 * 3.14159265358979323846 * v;
        values[0] = radius * cos(angle);
        values[1] = radius * sin(angle);
    }
}

static void float_block(const weft_random_args *args, uint64_t block, float values[4])
{
    uint32_t words[4];
    random_block(args, block, words);
    for (int i = 0; i < 4; i++) {
        values[i] = (float)(words[i] >> 8) * 0x1p-24f;
    }
    for (int i = 0; args->normal && i < 4; i += 2) {
        float radius = sqrtf(-2.0f * logf(1.0f - values[i])), angle = 2.0f * 3.14159265f * values[i + 1];
        values[i] = radius * cosf(angle);
        values[i + 1] = radius * sinf(angle);
    }
}

/* Rounded towards zero when uniform, so that 1 is never reached. */
static uint16_t half_of_float(const weft_random_args *args, float value)
{
    if (args->base.dtype == WEFT_BF16) {
        return args->normal ? weft_f32_to_bf16(value) : (uint16_t)(weft_bits_of_float(value) >> 16);
    }
    uint16_t half = weft_f32_to_f16(value);
    return !args->normal && half >= 0x3c00u ? 0x3bffu : half;
}

/* The elements first .. first + count - 1 of the global tensor. */
static void random_run(const weft_random_args *args, void *out, int64_t place, uint64_t first, int64_t count)
{
    if (args->base.dtype == WEFT_F64) {
        double values[2];
        for (int64_t i = 0; i < count; i++) {
            uint64_t element = first + (uint64_t)i;
            if (i == 0 || element % 2 == 0) {
                double_block(args, element / 2, values);
            }
            ((double *)out)[place + i] = values[element % 2];
        }
        return;
    }
    float values[4];
    for (int64_t i = 0; i < count; i++) {
        uint64_t element = first + (uint64_t)i;
        if (i == 0 || element % 4 == 0) {
            float_block(args, element / 4, values);
        }
        if (args->base.dtype == WEFT_F32) {
            ((float *)out)[place + i] = values[element % 4];
        } else {
            ((uint16_t *)out)[place + i] = half_of_float(args, values[element % 4]);
        }
    }
}

static void random_cpu(void *buffers[], void *argument)
{
    const weft_random_args *args = argument;
    void *out = weft_task_pointer(buffers, &args->base, 0);
    int ndim = args->ndim;
    int64_t row = ndim == 0 ? 1 : args->extent[ndim - 1];
    int64_t rows = 1;
    for (int d = 0; d < ndim - 1; d++) {
        rows *= args->extent[d];
    }
    int64_t index[WEFT_MAX_DIMS] = { 0 };
    for (int64_t r = 0; r < rows; r++) {
        uint64_t first = 0;
        for (int d = 0; d < ndim; d++) {
            first = first * (uint64_t)args->shape[d] + (uint64_t)(args->offset[d] + index[d]);
        }
        random_run(args, out, r * row, first, row);
        for (int d = ndim - 2; d >= 0 && ++index[d] == args->extent[d]; d--) {
            index[d] = 0;
        }
    }
}

struct starpu_codelet weft_codelet_random = {
    .cpu_funcs = { random_cpu },
    .cpu_funcs_name = { "random_cpu" },
    .nbuffers = STARPU_VARIABLE_NBUFFERS,
    .name = "weft_random",
    .color = WEFT_COLOR_FILL,
};
