/* Runs a weft_kernel on the panels of a task. */
#include "codelets/kernel.h"
#include "codelets/random.h"

static weft_view view_of(const weft_kernel_args *args, int operand, void *const *pointers)
{
    weft_view view = weft_kernel_view(args, operand);
    view.panels = pointers + args->operands[operand].first_panel;
    return view;
}

void weft_views_call(const weft_task_run *run, weft_kernel_call *call)
{
    const weft_kernel_args *args = run->arguments;
    *call = (weft_kernel_call){
        .num_outputs = args->num_outputs,
        .num_inputs = args->num_inputs,
        .first = args->first,
        .last = args->last,
        .numbers = args->numbers,
        .scalars = run->scalars,
        .function = run->function,
        .error = run->error,
        .context = run->context,
    };
    if (run->cpu->draws) {
        call->random = weft_random_state_of(run->scalars);
        call->scalars += WEFT_RANDOM_OWN;
    }
    for (int i = 0; i < args->num_outputs; i++) {
        call->outputs[i] = view_of(args, i, run->operands);
    }
    for (int i = 0; i < args->num_inputs; i++) {
        call->inputs[i] = view_of(args, args->num_outputs + i, run->operands);
    }
}

void weft_cpu_views(const weft_task_run *run)
{
    weft_kernel_call call;
    weft_views_call(run, &call);
    run->cpu->views(&call);
}
