/* A graph whose sizes change from call to call: one template, an instance for each size, values as without the graph, and no
 * exchange between processes where sizes alone are new. */
#include <stdlib.h>

#include "graph_support.h"

enum { COLUMNS = 3, SIZES = 20, ROUNDS = 3 };

static uint64_t messages_so_far(void)
{
    weft_counters counters;
    assert_int_equal(weft_get_counters(&counters, sizeof(counters)), WEFT_OK);
    return counters.messages;
}

/* ---- training on batches of random lengths --------------------------------------------------------------------------------- */

typedef struct model {
    weft_tensor *w, *b;
} model;

static weft_status train(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    model *m = context;
    weft_tensor *leaves[] = { m->w, m->b };
    weft_tensor *y = weft_tanh(weft_add(weft_matmul(inputs[0], m->w), m->b));
    weft_tensor *flat = weft_reshape(y, 1, (int64_t[]){ weft_tensor_size(y, 0) * COLUMNS });
    weft_tensor *loss = weft_mean(weft_mul(flat, flat), WEFT_ALL_DIMS, false);
    weft_status status = weft_backward(loss, NULL);
    weft_tensor *gradients[] = { weft_grad(m->w), weft_grad(m->b) };
    weft_sgd_options options = { .learning_rate = scalars[0] };
    status = status == WEFT_OK ? weft_sgd(2, leaves, gradients, &options, NULL) : status;
    status = status == WEFT_OK ? weft_zero_grad(2, leaves) : status;
    outputs[0] = weft_redistribute(weft_detach(loss), NULL, NULL);
    return status;
}

static model model_make(void)
{
    model m = { numbers(1, COLUMNS, NULL), weft_full(WEFT_F64, 0.1, 1, (int64_t[]){ COLUMNS }, line(), NULL) };
    assert_no_error();
    weft_set_requires_grad(m.w, true);
    weft_set_requires_grad(m.b, true);
    return m;
}

static void test_f4_sixty_runs_over_twenty_sizes(void **state)
{
    (void)state;
    weft_scope_begin();
    const weft_placement split = weft_shard(0);
    model captured = model_make(), eager = model_make();
    weft_graph *graph = weft_graph_create("train", train, &captured, 1, 1, 1);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < SIZES; i++) {
            weft_scope_begin();
            weft_tensor *batch = numbers((uint64_t)i, 8 + 7 * i % SIZES, &split), *loss, *expected;
            double rate = 0.1 / (1 + round);
            assert_int_equal(weft_graph_call(graph, &batch, &rate, &loss), WEFT_OK);
            assert_int_equal(train(&eager, &batch, &rate, &expected), WEFT_OK);
            assert_same_shards(loss, expected, "loss");
            assert_same_shards(captured.w, eager.w, "w");
            weft_scope_end();
        }
    }
    weft_graph_info info = info_of(graph);
    /* On several ranks rows that are cut unevenly become another cut of the flat tensor, whose gradient takes other calls. */
    assert_true(info.templates <= 2);
    assert_int_equal(info.captures, SIZES);
    assert_int_equal(info.replays, (ROUNDS - 1) * SIZES);
    assert_int_equal(info.num_traces, SIZES);
    weft_graph_destroy(graph);
    weft_scope_end();
    assert_no_error();
}

/* ---- decoding: one more row in each call ----------------------------------------------------------------------------------- */

static weft_status decode(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context, (void)scalars;
    weft_tensor *both[] = { inputs[0], inputs[1] };
    weft_tensor *cache = weft_cat(2, both, 0);
    outputs[0] = cache;
    outputs[1] = weft_matmul(weft_softmax(weft_matmul(inputs[1], weft_transpose(cache, 0, 1)), 1), cache);
    return WEFT_OK;
}

static void test_f4_a_decoding_loop_is_one_template(void **state)
{
    (void)state;
    enum { STEPS = 300 };
    weft_graph *graph = weft_graph_create("decode", decode, NULL, 2, 0, 2);
    const weft_placement columns = weft_shard(1);
    weft_scope_begin();
    weft_tensor *cache = weft_redistribute(numbers(1, 1, NULL), line(), &columns);
    uint64_t new_messages = 0, eager_messages = 0;
    for (int step = 0; step < STEPS; step++) {
        weft_tensor *inputs[] = { cache, weft_redistribute(numbers((uint64_t)step, 1, NULL), line(), &columns) };
        weft_tensor *outputs[2], *expected[2];
        weft_wait();
        uint64_t before = messages_so_far();
        assert_int_equal(weft_graph_call(graph, inputs, NULL, outputs), WEFT_OK);
        weft_wait();
        uint64_t between = messages_so_far();
        assert_int_equal(decode(NULL, inputs, NULL, expected), WEFT_OK);
        weft_wait();
        if (step > 0) { /* the first one is compared between processes */
            new_messages += between - before;
            eager_messages += messages_so_far() - between;
        }
        assert_same_tensors(outputs[1], expected[1], "attention");
        cache = outputs[0];
    }
    assert_int_equal(new_messages, eager_messages); /* new sizes are not compared */
    assert_int_equal(info_of(graph).templates, 1);
    assert_int_equal(info_of(graph).captures, STEPS);
    weft_graph_destroy(graph);
    weft_scope_end();
    assert_no_error();
}

/* ---- which calls find which trace ------------------------------------------------------------------------------------------ */

/* Tensors of the function's context have sizes too, which the graph's inputs say nothing about. */
static weft_status scale_hidden(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)inputs;
    weft_tensor *const *hidden = context;
    outputs[0] = weft_scale(weft_exp(*hidden), scalars[0]);
    return WEFT_OK;
}

static void test_f4_sizes_that_are_no_inputs(void **state)
{
    (void)state;
    weft_tensor *hidden;
    weft_graph *graph = weft_graph_create("hidden", scale_hidden, &hidden, 0, 1, 1);
    for (int i = 0; i < 40; i++) {
        weft_scope_begin();
        weft_tensor *output;
        double factor = i;
        hidden = numbers((uint64_t)i, 1 + i * 3 % 10, NULL);
        assert_int_equal(weft_graph_call(graph, NULL, &factor, &output), WEFT_OK);
        assert_same_shards(output, weft_scale(weft_exp(hidden), factor), "output");
        weft_scope_end();
    }
    assert_int_equal(info_of(graph).templates, 1);
    assert_int_equal(info_of(graph).captures, 10);
    weft_graph_destroy(graph);
    assert_no_error();
}

static weft_status square(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context, (void)scalars;
    outputs[0] = weft_mul(inputs[0], inputs[0]);
    return WEFT_OK;
}

/* Placements, types and numbers of dimensions are no sizes. */
static void test_f4_other_placements_are_another_template(void **state)
{
    (void)state;
    weft_graph *graph = weft_graph_create("square", square, NULL, 1, 0, 1);
    const weft_placement rows = weft_shard(0), columns = weft_shard(1);
    const weft_placement *const placements[] = { &rows, &columns, NULL };
    for (int i = 0; i < 24; i++) {
        weft_scope_begin();
        weft_tensor *x = weft_redistribute(numbers((uint64_t)i, 1 + i % 4, NULL), line(), placements[i % 3]), *y;
        assert_int_equal(weft_graph_call(graph, &x, NULL, &y), WEFT_OK);
        assert_same_shards(y, weft_mul(x, x), "square");
        weft_scope_end();
    }
    assert_int_equal(info_of(graph).templates, 3);
    assert_int_equal(info_of(graph).captures, 12);
    assert_int_equal(info_of(graph).replays, 12);
    weft_graph_destroy(graph);
    assert_no_error();
}

/* Every process has a length of its own: a list of them cuts the rows. */
static void test_f4_lengths_of_each_process(void **state)
{
    (void)state;
    weft_graph *graph = weft_graph_create("square", square, NULL, 1, 0, 1);
    int ranks = weft_world_size();
    int64_t *lengths = calloc((size_t)ranks, sizeof(int64_t));
    for (int i = 0; i < 30; i++) {
        weft_scope_begin();
        int64_t rows = 0;
        for (int r = 0; r < ranks; r++) {
            lengths[r] = 1 + (i % 10) * (r + 1) % 7;
            rows += lengths[r];
        }
        weft_placement own = weft_shard_sizes(0, ranks, lengths);
        weft_tensor *x = weft_redistribute(numbers((uint64_t)i, rows, NULL), line(), &own), *y;
        assert_int_equal(weft_graph_call(graph, &x, NULL, &y), WEFT_OK);
        assert_same_shards(y, weft_mul(x, x), "square");
        weft_scope_end();
    }
    assert_int_equal(info_of(graph).templates, 1);
    free(lengths);
    weft_graph_destroy(graph);
    assert_no_error();
}

/* ---- frozen graphs --------------------------------------------------------------------------------------------------------- */

typedef struct counted {
    weft_tensor *w, *first, *second;
    int calls;
    int64_t step;
} counted;

static weft_status scale_and_count(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    counted *c = context;
    c->calls++;
    bool wide = weft_tensor_size(inputs[1], 0) > 4; /* no call reads this input */
    outputs[0] = weft_matmul(inputs[0], c->w);
    outputs[0] = wide ? weft_scale(outputs[0], scalars[0]) : weft_add_scalar(outputs[0], scalars[0]);
    return WEFT_OK;
}

/* Each size is observed for itself, and replayed without the function whenever it comes again. */
static void test_frozen_graphs_know_each_size(void **state)
{
    (void)state;
    enum { LENGTHS = 6 };
    weft_scope_begin();
    counted c = { .w = numbers(1, 3, NULL) }, eager = c;
    weft_graph *graph = weft_graph_create("frozen", scale_and_count, &c, 2, 1, 1);
    assert_int_equal(weft_graph_freeze(graph, true), WEFT_OK);
    for (int run = 0; run < 8 * LENGTHS; run++) {
        weft_scope_begin();
        weft_tensor *inputs[] = { numbers((uint64_t)run, 2 + run * 5 % LENGTHS, NULL), numbers(1, 3 + run % 2 * 4, NULL) };
        weft_tensor *output, *expected;
        double factor = run * 0.5;
        assert_int_equal(weft_graph_call(graph, inputs, &factor, &output), WEFT_OK);
        assert_int_equal(scale_and_count(&eager, inputs, &factor, &expected), WEFT_OK);
        assert_same_shards(output, expected, "output");
        weft_scope_end();
    }
    assert_int_equal(c.calls, 3 * LENGTHS); /* captured once, observed twice */
    assert_true(info_of(graph).frozen);
    assert_int_equal(info_of(graph).frozen_replays, 5 * LENGTHS);
    weft_graph_destroy(graph);
    weft_scope_end();
    assert_no_error();
}

static weft_status adam_step(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    counted *c = context;
    c->calls++;
    weft_tensor *gradient = weft_redistribute(weft_sum(inputs[0], 0, true), NULL, NULL);
    weft_adam_options options = WEFT_ADAM_DEFAULT;
    options.learning_rate = scalars[0];
    weft_status status = weft_adam(1, &c->w, &gradient, &c->first, &c->second, ++c->step, &options);
    outputs[0] = weft_add_scalar(gradient, 0);
    return status;
}

/* A count that the function keeps itself cannot go on where sizes take turns: refused, or as without the graph. */
static void test_frozen_counts_are_never_wrong(void **state)
{
    (void)state;
    weft_scope_begin();
    counted c = { .w = numbers(1, 1, NULL), .first = numbers(2, 1, NULL),
                  .second = weft_full(WEFT_F64, 1, 2, (int64_t[]){ 1, 3 }, line(), NULL) };
    counted eager = { .w = numbers(1, 1, NULL), .first = numbers(2, 1, NULL),
                      .second = weft_full(WEFT_F64, 1, 2, (int64_t[]){ 1, 3 }, line(), NULL) };
    weft_graph *graph = weft_graph_create("adam", adam_step, &c, 1, 1, 1);
    assert_int_equal(weft_graph_freeze(graph, true), WEFT_OK);
    static const int rows[] = { 4, 4, 4, 5, 5, 5, 4, 5, 4, 4, 4, 4, 4, 4, 5 };
    weft_status status = WEFT_OK;
    for (int run = 0; run < (int)(sizeof(rows) / sizeof(rows[0])) && status == WEFT_OK; run++) {
        weft_tensor *batch = numbers((uint64_t)run, rows[run], NULL), *output;
        double rate = 0.1 / (1 + run);
        status = weft_graph_call(graph, &batch, &rate, &output);
        assert_int_equal(status, run < 14 ? WEFT_OK : WEFT_ERR_STATE);
        if (status == WEFT_OK) {
            assert_int_equal(adam_step(&eager, &batch, &rate, &output), WEFT_OK);
            assert_same_shards(c.w, eager.w, "w");
        }
    }
    assert_error(WEFT_ERR_STATE, "would have to be called again (calls with these sizes have not been observed twice), but it counts");
    assert_true(info_of(graph).frozen_replays > 0);
    weft_graph_destroy(graph);
    weft_scope_end();
    assert_no_error();
}

/* Its own count decides, and nothing that a graph could see. */
static weft_status take_turns(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    int *calls = context;
    outputs[0] = ++*calls % 2 ? weft_exp(inputs[0]) : weft_neg(inputs[0]);
    outputs[0] = weft_scale(outputs[0], scalars[0]);
    return WEFT_OK;
}

static void test_functions_that_alternate_are_not_frozen(void **state)
{
    (void)state;
    int calls = 0, eager = 0;
    weft_graph *graph = weft_graph_create("turns", take_turns, &calls, 1, 1, 1);
    assert_int_equal(weft_graph_freeze(graph, true), WEFT_OK);
    for (int run = 0; run < 12; run++) {
        weft_scope_begin();
        weft_tensor *x = numbers((uint64_t)run, 4, NULL), *output, *expected;
        double factor = run;
        assert_int_equal(weft_graph_call(graph, &x, &factor, &output), WEFT_OK);
        assert_int_equal(take_turns(&eager, &x, &factor, &expected), WEFT_OK);
        assert_same_shards(output, expected, "output");
        weft_scope_end();
    }
    assert_int_equal(calls, 12);
    weft_graph_destroy(graph);
    assert_no_error();
}

/* ---- a graph within itself ---------------------------------------------------------------------------------------------------- */

typedef struct halving {
    weft_graph *graph;
    int64_t outer;
} halving;

static weft_status halve(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    halving *h = context;
    int64_t rows = weft_tensor_size(inputs[0], 0);
    weft_tensor *half = inputs[0];
    weft_status status = WEFT_OK;
    if (rows > 2) {
        half = weft_slice(inputs[0], 0, 0, rows / 2, 1);
        status = weft_graph_call(h->graph, &half, scalars, &half);
        status = status == WEFT_OK && rows == 8 ? weft_graph_size(h->graph, "i0.0", &h->outer) : status;
    }
    outputs[0] = weft_add_scalar(half, 1);
    return status;
}

static void test_f4_sizes_of_a_graph_within_itself(void **state)
{
    (void)state;
    halving h = { .outer = 0 };
    weft_graph *graph = h.graph = weft_graph_create("halves", halve, &h, 1, 0, 1);
    for (int run = 0; run < 4; run++) {
        weft_scope_begin();
        weft_tensor *x = numbers((uint64_t)run, 8, NULL), *output;
        assert_int_equal(weft_graph_call(graph, &x, NULL, &output), WEFT_OK);
        weft_tensor *first = weft_slice(x, 0, 0, 2, 1);
        assert_same_shards(output, weft_add_scalar(weft_add_scalar(weft_add_scalar(first, 1), 1), 1), "output");
        assert_int_equal(h.outer, 8);
        weft_scope_end();
    }
    assert_int_equal(info_of(graph).captures, 1);
    weft_graph_destroy(graph);
    assert_no_error();
}

/* ---- local regions that change a tensor ------------------------------------------------------------------------------------------ */

static void add_number(const weft_local_call *call)
{
    const weft_local_tensor *x = &call->outputs[0];
    for (int64_t i = 0; i < x->count; i++) {
        ((double *)x->data)[i] += *(const double *)call->context;
    }
}

static weft_status change_locally(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    weft_tensor *x = weft_scale(inputs[0], scalars[0]), *changed;
    weft_local_output described = { .in_place = true };
    weft_local_map_options options = { .context = context };
    weft_status status = weft_local_map(add_number, 1, &x, 1, &described, &options, &changed);
    outputs[0] = weft_neg(x);
    return status;
}

/* They are no calls of the graph: they run between two segments, with the context of each run. */
static void test_local_regions_in_place(void **state)
{
    (void)state;
    double number = 0;
    weft_graph *graph = weft_graph_create("local", change_locally, &number, 1, 1, 1);
    for (int run = 0; run < 4; run++) {
        weft_scope_begin();
        const weft_placement rows = weft_shard(0);
        weft_tensor *x = numbers((uint64_t)run, 5, &rows), *output;
        double factor = number = run;
        assert_int_equal(weft_graph_call(graph, &x, &factor, &output), WEFT_OK);
        assert_int_equal(weft_wait(), WEFT_OK);
        assert_same_shards(output, weft_neg(weft_add_scalar(weft_scale(x, factor), number)), "output");
        weft_scope_end();
    }
    weft_graph_destroy(graph);
    assert_no_error();
}

/* ---- what is kept ---------------------------------------------------------------------------------------------------------- */

static weft_status many_calls(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context, (void)scalars;
    outputs[0] = inputs[0];
    for (int i = 0; i < 64; i++) {
        outputs[0] = weft_add_scalar(outputs[0], 1);
    }
    return WEFT_OK;
}

static void call_many(weft_graph *graph, int64_t size)
{
    weft_scope_begin();
    weft_tensor *x = weft_full(WEFT_F64, 1, 1, &size, line(), NULL), *y;
    assert_int_equal(weft_graph_call(graph, &x, NULL, &y), WEFT_OK);
    assert_same_shards(y, weft_full(WEFT_F64, 65, 1, &size, line(), NULL), "output");
    weft_scope_end();
}

/* The least recently used traces go where there are too many calls; the newest ones are replayed. */
static void test_f4_kept_traces_are_bounded(void **state)
{
    (void)state;
    enum { MANY = 800 };
    weft_graph *graph = weft_graph_create("many", many_calls, NULL, 1, 0, 1);
    size_t half = 0;
    for (int64_t size = 1; size <= MANY; size++) {
        call_many(graph, size);
        half = size == MANY / 2 ? info_of(graph).bytes : half;
    }
    weft_graph_info info = info_of(graph);
    assert_int_equal(info.templates, 1);
    assert_true(info.num_traces < 600 && info.bytes < 2 * half);
    for (int64_t size = MANY; size > MANY - 100; size--) {
        call_many(graph, size);
    }
    assert_int_equal(info_of(graph).captures, MANY);
    call_many(graph, 1);
    assert_int_equal(info_of(graph).captures, MANY + 1);
    weft_graph_destroy(graph);
    assert_no_error();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f4_sixty_runs_over_twenty_sizes),
        cmocka_unit_test(test_f4_a_decoding_loop_is_one_template),
        cmocka_unit_test(test_f4_sizes_that_are_no_inputs),
        cmocka_unit_test(test_f4_other_placements_are_another_template),
        cmocka_unit_test(test_f4_lengths_of_each_process),
        cmocka_unit_test(test_frozen_graphs_know_each_size),
        cmocka_unit_test(test_frozen_counts_are_never_wrong),
        cmocka_unit_test(test_functions_that_alternate_are_not_frozen),
        cmocka_unit_test(test_f4_sizes_of_a_graph_within_itself),
        cmocka_unit_test(test_local_regions_in_place),
        cmocka_unit_test(test_f4_kept_traces_are_bounded),
    };
    return RUN_ON_RANKS(tests);
}
