/* The strategies of one mesh dimension. */
#include "sharding/strategy.h"

static weft_placement shard_of(int factor, weft_placement cut, int ndim, const int factor_of[])
{
    for (int d = 0; d < ndim; d++) {
        if (factor_of[d] == factor) {
            cut.dim = d;
            return cut;
        }
    }
    return weft_replicate();
}

static weft_strategy all_replicate(void)
{
    return (weft_strategy){ .factor = -1 }; /* WEFT_REPLICATE is 0 */
}

static weft_strategy shard_factor(const weft_binding *binding, const weft_output_kind outputs[], int factor, weft_placement cut)
{
    weft_strategy strategy = { .factor = factor, .cut = cut };
    for (int i = 0; i < binding->num_inputs; i++) {
        strategy.inputs[i] = shard_of(factor, cut, binding->input_ndim[i], binding->input_factor_of[i]);
    }
    for (int o = 0; o < binding->num_outputs; o++) {
        const weft_bound_output *output = &binding->outputs[o];
        bool contracted = binding->factors[factor].contracted >> o & 1;
        bool repeats = contracted && outputs[o].repeats;
        strategy.outputs[o] = repeats      ? weft_replicate()
                              : contracted ? weft_partial(outputs[o].linear.contracts)
                                           : shard_of(factor, cut, output->ndim, output->factor_of);
    }
    return strategy;
}

static weft_strategy pass_partial(const weft_binding *binding, unsigned partial_inputs, weft_reduce_op op)
{
    weft_strategy strategy = all_replicate();
    for (int o = 0; o < binding->num_outputs; o++) {
        strategy.outputs[o] = weft_partial(op);
    }
    for (int i = 0; i < binding->num_inputs; i++) {
        if (partial_inputs & (1u << i)) {
            strategy.inputs[i] = weft_partial(op);
        }
    }
    return strategy;
}

/* The linearity of all outputs together. */
static weft_linearity common_linearity(const weft_binding *binding, const weft_output_kind outputs[])
{
    weft_linearity common = outputs[0].linear;
    for (int o = 1; o < binding->num_outputs; o++) {
        common.ops &= outputs[o].linear.ops;
        common.inputs &= outputs[o].linear.inputs;
        common.kind = common.kind == outputs[o].linear.kind ? common.kind : WEFT_NOT_LINEAR;
    }
    return common;
}

/* Whether the strategy cuts the factor in the same way as one of the list. */
static bool is_listed(const weft_strategy strategies[], int count, int factor, weft_placement cut)
{
    bool listed = false;
    for (int i = 0; i < count && !listed; i++) {
        listed = strategies[i].factor == factor && weft_placement_equal(strategies[i].cut, cut);
    }
    return listed;
}

/* A factor in chunks, then as inputs are cut. Returns the new count. */
static int list_cuts(const weft_binding *binding, const weft_output_kind outputs[], const weft_layout *const inputs[], int mesh_dim,
                     int factor, weft_strategy strategies[], int count)
{
    const int first = count;
    strategies[count++] = shard_factor(binding, outputs, factor, weft_shard(0));
    for (int i = 0; inputs != NULL && i < binding->num_inputs; i++) {
        weft_placement now = inputs[i]->placements[mesh_dim];
        bool plain = now.cut == WEFT_CUT_CHUNKS && now.level == 0;
        bool fits = binding->factors[factor].any_cut || !weft_cut_has_runs(now);
        if (now.kind != WEFT_SHARD || plain || !fits || binding->input_factor_of[i][now.dim] != factor) {
            continue;
        }
        now.dim = 0;
        if (!is_listed(strategies + first, count - first, factor, now)) {
            strategies[count++] = shard_factor(binding, outputs, factor, now);
        }
    }
    return count;
}

int weft_strategy_list(const weft_binding *binding, const weft_output_kind outputs[], const weft_layout *const inputs[],
                       int mesh_dim, weft_strategy strategies[WEFT_MAX_STRATEGIES])
{
    const weft_linearity linear = common_linearity(binding, outputs);
    int count = 0;
    for (int f = 0; f < binding->num_factors; f++) {
        if (!binding->factors[f].whole) {
            count = list_cuts(binding, outputs, inputs, mesh_dim, f, strategies, count);
        }
    }
    for (int op = WEFT_SUM; op <= WEFT_MAX; op++) {
        if (linear.kind == WEFT_NOT_LINEAR || !(linear.ops & (1u << op))) {
            continue;
        }
        if (linear.kind == WEFT_LINEAR_JOINTLY) {
            strategies[count++] = pass_partial(binding, ~0u, (weft_reduce_op)op);
            continue;
        }
        for (int i = 0; i < binding->num_inputs; i++) {
            if (linear.inputs & (1u << i)) {
                strategies[count++] = pass_partial(binding, 1u << i, (weft_reduce_op)op);
            }
        }
    }
    strategies[count++] = all_replicate();
    return count;
}

weft_rows_relation weft_binding_rows(const weft_binding *binding, int input)
{
    int factor = binding->input_ndim[input] > 0 ? binding->input_factor_of[input][0] : -1;
    if (factor < 0 || binding->factors[factor].whole || binding->input_inner[input][0] != 1) {
        return WEFT_ROWS_ALL;
    }
    const weft_bound_output *output = &binding->outputs[0];
    bool access_map = binding->input_access[input][0];
    if (output->ndim > 0 && output->factor_of[0] == factor) {
        return output->inner[0] != 1 ? WEFT_ROWS_ALL : access_map ? WEFT_ROWS_WINDOW : WEFT_ROWS_SAME;
    }
    bool of_first = binding->input_ndim[0] > 0 && binding->input_factor_of[0][0] == factor &&
                    binding->input_inner[0][0] == 1 && !binding->input_access[0][0] && !access_map;
    return (binding->factors[factor].contracted & 1) && of_first ? WEFT_ROWS_SUMMED : WEFT_ROWS_ALL;
}

weft_rows_relation weft_binding_output_rows(const weft_binding *binding, int output)
{
    const weft_bound_output *own = &binding->outputs[output], *first = &binding->outputs[0];
    if (output == 0) {
        return WEFT_ROWS_SAME;
    }
    int factor = own->ndim > 0 ? own->factor_of[0] : -1;
    bool same = factor >= 0 && !binding->factors[factor].whole && first->ndim > 0 &&
                first->factor_of[0] == factor && own->inner[0] == 1 && first->inner[0] == 1;
    return same ? WEFT_ROWS_SAME : WEFT_ROWS_ALL;
}
