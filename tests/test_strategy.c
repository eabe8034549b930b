/* Strategies and their search, without StarPU: every strategy gives each rank operands that fit together; the
 * search finds the cheapest combination; known parallel forms of a product cost nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "prng.h"
#include "sharding/strategy.h"

static prng numbers;

static int random_below(int n)
{
    return (int)prng_below(&numbers, n);
}

static int seed_random(void **state)
{
    (void)state;
    numbers = prng_start(1);
    return 0;
}

/* ---- a problem: rule, shapes, mesh, layouts ------------------------------------------------------------ */

typedef struct problem {
    weft_rule rule;
    weft_linearity linear;
    int ndim[WEFT_MAX_INPUTS];
    int64_t shape[WEFT_MAX_INPUTS][WEFT_MAX_DIMS];
    weft_binding binding;
    weft_mesh_impl *mesh;
    weft_layout_table *table;
    weft_topology topology;
    weft_cost_model cost;
    weft_search search;
} problem;

static void problem_open(problem *p, const char *rule, int mesh_ndim, const int64_t mesh_shape[])
{
    memset(p, 0, sizeof(*p));
    char why[200] = "";
    if (weft_rule_parse(rule, &p->rule, why, sizeof(why)) != WEFT_OK) {
        fail_msg("%s", why);
    }
    int64_t ranks = 1;
    for (int d = 0; d < mesh_ndim; d++) {
        ranks *= mesh_shape[d];
    }
    weft_status status;
    p->mesh = weft_mesh_new(mesh_ndim, mesh_shape, NULL, NULL, ranks, &status, why, sizeof(why));
    assert_non_null(p->mesh);
    weft_panel_policy policy = WEFT_PANEL_POLICY_DEFAULT;
    p->table = weft_layout_table_new(policy);
    assert_non_null(p->table);
    p->topology = (weft_topology){ (int)ranks, (int)ranks, NULL };
    p->cost = (weft_cost_model)WEFT_COST_MODEL_DEFAULT;
    p->search = (weft_search){ .table = p->table, .topology = &p->topology, .cost = &p->cost };
}

static void problem_close(problem *p)
{
    weft_layout_table_delete(p->table);
    weft_mesh_delete(p->mesh);
}

static void problem_bind(problem *p, weft_attributes attributes)
{
    weft_operand_shape shapes[WEFT_MAX_INPUTS];
    for (int i = 0; i < p->rule.num_inputs; i++) {
        shapes[i] = (weft_operand_shape){ "input", p->ndim[i], p->shape[i] };
    }
    char why[200] = "";
    if (weft_rule_bind(&p->rule, shapes, &attributes, &p->binding, why, sizeof(why)) != WEFT_OK) {
        fail_msg("%s", why);
    }
}

static void set_shape(problem *p, int input, int ndim, const int64_t shape[])
{
    p->ndim[input] = ndim;
    memcpy(p->shape[input], shape, (size_t)ndim * sizeof(shape[0]));
}

static const weft_layout *layout_of(problem *p, int input, const char *placements)
{
    weft_placement read[WEFT_MAX_DIMS], canonical[WEFT_MAX_DIMS];
    char why[200] = "";
    if (weft_placements_read(placements, p->mesh->ndim, read, why, sizeof(why)) != WEFT_OK ||
        weft_placements_normalize(read, p->mesh->ndim, p->ndim[input], canonical, why, sizeof(why)) !=
            WEFT_OK) {
        fail_msg("%s", why);
    }
    return weft_layout_intern(p->table, p->mesh, canonical, p->ndim[input], p->shape[input], WEFT_F32);
}

static void assert_placements(const weft_layout *layout, const char *expected)
{
    char text[100];
    weft_placements_format(layout->placements, layout->mesh->ndim, text, sizeof(text));
    assert_string_equal(text, expected);
}

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
        weft_status status = weft_strategy_search(&p.search, &p.binding, linear, inputs, WEFT_F32, &sharding,
                                                  why, sizeof(why));
        assert_int_equal(status, WEFT_OK);
        assert_placements(sharding.inputs[0], cases[i].wanted_a);
        assert_placements(sharding.inputs[1], cases[i].wanted_b);
        assert_placements(sharding.output, cases[i].wanted_out);
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
    assert_int_equal(
        weft_strategy_search(&p.search, &p.binding, &not_linear, inputs, WEFT_F32, &sharding, NULL, 0),
        WEFT_OK);
    assert_placements(sharding.inputs[0], "[S0]");
    assert_placements(sharding.output, "[P(sum)]");
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
    assert_int_equal(
        weft_strategy_search(&p.search, &p.binding, &not_linear, whole, WEFT_F32, &sharding, NULL, 0),
        WEFT_OK);
    assert_placements(sharding.output, "[S0]"); /* each rank its own rows: less work, nothing moved */
    const weft_layout *sharded[] = { layout_of(&p, 0, "S0"), layout_of(&p, 1, "S0") };
    assert_int_equal(
        weft_strategy_search(&p.search, &p.binding, &not_linear, sharded, WEFT_F32, &sharding, NULL, 0),
        WEFT_OK);
    assert_placements(sharding.output, "[P(sum)]");
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
    assert_int_equal(
        weft_strategy_search(&p.search, &p.binding, &jointly, inputs, WEFT_F32, &sharding, NULL, 0), WEFT_OK);
    assert_placements(sharding.inputs[0], wanted);
    assert_placements(sharding.output, wanted);
    problem_close(&p);
}

static void test_compound(void **state)
{
    (void)state;
    int64_t three[] = { 3 }, four[] = { 4 }, two_by_two[] = { 2, 2 };
    check_compound(1, four, 8, 3, "S0", "[S0]");
    check_compound(1, three, 5, 2, "S0", "[S0]"); /* 2, 2, 1 of a; 4, 4, 2 of both */
    check_compound(1, four, 6, 3, "S0", "[R]");   /* 2, 2, 2, 0 of a; 5, 5, 5, 3 of both */
    check_compound(1, four, 8, 3, "S1", "[S0]");  /* c is behind b in the output */
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
        p.search.in_place = true;
        set_shape(&p, 0, 2, shape);
        set_shape(&p, 1, 2, shape);
        problem_bind(&p, (weft_attributes){ 0 });
        const weft_layout *inputs[] = { layout_of(&p, 0, cases[i].a), layout_of(&p, 1, cases[i].b) };
        weft_sharding sharding;
        char why[200] = "";
        weft_status status = weft_strategy_search(&p.search, &p.binding, &jointly, inputs, WEFT_F32,
                                                  &sharding, why, sizeof(why));
        if (cases[i].wanted_b == NULL) {
            assert_int_equal(status, WEFT_ERR_LAYOUT);
            assert_non_null(strstr(why, "stays as it is"));
        } else {
            assert_int_equal(status, WEFT_OK);
            assert_ptr_equal(sharding.inputs[0], inputs[0]);
            assert_ptr_equal(sharding.output, inputs[0]);
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
    assert_int_equal(
        weft_strategy_search(&p.search, &p.binding, &jointly, inputs, WEFT_F32, &sharding, NULL, 0), WEFT_OK);
    assert_false(sharding.inputs[0]->has_partial);
    problem_close(&p);
}

/* ---- properties on random problems --------------------------------------------------------------------- */

typedef struct rule_case {
    const char *text;
    weft_linearity linear;
} rule_case;

static const rule_case rules[] = {
    { "Bmk,Bkn->Bmn", { WEFT_LINEAR_EACH, 3, WEFT_LINEAR_OPS } },
    { "Bkm,Bnk->Bmn", { WEFT_LINEAR_EACH, 3, WEFT_LINEAR_OPS } },
    { "...,...->...", { WEFT_LINEAR_JOINTLY, 0, WEFT_LINEAR_OPS } },
    { "...,...->...", { WEFT_LINEAR_EACH, 3, WEFT_LINEAR_OPS } },
    { "AbC->AC", { WEFT_LINEAR_JOINTLY, 0, WEFT_LINEAR_OPS } },
    { "AbC->A1C", { WEFT_LINEAR_JOINTLY, 0, WEFT_LINEAR_OPS } },
    { "A->", { WEFT_LINEAR_JOINTLY, 0, WEFT_LINEAR_OPS } },
    { "vd,A->Ad", { WEFT_LINEAR_EACH, 1, WEFT_LINEAR_OPS } },
    { "Ad,A->vd", { WEFT_LINEAR_EACH, 1, WEFT_LINEAR_OPS } },
    { "n[c],n->", { WEFT_NOT_LINEAR, 0, 0 } },
    { "n[c],n,->n[c]", { WEFT_NOT_LINEAR, 0, 0 } },
    { "1A->A", { WEFT_LINEAR_JOINTLY, 0, ~0u } },
    { "(ab)c->a(bc)", { WEFT_LINEAR_JOINTLY, 0, ~0u } },
    { "a(bc)->(ab)c", { WEFT_LINEAR_JOINTLY, 0, ~0u } },
    { "Ab(cd)->A(bc)d", { WEFT_LINEAR_JOINTLY, 0, ~0u } },
    { "(abc)->a(bc)", { WEFT_LINEAR_JOINTLY, 0, ~0u } },
    { "(ab)c,a->bc", { WEFT_NOT_LINEAR, 0, 0 } },
    { "(a[x])y->(a[z])w", { WEFT_LINEAR_JOINTLY, 0, ~0u } },
};

static bool is_dimension(const problem *p, int factor)
{
    for (int i = 0; i < p->rule.num_inputs; i++) {
        for (int t = 0; t < p->rule.inputs[i].num_terms; t++) {
            const weft_rule_term *term = &p->rule.inputs[i].terms[t];
            if (term->num_factors == 1 && term->factors[0] == factor) {
                return true;
            }
        }
    }
    return false;
}

/* Sizes of the letters that are no dimension of an input. */
static void give_sizes(const problem *p, int64_t letter[][2], weft_attributes *attributes)
{
    for (int f = 0; f < p->rule.num_factors; f++) {
        if (!is_dimension(p, f)) {
            attributes->sizes[attributes->num_sizes++] = letter[f][0];
        }
    }
}

/* Shapes that fit the rule: one random size per letter and per place of a run; broadcast ones sometimes 1 or
 * missing. */
static weft_attributes random_shapes(problem *p)
{
    int64_t letter[WEFT_MAX_RULE_FACTORS][2];
    int length[WEFT_MAX_RULE_FACTORS] = { 0 };
    weft_attributes attributes = { .num_sizes = 0 };
    for (int f = 0; f < p->rule.num_factors; f++) {
        length[f] = p->rule.factors[f].run ? random_below(3) : 1;
        letter[f][0] = random_below(12);
        letter[f][1] = random_below(12);
    }
    attributes.leading = length[0];
    give_sizes(p, letter, &attributes);
    for (int i = 0; i < p->rule.num_inputs; i++) {
        for (int t = 0; t < p->rule.inputs[i].num_terms; t++) {
            const weft_rule_term *term = &p->rule.inputs[i].terms[t];
            if (term->num_factors == 0) {
                p->shape[i][p->ndim[i]++] = 1;
                continue;
            }
            if (term->num_factors > 1) {
                int64_t *size = &p->shape[i][p->ndim[i]++];
                *size = 1;
                for (int j = 0; j < term->num_factors; j++) {
                    *size *= letter[term->factors[j]][0];
                }
                continue;
            }
            int f = term->factors[0];
            bool broadcasts = p->rule.factors[f].broadcasts;
            for (int d = broadcasts && i > 0 ? random_below(length[f] + 1) : 0; d < length[f]; d++) {
                bool repeated = broadcasts && random_below(4) == 0;
                p->shape[i][p->ndim[i]++] = repeated ? 1 : letter[f][d];
            }
        }
    }
    return attributes;
}

static void random_problem(problem *p, const rule_case *rule)
{
    int64_t mesh_shape[3];
    int mesh_ndim = 1 + random_below(3);
    for (int d = 0; d < mesh_ndim; d++) {
        mesh_shape[d] = 1 + random_below(4);
    }
    problem_open(p, rule->text, mesh_ndim, mesh_shape);
    p->linear = rule->linear;
    problem_bind(p, random_shapes(p));
}

static const weft_layout *random_layout(problem *p, int input)
{
    weft_placement placements[WEFT_MAX_DIMS];
    weft_reduce_op op = (weft_reduce_op)random_below(5);
    for (int d = 0; d < p->mesh->ndim; d++) {
        int kind = random_below(4);
        placements[d] = (weft_placement){ WEFT_REPLICATE, 0, WEFT_SUM };
        if (kind == 0) {
            placements[d] = (weft_placement){ WEFT_PARTIAL, 0, op };
        } else if (kind > 1 && p->ndim[input] > 0) {
            placements[d] = (weft_placement){ WEFT_SHARD, random_below(p->ndim[input]), WEFT_SUM };
        }
    }
    return weft_layout_intern(p->table, p->mesh, placements, p->ndim[input], p->shape[input], WEFT_F32);
}

/* Notes the chunk that an operand's dimension has of its factor. False: it is not the one noted before. */
static bool operand_fits(const problem *p, const weft_layout *layout, const int factor_of[],
                         const int64_t inner[], const int64_t coordinate[], int64_t offset[],
                         int64_t extent[])
{
    weft_box box;
    weft_layout_coordinate_box(layout, coordinate, &box);
    for (int d = 0; d < layout->ndim; d++) {
        int f = factor_of[d];
        bool whole = f < 0 || p->binding.factors[f].whole; /* on every rank */
        if (whole && box.extent[d] != layout->shape[d]) {
            return false;
        }
        if (f < 0 || inner[d] == 0) {
            continue;
        }
        if (box.extent[d] % inner[d] != 0 || box.offset[d] % inner[d] != 0) {
            return false;
        }
        if (extent[f] < 0) {
            offset[f] = box.offset[d] / inner[d];
            extent[f] = box.extent[d] / inner[d];
        }
        if (extent[f] != box.extent[d] / inner[d] ||
            (extent[f] > 0 && offset[f] != box.offset[d] / inner[d])) {
            return false;
        }
    }
    return true;
}

/* On every rank, all operands that have a factor have the same chunk of it. */
static bool choice_fits(const problem *p, const weft_sharding *sharding)
{
    bool fits = true;
    for (int64_t rank = 0; rank < p->mesh->num_ranks; rank++) {
        int64_t coordinate[WEFT_MAX_DIMS], offset[WEFT_MAX_FACTORS], extent[WEFT_MAX_FACTORS];
        weft_mesh_unravel(p->mesh, rank, coordinate);
        memset(extent, 0xff, sizeof(extent));
        for (int i = 0; i < p->binding.num_inputs; i++) {
            fits &= operand_fits(p, sharding->inputs[i], p->binding.input_factor_of[i],
                                 p->binding.input_inner[i], coordinate, offset, extent);
        }
        fits &= operand_fits(p, sharding->output, p->binding.output_factor_of, p->binding.output_inner,
                             coordinate, offset, extent);
    }
    return fits;
}

/* Whether each strategy by itself gives layouts that fit: not where chunks of several factors must agree. */
static bool has_compounds(const rule_case *rule)
{
    return strchr(rule->text, '(') != NULL;
}

/* Where a contracted factor is sharded the output is Partial(sum), and nowhere else does it become Partial.
 */
static void check_partial(const weft_binding *binding, const weft_strategy *strategy)
{
    bool input_partial = false;
    for (int i = 0; i < binding->num_inputs; i++) {
        input_partial |= strategy->inputs[i].kind == WEFT_PARTIAL;
    }
    bool contracted = strategy->factor >= 0 && binding->factors[strategy->factor].contracted;
    assert_int_equal(strategy->output.kind == WEFT_PARTIAL, contracted || input_partial);
    assert_false(contracted && strategy->output.op != WEFT_SUM);
}

enum { CASES_PER_RULE = 200 };

static void test_strategies_are_consistent(void **state)
{
    (void)state;
    int checked = 0;
    for (size_t r = 0; r < WEFT_ARRAY_SIZE(rules); r++) {
        for (int n = 0; n < CASES_PER_RULE; n++) {
            problem p;
            random_problem(&p, &rules[r]);
            weft_strategy all[WEFT_MAX_STRATEGIES];
            int count = weft_strategy_list(&p.binding, &p.linear, all);
            weft_placement placements[WEFT_MAX_INPUTS + 1][WEFT_MAX_DIMS];
            for (int d = 0; d < p.mesh->ndim; d++) {
                const weft_strategy *strategy = &all[random_below(count)];
                check_partial(&p.binding, strategy);
                for (int i = 0; i < p.binding.num_inputs; i++) {
                    placements[i][d] = strategy->inputs[i];
                }
                placements[WEFT_MAX_INPUTS][d] = strategy->output;
            }
            weft_sharding sharding;
            for (int i = 0; i < p.binding.num_inputs; i++) {
                sharding.inputs[i] =
                    weft_layout_intern(p.table, p.mesh, placements[i], p.ndim[i], p.shape[i], WEFT_F32);
            }
            sharding.output = weft_layout_intern(p.table, p.mesh, placements[WEFT_MAX_INPUTS],
                                                 p.binding.output_ndim, p.binding.output_shape, WEFT_F32);
            assert_true(choice_fits(&p, &sharding) || has_compounds(&rules[r]));
            checked++;
            problem_close(&p);
        }
    }
    print_message("# %d random combinations\n", checked);
}

/* The reduction of the output along the mesh dimensions where it becomes Partial though an input is moved. */
static double reduction_cost(problem *p, const weft_layout *const from[], const weft_layout *const to[],
                             const weft_placement output[])
{
    weft_placement partial[WEFT_MAX_DIMS], reduced[WEFT_MAX_DIMS];
    for (int d = 0; d < p->mesh->ndim; d++) {
        bool moved = false;
        for (int i = 0; i < p->binding.num_inputs; i++) {
            moved |= !weft_placement_equal(from[i]->placements[d], to[i]->placements[d]);
        }
        partial[d] = reduced[d] = output[d];
        if (output[d].kind == WEFT_PARTIAL && !moved) {
            partial[d] = reduced[d] = weft_replicate();
        } else if (output[d].kind == WEFT_PARTIAL) {
            reduced[d] = p->binding.output_ndim > 0 ? weft_shard(0) : weft_replicate();
        }
    }
    const weft_layout *before = weft_layout_intern(p->table, p->mesh, partial, p->binding.output_ndim,
                                                   p->binding.output_shape, WEFT_F32);
    const weft_layout *after = weft_layout_intern(p->table, p->mesh, reduced, p->binding.output_ndim,
                                                  p->binding.output_shape, WEFT_F32);
    return before == after ? 0 : weft_plan_cost(p->table, &p->topology, &p->cost, before, after);
}

static double cost_of(problem *p, const weft_layout *const from[], const weft_layout *const to[],
                      const weft_placement output[])
{
    double cost = reduction_cost(p, from, to, output);
    if (cost < 0) {
        return -1;
    }
    for (int i = 0; i < p->binding.num_inputs; i++) {
        double one = from[i] == to[i] ? 0 : weft_plan_cost(p->table, &p->topology, &p->cost, from[i], to[i]);
        if (one < 0) {
            return -1;
        }
        cost += one;
    }
    return cost;
}

/* Asserts that a random combination of strategies does not cost less than what was chosen. Returns false when
 * the combination is not possible. */
static bool compare_with_random(problem *p, const weft_layout *const inputs[], double chosen)
{
    weft_strategy all[WEFT_MAX_STRATEGIES];
    int count = weft_strategy_list(&p->binding, &p->linear, all);
    weft_placement placements[WEFT_MAX_INPUTS][WEFT_MAX_DIMS], output[WEFT_MAX_DIMS];
    for (int d = 0; d < p->mesh->ndim; d++) {
        const weft_strategy *strategy = &all[random_below(count)];
        output[d] = strategy->output;
        for (int i = 0; i < p->binding.num_inputs; i++) {
            placements[i][d] = strategy->inputs[i];
            if (placements[i][d].kind == WEFT_PARTIAL &&
                !weft_placement_equal(placements[i][d], inputs[i]->placements[d])) {
                return false;
            }
        }
    }
    weft_sharding other;
    const weft_layout **wanted = other.inputs;
    for (int i = 0; i < p->binding.num_inputs; i++) {
        wanted[i] = weft_layout_intern(p->table, p->mesh, placements[i], p->ndim[i], p->shape[i], WEFT_F32);
    }
    other.output = weft_layout_intern(p->table, p->mesh, output, p->binding.output_ndim,
                                      p->binding.output_shape, WEFT_F32);
    if (!choice_fits(p, &other)) {
        return false;
    }
    double cost = cost_of(p, inputs, wanted, output);
    if (cost >= 0 && cost < chosen - 1e-3) {
        char given[100], better[100];
        fail_msg("%s is %g us, chosen was %g us, from %s",
                 weft_layout_format(wanted[0], better, sizeof(better)), cost, chosen,
                 weft_layout_format(inputs[0], given, sizeof(given)));
    }
    return cost >= 0;
}

static void test_search_finds_the_cheapest(void **state)
{
    (void)state;
    int compared = 0;
    for (size_t r = 0; r < WEFT_ARRAY_SIZE(rules); r++) {
        for (int n = 0; n < CASES_PER_RULE; n++) {
            problem p;
            random_problem(&p, &rules[r]);
            const weft_layout *inputs[WEFT_MAX_INPUTS];
            for (int i = 0; i < p.binding.num_inputs; i++) {
                inputs[i] = random_layout(&p, i);
            }
            weft_sharding sharding, again;
            char why[200] = "";
            weft_status status = weft_strategy_search(&p.search, &p.binding, &p.linear, inputs, WEFT_F32,
                                                      &sharding, why, sizeof(why));
            if (status != WEFT_OK) {
                fail_msg("%s: %s", rules[r].text, why);
            }
            assert_true(choice_fits(&p, &sharding));
            assert_int_equal(
                weft_strategy_search(&p.search, &p.binding, &p.linear, inputs, WEFT_F32, &again, NULL, 0),
                WEFT_OK);
            assert_memory_equal(&sharding.output, &again.output, sizeof(sharding.output));
            double chosen = cost_of(&p, inputs, sharding.inputs, sharding.output->placements);
            assert_true(chosen >= 0);
            for (int i = 0; i < 20; i++) {
                compared += compare_with_random(&p, inputs, chosen);
            }
            problem_close(&p);
        }
    }
    print_message("# %d combinations compared\n", compared);
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
    assert_int_equal(weft_strategy_search(&p.search, &p.binding, &each, fit, WEFT_F32, &sharding, NULL, 0),
                     WEFT_OK);
    assert_ptr_equal(sharding.inputs[0], fit[0]);
    assert_ptr_equal(sharding.inputs[1], fit[1]);
    assert_placements(sharding.output, "[S0,S0,S1,S1,P(sum),P(sum),R,P(sum)]");
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
    assert_int_equal(weft_strategy_search(&p.search, &p.binding, &each, inputs, WEFT_F32, &sharding, NULL, 0),
                     WEFT_OK);
    assert_placements(sharding.output, "[S0,S1]"); /* the weights are gathered, the activations stay */
    problem_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_product_1d),
        cmocka_unit_test(test_product_2d),
        cmocka_unit_test(test_sum_of_two),
        cmocka_unit_test(test_broadcast),
        cmocka_unit_test(test_brackets),
        cmocka_unit_test(test_output_only),
        cmocka_unit_test(test_compound),
        cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_nested_reductions),
        cmocka_unit_test(test_strategies_are_consistent),
        cmocka_unit_test(test_search_finds_the_cheapest),
        cmocka_unit_test(test_many_mesh_dimensions),
        cmocka_unit_test(test_many_ranks),
    };
    return cmocka_run_group_tests(tests, seed_random, NULL);
}
