/* Which calls are fused, and which of them together. */
#include <string.h>

#include "codelets/elementwise.h"
#include "codelets/kernel.h"
#include "graph/fuse/fuse.h"

/* ---- which calls ----------------------------------------------------------------------------------------- */

/* Kernels on views that treat each element, or each row, by itself. */
static bool is_pointwise(weft_kernel_id kernel)
{
    return weft_kernel_is_elementwise(kernel) || kernel == WEFT_KERNEL_adam || kernel == WEFT_KERNEL_sgd_momentum;
}

static bool is_by_rows(weft_kernel_id kernel)
{
    static const weft_kernel_id all[] = { WEFT_KERNEL_softmax,          WEFT_KERNEL_log_softmax,
                                          WEFT_KERNEL_softmax_backward, WEFT_KERNEL_log_softmax_backward,
                                          WEFT_KERNEL_norm,             WEFT_KERNEL_norm_backward };
    bool found = is_pointwise(kernel);
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(all) && !found; i++) {
        found = all[i] == kernel;
    }
    return found;
}

static bool shards_rows(const weft_layout *layout, int dim)
{
    return layout->placements[dim].kind == WEFT_SHARD && layout->placements[dim].dim == 0;
}

bool weft_layouts_share_rows(const weft_layout *a, const weft_layout *b)
{
    bool same = a->mesh == b->mesh && (a->ndim == 0) == (b->ndim == 0) && (a->ndim == 0 || a->shape[0] == b->shape[0]);
    for (int d = 0; same && a->ndim > 0 && d < a->mesh->ndim; d++) {
        same = shards_rows(a, d) == shards_rows(b, d) &&
               (!shards_rows(a, d) || weft_placement_equal(a->placements[d], b->placements[d]));
    }
    return same;
}

/* Operands of elementwise kernels: the output, and the inputs. */
static void list_elementwise(const weft_cluster_building *b, const weft_graph_node *node, weft_lowered *call)
{
    const weft_layout *output = weft_trace_layout(b->trace, node->outputs[0]);
    bool changes = weft_call_changes(node->call, 0);
    call->operands[call->num_operands++] =
        (weft_fused_operand){ node->outputs[0], true, changes ? WEFT_SLOT_READ_WRITE : WEFT_SLOT_WRITE };
    for (int i = 0; i < node->num_inputs; i++) {
        const weft_layout *own = weft_trace_layout(b->trace, node->inputs[i]);
        bool moves = own->ndim == output->ndim && (own->ndim == 0 || own->shape[0] == output->shape[0]);
        int value = changes && i == 0 ? node->outputs[0] : node->inputs[i];
        call->operands[call->num_operands++] = (weft_fused_operand){ value, moves, WEFT_SLOT_READ };
    }
}

/* Operands of kernels on views: the outputs, and the inputs that are not changed. False: they do not go by rows. */
static bool list_views(const weft_graph_node *node, const weft_sharding *sharding, weft_lowered *call)
{
    bool by_rows = !sharding->whole_rows && !node->call->operation->accumulates;
    for (int i = 0; i < node->num_outputs && by_rows; i++) {
        bool changes = weft_call_changes(node->call, i);
        by_rows = i == 0 || sharding->output_rows[i] == WEFT_ROWS_SAME;
        call->operands[call->num_operands++] =
            (weft_fused_operand){ node->outputs[i], true, changes ? WEFT_SLOT_READ_WRITE : WEFT_SLOT_WRITE };
    }
    for (int i = 0; i < node->num_inputs && by_rows; i++) {
        weft_rows_relation rows = sharding->rows[i];
        by_rows = rows == WEFT_ROWS_SAME || rows == WEFT_ROWS_ALL;
        if (i >= node->num_outputs || !weft_call_changes(node->call, i)) {
            call->operands[call->num_operands++] =
                (weft_fused_operand){ node->inputs[i], rows == WEFT_ROWS_SAME, WEFT_SLOT_READ };
        }
    }
    return by_rows;
}

/* Whether each rank has the same rows of all operands that move. The others are read whole by every task; an elementwise
 * kernel sees one panel of them. */
static bool has_fitting_layouts(const weft_cluster_building *b, const weft_lowered *call, bool elementwise)
{
    bool fit = true;
    for (int i = 0; i < call->num_operands && fit; i++) {
        const weft_layout *own = weft_fused_layout(b, &call->operands[i]);
        fit = call->operands[i].moves ? weft_layouts_share_rows(own, weft_fused_layout(b, &call->operands[0]))
                                      : !elementwise || own->ndim == 0 || own->shape[0] <= own->panel_rows;
    }
    return fit;
}

/* Whether the arguments of all tasks of a rank differ in nothing but the rows: then those of any rows follow. */
static bool has_even_elementwise_tasks(const weft_lowered *call, weft_kernel_id kernel)
{
    weft_elementwise_args first, own;
    int shard = -1;
    bool even = true;
    for (size_t i = 0; i < call->tasks.tasks.count && even; i++) {
        const weft_task *task = weft_task_list_tasks(&call->tasks) + i;
        even = task->kernel == kernel && (int)task->num_operands == call->num_operands &&
               weft_task_block_of(&call->tasks, task)->size == sizeof(own);
        if (!even) {
            break;
        }
        memset(&own, 0, sizeof(own));
        weft_task_arguments(&call->tasks, task, &own);
        own.extent[0] = 0;
        const weft_slot *slot = &weft_task_list_slots(&call->tasks)[weft_task_operand_at(&call->tasks, task, 0)->slot];
        even = slot->shard != shard || memcmp(&own, &first, sizeof(own)) == 0;
        first = own;
        shard = slot->shard;
        int64_t size = 1;
        for (int d = own.ndim - 1; d > 0 && even; d--) { /* whole rows */
            even = own.stride[0][d] == size;
            size *= own.extent[d];
        }
    }
    return even;
}

/* Whether a task of each rank has arguments that can be narrowed to any rows. */
static bool has_even_view_tasks(const weft_lowered *call, weft_kernel_id kernel)
{
    bool even = true;
    for (size_t i = 0; i < call->tasks.tasks.count && even; i++) {
        const weft_task *task = weft_task_list_tasks(&call->tasks) + i;
        size_t size = weft_task_block_of(&call->tasks, task)->size;
        even = task->kernel == kernel && size <= WEFT_MAX_TILE_ARGUMENTS;
        if (even) {
            char memory[WEFT_MAX_TILE_ARGUMENTS + 16];
            const weft_kernel_args *args = weft_task_arguments(&call->tasks, task, memory);
            even = args->first && args->last && args->num_outputs + args->num_inputs == call->num_operands &&
                   size == weft_kernel_args_size(call->num_operands, 0);
        }
    }
    return even;
}

void weft_fuse_examine(const weft_cluster_building *b, const weft_graph_node *node, const weft_sharding *sharding,
                       weft_lowered *call)
{
    weft_kernel_id kernel = node->call->operation->kernel;
    bool elementwise = weft_kernel_is_elementwise(kernel);
    if (!is_by_rows(kernel) || node->num_inputs + node->num_outputs > WEFT_MAX_FUSED_OPERANDS ||
        (!elementwise && node->call->operation->lower != NULL)) {
        return;
    }
    call->pointwise = is_pointwise(kernel);
    if (elementwise) {
        list_elementwise(b, node, call);
    }
    call->fuses = (elementwise || list_views(node, sharding, call)) && has_fitting_layouts(b, call, elementwise) &&
                  (elementwise ? has_even_elementwise_tasks : has_even_view_tasks)(call, kernel);
}

/* ---- which calls together -------------------------------------------------------------------------------- */

/* Whether one of the calls from `from` to `to` has the value, by rows; or reads it whole (`moves` false). [first, last]: those
 * considered together. */
static bool has_operand(const weft_cluster_building *b, int first, int from, int to, int last, int value, bool moves)
{
    bool found = false;
    int home = weft_cluster_home(b, first, last, value);
    for (int n = from; n <= to && !found; n++) {
        const weft_lowered *call = &b->calls[n];
        for (int i = 0; i < call->num_operands && !found; i++) {
            found = call->operands[i].moves == moves &&
                    weft_cluster_home(b, first, last, call->operands[i].value) == home;
        }
    }
    return found;
}

/* Whether two calls have a value in common by rows. `last`: of those considered together. */
static bool share_value(const weft_cluster_building *b, int first, int last, int one, int other)
{
    const weft_lowered *call = &b->calls[other];
    bool share = false;
    for (int i = 0; i < call->num_operands && !share; i++) {
        share = call->operands[i].moves && has_operand(b, first, one, one, last, call->operands[i].value, true);
    }
    return share;
}

/* Whether a call has the rows of those before it, and reads whole no value that they, or it, make by rows. */
static bool fits_behind(const weft_cluster_building *b, int first, int number)
{
    const weft_lowered *call = &b->calls[number], *leader = &b->calls[first];
    bool fits = call->fuses && weft_layouts_share_rows(weft_fused_layout(b, &leader->operands[0]),
                                                       weft_fused_layout(b, &call->operands[0]));
    for (int i = 0; i < call->num_operands && fits; i++) {
        const weft_fused_operand *operand = &call->operands[i];
        bool clashes = operand->moves ? (operand->access & WEFT_SLOT_WRITE) &&
                                            has_operand(b, first, first, number, number, operand->value, false)
                                      : has_operand(b, first, first, number, number, operand->value, true);
        fits = !clashes;
    }
    return fits;
}

/* All calls are connected by values. A call that shares none with those before it is fused if a later one connects it. */
int weft_fuse_find(const weft_cluster_building *b, int first)
{
    int last = first, count = (int)b->trace->nodes.count, num_parts = 1;
    int parts[WEFT_MAX_FUSED_CALLS] = { 0 }; /* by call: its connected part, numbered by one of its calls */
    for (int n = first + 1; b->calls[first].fuses && n < count && n - first < WEFT_MAX_FUSED_CALLS; n++) {
        if (weft_cluster_ends_at_random(n) || !fits_behind(b, first, n)) {
            break;
        }
        int own = parts[n - first] = n - first;
        num_parts++;
        for (int m = first; m < n; m++) {
            int other = parts[m - first];
            if (other == own || !share_value(b, first, n, m, n)) {
                continue;
            }
            num_parts--;
            for (int k = first; k <= n; k++) {
                parts[k - first] = parts[k - first] == other ? own : parts[k - first];
            }
        }
        last = num_parts == 1 ? n : last;
    }
    return last;
}

/* Elementwise kernels read the target as an input, so that they can write somewhere else. */
void weft_fuse_drop_changes(weft_cluster_building *b, int first, int last)
{
    for (int n = first; n <= last; n++) {
        const weft_graph_node *node = weft_trace_node(b->trace, (size_t)n);
        weft_lowered *call = &b->calls[n];
        int value = node->outputs[0];
        bool drops = weft_kernel_is_elementwise(node->call->operation->kernel) && b->takes[value] >= 0 &&
                     b->defined[b->takes[value]] < first && !b->is_promised[value] && !b->is_changed[value] &&
                     weft_trace_value(b->trace, value)->last_use <= last;
        if (drops) {
            b->takes[value] = -1;
            call->operands[0].access = WEFT_SLOT_WRITE;
            call->operands[1].value = node->inputs[0];
        }
    }
}
