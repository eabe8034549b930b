/* Steps of gradient descent and Adam: one operation per parameter, which updates it and its state. */
#include "codelets/optimizers.h"

#include <math.h>
#include <string.h>

#include "ops/stepping.h"

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

static bool expand_sgd(const weft_call *call, weft_tensor *outputs[])
{
    return weft_expand_step(call, &operation_sgd, outputs);
}

static bool expand_sgd_momentum(const weft_call *call, weft_tensor *outputs[])
{
    return weft_expand_step(call, &operation_sgd_momentum, outputs);
}

static bool expand_adam(const weft_call *call, weft_tensor *outputs[])
{
    return weft_expand_step(call, &operation_adam, outputs);
}

/* The public operation: its tensors are lists, the changed ones first. */
#define ALL(name_)                                                                                             \
    static const weft_operation operation_##name_##_all = {                                                    \
        .name = #name_ "_all", .gradient = WEFT_GRADIENT_STEP, .expand = expand_##name_, .passes_scalars = true \
    };
ALL(sgd)
ALL(sgd_momentum)
ALL(adam)

/* ---- gradient descent ---------------------------------------------------------------------------------- */

weft_call weft_call_of_sgd(bool momentum, bool nesterov)
{
    if (!momentum) {
        return (weft_call){ .operation = &operation_sgd_all };
    }
    return (weft_call){ .operation = &operation_sgd_momentum_all, .attributes = { .num_numbers = 1, .numbers = { nesterov } } };
}

static weft_call call_of_sgd(const weft_sgd_options *o)
{
    weft_call call = weft_call_of_sgd(o->momentum != 0, o->nesterov);
    const double alone[WEFT_MAX_SCALARS] = { o->learning_rate, o->weight_decay };
    const double scalars[WEFT_MAX_SCALARS] = { [WEFT_SGD_KEPT] = o->first_step ? 0 : o->momentum,
                                               [WEFT_SGD_ADDED] = o->first_step ? 1 : 1 - o->dampening,
                                               [WEFT_SGD_DECAY] = o->weight_decay,
                                               [WEFT_SGD_RATE] = o->learning_rate,
                                               [WEFT_SGD_AHEAD] = o->momentum };
    memcpy(call.scalars, o->momentum == 0 ? alone : scalars, sizeof(scalars));
    return call;
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
    if (!weft_check_not_negative(function, "learning_rate", o->learning_rate) ||
        !weft_check_not_negative(function, "momentum", o->momentum) ||
        !weft_check_not_negative(function, "weight_decay", o->weight_decay) ||
        !weft_check_step_number(function, "dampening", o->dampening, isfinite(o->dampening), "a finite number")) {
        return false;
    }
    return !o->nesterov || weft_check_nesterov(function, o->momentum, o->dampening);
}

weft_status weft_sgd(int n, weft_tensor *const parameters[], weft_tensor *const gradients[],
                     const weft_sgd_options *options, weft_tensor *const momenta[])
{
    weft_stepping s = { .function = "weft_sgd", .n = n, .parameters = parameters, .gradients = gradients };
    weft_sgd_options own;
    if (!take_sgd(s.function, &own, options)) {
        return weft_refuse_step(s.function);
    }
    if (own.momentum != 0) {
        s.states[0] = momenta;
        s.state_names[0] = "momenta";
    }
    return weft_check_step(&s) ? weft_step_all(&s, call_of_sgd(&own), NULL, NULL) : weft_refuse_step(s.function);
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
    return WEFT_TAKE_OPTIONS(function, o, given) &&
           weft_check_not_negative(function, "learning_rate", o->learning_rate) &&
           weft_check_beta(function, "beta1", o->beta1) &&
           weft_check_beta(function, "beta2", o->beta2) &&
           weft_check_not_negative(function, "epsilon", o->epsilon) &&
           weft_check_not_negative(function, "weight_decay", o->weight_decay);
}

void weft_derive_adam(const double origins[], double scalars[])
{
    double correction1 = 1 - pow(origins[WEFT_ORIGIN_BETA1], origins[WEFT_ORIGIN_STEP]);
    double correction2 = 1 - pow(origins[WEFT_ORIGIN_BETA2], origins[WEFT_ORIGIN_STEP]);
    scalars[WEFT_ADAM_BETA1] = origins[WEFT_ORIGIN_BETA1];
    scalars[WEFT_ADAM_BETA2] = origins[WEFT_ORIGIN_BETA2];
    scalars[WEFT_ADAM_DECAY] = origins[WEFT_ORIGIN_DECAY];
    scalars[WEFT_ADAM_RATE] = origins[WEFT_ORIGIN_RATE] / correction1;
    scalars[WEFT_ADAM_EPSILON] = origins[WEFT_ORIGIN_EPSILON];
    scalars[WEFT_ADAM_SCALE] = 1 / sqrt(correction2);
    scalars[WEFT_ADAM_FACTOR] = 1;
}

void weft_derive_adamw(const double origins[], double scalars[])
{
    weft_derive_adam(origins, scalars);
    scalars[WEFT_ADAM_DECAY] = 0;
    scalars[WEFT_ADAM_FACTOR] = 1 - origins[WEFT_ORIGIN_RATE] * origins[WEFT_ORIGIN_DECAY];
}

weft_call weft_call_of_adam(void)
{
    return (weft_call){ .operation = &operation_adam_all };
}

static weft_status adam(weft_stepping s, int64_t step, const weft_adam_options *options, bool decoupled)
{
    static const weft_derivation coupled_numbers = { WEFT_NUM_ORIGINS, WEFT_ORIGIN_STEP, weft_derive_adam },
                                 decoupled_numbers = { WEFT_NUM_ORIGINS, WEFT_ORIGIN_STEP, weft_derive_adamw };
    s.state_names[0] = "first_moments";
    s.state_names[1] = "second_moments";
    weft_adam_options own;
    if (!take_adam(s.function, step, &own, options) || !weft_check_step(&s)) {
        return weft_refuse_step(s.function);
    }
    const double origins[WEFT_NUM_ORIGINS] = { [WEFT_ORIGIN_RATE] = own.learning_rate, [WEFT_ORIGIN_BETA1] = own.beta1,
                                          [WEFT_ORIGIN_BETA2] = own.beta2,        [WEFT_ORIGIN_EPSILON] = own.epsilon,
                                          [WEFT_ORIGIN_DECAY] = own.weight_decay, [WEFT_ORIGIN_STEP] = (double)step };
    const weft_derivation *derivation = decoupled ? &decoupled_numbers : &coupled_numbers;
    weft_call call = weft_call_of_adam();
    derivation->derive(origins, call.scalars);
    return weft_step_all(&s, call, derivation, origins);
}

weft_status weft_adam(int n, weft_tensor *const parameters[], weft_tensor *const gradients[],
                      weft_tensor *const first_moments[], weft_tensor *const second_moments[], int64_t step,
                      const weft_adam_options *options)
{
    weft_stepping s = { "weft_adam", n, parameters, gradients, { first_moments, second_moments }, { NULL }, false };
    return adam(s, step, options, false);
}

weft_status weft_adamw(int n, weft_tensor *const parameters[], weft_tensor *const gradients[],
                       weft_tensor *const first_moments[], weft_tensor *const second_moments[], int64_t step,
                       const weft_adam_options *options)
{
    weft_stepping s = { "weft_adamw", n, parameters, gradients, { first_moments, second_moments }, { NULL }, false };
    return adam(s, step, options, true);
}

const weft_operation *const weft_optimizer_operations[] = {
    &operation_sgd,
    &operation_sgd_momentum,
    &operation_adam,
    &operation_sgd_all,
    &operation_sgd_momentum_all,
    &operation_adam_all,
    NULL,
};
