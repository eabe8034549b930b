/* Losses of pairs of elements: losses.h. */
#include "calls.h"

static weft_loss_reduction reduction(const oracle_case *c)
{
    return (weft_loss_reduction)oracle_whole(c, "reduction");
}

CALL(l1)
{
    return weft_l1(in[0], in[1], reduction(c));
}

CALL(huber)
{
    return weft_huber(in[0], in[1], oracle_number(c, "delta"), reduction(c));
}

CALL(smooth_l1)
{
    return weft_smooth_l1(in[0], in[1], oracle_number(c, "beta"), reduction(c));
}

CALL(binary_cross_entropy)
{
    return weft_binary_cross_entropy(in[0], in[1], oracle_whole(c, "weight") ? in[2] : NULL, reduction(c));
}

/* Behind the targets: the weight of ones, and the weight, where the case has them. */
CALL(binary_cross_entropy_with_logits)
{
    int64_t weighs_ones = oracle_whole(c, "pos_weight");
    return weft_binary_cross_entropy_with_logits(in[0], in[1], oracle_whole(c, "weight") ? in[2 + weighs_ones] : NULL,
                                                 weighs_ones ? in[2] : NULL, reduction(c));
}

CALL(kl_div)
{
    return weft_kl_div(in[0], in[1], oracle_whole(c, "log_target"), reduction(c));
}

const oracle_operation oracle_loss_operations[] = {
    CALLED(l1, ORDER),
    CALLED(huber, ORDER),
    CALLED(smooth_l1, ORDER),
    CALLED(binary_cross_entropy, ORDER),
    CALLED(binary_cross_entropy_with_logits, ORDER),
    CALLED(kl_div, ORDER),
    { .name = NULL },
};
