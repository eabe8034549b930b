/* Binds a rule to shapes: expands its runs, determines the sizes of its factors, infers the output's
 * shape. */
#include "sharding/rule.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Where a factor got its size: input and dimension, for messages. */
typedef struct origin {
    int input, dim;
} origin;

typedef struct binder {
    const weft_rule *rule;
    const weft_operand_shape *shapes;
    const weft_attributes *attributes;
    weft_binding *binding;
    int length[WEFT_MAX_RULE_FACTORS]; /* dimensions of a run (1 for a letter), or -1 as long as unknown */
    int first[WEFT_MAX_RULE_FACTORS];  /* index of its first factor in the binding */
    origin origins[WEFT_MAX_FACTORS];
    char *why;
    size_t why_size;
} binder;

static weft_status refuse(const binder *b, weft_status status, const char *format, ...) WEFT_PRINTF(3, 4);

static weft_status refuse(const binder *b, weft_status status, const char *format, ...)
{
    if (b->why != NULL && b->why_size > 0) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(b->why, b->why_size, format, arguments);
        va_end(arguments);
    }
    return status;
}

static const char *plural(int n)
{
    return n == 1 ? "" : "s";
}

/* ---- how long the runs are ----------------------------------------------------------------------------- */

/* The dimensions of the run of `term` in an operand with `ndim` dimensions, of which all other terms take
 * `others`. */
static weft_status take_run(binder *b, int input, int factor, int others)
{
    const weft_operand_shape *shape = &b->shapes[input];
    int own = shape->ndim - others;
    int *length = &b->length[factor];
    if (own < 0) {
        return refuse(b, WEFT_ERR_SHAPE, "%s has %d dimension%s, expected at least %d", shape->name,
                      shape->ndim, plural(shape->ndim), others);
    }
    if (b->rule->factors[factor].broadcasts) {
        *length = own > *length ? own : *length;
    } else if (*length < 0) {
        *length = own;
    } else if (own != *length) {
        return refuse(b, WEFT_ERR_SHAPE, "%s has %d dimension%s, expected %d", shape->name, shape->ndim,
                      plural(shape->ndim), others + *length);
    }
    return WEFT_OK;
}

static weft_status measure_input(binder *b, int input)
{
    const weft_rule_operand *operand = &b->rule->inputs[input];
    const weft_operand_shape *shape = &b->shapes[input];
    int runs[2], num_runs = 0;
    for (int t = 0; t < operand->num_terms; t++) {
        const weft_rule_term *term = &operand->terms[t];
        if (term->num_factors == 1 && b->rule->factors[term->factors[0]].run) {
            runs[num_runs++] = term->factors[0];
        }
    }
    int letters = operand->num_terms - num_runs;
    if (num_runs == 0) {
        return shape->ndim == letters ? WEFT_OK
                                      : refuse(b, WEFT_ERR_SHAPE, "%s has %d dimension%s, expected %d",
                                               shape->name, shape->ndim, plural(shape->ndim), letters);
    }
    if (num_runs == 1) {
        return take_run(b, input, runs[0], letters);
    }
    if (b->length[runs[0]] < 0) {
        if (b->attributes->leading < 0 || b->attributes->leading > WEFT_MAX_DIMS) {
            return refuse(b, WEFT_ERR_INVALID, "the first run has %lld dimensions",
                          (long long)b->attributes->leading);
        }
        b->length[runs[0]] = (int)b->attributes->leading;
    }
    return take_run(b, input, runs[1], letters + b->length[runs[0]]);
}

static weft_status measure_runs(binder *b)
{
    for (int f = 0; f < b->rule->num_factors; f++) {
        b->length[f] = b->rule->factors[f].run ? -1 : 1;
    }
    for (int i = 0; i < b->rule->num_inputs; i++) {
        weft_status status = measure_input(b, i);
        if (status != WEFT_OK) {
            return status;
        }
    }
    return WEFT_OK;
}

/* ---- factors ------------------------------------------------------------------------------------------- */

/* Assigns the factors of an operand their positions in the binding, unless they have them. */
static weft_status place_factors(binder *b, const weft_rule_operand *operand)
{
    weft_binding *binding = b->binding;
    for (int t = 0; t < operand->num_terms; t++) {
        for (int i = 0; i < operand->terms[t].num_factors; i++) {
            int factor = operand->terms[t].factors[i];
            if (b->first[factor] >= 0) {
                continue;
            }
            b->first[factor] = binding->num_factors;
            if (binding->num_factors + b->length[factor] > WEFT_MAX_FACTORS) {
                return refuse(b, WEFT_ERR_SHAPE, "more than %d different dimensions", WEFT_MAX_FACTORS);
            }
            for (int j = 0; j < b->length[factor]; j++) {
                binding->factors[binding->num_factors++] = (weft_factor){
                    .name = b->rule->factors[factor].name,
                    .whole = b->rule->factors[factor].whole,
                    .any_cut = b->rule->factors[factor].any_cut,
                    .size = -1,
                };
            }
        }
    }
    return WEFT_OK;
}

/* The outputs' first: strategies are listed in their order. */
static weft_status place_all(binder *b)
{
    weft_status status = WEFT_OK;
    for (int f = 0; f < b->rule->num_factors; f++) {
        b->first[f] = -1;
    }
    for (int o = 0; o < b->rule->num_outputs && status == WEFT_OK; o++) {
        status = place_factors(b, &b->rule->outputs[o]);
    }
    for (int i = 0; i < b->rule->num_inputs && status == WEFT_OK; i++) {
        status = place_factors(b, &b->rule->inputs[i]);
    }
    return status;
}

/* The bits of the outputs that do not have a rule's factor. */
static unsigned outputs_without(const weft_rule *rule, int factor)
{
    unsigned without = 0;
    for (int o = 0; o < rule->num_outputs; o++) {
        without |= weft_rule_operand_has(&rule->outputs[o], factor) ? 0 : 1u << o;
    }
    return without;
}

static void mark_contracted(binder *b)
{
    for (int f = 0; f < b->rule->num_factors; f++) {
        unsigned contracted = b->rule->factors[f].output_only ? 0 : outputs_without(b->rule, f);
        for (int i = 0; i < b->length[f]; i++) {
            b->binding->factors[b->first[f] + i].contracted = contracted;
        }
    }
}

/* ---- sizes --------------------------------------------------------------------------------------------- */

static weft_status take_size(binder *b, int factor, int input, int dim, bool broadcasts)
{
    weft_factor *f = &b->binding->factors[factor];
    const weft_operand_shape *shape = &b->shapes[input];
    int64_t size = shape->shape[dim];
    if (f->size < 0 || (broadcasts && f->size == 1)) {
        f->size = size;
        b->origins[factor] = (origin){ input, dim };
    } else if (size != f->size && !(broadcasts && size == 1)) {
        origin from = b->origins[factor];
        return refuse(b, WEFT_ERR_SHAPE,
                      "%s has size %lld in dimension %d, expected %lld%s, as dimension %d of %s has",
                      shape->name, (long long)size, dim, (long long)f->size, broadcasts ? " or 1" : "",
                      from.dim, b->shapes[from.input].name);
    }
    return WEFT_OK;
}

/* The factor of the `index`-th of `own` dimensions that an operand has of a rule's factor. Runs that
 * broadcast are aligned at their end. */
static int factor_at(const binder *b, int factor, int own, int index)
{
    return b->first[factor] + b->length[factor] - own + index;
}

/* The dimensions of a term in an input. */
static int own_length(const binder *b, int input, const weft_rule_term *term)
{
    if (term->num_factors == 0 || !b->rule->factors[term->factors[0]].broadcasts) {
        return term->num_factors == 0 ? 1 : b->length[term->factors[0]];
    }
    return b->shapes[input].ndim - (b->rule->inputs[input].num_terms - 1);
}

/* A compound dimension: its size; its first factor whose size is not 1; and the product of the sizes after that one. Other
 * factors can stay sharded if they may be cut in any way. */
static weft_status measure_compound(binder *b, const weft_rule_term *term, int64_t *size, int *leading, int64_t *inner,
                                    weft_compound *compound)
{
    compound->count = term->num_factors;
    *leading = b->first[term->factors[0]];
    *size = *inner = 1;
    bool found = false;
    for (int i = 0; i < term->num_factors; i++) {
        int factor = compound->factors[i] = b->first[term->factors[i]];
        int64_t own = b->binding->factors[factor].size;
        int64_t behind = found ? *inner : 1;
        if (!weft_mul_checked(*size, own, size) || !weft_mul_checked(behind, found ? own : 1, inner)) {
            return refuse(b, WEFT_ERR_SHAPE, "the size of a dimension overflows int64");
        }
        *leading = found ? *leading : factor;
        found |= own != 1;
    }
    for (int i = 0; i < term->num_factors; i++) {
        weft_factor *factor = &b->binding->factors[compound->factors[i]];
        factor->inner |= compound->factors[i] != *leading;
        factor->whole |= compound->factors[i] != *leading && (!factor->any_cut || factor->size == 1);
    }
    return WEFT_OK;
}

static weft_status size_compound(binder *b, int input, int dim, const weft_rule_term *term)
{
    const weft_operand_shape *shape = &b->shapes[input];
    int64_t size;
    weft_status status = measure_compound(b, term, &size, &b->binding->input_factor_of[input][dim],
                                          &b->binding->input_inner[input][dim], &b->binding->input_compound[input][dim]);
    if (status == WEFT_OK && size != shape->shape[dim]) {
        return refuse(b, WEFT_ERR_SHAPE,
                      "%s has size %lld in dimension %d, expected %lld, the product of its factors",
                      shape->name, (long long)shape->shape[dim], dim, (long long)size);
    }
    return status;
}

static weft_status size_input(binder *b, int input)
{
    const weft_rule_operand *operand = &b->rule->inputs[input];
    int *factor_of = b->binding->input_factor_of[input];
    int dim = 0;
    for (int t = 0; t < operand->num_terms; t++) {
        const weft_rule_term *term = &operand->terms[t];
        if (term->num_factors > 1) {
            dim++; /* later: not all of its factors have sizes yet */
            continue;
        }
        int own = own_length(b, input, term);
        for (int i = 0; i < own; i++, dim++) {
            b->binding->input_inner[input][dim] = 1;
            if (term->num_factors == 0) {
                factor_of[dim] = -1;
                if (b->shapes[input].shape[dim] != 1) {
                    return refuse(b, WEFT_ERR_SHAPE, "%s has size %lld in dimension %d, expected 1",
                                  b->shapes[input].name, (long long)b->shapes[input].shape[dim], dim);
                }
                continue;
            }
            factor_of[dim] = factor_at(b, term->factors[0], own, i);
            b->binding->input_access[input][dim] = term->access_map;
            if (term->access_map) {
                continue;
            }
            weft_status status =
                take_size(b, factor_of[dim], input, dim, b->rule->factors[term->factors[0]].broadcasts);
            if (status != WEFT_OK) {
                return status;
            }
        }
    }
    b->binding->input_ndim[input] = b->shapes[input].ndim;
    return WEFT_OK;
}

/* Compound dimensions. */
static weft_status size_compounds(binder *b, int input)
{
    const weft_rule_operand *operand = &b->rule->inputs[input];
    weft_status status = WEFT_OK;
    for (int t = 0, dim = 0; t < operand->num_terms && status == WEFT_OK; t++) {
        const weft_rule_term *term = &operand->terms[t];
        if (term->num_factors > 1) {
            status = size_compound(b, input, dim, term);
        }
        dim += term->num_factors > 1 ? 1 : own_length(b, input, term);
    }
    return status;
}

/* A repeated dimension of size 1 does not have the factor. */
static void drop_repeated(binder *b, int input)
{
    for (int d = 0; d < b->shapes[input].ndim; d++) {
        int *factor = &b->binding->input_factor_of[input][d];
        if (*factor >= 0 && b->binding->factors[*factor].name == '.' &&
            b->shapes[input].shape[d] != b->binding->factors[*factor].size) {
            *factor = -1;
        }
    }
}

/* The size of the first input dimension that reads a rule's factor through an access map; -1: there is none. */
static int64_t size_of_access(const binder *b, int factor)
{
    for (int i = 0; i < b->rule->num_inputs; i++) {
        for (int d = 0; d < b->shapes[i].ndim; d++) {
            if (b->binding->input_access[i][d] && b->binding->input_factor_of[i][d] == b->first[factor]) {
                return b->shapes[i].shape[d];
            }
        }
    }
    return -1;
}

/* Sizes of the factors that no input has as a dimension of its own: given, or those of access maps' dimensions. */
static weft_status size_given(binder *b)
{
    int64_t next = 0;
    for (int f = 0; f < b->rule->num_factors; f++) {
        weft_factor *factor = b->rule->factors[f].run ? NULL : &b->binding->factors[b->first[f]];
        if (factor == NULL || factor->size >= 0) {
            continue;
        }
        bool given = next < b->attributes->num_sizes;
        int64_t size = given ? b->attributes->sizes[next++] : size_of_access(b, f);
        if (size < 0) {
            return refuse(b, WEFT_ERR_INVALID, "no size is given for %c, which %s", b->rule->factors[f].name,
                          b->rule->factors[f].output_only ? "the output alone has"
                                                          : "no input has as a dimension of its own");
        }
        factor->size = size;
    }
    if (next < b->attributes->num_sizes) {
        return refuse(b, WEFT_ERR_INVALID, "%lld sizes are given, and the rule needs %lld",
                      (long long)b->attributes->num_sizes, (long long)next);
    }
    return WEFT_OK;
}

/* One dimension of an output, or one dimension of a run. */
static weft_status shape_dim(binder *b, const weft_rule_term *term, int index, weft_bound_output *output,
                             int dim)
{
    output->inner[dim] = 1;
    if (term->num_factors > 1) {
        return measure_compound(b, term, &output->shape[dim], &output->factor_of[dim], &output->inner[dim],
                                &output->compound[dim]);
    }
    int factor = term->num_factors == 0 ? -1 : b->first[term->factors[0]] + index;
    output->factor_of[dim] = factor;
    output->shape[dim] = factor < 0 ? 1 : b->binding->factors[factor].size;
    return WEFT_OK;
}

static weft_status shape_output(binder *b, const weft_rule_operand *operand, weft_bound_output *output)
{
    for (int t = 0; t < operand->num_terms; t++) {
        const weft_rule_term *term = &operand->terms[t];
        int length = term->num_factors == 1 ? b->length[term->factors[0]] : 1;
        for (int i = 0; i < length; i++) {
            if (output->ndim == WEFT_MAX_DIMS) {
                return refuse(b, WEFT_ERR_SHAPE, "the output has more than %d dimensions", WEFT_MAX_DIMS);
            }
            weft_status status = shape_dim(b, term, i, output, output->ndim++);
            if (status != WEFT_OK) {
                return status;
            }
        }
    }
    return WEFT_OK;
}

weft_status weft_rule_bind(const weft_rule *rule, const weft_operand_shape shapes[],
                           const weft_attributes *attributes, weft_binding *binding, char *why,
                           size_t why_size)
{
    memset(binding, 0, sizeof(*binding));
    binding->num_inputs = rule->num_inputs;
    binding->num_outputs = rule->num_outputs;
    binder b = { .rule = rule,
                 .shapes = shapes,
                 .attributes = attributes,
                 .binding = binding,
                 .why = why,
                 .why_size = why_size };
    weft_status status = measure_runs(&b);
    if (status == WEFT_OK) {
        status = place_all(&b);
    }
    if (status == WEFT_OK) {
        mark_contracted(&b);
    }
    for (int i = 0; i < rule->num_inputs && status == WEFT_OK; i++) {
        status = size_input(&b, i);
    }
    if (status == WEFT_OK) {
        status = size_given(&b);
    }
    for (int i = 0; i < rule->num_inputs && status == WEFT_OK; i++) {
        status = size_compounds(&b, i);
    }
    if (status != WEFT_OK) {
        return status;
    }
    for (int i = 0; i < rule->num_inputs; i++) {
        drop_repeated(&b, i);
    }
    for (int o = 0; o < rule->num_outputs && status == WEFT_OK; o++) {
        status = shape_output(&b, &rule->outputs[o], &binding->outputs[o]);
    }
    return status;
}
