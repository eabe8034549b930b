/* Reductions put together from others: logarithms of sums of exponentials, standard deviations, sums and means without
 * NaN. */
#include <math.h>

#include "ops/reductions.h"
#include "ops/row_reduce.h"
#include "ops/vector_norms.h"

typedef weft_tensor *reduce_over(weft_tensor *a, int dims, bool keepdim);

/* `reduce` over the call's dimensions; no dimensions: a scalar, which all of its dimensions are. NULL for NULL. */
static weft_tensor *over(const weft_call *call, reduce_over *reduce, weft_tensor *a, bool keepdim)
{
    int dims = weft_dims_of_mask(call->attributes.numbers[WEFT_REDUCTION_MASK]);
    return a == NULL ? NULL : reduce(a, dims, keepdim);
}

static bool keeps(const weft_call *call)
{
    return call->attributes.numbers[WEFT_REDUCTION_KEEPS] != 0;
}

/* Number of elements of each result. */
static double count_of(const weft_call *call)
{
    return weft_count_along(weft_layout_of(call->inputs[0]), call->attributes.numbers[WEFT_REDUCTION_MASK]);
}

/* Input 0 without Partial, which several calls read; 16-bit types as WEFT_F32, integers too; complex ones as they are. */
static weft_tensor *wide_input(const weft_call *call)
{
    weft_dtype type = weft_layout_of(call->inputs[0])->dtype;
    weft_tensor *a = weft_unshard_dim(call->function, call->inputs[0], -1);
    return a == NULL ? NULL : weft_to_type(a, weft_dtype_has_gradient(type) ? weft_wide_type(type) : WEFT_F32);
}

/* Rounded to 16 bits where the input has them. */
static bool give(const weft_call *call, weft_tensor *result, weft_tensor *outputs[])
{
    weft_dtype type = weft_layout_of(call->inputs[0])->dtype;
    outputs[0] = result == NULL || weft_dtype_size(type) != 2 ? result : weft_to_type(result, type);
    return outputs[0] != NULL;
}

static weft_tensor *reduced(const char *function, const weft_operation *operation, weft_tensor *a, int dims,
                            bool keepdim)
{
    int64_t mask = weft_check_reduced_dims(function, a, dims);
    return mask < 0 ? NULL
                    : weft_dispatch(&(weft_call){
                          .function = function,
                          .operation = operation,
                          .num_inputs = 1,
                          .inputs = { a },
                          .attributes = { .num_numbers = 2,
                                          .numbers = { [WEFT_REDUCTION_MASK] = mask,
                                                       [WEFT_REDUCTION_KEEPS] = keepdim } } });
}

#define PUBLIC(name)                                                                                         \
    weft_tensor *weft_##name(weft_tensor *a, int dims, bool keepdim)                                         \
    {                                                                                                        \
        return reduced("weft_" #name, &operation_##name, a, dims, keepdim);                                  \
    }

/* ---- logarithms of sums of exponentials ---------------------------------------------------------------- */

/* The largest element, or real part, 0 where it is infinite: infinity minus infinity is not 0. */
static weft_tensor *finite_largest(const weft_call *call, weft_tensor *a)
{
    weft_tensor *largest = over(call, weft_max, weft_real(a), true);
    largest = weft_place_like(call->function, largest, weft_layout_of(a),
                              call->attributes.numbers[WEFT_REDUCTION_MASK]);
    return largest == NULL ? NULL : weft_masked_fill(largest, weft_isinf(largest), 0);
}

static weft_tensor *without_reduced_dims(const weft_call *call, weft_tensor *result)
{
    bool drops = result != NULL && !keeps(call);
    return drops ? weft_squeeze_dims(call->function, result, call->attributes.numbers[WEFT_REDUCTION_MASK]) : result;
}

static bool expand_logsumexp(const weft_call *call, weft_tensor *outputs[])
{
    weft_tensor *a = wide_input(call);
    if (a == NULL || count_of(call) == 0) {
        weft_tensor *sum = over(call, weft_sum, a, keeps(call));
        return give(call, sum == NULL ? NULL : weft_log(sum), outputs);
    }
    weft_tensor *largest = finite_largest(call, a);
    weft_tensor *differences = largest == NULL ? NULL : weft_sub(a, largest);
    weft_tensor *sum = over(call, weft_sum, differences == NULL ? NULL : weft_exp(differences), true);
    weft_tensor *result = sum == NULL ? NULL : weft_add(weft_log(sum), largest);
    return give(call, without_reduced_dims(call, result), outputs);
}

/* The gradient times the conjugate of e^(a - result). */
static bool gradient_of_logsumexp(const weft_gradient *of)
{
    weft_tensor *result = weft_with_reduced_dims(of, of->outputs[0]);
    weft_tensor *gradient = weft_with_reduced_dims(of, weft_gradient_of_output(of, 0));
    return result != NULL && gradient != NULL &&
           weft_give_gradient(of, 0, weft_mul(gradient, weft_conjugate(weft_exp(weft_sub(of->call->inputs[0], result)))));
}

static const weft_operation operation_logsumexp = {
    .name = "logsumexp",
    .gradient = WEFT_GRADIENT_BY(gradient_of_logsumexp, WEFT_READS_INPUT(0) | WEFT_READS_OUTPUT(0)),
    .inputs = { { "a", WEFT_TYPES_ANY, false } },
    .outputs[0].type = WEFT_TYPE_FLOATING,
    .expand = expand_logsumexp,
};
PUBLIC(logsumexp)

/* ---- without NaN --------------------------------------------------------------------------------------- */

/* How many elements of each result are numbers. */
static weft_tensor *count_numbers(const weft_call *call, weft_tensor *a, bool keepdim)
{
    return over(call, weft_sum, weft_logical_not(weft_isnan(a)), keepdim);
}

static weft_tensor *sum_numbers(const weft_call *call, weft_tensor *a)
{
    return over(call, weft_sum, a == NULL ? NULL : weft_masked_fill(a, weft_isnan(a), 0), keeps(call));
}

static bool expand_nansum(const weft_call *call, weft_tensor *outputs[])
{
    if (!weft_dtype_is_floating(weft_layout_of(call->inputs[0])->dtype)) {
        outputs[0] = over(call, weft_sum, call->inputs[0], keeps(call));
        return outputs[0] != NULL;
    }
    return give(call, sum_numbers(call, wide_input(call)), outputs);
}

static bool expand_nanmean(const weft_call *call, weft_tensor *outputs[])
{
    weft_tensor *a = wide_input(call), *sum = sum_numbers(call, a);
    return give(call, sum == NULL ? NULL : weft_div(sum, count_numbers(call, a, keeps(call))), outputs);
}

/* The output's gradient at each number. */
static bool give_to_numbers(const weft_gradient *of, weft_tensor *gradient)
{
    weft_tensor *each = weft_repeat_gradient(of, gradient);
    return each != NULL &&
           weft_give_gradient(of, 0, weft_masked_fill(each, weft_isnan(of->call->inputs[0]), 0));
}

static bool gradient_of_nansum(const weft_gradient *of)
{
    return give_to_numbers(of, weft_with_reduced_dims(of, weft_gradient_of_output(of, 0)));
}

static bool gradient_of_nanmean(const weft_gradient *of)
{
    weft_tensor *gradient = weft_with_reduced_dims(of, weft_gradient_of_output(of, 0));
    /* Of no numbers at all the mean is NaN, and the gradient 0. */
    weft_tensor *count = weft_clamp(count_numbers(of->call, of->call->inputs[0], true), 1, INFINITY);
    return gradient != NULL && count != NULL && give_to_numbers(of, weft_div(gradient, count));
}

static const weft_operation operation_nansum = {
    .name = "nansum",
    .gradient = WEFT_GRADIENT_BY(gradient_of_nansum, WEFT_READS_INPUT(0)),
    .inputs = { { "a", WEFT_TYPES_ALL, false } },
    .expand = expand_nansum,
};
PUBLIC(nansum)

static const weft_operation operation_nanmean = {
    .name = "nanmean",
    .gradient = WEFT_GRADIENT_BY(gradient_of_nanmean, WEFT_READS_INPUT(0)),
    .inputs = { { "a", WEFT_TYPES_FLOAT, false } },
    .expand = expand_nanmean,
};
PUBLIC(nanmean)

/* ---- standard deviations ------------------------------------------------------------------------------- */

/* In WEFT_F64 the mean of equal elements may be rounded; their differences from the largest are 0. Multiplied by `scale`,
 * a power of two by the largest difference, their squares are in the type's range. */
static weft_tensor *shifted(const weft_call *call, weft_tensor *a, weft_tensor **scale)
{
    *scale = NULL;
    if (a == NULL || weft_layout_of(a)->dtype != WEFT_F64 || count_of(call) == 0) {
        return a;
    }
    const int64_t mask = call->attributes.numbers[WEFT_REDUCTION_MASK];
    weft_tensor *largest = weft_place_like(call->function, over(call, weft_max, a, true), weft_layout_of(a), mask);
    weft_tensor *least = weft_place_like(call->function, over(call, weft_min, a, true), weft_layout_of(a), mask);
    weft_tensor *range = largest == NULL || least == NULL ? NULL : weft_sub(largest, least);
    *scale = range == NULL ? NULL : weft_range_scale_of(call->function, range);
    return *scale == NULL ? NULL : weft_mul(weft_sub(a, largest), *scale);
}

/* The variance in double precision: its range is the square of the type's. Reduced dimensions stay with size 1. */
static weft_tensor *variance_of(const weft_call *call, weft_tensor *a)
{
    int64_t mask = call->attributes.numbers[WEFT_REDUCTION_MASK];
    double count = count_of(call), divisor = count > 0 ? fmax(count - call->scalars[0], 0) : 0;
    weft_tensor *mean = weft_sum_statistic(call->function, WEFT_STATISTIC_SUM, a, NULL, mask, 1 / count);
    mean = weft_place_like(call->function, mean, weft_layout_of(a), mask);
    weft_tensor *sum = mean == NULL ? NULL
                                    : weft_sum_statistic(call->function, WEFT_STATISTIC_DIFFERENCES, a, mean, mask,
                                                         divisor > 0 ? 1 / divisor : 0);
    if (sum == NULL || divisor > 0) {
        return sum;
    }
    sum = weft_unshard_dim(call->function, sum, -1); /* the sum is divided by 0, not its addends: some may be 0 */
    return sum == NULL ? NULL : weft_scale(sum, INFINITY);
}

/* scalars[0]: the correction. */
static bool expand_std(const weft_call *call, weft_tensor *outputs[])
{
    weft_tensor *scale, *a = shifted(call, weft_unshard_dim(call->function, call->inputs[0], -1), &scale);
    weft_tensor *variance = a == NULL ? NULL : variance_of(call, a);
    weft_tensor *root = variance == NULL ? NULL : weft_sqrt(variance);
    weft_tensor *result = without_reduced_dims(call, root == NULL || scale == NULL ? root : weft_div(root, scale));
    outputs[0] = result == NULL ? NULL : weft_to_type(result, weft_layout_of(call->inputs[0])->dtype);
    return outputs[0] != NULL;
}

/* (a - mean) / ((count - correction) std); 0 where std is 0. */
static bool gradient_of_std(const weft_gradient *of)
{
    weft_tensor *a = of->call->inputs[0], *mean = over(of->call, weft_mean, a, true);
    weft_tensor *result = weft_with_reduced_dims(of, of->outputs[0]);
    weft_tensor *gradient = weft_with_reduced_dims(of, weft_gradient_of_output(of, 0));
    if (mean == NULL || result == NULL || gradient == NULL) {
        return false;
    }
    weft_tensor *share = weft_masked_fill(weft_div(gradient, result), weft_logical_not(result), 0);
    double divisor = fmax(count_of(of->call) - of->call->scalars[0], 0);
    return share != NULL && weft_give_gradient(of, 0, weft_mul(weft_sub(a, mean), weft_scale(share, 1 / divisor)));
}

static const weft_operation operation_std = {
    .name = "std",
    .gradient = WEFT_GRADIENT_BY(gradient_of_std, WEFT_READS_INPUT(0) | WEFT_READS_OUTPUT(0)),
    .inputs = { { "a", WEFT_TYPES_FLOAT, false } },
    .expand = expand_std,
};

/* The root of the sum of the parts' variances. */
static bool expand_complex_std(const weft_call *call, weft_tensor *outputs[])
{
    const int dims = weft_dims_of_mask(call->attributes.numbers[WEFT_REDUCTION_MASK]);
    weft_tensor *real = weft_std(weft_real(call->inputs[0]), dims, call->scalars[0], keeps(call));
    weft_tensor *imag = weft_std(weft_imag(call->inputs[0]), dims, call->scalars[0], keeps(call));
    outputs[0] = real == NULL || imag == NULL ? NULL : weft_hypot(real, imag);
    return outputs[0] != NULL;
}

static const weft_operation operation_complex_std = {
    .name = "complex_std",
    .gradient = WEFT_GRADIENT_OF_BODY,
    .inputs = { { "a", WEFT_TYPES_COMPLEX, false } },
    .expand = expand_complex_std,
};

static weft_tensor *deviation(const char *function, weft_tensor *a, int dims, double correction,
                              bool keepdim)
{
    int64_t mask = weft_check_reduced_dims(function, a, dims);
    if (mask < 0) {
        return NULL;
    }
    double count = weft_count_along(weft_layout_of(a), mask);
    return weft_dispatch(&(weft_call){
        .function = function,
        .operation = weft_dtype_is_complex(weft_layout_of(a)->dtype) ? &operation_complex_std : &operation_std,
        .num_inputs = 1,
        .inputs = { a },
        /* Number 2: the body's calls depend on whether the divisor is 0. */
        .attributes = { .num_numbers = 3,
                        .numbers = { [WEFT_REDUCTION_MASK] = mask, [WEFT_REDUCTION_KEEPS] = keepdim,
                                     count > 0 && count > correction } },
        .scalars = { correction } });
}

weft_tensor *weft_std(weft_tensor *a, int dims, double correction, bool keepdim)
{
    return deviation("weft_std", a, dims, correction, keepdim);
}

const weft_operation *const weft_statistic_operations[] = { &operation_logsumexp, &operation_nansum,
                                                            &operation_nanmean, &operation_std,
                                                            &operation_complex_std, NULL };
