/* The strategies of one mesh dimension. */
#include "sharding/strategy.h"

static weft_placement shard_of(const weft_binding *binding, int factor, weft_placement cut, int64_t parts, int ndim,
                               const int factor_of[], const weft_compound compounds[])
{
    weft_placement placement = weft_replicate();
    for (int d = 0; d < ndim; d++) {
        cut.dim = d;
        int position = weft_compound_position(&compounds[d], factor);
        if (position >= 0) {
            bool said = weft_compound_cut(binding, &compounds[d], position, cut, binding->factors[factor].size, parts, &placement);
            return said ? placement : weft_replicate();
        }
        if (compounds[d].count == 0 && factor_of[d] == factor) {
            return cut;
        }
    }
    return placement;
}

static weft_strategy all_replicate(void)
{
    return (weft_strategy){ .factor = -1 }; /* WEFT_REPLICATE is 0 */
}

/* In compound dimensions as if no other mesh dimension cut them. */
static weft_strategy shard_factor(const weft_binding *binding, const weft_output_kind outputs[], int factor, weft_placement cut,
                                  int64_t parts)
{
    weft_strategy strategy = { .factor = factor, .cut = cut };
    for (int i = 0; i < binding->num_inputs; i++) {
        strategy.inputs[i] = shard_of(binding, factor, cut, parts, binding->input_ndim[i], binding->input_factor_of[i],
                                      binding->input_compound[i]);
    }
    for (int o = 0; o < binding->num_outputs; o++) {
        const weft_bound_output *output = &binding->outputs[o];
        bool contracted = binding->factors[factor].contracted >> o & 1;
        bool repeats = contracted && outputs[o].repeats;
        strategy.outputs[o] = repeats      ? weft_replicate()
                              : contracted ? weft_partial(outputs[o].linear.contracts)
                                           : shard_of(binding, factor, cut, parts, output->ndim, output->factor_of, output->compound);
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

/* The strategy of the list that cuts the factor in this way; NULL: none. */
static weft_strategy *find_listed(weft_strategy strategies[], int count, int factor, weft_placement cut)
{
    weft_strategy *listed = NULL;
    for (int i = 0; i < count && listed == NULL; i++) {
        bool same = strategies[i].factor == factor && weft_placement_equal(strategies[i].cut, cut);
        listed = same ? &strategies[i] : NULL;
    }
    return listed;
}

/* The factor that an input is cut along now, and how; -1: none. */
static int cut_now(const weft_binding *binding, const weft_layout *layout, int input, int mesh_dim, weft_placement *cut)
{
    weft_placement now = layout->placements[mesh_dim];
    if (now.kind != WEFT_SHARD) {
        return -1;
    }
    const weft_compound *compound = &binding->input_compound[input][now.dim];
    if (compound->count > 0) {
        return weft_compound_read(binding, compound, layout, now.dim, mesh_dim, cut);
    }
    *cut = now;
    cut->dim = 0;
    return binding->input_factor_of[input][now.dim];
}

/* A factor in chunks, unless it is an inner one, then as inputs are cut. Returns the new count. */
static int list_cuts(const weft_binding *binding, const weft_output_kind outputs[], const weft_layout *const inputs[], int mesh_dim,
                     int64_t parts, int factor, weft_strategy strategies[], int count)
{
    const int first = count;
    if (!binding->factors[factor].inner) {
        strategies[count++] = shard_factor(binding, outputs, factor, weft_shard(0), parts);
    }
    for (int i = 0; inputs != NULL && i < binding->num_inputs; i++) {
        weft_placement cut, now = inputs[i]->placements[mesh_dim];
        if (cut_now(binding, inputs[i], i, mesh_dim, &cut) != factor ||
            (!binding->factors[factor].any_cut && weft_cut_has_runs(cut))) {
            continue;
        }
        /* A part of one block has several if no other mesh dimension cuts before it. */
        cut = binding->factors[factor].any_cut ? weft_cut_in_blocks(cut) : cut;
        now = binding->factors[factor].any_cut ? weft_cut_in_blocks(now) : now;
        weft_strategy *listed = find_listed(strategies + first, count - first, factor, cut);
        if (listed == NULL) {
            listed = &strategies[count++];
            *listed = shard_factor(binding, outputs, factor, cut, parts);
        }
        listed->inputs[i] = now;
    }
    return count;
}

/* Whether all inputs but one are repeated along the output: biases. Of addends as large as the sum each rank would read all. */
static bool repeats_others(const weft_binding *binding, int input)
{
    const weft_bound_output *output = &binding->outputs[0];
    bool all = true;
    for (int i = 0; i < binding->num_inputs; i++) {
        bool repeats = false;
        for (int d = 0; d < output->ndim; d++) {
            bool has = false;
            for (int own = 0; own < binding->input_ndim[i]; own++) {
                has |= binding->input_factor_of[i][own] == output->factor_of[d];
            }
            repeats |= output->factor_of[d] >= 0 && !has;
        }
        all &= i == input || repeats;
    }
    return all;
}

int weft_strategy_list(const weft_binding *binding, const weft_output_kind outputs[], const weft_mesh_impl *mesh,
                       const weft_layout *const inputs[], int mesh_dim, weft_strategy strategies[WEFT_MAX_STRATEGIES])
{
    const weft_linearity linear = common_linearity(binding, outputs);
    int count = 0;
    for (int f = 0; f < binding->num_factors; f++) {
        if (!binding->factors[f].whole) {
            count = list_cuts(binding, outputs, inputs, mesh_dim, mesh->shape[mesh_dim], f, strategies, count);
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
    for (int i = 0; i < binding->num_inputs; i++) {
        bool joins = (outputs[0].joins >> i & 1) && (outputs[0].joins_large || repeats_others(binding, i));
        for (int op = WEFT_SUM; op <= WEFT_AVG && joins; op++) {
            strategies[count++] = pass_partial(binding, 1u << i, (weft_reduce_op)op);
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
