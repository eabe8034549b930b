/* Sorting of a line that ranks hold parts of, without bringing it together. */
#ifndef WEFT_SRC_OPS_SORTED_LINES_H
#define WEFT_SRC_OPS_SORTED_LINES_H

#include "ops/ops.h"

/* Whether weft_sort_line() takes this tensor now: a long vector, cut along one mesh dimension, with values. The same on all processes. */
bool weft_sorts_line(const weft_tensor *a);
/* Sorts it: a new vector in the same layout, and its indices likewise; either may be NULL: not wanted. BLOCKS for the counts. False with the
 * error kept. */
bool weft_sort_line(const char *function, weft_tensor *a, bool descending, weft_tensor **values, weft_tensor **indices);

/* The first k elements of the order along a dimension, in parts (first_of_lines.c): whether weft_take_first() does it now, and doing it, as
 * above. */
bool weft_takes_first(const weft_tensor *a, int dim, int64_t k);
bool weft_take_first(const char *function, weft_tensor *a, int dim, int64_t k, bool largest, weft_tensor **values, weft_tensor **indices);

/* The gradient of values that a call took along dimension attributes.leading; output 1 of the call is their indices. */
bool weft_gradient_of_order(const weft_gradient *of);
/* The first k values along a dimension of a live tensor, by a task that has whole lines (sorting.c). NULL with the error kept. */
weft_tensor *weft_first_values(const char *function, weft_tensor *a, int dim, int64_t k, bool descending, weft_tensor **indices);

/* For tests: lines from this length on are sorted so; 0: from the usual one on. */
void weft_sort_lines_from(int64_t length);

#endif
