/* Kernels that compute, against plain references. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "kernel_support.h"

#include <limits.h>
#include <math.h>
#include <sys/mman.h>

#include "codelets/elementwise.h"
#include "codelets/linear.h"
#include "codelets/lookup.h"
#include "codelets/problems.h"

/* ---- elementwise --------------------------------------------------------------------------------------- */

typedef struct operation {
    row_place place;
    const char *name;
    weft_kernel_id kernel;
    int inputs;
    double (*reference)(double output, double a, double b, double alpha);
    bool exact;
} operation;

static double reference_add(double o, double a, double b, double alpha)
{
    (void)o, (void)alpha;
    return a + b;
}
static double reference_sub(double o, double a, double b, double alpha)
{
    (void)o, (void)alpha;
    return a - b;
}
static double reference_mul(double o, double a, double b, double alpha)
{
    (void)o, (void)alpha;
    return a * b;
}
static double reference_scale(double o, double a, double b, double alpha)
{
    (void)o, (void)b;
    return alpha * a;
}
static double reference_add_scaled(double o, double a, double b, double alpha)
{
    (void)o;
    return a + alpha * b;
}
static double reference_relu(double o, double a, double b, double alpha)
{
    (void)o, (void)b, (void)alpha;
    return a > 0 ? a : 0;
}
static double reference_relu_backward(double o, double a, double b, double alpha)
{
    (void)o, (void)alpha;
    return b > 0 ? a : 0;
}
static double reference_gelu(double o, double a, double b, double alpha)
{
    (void)o, (void)b, (void)alpha;
    return a * 0.5 * erfc(-a / sqrt(2.0));
}
static double reference_gelu_backward(double o, double a, double b, double alpha)
{
    (void)o, (void)alpha;
    return a * (0.5 * erfc(-b / sqrt(2.0)) + b * exp(-b * b / 2) / sqrt(2 * 3.14159265358979323846));
}

static const operation operations[] = {
    { THIS_ROW, "add", WEFT_KERNEL_add, 2, reference_add, true },
    { THIS_ROW, "sub", WEFT_KERNEL_sub, 2, reference_sub, true },
    { THIS_ROW, "mul", WEFT_KERNEL_mul, 2, reference_mul, true },
    { THIS_ROW, "scale", WEFT_KERNEL_scale, 1, reference_scale, true },
    { THIS_ROW, "add_scaled", WEFT_KERNEL_add_scaled, 2, reference_add_scaled, true },
    { THIS_ROW, "relu", WEFT_KERNEL_relu, 1, reference_relu, true },
    { THIS_ROW, "relu_backward", WEFT_KERNEL_relu_backward, 2, reference_relu_backward, true },
    { THIS_ROW, "gelu", WEFT_KERNEL_gelu, 1, reference_gelu, false },
    { THIS_ROW, "gelu_backward", WEFT_KERNEL_gelu_backward, 2, reference_gelu_backward, false },
};

static void elementwise_case(prng *random, const operation *op, weft_dtype dtype)
{
    enum { ROOM = 20000 };
    static double memory[3][ROOM];
    weft_elementwise_args args = { .base.dtype = weft_arithmetic_type(dtype),
                                   .ndim = (int)prng_below(random, 5),
                                   .streams = (int)prng_below(random, 2),
                                   .types = { dtype, dtype, dtype } };
    int64_t size[3] = { 1, 1, 1 };
    for (int d = args.ndim - 1; d >= 0; d--) {
        args.extent[d] =
            prng_below(random, 12) == 0 ? 0 : 1 + prng_below(random, d == args.ndim - 1 ? 30 : 5);
        for (int k = 0; k <= op->inputs; k++) {
            bool repeated = k > 0 && prng_below(random, 4) == 0;
            args.stride[k][d] = repeated ? 0 : size[k];
            size[k] *= repeated ? 1 : args.extent[d] + prng_below(random, 2);
        }
    }
    double expected[ROOM];
    for (int k = 0; k <= op->inputs; k++) {
        for (int64_t i = 0; i <= size[k]; i++) {
            double value = dtype == WEFT_I32 || dtype == WEFT_I64 ? (double)(prng_below(random, 99) - 49)
                           : op->exact                            ? number(random)
                                                                  : number(random) / 8;
            write_as(dtype, memory[k], i, value);
            expected[i] = k == 0 ? read_as(dtype, memory[0], i) : expected[i];
        }
    }
    weft_strided_box box = { .ndim = args.ndim };
    memcpy(box.extent, args.extent, sizeof(box.extent));
    for (int64_t i = 0; i < shape_count(args.ndim, args.extent); i++) {
        int64_t at = place_of(&box, args.stride[0], i);
        double a = read_as(dtype, memory[1], place_of(&box, args.stride[1], i));
        double b = op->inputs == 2 ? read_as(dtype, memory[2], place_of(&box, args.stride[2], i)) : 0;
        expected[at] = op->reference(expected[at], a, b, 0.5);
    }
    operands o = { .count = 0, .scalars = { 0.5 } };
    for (int k = 0; k <= op->inputs; k++) {
        add_operand(&o, memory[k]);
    }
    run(op->kernel, &o, &args);
    double tolerance = op->exact ? 0 : dtype == WEFT_F32 ? 4e-6 : 1e-14;
    for (int64_t i = 0; i <= size[0]; i++) {
        double got = read_as(dtype, memory[0], i);
        if (!(fabs(got - expected[i]) <= tolerance * (1 + fabs(expected[i])))) {
            fail_msg("%s of %s: element %d is %.17g, expected %.17g", op->name, weft_dtype_name(dtype),
                     (int)i, got, expected[i]);
        }
    }
}

static void test_elementwise(void **state)
{
    (void)state;
    prng random = prng_start(4);
    for (size_t k = 0; k < sizeof(operations) / sizeof(operations[0]); k++) {
        enter_row(operations[k].place, __func__);
        for (int i = 0; i < 300; i++) {
            elementwise_case(&random, &operations[k], WEFT_F64);
            elementwise_case(&random, &operations[k], WEFT_F32);
            if (k < 3) {
                elementwise_case(&random, &operations[k], WEFT_I64);
                elementwise_case(&random, &operations[k], WEFT_I32);
            }
        }
    }
    leave_rows();
}

static void test_relu_keeps_nan(void **state)
{
    (void)state;
    double in = NAN, out = 0;
    weft_elementwise_args args = { .base.dtype = WEFT_F64 };
    operands o = { .count = 0 };
    add_operand(&o, &out);
    add_operand(&o, &in);
    run(WEFT_KERNEL_relu, &o, &args);
    assert_true(isnan(out));
}

/* ---- products ------------------------------------------------------------------------------------------ */

static void gemm_case(prng *random, weft_dtype dtype)
{
    enum { ROOM = 6000 };
    static double a[ROOM], b[ROOM], c[ROOM], expected[ROOM];
    weft_gemm g = { .dtype = dtype,
                    .transpose_a = prng_below(random, 2) == 0,
                    .transpose_b = prng_below(random, 2) == 0,
                    .m = prng_below(random, 9),
                    .n = prng_below(random, 9),
                    .k = prng_below(random, 9),
                    .alpha = (double)(1 + prng_below(random, 2)),
                    .beta = (double)prng_below(random, 3) };
    int64_t pad = prng_below(random, 3);
    g.lda = 1 + (g.transpose_a ? g.m : g.k) + pad;
    g.ldb = 1 + (g.transpose_b ? g.k : g.n) + pad;
    g.ldc = 1 + g.n + pad;
    for (int64_t i = 0; i < ROOM; i++) {
        write_as(dtype, a, i, (double)(prng_below(random, 9) - 4));
        write_as(dtype, b, i, (double)(prng_below(random, 9) - 4));
        expected[i] = g.beta == 0 && dtype <= WEFT_F32 ? (double)NAN : 3; /* beta 0 must not read C */
        write_as(dtype, c, i, expected[i]);
    }
    for (int64_t i = 0; i < g.m; i++) {
        for (int64_t j = 0; j < g.n; j++) {
            double sum = 0;
            for (int64_t l = 0; l < g.k; l++) {
                int64_t in_a = g.transpose_a ? l * g.lda + i : i * g.lda + l;
                int64_t in_b = g.transpose_b ? j * g.ldb + l : l * g.ldb + j;
                sum += read_as(dtype, a, in_a) * read_as(dtype, b, in_b);
            }
            expected[i * g.ldc + j] = g.alpha * sum + g.beta * 3;
            if (g.beta == 0) {
                expected[i * g.ldc + j] = g.alpha * sum;
            }
        }
    }
    weft_gemm_args args = { .base.dtype = dtype, .gemm = g, .input_type = dtype };
    operands o = { .count = 0 };
    add_operand(&o, c);
    if (g.k > 0) {
        add_operand(&o, a);
        add_operand(&o, b);
    }
    run(WEFT_KERNEL_matmul, &o, &args);
    for (int64_t i = 0; i < 2000; i++) {
        double got = read_as(dtype, c, i);
        assert_true(got == expected[i] || (got != got && expected[i] != expected[i]));
    }
}

static void test_gemm(void **state)
{
    (void)state;
    prng random = prng_start(5);
    for (int i = 0; i < 800; i++) {
        gemm_case(&random, (weft_dtype[]){ WEFT_F32, WEFT_F64, WEFT_I64, WEFT_I32 }[i % 4]);
    }
}

/* Element (i, j) of op(X). */
static size_t place_in(bool transpose, int64_t ld, int64_t i, int64_t j)
{
    return (size_t)(transpose ? j * ld + i : i * ld + j);
}

/* Two rows of each matrix, one of which has them further apart than an int says: memory of which next to
 * nothing is touched. */
static void multiply_far_rows(float *far, int which, bool ta, bool tb)
{
    enum { SIZE = 2, NEAR = 3 };
    const int64_t apart = INT64_C(2147483651);
    float near[2][SIZE * NEAR] = { { 1, 2, 0, 3, 4 }, { 5, 6, 0, 7, 8 } },
                         sums[SIZE * NEAR] = { 1, 1, 0, 1, 1 };
    float *matrices[] = { near[0], near[1], sums };
    for (int i = 0; i < SIZE; i++) {
        memcpy(far + i * apart, matrices[which] + i * NEAR, NEAR * sizeof(float));
    }
    matrices[which] = far;
    int64_t ld[] = { which == 0 ? apart : NEAR, which == 1 ? apart : NEAR, which == 2 ? apart : NEAR };
    weft_gemm g = { .dtype = WEFT_F32,
                    .transpose_a = ta,
                    .transpose_b = tb,
                    .m = SIZE,
                    .n = SIZE,
                    .k = SIZE,
                    .lda = ld[0],
                    .ldb = ld[1],
                    .ldc = ld[2],
                    .alpha = 1,
                    .beta = 2 };
    weft_multiply(&g, matrices[0], matrices[1], matrices[2]);
    for (int i = 0; i < SIZE; i++) {
        for (int j = 0; j < SIZE; j++) {
            float expected = 2;
            for (int k = 0; k < SIZE; k++) {
                expected += matrices[0][place_in(ta, ld[0], i, k)] * matrices[1][place_in(tb, ld[1], k, j)];
            }
            assert_true(matrices[2][i * ld[2] + j] == expected);
        }
    }
}

static void test_gemm_far_rows(void **state)
{
    (void)state;
    /* Untouched but for a few pages. */
    const size_t bytes = ((size_t)INT64_C(2147483651) + 8) * sizeof(float);
    float *far =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (far == MAP_FAILED) {
        skip(); /* the system does not lend so many addresses */
    }
    for (int i = 0; i < 12; i++) {
        multiply_far_rows(far, i % 3, i / 3 % 2, i / 6);
    }
    assert_int_equal(munmap(far, bytes), 0);
}

/* Whatever the sizes are, BLAS is given ones that an int holds, and as many elements as there are. */
static void test_gemm_parts(void **state)
{
    (void)state;
    prng random = prng_start(12);
    for (int i = 0; i < 2000; i++) {
        int64_t sizes[6];
        for (int k = 0; k < 6; k++) {
            sizes[k] = prng_below(&random, INT64_C(1) << (1 + prng_below(&random, 35))) + 1;
        }
        weft_gemm g = { .dtype = WEFT_F32,
                        .transpose_a = i & 1,
                        .transpose_b = i >> 1 & 1,
                        .m = sizes[0],
                        .n = sizes[1],
                        .k = sizes[2] };
        g.lda = (g.transpose_a ? g.m : g.k) + sizes[3];
        g.ldb = (g.transpose_b ? g.k : g.n) + sizes[4];
        g.ldc = g.n + sizes[5];
        weft_gemm p = weft_gemm_part(&g);
        assert_true(p.m >= 1 && p.m <= g.m && p.n >= 1 && p.n <= g.n && p.k >= 1 && p.k <= g.k);
        assert_true(p.m <= INT_MAX && p.n <= INT_MAX && p.k <= INT_MAX);
        assert_true(p.lda <= INT_MAX && p.ldb <= INT_MAX && p.ldc <= INT_MAX);
        assert_true(p.lda == g.lda || (g.transpose_a ? p.k : p.m) == 1);
        assert_true(p.ldb == g.ldb || (g.transpose_b ? p.n : p.k) == 1);
        assert_true(p.ldc == g.ldc || p.m == 1);
        assert_true(p.lda >= (g.transpose_a ? p.m : p.k) && p.ldb >= (g.transpose_b ? p.k : p.n) &&
                    p.ldc >= p.n);
    }
}

/* ---- look-ups and losses ------------------------------------------------------------------------------- */

/* A table in two parts of two panels each, looked up one after the other, is the whole table; and its derivative
 * adds in order. */
static void test_embedding(void **state)
{
    (void)state;
    enum { COUNT = 9, WIDTH = 3, TOTAL = 7, CUT = 4, PANEL = 2 };
    static const int64_t indices[COUNT] = { 6, 0, 3, 4, 7, -1, 3, 5, 0 };
    double table[TOTAL * WIDTH], out[COUNT * WIDTH], gradient[COUNT * WIDTH], back[TOTAL * WIDTH];
    for (int i = 0; i < TOTAL * WIDTH; i++) {
        table[i] = i + 1;
        back[i] = NAN;
    }
    for (int i = 0; i < COUNT * WIDTH; i++) {
        out[i] = NAN;
        gradient[i] = 100 + i;
    }
    for (int part = 0; part < 2; part++) {
        weft_embedding_args args = { .base.dtype = WEFT_F64,
                                     .index_type = WEFT_I64,
                                     .gradient_type = WEFT_F64,
                                     .count = COUNT,
                                     .width = WIDTH,
                                     .first_row = part == 0 ? 0 : CUT,
                                     .num_rows = part == 0 ? CUT : TOTAL - CUT,
                                     .total_rows = TOTAL,
                                     .panel_rows = PANEL,
                                     .output_stride = WIDTH,
                                     .table_stride = WIDTH,
                                     .first = part == 0,
                                     .checks = part == 0 };
        operands o = { .count = 0 };
        add_operand(&o, out);
        add_operand(&o, indices);
        add_operand(&o, table + args.first_row * WIDTH);
        add_operand(&o, table + (args.first_row + PANEL) * WIDTH);
        run(WEFT_KERNEL_embedding, &o, &args);
        assert_int_equal(o.error.status, part == 0 ? WEFT_ERR_INVALID : WEFT_OK);
        if (part == 0) { /* the first bad index, of two */
            assert_int_equal(o.error.problem, WEFT_PROBLEM_RANGE);
            assert_int_equal(o.error.input, 1);
            assert_int_equal(o.error.value, 7);
            assert_int_equal(o.error.bound, TOTAL - 1);
        }
        args.first = true;
        args.checks = false;
        o.count = 0;
        add_operand(&o, back + args.first_row * WIDTH);
        add_operand(&o, gradient);
        add_operand(&o, indices);
        run(WEFT_KERNEL_embedding_backward, &o, &args);
        assert_int_equal(o.error.status, WEFT_OK);
    }
    double expected[TOTAL * WIDTH] = { 0 };
    for (int i = 0; i < COUNT * WIDTH; i++) {
        int64_t row = indices[i / WIDTH];
        bool valid = row >= 0 && row < TOTAL;
        assert_true(out[i] == (valid ? table[row * WIDTH + i % WIDTH] : 0));
        if (valid) {
            expected[row * WIDTH + i % WIDTH] += gradient[i];
        }
    }
    assert_memory_equal(back, expected, sizeof(back));
}

/* ---- functions ----------------------------------------------------------------------------------------- */

/* All values of a type at once, which are looked up, and at a distance, which are computed. */
static void compare_lookup(weft_kernel_id kernel, weft_dtype type)
{
    enum { VALUES = 1 << 16 };
    static uint16_t values[VALUES], apart[2 * VALUES], results[VALUES], computed[VALUES];
    weft_elementwise_args args = {
        .base.dtype = WEFT_F32, .ndim = 1, .types = { type, type }, .extent = { VALUES }, .stride = { { 1 }, { 1 } }
    };
    for (int i = 0; i < VALUES; i++) {
        values[i] = apart[2 * i] = (uint16_t)i;
    }
    operands together = { .count = 0 }, spread = { .count = 0 };
    add_operand(&together, results);
    add_operand(&together, values);
    run(kernel, &together, &args);
    add_operand(&spread, computed);
    add_operand(&spread, apart);
    args.stride[1][0] = 2;
    run(kernel, &spread, &args);
    for (int i = 0; i < VALUES; i++) {
        if (results[i] != computed[i]) {
            fail_msg("%s of the %s with bits %04x is %04x, expected %04x", weft_kernel_infos[kernel].name, weft_dtype_name(type),
                     (unsigned)i, results[i], computed[i]);
        }
    }
}

static void test_functions_of_16_bits(void **state)
{
    (void)state;
    static const weft_kernel_id kernels[] = { WEFT_KERNEL_gelu, WEFT_KERNEL_log, WEFT_KERNEL_digamma, WEFT_KERNEL_relu };
    for (size_t k = 0; k < sizeof(kernels) / sizeof(kernels[0]); k++) {
        compare_lookup(kernels[k], WEFT_BF16);
        compare_lookup(kernels[k], WEFT_F16);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elementwise), cmocka_unit_test(test_relu_keeps_nan),
        cmocka_unit_test(test_gemm),        cmocka_unit_test(test_gemm_far_rows),
        cmocka_unit_test(test_gemm_parts),  cmocka_unit_test(test_embedding),
        cmocka_unit_test(test_functions_of_16_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
