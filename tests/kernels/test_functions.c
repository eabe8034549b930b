/* The vectorisable functions of kernels (codelets/functions.h, random_normal.h) on numbers of all sizes, against the C library's
 * of a wider type: the errors that their comments give. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "codelets/functions.h"
#include "codelets/half.h"
#include "codelets/random_normal.h"
#include "prng.h"

/* The distance from one number of single precision to the next, where that is `value`. */
static long double unit_at(long double value)
{
    int exponent;
    frexpl(value, &exponent);
    return fmaxl(ldexpl(1, exponent - 24), 0x1p-149L);
}

/* Numbers of all magnitudes and signs, also NaN and infinities. */
static void compare_function(const char *name, float (*function)(float),
                             long double (*reference)(long double), long double units)
{
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 3571) {
        float x = weft_float_of_bits((uint32_t)bits), got = function(x);
        long double expected = reference((long double)x);
        float nearest = (float)expected;
        bool right = isnan(nearest) || isinf(nearest) || isinf(got)
                         ? (isnan(nearest) && isnan(got)) || got == nearest
                         : fabsl((long double)got - expected) <= units * unit_at(expected);
        if (!right) {
            fail_msg("%s(%a) is %a, expected %a", name, (double)x, (double)got, (double)nearest);
        }
    }
}

static void compare_double(const char *name, double x, double got, long double expected, long double units)
{
    int exponent;
    frexpl(expected, &exponent);
    long double unit = fmaxl(ldexpl(1, exponent - 53), 0x1p-1074L);
    double nearest = (double)expected;
    bool right = isnan(nearest) || isinf(nearest) || isinf(got)
                     ? (isnan(nearest) && isnan(got)) || got == nearest
                     : fabsl((long double)got - expected) <= units * unit;
    if (!right) {
        fail_msg("%s(%a) is %a, expected %a", name, x, got, nearest);
    }
}

static void compare_doubles(double x)
{
    compare_double("exp", x, weft_exp_f64(x), expl((long double)x), 1.1L);
    compare_double("tanh", x, weft_tanh_f64(x), tanhl((long double)x), 2);
}

/* Numbers of all sizes and signs, and many of those where the results are neither 0 nor 1 nor infinite. */
static void test_functions_of_doubles(void **state)
{
    (void)state;
    prng random = prng_start(7);
    for (int i = 0; i < 400000; i++) {
        double share = (double)prng_below(&random, INT64_C(1) << 40) * 0x1p-39 - 1; /* -1 .. 1 */
        uint64_t bits = (uint64_t)prng_below(&random, INT64_C(1) << 32) << 32 |
                        (uint64_t)prng_below(&random, INT64_C(1) << 32);
        compare_doubles(weft_double_of_bits(bits));
        compare_doubles(share);
        compare_doubles(share * 25);
        compare_doubles(share * 750);
    }
    assert_true(weft_exp_f64(INFINITY) == INFINITY && weft_exp_f64(-INFINITY) == 0 && weft_exp_f64(0) == 1);
    assert_true(isnan(weft_exp_f64(NAN)) && isnan(weft_tanh_f64(NAN)));
    assert_true(weft_exp_f64(0x1.62e42fefa39efp9) < INFINITY &&
                weft_exp_f64(0x1.62e42fefa39f0p9) == INFINITY);
    assert_true(weft_exp_f64(-0x1.74385446d71c3p9) == 0x1p-1074 && weft_exp_f64(-0x1.74910d52d3053p9) == 0);
    assert_true(weft_tanh_f64(INFINITY) == 1 && weft_tanh_f64(-INFINITY) == -1 &&
                signbit(weft_tanh_f64(-0.0)));
}

/* All numbers of some intervals: small results, and those that end in 1. */
static void test_tanh_grows(void **state)
{
    (void)state;
    static const float intervals[][2] = { { 0x1p-5f, 0x1p-3f }, { 0.3f, 0.7f }, { 7, 9.3f } };
    for (size_t i = 0; i < sizeof(intervals) / sizeof(intervals[0]); i++) {
        float last = 0;
        uint32_t end = weft_bits_of_float(intervals[i][1]);
        for (uint32_t bits = weft_bits_of_float(intervals[i][0]); bits < end; bits++) {
            float x = weft_float_of_bits(bits), got = weft_tanh_f32(x);
            if (got < last || got > 1) {
                fail_msg("tanh(%a) is %a, and that of the number before %a", (double)x, (double)got, (double)last);
            }
            last = got;
        }
        double former = 0;
        for (int k = 0; k < 200000; k++) { /* neighbours from some number on */
            double x = (double)intervals[i][0] + (double)k * 0x1p-52, got = weft_tanh_f64(x);
            assert_true(got >= former && got <= 1);
            former = got;
        }
    }
}

static void test_functions(void **state)
{
    (void)state;
    compare_function("exp", weft_exp_f32, expl, 1.1L);
    compare_function("tanh", weft_tanh_f32, tanhl, 2);
    compare_function("erf", weft_erf_f32, erfl, 2);
    assert_true(weft_normal_cdf_f32(INFINITY) == 1 && weft_normal_cdf_f32(-INFINITY) == 0 && weft_normal_cdf_f32(0) == 0.5f &&
                weft_normal_cdf_f32(-0x1p127f) == 0 && isnan(weft_normal_cdf_f32(NAN)));
    for (uint32_t bits = 0; bits <= 0x7f800000u; bits += 997) {
        float x = -weft_float_of_bits(bits);
        assert_true(weft_bits_of_float(weft_exp_below_f32(x)) == weft_bits_of_float(weft_exp_f32(x)));
    }
    assert_true(weft_exp_below_f32(-INFINITY) == 0 && weft_exp_below_f32(0) == 1 && isnan(weft_exp_below_f32(NAN)));
    for (int i = -120000; i <= 120000; i++) { /* -12 .. 12 */
        float x = (float)i * 1e-4f, got = weft_normal_cdf_f32(x);
        if (!(fabs(got - 0.5 * erfc(-x / sqrt(2.0))) <= 0x1p-23)) {
            fail_msg("the normal distribution's function of %a is %a", (double)x, (double)got);
        }
    }
    assert_true(weft_exp_f32(INFINITY) == INFINITY && weft_exp_f32(-INFINITY) == 0 && weft_exp_f32(0) == 1);
    assert_true(weft_exp_f32(0x1.62e42ep6f) < INFINITY && weft_exp_f32(0x1.62e430p6f) == INFINITY);
    assert_true(weft_exp_f32(-0x1.9d1d9ep6f) == 0x1p-149f && weft_exp_f32(-0x1.9fe36ap6f) == 0);
    assert_true(weft_tanh_f32(INFINITY) == 1 && weft_tanh_f32(-INFINITY) == -1 &&
                signbit(weft_tanh_f32(-0.0f)));
    assert_true(weft_erf_f32(INFINITY) == 1 && weft_erf_f32(-INFINITY) == -1 && signbit(weft_erf_f32(-0.0f)));
}

/* ---- e^x with fewer operations --------------------------------------------------------------------------- */

/* The error, relative to the result, in (1 + |x|) 2^-23: at most 1. */
static double share_of_bound(float x, float got)
{
    double expected = exp((double)x);
    return fabs((double)got - expected) / expected / ((1 + fabs((double)x)) * 0x1p-23);
}

/* In units of the last place of a normal result. */
static double units_off(float x, float got)
{
    double expected = exp((double)x);
    return fabs((double)got - expected) / (double)unit_at(expected);
}

/* Below it the result is 0: 2^-126.5, rounded up. */
static const float last = -0x1.5ebb82p+6f;

static void check_short(float x)
{
    float got = weft_exp_short_f32(x);
    if (x < last ? got != 0 || signbit(got) : !(share_of_bound(x, got) <= 1)) {
        fail_msg("exp_short(%a) is %a, expected %a", (double)x, (double)got, exp((double)x));
    }
}

/* Every 61st number from 0 down to minus infinity, and all of them around the ends. */
static void test_short_exponential(void **state)
{
    (void)state;
    enum { STEP = 61, AROUND = 1 << 16 };
    const uint32_t infinite = weft_bits_of_float(INFINITY), end = weft_bits_of_float(-last), one = weft_bits_of_float(1);
    double worst = 0, worst_units = 0;
    float at = 0;
    for (uint32_t bits = 0; bits <= end; bits += STEP) {
        float x = -weft_float_of_bits(bits), got = weft_exp_short_f32(x);
        check_short(x);
        double share = share_of_bound(x, got);
        at = share > worst ? x : at;
        worst = share > worst ? share : worst;
        worst_units = bits <= one ? fmax(worst_units, units_off(x, got)) : worst_units;
    }
    print_message("# at most %.3f of (1 + |x|) 2^-23, at %a; %.2f ulp from -1 to 0\n", worst, (double)at, worst_units);
    assert_true(worst_units <= 2);
    for (uint32_t bits = end + 1; bits < infinite; bits += STEP) {
        check_short(-weft_float_of_bits(bits));
    }
    for (uint32_t i = 0; i < AROUND; i++) {
        check_short(-weft_float_of_bits(i));
        check_short(-weft_float_of_bits(end - AROUND / 2 + i));
        check_short(-weft_float_of_bits(one - AROUND / 2 + i));
        check_short(-weft_float_of_bits(infinite - i));
    }
    /* Arguments above 0, which are so by rounding or by log-sums of other logits: up to 88. */
    for (uint32_t bits = 0; bits <= weft_bits_of_float(88); bits += STEP) {
        check_short(weft_float_of_bits(bits));
    }
}

static void test_short_exponential_at_ends(void **state)
{
    (void)state;
    assert_true(weft_exp_short_f32(0) == 1 && weft_exp_short_f32(-0.0f) == 1 && isnan(weft_exp_short_f32(NAN)));
    assert_true(weft_exp_short_f32(-0x1p-149f) == 1 && weft_exp_short_f32(-0x1p-126f) == 1);
    assert_true(weft_exp_short_f32(-INFINITY) == 0 && !signbit(weft_exp_short_f32(-INFINITY)));
    assert_true(weft_exp_short_f32(-0x1.fffffep127f) == 0 && weft_exp_short_f32(nextafterf(last, -INFINITY)) == 0);
    float least = weft_exp_short_f32(last); /* the smallest one, of a result that is not normal */
    assert_true(least > 0 && least < 0x1p-126f);
    check_short(last);
    assert_true(weft_exp_short_f32(88) < INFINITY && weft_exp_short_f32(88) > 0x1p126f);
}

/* ---- of random numbers ----------------------------------------------------------------------------------- */

/* Logarithms of numbers in (0, 1]: in single precision of those that random words make. */
static void test_logarithms(void **state)
{
    (void)state;
    for (int64_t i = 1; i <= 1 << 24; i += 5) {
        float x = (float)i * 0x1p-24f, got = weft_log_of_unit_f32(x);
        double expected = log((double)x);
        if (!(fabs((double)got - expected) <= (double)unit_at(expected))) {
            fail_msg("log(%a) is %a, expected %a", (double)x, (double)got, expected);
        }
    }
    prng random = prng_start(11);
    for (int i = 0; i < 400000; i++) {
        double share = (double)(1 + prng_below(&random, INT64_C(1) << 53)) * 0x1p-53, tiny = ldexp(share, -(int)prng_below(&random, 900));
        compare_double("log", share, weft_log_of_unit_f64(share), logl((long double)share), 1);
        compare_double("log", tiny, weft_log_of_unit_f64(tiny), logl((long double)tiny), 1);
    }
    assert_true(weft_log_of_unit_f32(1) == 0 && weft_log_of_unit_f64(1) == 0);
}

/* Cosines and sines, relative to 1. */
static void test_turns(void **state)
{
    (void)state;
    const long double turn = 6.283185307179586476925286766559L;
    for (int64_t i = 0; i < 1 << 24; i += 7) {
        float cosine, sine;
        double u = (double)i * 0x1p-24, wide_cosine, wide_sine;
        weft_turn_f32((float)u, &cosine, &sine);
        weft_turn_f64(u, &wide_cosine, &wide_sine);
        double angle = (double)turn * u, c = cos(angle), s = sin(angle);
        if (!(fabs(cosine - c) <= 0x1p-23 && fabs(sine - s) <= 0x1p-23 && fabs(wide_cosine - c) <= 0x1p-50 &&
              fabs(wide_sine - s) <= 0x1p-50)) {
            fail_msg("%a of a turn is %a, %a and %a, %a; expected %a, %a", u, (double)cosine, (double)sine, wide_cosine, wide_sine, c, s);
        }
    }
}

/* ---- rounding to 16 bits --------------------------------------------------------------------------------- */

/* The nearest number with so many bits in its significand, the last place of which is at least `least`; even among two. */
static double nearest_of(long double value, int bits, int least, double largest)
{
    if (value == 0 || !isfinite(value)) {
        return (double)value;
    }
    int exponent = ilogbl(value) - bits + 1;
    long double unit = ldexpl(1, exponent < least ? least : exponent), rounded = nearbyintl(value / unit) * unit;
    return fabsl(rounded) > largest ? copysign(INFINITY, (double)value) : (double)rounded;
}

static void check_rounding(const char *from, long double value, uint16_t bf16, uint16_t f16)
{
    double expected[] = { nearest_of(value, 8, -133, 0x1.fep127), nearest_of(value, 11, -24, 65504) };
    double got[] = { (double)weft_bf16_to_f32(bf16), (double)weft_f16_to_f32(f16) };
    for (int i = 0; i < 2; i++) {
        if (got[i] != expected[i] || signbit(got[i]) != signbit(expected[i])) {
            fail_msg("%s %La becomes %a, expected %a", from, value, got[i], expected[i]);
        }
    }
}

/* Numbers of all magnitudes, halfway between two of 16 bits, and next to these: 2^-40 decides. */
static void test_rounded_once(void **state)
{
    (void)state;
    prng random = prng_start(8);
    assert_int_equal(weft_f64_to_bf16(1 + 0x1p-8 + 0x1p-40), 0x3f81);
    assert_int_equal(weft_f64_to_f16(1 + 0x1p-11 + 0x1p-40), 0x3c01);
    assert_int_equal(weft_i64_to_bf16(((int64_t)1 << 62) + ((int64_t)1 << 54) + 1), 0x5e81);
    assert_true(isnan(weft_bf16_to_f32(weft_f64_to_bf16(NAN))) && isnan(weft_f16_to_f32(weft_f64_to_f16(NAN))));
    for (int i = 0; i < 1000000; i++) {
        static const int least[] = { -150, -140, -30, 10 }, range[] = { 290, 20, 20, 8 };
        int kind = (int)prng_below(&random, 4);
        double value = ldexp(1 + (double)prng_below(&random, 4096) / 4096, least[kind] + (int)prng_below(&random, range[kind]));
        value *= prng_below(&random, 2) ? 1 : 1 + ldexp((double)prng_below(&random, 3) - 1, -20 - (int)prng_below(&random, 33));
        value = prng_below(&random, 2) ? value : -value;
        check_rounding("f64", value, weft_f64_to_bf16(value), weft_f64_to_f16(value));
        int64_t whole = (int64_t)(1024 + prng_below(&random, 1024)) << prng_below(&random, 53);
        whole += (int64_t)prng_below(&random, 3) - 1;
        whole = prng_below(&random, 2) ? whole : -whole;
        check_rounding("i64", (long double)whole, weft_i64_to_bf16(whole), weft_i64_to_f16(whole));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_functions),
        cmocka_unit_test(test_tanh_grows),
        cmocka_unit_test(test_functions_of_doubles),
        cmocka_unit_test(test_short_exponential),
        cmocka_unit_test(test_short_exponential_at_ends),
        cmocka_unit_test(test_logarithms),
        cmocka_unit_test(test_turns),
        cmocka_unit_test(test_rounded_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
