/* weft_optimizer_step(): which kernel a kind of optimiser has, and how its scalars follow from the program's numbers. */
#include "codelets/optimizers.h"

#include <math.h>

#include "ops/stepping.h"

/* ---- operations: rows of codelets/optimizers.inc --------------------------------------------------------- */

#define CHANGED_1 { { .in_place = true }, { .in_place = true } }
#define CHANGED_2 { { .in_place = true }, { .in_place = true }, { .in_place = true } }
#define CHANGED_3 { { .in_place = true }, { .in_place = true }, { .in_place = true }, { .in_place = true } }
#define STEP(states, rule, ...)                                                                     \
    static const weft_operation operation_optimizer_##states = {                                             \
        .name = "optimizer_" #states,                                                                        \
        .gradient = WEFT_GRADIENT_STEP,                                                                      \
        .rules = { rule },                                                                                   \
        .num_outputs = (states) + 1,                                                                         \
        .inputs = { { "parameter", WEFT_TYPES_FLOAT, false }, __VA_ARGS__, { "gradient", WEFT_TYPES_FLOAT, false } }, \
        .outputs = CHANGED_##states,                                                                         \
        .kernel = WEFT_KERNEL_optimizer,                                                                     \
    };
#define STATE { "state", WEFT_TYPES_FLOAT, false }
STEP(1, "A*,A,A->A,A", STATE)
STEP(2, "A*,A,A,A->A,A,A", STATE, STATE)
STEP(3, "A*,A,A,A,A->A,A,A,A", STATE, STATE, STATE)

static const int states_of_row[] = {
#define WEFT_OPTIMIZER(name, states, ...) states,
#include "codelets/optimizers.inc"
#undef WEFT_OPTIMIZER
};

static bool expand_row(const weft_call *call, weft_tensor *outputs[])
{
    const int states = states_of_row[call->attributes.numbers[0]];
    const weft_operation *one = states == 1 ? &operation_optimizer_1 : states == 2 ? &operation_optimizer_2 : &operation_optimizer_3;
    return weft_expand_step(call, one, outputs);
}

static const weft_operation operation_optimizer_all = {
    .name = "optimizer_all", .gradient = WEFT_GRADIENT_STEP, .expand = expand_row, .passes_scalars = true
};

/* ---- scalars ------------------------------------------------------------------------------------------- */

static void derive_sgd(const double o[], double s[])
{
    s[0] = o[WEFT_ORIGIN_RATE];
    s[1] = o[WEFT_ORIGIN_DECAY];
}

static void derive_sgd_momentum(const double o[], double s[])
{
    const bool first = o[WEFT_ORIGIN_STEP] == 1;
    s[WEFT_SGD_KEPT] = first ? 0 : o[WEFT_ORIGIN_MOMENTUM];
    s[WEFT_SGD_ADDED] = first ? 1 : 1 - o[WEFT_ORIGIN_SLOWING];
    s[WEFT_SGD_DECAY] = o[WEFT_ORIGIN_DECAY];
    s[WEFT_SGD_RATE] = o[WEFT_ORIGIN_RATE];
    s[WEFT_SGD_AHEAD] = o[WEFT_ORIGIN_MOMENTUM];
}

static void derive_row(const double o[], double s[])
{
    s[WEFT_ROW_RATE] = o[WEFT_ORIGIN_RATE];
    s[WEFT_ROW_EPSILON] = o[WEFT_ORIGIN_EPSILON];
    s[WEFT_ROW_A] = 1 - o[WEFT_ORIGIN_BETA1];
    s[WEFT_ROW_B] = o[WEFT_ORIGIN_BETA2];
    s[WEFT_ROW_C] = 1 - o[WEFT_ORIGIN_BETA2];
    s[WEFT_ROW_D] = o[WEFT_ORIGIN_MOMENTUM];
    s[WEFT_ROW_DECAY] = o[WEFT_ORIGIN_DECAY];
    s[WEFT_ROW_FACTOR] = 1 - o[WEFT_ORIGIN_RATE] * o[WEFT_ORIGIN_DECAY];
}

static void derive_adagrad(const double o[], double s[])
{
    derive_row(o, s);
    s[WEFT_ROW_RATE] /= 1 + (o[WEFT_ORIGIN_STEP] - 1) * o[WEFT_ORIGIN_SLOWING];
}

static double correction(const double o[], int beta)
{
    return 1 - pow(o[beta], o[WEFT_ORIGIN_STEP]);
}

/* With rate / (k sqrt(y) + epsilon) = (rate / k) / (sqrt(y) + epsilon / k), the correction k = 1 / root needs no scalar. */
static double derive_root(const double o[], double s[])
{
    const double root = sqrt(correction(o, WEFT_ORIGIN_BETA2));
    derive_row(o, s);
    s[WEFT_ROW_EPSILON] *= root;
    return root;
}

static void derive_amsgrad(const double o[], double s[])
{
    s[WEFT_ROW_RATE] *= derive_root(o, s) / correction(o, WEFT_ORIGIN_BETA1);
}

static void derive_adamax(const double o[], double s[])
{
    derive_row(o, s);
    s[WEFT_ROW_RATE] /= correction(o, WEFT_ORIGIN_BETA1);
}

/* Momentum of a step, and the product of those up to it, which is 0 soon. */
static double nadam_momentum(const double o[], double step)
{
    return o[WEFT_ORIGIN_BETA1] * (1 - 0.5 * pow(0.96, step * o[WEFT_ORIGIN_SLOWING]));
}

static double nadam_product(const double o[], double steps)
{
    double product = 1;
    for (double step = 1; step <= steps && product > 1e-20; step++) {
        product *= nadam_momentum(o, step);
    }
    return product;
}

static void derive_nadam(const double o[], double s[])
{
    const double root = derive_root(o, s), step = o[WEFT_ORIGIN_STEP], rate = o[WEFT_ORIGIN_RATE] * root;
    const double now = nadam_momentum(o, step), next = nadam_momentum(o, step + 1), product = nadam_product(o, step);
    s[WEFT_ROW_RATE] = rate * (1 - now) / (1 - product);
    s[WEFT_ROW_D] = rate * next / (1 - product * next);
}

static void derive_radam(const double o[], double s[])
{
    const double step = o[WEFT_ORIGIN_STEP], beta2 = o[WEFT_ORIGIN_BETA2];
    const double most = 2 / (1 - beta2) - 1;
    const double length = most - 2 * step * pow(beta2, step) / correction(o, WEFT_ORIGIN_BETA2);
    derive_row(o, s);
    const double rate = o[WEFT_ORIGIN_RATE] / correction(o, WEFT_ORIGIN_BETA1);
    s[WEFT_ROW_D] = length > 5 ? 0 : rate;
    s[WEFT_ROW_RATE] = length <= 5 ? 0
                                   : rate * sqrt(correction(o, WEFT_ORIGIN_BETA2)) *
                                         sqrt((length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length));
}

/* ---- kinds --------------------------------------------------------------------------------------------- */

#define BY(derive) { WEFT_NUM_ORIGINS, WEFT_ORIGIN_STEP, derive }

/* In the order of weft_optimizer. row: without options; numbers: of a row. */
static const struct kind {
    int row;
    bool apart; /* weight decay is always decoupled */
    weft_derivation numbers;
    double rate, beta1, beta2, epsilon, momentum_decay, weight_decay; /* defaults */
} kinds[] = {
    { -1, false, BY(derive_sgd), 1e-3, 0, 0, 0, 0, 0 },
    { WEFT_ROW_amsgrad, false, BY(derive_amsgrad), 1e-3, 0.9, 0.999, 1e-8, 0, 0 },
    { WEFT_ROW_amsgrad, true, BY(derive_amsgrad), 1e-3, 0.9, 0.999, 1e-8, 0, 1e-2 },
    { WEFT_ROW_rmsprop, false, BY(derive_row), 1e-2, 0, 0.99, 1e-8, 0, 0 },
    { WEFT_ROW_adagrad, false, BY(derive_adagrad), 1e-2, 0, 0, 1e-10, 0, 0 },
    { WEFT_ROW_adadelta, false, BY(derive_row), 1, 0, 0.9, 1e-6, 0, 0 },
    { WEFT_ROW_adamax, false, BY(derive_adamax), 2e-3, 0.9, 0.999, 1e-8, 0, 0 },
    { WEFT_ROW_nadam, false, BY(derive_nadam), 2e-3, 0.9, 0.999, 1e-8, 4e-3, 0 },
    { WEFT_ROW_radam, false, BY(derive_radam), 1e-3, 0.9, 0.999, 1e-8, 0, 0 },
    { WEFT_ROW_lion, true, BY(derive_row), 1e-4, 0.9, 0.99, 0, 0, 0 },
};

static bool check_kind(const char *function, int64_t kind)
{
    const int64_t count = (int64_t)WEFT_ARRAY_SIZE(kinds);
    if (kind < 0 || kind >= count) {
        weft_fail(WEFT_ERR_INVALID, function, "kind is %lld, expected 0 to %lld", (long long)kind, (long long)count - 1);
    }
    return kind >= 0 && kind < count;
}

weft_status weft_optimizer_options_init(weft_optimizer_options *options, weft_optimizer kind)
{
    static const char function[] = "weft_optimizer_options_init";
    if (options == NULL) {
        return weft_fail(WEFT_ERR_INVALID, function, "options is NULL");
    }
    if (!check_kind(function, (int64_t)kind)) {
        return WEFT_ERR_INVALID;
    }
    const struct kind *own = &kinds[kind];
    *options = (weft_optimizer_options){ .size = sizeof(*options),
                                         .kind = kind,
                                         .decoupled = own->apart,
                                         .learning_rate = own->rate,
                                         .weight_decay = own->weight_decay,
                                         .beta1 = own->beta1,
                                         .beta2 = own->beta2,
                                         .epsilon = own->epsilon,
                                         .momentum_decay = own->momentum_decay };
    return WEFT_OK;
}

/* The row of optimizers.inc; -1: gradient descent or Adam, with kernels of their own. */
static int row_of(const weft_optimizer_options *o)
{
    const bool adam = o->kind == WEFT_OPTIMIZER_ADAM || o->kind == WEFT_OPTIMIZER_ADAMW;
    if (o->kind == WEFT_OPTIMIZER_RMSPROP) {
        return o->momentum == 0 ? (o->centered ? WEFT_ROW_rmsprop_centered : WEFT_ROW_rmsprop)
                                : (o->centered ? WEFT_ROW_rmsprop_centered_momentum : WEFT_ROW_rmsprop_momentum);
    }
    return adam && !o->amsgrad ? -1 : kinds[o->kind].row;
}

static int count_states(const weft_optimizer_options *o)
{
    const int row = row_of(o);
    return (row >= 0 ? states_of_row[row] : o->kind == WEFT_OPTIMIZER_SGD ? o->momentum != 0 : 2) + o->master_weights;
}

/* Fields of version 0.2, before those that were added later. */
enum { FIRST_FIELDS = offsetof(weft_optimizer_options, master_weights) };

static bool take_options(const char *function, weft_optimizer_options *o, const weft_optimizer_options *given)
{
    if (given == NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "options is NULL");
        return false;
    }
    return weft_check_options(function, o, sizeof(*o), given, given->size, FIRST_FIELDS) && check_kind(function, (int64_t)o->kind) &&
           weft_check_not_negative(function, "learning_rate", o->learning_rate) &&
           weft_check_not_negative(function, "weight_decay", o->weight_decay) &&
           weft_check_beta(function, "beta1", o->beta1) && weft_check_beta(function, "beta2", o->beta2) &&
           weft_check_not_negative(function, "epsilon", o->epsilon) &&
           weft_check_not_negative(function, "momentum", o->momentum) &&
           weft_check_step_number(function, "dampening", o->dampening, isfinite(o->dampening), "a finite number") &&
           weft_check_not_negative(function, "learning_rate_decay", o->learning_rate_decay) &&
           weft_check_not_negative(function, "momentum_decay", o->momentum_decay) &&
           (!o->nesterov || o->kind != WEFT_OPTIMIZER_SGD || weft_check_nesterov(function, o->momentum, o->dampening)) &&
           weft_check_step_number(function, "decoupled", o->decoupled, !o->decoupled || o->kind != WEFT_OPTIMIZER_SGD,
                                  "0 of gradient descent");
}

int weft_optimizer_states(const weft_optimizer_options *options)
{
    weft_optimizer_options own;
    return take_options("weft_optimizer_states", &own, options) ? count_states(&own) : 0;
}

/* ---- one step ------------------------------------------------------------------------------------------ */

static double slowing_of(const weft_optimizer_options *o)
{
    return o->kind == WEFT_OPTIMIZER_SGD       ? o->dampening
           : o->kind == WEFT_OPTIMIZER_ADAGRAD ? o->learning_rate_decay
                                               : o->momentum_decay;
}

/* The call without its tensors and scalars, and how these are derived. */
static weft_call call_of(const weft_optimizer_options *o, const weft_derivation **numbers)
{
    static const weft_derivation momentum = BY(derive_sgd_momentum), coupled = BY(weft_derive_adam),
                                 decoupled = BY(weft_derive_adamw);
    const int row = row_of(o);
    const bool apart = kinds[o->kind].apart || o->decoupled;
    *numbers = &kinds[o->kind].numbers;
    if (row >= 0) {
        return (weft_call){ .operation = &operation_optimizer_all, .attributes = { .num_numbers = 2, .numbers = { row, apart } } };
    }
    if (o->kind != WEFT_OPTIMIZER_SGD) {
        *numbers = apart ? &decoupled : &coupled;
        return weft_call_of_adam();
    }
    *numbers = o->momentum == 0 ? *numbers : &momentum;
    return weft_call_of_sgd(o->momentum != 0, o->nesterov);
}

weft_status weft_optimizer_step(int n, weft_tensor *const parameters[], weft_tensor *const gradients[],
                                weft_tensor *const states[], int64_t step, const weft_optimizer_options *options)
{
    static const char *const names[WEFT_MAX_STATES] = { "states", "(states + n)", "(states + 2 n)", "(states + 3 n)" };
    static const char function[] = "weft_optimizer_step";
    weft_stepping s = { .function = function, .n = n, .parameters = parameters, .gradients = gradients };
    weft_optimizer_options own;
    if (weft_require_init(function) != WEFT_OK || !take_options(function, &own, options) ||
        !weft_check_step_number(function, "step", (double)step, step >= 1, "at least 1")) {
        return weft_refuse_step(function);
    }
    for (int k = 0; k < count_states(&own); k++) {
        s.states[k] = states == NULL ? NULL : states + (ptrdiff_t)k * (n < 0 ? 0 : n);
        s.state_names[k] = names[k];
    }
    s.maximize = own.maximize;
    s.has_masters = own.master_weights;
    if (!weft_check_step(&s)) {
        return weft_refuse_step(function);
    }
    const double origins[WEFT_NUM_ORIGINS] = {
        [WEFT_ORIGIN_RATE] = own.learning_rate,   [WEFT_ORIGIN_BETA1] = own.beta1,
        [WEFT_ORIGIN_BETA2] = own.beta2,          [WEFT_ORIGIN_EPSILON] = own.epsilon,
        [WEFT_ORIGIN_DECAY] = own.weight_decay,   [WEFT_ORIGIN_STEP] = (double)step,
        [WEFT_ORIGIN_MOMENTUM] = own.momentum,    [WEFT_ORIGIN_SLOWING] = slowing_of(&own),
    };
    const weft_derivation *numbers;
    weft_call call = call_of(&own, &numbers);
    numbers->derive(origins, call.scalars);
    return weft_step_all(&s, call, numbers, origins);
}

const weft_operation *const weft_optimizer_kind_operations[] = {
    &operation_optimizer_1,
    &operation_optimizer_2,
    &operation_optimizer_3,
    &operation_optimizer_all,
    NULL,
};
