/* The layouts that a call could work on. */
#include <string.h>

#include "sharding/sharding.h"

enum { MAX_COMBINATIONS = 4096 };

typedef struct lister {
    const weft_sharding_world *world;
    const weft_call_layouts *call;
    const weft_mesh_impl *mesh;
    weft_binding binding;
    weft_output_kind outputs[WEFT_MAX_OUTPUTS];
    weft_strategy strategies[WEFT_MAX_DIMS][WEFT_MAX_STRATEGIES];
    int num_strategies[WEFT_MAX_DIMS];
    weft_vec *choices;
} lister;

static bool passes_sums_alone(const lister *l, const weft_strategy *strategy)
{
    bool sums = true;
    for (int i = 0; i < l->binding.num_inputs; i++) {
        sums &= strategy->inputs[i].kind != WEFT_PARTIAL || strategy->inputs[i].op == WEFT_SUM;
    }
    return sums;
}

/* Tensors that are changed in place keep their layouts. */
static bool keeps_targets(const lister *l, const weft_strategy *strategy)
{
    bool keeps = true;
    for (int o = 0; o < l->binding.num_outputs; o++) {
        keeps &= !l->outputs[o].in_place || weft_placement_equal(strategy->inputs[o], strategy->outputs[o]);
    }
    return keeps;
}

static bool comes_into_question(const lister *l, const weft_strategy *strategy, int mesh_dim)
{
    int64_t size = l->mesh->shape[mesh_dim];
    bool large = strategy->factor < 0 || l->binding.factors[strategy->factor].size >= size;
    bool shares = size > 1 || strategy->factor < 0;
    return large && shares && passes_sums_alone(l, strategy) && keeps_targets(l, strategy);
}

static void list_strategies(lister *l)
{
    for (int m = 0; m < l->mesh->ndim; m++) {
        weft_strategy all[WEFT_MAX_STRATEGIES];
        int count = weft_strategy_list(&l->binding, l->outputs, l->mesh, l->call->inputs, m, all);
        for (int i = 0; i < count; i++) {
            if (comes_into_question(l, &all[i], m)) {
                l->strategies[m][l->num_strategies[m]++] = all[i];
            }
        }
    }
}

static bool is_known(const lister *l, const weft_layout *const inputs[])
{
    const weft_layout *const *known = l->choices->items;
    bool found = false;
    for (size_t i = 0; i < l->choices->count && !found; i++) {
        found = memcmp(known + i * WEFT_MAX_INPUTS, inputs, (size_t)l->call->num_inputs * sizeof(inputs[0])) == 0;
    }
    return found;
}

/* False: no memory. */
static bool add_choice(const lister *l, const int combination[])
{
    const weft_layout *inputs[WEFT_MAX_INPUTS] = { NULL };
    for (int i = 0; i < l->call->num_inputs; i++) {
        const weft_layout *now = l->call->inputs[i];
        weft_placement placements[WEFT_MAX_DIMS];
        for (int m = 0; m < l->mesh->ndim; m++) {
            placements[m] = l->strategies[m][combination[m]].inputs[i];
        }
        inputs[i] = weft_layout_intern(l->world->table, l->mesh, placements, now->ndim, now->shape, now->dtype);
        if (inputs[i] == NULL) {
            return false;
        }
    }
    if (is_known(l, inputs)) {
        return true;
    }
    const weft_layout **added = weft_vec_push(l->choices, sizeof(inputs));
    if (added != NULL) {
        memcpy(added, inputs, sizeof(inputs));
    }
    return added != NULL;
}

static bool add_all(const lister *l)
{
    int combination[WEFT_MAX_DIMS] = { 0 }, m;
    bool done = true;
    for (int m_empty = 0; m_empty < l->mesh->ndim; m_empty++) {
        if (l->num_strategies[m_empty] == 0) {
            return true;
        }
    }
    for (int count = 0; count < MAX_COMBINATIONS && done; count++) {
        done = add_choice(l, combination);
        for (m = l->mesh->ndim - 1; m >= 0 && ++combination[m] == l->num_strategies[m]; m--) {
            combination[m] = 0;
        }
        if (m < 0) {
            break;
        }
    }
    return done;
}

weft_status weft_call_list_choices(const weft_sharding_world *world, const weft_call_layouts *call, weft_vec *choices,
                                   char *why, size_t why_size)
{
    lister l = { .world = world, .call = call, .mesh = call->inputs[0]->mesh, .choices = choices };
    weft_status status = weft_call_bind(world, call, &l.binding, why, why_size);
    if (status != WEFT_OK) {
        return status;
    }
    weft_call_outputs(call, l.binding.num_outputs, l.outputs);
    list_strategies(&l);
    return add_all(&l) ? WEFT_OK : WEFT_ERR_NOMEM;
}

/* The factor that a mesh dimension shards in an operand, and how; -1: none. */
static int sharded_factor(const weft_binding *binding, const weft_layout *layout, int mesh_dim, const int factor_of[],
                          const weft_compound compounds[], weft_placement *cut)
{
    weft_placement placement = layout->placements[mesh_dim];
    if (placement.kind == WEFT_SHARD && compounds[placement.dim].count > 0) {
        return weft_compound_read(binding, &compounds[placement.dim], layout, placement.dim, mesh_dim, cut);
    }
    *cut = placement;
    return placement.kind == WEFT_SHARD ? factor_of[placement.dim] : -1;
}

/* The same in the first operand of which it shards one. */
static int cut_factor(const weft_binding *binding, const weft_layout *const inputs[], const weft_layout *const outputs[],
                      int mesh_dim, weft_placement *cut)
{
    int factor = -1;
    for (int i = 0; i < binding->num_inputs && factor < 0; i++) {
        factor = sharded_factor(binding, inputs[i], mesh_dim, binding->input_factor_of[i], binding->input_compound[i], cut);
    }
    for (int o = 0; o < binding->num_outputs && factor < 0; o++) {
        const weft_bound_output *output = &binding->outputs[o];
        factor = sharded_factor(binding, outputs[o], mesh_dim, output->factor_of, output->compound, cut);
    }
    return factor;
}

double weft_binding_work(const weft_binding *binding, const weft_layout *const inputs[],
                         const weft_layout *const outputs[])
{
    const weft_mesh_impl *mesh = inputs[0]->mesh;
    int64_t sizes[WEFT_MAX_FACTORS];
    int factors[WEFT_MAX_DIMS], order[WEFT_MAX_DIMS];
    weft_placement cuts[WEFT_MAX_DIMS];
    double work = 1;
    for (int f = 0; f < binding->num_factors; f++) {
        sizes[f] = binding->factors[f].size;
    }
    for (int m = 0; m < mesh->ndim; m++) {
        factors[m] = cut_factor(binding, inputs, outputs, m, &cuts[m]);
    }
    weft_cut_order(mesh->ndim, cuts, order);
    for (int i = 0; i < mesh->ndim; i++) {
        int m = order[i], factor = factors[m];
        if (factor >= 0) {
            weft_part_largest(cuts[m], sizes[factor], mesh->shape[m], &sizes[factor]);
        }
    }
    for (int f = 0; f < binding->num_factors; f++) {
        work *= (double)sizes[f];
    }
    return work;
}
