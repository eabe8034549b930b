/* The public functions of automatic shardings. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/disk.h"
#include "graph/run/graph.h"
#include "graph/shard/shard.h"

/* ---- tensors of the newest run --------------------------------------------------------------------------- */

static weft_graph_trace *newest_trace(const weft_graph_impl *graph, size_t segment)
{
    return ((weft_graph_segment *)graph->segments.items)[segment].newest;
}

/* The value of the trace that was in a tensor first: calls that changed it gave it others. */
static int first_value(const weft_graph_trace *trace, int value)
{
    for (size_t i = trace->nodes.count; i-- > 0;) {
        const weft_graph_node *node = weft_trace_node(trace, i);
        for (int o = 0; o < node->num_outputs; o++) {
            if (node->outputs[o] == value && weft_call_changes(node->call, o)) {
                value = node->inputs[o];
            }
        }
    }
    return value;
}

/* The value of a tensor of the newest run, and its trace. NULL with the error kept. */
static weft_graph_trace *find_value(const char *function, const char *argument, const weft_graph_impl *graph,
                                    const weft_tensor *handle, int *value)
{
    const weft_tensor_impl *tensor = weft_check_tensor(function, argument, handle);
    for (size_t i = 0; tensor != NULL && i < graph->num_newest; i++) {
        weft_graph_trace *trace = newest_trace(graph, i);
        if (trace->run_number == tensor->graph_run && tensor->number < (int)trace->values.count) {
            *value = first_value(trace, tensor->number);
            return trace;
        }
    }
    if (tensor != NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "%s took no part in the newest run of graph %s", argument, graph->name);
    }
    return NULL;
}

/* NULL with the error kept. */
static weft_graph_impl *check_graph_has_run(const char *function, const weft_graph *handle)
{
    weft_graph_impl *graph = weft_check_graph(function, handle);
    if (graph != NULL && graph->running > 0) {
        weft_fail(WEFT_ERR_STATE, function, "called from within the function of graph %s", graph->name);
        return NULL;
    }
    if (graph != NULL && graph->num_newest == 0) {
        weft_fail(WEFT_ERR_STATE, function, "graph %s has captured nothing yet", graph->name);
        return NULL;
    }
    return graph;
}

/* ---- the options ----------------------------------------------------------------------------------------- */

/* The options' tensors as values of one trace. */
typedef struct named_values {
    bool *movable; /* by value */
    weft_shard_pin *pins;
    int num_pins;
} named_values;

static weft_status check_numbers(const char *function, const weft_graph_shard_options *o)
{
    const char *wrong = o->max_bytes < 0                          ? "max_bytes is negative"
                        : o->num_pins < 0                         ? "num_pins is negative"
                        : o->num_movable < 0                      ? "num_movable is negative"
                        : o->num_pins > 0 && o->pins == NULL      ? "pins is NULL"
                        : o->num_movable > 0 && o->movable == NULL ? "movable is NULL"
                                                                   : NULL;
    return wrong == NULL ? WEFT_OK : weft_fail(WEFT_ERR_INVALID, function, "%s", wrong);
}

static int find_mesh_dim(const weft_mesh_impl *mesh, const char *name)
{
    for (int m = 0; m < mesh->ndim; m++) {
        if (mesh->names[m] != NULL && strcmp(mesh->names[m], name) == 0) {
            return m;
        }
    }
    return -1;
}

/* A pin of the program's on a value. A status with the error kept. */
static weft_status read_pin(const char *function, const weft_graph_pin *pin, int number, const weft_layout *layout,
                            weft_shard_pin *read)
{
    char why[200];
    if (pin->mesh_dim != NULL) {
        read->mesh_dim = find_mesh_dim(layout->mesh, pin->mesh_dim);
        if (read->mesh_dim < 0) {
            return weft_fail(WEFT_ERR_INVALID, function, "pins[%d].mesh_dim is \"%s\", which names no dimension of its mesh",
                             number, pin->mesh_dim);
        }
    }
    if (weft_placements_normalize(&pin->placement, 1, layout->ndim, &read->placement, why, sizeof(why)) != WEFT_OK) {
        return weft_fail(WEFT_ERR_INVALID, function, "pins[%d].placement: %s", number, why);
    }
    for (int m = 0; m < layout->mesh->ndim; m++) {
        weft_placement alone[WEFT_MAX_DIMS] = { { WEFT_REPLICATE } };
        alone[m] = read->placement;
        if ((read->mesh_dim < 0 || read->mesh_dim == m) &&
            weft_placements_check_sizes(layout->mesh, alone, layout->shape, why, sizeof(why)) != WEFT_OK) {
            return weft_fail(WEFT_ERR_INVALID, function, "pins[%d].placement: %s", number, why);
        }
    }
    return WEFT_OK;
}

static bool lies_as_pinned(const weft_layout *layout, const weft_shard_pin *pin)
{
    bool right = true;
    for (int m = 0; m < layout->mesh->ndim; m++) {
        right &= (pin->mesh_dim >= 0 && pin->mesh_dim != m) || weft_layout_lies_as(layout, m, pin->placement);
    }
    return right;
}

/* The tensors that are values of `trace`; all are checked. A status with the error kept. */
static weft_status name_values(const char *function, const weft_graph_impl *graph, const weft_graph_trace *trace,
                               const weft_graph_shard_options *o, named_values *to)
{
    char argument[48];
    int value;
    for (int i = 0; i < o->num_movable; i++) {
        snprintf(argument, sizeof(argument), "movable[%d]", i);
        const weft_graph_trace *of = find_value(function, argument, graph, o->movable[i], &value);
        if (of == NULL) {
            return weft_latest_status();
        }
        if (!weft_trace_value(of, value)->is_input) {
            return weft_fail(WEFT_ERR_INVALID, function, "%s is no input of graph %s", argument, graph->name);
        }
        if (of == trace) {
            to->movable[value] = true;
        }
    }
    for (int i = 0; i < o->num_pins; i++) {
        weft_shard_pin pin = { .mesh_dim = -1 };
        snprintf(argument, sizeof(argument), "pins[%d].tensor", i);
        const weft_graph_trace *of = find_value(function, argument, graph, o->pins[i].tensor, &value);
        if (of == NULL) {
            return weft_latest_status();
        }
        const weft_graph_value *pinned = weft_trace_value(of, value);
        weft_status status = read_pin(function, &o->pins[i], i, pinned->layout, &pin);
        if (status != WEFT_OK) {
            return status;
        }
        if (of != trace) {
            continue;
        }
        if (pinned->is_input && !to->movable[value] && !lies_as_pinned(pinned->layout, &pin)) {
            char text[200];
            return weft_fail(WEFT_ERR_INVALID, function, "%s is an input that is not movable, and lies elsewhere: %s", argument,
                             weft_layout_format(pinned->layout, text, sizeof(text)));
        }
        pin.value = value;
        to->pins[to->num_pins++] = pin;
    }
    return WEFT_OK;
}

/* ---- figures --------------------------------------------------------------------------------------------- */

/* Ranks of the process that hosts most, for each of its workers. */
static double find_ranks_per_worker(void)
{
    if (weft_runtime.world == WEFT_WORLD_FAKE) {
        return 1;
    }
    double ranks = (double)weft_ceil_div(weft_runtime.topology.num_ranks, weft_runtime.topology.num_processes);
    double workers = (double)starpu_cpu_worker_get_count();
    return workers > 0 ? ranks / workers : ranks;
}

/* In a fake world of one process each rank is a machine of its own. */
static void set_costs(weft_shard_world *world)
{
    weft_spread spread = weft_runtime.spread;
    if (weft_runtime.world == WEFT_WORLD_FAKE && weft_runtime.topology.num_processes == 1) {
        int ranks = weft_runtime.topology.num_ranks;
        world->topology = (weft_topology){ ranks, ranks, NULL };
        spread = (weft_spread){ ranks, ranks };
    }
    world->cost = weft_machine_cost(&world->machine, spread);
    world->cost.algorithm = weft_runtime.cost.algorithm;
}

/* A status with the error kept. */
static weft_status find_figures(const char *function, const char *path, weft_shard_world *world)
{
    *world = (weft_shard_world){ .machine = weft_runtime.machine, .topology = weft_runtime.topology };
    world->ranks_per_worker = find_ranks_per_worker();
    set_costs(world);
    if (path == NULL) {
        return WEFT_OK;
    }
    char why[200];
    FILE *file = weft_disk_stream(path, why, sizeof(why));
    if (file == NULL) {
        return weft_fail(WEFT_ERR_INVALID, function, "machine is \"%s\": %s", path, why);
    }
    bool read = weft_machine_read(file, &world->machine);
    fclose(file);
    if (!read) {
        return weft_fail(WEFT_ERR_INVALID, function, "machine is \"%s\", which is no file of a machine's figures", path);
    }
    set_costs(world);
    return WEFT_OK;
}

/* ---- choosing -------------------------------------------------------------------------------------------- */

static weft_status solve(const char *function, const weft_graph_impl *graph, const weft_graph_trace *trace,
                         const weft_graph_shard_options *o, weft_shard_world *world, weft_trace_sharding **solution)
{
    char why[300] = "no memory";
    named_values values = { .movable = calloc(trace->values.count + 1, sizeof(bool)),
                            .pins = malloc(((size_t)o->num_pins + 1) * sizeof(weft_shard_pin)) };
    weft_status status = values.movable == NULL || values.pins == NULL
                             ? weft_fail(WEFT_ERR_NOMEM, function, "no memory for the choice of layouts")
                             : name_values(function, graph, trace, o, &values);
    if (status == WEFT_OK) {
        weft_shard_request request = { .trace = trace, .world = world, .max_bytes = o->max_bytes,
                                       .movable = values.movable, .num_pins = values.num_pins, .pins = values.pins };
        status = weft_shard_solve(&request, solution, why, sizeof(why));
        if (status != WEFT_OK) {
            weft_fail(status, function, "graph %s: %s", graph->name, why);
        }
    }
    free(values.movable);
    free(values.pins);
    return status;
}

/* The results take effect together. */
static void take_solutions(weft_graph_impl *graph, weft_trace_sharding *solutions[], FILE *table)
{
    for (size_t i = 0; i < graph->num_newest; i++) {
        weft_graph_trace *trace = newest_trace(graph, i);
        weft_trace_sharding_free(trace->sharding);
        trace->sharding = solutions[i];
        weft_graph_forget_bodies(graph, trace);
        if (table != NULL) {
            fprintf(table, "graph %s, calls %zu:\n", graph->name, trace->nodes.count);
            weft_shard_print(trace, solutions[i], table);
        }
    }
}

weft_status weft_graph_shard(weft_graph *handle, const weft_graph_shard_options *options)
{
    static const char function[] = "weft_graph_shard";
    weft_deferral_note(function);
    weft_graph_shard_options own = { .table = NULL }, *o = &own;
    weft_graph_impl *graph = check_graph_has_run(function, handle);
    weft_shard_world world;
    if (graph == NULL || (options != NULL && !WEFT_TAKE_OPTIONS(function, o, options)) ||
        check_numbers(function, o) != WEFT_OK || !weft_graph_check_no_ghosts(function, graph) ||
        find_figures(function, o->machine, &world) != WEFT_OK) {
        return weft_latest_status();
    }
    weft_trace_sharding **solutions = calloc(graph->num_newest, sizeof(*solutions));
    weft_status status =
        solutions == NULL ? weft_fail(WEFT_ERR_NOMEM, function, "no memory for the choice of layouts") : WEFT_OK;
    for (size_t i = 0; i < graph->num_newest && status == WEFT_OK; i++) {
        status = solve(function, graph, newest_trace(graph, i), o, &world, &solutions[i]);
    }
    if (status == WEFT_OK) {
        take_solutions(graph, solutions, o->table);
    }
    for (size_t i = 0; solutions != NULL && i < graph->num_newest && status != WEFT_OK; i++) {
        weft_trace_sharding_free(solutions[i]);
    }
    free(solutions);
    weft_shard_world_free(&world);
    return status;
}

/* ---- asking ---------------------------------------------------------------------------------------------- */

static weft_status fail_without_choice(const char *function, const weft_graph_impl *graph)
{
    return weft_fail(WEFT_ERR_STATE, function, "weft_graph_shard() has not been called since graph %s was captured",
                     graph->name);
}

weft_status weft_graph_get_placements(const weft_graph *handle, const weft_tensor *tensor, weft_placement placements[])
{
    static const char function[] = "weft_graph_get_placements";
    const weft_graph_impl *graph = check_graph_has_run(function, handle);
    int value;
    if (graph == NULL) {
        return weft_latest_status();
    }
    if (placements == NULL) {
        return weft_fail(WEFT_ERR_INVALID, function, "placements is NULL");
    }
    const weft_graph_trace *trace = find_value(function, "tensor", graph, tensor, &value);
    if (trace == NULL) {
        return weft_latest_status();
    }
    if (trace->sharding == NULL) {
        return fail_without_choice(function, graph);
    }
    const weft_layout *layout = trace->sharding->passed[value];
    memcpy(placements, layout->placements, (size_t)layout->mesh->ndim * sizeof(*placements));
    return WEFT_OK;
}

weft_status weft_graph_get_shard_info(const weft_graph *handle, weft_graph_shard_info *info, size_t size)
{
    static const char function[] = "weft_graph_get_shard_info";
    const weft_graph_impl *graph = check_graph_has_run(function, handle);
    if (graph == NULL) {
        return weft_latest_status();
    }
    weft_graph_shard_info sum = { .proved = true };
    for (size_t i = 0; i < graph->num_newest; i++) {
        const weft_trace_sharding *of = newest_trace(graph, i)->sharding;
        if (of == NULL) {
            return fail_without_choice(function, graph);
        }
        bool known = sum.recorded_us >= 0 && of->recorded_cost < WEFT_ASSIGN_IMPOSSIBLE;
        sum.us += (double)of->cost * 1e-6;
        sum.recorded_us = known ? sum.recorded_us + (double)of->recorded_cost * 1e-6 : -1;
        sum.bytes = of->peak > sum.bytes ? of->peak : sum.bytes;
        sum.recorded_bytes = of->recorded_peak > sum.recorded_bytes ? of->recorded_peak : sum.recorded_bytes;
        sum.proved &= of->search.proved;
        sum.moves_inputs |= of->has_moved_inputs;
        sum.tables += (int64_t)of->search.tables;
        sum.reused += (int64_t)of->search.reused;
    }
    return weft_give_struct(function, "info", info, size, &sum, sizeof(sum)) ? WEFT_OK : weft_latest_status();
}
