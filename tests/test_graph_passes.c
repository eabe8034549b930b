/* Passes over captured graphs: random functions give bit for bit what their calls give on their own, with each set of
 * passes; and what each pass does, by counts. */
#include <stdlib.h>
#include <string.h>

#include "autograd_support.h"

/* ---- random functions ------------------------------------------------------------------------------------ */

enum { PASSES = WEFT_PASS_ALL & ~WEFT_PASS_FUSE };
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
        f.kind[i] = (int)prng_below(random, 16);
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

/* Inputs, and behind them a tensor that is changed. */
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
    assert_same_shards(without_partial(tensor), without_partial(expected), what);
}

/* Some turns of one graph; every second one with other passes. Adds what they have done to *sum. */
static void run_random(uint64_t seed, weft_graph_info *sum)
{
    prng random = prng_start(seed);
    weft_scope_open();
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
    weft_graph *graph = weft_graph_new("random", run, &f, INPUTS + 1, 2, KEPT);
    unsigned passes = 0;
    for (int turn = 0; turn < 6; turn++) {
        if (turn % 3 == 0) {
            passes = (turn + seed) % 3 == 0 ? (unsigned)PASSES : (unsigned)prng_below(&random, WEFT_PASS_ALL + 1) & PASSES;
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
        weft_graph_info info;
        weft_graph_get_info(graph, &info);
        sum->redundant += info.redundant;
        sum->common += info.common;
        sum->dead += info.dead;
        sum->explicit_moves += info.explicit_moves;
        sum->bucketed += info.bucketed;
    }
    weft_graph_free(graph);
    weft_scope_close();
    assert_no_error();
}

static void f9_random_functions(void **state)
{
    (void)state;
    weft_graph_info sum = { 0 };
    int count = weft_num_processes() > 1 ? 120 : 300;
    for (int seed = 1; seed <= count; seed++) {
        run_random((uint64_t)seed, &sum);
    }
    print_message("# redundant %d, common %d, dead %d, explicit %d, bucketed %d\n", sum.redundant, sum.common, sum.dead,
                  sum.explicit_moves, sum.bucketed);
    assert_true(sum.redundant > 50 && sum.common > 50 && sum.dead > 50 && sum.explicit_moves > 20 && sum.bucketed > 50);
}

int main(int count, char *arguments[])
{
    (void)arguments;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f9_random_functions),
    };
    return RUN_ON_RANKS(count, tests);
}
