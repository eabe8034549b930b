/* Times of kernels: each is run on the memory that its task would have, where its time is not known well enough. */
#include <stdlib.h>
#include <time.h>

#include "graph/fuse/cluster.h"
#include "graph/passes/bucket.h"
#include "predict/predict.h"

void weft_kernel_costs_free(weft_kernel_costs *costs)
{
    weft_vec_free(&costs->all);
    weft_map_free(&costs->index);
}

static weft_kernel_cost *cost_at(const weft_kernel_costs *costs, int64_t number)
{
    return (weft_kernel_cost *)costs->all.items + number;
}

static int64_t find(weft_kernel_costs *costs, weft_kernel_id kernel, uint32_t footprint)
{
    uint64_t hash = weft_hash_u64((uint64_t)kernel << 32 | footprint);
    for (weft_map_slot *slot = weft_map_first(&costs->index, hash); slot != NULL; slot = weft_map_next(&costs->index, slot)) {
        int64_t number = (int64_t)(uintptr_t)slot->value - 1;
        if (cost_at(costs, number)->kernel == kernel && cost_at(costs, number)->footprint == footprint) {
            return number;
        }
    }
    weft_kernel_cost *added = weft_vec_push(&costs->all, sizeof(*added));
    if (added == NULL || !weft_map_add(&costs->index, hash, (void *)(uintptr_t)costs->all.count)) {
        return -1;
    }
    *added = (weft_kernel_cost){ .kernel = kernel, .footprint = footprint };
    return (int64_t)costs->all.count - 1;
}

/* Processor time of this thread: other programs do not count. */
double weft_processor_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static bool is_cluster(const weft_task_run *run)
{
    return run->kernel == weft_runtime.cluster_kernel && run->kernel != WEFT_KERNEL_NONE;
}

static bool is_bucket(const weft_task_run *run)
{
    return run->kernel == weft_runtime.bucket_kernel && run->kernel != WEFT_KERNEL_NONE;
}

static double bytes_of(struct starpu_task *starpu)
{
    double bytes = 0;
    for (unsigned i = 0; i < (unsigned)starpu->nbuffers; i++) {
        bytes += (double)starpu_variable_get_elemsize(STARPU_TASK_GET_HANDLE(starpu, i));
    }
    return bytes;
}

/* A cluster's kernels are told by its own footprint, the sizes that they work on by its memory. */
static uint32_t footprint_of(const weft_codelet *codelet, const weft_task_run *run, struct starpu_task *starpu)
{
    uint64_t footprint = codelet->info->footprint(run);
    for (unsigned i = 0; i < (unsigned)starpu->nbuffers && is_cluster(run); i++) {
        footprint = weft_hash_u64(footprint ^ starpu_variable_get_elemsize(STARPU_TASK_GET_HANDLE(starpu, i)));
    }
    return (uint32_t)footprint;
}

static double run_once(const weft_codelet *codelet, const weft_submitted_run *submitted, struct starpu_task *starpu)
{
    weft_kernel_error error;
    weft_task_run run = submitted->run;
    error.status = WEFT_OK;
    run.error = &error;
    for (int i = 0; i < run.num_operands; i++) {
        const weft_run_place *place = &submitted->places[i];
        run.operands[i] =
            (char *)starpu_data_get_local_ptr(STARPU_TASK_GET_HANDLE(starpu, (unsigned)place->buffer)) + place->offset;
    }
    if (is_cluster(&run)) { /* a run gives up a reference */
        const weft_cluster_program *program;
        atomic_fetch_add(&weft_cluster_of(run.arguments, &program)->references, 1);
    } else if (is_bucket(&run)) {
        weft_bucket_hold(run.arguments);
    }
    double begin_us = weft_processor_us();
    codelet->cpu.run(&run);
    return weft_processor_us() - begin_us;
}

/* The sum of its kernels; of fused ones, which work in the cache, a quarter of it, and the memory that they read and write. */
static double rated_cluster(const weft_machine_model *rates, const void *arguments)
{
    const weft_cluster_program *program;
    const weft_cluster *cluster = weft_cluster_of(arguments, &program);
    const weft_cluster_step *steps = program->steps.items;
    double us = 0;
    for (size_t i = 0; i < program->steps.count; i++) {
        us += weft_rated_us(rates, steps[i].kernel, (const char *)cluster->arguments.items + steps[i].arguments,
                            (int)steps[i].num_places);
    }
    const double in_cache = 0.25;
    return cluster->fused ? in_cache * us + (double)cluster->bytes / cluster->num_programs / rates->elementwise_bytes_per_us
                          : us;
}

/* By rates; functions of the program are not called out of their turn. */
static double rated(const weft_kernel_costs *costs, const weft_task_run *run, struct starpu_task *starpu)
{
    weft_machine_model own = weft_machine_model_of(&weft_runtime.machine);
    const weft_machine_model *rates = costs->rates != NULL ? costs->rates : &own;
    return is_cluster(run)  ? rated_cluster(rates, run->arguments)
           : is_bucket(run) ? bytes_of(starpu) / (2 * rates->machine.copy_bytes_per_us)
                            : weft_rated_us(rates, run->kernel, run->arguments, run->num_operands);
}

/* A first run, which may meet memory that has never been touched, is not counted. */
int64_t weft_kernel_cost_of(weft_kernel_costs *costs, const weft_submitted_run *submitted, struct starpu_task *starpu)
{
    const weft_task_run *run = &submitted->run;
    const weft_codelet *codelet = weft_codelet_of(run->kernel);
    int64_t number = find(costs, run->kernel, footprint_of(codelet, run, starpu));
    if (number < 0) {
        return -1;
    }
    weft_kernel_cost *cost = cost_at(costs, number);
    bool timed = costs->rates == NULL && run->kernel != WEFT_KERNEL_local_map;
    if (!timed && cost->num_samples == 0) {
        cost->samples[cost->num_samples++] = rated(costs, run, starpu);
    }
    if (timed && cost->num_samples == 0) {
        run_once(codelet, submitted, starpu);
    }
    if (timed && cost->num_samples < WEFT_COST_SAMPLES) {
        cost->samples[cost->num_samples++] = run_once(codelet, submitted, starpu);
    }
    return number;
}

static int compare(const void *a, const void *b)
{
    double one = *(const double *)a, other = *(const double *)b;
    return (one > other) - (one < other);
}

/* The median. */
double weft_kernel_cost_us(const weft_kernel_costs *costs, int64_t number)
{
    weft_kernel_cost *cost = cost_at(costs, number);
    if (cost->num_samples == 0) {
        return 0;
    }
    qsort(cost->samples, (size_t)cost->num_samples, sizeof(cost->samples[0]), compare);
    return cost->samples[(cost->num_samples - 1) / 2];
}
