/* Where a ready task goes, and whose task an idle device takes: the decisions of the policy, as functions of numbers. PURE. */
#ifndef WEFT_SCHED_CHOICE_H
#define WEFT_SCHED_CHOICE_H

#include <stdbool.h>
#include <stddef.h>

/* The CPUs together, or a device. */
typedef struct weft_sched_place {
    bool can;           /* execute the task */
    bool device;
    size_t waiting;     /* tasks in its queue */
    size_t bytes;       /* of the operands that the task reads: those that are there, or on their way */
    double queued_us;   /* until the tasks before it have ended, where that is known */
    double transfer_us; /* of the operands that are elsewhere */
    double task_us;     /* NaN: StarPU's model does not know it */
} weft_sched_place;

/* The place where the task is expected to end first, if that is known of all that can execute it; else a device before the CPUs,
 * the one that has most of the operands. Among equals the one with the fewest tasks, then the first. `explores`: one whose time is
 * not known comes before all others, so that it becomes known. -1: none can. */
int weft_sched_choose(int count, const weft_sched_place places[], bool explores);

/* The device, not number `own`, that has most tasks, of those with more than it can soon begin; -1: none. */
int weft_sched_victim(int count, const size_t waiting[], int own);

#endif
