/* Strategies and their search on random problems: every strategy gives each rank compatible operands; the
 * search finds the cheapest combination. */
#include "strategy_support.h"

#include <string.h>

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
    { "i,i,i,i->i,i,i", { WEFT_NOT_LINEAR, 0, 0 } },
    { "nc,nc,c->nc,c,c", { WEFT_LINEAR_EACH, 3, WEFT_LINEAR_OPS } },
    { "mn,mk,kn->mk,kn", { WEFT_LINEAR_EACH, 1, WEFT_LINEAR_OPS } },
    { "A[b]->A[b],A,A1", { WEFT_NOT_LINEAR, 0, 0 } },
    { "AbC->AC,,b", { WEFT_LINEAR_JOINTLY, 0, WEFT_LINEAR_OPS } },
    { "...,...->...,...", { WEFT_LINEAR_JOINTLY, 0, WEFT_LINEAR_OPS } },
    { "(ab)c,a->bc,a,(ab)", { WEFT_NOT_LINEAR, 0, 0 } },
    { "Ad,A->vd,A", { WEFT_LINEAR_EACH, 1, WEFT_LINEAR_OPS } },
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
        for (int o = 0; o < p->binding.num_outputs; o++) {
            const weft_bound_output *output = &p->binding.outputs[o];
            fits &= operand_fits(p, sharding->outputs[o], output->factor_of, output->inner, coordinate,
                                 offset, extent);
        }
    }
    return fits;
}

/* Whether each strategy by itself gives layouts that fit: not where chunks of several factors must agree. */
static bool has_compounds(const rule_case *rule)
{
    return strchr(rule->text, '(') != NULL;
}

/* An output is Partial(sum) exactly where a factor that it contracts is sharded. */
static void check_partial(const weft_binding *binding, const weft_strategy *strategy)
{
    bool input_partial = false;
    for (int i = 0; i < binding->num_inputs; i++) {
        input_partial |= strategy->inputs[i].kind == WEFT_PARTIAL;
    }
    for (int o = 0; o < binding->num_outputs; o++) {
        bool contracted = strategy->factor >= 0 && binding->factors[strategy->factor].contracted >> o & 1;
        assert_int_equal(strategy->outputs[o].kind == WEFT_PARTIAL, contracted || input_partial);
        assert_false(contracted && strategy->outputs[o].op != WEFT_SUM);
    }
}

static void note_outputs(const problem *p, const weft_strategy *strategy, int mesh_dim,
                         weft_placement outputs[][WEFT_MAX_DIMS])
{
    for (int o = 0; o < p->binding.num_outputs; o++) {
        outputs[o][mesh_dim] = strategy->outputs[o];
    }
}

static const weft_layout *output_layout(const problem *p, int output, const weft_placement placements[])
{
    const weft_bound_output *bound = &p->binding.outputs[output];
    return weft_layout_intern(p->table, p->mesh, placements, bound->ndim, bound->shape, WEFT_F32);
}

static void intern_outputs(const problem *p, weft_placement outputs[][WEFT_MAX_DIMS], weft_sharding *sharding)
{
    for (int o = 0; o < p->binding.num_outputs; o++) {
        sharding->outputs[o] = output_layout(p, o, outputs[o]);
    }
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
            weft_placement placements[WEFT_MAX_INPUTS][WEFT_MAX_DIMS];
            weft_placement outputs[WEFT_MAX_OUTPUTS][WEFT_MAX_DIMS];
            for (int d = 0; d < p.mesh->ndim; d++) {
                const weft_strategy *strategy = &all[random_below(list_strategies(&p, d, all))];
                check_partial(&p.binding, strategy);
                for (int i = 0; i < p.binding.num_inputs; i++) {
                    placements[i][d] = strategy->inputs[i];
                }
                note_outputs(&p, strategy, d, outputs);
            }
            weft_sharding sharding;
            for (int i = 0; i < p.binding.num_inputs; i++) {
                sharding.inputs[i] =
                    weft_layout_intern(p.table, p.mesh, placements[i], p.ndim[i], p.shape[i], WEFT_F32);
            }
            intern_outputs(&p, outputs, &sharding);
            assert_true(choice_fits(&p, &sharding) || has_compounds(&rules[r]));
            checked++;
            problem_close(&p);
        }
    }
    print_message("# %d random combinations\n", checked);
}

/* The reduction of an output along the mesh dimensions where it becomes Partial though an input is moved. */
static double reduction_cost(problem *p, const weft_layout *const from[], const weft_layout *const to[],
                             int o, const weft_placement output[])
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
            reduced[d] = p->binding.outputs[o].ndim > 0 ? weft_shard(0) : weft_replicate();
        }
    }
    const weft_layout *before = output_layout(p, o, partial), *after = output_layout(p, o, reduced);
    return before == after ? 0 : weft_plan_estimate(p->table, &p->topology, &p->cost, before, after);
}

static double cost_of(problem *p, const weft_layout *const from[], const weft_sharding *sharding)
{
    const weft_layout *const *to = sharding->inputs;
    double cost = 0;
    for (int o = 0; o < p->binding.num_outputs; o++) {
        double one = reduction_cost(p, from, to, o, sharding->outputs[o]->placements);
        if (one < 0) {
            return -1;
        }
        cost += one;
    }
    for (int i = 0; i < p->binding.num_inputs; i++) {
        double one = from[i] == to[i] ? 0 : weft_plan_estimate(p->table, &p->topology, &p->cost, from[i], to[i]);
        if (one < 0) {
            return -1;
        }
        cost += one;
    }
    return cost;
}

/* Asserts that a random combination of strategies costs no less than the chosen one. False: the
 * combination is impossible. */
static bool compare_with_random(problem *p, const weft_layout *const inputs[], double chosen)
{
    weft_strategy all[WEFT_MAX_STRATEGIES];
    weft_placement placements[WEFT_MAX_INPUTS][WEFT_MAX_DIMS], outputs[WEFT_MAX_OUTPUTS][WEFT_MAX_DIMS];
    for (int d = 0; d < p->mesh->ndim; d++) {
        const weft_strategy *strategy = &all[random_below(list_strategies(p, d, all))];
        note_outputs(p, strategy, d, outputs);
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
    intern_outputs(p, outputs, &other);
    if (!choice_fits(p, &other)) {
        return false;
    }
    double cost = cost_of(p, inputs, &other);
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
            weft_status status = search_problem(&p, &p.linear, inputs, &sharding, why, sizeof(why));
            if (status != WEFT_OK) {
                fail_msg("%s: %s", rules[r].text, why);
            }
            assert_true(choice_fits(&p, &sharding));
            assert_int_equal(search_problem(&p, &p.linear, inputs, &again, NULL, 0), WEFT_OK);
            assert_int_equal(sharding.num_outputs, p.binding.num_outputs);
            assert_memory_equal(sharding.outputs, again.outputs,
                                (size_t)sharding.num_outputs * sizeof(sharding.outputs[0]));
            double chosen = cost_of(&p, inputs, &sharding);
            assert_true(chosen >= 0);
            for (int i = 0; i < 20; i++) {
                compared += compare_with_random(&p, inputs, chosen);
            }
            problem_close(&p);
        }
    }
    print_message("# %d combinations compared\n", compared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strategies_are_consistent),
        cmocka_unit_test(test_search_finds_the_cheapest),
    };
    return cmocka_run_group_tests(tests, seed_random, NULL);
}
