/* Losses (kernels on views). Logits and log-probabilities are [n, c], targets (class numbers) [n] of an
 * index type. A row whose target is not a class gives 0 and is reported; one with the ignored target gives
 * 0. */
#ifndef WEFT_CODELETS_LOSSES_H
#define WEFT_CODELETS_LOSSES_H

#include <weft/kernel.h>

/* numbers[] of all of them. */
enum {
    WEFT_LOSS_CLASSES, /* of all ranks */
    WEFT_LOSS_IGNORES, /* whether there is an ignored target */
    WEFT_LOSS_IGNORED, /* the ignored target */
    WEFT_LOSS_PARTS,   /* flags: which inputs are given */
    WEFT_LOSS_PER_ROW, /* the output, or the gradient, has one value per row */
    WEFT_LOSS_COUNTS,  /* a mean over the rows that are not ignored, in a call without a count yet */
    WEFT_LOSS_NUMBERS
};
/* Optional inputs: statistics, mean, log-sums, gradient, count, in this order. */
enum {
    WEFT_LOSS_HAS_STATISTICS =
        1,                      /* of sharded rows: maximum and sum of exponentials, [n, 1] */
    WEFT_LOSS_HAS_MEAN = 2,     /* with these: the sum of each row's logits, [n, 1] */
    WEFT_LOSS_HAS_GRADIENT = 4, /* one element, or one per row */
    WEFT_LOSS_HAS_COUNT = 8,    /* one element: divides the result */
    WEFT_LOSS_HAS_LOG_SUMS = 16 /* the logarithm of each row's sum of exponentials, [n] */
};
/* Log-sums of larger size have lost digits of the sum of exponentials, which is then found again; so have infinities and NaN. The
 * probabilities' relative error is at most 2^-53 times it, beside 2^-24 and 2^-53 of the types. */
#define WEFT_LOSS_MAX_LOG_SUM_F32 65536.0
#define WEFT_LOSS_MAX_LOG_SUM_F64 8.0

/* scalars[]: factor of the result; probability spread over all classes. */
enum { WEFT_LOSS_SCALE, WEFT_LOSS_SMOOTHING };

/* Cross-entropy of each row, and its log-sum as output 1 if asked for: from logits, targets, count; or, of sharded
 * rows, from targets' logits [n, 1], targets, statistics, mean, count. */
void weft_kernel_cross_entropy(const weft_kernel_call *call);
/* Its gradient by the logits, or by the rank's part of them: from logits, targets, statistics or log-sums, gradient,
 * count. */
void weft_kernel_cross_entropy_backward(const weft_kernel_call *call);

/* scale * value of the target's class, from input 0 [n, c] (or the rank's part, which gives 0 without the
 * class) and targets: summed into one element, accumulating over pieces, if the output has no dimensions, else written
 * per row. And its gradient, for a part: input 0 is not read, then targets, gradient, count. */
void weft_kernel_pick(const weft_kernel_call *call);
void weft_kernel_pick_backward(const weft_kernel_call *call);

/* Number of targets that are not ignored. */
void weft_kernel_count_targets(const weft_kernel_call *call);

/* scale * the sum of squared differences of two tensors of one shape. */
void weft_kernel_sum_square_distance(const weft_kernel_call *call);

#endif
