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

/* Whether StarPU's models may be asked how long a task takes. */
typedef bool (*weft_sched_asks)(struct starpu_task *task);
/* Before the first task, under that policy: tasks that CPUs and devices can execute go to those that are expected to end first,
 * where models know that. `explores`: where they do not, tasks are executed by all kinds in turn. */
void weft_sched_use_models(weft_sched_asks asks, bool explores);
/* Until weft_sched_resume() no worker takes a task; all sleep when they have ended theirs. One thread calls both. With
 * another policy: starpu_pause() and starpu_resume(). */
void weft_sched_pause(void);
void weft_sched_resume(void);
/* Before starpu_shutdown(), which waits for sleepers otherwise. */
void weft_sched_stop(void);
/* Sleeping workers; 0 with another policy, and with StarPU's drivers that block. Any thread. */
int weft_sched_asleep(void);
/* For tests: how often a worker's sleep was over while tasks waited that had woken no worker. */
unsigned weft_sched_missed(void);

/* The priority of a task of operation number `operation`, in the order of submission or of a graph's pass "order" (it may be negative:
 * before the first one), whose rows begin at `position` of the tensor's (0: the first, below 1). */
int weft_sched_priority(int64_t operation, double position);

#endif
