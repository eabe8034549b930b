/* Graphs: what a run gives is what the function gives without one, whatever the function does. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph_support.h"

static weft_tensor *copy_of(weft_tensor *tensor)
{
    weft_tensor *copy = weft_full_like(tensor, 0);
    return weft_copy_inplace(copy, tensor);
}

/* The tensor times a number. */
static weft_tensor *scaled(weft_tensor *tensor, double factor)
{
    return weft_add_scaled(weft_full_like(tensor, 0), tensor, factor);
}

/* ---- a function of tensors and numbers ----------------------------------------------------------------------- */

static weft_status chain(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context;
    weft_tensor *x = weft_add_scaled(inputs[0], inputs[1], scalars[0] * 2);
    for (int i = 0; i < 5; i++) {
        x = weft_add_scaled(weft_add(x, inputs[1]), x, 0.5);
    }
    outputs[0] = x;
    outputs[1] = weft_sum(x, 0, false);
    return WEFT_OK;
}

static void test_f2_replay_equals_eager(void **state)
{
    (void)state;
    weft_placement rows = weft_shard(0);
    weft_graph *graph = weft_graph_create("chain", chain, NULL, 2, 1, 2);
    assert_non_null(graph);
    for (int run = 0; run < 4; run++) {
        weft_scope_begin();
        weft_tensor *inputs[] = { numbers(5, 7, &rows), weft_full(WEFT_F64, run, 2, (int64_t[]){ 7, 3 }, line(), &rows) };
        weft_tensor *outputs[2], *expected[2];
        double rate = 0.25 * run;
        assert_int_equal(weft_graph_call(graph, inputs, &rate, outputs), WEFT_OK);
        chain(NULL, inputs, &rate, expected);
        assert_same_shards(outputs[0], expected[0], "output 0");
        assert_same_tensors(outputs[1], expected[1], "output 1");
        weft_scope_end();
    }
    weft_graph_info info = info_of(graph);
    assert_int_equal(info.runs, 4);
    assert_int_equal(info.captures, 1);
    assert_int_equal(info.replays, 3);
    assert_int_equal(info.guards_failed, 0);
    assert_string_equal(info.failed_guard, "");
    assert_true(info.clusters >= 3 && info.clustered_calls >= 3 * 11);
    assert_int_equal(weft_graph_destroy(graph), WEFT_OK);
    assert_int_equal(weft_graph_destroy(graph), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "graph is not a live graph");
}

/* ---- guards ---------------------------------------------------------------------------------------------------- */

typedef struct branching {
    int way, repeats;
    double number;
} branching;

static weft_status branch(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    const branching *b = context;
    (void)scalars;
    weft_tensor *x = weft_exp(inputs[0]);
    for (int i = 0; i < b->repeats; i++) {
        x = weft_add_scalar(x, b->number);
    }
    outputs[0] = b->way == 0   ? weft_mul(x, inputs[0])
                 : b->way == 1 ? weft_mul(inputs[0], inputs[0])
                 : b->way == 2 ? weft_sub(x, inputs[0])
                               : weft_transpose(x, 0, 1);
    return WEFT_OK;
}

static void run_branch(weft_graph *graph, branching *b, weft_tensor *input)
{
    weft_tensor *output, *expected;
    assert_int_equal(weft_graph_call(graph, &input, NULL, &output), WEFT_OK);
    assert_int_equal(branch(b, &input, NULL, &expected), WEFT_OK);
    assert_same_shards(output, expected, "output");
}

static void test_f3_guards(void **state)
{
    (void)state;
    branching b = { 0, 2, 1.5 };
    weft_placement rows = weft_shard(0);
    weft_graph *graph = weft_graph_create("branch", branch, &b, 1, 0, 1);
    weft_scope_begin();
    weft_tensor *x = numbers(5, 5, &rows);
    run_branch(graph, &b, x);
    b.number = -2; /* a number computed outside is no guard */
    run_branch(graph, &b, x);
    assert_int_equal(info_of(graph).captures, 1);

    const struct {
        branching b;
        weft_tensor *x;
        const char *why;
    } cases[] = {
        { { 2, 2, 1 }, x, "call 3: the function differs: recorded weft_mul, came weft_sub" },
        { { 1, 2, 1 }, x, "call 3: weft_mul: tensor 0 was value" },
        { { 0, 3, 1 }, x, "call 3: the function differs: recorded weft_mul, came weft_add_scalar" },
        { { 0, 1, 1 }, x, "call 2: the function differs: recorded weft_add_scalar, came weft_mul" },
        { { 3, 2, 1 }, x, "call 3: the function differs: recorded weft_mul, came weft_transpose" },
        { { 0, 2, 1 }, numbers(5, 6, &rows), "call 0: weft_exp: tensor 0 was f64[5, 3] [S0] on" },
        { { 0, 2, 1 }, numbers(5, 5, NULL), "call 0: weft_exp: tensor 0 was f64[5, 3] [S0] on" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        b = (branching){ 0, 2, 1 };
        run_branch(graph, &b, x); /* so that this trace is compared with */
        uint64_t captures = info_of(graph).captures;
        b = cases[i].b;
        run_branch(graph, &b, cases[i].x);
        weft_graph_info info = info_of(graph);
        assert_int_equal(info.captures, captures + 1);
        assert_non_null(strstr(info.failed_guard, cases[i].why));
        run_branch(graph, &b, cases[i].x);
        assert_int_equal(info_of(graph).captures, captures + 1); /* each trace is replayed from then on */
    }
    weft_scope_end();
    weft_graph_destroy(graph);
    assert_no_error();
}

/* A run that ends earlier, and one that has no calls. */
static weft_status some_calls(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context;
    outputs[0] = inputs[0];
    for (int i = 0; i < (int)scalars[0]; i++) {
        outputs[0] = weft_neg(outputs[0]);
    }
    return WEFT_OK;
}

static void test_shorter_runs(void **state)
{
    (void)state;
    weft_graph *graph = weft_graph_create("some", some_calls, NULL, 1, 1, 1);
    weft_scope_begin();
    weft_tensor *x = numbers(5, 4, NULL), *negative = weft_neg(x);
    static const int counts[] = { 3, 2, 0, 3, 1, 2, 0, 5 };
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        weft_tensor *output;
        double count = counts[i];
        assert_int_equal(weft_graph_call(graph, &x, &count, &output), WEFT_OK);
        assert_same_shards(output, counts[i] % 2 ? negative : x, "output");
    }
    weft_graph_info info = info_of(graph);
    assert_int_equal(info.captures, 4);
    assert_int_equal(info.num_traces, 4);
    weft_scope_end();
    weft_graph_destroy(graph);
    assert_no_error();
}

/* ---- values that are read inside ----------------------------------------------------------------------------- */

static weft_status until_small(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    int *rounds = context;
    weft_tensor *x = inputs[0];
    double norm = INFINITY;
    for (*rounds = 0; norm > scalars[0]; ++*rounds) {
        x = scaled(x, 0.5);
        weft_status status = weft_tensor_item(weft_sum(weft_mul(x, x), WEFT_ALL_DIMS, false), &norm);
        if (status != WEFT_OK) {
            return status;
        }
    }
    outputs[0] = x;
    return WEFT_OK;
}

static void test_reading_inside(void **state)
{
    (void)state;
    int rounds, expected_rounds;
    weft_graph *graph = weft_graph_create("until", until_small, &rounds, 1, 1, 1);
    weft_scope_begin();
    weft_tensor *x = numbers(5, 4, &(weft_placement){ .kind = WEFT_SHARD });
    static const double limits[] = { 10, 10, 0.1, 100, 10 };
    for (int i = 0; i < 5; i++) {
        weft_tensor *output, *expected = NULL;
        assert_int_equal(weft_graph_call(graph, &x, &limits[i], &output), WEFT_OK);
        assert_int_equal(until_small(&expected_rounds, &x, &limits[i], &expected), WEFT_OK);
        assert_int_equal(rounds, expected_rounds);
        assert_same_shards(output, expected, "output");
    }
    weft_scope_end();
    weft_graph_destroy(graph);
    assert_no_error();
}

/* ---- changes in place ------------------------------------------------------------------------------------------ */

typedef struct changing {
    weft_tensor *parameter, *kept;
} changing;

static weft_status change(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    changing *c = context;
    weft_tensor *before = weft_detach(c->parameter), *doubled = scaled(c->parameter, 2);
    weft_add_inplace(c->parameter, inputs[0], scalars[0]);
    weft_tensor *middle = weft_detach(c->parameter);
    weft_scale_inplace(middle, 3);
    weft_add_inplace(c->parameter, before, 1);
    weft_tensor *sum = weft_add(doubled, before), *alias = weft_detach(sum);
    weft_scale_inplace(sum, -1);
    weft_scale_inplace(alias, 5);
    outputs[0] = weft_add(weft_add(middle, sum), c->parameter);
    outputs[1] = alias;
    outputs[2] = weft_copy_inplace(before, alias);
    if (c->kept != NULL) {
        weft_tensor_release(c->kept);
    }
    c->kept = weft_mul(alias, sum);
    weft_tensor_retain(c->kept);
    return WEFT_OK;
}

static void change_on(uint64_t seed)
{
    prng random = { seed };
    weft_scope_begin();
    weft_mesh *mesh = line();
    weft_placement placements[WEFT_MAX_DIMS];
    random_placements(&random, mesh, 2, false, placements);
    int64_t shape[] = { prng_below(&random, 9), 3 };
    weft_tensor *start = weft_randn(WEFT_F64, 2, shape, mesh, placements), *input = weft_neg(start);
    changing eager = { .parameter = copy_of(start) }, captured = { .parameter = copy_of(start) };
    weft_graph *graph = weft_graph_create("change", change, &captured, 1, 1, 3);
    for (int run = 0; run < 4; run++) {
        double rate = 0.5 + run;
        weft_tensor *outputs[3], *expected[3];
        assert_int_equal(weft_graph_call(graph, &input, &rate, outputs), WEFT_OK);
        assert_int_equal(change(&eager, &input, &rate, expected), WEFT_OK);
        for (int i = 0; i < 3; i++) {
            assert_same_shards(outputs[i], expected[i], "output");
        }
        assert_same_shards(captured.parameter, eager.parameter, "parameter");
        assert_same_shards(captured.kept, eager.kept, "kept");
    }
    assert_int_equal(info_of(graph).captures, 1);
    weft_tensor_release(captured.kept);
    weft_tensor_release(eager.kept);
    weft_graph_destroy(graph);
    weft_scope_end();
    assert_no_error();
}

static void test_changes_in_place(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 30; seed++) {
        change_on(seed);
    }
}

/* ---- random numbers ---------------------------------------------------------------------------------------------- */

static weft_status draw(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context;
    weft_tensor *noise = weft_randn(WEFT_F64, 2, (int64_t[]){ 5, 3 }, line(), NULL);
    outputs[0] = weft_dropout(weft_add(inputs[0], noise), scalars[0], true, NULL);
    weft_uniform_inplace(noise, 0, 1);
    outputs[1] = noise;
    return WEFT_OK;
}

static void test_random_numbers(void **state)
{
    (void)state;
    weft_graph *graph = weft_graph_create("draw", draw, NULL, 1, 1, 2);
    weft_scope_begin();
    weft_tensor *x = numbers(5, 5, NULL), *outputs[4][2], *expected[4][2];
    const double p = 0.3;
    weft_random_seed(17);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(weft_graph_call(graph, &x, &p, outputs[i]), WEFT_OK);
    }
    weft_tensor *next = weft_rand(WEFT_F64, 1, (int64_t[]){ 4 }, line(), NULL);
    weft_random_seed(17);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(draw(NULL, &x, &p, expected[i]), WEFT_OK);
        assert_same_shards(outputs[i][0], expected[i][0], "dropout");
        assert_same_shards(outputs[i][1], expected[i][1], "noise");
    }
    assert_same_shards(next, weft_rand(WEFT_F64, 1, (int64_t[]){ 4 }, line(), NULL), "after the graph");
    assert_int_equal(info_of(graph).captures, 1);
    weft_scope_end();
    weft_graph_destroy(graph);
    assert_no_error();
}

/* ---- gradients inside ------------------------------------------------------------------------------------------- */

typedef struct training {
    weft_tensor *w, *b;
} training;

static weft_status train(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    training *t = context;
    weft_tensor *leaves[] = { t->w, t->b };
    weft_tensor *h = weft_tanh(weft_add(weft_matmul(inputs[0], t->w), t->b));
    weft_tensor *loss = weft_mean(weft_mul(h, h), WEFT_ALL_DIMS, false);
    weft_status status = weft_backward(loss, NULL);
    weft_tensor *gradients[] = { weft_grad(t->w), weft_grad(t->b) };
    weft_sgd_options options = { .learning_rate = scalars[0] };
    status = status == WEFT_OK ? weft_sgd(2, leaves, gradients, &options, NULL) : status;
    status = status == WEFT_OK ? weft_zero_grad(2, leaves) : status;
    outputs[0] = weft_detach(loss);
    return status;
}

static training begin_training(const weft_placement *placements)
{
    training t;
    weft_random_seed(3);
    t.w = weft_randn(WEFT_F64, 2, (int64_t[]){ 3, 6 }, line(), placements);
    t.b = weft_zeros(WEFT_F64, 1, (int64_t[]){ 6 }, line(), NULL);
    weft_set_requires_grad(t.w, true);
    weft_set_requires_grad(t.b, true);
    return t;
}

static void test_training_steps(void **state)
{
    (void)state;
    const weft_placement layouts[] = { weft_replicate(), weft_shard(0), weft_shard(1) };
    for (int l = 0; l < 3; l++) {
        weft_scope_begin();
        training eager = begin_training(&layouts[l]), captured = begin_training(&layouts[l]);
        weft_tensor *x = scaled(numbers(5, 8, &layouts[1]), 0.1);
        weft_graph *graph = weft_graph_create("train", train, &captured, 1, 1, 1);
        for (int step = 0; step < 6; step++) {
            double rate = 0.1 / (1 + step);
            weft_tensor *loss, *expected;
            assert_int_equal(weft_graph_call(graph, &x, &rate, &loss), WEFT_OK);
            assert_int_equal(train(&eager, &x, &rate, &expected), WEFT_OK);
            assert_same_tensors(loss, expected, "loss");
            assert_same_shards(captured.w, eager.w, "w");
            assert_same_shards(captured.b, eager.b, "b");
        }
        assert_int_equal(info_of(graph).captures, 1);
        weft_graph_destroy(graph);
        weft_scope_end();
    }
    assert_no_error();
}

/* The forward pass in a graph, the backward pass outside. */
static weft_status forward(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context, (void)scalars;
    outputs[0] = weft_sum(weft_exp(weft_mul(inputs[0], inputs[1])), WEFT_ALL_DIMS, false);
    return WEFT_OK;
}

static void test_backward_outside(void **state)
{
    (void)state;
    weft_graph *graph = weft_graph_create("forward", forward, NULL, 2, 0, 1);
    for (int i = 0; i < 3; i++) {
        weft_scope_begin();
        weft_tensor *x = scaled(numbers(5, 4, NULL), 0.1), *y = weft_add_scalar(x, i), *loss, *expected;
        weft_tensor *leaf = copy_of(x), *other = copy_of(x);
        weft_set_requires_grad(leaf, true);
        weft_set_requires_grad(other, true);
        assert_int_equal(weft_graph_call(graph, (weft_tensor *[]){ leaf, y }, NULL, &loss), WEFT_OK);
        assert_int_equal(forward(NULL, (weft_tensor *[]){ other, y }, NULL, &expected), WEFT_OK);
        assert_int_equal(weft_backward(loss, NULL), WEFT_OK);
        assert_int_equal(weft_backward(expected, NULL), WEFT_OK);
        assert_same_shards(weft_grad(leaf), weft_grad(other), "gradient");
        weft_scope_end();
    }
    assert_int_equal(info_of(graph).captures, 1);
    weft_graph_destroy(graph);
    assert_no_error();
}

/* ---- refusals --------------------------------------------------------------------------------------------------- */

static weft_status wrong(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    weft_graph *const *graph = context;
    weft_tensor *x = weft_neg(inputs[0]);
    switch ((int)scalars[0]) {
    case 0: /* a refused call, of which the function takes no notice */
        assert_null(weft_matmul(x, x));
        assert_error(WEFT_ERR_SHAPE, "weft_matmul");
        outputs[0] = weft_neg(x);
        return WEFT_OK;
    case 1:
        return WEFT_ERR_IO;
    case 2:
        outputs[0] = NULL;
        return WEFT_OK;
    case 3:
        assert_int_equal(weft_graph_destroy(*graph), WEFT_ERR_STATE);
        assert_int_equal(weft_finalize(), WEFT_ERR_STATE);
        weft_clear_error();
        outputs[0] = weft_neg(x);
        return WEFT_OK;
    case 4:
        weft_scope_begin();
        outputs[0] = weft_scope_keep(weft_neg(x));
        return WEFT_OK;
    case 5:
        weft_scope_end();
        return WEFT_OK;
    default:
        outputs[0] = weft_neg(x);
        return weft_wait();
    }
}

static void test_refusals(void **state)
{
    (void)state;
    weft_graph *graph = NULL;
    assert_null(weft_graph_create("none", NULL, NULL, 0, 0, 0));
    assert_error(WEFT_ERR_INVALID, "weft_graph_create: function is NULL");
    assert_null(weft_graph_create("none", wrong, NULL, 0, -1, 0));
    assert_error(WEFT_ERR_INVALID, "num_scalars is negative");
    graph = weft_graph_create("wrong", wrong, &graph, 1, 1, 1);
    weft_scope_begin();
    weft_tensor *x = numbers(5, 4, NULL), *output;
    static const double order[] = { 0, 1, 2, 0, 3, 4, 6, 0, 0 };
    assert_int_equal(weft_graph_call(graph, NULL, order, &output), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "weft_graph_call: inputs is NULL");
    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
        weft_status status = weft_graph_call(graph, &x, &order[i], &output);
        if (order[i] == 1 || order[i] == 2) {
            assert_int_equal(status, order[i] == 1 ? WEFT_ERR_IO : WEFT_ERR_INVALID);
            assert_null(output);
            assert_error(status, "weft_graph_call: ");
        } else {
            assert_int_equal(status, WEFT_OK);
            assert_same_shards(output, x, "output");
        }
    }
    weft_scope_end();
    weft_graph_destroy(graph);
    assert_no_error();
}

/* ---- printing --------------------------------------------------------------------------------------------------- */

static weft_status listed(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context, (void)scalars;
    outputs[0] = weft_redistribute(weft_matmul(inputs[0], inputs[1]), NULL, &(weft_placement){ .kind = WEFT_REPLICATE });
    return WEFT_OK;
}

static void test_f1_listing(void **state)
{
    (void)state;
    char expected[1000];
    weft_graph *graph = weft_graph_create("listed", listed, NULL, 2, 0, 1);
    weft_scope_begin();
    weft_placement rows = weft_shard(0), columns = weft_shard(1);
    weft_tensor *inputs[] = { weft_zeros(WEFT_F32, 2, (int64_t[]){ 8, 4 }, line(), &columns),
                              weft_zeros(WEFT_F32, 2, (int64_t[]){ 4, 6 }, line(), &rows) }, *output;
    assert_int_equal(weft_graph_call(graph, inputs, NULL, &output), WEFT_OK);
    char *text = listing_of(graph);
    int ranks = weft_world_size();
    snprintf(expected, sizeof(expected),
             "graph listed:\n"
             "  %%0 = inputs[0] : f32[8, 4] [S1] on %d\n"
             "  %%1 = inputs[1] : f32[4, 6] [S0] on %d\n"
             "  %%2 = weft_matmul(%%0, %%1) numbers=0,0 : f32[8, 6] [P(sum)] on %d\n"
             "  %%3 = weft_redistribute(%%2) mesh (%d) [R] : f32[8, 6]\n"
             "  outputs[0] = %%3\n",
             ranks, ranks, ranks, ranks);
    if (ranks > 1) {
        assert_string_equal(text, expected);
    }
    free(text);
    weft_scope_end();
    weft_graph_destroy(graph);
    assert_no_error();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f2_replay_equals_eager), cmocka_unit_test(test_f3_guards),
        cmocka_unit_test(test_shorter_runs),           cmocka_unit_test(test_reading_inside),         cmocka_unit_test(test_changes_in_place),
        cmocka_unit_test(test_random_numbers),         cmocka_unit_test(test_training_steps),
        cmocka_unit_test(test_backward_outside),       cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_f1_listing),
    };
    return RUN_ON_RANKS(tests);
}
