/* The sharding of one call. */
#include "sharding/sharding.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- rules that are parsed ----------------------------------------------------------------------------- */

typedef struct parsed_rule {
    const char *text;
    weft_rule rule;
} parsed_rule;

void weft_rule_table_free(weft_rule_table *table)
{
    const weft_map *rules = &table->rules;
    for (weft_map_slot *slot = weft_map_each(rules, NULL); slot != NULL; slot = weft_map_each(rules, slot)) {
        free(slot->value);
    }
    weft_map_free(&table->rules);
}

weft_status weft_rule_table_get(weft_rule_table *table, const char *text, const weft_rule **rule, char *why,
                                size_t why_size)
{
    uint64_t hash = weft_hash_pointer(text);
    weft_map_slot *slot = weft_map_first(&table->rules, hash);
    for (; slot != NULL; slot = weft_map_next(&table->rules, slot)) {
        const parsed_rule *known = slot->value;
        if (known->text == text) {
            *rule = &known->rule;
            return WEFT_OK;
        }
    }
    parsed_rule *new = malloc(sizeof(*new));
    if (new == NULL) {
        return WEFT_ERR_NOMEM;
    }
    new->text = text;
    weft_status status = weft_rule_parse(text, &new->rule, why, why_size);
    if (status == WEFT_OK && !weft_map_add(&table->rules, hash, new)) {
        status = WEFT_ERR_NOMEM;
    }
    if (status != WEFT_OK) {
        free(new);
        return status;
    }
    *rule = &new->rule;
    return WEFT_OK;
}

/* The rule of a call; `written`: room for a rule that the operation writes. */
static weft_status find_rule(const weft_sharding_world *world, const weft_call_layouts *call,
                             weft_rule *written, const weft_rule **rule, char *why, size_t why_size)
{
    const weft_operation *operation = call->operation;
    if (operation->write_rule != NULL) {
        char text[160];
        operation->write_rule(call, text, sizeof(text));
        *rule = written;
        return weft_rule_parse(text, written, why, why_size);
    }
    const char *text = operation->rules[call->attributes->rule];
    weft_status status = weft_rule_table_get(world->rules, text, rule, why, why_size);
    if (status == WEFT_OK && (*rule)->num_inputs != call->num_inputs) {
        snprintf(why, why_size, "rule \"%s\" is not one of %d inputs", text, call->num_inputs);
        return WEFT_ERR_INVALID;
    }
    return status;
}

/* ---- shapes that do not fit ---------------------------------------------------------------------------- */

static bool same_shape(int ndim, const int64_t shape[], const weft_layout *layout)
{
    return ndim == layout->ndim && memcmp(shape, layout->shape, (size_t)ndim * sizeof(shape[0])) == 0;
}

/* Whether a shape, aligned at its end, broadcasts to a layout's. */
static bool broadcasts_to(const weft_layout *layout, const weft_layout *target)
{
    bool fits = layout->ndim <= target->ndim;
    for (int d = 0; d < layout->ndim && fits; d++) {
        int64_t size = layout->shape[d];
        fits = size == 1 || size == target->shape[target->ndim - layout->ndim + d];
    }
    return fits;
}

/* For an output in place whose shape differs from its target: names the input of the same number. */
static void describe_misfit(const weft_call_layouts *call, int number, const weft_bound_output *output,
                            char *why, size_t why_size)
{
    const weft_operation_input *described = call->operation->inputs;
    const weft_layout *target = call->inputs[number];
    char target_text[160], other[160];
    weft_layout_format(target, target_text, sizeof(target_text));
    for (int i = 0; i < call->num_inputs; i++) {
        if (i != number && !broadcasts_to(call->inputs[i], target)) {
            snprintf(why, why_size, "%s, %s, does not broadcast to %s, %s", described[i].name,
                     weft_layout_format(call->inputs[i], other, sizeof(other)), described[number].name,
                     target_text);
            return;
        }
    }
    int64_t count = 0;
    weft_count_checked(output->ndim, output->shape, &count);
    snprintf(why, why_size, "%s is %s, and the result would have %d dimensions and %lld elements",
             described[number].name, target_text, output->ndim, (long long)count);
}

/* For an operation whose call names the output's shape: whether its rule gives that shape. */
static bool gives_shape_asked_for(const weft_call_layouts *call, const weft_binding *binding)
{
    const weft_bound_output *output = &binding->outputs[0];
    bool same = output->ndim == call->attributes->num_numbers;
    for (int d = 0; d < output->ndim && same; d++) {
        same = output->shape[d] == call->attributes->numbers[d];
    }
    return same;
}

static weft_status check_outputs(const weft_call_layouts *call, const weft_binding *binding, char *why,
                                 size_t why_size)
{
    const weft_operation *operation = call->operation;
    for (int o = 0; o < binding->num_outputs; o++) {
        const weft_bound_output *output = &binding->outputs[o];
        weft_status status = weft_shape_check(output->ndim, output->shape, why, why_size);
        if (status != WEFT_OK) {
            return status;
        }
        if (operation->outputs[o].in_place && !same_shape(output->ndim, output->shape, call->inputs[o])) {
            describe_misfit(call, o, output, why, why_size);
            return WEFT_ERR_SHAPE;
        }
    }
    if (operation->numbers_are_shape && !gives_shape_asked_for(call, binding)) {
        snprintf(why, why_size, "a mistake in weft: the rule of %s does not give the shape asked for",
                 operation->name);
        return WEFT_ERR_INTERNAL;
    }
    return WEFT_OK;
}

/* ---- the search ---------------------------------------------------------------------------------------- */

/* Whether the indices that `rows` rows read of a dimension can be computed with 64 bits. */
static bool is_window(const weft_window *w, int64_t rows, int64_t size)
{
    const int64_t bound = INT64_MAX / 4;
    int64_t last, behind;
    return w->over >= 1 && w->times != 0 && w->times > -bound && w->times < bound && w->before > -bound &&
           w->before < bound && w->after > -bound && w->after < bound &&
           weft_mul_checked(rows, w->times < 0 ? -w->times : w->times, &last) && last < bound &&
           weft_mul_checked(size, w->over, &behind) && behind < bound;
}

/* Whether a periodic window reaches no further than the size beyond each end. */
static bool is_near(const weft_window *w, int64_t rows, int64_t size)
{
    weft_window sized = *w;
    int64_t begin, end;
    sized.size = weft_max_i64(size, 1); /* of no index none is read */
    weft_window_range(&sized, 0, rows, &begin, &end);
    return !w->periodic || begin == end || (size > 0 && begin >= -size && end <= 2 * size);
}

static weft_status list_windows(const weft_call_layouts *call, const weft_binding *binding,
                                weft_window windows[][WEFT_MAX_DIMS], char *why, size_t why_size)
{
    for (int i = 0; i < binding->num_inputs; i++) {
        for (int d = 0; d < binding->input_ndim[i]; d++) {
            weft_window *w = &windows[i][d];
            *w = binding->input_access[i][d] ? call->operation->window(call, i, d) : (weft_window){ 0 };
            int64_t size = call->inputs[i]->shape[d];
            if (binding->input_access[i][d] &&
                !is_window(w, binding->factors[binding->input_factor_of[i][d]].size, size)) {
                snprintf(why, why_size,
                         "the halo of %s in dimension %d (before %lld, after %lld, times %lld, over %lld) is "
                         "out of range",
                         call->operation->inputs[i].name, d, (long long)w->before, (long long)w->after,
                         (long long)w->times, (long long)w->over);
                return WEFT_ERR_INVALID;
            }
            if (binding->input_access[i][d] && !is_near(w, binding->factors[binding->input_factor_of[i][d]].size, size)) {
                snprintf(why, why_size,
                         "the periodic halo of %s in dimension %d (before %lld, after %lld, times %lld, over %lld) is wider than "
                         "the dimension, %lld",
                         call->operation->inputs[i].name, d, (long long)w->before, (long long)w->after, (long long)w->times,
                         (long long)w->over, (long long)size);
                return WEFT_ERR_INVALID;
            }
        }
    }
    return WEFT_OK;
}

/* All values of a floating type, and their sums. */
static bool widens(weft_dtype from, weft_dtype to)
{
    bool numbers = weft_dtype_has_gradient(from) && weft_dtype_has_gradient(to);
    return numbers && weft_dtype_size(to) >= 2 * weft_dtype_size(from) && weft_dtype_can_hold(to, from);
}

void weft_call_outputs(const weft_call_layouts *call, int num_outputs, weft_output_kind outputs[])
{
    for (int o = 0; o < num_outputs; o++) {
        const weft_operation_output *described = &call->operation->outputs[o];
        outputs[o] = (weft_output_kind){ .linear = described->linear,
                                         .in_place = described->in_place,
                                         .repeats = described->repeats,
                                         .joins = call->operation->joins,
                                         .joins_large = call->operation->joins_large };
        outputs[o].dtype = described->in_place
                               ? call->inputs[o]->dtype
                               : weft_output_dtype(described->type, call->num_inputs, call->inputs,
                                                   (weft_dtype)call->attributes->type);
        if (call->operation->only_widens && !widens(call->inputs[0]->dtype, outputs[o].dtype)) {
            outputs[o].linear.kind = WEFT_NOT_LINEAR;
        }
    }
}

weft_status weft_call_bind(const weft_sharding_world *world, const weft_call_layouts *call, weft_binding *binding,
                           char *why, size_t why_size)
{
    weft_rule written;
    const weft_rule *rule;
    weft_status status = find_rule(world, call, &written, &rule, why, why_size);
    if (status != WEFT_OK) {
        return status;
    }
    weft_operand_shape shapes[WEFT_MAX_INPUTS];
    for (int i = 0; i < call->num_inputs; i++) {
        const weft_layout *input = call->inputs[i];
        shapes[i] = (weft_operand_shape){ call->operation->inputs[i].name, input->ndim, input->shape };
    }
    status = weft_rule_bind(rule, shapes, call->attributes, binding, why, why_size);
    bool elementwise = weft_kernel_info_of(call->operation->kernel)->form == WEFT_FORM_ELEMENTWISE && call->operation->window == NULL;
    for (int f = 0; f < binding->num_factors; f++) {
        weft_factor *factor = &binding->factors[f];
        factor->any_cut = elementwise || (factor->any_cut && !call->operation->only_contiguous);
    }
    return status;
}

/* Whether two bindings of one call have the same dimensions, and the first one cuts no factor in a way in which the second
 * one does not. */
static bool same_dims(const weft_binding *a, const weft_binding *b)
{
    bool same = a->num_factors == b->num_factors && a->num_outputs == b->num_outputs;
    for (int f = 0; f < a->num_factors && same; f++) {
        same = a->factors[f].size == b->factors[f].size && (a->factors[f].whole || !b->factors[f].whole) &&
               (b->factors[f].any_cut || !a->factors[f].any_cut);
    }
    for (int i = 0; i < a->num_inputs && same; i++) {
        for (int d = 0; d < a->input_ndim[i] && same; d++) {
            same = a->input_factor_of[i][d] == b->input_factor_of[i][d] &&
                   memcmp(&a->input_compound[i][d], &b->input_compound[i][d], sizeof(a->input_compound[i][d])) == 0 &&
                   a->input_inner[i][d] == b->input_inner[i][d] && a->input_access[i][d] == b->input_access[i][d];
        }
    }
    for (int o = 0; o < a->num_outputs && same; o++) {
        const weft_bound_output *one = &a->outputs[o], *other = &b->outputs[o];
        same = one->ndim == other->ndim;
        for (int d = 0; d < one->ndim && same; d++) {
            same = one->factor_of[d] == other->factor_of[d] && one->inner[d] == other->inner[d] &&
                   memcmp(&one->compound[d], &other->compound[d], sizeof(one->compound[d])) == 0 && one->shape[d] == other->shape[d];
        }
    }
    return same;
}

/* A rule that replaces another one, whose kernel stays, may keep more dimensions whole, and nothing else. */
static weft_status check_replaced_rule(const weft_sharding_world *world, const weft_call_layouts *call,
                                       const weft_binding *binding, char *why, size_t why_size)
{
    weft_call_layouts original = *call;
    weft_binding own;
    original.operation = call->operation->replaces;
    weft_status status = weft_call_bind(world, &original, &own, why, why_size);
    if (status == WEFT_OK && !same_dims(binding, &own)) {
        snprintf(why, why_size, "rule \"%s\" in the place of that of %s has other dimensions, or shards more of them, "
                 "and the kernel is still weft's", call->operation->rules[0], original.operation->name);
        status = WEFT_ERR_INVALID;
    }
    return status;
}

static weft_status shard_by_rule(const weft_sharding_world *world, const weft_call_layouts *call,
                                 weft_sharding *sharding, char *why, size_t why_size)
{
    weft_binding binding;
    weft_status status = weft_call_bind(world, call, &binding, why, why_size);
    if (status == WEFT_OK && call->operation->keeps_kernel && call->operation->replaces->choose == NULL) {
        status = check_replaced_rule(world, call, &binding, why, why_size);
    }
    if (status == WEFT_OK) {
        status = check_outputs(call, &binding, why, why_size);
    }
    if (status != WEFT_OK) {
        return status;
    }
    weft_window windows[WEFT_MAX_INPUTS][WEFT_MAX_DIMS];
    status = list_windows(call, &binding, windows, why, why_size);
    if (status != WEFT_OK) {
        return status;
    }
    weft_search search = {
        .table = world->table,
        .topology = world->topology,
        .cost = world->cost,
        .forced = world->forced,
        .record = world->record,
        .access_map = windows,
        .wish = call->attributes->wish,
    };
    weft_output_kind outputs[WEFT_MAX_OUTPUTS];
    weft_call_outputs(call, binding.num_outputs, outputs);
    return weft_strategy_search(&search, &binding, outputs, call->inputs, sharding, why, why_size);
}

weft_status weft_call_shard(const weft_sharding_world *world, const weft_call_layouts *call,
                            weft_sharding *sharding, char *why, size_t why_size)
{
    *sharding = (weft_sharding){ .num_outputs = 0 };
    return call->operation->choose != NULL ? call->operation->choose(call, sharding, why, why_size)
                                           : shard_by_rule(world, call, sharding, why, why_size);
}

bool weft_sharding_access(weft_layout_table *table, const weft_call_layouts *call,
                          const weft_sharding *sharding, int input, weft_access_map *access_map)
{
    const weft_layout *layout = sharding->inputs[input];
    weft_window of[WEFT_MAX_DIMS] = { { 0 } };
    weft_call_layouts moved = { call->operation, call->num_inputs, { NULL }, call->attributes };
    memcpy(moved.inputs, sharding->inputs, sizeof(moved.inputs));
    for (int d = 0; d < layout->ndim; d++) {
        if (sharding->window_rows[input][d] >= 0) {
            of[d] = call->operation->window(&moved, input, d);
        }
    }
    return weft_access_map_make(table, layout, sharding->window_rows[input], of, sharding->has_cuts ? sharding->cuts : NULL,
                                access_map);
}
