/* Calls for bench/instructions.py, which counts the instructions of the calling thread in them.
 *
 * Usage: bench-instructions CASE RANKS COUNT
 *
 *   eager      weft_add() of two tensors, COUNT times
 *   matmul     weft_matmul() of two matrices, COUNT times
 *   recorded   one of them requires a gradient
 *   replayed   weft_graph_call() of a graph of CALLS additions
 *   frozen     the same, frozen */
#include <string.h>

#include "bench.h"

enum { CALLS = 16, SIZE = 4, WARM = 20 };

typedef weft_tensor *operation(weft_tensor *a, weft_tensor *b);

static weft_status chain(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context;
    (void)scalars;
    outputs[0] = inputs[0];
    for (int i = 0; i < CALLS && outputs[0] != NULL; i++) {
        outputs[0] = weft_add(outputs[0], inputs[1]);
    }
    return weft_last_status();
}

static void run(weft_tensor *tensors[], operation *call, weft_graph *graph)
{
    weft_tensor *sum;
    weft_scope_begin();
    if (graph == NULL) {
        call(tensors[0], tensors[1]);
    } else {
        weft_graph_call(graph, tensors, NULL, &sum);
    }
    weft_scope_end();
}

int main(int argc, char *argv[])
{
    if (argc != 4) {
        fprintf(stderr, "usage: %s eager|matmul|recorded|replayed|frozen RANKS COUNT\n", argv[0]);
        return 2;
    }
    const bool matmul = strcmp(argv[1], "matmul") == 0;
    const int64_t ranks = atoi(argv[2]), shape[] = { SIZE * ranks, SIZE * ranks };
    weft_config config = { .ranks = (int)ranks, .workers = 1 };
    weft_placement rows = weft_shard(0);
    weft_init(&config);
    weft_mesh *mesh = weft_mesh_create(1, &ranks, NULL);
    weft_tensor *tensors[] = { weft_ones(WEFT_F32, 1 + matmul, shape, mesh, &rows),
                               weft_ones(WEFT_F32, 1 + matmul, shape, mesh, matmul ? NULL : &rows) };
    const bool frozen = strcmp(argv[1], "frozen") == 0;
    weft_graph *graph =
        frozen || strcmp(argv[1], "replayed") == 0 ? weft_graph_create("chain", chain, NULL, 2, 0, 1) : NULL;
    if (strcmp(argv[1], "recorded") == 0) {
        weft_set_requires_grad(tensors[0], true);
    }
    for (int i = 0; i < WARM; i++) { /* captured, and from then on from caches */
        run(tensors, matmul ? weft_matmul : weft_add, graph);
        if (frozen && i == WARM / 2) {
            weft_graph_freeze(graph, true);
        }
    }
    for (int i = 0; i < atoi(argv[3]); i++) {
        run(tensors, matmul ? weft_matmul : weft_add, graph);
    }
    bench_check();
    weft_finalize();
    return 0;
}
