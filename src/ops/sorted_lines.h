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

/* Of values along dimension attributes.leading, whose indices are output 1. */
bool weft_gradient_of_order(const weft_gradient *of);
/* The first k values along a dimension of a live tensor, by a task that has whole lines (sorting.c). NULL with the error kept. */
weft_tensor *weft_first_values(const char *function, weft_tensor *a, int dim, int64_t k, bool descending, weft_tensor **indices);

/* ---- both kinds (sorted_lines.c) ---------------------------------------------------------------------------------------- */

/* The only mesh dimension that cuts a dimension; -1: none or several do, or the tensor is Partial, or parts are no runs. */
int weft_cutting_dim(const weft_layout *layout, int dim);
/* Whether the tensor's values are there, in memory, and calls on them are carried out at once. The same on all processes. */
bool weft_works_in_parts(const weft_tensor *a);
/* Carries an action out as a composite, whose calls nobody sees. */
struct weft_call_signature;
weft_status weft_perform_in_parts(const weft_call *call, const struct weft_call_signature *signature, int num_outputs,
                                  bool (*body)(const weft_call *call, weft_tensor *outputs[]), weft_tensor *outputs[]);
/* Makes the call, and gives those of its outputs that are asked for to the innermost scope. False with the error kept. */
bool weft_act_in_parts(const weft_call *call, weft_tensor **values, weft_tensor **indices);

/* For tests: lines from this length on are sorted so; 0: from the usual one on. */
void weft_sort_lines_from(int64_t length);

#endif
