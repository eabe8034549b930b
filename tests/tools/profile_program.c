/* The program of tests/tools/test_profile.py: a product, an exchange and a sum over RANKS ranks; with a second argument as a
 * captured graph, which runs four times; each process prints weft's counters: "counted TASKS MESSAGES BYTES". Either every process hosts one rank, and the
 * bytes are those of messages, or one process hosts all, and there are no messages or bytes. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <weft/weft.h>

static weft_tensor *weights;

static weft_status step(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    const weft_placement rows = weft_shard(0), columns = weft_shard(1);
    (void)context, (void)scalars, (void)outputs;
    weft_tensor *y = weft_matmul(inputs[0], weights);
    weft_tensor_set_name(y, "y");
    weft_tensor *turned = weft_redistribute(y, NULL, &columns);
    weft_tensor *gradient =
        weft_matmul_ex(inputs[0], true, weft_gelu(weft_scale(weft_redistribute(turned, NULL, &rows), 0.5)), false);
    weft_tensor_set_name(gradient, "gradient");
    weft_add_inplace(weights, gradient, -1e-3);
    return weft_last_status();
}

static void work(bool captured)
{
    weft_placement everywhere = weft_replicate(), rows = weft_shard(0);
    weft_scope_begin();
    weft_tensor *x = weft_randn(WEFT_F32, 2, (int64_t[]){ 512, 256 }, NULL, &rows);
    weights = weft_randn(WEFT_F32, 2, (int64_t[]){ 256, 384 }, NULL, &everywhere);
    weft_tensor_set_name(weights, "a \"weight\"");
    weft_graph *graph = captured ? weft_graph_create("step", step, NULL, 1, 0, 0) : NULL;
    for (int i = 0; i < 3 + captured; i++) {
        (void)(captured ? weft_graph_call(graph, &x, NULL, NULL) : step(NULL, &x, NULL, NULL));
    }
    weft_scope_end();
}

int main(int argc, char *argv[])
{
    weft_config config = WEFT_CONFIG_DEFAULT;
    config.ranks = argc > 1 ? atoi(argv[1]) : 1;
    int64_t ranks = config.ranks;
    if (weft_init(&config) != WEFT_OK) {
        fprintf(stderr, "%s\n", weft_last_error());
        return EXIT_FAILURE;
    }
    weft_mesh_push(weft_mesh_create(1, &ranks, NULL));
    work(argc > 2);
    weft_counters counters;
    if (weft_wait() != WEFT_OK || weft_get_counters(&counters, sizeof(counters)) != WEFT_OK) {
        fprintf(stderr, "%s\n", weft_last_error());
        return EXIT_FAILURE;
    }
    uint64_t bytes = weft_num_processes() > 1 ? counters.bytes_moved : 0;
    printf("counted %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", counters.tasks, counters.messages, bytes);
    return weft_finalize() == WEFT_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
