/* Fused calls: random graphs of calls by rows give bit for bit what the calls give on their own, and go through memory
 * once. */
#include <stdlib.h>
#include <string.h>

#include "graph_support.h"
#include "ops/backward.h"
#include "runtime/runtime.h"

/* Of a random function: two tensors of the whole shape, a row, a number. */
enum { INPUTS = 4 };

static weft_tensor *make(int kind, weft_tensor *a, weft_tensor *b, weft_tensor *row, weft_tensor *one, double number)
{
    bool needs_rows = kind == 16 || kind == 18 || kind == 19;
    switch (needs_rows && weft_tensor_ndim(a) == 0 ? 0 : kind) {
    case 0: return weft_add(a, b);
    case 1: return weft_mul(a, b);
    case 2: return weft_add_scaled(a, b, number);
    case 3: return weft_add_scalar(a, number);
    case 4: return weft_gelu(a);
    case 5: return weft_gelu_backward(a, weft_to_type(b, weft_tensor_dtype(a)));
    case 6: return weft_add(a, row);
    case 7: return weft_mul(row, a);
    case 8: return weft_mul(a, one);
    case 9: return weft_where(weft_gt(a, b), a, b);
    case 10: return weft_to_type(a, WEFT_F64);
    case 11: return weft_to_type(a, WEFT_BF16);
    case 12: return weft_to_type(a, WEFT_F16);
    case 13: return weft_add_inplace(weft_mul(a, b), a, number);
    case 14: return weft_add_inplace(a, b, number);
    case 15: return weft_mul_inplace(a, one);
    case 16: return weft_softmax(a, -1);
    case 17: return weft_copy_inplace(weft_add_scalar(b, 1), a);
    case 18: return weft_layer_norm(a, NULL, NULL, 1e-5);
    case 19: return weft_sub(a, weft_mean(b, -1, true));
    case 20: return weft_add_inplace(a, a, number);
    default: return weft_tanh(a);
    }
}

static weft_status run(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    const random_graph *g = context;
    weft_tensor *tensors[MAX_RANDOM_CALLS + 2] = { inputs[0], inputs[1] };
    for (int i = 0; i < g->num_calls; i++) {
        tensors[i + 2] =
            make(g->kind[i], tensors[g->first[i]], tensors[g->second[i]], inputs[2], inputs[3], scalars[0] + 0.5 * i);
    }
    for (int i = 0; i < RANDOM_OUTPUTS; i++) {
        outputs[i] = tensors[g->kept[i]];
    }
    return WEFT_OK;
}

/* The placements of a row of a tensor with these. */
static void placements_of_row(const weft_mesh *mesh, int ndim, const weft_placement whole[], weft_placement row[])
{
    for (int m = 0; m < weft_mesh_ndim(mesh); m++) {
        bool along = whole[m].kind == WEFT_SHARD && whole[m].dim == ndim - 1 && ndim > 1;
        row[m] = along ? weft_shard(0) : weft_replicate();
    }
}

static void make_inputs(prng *random, weft_mesh *mesh, weft_dtype dtype, int ndim, const int64_t shape[], weft_tensor *inputs[])
{
    weft_placement whole[WEFT_MAX_DIMS], row[WEFT_MAX_DIMS];
    random_placements(random, mesh, ndim, false, whole);
    placements_of_row(mesh, ndim, whole, row);
    for (int i = 0; i < 2; i++) {
        inputs[i] = weft_randn(dtype, ndim, shape, mesh, whole);
    }
    inputs[2] = ndim == 0 ? inputs[0] : weft_randn(dtype, 1, shape + ndim - 1, mesh, row);
    inputs[3] = weft_randn(dtype, 0, NULL, mesh, NULL);
}

/* The function on copies, with and without a graph; it may change its inputs. */
static void compare_run(weft_graph *graph, random_graph *g, weft_tensor *const inputs[], double number, const char *what)
{
    weft_tensor *mine[INPUTS], *theirs[INPUTS], *outputs[RANDOM_OUTPUTS], *expected[RANDOM_OUTPUTS];
    for (int i = 0; i < INPUTS; i++) {
        mine[i] = weft_scale(inputs[i], 1);
        theirs[i] = weft_scale(inputs[i], 1);
    }
    if (weft_graph_call(graph, mine, &number, outputs) != WEFT_OK || run(g, theirs, &number, expected) != WEFT_OK) {
        fail_msg("%s: %s", what, weft_last_error());
    }
    for (int i = 0; i < RANDOM_OUTPUTS; i++) {
        assert_true(weft_tensor_dtype(outputs[i]) == weft_tensor_dtype(expected[i]));
        assert_same_tensors(outputs[i], expected[i], what);
    }
    for (int i = 0; i < INPUTS; i++) {
        assert_same_shards(mine[i], theirs[i], what);
    }
}

static uint64_t run_random(uint64_t seed, int most_rows)
{
    static const weft_dtype dtypes[] = { WEFT_F32, WEFT_F64, WEFT_BF16, WEFT_F16 };
    prng random = prng_start(seed);
    random_graph g = random_graph_make(&random, 24, 22, true);
    weft_scope_begin();
    weft_mesh *mesh = random_mesh(&random, weft_world_size());
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = (int)prng_below(&random, 4);
    for (int d = 0; d < ndim; d++) {
        shape[d] = prng_below(&random, 10) == 0 ? prng_below(&random, 2) : prng_below(&random, d == 0 ? most_rows : 40);
    }
    weft_dtype dtype = dtypes[prng_below(&random, 4)];
    weft_graph *graph = weft_graph_create("random", run, &g, INPUTS, 1, RANDOM_OUTPUTS);
    weft_graph_set_passes(graph, WEFT_PASS_FUSE | (seed % 2 ? WEFT_PASS_MEMORY : 0));
    weft_tensor *inputs[INPUTS];
    make_inputs(&random, mesh, dtype, ndim, shape, inputs);
    for (int turn = 0; turn < 3; turn++) {
        char what[80];
        snprintf(what, sizeof(what), "seed %llu, turn %d", (unsigned long long)seed, turn);
        compare_run(graph, &g, inputs, 0.125 * turn, what);
    }
    weft_graph_info info;
    weft_graph_get_info(graph, &info, sizeof(info));
    weft_graph_destroy(graph);
    weft_scope_end();
    assert_no_error();
    return info.fused_calls;
}

static int processes; /* 0: all ranks are in this one */

static void start(const char *panel_rows)
{
    if (processes > 0) {
        unsetenv("WEFT_PANEL_ROWS");
        if (panel_rows != NULL) {
            setenv("WEFT_PANEL_ROWS", panel_rows, 1);
        }
        weft_config config = WEFT_CONFIG_DEFAULT;
        assert_int_equal(weft_init(&config), WEFT_OK);
    } else {
        start_with_panels(4, panel_rows);
    }
}

static void test_f9_random_graphs(void **state)
{
    (void)state;
    static const struct {
        const char *panel_rows;
        int most_rows, count;
    } rounds[] = { { NULL, 60, 100 }, { "1", 12, 100 }, { "3", 40, 100 }, { NULL, 4000, 30 } };
    for (size_t r = 0; r < sizeof(rounds) / sizeof(rounds[0]); r++) {
        uint64_t fused = 0;
        start(rounds[r].panel_rows);
        if (r > 1) {
            weft_runtime.last_cache_bytes = 1; /* outputs go past the caches */
        }
        for (int i = 0; i < rounds[r].count; i++) {
            fused += run_random(1000 * r + (uint64_t)i + 1, rounds[r].most_rows);
        }
        print_message("# %llu fused calls\n", (unsigned long long)fused);
        assert_true(fused > 100);
        assert_int_equal(weft_finalize(), WEFT_OK);
    }
}

/* ---- one pass over memory -------------------------------------------------------------------------------- */

enum { ROWS = 1024, COLUMNS = 256 };

static weft_status forward(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context;
    weft_tensor *h = weft_gelu(weft_add(inputs[0], inputs[2]));
    outputs[0] = weft_add(inputs[1], weft_scale(h, scalars[0]));
    return WEFT_OK;
}

static weft_status backward(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context;
    outputs[0] = weft_gelu_backward(weft_scale(inputs[1], scalars[0]), weft_add(inputs[0], inputs[2]));
    return WEFT_OK;
}

/* A step of Adam after weight decay and scaling of the gradient, each a call of its own. */
static weft_status adam(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context;
    weft_tensor *parameter = inputs[0], *gradient = weft_add_scaled(weft_scale(inputs[1], scalars[0]), parameter, 0.01);
    weft_tensor *first = weft_lerp_inplace(inputs[2], gradient, 0.1);
    weft_tensor *second = weft_lerp_inplace(inputs[3], weft_square(gradient), 0.001);
    outputs[0] = weft_add_inplace(parameter, weft_div(first, weft_add_scalar(weft_sqrt(second), 1e-8)), -0.001);
    return WEFT_OK;
}

enum { PARAMETERS = 3 };

/* A step of Adam after clipping: inputs[]: parameters, first and second moments, gradients. */
static weft_status clipped_adam(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context;
    weft_tensor *gradients[PARAMETERS];
    for (int i = 0; i < PARAMETERS; i++) {
        gradients[i] = weft_scale(inputs[3 * PARAMETERS + i], scalars[0]);
    }
    weft_clip_grad_norm(PARAMETERS, gradients, 1, 2, NULL);
    weft_adam_options options = WEFT_ADAMW_DEFAULT;
    weft_adam(PARAMETERS, inputs, gradients, inputs + PARAMETERS, inputs + 2 * PARAMETERS, 1, &options);
    outputs[0] = inputs[0];
    return weft_last_status();
}

/* What one pass needs: tensors read once, or written once, in units of one tensor; and its calls. */
static void check_traffic(const char *name, weft_graph_function function, int num_inputs, bool row, int passes_of_memory,
                          int num_calls)
{
    weft_scope_begin();
    int64_t shape[] = { ROWS, COLUMNS };
    const weft_placement rows[] = { weft_shard(0) };
    weft_tensor *mine[4], *theirs[4], *output, *expected;
    for (int i = 0; i < num_inputs; i++) {
        bool is_row = row && i == num_inputs - 1;
        mine[i] = is_row ? weft_rand(WEFT_F32, 1, shape + 1, line(), NULL) : weft_rand(WEFT_F32, 2, shape, line(), rows);
        theirs[i] = weft_scale(mine[i], 1);
    }
    weft_graph *graph = weft_graph_create(name, function, NULL, num_inputs, 1, 1);
    double scale = 0.5;
    weft_graph_info info, former = { .runs = 0 };
    for (int i = 0; i < 3; i++) {
        weft_graph_get_info(graph, &former, sizeof(former));
        assert_int_equal(weft_graph_call(graph, mine, &scale, &output), WEFT_OK);
        assert_int_equal(function(NULL, theirs, &scale, &expected), WEFT_OK);
        assert_same_shards(output, expected, name);
    }
    weft_graph_get_info(graph, &info, sizeof(info));
    int64_t bytes = (int64_t)ROWS * COLUMNS * 4;
    if (processes > 0) {
        bytes /= weft_world_size();
    }
    print_message("# %s: %lld bytes, of %lld\n", name, (long long)(info.fused_bytes - former.fused_bytes),
                  (long long)(info.fused_bytes - former.fused_bytes + info.saved_bytes - former.saved_bytes));
    assert_int_equal(info.fused_calls - former.fused_calls, num_calls);
    assert_int_equal(info.fused_bytes - former.fused_bytes, passes_of_memory * bytes);
    weft_graph_destroy(graph);
    weft_scope_end();
    assert_no_error();
}

/* Clipping reads the gradients for their norm first; after that, one pass scales them and makes the step. The norm's
 * greatest value is part of the calls that clipping is made of; the step's scalars are not. */
static void test_f9_clipping_and_adam(void **state)
{
    (void)state;
    enum { INPUTS_OF_STEP = 4 * PARAMETERS };
    start(NULL);
    weft_scope_begin();
    const weft_placement rows[] = { weft_shard(0) };
    weft_tensor *mine[INPUTS_OF_STEP], *theirs[INPUTS_OF_STEP], *output;
    for (int i = 0; i < INPUTS_OF_STEP; i++) {
        int64_t shape[] = { ROWS + 8 * (i % PARAMETERS), COLUMNS };
        mine[i] = weft_rand(WEFT_F32, 2, shape, line(), rows);
        theirs[i] = weft_scale(mine[i], 1);
    }
    weft_graph *graph = weft_graph_create("step", clipped_adam, NULL, INPUTS_OF_STEP, 1, 1);
    weft_graph_info info, former = { .runs = 0 };
    for (int turn = 0; turn < 4; turn++) {
        double scale = 0.5 + turn;
        weft_graph_get_info(graph, &former, sizeof(former));
        assert_int_equal(weft_graph_call(graph, mine, &scale, &output), WEFT_OK);
        assert_int_equal(clipped_adam(NULL, theirs, &scale, &output), WEFT_OK);
        for (int i = 0; i < INPUTS_OF_STEP; i++) {
            assert_same_shards(mine[i], theirs[i], "step");
        }
    }
    weft_graph_get_info(graph, &info, sizeof(info));
    print_message("# step: %lld bytes, of %lld\n", (long long)(info.fused_bytes - former.fused_bytes),
                  (long long)(info.fused_bytes - former.fused_bytes + info.saved_bytes - former.saved_bytes));
    int64_t bytes = 0; /* of all parameters: each is read and written with its moments, and its gradient is read */
    for (int i = 0; i < PARAMETERS; i++) {
        bytes += (int64_t)(ROWS + 8 * i) * COLUMNS * 4;
    }
    bytes /= processes > 0 ? weft_world_size() : 1;
    assert_int_equal(info.fused_calls - former.fused_calls, 2 * PARAMETERS);
    assert_int_equal(info.fused_bytes - former.fused_bytes, 7 * bytes);
    weft_graph_destroy(graph);
    weft_scope_end();
    assert_no_error();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

static void test_f9_one_pass_over_memory(void **state)
{
    (void)state;
    start(NULL);
    check_traffic("forward", forward, 3, true, 3, 4);
    check_traffic("backward", backward, 3, true, 3, 3);
    check_traffic("adam", adam, 4, false, 7, 9);
    assert_int_equal(weft_finalize(), WEFT_OK);
}

static weft_status mixed(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context, (void)scalars;
    weft_tensor *wide = weft_softmax(weft_to_type(inputs[0], WEFT_F64), -1);
    outputs[0] = weft_add(weft_to_type(wide, WEFT_F16), inputs[1]);
    return WEFT_OK;
}

/* Panels of wider types are lower: rows of several panels are one tile. */
static void test_f9_types_with_other_panels(void **state)
{
    (void)state;
    start(NULL);
    weft_scope_begin();
    const weft_placement rows[] = { weft_shard(0) };
    int64_t shape[] = { 20001, 64 };
    weft_tensor *inputs[] = { weft_randn(WEFT_BF16, 2, shape, line(), rows), weft_randn(WEFT_F32, 2, shape, line(), rows) };
    weft_graph *graph = weft_graph_create("mixed", mixed, NULL, 2, 0, 1);
    for (int turn = 0; turn < 3; turn++) {
        weft_tensor *output, *expected;
        assert_int_equal(weft_graph_call(graph, inputs, NULL, &output), WEFT_OK);
        assert_int_equal(mixed(NULL, inputs, NULL, &expected), WEFT_OK);
        assert_same_shards(output, expected, "mixed");
    }
    weft_graph_info info;
    weft_graph_get_info(graph, &info, sizeof(info));
    assert_int_equal(info.fused_calls, 2 * 4);
    weft_graph_destroy(graph);
    weft_scope_end();
    assert_no_error();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

int main(void)
{
    processes = over_processes();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f9_random_graphs),
        cmocka_unit_test(test_f9_one_pass_over_memory),
        cmocka_unit_test(test_f9_clipping_and_adam),
        cmocka_unit_test(test_f9_types_with_other_panels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
