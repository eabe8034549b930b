#include "runtime/runtime.h"
#include "sched/sched.h"

void weft_pause_workers(void)
{
    weft_runtime.paused = true;
    weft_sched_pause();
}

void weft_resume_workers(void)
{
    weft_runtime.paused = false;
    weft_sched_resume();
}
