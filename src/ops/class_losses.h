/* Cross-entropy with what its kernels do not have: weights of classes, and probabilities as targets. */
#ifndef WEFT_SRC_OPS_CLASS_LOSSES_H
#define WEFT_SRC_OPS_CLASS_LOSSES_H

#include "ops/row_reduce.h"

typedef struct weft_class_loss {
    const char *function;
    weft_tensor *logits, *targets; /* live */
    weft_tensor *gradient;         /* of the backward pass; NULL: 1 */
    weft_tensor *weight;           /* NULL: 1 */
    weft_loss_reduction reduction;
    bool backward;
    int64_t ignored;
    double smoothing;
} weft_class_loss;

/* Targets of an index type have a weight. NULL with the error kept. */
weft_tensor *weft_general_cross_entropy(const weft_class_loss *l);

#endif
