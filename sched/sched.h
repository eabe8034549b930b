/* sched: how StarPU orders ready tasks. Knows tasks and priorities, not tensors.
 *
 * Today this only names the policy of StarPU's own that weft asks for. A policy of weft's own has to beat StarPU's on
 * weft's graphs, measured, or it will not exist. */
#ifndef WEFT_SCHED_H
#define WEFT_SCHED_H

/* The policy for starpu_conf; NULL: STARPU_SCHED in the environment says. */
const char *weft_sched_policy_name(void);

#endif
