/* Long vectors that are sorted in parts: extreme bits, uneven and empty parts, replicas, layouts, gradients, graphs, and what moves. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/sorted_lines.h"

#include "cuts.h"
#include "operand.h"

enum { LONGEST = 400, KINDS = 6 };

static int start(void **state)
{
    (void)state;
    start_world("WEFT_PANEL_ROWS", "64");
    weft_scope_begin();
    weft_sort_lines_from(1);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    weft_sort_lines_from(0);
    weft_scope_end();
    return weft_finalize() == WEFT_OK ? 0 : -1;
}

/* ---- values against a stable sort -------------------------------------------------------------------------------- */

static bool comes_after(double a, double b, bool descending)
{
    if (isnan(a) || isnan(b)) {
        return isnan(a) != isnan(b) && isnan(a) != descending;
    }
    return descending ? a < b : a > b;
}

static void sort_plainly(const double values[], int64_t n, bool descending, int64_t order[])
{
    for (int64_t i = 0; i < n; i++) {
        int64_t at = i;
        for (; at > 0 && comes_after(values[order[at - 1]], values[i], descending); at--) {
            order[at] = order[at - 1];
        }
        order[at] = i;
    }
}

/* Equal ones, few different ones, sorted ones, reversed ones, any, and extreme ones. */
static double draw_value(prng *random, int kind, int64_t i)
{
    static const double extreme[] = { 0.0, -0.0, NAN, INFINITY, -INFINITY, 0x1p-1074, -0x1p-1074, 0x1.fffffffffffffp1023,
                                      -0x1.fffffffffffffp1023, 1, -1 };
    switch (kind) {
    case 0:
        return 7;
    case 1:
        return (double)prng_below(random, 3);
    case 2:
        return (double)i;
    case 3:
        return (double)-i;
    case 4:
        return ((double)prng_below(random, INT64_C(1) << 53) - 0x1p52) * 0x1p-30;
    default:
        return extreme[prng_below(random, sizeof(extreme) / sizeof(extreme[0]))];
    }
}

/* One mesh dimension cuts, in equal or listed parts; others replicate. */
static weft_mesh *draw_layout(prng *random, int64_t n, weft_placement placements[])
{
    weft_mesh *mesh = random_mesh(random, MAX_RANKS);
    const int cut = (int)prng_below(random, weft_mesh_ndim(mesh)), kind = (int)prng_below(random, 3);
    for (int d = 0; d < weft_mesh_ndim(mesh); d++) {
        placements[d] = d != cut    ? weft_replicate()
                        : kind == 0 ? weft_shard(0)
                        : kind == 1 ? weft_shard_balanced(0)
                                    : sizes_of_rows(random, 0, weft_mesh_size(mesh, d), n);
    }
    return mesh;
}

static void check_same_placements(const weft_tensor *a, const weft_tensor *b)
{
    weft_mesh *mesh = weft_tensor_mesh(b);
    for (int d = 0; d < weft_mesh_ndim(mesh); d++) {
        const weft_placement one = weft_tensor_placements(a)[d], other = weft_tensor_placements(b)[d];
        assert_true(weft_mesh_size(mesh, d) == 1 ||
                    (one.kind == other.kind && one.dim == other.dim && one.cut == other.cut && one.sizes == other.sizes));
    }
}

static void one_case(prng *random)
{
    const int64_t n = 1 + prng_below(random, prng_below(random, 4) == 0 ? LONGEST : 24);
    const int kind = (int)prng_below(random, KINDS);
    const bool descending = prng_below(random, 2), wants = prng_below(random, 2);
    double values[LONGEST], sorted[LONGEST];
    int64_t order[LONGEST], indices[LONGEST];
    weft_placement placements[WEFT_MAX_DIMS];
    for (int64_t i = 0; i < n; i++) {
        values[i] = draw_value(random, kind, i);
    }
    weft_mesh *mesh = draw_layout(random, n, placements);
    weft_tensor *a = weft_distribute(WEFT_F64, 1, &n, values, mesh, placements), *places = NULL;
    weft_tensor *result = weft_sort(a, 0, descending, wants ? &places : NULL);
    places = wants ? places : weft_argsort(a, 0, descending);
    assert_no_error();
    check_same_placements(result, a);
    check_same_placements(places, a);
    assert_int_equal(weft_to_host(result, sorted, sizeof(sorted)), WEFT_OK);
    assert_int_equal(weft_to_host(places, indices, sizeof(indices)), WEFT_OK);
    sort_plainly(values, n, descending, order);
    for (int64_t i = 0; i < n; i++) {
        assert_int_equal(indices[i], order[i]);
        assert_memory_equal(&sorted[i], &values[order[i]], sizeof(double));
    }
}

static void test_against_a_stable_sort(void **state)
{
    (void)state;
    prng random = prng_start(40);
    for (int i = 0; i < 40; i++) {
        weft_scope_begin();
        one_case(&random);
        weft_scope_end();
    }
}

static void test_whole_numbers(void **state)
{
    (void)state;
    const uint64_t values[] = { UINT64_MAX, 0, UINT64_C(1) << 63, (UINT64_C(1) << 63) - 1, 1, UINT64_MAX }, sorted[] = {
        0, 1, (UINT64_C(1) << 63) - 1, UINT64_C(1) << 63, UINT64_MAX, UINT64_MAX
    };
    const int64_t n = 6, signed_ones[] = { INT64_MAX, INT64_MIN, -1, 0, 1, INT64_MIN },
                  descending[] = { INT64_MAX, 1, 0, -1, INT64_MIN, INT64_MIN };
    uint64_t result[6];
    const weft_placement rows = weft_shard(0);
    weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ 3 }, NULL);
    assert_int_equal(weft_to_host(weft_sort(weft_distribute(WEFT_U64, 1, &n, values, mesh, &rows), 0, false, NULL), result, sizeof(result)),
                     WEFT_OK);
    assert_memory_equal(result, sorted, sizeof(sorted));
    assert_int_equal(
        weft_to_host(weft_sort(weft_distribute(WEFT_I64, 1, &n, signed_ones, mesh, &rows), 0, true, NULL), result, sizeof(result)), WEFT_OK);
    assert_memory_equal(result, descending, sizeof(descending));
}

/* ---- gradients and graphs ------------------------------------------------------------------------------------------ */

static void test_gradient(void **state)
{
    (void)state;
    const int64_t n = 37;
    double values[37], slopes[37];
    const weft_placement rows = weft_shard(0);
    weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ 5 }, NULL);
    for (int64_t i = 0; i < n; i++) {
        values[i] = (double)(i * 17 % n);
    }
    weft_tensor *a = weft_distribute(WEFT_F64, 1, &n, values, mesh, &rows);
    assert_int_equal(weft_set_requires_grad(a, true), WEFT_OK);
    weft_tensor *sorted = weft_sort(a, 0, true, NULL);
    weft_tensor *loss = weft_sum(weft_mul(sorted, weft_arange(WEFT_F64, 0, n, 1, mesh, &rows)), WEFT_ALL_DIMS, false);
    assert_int_equal(weft_backward(loss, NULL), WEFT_OK);
    assert_int_equal(weft_to_host(weft_grad(a), slopes, sizeof(slopes)), WEFT_OK);
    for (int64_t i = 0; i < n; i++) {
        assert_true(slopes[i] == (double)n - 1 - values[i]); /* its place in descending order */
    }
}

static weft_status sort_it(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context, (void)scalars;
    outputs[0] = weft_sort(inputs[0], 0, false, NULL);
    return outputs[0] == NULL ? weft_last_status() : WEFT_OK;
}

/* A graph cannot know the counts beforehand, and brings the vector together. */
static void test_in_a_graph(void **state)
{
    (void)state;
    const int64_t n = 29;
    double values[29], result[29];
    const weft_placement rows = weft_shard(0);
    weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ 3 }, NULL);
    weft_graph *graph = weft_graph_create("sort", sort_it, NULL, 1, 0, 1);
    for (int64_t run = 0; run < 3; run++) {
        for (int64_t i = 0; i < n; i++) {
            values[i] = (double)(i * (run + 5) % n);
        }
        weft_tensor *a = weft_distribute(WEFT_F64, 1, &n, values, mesh, &rows), *sorted;
        assert_int_equal(weft_graph_call(graph, &a, NULL, &sorted), WEFT_OK);
        assert_int_equal(weft_to_host(sorted, result, sizeof(result)), WEFT_OK);
        for (int64_t i = 0; i < n; i++) {
            assert_true(result[i] == (double)i);
        }
    }
    weft_graph_destroy(graph);
}

/* ---- strict regions ----------------------------------------------------------------------------------------------------- */

/* Elements would move: refused by name, before any task. Replicas need no moves. */
static void test_in_a_strict_region(void **state)
{
    (void)state;
    const int64_t n = 256 * MAX_RANKS;
    const weft_placement rows = weft_shard(0), whole = weft_replicate();
    weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ MAX_RANKS }, NULL);
    weft_tensor *cut = weft_arange(WEFT_F64, 0, (double)n, 1, mesh, &rows), *all = weft_arange(WEFT_F64, 0, (double)n, 1, mesh, &whole);
    weft_counters before, after;
    weft_get_counters(&before, sizeof(before));
    assert_int_equal(weft_region_begin("still", WEFT_REGION_STRICT), WEFT_OK);
    for (int call = 0; call < 3; call++) {
        assert_null(call == 0 ? weft_sort(cut, 0, true, NULL) : call == 1 ? weft_argsort(cut, 0, true) : weft_topk(cut, 2, 0, true, NULL));
        assert_int_equal(weft_last_status(), WEFT_ERR_LAYOUT);
        assert_non_null(strstr(weft_last_error(), "\"still\" a would be moved"));
        weft_clear_error();
    }
    weft_get_counters(&after, sizeof(after));
    assert_true(after.tasks == before.tasks);
    assert_non_null(weft_sort(all, 0, true, NULL));
    assert_int_equal(weft_region_end(), WEFT_OK);
}

/* ---- what moves ------------------------------------------------------------------------------------------------------ */

/* Bytes that hosted ranks receive in a sort of 0 .. n - 1, of which each part's values go `steps` parts on. */
static uint64_t bytes_of(int64_t n, int64_t steps, bool wants)
{
    double *values = malloc((size_t)n * sizeof(*values));
    const weft_placement rows = weft_shard(0);
    weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ MAX_RANKS }, NULL);
    for (int64_t i = 0; i < n; i++) {
        values[i] = (double)((i + steps * n / MAX_RANKS) % n);
    }
    weft_tensor *a = weft_distribute(WEFT_F64, 1, &n, values, mesh, &rows), *indices = NULL;
    weft_counters before, after;
    assert_int_equal(weft_wait(), WEFT_OK);
    weft_get_counters(&before, sizeof(before));
    assert_non_null(weft_sort(a, 0, false, wants ? &indices : NULL));
    assert_int_equal(weft_wait(), WEFT_OK);
    weft_get_counters(&after, sizeof(after));
    free(values);
    return after.bytes_moved - before.bytes_moved;
}

static void test_bytes(void **state)
{
    (void)state;
    const int64_t n = 64 * MAX_RANKS;
    const uint64_t agreement = bytes_of(n, 0, false), hosted = (uint64_t)weft_local_ranks();
    /* Finding the borders takes as much for any length, and for indices. */
    assert_true(agreement == bytes_of(4 * n, 0, false));
    assert_true(agreement == bytes_of(n, 0, true));
    /* At most from each other rank, for each border: eight times 256 counts, and two numbers. */
    const uint64_t borders = MAX_RANKS - 1, others = MAX_RANKS - 1;
    assert_true(agreement <= hosted * others * borders * (8 * 256 + 2) * sizeof(int64_t));
    /* Each element goes to its place once. */
    for (int64_t steps = 1; steps < 3; steps++) {
        assert_true(bytes_of(n, steps, false) == agreement + hosted * 64 * 8);
        assert_true(bytes_of(n, steps, true) == agreement + hosted * 64 * 16);
    }
}

/* ---- the first ones ---------------------------------------------------------------------------------------------------- */

enum { LINES = 3, LENGTH = 40 * MAX_RANKS };

/* Compares topk along each line of [LINES, LENGTH], or of its transpose, with a plain sort; two equal elements are the largest. */
static void one_topk(int dim, int64_t k, bool largest)
{
    double values[LINES * LENGTH], first[LINES * LENGTH];
    int64_t shape[2] = { LINES, LENGTH }, indices[LINES * LENGTH];
    weft_placement placements[2] = { weft_shard(dim), weft_replicate() };
    const int64_t of_line = dim == 1 ? LENGTH : 1, step = dim == 1 ? 1 : LINES, of_result = dim == 1 ? k : 1;
    shape[dim] = LENGTH;
    shape[1 - dim] = LINES;
    for (int64_t line = 0; line < LINES; line++) {
        for (int64_t i = 0; i < LENGTH; i++) {
            values[line * of_line + i * step] = (double)((i * 7 + line) % LENGTH / 2);
        }
    }
    weft_mesh *mesh = weft_mesh_create(2, (const int64_t[]){ MAX_RANKS / 2, 2 }, NULL);
    weft_tensor *a = weft_distribute(WEFT_F64, 2, shape, values, mesh, placements), *places;
    weft_counters before, after;
    assert_int_equal(weft_wait(), WEFT_OK);
    weft_get_counters(&before, sizeof(before));
    weft_tensor *result = weft_topk(a, k, dim, largest, &places);
    assert_int_equal(weft_wait(), WEFT_OK);
    weft_get_counters(&after, sizeof(after));
    const uint64_t candidates = (uint64_t)(MAX_RANKS / 2 * k * LINES), hosted = (uint64_t)weft_local_ranks();
    assert_true(after.bytes_moved - before.bytes_moved <= hosted * candidates * (sizeof(double) + sizeof(int64_t)));
    assert_int_equal(weft_to_host(result, first, sizeof(first)), WEFT_OK);
    assert_int_equal(weft_to_host(places, indices, sizeof(indices)), WEFT_OK);
    for (int64_t line = 0; line < LINES; line++) {
        double own[LENGTH];
        int64_t order[LENGTH];
        for (int64_t i = 0; i < LENGTH; i++) {
            own[i] = values[line * of_line + i * step];
        }
        sort_plainly(own, LENGTH, largest, order);
        for (int64_t i = 0; i < k; i++) {
            const int64_t at = line * of_result + i * (dim == 1 ? 1 : LINES);
            assert_int_equal(indices[at], order[i]);
            assert_true(first[at] == own[order[i]]);
        }
    }
}

static void test_first_ones(void **state)
{
    (void)state;
    for (int64_t k = 1; k <= LENGTH / (2 * MAX_RANKS); k += 3) {
        one_topk(1, k, true);
        one_topk(0, k, false);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_against_a_stable_sort, start, stop),
        cmocka_unit_test_setup_teardown(test_whole_numbers, start, stop),
        cmocka_unit_test_setup_teardown(test_gradient, start, stop),
        cmocka_unit_test_setup_teardown(test_in_a_graph, start, stop),
        cmocka_unit_test_setup_teardown(test_in_a_strict_region, start, stop),
        cmocka_unit_test_setup_teardown(test_bytes, start, stop),
        cmocka_unit_test_setup_teardown(test_first_ones, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
