/* Losses: kernels as weft/kernel.h has them. Logits and logarithms of probabilities are [n, c], targets
 * (class numbers) [n] of an index type. A row whose target is not a class gives 0 and is reported; one whose
 * target is the ignored number gives 0. Losses are added up in one element, piece by piece, or written for
 * each row, as the output has no dimensions or some. */
#ifndef WEFT_CODELETS_LOSSES_H
#define WEFT_CODELETS_LOSSES_H

#include <weft/kernel.h>

/* numbers[] of all of them. */
enum {
    WEFT_LOSS_CLASSES, /* of all ranks together */
    WEFT_LOSS_IGNORES, /* whether there is an ignored number */
    WEFT_LOSS_IGNORED, /* and which */
    WEFT_LOSS_PARTS,   /* what of the next is given; see the kernels */
    WEFT_LOSS_PER_ROW, /* the output, or the gradient, has a value for each row */
    WEFT_LOSS_COUNTS,  /* the mean is over the rows that are not ignored; of a call that has no count yet */
    WEFT_LOSS_NUMBERS
};
/* Inputs that a call may have, in this order. */
enum {
    WEFT_LOSS_HAS_STATISTICS =
        1,                      /* rows lie in parts: the largest value and the sum of exponentials, [n, 1] */
    WEFT_LOSS_HAS_MEAN = 2,     /* with these: the sum of each row's logits, [n, 1] */
    WEFT_LOSS_HAS_GRADIENT = 4, /* one element, or one for each row */
    WEFT_LOSS_HAS_COUNT = 8     /* one element: all is divided by it */
};
/* scalars[]: what all is multiplied by; and the share of probability that is spread over all classes. */
enum { WEFT_LOSS_SCALE, WEFT_LOSS_SMOOTHING };

/* Cross-entropy: of logits, targets, count; or, of rows in parts, of targets' logits [n, 1], targets,
 * statistics, mean, count. */
void weft_kernel_cross_entropy(const weft_kernel_call *call);
/* Its derivative by the logits, or by the rank's part of them: of logits, targets, statistics, gradient,
 * count. */
void weft_kernel_cross_entropy_backward(const weft_kernel_call *call);

/* scale * value of the target's class, of input 0 [n, c] (or the rank's part, which gives 0 where it has not
 * the class) and targets; and its derivative, for a part: input 0 is not read, then come targets, gradient,
 * count. */
void weft_kernel_pick(const weft_kernel_call *call);
void weft_kernel_pick_backward(const weft_kernel_call *call);

/* How many targets are not the ignored number. */
void weft_kernel_count_targets(const weft_kernel_call *call);

/* scale * the sum of squared differences of two tensors of one shape. */
void weft_kernel_sum_square_distance(const weft_kernel_call *call);

#endif
