/* Ready partition functions. Column-wise, row-wise, sequence, data, fully sharded, and their
 * combinations along the dimensions of a mesh give the values of one rank. All values are small integers: sums are exact
 * in any order. */
#include "module_support.h"
#include "printed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOGITS = BATCH * SEQUENCE * VOCABULARY };

static void assert_layout(const char *what, weft_tensor *tensor, const char *placements)
{
    char text[64] = "";
    assert_non_null(tensor);
    weft_placements_format(weft_tensor_placements(tensor), weft_mesh_ndim(weft_tensor_mesh(tensor)), text, sizeof(text));
    if (strcmp(text, placements) != 0) {
        fail_msg("%s is %s, expected %s", what, text, placements);
    }
}

static weft_module *parallel_network(const named_plan *plan, weft_mesh *mesh, bool cross_entropy)
{
    weft_module *root = network_new(cross_entropy);
    assert_int_equal(weft_parallelize(root, mesh, plan->count, plan->entries), WEFT_OK);
    return root;
}

static void to_host(weft_tensor *tensor, double values[], int count)
{
    assert_int_equal(weft_tensor_num_elements(tensor), count);
    assert_int_equal(weft_to_host(tensor, values, (size_t)count * sizeof(*values)), WEFT_OK);
}

/* ---- values ---------------------------------------------------------------------------------------------- */

static void test_g3_all_styles_give_the_values_of_one_rank(void **state)
{
    (void)state;
    static double expected[LOGITS], values[LOGITS];
    weft_tensor *outputs[2];
    double expected_loss, loss;
    weft_scope_begin();
    weft_module *alone = network_new(false);
    assert_int_equal(network_forward(alone, NULL, outputs), WEFT_OK);
    to_host(outputs[0], expected, LOGITS);
    to_host(outputs[1], &expected_loss, 1);
    for (const named_plan *plan = plans; plan->name != NULL; plan++) {
        for (int m = 0; m < num_meshes(plan); m++) {
            weft_scope_begin();
            weft_mesh *mesh = mesh_number(plan, m);
            weft_module *root = parallel_network(plan, mesh, false);
            assert_int_equal(network_forward(root, mesh, outputs), WEFT_OK);
            to_host(outputs[0], values, LOGITS);
            to_host(outputs[1], &loss, 1);
            if (memcmp(values, expected, sizeof(values)) != 0 || loss != expected_loss) {
                fail_msg("%s, mesh %d: other values than on one rank", plan->name, m);
            }
            weft_module_destroy(root);
            weft_scope_end();
        }
    }
    weft_module_destroy(alone);
    weft_scope_end();
    assert_no_error();
}

/* ---- layouts --------------------------------------------------------------------------------------------- */

static const named_plan *plan_named(const char *name)
{
    const named_plan *plan = plans;
    while (strcmp(plan->name, name) != 0) {
        plan++;
    }
    return plan;
}

static void test_g3_layouts_of_parameters(void **state)
{
    (void)state;
    /* embed.weight, norm.weight, up.weight, up.bias, down.weight, down.bias, head.weight */
    static const char *const names[] = { "embed.weight",         "layers.1.norm.weight", "layers.1.up.weight",
                                         "layers.1.up.bias",     "layers.1.down.weight", "layers.1.down.bias",
                                         "head.weight" };
    static const struct {
        const char *plan, *held[7], *used[7];
    } rows[] = {
        { "tp", { "S0", "R", "S1", "S0", "S0", "R", "S1" }, { "S0", "R", "S1", "S0", "S0", "R", "S1" } },
        { "sequence", { "S0", "R", "S1", "S0", "S0", "R", "S1" }, { "S0", "R", "S1", "S0", "S0", "R", "S1" } },
        { "dp", { "R", "R", "R", "R", "R", "R", "R" }, { "R", "R", "R", "R", "R", "R", "R" } },
        { "fsdp", { "S0", "S0", "S0", "S0", "S0", "S0", "S0" }, { "R", "R", "R", "R", "R", "R", "R" } },
        { "dp, tp",
          { "R,S0", "R,R", "R,S1", "R,S0", "R,S0", "R,R", "R,S1" },
          { "R,S0", "R,R", "R,S1", "R,S0", "R,S0", "R,R", "R,S1" } },
        { "fsdp, tp",
          { "S1,S0", "S0,R", "S0,S1", "S0@1,S0", "S1,S0", "S0,R", "S0,S1" },
          { "R,S0", "R,R", "R,S1", "R,S0", "R,S0", "R,R", "R,S1" } },
        { "tp, fsdp",
          { "S0,S1", "R,S0", "S1,S0", "S0,S0", "S0,S1", "R,S0", "S1,S0" },
          { "S0,R", "R,R", "S1,R", "S0,R", "S0,R", "R,R", "S1,R" } },
        { "hybrid",
          { "R,S0", "R,S0", "R,S0", "R,S0", "R,S0", "R,S0", "R,S0" },
          { "R,R", "R,R", "R,R", "R,R", "R,R", "R,R", "R,R" } },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        weft_scope_begin();
        const named_plan *plan = plan_named(rows[i].plan);
        weft_module *root = parallel_network(plan, mesh_number(plan, 0), false);
        for (int k = 0; k < 7; k++) {
            assert_layout(names[k], weft_module_parameter(root, names[k]), rows[i].held[k]);
            assert_layout(names[k], weft_module_use(root, names[k]), rows[i].used[k]);
        }
        weft_module_destroy(root);
        weft_scope_end();
        assert_no_error();
    }
}

/* The inputs' layouts of some modules, noted by hooks of the program's own. */
typedef struct seen {
    const char *path;
    char input[32], output[32];
} seen;

static weft_status see(weft_module *module, weft_mesh *mesh, int num_tensors, weft_tensor *tensors[], void *context)
{
    (void)module;
    (void)mesh;
    assert_true(num_tensors >= 1);
    char *text = context;
    return weft_placements_format(weft_tensor_placements(tensors[0]), weft_mesh_ndim(weft_tensor_mesh(tensors[0])), text, 32);
}

static void test_g3_layouts_of_activations(void **state)
{
    (void)state;
    static const struct {
        const char *plan, *path, *input, *output;
    } rows[] = {
        { "tp", "embed", "R", "R" },
        { "tp", "layers.0.up", "R", "S2" },
        { "tp", "layers.0.down", "S2", "R" },
        { "tp", "head", "R", "S2" },
        { "sequence", "embed", "R", "S1" },
        { "sequence", "layers.0.norm", "S1", "S1" },
        { "sequence", "layers.0.up", "R", "S2" },
        { "sequence", "layers.0.down", "S2", "S1" },
        { "sequence", "layers.1", "S1", "S1" },
        { "sequence", "head", "R", "S2" },
        { "dp", "", "S0", "S0" },
        { "dp", "layers.1.up", "S0", "S0" },
        { "fsdp", "layers.1.up", "S0", "S0" },
        { "fsdp, tp", "layers.1.down", "S0,S2", "S0,R" },
        { "fsdp, sequence", "layers.1.norm", "S0,S1", "S0,S1" },
        { "hybrid", "layers.1", "S0,S0", "S0,S0" },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        weft_scope_begin();
        const named_plan *plan = plan_named(rows[i].plan);
        weft_mesh *mesh = mesh_number(plan, 0);
        weft_module *root = parallel_network(plan, mesh, false), *module = weft_module_child(root, rows[i].path);
        char input[32] = "", output[32] = "", what[80];
        assert_int_equal(weft_module_add_hook(module, WEFT_BEFORE_FORWARD, see, input), WEFT_OK);
        assert_int_equal(weft_module_add_hook(module, WEFT_AFTER_FORWARD, see, output), WEFT_OK);
        weft_tensor *outputs[2];
        assert_int_equal(network_forward(root, mesh, outputs), WEFT_OK);
        snprintf(what, sizeof(what), "%s: %s: %s to %s", rows[i].plan, rows[i].path, input, output);
        if (strcmp(input, rows[i].input) != 0 || strcmp(output, rows[i].output) != 0) {
            fail_msg("%s, expected %s to %s", what, rows[i].input, rows[i].output);
        }
        weft_module_destroy(root);
        weft_scope_end();
        assert_no_error();
    }
}

/* The gathered copy is released when the forward function ends. */
static void test_g3_gathered_parameters_are_released(void **state)
{
    (void)state;
    const named_plan *plan = plan_named("fsdp");
    weft_scope_begin();
    weft_module *root = parallel_network(plan, mesh_number(plan, 0), false);
    weft_scope_begin();
    weft_tensor *gathered = weft_module_use(root, "head.weight");
    assert_true(gathered != weft_module_parameter(root, "head.weight"));
    weft_scope_end();
    assert_int_equal(weft_tensor_ndim(gathered), 0);
    assert_error(WEFT_ERR_INVALID, "not a live tensor");
    weft_module_destroy(root);
    weft_scope_end();
    assert_no_error();
}

/* ---- plans ----------------------------------------------------------------------------------------------- */

static void test_g3_patterns(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *sharded;
    } rows[] = {
        { "layers.*.up", "layers.0.up.weight layers.0.up.bias layers.1.up.weight layers.1.up.bias" },
        { "layers.1.*", "layers.1.norm.weight layers.1.up.weight layers.1.up.bias layers.1.down.weight layers.1.down.bias" },
        { "**.norm", "layers.0.norm.weight layers.1.norm.weight" },
        { "layers.?.u*", "layers.0.up.weight layers.0.up.bias layers.1.up.weight layers.1.up.bias" },
        { "*", "embed.weight head.weight" },
        { "head", "head.weight" },
        { "", "" },
    };
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ 2 }, NULL);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        weft_scope_begin();
        const weft_parallel plan[] = { { rows[i].pattern, WEFT_PARALLEL_FULLY_SHARDED } };
        weft_module *root = network_new(false);
        assert_int_equal(weft_parallelize(root, mesh, 1, plan), WEFT_OK);
        const char *names[MAX_PARAMETERS];
        weft_tensor *parameters[MAX_PARAMETERS];
        char sharded[512] = "";
        int count = weft_module_parameters(root, MAX_PARAMETERS, names, parameters);
        for (int k = 0; k < count; k++) {
            if (weft_tensor_placements(parameters[k])[0].kind == WEFT_SHARD) {
                size_t used = strlen(sharded);
                snprintf(sharded + used, sizeof(sharded) - used, "%s%s", used > 0 ? " " : "", names[k]);
            }
        }
        assert_string_equal(sharded, rows[i].sharded);
        weft_module_destroy(root);
        weft_scope_end();
        assert_no_error();
    }
}

static void test_g3_the_first_entry_counts(void **state)
{
    (void)state;
    static const weft_parallel plan[] = {
        { "layers.0.up", WEFT_PARALLEL_LAYOUTS, "tp" },
        { "layers.*.up", WEFT_PARALLEL_COLUMNS, "tp" },
        { "**", WEFT_PARALLEL_LAYOUTS, "tp", NULL, NULL, "R" },
        { "**.up", WEFT_PARALLEL_FULLY_SHARDED, "dp", NULL, NULL, "R" },
    };
    weft_scope_begin();
    weft_mesh *mesh = weft_mesh_create(2, (int64_t[]){ 2, 3 }, (const char *[]){ "dp", "tp" });
    weft_module *root = network_new(false);
    assert_int_equal(weft_parallelize(root, mesh, 4, plan), WEFT_OK);
    assert_layout("layers.0.up", weft_module_parameter(root, "layers.0.up.weight"), "R,R");
    assert_layout("layers.1.up", weft_module_parameter(root, "layers.1.up.weight"), "R,S1");
    assert_layout("layers.1.down", weft_module_parameter(root, "layers.1.down.weight"), "R,R");
    weft_module_destroy(root);
    weft_scope_end();
    assert_no_error();
}

static void test_g3_wrong_plans_change_nothing(void **state)
{
    (void)state;
    static const struct {
        weft_parallel entry;
        weft_status status;
        const char *text;
    } rows[] = {
        { { "layers.*.upp", WEFT_PARALLEL_COLUMNS, "tp" }, WEFT_ERR_INVALID, "plan[1].modules is \"layers.*.upp\"" },
        { { NULL, WEFT_PARALLEL_COLUMNS, "tp" }, WEFT_ERR_INVALID, "plan[1].modules is NULL" },
        { { "head", WEFT_PARALLEL_COLUMNS, "pp" }, WEFT_ERR_INVALID, "plan[1].mesh_dim is \"pp\"" },
        { { "head", WEFT_PARALLEL_COLUMNS, NULL }, WEFT_ERR_INVALID, "plan[1].mesh_dim is NULL" },
        { { "head", (weft_parallel_style)99, "tp" }, WEFT_ERR_INVALID, "plan[1].style is 99" },
        { { "head", WEFT_PARALLEL_COLUMNS, "tp", "S1,Q" }, WEFT_ERR_INVALID, "plan[1].inputs" },
        { { "head", WEFT_PARALLEL_COLUMNS, "tp", NULL, "P" }, WEFT_ERR_INVALID, "plan[1].outputs: \"P\" is Partial" },
        { { "head", WEFT_PARALLEL_COLUMNS, "tp", NULL, "" }, WEFT_ERR_INVALID, "plan[1].outputs" },
        { { "head", WEFT_PARALLEL_COLUMNS, "tp", NULL, NULL, "R,S0" }, WEFT_ERR_INVALID, "plan[1].parameters" },
        { { "head", WEFT_PARALLEL_COLUMNS, "tp", NULL, NULL, "S2" }, WEFT_ERR_LAYOUT, "parameter \"head.weight\"" },
    };
    weft_scope_begin();
    weft_mesh *mesh = weft_mesh_create(2, (int64_t[]){ 2, 3 }, (const char *[]){ "dp", "tp" });
    weft_module *root = network_new(false);
    weft_tensor *before[MAX_PARAMETERS], *after[MAX_PARAMETERS];
    int count = weft_module_parameters(root, MAX_PARAMETERS, NULL, before);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const weft_parallel plan[] = { { "**", WEFT_PARALLEL_FULLY_SHARDED, "dp" }, rows[i].entry };
        assert_int_equal(weft_parallelize(root, mesh, 2, plan), rows[i].status);
        assert_error(rows[i].status, rows[i].text);
        assert_int_equal(weft_module_parameters(root, MAX_PARAMETERS, NULL, after), count);
        assert_memory_equal(before, after, (size_t)count * sizeof(*before));
    }
    assert_int_equal(weft_parallelize(root, mesh, -1, NULL), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "num_entries is -1");
    assert_int_equal(weft_parallelize(root, mesh, 1, NULL), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "plan is NULL");
    /* No hook is left either. */
    weft_tensor *outputs[2];
    assert_int_equal(network_forward(root, NULL, outputs), WEFT_OK);
    weft_module_destroy(root);
    weft_scope_end();
    assert_no_error();
}

static void test_g3_tree_as_text(void **state)
{
    (void)state;
    static const weft_parallel plan[] = { { "up", WEFT_PARALLEL_FULLY_SHARDED } };
    static const char expected[] = "mlp\n"
                                   "  steps (buffer): i64[] [R] on 2\n"
                                   "  up: linear\n"
                                   "    weight: f32[4, 8] [S0] on 2, used as [R]\n"
                                   "    bias: none\n";
    weft_scope_begin();
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ 2 }, NULL);
    weft_module *root = weft_module_create("mlp"), *up = weft_module_create("linear");
    weft_module_add_parameter(up, "weight", weft_ones(WEFT_F32, 2, (int64_t[]){ 4, 8 }, mesh, NULL));
    weft_module_add_parameter(up, "bias", NULL);
    weft_module_add_child(root, "up", up);
    weft_module_add_buffer(root, "steps", weft_zeros(WEFT_I64, 0, NULL, mesh, NULL));
    assert_int_equal(weft_parallelize(root, mesh, 1, plan), WEFT_OK);
    char text[512];
    PRINT_INTO(text, weft_module_print(root, file));
    assert_string_equal(text, expected);
    weft_module_destroy(root);
    weft_scope_end();
    assert_no_error();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_g3_all_styles_give_the_values_of_one_rank),
        cmocka_unit_test(test_g3_layouts_of_parameters),
        cmocka_unit_test(test_g3_layouts_of_activations),
        cmocka_unit_test(test_g3_gathered_parameters_are_released),
        cmocka_unit_test(test_g3_patterns),
        cmocka_unit_test(test_g3_the_first_entry_counts),
        cmocka_unit_test(test_g3_wrong_plans_change_nothing),
        cmocka_unit_test(test_g3_tree_as_text),
    };
    return cmocka_run_group_tests(tests, network_world_start, network_world_stop);
}
