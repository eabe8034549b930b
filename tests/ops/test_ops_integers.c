/* Integer types of 8 to 64 bits, signed and unsigned: each result equals that of arithmetic with 128 bits, cut to the type. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "integer_operand.h"

/* ---- two operands -------------------------------------------------------------------------------------- */

static wide add(wide a, wide b)
{
    return a + b;
}

static wide sub(wide a, wide b)
{
    return a - b;
}

static wide mul(wide a, wide b)
{
    return (wide)((wide_bits)a * (wide_bits)b);
}

static wide floor_div(wide a, wide b)
{
    return b == 0 ? 0 : a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static wide modulo(wide a, wide b)
{
    return b == 0 ? 0 : a - floor_div(a, b) * b;
}

static wide rest(wide a, wide b)
{
    return b == 0 ? 0 : a % b;
}

static wide power(wide a, wide b)
{
    wide result = 1;
    if (b < 0) {
        return a == 1 ? 1 : a == -1 ? (b % 2 == 0 ? 1 : -1) : 0;
    }
    for (; b > 0; b >>= 1) {
        result = b & 1 ? mul(result, a) : result;
        a = mul(a, a);
    }
    return result;
}

static wide larger(wide a, wide b)
{
    return a > b ? a : b;
}

static wide smaller(wide a, wide b)
{
    return a < b ? a : b;
}

static wide bits_and(wide a, wide b)
{
    return a & b;
}

static wide bits_or(wide a, wide b)
{
    return a | b;
}

static wide bits_xor(wide a, wide b)
{
    return a ^ b;
}

static wide left(wide a, wide b)
{
    return b < 0 || b > 63 ? 0 : (wide)((wide_bits)a << b);
}

static wide right(wide a, wide b)
{
    return a >> (b < 0 || b > 63 ? 64 : b);
}

static wide less(wide a, wide b)
{
    return a < b;
}

static wide not_above(wide a, wide b)
{
    return a <= b;
}

static wide equal(wide a, wide b)
{
    return a == b;
}

static wide differ(wide a, wide b)
{
    return a != b;
}

static wide both(wide a, wide b)
{
    return a != 0 && b != 0;
}

static wide either(wide a, wide b)
{
    return a != 0 || b != 0;
}

typedef struct binary {
    const char *name;
    weft_tensor *(*call)(weft_tensor *a, weft_tensor *b);
    wide (*of)(wide a, wide b);
    bool truth;
} binary;

static const binary binaries[] = {
    { "add", weft_add, add, false },
    { "sub", weft_sub, sub, false },
    { "mul", weft_mul, mul, false },
    { "floor_div", weft_floor_div, floor_div, false },
    { "remainder", weft_remainder, modulo, false },
    { "fmod", weft_fmod, rest, false },
    { "pow", weft_pow, power, false },
    { "maximum", weft_maximum, larger, false },
    { "minimum", weft_minimum, smaller, false },
    { "fmax", weft_fmax, larger, false },
    { "fmin", weft_fmin, smaller, false },
    { "bitwise_and", weft_bitwise_and, bits_and, false },
    { "bitwise_or", weft_bitwise_or, bits_or, false },
    { "bitwise_xor", weft_bitwise_xor, bits_xor, false },
    { "left_shift", weft_bitwise_left_shift, left, false },
    { "right_shift", weft_bitwise_right_shift, right, false },
    { "lt", weft_lt, less, true },
    { "le", weft_le, not_above, true },
    { "eq", weft_eq, equal, true },
    { "ne", weft_ne, differ, true },
    { "logical_and", weft_logical_and, both, true },
};

static void run_binary(void)
{
    weft_mesh *mesh = any_mesh();
    const int64_t rows = any_size(), columns = any_size();
    const weft_dtype type = any_integer();
    integers *a = make(mesh, type, rows, columns), *b = make(mesh, type, rows, columns);
    for (size_t k = 0; k < sizeof(binaries) / sizeof(binaries[0]); k++) {
        static wide expected[MOST];
        const weft_dtype result = binaries[k].truth ? WEFT_BOOL : type;
        for (int64_t i = 0; i < a->count; i++) {
            expected[i] = cut(result, binaries[k].of(a->dense[i], b->dense[i]));
        }
        check_numbers(binaries[k].call(a->tensor, b->tensor), result, a->count, expected, binaries[k].name);
    }
    free(a);
    free(b);
}

/* ---- one operand ---------------------------------------------------------------------------------------- */

typedef struct unary {
    const char *name;
    weft_tensor *(*call)(weft_tensor *a);
    wide (*of)(wide a);
} unary;

static wide neg(wide a)
{
    return -a;
}

static wide absolute(wide a)
{
    return a < 0 ? -a : a;
}

static wide sign(wide a)
{
    return (a > 0) - (a < 0);
}

static wide square(wide a)
{
    return mul(a, a);
}

static wide bits_not(wide a)
{
    return ~a;
}

static wide positive(wide a)
{
    return a < 0 ? 0 : a;
}

static wide same(wide a)
{
    return a;
}

static const unary unaries[] = {
    { "neg", weft_neg, neg },       { "abs", weft_abs, absolute },          { "sign", weft_sign, sign },
    { "square", weft_square, square }, { "bitwise_not", weft_bitwise_not, bits_not }, { "relu", weft_relu, positive },
    { "floor", weft_floor, same },
};

static void check_conversions(const integers *a)
{
    static wide expected[MOST];
    static double reals[MOST];
    for (weft_dtype to = WEFT_I64; to <= WEFT_U64; to++) {
        if (to == WEFT_C64 || to == WEFT_C128) {
            continue;
        }
        for (int64_t i = 0; i < a->count; i++) {
            expected[i] = cut(to, a->dense[i]);
        }
        check_numbers(weft_to_type(a->tensor, to), to, a->count, expected, "conversion");
    }
    weft_tensor *real = weft_to_type(a->tensor, WEFT_F64), *single = weft_to_type(a->tensor, WEFT_F32);
    assert_int_equal(weft_to_host(real, reals, (size_t)a->count * sizeof(double)), WEFT_OK);
    for (int64_t i = 0; i < a->count; i++) {
        assert_true(reals[i] == (double)a->dense[i]);
    }
    assert_int_equal(weft_to_host(weft_to_type(single, WEFT_F64), reals, (size_t)a->count * sizeof(double)), WEFT_OK);
    for (int64_t i = 0; i < a->count; i++) {
        assert_true(reals[i] == (double)(float)a->dense[i]);
    }
}

static void run_unary(void)
{
    static wide expected[MOST];
    integers *a = make(any_mesh(), any_integer(), any_size(), any_size());
    for (size_t k = 0; k < sizeof(unaries) / sizeof(unaries[0]); k++) {
        for (int64_t i = 0; i < a->count; i++) {
            expected[i] = cut(a->type, unaries[k].of(a->dense[i]));
        }
        check_numbers(unaries[k].call(a->tensor), a->type, a->count, expected, unaries[k].name);
    }
    check_conversions(a);
    free(a);
}

/* ---- with a number -------------------------------------------------------------------------------------- */

static weft_scalar scalar_of(wide x)
{
    return x > INT64_MAX ? WEFT_SCALAR((uint64_t)x) : WEFT_SCALAR((int64_t)x);
}

static void run_numbers(void)
{
    static wide expected[MOST];
    integers *a = make(any_mesh(), any_integer(), any_size(), any_size());
    const wide number = any_value(a->type), other = any_value(below(2) ? WEFT_I64 : WEFT_U64);
    const weft_scalar given = scalar_of(number), far = scalar_of(other);
    struct {
        const char *name;
        weft_tensor *(*call)(weft_tensor *a, weft_scalar number);
        wide (*of)(wide a, wide b);
    } calls[] = { { "add_scalar", weft_add_scalar, add }, { "scale", weft_scale, mul } },
      compared[] = { { "eq_scalar", weft_eq_scalar, equal }, { "ne_scalar", weft_ne_scalar, differ }, { "lt_scalar", weft_lt_scalar, less },
                     { "le_scalar", weft_le_scalar, not_above } };
    for (int k = 0; k < 2; k++) {
        for (int64_t i = 0; i < a->count; i++) {
            expected[i] = cut(a->type, calls[k].of(a->dense[i], number));
        }
        check_numbers(calls[k].call(a->tensor, given), a->type, a->count, expected, calls[k].name);
    }
    for (int k = 0; k < 4; k++) {
        for (int64_t i = 0; i < a->count; i++) {
            expected[i] = compared[k].of(a->dense[i], other);
        }
        check_numbers(compared[k].call(a->tensor, far), WEFT_BOOL, a->count, expected, compared[k].name);
        for (int64_t i = 0; i < a->count; i++) {
            expected[i] = compared[k].of(a->dense[i] * 2, (wide)floor((double)number) * 2 + 1);
        }
        if (number < 1 << 20 && number > -(1 << 20)) {
            check_numbers(compared[k].call(a->tensor, WEFT_SCALAR((double)number + 0.5)), WEFT_BOOL, a->count, expected, compared[k].name);
        }
    }
    const wide most = larger(number, cut(a->type, (wide)1 << 30));
    for (int64_t i = 0; i < a->count; i++) {
        expected[i] = smaller(larger(a->dense[i], number), most);
    }
    check_numbers(weft_clamp(a->tensor, given, scalar_of(most)), a->type, a->count, expected, "clamp");
    for (int64_t i = 0; i < a->count; i++) {
        expected[i] = number;
    }
    check_numbers(weft_full(a->type, given, 2, a->shape, a->mesh, NULL), a->type, a->count, expected, "full");
    check_numbers(weft_full_like(a->tensor, given), a->type, a->count, expected, "full_like");
    free(a);
}

/* ---- reductions ----------------------------------------------------------------------------------------- */

/* Over the rows of each column, or the columns of each row. */
static void reduce(const integers *a, int dim, weft_dtype type, wide (*of)(wide a, wide b), bool scans, wide out[])
{
    const int64_t n = a->shape[dim], others = a->shape[1 - dim], step = dim == 0 ? a->shape[1] : 1;
    for (int64_t k = 0; k < others; k++) {
        const int64_t first = dim == 0 ? k : k * a->shape[1];
        wide total = n > 0 ? cut(type, a->dense[first]) : of == mul ? 1 : 0;
        for (int64_t i = 0; i < n; i++) {
            total = i == 0 ? total : cut(type, of(total, a->dense[first + i * step]));
            if (scans) {
                out[first + i * step] = total;
            }
        }
        if (!scans) {
            out[k] = total;
        }
    }
}

static int compare_wide(const void *a, const void *b)
{
    const wide x = *(const wide *)a, y = *(const wide *)b;
    return (x > y) - (x < y);
}

static void check_sorted(const integers *a, int dim)
{
    static wide expected[MOST];
    wide line[MAX_SIZE];
    const int64_t n = a->shape[dim], step = dim == 0 ? a->shape[1] : 1;
    for (int64_t k = 0; k < a->shape[1 - dim]; k++) {
        const int64_t first = dim == 0 ? k : k * a->shape[1];
        for (int64_t i = 0; i < n; i++) {
            line[i] = a->dense[first + i * step];
        }
        qsort(line, (size_t)n, sizeof(line[0]), compare_wide);
        for (int64_t i = 0; i < n; i++) {
            expected[first + i * step] = line[i];
        }
    }
    weft_tensor *indices = NULL, *sorted = weft_sort(a->tensor, dim, false, &indices);
    check_numbers(sorted, a->type, a->count, expected, "sort");
    check_numbers(weft_gather(a->tensor, dim, indices), a->type, a->count, expected, "gather of argsort");
}

static void run_reductions(void)
{
    static wide expected[MOST];
    integers *a = make(any_mesh(), any_integer(), any_size(), any_size());
    const int dim = (int)below(2);
    const int64_t others = a->shape[1 - dim];
    reduce(a, dim, WEFT_I64, add, false, expected);
    check_numbers(weft_sum(a->tensor, dim, false), WEFT_I64, others, expected, "sum");
    reduce(a, dim, WEFT_I64, mul, false, expected);
    check_numbers(weft_prod(a->tensor, dim, false), WEFT_I64, others, expected, "prod");
    reduce(a, dim, WEFT_I64, add, true, expected);
    check_numbers(weft_cumsum(a->tensor, dim), WEFT_I64, a->count, expected, "cumsum");
    if (a->shape[dim] > 0) {
        reduce(a, dim, a->type, larger, false, expected);
        weft_tensor *indices = NULL, *found = weft_max_with_indices(a->tensor, dim, false, &indices);
        check_numbers(weft_max(a->tensor, dim, false), a->type, others, expected, "max");
        check_numbers(found, a->type, others, expected, "max_with_indices");
        check_numbers(weft_squeeze(weft_gather(a->tensor, dim, weft_unsqueeze(indices, dim)), dim), a->type, others, expected, "argmax");
        reduce(a, dim, a->type, smaller, false, expected);
        check_numbers(weft_min(a->tensor, dim, false), a->type, others, expected, "min");
        reduce(a, dim, a->type, larger, true, expected);
        check_numbers(weft_cummax(a->tensor, dim, &indices), a->type, a->count, expected, "cummax");
        check_numbers(weft_gather(a->tensor, dim, indices), a->type, a->count, expected, "places of cummax");
        check_sorted(a, dim);
    }
    reduce(a, dim, WEFT_BOOL, either, false, expected);
    check_numbers(weft_any(a->tensor, dim, false), WEFT_BOOL, others, expected, "any");
    free(a);
}

/* ---- products, and elements that move ------------------------------------------------------------------- */

static void run_products(void)
{
    static wide expected[MOST];
    weft_mesh *mesh = any_mesh();
    const weft_dtype type = any_integer();
    const int64_t m = any_size(), k = any_size(), n = any_size();
    integers *a = make(mesh, type, m, k), *b = make(mesh, type, k, n);
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            wide total = 0;
            for (int64_t l = 0; l < k; l++) {
                total = add(total, cut(type, mul(a->dense[i * k + l], b->dense[l * n + j])));
            }
            expected[i * n + j] = cut(type, total);
        }
    }
    check_numbers(weft_matmul(a->tensor, b->tensor), type, m * n, expected, "matmul");
    weft_placement placements[3];
    random_placements(&source, mesh, 2, false, placements);
    check_numbers(weft_redistribute(a->tensor, mesh, placements), type, a->count, a->dense, "redistribute");
    check_numbers(weft_transpose(weft_transpose(a->tensor, 0, 1), 0, 1), type, a->count, a->dense, "transpose");
    check_numbers(weft_where(weft_ge(a->tensor, a->tensor), a->tensor, a->tensor), type, a->count, a->dense, "where");
    check_numbers(weft_masked_fill(a->tensor, weft_ne(a->tensor, a->tensor), 1), type, a->count, a->dense, "masked_fill");
    free(a);
    free(b);
}

/* Of all reductions of scattered elements. */
static void run_scatter(void)
{
    static const weft_reduce_op ops[] = { WEFT_SUM, WEFT_PROD, WEFT_MIN, WEFT_MAX };
    static wide (*const of[])(wide a, wide b) = { add, mul, smaller, larger };
    static wide expected[MOST];
    weft_mesh *mesh = any_mesh();
    const weft_dtype type = any_integer();
    const int64_t rows = 1 + below(6), columns = any_size(), sources = any_size();
    const int which = (int)below(4);
    integers *a = make(mesh, type, rows, columns), *b = make(mesh, type, sources, columns);
    int64_t places[MOST];
    memcpy(expected, a->dense, sizeof(expected));
    for (int64_t i = 0; i < b->count; i++) {
        places[i] = below(rows);
        wide *target = &expected[places[i] * columns + i % (columns == 0 ? 1 : columns)];
        *target = cut(type, of[which](*target, b->dense[i]));
    }
    weft_tensor *indices = weft_distribute(WEFT_I64, 2, b->shape, places, mesh, NULL);
    check_numbers(weft_scatter_reduce(a->tensor, 0, indices, b->tensor, ops[which], true), type, a->count, expected, "scatter_reduce");
    free(a);
    free(b);
}

/* ---- floating numbers, random numbers ------------------------------------------------------------------- */

static double any_real(void)
{
    const double edge = ldexp(1, (int)below(70)) * (below(2) ? 1 : -1), number = edge + (double)below(5) / 2 - 1;
    return below(9) == 0 ? (double)NAN : below(9) == 0 ? edge * (double)INFINITY : number;
}

static wide saturated(weft_dtype type, double x)
{
    const int bits = 8 * (int)weft_dtype_size(type);
    const wide least = has_sign(type) ? -((wide)1 << (bits - 1)) : 0, most = ((wide)1 << (bits - has_sign(type))) - 1;
    return x != x ? 0 : x <= (double)least ? least : x >= (double)most ? most : (wide)x;
}

static void run_reals(void)
{
    static wide expected[MOST];
    static double values[MOST];
    weft_mesh *mesh = any_mesh();
    const weft_dtype type = any_integer();
    const int64_t shape[] = { any_size(), any_size() }, count = shape[0] * shape[1];
    const bool single = below(2) != 0;
    for (int64_t i = 0; i < count; i++) {
        values[i] = single ? (double)(float)any_real() : any_real();
        expected[i] = saturated(type, values[i]);
    }
    weft_placement placements[3];
    random_placements(&source, mesh, 2, false, placements);
    weft_tensor *real = weft_distribute(WEFT_F64, 2, shape, values, mesh, placements);
    check_numbers(weft_to_type(single ? weft_to_type(real, WEFT_F32) : real, type), type, count, expected, "conversion of reals");
    weft_tensor *random = weft_randint(type, 3, 100, 2, shape, mesh, placements);
    for (int64_t i = 0; i < count; i++) {
        expected[i] = 1;
    }
    check_numbers(weft_logical_and(weft_ge_scalar(random, 3), weft_lt_scalar(random, 100)), WEFT_BOOL, count, expected, "randint");
    for (int64_t i = 0; i < shape[0]; i++) {
        expected[i] = 2 + 3 * i;
    }
    check_numbers(weft_arange(type, 2, 2 + 3 * shape[0], 3, mesh, NULL), type, shape[0], expected, "arange");
}

/* ---- types that have nothing in common ------------------------------------------------------------------- */

static bool is_refused(weft_dtype a, weft_dtype b)
{
    const unsigned types = 1u << a | 1u << b, refusing = 1u << WEFT_U16 | 1u << WEFT_U32 | 1u << WEFT_U64;
    return a != b && (types & refusing) != 0 && !(a <= WEFT_F16 || b <= WEFT_F16);
}

static void test_common_types(void **state)
{
    (void)state;
    start_world(NULL, NULL);
    weft_scope_begin();
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ 2 }, NULL);
    for (weft_dtype a = WEFT_F64; a <= WEFT_U64; a++) {
        for (weft_dtype b = WEFT_F64; b <= WEFT_U64; b++) {
            weft_tensor *x = weft_ones(a, 1, (int64_t[]){ 3 }, mesh, NULL), *y = weft_ones(b, 1, (int64_t[]){ 3 }, mesh, NULL);
            weft_tensor *sum = weft_add(x, y), *pair[] = { x, y };
            assert_int_equal(weft_last_status(), is_refused(a, b) ? WEFT_ERR_DTYPE : WEFT_OK);
            if (is_refused(a, b)) {
                char text[100];
                snprintf(text, sizeof(text), "a is %s and b %s, which have no common type", weft_dtype_name(a), weft_dtype_name(b));
                assert_null(sum);
                assert_non_null(strstr(weft_last_error(), text));
                weft_clear_error();
            }
            weft_tensor *joined = weft_cat(2, pair, 0);
            assert_int_equal(weft_last_status(), is_refused(a, b) ? WEFT_ERR_DTYPE : WEFT_OK);
            assert_true((joined == NULL) == is_refused(a, b));
            weft_clear_error();
            /* Without dimensions: it takes part only if of a higher kind. */
            weft_tensor *number = weft_eq(x, weft_ones(b, 0, NULL, mesh, NULL));
            assert_true((number == NULL) == (a == WEFT_BOOL && is_refused(a, b)));
            weft_clear_error();
        }
    }
    weft_tensor *i8 = weft_ones(WEFT_I8, 1, (int64_t[]){ 3 }, mesh, NULL), *u8 = weft_ones(WEFT_U8, 1, (int64_t[]){ 3 }, mesh, NULL);
    assert_int_equal(weft_tensor_dtype(weft_add(i8, u8)), WEFT_I16);
    assert_null(weft_full(WEFT_I8, 128, 0, NULL, mesh, NULL));
    assert_int_equal(weft_last_status(), WEFT_ERR_DTYPE);
    weft_clear_error();
    assert_null(weft_arange(WEFT_U64, 0, (UINT64_C(1) << 63) + 10, UINT64_C(1) << 61, mesh, NULL));
    assert_int_equal(weft_last_status(), WEFT_ERR_DTYPE);
    weft_clear_error();
    assert_int_equal(weft_tensor_num_elements(weft_arange(WEFT_U64, 0, UINT64_C(1) << 63, INT64_C(1) << 61, mesh, NULL)), 4);
    assert_int_equal(weft_tensor_num_elements(weft_arange(WEFT_F64, 0, UINT64_C(3) << 62, UINT64_C(1) << 62, mesh, NULL)), 3);
    assert_int_equal(weft_set_requires_grad(i8, true), WEFT_ERR_DTYPE);
    weft_clear_error();
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

int main(void)
{
    static const family families[] = {
        { "binary", run_binary },     { "unary", run_unary },     { "numbers", run_numbers }, { "reductions", run_reductions },
        { "products", run_products }, { "scatter", run_scatter }, { "reals", run_reals },
    };
    const suite all = { families, sizeof(families) / sizeof(families[0]), 24, 38, NULL };
    const struct CMUnitTest own[] = { cmocka_unit_test(test_common_types) };
    return run_suite(&all, own, 1);
}
