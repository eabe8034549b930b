/* Texts that public functions take, in a world without data: equations of weft_einsum(), relations of graphs, layouts of plans. */
#include <weft/weft.h>

#include "fuzz.h"

static weft_tensor *tensors[4];
static weft_graph *graph;

static weft_status no_calls(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context, (void)inputs, (void)scalars, (void)outputs;
    return WEFT_OK;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    FUZZ_REQUIRE(weft_init(&(weft_config){ .world = WEFT_WORLD_FAKE, .fake_size = 4 }) == WEFT_OK);
    weft_mesh_push(weft_mesh_create(1, (int64_t[]){ 4 }, (const char *const[]){ "tp" }));
    static const int64_t shape[] = { 2, 3, 2, 3 };
    for (int i = 0; i < 4; i++) {
        tensors[i] = weft_fake(WEFT_F32, i + 1, shape, NULL, NULL);
    }
    graph = weft_graph_create("fuzz", no_calls, NULL, 3, 0, 0);
    return 0;
}

static void parallelize(const char *text)
{
    weft_module *module = weft_module_create("m"), *child = weft_module_create("c");
    weft_module_add_child(module, "child", child);
    weft_module_add_parameter(child, "weight", tensors[1]);
    const weft_parallel plan = { "**", WEFT_PARALLEL_LAYOUTS, "tp", text, text, text }, pattern = { text, WEFT_PARALLEL_DATA, "tp", NULL, NULL, NULL };
    weft_parallelize(module, NULL, 1, &pattern);
    weft_parallelize(module, NULL, 1, &plan);
    weft_module_destroy(module);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    char *text = fuzz_text(data + 1, size - 1);
    weft_scope_begin();
    if (data[0] % 4 == 0) {
        weft_graph_require(graph, text);
    } else if (data[0] % 4 == 1) {
        parallelize(text);
    } else {
        int count = data[0] / 4 % 8;
        weft_tensor *given[8];
        for (int i = 0; i < count; i++) {
            given[i] = tensors[(data[0] + i) % 4];
        }
        weft_einsum(text, count, given);
    }
    weft_scope_end();
    weft_clear_error();
    free(text);
    return 0;
}
