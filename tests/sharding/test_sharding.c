/* The sharding of a call, without StarPU: a function of an operation, the inputs' layouts and the
 * attributes; refusals have a message that names the argument. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "sharding/sharding.h"

/* ---- a world ------------------------------------------------------------------------------------------- */

typedef struct world {
    weft_mesh_impl *mesh, *line;
    weft_topology topology;
    weft_cost_model cost;
    weft_rule_table rules;
    weft_sharding_world sharding;
} world;

static weft_mesh_impl *mesh_new(int ndim, const int64_t shape[])
{
    weft_status status;
    char why[100];
    weft_mesh_impl *mesh = weft_mesh_new(ndim, shape, NULL, NULL, 4, &status, why, sizeof(why));
    assert_non_null(mesh);
    return mesh;
}

static int world_open(void **state)
{
    static world w;
    weft_panel_policy policy = WEFT_PANEL_POLICY_DEFAULT;
    w = (world){ .topology = { 4, 4, NULL }, .cost = WEFT_COST_MODEL_DEFAULT };
    w.mesh = mesh_new(2, (int64_t[]){ 2, 2 });
    w.line = mesh_new(1, (int64_t[]){ 4 });
    w.sharding = (weft_sharding_world){
        .table = weft_layout_table_new(policy), .topology = &w.topology, .cost = &w.cost, .rules = &w.rules
    };
    assert_non_null(w.sharding.table);
    *state = &w;
    return 0;
}

static int world_close(void **state)
{
    world *w = *state;
    weft_rule_table_free(&w->rules);
    weft_layout_table_delete(w->sharding.table);
    weft_mesh_delete(w->mesh);
    weft_mesh_delete(w->line);
    return 0;
}

static const weft_layout *layout(world *w, weft_dtype dtype, int ndim, const int64_t shape[],
                                 const char *text)
{
    weft_placement placements[WEFT_MAX_DIMS];
    assert_int_equal(weft_placements_read(text, 2, placements, NULL, 0), WEFT_OK);
    const weft_layout *made = weft_layout_intern(w->sharding.table, w->mesh, placements, ndim, shape, dtype);
    assert_non_null(made);
    return made;
}

static void assert_layout(const weft_layout *is, const char *expected)
{
    char text[160];
    assert_string_equal(weft_layout_format(is, text, sizeof(text)), expected);
}

static void assert_refused(world *w, const weft_call_layouts *call, weft_status status, const char *message)
{
    char why[400] = "";
    weft_sharding sharding;
    weft_status got = weft_call_check_inputs(call, why, sizeof(why));
    if (got == WEFT_OK) {
        got = weft_call_shard(&w->sharding, call, &sharding, why, sizeof(why));
    }
    assert_int_equal(got, status);
    assert_string_equal(why, message);
}

/* ---- operations ---------------------------------------------------------------------------------------- */

static const weft_operation product = {
    .name = "product",
    .rules = { "mk,kn->mn", "mk,nk->mn" },
    .outputs[0].linear = { .kind = WEFT_LINEAR_EACH, .inputs = 3, .ops = WEFT_LINEAR_OPS },
    .inputs = { { "a", WEFT_TYPES_FLOAT, false }, { "b", WEFT_TYPES_FLOAT, true } },
};

static const weft_operation add_to = {
    .name = "add_to",
    .rules = { "...,...->..." },
    .inputs = { { "target", WEFT_TYPES_ALL, false }, { "b", WEFT_TYPES_ALL, false } },
    .outputs[0].in_place = true,
};

/* numbers: the shape that is asked for. */
static void write_reversed(const weft_call_layouts *call, char *text, size_t size)
{
    snprintf(text, size, "%s", call->inputs[0]->ndim == 2 ? "ab->ba" : "a->a");
}

static const weft_operation reversed = {
    .name = "reversed",
    .write_rule = write_reversed,
    .numbers_are_shape = true,
    .inputs = { { "a", WEFT_TYPES_ALL, false } },
};

static weft_status choose_first(const weft_call_layouts *call, weft_sharding *sharding, char *why,
                                size_t size)
{
    if (call->attributes->numbers[0] != 0) {
        snprintf(why, size, "numbers[0] is %lld", (long long)call->attributes->numbers[0]);
        return WEFT_ERR_LAYOUT;
    }
    sharding->inputs[0] = sharding->outputs[0] = call->inputs[0];
    return WEFT_OK;
}

static const weft_operation chosen = { .name = "chosen",
                                       .choose = choose_first,
                                       .inputs = { { "a", WEFT_TYPES_ALL, false } } };

/* ---- cases --------------------------------------------------------------------------------------------- */

static void by_rule(void **state)
{
    world *w = *state;
    weft_attributes attributes = { 0 };
    weft_call_layouts call = { &product,
                               2,
                               { layout(w, WEFT_F32, 2, (int64_t[]){ 64, 32 }, "S0,R"),
                                 layout(w, WEFT_F32, 2, (int64_t[]){ 32, 16 }, "R,S1") },
                               &attributes };
    char why[400] = "";
    weft_sharding sharding;
    assert_int_equal(weft_call_check_inputs(&call, why, sizeof(why)), WEFT_OK);
    assert_int_equal(weft_call_shard(&w->sharding, &call, &sharding, why, sizeof(why)), WEFT_OK);
    assert_ptr_equal(sharding.inputs[0], call.inputs[0]);
    assert_ptr_equal(sharding.inputs[1], call.inputs[1]);
    assert_layout(sharding.outputs[0], "f32[64, 16] [S0,S1] on 2x2");
    /* The second rule: b moves to the mesh dimension that a leaves free. */
    attributes.rule = 1;
    call.inputs[1] = layout(w, WEFT_F32, 2, (int64_t[]){ 16, 32 }, "S0,R");
    assert_int_equal(weft_call_shard(&w->sharding, &call, &sharding, why, sizeof(why)), WEFT_OK);
    assert_layout(sharding.inputs[1], "f32[16, 32] [R,S0] on 2x2");
    assert_layout(sharding.outputs[0], "f32[64, 16] [S0,S1] on 2x2");
}

static void rules_are_parsed_once(void **state)
{
    world *w = *state;
    const weft_rule *first, *second;
    char why[200] = "";
    assert_int_equal(weft_rule_table_get(&w->rules, product.rules[0], &first, why, sizeof(why)), WEFT_OK);
    assert_int_equal(weft_rule_table_get(&w->rules, product.rules[0], &second, why, sizeof(why)), WEFT_OK);
    assert_ptr_equal(first, second);
    assert_int_equal(first->num_inputs, 2);
    static const char wrong[] = "mk,kn";
    assert_int_equal(weft_rule_table_get(&w->rules, wrong, &first, why, sizeof(why)), WEFT_ERR_INVALID);
    assert_int_equal(weft_rule_table_get(&w->rules, wrong, &first, why, sizeof(why)), WEFT_ERR_INVALID);
    assert_non_null(strstr(why, "mk,kn"));
}

static void written_and_chosen(void **state)
{
    world *w = *state;
    weft_attributes attributes = { .num_numbers = 2, .numbers = { 6, 4 } };
    weft_call_layouts call = {
        &reversed, 1, { layout(w, WEFT_I32, 2, (int64_t[]){ 4, 6 }, "S0,R") }, &attributes
    };
    char why[400] = "";
    weft_sharding sharding;
    assert_int_equal(weft_call_shard(&w->sharding, &call, &sharding, why, sizeof(why)), WEFT_OK);
    assert_layout(sharding.outputs[0], "i32[6, 4] [S1,R] on 2x2");
    attributes.numbers[0] = 5;
    assert_refused(w, &call, WEFT_ERR_INTERNAL,
                   "a mistake in weft: the rule of reversed does not give the shape asked for");
    call.operation = &chosen;
    attributes = (weft_attributes){ 0 };
    assert_int_equal(weft_call_shard(&w->sharding, &call, &sharding, why, sizeof(why)), WEFT_OK);
    assert_ptr_equal(sharding.outputs[0], call.inputs[0]);
    attributes.numbers[0] = 7;
    assert_refused(w, &call, WEFT_ERR_LAYOUT, "numbers[0] is 7");
}

static void what_does_not_fit(void **state)
{
    world *w = *state;
    weft_attributes attributes = { 0 };
    const weft_layout *a = layout(w, WEFT_F32, 2, (int64_t[]){ 4, 6 }, "R,R");
    weft_call_layouts call = {
        &product, 2, { a, layout(w, WEFT_F64, 2, (int64_t[]){ 6, 4 }, "R,R") }, &attributes
    };
    assert_refused(w, &call, WEFT_ERR_DTYPE, "b is f64, expected f32, the type of a");
    call.inputs[1] = layout(w, WEFT_I32, 2, (int64_t[]){ 6, 4 }, "R,R");
    assert_refused(w, &call, WEFT_ERR_DTYPE, "b is i32, expected f16, bf16, f32 or f64");
    call.inputs[1] = layout(w, WEFT_F32, 2, (int64_t[]){ 5, 4 }, "R,R");
    assert_refused(w, &call, WEFT_ERR_SHAPE,
                   "b has size 5 in dimension 0, expected 6, as dimension 1 of a has");
    weft_placement everywhere[] = { weft_replicate() };
    call.inputs[1] =
        weft_layout_intern(w->sharding.table, w->line, everywhere, 2, (int64_t[]){ 6, 4 }, WEFT_F32);
    assert_refused(w, &call, WEFT_ERR_MESH,
                   "a is on mesh 2x2 and b on mesh 4: weft_redistribute() one of them");
    call.num_inputs = 1;
    assert_refused(w, &call, WEFT_ERR_INVALID, "rule \"mk,kn->mn\" is not one of 1 inputs");
    call = (weft_call_layouts){
        &add_to, 2, { a, layout(w, WEFT_F32, 1, (int64_t[]){ 4 }, "R,R") }, &attributes
    };
    assert_refused(w, &call, WEFT_ERR_SHAPE,
                   "b has size 4 in dimension 0, expected 6 or 1, as dimension 1 of target has");
    call.inputs[1] = layout(w, WEFT_F32, 3, (int64_t[]){ 2, 4, 6 }, "R,R");
    assert_refused(w, &call, WEFT_ERR_SHAPE,
                   "b, f32[2, 4, 6] [R,R] on 2x2, does not broadcast to target, f32[4, 6] [R,R] on 2x2");
    call.inputs[0] = layout(w, WEFT_I32, 2, (int64_t[]){ 4, 6 }, "R,R");
    call.inputs[1] = a;
    assert_refused(w, &call, WEFT_ERR_DTYPE, "target is i32 and cannot hold the result, which is f32");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(by_rule, world_open, world_close),
        cmocka_unit_test_setup_teardown(rules_are_parsed_once, world_open, world_close),
        cmocka_unit_test_setup_teardown(written_and_chosen, world_open, world_close),
        cmocka_unit_test_setup_teardown(what_does_not_fit, world_open, world_close),
    };
    return cmocka_run_group_tests_name("sharding", tests, NULL, NULL);
}
