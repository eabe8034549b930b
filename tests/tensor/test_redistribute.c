/* Redistribution between random layouts on random meshes, compared with the dense answer on every hosted
 * rank, exactly. In one process that hosts all ranks, and over MPI. WEFT_TEST_CASES gives the number of
 * cases. */
#include "reduce.h"
#include "support.h"

#include "tensor/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RANKS = 12, MAX_ELEMENTS = 17 * 17 * 17 * 17 };

/* In all, with one process and with more. */
static int num_cases = 2500, num_cases_mpi = 600;

/* A tensor's whole story: where it lies, and a function that gives each addend. */
typedef struct scene {
    weft_mesh *mesh;
    weft_placement placements[3];
    int ndim;
    int64_t shape[4];
    uint64_t salt;
} scene;

static bool is_partial(const scene *s, int m)
{
    return s->placements[m].kind == WEFT_PARTIAL;
}

static weft_reduce_op partial_op(const scene *s)
{
    for (int m = 0; m < weft_mesh_ndim(s->mesh); m++) {
        if (is_partial(s, m)) {
            return s->placements[m].op;
        }
    }
    return WEFT_SUM;
}

/* The addend of an element at a mesh coordinate: depends on the coordinates along the Partial dimensions
 * only. Whole numbers for which every reduction of up to 12 addends is exact in double. */
static double addend(const scene *s, const int64_t coordinate[], int64_t element)
{
    prng random = { s->salt + (uint64_t)element * 1000003u };
    for (int m = 0; m < weft_mesh_ndim(s->mesh); m++) {
        random.state = random.state * 31 + (is_partial(s, m) ? (uint64_t)coordinate[m] + 1 : 0);
    }
    int64_t value = prng_below(&random, 2001) - 1000;
    switch (partial_op(s)) {
    case WEFT_PROD:
        return value < 0 ? -2.0 : value < 500 ? 1.0 : 2.0;
    case WEFT_AVG:
        return (double)value *
               27720; /* divisible by every size up to 12, and by products of sizes up to 12 */
    default:
        return (double)value;
    }
}

/* The value of an element after the reductions of the Partial dimensions outside `kept`; coordinate: its
 * coordinates along those inside. */
static double reduced(const scene *s, const bool kept[], const int64_t at[], int64_t element)
{
    int ndim = weft_mesh_ndim(s->mesh);
    weft_reduce_op op = partial_op(s);
    int64_t coordinate[3] = { 0 };
    int64_t addends = 1;
    for (int m = 0; m < ndim; m++) {
        addends *= is_partial(s, m) && !kept[m] ? weft_mesh_size(s->mesh, m) : 1;
    }
    double value = 0;
    for (int64_t i = 0; i < addends; i++) {
        int64_t rest = i;
        for (int m = ndim - 1; m >= 0; m--) {
            coordinate[m] = 0;
            if (is_partial(s, m) && kept[m]) {
                coordinate[m] = at[m];
            } else if (is_partial(s, m)) {
                coordinate[m] = rest % weft_mesh_size(s->mesh, m);
                rest /= weft_mesh_size(s->mesh, m);
            }
        }
        double next = addend(s, coordinate, element);
        value = i == 0 ? next : reduce_two(op, value, next);
    }
    return op == WEFT_AVG ? value / (double)addends : value;
}

static void write_addends(const hosted_shard *shard, const void *context)
{
    const scene *s = context;
    double *values = shard->values;
    for (int64_t e = 0; e < shard->count; e++) {
        int64_t element = shard_element(shard, s->ndim, s->shape, e);
        values[e] = addend(s, shard->coordinate, element);
    }
}

static weft_tensor *make_source(const scene *s)
{
    return make_of_shards(WEFT_F64, s->ndim, s->shape, s->mesh, s->placements, write_addends, s);
}

typedef struct expectation {
    const scene *scene;
    bool kept[3]; /* Partial dimensions that are Partial still */
} expectation;

static bool judge(const hosted_shard *found, const void *expected, char *text, size_t size)
{
    const expectation *x = expected;
    const scene *s = x->scene;
    const double *values = found->values;
    for (int64_t i = 0; i < found->count; i++) {
        int64_t element = shard_element(found, s->ndim, s->shape, i);
        double right = reduced(s, x->kept, found->coordinate, element);
        if (values[i] != right) {
            snprintf(text, size, "element %d: %g, expected %g", (int)i, values[i], right);
            return false;
        }
    }
    return true;
}

static void check_shards(const scene *s, weft_tensor *result, weft_mesh *mesh,
                         const weft_placement *placements)
{
    expectation x = { .scene = s };
    for (int m = 0; m < weft_mesh_ndim(mesh) && mesh == s->mesh; m++) {
        x.kept[m] = placements[m].kind == WEFT_PARTIAL;
    }
    assert_shards(result, judge, &x, describe(s->mesh, s->placements, s->ndim, s->shape));
}

/* A target on the same mesh may keep the source's Partial dimensions. */
static void random_target(prng *random, const scene *s, weft_mesh **mesh, weft_placement placements[])
{
    *mesh = prng_below(random, 3) == 0 ? random_mesh(random, MAX_RANKS) : s->mesh;
    random_placements(random, *mesh, s->ndim, false, placements);
    random_cut_sizes(random, *mesh, s->ndim, s->shape, placements);
    for (int m = 0; m < weft_mesh_ndim(*mesh) && *mesh == s->mesh; m++) {
        if (is_partial(s, m) && prng_below(random, 3) == 0) {
            placements[m] = s->placements[m];
        }
    }
}

static void one_case(prng *random)
{
    scene s = { .salt = prng_next(random) };
    s.mesh = random_mesh(random, MAX_RANKS);
    s.ndim = random_shape(random, 4, prng_below(random, 4) == 0 ? 17 : 7, s.shape);
    random_placements(random, s.mesh, s.ndim, prng_below(random, 2) == 0, s.placements);
    random_cut_sizes(random, s.mesh, s.ndim, s.shape, s.placements);
    weft_mesh *mesh;
    weft_placement placements[3];
    random_target(random, &s, &mesh, placements);
    weft_scope_begin();
    weft_tensor *result = weft_redistribute(make_source(&s), mesh, placements);
    assert_no_error();
    check_shards(&s, result, mesh, placements);
    weft_scope_end();
}

/* Small messages, and little room for addends; 0: the machine's figures. */
static int64_t max_bytes, staging_bytes;
/* Copies go past the caches. */
static bool streams;

static void start(void)
{
    WORLD(MAX_RANKS);
    if (max_bytes > 0) {
        weft_runtime.messages.max_bytes = max_bytes;
        weft_runtime.messages.staging_bytes = staging_bytes;
    }
    if (streams) {
        weft_runtime.last_cache_bytes = 1;
    }
}

/* `share` of the cases, in percent. */
static void run_cases(const char *panel_rows, uint64_t seed, int share)
{
    if (panel_rows != NULL) {
        setenv("WEFT_PANEL_ROWS", panel_rows, 1);
    } else {
        unsetenv("WEFT_PANEL_ROWS");
    }
    start();
    int cases = (weft_num_processes() == 1 ? num_cases : num_cases_mpi) * share / 100;
    prng random = prng_start(seed);
    for (int i = 0; i < cases; i++) {
        one_case(&random);
    }
    weft_counters counters;
    weft_get_counters(&counters, sizeof(counters));
    if (weft_process_index() == 0) {
        printf("# %d redistributions: %llu tasks, %llu transfers, %llu messages\n", cases,
               (unsigned long long)counters.tasks, (unsigned long long)counters.transfers,
               (unsigned long long)counters.messages);
    }
    assert_int_equal(weft_finalize(), WEFT_OK);
}

static void test_one_panel_per_shard(void **state)
{
    (void)state;
    run_cases(NULL, 1, 50);
}

static void test_panels_of_one_row(void **state)
{
    (void)state;
    run_cases("1", 2, 25);
}

static void test_panels_of_three_rows(void **state)
{
    (void)state;
    run_cases("3", 3, 25);
}

/* Rows are cut, and the memory for addends is used again and again. */
static void test_small_messages(void **state)
{
    (void)state;
    max_bytes = 40;
    staging_bytes = 100;
    run_cases(NULL, 4, 10);
    run_cases("2", 5, 10);
    max_bytes = 0;
}

static void test_streams(void **state)
{
    (void)state;
    streams = true;
    run_cases(NULL, 6, 10);
    streams = false;
}

/* Several ranks of a process send more addends of one panel than there is room for, in messages above
 * MPI's eager limit: the receiver must not wait for a message after one that it cannot take. Also on a
 * mesh with descending ranks. */
static void test_addends_without_room(void **state)
{
    (void)state;
    enum { ROWS = MAX_RANKS * 512, COLUMNS = 128 };
    setenv("WEFT_PANEL_ROWS", "8192", 1);
    max_bytes = 8192;
    staging_bytes = 3 * 8192;
    start();
    int64_t all = MAX_RANKS, shape[] = { ROWS, COLUMNS };
    int descending[MAX_RANKS];
    for (int i = 0; i < MAX_RANKS; i++) {
        descending[i] = MAX_RANKS - 1 - i;
    }
    for (int turn = 0; turn < 2; turn++) {
        weft_mesh *mesh =
            turn == 0 ? weft_mesh_create(1, &all, NULL) : weft_mesh_of_ranks(1, &all, descending, NULL);
        weft_placement sum = weft_partial(WEFT_SUM), rows = weft_shard(0);
        weft_tensor *addends = weft_empty(WEFT_F64, 2, shape, mesh, &sum);
        for (int i = 0; i < weft_local_ranks(); i++) {
            double *values = weft_local_acquire(addends, i, WEFT_WRITE);
            for (int64_t e = 0; e < ROWS * COLUMNS; e++) {
                values[e] = (double)((e + weft_first_rank() + i) % 1000);
            }
            assert_int_equal(weft_local_release(addends, i), WEFT_OK);
        }
        weft_tensor *result = weft_redistribute(addends, mesh, &rows);
        for (int i = 0; i < weft_local_ranks(); i++) {
            int64_t offset[2], extent[2];
            assert_int_equal(weft_local_box(result, i, offset, extent), WEFT_OK);
            const double *values = weft_local_acquire(result, i, WEFT_READ);
            assert_non_null(values);
            for (int64_t e = 0; e < extent[0] * COLUMNS; e++) {
                double expected = 0;
                for (int rank = 0; rank < MAX_RANKS; rank++) {
                    expected += (double)((e + offset[0] * COLUMNS + rank) % 1000);
                }
                assert_true(values[e] == expected);
            }
            assert_int_equal(weft_local_release(result, i), WEFT_OK);
        }
    }
    assert_int_equal(weft_finalize(), WEFT_OK);
    max_bytes = 0;
    unsetenv("WEFT_PANEL_ROWS");
}

/* Boxes for several ranks are forwarded, by every algorithm, in panels of one row and of many. */
static void test_forwarding(void **state)
{
    (void)state;
    static const char *const algorithms[] = { "chain", "tree", "once" }, *const heights[] = { NULL, "1",
                                                                                              "3" };
    for (size_t i = 0; i < 9; i++) {
        setenv("WEFT_PLAN", algorithms[i % 3], 1);
        run_cases(heights[i / 3], 10 + i, 10);
    }
    unsetenv("WEFT_PLAN");
}

/* From one rank to all of them: with every algorithm a process receives each panel once. */
static void broadcast(const char *algorithm)
{
    enum { ROWS = 24, PANELS = 6 };
    setenv("WEFT_PLAN", algorithm, 1);
    setenv("WEFT_PANEL_ROWS", "4", 1);
    WORLD(MAX_RANKS);
    int64_t one = 1, all = MAX_RANKS;
    scene s = { .mesh = weft_mesh_of_ranks(1, &one, (int[]){ 0 }, NULL),
                .placements = { weft_replicate() },
                .ndim = 2,
                .shape = { ROWS, 2 } };
    weft_mesh *mesh = weft_mesh_create(1, &all, NULL);
    weft_tensor *tensor = make_source(&s);
    weft_tensor *result = weft_redistribute(tensor, mesh, s.placements);
    weft_counters counters;
    weft_get_counters(&counters, sizeof(counters));
    check_shards(&s, result, mesh, s.placements);
    bool forwarded = strcmp(algorithm, "direct") != 0;
    int expected = weft_process_index() == 0 ? 0 : PANELS * (forwarded ? 1 : weft_local_ranks());
    assert_int_equal(counters.messages, expected);
    assert_int_equal(weft_finalize(), WEFT_OK);
    unsetenv("WEFT_PLAN");
    unsetenv("WEFT_PANEL_ROWS");
}

static void test_broadcasts(void **state)
{
    (void)state;
    broadcast("direct");
    broadcast("chain");
    broadcast("tree");
    broadcast("once");
}

/* Reductions of different ops on different mesh dimensions: the last mesh dimension is reduced first. */
static void test_mixed_reductions(void **state)
{
    (void)state;
    unsetenv("WEFT_PANEL_ROWS");
    WORLD(MAX_RANKS);
    int64_t mesh_shape[] = { 2, 3, 2 }, shape[] = { 5 };
    weft_mesh *mesh = weft_mesh_create(3, mesh_shape, NULL);
    weft_placement placements[] = { weft_partial(WEFT_SUM), weft_partial(WEFT_MAX), weft_partial(WEFT_SUM) };
    double values[MAX_RANKS][5];
    void *locals[MAX_RANKS];
    for (int rank = 0; rank < MAX_RANKS; rank++) {
        for (int e = 0; e < 5; e++) {
            values[rank][e] = (rank * 7 + e * 3) % 11 - 5;
        }
    }
    for (int i = 0; i < weft_local_ranks(); i++) {
        locals[i] = values[weft_first_rank() + i];
    }
    weft_tensor *tensor = weft_from_local(WEFT_F64, 1, shape, locals, mesh, placements, WEFT_COPY);
    double result[5];
    assert_int_equal(weft_to_host(tensor, result, sizeof(result)), WEFT_OK);
    for (int e = 0; e < 5; e++) {
        double sum = 0;
        for (int a = 0; a < 2; a++) {
            double max = -1e9;
            for (int b = 0; b < 3; b++) {
                double pair = values[a * 6 + b * 2][e] + values[a * 6 + b * 2 + 1][e];
                max = pair > max ? pair : max;
            }
            sum += max;
        }
        assert_true(result[e] == sum);
    }
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* Plans of shapes that never come again do not fill the memory, and are made again where they do. */
static void test_plans_are_bounded(void **state)
{
    (void)state;
    enum { MAX_BYTES = 100000, MAX_SHAPES = 60 };
    start();
    weft_runtime.call_cache.budget = MAX_BYTES;
    int64_t all = MAX_RANKS;
    weft_mesh *mesh = weft_mesh_create(1, &all, NULL);
    weft_placement rows = weft_shard(0), columns = weft_shard(1);
    uint64_t misses[2];
    weft_counters counters;
    for (int turn = 0; turn < 2; turn++) {
        for (int64_t size = 1; size <= MAX_SHAPES; size++) {
            weft_scope_begin();
            int64_t shape[] = { size, MAX_RANKS };
            weft_tensor *sum = weft_full(WEFT_F64, (double)size, 2, shape, mesh, &rows);
            for (int i = 0; i < 4; i++) { /* in flight while their plans go */
                sum = weft_redistribute(sum, mesh, i % 2 == 0 ? &columns : &rows);
            }
            assert_true(weft_runtime.call_cache.bytes <= MAX_BYTES);
            double values[MAX_SHAPES * MAX_RANKS];
            assert_int_equal(weft_to_host(sum, values, sizeof(values)), WEFT_OK);
            for (int64_t i = 0; i < size * MAX_RANKS; i++) {
                assert_true(values[i] == (double)size);
            }
            weft_scope_end();
        }
        weft_get_counters(&counters, sizeof(counters));
        misses[turn] = counters.plan_misses;
    }
    assert_true(misses[1] > misses[0]); /* they had been dropped */
    weft_runtime.call_cache.budget = (size_t)1 << 30;
    weft_scope_begin();
    weft_tensor *again = weft_full(WEFT_F64, 1, 1, (int64_t[]){ 5 }, mesh, &rows);
    weft_redistribute(again, mesh, NULL);
    weft_get_counters(&counters, sizeof(counters));
    misses[0] = counters.plan_misses;
    weft_redistribute(again, mesh, NULL);
    weft_get_counters(&counters, sizeof(counters));
    assert_int_equal(counters.plan_misses, misses[0]);
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

int main(void)
{
    num_cases = cases_to_run(num_cases);
    num_cases_mpi = cases_to_run(num_cases_mpi);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_panel_per_shard),
        cmocka_unit_test(test_panels_of_one_row),
        cmocka_unit_test(test_panels_of_three_rows),
        cmocka_unit_test(test_small_messages),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_plans_are_bounded),
        cmocka_unit_test(test_addends_without_room),
        cmocka_unit_test(test_forwarding),
        cmocka_unit_test(test_broadcasts),
        cmocka_unit_test(test_mixed_reductions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
