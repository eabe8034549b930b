/* A cluster, with the values that it reads and leaves behind; and its programs, step by step. */
#include "graph/fuse/cluster_build.h"
#include <stdlib.h>
#include <string.h>
#include "codelets/complex.h"
#include "codelets/optimizers.h"
#include "runtime/codelets.h"
#include "tensor/state.h"

/* ---- values ---------------------------------------------------------------------------------------------- */

static bool is_between(const weft_cluster_building *b, int first, int last, int value)
{
    return b->defined[value] >= first && b->defined[value] <= last;
}

int weft_cluster_home(const weft_cluster_building *b, int first, int last, int value)
{
    while (is_between(b, first, last, value) && b->takes[value] >= 0) {
        value = b->takes[value];
    }
    return value;
}

/* Whether nothing after the cluster needs a value. */
static bool is_inner(const weft_cluster_building *b, const weft_cluster *cluster, int value)
{
    return !b->is_promised[value] && weft_trace_value(b->trace, value)->last_use <= cluster->last;
}

/* Whether the cluster has a value from outside, or makes it in new memory for later calls. */
static bool is_wanted(const weft_cluster_building *b, const weft_cluster *cluster, int value, bool output)
{
    bool inside = is_between(b, cluster->first, cluster->last, value);
    int home = weft_cluster_home(b, cluster->first, cluster->last, value);
    return !output ? !inside
                   : inside && is_between(b, cluster->first, cluster->last, home) && !is_inner(b, cluster, value);
}

/* The values that a cluster reads from outside, and those that are needed after it; counts them if `values` is NULL. False: no
 * memory. */
static bool find_values(const weft_cluster_building *b, weft_cluster *cluster, int *values)
{
    int count = 0;
    bool *found = calloc(b->trace->values.count + 1, sizeof(bool));
    for (int pass = 0; pass < 2 && found != NULL; pass++) {
        int before = count;
        for (int n = cluster->first; n <= cluster->last; n++) {
            const weft_graph_node *node = weft_trace_node(b->trace, (size_t)n);
            const int *numbers = pass == 0 ? node->inputs : node->outputs;
            for (int i = 0; i < (pass == 0 ? node->num_inputs : node->num_outputs); i++) {
                int value = numbers[i];
                if (value < 0 || found[value] || !is_wanted(b, cluster, value, pass == 1)) {
                    continue;
                }
                found[value] = true;
                if (values != NULL) {
                    values[count] = value;
                }
                count++;
            }
        }
        *(pass == 0 ? &cluster->num_inputs : &cluster->num_outputs) = count - before;
    }
    free(found);
    return found != NULL;
}

static void find_changes(const weft_cluster_building *b, weft_cluster *cluster)
{
    for (int i = 0; i < cluster->num_inputs; i++) {
        cluster->becomes[i] = -1;
    }
    for (int n = cluster->first; n <= cluster->last; n++) {
        const weft_graph_node *node = weft_trace_node(b->trace, (size_t)n);
        for (int o = 0; o < node->num_outputs; o++) {
            int home = weft_cluster_home(b, cluster->first, cluster->last, node->outputs[o]);
            for (int i = 0; i < cluster->num_inputs; i++) {
                cluster->becomes[i] = cluster->values[i] == home ? node->outputs[o] : cluster->becomes[i];
            }
        }
    }
}

weft_cluster *weft_cluster_new(const weft_cluster_building *b, int first, int last, int num_programs)
{
    weft_cluster *cluster = calloc(1, sizeof(*cluster) + (size_t)num_programs * sizeof(cluster->programs[0]));
    if (cluster == NULL) {
        return NULL;
    }
    atomic_init(&cluster->references, 1);
    cluster->first = first;
    cluster->last = last;
    cluster->num_programs = num_programs;
    bool done = find_values(b, cluster, NULL);
    cluster->values = malloc((size_t)(cluster->num_inputs + cluster->num_outputs + 1) * sizeof(int));
    cluster->becomes = malloc((size_t)(cluster->num_inputs + 1) * sizeof(int));
    done = done && cluster->values != NULL && cluster->becomes != NULL && find_values(b, cluster, cluster->values);
    if (!done) {
        weft_cluster_release(cluster);
        return NULL;
    }
    find_changes(b, cluster);
    return cluster;
}

void weft_cluster_index(const weft_cluster_building *b, const weft_cluster *cluster, int index[])
{
    for (size_t i = 0; i < b->trace->values.count; i++) {
        index[i] = -1;
    }
    for (int i = 0; i < cluster->num_inputs + cluster->num_outputs; i++) {
        index[weft_cluster_home(b, cluster->first, cluster->last, cluster->values[i])] = i;
    }
}

void weft_cluster_release(weft_cluster *cluster)
{
    if (atomic_fetch_sub(&cluster->references, 1) > 1) {
        return;
    }
    for (int i = 0; i < cluster->num_programs; i++) {
        weft_vec_free(&cluster->programs[i].operands);
        weft_vec_free(&cluster->programs[i].steps);
        weft_vec_free(&cluster->programs[i].places);
    }
    weft_vec_free(&cluster->arguments);
    free(cluster->values);
    free(cluster->becomes);
    free(cluster);
}

/* ---- programs -------------------------------------------------------------------------------------------- */

/* A kernel that reads after one that has written reads values of the task itself. One that reads what it writes needs
 * those from before the task, in whichever order its operands are. */
static unsigned add_access(const weft_cluster_operand *operand, weft_slot_access access)
{
    return operand->access | (operand->written ? access & WEFT_SLOT_WRITE : access);
}

int weft_cluster_add_operand(weft_cluster_program *program, int value, int64_t panel, weft_slot_access access)
{
    weft_cluster_operand *operands = program->operands.items;
    size_t place = 0;
    while (place < program->operands.count && (operands[place].value != value || operands[place].panel != panel)) {
        place++;
    }
    if (place == program->operands.count) {
        weft_cluster_operand *added = weft_vec_push(&program->operands, sizeof(*added));
        if (added == NULL) {
            return -1;
        }
        *added = (weft_cluster_operand){ .value = value, .panel = (int32_t)panel };
        operands = program->operands.items;
    }
    operands[place].access = add_access(&operands[place], access);
    return (int)place;
}

/* Whether the kernel has a CUDA function in builds with CUDA. */
static bool has_cuda_function(weft_kernel_id kernel)
{
    return kernel < WEFT_KERNEL_COUNT ? weft_kernel_infos[kernel].on_devices : weft_codelet_of(kernel)->cpu.cuda_views != NULL;
}

bool weft_cluster_add_step(weft_cluster_program *program, const weft_cluster_step *step, const void *arguments)
{
    weft_cluster_step *added = weft_vec_push(&program->steps, sizeof(*step));
    if (added == NULL) {
        return false;
    }
    *added = *step;
    weft_cluster_operand *operands = program->operands.items;
    for (size_t i = 0; i < program->operands.count; i++) {
        operands[i].written = (operands[i].access & WEFT_SLOT_WRITE) != 0;
    }
    program->max_places = step->num_places > program->max_places ? step->num_places : program->max_places;
    program->cpu_only = program->cpu_only || !has_cuda_function(step->kernel) ||
                        weft_task_is_for_cpus(weft_kernel_info_of(step->kernel)->form, arguments, (int)step->num_places);
    program->num_views += !weft_kernel_is_elementwise(step->kernel) && !weft_kernel_is_step(step->kernel);
    program->footprint = (uint32_t)weft_hash_u64(program->footprint ^ (uint64_t)step->kernel << 32 ^ step->arguments);
    return true;
}

/* ---- tasks of lowered calls ------------------------------------------------------------------------------ */

int weft_task_shard(const weft_task_list *tasks, const weft_task *task)
{
    for (uint32_t k = 0; k < task->num_operands; k++) {
        const weft_slot *slot = &weft_task_list_slots(tasks)[weft_task_operand_at(tasks, task, k)->slot];
        if (slot->tensor != WEFT_TEMPORARY) {
            return slot->shard;
        }
    }
    return -1;
}

const weft_task *weft_lowered_task(const weft_lowered *call, int shard)
{
    const weft_task *found = NULL;
    for (size_t i = 0; i < call->tasks.tasks.count && found == NULL; i++) {
        const weft_task *task = weft_task_list_tasks(&call->tasks) + i;
        found = weft_task_shard(&call->tasks, task) == shard ? task : NULL;
    }
    return found;
}
