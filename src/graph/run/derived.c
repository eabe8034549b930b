/* Relations between sizes that follow from a trace's calls. Each size of a value is derived as a sum of products of the inputs' sizes
 * that change (their symbols), along the dimensions of the calls' rules. Where a rule says that two sizes are equal, or that one is
 * a multiple of a number, and the derived sums differ, the program relies on a relation. Sizes that are derived from nothing, such
 * as those of factories, give none. */
#include <stdlib.h>
#include <string.h>

#include "dispatch/cache.h"
#include "graph/run/graph.h"
#include "sharding/sharding.h"
#include "tensor/state.h"

typedef struct derived_size {
    bool known;
    weft_size_sum sum;
} derived_size;

/* `left` == `right`, or `left` % `right` == 0, as the call of a node has it. */
typedef struct derived_relation {
    weft_size_sum left, right;
    bool is_multiple;
    size_t node;
} derived_relation;

typedef struct deriving {
    const weft_graph_impl *graph;
    const weft_graph_trace *trace;
    derived_size *sizes; /* WEFT_MAX_DIMS of each value */
    size_t node;
    weft_vec relations; /* derived_relation */
} deriving;

/* A rule's factors in one call. */
typedef struct bound_call {
    const weft_graph_node *node;
    weft_binding binding;
    derived_size factors[WEFT_MAX_FACTORS];
} bound_call;

/* ---- symbols ----------------------------------------------------------------------------------------------- */

static int flat_of(const weft_graph_impl *graph, int input, int dim)
{
    int flat = dim;
    for (int i = 0; i < input; i++) {
        flat += graph->input_layouts[i]->ndim;
    }
    return flat;
}

static int symbol_of(const weft_graph_impl *graph, int input, int dim)
{
    return weft_shape_symbol(graph->shapes, flat_of(graph, input, dim));
}

/* The first size with this symbol stands for all of them. */
static weft_size_sum size_with(const weft_graph_impl *graph, int symbol)
{
    for (int i = 0; i < graph->num_inputs; i++) {
        for (int d = 0; d < graph->input_layouts[i]->ndim; d++) {
            if (symbol_of(graph, i, d) == symbol) {
                return weft_size_of(i, d);
            }
        }
    }
    return weft_size_number(0);
}

/* The number of symbols. */
static int count_symbols(const weft_graph_impl *graph)
{
    int count = 0;
    for (int i = 0; i < graph->shapes->num_sizes; i++) {
        int symbol = weft_shape_symbol(graph->shapes, i);
        count = symbol >= count ? symbol + 1 : count;
    }
    return count;
}

static int64_t value_of(const weft_graph_impl *graph, const weft_size_sum *size)
{
    return graph->input_layouts[size->terms[0].sizes[0].input]->shape[size->terms[0].sizes[0].dim];
}

/* ---- relations --------------------------------------------------------------------------------------------- */

/* A size that has changed is no number: such a relation holds for these sizes alone, and says nothing. */
static void add_relation(deriving *d, const weft_size_sum *left, const weft_size_sum *right, bool is_multiple)
{
    bool says = left->num_terms > 0 && (is_multiple || right->num_terms > 0);
    for (size_t i = 0; i < d->relations.count && says; i++) {
        const derived_relation *r = (const derived_relation *)d->relations.items + i;
        bool same = weft_size_equal(&r->left, left) && weft_size_equal(&r->right, right);
        bool turned = weft_size_equal(&r->left, right) && weft_size_equal(&r->right, left);
        says = r->is_multiple != is_multiple || (!same && !(turned && !is_multiple));
    }
    derived_relation *added = says ? weft_vec_push(&d->relations, sizeof(*added)) : NULL;
    if (added != NULL) { /* without memory the listing lacks it */
        *added = (derived_relation){ *left, *right, is_multiple, d->node };
    }
}

/* A factor has this size, too. */
static void agree(deriving *d, derived_size *factor, const derived_size *size)
{
    if (!factor->known) {
        *factor = *size;
    } else if (size->known && !weft_size_equal(&factor->sum, &size->sum)) {
        add_relation(d, &factor->sum, &size->sum, false);
    }
}

/* ---- one call ---------------------------------------------------------------------------------------------- */

static derived_size *size_at(const deriving *d, int value, int dim)
{
    return &d->sizes[value * WEFT_MAX_DIMS + dim];
}

/* False: no rule says what its dimensions are. */
static bool bind(const deriving *d, bound_call *b)
{
    const weft_call *call = b->node->call;
    const weft_operation *operation = call->operation;
    if (operation->choose != NULL || (operation->rules[0] == NULL && operation->write_rule == NULL) ||
        b->node->num_inputs > call->num_inputs) {
        return false;
    }
    char why[160];
    weft_call_layouts layouts = { .operation = operation, .num_inputs = call->num_inputs, .attributes = &call->attributes };
    for (int i = 0; i < call->num_inputs; i++) {
        if (b->node->inputs[i] < 0) {
            return false;
        }
        layouts.inputs[i] = weft_trace_value(d->trace, b->node->inputs[i])->layout;
    }
    const weft_sharding_world world = { .table = weft_runtime.layouts, .rules = weft_rules() };
    return weft_call_bind(&world, &layouts, &b->binding, why, sizeof(why)) == WEFT_OK;
}

static void find_plain_factors(deriving *d, bound_call *b)
{
    for (int i = 0; i < b->binding.num_inputs; i++) {
        for (int k = 0; k < b->binding.input_ndim[i]; k++) {
            int factor = b->binding.input_factor_of[i][k];
            if (factor >= 0 && b->binding.input_compound[i][k].count == 0 && !b->binding.input_access[i][k]) {
                agree(d, &b->factors[factor], size_at(d, b->node->inputs[i], k));
            }
        }
    }
}

/* A factor of a compound dimension, of which `rest` is left, is a symbol that has its size. */
static bool take_symbol(const deriving *d, bound_call *b, int factor, weft_size_sum *rest)
{
    int num_symbols = count_symbols(d->graph);
    for (int s = 0; s < num_symbols && !b->factors[factor].known; s++) {
        weft_size_sum size = size_with(d->graph, s), quotient;
        if (value_of(d->graph, &size) == b->binding.factors[factor].size && weft_size_divide(rest, &size, &quotient)) {
            b->factors[factor] = (derived_size){ true, size };
            *rest = quotient;
        }
    }
    return b->factors[factor].known;
}

/* It is a number, of which `rest` is a multiple. */
static bool take_number(deriving *d, bound_call *b, int factor, weft_size_sum *rest)
{
    weft_size_sum size = weft_size_number(b->binding.factors[factor].size), quotient;
    if (size.number == 0 || !weft_size_divide(rest, &size, &quotient)) {
        if (size.number > 1) {
            add_relation(d, rest, &size, true);
        }
        return false;
    }
    b->factors[factor] = (derived_size){ true, size };
    *rest = quotient;
    return true;
}

/* The dimension is the product of its factors: those that nothing else determines are what is left of it. */
static void solve(deriving *d, bound_call *b, const weft_compound *compound, const derived_size *size)
{
    weft_size_sum rest = size->sum;
    int unknown = 0, outermost = -1;
    bool divides = size->known;
    for (int i = 0; i < compound->count; i++) {
        const derived_size *factor = &b->factors[compound->factors[i]];
        divides = divides && (!factor->known || weft_size_divide(&rest, &factor->sum, &rest));
        unknown += !factor->known;
    }
    for (int i = 0; i < compound->count && divides && unknown > 1; i++) {
        int factor = compound->factors[i];
        unknown -= !b->factors[factor].known && take_symbol(d, b, factor, &rest);
    }
    for (int i = compound->count - 1; i >= 0 && divides && unknown > 1; i--) {
        int factor = compound->factors[i];
        if (!b->factors[factor].known) {
            divides = take_number(d, b, factor, &rest);
            unknown--;
        }
    }
    for (int i = 0; i < compound->count; i++) {
        outermost = !b->factors[compound->factors[i]].known ? compound->factors[i] : outermost;
    }
    if (divides && outermost >= 0) {
        b->factors[outermost] = (derived_size){ true, rest };
    } else if (divides && rest.num_terms + (rest.number != 1) > 0) {
        weft_size_sum product = weft_size_number(1);
        for (int i = 0; i < compound->count && divides; i++) {
            divides = weft_size_multiply(&product, &b->factors[compound->factors[i]].sum, &product);
        }
        if (divides) {
            add_relation(d, &size->sum, &product, false);
        }
    }
}

static void find_compound_factors(deriving *d, bound_call *b)
{
    for (int i = 0; i < b->binding.num_inputs; i++) {
        for (int k = 0; k < b->binding.input_ndim[i]; k++) {
            const weft_compound *compound = &b->binding.input_compound[i][k];
            if (compound->count > 0) {
                solve(d, b, compound, size_at(d, b->node->inputs[i], k));
            }
        }
    }
}

/* A dimension of an output; not known where one of its factors is not. */
static derived_size output_size(const bound_call *b, const weft_bound_output *output, int dim)
{
    derived_size size = { .known = true, .sum = weft_size_number(1) };
    int factor = output->factor_of[dim];
    if (output->compound[dim].count == 0 && factor < 0) {
        return (derived_size){ .known = output->shape[dim] == 1, .sum = weft_size_number(1) };
    }
    if (output->compound[dim].count == 0) {
        return b->factors[factor];
    }
    for (int i = 0; i < output->compound[dim].count && size.known; i++) {
        const derived_size *one = &b->factors[output->compound[dim].factors[i]];
        size.known = one->known && weft_size_multiply(&size.sum, &one->sum, &size.sum);
    }
    return size;
}

static void derive_by_rule(deriving *d, bound_call *b)
{
    find_plain_factors(d, b);
    find_compound_factors(d, b);
    for (int o = 0; o < b->node->num_outputs && o < b->binding.num_outputs; o++) {
        for (int k = 0; k < b->binding.outputs[o].ndim && b->node->outputs[o] >= 0; k++) {
            *size_at(d, b->node->outputs[o], k) = output_size(b, &b->binding.outputs[o], k);
        }
    }
}

static void derive_node(deriving *d, bound_call *b)
{
    const weft_graph_node *node = b->node;
    if (weft_call_does(node->call, WEFT_MOVES) && node->outputs[0] >= 0) {
        memcpy(size_at(d, node->outputs[0], 0), size_at(d, node->inputs[0], 0), WEFT_MAX_DIMS * sizeof(derived_size));
    } else if (bind(d, b)) {
        memset(b->factors, 0, sizeof(b->factors));
        derive_by_rule(d, b);
    }
}

/* ---- all calls --------------------------------------------------------------------------------------------- */

/* Sizes of the graph's inputs are symbols, or numbers if they have not changed; those of other tensors are numbers. */
static void begin_inputs(const deriving *d)
{
    for (int v = 0; v < (int)d->trace->values.count; v++) {
        const weft_graph_value *value = weft_trace_value(d->trace, v);
        for (int k = 0; k < value->layout->ndim && value->is_input; k++) {
            int symbol = value->argument < 0 ? -1 : symbol_of(d->graph, value->argument, k);
            bool tracked = value->argument < 0 || flat_of(d->graph, value->argument, k) < d->graph->shapes->num_sizes;
            *size_at(d, v, k) = (derived_size){ tracked, symbol < 0 ? weft_size_number(value->layout->shape[k])
                                                                 : size_with(d->graph, symbol) };
        }
    }
}

static void name_symbol(const void *context, int input, int dim, weft_text *text)
{
    weft_text_add(text, "s%d", symbol_of(context, input, dim));
}

/* A product with a size of 0 says nothing about the others. */
static bool holds(const derived_relation *r, const weft_all_sizes *all)
{
    int64_t left, right;
    return weft_size_value(&r->left, all->sizes, all->first, &left) && weft_size_value(&r->right, all->sizes, all->first, &right) &&
           (r->is_multiple ? right > 0 && left % right == 0 : left == right);
}

static void print(const deriving *d, const weft_all_sizes *all, FILE *file)
{
    for (size_t i = 0; i < d->relations.count; i++) {
        const derived_relation *r = (const derived_relation *)d->relations.items + i;
        char space[300];
        if (!holds(r, all)) {
            continue;
        }
        weft_text text = weft_text_in(space, sizeof(space));
        bool parentheses = r->is_multiple && (r->left.num_terms > 1 || r->left.number != 0);
        weft_text_add(&text, "%s", parentheses ? "(" : "");
        weft_size_print(&r->left, name_symbol, d->graph, &text);
        weft_text_add(&text, "%s", parentheses ? ")" : "");
        weft_text_add(&text, "%s", r->is_multiple ? " % " : " == ");
        weft_size_print(&r->right, name_symbol, d->graph, &text);
        fprintf(file, "    %s%s, as %s needs it\n", space, r->is_multiple ? " == 0" : "",
                weft_trace_node(d->trace, r->node)->call->function);
    }
}

void weft_graph_print_derived(const weft_graph_impl *graph, const weft_graph_trace *trace, FILE *file)
{
    deriving d = { .graph = graph, .trace = trace, .sizes = calloc(trace->values.count * WEFT_MAX_DIMS + 1, sizeof(derived_size)) };
    bound_call *bound = malloc(sizeof(*bound));
    weft_all_sizes all = { .count = 0 };
    bool collected = weft_graph_collect_sizes(graph, graph->input_layouts, &all);
    if (d.sizes != NULL && bound != NULL && collected) {
        begin_inputs(&d);
        for (d.node = 0; d.node < trace->nodes.count; d.node++) {
            bound->node = weft_trace_node(trace, d.node);
            derive_node(&d, bound);
        }
        print(&d, &all, file);
    }
    if (collected) {
        weft_all_sizes_free(&all);
    }
    weft_vec_free(&d.relations);
    free(bound);
    free(d.sizes);
}
