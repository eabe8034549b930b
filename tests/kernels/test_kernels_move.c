/* Kernels that move, reduce, fill and draw, and the 16-bit types, against plain references. */
#include "kernel_support.h"

#include <math.h>
#include <stdlib.h>

#include "codelets/constant.h"
#include "codelets/random.h"

/* ---- 16-bit types -------------------------------------------------------------------------------------- */

static void test_half_round_trip(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 65536; bits++) {
        uint16_t half = (uint16_t)bits;
        float f16 = weft_f16_to_f32(half), bf16 = weft_bf16_to_f32(half);
        if (f16 == f16) {
            assert_int_equal(weft_f32_to_f16(f16), half);
        } else {
            assert_true(isnan(weft_f16_to_f32(weft_f32_to_f16(f16))));
        }
        if (bf16 == bf16) {
            assert_int_equal(weft_f32_to_bf16(bf16), half);
        } else {
            assert_true(isnan(weft_bf16_to_f32(weft_f32_to_bf16(bf16))));
        }
    }
}

/* No neighbour is nearer, and of two that are equally near the even one was taken. */
static void assert_nearest(float value, uint16_t half, float (*widen)(uint16_t))
{
    double error = fabs((double)widen(half) - (double)value);
    for (int step = -1; step <= 1; step += 2) {
        double other = (double)widen((uint16_t)(half + step));
        if (other != other || isinf(other) || (half & 0x7fff) == 0) {
            continue;
        }
        double distance = fabs(other - (double)value);
        if (distance < error || (distance == error && (half & 1) != 0)) {
            fail_msg("%a became %a", (double)value, (double)widen(half));
        }
    }
}

static void test_half_rounds_to_nearest_even(void **state)
{
    (void)state;
    prng random = prng_start(1);
    for (int i = 0; i < 300000; i++) {
        /* Exponents around both ranges, and halfway cases on purpose. */
        double exponent = (double)(prng_below(&random, 44) - 27);
        float value = (float)ldexp(1.0 + (double)prng_below(&random, 1 << 13) / (1 << 13), (int)exponent);
        value = prng_below(&random, 2) == 0 ? value : -value;
        if (fabsf(value) < 65504.0f) {
            assert_nearest(value, weft_f32_to_f16(value), weft_f16_to_f32);
        }
        assert_nearest(value, weft_f32_to_bf16(value), weft_bf16_to_f32);
    }
    assert_int_equal(weft_f32_to_f16(65519.0f), 0x7bff);
    assert_int_equal(weft_f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(weft_f32_to_f16(-1e9f), 0xfc00);
    assert_int_equal(weft_f32_to_f16(0x1p-25f), 0);
    assert_int_equal(weft_f32_to_f16(0x1.8p-25f), 1);
}

/* ---- copies -------------------------------------------------------------------------------------------- */

/* A box inside two random larger arrays, whose dimensions on the target's side are in another order now and
 * then. */
static weft_strided_box random_box(prng *random, int64_t *source_size, int64_t *target_size)
{
    weft_strided_box box = { .ndim = (int)prng_below(random, 5) };
    int64_t from = 1, to = 1;
    bool turned = prng_below(random, 3) == 0;
    for (int k = 0; k < box.ndim; k++) {
        int d = box.ndim - 1 - k;
        box.extent[d] = prng_below(random, 12) == 0 ? 0 : 1 + prng_below(random, k == 0 ? 40 : 5);
        box.source_stride[d] = from;
        from *= box.extent[d] + prng_below(random, 2);
    }
    for (int k = 0; k < box.ndim; k++) {
        int d = turned ? k : box.ndim - 1 - k;
        box.target_stride[d] = to;
        to *= box.extent[d] + prng_below(random, 2);
    }
    *source_size = from + 1;
    *target_size = to + 1;
    return box;
}

static void test_copy(void **state)
{
    (void)state;
    prng random = prng_start(2);
    static const size_t sizes[] = { 1, 2, 4, 8 };
    for (int i = 0; i < 3000; i++) {
        size_t size = sizes[i % 4];
        int64_t from, to;
        weft_strided_box box = random_box(&random, &from, &to);
        unsigned char *source = malloc((size_t)from * size), *target = calloc((size_t)to, size);
        unsigned char *expected = calloc((size_t)to, size);
        for (int64_t k = 0; k < from * (int64_t)size; k++) {
            source[k] = (unsigned char)prng_next(&random);
        }
        int64_t count = shape_count(box.ndim, box.extent);
        for (int64_t k = 0; k < count; k++) {
            memcpy(expected + (size_t)place_of(&box, box.target_stride, k) * size,
                   source + (size_t)place_of(&box, box.source_stride, k) * size, size);
        }
        weft_copy_args args = { .element_size = size, .streams = i % 3 == 0, .boxes = { box } };
        operands o = { .count = 0 };
        add_operand(&o, target);
        add_operand(&o, source);
        run(WEFT_KERNEL_copy, &o, &args);
        assert_memory_equal(target, expected, (size_t)to * size);
        free(source);
        free(target);
        free(expected);
    }
}

/* Long rows, past the caches or not, wherever they begin; nothing beside them is written. Half of them move by less
 * than 100 bytes modulo a page. */
static void test_long_rows(void **state)
{
    (void)state;
    enum { PAGE = 4096, ROWS = 3, ROOM = 3 * PAGE };
    static _Alignas(PAGE) unsigned char source[ROWS * ROOM], target[ROWS * ROOM], expected[ROWS * ROOM];
    prng random = prng_start(6);
    for (int64_t k = 0; k < ROWS * ROOM; k++) {
        source[k] = (unsigned char)prng_next(&random);
    }
    for (int i = 0; i < 500; i++) {
        int64_t length = 500 + prng_below(&random, i % 4 == 0 ? 10000 : 2000), from = prng_below(&random, 100),
                to = prng_below(&random, 100);
        bool streams = prng_below(&random, 2) == 0;
        memset(target, 1, sizeof(target));
        memset(expected, 1, sizeof(expected));
        for (int row = 0; row < ROWS; row++) {
            memcpy(expected + row * ROOM + to, source + row * ROOM + from, (size_t)length);
        }
        weft_strided_box box = {
            .ndim = 2, .extent = { ROWS, length }, .source_stride = { ROOM, 1 }, .target_stride = { ROOM, 1 }
        };
        weft_cpu_copy_box(target + to, source + from, &box, 1, streams);
        assert_memory_equal(target, expected, sizeof(target));
    }
}

/* A box whose innermost dimension is another one on the two sides, from less than a tile to several. */
static weft_strided_box turned_box(prng *random, int64_t *source_size, int64_t *target_size)
{
    weft_strided_box box = { .ndim = 2 + (int)prng_below(random, 2) };
    int order[] = { 0, 1, 2 }, last = box.ndim - 1;
    int inner = (int)prng_below(random, last); /* in the source */
    order[inner] = last;
    order[last] = inner;
    bool whole_lines = prng_below(random, 2) == 0; /* rows of the target */
    int64_t from = 1, to = 1;
    for (int d = last; d >= 0; d--) {
        box.extent[d] = d == last || d == inner ? 1 + prng_below(random, 90) : 1 + prng_below(random, 3);
        box.target_stride[d] = to;
        to *= box.extent[d] + prng_below(random, 2);
        to = d == last && whole_lines ? (to + 63) / 64 * 64 : to;
    }
    for (int k = last; k >= 0; k--) {
        box.source_stride[order[k]] = from;
        from *= box.extent[order[k]] + prng_below(random, 2);
    }
    *source_size = from;
    *target_size = to;
    return box;
}

/* Turned, then perhaps backwards or repeated along one dimension. */
static void copy_turned(prng *random, size_t size)
{
    int64_t from, to, start = 0;
    weft_strided_box box = turned_box(random, &from, &to);
    int d = (int)prng_below(random, box.ndim);
    if (prng_below(random, 3) == 0) {
        start = (box.extent[d] - 1) * box.source_stride[d];
        box.source_stride[d] = -box.source_stride[d];
    } else if (prng_below(random, 3) == 0) {
        box.source_stride[d] = 0;
    }
    unsigned char *source = malloc((size_t)from * size), *target = calloc((size_t)to, size);
    unsigned char *expected = calloc((size_t)to, size);
    for (int64_t k = 0; k < from * (int64_t)size; k++) {
        source[k] = (unsigned char)prng_next(random);
    }
    int64_t count = shape_count(box.ndim, box.extent);
    for (int64_t k = 0; k < count; k++) {
        memcpy(expected + place_of(&box, box.target_stride, k) * (int64_t)size,
               source + (start + place_of(&box, box.source_stride, k)) * (int64_t)size, size);
    }
    weft_cpu_copy_box(target, source + start * (int64_t)size, &box, size, prng_below(random, 2) == 0);
    assert_memory_equal(target, expected, (size_t)to * size);
    free(source);
    free(target);
    free(expected);
}

static void test_copy_turned(void **state)
{
    (void)state;
    prng random = prng_start(5);
    for (int i = 0; i < 1200; i++) {
        copy_turned(&random, (size_t)1 << i % 4);
    }
}

/* Rows that lie pages apart, so that lines are written past the caches; they begin anywhere in a line. */
static void test_copy_turned_far(void **state)
{
    (void)state;
    enum { APART = 1 << 16, MAX_ROWS = 140, MAX_COLUMNS = 200 };
    prng random = prng_start(6);
    unsigned char *source = malloc(MAX_ROWS * MAX_COLUMNS * 8);
    unsigned char *target = calloc(MAX_ROWS, APART), *expected = calloc(MAX_ROWS, APART);
    for (int i = 0; i < MAX_ROWS * MAX_COLUMNS * 8; i++) {
        source[i] = (unsigned char)prng_next(&random);
    }
    for (int i = 0; i < 24; i++) {
        size_t size = (size_t)1 << i % 4, start = (size_t)prng_below(&random, 80) * size;
        weft_strided_box box = { .ndim = 2,
                                 .extent = { 65 + prng_below(&random, MAX_ROWS - 65),
                                             1 + prng_below(&random, MAX_COLUMNS) } };
        box.source_stride[0] = 1;
        box.source_stride[1] = box.extent[0];
        box.target_stride[0] = APART / (int64_t)size;
        box.target_stride[1] = 1;
        for (int64_t k = 0; k < box.extent[0] * box.extent[1]; k++) {
            memcpy(expected + start + (size_t)place_of(&box, box.target_stride, k) * size,
                   source + (size_t)place_of(&box, box.source_stride, k) * size, size);
        }
        weft_cpu_copy_box(target + start, source, &box, size, false);
        assert_memory_equal(target, expected, (size_t)MAX_ROWS * APART);
    }
    free(source);
    free(target);
    free(expected);
}

/* ---- reductions ---------------------------------------------------------------------------------------- */

/* One step in the kernel's guaranteed precision: f64, or f32 for smaller types. */
static double combine(weft_dtype dtype, weft_combine how, double a, double b)
{
    if (dtype == WEFT_BOOL) {
        bool either = how == WEFT_COMBINE_SUM || how == WEFT_COMBINE_MAX;
        return either ? a != 0 || b != 0 : a != 0 && b != 0;
    }
    double value = how == WEFT_COMBINE_SUM    ? a + b
                   : how == WEFT_COMBINE_PROD ? a * b
                   : a != a || b != b         ? (double)NAN
                   : how == WEFT_COMBINE_MIN  ? fmin(a, b)
                                              : fmax(a, b);
    return dtype == WEFT_F32 || dtype == WEFT_BF16 || dtype == WEFT_F16 ? (double)(float)value : value;
}

static void reduce_case(prng *random, weft_dtype dtype, weft_combine how)
{
    enum { MAX_SOURCES = WEFT_MAX_OPERANDS - 1 };
    int64_t from, to;
    weft_strided_box box = random_box(random, &from, &to);
    int sources = 1 + (int)prng_below(random, MAX_SOURCES);
    bool floating = dtype <= WEFT_F16, accumulate = prng_below(random, 2) == 0;
    weft_reduce_args args = { .combine = how,
                              .accumulate = accumulate,
                              .scale = floating && prng_below(random, 3) == 0 ? 0.25 : 1.0 };
    args.base.dtype = dtype;
    size_t size = weft_dtype_size(dtype);
    void *target = calloc((size_t)to, size), *expected = calloc((size_t)to, size), *source[MAX_SOURCES];
    operands o = { .count = 0 };
    add_operand(&o, target);
    for (int k = 0; k < sources; k++) {
        source[k] = calloc((size_t)from, size);
        for (int64_t i = 0; i < from; i++) {
            double value = dtype == WEFT_U8 || dtype == WEFT_BOOL ? (double)prng_below(random, 2)
                           : floating                             ? number(random)
                                                                  : (double)(prng_below(random, 9) - 4);
            write_as(dtype, source[k], i, floating && prng_below(random, 200) == 0 ? (double)NAN : value);
        }
        args.boxes[k] = box;
        add_operand(&o, source[k]);
    }
    for (int64_t i = 0; i < to; i++) {
        write_as(dtype, target, i, 1);
        write_as(dtype, expected, i, 1);
    }
    for (int64_t i = 0; i < shape_count(box.ndim, box.extent); i++) {
        int64_t at = place_of(&box, box.target_stride, i), in = place_of(&box, box.source_stride, i);
        double value = accumulate ? 1 : read_as(dtype, source[0], in);
        for (int k = accumulate ? 0 : 1; k < sources; k++) {
            value = combine(dtype, how, value, read_as(dtype, source[k], in));
        }
        write_as(dtype, expected, at, value * args.scale);
    }
    run(WEFT_KERNEL_reduce, &o, &args);
    for (int64_t i = 0; i < to; i++) {
        double got = read_as(dtype, target, i), wanted = read_as(dtype, expected, i);
        if (got != wanted && (got == got || wanted == wanted)) {
            fail_msg("%s, combine %d, %d sources: element %d is %g, expected %g", weft_dtype_name(dtype),
                     (int)how, sources, (int)i, got, wanted);
        }
    }
    for (int k = 0; k < sources; k++) {
        free(source[k]);
    }
    free(target);
    free(expected);
}

static void test_reduce(void **state)
{
    (void)state;
    static const weft_combine all[] = { WEFT_COMBINE_SUM, WEFT_COMBINE_PROD, WEFT_COMBINE_MIN,
                                        WEFT_COMBINE_MAX };
    prng random = prng_start(3);
    for (int i = 0; i < 4000; i++) {
        reduce_case(&random, (weft_dtype)(i % REAL_TYPES), all[i / REAL_TYPES % 4]);
    }
}

/* ---- fill and random numbers --------------------------------------------------------------------------- */

static double filled(weft_dtype dtype, double value)
{
    double memory[3] = { 0 };
    weft_constant_args args = { .base.dtype = dtype, .count = 3, .value = value };
    operands o = { .count = 0 };
    add_operand(&o, memory);
    run(WEFT_KERNEL_constant, &o, &args);
    assert_true(read_as(dtype, memory, 0) == read_as(dtype, memory, 2) || value != value);
    return read_as(dtype, memory, 1);
}

static void test_fill(void **state)
{
    (void)state;
    for (int dtype = 0; dtype < REAL_TYPES; dtype++) {
        assert_true(filled((weft_dtype)dtype, 1) == 1);
        assert_true(filled((weft_dtype)dtype, 0) == 0);
    }
    assert_true(filled(WEFT_I32, INT32_MAX) == INT32_MAX && filled(WEFT_I32, INT32_MIN) == INT32_MIN);
    assert_true(filled(WEFT_I64, -0x1p63) == (double)INT64_MIN);
    assert_true(filled(WEFT_U8, 255) == 255 && filled(WEFT_U8, -3) == 253 && filled(WEFT_U8, -255) == 1);
    assert_true(filled(WEFT_BOOL, -7) == 1 && isnan(filled(WEFT_F32, NAN)));
}

/* The known answers that Random123, the authors' library, is distributed with. */
static void test_philox(void **state)
{
    (void)state;
    static const struct {
        row_place place;
        uint32_t counter[4], key[2], answer[4];
    } known[] = {
        { THIS_ROW, { 0, 0, 0, 0 }, { 0, 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
        { THIS_ROW,
          { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff },
          { 0xffffffff, 0xffffffff },
          { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
        { THIS_ROW,
          { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 },
          { 0xa4093822, 0x299f31d0 },
          { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
    };
    for (size_t i = 0; i < 3; i++) {
        enter_row(known[i].place, __func__);
        uint32_t out[4];
        weft_philox4x32(known[i].counter, known[i].key, out);
        assert_memory_equal(out, known[i].answer, sizeof(out));
    }
    leave_rows();
}

static void draw(weft_dtype dtype, bool normal, int64_t count, void *values)
{
    double scalars[WEFT_MAX_SCALARS] = { 0 };
    weft_random_pack(scalars + WEFT_RANDOM_SEED, 5);
    weft_random_pack(scalars + WEFT_RANDOM_OFFSET, 9);
    scalars[WEFT_RANDOM_OWN + 1] = 1;
    weft_kernel_call call = {
        .output = { .dtype = dtype,
                    .ndim = 1,
                    .shape = { count },
                    .extent = { count },
                    .row_elements = 1,
                    .panel_rows = count,
                    .panels = &values },
        .scalars = scalars,
    };
    (normal ? weft_kernel_normal : weft_kernel_uniform)(&call);
}

static void test_random_statistics(void **state)
{
    (void)state;
    enum { COUNT = 1000000 };
    void *values = malloc(COUNT * sizeof(double));
    for (int dtype = WEFT_F64; dtype <= WEFT_F16; dtype++) {
        for (int normal = 0; normal < 2; normal++) {
            draw((weft_dtype)dtype, normal, COUNT, values);
            double sum = 0, squares = 0, coarse = dtype == WEFT_BF16 ? 0.01 : 0;
            for (int64_t i = 0; i < COUNT; i++) {
                double value = read_as((weft_dtype)dtype, values, i);
                assert_true(value == value && !isinf(value) && (normal || (value >= 0 && value < 1)));
                sum += value;
                squares += value * value;
            }
            double mean = sum / COUNT, variance = squares / COUNT - mean * mean;
            assert_true(fabs(mean - (normal ? 0 : 0.5)) < 0.005 + coarse);
            assert_true(fabs(variance - (normal ? 1 : 1.0 / 12)) < 0.005 + coarse);
        }
    }
    free(values);
}

/* The same words by the C library's functions. */
static void test_normal_values(void **state)
{
    (void)state;
    enum { COUNT = 20000 };
    double *wide = malloc(COUNT * sizeof(*wide));
    float *narrow = malloc(COUNT * sizeof(*narrow));
    draw(WEFT_F64, true, COUNT, wide);
    draw(WEFT_F32, true, COUNT, narrow);
    const double turn = 2 * 3.14159265358979323846;
    for (uint32_t i = 0; i < COUNT; i += 2) {
        uint32_t words[4];
        const uint32_t seed[2] = { 5, 0 };
        weft_philox4x32((const uint32_t[]){ i / 2, 0, 9, 0 }, seed, words);
        double u = ldexp((double)(((uint64_t)words[1] << 32 | words[0]) >> 11), -53);
        double v = ldexp((double)(((uint64_t)words[3] << 32 | words[2]) >> 11), -53), radius = sqrt(-2 * log(1 - u));
        assert_true(fabs(wide[i] - radius * cos(turn * v)) < 3e-15 * (1 + radius));
        assert_true(fabs(wide[i + 1] - radius * sin(turn * v)) < 3e-15 * (1 + radius));
        weft_philox4x32((const uint32_t[]){ i / 4, 0, 9, 0 }, seed, words);
        u = ldexp((double)(words[i % 4] >> 8), -24);
        v = ldexp((double)(words[i % 4 + 1] >> 8), -24);
        radius = sqrt(-2 * log(1 - u));
        assert_true(fabs((double)narrow[i] - radius * cos(turn * v)) < 4e-7 * (1 + radius));
        assert_true(fabs((double)narrow[i + 1] - radius * sin(turn * v)) < 4e-7 * (1 + radius));
    }
    free(wide);
    free(narrow);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_half_round_trip),
        cmocka_unit_test(test_half_rounds_to_nearest_even),
        cmocka_unit_test(test_copy),
        cmocka_unit_test(test_long_rows),
        cmocka_unit_test(test_copy_turned),
        cmocka_unit_test(test_copy_turned_far),
        cmocka_unit_test(test_reduce),
        cmocka_unit_test(test_fill),
        cmocka_unit_test(test_philox),
        cmocka_unit_test(test_random_statistics),
        cmocka_unit_test(test_normal_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
