#include "module_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the network ----------------------------------------------------------------------------------------- */

static weft_mesh *alone(void)
{
    return weft_mesh_of_ranks(1, (int64_t[]){ 1 }, (int[]){ 0 }, NULL);
}

/* Integers from -2 to 2. */
static weft_tensor *integers(prng *random, int ndim, const int64_t shape[])
{
    double values[HIDDEN * VOCABULARY];
    for (int64_t i = 0; i < shape_count(ndim, shape); i++) {
        values[i] = (double)prng_below(random, 5) - 2;
    }
    return weft_distribute(WEFT_F64, ndim, shape, values, alone(), NULL);
}

static weft_status embed(weft_module *self, int num_inputs, weft_tensor *const inputs[], int num_outputs,
                         weft_tensor *outputs[], void *context)
{
    (void)context;
    (void)num_inputs;
    (void)num_outputs;
    outputs[0] = weft_embedding(weft_module_use(self, "weight"), inputs[0]);
    return WEFT_OK;
}

/* The sums of a norm would not be exact. */
static weft_status scale(weft_module *self, int num_inputs, weft_tensor *const inputs[], int num_outputs,
                         weft_tensor *outputs[], void *context)
{
    (void)context;
    (void)num_inputs;
    (void)num_outputs;
    outputs[0] = weft_mul(inputs[0], weft_module_use(self, "weight"));
    return WEFT_OK;
}

static weft_status apply_linear(weft_module *self, int num_inputs, weft_tensor *const inputs[], int num_outputs,
                                weft_tensor *outputs[], void *context)
{
    (void)context;
    (void)num_inputs;
    (void)num_outputs;
    weft_tensor *bias = weft_module_use(self, "bias"), *y = weft_matmul(inputs[0], weft_module_use(self, "weight"));
    outputs[0] = bias == NULL ? y : weft_add(y, bias);
    return WEFT_OK;
}

static weft_status block(weft_module *self, int num_inputs, weft_tensor *const inputs[], int num_outputs,
                         weft_tensor *outputs[], void *context)
{
    (void)context;
    (void)num_inputs;
    (void)num_outputs;
    weft_tensor *h = weft_module_call(weft_module_child(self, "norm"), inputs[0]);
    h = weft_relu(weft_module_call(weft_module_child(self, "up"), h));
    outputs[0] = weft_add(inputs[0], weft_module_call(weft_module_child(self, "down"), h));
    return WEFT_OK;
}

static weft_tensor *loss_of(weft_module *self, weft_tensor *logits, weft_tensor *classes, bool cross_entropy)
{
    if (!cross_entropy) {
        return weft_sum(weft_mul(logits, weft_module_use(self, "weights")), WEFT_ALL_DIMS, false);
    }
    weft_tensor *rows = weft_reshape(logits, 2, (int64_t[]){ BATCH * SEQUENCE, VOCABULARY });
    return weft_cross_entropy(rows, weft_reshape(classes, 1, (int64_t[]){ BATCH * SEQUENCE }), NULL);
}

static weft_status network(weft_module *self, int num_inputs, weft_tensor *const inputs[], int num_outputs,
                           weft_tensor *outputs[], void *context)
{
    assert_int_equal(num_inputs, 2);
    weft_tensor *x = weft_module_call(weft_module_child(self, "embed"), inputs[0]);
    for (int i = 0; i < LAYERS; i++) {
        char path[32];
        snprintf(path, sizeof(path), "layers.%d", i);
        x = weft_module_call(weft_module_child(self, path), x);
    }
    outputs[0] = weft_module_call(weft_module_child(self, "head"), x);
    if (num_outputs > 1) {
        outputs[1] = loss_of(self, outputs[0], inputs[1], context != NULL);
    }
    return WEFT_OK;
}

static weft_module *with_weight(const char *type, weft_forward_function forward, weft_tensor *weight)
{
    weft_module *module = weft_module_create(type);
    weft_module_add_parameter(module, "weight", weight);
    weft_module_set_forward(module, forward, NULL);
    return module;
}

static weft_module *linear(prng *random, int64_t in, int64_t out, bool has_bias)
{
    weft_module *module = with_weight("linear", apply_linear, integers(random, 2, (int64_t[]){ in, out }));
    weft_module_add_parameter(module, "bias", has_bias ? integers(random, 1, &out) : NULL);
    return module;
}

static weft_module *block_new(prng *random)
{
    const int64_t width = WIDTH;
    weft_module *module = weft_module_create("block");
    weft_module_add_child(module, "norm", with_weight("norm", scale, integers(random, 1, &width)));
    weft_module_add_child(module, "up", linear(random, WIDTH, HIDDEN, true));
    weft_module_add_child(module, "down", linear(random, HIDDEN, WIDTH, true));
    weft_module_set_forward(module, block, NULL);
    return module;
}

weft_module *network_new(bool cross_entropy)
{
    static char is_cross_entropy;
    prng random = { 7 };
    weft_module *root = weft_module_create("network"), *layers = weft_module_create("list");
    weft_module_add_child(root, "embed",
                          with_weight("table", embed, integers(&random, 2, (int64_t[]){ VOCABULARY, WIDTH })));
    weft_module_add_child(root, "layers", layers);
    for (int i = 0; i < LAYERS; i++) {
        char name[16];
        snprintf(name, sizeof(name), "%d", i);
        weft_module_add_child(layers, name, block_new(&random));
    }
    weft_module_add_child(root, "head", linear(&random, WIDTH, VOCABULARY, false));
    weft_module_add_buffer(root, "weights", integers(&random, 1, (int64_t[]){ VOCABULARY }));
    weft_module_set_forward(root, network, cross_entropy ? &is_cross_entropy : NULL);
    assert_no_error();
    return root;
}

weft_tensor *network_tokens(int seed)
{
    prng random = { (uint64_t)seed };
    int32_t values[BATCH * SEQUENCE];
    for (int i = 0; i < BATCH * SEQUENCE; i++) {
        values[i] = (int32_t)prng_below(&random, VOCABULARY);
    }
    return weft_distribute(WEFT_I32, 2, (int64_t[]){ BATCH, SEQUENCE }, values, alone(), NULL);
}

weft_status network_forward(weft_module *root, weft_mesh *mesh, weft_tensor *outputs[2])
{
    weft_tensor *inputs[2];
    for (int i = 0; i < 2; i++) {
        weft_tensor *tokens = network_tokens(i + 1);
        inputs[i] = mesh == NULL ? tokens : weft_redistribute(tokens, mesh, NULL);
    }
    return weft_module_forward(root, 2, inputs, 2, outputs);
}

int network_world_start(void **state)
{
    (void)state;
    return WORLD(NETWORK_RANKS);
}

int network_world_stop(void **state)
{
    (void)state;
    return weft_finalize() == WEFT_OK ? 0 : -1;
}

/* ---- plans ----------------------------------------------------------------------------------------------- */

#define TENSOR_PARALLEL                                                                                      \
    { "embed", WEFT_PARALLEL_EMBEDDING, "tp" }, { "layers.*.up", WEFT_PARALLEL_COLUMNS, "tp" },              \
        { "layers.*.down", WEFT_PARALLEL_ROWS, "tp" }, { "head", WEFT_PARALLEL_COLUMNS, "tp" }

static const weft_parallel tp[] = { TENSOR_PARALLEL };
static const weft_parallel tp_dp[] = { TENSOR_PARALLEL, { "", WEFT_PARALLEL_DATA, "dp" } };
static const weft_parallel sequence[] = {
    { "embed", WEFT_PARALLEL_EMBEDDING, "tp", NULL, "S1", NULL },
    { "layers.*.norm", WEFT_PARALLEL_SEQUENCE, "tp" },
    { "layers.*.up", WEFT_PARALLEL_COLUMNS, "tp" },
    { "layers.*.down", WEFT_PARALLEL_ROWS, "tp", NULL, "S1", NULL },
    { "head", WEFT_PARALLEL_COLUMNS, "tp" },
};
static const weft_parallel dp[] = { { "", WEFT_PARALLEL_DATA, "dp" } };
static const weft_parallel fsdp[] = { { "**", WEFT_PARALLEL_FULLY_SHARDED, "dp" } };
static const weft_parallel tp_fsdp[] = { TENSOR_PARALLEL, { "**", WEFT_PARALLEL_FULLY_SHARDED, "dp" } };
/* Both shardings on one dimension of each tensor. */
static const weft_parallel one_dimension[] = {
    { "layers.*.up", WEFT_PARALLEL_COLUMNS, "tp" },
    { "layers.*.down", WEFT_PARALLEL_ROWS, "tp" },
    { "layers.*.up", WEFT_PARALLEL_FULLY_SHARDED, "dp", NULL, NULL, "S-1" },
    { "layers.*.down", WEFT_PARALLEL_FULLY_SHARDED, "dp", NULL, NULL, "S0" },
    { "", WEFT_PARALLEL_DATA, "dp" },
};
static const weft_parallel sequence_fsdp[] = {
    { "embed", WEFT_PARALLEL_EMBEDDING, "tp", NULL, "S1", NULL },
    { "layers.*.norm", WEFT_PARALLEL_SEQUENCE, "tp" },
    { "layers.*.up", WEFT_PARALLEL_COLUMNS, "tp" },
    { "layers.*.down", WEFT_PARALLEL_ROWS, "tp", NULL, "S1", NULL },
    { "head", WEFT_PARALLEL_COLUMNS, "tp" },
    { "**", WEFT_PARALLEL_FULLY_SHARDED, "dp" },
};
/* Fully sharded in groups, replicated between them. */
static const weft_parallel hybrid[] = {
    { "**", WEFT_PARALLEL_FULLY_SHARDED, "shard" },
    { "", WEFT_PARALLEL_DATA, "replica", "S0,S0", NULL, NULL },
};

#define PLAN(entries) entries, (int)(sizeof(entries) / sizeof(*(entries)))
const named_plan plans[] = {
    { "tp", { "tp" }, PLAN(tp) },
    { "sequence", { "tp" }, PLAN(sequence) },
    { "dp", { "dp" }, PLAN(dp) },
    { "fsdp", { "dp" }, PLAN(fsdp) },
    { "dp, tp", { "dp", "tp" }, PLAN(tp_dp) },
    { "fsdp, tp", { "dp", "tp" }, PLAN(tp_fsdp) },
    { "tp, fsdp", { "tp", "dp" }, PLAN(tp_fsdp) },
    { "fsdp, tp on one dimension", { "dp", "tp" }, PLAN(one_dimension) },
    { "tp, fsdp on one dimension", { "tp", "dp" }, PLAN(one_dimension) },
    { "fsdp, sequence", { "dp", "tp" }, PLAN(sequence_fsdp) },
    { "hybrid", { "replica", "shard" }, PLAN(hybrid) },
    { NULL, { NULL }, NULL, 0 },
};

weft_mesh *mesh_for(const named_plan *plan, const int64_t shape[])
{
    int ndim = plan->mesh_names[1] == NULL ? 1 : 2;
    return weft_mesh_create(ndim, shape, plan->mesh_names);
}

static const int64_t lines[][2] = { { 2, 1 }, { 3, 1 }, { 6, 1 } }, grids[][2] = { { 2, 3 }, { 3, 2 }, { 1, 4 }, { 6, 1 } };

int num_meshes(const named_plan *plan)
{
    return plan->mesh_names[1] == NULL ? (int)(sizeof(lines) / sizeof(*lines)) : (int)(sizeof(grids) / sizeof(*grids));
}

weft_mesh *mesh_number(const named_plan *plan, int number)
{
    return mesh_for(plan, plan->mesh_names[1] == NULL ? lines[number] : grids[number]);
}
