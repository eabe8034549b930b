/* Calls on lines that ranks hold parts of: sorted_lines.c, first_of_lines.c. */
#ifndef WEFT_SRC_OPS_LINE_PARTS_H
#define WEFT_SRC_OPS_LINE_PARTS_H

#include "comm/check_spmd.h"
#include "ops/ops.h"

/* The only mesh dimension that cuts a dimension; -1: none or several do, or the tensor is Partial, or parts are no runs. */
int weft_cutting_dim(const weft_layout *layout, int dim);
/* Whether the tensor's values are there, in memory, calls on them are carried out at once, and no strict region is open, which refuses
 * what moves in them. The same on all processes. */
bool weft_works_in_parts(const weft_tensor *a);
/* Carries an action out as a composite, whose calls nobody sees. */
weft_status weft_perform_in_parts(const weft_call *call, const weft_call_signature *signature, int num_outputs,
                                  bool (*body)(const weft_call *call, weft_tensor *outputs[]), weft_tensor *outputs[]);
/* Makes the call, and gives those of its outputs that are asked for to the innermost scope. False with the error kept. */
bool weft_act_in_parts(const weft_call *call, weft_tensor **values, weft_tensor **indices);

#endif
