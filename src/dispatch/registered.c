/* User-defined operations: checks, copies, calls. */
#include <stdlib.h>
#include <string.h>

#include "codelets/random.h"
#include "comm/check_spmd.h"
#include "dispatch/description.h"
#include "dispatch/dispatch.h"
#include "runtime/codelets.h"
#include "sharding/halos.h"
#include "tensor/arguments.h"

_Static_assert((int)WEFT_MAX_RANDOM_SCALARS == WEFT_MAX_SCALARS - WEFT_RANDOM_OWN, "the state's scalars are the first ones");

/* ---- checks -------------------------------------------------------------------------------------------- */

bool weft_rule_same_dims(const weft_rule_operand *a, const weft_rule_operand *b)
{
    bool same = a->num_terms == b->num_terms;
    for (int t = 0; t < a->num_terms && same; t++) {
        const weft_rule_term *x = &a->terms[t], *y = &b->terms[t];
        same = x->num_factors == y->num_factors && x->access_map == y->access_map &&
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
        if ((input->types & WEFT_TYPES_ANY) == 0 || (input->types & ~WEFT_TYPES_ANY) != 0) {
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

bool weft_check_linearity(const char *function, int output, const weft_linearity *linear, int num_inputs)
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
        weft_fail(WEFT_ERR_INVALID, function, "outputs[%d].linear has a wrong field: %s", output, wrong);
    }
    return wrong == NULL;
}

static bool is_described(const weft_operation_output *output)
{
    return output->type != WEFT_TYPE_FIRST || output->in_place || output->linear.kind != WEFT_NOT_LINEAR ||
           output->linear.contracts != WEFT_SUM;
}

/* False with the error kept. */
static bool check_outputs(const char *function, const weft_operation_description *d, const weft_rule *rule)
{
    for (int o = 0; o < WEFT_MAX_OUTPUTS; o++) {
        const weft_operation_output *output = &d->outputs[o];
        if (o >= rule->num_outputs) {
            if (is_described(output)) {
                weft_fail(WEFT_ERR_INVALID, function,
                          "outputs[%d] is described, but the rule has %d output%s", o, rule->num_outputs,
                          rule->num_outputs == 1 ? "" : "s");
                return false;
            }
            continue;
        }
        if (!weft_check_linearity(function, o, &output->linear, rule->num_inputs)) {
            return false;
        }
        if ((int)output->type < WEFT_TYPE_FIRST || output->type > WEFT_TYPE_COMPLEX) {
            weft_fail(WEFT_ERR_INVALID, function, "outputs[%d].type is %d, which is no weft_output_type", o,
                      (int)output->type);
            return false;
        }
        if (output->in_place &&
            (o >= rule->num_inputs || !weft_rule_same_dims(&rule->inputs[o], &rule->outputs[o]) ||
             output->type != WEFT_TYPE_FIRST)) {
            weft_fail(
                WEFT_ERR_INVALID, function,
                "outputs[%d].in_place with rule \"%s\"%s, expected the dimensions and the type of input "
                "%d",
                o, d->rule, output->type != WEFT_TYPE_FIRST ? " and another type" : "", o);
            return false;
        }
    }
    return true;
}

bool weft_check_halos(const char *function, const weft_operation_description *d, const weft_rule *rule)
{
    char why[300];
    weft_status status = weft_halos_check(d, rule, why, sizeof(why));
    if (status != WEFT_OK) {
        weft_fail(status, function, "%s", why);
    }
    return status == WEFT_OK;
}

/* gradient_reads names existing inputs and outputs. */
static bool check_reads(const char *function, const weft_operation_description *d, const weft_rule *rule)
{
    unsigned all = ((1u << rule->num_inputs) - 1) | ((1u << rule->num_outputs) - 1) << 16;
    if (d->gradient_reads & ~all) {
        weft_fail(WEFT_ERR_INVALID, function,
                  "gradient_reads is 0x%x, but the rule has %d inputs and %d outputs", d->gradient_reads,
                  rule->num_inputs, rule->num_outputs);
        return false;
    }
    return true;
}

/* False with the error kept. */
static bool check_description(const char *function, const weft_operation_description *d, int *num_outputs)
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
    *num_outputs = rule.num_outputs;
    return check_inputs(function, d, rule.num_inputs) && check_outputs(function, d, &rule) &&
           weft_check_halos(function, d, &rule) && check_reads(function, d, &rule);
}

/* ---- registering --------------------------------------------------------------------------------------- */

/* Copies a text to *place, and advances it. */
static const char *copy_text(char **place, const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = memcpy(*place, text, size);
    *place += size;
    return copy;
}

/* The operation and its texts in one allocation; NULL: no memory. */
static weft_operation *copy_of(const weft_operation_description *d, int num_outputs)
{
    int num_halos = weft_count_halos(d);
    size_t fixed = sizeof(weft_operation) + (size_t)num_halos * sizeof(weft_operation_halo);
    size_t size = fixed + strlen(d->name) + 1 + strlen(d->rule) + 1;
    for (int i = 0; i < WEFT_MAX_INPUTS && d->inputs[i].name != NULL; i++) {
        size += strlen(d->inputs[i].name) + 1;
    }
    weft_operation *operation = calloc(1, size);
    if (operation == NULL) {
        return NULL;
    }
    weft_operation_halo *halos = (weft_operation_halo *)(operation + 1);
    char *place = (char *)operation + fixed;
    operation->name = copy_text(&place, d->name);
    operation->rules[0] = copy_text(&place, d->rule);
    for (int i = 0; i < WEFT_MAX_INPUTS && d->inputs[i].name != NULL; i++) {
        operation->inputs[i] = d->inputs[i];
        operation->inputs[i].name = copy_text(&place, d->inputs[i].name);
        operation->num_inputs++;
    }
    memcpy(operation->outputs, d->outputs, sizeof(operation->outputs));
    operation->num_outputs = num_outputs;
    operation->accumulates = d->accumulates;
    operation->draws = d->random;
    weft_halos_copy(d, halos);
    operation->num_halos = num_halos;
    operation->halos = halos;
    operation->halo = d->halo;
    operation->takes_strides = d->takes_strides;
    operation->window = num_halos > 0 ? weft_window_of_halo : NULL;
    operation->gradient.by_program = d->gradient;
    operation->gradient.missing = d->gradient == NULL ? "the program that registered it gave none" : NULL;
    for (int i = 0; i < WEFT_MAX_INPUTS; i++) {
        operation->gradient.reads[i] = (d->gradient_reads & ((1u << WEFT_MAX_INPUTS) - 1)) |
                                       d->gradient_reads >> 16 << WEFT_MAX_INPUTS;
    }
    return operation;
}

/* Functions count as given or not: their addresses differ between processes. Processes without devices may leave out `cuda`. */
uint64_t weft_description_fingerprint(const weft_operation_description *d)
{
    uint64_t hash = weft_hash_bytes(d->name, strlen(d->name), 1);
    hash = d->rule == NULL ? hash : weft_hash_bytes(d->rule, strlen(d->rule), hash);
    for (int o = 0; o < WEFT_MAX_OUTPUTS; o++) {
        const weft_operation_output *output = &d->outputs[o];
        const uint64_t numbers[] = { output->linear.kind,      output->linear.ops, output->linear.inputs,
                                     output->linear.contracts, output->type,       output->in_place };
        hash = weft_hash_bytes(numbers, sizeof(numbers), hash);
    }
    hash = weft_hash_u64(hash ^ (uint64_t)d->accumulates ^ (uint64_t)d->random << 1 ^ (uint64_t)d->takes_strides << 2);
    hash = weft_hash_u64(hash ^ (uint64_t)(d->kernel != NULL) ^ (uint64_t)(d->halo != NULL) << 1);
    hash = weft_hash_u64(hash ^ (d->gradient != NULL) ^ (uint64_t)d->gradient_reads << 1);
    for (int h = 0, count = weft_count_halos(d); h < count; h++) {
        const weft_halo *halo = &d->halos[h];
        const int64_t numbers[] = { halo->input, halo->letter, halo->before,
                                    halo->after, halo->times,  halo->over,   halo->periodic };
        hash = weft_hash_bytes(numbers, sizeof(numbers), hash);
    }
    for (int i = 0; i < WEFT_MAX_INPUTS && d->inputs[i].name != NULL; i++) {
        const uint64_t types[] = { d->inputs[i].types, d->inputs[i].type_of_first };
        hash = weft_hash_bytes(types, sizeof(types), hash);
    }
    return hash;
}

const weft_operation *weft_operation_register(const weft_operation_description *given)
{
    static const char function[] = "weft_operation_register";
    int num_outputs = 0;
    weft_operation_description own;
    const weft_operation_description *description = given == NULL ? NULL : &own;
    if (weft_require_init(function) != WEFT_OK) {
        return NULL;
    }
    bool taken = given == NULL || WEFT_TAKE_OPTIONS(function, &own, given);
    bool valid = taken && check_description(function, description, &num_outputs);
    if (!weft_check_spmd_named(function, valid ? description->name : NULL,
                               valid ? weft_description_fingerprint(description) : 0, valid)) {
        return NULL;
    }
    weft_operation *operation = copy_of(description, num_outputs);
    if (operation != NULL) {
        operation->kernel = weft_codelet_register(operation->name, description->kernel, description->cuda, description->random);
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
    weft_replacements_forget();
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

static bool takes_type(const weft_operation *operation)
{
    bool takes = false;
    for (int o = 0; o < operation->num_outputs; o++) {
        takes |= operation->outputs[o].type == WEFT_TYPE_GIVEN;
    }
    return takes;
}

/* Arguments of one call. */
typedef struct request {
    const char *function;
    const weft_operation *handle;
    int num_tensors, num_outputs;
    weft_tensor *const *tensors;
    const weft_apply_options *options;
} request;

/* False with the error kept. */
static bool check_request(const request *r, const weft_operation *operation)
{
    const weft_apply_options *options = r->options;
    if (operation == NULL) {
        weft_fail(WEFT_ERR_INVALID, r->function, "operation %p is not one of weft_operation_register()",
                  (const void *)r->handle);
        return false;
    }
    if (r->num_tensors != operation->num_inputs || r->tensors == NULL) {
        weft_fail(WEFT_ERR_INVALID, r->function, "%s: num_tensors is %d%s, expected %d", operation->name,
                  r->num_tensors, r->tensors == NULL ? " and tensors NULL" : "", operation->num_inputs);
        return false;
    }
    if (r->num_outputs != operation->num_outputs) {
        weft_fail(WEFT_ERR_INVALID, r->function, "%s: num_outputs is %d, expected %d", operation->name,
                  r->num_outputs, operation->num_outputs);
        return false;
    }
    return check_count(r->function, "num_numbers", options->num_numbers, WEFT_MAX_NUMBERS) &&
           check_count(r->function, "num_scalars", options->num_scalars,
                       operation->draws ? WEFT_MAX_RANDOM_SCALARS : WEFT_MAX_SCALARS) &&
           check_count(r->function, "num_sizes", options->num_sizes, WEFT_MAX_NUMBERS) &&
           check_count(r->function, "leading", options->leading, WEFT_MAX_DIMS) &&
           weft_check_context(r->function, options->context, options->context_size) &&
           (!takes_type(operation) || weft_check_dtype(r->function, options->type));
}

/* The call; false with the error kept, on all processes. */
static bool prepare_call(request r, weft_own_call *prepared)
{
    weft_call *call = &prepared->call;
    weft_apply_options own = { 0 };
    if (weft_require_init(r.function) != WEFT_OK) {
        return false;
    }
    const weft_operation *operation = weft_handle_get(&weft_runtime.handles.operations, r.handle);
    bool taken = r.options == NULL || WEFT_TAKE_OPTIONS(r.function, &own, r.options);
    const weft_apply_options *options = r.options = &own;
    if (!taken || !check_request(&r, operation)) {
        weft_check_spmd(&(weft_call_signature){ .function = r.function, .failed = true });
        return false;
    }
    *call = (weft_call){ .function = operation->name,
                         .operation = operation,
                         .num_inputs = r.num_tensors,
                         .attributes = { .leading = options->leading,
                                         .type = takes_type(operation) ? (int64_t)options->type : 0,
                                         .num_sizes = options->num_sizes,
                                         .num_numbers = options->num_numbers } };
    memcpy(call->inputs, r.tensors, (size_t)r.num_tensors * sizeof(r.tensors[0]));
    memcpy(call->attributes.sizes, options->sizes, (size_t)options->num_sizes * sizeof(options->sizes[0]));
    memcpy(call->attributes.numbers, options->numbers,
           (size_t)options->num_numbers * sizeof(options->numbers[0]));
    memcpy(call->scalars + (operation->draws ? WEFT_RANDOM_OWN : 0), options->scalars,
           (size_t)options->num_scalars * sizeof(options->scalars[0]));
    if (options->context != NULL) {
        prepared->details = (weft_call_details){ .context = options->context, .context_size = options->context_size };
        call->details = &prepared->details;
    }
    return true;
}

weft_tensor *weft_apply(const weft_operation *operation, int num_tensors, weft_tensor *const tensors[],
                        const weft_apply_options *options)
{
    weft_own_call call;
    return prepare_call((request){ "weft_apply", operation, num_tensors, 1, tensors, options }, &call)
               ? weft_dispatch(&call.call)
               : NULL;
}

weft_status weft_apply_all(const weft_operation *operation, int num_tensors, weft_tensor *const tensors[],
                           const weft_apply_options *options, int num_outputs, weft_tensor *outputs[])
{
    static const char function[] = "weft_apply_all";
    weft_own_call call;
    if (weft_require_init(function) != WEFT_OK) {
        return weft_latest_status();
    }
    for (int o = 0; o < num_outputs && outputs != NULL; o++) {
        outputs[o] = NULL;
    }
    if (outputs == NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "outputs is NULL");
        weft_check_spmd(&(weft_call_signature){ .function = function, .failed = true });
        return weft_latest_status();
    }
    return prepare_call((request){ function, operation, num_tensors, num_outputs, tensors, options },
                        &call) &&
                   weft_dispatch_all(&call.call, outputs)
               ? WEFT_OK
               : weft_latest_status();
}
