/* WEFT_TASK_CACHE=check: checks a lowering's task list without running it. */
#ifndef WEFT_SRC_DISPATCH_CHECK_H
#define WEFT_SRC_DISPATCH_CHECK_H

#include "dispatch/dispatch.h"
#include "tasks/check.h"

/* The tensors of a call for weft_task_list_check(), inputs first. Returns their number. */
int weft_lowered_tensors(const weft_lowering *lowering, weft_task_tensor tensors[]);

/* Checks the list of a lowering for all hosted shards. False with the error kept. */
bool weft_check_lowered(const weft_lowering *lowering);

#endif
