/* Runs a weft_local_function. A shard is one piece of memory where StarPU has one memory node for CPUs; where its
 * panels lie on several (STARPU_USE_NUMA=1), the function gets a copy in one piece. */
#include "codelets/local.h"

#include <stdlib.h>
#include <string.h>

static int64_t panel_begin(const weft_local_operand *operand, int panel)
{
    return panel == 0 ? 0 : operand->first_bytes + (panel - 1) * operand->step_bytes;
}

static int64_t panel_end(const weft_local_operand *operand, int panel)
{
    int64_t end = operand->first_bytes + panel * operand->step_bytes;
    return end < operand->total_bytes ? end : operand->total_bytes;
}

static bool in_one_piece(const weft_local_operand *operand, void *const panels[])
{
    bool one = true;
    for (int i = 1; i < operand->num_panels && one; i++) {
        one = (char *)panels[i] == (char *)panels[0] + panel_begin(operand, i);
    }
    return one;
}

static void copy_panels(const weft_local_operand *operand, void *const panels[], char *piece, bool to_panels)
{
    for (int i = 0; i < operand->num_panels; i++) {
        int64_t begin = panel_begin(operand, i);
        size_t bytes = (size_t)(panel_end(operand, i) - begin);
        memcpy(to_panels ? panels[i] : piece + begin, to_panels ? piece + begin : panels[i], bytes);
    }
}

/* Without memory the outputs are zeros. */
static void zero_outputs(const weft_local_args *args, void *const pointers[])
{
    for (int i = args->num_inputs; i < args->num_inputs + args->num_outputs; i++) {
        const weft_local_operand *operand = &args->operands[i];
        for (int p = 0; p < operand->num_panels; p++) {
            memset(pointers[operand->first_panel + p], 0,
                   (size_t)(panel_end(operand, p) - panel_begin(operand, p)));
        }
    }
}

/* False: no memory. */
static bool assemble(const weft_local_args *args, void *const pointers[], weft_local_tensor tensors[])
{
    int count = args->num_inputs + args->num_outputs;
    bool done = true;
    for (int i = 0; i < count && done; i++) {
        const weft_local_operand *operand = &args->operands[i];
        void *const *panels = pointers + operand->first_panel;
        tensors[i] = operand->tensor;
        if (operand->num_panels == 0 || in_one_piece(operand, panels)) {
            tensors[i].data = operand->num_panels == 0 ? NULL : panels[0];
            continue;
        }
        tensors[i].data = malloc((size_t)operand->total_bytes);
        done = tensors[i].data != NULL;
        if (done && i < args->num_inputs) {
            copy_panels(operand, panels, tensors[i].data, false);
        }
    }
    return done;
}

static void give_back(const weft_local_args *args, void *const pointers[], const weft_local_tensor tensors[],
                      bool written)
{
    for (int i = 0; i < args->num_inputs + args->num_outputs; i++) {
        const weft_local_operand *operand = &args->operands[i];
        void *const *panels = pointers + operand->first_panel;
        if (tensors[i].data == NULL || tensors[i].data == panels[0]) {
            continue;
        }
        if (written && i >= args->num_inputs) {
            copy_panels(operand, panels, tensors[i].data, true);
        }
        free(tensors[i].data);
    }
}

static void local_cpu(void *buffers[], const weft_task_run *run)
{
    const weft_local_args *args = run->arguments;
    int count = args->num_inputs + args->num_outputs;
    for (int i = 0; i < run->num_operands; i++) {
        run->pointers[i] = weft_task_pointer(buffers, run, i);
    }
    char *copied = (char *)(uintptr_t)run->arguments + weft_local_context_offset(count);
    const char *name = copied + args->context_size;
    weft_local_tensor *tensors = calloc((size_t)count, sizeof(*tensors));
    bool whole = tensors != NULL && assemble(args, run->pointers, tensors);
    if (whole) {
        args->function(&(weft_local_call){
            .rank = args->rank,
            .num_inputs = args->num_inputs,
            .num_outputs = args->num_outputs,
            .inputs = tensors,
            .outputs = tensors + args->num_inputs,
            .context = args->context_size > 0 ? copied : args->context,
            .function = name,
            .operation = run->operation,
            .fail = run->fail,
        });
    } else {
        run->fail(run->operation, WEFT_ERR_NOMEM, name, "no memory for the parts of rank %d", args->rank);
        zero_outputs(args, run->pointers);
    }
    if (tensors != NULL) {
        give_back(args, run->pointers, tensors, whole);
    }
    free(tensors);
}

/* StarPU 1.4 reads one for each of a task's buffers, used or not; those in the codelet are STARPU_NMAXBUFS. */
static int nodes[WEFT_LOCAL_MAX_PANELS];

static struct starpu_codelet local_codelet = {
    .cpu_funcs = { weft_run_task },
    .cpu_funcs_name = { "weft_run_task" },
    .nbuffers = STARPU_VARIABLE_NBUFFERS,
    .dyn_nodes = nodes,
    .name = "weft_local_map",
    .color = WEFT_COLOR_OTHER,
};

const weft_kernel_entry weft_entry_local = { "weft_local_map", &local_codelet, local_cpu };
