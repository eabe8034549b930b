/* The code of docs/graphs.md, "A training step" and "A frozen step". */
#include <math.h>
#include <stdio.h>

#include <weft/weft.h>

typedef struct model { weft_tensor *w, *b; } model;

static weft_status step(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    model *m = context;
    weft_tensor *leaves[] = { m->w, m->b };
    weft_tensor *h = weft_tanh(weft_add(weft_matmul(inputs[0], m->w), m->b));
    weft_tensor *loss = weft_mean(weft_mul(h, h), WEFT_ALL_DIMS, false);
    weft_status status = weft_backward(loss, NULL);
    weft_tensor *gradients[] = { weft_grad(m->w), weft_grad(m->b) };
    weft_sgd_options options = { .learning_rate = scalars[0] };
    status = status == WEFT_OK ? weft_sgd(2, leaves, gradients, &options, NULL) : status;
    status = status == WEFT_OK ? weft_zero_grad(2, leaves) : status;
    outputs[0] = weft_detach(loss);
    return status;
}

static double schedule(int i)
{
    return 0.1 / (1 + i);
}

/* The last loss of `steps` steps from the same weights. */
static double train(int steps, bool frozen)
{
    const weft_placement rows = weft_shard(0);
    double value = NAN;
    weft_scope_begin();
    weft_random_seed(3);
    weft_tensor *batch = weft_randn(WEFT_F64, 2, (int64_t[]){ 10, 4 }, NULL, &rows), *loss = NULL;
    model m = { weft_randn(WEFT_F64, 2, (int64_t[]){ 4, 3 }, NULL, NULL), weft_zeros(WEFT_F64, 1, (int64_t[]){ 3 }, NULL, NULL) };
    weft_set_requires_grad(m.w, true);
    weft_set_requires_grad(m.b, true);
    weft_graph *graph = weft_graph_create("step", step, &m, 1, 1, 1);
    for (int i = 0; i < steps; i++) {
        double rate = 0.1 / (1 + i);
        weft_graph_call(graph, &batch, &rate, &loss);
    }
    if (frozen) {
        weft_graph_freeze(graph, true);
        for (int i = 0; i < steps; i++) {
            double rate = schedule(i);
            weft_graph_call(graph, &batch, &rate, &loss);      /* the function is called in the first three */
        }
        weft_graph_freeze(graph, false);
    }
    weft_tensor_item(loss, &value);
    weft_graph_destroy(graph);
    weft_scope_end();
    return value;
}

int main(void)
{
    weft_config config = WEFT_CONFIG_DEFAULT;
    config.ranks = 2;
    weft_init(&config);
    weft_mesh_push(weft_mesh_create(1, (int64_t[]){ 2 }, NULL));
    double first = train(1, false), later = train(8, false), last = train(8, true);
    int failed = weft_last_status() != WEFT_OK || !(later < first && last < later);
    if (failed) {
        fprintf(stderr, "losses %g, %g, %g: %s\n", first, later, last, weft_last_error());
    }
    weft_finalize();
    return failed;
}
