/* Random numbers: their distributions, and the states that they are drawn from. */
#include "random_support.h"
#include "values.h"

#include <math.h>
#include <stdlib.h>

/* ---- distributions ------------------------------------------------------------------------------------- */

/* Sum of (observed - expected)^2 / expected. */
static double chi_square(const int64_t counts[], int bins, double expected)
{
    double sum = 0;
    for (int i = 0; i < bins; i++) {
        sum += ((double)counts[i] - expected) * ((double)counts[i] - expected) / expected;
    }
    return sum;
}

/* The seed is fixed, so that this cannot fail by chance; the bounds have a probability of one in a
 * million. */
static void test_whole_numbers_are_even(void **state)
{
    (void)state;
    start_seeded(NULL, NULL);
    enum { N = 70000, BINS = 7 };
    static int64_t values[N];
    int64_t shape[] = { N }, counts[BINS] = { 0 };
    assert_int_equal(
        weft_to_host(weft_randint(WEFT_I64, -3, 4, 1, shape, one_rank(), NULL), values, sizeof(values)),
        WEFT_OK);
    for (int i = 0; i < N; i++) {
        assert_true(values[i] >= -3 && values[i] < 4);
        counts[values[i] + 3]++;
    }
    assert_true(chi_square(counts, BINS, N / BINS) < 37.4); /* 6 degrees of freedom */
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* Number of a permutation of n among all: 0 .. n! - 1. */
static int64_t number_of(const int64_t values[], int n)
{
    int64_t number = 0;
    for (int i = 0; i < n; i++) {
        int smaller = 0;
        for (int j = i + 1; j < n; j++) {
            smaller += values[j] < values[i];
        }
        number = number * (n - i) + smaller;
    }
    return number;
}

static void test_permutations_are_even(void **state)
{
    (void)state;
    start_seeded(NULL, NULL);
    static const double bounds[] = { 37.4 /* n 3: 5 degrees of freedom, and room */, 72.4 /* n 4: 23 */,
                                     209 /* n 5: 119 */ };
    for (int n = 3; n <= 5; n++) {
        enum { EACH = 100 };
        int64_t all = n == 3 ? 6 : n == 4 ? 24 : 120, counts[120] = { 0 };
        for (int64_t i = 0; i < EACH * all; i++) {
            int64_t values[5];
            weft_scope_begin();
            assert_int_equal(weft_to_host(weft_randperm(n, one_rank(), NULL), values, sizeof(values)),
                             WEFT_OK);
            weft_scope_end();
            counts[number_of(values, n)]++;
        }
        assert_true(chi_square(counts, (int)all, EACH) < bounds[n - 3]);
    }
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* Images of a number, and of its neighbour, are uniform. */
static void test_long_permutations_are_even(void **state)
{
    (void)state;
    start_seeded(NULL, NULL);
    enum { N = 1000, ROUNDS = 400, BINS = 10 };
    static int64_t values[N];
    int64_t places[BINS] = { 0 }, distances[BINS] = { 0 };
    for (int r = 0; r < ROUNDS; r++) {
        weft_scope_begin();
        assert_int_equal(weft_to_host(weft_randperm(N, one_rank(), NULL), values, sizeof(values)), WEFT_OK);
        weft_scope_end();
        for (int i = 0; i < N; i += 100) {
            places[values[i] * BINS / N]++;
            distances[(values[i + 1] - values[i] + N) % N * BINS / N]++;
        }
    }
    assert_true(chi_square(places, BINS, ROUNDS) < 46); /* 9 degrees of freedom */
    assert_true(chi_square(distances, BINS, ROUNDS) < 46);
    assert_int_equal(weft_finalize(), WEFT_OK);
}

static void test_uniform_stays_below(void **state)
{
    (void)state;
    start_seeded(NULL, NULL);
    enum { N = 200000 };
    int64_t shape[] = { N };
    unsigned char *values = malloc((size_t)N * 8);
    for (int dtype = WEFT_F64; dtype <= WEFT_F16; dtype++) {
        static const double bounds[][2] = { { -2, -1.9375 }, { 1, 1.03125 }, { -0.5, 0.5 } };
        for (int b = 0; b < 3; b++) {
            weft_scope_begin();
            weft_tensor *tensor = weft_empty((weft_dtype)dtype, 1, shape, one_rank(), NULL);
            assert_int_equal(
                weft_to_host(weft_uniform_inplace(tensor, bounds[b][0], bounds[b][1]), values, (size_t)N * 8),
                WEFT_OK);
            double sum = 0;
            for (int64_t i = 0; i < N; i++) {
                double value = read_as((weft_dtype)dtype, values, i);
                assert_true(value >= bounds[b][0] && value < bounds[b][1]);
                sum += value;
            }
            double width = bounds[b][1] - bounds[b][0];
            double coarse = is_half((weft_dtype)dtype) ? 0x1p-7 : 0; /* they are rounded down */
            assert_true(fabs(sum / N - (bounds[b][0] + width / 2)) < 0.004 * width + coarse);
            weft_scope_end();
        }
    }
    free(values);
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* ---- states -------------------------------------------------------------------------------------------- */

static double one_number(void)
{
    double value = -1;
    weft_scope_begin();
    assert_int_equal(weft_to_host(weft_rand(WEFT_F64, 0, NULL, one_rank(), NULL), &value, sizeof(value)),
                     WEFT_OK);
    weft_scope_end();
    return value;
}

static void test_states(void **state)
{
    (void)state;
    start_seeded(NULL, NULL);
    const char *names[4] = { NULL };
    assert_int_equal(weft_random_states(0, NULL), 0);
    assert_null(weft_random_state_current());
    assert_int_equal(default_state().offset, 0);
    double first = one_number(), second = one_number();
    assert_true(first != second);
    assert_int_equal(weft_random_state_create("data", 7), WEFT_OK);
    assert_int_equal(weft_random_state_create("model", 8), WEFT_OK);
    assert_int_equal(weft_random_states(1, names), 2);
    assert_string_equal(names[0], "data");
    assert_null(names[1]);
    assert_int_equal(weft_random_states(4, names), 2);
    assert_string_equal(names[1], "model");
    assert_int_equal(weft_random_state_use("data"), WEFT_OK);
    assert_string_equal(weft_random_state_current(), "data");
    double of_data = one_number();
    assert_int_equal(default_state().offset, 2); /* it did not move */
    weft_random_state data;
    assert_int_equal(weft_random_state_get("data", &data), WEFT_OK);
    assert_int_equal(data.seed, 7);
    assert_int_equal(data.offset, 1);
    assert_int_equal(weft_random_seed(7), WEFT_OK); /* the one in use */
    assert_true(one_number() == of_data);
    assert_int_equal(weft_random_state_use(NULL), WEFT_OK);
    assert_int_equal(weft_random_state_set(NULL, (weft_random_state){ default_state().seed, 1 }), WEFT_OK);
    assert_true(one_number() == second);
    assert_int_equal(weft_random_seed(default_state().seed), WEFT_OK);
    assert_true(one_number() == first);
    assert_int_equal(weft_random_state_set("model", (weft_random_state){ 7, 0 }), WEFT_OK);
    assert_int_equal(weft_random_state_use("model"), WEFT_OK);
    assert_true(one_number() == of_data);
    assert_int_equal(weft_finalize(), WEFT_OK);
    start_seeded(NULL, NULL);
    assert_int_equal(weft_random_states(0, NULL), 0);
    assert_true(one_number() == first);
    assert_int_equal(weft_finalize(), WEFT_OK);
}

static void test_states_compared(void **state)
{
    setenv("WEFT_CHECK", "1", 1);
    test_states(state);
    unsetenv("WEFT_CHECK");
}

/* A call that fails draws nothing. */
static void test_failed_calls_draw_nothing(void **state)
{
    (void)state;
    start_seeded(NULL, NULL);
    weft_scope_begin();
    int64_t shape[] = { 3 };
    weft_tensor *whole = weft_zeros(WEFT_I32, 1, shape, one_rank(), NULL);
    weft_placement partial = weft_partial(WEFT_SUM);
    weft_tensor *addends =
        weft_empty(WEFT_F32, 1, shape, weft_mesh_create(1, (int64_t[]){ 2 }, NULL), &partial);
    assert_no_error();
    assert_null(weft_rand(WEFT_I32, 1, shape, one_rank(), NULL));
    assert_error(WEFT_ERR_DTYPE, "weft_rand");
    assert_null(weft_bernoulli(whole));
    assert_error(WEFT_ERR_DTYPE, "weft_bernoulli");
    assert_null(weft_uniform_inplace(addends, 0, 1));
    assert_error(WEFT_ERR_LAYOUT, "weft_uniform_inplace");
    assert_null(weft_dropout(whole, 0.5, true, NULL));
    assert_error(WEFT_ERR_DTYPE, "weft_dropout");
    assert_null(weft_rand(WEFT_F32, 1, shape, NULL, NULL));
    assert_error(WEFT_ERR_MESH, "weft_rand");
    assert_int_equal(default_state().offset, 0);
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

static void test_probabilities_out_of_range(void **state)
{
    (void)state;
    start_seeded(NULL, NULL);
    weft_scope_begin();
    int64_t shape[] = { 3 };
    float values[3] = { 9, 9, 9 };
    weft_tensor *p =
        weft_full(WEFT_F32, 1.5, 1, shape, weft_mesh_create(1, (int64_t[]){ weft_world_size() }, NULL), NULL);
    assert_int_equal(weft_to_host(weft_bernoulli(p), values, sizeof(values)), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "p has 1.5");
    assert_true(values[0] == 0 && values[1] == 0 && values[2] == 0);
    weft_wait(); /* other ranks' copies are refused too, perhaps later */
    weft_clear_error();
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_numbers_are_even),
        cmocka_unit_test(test_permutations_are_even),
        cmocka_unit_test(test_long_permutations_are_even),
        cmocka_unit_test(test_uniform_stays_below),
        cmocka_unit_test(test_states),
        cmocka_unit_test(test_states_compared),
        cmocka_unit_test(test_failed_calls_draw_nothing),
        cmocka_unit_test(test_probabilities_out_of_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
