/* Each pass over captured graphs on and off, alternating: time of a run, bytes moved between ranks, bytes that fused tasks read and
 * write and would have read and written apart, the most bytes of tensors at once, calls, tasks.
 *
 *   parameters       a data-parallel step with 200 small parameters, each updated as soon as its gradient is complete
 *   redistributions  values that are moved to layouts twice, back, and through others
 *   chain            200 elementwise calls, one after the other
 *   mlp              a gelu MLP, forward
 *   layer            a layer of a transformer, forward: attention, norms, MLP
 *   large_chain      12 elementwise calls on 4 MB
 *   large_mlp        the elementwise part of a gelu MLP of 4 MB, after a product: bias, gelu, scale, residual
 *   adam             Adam by elementwise calls, of four parameters of 1 MB
 *
 * In one process with four ranks, or under mpirun with one for each process. "without": all passes but this one; "none": no
 * pass; "all": all of them. */
#include <string.h>

#include "bench.h"
#include "graph_runs.h"

enum { LARGE_CALLS = 12, LARGE_ROWS = 4096, LARGE_COLUMNS = 256, ADAM_PARAMETERS = 4, ADAM_ROWS = 1024 };
enum { PARAMETERS = 200, CALLS = 200, WIDTH = 64, HEADS = 4, RUNS = 10, MAX_TENSORS = 2 * PARAMETERS };

typedef struct program {
    const char *name;
    weft_graph_function run;
    int num_inputs;
    bool is_large;
} program;

/* ---- programs -------------------------------------------------------------------------------------------- */

static weft_status parameters(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context;
    weft_tensor *x = inputs[0];
    for (int i = 1; i <= PARAMETERS; i++) {
        x = weft_tanh(weft_add(x, inputs[i]));
        weft_tensor *gradient = weft_redistribute(weft_sum(x, 0, false), NULL, NULL);
        weft_add_inplace(inputs[i], gradient, -scalars[0]);
    }
    outputs[0] = x;
    return WEFT_OK;
}

static weft_status redistributions(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context, (void)scalars;
    const weft_placement rows = weft_shard(0), columns = weft_shard(1);
    weft_tensor *x = inputs[0];
    for (int i = 0; i < 10; i++) {
        weft_tensor *there = weft_redistribute(x, NULL, &columns), *again = weft_redistribute(x, NULL, &columns);
        weft_tensor *back = weft_redistribute(there, NULL, &rows);
        weft_tensor *through = weft_redistribute(weft_redistribute(weft_tanh(x), NULL, NULL), NULL, &columns);
        x = weft_redistribute(weft_add(weft_add(there, again), through), NULL, &rows);
        x = weft_tanh(weft_add(x, back));
    }
    outputs[0] = x;
    return WEFT_OK;
}

static weft_status chain(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context;
    outputs[0] = chain_of(inputs[0], inputs[0], CALLS, scalars[0]);
    return WEFT_OK;
}

static weft_tensor *feed_forward(weft_tensor *x, weft_tensor *up, weft_tensor *down)
{
    return weft_matmul(weft_gelu(weft_matmul(x, up)), down);
}

/* Inputs: x, up, down. */
static weft_status mlp(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context, (void)scalars;
    outputs[0] = weft_add(inputs[0], feed_forward(inputs[0], inputs[1], inputs[2]));
    return WEFT_OK;
}

static weft_tensor *heads(weft_tensor *x, weft_tensor *weights)
{
    const int64_t shape[] = { -1, HEADS, WIDTH / HEADS };
    return weft_transpose(weft_reshape(weft_matmul(x, weights), 3, shape), 0, 1);
}

/* Inputs: x, up, down, and the weights of queries, keys, values and of the output. */
static weft_status layer(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context;
    const int64_t shape[] = { -1, WIDTH };
    weft_tensor *x = inputs[0];
    weft_tensor *normed = weft_sub(x, weft_mean(x, -1, true));
    weft_tensor *q = heads(normed, inputs[3]), *k = heads(normed, inputs[4]), *v = heads(normed, inputs[5]);
    weft_tensor *weights = weft_softmax(weft_scale(weft_matmul(q, weft_transpose(k, -1, -2)), scalars[0]), -1);
    weft_tensor *mixed = weft_reshape(weft_transpose(weft_matmul(weights, v), 0, 1), 2, shape);
    x = weft_add(x, weft_matmul(mixed, inputs[6]));
    outputs[0] = weft_add(x, feed_forward(weft_sub(x, weft_mean(x, -1, true)), inputs[1], inputs[2]));
    return WEFT_OK;
}

static weft_status large_chain(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context;
    outputs[0] = chain_of(weft_cumsum(inputs[0], 1), inputs[0], LARGE_CALLS, scalars[0]); /* cumsum is not fused */
    return WEFT_OK;
}

/* Inputs: x, a product's weights, a bias. */
static weft_status large_mlp(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context;
    weft_tensor *h = weft_add(weft_matmul(inputs[0], inputs[1]), inputs[2]);
    outputs[0] = weft_add(inputs[0], weft_scale(weft_gelu(h), scalars[0]));
    return WEFT_OK;
}

/* Inputs: an unused one, then parameters, gradients, first moments, second moments. */
static weft_status adam(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context;
    for (int i = 1; i <= ADAM_PARAMETERS; i++) {
        weft_tensor *parameter = inputs[i], *gradient = inputs[ADAM_PARAMETERS + i];
        weft_tensor *first = inputs[2 * ADAM_PARAMETERS + i], *second = inputs[3 * ADAM_PARAMETERS + i];
        weft_add_inplace(weft_scale_inplace(first, 0.9), gradient, 0.1);
        weft_add_inplace(weft_scale_inplace(second, 0.999), weft_mul(gradient, gradient), 0.001);
        weft_add_inplace(parameter, weft_div(first, weft_add_scalar(weft_sqrt(second), 1e-8)), -scalars[0]);
    }
    outputs[0] = inputs[0];
    return WEFT_OK;
}

/* ---- measurement ----------------------------------------------------------------------------------------- */

static double run(weft_graph *graph, weft_tensor *const inputs[])
{
    double submission;
    return time_runs(RUNS, graph, NULL, inputs, &submission) / RUNS;
}

typedef struct variant {
    const char *name;
    unsigned passes;
    weft_graph *graph;
    double us[BENCH_REPETITIONS];
    weft_counters used; /* by RUNS runs */
    uint64_t fused_bytes, saved_bytes;
} variant;

static void count(variant *v, weft_tensor *const inputs[], int turn)
{
    weft_counters before, after;
    weft_graph_info former, info;
    weft_get_counters(&before, sizeof(before));
    weft_graph_get_info(v->graph, &former, sizeof(former));
    v->us[turn] = run(v->graph, inputs);
    weft_get_counters(&after, sizeof(after));
    weft_graph_get_info(v->graph, &info, sizeof(info));
    v->fused_bytes = info.fused_bytes - former.fused_bytes;
    v->saved_bytes = info.saved_bytes - former.saved_bytes;
    v->used.tasks = after.tasks - before.tasks;
    v->used.bytes_moved = after.bytes_moved - before.bytes_moved;
    v->used.messages = after.messages - before.messages;
}

/* Inputs: of one size for adam; else x, weights, and a bias. Values are small, so that many runs stay finite. */
static void make_large_inputs(const program *p, weft_tensor *inputs[])
{
    const weft_placement rows = weft_shard(0);
    const int64_t large[] = { p->run == adam ? ADAM_ROWS : LARGE_ROWS, LARGE_COLUMNS };
    const int64_t weights[] = { LARGE_COLUMNS, LARGE_COLUMNS };
    for (int i = 0; i < p->num_inputs; i++) {
        bool whole = p->run == large_mlp && i > 0;
        inputs[i] = whole && i == 2 ? weft_full(WEFT_F32, 0.01, 1, large + 1, NULL, NULL)
                                    : weft_full(WEFT_F32, 0.01, 2, whole ? weights : large, NULL, whole ? NULL : &rows);
    }
}

static void make_inputs(const program *p, weft_tensor *inputs[])
{
    const weft_placement rows = weft_shard(0);
    bool small = p->run == parameters;
    if (p->is_large) {
        make_large_inputs(p, inputs);
        return;
    }
    inputs[0] = weft_randn(WEFT_F32, 2, (int64_t[]){ 64, WIDTH }, NULL, &rows);
    for (int i = 1; i < p->num_inputs; i++) {
        int64_t shape[] = { i == 2 ? 4 * WIDTH : WIDTH, i == 1 ? 4 * WIDTH : WIDTH };
        weft_tensor *values = small ? weft_zeros(WEFT_F32, 1, (int64_t[]){ WIDTH }, NULL, NULL)
                                    : weft_randn(WEFT_F32, 2, shape, NULL, NULL);
        inputs[i] = weft_scale(values, 0.1);
    }
}

static void measure(const program *p)
{
    variant variants[] = { { "all", WEFT_PASS_ALL },
                           { "none", WEFT_PASS_NONE },
                           { "without redundant", WEFT_PASS_ALL & ~WEFT_PASS_REDUNDANT },
                           { "without common", WEFT_PASS_ALL & ~WEFT_PASS_COMMON },
                           { "without dead", WEFT_PASS_ALL & ~WEFT_PASS_DEAD },
                           { "without bucket", WEFT_PASS_ALL & ~WEFT_PASS_BUCKET },
                           { "without fuse", WEFT_PASS_ALL & ~WEFT_PASS_FUSE },
                           { "without cluster", WEFT_PASS_ALL & ~WEFT_PASS_CLUSTER },
                           { "without memory", WEFT_PASS_ALL & ~WEFT_PASS_MEMORY },
                           { "without order", WEFT_PASS_ALL & ~WEFT_PASS_ORDER } };
    enum { VARIANTS = sizeof(variants) / sizeof(variants[0]) };
    weft_tensor *inputs[MAX_TENSORS];
    weft_scope_begin();
    make_inputs(p, inputs);
    for (int i = 0; i < VARIANTS; i++) {
        variants[i].graph = weft_graph_create(p->name, p->run, NULL, p->num_inputs, 1, 1);
        weft_graph_set_passes(variants[i].graph, variants[i].passes);
        run(variants[i].graph, inputs);
    }
    for (int turn = 0; turn < BENCH_REPETITIONS; turn++) {
        for (int i = 0; i < VARIANTS; i++) {
            count(&variants[i], inputs, turn);
        }
    }
    bench_check();
    double all = bench_median(variants[0].us, BENCH_REPETITIONS);
    for (int i = 0; i < VARIANTS; i++) {
        const variant *v = &variants[i];
        weft_graph_info info;
        weft_graph_get_info(v->graph, &info, sizeof(info));
        double us = i == 0 ? all : bench_median(variants[i].us, BENCH_REPETITIONS);
        if (weft_process_index() == 0) {
            printf("{\"benchmark\": \"graph_passes\", \"program\": \"%s\", \"passes\": \"%s\", \"us\": %.0f, "
                   "\"time_over_all\": %.2f, \"calls\": %d, \"recorded_calls\": %d, \"bytes_moved\": %llu, \"tasks\": %llu, "
                   "\"messages\": %llu, \"bucketed\": %d, \"buckets\": %d, \"fused_bytes\": %llu, \"fused_bytes_apart\": %llu, "
                   "\"peak_bytes\": %lld, \"foreseen_bytes\": %lld}\n",
                   p->name, v->name, us, us / all, info.num_body_calls, info.num_calls,
                   (unsigned long long)v->used.bytes_moved / RUNS, (unsigned long long)v->used.tasks / RUNS,
                   (unsigned long long)v->used.messages / RUNS, info.bucketed, info.buckets,
                   (unsigned long long)v->fused_bytes / RUNS, (unsigned long long)(v->fused_bytes + v->saved_bytes) / RUNS,
                   (long long)info.peak_bytes, (long long)info.foreseen_bytes);
            fflush(stdout);
        }
        weft_graph_destroy(v->graph);
    }
    weft_scope_end();
}

int main(int count_of_arguments, char **arguments)
{
    static const program programs[] = { { "parameters", parameters, PARAMETERS + 1 },
                                        { "redistributions", redistributions, 1 },
                                        { "chain", chain, 1 },
                                        { "mlp", mlp, 3 },
                                        { "layer", layer, 7 },
                                        { "large_chain", large_chain, 1, true },
                                        { "large_mlp", large_mlp, 3, true },
                                        { "adam", adam, 1 + 4 * ADAM_PARAMETERS, true } };
    weft_config config = { .ranks = 0, .local_ranks = getenv("OMPI_COMM_WORLD_SIZE") == NULL ? 4 : 1 };
    if (weft_init(&config) != WEFT_OK) {
        bench_check();
    }
    int64_t ranks = weft_world_size();
    weft_mesh_push(weft_mesh_create(1, &ranks, NULL));
    for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
        if (count_of_arguments < 2 || strcmp(arguments[1], programs[i].name) == 0) {
            measure(&programs[i]);
        }
    }
    return weft_finalize() == WEFT_OK ? 0 : 1;
}
