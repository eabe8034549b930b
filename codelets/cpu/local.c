/* Runs a weft_local_function. If StarPU has one memory node for CPUs a shard is contiguous; if its panels
 * are on several (STARPU_USE_NUMA=1), the function gets a contiguous copy. */
#include "codelets/local.h"

#include <stdlib.h>
#include <string.h>

#include "codelets/problems.h"

static bool in_one_piece(const weft_local_operand *operand, void *const panels[])
{
    bool one = true;
    for (int i = 1; i < operand->num_panels && one; i++) {
        one = (char *)panels[i] == (char *)panels[0] + weft_local_panel_begin(operand, i);
    }
    return one;
}

static void copy_panels(const weft_local_operand *operand, void *const panels[], char *piece, bool to_panels)
{
    for (int i = 0; i < operand->num_panels; i++) {
        int64_t begin = weft_local_panel_begin(operand, i);
        size_t bytes = (size_t)(weft_local_panel_end(operand, i) - begin);
        memcpy(to_panels ? panels[i] : piece + begin, to_panels ? piece + begin : panels[i], bytes);
    }
}

/* On failure (no memory) new outputs are zeros. */
static void zero_outputs(const weft_local_args *args, void *const pointers[])
{
    for (int i = args->num_inputs + args->num_changed; i < args->num_inputs + args->num_outputs; i++) {
        const weft_local_operand *operand = &args->operands[i];
        for (int p = 0; p < operand->num_panels; p++) {
            memset(pointers[operand->first_panel + p], 0,
                   (size_t)(weft_local_panel_end(operand, p) - weft_local_panel_begin(operand, p)));
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
        if (done && i < args->num_inputs + args->num_changed) {
            copy_panels(operand, panels, tensors[i].data, false);
        }
    }
    for (int i = 0; i < args->num_changed && done; i++) {
        tensors[i] = tensors[args->num_inputs + i];
    }
    return done;
}

static void give_back(const weft_local_args *args, void *const pointers[], const weft_local_tensor tensors[],
                      bool written)
{
    for (int i = 0; i < args->num_inputs + args->num_outputs; i++) {
        const weft_local_operand *operand = &args->operands[i];
        void *const *panels = pointers + operand->first_panel;
        if (i < args->num_changed || tensors[i].data == NULL || tensors[i].data == panels[0]) {
            continue;
        }
        if (written && i >= args->num_inputs) {
            copy_panels(operand, panels, tensors[i].data, true);
        }
        free(tensors[i].data);
    }
}

void weft_cpu_local_map(const weft_task_run *run)
{
    const weft_local_args *args = run->arguments;
    int count = args->num_inputs + args->num_outputs;
    weft_local_tensor *tensors = calloc((size_t)count, sizeof(*tensors));
    bool whole = tensors != NULL && assemble(args, run->operands, tensors);
    if (whole) {
        args->function(&(weft_local_call){
            .rank = args->rank,
            .num_inputs = args->num_inputs,
            .num_outputs = args->num_outputs,
            .inputs = tensors,
            .outputs = tensors + args->num_inputs,
            .context = run->context,
            .function = run->function,
            .error = run->error,
            .random = args->random,
        });
    } else {
        weft_problem_memory(run->error, WEFT_PROBLEM_PARTS, args->rank);
        zero_outputs(args, run->operands);
    }
    if (tensors != NULL) {
        give_back(args, run->operands, tensors, whole);
    }
    free(tensors);
}
