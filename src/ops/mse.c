/* Squared distances. */
#include "ops/row_reduce.h"

static bool gradients_of_mse(const weft_gradient *of);

#define MSE_GRADIENT                                                                                         \
    {                                                                                                        \
        .function = gradients_of_mse,                                                                        \
        .reads = { WEFT_READS_INPUT(0) | WEFT_READS_INPUT(1), WEFT_READS_INPUT(0) | WEFT_READS_INPUT(1) }    \
    }

/* The gradient of a, and that of b, which is its negative. */
static bool give_difference(const weft_gradient *of, weft_tensor *gradient)
{
    return (!weft_gradient_wanted(of, 0) || weft_give_gradient(of, 0, gradient)) &&
           (!weft_gradient_wanted(of, 1) || weft_give_gradient(of, 1, weft_neg(gradient)));
}

static bool gradients_of_mse_difference(const weft_gradient *of)
{
    return give_difference(of, weft_scale(weft_gradient_of_output(of, 0), of->call->scalars[0]));
}

static bool gradients_of_mse_backward(const weft_gradient *of)
{
    weft_tensor *const *inputs = of->call->inputs;
    weft_tensor *h = weft_scale(weft_gradient_of_output(of, 0), of->call->scalars[0]);
    bool values = weft_gradient_wanted(of, 0) || weft_gradient_wanted(of, 1);
    return h != NULL && (!values || give_difference(of, weft_mul(h, inputs[2]))) &&
           (!weft_gradient_wanted(of, 2) ||
            weft_give_gradient(of, 2, weft_mul(h, weft_sub(inputs[0], inputs[1]))));
}

static const weft_operation operation_mse = {
    .name = "mse",
    .gradient = MSE_GRADIENT,
    .rules = { "A*,A->" },
    .inputs = { { "a", WEFT_TYPES_FLOAT, true }, { "b", WEFT_TYPES_FLOAT, true } },
    .outputs[0].type = WEFT_TYPE_GIVEN,
    .kernel = WEFT_KERNEL_sum_square_distance,
    .accumulates = true,
    WEFT_ROUNDED_SUM,
};

/* One difference per element. */
static const weft_operation operation_square_difference = {
    .name = "square_difference",
    .gradient = MSE_GRADIENT,
    .rules = { "A,A->A" },
    .inputs = { { "a", WEFT_TYPES_FLOAT, true }, { "b", WEFT_TYPES_FLOAT, true } },
    .kernel = WEFT_KERNEL_square_difference,
};

static const weft_operation operation_mse_backward = {
    .name = "mse_backward",
    .gradient = { .function = gradients_of_mse_backward,
                  .reads = { WEFT_READS_INPUT(2), WEFT_READS_INPUT(2), WEFT_READS_INPUT(0) | WEFT_READS_INPUT(1) } },
    .rules = { "A,A,->A", "A,A,A->A" },
    .inputs = { { "a", WEFT_TYPES_FLOAT, true },
                { "b", WEFT_TYPES_FLOAT, true },
                { "gradient", WEFT_TYPES_FLOAT, true } },
    .kernel = WEFT_KERNEL_mse_backward,
};

/* For a gradient of 1. */
static const weft_operation operation_mse_difference = {
    .name = "mse_difference",
    .gradient = { .function = gradients_of_mse_difference },
    .rules = { "A,A->A" },
    .outputs[0].linear = { .kind = WEFT_LINEAR_JOINTLY, .ops = WEFT_LINEAR_OPS },
    .inputs = { { "a", WEFT_TYPES_FLOAT, true }, { "b", WEFT_TYPES_FLOAT, true } },
    .kernel = WEFT_KERNEL_scaled_difference,
};

static bool gradients_of_mse(const weft_gradient *of)
{
    const weft_call *call = of->call;
    return give_difference(
        of, weft_dispatch(&(weft_call){
                .function = "weft_mse_backward",
                .operation = &operation_mse_backward,
                .num_inputs = 3,
                .inputs = { call->inputs[0], call->inputs[1], weft_gradient_of_output(of, 0) },
                .attributes = { .rule = weft_operation_is(call->operation, &operation_square_difference) },
                .scalars = { 2 * call->scalars[0] } }));
}

static double mean_scale(weft_loss_reduction reduction, const weft_tensor *a)
{
    return reduction == WEFT_LOSS_MEAN ? 1 / weft_count_along(weft_layout_of(a), -1) : 1;
}

weft_tensor *weft_mse(weft_tensor *a, weft_tensor *b, weft_loss_reduction reduction)
{
    static const char function[] = "weft_mse";
    if (weft_check_tensor(function, "a", a) == NULL || !weft_check_loss_reduction(function, reduction)) {
        return NULL;
    }
    bool each = reduction == WEFT_LOSS_NONE;
    weft_call call = { .function = function,
                       .operation = each ? &operation_square_difference : &operation_mse,
                       .num_inputs = 2,
                       .inputs = { a, b },
                       .scalars = { mean_scale(reduction, a) } };
    return each ? weft_dispatch(&call) : weft_dispatch_sum(&call);
}

weft_tensor *weft_mse_backward(weft_tensor *gradient, weft_tensor *a, weft_tensor *b,
                               weft_loss_reduction reduction)
{
    static const char function[] = "weft_mse_backward";
    if (weft_check_tensor(function, "a", a) == NULL || !weft_check_loss_reduction(function, reduction)) {
        return NULL;
    }
    return weft_dispatch(
        &(weft_call){ .function = function,
                      .operation = gradient == NULL ? &operation_mse_difference : &operation_mse_backward,
                      .num_inputs = gradient == NULL ? 2 : 3,
                      .inputs = { a, b, gradient },
                      .attributes = { .rule = gradient != NULL && reduction == WEFT_LOSS_NONE ? 1 : 0 },
                      .scalars = { 2 * mean_scale(reduction, a) } });
}

const weft_operation *const weft_mse_operations[] = {
    &operation_mse,
    &operation_mse_backward,
    &operation_mse_difference,
    &operation_square_difference,
    NULL,
};
