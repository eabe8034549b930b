/* Runs a weft_kernel on the panels of a task. */
#include "codelets/kernel.h"

static weft_view view_of(const weft_kernel_operand *operand, void *const *pointers)
{
    weft_view view = operand->view;
    view.panels = pointers + operand->first_panel;
    return view;
}

static void kernel_cpu(void *buffers[], void *argument)
{
    weft_kernel_args *args = argument;
    void **pointers = (void **)(args->panels + args->num_panels);
    for (int i = 0; i < args->num_panels; i++) {
        const weft_task_operand *panel = &args->panels[i];
        pointers[i] = (char *)STARPU_VARIABLE_GET_PTR(buffers[panel->buffer]) + panel->offset;
    }
    weft_kernel_call call = {
        .output = view_of(&args->output, pointers),
        .num_inputs = args->num_inputs,
        .first = args->first,
        .last = args->last,
        .numbers = args->numbers,
        .scalars = args->scalars,
        .function = args->function,
        .fail = args->fail,
    };
    for (int i = 0; i < args->num_inputs; i++) {
        call.inputs[i] = view_of(&args->inputs[i], pointers);
    }
    args->kernel(&call);
}

/* StarPU 1.4 reads one for each of a task's buffers, used or not; those in the codelet are STARPU_NMAXBUFS.
 */
static int nodes[WEFT_KERNEL_MAX_PANELS];

struct starpu_codelet weft_codelet_kernel = {
    .cpu_funcs = { kernel_cpu },
    .cpu_funcs_name = { "kernel_cpu" },
    .nbuffers = STARPU_VARIABLE_NBUFFERS,
    .dyn_nodes = nodes,
    .name = "weft_kernel",
    .color = WEFT_COLOR_OTHER,
};
