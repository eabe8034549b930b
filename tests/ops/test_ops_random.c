/* Random operations: equal values on every mesh, in every layout and with panels of every height, and as
 * computed from the counters. */
#include "random_support.h"
#include "values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codelets/random.h"
#include "ops/backward.h"

/* ---- what the values follow from ----------------------------------------------------------------------- */

static uint32_t word_of(weft_random_state s, uint64_t word)
{
    uint64_t block = word / 4;
    uint32_t counter[4] = { (uint32_t)block, (uint32_t)(block >> 32), (uint32_t)s.offset,
                            (uint32_t)(s.offset >> 32) };
    uint32_t key[2] = { (uint32_t)s.seed, (uint32_t)(s.seed >> 32) }, out[4];
    weft_philox4x32(counter, key, out);
    return out[word % 4];
}

static uint64_t wide_of(weft_random_state s, uint64_t element)
{
    return (uint64_t)word_of(s, 2 * element + 1) << 32 | word_of(s, 2 * element);
}

static double unit_f64(weft_random_state s, uint64_t element)
{
    return (double)(wide_of(s, element) >> 11) / 9007199254740992.0;
}

static double unit_f32(weft_random_state s, uint64_t element)
{
    return (double)(word_of(s, element) >> 8) / 16777216.0;
}

static double chance(weft_random_state s, uint64_t element)
{
    return (double)word_of(s, element) / 4294967296.0;
}

/* ---- one operation on one rank and in any layout ------------------------------------------------------- */

/* Arguments of the makers below. */
static struct {
    weft_dtype dtype;
    int ndim;
    int64_t shape[WEFT_MAX_DIMS];
    double a, b;
    int64_t low, high;
} wanted;

typedef weft_tensor *(*maker)(weft_mesh *mesh, const weft_placement *placements);
/* The element that counters say, up to `wanted` roundings. */
typedef double (*reference)(weft_random_state s, uint64_t element);

static unsigned char *host_of(weft_tensor *tensor)
{
    assert_no_error();
    assert_non_null(tensor);
    assert_int_equal(weft_tensor_dtype(tensor), wanted.dtype);
    unsigned char *host = malloc((size_t)shape_count(wanted.ndim, wanted.shape) * 8 + 8);
    assert_shards(tensor, NULL, NULL, "random numbers");
    assert_int_equal(weft_to_host(tensor, host, weft_tensor_bytes(tensor)), WEFT_OK);
    return host;
}

static void compare(const char *name, const unsigned char *got, const unsigned char *expected,
                    weft_mesh *mesh, const weft_placement *placements)
{
    size_t size = weft_dtype_size(wanted.dtype);
    for (int64_t i = 0; i < shape_count(wanted.ndim, wanted.shape); i++) {
        if (memcmp(got + (size_t)i * size, expected + (size_t)i * size, size) != 0) {
            fail_msg("%s of %s: element %d is %.17g, on one rank %.17g, in %s", name,
                     weft_dtype_name(wanted.dtype), (int)i, read_as(wanted.dtype, got, i),
                     read_as(wanted.dtype, expected, i),
                     describe(mesh, placements, wanted.ndim, wanted.shape));
        }
    }
    checks_made++;
}

/* `tolerance` of the reference, relative; negative: there is none. */
static void one_operation(const char *name, maker make, reference expected, double tolerance)
{
    weft_random_state before = default_state();
    unsigned char *alone = host_of(make(one_rank(), NULL));
    assert_int_equal(default_state().seed, before.seed);
    assert_int_equal(default_state().offset, before.offset + 1);
    assert_int_equal(weft_random_state_set(NULL, before), WEFT_OK);
    weft_mesh *mesh = any_mesh();
    weft_placement placements[3];
    random_placements(&source, mesh, wanted.ndim, false, placements);
    unsigned char *spread = host_of(make(mesh, placements));
    assert_int_equal(default_state().offset, before.offset + 1);
    compare(name, spread, alone, mesh, placements);
    for (int64_t i = 0; i < shape_count(wanted.ndim, wanted.shape) && tolerance >= 0; i++) {
        double got = read_as(wanted.dtype, alone, i), right = expected(before, (uint64_t)i);
        if (!(fabs(got - right) <= tolerance * (1 + fabs(right)))) {
            fail_msg("%s of %s: element %d is %.17g, expected %.17g", name, weft_dtype_name(wanted.dtype),
                     (int)i, got, right);
        }
    }
    free(alone);
    free(spread);
}

static void want(weft_dtype dtype)
{
    wanted.dtype = dtype;
    wanted.ndim = random_shape(&source, 4, 9, wanted.shape);
}

static weft_dtype any_floating(void)
{
    return (weft_dtype)(WEFT_F64 + below(4));
}

/* ---- factories ----------------------------------------------------------------------------------------- */

static weft_tensor *make_rand(weft_mesh *mesh, const weft_placement *placements)
{
    return weft_rand(wanted.dtype, wanted.ndim, wanted.shape, mesh, placements);
}

static double reference_unit(weft_random_state s, uint64_t element)
{
    return wanted.dtype == WEFT_F64 ? unit_f64(s, element) : unit_f32(s, element);
}

static void case_rand(void)
{
    want(any_floating());
    one_operation("rand", make_rand, reference_unit, is_half(wanted.dtype) ? 0x1p-7 : 0);
}

static weft_tensor *make_randn(weft_mesh *mesh, const weft_placement *placements)
{
    return weft_randn(wanted.dtype, wanted.ndim, wanted.shape, mesh, placements);
}

static double reference_normal(weft_random_state s, uint64_t element)
{
    uint64_t first = element & ~UINT64_C(1);
    double u = reference_unit(s, first), v = reference_unit(s, first + 1);
    double angle = 8 * atan(1) * v;
    return sqrt(-2 * log(1 - u)) * (element == first ? cos(angle) : sin(angle));
}

static double tolerance_of(weft_dtype dtype)
{
    return dtype == WEFT_F64 ? 1e-15 : dtype == WEFT_F32 ? 2e-6 : 0x1p-7;
}

static void case_randn(void)
{
    want(any_floating());
    one_operation("randn", make_randn, reference_normal, 4 * tolerance_of(wanted.dtype));
}

static weft_tensor *make_randint(weft_mesh *mesh, const weft_placement *placements)
{
    return weft_randint(wanted.dtype, wanted.low, wanted.high, wanted.ndim, wanted.shape, mesh, placements);
}

/* Long multiplication by 16 bits at a time. */
static double reference_randint(weft_random_state s, uint64_t element)
{
    uint64_t a = wide_of(s, element), b = (uint64_t)wanted.high - (uint64_t)wanted.low, digits[8] = { 0 };
    for (int i = 0; i < 4; i++) {
        for (int j = 0, carry = 0; j < 5; j++) {
            uint64_t product = j < 4 ? (a >> 16 * i & 0xffff) * (b >> 16 * j & 0xffff) : 0;
            uint64_t sum = digits[i + j < 8 ? i + j : 7] + product + (uint64_t)(uint32_t)carry;
            if (i + j < 8) {
                digits[i + j] = sum & 0xffff;
            }
            carry = (int)(uint32_t)(sum >> 16);
        }
    }
    uint64_t high = digits[7] << 48 | digits[6] << 32 | digits[5] << 16 | digits[4];
    return (double)(int64_t)((uint64_t)wanted.low + high);
}

static void case_randint(void)
{
    static const struct {
        weft_dtype dtype;
        int64_t low, high;
    } ranges[] = { { WEFT_I64, -5, 6 },   { WEFT_I64, INT64_MIN, INT64_MAX },
                   { WEFT_I64, 7, 8 },    { WEFT_I32, INT32_MIN, (int64_t)INT32_MAX + 1 },
                   { WEFT_I32, 0, 1000 }, { WEFT_U8, 0, 256 },
                   { WEFT_BOOL, 0, 2 },   { WEFT_I64, INT64_C(1) << 40, INT64_C(3) << 40 } };
    int64_t which = below(8);
    want(ranges[which].dtype);
    wanted.low = ranges[which].low;
    wanted.high = ranges[which].high;
    one_operation("randint", make_randint, reference_randint, 0);
}

static weft_tensor *make_bernoulli_scalar(weft_mesh *mesh, const weft_placement *placements)
{
    return weft_bernoulli_scalar(wanted.dtype, wanted.a, wanted.ndim, wanted.shape, mesh, placements);
}

static double reference_bernoulli(weft_random_state s, uint64_t element)
{
    return chance(s, element) < wanted.a;
}

static void case_bernoulli_scalar(void)
{
    want((weft_dtype)below(REAL_TYPES));
    wanted.a = (double)below(5) / 4;
    one_operation("bernoulli_scalar", make_bernoulli_scalar, reference_bernoulli, 0);
}

static weft_tensor *make_randperm(weft_mesh *mesh, const weft_placement *placements)
{
    return weft_randperm(wanted.shape[0], mesh, placements);
}

static void case_randperm(void)
{
    wanted.dtype = WEFT_I64;
    wanted.ndim = 1;
    int64_t n = wanted.shape[0] = below(8) == 0 ? below(3) : below(8) == 0 ? 1000 + below(3000) : below(40);
    one_operation("randperm", make_randperm, NULL, -1);
    int64_t *values = malloc(((size_t)n + 1) * sizeof(*values));
    assert_int_equal(weft_to_host(weft_randperm(n, one_rank(), NULL), values, (size_t)n * sizeof(*values)),
                     WEFT_OK);
    bool *there = calloc((size_t)n + 1, sizeof(*there));
    for (int64_t i = 0; i < n; i++) {
        assert_true(values[i] >= 0 && values[i] < n && !there[values[i]]);
        there[values[i]] = true;
    }
    free(there);
    free(values);
}

/* ---- in place, and like others ------------------------------------------------------------------------- */

static weft_tensor *make_uniform(weft_mesh *mesh, const weft_placement *placements)
{
    weft_tensor *target = weft_empty(wanted.dtype, wanted.ndim, wanted.shape, mesh, placements);
    weft_tensor *result = weft_uniform_inplace(target, wanted.a, wanted.b);
    assert_ptr_equal(result, target);
    return result;
}

static double reference_uniform(weft_random_state s, uint64_t element)
{
    double value = wanted.a + (wanted.b - wanted.a) * reference_unit(s, element);
    return wanted.dtype == WEFT_F64 || (double)(float)value <= value
               ? (wanted.dtype == WEFT_F64 ? value : (double)(float)value)
               : (double)nextafterf((float)value, -INFINITY);
}

static void case_uniform(void)
{
    static const double bounds[][2] = { { 0, 1 }, { -3, 5 }, { 100, 100.5 }, { -1, -1 }, { -8, -4 } };
    const double *pair = bounds[below(5)];
    want(any_floating());
    wanted.a = pair[0];
    wanted.b = pair[1];
    one_operation("uniform_inplace", make_uniform, reference_uniform, is_half(wanted.dtype) ? 0x1p-7 : 0);
}

static weft_tensor *make_normal(weft_mesh *mesh, const weft_placement *placements)
{
    weft_tensor *target = weft_empty(wanted.dtype, wanted.ndim, wanted.shape, mesh, placements);
    return weft_normal_inplace(target, wanted.a, wanted.b);
}

static double reference_moved(weft_random_state s, uint64_t element)
{
    return wanted.a + wanted.b * reference_normal(s, element);
}

static void case_normal(void)
{
    want(any_floating());
    wanted.a = (double)below(20) - 10;
    wanted.b = (double)below(5) / 2;
    one_operation("normal_inplace", make_normal, reference_moved, 16 * tolerance_of(wanted.dtype));
}

static weft_tensor *make_rand_like(weft_mesh *mesh, const weft_placement *placements)
{
    return weft_rand_like(weft_zeros(wanted.dtype, wanted.ndim, wanted.shape, mesh, placements));
}

static weft_tensor *make_randn_like(weft_mesh *mesh, const weft_placement *placements)
{
    return weft_randn_like(weft_zeros(wanted.dtype, wanted.ndim, wanted.shape, mesh, placements));
}

static void assert_like(weft_tensor *tensor, const operand *x)
{
    for (int m = 0; m < weft_mesh_ndim(x->mesh); m++) {
        weft_placement expected = x->placements[m].kind == WEFT_PARTIAL ? weft_replicate() : x->placements[m];
        assert_int_equal(weft_tensor_placements(tensor)[m].kind, expected.kind);
        assert_true(expected.kind != WEFT_SHARD || weft_tensor_placements(tensor)[m].dim == expected.dim);
    }
    assert_ptr_equal(weft_tensor_mesh(tensor), x->mesh);
}

static void check_constant(weft_tensor *tensor, const operand *x, double value)
{
    double *expected = malloc(((size_t)x->count + 1) * sizeof(double));
    for (int64_t i = 0; i < x->count; i++) {
        expected[i] = value;
    }
    check(tensor, x->dtype, x->ndim, x->shape, expected, 0, 1, "constant like another tensor");
    assert_like(tensor, x);
    free(expected);
}

static void case_like(void)
{
    want(any_floating());
    one_operation("rand_like", make_rand_like, reference_unit, is_half(wanted.dtype) ? 0x1p-7 : 0);
    one_operation("randn_like", make_randn_like, reference_normal, 4 * tolerance_of(wanted.dtype));
    operand x = make_operand(any_mesh(), any_number(), wanted.ndim, wanted.shape, WHOLE, 0);
    check_constant(weft_zeros_like(x.tensor), &x, 0);
    check_constant(weft_ones_like(x.tensor), &x, 1);
    check_constant(weft_full_like(x.tensor, -7), &x, -7);
    assert_like(weft_empty_like(x.tensor), &x);
    if (x.dtype == WEFT_F32 || x.dtype == WEFT_F64) {
        assert_like(weft_rand_like(x.tensor), &x);
    }
    release(&x);
}

/* ---- of tensors ---------------------------------------------------------------------------------------- */

static void case_bernoulli(void)
{
    want(any_float());
    operand p = make_operand(any_mesh(), wanted.dtype, wanted.ndim, wanted.shape, WHOLE, 0);
    double *expected = malloc(((size_t)p.count + 1) * sizeof(double));
    weft_random_state state = default_state();
    for (int64_t i = 0; i < p.count; i++) {
        p.dense[i] = (double)below(5) / 4;
        expected[i] = chance(state, (uint64_t)i) < p.dense[i];
    }
    for (int m = 0; m < weft_mesh_ndim(p.mesh); m++) {
        if (p.placements[m].kind == WEFT_PARTIAL && p.placements[m].op != WEFT_MIN) {
            p.placements[m].op = WEFT_SUM; /* exact */
        }
    }
    for (int m = 1; m < weft_mesh_ndim(p.mesh); m++) {
        if (p.placements[m].kind == WEFT_PARTIAL && p.placements[0].kind == WEFT_PARTIAL) {
            p.placements[m].op = p.placements[0].op;
        }
    }
    realise(&p);
    check(weft_bernoulli(p.tensor), p.dtype, p.ndim, p.shape, expected, 0, 1, describe_operand(&p));
    assert_int_equal(default_state().offset, state.offset + 1);
    free(expected);
    release(&p);
}

/* The mask of an element is that of its channel. */
static void case_dropout2d(void)
{
    do {
        want(any_float());
    } while (wanted.ndim < 2);
    weft_mesh *mesh = any_mesh();
    operand a = make_operand(mesh, wanted.dtype, wanted.ndim, wanted.shape, WHOLE, 0);
    int64_t shape[WEFT_MAX_DIMS], plane = 1;
    for (int d = 0; d < a.ndim; d++) {
        shape[d] = d < 2 ? a.shape[d] : 1;
        plane *= d < 2 ? 1 : a.shape[d];
    }
    weft_random_state state = default_state();
    double *forward = malloc(((size_t)a.count + 1) * sizeof(double)), *kept = malloc(((size_t)a.count + 1) * sizeof(double));
    for (int64_t i = 0; i < a.count; i++) {
        kept[i / plane] = chance(state, (uint64_t)(i / plane)) < 0.25;
        forward[i] = kept[i / plane] != 0 ? 4 * a.dense[i] : 0;
    }
    weft_tensor *mask = NULL, *result = weft_dropout2d(a.tensor, 0.75, true, &mask);
    check(result, a.dtype, a.ndim, a.shape, forward, a.exact ? 0 : 64, 10, describe_operand(&a));
    if (plane > 0) {
        check(mask, WEFT_BOOL, a.ndim, shape, kept, 0, 0, describe_operand(&a));
    }
    check(weft_dropout_backward(a.tensor, mask, 0.75, true), a.dtype, a.ndim, a.shape, forward, a.exact ? 0 : 64, 10,
          describe_operand(&a));
    assert_int_equal(default_state().offset, state.offset + 1);
    assert_ptr_equal(weft_dropout2d(a.tensor, 0.75, false, &mask), a.tensor);
    assert_null(mask);
    free(forward);
    free(kept);
    release(&a);
}

static void case_dropout(void)
{
    want(any_float());
    weft_mesh *mesh = any_mesh();
    operand a = make_operand(mesh, wanted.dtype, wanted.ndim, wanted.shape, WHOLE, 0);
    operand gradient = make_operand(mesh, wanted.dtype, wanted.ndim, wanted.shape, WHOLE, 0);
    static const double probabilities[] = { 0, 0.5, 0.75, 1 };
    double p = probabilities[below(4)], scale = p < 1 ? 1 / (1 - p) : 0;
    weft_random_state state = default_state();
    double *forward = malloc(((size_t)a.count + 1) * sizeof(double)),
           *backward = malloc(((size_t)a.count + 1) * sizeof(double));
    for (int64_t i = 0; i < a.count; i++) {
        bool kept = chance(state, (uint64_t)i) < 1 - p;
        forward[i] = kept ? scale * a.dense[i] : 0;
        backward[i] = kept ? scale * gradient.dense[i] : 0;
    }
    weft_tensor *mask = NULL, *result = weft_dropout(a.tensor, p, true, &mask);
    check(result, a.dtype, a.ndim, a.shape, forward, a.exact ? 0 : 64, 10, describe_operand(&a));
    assert_int_equal(weft_tensor_dtype(mask), WEFT_BOOL);
    assert_like(mask, &a);
    assert_int_equal(default_state().offset, state.offset + 1);
    check(weft_dropout_backward(gradient.tensor, mask, p, true), a.dtype, a.ndim, a.shape, backward,
          gradient.exact ? 0 : 64, 10, describe_operand(&gradient));
    for (int m = 0; m < weft_mesh_ndim(mesh); m++) {
        weft_placement own = a.placements[m];
        if (own.kind == WEFT_PARTIAL && own.op <= WEFT_AVG) {
            assert_int_equal(weft_tensor_placements(result)[m].kind, WEFT_PARTIAL);
        }
    }
    assert_ptr_equal(weft_dropout(a.tensor, p, false, &mask), a.tensor);
    assert_null(mask);
    assert_ptr_equal(weft_dropout_backward(gradient.tensor, NULL, p, false), gradient.tensor);
    assert_int_equal(default_state().offset, state.offset + 1);
    free(forward);
    free(backward);
    release(&a);
    release(&gradient);
}

/* ---- the suites ---------------------------------------------------------------------------------------- */

static const family families[] = {
    { "rand", case_rand },           { "randn", case_randn },
    { "randint", case_randint },     { "bernoulli_scalar", case_bernoulli_scalar },
    { "randperm", case_randperm },   { "uniform", case_uniform },
    { "normal", case_normal },       { "like", case_like },
    { "bernoulli", case_bernoulli }, { "dropout", case_dropout }, { "dropout2d", case_dropout2d },
};

static const suite operations = { families, sizeof(families) / sizeof(families[0]), 40, 1, start_seeded };

/* Runs longer than one batch of blocks, and beginning in the middle of a block. */
static void test_long_rows(void **state)
{
    (void)state;
    start_seeded(NULL, NULL);
    source = prng_start(9);
    for (int i = 0; i < 12; i++) {
        weft_scope_begin();
        wanted.dtype = i % 2 == 0 ? WEFT_F32 : WEFT_F64;
        wanted.ndim = 2;
        wanted.shape[0] = 1 + below(4);
        wanted.shape[1] = 1500 + below(3000);
        one_operation("rand", make_rand, reference_unit, 0);
        one_operation("randn", make_randn, reference_normal, 4 * tolerance_of(wanted.dtype));
        weft_scope_end();
    }
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* The result of attention, and its gradients. */
static void attend(weft_tensor *const in[3], const weft_attention_options *options, weft_tensor *up, weft_tensor *results[4])
{
    results[0] = weft_attention(in[0], in[1], in[2], options);
    assert_no_error();
    assert_int_equal(weft_gradients(1, &results[0], &up, 3, in, false, &results[1]), WEFT_OK);
}

/* With so little dropout that no weight is dropped, in rows that see all keys, some or none. */
static void test_attention_without_drops(void **state)
{
    (void)state;
    start_seeded(NULL, NULL);
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ 2 }, NULL);
    const weft_placement rows[] = { weft_shard(1) };
    const int64_t of_q[] = { 2, 5, 3 }, of_k[] = { 1, 6, 3 };
    const unsigned char seen[30] = { [0] = 1, [3] = 1, [13] = 1, [18] = 1, [20] = 1, [29] = 1 }; /* none in row 1 */
    const double added[6] = { 0.5, -INFINITY, 1, -2, 0, -INFINITY };
    const double lowest[6] = { -1e39, 2, 0.5, 0, -1e39, 1 }; /* seen all the same, as the only key of row 0 if causal */
    weft_tensor *const in[] = { weft_randn(WEFT_F64, 3, of_q, mesh, rows), weft_randn(WEFT_F64, 3, of_k, mesh, NULL),
                                weft_randn(WEFT_F64, 3, of_k, mesh, rows) };
    weft_tensor *const masks[] = { NULL, weft_distribute(WEFT_BOOL, 2, (int64_t[]){ 5, 6 }, seen, mesh, NULL),
                                   weft_distribute(WEFT_F64, 1, (int64_t[]){ 6 }, added, mesh, NULL),
                                   weft_distribute(WEFT_F64, 1, (int64_t[]){ 6 }, lowest, mesh, NULL) };
    weft_tensor *up = weft_randn(WEFT_F64, 3, of_q, mesh, NULL);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(weft_set_requires_grad(in[i], true), WEFT_OK);
    }
    for (int i = 0; i < 8; i++) {
        weft_attention_options options = { .causal = i % 2 == 1, .mask = masks[i / 2], .size = sizeof(options) };
        weft_tensor *expected[4], *results[4];
        attend(in, &options, up, expected);
        options.dropout = 1e-14;
        attend(in, &options, up, results);
        for (int k = 0; k < 4; k++) {
            bool same = false;
            assert_int_equal(weft_allclose(results[k], expected[k], 1e-12, 1e-12, false, &same), WEFT_OK);
            if (!same) {
                fail_msg("mask %d, causal %d: result %d differs", i / 2, i % 2, k);
            }
        }
    }
    assert_int_equal(weft_finalize(), WEFT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attention_without_drops),
        cmocka_unit_test(test_long_rows),
    };
    return run_suite(&operations, tests, sizeof(tests) / sizeof(tests[0]));
}
