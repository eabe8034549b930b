/* Shared by operations on whole rows. If rows are sharded, they are computed from statistics: one value
 * per row, in tensors whose reduced dimensions have size 1. */
#ifndef WEFT_SRC_OPS_ROW_REDUCE_H
#define WEFT_SRC_OPS_ROW_REDUCE_H

#include "ops/ops.h"

/* How a rule's letters are written for a tensor's dimensions; "the chosen" are those of a mask (bit d:
 * dimension d). */
typedef enum weft_letters_style {
    WEFT_LETTERS_ALL,    /* "a*b*c*" */
    WEFT_LETTERS_WHOLE,  /* "a*[b]c*": the chosen must not be sharded */
    WEFT_LETTERS_CHUNKS, /* "a*bc*": the chosen are cut into chunks alone */
    WEFT_LETTERS_ONES,   /* "a1c": the chosen have size 1 */
    WEFT_LETTERS_CHOSEN, /* "b": no others */
    WEFT_LETTERS_OTHERS  /* "1b1": the others have size 1 */
} weft_letters_style;

enum { WEFT_LETTERS_SIZE = 3 * WEFT_MAX_DIMS + 1 };

/* Into `text`, of at least WEFT_LETTERS_SIZE characters; returns it. */
const char *weft_write_letters(char *text, int ndim, int64_t mask, weft_letters_style style);

/* Whether a rank may have only a part of a row along the mask's dimensions. */
bool weft_is_cut(const weft_layout *layout, int64_t mask);

/* Redistributes the tensor like `like`, which has equally many dimensions: on its mesh, sharded alike but
 * in the mask's dimensions, and not Partial. NULL for NULL, or with the error kept. */
weft_tensor *weft_place_like(const char *function, weft_tensor *tensor, const weft_layout *like,
                             int64_t mask);

/* scale (0: 1) times a sum over the mask's dimensions, in double precision (reductions.c). */
typedef enum weft_row_statistic {
    WEFT_STATISTIC_SUM,
    WEFT_STATISTIC_SQUARES,    /* of squares */
    WEFT_STATISTIC_DIFFERENCES /* of squared differences from `centre`, which has size 1 there */
} weft_row_statistic;
weft_tensor *weft_sum_statistic(const char *function, weft_row_statistic kind, weft_tensor *a,
                                weft_tensor *centre, int64_t mask, double scale);

/* For softmax along a dimension of a tensor without Partial: each row's maximum, and the sum of
 * exponentials of the differences from it; placed like the tensor. `sum` is NULL with the error kept
 * (softmax.c). */
typedef struct weft_row_statistics {
    weft_tensor *largest, *sum;
} weft_row_statistics;
weft_row_statistics weft_softmax_statistics(const char *function, weft_tensor *a, int dim);

/* Number of elements along the mask's dimensions. */
double weft_count_along(const weft_layout *layout, int64_t mask);

#endif
