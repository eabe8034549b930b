#include "graph_support.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- tensors --------------------------------------------------------------------------------------------- */

weft_tensor *numbers(uint64_t seed, int64_t rows, const weft_placement *placements)
{
    weft_random_state before;
    weft_random_state_get(NULL, &before);
    weft_random_seed(seed);
    weft_tensor *made = weft_randn(WEFT_F64, 2, (int64_t[]){ rows, 3 }, line(), placements);
    weft_random_state_set(NULL, before);
    return made;
}

void assert_same_tensors(weft_tensor *tensor, weft_tensor *expected, const char *what)
{
    assert_true((tensor == NULL) == (expected == NULL));
    if (tensor != NULL) {
        assert_same_shards(without_partial(tensor), without_partial(expected), what);
    }
}

/* ---- graphs ---------------------------------------------------------------------------------------------- */

weft_graph_info info_of(const weft_graph *graph)
{
    weft_graph_info info;
    assert_int_equal(weft_graph_get_info(graph, &info, sizeof(info)), WEFT_OK);
    return info;
}

char *listing_of(const weft_graph *graph)
{
    char *text;
    size_t length;
    FILE *file = open_memstream(&text, &length);
    assert_non_null(file);
    assert_int_equal(weft_graph_print(graph, WEFT_GRAPH_RECORDED, file), WEFT_OK);
    assert_int_equal(fclose(file), 0);
    return text;
}

weft_prediction predict(weft_graph *graph, const weft_predict_options *options)
{
    weft_prediction found;
    if (weft_graph_predict(graph, options, &found, sizeof(found)) != WEFT_OK) {
        fail_msg("%s", weft_last_error());
    }
    return found;
}

/* ---- fake worlds ----------------------------------------------------------------------------------------- */

int start_fake(void **state)
{
    (void)state;
    FAKE_WORLD(FAKE_RANKS);
    return 0;
}

int stop(void **state)
{
    (void)state;
    weft_finalize();
    return 0;
}

void start_fake_processes(const char *ranks, const char *processes)
{
    setenv("WEFT_FAKE_SIZE", ranks, 1);
    setenv("WEFT_FAKE_PROCESSES", processes, 1);
    assert_int_equal(weft_init(&(weft_config){ .world = WEFT_WORLD_FAKE }), WEFT_OK);
    unsetenv("WEFT_FAKE_SIZE");
    unsetenv("WEFT_FAKE_PROCESSES");
}

/* ---- random functions ------------------------------------------------------------------------------------ */

/* Of the tensors before that of call i: one of the last three, as a rule. */
static int near_tensor(prng *random, int i)
{
    int near = 2 + i - (int)prng_below(random, 3);
    return near < 0 || prng_below(random, 4) == 0 ? (int)prng_below(random, i + 2) : near >= i + 2 ? i + 1 : near;
}

random_graph random_graph_make(prng *random, int most, int num_kinds, bool near)
{
    random_graph g = { .num_calls = 2 + (int)prng_below(random, most - 2) };
    for (int i = 0; i < g.num_calls; i++) {
        g.kind[i] = (int)prng_below(random, num_kinds);
        g.first[i] = near ? near_tensor(random, i) : (int)prng_below(random, i + 2);
        g.second[i] = (int)prng_below(random, i + 2);
    }
    for (int i = 0; i < RANDOM_OUTPUTS; i++) {
        g.kept[i] = (int)prng_below(random, g.num_calls + 2);
    }
    g.kept[0] = near ? g.num_calls + 1 : g.kept[0];
    return g;
}

/* ---- a step of training ---------------------------------------------------------------------------------- */

trained_mlp mlp_make(void)
{
    const int64_t shape[] = { weft_world_size() / 2, 2 };
    trained_mlp m = { .mesh = weft_mesh_create(2, shape, (const char *const[]){ "dp", "tp" }) };
    const weft_placement columns[] = { weft_replicate(), weft_shard(1) }, rows[] = { weft_replicate(), weft_shard(0) };
    m.weights[0] = weft_randn(WEFT_F32, 2, (int64_t[]){ BATCH_WIDTH, MLP_HIDDEN }, m.mesh, columns);
    m.weights[1] = weft_randn(WEFT_F32, 2, (int64_t[]){ MLP_HIDDEN, BATCH_WIDTH }, m.mesh, rows);
    for (int i = 0; i < MLP_WEIGHTS; i++) {
        m.first[i] = weft_zeros_like(m.weights[i]);
        m.second[i] = weft_zeros_like(m.weights[i]);
        weft_set_requires_grad(m.weights[i], true);
    }
    assert_no_error();
    return m;
}

weft_tensor *mlp_batch(const trained_mlp *m)
{
    const weft_placement over_dp[] = { weft_shard(0), weft_replicate() };
    return weft_randn(WEFT_F32, 2, (int64_t[]){ BATCH_ROWS, BATCH_WIDTH }, m->mesh, over_dp);
}

weft_tensor *mlp_forward(const trained_mlp *m, weft_tensor *x)
{
    weft_tensor *h = weft_gelu(weft_matmul(x, m->weights[0]));
    return weft_matmul(weft_dropout(h, 0.1, true, NULL), m->weights[1]);
}

weft_status mlp_descend(trained_mlp *m, weft_tensor *loss, void (*midway)(weft_tensor *loss), double rate, weft_tensor **out)
{
    weft_tensor *gradients[MLP_WEIGHTS];
    weft_status status = weft_backward(loss, NULL);
    for (int i = 0; i < MLP_WEIGHTS; i++) {
        gradients[i] = weft_grad(m->weights[i]);
    }
    if (midway != NULL) {
        midway(loss);
    }
    weft_adam_options options;
    weft_adamw_options_init(&options);
    options.learning_rate = rate;
    weft_adamw(MLP_WEIGHTS, m->weights, gradients, m->first, m->second, ++m->step, &options);
    weft_zero_grad(MLP_WEIGHTS, m->weights);
    *out = weft_detach(loss);
    return status == WEFT_OK ? weft_last_status() : status;
}
