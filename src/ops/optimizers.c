/* Steps of optimisers: one operation per parameter, which updates it and its state. */
#include "codelets/optimizers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "comm/check_spmd.h"
#include "ops/vector_norms.h"

static const weft_operation operation_sgd = {
    .name = "sgd",
    .gradient = WEFT_GRADIENT_STEP,
    .rules = { "A*,A->A" },
    .inputs = { { "parameter", WEFT_TYPES_FLOAT, false }, { "gradient", WEFT_TYPES_FLOAT, false } },
    .outputs[0].in_place = true,
    .kernel = WEFT_KERNEL_sgd_update,
};

static const weft_operation operation_sgd_momentum = {
    .name = "sgd_momentum",
    .gradient = WEFT_GRADIENT_STEP,
    .rules = { "A*,A,A->A,A" },
    .num_outputs = 2,
    .inputs = { { "parameter", WEFT_TYPES_FLOAT, false },
                { "momentum", WEFT_TYPES_FLOAT, false },
                { "gradient", WEFT_TYPES_FLOAT, false } },
    .outputs = { { .in_place = true }, { .in_place = true } },
    .kernel = WEFT_KERNEL_sgd_momentum,
};

static const weft_operation operation_adam = {
    .name = "adam",
    .gradient = WEFT_GRADIENT_STEP,
    .rules = { "A*,A,A,A->A,A,A" },
    .num_outputs = 3,
    .inputs = { { "parameter", WEFT_TYPES_FLOAT, false },
                { "first_moment", WEFT_TYPES_FLOAT, false },
                { "second_moment", WEFT_TYPES_FLOAT, false },
                { "gradient", WEFT_TYPES_FLOAT, false } },
    .outputs = { { .in_place = true }, { .in_place = true }, { .in_place = true } },
    .kernel = WEFT_KERNEL_adam,
};

/* ---- gradients that are absent -------------------------------------------------------------------------- */

/* A NULL gradient is of a parameter that the loss does not depend on, and is skipped; unless it is the result of a call
 * that failed. False with the error kept. */
static bool check_absent(const char *function, int i)
{
    if (weft_last_status() != WEFT_OK) {
        weft_fail(WEFT_ERR_INVALID, function, "gradients[%d] is NULL, after an error that has not been cleared", i);
        return false;
    }
    return true;
}

/* Lists the others; returns their number. `present`: NULL to count alone. */
static int list_present(int n, weft_tensor *const gradients[], weft_tensor *present[])
{
    int count = 0;
    for (int i = 0; i < n; i++) {
        if (gradients[i] != NULL && present != NULL) {
            present[count] = gradients[i];
        }
        count += gradients[i] != NULL;
    }
    return count;
}

/* ---- one step ------------------------------------------------------------------------------------------ */

enum { MAX_STATES = 2 };

/* Arguments of a step; states[k]: NULL if absent. */
typedef struct stepping {
    const char *function;
    int n;
    weft_tensor *const *parameters;
    weft_tensor *const *gradients;
    weft_tensor *const *states[MAX_STATES];
    const char *state_names[MAX_STATES];
} stepping;

/* Takes part in the SPMD check with wrong arguments. */
static weft_status refuse(const char *function)
{
    weft_status status = weft_latest_status();
    weft_check_spmd(&(weft_call_signature){ .function = function, .failed = true });
    return status;
}

/* ---- checks -------------------------------------------------------------------------------------------- */

/* The layout of the i-th tensor of a list, of a floating type; NULL with the error kept. */
static const weft_layout *check_item(const char *function, const char *list, weft_tensor *const tensors[],
                                     int i)
{
    const weft_tensor_impl *tensor = weft_check_entry(function, list, i, tensors[i]);
    if (tensor != NULL && !weft_dtype_is_floating(tensor->layout->dtype)) {
        weft_fail(WEFT_ERR_DTYPE, function, "%s[%d] is %s, expected a floating type", list, i,
                  weft_dtype_name(tensor->layout->dtype));
        return NULL;
    }
    return tensor == NULL ? NULL : tensor->layout;
}

static bool check_list(const char *function, const char *name, int n, weft_tensor *const tensors[])
{
    if (n < 0 || (n > 0 && tensors == NULL)) {
        weft_fail(WEFT_ERR_INVALID, function, n < 0 ? "n is negative" : "%s is NULL", name);
        return false;
    }
    return true;
}

/* Checks a tensor that belongs to a parameter: same shape and mesh, and same placements if required. */
static bool check_belongs(const stepping *s, const char *list, weft_tensor *const tensors[], int i,
                          bool placed)
{
    const weft_layout *own = check_item(s->function, list, tensors, i);
    if (own == NULL) {
        return false;
    }
    const weft_layout *parameter = weft_layout_of(s->parameters[i]);
    bool same_shape = own->ndim == parameter->ndim &&
                      memcmp(own->shape, parameter->shape, (size_t)own->ndim * sizeof(own->shape[0])) == 0;
    weft_status status = !same_shape                                  ? WEFT_ERR_SHAPE
                         : own->mesh != parameter->mesh               ? WEFT_ERR_MESH
                         : placed && !weft_placements_equal(own->placements, parameter->placements, own->mesh->ndim) ? WEFT_ERR_LAYOUT
                                                                      : WEFT_OK;
    if (status != WEFT_OK) {
        char text[160], expected[160];
        weft_layout_format(parameter, expected, sizeof(expected));
        weft_fail(status, s->function, "%s[%d] is %s, expected the %s of parameters[%d], %s", list, i,
                  weft_layout_format(own, text, sizeof(text)),
                  status == WEFT_ERR_SHAPE  ? "shape"
                  : status == WEFT_ERR_MESH ? "mesh"
                                            : "placements",
                  i, expected);
    }
    return status == WEFT_OK;
}

static bool check_parameter(const stepping *s, int i)
{
    const weft_layout *parameter = check_item(s->function, "parameters", s->parameters, i);
    if (parameter != NULL && parameter->has_partial) {
        char text[160];
        weft_fail(WEFT_ERR_LAYOUT, s->function, "parameters[%d] is %s, expected no Partial", i,
                  weft_layout_format(parameter, text, sizeof(text)));
        return false;
    }
    return parameter != NULL;
}

/* Among the lists of n tensors the first `changed` are modified: none of their tensors may occur twice.
 * False with the error kept. */
static bool check_distinct(const char *function, int n, int changed, int num_lists,
                           weft_tensor *const *const lists[], const char *const names[])
{
    weft_map seen = { 0 };
    bool distinct = true;
    for (int k = 0; k < num_lists; k++) {
        for (int i = 0; i < n && lists[k] != NULL && distinct; i++) {
            if (lists[k][i] == NULL) {
                continue;
            }
            if (weft_map_has_pointer(&seen, lists[k][i])) {
                weft_fail(WEFT_ERR_INVALID, function, "%s[%d] is in the lists before, and is changed there",
                          names[k], i);
                distinct = false;
            } else if (k < changed && !weft_map_add_pointer(&seen, lists[k][i])) {
                weft_fail(WEFT_ERR_NOMEM, function, "no memory for %d tensors", n);
                distinct = false;
            }
        }
    }
    weft_map_free(&seen);
    return distinct;
}

static bool check_step(const stepping *s)
{
    if (weft_require_init(s->function) != WEFT_OK ||
        !check_list(s->function, "parameters", s->n, s->parameters) ||
        !check_list(s->function, "gradients", s->n, s->gradients)) {
        return false;
    }
    for (int k = 0; k < MAX_STATES; k++) {
        if (s->state_names[k] != NULL && !check_list(s->function, s->state_names[k], s->n, s->states[k])) {
            return false;
        }
    }
    for (int i = 0; i < s->n; i++) {
        bool valid = check_parameter(s, i) && (s->gradients[i] == NULL ? check_absent(s->function, i)
                                                                       : check_belongs(s, "gradients", s->gradients, i, false));
        for (int k = 0; k < MAX_STATES && valid; k++) {
            valid = s->state_names[k] == NULL || check_belongs(s, s->state_names[k], s->states[k], i, true);
        }
        if (!valid) {
            return false;
        }
    }
    weft_tensor *const *const lists[] = { s->parameters, s->states[0], s->states[1], s->gradients };
    const char *const names[] = { "parameters", s->state_names[0], s->state_names[1], "gradients" };
    return check_distinct(s->function, s->n, 3, 4, lists, names);
}

/* Keeps an error if a number is out of range; `valid` describes the range. False with the error kept. */
static bool check_number(const char *function, const char *name, double value, bool valid,
                         const char *expected)
{
    if (!valid) {
        weft_fail(WEFT_ERR_INVALID, function, "%s is %g, expected %s", name, value, expected);
    }
    return valid;
}

static bool check_not_negative(const char *function, const char *name, double value)
{
    return check_number(function, name, value, value >= 0 && isfinite(value), "a finite number, at least 0");
}

/* ---- all parameters ------------------------------------------------------------------------------------ */

/* The gradient in its parameter's layout: itself, or a new tensor of the innermost scope. */
static weft_tensor *placed_gradient(weft_tensor *gradient, const weft_layout *parameter)
{
    return weft_placements_equal(weft_layout_of(gradient)->placements, parameter->placements, parameter->mesh->ndim)
               ? gradient
               : weft_redistribute(gradient, parameter->mesh->handle, parameter->placements);
}

/* Steps of all parameters, from lists of equal length: the tensors that `one` changes in its order, and
 * the gradients. */
static bool expand_step(const weft_call *call, const weft_operation *one, weft_tensor *outputs[])
{
    int num_lists = one->num_outputs > 1 ? one->num_outputs + 1 : 2;
    int n = weft_call_num_tensors(call) / num_lists;
    for (int i = 0; i < n; i++) {
        weft_call step = { .function = call->function,
                           .operation = one,
                           .num_inputs = num_lists,
                           .attributes = call->attributes,
                           .inherited = WEFT_ALL_SCALARS };
        memcpy(step.scalars, call->scalars, sizeof(step.scalars));
        for (int k = 0; k < num_lists; k++) {
            step.inputs[k] = weft_call_tensor(call, k * n + i);
        }
        weft_tensor *changed[WEFT_MAX_OUTPUTS], **gradient = &step.inputs[num_lists - 1];
        *gradient = placed_gradient(*gradient, weft_layout_of(step.inputs[0]));
        if (*gradient == NULL || !weft_dispatch_all(&step, changed)) {
            return false;
        }
        for (int k = 0; k < num_lists - 1; k++) {
            outputs[k * n + i] = changed[k];
        }
    }
    return true;
}

static bool expand_sgd(const weft_call *call, weft_tensor *outputs[])
{
    return expand_step(call, &operation_sgd, outputs);
}

static bool expand_sgd_momentum(const weft_call *call, weft_tensor *outputs[])
{
    return expand_step(call, &operation_sgd_momentum, outputs);
}

static bool expand_adam(const weft_call *call, weft_tensor *outputs[])
{
    return expand_step(call, &operation_adam, outputs);
}

/* The public operation: its tensors are lists, the changed ones first. */
#define ALL(name_)                                                                                             \
    static const weft_operation operation_##name_##_all = {                                                    \
        .name = #name_ "_all", .gradient = WEFT_GRADIENT_STEP, .expand = expand_##name_, .passes_scalars = true \
    };
ALL(sgd)
ALL(sgd_momentum)
ALL(adam)

/* Concatenates the lists of the call, without parameters that have no gradient. Returns the number of tensors. */
static int write_lists(const stepping *s, weft_tensor *tensors[])
{
    weft_tensor *const *const lists[] = { s->parameters, s->states[0], s->states[1], s->gradients };
    int count = 0;
    for (size_t k = 0; k < WEFT_ARRAY_SIZE(lists); k++) {
        for (int i = 0; i < s->n && lists[k] != NULL; i++) {
            if (s->gradients[i] != NULL) {
                tensors[count++] = lists[k][i];
            }
        }
    }
    return count;
}

/* `call`: complete but for its tensors. `derivation`: of its scalars, or NULL. */
static weft_status step_all(const stepping *s, weft_call call, const weft_derivation *derivation, const double origins[])
{
    enum { FEW = 64 };
    size_t most = (2 + MAX_STATES) * (size_t)s->n + 1;
    weft_tensor *few[2 * FEW], **tensors = most <= FEW ? few : malloc(2 * most * sizeof(weft_tensor *));
    if (tensors == NULL) {
        return weft_fail(WEFT_ERR_NOMEM, s->function, "no memory for %d tensors", s->n);
    }
    int present = list_present(s->n, s->gradients, NULL), count = write_lists(s, tensors), changed = count - present;
    const weft_call_details details = {
        .num_outputs = changed, .num_changed = changed, .num_tensors = count, .tensors = tensors,
        .derivation = derivation, .origins = origins
    };
    call.function = s->function;
    call.details = &details;
    bool done = weft_dispatch_all(&call, tensors + most);
    weft_runtime.counters.gradients_skipped += done ? (uint64_t)(s->n - present) : 0;
    if (tensors != few) {
        free(tensors);
    }
    return done ? WEFT_OK : weft_latest_status();
}

/* ---- gradient descent ---------------------------------------------------------------------------------- */

static weft_call call_of_sgd(const weft_sgd_options *o)
{
    if (o->momentum == 0) {
        return (weft_call){ .operation = &operation_sgd_all, .scalars = { o->learning_rate, o->weight_decay } };
    }
    return (weft_call){ .operation = &operation_sgd_momentum_all,
                        .attributes = { .num_numbers = 1, .numbers = { o->nesterov } },
                        .scalars = { [WEFT_SGD_KEPT] = o->first_step ? 0 : o->momentum,
                                     [WEFT_SGD_ADDED] = o->first_step ? 1 : 1 - o->dampening,
                                     [WEFT_SGD_DECAY] = o->weight_decay,
                                     [WEFT_SGD_RATE] = o->learning_rate,
                                     [WEFT_SGD_AHEAD] = o->momentum } };
}

/* Copies the options. */
static bool take_sgd(const char *function, weft_sgd_options *o, const weft_sgd_options *given)
{
    if (weft_require_init(function) != WEFT_OK) {
        return false;
    }
    if (given == NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "options is NULL");
        return false;
    }
    if (!WEFT_TAKE_OPTIONS(function, o, given)) {
        return false;
    }
    if (!check_not_negative(function, "learning_rate", o->learning_rate) ||
        !check_not_negative(function, "momentum", o->momentum) ||
        !check_not_negative(function, "weight_decay", o->weight_decay) ||
        !check_number(function, "dampening", o->dampening, isfinite(o->dampening), "a finite number")) {
        return false;
    }
    if (o->nesterov && (o->momentum == 0 || o->dampening != 0)) {
        weft_fail(WEFT_ERR_INVALID, function,
                  "nesterov with momentum %g and dampening %g, expected a momentum and no dampening",
                  o->momentum, o->dampening);
        return false;
    }
    return true;
}

weft_status weft_sgd(int n, weft_tensor *const parameters[], weft_tensor *const gradients[],
                     const weft_sgd_options *options, weft_tensor *const momenta[])
{
    stepping s = { .function = "weft_sgd", .n = n, .parameters = parameters, .gradients = gradients };
    weft_sgd_options own;
    if (!take_sgd(s.function, &own, options)) {
        return refuse(s.function);
    }
    if (own.momentum != 0) {
        s.states[0] = momenta;
        s.state_names[0] = "momenta";
    }
    return check_step(&s) ? step_all(&s, call_of_sgd(&own), NULL, NULL) : refuse(s.function);
}

/* ---- Adam ---------------------------------------------------------------------------------------------- */

/* Copies the options. */
static bool take_adam(const char *function, int64_t step, weft_adam_options *o, const weft_adam_options *given)
{
    if (weft_require_init(function) != WEFT_OK) {
        return false;
    }
    if (given == NULL || step < 1) {
        if (given == NULL) {
            weft_fail(WEFT_ERR_INVALID, function, "options is NULL");
        } else {
            weft_fail(WEFT_ERR_INVALID, function, "step is %lld, expected at least 1", (long long)step);
        }
        return false;
    }
    static const char beta[] = "at least 0 and less than 1";
    return WEFT_TAKE_OPTIONS(function, o, given) &&
           check_not_negative(function, "learning_rate", o->learning_rate) &&
           check_number(function, "beta1", o->beta1, o->beta1 >= 0 && o->beta1 < 1, beta) &&
           check_number(function, "beta2", o->beta2, o->beta2 >= 0 && o->beta2 < 1, beta) &&
           check_not_negative(function, "epsilon", o->epsilon) &&
           check_not_negative(function, "weight_decay", o->weight_decay);
}

enum { ORIGIN_RATE, ORIGIN_BETA1, ORIGIN_BETA2, ORIGIN_EPSILON, ORIGIN_DECAY, ORIGIN_STEP, NUM_ORIGINS };

static void derive_adam(const double origins[], double scalars[])
{
    double correction1 = 1 - pow(origins[ORIGIN_BETA1], origins[ORIGIN_STEP]);
    double correction2 = 1 - pow(origins[ORIGIN_BETA2], origins[ORIGIN_STEP]);
    scalars[WEFT_ADAM_BETA1] = origins[ORIGIN_BETA1];
    scalars[WEFT_ADAM_BETA2] = origins[ORIGIN_BETA2];
    scalars[WEFT_ADAM_DECAY] = origins[ORIGIN_DECAY];
    scalars[WEFT_ADAM_RATE] = origins[ORIGIN_RATE] / correction1;
    scalars[WEFT_ADAM_EPSILON] = origins[ORIGIN_EPSILON];
    scalars[WEFT_ADAM_SCALE] = 1 / sqrt(correction2);
    scalars[WEFT_ADAM_FACTOR] = 1;
}

static void derive_adamw(const double origins[], double scalars[])
{
    derive_adam(origins, scalars);
    scalars[WEFT_ADAM_DECAY] = 0;
    scalars[WEFT_ADAM_FACTOR] = 1 - origins[ORIGIN_RATE] * origins[ORIGIN_DECAY];
}

static weft_status adam(stepping s, int64_t step, const weft_adam_options *options, bool decoupled)
{
    static const weft_derivation coupled_numbers = { NUM_ORIGINS, ORIGIN_STEP, derive_adam },
                                 decoupled_numbers = { NUM_ORIGINS, ORIGIN_STEP, derive_adamw };
    s.state_names[0] = "first_moments";
    s.state_names[1] = "second_moments";
    weft_adam_options own;
    if (!take_adam(s.function, step, &own, options) || !check_step(&s)) {
        return refuse(s.function);
    }
    const double origins[NUM_ORIGINS] = { [ORIGIN_RATE] = own.learning_rate, [ORIGIN_BETA1] = own.beta1,
                                          [ORIGIN_BETA2] = own.beta2,        [ORIGIN_EPSILON] = own.epsilon,
                                          [ORIGIN_DECAY] = own.weight_decay, [ORIGIN_STEP] = (double)step };
    const weft_derivation *derivation = decoupled ? &decoupled_numbers : &coupled_numbers;
    weft_call call = { .operation = &operation_adam_all };
    derivation->derive(origins, call.scalars);
    return step_all(&s, call, derivation, origins);
}

weft_status weft_adam(int n, weft_tensor *const parameters[], weft_tensor *const gradients[],
                      weft_tensor *const first_moments[], weft_tensor *const second_moments[], int64_t step,
                      const weft_adam_options *options)
{
    stepping s = { "weft_adam", n, parameters, gradients, { first_moments, second_moments }, { NULL } };
    return adam(s, step, options, false);
}

weft_status weft_adamw(int n, weft_tensor *const parameters[], weft_tensor *const gradients[],
                       weft_tensor *const first_moments[], weft_tensor *const second_moments[], int64_t step,
                       const weft_adam_options *options)
{
    stepping s = { "weft_adamw", n, parameters, gradients, { first_moments, second_moments }, { NULL } };
    return adam(s, step, options, true);
}

/* ---- clipping ------------------------------------------------------------------------------------------ */

/* Sums and averages can be scaled addend by addend. */
static bool check_scalable(const char *function, weft_tensor *const gradients[], int i)
{
    const weft_layout *gradient = check_item(function, "gradients", gradients, i);
    for (int d = 0; gradient != NULL && d < gradient->mesh->ndim; d++) {
        weft_placement placement = gradient->placements[d];
        if (placement.kind == WEFT_PARTIAL && !(WEFT_LINEAR_OPS & (1u << placement.op))) {
            char text[160];
            weft_fail(WEFT_ERR_LAYOUT, function,
                      "gradients[%d] is %s, expected no Partial but of sums and averages", i,
                      weft_layout_format(gradient, text, sizeof(text)));
            return false;
        }
    }
    return gradient != NULL;
}

static bool check_clip(const char *function, int n, weft_tensor *const gradients[], double max_norm, double p)
{
    if (weft_require_init(function) != WEFT_OK || !check_list(function, "gradients", n, gradients) ||
        !check_number(function, "max_norm", max_norm, max_norm >= 0, "at least 0") ||
        !check_number(function, "p", p, p > 0, "more than 0")) {
        return false;
    }
    for (int i = 0; i < n; i++) {
        if (gradients[i] == NULL ? !check_absent(function, i) : !check_scalable(function, gradients, i)) {
            return false;
        }
    }
    return check_distinct(function, n, 1, 1, &gradients, (const char *const[]){ "gradients" });
}

/* scalars: the largest norm, and p. Outputs: the gradients, and their norm where it is asked for. */
enum { CLIP_MAX_NORM, CLIP_P };

static bool expand_clip(const weft_call *call, weft_tensor *outputs[])
{
    int n = call->details->num_tensors;
    weft_tensor *const *gradients = call->details->tensors;
    weft_dtype type = weft_type_of_norm(n, gradients, call->scalars[CLIP_P]);
    weft_tensor *norm = weft_norm_of_all(call->function, n, gradients, call->scalars[CLIP_P]);
    /* 1 / 1e-6 is infinite in f16, and times a max_norm of 0 no number. */
    weft_tensor *wide = norm == NULL ? NULL : weft_to_type(norm, weft_wide_type(type));
    weft_tensor *scale = wide == NULL ? NULL
                                      : weft_scale(weft_reciprocal(weft_add_scalar(wide, 1e-6)),
                                                   call->scalars[CLIP_MAX_NORM]);
    scale = scale == NULL ? NULL : weft_clamp(scale, -INFINITY, 1);
    bool done = scale != NULL;
    for (int i = 0; i < n && done; i++) {
        outputs[i] = weft_mul_inplace(gradients[i], scale);
        done = outputs[i] != NULL;
    }
    outputs[n] = done ? weft_to_type(norm, type) : NULL;
    return done && outputs[n] != NULL;
}

static const weft_operation operation_clip = {
    .name = "clip_grad_norm",
    .gradient = WEFT_GRADIENT_MISSING("clips gradients"),
    .expand = expand_clip,
};

weft_status weft_clip_grad_norm(int n, weft_tensor *const gradients[], double max_norm, double p,
                                weft_tensor **total_norm)
{
    static const char function[] = "weft_clip_grad_norm";
    if (total_norm != NULL) {
        *total_norm = NULL;
    }
    if (!check_clip(function, n, gradients, max_norm, p)) {
        return refuse(function);
    }
    weft_tensor **outputs = calloc(2 * (size_t)n + 1, sizeof(weft_tensor *));
    if (outputs == NULL) {
        return weft_fail(WEFT_ERR_NOMEM, function, "no memory for %d tensors", n);
    }
    weft_tensor **tensors = outputs + n + 1;
    int present = list_present(n, gradients, tensors);
    const weft_call_details details = {
        .num_outputs = present + 1, .num_changed = present, .num_tensors = present, .tensors = tensors
    };
    const weft_call call = { .function = function,
                             .operation = &operation_clip,
                             .attributes = { .omitted = total_norm == NULL, .num_numbers = 1, .numbers = { weft_way_of_norm(p) } },
                             .scalars = { [CLIP_MAX_NORM] = max_norm, [CLIP_P] = p },
                             .details = &details };
    bool done = present == 0 || weft_dispatch_all(&call, outputs);
    if (done && total_norm != NULL) {
        *total_norm = outputs[present];
    }
    weft_runtime.counters.gradients_skipped += done ? (uint64_t)(n - present) : 0;
    free(outputs);
    return done ? WEFT_OK : weft_latest_status();
}

const weft_operation *const weft_optimizer_operations[] = {
    &operation_sgd,
    &operation_sgd_momentum,
    &operation_adam,
    &operation_sgd_all,
    &operation_sgd_momentum_all,
    &operation_adam_all,
    &operation_clip,
    NULL,
};
