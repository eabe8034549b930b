/* A training step whose batch has another number of rows in each call, as a captured graph and without one: the time of a step on
 * sizes that are new, that come the second time (a graph builds what it executes then), and again.
 *
 *   us_first, us_second, us_again    a step, from its call to the end of its tasks: median over the sizes
 *   captures, templates              of the graph
 *
 * New sizes of both ways alternate and differ, so that no way finds the other one's plans. Several processes: mpirun bench-sizes. */
#include <string.h>

#include "bench.h"

enum { WIDTH = 64, HIDDEN = 96, MOST_SIZES = 2000 };

typedef struct model {
    weft_tensor *w1, *b1, *w2;
} model;

static weft_status step(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    model *m = context;
    weft_tensor *leaves[] = { m->w1, m->b1, m->w2 };
    weft_tensor *hidden = weft_gelu(weft_add(weft_matmul(inputs[0], m->w1), m->b1));
    weft_tensor *error = weft_sub(weft_matmul(hidden, m->w2), inputs[0]);
    weft_tensor *loss = weft_mean(weft_mul(error, error), WEFT_ALL_DIMS, false);
    weft_status status = weft_backward(loss, NULL);
    weft_tensor *gradients[] = { weft_grad(m->w1), weft_grad(m->b1), weft_grad(m->w2) };
    weft_sgd_options options = { .learning_rate = scalars[0] };
    status = status == WEFT_OK ? weft_sgd(3, leaves, gradients, &options, NULL) : status;
    status = status == WEFT_OK ? weft_zero_grad(3, leaves) : status;
    outputs[0] = weft_detach(loss);
    return status;
}

static weft_tensor *parameter(weft_mesh *mesh, int ndim, const int64_t shape[])
{
    weft_tensor *made = weft_full(WEFT_F32, 0.01, ndim, shape, mesh, NULL);
    bench_check();
    weft_set_requires_grad(made, true);
    return made;
}

static double time_step(weft_graph *graph, model *m, weft_mesh *mesh, int64_t rows)
{
    weft_placement split = weft_shard(0);
    double rate = 0.01;
    weft_scope_begin();
    weft_tensor *batch = weft_full(WEFT_F32, 1, 2, (int64_t[]){ rows, WIDTH }, mesh, &split), *loss;
    weft_wait();
    double start = bench_now_us();
    weft_status status = graph != NULL ? weft_graph_call(graph, &batch, &rate, &loss) : step(m, &batch, &rate, &loss);
    weft_wait();
    double us = bench_now_us() - start;
    if (status != WEFT_OK) {
        bench_check();
    }
    weft_scope_end();
    return us;
}

/* Three rounds over all sizes, eager sizes between those of the graph. */
static void measure(int num_sizes, int64_t least)
{
    static double eager[3][MOST_SIZES], captured[3][MOST_SIZES];
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ weft_world_size() }, NULL);
    model m = { parameter(mesh, 2, (int64_t[]){ WIDTH, HIDDEN }), parameter(mesh, 1, (int64_t[]){ HIDDEN }),
                parameter(mesh, 2, (int64_t[]){ HIDDEN, WIDTH }) };
    weft_graph *graph = weft_graph_create("step", step, &m, 1, 1, 1);
    time_step(graph, &m, mesh, least - 1);
    time_step(NULL, &m, mesh, least - 1);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < num_sizes; i++) {
            eager[round][i] = time_step(NULL, &m, mesh, least + 2 * i);
            captured[round][i] = time_step(graph, &m, mesh, least + 2 * i + 1);
        }
    }
    weft_graph_info info;
    weft_graph_get_info(graph, &info, sizeof(info));
    size_t n = (size_t)num_sizes;
    double e[] = { bench_median(eager[0], n), bench_median(eager[1], n), bench_median(eager[2], n) };
    double c[] = { bench_median(captured[0], n), bench_median(captured[1], n), bench_median(captured[2], n) };
    if (weft_first_rank() == 0) {
        printf("{\"benchmark\": \"sizes\", \"sizes\": %d, \"ranks\": %d, \"calls\": %d, \"us_first_eager\": %.0f, \"us_first\": %.0f, "
               "\"us_second_eager\": %.0f, \"us_second\": %.0f, \"us_again_eager\": %.0f, \"us_again\": %.0f, \"first_over_eager\": "
               "%.2f, \"captures\": %llu, \"templates\": %llu}\n",
               num_sizes, weft_world_size(), info.num_calls, e[0], c[0], e[1], c[1], e[2], c[2], c[0] / e[0],
               (unsigned long long)info.captures, (unsigned long long)info.templates);
    }
    weft_graph_destroy(graph);
}

int main(void)
{
    if (weft_init(NULL) != WEFT_OK) {
        bench_check();
    }
    measure(15, 32);
    measure(20, 200);
    measure(500, 1000);
    weft_finalize();
    return 0;
}
