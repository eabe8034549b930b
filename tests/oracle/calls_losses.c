/* Losses of pairs of elements: losses.h; cross-entropy with weights of classes, and of probabilities: nn.h. */
#include "calls.h"

#include "ops/backward.h"

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

/* ---- classes ------------------------------------------------------------------------------------------- */

static weft_cross_entropy_options options(const oracle_case *c, weft_tensor *const in[])
{
    weft_cross_entropy_options o;
    weft_cross_entropy_options_init(&o);
    o.reduction = reduction(c);
    o.ignore_index = oracle_whole(c, "ignore_index");
    o.label_smoothing = oracle_number(c, "label_smoothing");
    o.weight = oracle_whole(c, "weight") ? in[2] : NULL;
    return o;
}

CALL(weighted_cross_entropy)
{
    weft_cross_entropy_options o = options(c, in);
    return weft_cross_entropy(in[0], in[1], &o);
}

CALL(weighted_cross_entropy_backward)
{
    weft_cross_entropy_options o = options(c, in);
    int behind = o.weight == NULL ? 2 : 3;
    return weft_cross_entropy_ex_backward(c->num_inputs > behind ? in[behind] : NULL, in[0], in[1], &o);
}

#define call_soft_cross_entropy call_weighted_cross_entropy
#define call_soft_cross_entropy_backward call_weighted_cross_entropy_backward

/* ---- the table ----------------------------------------------------------------------------------------- */

const oracle_operation oracle_loss_operations[] = {
    CALLED(weighted_cross_entropy, ORDER),
    CALLED(weighted_cross_entropy_backward, ORDER),
    CALLED(soft_cross_entropy, ORDER),
    CALLED(soft_cross_entropy_backward, ORDER),
    CALLED(l1, ORDER),
    CALLED(huber, ORDER),
    CALLED(smooth_l1, ORDER),
    CALLED(binary_cross_entropy, ORDER),
    CALLED(binary_cross_entropy_with_logits, ORDER),
    CALLED(kl_div, ORDER),
    { .name = NULL },
};
