/* Models that are distributed before they have values: parameters without data (weft_fake()), which get memory by
 * weft_module_materialize() in the layouts of a plan. */
#include "support.h"

#include <string.h>

enum { RANKS = 4, IN = 7, OUT = 6 };

static weft_mesh *grid;

static int start(void **state)
{
    (void)state;
    WORLD(RANKS, .seed = 7);
    grid = weft_mesh_create(2, (const int64_t[]){ 2, 2 }, (const char *[]){ "dp", "tp" });
    weft_mesh_push(grid);
    return 0;
}

static weft_status linear(weft_module *self, int num_inputs, weft_tensor *const inputs[], int num_outputs,
                          weft_tensor *outputs[], void *context)
{
    (void)num_inputs, (void)num_outputs, (void)context;
    outputs[0] = weft_add(weft_matmul(inputs[0], weft_module_use(self, "weight")), weft_module_use(self, "bias"));
    return weft_last_status();
}

static void assert_placements(weft_tensor *tensor, const char *expected)
{
    char text[64] = "";
    weft_placements_format(weft_tensor_placements(tensor), weft_mesh_ndim(weft_tensor_mesh(tensor)), text, sizeof(text));
    assert_string_equal(text, expected);
}

/* A linear layer of shapes alone, with an empty slot, a buffer, and its bias twice. */
static weft_module *of_shapes(void)
{
    const int64_t shape[] = { IN, OUT }, out = OUT, two = 2;
    weft_scope_begin();
    weft_module *root = weft_module_create("linear"), *other = weft_module_create("other");
    weft_tensor *bias = weft_fake(WEFT_F32, 1, &out, NULL, NULL);
    weft_module_add_parameter(root, "weight", weft_fake(WEFT_F32, 2, shape, NULL, NULL));
    weft_module_add_parameter(root, "bias", bias);
    weft_module_add_parameter(root, "none", NULL);
    weft_module_add_buffer(root, "steps", weft_fake(WEFT_I64, 1, &two, NULL, NULL));
    weft_module_add_buffer(root, "given", weft_full(WEFT_F32, 3, 1, &two, NULL, NULL));
    weft_module_add_child(root, "other", other);
    weft_module_add_parameter(other, "bias", bias);
    weft_module_set_forward(root, linear, NULL);
    weft_scope_end();
    assert_no_error();
    return root;
}

static const weft_parallel plan[] = {
    { "", WEFT_PARALLEL_COLUMNS, "tp", NULL, NULL, NULL },
    { "**", WEFT_PARALLEL_FULLY_SHARDED, "dp", NULL, NULL, NULL },
};

static void fill(weft_module *root)
{
    weft_no_grad_begin();
    weft_normal_inplace(weft_module_parameter(root, "weight"), 0, 0.5);
    weft_uniform_inplace(weft_module_parameter(root, "bias"), -1, 1);
    weft_fill_inplace(weft_module_buffer(root, "steps"), 5);
    weft_no_grad_end();
    assert_no_error();
}

/* Values of a model in one layout. */
static void values_of(weft_module *root, float weight[], float bias[])
{
    int64_t steps[2];
    assert_int_equal(weft_to_host(weft_module_parameter(root, "weight"), weight, IN * OUT * sizeof(float)), WEFT_OK);
    assert_int_equal(weft_to_host(weft_module_parameter(root, "other.bias"), bias, OUT * sizeof(float)), WEFT_OK);
    assert_int_equal(weft_to_host(weft_module_buffer(root, "steps"), steps, sizeof(steps)), WEFT_OK);
    assert_true(steps[0] == 5 && steps[1] == 5);
}

static void test_values_do_not_depend_on_the_layout(void **state)
{
    (void)state;
    float weights[2][IN * OUT], biases[2][OUT];
    for (int distributed = 0; distributed < 2; distributed++) {
        weft_random_seed(11);
        weft_scope_begin();
        weft_module *root = of_shapes();
        if (distributed) {
            assert_int_equal(weft_parallelize(root, grid, 2, plan), WEFT_OK);
        }
        assert_int_equal(weft_module_materialize(root), WEFT_OK);
        fill(root);
        values_of(root, weights[distributed], biases[distributed]);
        weft_module_destroy(root);
        weft_scope_end();
    }
    assert_memory_equal(weights[0], weights[1], sizeof(weights[0]));
    assert_memory_equal(biases[0], biases[1], sizeof(biases[0]));
    assert_true(weights[0][0] != 0 && weights[0][0] != weights[0][1]);
    assert_no_error();
}

static void test_what_distribution_has_settled_stays(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_module *root = of_shapes();
    assert_true(weft_tensor_is_fake(weft_module_parameter(root, "weight")));
    assert_true(weft_is_leaf(weft_module_parameter(root, "weight")));
    assert_int_equal(weft_parallelize(root, grid, 2, plan), WEFT_OK);
    assert_true(weft_tensor_is_fake(weft_module_parameter(root, "weight")));
    weft_tensor *given = weft_module_buffer(root, "given");
    assert_int_equal(weft_set_requires_grad(weft_module_parameter(root, "bias"), false), WEFT_OK);
    assert_int_equal(weft_module_materialize(root), WEFT_OK);
    weft_tensor *weight = weft_module_parameter(root, "weight"), *bias = weft_module_parameter(root, "bias");
    char described[128];
    assert_true(!weft_tensor_is_fake(weight) && !weft_tensor_is_fake(bias));
    assert_true(weft_is_leaf(weight) && !weft_is_leaf(bias));
    assert_placements(weight, "S0,S1");
    assert_ptr_equal(strstr(weft_tensor_describe(weight, described, sizeof(described)), "weight: "), described);
    assert_ptr_equal(weft_module_parameter(root, "other.bias"), bias);
    assert_null(weft_module_parameter(root, "none"));
    assert_ptr_equal(weft_module_buffer(root, "given"), given);
    /* Once more: nothing is left to do. */
    assert_int_equal(weft_module_materialize(root), WEFT_OK);
    assert_ptr_equal(weft_module_parameter(root, "weight"), weight);
    fill(root);
    weft_tensor *x = weft_ones(WEFT_F32, 2, (int64_t[]){ 4, IN }, grid, NULL), *gathered = weft_module_use(root, "weight");
    assert_placements(gathered, "R,S1");
    assert_int_equal(weft_backward(weft_sum(weft_module_call(root, x), WEFT_ALL_DIMS, false), NULL), WEFT_OK);
    float gradient[IN * OUT];
    assert_int_equal(weft_to_host(weft_grad(weight), gradient, sizeof(gradient)), WEFT_OK);
    for (int i = 0; i < IN * OUT; i++) {
        assert_true(gradient[i] == 4);
    }
    weft_module_destroy(root);
    weft_scope_end();
    assert_no_error();
}

/* A forward pass through shapes computes shapes; optimisers and files need values. */
static void test_before_there_are_values(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_module *root = of_shapes();
    assert_int_equal(weft_parallelize(root, grid, 2, plan), WEFT_OK);
    weft_tensor *y = weft_module_call(root, weft_ones(WEFT_F32, 2, (int64_t[]){ 4, IN }, grid, NULL));
    assert_true(y != NULL && weft_tensor_is_fake(y));
    float values[IN * OUT];
    assert_int_equal(weft_to_host(weft_module_parameter(root, "weight"), values, sizeof(values)), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "has no data");
    assert_int_equal(weft_module_materialize(NULL), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "module is NULL");
    weft_module_destroy(root);
    assert_int_equal(weft_module_materialize(root), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "is not a module");
    weft_scope_end();
    assert_no_error();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_do_not_depend_on_the_layout),
        cmocka_unit_test(test_what_distribution_has_settled_stays),
        cmocka_unit_test(test_before_there_are_values),
    };
    return cmocka_run_group_tests(tests, start, world_stop);
}
