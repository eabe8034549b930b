/* sched: which of the ready tasks runs first. Knows tasks and priorities, not tensors.
 *
 * A program submits first what it needs first. Of operations that follow each other panel by panel, the
 * first panel should go all the way: it can then leave for another process while the others are computed.
 * Operation after operation, all panels would be complete together at the very end. So a task's priority
 * is a diagonal: the number of its operation plus the position of its rows. */
#ifndef WEFT_SCHED_H
#define WEFT_SCHED_H

#include <stdbool.h>

#include <starpu.h>

/* The policy for starpu_conf; NULL: STARPU_SCHED names another one. */
struct starpu_sched_policy *weft_sched_policy(void);
/* After starpu_init() with that policy. False: no memory for its queue; then no task may be submitted. */
bool weft_sched_has_started(void);

/* The priority of a task of operation number `operation`, in the order of submission or of a graph's pass "order", whose rows begin at
 * `position` of the tensor's (0: the first, below 1). */
int weft_sched_priority(uint64_t operation, double position);

#endif
