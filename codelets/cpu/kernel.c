/* Runs a weft_kernel on the panels of a task. */
#include "codelets/kernel.h"

static weft_view view_of(const weft_kernel_operand *operand, void *const *pointers)
{
    weft_view view = operand->view;
    view.panels = pointers + operand->first_panel;
    return view;
}

static void kernel_cpu(void *buffers[], const weft_task_run *run)
{
    const weft_kernel_args *args = run->arguments;
    for (int i = 0; i < run->num_operands; i++) {
        run->pointers[i] = weft_task_pointer(buffers, run, i);
    }
    weft_kernel_call call = {
        .output = view_of(&args->operands[0], run->pointers),
        .num_inputs = args->num_inputs,
        .first = args->first,
        .last = args->last,
        .numbers = args->numbers,
        .scalars = run->scalars,
        .function = run->function,
        .operation = run->operation,
        .fail = run->fail,
    };
    for (int i = 0; i < args->num_inputs; i++) {
        call.inputs[i] = view_of(&args->operands[1 + i], run->pointers);
    }
    args->kernel(&call);
}

/* StarPU 1.4 reads one for each of a task's buffers, used or not; those in the codelet are STARPU_NMAXBUFS.
 */
static int nodes[WEFT_KERNEL_MAX_PANELS];

static struct starpu_codelet kernel_codelet = {
    .cpu_funcs = { weft_run_task },
    .cpu_funcs_name = { "weft_run_task" },
    .nbuffers = STARPU_VARIABLE_NBUFFERS,
    .dyn_nodes = nodes,
    .name = "weft_kernel",
    .color = WEFT_COLOR_OTHER,
};

const weft_kernel_entry weft_entry_kernel = { "weft_kernel", &kernel_codelet, kernel_cpu,
                                              weft_kernel_call_accesses };
