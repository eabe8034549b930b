/* The same operations in the same order, none of them a function of the C library's or of CUDA's. Sums are not among them: they run
 * on devices always, where their data is. */
#include "codelets/same_bits.h"

#define SAME(name) [WEFT_KERNEL_##name] = true

static const bool same_bits[WEFT_KERNEL_COUNT] = {
    SAME(copy), SAME(reduce), SAME(constant), SAME(embedding), SAME(max), SAME(min), SAME(any), SAME(all),
    SAME(max_abs), SAME(place), SAME(max_with_indices), SAME(pick), SAME(tril), SAME(triu), SAME(lookup),
    SAME(min_with_indices), SAME(one_hot), SAME(order), SAME(sort), SAME(uniform), SAME(normal),
    SAME(randint), SAME(randperm), SAME(bernoulli_scalar), SAME(bernoulli), SAME(adam), SAME(sgd_momentum),
    SAME(convert), SAME(add), SAME(sub), SAME(mul), SAME(div), SAME(maximum), SAME(minimum), SAME(scale),
    SAME(add_scalar), SAME(clamp), SAME(eq), SAME(ne), SAME(lt), SAME(le), SAME(gt), SAME(ge),
    SAME(logical_and), SAME(logical_or), SAME(logical_xor), SAME(logical_not), SAME(isnan), SAME(isinf),
    SAME(isfinite), SAME(where), SAME(masked_scale), SAME(masked_fill), SAME(neg), SAME(abs), SAME(sign),
    SAME(square), SAME(reciprocal), SAME(sqrt), SAME(rsqrt), SAME(floor), SAME(ceil), SAME(trunc),
    SAME(round), SAME(frac), SAME(fmax), SAME(fmin), SAME(copysign), SAME(nan_to_num), SAME(lerp_tensor), SAME(eq_scalar),
    SAME(ne_scalar), SAME(lt_scalar), SAME(le_scalar), SAME(gt_scalar), SAME(ge_scalar), SAME(bitwise_and), SAME(bitwise_or),
    SAME(bitwise_xor), SAME(bitwise_not), SAME(bitwise_left_shift), SAME(bitwise_right_shift), SAME(fmax_backward),
    SAME(fmin_backward), SAME(cumulative_place), SAME(relu), SAME(leaky_relu), SAME(prelu), SAME(abs_backward), SAME(square_backward),
    SAME(reciprocal_backward), SAME(sqrt_backward), SAME(rsqrt_backward), SAME(maximum_backward),
    SAME(minimum_backward), SAME(clamp_backward), SAME(relu_backward), SAME(leaky_relu_backward),
    SAME(tanh_backward), SAME(sigmoid_backward), SAME(square_difference), SAME(scaled_difference),
    SAME(mse_backward), SAME(huber), SAME(assign), SAME(fill), SAME(add_scaled), SAME(lerp), SAME(average_square),
    SAME(addcmul), SAME(addcdiv), SAME(momentum), SAME(sgd_update), SAME(nesterov_update),
    SAME(range_scale), SAME(norm_share), SAME(max_pool), SAME(max_pool_backward), SAME(max_pool_pick), SAME(avg_pool),
    SAME(avg_pool_backward), SAME(range), SAME(eye), SAME(lerp_decayed), SAME(average_square_decayed), SAME(adam_update),
};

bool weft_kernel_has_same_bits(const weft_kernel_info *info)
{
    return info >= weft_kernel_infos && info < weft_kernel_infos + WEFT_KERNEL_COUNT && same_bits[info - weft_kernel_infos];
}
