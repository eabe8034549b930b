/* Steps of optimisers, and the gradient of dropout: optimizers.h, random.h. */
#include "calls.h"

#include "ops/backward.h"

/* The parameter and its states after a step. */
static weft_tensor *after_step(const oracle_case *c, weft_status status, weft_tensor *const in[],
                               weft_tensor *out[])
{
    if (status != WEFT_OK) {
        return NULL;
    }
    for (int i = 1; i < oracle_results(c); i++) {
        out[i] = in[i + 1]; /* in[1] is the gradient */
    }
    return in[0];
}

CALL_SEVERAL(sgd)
{
    weft_sgd_options options = {
        .learning_rate = oracle_number(c, "learning_rate"),
        .momentum = oracle_number(c, "momentum"),
        .dampening = oracle_number(c, "dampening"),
        .weight_decay = oracle_number(c, "weight_decay"),
        .nesterov = oracle_whole(c, "nesterov"),
        .first_step = oracle_whole(c, "first_step"),
    };
    return after_step(c, weft_sgd(1, &in[0], &in[1], &options, c->num_inputs > 2 ? &in[2] : NULL), in, out);
}

static weft_adam_options adam_options(const oracle_case *c)
{
    return (weft_adam_options){
        .learning_rate = oracle_number(c, "learning_rate"),
        .beta1 = oracle_number(c, "beta1"),
        .beta2 = oracle_number(c, "beta2"),
        .epsilon = oracle_number(c, "epsilon"),
        .weight_decay = oracle_number(c, "weight_decay"),
    };
}

CALL_SEVERAL(adam)
{
    weft_adam_options options = adam_options(c);
    return after_step(c, weft_adam(1, &in[0], &in[1], &in[2], &in[3], oracle_whole(c, "step"), &options), in,
                      out);
}

CALL_SEVERAL(adamw)
{
    weft_adam_options options = adam_options(c);
    return after_step(c, weft_adamw(1, &in[0], &in[1], &in[2], &in[3], oracle_whole(c, "step"), &options), in,
                      out);
}

/* The states are in the order of weft_optimizer_step(). */
CALL_SEVERAL(optimizer)
{
    weft_optimizer_options options;
    if (weft_optimizer_options_init(&options, (weft_optimizer)oracle_whole(c, "kind")) != WEFT_OK) {
        return NULL;
    }
    options.learning_rate = oracle_number(c, "learning_rate");
    options.weight_decay = oracle_number(c, "weight_decay");
    options.amsgrad = oracle_whole(c, "amsgrad");
    options.centered = oracle_whole(c, "centered");
    options.decoupled = oracle_whole(c, "decoupled");
    options.maximize = oracle_whole(c, "maximize");
    options.momentum = oracle_number(c, "momentum");
    options.learning_rate_decay = oracle_number(c, "learning_rate_decay");
    return after_step(c, weft_optimizer_step(1, &in[0], &in[1], &in[2], oracle_whole(c, "step"), &options), in, out);
}

CALL_SEVERAL(clip_grad_norm)
{
    weft_status status =
        weft_clip_grad_norm(c->num_inputs, in, oracle_number(c, "max_norm"), oracle_number(c, "p"), NULL);
    for (int i = 0; i < oracle_results(c); i++) {
        out[i] = in[i];
    }
    return status == WEFT_OK ? in[0] : NULL;
}

CALL(dropout_backward)
{
    return weft_dropout_backward(in[0], in[1], oracle_number(c, "p"), true);
}

const oracle_operation oracle_optimizer_operations[] = {
    SEVERAL(sgd, ROUNDINGS),
    SEVERAL(adam, ROUNDINGS),
    SEVERAL(adamw, ROUNDINGS),
    SEVERAL(optimizer, ROUNDINGS),
    SEVERAL(clip_grad_norm, ROUNDINGS),
    CALLED(dropout_backward, ROUNDINGS),
    { .name = NULL },
};
