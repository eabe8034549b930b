/* Sorting of a line that ranks hold parts of, without bringing it together. */
#ifndef WEFT_SRC_OPS_SORTED_LINES_H
#define WEFT_SRC_OPS_SORTED_LINES_H

#include "ops/ops.h"

/* Whether weft_sort_line() takes this tensor now: a long vector, cut along one mesh dimension, with values. The same on all processes. */
bool weft_sorts_line(const weft_tensor *a);
/* Sorts it: a new vector in the same layout, and its indices likewise; either may be NULL: not wanted. BLOCKS for the counts. False with the
 * error kept. */
bool weft_sort_line(const char *function, weft_tensor *a, bool descending, weft_tensor **values, weft_tensor **indices);

/* Of values along dimension attributes.leading, whose indices are output 1. */
bool weft_gradient_of_order(const weft_gradient *of);

/* For tests: lines from this length on are sorted so; negative: from the usual one on. */
void weft_sort_lines_from(int64_t length);

#endif
