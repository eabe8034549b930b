/* Explanations of calls of operations, while they are asked for (<weft/explain.h>). */
#include "sharding/explain.h"

#include <stdlib.h>
#include <string.h>

#include "codelets/linear.h"
#include "dispatch/cache.h"
#include "dispatch/inputs.h"
#include "runtime/codelets.h"
#include "tensor/explained.h"

static const char indent[] = "    ";

/* ---- tasks --------------------------------------------------------------------------------------------- */

/* Work of a call on this process. */
typedef struct workload {
    const weft_layout *layouts[WEFT_MAX_INPUTS + WEFT_MAX_OUTPUTS]; /* of the list's tensors */
    const weft_task_list *list;
    void *arguments; /* room for one task's */
    double us;       /* predicted, one after another */
    int64_t bytes;   /* read and written by tasks */
} workload;

static int64_t slot_bytes(const workload *w, const weft_slot *slot)
{
    if (slot->tensor == WEFT_TEMPORARY) {
        return ((const weft_temporary *)w->list->temporaries.items)[slot->panel].bytes;
    }
    const weft_layout *layout = w->layouts[slot->tensor];
    weft_shard_info shard = weft_layout_shard(layout, weft_runtime.first_rank + slot->shard);
    int64_t first, last;
    weft_panel_range(layout, &shard.box, slot->panel, &first, &last);
    return (last - first) * weft_row_elements(layout->ndim, &shard.box) *
           (int64_t)weft_dtype_size(layout->dtype);
}

/* By bytes, and of products by their operations. */
static void add_task(workload *w, const weft_task *task)
{
    const weft_machine *machine = &weft_runtime.machine;
    int64_t bytes = 0;
    for (uint32_t i = 0; i < task->num_operands; i++) {
        const weft_task_operand *operand = weft_task_operand_at(w->list, task, i);
        bytes += slot_bytes(w, weft_task_list_slots(w->list) + operand->slot) - operand->offset;
    }
    double us = (double)bytes / machine->copy_bytes_per_us;
    if (task->kernel == WEFT_KERNEL_matmul) {
        const weft_gemm *g =
            &((const weft_gemm_args *)weft_task_arguments(w->list, task, w->arguments))->gemm;
        double product = 2.0 * (double)g->m * (double)g->n * (double)g->k / machine->product_flops_per_us;
        us = product > us ? product : us;
    }
    w->bytes = weft_add_saturated(w->bytes, bytes);
    w->us += us + machine->task_us;
}

static int compare_kernels(const void *a, const void *b)
{
    weft_kernel_id x = *(const weft_kernel_id *)a, y = *(const weft_kernel_id *)b;
    return x < y ? -1 : x > y;
}

/* " (8 matmul, 4 reduce)" */
static void print_kernels(const weft_task_list *list, FILE *file)
{
    size_t count = list->tasks.count;
    weft_kernel_id *kernels = malloc((count + 1) * sizeof(*kernels));
    if (kernels == NULL || count == 0) {
        free(kernels);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        kernels[i] = weft_task_list_tasks(list)[i].kernel;
    }
    qsort(kernels, count, sizeof(*kernels), compare_kernels);
    for (size_t i = 0, next; i < count; i = next) {
        for (next = i; next < count && kernels[next] == kernels[i]; next++) {
        }
        fprintf(file, "%s%zu %s", i == 0 ? " (" : ", ", next - i, weft_codelet_of(kernels[i])->info->name);
    }
    fprintf(file, ")");
    free(kernels);
}

static int num_workers(void)
{
    int count = weft_runtime.world == WEFT_WORLD_FAKE ? 0 : (int)starpu_cpu_worker_get_count();
    return count > 0 ? count : 1;
}

static void print_tasks(workload *w, double moves_us, FILE *file)
{
    const weft_task_list *list = w->list;
    w->arguments = malloc(list->max_arguments + sizeof(uint64_t));
    if (w->arguments == NULL) {
        return;
    }
    for (size_t i = 0; i < list->tasks.count; i++) {
        add_task(w, weft_task_list_tasks(list) + i);
    }
    free(w->arguments);
    fprintf(file, "%stasks of this process: %zu", indent, list->tasks.count);
    print_kernels(list, file);
    fprintf(file, " on %lld bytes\n", (long long)w->bytes);
    fprintf(file, "%spredicted: %.1f us of transfers, %.1f us of tasks\n", indent,
            moves_us < 0 ? 0 : moves_us, w->us / num_workers());
}

/* ---- calls --------------------------------------------------------------------------------------------- */

static void print_rule(const weft_call_layouts *call, FILE *file)
{
    const weft_operation *operation = call->operation;
    char text[160] = "";
    if (operation->write_rule != NULL) {
        operation->write_rule(call, text, sizeof(text));
    }
    const char *rule = operation->write_rule != NULL ? text : operation->rules[call->attributes->rule];
    fprintf(file, "  %s%s%s\n", operation->name, rule == NULL ? "" : "  ", rule == NULL ? "" : rule);
}

static void explain_tasks(const weft_call *call, const weft_explanation *e, FILE *file)
{
    weft_task_list list = { .failed = false };
    workload w = { .list = &list };
    if (e->call->operation->views || e->call->operation->overwrites) {
        fprintf(file, "%sno tasks where the output can share an input's memory; else:\n", indent);
    }
    if (weft_dispatch_lower(call, &e->sharding, w.layouts, &list)) {
        print_tasks(&w, weft_explanation_moves_us(e), file);
    }
    weft_task_list_free(&list);
}

void weft_explain_dispatch(const weft_call *call, weft_tensor_impl *const inputs[])
{
    FILE *file = weft_explained_file();
    if (file == NULL) {
        return;
    }
    const weft_sharding_world world = { .table = weft_runtime.layouts,
                                        .topology = &weft_runtime.topology,
                                        .cost = &weft_runtime.cost,
                                        .rules = weft_rules() };
    weft_call_layouts layouts = { call->operation, call->num_inputs, { NULL }, &call->attributes };
    int guessed;
    if (!weft_gather_layouts(call, inputs, layouts.inputs, &guessed)) {
        return;
    }
    weft_explanation e;
    char why[400] = "";
    print_rule(&layouts, file);
    if (weft_explanation_make(&world, &layouts, &e, why, sizeof(why)) != WEFT_OK) {
        fprintf(file, "%sno memory for an explanation\n", indent);
        return;
    }
    for (int i = 1; i < call->num_inputs; i++) {
        for (int k = 0; k < i && e.same_as[i] < 0; k++) {
            bool same = call->inputs[k] == call->inputs[i] && e.sharding.inputs[k] == e.sharding.inputs[i];
            e.same_as[i] = same ? k : -1;
        }
    }
    if (weft_explanation_print(&e, indent, file) == WEFT_OK) {
        explain_tasks(call, &e, file);
    }
    weft_explanation_free(&e);
}
