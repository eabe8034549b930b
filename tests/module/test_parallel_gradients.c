/* Ready partition functions with gradients: those of all parameters, in every parallel style, are those of one rank,
 * in their parameters' layouts. And the traps that PyTorch's modules have had, each by the number of its issue. */
#include "module_support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = HIDDEN * VOCABULARY };

/* Adds the gradients of the network's loss to its parameters; `mesh` NULL: on rank 0 alone. */
static void run_backward(weft_module *root, weft_mesh *mesh)
{
    weft_tensor *outputs[2];
    weft_scope_begin();
    assert_int_equal(network_forward(root, mesh, outputs), WEFT_OK);
    assert_int_equal(weft_backward(outputs[1], NULL), WEFT_OK);
    weft_scope_end();
    assert_no_error();
}

/* The gradients of all parameters. */
typedef struct gradients {
    int count;
    char names[MAX_PARAMETERS][32];
    double values[MAX_PARAMETERS][MOST];
} gradients;

static void read_gradients(weft_module *root, gradients *g)
{
    weft_tensor *parameters[MAX_PARAMETERS];
    const char *names[MAX_PARAMETERS];
    g->count = weft_module_parameters(root, MAX_PARAMETERS, names, parameters);
    assert_true(g->count > 0 && g->count <= MAX_PARAMETERS);
    for (int i = 0; i < g->count; i++) {
        snprintf(g->names[i], sizeof(g->names[i]), "%s", names[i]);
        weft_tensor *gradient = weft_grad(parameters[i]);
        assert_non_null(gradient);
        assert_ptr_equal(weft_tensor_mesh(gradient), weft_tensor_mesh(parameters[i]));
        assert_memory_equal(weft_tensor_placements(gradient), weft_tensor_placements(parameters[i]),
                            (size_t)weft_mesh_ndim(weft_tensor_mesh(gradient)) * sizeof(weft_placement));
        assert_shards(gradient, NULL, NULL, g->names[i]);
        assert_int_equal(weft_to_host(gradient, g->values[i], sizeof(g->values[i])), WEFT_OK);
    }
}

/* `tolerance` 0: the same bits. */
static void compare(const char *what, weft_module *root, const gradients *expected, double tolerance)
{
    static gradients found;
    read_gradients(root, &found);
    assert_int_equal(found.count, expected->count);
    for (int i = 0; i < found.count; i++) {
        assert_string_equal(found.names[i], expected->names[i]);
        int64_t count = weft_tensor_num_elements(weft_module_parameter(root, found.names[i]));
        for (int64_t k = 0; k < count; k++) {
            double right = expected->values[i][k], off = fabs(found.values[i][k] - right);
            if (!(off <= tolerance * (1 + fabs(right)))) {
                fail_msg("%s: gradient of %s at %d is %g, expected %g", what, found.names[i], (int)k, found.values[i][k],
                         right);
            }
        }
    }
}

static void all_plans(bool cross_entropy, double tolerance)
{
    static gradients expected;
    weft_scope_begin();
    weft_module *alone = network_new(cross_entropy);
    run_backward(alone, NULL);
    read_gradients(alone, &expected);
    for (const named_plan *plan = plans; plan->name != NULL; plan++) {
        for (int m = 0; m < num_meshes(plan); m++) {
            char what[80];
            weft_scope_begin();
            weft_mesh *mesh = mesh_number(plan, m);
            weft_module *root = network_new(cross_entropy);
            assert_int_equal(weft_parallelize(root, mesh, plan->count, plan->entries), WEFT_OK);
            run_backward(root, mesh);
            snprintf(what, sizeof(what), "%s, mesh %d", plan->name, m);
            compare(what, root, &expected, tolerance);
            weft_module_destroy(root);
            weft_scope_end();
        }
    }
    weft_module_destroy(alone);
    weft_scope_end();
    assert_no_error();
}

static void test_g3_gradients_are_those_of_one_rank(void **state)
{
    (void)state;
    all_plans(false, 0);
}

static void test_g3_gradients_of_cross_entropy_on_a_sharded_vocabulary(void **state)
{
    (void)state;
    all_plans(true, 1e-12);
}

/* ---- leaves ---------------------------------------------------------------------------------------------- */

static void test_g1_parameters_are_leaves(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ 3 }, NULL);
    weft_module *root = network_new(false);
    weft_tensor *up = weft_module_parameter(root, "layers.0.up.weight");
    assert_true(weft_is_leaf(up));
    assert_false(weft_requires_grad(weft_module_buffer(root, "weights")));
    assert_int_equal(weft_set_requires_grad(weft_module_parameter(root, "head.weight"), false), WEFT_OK);
    static const weft_parallel plan[] = { { "**", WEFT_PARALLEL_FULLY_SHARDED } };
    assert_int_equal(weft_parallelize(root, mesh, 1, plan), WEFT_OK);
    /* The distributed ones: still leaves, but for those that were none. */
    assert_true(weft_module_parameter(root, "layers.0.up.weight") != up);
    assert_true(weft_is_leaf(weft_module_parameter(root, "layers.0.up.weight")));
    assert_false(weft_requires_grad(weft_module_parameter(root, "head.weight")));
    assert_false(weft_requires_grad(weft_module_buffer(root, "weights")));
    weft_tensor *zeros = weft_zeros_like(weft_module_parameter(root, "head.weight"));
    assert_int_equal(weft_module_set_tensor(root, "head.weight", zeros), WEFT_OK);
    assert_false(weft_requires_grad(zeros));
    weft_tensor *others = weft_zeros_like(weft_module_parameter(root, "layers.0.up.weight"));
    assert_int_equal(weft_module_set_tensor(root, "layers.0.up.weight", others), WEFT_OK);
    assert_true(weft_is_leaf(others));
    /* Its redistributed version: computed from a leaf, and a leaf itself here. */
    weft_tensor *whole = weft_redistribute(others, NULL, NULL);
    assert_false(weft_is_leaf(whole));
    assert_int_equal(weft_module_set_tensor(root, "layers.0.up.weight", whole), WEFT_OK);
    assert_true(weft_is_leaf(weft_module_parameter(root, "layers.0.up.weight")));
    assert_false(weft_is_leaf(whole));
    weft_module_destroy(root);
    weft_scope_end();
    assert_no_error();
}

static void test_g1_tied_parameters_have_one_gradient(void **state)
{
    (void)state;
    static const weft_parallel plan[] = { { "**", WEFT_PARALLEL_FULLY_SHARDED } };
    static gradients expected;
    for (int parallel = 0; parallel < 2; parallel++) {
        weft_scope_begin();
        weft_mesh *mesh = parallel ? weft_mesh_create(1, (int64_t[]){ 4 }, NULL) : NULL;
        weft_module *root = network_new(false);
        weft_tensor *shared = weft_module_parameter(root, "layers.0.up.weight");
        assert_int_equal(weft_module_set_tensor(root, "layers.1.up.weight", shared), WEFT_OK);
        if (parallel) {
            assert_int_equal(weft_parallelize(root, mesh, 1, plan), WEFT_OK);
        }
        assert_ptr_equal(weft_module_parameter(root, "layers.0.up.weight"),
                         weft_module_parameter(root, "layers.1.up.weight"));
        run_backward(root, mesh);
        if (parallel) {
            compare("tied", root, &expected, 0);
        } else {
            read_gradients(root, &expected);
        }
        weft_module_destroy(root);
        weft_scope_end();
        assert_no_error();
    }
}

/* Modules may go before the backward pass: the tape has what it needs. */
static void test_g1_backward_after_the_modules(void **state)
{
    (void)state;
    static const weft_parallel plan[] = { { "**", WEFT_PARALLEL_FULLY_SHARDED } };
    weft_scope_begin();
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ 3 }, NULL);
    weft_module *root = network_new(false);
    assert_int_equal(weft_parallelize(root, mesh, 1, plan), WEFT_OK);
    weft_tensor *embedding = weft_module_parameter(root, "embed.weight"), *outputs[2];
    weft_tensor_retain(embedding);
    weft_tensor *inputs[] = { network_tokens(1), network_tokens(2) };
    assert_int_equal(weft_module_forward(root, 2, inputs, 2, outputs), WEFT_OK);
    weft_module_destroy(root);
    assert_int_equal(weft_backward(outputs[1], NULL), WEFT_OK);
    assert_non_null(weft_grad(embedding));
    weft_tensor_release(embedding);
    weft_scope_end();
    assert_no_error();
}

/* A network in a segment that is computed again: gathered parameters too. */
static weft_status run_network(void *context, int num_inputs, weft_tensor *const inputs[], int num_outputs,
                               weft_tensor *outputs[])
{
    return weft_module_forward(*(weft_module **)context, num_inputs, inputs, num_outputs, outputs);
}

static void test_g3_modules_in_segments_that_are_computed_again(void **state)
{
    (void)state;
    static gradients expected;
    weft_scope_begin();
    weft_module *alone = network_new(false);
    run_backward(alone, NULL);
    read_gradients(alone, &expected);
    for (const named_plan *plan = plans; plan->name != NULL; plan++) {
        weft_scope_begin();
        weft_mesh *mesh = mesh_number(plan, 0);
        weft_module *root = network_new(false);
        assert_int_equal(weft_parallelize(root, mesh, plan->count, plan->entries), WEFT_OK);
        weft_tensor *inputs[2], *outputs[2];
        for (int i = 0; i < 2; i++) {
            inputs[i] = weft_redistribute(network_tokens(i + 1), mesh, NULL);
        }
        assert_int_equal(weft_recompute(run_network, &root, sizeof(root), 2, inputs, 2, outputs), WEFT_OK);
        assert_int_equal(weft_backward(outputs[1], NULL), WEFT_OK);
        compare(plan->name, root, &expected, 0);
        weft_module_destroy(root);
        weft_scope_end();
    }
    weft_module_destroy(alone);
    weft_scope_end();
    assert_no_error();
}

/* ---- traps ----------------------------------------------------------------------------------------------- */

/* The network under a plan on a mesh (dp, tp) of 2 x 3 has the gradients of one rank. */
static void assert_right_gradients(const char *what, int count, const weft_parallel plan[], bool inputs_given)
{
    static gradients expected;
    weft_scope_begin();
    weft_module *alone = network_new(false), *root = network_new(false);
    run_backward(alone, NULL);
    read_gradients(alone, &expected);
    weft_mesh *mesh = weft_mesh_create(2, (int64_t[]){ 2, 3 }, (const char *[]){ "dp", "tp" });
    assert_int_equal(weft_parallelize(root, mesh, count, plan), WEFT_OK);
    run_backward(root, inputs_given ? mesh : NULL);
    compare(what, root, &expected, 0);
    weft_module_destroy(root);
    weft_module_destroy(alone);
    weft_scope_end();
    assert_no_error();
}

/* PyTorch issue 172932: a value that is passed on as addends, or reduced at once, has one gradient. */
static void test_issue_172932_addends_passed_on_or_reduced(void **state)
{
    (void)state;
    static const weft_parallel reduced[] = { { "**.up", WEFT_PARALLEL_COLUMNS, "tp" },
                                             { "**.down", WEFT_PARALLEL_ROWS, "tp" } };
    static const weft_parallel passed_on[] = { { "**.up", WEFT_PARALLEL_COLUMNS, "tp" },
                                               { "**.down", WEFT_PARALLEL_ROWS, "tp", NULL, "-", NULL } };
    assert_right_gradients("reduced", 2, reduced, true);
    assert_right_gradients("passed on", 2, passed_on, true);
}

/* PyTorch pull request 175867: the input of a column-wise layer is Replicate, its gradients are addends: reduced once,
 * also where two layers have one input. */
static weft_status two_layers(weft_module *self, int num_inputs, weft_tensor *const inputs[], int num_outputs,
                              weft_tensor *outputs[], void *context)
{
    (void)num_inputs;
    (void)num_outputs;
    (void)context;
    outputs[0] = weft_add(weft_matmul(inputs[0], weft_module_use(self, "first")),
                          weft_matmul(inputs[0], weft_module_use(self, "second")));
    return WEFT_OK;
}

/* Bytes that hosted ranks have got in a region. */
static uint64_t bytes_in(const char *region)
{
    weft_region_counters counters[64];
    int count = weft_region_counts(64, counters);
    uint64_t bytes = 0;
    assert_true(count >= 0 && count <= 64);
    for (int i = 0; i < count; i++) {
        bytes += strcmp(counters[i].region, region) == 0 ? counters[i].bytes : 0;
    }
    return bytes;
}

static void test_issue_175867_input_gradient_of_column_wise_layers(void **state)
{
    (void)state;
    static const weft_parallel plan[] = { { "", WEFT_PARALLEL_COLUMNS } };
    const int64_t shape[] = { 5, 60 }, weights[] = { 60, 70 };
    weft_scope_begin();
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ 3 }, NULL);
    weft_module *module = weft_module_create("two");
    weft_module_add_parameter(module, "first", weft_full(WEFT_F64, 2, 2, weights, mesh, NULL));
    weft_module_add_parameter(module, "second", weft_full(WEFT_F64, 3, 2, weights, mesh, NULL));
    weft_module_set_forward(module, two_layers, NULL);
    assert_int_equal(weft_parallelize(module, mesh, 1, plan), WEFT_OK);
    weft_tensor *x = weft_ones(WEFT_F64, 2, shape, mesh, NULL);
    assert_int_equal(weft_set_requires_grad(x, true), WEFT_OK);
    weft_tensor *loss = weft_sum(weft_relu(weft_module_call(module, x)), WEFT_ALL_DIMS, false);
    weft_region_begin("backward", 0);
    assert_int_equal(weft_backward(loss, NULL), WEFT_OK);
    weft_region_end();
    double values[300];
    assert_int_equal(weft_to_host(weft_grad(x), values, sizeof(values)), WEFT_OK);
    for (int i = 0; i < 300; i++) {
        assert_true(values[i] == 350); /* 70 columns of 2 + 3; not 3 times that */
    }
    /* As many bytes as one reduction of addends of this shape. */
    weft_placement columns = weft_shard(1), rows = weft_shard(0);
    weft_tensor *addends = weft_matmul(weft_ones(WEFT_F64, 2, shape, mesh, &columns),
                                       weft_ones(WEFT_F64, 2, (int64_t[]){ 60, 60 }, mesh, &rows));
    assert_int_equal(weft_tensor_placements(addends)[0].kind, WEFT_PARTIAL);
    weft_region_begin("once", 0);
    assert_non_null(weft_redistribute(addends, NULL, NULL));
    weft_region_end();
    assert_int_equal(bytes_in("backward"), bytes_in("once"));
    weft_module_destroy(module);
    weft_scope_end();
    assert_no_error();
}

/* torchtitan issue 2106: the gradient of a parameter that is Replicate along "tp", and whose module computes the same
 * there on all ranks, is not the size of "tp" times too large. */
static void test_issue_2106_replicated_parameters_beside_sharded_ones(void **state)
{
    (void)state;
    static const weft_parallel plan[] = {
        { "", WEFT_PARALLEL_DATA, "dp" },
        { "layers.*.norm", WEFT_PARALLEL_LAYOUTS, "tp", "R", "R", NULL },
        { "layers.*.up", WEFT_PARALLEL_COLUMNS, "tp" },
        { "layers.*.down", WEFT_PARALLEL_ROWS, "tp" },
    };
    assert_right_gradients("replicated beside sharded", 4, plan, true);
}

/* A gradient for each parameter of a network, of this many times those of the loss. */
static void clip(weft_module *root, double factor, double max_norm, double *norm, gradients *g)
{
    weft_tensor *parameters[MAX_PARAMETERS], *found[MAX_PARAMETERS], *total = NULL;
    int count = weft_module_parameters(root, MAX_PARAMETERS, NULL, parameters);
    for (int i = 0; i < count; i++) {
        found[i] = weft_grad(parameters[i]);
        assert_non_null(weft_scale_inplace(found[i], factor));
    }
    assert_int_equal(weft_clip_grad_norm(count, found, max_norm, 2, &total), WEFT_OK);
    assert_int_equal(weft_tensor_item(total, norm), WEFT_OK);
    read_gradients(root, g);
}

static void clip_on(weft_module *root, weft_mesh *mesh, double factor, double max_norm, double *norm, gradients *g)
{
    run_backward(root, mesh);
    clip(root, factor, max_norm, norm, g);
    assert_no_error();
}

/* PyTorch issue 149768: the 1e-6 beside the norm is added once, not once for each rank. The norm is about as small. */
static void test_issue_149768_epsilon_of_clipping_is_added_once(void **state)
{
    (void)state;
    static const weft_parallel plan[] = { { "**", WEFT_PARALLEL_FULLY_SHARDED } };
    static gradients expected, found;
    weft_scope_begin();
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ NETWORK_RANKS }, NULL);
    weft_module *alone = network_new(false), *root = network_new(false);
    double norm, sharded_norm;
    assert_int_equal(weft_parallelize(root, mesh, 1, plan), WEFT_OK);
    run_backward(alone, NULL);
    clip(alone, 1, INFINITY, &norm, &expected);
    weft_tensor *parameters[MAX_PARAMETERS];
    weft_zero_grad(weft_module_parameters(alone, MAX_PARAMETERS, NULL, parameters), parameters);
    double factor = 1e-6 / norm;
    clip_on(alone, NULL, factor, 1e-7, &norm, &expected);
    clip_on(root, mesh, factor, 1e-7, &sharded_norm, &found);
    assert_true(fabs(norm - 1e-6) < 1e-12);
    assert_true(fabs(sharded_norm - norm) < 1e-12 * norm);
    double squares = 0;
    for (int i = 0; i < found.count; i++) {
        int64_t count = weft_tensor_num_elements(weft_module_parameter(root, found.names[i]));
        for (int64_t k = 0; k < count; k++) {
            assert_true(fabs(found.values[i][k] - expected.values[i][k]) < 1e-19);
            squares += found.values[i][k] * found.values[i][k];
        }
    }
    assert_true(fabs(sqrt(squares) / (1e-7 / 2) - 1) < 1e-9); /* max_norm / (1e-6 + 1e-6) times 1e-6 */
    weft_module_destroy(alone);
    weft_module_destroy(root);
    weft_scope_end();
    assert_no_error();
}

/* PyTorch issue 180346: parameters on several meshes are clipped by one norm. */
static weft_status back_to_the_grid(weft_module *module, weft_mesh *mesh, int num_tensors, weft_tensor *tensors[],
                                    void *context)
{
    (void)module;
    (void)mesh;
    assert_int_equal(num_tensors, 1);
    tensors[0] = weft_redistribute(tensors[0], context, NULL);
    return WEFT_OK;
}

static weft_status to_the_line(weft_module *module, weft_mesh *mesh, int num_tensors, weft_tensor *tensors[], void *context)
{
    (void)module;
    (void)context;
    assert_int_equal(num_tensors, 1);
    tensors[0] = weft_redistribute(tensors[0], mesh, NULL);
    return WEFT_OK;
}

static weft_status shard_rows(const char *name, weft_module *module, weft_mesh *mesh, void *context)
{
    (void)context;
    weft_placement rows = weft_shard(0);
    return strcmp(weft_module_type(module), "linear") == 0 || name[0] != '\0'
               ? weft_module_place(module, "weight", mesh, &rows)
               : WEFT_OK;
}

static void test_issue_180346_clipping_over_several_meshes(void **state)
{
    (void)state;
    static const weft_parallel plan[] = { { "layers.0.up", WEFT_PARALLEL_COLUMNS, "tp" },
                                          { "**", WEFT_PARALLEL_FULLY_SHARDED, "dp" } };
    static gradients expected, found;
    weft_scope_begin();
    weft_mesh *grid = weft_mesh_create(2, (int64_t[]){ 2, 3 }, (const char *[]){ "dp", "tp" });
    weft_mesh *line = weft_mesh_of_ranks(1, (int64_t[]){ 2 }, (int[]){ 5, 3 }, NULL);
    weft_module *alone = network_new(false), *root = network_new(false), *part = weft_module_child(root, "layers.1");
    assert_int_equal(weft_distribute_module(part, line, shard_rows, to_the_line, back_to_the_grid, grid), WEFT_OK);
    assert_int_equal(weft_parallelize(root, grid, 2, plan), WEFT_OK);
    assert_ptr_equal(weft_tensor_mesh(weft_module_parameter(root, "layers.1.up.weight")), line);
    assert_ptr_equal(weft_tensor_mesh(weft_module_parameter(root, "layers.0.up.weight")), grid);
    double norm, several;
    clip_on(alone, NULL, 1, 1, &norm, &expected);
    clip_on(root, grid, 1, 1, &several, &found);
    assert_true(fabs(several / norm - 1) < 1e-12);
    for (int i = 0; i < found.count; i++) {
        int64_t count = weft_tensor_num_elements(weft_module_parameter(root, found.names[i]));
        for (int64_t k = 0; k < count; k++) {
            assert_true(fabs(found.values[i][k] - expected.values[i][k]) < 1e-12);
        }
    }
    weft_module_destroy(alone);
    weft_module_destroy(root);
    weft_scope_end();
    assert_no_error();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_g3_gradients_are_those_of_one_rank),
        cmocka_unit_test(test_g3_gradients_of_cross_entropy_on_a_sharded_vocabulary),
        cmocka_unit_test(test_g1_parameters_are_leaves),
        cmocka_unit_test(test_g1_tied_parameters_have_one_gradient),
        cmocka_unit_test(test_g1_backward_after_the_modules),
        cmocka_unit_test(test_g3_modules_in_segments_that_are_computed_again),
        cmocka_unit_test(test_issue_172932_addends_passed_on_or_reduced),
        cmocka_unit_test(test_issue_175867_input_gradient_of_column_wise_layers),
        cmocka_unit_test(test_issue_2106_replicated_parameters_beside_sharded_ones),
        cmocka_unit_test(test_issue_149768_epsilon_of_clipping_is_added_once),
        cmocka_unit_test(test_issue_180346_clipping_over_several_meshes),
    };
    return cmocka_run_group_tests(tests, network_world_start, network_world_stop);
}
