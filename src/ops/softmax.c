/* Softmax, its logarithm and their gradients. Kernels take whole rows; if rows are sharded, they are
 * computed from maxima, sums, and a last elementwise step, and no row is gathered. */
#include "codelets/softmax.h"

#include <stdio.h>

#include "codelets/elementwise.h"
#include "ops/row_reduce.h"

/* numbers[0]: the dimension. A scalar is one row of one element. */
static int64_t mask_of(const weft_attributes *attributes)
{
    return (int64_t)1 << attributes->numbers[0];
}

/* "a*[b]c*->a[b]c", "a*[b]c*,a*[b]c*->a[b]c" */
static void write_whole_rule(const weft_call_layouts *call, char *text, size_t size)
{
    char whole[WEFT_LETTERS_SIZE];
    weft_write_letters(whole, call->inputs[0]->ndim, mask_of(call->attributes), WEFT_LETTERS_WHOLE);
    if (call->num_inputs == 1) {
        snprintf(text, size, "%s->%s", whole, whole);
    } else {
        snprintf(text, size, "%s,%s->%s", whole, whole, whole);
    }
}

/* "a*b*c*,a1c->a1c" */
static void write_sum_exp_rule(const weft_call_layouts *call, char *text, size_t size)
{
    char all[WEFT_LETTERS_SIZE], ones[WEFT_LETTERS_SIZE];
    weft_write_letters(all, call->inputs[0]->ndim, 0, WEFT_LETTERS_ALL);
    weft_write_letters(ones, call->inputs[0]->ndim, mask_of(call->attributes), WEFT_LETTERS_ONES);
    snprintf(text, size, "%s,%s->%s", all, ones, ones);
}

/* "a*b*c*->a1c", "a*b*c*,a*b*c*->a1c" */
static void write_sum_product_rule(const weft_call_layouts *call, char *text, size_t size)
{
    char all[WEFT_LETTERS_SIZE], ones[WEFT_LETTERS_SIZE];
    weft_write_letters(all, call->inputs[0]->ndim, 0, WEFT_LETTERS_ALL);
    weft_write_letters(ones, call->inputs[0]->ndim, mask_of(call->attributes), WEFT_LETTERS_ONES);
    if (call->num_inputs == 1) {
        snprintf(text, size, "%s->%s", all, ones);
    } else {
        snprintf(text, size, "%s,%s->%s", all, all, ones);
    }
}

/* ---- where rows lie in parts --------------------------------------------------------------------------- */

static bool has_parts_of_rows(const weft_call_layouts *call)
{
    bool has = false;
    for (int i = 0; i < call->num_inputs; i++) {
        has |= weft_is_cut(call->inputs[i], mask_of(call->attributes)) &&
               call->inputs[i]->shape[call->attributes->numbers[0]] > 0;
    }
    return has;
}

static bool expand_forward(const weft_call *call, weft_tensor *outputs[]);
static bool expand_backward(const weft_call *call, weft_tensor *outputs[]);

/* ---- gradients ----------------------------------------------------------------------------------------- */

static int dim_of(const weft_gradient *of)
{
    return (int)of->call->attributes.numbers[0];
}

static bool gradient_of_softmax(const weft_gradient *of)
{
    return weft_give_gradient(of, 0,
                              weft_softmax_backward(weft_gradient_of_output(of, 0), of->outputs[0], dim_of(of)));
}

static bool gradient_of_log_softmax(const weft_gradient *of)
{
    return weft_give_gradient(
        of, 0, weft_log_softmax_backward(weft_gradient_of_output(of, 0), of->outputs[0], dim_of(of)));
}

static weft_tensor *row_sum(const weft_gradient *of, weft_tensor *a)
{
    return weft_sum(a, dim_of(of), true);
}

/* y (g - sum(g y)), of g and y; h is the gradient of that. */
static bool gradients_of_softmax_backward(const weft_gradient *of)
{
    weft_tensor *h = weft_gradient_of_output(of, 0), *g = of->call->inputs[0], *y = of->call->inputs[1];
    if (weft_gradient_wanted(of, 0) && !weft_give_gradient(of, 0, weft_softmax_backward(h, y, dim_of(of)))) {
        return false;
    }
    if (!weft_gradient_wanted(of, 1)) {
        return true;
    }
    weft_tensor *gy = weft_mul(g, y), *hy = weft_mul(h, y);
    return gy != NULL && hy != NULL &&
           weft_give_gradient(of, 1,
                              weft_sub(weft_mul(h, weft_sub(g, row_sum(of, gy))), weft_mul(g, row_sum(of, hy))));
}

/* g - exp(y) sum(g), of g and y. */
static bool gradients_of_log_softmax_backward(const weft_gradient *of)
{
    weft_tensor *h = weft_gradient_of_output(of, 0), *g = of->call->inputs[0], *y = of->call->inputs[1];
    weft_tensor *weighted = weft_mul(h, weft_exp(y));
    return weighted != NULL &&
           (!weft_gradient_wanted(of, 0) || weft_give_gradient(of, 0, weft_sub(h, row_sum(of, weighted)))) &&
           (!weft_gradient_wanted(of, 1) ||
            weft_give_gradient(of, 1, weft_neg(weft_mul(weighted, row_sum(of, g)))));
}

/* ---- the operations ------------------------------------------------------------------------------------ */

#define WHOLE_ROWS(name_)                                                                                    \
    static const weft_operation operation_##name_ = {                                                        \
        .name = #name_,                                                                                      \
        .gradient = WEFT_GRADIENT_BY(gradient_of_##name_, WEFT_READS_OUTPUT(0)),                             \
        .write_rule = write_whole_rule,                                                                      \
        .rule_like = "a*[b]c*->a[b]c",                                                                         \
        .inputs = { { "a", WEFT_TYPES_FLOAT, false } },                                                      \
        .kernel = WEFT_KERNEL_##name_,                                                                       \
        .expand = expand_forward,                                                                            \
        .expands = has_parts_of_rows,                                                                        \
    };
#define WHOLE_ROWS_BACKWARD(name_)                                                                           \
    static const weft_operation operation_##name_ = {                                                        \
        .name = #name_,                                                                                      \
        .write_rule = write_whole_rule,                                                                      \
        .rule_like = "a*[b]c*,a*[b]c*->a[b]c",                                                                   \
        .gradient = { .function = gradients_of_##name_,                                                      \
                      .reads = { WEFT_READS_INPUT(1), WEFT_READS_INPUT(0) | WEFT_READS_INPUT(1) } },         \
        .outputs[0].linear = { .kind = WEFT_LINEAR_EACH, .inputs = 1u << 0, .ops = WEFT_LINEAR_OPS },        \
        .inputs = { { "gradient", WEFT_TYPES_FLOAT, true }, { "output", WEFT_TYPES_FLOAT, true } },          \
        .kernel = WEFT_KERNEL_##name_,                                                                       \
        .expand = expand_backward,                                                                           \
        .expands = has_parts_of_rows,                                                                        \
    };
/* The last step: an element and two statistics of its row; in gradients two elements and one statistic. */
#define LAST_STEP(name_)                                                                                     \
    static const weft_operation operation_##name_ = {                                                        \
        .name = #name_,                                                                                      \
        .gradient = WEFT_GRADIENT_OF_WHOLE("softmax"),                                                       \
        .rules = { "...,...,...->..." },                                                                     \
        .inputs = { { "a", WEFT_TYPES_FLOAT, false },                                                        \
                    { "b", WEFT_TYPES_FLOAT, false },                                                        \
                    { "c", WEFT_TYPES_FLOAT, false } },                                                      \
        .kernel = WEFT_KERNEL_##name_,                                                                       \
    };

WHOLE_ROWS(softmax)
WHOLE_ROWS(log_softmax)
WHOLE_ROWS_BACKWARD(softmax_backward)
WHOLE_ROWS_BACKWARD(log_softmax_backward)
LAST_STEP(softmax_step)
LAST_STEP(log_softmax_step)
LAST_STEP(softmax_backward_step)
LAST_STEP(log_softmax_backward_step)

static const weft_operation operation_sum_exp = {
    .name = "sum_exp",
    .gradient = WEFT_GRADIENT_OF_WHOLE("softmax"),
    .write_rule = write_sum_exp_rule,
    .rule_like = "a*b*c*,a1c->a1c",
    .outputs[0].linear = { .contracts = WEFT_SUM },
    .inputs = { { "a", WEFT_TYPES_FLOAT, false }, { "largest", WEFT_TYPES_FLOAT, true } },
    .outputs[0].type = WEFT_TYPE_GIVEN,
    .kernel = WEFT_KERNEL_sum_exp,
    .accumulates = true,
};

static const weft_operation operation_sum_product = {
    .name = "sum_product",
    .gradient = WEFT_GRADIENT_OF_WHOLE("softmax_backward"),
    .write_rule = write_sum_product_rule,
    .rule_like = "a*b*c*,a*b*c*->a1c",
    .outputs[0].linear = { .contracts = WEFT_SUM },
    .inputs = { { "a", WEFT_TYPES_FLOAT, false }, { "b", WEFT_TYPES_FLOAT, true } },
    .outputs[0].type = WEFT_TYPE_GIVEN,
    .kernel = WEFT_KERNEL_sum_product,
    .accumulates = true,
};

/* ---- calls --------------------------------------------------------------------------------------------- */

static weft_tensor *sum_of(const weft_call *call, const weft_operation *operation, weft_tensor *a,
                           weft_tensor *b)
{
    return a == NULL ? NULL
                     : weft_dispatch(&(weft_call){
                           .function = call->function,
                           .operation = operation,
                           .num_inputs = b == NULL ? 1 : 2,
                           .inputs = { a, b },
                           .attributes = { .type = (int64_t)weft_wide_type(weft_layout_of(a)->dtype),
                                           .num_numbers = 1,
                                           .numbers = { call->attributes.numbers[0] } } });
}

static weft_tensor *last_step(const char *function, const weft_operation *operation, weft_tensor *a,
                              weft_tensor *b, weft_tensor *c)
{
    return weft_dispatch(
        &(weft_call){ .function = function, .operation = operation, .num_inputs = 3, .inputs = { a, b, c } });
}

weft_row_statistics weft_softmax_statistics(const char *function, weft_tensor *a, int dim)
{
    weft_call call = { .function = function, .attributes = { .num_numbers = 1, .numbers = { dim } } };
    int64_t mask = (int64_t)1 << dim;
    weft_row_statistics s = { .largest = weft_place_like(function, weft_max(a, dim, true), weft_layout_of(a),
                                                         mask) };
    if (s.largest != NULL) {
        s.sum = weft_place_like(function, sum_of(&call, &operation_sum_exp, a, s.largest), weft_layout_of(a),
                                mask);
    }
    return s;
}

/* False with the error kept. */
static bool set_dim(weft_call *call, const weft_tensor *tensor, int dim)
{
    int place = weft_wrap_dim(call->function, "dim", tensor, dim);
    call->attributes.num_numbers = 1;
    call->attributes.numbers[0] = place;
    return place >= 0;
}

/* Maxima, sums, and a last elementwise step; no row is gathered. */
static bool expand_forward(const weft_call *call, weft_tensor *outputs[])
{
    const weft_operation *step = weft_operation_is(call->operation, &operation_softmax)
                                     ? &operation_softmax_step
                                     : &operation_log_softmax_step;
    weft_tensor *a = weft_place_like(call->function, call->inputs[0], weft_layout_of(call->inputs[0]), 0);
    if (a == NULL) {
        return false;
    }
    weft_row_statistics s = weft_softmax_statistics(call->function, a, (int)call->attributes.numbers[0]);
    outputs[0] = s.sum == NULL ? NULL : last_step(call->function, step, a, s.largest, s.sum);
    return outputs[0] != NULL;
}

/* Placed as the output if its rows are sharded, else as the gradient. For softmax the statistic is the sum
 * of gradient times output. */
static bool expand_backward(const weft_call *call, weft_tensor *outputs[])
{
    bool weighted = weft_operation_is(call->operation, &operation_softmax_backward);
    const weft_operation *step =
        weighted ? &operation_softmax_backward_step : &operation_log_softmax_backward_step;
    weft_tensor *gradient = call->inputs[0], *output = call->inputs[1];
    const weft_layout *layout =
        weft_is_cut(weft_layout_of(output), mask_of(&call->attributes)) ? weft_layout_of(output) : weft_layout_of(gradient);
    output = weft_place_like(call->function, output, layout, 0);
    gradient = weft_place_like(call->function, gradient, layout, 0);
    weft_tensor *sum =
        output == NULL ? NULL : sum_of(call, &operation_sum_product, gradient, weighted ? output : NULL);
    sum = weft_place_like(call->function, sum, layout, mask_of(&call->attributes));
    outputs[0] = sum == NULL ? NULL : last_step(call->function, step, gradient, output, sum);
    return outputs[0] != NULL;
}

static weft_tensor *forward(const char *function, const weft_operation *operation, weft_tensor *a, int dim)
{
    weft_call call = { .function = function, .operation = operation, .num_inputs = 1, .inputs = { a } };
    bool right = weft_check_tensor(function, "a", a) != NULL && set_dim(&call, a, dim);
    return right ? weft_dispatch(&call) : NULL;
}

static weft_tensor *backward(const char *function, const weft_operation *operation, weft_tensor *gradient,
                             weft_tensor *output, int dim)
{
    weft_call call = {
        .function = function, .operation = operation, .num_inputs = 2, .inputs = { gradient, output }
    };
    bool right = weft_check_tensor(function, "gradient", gradient) != NULL &&
                 weft_check_tensor(function, "output", output) != NULL && set_dim(&call, output, dim);
    return right ? weft_dispatch(&call) : NULL;
}

weft_tensor *weft_softmax(weft_tensor *a, int dim)
{
    return forward("weft_softmax", &operation_softmax, a, dim);
}

weft_tensor *weft_log_softmax(weft_tensor *a, int dim)
{
    return forward("weft_log_softmax", &operation_log_softmax, a, dim);
}

weft_tensor *weft_softmax_backward(weft_tensor *gradient, weft_tensor *output, int dim)
{
    return backward("weft_softmax_backward", &operation_softmax_backward, gradient, output, dim);
}

weft_tensor *weft_log_softmax_backward(weft_tensor *gradient, weft_tensor *output, int dim)
{
    return backward("weft_log_softmax_backward", &operation_log_softmax_backward, gradient, output, dim);
}

const weft_operation *const weft_softmax_operations[] = {
    &operation_softmax,
    &operation_log_softmax,
    &operation_softmax_backward,
    &operation_log_softmax_backward,
    &operation_softmax_step,
    &operation_log_softmax_step,
    &operation_softmax_backward_step,
    &operation_log_softmax_backward_step,
    &operation_sum_exp,
    &operation_sum_product,
    NULL,
};
