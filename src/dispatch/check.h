/* WEFT_TASK_CACHE=check: whether the tasks that a lowering makes can be right, found without running them. */
#ifndef WEFT_SRC_DISPATCH_CHECK_H
#define WEFT_SRC_DISPATCH_CHECK_H

#include "dispatch/dispatch.h"
#include "tasks/check.h"

/* What the list of a call is checked against: its tensors, inputs first. Returns how many there are. */
int weft_lowered_tensors(const weft_lowering *lowering, weft_task_tensor tensors[]);

/* Of the list that the lowering has appended to, for all hosted shards. False with the error kept. */
bool weft_check_lowered(const weft_lowering *lowering);

#endif
