/* Clusters: random graphs of small calls give bit for bit what the calls give on their own. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph_support.h"

/* All tensors have one shape. */
static weft_tensor *make(int kind, weft_tensor *a, weft_tensor *b, double number)
{
    switch (kind) {
    case 0: return weft_add(a, b);
    case 1: return weft_mul(a, b);
    case 2: return weft_sub(a, b);
    case 3: return weft_add_scaled(a, b, number);
    case 4: return weft_add_scalar(a, number);
    case 5: return weft_tanh(a);
    case 6: return weft_maximum(a, b);
    case 7: return weft_softmax(a, -1);
    case 8: return weft_where(weft_gt(a, b), a, b);
    case 9: return weft_sub(a, weft_mean(b, -1, true));
    case 10: return weft_redistribute(a, NULL, weft_tensor_placements(b));
    default: return weft_add_inplace(weft_mul(a, b), a, number);
    }
}

static weft_status run(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    const random_graph *g = context;
    weft_tensor *tensors[MAX_RANDOM_CALLS + 2] = { inputs[0], inputs[1] };
    for (int i = 0; i < g->num_calls; i++) {
        tensors[i + 2] = make(g->kind[i], tensors[g->first[i]], tensors[g->second[i]], scalars[0] + i);
    }
    for (int i = 0; i < RANDOM_OUTPUTS; i++) {
        outputs[i] = tensors[g->kept[i]];
    }
    return WEFT_OK;
}

static uint64_t run_random(uint64_t seed)
{
    prng random = prng_start(seed);
    random_graph g = random_graph_make(&random, MAX_RANDOM_CALLS, 12, false);
    weft_scope_begin();
    weft_mesh *mesh = random_mesh(&random, weft_world_size());
    weft_placement placements[2][WEFT_MAX_DIMS];
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = 1 + (int)prng_below(&random, 3);
    for (int d = 0; d < ndim; d++) {
        shape[d] = prng_below(&random, 8) == 0 ? prng_below(&random, 2) : prng_below(&random, 20);
    }
    random_placements(&random, mesh, ndim, false, placements[0]);
    random_placements(&random, mesh, ndim, false, placements[1]);
    weft_dtype dtype = prng_below(&random, 2) ? WEFT_F64 : WEFT_F32;
    weft_graph *graph = weft_graph_create("random", run, &g, 2, 1, RANDOM_OUTPUTS);
    for (int turn = 0; turn < 4; turn++) {
        weft_tensor *inputs[2], *outputs[RANDOM_OUTPUTS], *expected[RANDOM_OUTPUTS];
        for (int i = 0; i < 2; i++) {
            inputs[i] = weft_randn(dtype, ndim, shape, mesh, placements[i]);
        }
        double number = 0.125 * turn;
        if (weft_graph_call(graph, inputs, &number, outputs) != WEFT_OK || run(&g, inputs, &number, expected) != WEFT_OK) {
            fail_msg("seed %llu: %s", (unsigned long long)seed, weft_last_error());
        }
        for (int i = 0; i < RANDOM_OUTPUTS; i++) {
            char what[80];
            snprintf(what, sizeof(what), "seed %llu, turn %d, output %d", (unsigned long long)seed, turn, i);
            assert_true(weft_tensor_dtype(outputs[i]) == weft_tensor_dtype(expected[i]));
            assert_same_tensors(outputs[i], expected[i], what);
        }
    }
    weft_graph_info info;
    weft_graph_get_info(graph, &info, sizeof(info));
    assert_int_equal(info.captures, 1);
    weft_graph_destroy(graph);
    weft_scope_end();
    assert_no_error();
    return info.clusters;
}

static void test_random_graphs(void **state)
{
    (void)state;
    uint64_t clusters = 0;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        clusters += run_random(seed);
    }
    print_message("# %llu clusters\n", (unsigned long long)clusters);
    assert_true(clusters > 500);
}

/* Other values are kept from run to run. */
static weft_tensor *kept_now;

static weft_status keep_some(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context;
    weft_tensor *x = inputs[0];
    for (int i = 0; i < 8; i++) {
        x = weft_add_scalar(weft_mul(x, inputs[0]), 1);
        if (i == (int)scalars[0]) {
            weft_tensor_retain(x);
            kept_now = x;
        }
    }
    outputs[0] = x;
    return WEFT_OK;
}

static void test_other_values_kept(void **state)
{
    (void)state;
    static const double which[] = { 0, 0, 3, 3, 5, 0, 7, 1, 2, 3, 4 };
    weft_graph *graph = weft_graph_create("keep", keep_some, NULL, 1, 1, 1);
    weft_scope_begin();
    weft_tensor *x = weft_full(WEFT_F64, 0.5, 1, (int64_t[]){ 9 }, line(), NULL);
    for (size_t i = 0; i < sizeof(which) / sizeof(which[0]); i++) {
        weft_tensor *output;
        assert_int_equal(weft_graph_call(graph, &x, &which[i], &output), WEFT_OK);
        weft_tensor *kept = kept_now;
        keep_some(NULL, &x, &which[i], &output);
        assert_same_shards(kept, kept_now, "kept");
        weft_tensor_release(kept);
        weft_tensor_release(kept_now);
    }
    weft_scope_end();
    weft_graph_destroy(graph);
    assert_no_error();
}

/* An error of a kernel names the call, and comes once. */
static weft_status look_up(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context;
    weft_tensor *places = weft_add_scalar(inputs[1], scalars[0]);
    outputs[0] = weft_add(weft_embedding(inputs[0], weft_add(places, inputs[1])), inputs[0]);
    return WEFT_OK;
}

static void test_errors_of_kernels(void **state)
{
    (void)state;
    weft_graph *graph = weft_graph_create("look up", look_up, NULL, 2, 1, 1);
    weft_scope_begin();
    weft_tensor *table = weft_ones(WEFT_F64, 2, (int64_t[]){ 4, 3 }, line(), NULL);
    weft_tensor *places = weft_zeros(WEFT_I64, 1, (int64_t[]){ 4 }, line(), NULL), *output;
    static const double shifts[] = { 1, 2, 9, 3, 9 };
    for (int i = 0; i < 5; i++) {
        assert_int_equal(weft_graph_call(graph, (weft_tensor *[]){ table, places }, &shifts[i], &output), WEFT_OK);
        weft_status status = weft_wait();
        assert_int_equal(status, shifts[i] < 4 ? WEFT_OK : WEFT_ERR_INVALID);
        if (status != WEFT_OK) {
            assert_error(WEFT_ERR_INVALID, "weft_embedding: indices has 9, expected 0 to 3");
            assert_int_equal(weft_wait(), WEFT_OK);
        }
    }
    weft_scope_end();
    weft_graph_destroy(graph);
    assert_no_error();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_graphs),
        cmocka_unit_test(test_other_values_kept),
        cmocka_unit_test(test_errors_of_kernels),
    };
    return RUN_ON_RANKS(tests);
}
