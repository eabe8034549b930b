/* Strategies without StarPU: known parallel forms of a product cost nothing; broadcasting, dimensions of
 * several factors, targets in place, nested reductions, meshes of many dimensions and ranks. */
#include "strategy_support.h"

#include <string.h>

/* ---- the forms of a product ---------------------------------------------------------------------------- */

static const weft_linearity each = { WEFT_LINEAR_EACH, 3, WEFT_LINEAR_OPS };
static const weft_linearity jointly = { WEFT_LINEAR_JOINTLY, 0, WEFT_LINEAR_OPS };
static const weft_linearity not_linear = { WEFT_NOT_LINEAR, 0, 0 };

typedef struct known_case {
    const char *a, *b;                            /* layouts that are given */
    const char *wanted_a, *wanted_b, *wanted_out; /* layouts that must be chosen */
} known_case;

static void check_known(const char *rule, const weft_linearity *linear, const int64_t a_shape[],
                        const int64_t b_shape[], int mesh_ndim, const int64_t mesh_shape[],
                        const known_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        problem p;
        problem_open(&p, rule, mesh_ndim, mesh_shape);
        set_shape(&p, 0, 2, a_shape);
        set_shape(&p, 1, 2, b_shape);
        problem_bind(&p, (weft_attributes){ 0 });
        const weft_layout *inputs[] = { layout_of(&p, 0, cases[i].a), layout_of(&p, 1, cases[i].b) };
        weft_sharding sharding;
        char why[200] = "";
        weft_status status = search_problem(&p, linear, inputs, &sharding, why, sizeof(why));
        assert_int_equal(status, WEFT_OK);
        assert_placements(sharding.inputs[0], cases[i].wanted_a);
        assert_placements(sharding.inputs[1], cases[i].wanted_b);
        assert_placements(sharding.outputs[0], cases[i].wanted_out);
        problem_close(&p);
    }
}

static void test_product_1d(void **state)
{
    (void)state;
    static const known_case cases[] = {
        { "S0", "R", "[S0]", "[R]", "[S0]" },        /* data parallel */
        { "R", "S1", "[R]", "[S1]", "[S1]" },        /* column parallel */
        { "S1", "S0", "[S1]", "[S0]", "[P(sum)]" },  /* row parallel */
        { "P", "R", "[P(sum)]", "[R]", "[P(sum)]" }, /* linear in a */
        { "R", "P(avg)", "[R]", "[P(avg)]", "[P(avg)]" },
        { "R", "R", "[R]", "[R]", "[R]" }, /* nothing is changed for less work */
    };
    int64_t mesh[] = { 4 }, a[] = { 512, 1024 }, b[] = { 1024, 256 };
    check_known("mk,kn->mn", &each, a, b, 1, mesh, cases, WEFT_ARRAY_SIZE(cases));
}

static void test_product_2d(void **state)
{
    (void)state;
    static const known_case cases[] = {
        { "S0,R", "R,S1", "[S0,R]", "[R,S1]", "[S0,S1]" },
        { "S0,S1", "R,S0", "[S0,S1]", "[R,S0]", "[S0,P(sum)]" },
        { "S0,S0", "R,R", "[S0,S0]", "[R,R]", "[S0,S0]" },
        { "S1,S1", "S0,S0", "[S1,S1]", "[S0,S0]", "[P(sum),P(sum)]" },
        { "S0,P", "R,R", "[S0,P(sum)]", "[R,R]", "[S0,P(sum)]" },
        { "P,S1", "R,S0", "[P(sum),S1]", "[R,S0]", "[P(sum),P(sum)]" },
        { "R,R", "R,R", "[R,R]", "[R,R]", "[R,R]" },
    };
    int64_t mesh[] = { 4, 2 }, a[] = { 512, 1024 }, b[] = { 1024, 256 };
    check_known("mk,kn->mn", &each, a, b, 2, mesh, cases, WEFT_ARRAY_SIZE(cases));
}

static void test_sum_of_two(void **state)
{
    (void)state;
    static const known_case cases[] = {
        { "S0", "S0", "[S0]", "[S0]", "[S0]" },
        { "S1", "S1", "[S1]", "[S1]", "[S1]" },
        { "P", "P", "[P(sum)]", "[P(sum)]", "[P(sum)]" },
        { "P(avg)", "P(avg)", "[P(avg)]", "[P(avg)]", "[P(avg)]" },
        { "P", "S1", "[S1]", "[S1]", "[S1]" }, /* a reduce-scatter is cheaper than all else */
        { "S0", "P", "[S0]", "[S0]", "[S0]" },
        { "S0", "R", "[S0]", "[S0]", "[S0]" }, /* a slice is cheaper than a gather */
    };
    int64_t mesh[] = { 4 }, shape[] = { 512, 1024 };
    check_known("...,...->...", &jointly, shape, shape, 1, mesh, cases, WEFT_ARRAY_SIZE(cases));
}

static void test_broadcast(void **state)
{
    (void)state;
    static const known_case cases[] = {
        { "S0", "R", "[S0]", "[R]", "[S0]" },
        { "S1", "S1", "[S1]", "[S1]", "[S1]" },
        { "S1", "R", "[S1]", "[S1]", "[S1]" },
        { "S0", "S1", "[S0]", "[R]", "[S0]" }, /* the small one moves */
    };
    int64_t mesh[] = { 4 }, a[] = { 512, 1024 }, b[] = { 1, 1024 };
    check_known("...,...->...", &jointly, a, b, 1, mesh, cases, WEFT_ARRAY_SIZE(cases));
}

static void test_brackets(void **state)
{
    (void)state;
    static const known_case cases[] = {
        { "S0", "S0", "[S0]", "[S0]", "[S0]" },
        { "R", "R", "[R]", "[R]", "[R]" },
    };
    int64_t mesh[] = { 4 }, shape[] = { 512, 1024 };
    check_known("n[c],n[c]->n[c]", &not_linear, shape, shape, 1, mesh, cases, WEFT_ARRAY_SIZE(cases));
    /* Logits sharded over the classes are never left so. */
    problem p;
    problem_open(&p, "n[c],n->", 1, mesh);
    set_shape(&p, 0, 2, shape);
    set_shape(&p, 1, 1, shape);
    problem_bind(&p, (weft_attributes){ 0 });
    const weft_layout *inputs[] = { layout_of(&p, 0, "S1"), layout_of(&p, 1, "R") };
    weft_sharding sharding;
    assert_int_equal(search_problem(&p, &not_linear, inputs, &sharding, NULL, 0), WEFT_OK);
    assert_placements(sharding.inputs[0], "[S0]");
    assert_placements(sharding.outputs[0], "[P(sum)]");
    problem_close(&p);
}

static void test_output_only(void **state)
{
    (void)state;
    int64_t mesh[] = { 4 }, gradient[] = { 64, 32 };
    problem p;
    problem_open(&p, "Ad,A->vd", 1, mesh);
    set_shape(&p, 0, 2, gradient);
    set_shape(&p, 1, 1, gradient);
    problem_bind(&p, (weft_attributes){ .num_sizes = 1, .sizes = { 100 } });
    weft_sharding sharding;
    const weft_layout *whole[] = { layout_of(&p, 0, "R"), layout_of(&p, 1, "R") };
    assert_int_equal(search_problem(&p, &not_linear, whole, &sharding, NULL, 0), WEFT_OK);
    assert_placements(sharding.outputs[0], "[S0]"); /* each rank its own rows: less work, nothing moved */
    const weft_layout *sharded[] = { layout_of(&p, 0, "S0"), layout_of(&p, 1, "S0") };
    assert_int_equal(search_problem(&p, &not_linear, sharded, &sharding, NULL, 0), WEFT_OK);
    assert_placements(sharding.outputs[0], "[P(sum)]");
    problem_close(&p);
}

/* ---- dimensions of several factors --------------------------------------------------------------------- */

/* "(ab)c->a(bc)": chunks of a and of the first dimension must be the same. */
static void check_compound(int mesh_ndim, const int64_t mesh[], int64_t a, int64_t b, const char *given,
                           const char *wanted)
{
    problem p;
    problem_open(&p, "(ab)c->a(bc)", mesh_ndim, mesh);
    int64_t shape[] = { a * b, 64 };
    set_shape(&p, 0, 2, shape);
    problem_bind(&p, (weft_attributes){ .num_sizes = 2, .sizes = { a, b } });
    const weft_layout *inputs[] = { layout_of(&p, 0, given) };
    weft_sharding sharding;
    assert_int_equal(search_problem(&p, &jointly, inputs, &sharding, NULL, 0), WEFT_OK);
    assert_placements(sharding.inputs[0], wanted);
    assert_placements(sharding.outputs[0], wanted);
    problem_close(&p);
}

static void test_compound(void **state)
{
    (void)state;
    int64_t three[] = { 3 }, four[] = { 4 }, two_by_two[] = { 2, 2 };
    check_compound(1, four, 8, 3, "S0", "[S0]");
    check_compound(1, three, 5, 2, "S0", "[S0]"); /* 2, 2, 1 of a; 4, 4, 2 of both */
    check_compound(1, four, 6, 3, "S0", "[R]");   /* 2, 2, 2, 0 of a; 5, 5, 5, 3 of both */
    check_compound(1, four, 8, 3, "S1", "[S0]");  /* c is after b in the output */
    check_compound(1, four, 8, 3, "P", "[P(sum)]");
    check_compound(2, two_by_two, 8, 3, "S0,S0", "[S0,S0]");
    check_compound(2, two_by_two, 6, 3, "S0,R", "[S0,R]");
    check_compound(2, two_by_two, 6, 3, "S0,P", "[S0,P(sum)]");
    /* 3, 3 of a and 2, 1, 2, 1; but 9, 9 and 5, 4, 5, 4: one of the two must go. */
    check_compound(2, two_by_two, 6, 3, "S0,S0", "[S0,R]");
}

/* ---- in place ------------------------------------------------------------------------------------------ */

static void test_in_place(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b, *wanted_b; /* wanted_b NULL: an error */
    } cases[] = {
        { "S0,R", "R,R", "[S0,R]" },      { "S0,S1", "S1,S0", "[S0,S1]" }, { "R,R", "S0,S1", "[R,R]" },
        { "R,R", "P,P", "[R,R]" },        { "S1,R", "P,S0", "[S1,R]" },    { "P,R", "P,S0", "[P(sum),R]" },
        { "P,S0", "P,R", "[P(sum),S0]" }, { "P,R", "R,R", NULL },          { "P,R", "P(avg),R", NULL },
        { "R,P", "S0,R", NULL },
    };
    int64_t mesh[] = { 2, 3 }, shape[] = { 50, 70 };
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(cases); i++) {
        problem p;
        problem_open(&p, "...,...->...", 2, mesh);
        p.in_place = true;
        set_shape(&p, 0, 2, shape);
        set_shape(&p, 1, 2, shape);
        problem_bind(&p, (weft_attributes){ 0 });
        const weft_layout *inputs[] = { layout_of(&p, 0, cases[i].a), layout_of(&p, 1, cases[i].b) };
        weft_sharding sharding;
        char why[200] = "";
        weft_status status = search_problem(&p, &jointly, inputs, &sharding, why, sizeof(why));
        if (cases[i].wanted_b == NULL) {
            assert_int_equal(status, WEFT_ERR_LAYOUT);
            assert_non_null(strstr(why, "redistribute the target first"));
        } else {
            assert_int_equal(status, WEFT_OK);
            assert_ptr_equal(sharding.inputs[0], inputs[0]);
            assert_ptr_equal(sharding.outputs[0], inputs[0]);
            assert_placements(sharding.inputs[1], cases[i].wanted_b);
        }
        problem_close(&p);
    }
}

/* A reduction inside one of another kind must not be put off. */
static void test_nested_reductions(void **state)
{
    (void)state;
    static const known_case cases[] = {
        { "P(max),P(sum)", "P(max),P(sum)", "[S0,S0]", "[S0,S0]", "[S0,S0]" },
        { "P(sum),P(avg)", "P(sum),P(avg)", "[P(sum),P(avg)]", "[P(sum),P(avg)]", "[P(sum),P(avg)]" },
    };
    int64_t mesh[] = { 2, 2 }, shape[] = { 64, 64 };
    check_known("...,...->...", &jointly, shape, shape, 2, mesh, cases + 1, 1);
    problem p;
    problem_open(&p, "...,...->...", 2, mesh);
    set_shape(&p, 0, 2, shape);
    set_shape(&p, 1, 2, shape);
    problem_bind(&p, (weft_attributes){ 0 });
    const weft_layout *inputs[] = { layout_of(&p, 0, cases[0].a), layout_of(&p, 1, cases[0].b) };
    weft_sharding sharding;
    assert_int_equal(search_problem(&p, &jointly, inputs, &sharding, NULL, 0), WEFT_OK);
    assert_false(sharding.inputs[0]->has_partial);
    problem_close(&p);
}

/* ---- size ---------------------------------------------------------------------------------------------- */

static void test_many_mesh_dimensions(void **state)
{
    (void)state;
    int64_t mesh[] = { 2, 2, 2, 2, 2, 2, 2, 2 }, shape[] = { 4096, 4096 };
    problem p;
    problem_open(&p, "mk,kn->mn", 8, mesh);
    set_shape(&p, 0, 2, shape);
    set_shape(&p, 1, 2, shape);
    problem_bind(&p, (weft_attributes){ 0 });
    weft_sharding sharding;
    const weft_layout *fit[] = { layout_of(&p, 0, "S0,S0,R,R,S1,S1,R,P"),
                                 layout_of(&p, 1, "R,R,S1,S1,S0,S0,R,R") };
    assert_int_equal(search_problem(&p, &each, fit, &sharding, NULL, 0), WEFT_OK);
    assert_ptr_equal(sharding.inputs[0], fit[0]);
    assert_ptr_equal(sharding.inputs[1], fit[1]);
    assert_placements(sharding.outputs[0], "[S0,S0,S1,S1,P(sum),P(sum),R,P(sum)]");
    problem_close(&p);
}

static void test_many_ranks(void **state)
{
    (void)state;
    int64_t mesh[] = { 4096, 16 }, a[] = { 1 << 20, 8192 }, b[] = { 8192, 8192 };
    problem p;
    problem_open(&p, "mk,kn->mn", 2, mesh);
    set_shape(&p, 0, 2, a);
    set_shape(&p, 1, 2, b);
    problem_bind(&p, (weft_attributes){ 0 });
    weft_sharding sharding;
    const weft_layout *inputs[] = { layout_of(&p, 0, "S0,R"), layout_of(&p, 1, "S0,S1") };
    assert_int_equal(search_problem(&p, &each, inputs, &sharding, NULL, 0), WEFT_OK);
    assert_placements(sharding.outputs[0], "[S0,S1]"); /* the weights are gathered, the activations stay */
    problem_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_product_1d),        cmocka_unit_test(test_product_2d),
        cmocka_unit_test(test_sum_of_two),        cmocka_unit_test(test_broadcast),
        cmocka_unit_test(test_brackets),          cmocka_unit_test(test_output_only),
        cmocka_unit_test(test_compound),          cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_nested_reductions), cmocka_unit_test(test_many_mesh_dimensions),
        cmocka_unit_test(test_many_ranks),
    };
    return cmocka_run_group_tests(tests, seed_random, NULL);
}
