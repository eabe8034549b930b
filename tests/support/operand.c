#include "tensor/state.h"

#include "operand.h"
#include "values.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

prng source;
long checks_made;

int64_t below(int64_t n)
{
    return prng_below(&source, n);
}

int64_t any_size(void)
{
    return below(8) == 0 ? below(2) : below(MAX_SIZE + 1);
}

/* A number that depends on its arguments only. */
static uint64_t hash3(uint64_t a, uint64_t b, uint64_t c)
{
    prng random = { a * UINT64_C(0x9e3779b97f4a7c15) + b };
    random.state = prng_next(&random) + c;
    return prng_next(&random);
}

/* The addends of one element: `parts` of them, which reduce to `value`. */
static double addend_of(weft_reduce_op op, double value, int64_t parts, int64_t part, uint64_t salt,
                        int64_t element)
{
    int64_t chosen = (int64_t)(hash3(salt, (uint64_t)element, 77) % (uint64_t)parts);
    double noise = (double)(hash3(salt, (uint64_t)element, (uint64_t)part) % 9);
    switch (op) {
    case WEFT_PROD:
        return part == chosen ? value : 1;
    case WEFT_MIN:
        return part == chosen ? value : value + noise;
    case WEFT_MAX:
        return part == chosen ? value : value - noise;
    default:
        break;
    }
    if (part < parts - 1) {
        return noise - 4;
    }
    double others = 0;
    for (int64_t p = 0; p < parts - 1; p++) {
        others += addend_of(op, value, parts, p, salt, element);
    }
    return value * (op == WEFT_AVG ? (double)parts : 1) - others;
}

/* Number of a coordinate among those that differ along Partial dimensions, and their count. */
static int64_t partial_index(const operand *x, const int64_t coordinate[], int64_t *parts, weft_reduce_op *op)
{
    int64_t index = 0;
    *parts = 1;
    for (int m = 0; m < weft_mesh_ndim(x->mesh); m++) {
        if (x->placements[m].kind == WEFT_PARTIAL) {
            *op = x->placements[m].op;
            index = index * weft_mesh_size(x->mesh, m) + coordinate[m];
            *parts *= weft_mesh_size(x->mesh, m);
        }
    }
    return index;
}

/* Context of the writer of a shard. */
typedef struct salted {
    const operand *operand;
    uint64_t salt;
} salted;

static void write_addends(const hosted_shard *s, const void *context)
{
    const salted *given = context;
    const operand *x = given->operand;
    int64_t parts;
    weft_reduce_op op = WEFT_SUM;
    int64_t part = partial_index(x, s->coordinate, &parts, &op);
    for (int64_t i = 0; i < s->count; i++) {
        int64_t element = shard_element(s, x->ndim, x->shape, i);
        write_as(x->dtype, s->values, i, addend_of(op, x->dense[element], parts, part, given->salt, element));
    }
}

void realise(operand *x)
{
    salted given = { x, prng_next(&source) };
    x->tensor = make_of_shards(x->dtype, x->ndim, x->shape, x->mesh, x->placements, write_addends, &given);
}

operand make_operand(weft_mesh *mesh, weft_dtype dtype, int ndim, const int64_t shape[], value_kind kind,
                     int64_t limit)
{
    operand x = { .mesh = mesh, .dtype = dtype, .ndim = ndim, .exact = true };
    for (int d = 0; d < ndim; d++) {
        x.shape[d] = shape[d];
    }
    x.count = shape_count(ndim, shape);
    x.dense = malloc(((size_t)x.count + 1) * sizeof(double));
    for (int64_t i = 0; i < x.count; i++) {
        x.dense[i] = kind == INDEX  ? (double)below(limit)
                     : kind == REAL ? (double)(float)((double)below(6001) / 1000.0 - 3.0)
                                    : (double)(below(11) - 5);
    }
    random_placements(&source, mesh, ndim, true, x.placements);
    random_cut_sizes(&source, mesh, ndim, shape, x.placements);
    bool is_float = dtype == WEFT_F32 || dtype == WEFT_F64;
    for (int m = 0; m < weft_mesh_ndim(mesh); m++) {
        weft_placement *p = &x.placements[m];
        if (p->kind == WEFT_PARTIAL && p->op == WEFT_AVG && !is_float) {
            p->op = WEFT_SUM;
        }
        x.exact &= !(p->kind == WEFT_PARTIAL && (p->op == WEFT_AVG || kind == REAL));
    }
    realise(&x);
    return x;
}

void release(operand *x)
{
    free(x->dense);
}

weft_dtype any_float(void)
{
    return below(2) ? WEFT_F32 : WEFT_F64;
}

weft_dtype any_number(void)
{
    static const weft_dtype types[] = { WEFT_F32, WEFT_F64, WEFT_I32, WEFT_I64 };
    return types[below(4)];
}

weft_dtype any_index(void)
{
    return below(2) ? WEFT_I32 : WEFT_I64;
}

static double epsilon(weft_dtype dtype)
{
    return dtype == WEFT_F32 ? 0x1p-23 : 0x1p-52;
}

/* Arguments of check(). */
typedef struct expectation {
    weft_dtype dtype;
    int ndim;
    const int64_t *shape;
    const double *values;
    double tolerance;
} expectation;

static bool is_near(const expectation *x, double got, int64_t element, char *text, size_t size)
{
    double expected = x->values[element];
    if (fabs(got - expected) <= x->tolerance || (isnan(got) && isnan(expected))) {
        return true;
    }
    snprintf(text, size, "element %d of the whole is %.9g, expected %.9g (allowed %.3g)", (int)element, got,
             expected, x->tolerance);
    return false;
}

static bool judge_shard(const hosted_shard *found, const void *expected, char *text, size_t size)
{
    const expectation *x = expected;
    bool near = true;
    for (int64_t i = 0; i < found->count && near; i++) {
        near = is_near(x, read_as(x->dtype, found->values, i),
                       shard_element(found, x->ndim, x->shape, i), text, size);
    }
    return near;
}

/* The whole tensor, as every process gets it. */
static void check_host(weft_tensor *tensor, const expectation *x, const char *what)
{
    int64_t count = shape_count(x->ndim, x->shape);
    void *host = malloc((size_t)count * 8 + 8);
    if (weft_to_host(tensor, host, (size_t)count * weft_dtype_size(x->dtype)) != WEFT_OK) {
        fail_msg("%s: %s", what, weft_last_error());
    }
    char text[200];
    for (int64_t i = 0; i < count; i++) {
        if (!is_near(x, read_as(x->dtype, host, i), i, text, sizeof(text))) {
            fail_msg("%s: %s in %s, to the host", what, text,
                     describe(weft_tensor_mesh(tensor), weft_tensor_placements(tensor), x->ndim, x->shape));
        }
    }
    free(host);
}

void check(weft_tensor *tensor, weft_dtype dtype, int ndim, const int64_t shape[], const double *expected,
           double roundings, double magnitude, const char *what)
{
    assert_no_error();
    assert_non_null(tensor);
    assert_int_equal(weft_tensor_dtype(tensor), dtype);
    assert_int_equal(weft_tensor_ndim(tensor), ndim);
    for (int d = 0; d < ndim; d++) {
        assert_int_equal(weft_tensor_size(tensor, d), shape[d]);
    }
    expectation x = { dtype, ndim, shape, expected, roundings * epsilon(dtype) * magnitude };
    weft_tensor *reduced = without_partial(tensor);
    assert_no_error();
    assert_shards(reduced, judge_shard, &x, what);
    if (weft_tensor_placements(tensor) != weft_tensor_placements(reduced)) {
        assert_shards(tensor, NULL, NULL, what); /* replicas of addends */
    }
    check_host(tensor, &x, what);
    checks_made++;
}

const char *describe_operand(const operand *x)
{
    return describe(x->mesh, x->placements, x->ndim, x->shape);
}

weft_mesh *any_mesh(void)
{
    return random_mesh(&source, 1 + (int)below(MAX_RANKS));
}

bool any_partial(const operand *x)
{
    for (int m = 0; m < weft_mesh_ndim(x->mesh); m++) {
        if (x->placements[m].kind == WEFT_PARTIAL) {
            return true;
        }
    }
    return false;
}

/* ---- types of 16 bits --------------------------------------------------------------------------------- */

weft_dtype any_float_type(void)
{
    static const weft_dtype types[] = { WEFT_F32, WEFT_F64, WEFT_BF16, WEFT_F16 };
    return types[below(4)];
}

static weft_dtype type_of_operand(weft_dtype type)
{
    return type == WEFT_BF16 || type == WEFT_F16 ? WEFT_F32 : type;
}

operand make_narrow(weft_mesh *mesh, weft_dtype type, int ndim, const int64_t shape[], value_kind kind)
{
    operand x = make_operand(mesh, type_of_operand(type), ndim, shape, kind, 0);
    if (type_of_operand(type) != type) {
        x.tensor = weft_to_type(x.tensor, type);
        assert_no_error();
    }
    return x;
}

/* The nearest value of a type of 16 bits; the numbers here are neither too large nor too small for it. */
static double rounded(weft_dtype type, double x)
{
    if (x == 0) {
        return x;
    }
    double unit = ldexp(1, ilogb(x) - (type == WEFT_BF16 ? 7 : 10));
    return nearbyint(x / unit) * unit;
}

void check_narrow(weft_tensor *result, weft_dtype type, int ndim, const int64_t shape[],
                  const double *expected, double roundings, double magnitude, const char *what)
{
    if (type_of_operand(type) == type) {
        check(result, type, ndim, shape, expected, roundings, magnitude, what);
        return;
    }
    assert_no_error();
    assert_non_null(result);
    assert_int_equal(weft_tensor_dtype(result), type);
    double unit = (type == WEFT_BF16 ? 0x1p-8 : 0x1p-11) / 0x1p-23;
    int64_t count = shape_count(ndim, shape);
    double *nearest = malloc(((size_t)count + 1) * sizeof(double));
    for (int64_t i = 0; i < count; i++) {
        nearest[i] = roundings == 0 ? rounded(type, expected[i]) : expected[i];
    }
    check(weft_to_type(result, WEFT_F32), WEFT_F32, ndim, shape, nearest,
          roundings == 0 ? 0 : roundings + unit, magnitude, what);
    free(nearest);
}

void check_repeats(weft_tensor *a, weft_tensor *b)
{
    assert_no_error();
    assert_same_shards(a, b, "repeated");
}

/* ---- suites -------------------------------------------------------------------------------------------- */

void start_seeded_world(const char *variable, const char *value, uint64_t seed)
{
    unsetenv("WEFT_PANEL_ROWS");
    unsetenv("WEFT_PANEL_BYTES");
    if (variable != NULL) {
        setenv(variable, value, 1);
    }
    WORLD(MAX_RANKS, .seed = seed);
    if (variable != NULL) {
        weft_runtime.last_cache_bytes = 1; /* outputs go past the caches */
    }
}

void start_world(const char *variable, const char *value)
{
    weft_config config = WEFT_CONFIG_DEFAULT;
    start_seeded_world(variable, value, config.seed);
}

/* A world of a suite. */
typedef struct height {
    const suite *suite;
    const char *name, *variable, *value;
    bool compared; /* all processes compare what they do */
    uint64_t seed;
} height;

/* A scope releases the tensors and memory of a case. */
static void run_family(const family *f, int cases)
{
    size_t live = weft_runtime.handles.tensors.num_objects;
    int64_t bytes = weft_pool_bytes_in_use(weft_runtime.pool);
    for (int i = 0; i < cases; i++) {
        weft_scope_begin();
        f->run();
        weft_scope_end();
        if (weft_runtime.handles.tensors.num_objects != live ||
            weft_pool_bytes_in_use(weft_runtime.pool) != bytes) {
            fail_msg("%s: %ld tensors and %ld bytes are left", f->name,
                     (long)weft_runtime.handles.tensors.num_objects - (long)live,
                     (long)(weft_pool_bytes_in_use(weft_runtime.pool) - bytes));
        }
    }
}

static void run_height(void **state)
{
    const height *h = *state;
    const suite *s = h->suite;
    if (h->compared) {
        setenv("WEFT_CHECK", "1", 1);
    }
    (s->start == NULL ? start_world : s->start)(h->variable, h->value);
    source = prng_start(s->seed + h->seed);
    const char *only = getenv("WEFT_TEST_ONLY");
    int cases = h->compared ? 2 : weft_num_processes() > 1 ? (s->cases + 3) / 4 : s->cases;
    for (size_t f = 0; f < s->num_families; f++) {
        if (only == NULL || strcmp(only, s->families[f].name) == 0) {
            run_family(&s->families[f], cases);
        }
    }
    assert_int_equal(weft_wait(), WEFT_OK);
    if (weft_process_index() == 0) {
        print_message("# %ld results compared so far\n", checks_made);
    }
    assert_int_equal(weft_finalize(), WEFT_OK);
    unsetenv("WEFT_PANEL_ROWS");
    unsetenv("WEFT_PANEL_BYTES");
    unsetenv("WEFT_CHECK");
}

void run_single_calls(uint64_t seed, size_t count, void (*const calls[])(void))
{
    start_world(NULL, NULL);
    source = prng_start(seed);
    weft_scope_begin();
    for (size_t i = 0; i < count; i++) {
        calls[i]();
    }
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

int run_suite(const suite *given, const struct CMUnitTest own[], size_t num_own)
{
    suite s = *given;
    s.cases = cases_to_run(s.cases);
    /* A few bytes: operands with rows of different lengths are cut at different heights, which nest. */
    height heights[] = {
        { &s, "panels by default", NULL, NULL, false, 0 },
        { &s, "1 row in a panel", "WEFT_PANEL_ROWS", "1", false, 1 },
        { &s, "2 rows in a panel", "WEFT_PANEL_ROWS", "2", false, 2 },
        { &s, "48 bytes in a panel", "WEFT_PANEL_BYTES", "48", false, 3 },
        { &s, "compared", NULL, NULL, true, 4 },
    };
    enum { HEIGHTS = sizeof(heights) / sizeof(heights[0]), MOST = 32 };
    struct CMUnitTest tests[MOST];
    size_t count = 0;
    for (; count < HEIGHTS; count++) {
        tests[count] = (struct CMUnitTest){ .name = heights[count].name,
                                            .test_func = run_height,
                                            .initial_state = &heights[count] };
    }
    for (size_t i = 0; i < num_own; i++) {
        if (count == MOST) {
            fprintf(stderr, "run_suite() has room for %d tests\n", MOST);
            return 1;
        }
        tests[count++] = own[i];
    }
    return _cmocka_run_group_tests("operations", tests, count, NULL, NULL);
}
