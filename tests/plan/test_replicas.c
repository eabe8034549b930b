/* The order in which addends are reduced, a function of layouts alone: row-major along the reduced mesh
 * dimensions, in runs (include/weft/placement.h). So all replicas of a shard have the same bits on any
 * number of processes. The addends make nearly every other order visible: large ones that cancel, zeros of
 * both signs, NaNs of several kinds. */
#include "support.h"

#include "tensor/state.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RANKS = 12, MANY_RANKS = 140, MAX_ADDENDS = 64, ADDENDS_OF_A_TASK = 7 };

static int num_cases = 1200, num_cases_mpi = 240;

typedef struct scene {
    weft_mesh *mesh;
    weft_placement placements[3];
    weft_dtype dtype;
    int ndim;
    int64_t shape[3];
    uint64_t salt;
} scene;

static bool is_partial(const scene *s, int m)
{
    return s->placements[m].kind == WEFT_PARTIAL;
}

/* Of all Partial dimensions. */
static bool ops_agree(const scene *s)
{
    int first = -1;
    for (int m = 0; m < weft_mesh_ndim(s->mesh); m++) {
        first = first < 0 && is_partial(s, m) ? m : first;
        if (is_partial(s, m) && s->placements[m].op != s->placements[first].op) {
            return false;
        }
    }
    return true;
}

/* ---- numbers of a type --------------------------------------------------------------------------------- */

static double as_f32(double x)
{
    return (double)(float)x;
}

/* bf16 is the upper half of f32; to the nearest, ties to even. */
static uint16_t bf16_bits(double x)
{
    float narrow = (float)x;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof(bits));
    return isnan(x) ? (uint16_t)(bits >> 16) : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static double bf16_value(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof(value));
    return (double)value;
}

/* The type of computation: double for f64, else float. */
static double computed(weft_dtype dtype, double x)
{
    return dtype == WEFT_F64 ? x : as_f32(x);
}

static double stored(weft_dtype dtype, double x)
{
    return dtype == WEFT_BF16 ? bf16_value(bf16_bits(x)) : computed(dtype, x);
}

static void store(weft_dtype dtype, void *array, int64_t i, double x)
{
    float narrow = (float)x;
    uint16_t half = bf16_bits(x);
    size_t size = weft_dtype_size(dtype);
    const void *from = dtype == WEFT_F64 ? (void *)&x : dtype == WEFT_F32 ? (void *)&narrow : (void *)&half;
    memcpy((char *)array + (size_t)i * size, from, size);
}

static double nan_of_kind(uint64_t kind)
{
    uint64_t bits = UINT64_C(0x7ff8000000000000) | kind << 46;
    double value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* ---- addends ------------------------------------------------------------------------------------------- */

/* The addend of an element at a mesh coordinate: depends on the coordinates along the Partial dimensions
 * only. */
static double addend(const scene *s, const int64_t coordinate[], int64_t element)
{
    prng random = { s->salt + (uint64_t)element * 1000003u };
    weft_reduce_op op = WEFT_SUM;
    for (int m = 0; m < weft_mesh_ndim(s->mesh); m++) {
        random.state = random.state * 31 + (is_partial(s, m) ? (uint64_t)coordinate[m] + 1 : 0);
        op = is_partial(s, m) ? s->placements[m].op : op;
    }
    int64_t which = prng_below(&random, 8);
    double large = s->dtype == WEFT_F64 ? 1e16 : s->dtype == WEFT_F32 ? 1e8 : 512;
    double some = (double)(1 + prng_below(&random, 1000)) / 7;
    if (op == WEFT_PROD) {
        return stored(s->dtype, (which % 2 ? 1 : -1) * (0.75 + some / 300));
    }
    if (op == WEFT_MIN || op == WEFT_MAX) {
        return which < 3    ? 0.0
               : which < 6  ? -0.0
               : which == 6 ? nan_of_kind((uint64_t)some)
                            : stored(s->dtype, some / 1e3);
    }
    double rare = prng_below(&random, 40) == 0 ? nan_of_kind((uint64_t)some) : stored(s->dtype, some);
    return which < 3 ? large : which < 6 ? -large : rare;
}

static double combine(weft_dtype dtype, weft_reduce_op op, double a, double b)
{
    switch (op) {
    case WEFT_PROD:
        return computed(dtype, a * b);
    case WEFT_MIN:
        return isnan(a) || a < b ? a : b;
    case WEFT_MAX:
        return isnan(a) || a > b ? a : b;
    default:
        return computed(dtype, a + b);
    }
}

/* ---- the order that is promised ------------------------------------------------------------------------ */

/* A mesh dimension that is reduced, or a factor of one. */
typedef struct factor {
    int dim;
    int64_t size, step; /* of the dimension's coordinate */
    weft_reduce_op op;
    bool averages;
} factor;

/* Factors of runs: run r has those from begin[r] to begin[r + 1] - 1. The last run is reduced first. */
typedef struct order {
    factor factors[6];
    int num_factors, begin[7], num_runs;
} order;

/* More ranks than are reduced at once are two factors, as near to each other as there are. */
static void add_dimension(order *o, const scene *s, int m)
{
    int64_t size = weft_mesh_size(s->mesh, m), outer = 1;
    for (int64_t f = 2; f * f <= size && size > MAX_ADDENDS; f++) {
        outer = size % f == 0 ? f : outer;
    }
    weft_reduce_op op = s->placements[m].op;
    factor f = { .dim = m, .size = outer, .step = size / outer, .op = op == WEFT_AVG ? WEFT_SUM : op };
    f.averages = op == WEFT_AVG;
    if (outer > 1) {
        o->factors[o->num_factors++] = f;
    }
    f.size = size / outer;
    f.step = 1;
    o->factors[o->num_factors++] = f;
}

static order order_of(const scene *s, const bool kept[])
{
    order o = { .num_factors = 0 };
    for (int m = 0; m < weft_mesh_ndim(s->mesh); m++) {
        if (is_partial(s, m) && !kept[m]) {
            add_dimension(&o, s, m);
        }
    }
    int ends[7] = { 0 }, runs = 0;
    int64_t addends = 1;
    for (int i = o.num_factors - 1; i >= 0; i--) {
        bool fits = i < o.num_factors - 1 && o.factors[i].op == o.factors[i + 1].op &&
                    addends * o.factors[i].size <= MAX_ADDENDS;
        addends = fits ? addends * o.factors[i].size : o.factors[i].size;
        runs += !fits;
        ends[runs - 1] = fits ? ends[runs - 1] : i + 1;
    }
    o.num_runs = runs;
    for (int r = 0; r < runs; r++) {
        o.begin[r + 1] = ends[runs - 1 - r];
    }
    return o;
}

/* The result of run r, at the coordinates of the earlier runs. */
static double reduce_run(const scene *s, const order *o, int r, const int64_t coordinate[], int64_t element)
{
    if (r == o->num_runs) {
        return addend(s, coordinate, element);
    }
    int64_t count = 1;
    double scale = 1, value = 0;
    for (int i = o->begin[r + 1] - 1; i >= o->begin[r]; i--) {
        count *= o->factors[i].size;
        scale /= o->factors[i].averages ? (double)o->factors[i].size : 1;
    }
    for (int64_t k = 0; k < count; k++) {
        int64_t inner[3], rest = k;
        memcpy(inner, coordinate, sizeof(inner));
        for (int i = o->begin[r + 1] - 1; i >= o->begin[r]; i--) {
            inner[o->factors[i].dim] += rest % o->factors[i].size * o->factors[i].step;
            rest /= o->factors[i].size;
        }
        double next = reduce_run(s, o, r + 1, inner, element);
        value = k == 0 ? next : combine(s->dtype, o->factors[o->begin[r]].op, value, next);
        if (k == count - 1 && scale != 1) {
            value = computed(s->dtype, value * scale);
        }
        /* The result of a task is stored. */
        value = k % ADDENDS_OF_A_TASK == ADDENDS_OF_A_TASK - 1 || k == count - 1 ? stored(s->dtype, value)
                                                                                 : value;
    }
    return value;
}

/* ---- tensors ------------------------------------------------------------------------------------------- */

static void write_addends(const hosted_shard *shard, const void *context)
{
    const scene *s = context;
    for (int64_t e = 0; e < shard->count; e++) {
        int64_t element = shard_element(shard, s->ndim, s->shape, e);
        store(s->dtype, shard->values, e, addend(s, shard->coordinate, element));
    }
}

static weft_tensor *make_source(const scene *s)
{
    return make_of_shards(s->dtype, s->ndim, s->shape, s->mesh, s->placements, write_addends, s);
}

typedef struct expectation {
    const scene *scene;
    bool kept[3];
    int64_t rolled; /* rows: the tensor's first one is that many before the scene's */
} expectation;

static double load(weft_dtype dtype, const void *values, int64_t i)
{
    return dtype == WEFT_F64   ? ((const double *)values)[i]
           : dtype == WEFT_F32 ? (double)((const float *)values)[i]
                               : bf16_value(((const uint16_t *)values)[i]);
}

/* The result is one of the addends. */
static bool selects(const scene *s)
{
    bool all = true;
    for (int m = 0; m < weft_mesh_ndim(s->mesh); m++) {
        weft_reduce_op op = s->placements[m].op;
        all &= !is_partial(s, m) || op == WEFT_MIN || op == WEFT_MAX;
    }
    return all;
}

static bool same_bits(const scene *s, const void *values, int64_t i, double expected)
{
    unsigned char element[8];
    /* The compiler decides which NaN a sum of two is, but alike for all replicas. */
    if (isnan(expected) && !selects(s)) {
        return isnan(load(s->dtype, values, i));
    }
    store(s->dtype, element, 0, expected);
    size_t size = weft_dtype_size(s->dtype);
    return memcmp((const char *)values + (size_t)i * size, element, size) == 0;
}

static double expected_at(const expectation *e, const order *o, const int64_t coordinate[], int64_t element)
{
    const scene *s = e->scene;
    if (s->ndim > 0) {
        int64_t row_elements = shape_count(s->ndim - 1, s->shape + 1), count = s->shape[0] * row_elements;
        element = (element + e->rolled * row_elements) % count;
    }
    return reduce_run(s, o, 0, coordinate, element);
}

static bool judge(const hosted_shard *found, const void *expected, char *text, size_t size)
{
    const expectation *e = expected;
    const scene *s = e->scene;
    int64_t coordinate[3] = { 0 };
    for (int m = 0; m < weft_mesh_ndim(s->mesh); m++) {
        coordinate[m] = e->kept[m] ? found->coordinate[m] : 0;
    }
    order o = order_of(s, e->kept);
    for (int64_t i = 0; i < found->count; i++) {
        int64_t element = shard_element(found, s->ndim, s->shape, i);
        double right = expected_at(e, &o, coordinate, element);
        if (!same_bits(s, found->values, i, right)) {
            snprintf(text, size, "element %d is %.17g, expected %.17g from %s", (int)i,
                     load(s->dtype, found->values, i), right,
                     describe(s->mesh, s->placements, s->ndim, s->shape));
            return false;
        }
    }
    return true;
}

/* The whole tensor, on every process. */
static void check_host(const scene *s, weft_tensor *tensor)
{
    expectation e = { .scene = s };
    order o = order_of(s, e.kept);
    int64_t count = shape_count(s->ndim, s->shape), origin[3] = { 0 };
    double *values = malloc(((size_t)count + 1) * sizeof(*values));
    assert_int_equal(weft_to_host(tensor, values, weft_tensor_bytes(tensor)), WEFT_OK);
    for (int64_t i = 0; i < count; i++) {
        double right = expected_at(&e, &o, origin, i);
        if (!same_bits(s, values, i, right)) {
            fail_msg("to the host: element %d is %.17g, expected %.17g from %s", (int)i,
                     load(s->dtype, values, i), right, describe(s->mesh, s->placements, s->ndim, s->shape));
        }
    }
    free(values);
}

/* ---- cases --------------------------------------------------------------------------------------------- */

/* One operation for all Partial dimensions, or one for each. */
static void make_partial(prng *random, scene *s)
{
    weft_reduce_op op = (weft_reduce_op)prng_below(random, 5);
    bool mixed = prng_below(random, 4) == 0;
    random_placements(random, s->mesh, s->ndim, false, s->placements);
    for (int m = 0; m < weft_mesh_ndim(s->mesh); m++) {
        if (prng_below(random, 2) == 0) {
            s->placements[m] = weft_partial(mixed ? (weft_reduce_op)prng_below(random, 5) : op);
        }
    }
}

/* On the same mesh some Partial dimensions may stay. */
static void redistribute_once(prng *random, const scene *s, weft_tensor *tensor)
{
    expectation e = { .scene = s };
    weft_mesh *mesh = prng_below(random, 3) == 0 ? random_mesh(random, MAX_RANKS) : s->mesh;
    weft_placement placements[3];
    random_placements(random, mesh, s->ndim, false, placements);
    for (int m = 0; m < weft_mesh_ndim(mesh) && mesh == s->mesh; m++) {
        if (is_partial(s, m) && ops_agree(s) && prng_below(random, 3) == 0) {
            placements[m] = s->placements[m];
            e.kept[m] = true;
        }
    }
    weft_tensor *result = weft_redistribute(tensor, mesh, placements);
    assert_no_error();
    assert_shards(result, judge, &e, "redistribute");
}

/* Rows that come from other ranks are moved while they are addends, and reduced then. */
static void roll_once(prng *random, const scene *s, weft_tensor *tensor)
{
    if (s->ndim == 0 || s->shape[0] == 0) {
        return;
    }
    expectation e = { .scene = s, .rolled = prng_below(random, s->shape[0]) };
    weft_tensor *result = without_partial(weft_roll(tensor, -e.rolled, 0));
    assert_no_error();
    assert_shards(result, judge, &e, "roll");
}

static void one_case(prng *random)
{
    static const weft_dtype types[] = { WEFT_F64, WEFT_F32, WEFT_BF16 };
    scene s = { .salt = prng_next(random), .dtype = types[prng_below(random, 3)] };
    s.mesh = random_mesh(random, MAX_RANKS);
    bool large = prng_below(random, 4) == 0; /* what vector loops go through */
    s.ndim = random_shape(random, large ? 2 : 3, large ? 40 : 6, s.shape);
    make_partial(random, &s);
    weft_scope_begin();
    weft_tensor *tensor = make_source(&s);
    redistribute_once(random, &s, tensor);
    redistribute_once(random, &s, tensor);
    roll_once(random, &s, tensor);
    check_host(&s, tensor);
    weft_scope_end();
}

static void run_cases(const char *panel_rows, uint64_t seed, bool small_messages)
{
    start_with_panels(MAX_RANKS, panel_rows);
    if (small_messages) {
        weft_runtime.messages.max_bytes = 40;
        weft_runtime.messages.staging_bytes = 100;
    }
    prng random = prng_start(seed);
    int cases = (weft_num_processes() == 1 ? num_cases : num_cases_mpi) / 4;
    for (int i = 0; i < cases; i++) {
        one_case(&random);
    }
    assert_int_equal(weft_finalize(), WEFT_OK);
    unsetenv("WEFT_PANEL_ROWS");
}

static void test_panels_by_default(void **state)
{
    (void)state;
    run_cases(NULL, 1, false);
}

static void test_panels_of_one_row(void **state)
{
    (void)state;
    run_cases("1", 2, false);
}

static void test_panels_of_three_rows(void **state)
{
    (void)state;
    run_cases("3", 3, false);
}

static void test_small_messages(void **state)
{
    (void)state;
    run_cases("2", 4, true);
}

static bool is_one(const hosted_shard *found, const void *unused, char *text, size_t size)
{
    (void)unused;
    snprintf(text, size, "%g, expected 1", (double)*(const float *)found->values);
    return *(const float *)found->values == 1;
}

/* A scalar on 2 x 3 ranks whose large addends cancel, where processes host ranks of both rows: each row's
 * addends come from the nearest replica, and are added by their columns all the same. */
static void test_nearest_replicas(void **state)
{
    (void)state;
    start_with_panels(6, NULL);
    static float addends[] = { 1e8f, -1e8f, 1 };
    void *locals[6];
    for (int i = 0; i < weft_local_ranks(); i++) {
        locals[i] = &addends[(weft_first_rank() + i) % 3];
    }
    weft_mesh *mesh = weft_mesh_create(2, (int64_t[]){ 2, 3 }, NULL);
    weft_placement placements[] = { weft_replicate(), weft_partial(WEFT_SUM) };
    weft_tensor *tensor = weft_from_local(WEFT_F32, 0, NULL, locals, mesh, placements, WEFT_COPY);
    assert_shards(weft_redistribute(tensor, mesh, NULL), is_one, NULL, "a sum");
    double item = 0;
    assert_int_equal(weft_tensor_item(tensor, &item), WEFT_OK);
    assert_true(item == 1);
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* More addends than are reduced in a stage: several mesh dimensions, one that is two factors, one of a prime
 * number of ranks. */
static void test_many_addends(void **state)
{
    (void)state;
    start_with_panels(MANY_RANKS, NULL);
    /* clang-format off */
    static const struct {
        row_place place;
        int ndim;
        int64_t shape[3];
    } meshes[] = {
        { THIS_ROW, 1, { 128 } },
        { THIS_ROW, 1, { 67 } },
        { THIS_ROW, 1, { 140 } },
        { THIS_ROW, 2, { 9, 13 } },
        { THIS_ROW, 2, { 2, 66 } },
        { THIS_ROW, 3, { 4, 5, 7 } },
        { THIS_ROW, 3, { 5, 2, 14 } },
        { THIS_ROW, 3, { 2, 33, 2 } },
        { THIS_ROW, 2, { 70, 2 } },
    };
    /* clang-format on */
    prng random = prng_start(5);
    for (size_t i = 0; i < sizeof(meshes) / sizeof(meshes[0]); i++) {
        enter_row(meshes[i].place, __func__);
        scene s = { .salt = prng_next(&random), .dtype = i % 3 == 0 ? WEFT_BF16 : WEFT_F32 };
        s.mesh = weft_mesh_create(meshes[i].ndim, meshes[i].shape, NULL);
        s.ndim = (int)i % 2;
        s.shape[0] = 3;
        weft_reduce_op op = (weft_reduce_op)(i % 5);
        for (int m = 0; m < meshes[i].ndim; m++) {
            s.placements[m] = weft_partial(op);
        }
        if (meshes[i].ndim == 3 && i % 2 == 0) {
            s.placements[1] = weft_replicate();
        }
        expectation e = { .scene = &s };
        weft_scope_begin();
        weft_tensor *tensor = make_source(&s);
        weft_tensor *result = weft_redistribute(tensor, s.mesh, NULL);
        assert_no_error();
        assert_shards(result, judge, &e, "many addends");
        check_host(&s, tensor);
        weft_scope_end();
    }
    leave_rows();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

int main(void)
{
    num_cases = cases_to_run(num_cases);
    num_cases_mpi = cases_to_run(num_cases_mpi);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nearest_replicas),  cmocka_unit_test(test_panels_by_default),
        cmocka_unit_test(test_panels_of_one_row), cmocka_unit_test(test_panels_of_three_rows),
        cmocka_unit_test(test_small_messages),    cmocka_unit_test(test_many_addends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
