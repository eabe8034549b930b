/* sched: how StarPU orders ready tasks. Knows tasks and priorities, not tensors.
 *
 * Of the tasks that are ready, the one submitted first runs first. A program submits what is needed first,
 * first; and a chain of tasks on one panel then runs to its end, so that the panel can leave while the next
 * one is computed, instead of all panels being complete together at the very end. A policy of weft's own has
 * to beat this, measured, or it will not exist. */
#ifndef WEFT_SCHED_H
#define WEFT_SCHED_H

#include <starpu.h>

/* The policy for starpu_conf; NULL: STARPU_SCHED in the environment says. */
struct starpu_sched_policy *weft_sched_policy(void);

/* The priority of the task that is number `order` in the order of submission. */
int weft_sched_priority(uint64_t order);

#endif
