/* How a task begins on a CPU: one function for all codelets, which finds the kernel's own. */
#include "codelets/args.h"

void weft_run_task(void *buffers[], void *argument)
{
    const weft_task_run *run = argument;
    run->kernel->cpu(buffers, run);
}
