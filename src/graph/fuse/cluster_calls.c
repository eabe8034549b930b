/* Which calls are clustered or fused, and their tasks. */
#include <string.h>

#include "codelets/optimizers.h"
#include "dispatch/cache.h"
#include "graph/fuse/cluster_build.h"
#include "tensor/actions.h"
#include "tensor/state.h"

/* Limits of a clustered call: bytes of each tensor on a rank. A call of a cluster waits
 * for the calls before it, so that larger ones are better apart, where workers share them. */
enum { MAX_BYTES = 65536, MAX_BYTES_OF_PRODUCTS = 8192, MAX_PANELS = 4 };

/* ---- which calls ----------------------------------------------------------------------------------------- */

/* Bytes on a rank that has as many as any. */
static int64_t bytes_on_rank(const weft_layout *layout, int64_t *num_panels)
{
    weft_shard_info shard = weft_layout_shard(layout, weft_layout_largest_rank(layout));
    *num_panels = shard.num_panels;
    return shard.count * (int64_t)weft_dtype_size(layout->dtype);
}

/* Steps of a composite that change tensors in place, where devices compute: one after the other, and each launch costs. */
static bool is_any_size(const weft_graph_node *node)
{
    bool any = weft_runtime.device_bytes > 0 && node->is_step && node->num_outputs > 0;
    for (int i = 0; i < node->num_outputs && any; i++) {
        any = weft_call_changes(node->call, i);
    }
    return any;
}

static bool is_small(const weft_cluster_building *b, const weft_graph_node *node, int64_t *bytes)
{
    const weft_operation *operation = node->call->operation;
    bool light = weft_kernel_is_elementwise(operation->kernel) || operation->views || weft_kernel_is_step(operation->kernel);
    int64_t most = light ? MAX_BYTES : MAX_BYTES_OF_PRODUCTS, num_panels;
    bool any = is_any_size(node);
    *bytes = 0;
    for (int i = 0; i < node->num_inputs + node->num_outputs; i++) {
        if (node->inputs[i] < 0) {
            continue;
        }
        int64_t own = bytes_on_rank(weft_trace_value(b->trace, node->inputs[i])->layout, &num_panels);
        *bytes += own;
        if (!any && (own > most || num_panels > MAX_PANELS)) {
            return false;
        }
    }
    return true;
}

/* Whether a call may change its input `i` where it is: nobody else needs the former value, and the call reads it as the target
 * alone, or element by element. */
static bool may_change(const weft_cluster_building *b, const weft_graph_node *node, int number, int i)
{
    int former = node->inputs[i], value = node->outputs[i];
    bool may = former >= 0 && value != former && !b->is_promised[former] &&
               weft_trace_value(b->trace, former)->last_use == number;
    for (int k = 0; k < node->num_inputs && may; k++) {
        may = k == i || node->inputs[k] != former || weft_kernel_is_elementwise(node->call->operation->kernel);
    }
    return may;
}

/* Calls of tasks alone, that make new tensors or change tensors whose former values are not needed. */
static bool is_plain(const weft_cluster_building *b, int number)
{
    const weft_graph_node *node = weft_trace_node(b->trace, (size_t)number);
    const weft_call *call = node->call;
    bool plain = !weft_call_is_action(call) && call->details == NULL && call->attributes.omitted == 0 && node->num_inputs > 0 &&
                 !weft_node_has_ghosts(b->trace, node) && !node->implicit &&
                 (!node->without_data || weft_runtime.context.rehearsal != NULL);
    for (int i = 0; i < node->num_outputs && plain; i++) {
        bool changes = weft_call_changes(call, i);
        plain = node->outputs[i] >= 0 && (!changes || may_change(b, node, number, i));
        for (int k = 0; k < node->num_inputs && plain; k++) {
            plain = node->outputs[i] != node->inputs[k];
        }
    }
    for (int i = 0; i < call->num_inputs && plain; i++) {
        plain = call->access_map[i] == NULL;
    }
    return plain;
}

/* Whether all inputs are in the layouts that the call works on. */
static bool works_in_place(const weft_cluster_building *b, const weft_graph_node *node, const weft_sharding *sharding)
{
    bool right = !sharding->has_access_maps;
    for (int i = 0; i < node->num_inputs && right; i++) {
        right = sharding->inputs[i] == weft_trace_value(b->trace, node->inputs[i])->layout;
    }
    return right;
}

/* All tasks, each on one rank. */
static bool has_separate_ranks(const weft_task_list *tasks)
{
    bool separate = tasks->num_transfers == 0;
    for (size_t i = 0; i < tasks->tasks.count && separate; i++) {
        const weft_task *task = weft_task_list_tasks(tasks) + i;
        int shard = -1;
        for (uint32_t k = 0; k < task->num_operands && separate; k++) {
            const weft_slot *slot = &weft_task_list_slots(tasks)[weft_task_operand_at(tasks, task, k)->slot];
            separate = slot->tensor == WEFT_TEMPORARY || shard < 0 || shard == slot->shard;
            shard = slot->tensor == WEFT_TEMPORARY ? shard : slot->shard;
        }
        separate = separate && shard >= 0;
    }
    return separate;
}

/* The call's tasks, on tensors without data. False: it is not clustered, or (b->failed) with the error kept. */
static bool lower(weft_cluster_building *b, const weft_graph_node *node, weft_lowered *lowered)
{
    weft_task_list *tasks = &lowered->tasks;
    weft_call call = *node->call;
    weft_tensor_impl *inputs[WEFT_MAX_INPUTS];
    const weft_layout *layouts[WEFT_MAX_INPUTS + WEFT_MAX_OUTPUTS];
    for (int i = 0; i < node->num_inputs; i++) {
        inputs[i] = weft_tensor_fake(call.function, weft_trace_value(b->trace, node->inputs[i])->layout);
        if (inputs[i] == NULL) {
            b->failed = true;
            return false;
        }
        call.inputs[i] = inputs[i]->handle;
    }
    if (!node->is_step && weft_call_expands(&call)) {
        return false;
    }
    weft_sharding own;
    weft_cached_call *cached;
    int guessed;
    const weft_sharding *sharding = weft_obtain_layouts(&call, inputs, &own, &guessed, &cached);
    bool done = sharding != NULL && works_in_place(b, node, sharding) &&
                weft_dispatch_lower(&call, sharding, layouts, tasks) && has_separate_ranks(tasks);
    b->failed |= sharding == NULL || tasks->failed;
    if (done) {
        weft_fuse_examine(b, node, sharding, lowered);
    }
    weft_cache_release(cached);
    return done;
}

/* Candidates for fusing, of any size: calls of one kernel. weft_fuse_examine() looks at their layouts. */
static bool may_fuse(const weft_graph_node *node)
{
    weft_kernel_id kernel = node->call->operation->kernel;
    return node->num_outputs > 0 && !node->call->operation->views && kernel != WEFT_KERNEL_NONE &&
           kernel < WEFT_KERNEL_COUNT && weft_kernel_infos[kernel].form != WEFT_FORM_TASK;
}

static void note_changes(weft_cluster_building *b, const weft_graph_node *node)
{
    for (int i = 0; i < node->num_outputs; i++) {
        if (weft_call_changes(node->call, i)) {
            b->takes[node->outputs[i]] = node->inputs[i];
        }
    }
}

static void find_changed(const weft_cluster_building *b)
{
    for (size_t n = 0; n < b->trace->nodes.count; n++) {
        const weft_graph_node *node = weft_trace_node(b->trace, n);
        for (int i = 0; i < node->num_outputs && i < node->num_inputs; i++) {
            if (weft_call_changes(node->call, i) && node->inputs[i] >= 0) {
                b->is_changed[node->inputs[i]] = true;
            }
        }
    }
}

void weft_cluster_lower_all(weft_cluster_building *b)
{
    find_changed(b);
    for (size_t i = 0; i < b->trace->nodes.count; i++) {
        const weft_graph_node *node = weft_trace_node(b->trace, i);
        weft_lowered *call = &b->calls[i];
        if (b->failed || !is_plain(b, (int)i)) {
            continue;
        }
        bool small = is_small(b, node, &call->bytes);
        call->any_size = is_any_size(node);
        if (!small && !may_fuse(node)) {
            continue;
        }
        b->failed = !weft_scope_begin_unrecorded();
        if (!b->failed) {
            bool lowered = lower(b, node, call);
            weft_scope_end_keeping(0, NULL, NULL, NULL);
            call->fits = lowered && small && (b->passes & WEFT_PASS_CLUSTER);
            /* Calls of any size are few launches one beside the other; fused with others each would be one of its own. */
            call->fuses = lowered && call->fuses && may_fuse(node) && !(call->fits && call->any_size) && (b->passes & WEFT_PASS_FUSE);
        }
        if (call->fits || call->fuses) {
            note_changes(b, node);
        }
    }
}
