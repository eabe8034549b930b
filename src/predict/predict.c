/* weft_graph_predict(). */
#include "predict/predict.h"

#include <stdlib.h>
#include <string.h>

#include "base/disk.h"
#include "comm/comm.h"
#include "runtime/variables.h"

static const char function[] = "weft_graph_predict";

/* ---- the world ------------------------------------------------------------------------------------------- */

static weft_status read_machine(const char *path, const char *given_by, weft_machine_model *model)
{
    char why[200];
    FILE *file = weft_disk_stream(path, why, sizeof(why));
    if (file == NULL) {
        return weft_fail(WEFT_ERR_IO, function, "%s, %s: %s", given_by, path, why);
    }
    bool read = weft_machine_model_read(file, model, why, sizeof(why));
    fclose(file);
    return read ? WEFT_OK : weft_fail(WEFT_ERR_IO, function, "%s, %s: %s", given_by, path, why);
}

/* The file's figures, else those of this machine. */
static weft_status find_machine(const weft_predict_options *options, weft_machine_model *model, bool *from_file)
{
    const char *variable = weft_variable_text(WEFT_VARIABLE_MACHINE);
    *from_file = (options->machine != NULL || variable != NULL) && !options->timed;
    *model = weft_machine_model_of(&weft_runtime.machine);
    return options->machine != NULL ? read_machine(options->machine, "options.machine", model)
           : variable != NULL       ? read_machine(variable, weft_variable_name(WEFT_VARIABLE_MACHINE), model)
                                    : WEFT_OK;
}

static int first_of(int given, int other, int last)
{
    return given > 0 ? given : other > 0 ? other : last;
}

static weft_status check_number(const char *name, int number, int most)
{
    return number >= 0 && number <= most
               ? WEFT_OK
               : weft_fail(WEFT_ERR_INVALID, function, "options.%s is %d, expected 0 to %d", name, number, most);
}

static weft_status check_numbers(const weft_predict_options *options)
{
    enum { MAX_WORKERS = 4096, MAX_RUNS = 1000 };
    int processes = options->processes > 0 ? options->processes : weft_runtime.topology.num_processes;
    const struct {
        const char *name;
        int number, most;
    } all[] = { { "processes", options->processes, weft_runtime.topology.num_ranks },
                { "hosts", options->hosts, processes },
                { "workers", options->workers, MAX_WORKERS },
                { "cores", options->cores, MAX_WORKERS },
                { "sharing", options->sharing, MAX_WORKERS },
                { "runs", options->runs, MAX_RUNS } };
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(all) && status == WEFT_OK; i++) {
        status = check_number(all[i].name, all[i].number, all[i].most);
    }
    return status;
}

static bool spread(weft_predicted_world *world)
{
    int64_t ranks = weft_runtime.topology.num_ranks, each = ranks / world->processes, more = ranks % world->processes;
    world->first_rank_of = malloc(((size_t)world->processes + 1) * sizeof(int));
    for (int64_t p = 0; p <= world->processes && world->first_rank_of != NULL; p++) {
        world->first_rank_of[p] = (int)(p * each + weft_min_i64(p, more));
    }
    world->topology = (weft_topology){ (int)ranks, world->processes, world->first_rank_of };
    return world->first_rank_of != NULL;
}

/* Costs are those of this world where that is the one that is predicted: its layouts and plans follow from them. */
static weft_status make_world(const weft_predict_options *options, weft_predicted_world *world)
{
    const weft_runtime_state *state = &weft_runtime;
    int workers = state->world == WEFT_WORLD_FAKE ? 1 : (int)starpu_cpu_worker_get_count();
    world->processes = first_of(options->processes, 0, state->topology.num_processes);
    int machines = weft_runtime.spread.machines > world->processes ? world->processes : weft_runtime.spread.machines;
    world->hosts = first_of(options->hosts, state->world == WEFT_WORLD_FAKE ? world->processes : machines, 1);
    world->workers = first_of(options->workers, (int)world->model.workers, workers > 0 ? workers : 1);
    world->cores = first_of(options->cores, (int)world->model.cores, world->workers);
    world->sharing = first_of(options->sharing, 0, 1);
    world->runs = first_of(options->runs, 0, 1);
    bool same = world->processes == state->topology.num_processes;
    weft_machine rounded = weft_machine_rounded(&world->model.machine);
    const weft_spread spread_over = { world->processes, world->hosts };
    world->cost = same ? state->cost : weft_machine_cost(&rounded, spread_over);
    world->cost.algorithm = state->cost.algorithm;
    world->messages = same ? state->messages : weft_machine_messages(&rounded, spread_over);
    return spread(world) ? WEFT_OK : weft_fail(WEFT_ERR_NOMEM, function, "no memory for %d processes", world->processes);
}

static weft_simulated_link simulated(const weft_machine *machine, weft_spread between)
{
    weft_link link = weft_machine_link(machine, between);
    return (weft_simulated_link){ link.latency_us, link.message_us, link.bytes_per_us };
}

static weft_simulated_machine machine_of(const weft_predicted_world *world)
{
    const weft_machine_model *model = &world->model;
    enum { EAGER_BYTES = 64 << 10 }; /* Open MPI over TCP; weft's messages on slow links are smaller */
    return (weft_simulated_machine){ .near = simulated(&model->machine, (weft_spread){ 2, 1 }),
                                     .far = simulated(&model->machine, (weft_spread){ 2, 2 }),
                                     .submit_us = model->submit_us,
                                     .operand_us = model->operand_us,
                                     .task_us = model->worker_us,
                                     .transfer_us = model->transfer_us,
                                     .message_cpu_us = model->message_cpu_us,
                                     .cpu_bytes_per_us = model->cpu_bytes_per_us,
                                     .eager_bytes = EAGER_BYTES };
}

/* ---- results --------------------------------------------------------------------------------------------- */

/* When the last record of the first runs has ended. */
static double end_of_runs(const weft_simulation *simulation, int runs, int of)
{
    double end = 0;
    for (size_t p = 0; p < simulation->processes.count; p++) {
        const weft_simulated_process *process = weft_simulated_process_at(simulation, p);
        const uint32_t *numbers = process->records.items;
        for (size_t i = 0; i < process->records.count / (size_t)of * (size_t)runs; i++) {
            const weft_simulated_record *record = weft_simulated_record_at(simulation, numbers[i]);
            end = record->end_us > end ? record->end_us : end;
        }
    }
    return end;
}

static double busy_us(const weft_simulation *simulation)
{
    double us = 0;
    for (size_t i = 0; i < simulation->records.count; i++) {
        const weft_simulated_record *record = weft_simulated_record_at(simulation, i);
        us += record->kind == WEFT_SIMULATED_TASK ? record->end_us - record->start_us : 0;
    }
    return us;
}

static void sum_up(const weft_predicted_world *world, const weft_process_classes *classes, const weft_recording recordings[],
                   const weft_simulation *simulation, weft_prediction *found)
{
    int runs = world->runs;
    size_t count = simulation->processes.count;
    double first = end_of_runs(simulation, 1, runs);
    found->step_us = runs == 1 ? simulation->end_us : (simulation->end_us - first) / (runs - 1);
    for (size_t p = 0; p < count; p++) {
        const weft_simulated_process *process = weft_simulated_process_at(simulation, p);
        found->computing += process->computing / (double)count;
        found->communicating += process->communicating / (double)count;
        found->exposed += (process->communicating - process->both) / (double)count;
        found->idle += process->idle / (double)count;
        const weft_recording *recording = &recordings[p];
        found->tasks = recording->tasks > found->tasks ? recording->tasks : found->tasks;
        found->messages = recording->messages.count > found->messages ? recording->messages.count : found->messages;
        found->bytes = weft_max_i64(found->bytes, recording->bytes);
        found->peak_bytes = weft_max_i64(found->peak_bytes, recording->peak_bytes);
    }
    double whole = simulation->end_us * (double)count * world->workers;
    found->busy = whole > 0 ? busy_us(simulation) / whole : 0;
    found->processes = world->processes;
    found->simulated = classes->count;
    found->assumed = simulation->assumed;
}

/* ---- all ------------------------------------------------------------------------------------------------- */

static weft_status simulate(const weft_predicted_world *world, const weft_process_classes *classes,
                            const weft_recording recordings[], const weft_kernel_costs *costs,
                            const weft_predict_options *options, weft_simulation *simulation, weft_prediction *found)
{
    weft_predict_assemble(world, classes, recordings, costs, simulation);
    if (!weft_simulation_run(simulation) ||
        !weft_predict_path(simulation, found->critical_path, sizeof(found->critical_path))) {
        return weft_fail(WEFT_ERR_NOMEM, function, "no memory for a simulation");
    }
    sum_up(world, classes, recordings, simulation, found);
    return options->timeline == NULL ? WEFT_OK : weft_predict_timeline(simulation, classes, options->timeline);
}

static weft_status rehearse_all(const weft_graph_impl *graph, const weft_predicted_world *world, bool by_rates,
                                const weft_process_classes *classes, const weft_predict_options *options,
                                weft_prediction *found)
{
    weft_kernel_costs costs = { .rates = by_rates ? &world->model : NULL };
    weft_simulation simulation = { .machine = machine_of(world) };
    weft_recording *recordings = calloc((size_t)classes->count, sizeof(*recordings));
    weft_status status = recordings == NULL ? weft_fail(WEFT_ERR_NOMEM, function, "no memory for recordings") : WEFT_OK;
    for (int i = 0; i < classes->count && status == WEFT_OK; i++) {
        status = weft_rehearse(graph, world, classes->first[i], &costs, &simulation, &recordings[i]);
    }
    status = status == WEFT_OK ? simulate(world, classes, recordings, &costs, options, &simulation, found) : status;
    for (int i = 0; i < classes->count && recordings != NULL; i++) {
        weft_recording_free(&recordings[i]);
    }
    free(recordings);
    weft_simulation_free(&simulation);
    weft_kernel_costs_free(&costs);
    return status;
}

static weft_status predict(const weft_graph_impl *graph, const weft_predict_options *options, weft_prediction *found)
{
    weft_predicted_world world = { .first_rank_of = NULL };
    weft_process_classes classes = { .count = 0 };
    bool by_rates;
    weft_status status = check_numbers(options);
    status = status == WEFT_OK ? find_machine(options, &world.model, &by_rates) : status;
    status = status == WEFT_OK ? make_world(options, &world) : status;
    if (status == WEFT_OK && !weft_process_classes_find(graph, &world, &classes)) {
        status = weft_fail(WEFT_ERR_NOMEM, function, "no memory for %d processes", world.processes);
    }
    status = status == WEFT_OK ? rehearse_all(graph, &world, by_rates, &classes, options, found) : status;
    weft_process_classes_free(&classes);
    free(world.first_rank_of);
    return status;
}

/* Kernels are timed on memory of the pool, which former tasks may use. */
static void wait_for_tasks(void)
{
    weft_end_pause();
    if (weft_runtime.comm != NULL) {
        weft_comm_wait(weft_runtime.comm);
    }
    starpu_task_wait_for_all();
}

weft_status weft_graph_predict(weft_graph *handle, const weft_predict_options *given, weft_prediction *prediction, size_t size)
{
    double begin_us = starpu_timing_now();
    const weft_graph_impl *graph = weft_check_graph(function, handle);
    weft_predict_options options = WEFT_PREDICT_DEFAULT;
    if (graph == NULL || (given != NULL && !WEFT_TAKE_OPTIONS(function, &options, given))) {
        return weft_latest_status();
    }
    if (prediction == NULL) {
        return weft_fail(WEFT_ERR_INVALID, function, "prediction is NULL");
    }
    const char *wrong = graph->running > 0 || weft_runtime.context.deferral != NULL ? "called from within the function of a graph"
                        : graph->num_newest == 0                         ? "it has not run"
                        : weft_tensors_acquired() > 0 ? "the program holds shards (weft_local_acquire())"
                                                         : NULL;
    if (wrong != NULL) {
        return weft_fail(WEFT_ERR_STATE, function, "graph %s: %s", graph->name, wrong);
    }
    if (weft_is_broken()) {
        return weft_error_collect();
    }
    if (!weft_graph_check_no_ghosts(function, graph)) {
        return weft_latest_status();
    }
    wait_for_tasks();
    weft_prediction *found = calloc(1, sizeof(*found));
    if (found == NULL) {
        return weft_fail(WEFT_ERR_NOMEM, function, "no memory for a prediction");
    }
    weft_status status = predict(graph, &options, found);
    found->took_us = starpu_timing_now() - begin_us;
    if (status == WEFT_OK && !weft_give_struct(function, "prediction", prediction, size, found, sizeof(*found))) {
        status = weft_latest_status();
    }
    free(found);
    return status;
}
