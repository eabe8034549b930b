/* Passes over captured graphs: random functions give bit for bit what their calls give on their own, with each set of
 * passes, also where each process clusters other calls; and what each pass does, by counts.
 *
 * Arguments under mpirun: "processes", and the number of random functions (default 120). */
#include <stdlib.h>
#include <string.h>

#include "graph_support.h"
#include "runtime/runtime.h"

/* ---- random functions ------------------------------------------------------------------------------------ */

enum { MOST = 40, INPUTS = 3, KEPT = 3, LAYOUTS = 3 };

typedef struct random_function {
    int num_calls;
    int kind[MOST], first[MOST], second[MOST], layout[MOST];
    int kept[KEPT];
    weft_placement placements[LAYOUTS][WEFT_MAX_DIMS];
    bool draws;
} random_function;

static random_function function_of(prng *random, weft_mesh *mesh, int ndim)
{
    random_function f = { .num_calls = 4 + (int)prng_below(random, MOST - 4), .draws = prng_below(random, 3) == 0 };
    for (int i = 0; i < f.num_calls; i++) {
        f.kind[i] = (int)prng_below(random, 18);
        /* few tensors, so that calls and redistributions are repeated */
        f.first[i] = (int)prng_below(random, prng_below(random, 2) ? INPUTS : i + INPUTS);
        f.second[i] = (int)prng_below(random, prng_below(random, 2) ? INPUTS : i + INPUTS);
        f.layout[i] = (int)prng_below(random, LAYOUTS);
    }
    for (int i = 0; i < KEPT; i++) {
        f.kept[i] = (int)prng_below(random, f.num_calls + INPUTS);
    }
    for (int i = 0; i < LAYOUTS; i++) {
        random_placements(random, mesh, ndim, false, f.placements[i]);
    }
    return f;
}

static weft_tensor *sum_of_rows(weft_tensor *a)
{
    return weft_sum(a, 0, true); /* Partial where rows are sharded */
}

/* Of the shape of `a`. Other calls have other scalars, or not: numbers[]. */
static weft_tensor *make(const random_function *f, int i, weft_tensor *a, weft_tensor *b, weft_tensor *target,
                         const double numbers[])
{
    const weft_placement *placements = f->placements[f->layout[i]];
    switch (f->kind[i]) {
    case 0: return weft_add(a, b);
    case 1: return weft_mul(a, b);
    case 2: return weft_add_scaled(a, b, numbers[i % 2]);
    case 3: return weft_tanh(a);
    case 4: return weft_softmax(a, -1);
    case 5:
    case 6: return weft_redistribute(a, NULL, placements);
    case 7: return weft_redistribute(weft_redistribute(a, NULL, placements), NULL, f->placements[i % LAYOUTS]);
    case 8: return weft_redistribute(weft_redistribute(a, NULL, placements), NULL, f->placements[0]);
    case 9: return weft_add(a, weft_redistribute(sum_of_rows(b), NULL, NULL));
    case 10: return weft_add(a, weft_redistribute(sum_of_rows(b), NULL, placements));
    case 11: return weft_mul(a, sum_of_rows(b));
    case 12: return weft_add_inplace(weft_tanh(a), weft_tanh(b), numbers[0]);
    case 13: weft_add_inplace(target, weft_redistribute(sum_of_rows(a), NULL, NULL), -numbers[1]); return a;
    case 14: return f->draws ? weft_dropout(a, 0.25, true, NULL) : weft_redistribute(weft_add(a, b), NULL, placements);
    case 15: return weft_tensor_ndim(a) == 2 ? weft_tanh(weft_matmul(weft_matmul(a, weft_transpose(b, 0, 1)), b)) : weft_neg(a);
    case 16: return weft_mul(a, weft_add(weft_ones_like(b), weft_full_like(a, numbers[1])));
    default: weft_tanh(weft_redistribute(a, NULL, placements)); return b; /* for nothing */
    }
}

static weft_status run(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    const random_function *f = context;
    weft_tensor *tensors[MOST + INPUTS];
    for (int i = 0; i < INPUTS; i++) {
        tensors[i] = inputs[i];
    }
    for (int i = 0; i < f->num_calls; i++) {
        tensors[i + INPUTS] = make(f, i, tensors[f->first[i]], tensors[f->second[i]], inputs[INPUTS], scalars);
        if (tensors[i + INPUTS] == NULL) {
            return weft_last_status();
        }
    }
    for (int i = 0; i < KEPT; i++) {
        outputs[i] = tensors[f->kept[i]];
    }
    return WEFT_OK;
}

/* Inputs, and after them a tensor that is changed. */
static void make_inputs(prng *random, weft_mesh *mesh, weft_dtype dtype, int ndim, const int64_t shape[],
                        weft_placement placements[][WEFT_MAX_DIMS], weft_tensor *inputs[])
{
    int64_t row[WEFT_MAX_DIMS];
    memcpy(row, shape, (size_t)ndim * sizeof(row[0]));
    row[0] = 1;
    weft_random_seed(prng_next(random));
    for (int i = 0; i < INPUTS; i++) {
        inputs[i] = weft_randn(dtype, ndim, shape, mesh, placements[i]);
    }
    inputs[INPUTS] = weft_randn(dtype, ndim, row, mesh, NULL);
}

static void compare(weft_tensor *tensor, weft_tensor *expected, uint64_t seed, int turn, unsigned passes, int output)
{
    char what[120];
    snprintf(what, sizeof(what), "seed %llu, turn %d, passes %#x, output %d", (unsigned long long)seed, turn, passes, output);
    assert_same_tensors(tensor, expected, what);
}

/* Some turns of one graph; every second one with other passes. Adds what they have done to *sum. */
static void run_random(uint64_t seed, weft_graph_info *sum)
{
    prng random = prng_start(seed);
    weft_scope_begin();
    weft_mesh *mesh = random_mesh(&random, weft_world_size());
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = 1 + (int)prng_below(&random, 3);
    for (int d = 0; d < ndim; d++) {
        shape[d] = prng_below(&random, 10) == 0 ? prng_below(&random, 2) : 1 + prng_below(&random, 12);
    }
    random_function f = function_of(&random, mesh, ndim);
    weft_placement placements[INPUTS][WEFT_MAX_DIMS];
    for (int i = 0; i < INPUTS; i++) {
        random_placements(&random, mesh, ndim, false, placements[i]);
    }
    weft_dtype dtype = (weft_dtype[]){ WEFT_F64, WEFT_F32, WEFT_BF16 }[prng_below(&random, 3)];
    weft_graph *graph = weft_graph_create("random", run, &f, INPUTS + 1, 2, KEPT);
    weft_graph_info info = { 0 };
    unsigned passes = 0;
    if (weft_num_processes() > 1) {
        weft_runtime.cluster_seed = weft_hash_u64(seed << 8 | (uint64_t)weft_process_index()) | 1;
    }
    for (int turn = 0; turn < 6; turn++) {
        if (turn % 3 == 0) {
            passes = (turn + seed) % 3 == 0 ? (unsigned)WEFT_PASS_ALL : (unsigned)prng_below(&random, WEFT_PASS_ALL + 1);
            assert_int_equal(weft_graph_set_passes(graph, passes), WEFT_OK);
        }
        weft_tensor *inputs[INPUTS + 1], *again[INPUTS + 1], *outputs[KEPT], *expected[KEPT];
        make_inputs(&random, mesh, dtype, ndim, shape, placements, inputs);
        memcpy(again, inputs, sizeof(again));
        again[INPUTS] = weft_scale(inputs[INPUTS], 1);
        double numbers[] = { 0.5, prng_below(&random, 2) ? 0.5 : 0.25 };
        uint64_t at = prng_next(&random);
        weft_random_seed(at);
        weft_status captured = weft_graph_call(graph, inputs, numbers, outputs);
        weft_random_seed(at);
        weft_status eager = run(&f, again, numbers, expected);
        if (captured != WEFT_OK || eager != WEFT_OK) {
            fail_msg("seed %llu, turn %d, passes %#x: %s", (unsigned long long)seed, turn, passes, weft_last_error());
        }
        for (int i = 0; i < KEPT; i++) {
            compare(outputs[i], expected[i], seed, turn, passes, i);
        }
        compare(inputs[INPUTS], again[INPUTS], seed, turn, passes, KEPT);
        weft_graph_get_info(graph, &info, sizeof(info));
        sum->redundant += info.redundant;
        sum->common += info.common;
        sum->dead += info.dead;
        sum->explicit_moves += info.explicit_moves;
        sum->bucketed += info.bucketed;
    }
    sum->clusters += info.clusters;
    weft_runtime.cluster_seed = 0;
    weft_graph_destroy(graph);
    weft_scope_end();
    assert_no_error();
}

static int num_functions = 300;
static bool two_buffers; /* for addends that arrive: a redistribution waits for one to be read */

static void f9_random_functions(void **state)
{
    (void)state;
    weft_graph_info sum = { 0 };
    int count = num_functions;
    int64_t staging_bytes = weft_runtime.messages.staging_bytes;
    weft_runtime.messages.staging_bytes = two_buffers ? 1 : staging_bytes;
    for (int seed = 1; seed <= count; seed++) {
        run_random((uint64_t)seed, &sum);
    }
    weft_runtime.messages.staging_bytes = staging_bytes;
    print_message("# redundant %d, common %d, dead %d, explicit %d, bucketed %d, clusters %d\n", sum.redundant, sum.common,
                  sum.dead, sum.explicit_moves, sum.bucketed, (int)sum.clusters);
    assert_true(sum.redundant > 50 && sum.common > 50 && sum.dead > 50 && sum.explicit_moves > 20 && sum.bucketed > 20 &&
                sum.clusters > 50);
}

/* ---- what each pass does --------------------------------------------------------------------------------- */

enum { SMALL = 40 };

typedef struct counted {
    weft_graph_info info;
    uint64_t bytes_moved, messages; /* of one run with all passes that were asked for */
    uint64_t eager_bytes;
} counted;

/* Three runs of a graph of one input, compared with the function by itself. */
static counted run_counted(weft_graph_function function, weft_tensor *input, unsigned passes)
{
    counted c;
    weft_counters before, after;
    weft_tensor *output, *expected;
    double numbers[] = { 0.5, 0.5 };
    weft_graph *graph = weft_graph_create("counted", function, NULL, 1, 2, 1);
    assert_int_equal(weft_graph_set_passes(graph, passes), WEFT_OK);
    for (int i = 0; i < 3; i++) {
        weft_get_counters(&before, sizeof(before));
        assert_int_equal(weft_graph_call(graph, &input, numbers, &output), WEFT_OK);
        weft_get_counters(&after, sizeof(after));
    }
    c.bytes_moved = after.bytes_moved - before.bytes_moved;
    c.messages = after.messages - before.messages;
    weft_get_counters(&before, sizeof(before));
    assert_int_equal(function(NULL, &input, numbers, &expected), WEFT_OK);
    weft_get_counters(&after, sizeof(after));
    c.eager_bytes = after.bytes_moved - before.bytes_moved;
    assert_same_shards(output, expected, "output");
    weft_graph_get_info(graph, &c.info, sizeof(c.info));
    weft_graph_destroy(graph);
    return c;
}

static weft_tensor *random_rows(int64_t rows, int64_t columns)
{
    const weft_placement on_rows = weft_shard(0);
    weft_random_seed(11);
    return weft_randn(WEFT_F32, 2, (int64_t[]){ rows, columns }, line(), &on_rows);
}

static const weft_placement rows = { .kind = WEFT_SHARD }, columns = { .kind = WEFT_SHARD, .dim = 1 };

/* There and back, twice to one layout, and on to a third one. */
static weft_status to_and_fro(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context, (void)scalars;
    weft_tensor *x = inputs[0], *there = weft_redistribute(x, NULL, &columns);
    weft_tensor *back = weft_redistribute(there, NULL, &rows), *again = weft_redistribute(x, NULL, &columns);
    weft_tensor *sum = weft_redistribute(weft_redistribute(weft_tanh(x), NULL, NULL), NULL, &columns);
    outputs[0] = weft_add(weft_add(weft_mul(back, x), x), weft_add(weft_add(there, again), sum));
    return WEFT_OK;
}

static void f9_redundant(void **state)
{
    (void)state;
    weft_scope_begin();
    counted c = run_counted(to_and_fro, random_rows(24, 36), WEFT_PASS_REDUNDANT);
    assert_int_equal(c.info.redundant, 3); /* back, again, through Replicate */
    assert_true(c.bytes_moved < c.eager_bytes);
    c = run_counted(to_and_fro, random_rows(24, 36), WEFT_PASS_NONE);
    assert_int_equal(c.info.num_body_calls, c.info.num_calls);
    assert_true(c.bytes_moved == c.eager_bytes);
    weft_scope_end();
    assert_no_error();
}

/* Products that each bring one tensor to the layout that they work on. */
static weft_status products(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context, (void)scalars;
    weft_tensor *sum = weft_sum(inputs[0], 0, true); /* Partial */
    weft_tensor *one = weft_tanh(sum), *two = weft_exp(sum), *three = weft_sin(sum);
    outputs[0] = weft_add(one, weft_add(two, three));
    return WEFT_OK;
}

static void f9_moved_once(void **state)
{
    (void)state;
    weft_scope_begin();
    counted c = run_counted(products, random_rows(24, 36), WEFT_PASS_REDUNDANT);
    assert_int_equal(c.info.explicit_moves, 3);
    assert_int_equal(c.info.redundant, 2);
    assert_true(3 * c.bytes_moved == c.eager_bytes);
    weft_scope_end();
    assert_no_error();
}

static weft_status equal_calls(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context;
    weft_tensor *x = inputs[0], *y = weft_tanh(x), *same = weft_tanh(x);
    weft_tensor *scaled = weft_scale(y, scalars[0]), *other = weft_scale(same, scalars[1]);
    weft_uniform_inplace(y, 0, 1); /* so that both are needed */
    outputs[0] = weft_add(weft_add(scaled, other), weft_mul(weft_exp(x), weft_exp(x)));
    return WEFT_OK;
}

/* Scalars that differ in a later run: the calls are two then. */
static weft_status scaled_twice(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context;
    outputs[0] = weft_add(weft_scale(inputs[0], scalars[0]), weft_scale(inputs[0], scalars[1]));
    return WEFT_OK;
}

static void f9_common(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_tensor *x = random_rows(8, 6), *output, *expected;
    counted c = run_counted(scaled_twice, x, WEFT_PASS_COMMON);
    assert_int_equal(c.info.common, 1);
    weft_graph *graph = weft_graph_create("scaled", scaled_twice, NULL, 1, 2, 1);
    for (int i = 0; i < 8; i++) {
        double numbers[] = { 0.5, i == 4 || i == 6 ? 0.25 : 0.5 };
        assert_int_equal(weft_graph_call(graph, &x, numbers, &output), WEFT_OK);
        scaled_twice(NULL, &x, numbers, &expected);
        assert_same_shards(output, expected, "scaled");
    }
    weft_graph_destroy(graph);
    graph = weft_graph_create("equal", equal_calls, NULL, 1, 2, 1);
    for (int i = 0; i < 3; i++) { /* the tensor that is changed keeps its own memory */
        weft_random_seed(3);
        assert_int_equal(weft_graph_call(graph, &x, (double[]){ 2, 3 }, &output), WEFT_OK);
        weft_random_seed(3);
        equal_calls(NULL, &x, (double[]){ 2, 3 }, &expected);
        assert_same_shards(output, expected, "equal");
    }
    weft_graph_get_info(graph, &c.info, sizeof(c.info));
    assert_int_equal(c.info.common, 1);
    weft_graph_destroy(graph);
    weft_scope_end();
    assert_no_error();
}

static weft_status for_nothing(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context, (void)scalars;
    weft_tensor *x = inputs[0], *y = weft_exp(weft_redistribute(x, NULL, NULL));
    weft_add_inplace(y, y, 2);
    outputs[0] = weft_tanh(x);
    return WEFT_OK;
}

/* An index out of range is reported although nothing needs the rows. */
static weft_status look_up(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context, (void)scalars;
    weft_embedding(inputs[0], inputs[1]);
    outputs[0] = weft_tanh(inputs[0]);
    return WEFT_OK;
}

static void f9_dead(void **state)
{
    (void)state;
    weft_scope_begin();
    counted c = run_counted(for_nothing, random_rows(8, 6), WEFT_PASS_DEAD);
    assert_int_equal(c.info.dead, 3);
    assert_int_equal(c.info.num_body_calls, 1);
    assert_true(c.bytes_moved == 0 && (c.eager_bytes > 0 || weft_world_size() == 1));
    weft_graph *graph = weft_graph_create("look up", look_up, NULL, 2, 0, 1);
    weft_tensor *table = weft_ones(WEFT_F64, 2, (int64_t[]){ 4, 3 }, line(), NULL), *output;
    for (int i = 0; i < 4; i++) {
        weft_tensor *places = weft_full(WEFT_I64, i == 2 ? 9 : 1, 1, (int64_t[]){ 4 }, line(), NULL);
        assert_int_equal(weft_graph_call(graph, (weft_tensor *[]){ table, places }, NULL, &output), WEFT_OK);
        assert_int_equal(weft_wait(), i == 2 ? WEFT_ERR_INVALID : WEFT_OK);
        weft_clear_error();
    }
    weft_graph_destroy(graph);
    weft_scope_end();
    assert_no_error();
}

/* As gradients of many small parameters, each of which is updated at once. */
static weft_status many_small(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context;
    weft_tensor *x = inputs[0], *updated[SMALL];
    for (int i = 0; i < SMALL; i++) {
        weft_tensor *gradient = weft_redistribute(weft_sum(x, 0, true), NULL, NULL);
        updated[i] = weft_add_scaled(gradient, gradient, scalars[0]);
        x = weft_tanh(weft_scale(x, 1.5 + i));
    }
    outputs[0] = updated[0];
    for (int i = 1; i < SMALL; i++) {
        outputs[0] = weft_add(outputs[0], updated[i]);
    }
    return WEFT_OK;
}

static void d5_f9_buckets(void **state)
{
    (void)state;
    weft_scope_begin();
    counted plain = run_counted(many_small, random_rows(12, 30), WEFT_PASS_NONE);
    counted c = run_counted(many_small, random_rows(12, 30), WEFT_PASS_BUCKET);
    assert_int_equal(c.info.bucketed, SMALL);
    assert_int_equal(c.info.buckets, 1);
    assert_int_equal(c.info.num_body_calls, c.info.num_calls - SMALL + 1);
    print_message("# %llu messages, %llu in a bucket\n", (unsigned long long)plain.messages, (unsigned long long)c.messages);
    assert_true(c.messages == 0 || c.messages * SMALL <= 2 * plain.messages);
    weft_scope_end();
    assert_no_error();
}

/* Of the first gradient and of a product the layouts are needed, and no values: the gradients still travel together, and the
 * product is not made. */
static weft_status layouts_alone(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context;
    weft_tensor *x = inputs[0], *gradients[2], *ones = weft_ones_like(weft_exp(x));
    gradients[0] = weft_redistribute(weft_sum(x, 0, true), NULL, NULL);
    weft_tensor *moment = weft_full_like(gradients[0], scalars[0]);
    weft_tensor *y = weft_mul(weft_add(x, weft_redistribute(weft_sum(moment, 0, true), NULL, NULL)), ones);
    gradients[1] = weft_redistribute(weft_sum(y, 0, true), NULL, NULL);
    outputs[0] = weft_add(weft_add(gradients[0], gradients[1]), weft_zeros_like(gradients[1]));
    return weft_last_status();
}

static void f9_layouts_alone(void **state)
{
    (void)state;
    weft_scope_begin();
    counted c = run_counted(layouts_alone, random_rows(12, 30), WEFT_PASS_DEAD);
    assert_int_equal(c.info.dead, 1);
    c = run_counted(layouts_alone, random_rows(12, 30), WEFT_PASS_BUCKET);
    assert_int_equal(c.info.bucketed, 2);
    assert_int_equal(c.info.buckets, 1);
    weft_scope_end();
    assert_no_error();
}

/* ---- switches -------------------------------------------------------------------------------------------- */

static void f9_switches(void **state)
{
    (void)state;
    weft_graph *graph = weft_graph_create("switches", for_nothing, NULL, 1, 2, 1);
    assert_int_equal(weft_graph_set_passes(graph, 1u << 20), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "weft_graph_set_passes: passes is 0x100000");
    assert_int_equal(weft_graph_set_passes(NULL, WEFT_PASS_NONE), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "graph is NULL");
    weft_scope_begin();
    weft_tensor *x = random_rows(8, 6), *output;
    static const unsigned chosen[] = { WEFT_PASS_ALL, WEFT_PASS_NONE, WEFT_PASS_DEAD };
    for (int i = 0; i < 9; i++) {
        assert_int_equal(weft_graph_set_passes(graph, chosen[i / 3]), WEFT_OK);
        assert_int_equal(weft_graph_call(graph, &x, (double[]){ 1, 1 }, &output), WEFT_OK);
        weft_graph_info info;
        weft_graph_get_info(graph, &info, sizeof(info));
        assert_int_equal(info.captures, 1);
        assert_int_equal(info.dead, i == 0 || chosen[i / 3] == WEFT_PASS_NONE ? 0 : 3);
    }
    weft_scope_end();
    weft_graph_destroy(graph);
    assert_no_error();
}

/* ---- processes that do not agree ------------------------------------------------------------------------- */

static weft_tensor *kept;
static bool keeps;

static weft_status keep_some(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context, (void)scalars;
    weft_tensor *x = weft_redistribute(weft_sum(inputs[0], 0, true), NULL, NULL);
    if (keeps) {
        weft_tensor_retain(x);
        kept = x;
    }
    outputs[0] = weft_add(x, weft_tanh(x));
    return WEFT_OK;
}

/* The values that are needed must be the same everywhere, and so must the passes. */
static void f9_processes_that_differ(void **state)
{
    (void)state;
    for (int way = 0; way < 2; way++) {
        weft_graph *graph = weft_graph_create("differ", keep_some, NULL, 1, 0, 1);
        weft_scope_begin();
        weft_tensor *x = random_rows(8, 6), *output;
        assert_int_equal(weft_graph_call(graph, &x, NULL, &output), WEFT_OK);
        bool odd = weft_process_index() == weft_num_processes() - 1;
        keeps = way == 0 && odd;
        if (way == 1 && odd) {
            weft_graph_set_passes(graph, WEFT_PASS_DEAD);
        }
        weft_status status = weft_graph_call(graph, &x, NULL, &output);
        assert_int_equal(status, weft_num_processes() > 1 ? WEFT_ERR_MISMATCH : WEFT_OK);
        if (status != WEFT_OK) {
            assert_error(WEFT_ERR_MISMATCH, "graph differ: process");
        }
        if (keeps) {
            weft_tensor_release(kept);
        }
        keeps = false;
        weft_graph_set_passes(graph, WEFT_PASS_ALL);
        assert_int_equal(weft_graph_call(graph, &x, NULL, &output), WEFT_OK); /* they agree again */
        weft_scope_end();
        weft_graph_destroy(graph);
        assert_int_equal(weft_wait(), WEFT_OK);
        assert_no_error();
    }
}

int main(void)
{
    if (over_processes()) {
        two_buffers = true;
        num_functions = 120;
    }
    num_functions = cases_to_run(num_functions);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f9_random_functions), cmocka_unit_test(f9_redundant), cmocka_unit_test(f9_moved_once),
        cmocka_unit_test(f9_common),           cmocka_unit_test(f9_dead),      cmocka_unit_test(d5_f9_buckets),
        cmocka_unit_test(f9_layouts_alone),
        cmocka_unit_test(f9_switches),         cmocka_unit_test(f9_processes_that_differ),
    };
    return RUN_ON_RANKS(tests);
}
