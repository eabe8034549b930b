/* The gradients of norms. */
#include <stdio.h>

#include "ops/norm_calls.h"
#include "ops/reductions.h"

static void write_backward_rule(const weft_call_layouts *call, char *text, size_t size)
{
    weft_norm_letters l = weft_norm_write_letters(call, call->inputs[0]);
    weft_norm_write_inputs(call, &l, 2, l.tensor, text, size);
}

static void write_sums_rule(const weft_call_layouts *call, char *text, size_t size)
{
    weft_norm_letters l = weft_norm_write_letters(call, call->inputs[0]);
    weft_norm_write_inputs(call, &l, 2, l.sums, text, size);
}

static void write_gain_rule(const weft_call_layouts *call, char *text, size_t size)
{
    weft_norm_letters l = weft_norm_write_letters(call, call->inputs[0]);
    weft_norm_write_inputs(call, &l, 2, l.one_vector, text, size);
}

#define LINEAR_IN_GRADIENT                                                                                   \
    {                                                                                                        \
        .kind = WEFT_LINEAR_EACH, .inputs = 1u << 1, .ops = WEFT_LINEAR_OPS                                  \
    }

#define BACKWARD(name_, rule, like, type_, adds)                                                             \
    static const weft_operation operation_##name_ = {                                                        \
        .name = #name_,                                                                                      \
        .gradient = WEFT_GRADIENT_OF_WHOLE("norm_gradients"),                                                \
        .write_rule = rule,                                                                                  \
        .rule_like = like,                                                                                   \
        .outputs[0].linear = LINEAR_IN_GRADIENT,                                                             \
        .inputs = { { "a", WEFT_TYPES_FLOAT, false },                                                        \
                    { "gradient", WEFT_TYPES_FLOAT, true },                                                  \
                    { "gain", WEFT_TYPES_FLOAT, false },                                                     \
                    { "variance", WEFT_TYPES_FLOAT, false },                                                 \
                    { "sums", WEFT_TYPES_FLOAT, false },                                                     \
                    { "gain", WEFT_TYPES_FLOAT, false } },                                                   \
        .outputs[0].type = type_,                                                                            \
        .kernel = WEFT_KERNEL_##name_,                                                                       \
        .accumulates = adds,                                                                                 \
    };
BACKWARD(norm_backward, write_backward_rule, "A*[b],A[b],[b]->A[b]", WEFT_TYPE_FIRST, false)
BACKWARD(norm_sums, write_sums_rule, "A*b*,Ab,b->A1", WEFT_TYPE_GIVEN, true)
BACKWARD(norm_gain_backward, write_gain_rule, "A*[b],A[b]->[b]", WEFT_TYPE_GIVEN, true)

/* ---- calls --------------------------------------------------------------------------------------------- */

static weft_tensor *gradient_of_a(const weft_norm_call *n)
{
    weft_tensor *sums = NULL;
    if (n->parts) {
        weft_call call = weft_norm_call_of(n, &operation_norm_sums, WEFT_F64, NULL, n->gain, NULL);
        call.attributes.num_sizes = 1;
        call.attributes.sizes[0] = 2;
        sums = weft_place_like(n->function, weft_dispatch(&call), weft_layout_of(n->a), n->mask);
        if (sums == NULL) {
            return NULL;
        }
    }
    weft_call call = weft_norm_call_of(n, &operation_norm_backward, 0, sums, n->gain, NULL);
    return weft_dispatch(&call);
}

/* [1, 1, c, d] as [c, d], in the gain's type. */
static weft_tensor *as_gain(const weft_norm_call *n, const weft_tensor *gain, weft_tensor *sum)
{
    int64_t others = ~n->mask & (((int64_t)1 << weft_layout_of(n->a)->ndim) - 1);
    if (sum != NULL && others != 0) {
        sum = weft_squeeze_dims(n->function, sum, others);
    }
    return sum == NULL ? NULL : weft_to_type(sum, weft_layout_of(gain != NULL ? gain : n->a)->dtype);
}

static weft_tensor *gradient_of_gain(const weft_norm_call *n)
{
    weft_call call = weft_norm_call_of(n, &operation_norm_gain_backward,
                                       weft_wide_type(weft_layout_of(n->a)->dtype), NULL, NULL, NULL);
    return as_gain(n, n->gain, weft_dispatch(&call));
}

static weft_tensor *gradient_of_bias(const weft_norm_call *n)
{
    weft_dtype own = weft_layout_of(n->gradient)->dtype;
    weft_dtype type = weft_layout_of(n->gain != NULL ? n->gain : n->a)->dtype;
    int dims[WEFT_MAX_DIMS];
    for (int d = 0; d < n->first; d++) {
        dims[d] = d;
    }
    if (n->first > 0 && type != own && weft_dtype_size(own) == 2) {
        /* weft_sum() would round to 16 bits first. */
        int64_t others = ((int64_t)1 << n->first) - 1;
        return as_gain(n, n->gain,
                       weft_sum_statistic(n->function, WEFT_STATISTIC_SUM, n->gradient, NULL, others, 0));
    }
    /* Without a sum a tensor of its own, which the caller may modify. */
    weft_tensor *sum = n->first == 0 ? weft_squeeze_dims(n->function, n->gradient, 0)
                                     : weft_sum(n->gradient, weft_set_of_dims((int)n->first, dims), false);
    return sum == NULL ? NULL : weft_to_type(sum, type);
}

/* Gradients of a, and by numbers[WEFT_NORM_NUMBERS] of the gain (bit 0) and of the bias (bit 1). */
static bool expand_gradients(const weft_call *call, weft_tensor *outputs[])
{
    const int64_t *numbers = call->attributes.numbers;
    bool given = numbers[WEFT_NORM_PARTS] & WEFT_NORM_HAS_STATISTICS, centred = numbers[WEFT_NORM_CENTRED];
    int used = 2 + (given && centred) + given;
    weft_norm_call n = weft_norm_of(call, used);
    n.gradient = call->inputs[1];
    n.has_rstd = given;
    n.mean = given && centred ? call->inputs[2] : NULL;
    n.variance = given ? call->inputs[used - 1] : NULL;
    const weft_layout *layout =
        weft_is_cut(weft_layout_of(n.a), n.mask) ? weft_layout_of(n.a) : weft_layout_of(n.gradient);
    bool parts = weft_is_cut(layout, n.mask) && weft_norm_has_elements(layout);
    if (parts && !weft_norm_take_statistics(&n, layout)) {
        return false;
    }
    int64_t wanted = call->attributes.numbers[WEFT_NORM_NUMBERS];
    outputs[0] = gradient_of_a(&n);
    outputs[1] = wanted & 1 ? gradient_of_gain(&n) : NULL;
    outputs[2] = wanted & 2 ? gradient_of_bias(&n) : NULL;
    return outputs[0] != NULL && (!(wanted & 1) || outputs[1] != NULL) &&
           (!(wanted & 2) || outputs[2] != NULL);
}

/* Says which calls are right; what they become is other calls. */
static void write_gradients_rule(const weft_call_layouts *call, char *text, size_t size)
{
    weft_norm_letters l = weft_norm_write_letters(call, call->inputs[0]);
    char outputs[3 * WEFT_LETTERS_SIZE];
    snprintf(outputs, sizeof(outputs), "%s,%s,%s", l.tensor, l.vector, l.vector);
    weft_norm_write_inputs(call, &l, 2, outputs, text, size);
}

#define F64 (1u << WEFT_F64)
#define READS(n) (WEFT_READS_INPUT(n) - 1) /* the first n inputs */
#define GRADIENTS(suffix, like, num_, ...)                                                                   \
    static const weft_operation operation_norm_gradients##suffix = {                                         \
        .name = "norm_gradients" #suffix,                                                                    \
        .gradient = { .function = weft_gradients_of_norm_gradients,                                          \
                      .reads = { READS(num_), READS(num_), READS(num_), READS(num_), READS(num_) } },        \
        .write_rule = write_gradients_rule,                                                                  \
        .rule_like = like "->A[b],[b],[b]",                                                                  \
        .inputs = { { "a", WEFT_TYPES_FLOAT, false }, { "gradient", WEFT_TYPES_FLOAT, true }, __VA_ARGS__ }, \
        .num_outputs = 3,                                                                                    \
        .expand = expand_gradients,                                                                          \
    };
GRADIENTS(, "A*[b],A[b],[b]", 3, { "gain", WEFT_TYPES_FLOAT, false })
GRADIENTS(_with_statistics, "A*[b],A[b],A1,A1,[b]", 5, { "mean", F64, false }, { "rstd", F64, false },
          { "gain", WEFT_TYPES_FLOAT, false })
GRADIENTS(_with_rstd, "A*[b],A[b],A1,[b]", 4, { "rstd", F64, false }, { "gain", WEFT_TYPES_FLOAT, false })

static const weft_operation *gradients_of(const weft_norm_call *n)
{
    return !n->has_rstd ? &operation_norm_gradients
           : n->centred ? &operation_norm_gradients_with_statistics
                        : &operation_norm_gradients_with_rstd;
}

/* That they are live; the rule says the rest. */
static bool check_statistics(const weft_norm_call *n)
{
    return weft_check_tensor(n->function, "rstd", n->variance) != NULL &&
           (!n->centred || weft_check_tensor(n->function, "mean", n->mean) != NULL);
}

static weft_tensor *backward(weft_norm_call n, weft_tensor **gradient_gain, weft_tensor **gradient_bias)
{
    weft_tensor **targets[3] = { NULL, gradient_gain, gradient_bias }, *results[3];
    for (int i = 1; i < 3; i++) {
        if (targets[i] != NULL) {
            *targets[i] = NULL;
        }
    }
    if (!weft_norm_check(&n, true) || (n.has_rstd && !check_statistics(&n))) {
        return NULL;
    }
    weft_call call = weft_norm_call_of(&n, gradients_of(&n), 0, NULL, n.gain, NULL);
    call.attributes.num_numbers = WEFT_NORM_NUMBERS + 1;
    call.attributes.numbers[WEFT_NORM_NUMBERS] =
        (gradient_gain != NULL ? 1 : 0) | (gradient_bias != NULL ? 2 : 0);
    if (!weft_dispatch_all(&call, results)) {
        return NULL;
    }
    for (int i = 1; i < 3; i++) {
        if (targets[i] != NULL) {
            *targets[i] = results[i];
        }
    }
    return results[0];
}

weft_tensor *weft_layer_norm_backward(weft_tensor *gradient, weft_tensor *a, weft_tensor *gain,
                                      double epsilon, weft_tensor **gradient_gain,
                                      weft_tensor **gradient_bias)
{
    return backward((weft_norm_call){ .function = "weft_layer_norm_backward",
                                      .centred = true,
                                      .a = a,
                                      .gradient = gradient,
                                      .gain = gain,
                                      .epsilon = epsilon },
                    gradient_gain, gradient_bias);
}

weft_tensor *weft_layer_norm_backward_with_statistics(weft_tensor *gradient, weft_tensor *a,
                                                      weft_tensor *mean, weft_tensor *rstd, weft_tensor *gain,
                                                      weft_tensor **gradient_gain,
                                                      weft_tensor **gradient_bias)
{
    return backward((weft_norm_call){ .function = "weft_layer_norm_backward_with_statistics",
                                      .centred = true,
                                      .a = a,
                                      .gradient = gradient,
                                      .gain = gain,
                                      .mean = mean,
                                      .variance = rstd,
                                      .has_rstd = true },
                    gradient_gain, gradient_bias);
}

weft_tensor *weft_rms_norm_backward_with_statistics(weft_tensor *gradient, weft_tensor *a, weft_tensor *rstd,
                                                    weft_tensor *gain, weft_tensor **gradient_gain)
{
    return backward((weft_norm_call){ .function = "weft_rms_norm_backward_with_statistics",
                                      .a = a,
                                      .gradient = gradient,
                                      .gain = gain,
                                      .variance = rstd,
                                      .has_rstd = true },
                    gradient_gain, NULL);
}

weft_tensor *weft_rms_norm_backward(weft_tensor *gradient, weft_tensor *a, weft_tensor *gain, double epsilon,
                                    weft_tensor **gradient_gain)
{
    return backward((weft_norm_call){ .function = "weft_rms_norm_backward",
                                      .a = a,
                                      .gradient = gradient,
                                      .gain = gain,
                                      .epsilon = epsilon },
                    gradient_gain, NULL);
}

/* The addend of a's gradient that comes from the gradients of the statistics: (g_mean - g_rstd rstd^3 (a - mean)) / count. */
static weft_tensor *gradient_of_statistics(const weft_gradient *of, const weft_norm_call *n, weft_tensor *sum)
{
    const weft_layout *layout = weft_layout_of(n->a);
    weft_tensor *of_rstd = weft_gradient_of_output(of, 1),
                *of_mean = n->centred ? weft_gradient_of_output(of, 2) : NULL;
    double count = weft_count_along(layout, n->mask);
    if (of_rstd != NULL) {
        weft_tensor *rstd = of->outputs[1], *cube = weft_mul(weft_mul(rstd, rstd), rstd);
        weft_tensor *centred = n->centred ? weft_sub(n->a, of->outputs[2]) : n->a;
        weft_tensor *own = weft_mul(weft_scale(weft_mul(of_rstd, cube), -1 / count), centred);
        sum = sum == NULL ? own : weft_add(sum, own);
    }
    if (of_mean != NULL) {
        weft_tensor *own = weft_expand_beside(weft_scale(of_mean, 1 / count), layout);
        sum = sum == NULL ? own : weft_add(sum, own);
    }
    return sum;
}

/* With the statistics where they were kept. */
bool weft_gradients_of_norm(const weft_gradient *of)
{
    weft_norm_call n = weft_norm_of(of->call, 1);
    n.gradient = weft_gradient_of_output(of, 0);
    n.has_rstd = of->outputs[1] != NULL && (!n.centred || of->outputs[2] != NULL);
    n.variance = n.has_rstd ? of->outputs[1] : NULL;
    n.mean = n.has_rstd && n.centred ? of->outputs[2] : NULL;
    int gain = n.gain != NULL ? 1 : 0,
        bias = n.bias != NULL ? gain + 1 : 0; /* numbers of the inputs; 0: none */
    bool wants_gain = gain > 0 && weft_gradient_wanted(of, gain),
         wants_bias = bias > 0 && weft_gradient_wanted(of, bias);
    weft_tensor *gradients[3] = { NULL, NULL, NULL };
    if (n.gradient != NULL) {
        weft_call call = weft_norm_call_of(&n, gradients_of(&n), 0, NULL, n.gain, NULL);
        call.attributes.num_numbers = WEFT_NORM_NUMBERS + 1;
        call.attributes.numbers[WEFT_NORM_NUMBERS] = (wants_gain ? 1 : 0) | (wants_bias ? 2 : 0);
        if (!weft_dispatch_all(&call, gradients)) {
            return false;
        }
    }
    if (weft_gradient_wanted(of, 0)) {
        gradients[0] = gradient_of_statistics(of, &n, gradients[0]);
    }
    return (gradients[0] == NULL || !weft_gradient_wanted(of, 0) ||
            weft_give_gradient(of, 0, gradients[0])) &&
           (gradients[1] == NULL || weft_give_gradient(of, gain, gradients[1])) &&
           (gradients[2] == NULL || weft_give_gradient(of, bias, gradients[2]));
}

const weft_operation *const weft_norm_backward_operations[] = {
    &operation_norm_backward,
    &operation_norm_sums,
    &operation_norm_gain_backward,
    &operation_norm_gradients,
    &operation_norm_gradients_with_statistics,
    &operation_norm_gradients_with_rstd,
    NULL,
};
