/* Operations of a program's own: checked, copied, and called like the others. */
#include <stdlib.h>
#include <string.h>

#include "comm/check_spmd.h"
#include "dispatch/dispatch.h"
#include "runtime/codelets.h"

/* ---- checks -------------------------------------------------------------------------------------------- */

static bool same_terms(const weft_rule_operand *a, const weft_rule_operand *b)
{
    bool same = a->num_terms == b->num_terms;
    for (int t = 0; t < a->num_terms && same; t++) {
        const weft_rule_term *x = &a->terms[t], *y = &b->terms[t];
        same = x->num_factors == y->num_factors &&
               memcmp(x->factors, y->factors, (size_t)x->num_factors * sizeof(x->factors[0])) == 0;
    }
    return same;
}

/* False with the error kept. */
static bool check_inputs(const char *function, const weft_operation_description *d, int num_inputs)
{
    for (int i = 0; i < num_inputs; i++) {
        const weft_operation_input *input = &d->inputs[i];
        if (input->name == NULL) {
            weft_fail(WEFT_ERR_INVALID, function, "inputs[%d].name is NULL, and the rule has %d inputs", i,
                      num_inputs);
            return false;
        }
        if ((input->types & WEFT_TYPES_ALL) == 0 || (input->types & ~WEFT_TYPES_ALL) != 0) {
            weft_fail(WEFT_ERR_INVALID, function,
                      "inputs[%d].types is %#x, expected a set of WEFT_TYPE_BIT()", i, input->types);
            return false;
        }
    }
    for (int i = num_inputs; i < WEFT_MAX_INPUTS; i++) {
        if (d->inputs[i].name != NULL) {
            weft_fail(WEFT_ERR_INVALID, function, "inputs[%d].name is \"%s\", but the rule has %d input%s", i,
                      d->inputs[i].name, num_inputs, num_inputs == 1 ? "" : "s");
            return false;
        }
    }
    return true;
}

static bool check_linearity(const char *function, const weft_linearity *linear, int num_inputs)
{
    const unsigned all_ops = (1u << (WEFT_MAX + 1)) - 1, all_inputs = (1u << num_inputs) - 1;
    const char *wrong = NULL;
    if ((int)linear->kind < WEFT_NOT_LINEAR || linear->kind > WEFT_LINEAR_EACH) {
        wrong = "kind, which is no weft_linear_kind";
    } else if ((linear->ops & ~all_ops) != 0) {
        wrong = "ops, which has a bit that is no weft_reduce_op";
    } else if ((int)linear->contracts < WEFT_SUM || linear->contracts > WEFT_MAX ||
               linear->contracts == WEFT_AVG) {
        wrong = "contracts, which is no weft_reduce_op that puts parts together";
    } else if (linear->kind != WEFT_NOT_LINEAR && linear->ops == 0) {
        wrong = "ops, which is empty";
    } else if (linear->kind == WEFT_LINEAR_EACH && linear->inputs == 0) {
        wrong = "inputs, which is empty";
    } else if ((linear->inputs & ~all_inputs) != 0) {
        wrong = "inputs, which names one that the rule has not";
    }
    if (wrong != NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "linear has a wrong field: %s", wrong);
    }
    return wrong == NULL;
}

/* What rows are needed only the library's own operations can say. */
static bool has_access_maps(const weft_rule *rule)
{
    bool has = false;
    for (int i = 0; i < rule->num_inputs; i++) {
        for (int t = 0; t < rule->inputs[i].num_terms; t++) {
            has |= rule->inputs[i].terms[t].access_map;
        }
    }
    return has;
}

/* False with the error kept. */
static bool check_description(const char *function, const weft_operation_description *d)
{
    if (d != NULL && d->name != NULL && d->name[0] == '\0') {
        weft_fail(WEFT_ERR_INVALID, function, "name is empty");
        return false;
    }
    const char *missing = d == NULL           ? "description"
                          : d->name == NULL   ? "name"
                          : d->rule == NULL   ? "rule"
                          : d->kernel == NULL ? "kernel"
                                              : NULL;
    if (missing != NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "%s is NULL", missing);
        return false;
    }
    weft_rule rule;
    char why[200];
    if (weft_rule_parse(d->rule, &rule, why, sizeof(why)) != WEFT_OK) {
        weft_fail(WEFT_ERR_INVALID, function, "%s", why);
        return false;
    }
    if (has_access_maps(&rule)) {
        weft_fail(WEFT_ERR_INVALID, function, "rule \"%s\" has windows (\"~\"), expected whole dimensions",
                  d->rule);
        return false;
    }
    if (!check_inputs(function, d, rule.num_inputs) ||
        !check_linearity(function, &d->linear, rule.num_inputs)) {
        return false;
    }
    if ((int)d->output_type < WEFT_TYPE_FIRST || d->output_type > WEFT_TYPE_GIVEN) {
        weft_fail(WEFT_ERR_INVALID, function, "output_type is %d, which is no weft_output_type",
                  (int)d->output_type);
        return false;
    }
    if (d->in_place && (!same_terms(&rule.inputs[0], &rule.output) || d->output_type != WEFT_TYPE_FIRST)) {
        weft_fail(WEFT_ERR_INVALID, function,
                  "in_place with rule \"%s\"%s, expected the dimensions and the type of input 0", d->rule,
                  d->output_type != WEFT_TYPE_FIRST ? " and another type" : "");
        return false;
    }
    return true;
}

/* ---- registering --------------------------------------------------------------------------------------- */

/* Copies a text to *place, which moves on behind it. */
static const char *copy_text(char **place, const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = memcpy(*place, text, size);
    *place += size;
    return copy;
}

/* The operation and its texts in one piece of memory; NULL: there is none. */
static weft_operation *copy_of(const weft_operation_description *d)
{
    size_t size = sizeof(weft_operation) + strlen(d->name) + 1 + strlen(d->rule) + 1;
    for (int i = 0; i < WEFT_MAX_INPUTS && d->inputs[i].name != NULL; i++) {
        size += strlen(d->inputs[i].name) + 1;
    }
    weft_operation *operation = calloc(1, size);
    if (operation == NULL) {
        return NULL;
    }
    char *place = (char *)(operation + 1);
    operation->name = copy_text(&place, d->name);
    operation->rules[0] = copy_text(&place, d->rule);
    operation->linear = d->linear;
    for (int i = 0; i < WEFT_MAX_INPUTS && d->inputs[i].name != NULL; i++) {
        operation->inputs[i] = d->inputs[i];
        operation->inputs[i].name = copy_text(&place, d->inputs[i].name);
        operation->num_inputs++;
    }
    operation->output_type = d->output_type;
    operation->in_place = d->in_place;
    operation->accumulates = d->accumulates;
    return operation;
}

/* Of all that must be the same on every process; the kernel's address need not be. */
static uint64_t fingerprint(const weft_operation_description *d)
{
    uint64_t hash = weft_hash_bytes(d->name, strlen(d->name), 1);
    hash = weft_hash_bytes(d->rule, strlen(d->rule), hash);
    const uint64_t numbers[] = { d->linear.kind, d->linear.ops, d->linear.inputs, d->linear.contracts,
                                 d->output_type, d->in_place,   d->accumulates };
    hash = weft_hash_bytes(numbers, sizeof(numbers), hash);
    for (int i = 0; i < WEFT_MAX_INPUTS && d->inputs[i].name != NULL; i++) {
        const uint64_t types[] = { d->inputs[i].types, d->inputs[i].type_of_first };
        hash = weft_hash_bytes(types, sizeof(types), hash);
    }
    return hash;
}

/* Compares what the processes register. */
static bool check_spmd(const char *function, const weft_operation_description *d, bool valid)
{
    uint64_t hash = valid ? fingerprint(d) : 0;
    const double numbers[] = { (double)(uint32_t)(hash >> 32), (double)(uint32_t)hash };
    return weft_check_spmd(&(weft_call_signature){ .function = function,
                                                   .failed = !valid,
                                                   .num_numbers = WEFT_ARRAY_SIZE(numbers),
                                                   .numbers = numbers }) &&
           valid;
}

const weft_operation *weft_operation_register(const weft_operation_description *description)
{
    static const char function[] = "weft_operation_register";
    if (weft_require_init(function) != WEFT_OK ||
        !check_spmd(function, description, check_description(function, description))) {
        return NULL;
    }
    weft_operation *operation = copy_of(description);
    if (operation != NULL) {
        operation->kernel = weft_codelet_register(operation->name, description->kernel);
    }
    bool done = operation != NULL && operation->kernel != WEFT_KERNEL_NONE;
    weft_operation **slot = done ? weft_vec_push(&weft_runtime.registered, sizeof(*slot)) : NULL;
    const weft_operation *handle =
        slot == NULL ? NULL
                     : weft_handle_add(&weft_runtime.handles.operations, WEFT_HANDLE_OPERATION, operation);
    if (handle == NULL) {
        weft_runtime.registered.count -= slot != NULL;
        free(operation);
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for an operation");
        return NULL;
    }
    *slot = operation;
    return handle;
}

void weft_operations_forget(void)
{
    weft_handle_remove_all(&weft_runtime.handles.operations);
    weft_operation **operations = weft_runtime.registered.items;
    for (size_t i = 0; i < weft_runtime.registered.count; i++) {
        free(operations[i]);
    }
    weft_vec_free(&weft_runtime.registered);
}

/* ---- calling ------------------------------------------------------------------------------------------- */

static bool check_count(const char *function, const char *name, int count, int most)
{
    if (count < 0 || count > most) {
        weft_fail(WEFT_ERR_INVALID, function, "%s is %d, expected 0 to %d", name, count, most);
        return false;
    }
    return true;
}

static bool check_call(const char *function, const weft_operation *operation, int num_tensors,
                       weft_tensor *const tensors[], const weft_apply_options *options)
{
    if (num_tensors != operation->num_inputs || tensors == NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "%s: num_tensors is %d%s, expected %d", operation->name,
                  num_tensors, tensors == NULL ? " and tensors NULL" : "", operation->num_inputs);
        return false;
    }
    if (!check_count(function, "num_numbers", options->num_numbers, WEFT_MAX_NUMBERS) ||
        !check_count(function, "num_scalars", options->num_scalars, WEFT_MAX_SCALARS) ||
        !check_count(function, "num_sizes", options->num_sizes, WEFT_MAX_NUMBERS) ||
        !check_count(function, "leading", options->leading, WEFT_MAX_DIMS)) {
        return false;
    }
    return operation->output_type != WEFT_TYPE_GIVEN || weft_check_dtype(function, options->type);
}

weft_tensor *weft_apply(const weft_operation *handle, int num_tensors, weft_tensor *const tensors[],
                        const weft_apply_options *given)
{
    static const char function[] = "weft_apply";
    weft_apply_options own = { 0 };
    if (weft_require_init(function) != WEFT_OK) {
        return NULL;
    }
    const weft_operation *operation = weft_handle_get(&weft_runtime.handles.operations, handle);
    if (operation == NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "operation %p is not one of weft_operation_register()",
                  (const void *)handle);
    }
    const weft_apply_options *options = &own;
    if (operation == NULL || (given != NULL && !WEFT_TAKE_OPTIONS(function, &own, given)) ||
        !check_call(function, operation, num_tensors, tensors, options)) {
        weft_check_spmd(&(weft_call_signature){ .function = function, .failed = true });
        return NULL;
    }
    weft_call call = { .function = operation->name,
                       .operation = operation,
                       .num_inputs = num_tensors,
                       .attributes = {
                           .leading = options->leading,
                           .type = operation->output_type == WEFT_TYPE_GIVEN ? (int64_t)options->type : 0,
                           .num_sizes = options->num_sizes,
                           .num_numbers = options->num_numbers } };
    memcpy(call.inputs, tensors, (size_t)num_tensors * sizeof(tensors[0]));
    memcpy(call.attributes.sizes, options->sizes, (size_t)options->num_sizes * sizeof(options->sizes[0]));
    memcpy(call.attributes.numbers, options->numbers,
           (size_t)options->num_numbers * sizeof(options->numbers[0]));
    memcpy(call.scalars, options->scalars, (size_t)options->num_scalars * sizeof(options->scalars[0]));
    return weft_dispatch(&call);
}
