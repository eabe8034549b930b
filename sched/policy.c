#include "sched/sched.h"

#include <limits.h>
#include <stdlib.h>

const char *weft_sched_policy_name(void)
{
    /* One queue, by priority. With lws, a queue per worker without priorities, a program of two hosts and 1
     * Gbit/s kept its worker busy for 80 % of a step, with this for 94 %. */
    return getenv("STARPU_SCHED") == NULL ? "prio" : NULL;
}

int weft_sched_priority(uint64_t order)
{
    /* Begins anew every two billion tasks: that costs a moment's order, nothing else. */
    return -(int)(order % INT_MAX);
}
