#include "strategy_support.h"

#include <string.h>

static prng numbers;

int random_below(int n)
{
    return (int)prng_below(&numbers, n);
}

int seed_random(void **state)
{
    (void)state;
    numbers = prng_start(1);
    return 0;
}

void problem_open(problem *p, const char *rule, int mesh_ndim, const int64_t mesh_shape[])
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

void problem_close(problem *p)
{
    weft_layout_table_delete(p->table);
    weft_mesh_delete(p->mesh);
}

void problem_bind(problem *p, weft_attributes attributes)
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

void set_shape(problem *p, int input, int ndim, const int64_t shape[])
{
    p->ndim[input] = ndim;
    memcpy(p->shape[input], shape, (size_t)ndim * sizeof(shape[0]));
}

const weft_layout *layout_of(problem *p, int input, const char *placements)
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

static void describe_outputs(const problem *p, const weft_linearity *linear, weft_output_kind outputs[])
{
    for (int o = 0; o < WEFT_MAX_OUTPUTS; o++) {
        outputs[o] =
            (weft_output_kind){ .dtype = WEFT_F32, .linear = *linear, .in_place = o == 0 && p->in_place };
    }
}

weft_status search_problem(const problem *p, const weft_linearity *linear, const weft_layout *const inputs[],
                           weft_sharding *sharding, char *why, size_t why_size)
{
    weft_output_kind outputs[WEFT_MAX_OUTPUTS];
    describe_outputs(p, linear, outputs);
    return weft_strategy_search(&p->search, &p->binding, outputs, inputs, sharding, why, why_size);
}

int list_strategies(const problem *p, int mesh_dim, weft_strategy strategies[WEFT_MAX_STRATEGIES])
{
    weft_output_kind outputs[WEFT_MAX_OUTPUTS];
    describe_outputs(p, &p->linear, outputs);
    return weft_strategy_list(&p->binding, outputs, p->mesh, NULL, mesh_dim, strategies);
}

void assert_placements(const weft_layout *layout, const char *expected)
{
    char text[100];
    weft_placements_text(layout->placements, layout->mesh->ndim, text, sizeof(text));
    assert_string_equal(text, expected);
}
