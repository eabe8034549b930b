/* Second and third derivatives where the formulas of first ones would not do: products with zeros, powers. */
#include <math.h>
#include <string.h>

#include "autograd_support.h"

enum { ROWS = 3, COLUMNS = 4, COUNT = ROWS * COLUMNS };

/* ---- products -------------------------------------------------------------------------------------------- */

typedef enum product_kind { PROD_ROWS, PROD_COLUMNS, PROD_ALL, CUMPROD_ROWS, CUMPROD_COLUMNS, NUM_PRODUCTS } product_kind;

static weft_tensor *product(product_kind kind, weft_tensor *a)
{
    return kind == PROD_ROWS      ? weft_prod(a, 0, true)
           : kind == PROD_COLUMNS ? weft_prod(a, 1, false)
           : kind == PROD_ALL     ? weft_prod(a, WEFT_DIM(0) | WEFT_DIM(1), false)
           : kind == CUMPROD_ROWS ? weft_cumprod(a, 0)
                                  : weft_cumprod(a, 1);
}

static double weight(int64_t i)
{
    return (double)(i * 5 % 7) - 2;
}

/* The sum of the products' elements with weights. It is linear in each element of a. */
static double loss_of(product_kind kind, const double a[])
{
    double loss = 0, all = 1;
    bool along_rows = kind == PROD_ROWS || kind == CUMPROD_ROWS, scans = kind >= CUMPROD_ROWS;
    int length = along_rows ? ROWS : COLUMNS, others = along_rows ? COLUMNS : ROWS;
    for (int o = 0; o < others; o++) {
        double run = 1;
        for (int i = 0; i < length; i++) {
            int at = along_rows ? i * COLUMNS + o : o * COLUMNS + i;
            run *= a[at];
            loss += scans ? weight(at) * run : 0;
        }
        loss += scans || kind == PROD_ALL ? 0 : weight(o) * run;
        all *= run;
    }
    return kind == PROD_ALL ? weight(0) * all : loss;
}

/* The derivative of that along directions, one after the other. */
static double derivative(product_kind kind, int order, const double *const directions[], double a[])
{
    if (order == 0) {
        return loss_of(kind, a);
    }
    double sum = 0;
    for (int i = 0; i < COUNT; i++) {
        double own = a[i], direction = directions[order - 1][i];
        if (direction != 0) {
            a[i] = 1;
            double above = derivative(kind, order - 1, directions, a);
            a[i] = 0;
            sum += direction * (above - derivative(kind, order - 1, directions, a));
            a[i] = own;
        }
    }
    return sum;
}

static weft_tensor *tensor_like(weft_tensor *like, const double values[])
{
    int64_t shape[WEFT_MAX_DIMS];
    for (int d = 0; d < weft_tensor_ndim(like); d++) {
        shape[d] = weft_tensor_size(like, d);
    }
    return weft_distribute(WEFT_F64, weft_tensor_ndim(like), shape, values, weft_tensor_mesh(like), NULL);
}

static weft_tensor *gradient_of(weft_tensor *output, const double weights[], weft_tensor *leaf, bool again)
{
    weft_tensor *loss = weft_sum(weft_mul(output, tensor_like(output, weights)), WEFT_ALL_DIMS, false), *gradient = NULL;
    assert_int_equal(weft_gradients(1, &loss, NULL, 1, &leaf, again, &gradient), WEFT_OK);
    return gradient;
}

static void check_product(product_kind kind, const weft_placement *placements, const double values[])
{
    double weights[COUNT], second[COUNT], third[COUNT], got[COUNT], at[COUNT];
    for (int i = 0; i < COUNT; i++) {
        weights[i] = weight(i);
        second[i] = (double)(i % 3) - 1;
        third[i] = (double)(i * i % 4) - 1;
    }
    weft_scope_begin();
    weft_tensor *a = weft_distribute(WEFT_F64, 2, (int64_t[]){ ROWS, COLUMNS }, values, line(), placements);
    weft_set_requires_grad(a, true);
    weft_tensor *gradients[3] = { gradient_of(product(kind, a), weights, a, true) };
    gradients[1] = gradient_of(gradients[0], second, a, true);
    gradients[2] = gradient_of(gradients[1], third, a, false);
    for (int order = 1; order <= 3; order++) {
        assert_int_equal(weft_to_host(gradients[order - 1], got, sizeof(got)), WEFT_OK);
        for (int i = 0; i < COUNT; i++) {
            double by[COUNT] = { 0 };
            by[i] = 1;
            const double *directions[] = { order > 1 ? second : by, order > 2 ? third : by, by };
            memcpy(at, values, sizeof(at));
            double expected = derivative(kind, order, directions, at);
            if (got[i] != expected) {
                fail_msg("product %d, order %d, element %d is %g, expected %g", (int)kind, order, i, got[i], expected);
            }
        }
    }
    weft_scope_end();
    assert_no_error();
}

/* No zero, one, two, three, all in a row or column. */
static void test_products_with_zeros(void **state)
{
    (void)state;
    static const double values[][COUNT] = {
        { 1, 2, 3, -1, 2, -2, 1, 3, -1, 1, 2, 2 },
        { 0, 2, 3, -1, 2, 0, 1, 3, -1, 1, 0, 2 },
        { 0, 0, 3, -1, 2, 0, 1, 3, 0, 1, 2, 0 },
        { 0, 0, 0, 0, 1, 0, 2, 0, 3, 0, -1, 0 },
    };
    const weft_placement layouts[] = { weft_replicate(), weft_shard(0), weft_shard(1) };
    for (size_t v = 0; v < sizeof(values) / sizeof(values[0]); v++) {
        for (int kind = 0; kind < NUM_PRODUCTS; kind++) {
            check_product((product_kind)kind, &layouts[(v + (size_t)kind) % 3], values[v]);
        }
    }
}

/* Short and empty dimensions, and rows longer than a power of two. */
static void test_lengths_of_products(void **state)
{
    (void)state;
    for (int64_t length = 0; length <= 9; length++) {
        double ones[9] = { 1, 1, 1, 1, 1, 1, 1, 1, 1 }, got[9];
        weft_scope_begin();
        weft_placement placement = weft_shard(0);
        weft_tensor *a = weft_ones(WEFT_F64, 1, &length, line(), &placement);
        weft_set_requires_grad(a, true);
        weft_tensor *first = gradient_of(weft_cumprod(a, 0), ones, a, true);
        assert_int_equal(weft_requires_grad(first), length > 1);
        weft_tensor *second = length > 1 ? gradient_of(first, ones, a, false) : NULL;
        assert_int_equal(weft_to_host(first, got, sizeof(got)), WEFT_OK);
        for (int64_t i = 0; i < length; i++) {
            assert_float_equal(got[i], (double)(length - i), 0);
        }
        /* The pairs of elements up to k that have i, both ways. */
        for (int64_t i = 0; i < length && length > 1; i++) {
            double expected = 0;
            for (int64_t k = i; k < length; k++) {
                expected += (double)k;
            }
            assert_int_equal(weft_to_host(second, got, sizeof(got)), WEFT_OK);
            assert_float_equal(got[i], expected, 0);
        }
        weft_scope_end();
        assert_no_error();
    }
}

/* ---- powers ---------------------------------------------------------------------------------------------- */

/* The derivative of a^b by both, 1 / a where b is 0, in either order. */
static void test_powers_by_base_and_exponent(void **state)
{
    (void)state;
    const double bases[] = { 2, -4, 0.5, 1, 2, 3 }, exponents[] = { 0, 0, 0, 0, 1, 2 },
                 ones[] = { 1, 1, 1, 1, 1, 1 }, logarithms[] = { 0, 0, 0, 0, 0.6931471805599453, 1.0986122886681098 };
    const int64_t count = 6;
    double got[2][6];
    weft_scope_begin();
    weft_placement placement = weft_shard(0);
    weft_tensor *a = weft_distribute(WEFT_F64, 1, &count, bases, line(), &placement);
    weft_tensor *b = weft_distribute(WEFT_F64, 1, &count, exponents, line(), NULL);
    weft_set_requires_grad(a, true);
    weft_set_requires_grad(b, true);
    for (int order = 0; order < 2; order++) {
        weft_tensor *first = gradient_of(weft_pow(a, b), ones, order == 0 ? a : b, true);
        weft_tensor *second = gradient_of(first, ones, order == 0 ? b : a, false);
        assert_int_equal(weft_to_host(second, got[order], sizeof(got[order])), WEFT_OK);
    }
    for (int i = 0; i < count; i++) {
        double power = exponents[i] == 0 ? 1 / bases[i] : exponents[i] == 1 ? 1 : bases[i];
        double expected = power * (1 + exponents[i] * logarithms[i]);
        assert_float_equal(got[0][i], expected, 1e-12);
        assert_float_equal(got[1][i], expected, 1e-12);
    }
    weft_scope_end();
    assert_no_error();
}

/* ---- where the gradient is 0 by convention ---------------------------------------------------------------- */

enum { KINKS = 6 };

typedef struct kink {
    const char *name;
    weft_tensor *(*call)(weft_tensor *a, weft_tensor *b);
    double a, b;
    bool by_b;
} kink;

#define KINK(name_, ...)                                                                                     \
    static weft_tensor *kink_##name_(weft_tensor *a, weft_tensor *b)                                         \
    {                                                                                                        \
        (void)a, (void)b;                                                                                    \
        return __VA_ARGS__;                                                                                  \
    }
KINK(norm_2, weft_norm(a, 2, WEFT_ALL_DIMS, false))
KINK(norm_3, weft_norm(a, 3, 0, true))
KINK(norm_8, weft_norm(a, 8, 0, true))
KINK(norm_between, weft_norm(a, 1.5, 0, true))
KINK(norm_1, weft_norm(a, 1, 0, false))
KINK(norm_largest, weft_norm(a, INFINITY, 0, false))
KINK(frobenius, weft_matrix_norm(weft_reshape(a, 2, (int64_t[]){ 2, 3 }), WEFT_MATRIX_FROBENIUS, false))
KINK(pow, weft_pow(a, b))
KINK(atan2, weft_atan2(a, b))
KINK(xlogy, weft_xlogy(a, b))
KINK(nanmean, weft_nanmean(a, 0, false))
KINK(abs, weft_abs(a))

/* The first gradient, and its derivatives by the output's gradient and by both inputs. */
static void check_kink(const kink *k, weft_dtype type, const weft_placement *placements)
{
    const int64_t count = KINKS;
    weft_scope_begin();
    weft_tensor *inputs[3];
    for (int i = 0; i < 2; i++) {
        inputs[i] = weft_full(type, i == 0 ? k->a : k->b, 1, &count, line(), placements);
        weft_set_requires_grad(inputs[i], true);
    }
    weft_tensor *output = k->call(inputs[0], inputs[1]), *first = NULL, *second[3] = { NULL };
    inputs[2] = weft_ones_like(weft_detach(output));
    weft_set_requires_grad(inputs[2], true);
    assert_int_equal(weft_gradients(1, &output, &inputs[2], 1, &inputs[k->by_b], true, &first), WEFT_OK);
    weft_tensor *loss = weft_sum(first, WEFT_ALL_DIMS, false), *parts[] = { first, NULL, NULL, NULL };
    assert_int_equal(weft_gradients(1, &loss, NULL, 3, inputs, false, second), WEFT_OK);
    memcpy(parts + 1, second, sizeof(second));
    for (int i = 0; i < 4; i++) {
        static const char *const names[] = { "gradient", "derivative by a", "derivative by b", "derivative by the gradient" };
        double all = parts[i] == NULL ? 0 : NAN;
        if (parts[i] != NULL) {
            assert_int_equal(weft_tensor_item(weft_sum(weft_abs(parts[i]), WEFT_ALL_DIMS, false), &all), WEFT_OK);
        }
        if (all != 0) {
            fail_msg("%s of %s: the %s is %g, expected 0", k->name, weft_dtype_name(type), names[i], all);
        }
    }
    weft_scope_end();
    assert_no_error();
}

static void test_zero_by_convention(void **state)
{
    (void)state;
    static const kink kinks[] = {
        { "norm, p 2", kink_norm_2, 0, 0, false },     { "norm, p 3", kink_norm_3, 0, 0, false },
        { "norm, p 8", kink_norm_8, 0, 0, false },     { "norm, p 1.5", kink_norm_between, 0, 0, false },
        { "norm, p 1", kink_norm_1, 0, 0, false },     { "largest norm", kink_norm_largest, 0, 0, false },
        { "Frobenius", kink_frobenius, 0, 0, false },
        { "pow by e", kink_pow, 0, 2, true },          { "pow by e = 0", kink_pow, 0, 0, true },
        { "pow by e = 0.5", kink_pow, 0, 0.5, true },  { "atan2", kink_atan2, 0, 0, false },
        { "atan2 by b", kink_atan2, 0, 0, true },      { "xlogy", kink_xlogy, 0, 0, false },
        { "xlogy below", kink_xlogy, 0, -1, false },   { "nanmean", kink_nanmean, NAN, 0, false },
        { "abs", kink_abs, 0, 0, false },
    };
    static const weft_dtype types[] = { WEFT_F32, WEFT_F64, WEFT_BF16 };
    const weft_placement layouts[] = { weft_replicate(), weft_shard(0) };
    for (size_t i = 0; i < sizeof(kinks) / sizeof(kinks[0]); i++) {
        for (int t = 0; t < 3; t++) {
            check_kink(&kinks[i], types[t], &layouts[(i + (size_t)t) % 2]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products_with_zeros),
        cmocka_unit_test(test_lengths_of_products),
        cmocka_unit_test(test_powers_by_base_and_exponent),
        cmocka_unit_test(test_zero_by_convention),
    };
    return RUN_ON_RANKS(tests);
}
