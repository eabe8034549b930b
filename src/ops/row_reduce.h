/* What operations over whole rows share. Where no rank has a whole row, they are put together from
 * statistics: tensors that have one value for each row, in which the reduced dimensions stay with size 1. */
#ifndef WEFT_SRC_OPS_ROW_REDUCE_H
#define WEFT_SRC_OPS_ROW_REDUCE_H

#include "ops/ops.h"

/* How the letters of a tensor's dimensions are written into a rule; "the chosen" are those of a mask, bit d
 * for dimension d. */
typedef enum weft_letters_style {
    WEFT_LETTERS_ALL,    /* "abc" */
    WEFT_LETTERS_WHOLE,  /* "a[b]c": the chosen must not be sharded */
    WEFT_LETTERS_ONES,   /* "a1c": the chosen have size 1 */
    WEFT_LETTERS_CHOSEN, /* "b": no others */
    WEFT_LETTERS_OTHERS  /* "1b1": the others have size 1 */
} weft_letters_style;

enum { WEFT_LETTERS_SIZE = 3 * WEFT_MAX_DIMS + 1 };

/* Into `text`, of at least WEFT_LETTERS_SIZE characters; returns it. */
const char *weft_write_letters(char *text, int ndim, int64_t mask, weft_letters_style style);

/* Whether a rank may have a part only of some row along the dimensions of the mask. */
bool weft_is_cut(const weft_layout *layout, int64_t mask);

/* The tensor placed like `like`, which has as many dimensions: on its mesh, sharded where it is, but
 * for the dimensions of the mask, and not Partial. NULL for NULL, or with the error kept. */
weft_tensor *weft_place_like(const char *function, weft_tensor *tensor, const weft_layout *like,
                             int64_t mask);

/* scale (0: 1) times the sum over the dimensions of the mask, in double precision (reductions.c). */
typedef enum weft_row_statistic {
    WEFT_STATISTIC_SUM,
    WEFT_STATISTIC_SQUARES,    /* of squares */
    WEFT_STATISTIC_DIFFERENCES /* of the squares of differences from `centre`, which has size 1 there */
} weft_row_statistic;
weft_tensor *weft_sum_statistic(const char *function, weft_row_statistic kind, weft_tensor *a,
                                weft_tensor *centre, int64_t mask, double scale);

/* Of softmax along a dimension, for a tensor that is not Partial: the largest value of each row, and the sum
 * of the exponentials of what is left when that is taken away; placed like the tensor. `sum` is NULL with the
 * error kept (softmax.c). */
typedef struct weft_row_statistics {
    weft_tensor *largest, *sum;
} weft_row_statistics;
weft_row_statistics weft_softmax_statistics(const char *function, weft_tensor *a, int dim);

/* Elements that the dimensions of the mask have together. */
double weft_count_along(const weft_layout *layout, int64_t mask);

#endif
