/* Numbers beside tensors of integers: all 64 bits count, also those that no double has. */
#include <complex.h>
#include <math.h>
#include <string.h>

#undef I

#include "operand.h"

static weft_mesh *mesh;

static int start(void **state)
{
    (void)state;
    start_world("WEFT_PANEL_ROWS", "4");
    mesh = weft_mesh_create(1, (int64_t[]){ 3 }, NULL);
    weft_scope_begin();
    return 0;
}

static int stop(void **state)
{
    (void)state;
    weft_scope_end();
    return weft_finalize() == WEFT_OK ? 0 : -1;
}

enum { LENGTH = 13, NUMBERS = 9 };

static const int64_t numbers[NUMBERS] = {
    0, -1, INT64_C(1) << 53, (INT64_C(1) << 53) + 1, -(INT64_C(1) << 53) - 1, (INT64_C(1) << 62) + 12345, INT64_MAX, INT64_MAX - 512,
    INT64_MIN + 1
};

static int64_t given[LENGTH];

static weft_tensor *whole_operand(const char *placement)
{
    weft_placement p;
    assert_int_equal(weft_placements_parse(placement, 1, &p), WEFT_OK);
    for (int i = 0; i < LENGTH; i++) {
        given[i] = (int64_t)((uint64_t)numbers[i % NUMBERS] + (uint64_t)i);
    }
    return weft_distribute(WEFT_I64, 1, (int64_t[]){ LENGTH }, given, mesh, &p);
}

static void check_whole(weft_tensor *tensor, int64_t (*expected)(int64_t a, int64_t number), int64_t number)
{
    int64_t values[LENGTH];
    assert_no_error();
    assert_non_null(tensor);
    assert_int_equal(weft_to_host(weft_to_type(tensor, WEFT_I64), values, sizeof(values)), WEFT_OK);
    for (int i = 0; i < LENGTH; i++) {
        assert_int_equal(values[i], expected(given[i], number));
    }
}

static int64_t itself(int64_t a, int64_t number)
{
    (void)a;
    return number;
}

static int64_t sum(int64_t a, int64_t number)
{
    return (int64_t)((uint64_t)a + (uint64_t)number);
}

static int64_t product(int64_t a, int64_t number)
{
    return (int64_t)((uint64_t)a * (uint64_t)number);
}

static int64_t twice_and_more(int64_t a, int64_t number)
{
    return sum(a, product(a, number));
}

static int64_t squared_and_more(int64_t a, int64_t number)
{
    return sum(a, product(product(a, a), number));
}

static int64_t at_least(int64_t a, int64_t number)
{
    return a < number ? number : a;
}

static int64_t at_most(int64_t a, int64_t number)
{
    return a > number ? number : a;
}

static int64_t selected(int64_t a, int64_t number)
{
    return a == number ? number : a;
}

static int64_t is_equal(int64_t a, int64_t number)
{
    return a == number;
}

static int64_t differs(int64_t a, int64_t number)
{
    return a != number;
}

static int64_t is_less(int64_t a, int64_t number)
{
    return a < number;
}

static int64_t is_not_above(int64_t a, int64_t number)
{
    return a <= number;
}

static int64_t is_above(int64_t a, int64_t number)
{
    return a > number;
}

static int64_t is_not_below(int64_t a, int64_t number)
{
    return a >= number;
}

static void check_functions(const char *placement, int64_t number)
{
    weft_tensor *a = whole_operand(placement);
    check_whole(weft_full(WEFT_I64, number, 1, (int64_t[]){ LENGTH }, mesh, NULL), itself, number);
    check_whole(weft_full_like(a, number), itself, number);
    check_whole(weft_add_scalar(a, number), sum, number);
    check_whole(weft_scale(a, number), product, number);
    check_whole(weft_add_scaled(a, a, number), twice_and_more, number);
    check_whole(weft_addcmul(a, a, a, number), squared_and_more, number);
    check_whole(weft_clamp(a, number, INFINITY), at_least, number);
    check_whole(weft_clamp(a, -INFINITY, number), at_most, number);
    check_whole(weft_clamp(a, number, number), itself, number);
    check_whole(weft_masked_fill(a, weft_eq_scalar(a, number), number), selected, number);
    check_whole(weft_eq_scalar(a, number), is_equal, number);
    check_whole(weft_ne_scalar(a, number), differs, number);
    check_whole(weft_lt_scalar(a, number), is_less, number);
    check_whole(weft_le_scalar(a, number), is_not_above, number);
    check_whole(weft_gt_scalar(a, number), is_above, number);
    check_whole(weft_ge_scalar(a, number), is_not_below, number);
    check_whole(weft_add_inplace(whole_operand(placement), a, number), twice_and_more, number);
    check_whole(weft_scale_inplace(whole_operand(placement), number), product, number);
    check_whole(weft_fill_inplace(whole_operand(placement), number), itself, number);
}

static void test_whole_numbers(void **state)
{
    (void)state;
    static const char *const placements[] = { "S0", "R" };
    for (int p = 0; p < 2; p++) {
        for (int i = 0; i < NUMBERS; i++) {
            check_functions(placements[p], numbers[i]);
        }
    }
}

/* In a graph that merges calls into one task; the numbers change between its runs. */
static weft_status calculate(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)scalars;
    const int64_t number = *(const int64_t *)context;
    outputs[0] = weft_scale(weft_add_scalar(inputs[0], number), number);
    return outputs[0] == NULL ? weft_last_status() : WEFT_OK;
}

static int64_t calculated(int64_t a, int64_t number)
{
    return product(sum(a, number), number);
}

static void test_in_a_graph(void **state)
{
    (void)state;
    int64_t number = 0;
    weft_graph *graph = weft_graph_create("numbers", calculate, &number, 1, 0, 1);
    for (int run = 0; run < 3 * NUMBERS; run++) {
        number = numbers[run / 3];
        weft_tensor *a = whole_operand("S0"), *result;
        assert_int_equal(weft_graph_call(graph, &a, NULL, &result), WEFT_OK);
        check_whole(result, calculated, number);
    }
    weft_graph_destroy(graph);
}

/* Each type of C's numbers, and what does not fit. */
static void check_ranges(const char *placement, int64_t first, int64_t step)
{
    weft_placement p;
    int64_t values[LENGTH];
    assert_int_equal(weft_placements_parse(placement, 1, &p), WEFT_OK);
    const int64_t last = (int64_t)((uint64_t)first + (LENGTH - 1) * (uint64_t)step), stop = last + (step > 0 ? 1 : -1);
    weft_tensor *range = weft_arange(WEFT_I64, first, stop, step, mesh, &p);
    assert_no_error();
    assert_int_equal(weft_tensor_size(range, 0), LENGTH);
    assert_int_equal(weft_to_host(range, values, sizeof(values)), WEFT_OK);
    for (int i = 0; i < LENGTH; i++) {
        assert_int_equal(values[i], first + i * step);
    }
}

static void test_ranges(void **state)
{
    (void)state;
    static const char *const placements[] = { "S0", "R" };
    for (int p = 0; p < 2; p++) {
        check_ranges(placements[p], (INT64_C(1) << 53) + 1, 1);
        check_ranges(placements[p], -(INT64_C(1) << 60) - 7, (INT64_C(1) << 53) + 1);
        check_ranges(placements[p], INT64_MAX - 1, -((INT64_C(1) << 54) + 3));
        check_ranges(placements[p], INT64_MIN, INT64_MAX / LENGTH);
    }
    assert_null(weft_arange(WEFT_I64, 0, (INT64_C(3) << 61) + 1, 1, mesh, NULL));
    assert_error(WEFT_ERR_SHAPE, "too many");
    assert_null(weft_arange(WEFT_I64, 0, 2e19, INT64_C(1000000000000000000), mesh, NULL));
    assert_error(WEFT_ERR_DTYPE, "the last number is 19000000000000000000");
    assert_null(weft_arange(WEFT_I64, 0.5, 3, 1, mesh, NULL));
    assert_error(WEFT_ERR_DTYPE, "weft_arange: start is 0.5");
    assert_null(weft_arange(WEFT_F64, 0, CMPLX(3, 1), 1, mesh, NULL));
    assert_error(WEFT_ERR_DTYPE, "weft_arange: stop is 3 + 1i");
    assert_null(weft_arange(WEFT_F64, 0, 3, CMPLX(0, 1), mesh, NULL));
    assert_error(WEFT_ERR_DTYPE, "weft_arange: step is 0 + 1i");
    assert_null(weft_arange(WEFT_U8, 250, 300, 10, mesh, NULL));
    assert_error(WEFT_ERR_DTYPE, "the last number is 290");
    assert_int_equal(weft_tensor_size(weft_arange(WEFT_U8, 250, 260, 10, mesh, NULL), 0), 1);
    assert_int_equal(weft_tensor_size(weft_arange(WEFT_I64, INT64_MAX - 5, UINT64_C(1) << 63, 1, mesh, NULL), 0), 6);
    assert_int_equal(weft_tensor_size(weft_arange(WEFT_I64, INT64_MAX - 5, 0x1p63, 2, mesh, NULL), 0), 3);
    assert_null(weft_arange(WEFT_I64, INT64_MAX, INT64_MAX - 1, 1, mesh, NULL));
    assert_error(WEFT_ERR_INVALID, "wrong sign");
    assert_int_equal(weft_tensor_size(weft_arange(WEFT_I32, 0, 2.5, 1, mesh, NULL), 0), 3);
}

static void test_padding(void **state)
{
    (void)state;
    static const char *const placements[] = { "S0", "R" };
    for (int p = 0; p < 2; p++) {
        for (int n = 0; n < NUMBERS; n++) {
            weft_tensor *a = whole_operand(placements[p]);
            int64_t values[LENGTH + 5];
            weft_tensor *padded = weft_pad(a, WEFT_PAD_CONSTANT, numbers[n], 1, (int64_t[]){ 2 }, (int64_t[]){ 3 });
            assert_int_equal(weft_to_host(padded, values, sizeof(values)), WEFT_OK);
            for (int i = 0; i < LENGTH + 5; i++) {
                assert_int_equal(values[i], i < 2 || i >= LENGTH + 2 ? numbers[n] : given[i - 2]);
            }
        }
    }
}

static void test_types(void **state)
{
    (void)state;
    weft_tensor *a = whole_operand("S0");
    check_whole(weft_full_like(a, (char)7), itself, 7);
    check_whole(weft_full_like(a, (unsigned short)7), itself, 7);
    check_whole(weft_full_like(a, 7u), itself, 7);
    check_whole(weft_full_like(a, true), itself, 1);
    check_whole(weft_full_like(a, 7.0f), itself, 7);
    check_whole(weft_full_like(a, 7.0), itself, 7);
    check_whole(weft_full_like(a, 7.0L), itself, 7);
    const weft_scalar seven = { WEFT_I64, 0.5, 0, 7 }, wrong = { WEFT_F32, 1, 0, 1 };
    check_whole(weft_full_like(a, seven), itself, 7);
    float rounded;
    assert_int_equal(weft_to_host(weft_full(WEFT_F32, (INT64_C(1) << 53) + 1, 0, NULL, mesh, NULL), &rounded, sizeof(rounded)),
                     WEFT_OK);
    assert_true(rounded == 0x1p53f);
    /* Once rounded, and not to a double first. */
    const int64_t between = INT64_C(9007199791611905);
    assert_int_equal(weft_to_host(weft_full(WEFT_F32, between, 0, NULL, mesh, NULL), &rounded, sizeof(rounded)), WEFT_OK);
    assert_true(rounded == (float)between);
    assert_int_equal(weft_to_host(weft_full(WEFT_F32, -between, 0, NULL, mesh, NULL), &rounded, sizeof(rounded)), WEFT_OK);
    assert_true(rounded == -(float)between);
    assert_int_equal(weft_to_host(weft_full(WEFT_F32, INT64_MAX, 0, NULL, mesh, NULL), &rounded, sizeof(rounded)), WEFT_OK);
    assert_true(rounded == 0x1p63f);
    assert_null(weft_clamp(a, CMPLX(1, 5), 7));
    assert_error(WEFT_ERR_DTYPE, "weft_clamp: min is 1 + 5i");
    assert_null(weft_full_like(a, 0.5));
    assert_error(WEFT_ERR_DTYPE, "weft_full_like: value is 0.5, expected a whole number");
    assert_null(weft_full(WEFT_I32, INT64_C(1) << 31, 0, NULL, mesh, NULL));
    assert_error(WEFT_ERR_DTYPE, "in the range of i32");
    assert_null(weft_full(WEFT_U8, 256, 0, NULL, mesh, NULL));
    assert_error(WEFT_ERR_DTYPE, "in the range of u8");
    assert_null(weft_scale(a, wrong));
    assert_error(WEFT_ERR_DTYPE, "factor is a weft_scalar of type 1");
    weft_tensor *first = weft_zeros(WEFT_I64, 1, (int64_t[]){ 1 }, mesh, NULL);
    check_whole(weft_where(weft_eq_scalar(a, 0), a, a), at_least, INT64_MIN);
    assert_null(weft_index_fill(a, 0, first, INT64_MAX));
    assert_error(WEFT_ERR_DTYPE, "weft_index_fill: value is 9223372036854775807, expected a number that a double has");
}

/* Numbers with an imaginary part. */
static void test_complex_numbers(void **state)
{
    (void)state;
    const double _Complex first = CMPLX(3, -2), number = CMPLX(0.5, 4);
    weft_tensor *a = weft_full(WEFT_C128, first, 1, (int64_t[]){ 1 }, mesh, NULL), *masked = weft_eq_scalar(a, first);
    weft_tensor *const results[] = { a,
                                     weft_full_like(a, number),
                                     weft_add_scalar(a, number),
                                     weft_scale(a, number),
                                     weft_scale(a, 2),
                                     weft_masked_fill(a, masked, number),
                                     weft_add_scaled(a, a, number),
                                     weft_addcmul(a, a, weft_full_like(a, 2), number),
                                     weft_addcdiv(a, a, weft_full_like(a, 0.5), number),
                                     weft_add_inplace(weft_full_like(a, first), a, number),
                                     weft_pad(weft_zeros(WEFT_C64, 1, (int64_t[]){ 0 }, mesh, NULL), WEFT_PAD_CONSTANT, number, 1,
                                              (int64_t[]){ 1 }, (int64_t[]){ 0 }),
                                     weft_fill_inplace(weft_zeros_like(a), number),
                                     weft_scale_inplace(weft_full(WEFT_C64, first, 1, (int64_t[]){ 1 }, mesh, NULL), number) };
    const double _Complex expected[] = { first,          number, CMPLX(3.5, 2), CMPLX(9.5, 11), CMPLX(6, -4), number,
                                         CMPLX(12.5, 9), CMPLX(22, 20), CMPLX(22, 20), CMPLX(12.5, 9), number,
                                         number,         CMPLX(9.5, 11) };
    for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++) {
        double _Complex found;
        assert_no_error();
        assert_int_equal(weft_to_host(weft_to_type(results[i], WEFT_C128), &found, sizeof(found)), WEFT_OK);
        assert_memory_equal(&found, &expected[i], sizeof(found));
    }
    uint8_t truths[2];
    assert_int_equal(weft_to_host(weft_eq_scalar(a, CMPLX(3, 2)), &truths[0], 1), WEFT_OK);
    assert_int_equal(weft_to_host(weft_ne_scalar(a, CMPLX(3, 2)), &truths[1], 1), WEFT_OK);
    assert_true(truths[0] == 0 && truths[1] == 1);
    assert_null(weft_lt_scalar(a, 1));
    assert_error(WEFT_ERR_DTYPE, "weft_lt_scalar");
    assert_null(weft_pow_scalar(a, number));
    assert_error(WEFT_ERR_DTYPE, "weft_pow_scalar: exponent is 0.5 + 4i, expected a real number");
    assert_null(weft_add_scaled(weft_real(a), weft_real(a), number));
    assert_error(WEFT_ERR_DTYPE, "weft_add_scaled: factor is 0.5 + 4i, expected a real number");
    assert_null(weft_addmm(weft_full_like(a, 1), weft_ones(WEFT_C128, 2, (int64_t[]){ 1, 1 }, mesh, NULL),
                           weft_ones(WEFT_C128, 2, (int64_t[]){ 1, 1 }, mesh, NULL), 1, number));
    assert_error(WEFT_ERR_DTYPE, "weft_addmm: alpha is 0.5 + 4i, expected a real number");
    assert_null(weft_scale(weft_real(a), number));
    assert_error(WEFT_ERR_DTYPE, "weft_scale: factor is 0.5 + 4i, expected a real number beside f64");
    assert_null(weft_full(WEFT_I64, number, 0, NULL, mesh, NULL));
    assert_error(WEFT_ERR_DTYPE, "weft_full: value is 0.5 + 4i");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_whole_numbers, start, stop),
        cmocka_unit_test_setup_teardown(test_in_a_graph, start, stop),
        cmocka_unit_test_setup_teardown(test_ranges, start, stop),
        cmocka_unit_test_setup_teardown(test_padding, start, stop),
        cmocka_unit_test_setup_teardown(test_types, start, stop),
        cmocka_unit_test_setup_teardown(test_complex_numbers, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
