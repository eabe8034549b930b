/* A tree of named parameters and buffers, distributed by a partition function;
 * input and output functions, and hooks of the program's own. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 6 };

static weft_mesh *line, *grid;

static int start(void **state)
{
    (void)state;
    WORLD(RANKS);
    line = weft_mesh_create(1, (const int64_t[]){ RANKS }, NULL);
    grid = weft_mesh_create(2, (const int64_t[]){ 3, 2 }, (const char *[]){ "dp", "tp" });
    weft_mesh_push(line);
    return 0;
}

/* ---- a tree to work on ----------------------------------------------------------------------------------- */

static weft_tensor *numbered(int64_t rows, int64_t columns, double first)
{
    double values[256];
    assert_true(rows * columns <= 256);
    for (int i = 0; i < rows * columns; i++) {
        values[i] = first + i;
    }
    return columns == 1 ? weft_distribute(WEFT_F64, 1, &rows, values, NULL, NULL)
                        : weft_distribute(WEFT_F64, 2, (int64_t[]){ rows, columns }, values, NULL, NULL);
}

static weft_status linear_forward(weft_module *self, int num_inputs, weft_tensor *const inputs[], int num_outputs,
                                  weft_tensor *outputs[], void *context)
{
    (void)context;
    assert_int_equal(num_inputs, 1);
    assert_int_equal(num_outputs, 1);
    weft_tensor *y = weft_matmul(inputs[0], weft_module_use(self, "weight"));
    weft_tensor *bias = weft_module_use(self, "bias");
    outputs[0] = bias == NULL ? y : weft_add(y, bias);
    return WEFT_OK;
}

static weft_module *linear(int64_t in, int64_t out, bool has_bias)
{
    weft_module *module = weft_module_create("linear");
    assert_int_equal(weft_module_add_parameter(module, "weight", numbered(in, out, 1)), WEFT_OK);
    assert_int_equal(weft_module_add_parameter(module, "bias", has_bias ? numbered(out, 1, -2) : NULL), WEFT_OK);
    weft_module_set_forward(module, linear_forward, NULL);
    return module;
}

static weft_status chain_forward(weft_module *self, int num_inputs, weft_tensor *const inputs[], int num_outputs,
                                 weft_tensor *outputs[], void *context)
{
    (void)context;
    (void)num_inputs;
    (void)num_outputs;
    outputs[0] = weft_module_call(weft_module_child(self, "blocks.1"),
                                  weft_module_call(weft_module_child(self, "blocks.0"), inputs[0]));
    return WEFT_OK;
}

/* scale; blocks.0.weight, .bias; blocks.1.weight, .bias (empty); steps, a buffer */
static weft_module *make_tree(void)
{
    weft_module *root = weft_module_create("chain"), *blocks = weft_module_create("list");
    assert_int_equal(weft_module_add_child(blocks, "0", linear(5, 7, true)), WEFT_OK);
    assert_int_equal(weft_module_add_child(root, "blocks", blocks), WEFT_OK);
    assert_int_equal(weft_module_add_child(blocks, "1", linear(7, 3, false)), WEFT_OK);
    assert_int_equal(weft_module_add_parameter(root, "scale", numbered(4, 1, 0)), WEFT_OK);
    assert_int_equal(weft_module_add_buffer(root, "steps", weft_zeros(WEFT_I64, 1, (int64_t[]){ 2 }, NULL, NULL)),
                     WEFT_OK);
    weft_module_set_forward(root, chain_forward, NULL);
    assert_no_error();
    return root;
}

static void assert_layout(weft_tensor *tensor, weft_mesh *mesh, const char *placements)
{
    char text[64] = "";
    assert_non_null(tensor);
    assert_ptr_equal(weft_tensor_mesh(tensor), mesh);
    weft_placements_format(weft_tensor_placements(tensor), weft_mesh_ndim(weft_tensor_mesh(tensor)), text, sizeof(text));
    assert_string_equal(text, placements);
}

static void assert_numbered(weft_tensor *tensor, double first)
{
    double values[256];
    assert_int_equal(weft_to_host(tensor, values, sizeof(values)), WEFT_OK);
    for (int i = 0; i < weft_tensor_num_elements(tensor); i++) {
        assert_true(values[i] == first + i);
    }
    assert_shards(tensor, NULL, NULL, "a parameter");
}

/* ---- G1: the tree ---------------------------------------------------------------------------------------- */

static void test_g1_names_come_in_a_fixed_order(void **state)
{
    (void)state;
    static const char *const expected[] = { "scale", "blocks.0.weight", "blocks.0.bias", "blocks.1.weight" };
    static const char *const modules[] = { "", "blocks", "blocks.0", "blocks.1" };
    weft_scope_begin();
    weft_module *root = make_tree();
    const char *names[8];
    weft_tensor *tensors[8];
    weft_module *found[8];
    assert_int_equal(weft_module_parameters(root, 8, names, tensors), 4);
    for (int i = 0; i < 4; i++) {
        char text[128], head[64];
        assert_string_equal(names[i], expected[i]);
        assert_ptr_equal(weft_module_parameter(root, names[i]), tensors[i]);
        snprintf(head, sizeof(head), "%s: ", names[i]);
        assert_ptr_equal(strstr(weft_tensor_describe(tensors[i], text, sizeof(text)), head), text);
    }
    assert_int_equal(weft_module_parameters(root, 0, NULL, NULL), 4);
    assert_int_equal(weft_module_parameters(root, 2, NULL, tensors), 4);
    assert_int_equal(weft_module_buffers(root, 8, names, tensors), 1);
    assert_string_equal(names[0], "steps");
    assert_ptr_equal(tensors[0], weft_module_buffer(root, "steps"));
    assert_int_equal(weft_module_modules(root, 8, names, found), 4);
    for (int i = 0; i < 4; i++) {
        assert_string_equal(names[i], modules[i]);
        assert_string_equal(weft_module_name(found[i]), modules[i]);
        assert_ptr_equal(weft_module_child(root, modules[i]), found[i]);
    }
    /* From a module inside, names are those below it. */
    assert_int_equal(weft_module_parameters(found[1], 8, names, tensors), 3);
    assert_string_equal(names[0], "0.weight");
    assert_int_equal(weft_module_parameters(found[2], 8, names, tensors), 2);
    assert_string_equal(names[1], "bias");
    assert_string_equal(weft_module_type(found[2]), "linear");
    /* Empty: no error, but a path without a slot is one. */
    assert_null(weft_module_parameter(root, "blocks.1.bias"));
    assert_no_error();
    static const char *const wrong[] = { "blocks.2.weight", "blocks", "", "blocks.0.weight.x", "blocks..weight", "scale." };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        assert_null(weft_module_parameter(root, wrong[i]));
        assert_error(WEFT_ERR_INVALID, "has no parameter");
    }
    assert_null(weft_module_child(root, "blocks."));
    assert_error(WEFT_ERR_INVALID, "no child");
    assert_null(weft_module_parameter(root, "steps"));
    assert_error(WEFT_ERR_INVALID, "\"steps\" is a buffer");
    assert_int_equal(weft_module_destroy(root), WEFT_OK);
    weft_scope_end();
    assert_no_error();
}

static void test_g1_modules_hold_their_tensors(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_module *root = make_tree();
    weft_scope_end();
    weft_tensor *scale = weft_module_parameter(root, "scale");
    assert_numbered(scale, 0);
    assert_int_equal(weft_tensor_release(scale), WEFT_ERR_STATE); /* the module's reference is not the caller's */
    weft_clear_error();
    assert_int_equal(weft_module_set_tensor(root, "scale", NULL), WEFT_OK);
    assert_int_equal(weft_tensor_ndim(scale), 0);
    assert_error(WEFT_ERR_INVALID, "not a live tensor");
    weft_module *inner = weft_module_child(root, "blocks.0");
    assert_int_equal(weft_module_destroy(inner), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "blocks.0");
    assert_int_equal(weft_module_destroy(root), WEFT_OK);
    assert_int_equal(weft_module_destroy(root), WEFT_ERR_INVALID);
    weft_clear_error();
    assert_null(weft_module_type(inner));
    assert_error(WEFT_ERR_INVALID, "is not a module");
}

static void test_g1_wrong_trees_are_refused(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_module *root = make_tree(), *other = weft_module_create("other");
    weft_tensor *x = weft_zeros(WEFT_F32, 0, NULL, NULL, NULL), *n = weft_zeros(WEFT_I32, 0, NULL, NULL, NULL);
    assert_int_equal(weft_module_add_parameter(root, "scale", x), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "has a parameter with the name \"scale\" already");
    assert_int_equal(weft_module_add_child(root, "blocks", other), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "has a child with the name");
    assert_int_equal(weft_module_add_buffer(root, "a.b", x), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "name is \"a.b\"");
    assert_int_equal(weft_module_add_parameter(root, "", x), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "name is \"\"");
    assert_int_equal(weft_module_add_parameter(root, NULL, x), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "name is NULL");
    assert_int_equal(weft_module_add_parameter(root, "count", n), WEFT_ERR_DTYPE);
    assert_error(WEFT_ERR_DTYPE, "\"count\"");
    assert_int_equal(weft_module_add_child(root, "again", weft_module_child(root, "blocks.0")), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "blocks.0");
    assert_int_equal(weft_module_add_child(weft_module_child(root, "blocks.1"), "up", root), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "root of the tree");
    assert_int_equal(weft_module_parameters(root, 3, NULL, NULL), 0);
    assert_error(WEFT_ERR_INVALID, "parameters is NULL");
    assert_int_equal(weft_module_parameters(root, -1, NULL, NULL), 0);
    assert_error(WEFT_ERR_INVALID, "max is -1");
    assert_int_equal(weft_module_parameters(root, 0, NULL, NULL), 4);
    weft_module_destroy(root);
    weft_module_destroy(other);
    weft_scope_end();
    assert_no_error();
}

/* ---- G1: distribution ------------------------------------------------------------------------------------ */

/* Shards the rows of weights over the last mesh dimension, and leaves all else. */
static weft_status shard_weights(const char *name, weft_module *module, weft_mesh *mesh, void *context)
{
    (void)name;
    (void)context;
    if (strcmp(weft_module_type(module), "linear") != 0) {
        return WEFT_OK;
    }
    weft_placement placements[] = { weft_replicate(), weft_replicate() };
    placements[weft_mesh_ndim(mesh) - 1] = weft_shard(0);
    return weft_module_place(module, "weight", mesh, placements);
}

static void test_g1_what_partition_leaves_is_replicated(void **state)
{
    (void)state;
    weft_mesh *meshes[] = { line, grid, weft_mesh_of_ranks(1, (int64_t[]){ 2 }, (int[]){ 4, 1 }, NULL) };
    static const char *const sharded[] = { "S0", "R,S0", "S0" }, *const whole[] = { "R", "R,R", "R" };
    for (int m = 0; m < 3; m++) {
        weft_scope_begin();
        weft_module *root = make_tree();
        assert_null(weft_module_mesh(root));
        assert_int_equal(weft_distribute_module(root, meshes[m], shard_weights, NULL, NULL, NULL), WEFT_OK);
        assert_layout(weft_module_parameter(root, "blocks.0.weight"), meshes[m], sharded[m]);
        assert_layout(weft_module_parameter(root, "blocks.1.weight"), meshes[m], sharded[m]);
        assert_layout(weft_module_parameter(root, "blocks.0.bias"), meshes[m], whole[m]);
        assert_layout(weft_module_parameter(root, "scale"), meshes[m], whole[m]);
        assert_layout(weft_module_buffer(root, "steps"), meshes[m], whole[m]);
        assert_null(weft_module_parameter(root, "blocks.1.bias"));
        assert_numbered(weft_module_parameter(root, "blocks.0.weight"), 1);
        assert_numbered(weft_module_parameter(root, "blocks.0.bias"), -2);
        assert_ptr_equal(weft_module_mesh(root), meshes[m]);
        assert_ptr_equal(weft_module_mesh(weft_module_child(root, "blocks.1")), meshes[m]);
        char text[128];
        weft_tensor_describe(weft_module_parameter(root, "blocks.0.weight"), text, sizeof(text));
        assert_ptr_equal(strstr(text, "blocks.0.weight: "), text);
        weft_module_destroy(root);
        weft_scope_end();
        assert_no_error();
    }
}

static void test_g1_without_partition_all_is_replicated(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_module *root = make_tree();
    assert_int_equal(weft_module_set_tensor(root, "scale", weft_redistribute(weft_module_parameter(root, "scale"), NULL,
                                                                              &(weft_placement){ WEFT_SHARD, 0, WEFT_SUM })),
                     WEFT_OK);
    assert_layout(weft_module_parameter(root, "scale"), line, "S0");
    assert_int_equal(weft_distribute_module(root, NULL, NULL, NULL, NULL, NULL), WEFT_OK);
    weft_tensor *parameters[8];
    int count = weft_module_parameters(root, 8, NULL, parameters);
    for (int i = 0; i < count; i++) {
        assert_layout(parameters[i], line, "R");
    }
    assert_numbered(weft_module_parameter(root, "scale"), 0);
    weft_module_destroy(root);
    weft_scope_end();
    assert_no_error();
}

static void test_g1_tied_parameters_stay_tied(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_module *root = make_tree(), *head = weft_module_create("linear");
    weft_module_add_parameter(head, "weight", weft_module_parameter(root, "blocks.0.weight"));
    weft_module_add_child(root, "head", head);
    assert_int_equal(weft_module_parameters(root, 0, NULL, NULL), 4); /* it comes once */
    assert_int_equal(weft_distribute_module(root, grid, shard_weights, NULL, NULL, NULL), WEFT_OK);
    weft_tensor *weight = weft_module_parameter(root, "head.weight");
    assert_ptr_equal(weft_module_parameter(root, "blocks.0.weight"), weight);
    assert_layout(weight, grid, "R,S0");
    char text[128];
    assert_ptr_equal(strstr(weft_tensor_describe(weight, text, sizeof(text)), "blocks.0.weight: "), text);
    assert_int_equal(weft_module_parameters(root, 0, NULL, NULL), 4);
    weft_module_destroy(root);
    weft_scope_end();
    assert_no_error();
}

/* Shards the first weight, and fails at the second. */
static weft_status fail_at_the_second(const char *name, weft_module *module, weft_mesh *mesh, void *context)
{
    weft_placement placements[] = { weft_shard(1), *(weft_placement *)context };
    if (strncmp(name, "blocks.", 7) != 0) {
        return WEFT_OK;
    }
    return weft_module_place(module, "weight", mesh,
                             name[7] == '1' ? placements : (weft_placement[]){ weft_shard(1), weft_replicate() });
}

static void test_g1_an_error_changes_nothing_and_names_the_parameter(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_module *root = make_tree();
    weft_tensor *before[8], *after[8];
    assert_int_equal(weft_module_parameters(root, 8, NULL, before), 4);
    weft_placement wrong[] = { weft_shard(2), weft_partial(WEFT_SUM) };
    for (int i = 0; i < 2; i++) {
        assert_int_equal(weft_distribute_module(root, grid, fail_at_the_second, NULL, NULL, &wrong[i]), WEFT_ERR_LAYOUT);
        assert_error(WEFT_ERR_LAYOUT, "parameter \"blocks.1.weight\"");
        assert_int_equal(weft_module_parameters(root, 8, NULL, after), 4);
        assert_memory_equal(before, after, 4 * sizeof(*before));
        assert_null(weft_module_mesh(root));
    }
    assert_int_equal(weft_module_place(root, "blocks.2.weight", grid, NULL), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "\"blocks.2.weight\"");
    assert_int_equal(weft_module_place(root, "blocks.1.bias", grid, NULL), WEFT_OK); /* empty */
    assert_int_equal(weft_distribute_module(root, grid, shard_weights, NULL, NULL, NULL), WEFT_OK);
    assert_layout(weft_module_parameter(root, "blocks.0.weight"), grid, "R,S0");
    weft_module_destroy(root);
    weft_scope_end();
    assert_no_error();
}

/* ---- G2: calls ------------------------------------------------------------------------------------------- */

/* What has been called, in order. */
static char history[512];

static void note(const char *text, const char *name)
{
    size_t used = strlen(history);
    snprintf(history + used, sizeof(history) - used, "%s%s%s%s", used > 0 ? " " : "", text, name[0] == '\0' ? "" : ":", name);
}

static weft_status note_partition(const char *name, weft_module *module, weft_mesh *mesh, void *context)
{
    assert_ptr_equal(mesh, grid);
    assert_ptr_equal(context, history);
    char text[64];
    snprintf(text, sizeof(text), "(%s)", name);
    note(text, weft_module_type(module));
    return WEFT_OK;
}

static weft_status note_function(weft_module *module, weft_mesh *mesh, int num_tensors, weft_tensor *tensors[], void *context)
{
    (void)tensors;
    (void)mesh;
    assert_int_equal(num_tensors, 1);
    note(context, weft_module_name(module));
    return WEFT_OK;
}

static weft_status shard_input(weft_module *module, weft_mesh *mesh, int num_tensors, weft_tensor *tensors[], void *context)
{
    (void)context;
    assert_int_equal(num_tensors, 1);
    note("input", weft_module_name(module));
    tensors[0] = weft_redistribute(tensors[0], mesh, (weft_placement[]){ weft_shard(0), weft_replicate() });
    return WEFT_OK;
}

static weft_status replicate_output(weft_module *module, weft_mesh *mesh, int num_tensors, weft_tensor *tensors[],
                                    void *context)
{
    (void)context;
    assert_int_equal(num_tensors, 1);
    note("output", weft_module_name(module));
    assert_layout(tensors[0], grid, "S0,R");
    tensors[0] = weft_redistribute(tensors[0], mesh, NULL);
    return WEFT_OK;
}

static void test_g2_partition_is_called_for_every_module(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_module *root = make_tree();
    history[0] = '\0';
    assert_int_equal(weft_distribute_module(root, grid, note_partition, NULL, NULL, history), WEFT_OK);
    assert_string_equal(history, "():chain (blocks):list (blocks.0):linear (blocks.1):linear");
    assert_null(weft_module_parameter(root, "blocks.1.bias")); /* an empty slot is skipped */
    weft_module_destroy(root);
    weft_scope_end();
    assert_no_error();
}

static void test_g2_input_and_output_functions_run_on_the_root_only(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_module *root = make_tree(), *plain = make_tree();
    weft_module *first = weft_module_child(root, "blocks.0");
    static char early[] = "early", late[] = "late", inner[] = "inner", done[] = "done", last[] = "last";
    weft_module_add_hook(root, WEFT_BEFORE_FORWARD, note_function, early);
    weft_module_add_hook(root, WEFT_AFTER_FORWARD, note_function, done);
    weft_module_add_hook(first, WEFT_BEFORE_FORWARD, note_function, inner);
    assert_int_equal(weft_distribute_module(root, grid, NULL, shard_input, replicate_output, NULL), WEFT_OK);
    weft_module_add_hook(root, WEFT_BEFORE_FORWARD, note_function, late);
    weft_module_add_hook(root, WEFT_AFTER_FORWARD, note_function, last);
    history[0] = '\0';
    weft_tensor *x = numbered(8, 5, -3), *y = weft_module_call(root, weft_redistribute(x, grid, NULL));
    assert_no_error();
    assert_string_equal(history, "early input late inner:blocks.0 done output last");
    assert_layout(y, grid, "R,R");
    double values[24], expected[24];
    assert_int_equal(weft_to_host(y, values, sizeof(values)), WEFT_OK);
    assert_int_equal(weft_to_host(weft_module_call(plain, x), expected, sizeof(expected)), WEFT_OK);
    assert_memory_equal(values, expected, sizeof(values));
    weft_module_destroy(root);
    weft_module_destroy(plain);
    weft_scope_end();
    assert_no_error();
}

static void test_g2_a_second_distribution(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_module *root = make_tree(), *part = weft_module_child(root, "blocks.0");
    assert_int_equal(weft_distribute_module(part, line, shard_weights, NULL, NULL, NULL), WEFT_OK);
    assert_int_equal(weft_distribute_module(part, line, NULL, NULL, NULL, NULL), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "blocks.0 has been distributed already");
    /* The part keeps its layouts; the rest becomes Replicate on the other mesh. */
    assert_int_equal(weft_distribute_module(root, grid, NULL, NULL, NULL, NULL), WEFT_OK);
    assert_layout(weft_module_parameter(part, "weight"), line, "S0");
    assert_layout(weft_module_parameter(part, "bias"), line, "R");
    assert_layout(weft_module_parameter(root, "blocks.1.weight"), grid, "R,R");
    assert_ptr_equal(weft_module_mesh(part), line);
    assert_ptr_equal(weft_module_mesh(root), grid);
    assert_int_equal(weft_distribute_module(root, grid, NULL, NULL, NULL, NULL), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "the root has been distributed already");
    weft_module_destroy(root);
    weft_scope_end();
    assert_no_error();
}

/* ---- G2: forward passes ---------------------------------------------------------------------------------- */

typedef enum mistake { RETURNS_ERROR, LEAVES_NULL, CALL_FAILS, OPENS_SCOPE, CLOSES_SCOPE, FREES_ITSELF, DISTRIBUTES } mistake;

static weft_status wrong_forward(weft_module *self, int num_inputs, weft_tensor *const inputs[], int num_outputs,
                                 weft_tensor *outputs[], void *context)
{
    (void)num_inputs;
    (void)num_outputs;
    mistake which = *(const mistake *)context;
    outputs[0] = which == LEAVES_NULL ? NULL : weft_neg(inputs[0]);
    switch (which) {
    case RETURNS_ERROR:
        return WEFT_ERR_UNSUPPORTED;
    case CALL_FAILS:
        outputs[0] = weft_matmul(inputs[0], inputs[0]);
        break;
    case OPENS_SCOPE:
        weft_scope_begin();
        break;
    case CLOSES_SCOPE:
        weft_scope_end();
        break;
    case FREES_ITSELF:
        return weft_module_destroy(self);
    case DISTRIBUTES:
        return weft_distribute_module(self, NULL, NULL, NULL, NULL, NULL);
    case LEAVES_NULL:
        break;
    }
    return WEFT_OK;
}

static void test_g2_wrong_forward_functions(void **state)
{
    (void)state;
    static const struct {
        mistake which;
        weft_status status;
        const char *text;
    } rows[] = { { RETURNS_ERROR, WEFT_ERR_UNSUPPORTED, "the forward function has failed" },
                 { LEAVES_NULL, WEFT_ERR_INVALID, "leaves outputs[0] NULL" },
                 { CALL_FAILS, WEFT_ERR_SHAPE, "weft_matmul" },
                 { OPENS_SCOPE, WEFT_ERR_STATE, "leaves scopes open" },
                 { CLOSES_SCOPE, WEFT_ERR_STATE, "has closed others" },
                 { FREES_ITSELF, WEFT_ERR_STATE, "weft_module_destroy" },
                 { DISTRIBUTES, WEFT_ERR_STATE, "in a forward pass" } };
    weft_scope_begin();
    weft_tensor *x = numbered(2, 3, 0), *y = x;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        mistake which = rows[i].which;
        weft_module *module = weft_module_create("wrong");
        weft_module_set_forward(module, wrong_forward, &which);
        weft_scope_begin();
        assert_int_equal(weft_module_forward(module, 1, &x, 1, &y), rows[i].status);
        assert_null(y);
        assert_error(rows[i].status, rows[i].text);
        weft_scope_end();
        assert_int_equal(weft_module_destroy(module), WEFT_OK);
    }
    weft_module *none = weft_module_create("none");
    assert_null(weft_module_call(none, x));
    assert_error(WEFT_ERR_STATE, "no forward function");
    assert_int_equal(weft_module_forward(none, 1, &y, 0, NULL), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "inputs[0] is NULL");
    assert_int_equal(weft_module_forward(none, -1, NULL, 0, NULL), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "num_inputs is -1");
    assert_int_equal(weft_module_forward(none, 0, NULL, 1, NULL), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "outputs is NULL");
    weft_module_destroy(none);
    weft_scope_end();
    assert_no_error();
}

static weft_status pass_through(weft_module *self, int num_inputs, weft_tensor *const inputs[], int num_outputs,
                                weft_tensor *outputs[], void *context)
{
    (void)num_inputs;
    (void)num_outputs;
    assert_ptr_equal(weft_module_context(self), context);
    outputs[0] = inputs[0];
    outputs[1] = weft_module_use(self, "weight");
    outputs[2] = outputs[3] = weft_neg(weft_neg(inputs[1]));
    return WEFT_OK;
}

/* Outputs that are inputs, parameters, or one tensor twice; the intermediate tensor is released. */
static void test_g2_outputs_belong_to_the_scope_around(void **state)
{
    (void)state;
    weft_module *module = weft_module_create("through");
    weft_scope_begin();
    weft_module_add_parameter(module, "weight", numbered(2, 2, 0));
    weft_module_set_forward(module, pass_through, module);
    weft_scope_begin();
    weft_tensor *tensors[] = { numbered(3, 2, 1), numbered(3, 2, 7), NULL, NULL }, *first = tensors[0];
    assert_int_equal(weft_module_forward(module, 2, tensors, 4, tensors), WEFT_OK); /* one array for both */
    assert_ptr_equal(tensors[0], first);
    assert_ptr_equal(tensors[1], weft_module_parameter(module, "weight"));
    assert_ptr_equal(tensors[2], tensors[3]);
    assert_numbered(tensors[2], 7);
    weft_tensor *last = tensors[2];
    weft_scope_end();
    assert_int_equal(weft_tensor_ndim(last), 0);
    assert_error(WEFT_ERR_INVALID, "not a live tensor");
    assert_numbered(weft_module_parameter(module, "weight"), 0);
    weft_scope_end();
    weft_module_destroy(module);
    assert_no_error();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_g1_names_come_in_a_fixed_order),
        cmocka_unit_test(test_g1_modules_hold_their_tensors),
        cmocka_unit_test(test_g1_wrong_trees_are_refused),
        cmocka_unit_test(test_g1_what_partition_leaves_is_replicated),
        cmocka_unit_test(test_g1_without_partition_all_is_replicated),
        cmocka_unit_test(test_g1_tied_parameters_stay_tied),
        cmocka_unit_test(test_g1_an_error_changes_nothing_and_names_the_parameter),
        cmocka_unit_test(test_g2_partition_is_called_for_every_module),
        cmocka_unit_test(test_g2_input_and_output_functions_run_on_the_root_only),
        cmocka_unit_test(test_g2_a_second_distribution),
        cmocka_unit_test(test_g2_wrong_forward_functions),
        cmocka_unit_test(test_g2_outputs_belong_to_the_scope_around),
    };
    return cmocka_run_group_tests(tests, start, world_stop);
}
