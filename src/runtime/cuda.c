#include "runtime/cuda.h"

#include <stdlib.h>

#include "codelets/cuda/kernels.h"
#include "codelets/problems.h"

weft_status weft_cuda_choose(const char *function, const weft_settings *settings, weft_process_place place,
                             struct starpu_conf *conf)
{
    int wanted = settings->world == WEFT_WORLD_FAKE ? 0 : settings->devices;
    conf->ncuda = wanted;
    if (wanted == 0) {
        return WEFT_OK;
    }
    int there = weft_cuda_count_devices();
    if (there < 0) {
        return weft_fail(WEFT_ERR_UNSUPPORTED, function, "WEFT_DEVICES is %d, but weft was built without CUDA", wanted);
    }
    if (there < wanted) {
        return weft_fail(WEFT_ERR_UNSUPPORTED, function, "WEFT_DEVICES is %d, but CUDA finds %d devices", wanted, there);
    }
    /* Processes of a machine take different devices, and share them where there are too few. */
    conf->use_explicit_workers_cuda_gpuid = 1;
    for (int i = 0; i < wanted && i < STARPU_NMAXWORKERS; i++) {
        conf->workers_cuda_gpuid[i] = (unsigned)(((int64_t)place.node_process * wanted + i) % there);
    }
    return WEFT_OK;
}

static void print_none(FILE *file)
{
    int there = weft_cuda_count_devices();
    if (there < 0) {
        fprintf(file, "devices: none (built without CUDA)\n");
    } else {
        fprintf(file, "devices: none used (WEFT_DEVICES), CUDA finds %d\n", there);
    }
}

#ifdef STARPU_USE_CUDA

static int64_t smallest_memory(const int workers[], int count)
{
    int64_t smallest = INT64_MAX;
    for (int i = 0; i < count; i++) {
        int64_t bytes = starpu_memory_get_total(starpu_worker_get_memory_node((unsigned)workers[i]));
        smallest = bytes < 0 ? smallest : weft_min_i64(smallest, bytes); /* -1: StarPU knows no limit */
    }
    return smallest;
}

weft_status weft_cuda_started(const char *function, const weft_settings *settings, const struct starpu_conf *conf)
{
    int workers[STARPU_NMAXWORKERS];
    int count = (int)starpu_worker_get_ids_by_type(STARPU_CUDA_WORKER, workers, STARPU_NMAXWORKERS);
    if (count < conf->ncuda && getenv("STARPU_NCUDA") == NULL) {
        return weft_fail(WEFT_ERR_UNSUPPORTED, function, "WEFT_DEVICES is %d, but StarPU drives %d CUDA devices",
                         conf->ncuda, count);
    }
    if (count == 0) {
        return WEFT_OK;
    }
    weft_runtime.device_bytes = smallest_memory(workers, count);
    weft_runtime.cuda_queues = calloc(STARPU_NMAXWORKERS, sizeof(*weft_runtime.cuda_queues));
    if (weft_runtime.cuda_queues == NULL) {
        return weft_fail(WEFT_ERR_NOMEM, function, "no memory for the devices' queues");
    }
    for (int i = 0; i < STARPU_NMAXWORKERS; i++) {
        weft_runtime.cuda_queues[i].tf32 = settings->tf32;
    }
    return WEFT_OK;
}

/* StarPU loads the operands of a task while others run, so each gets a part of the memory. */
static bool fits_on_device(struct starpu_task *task)
{
    enum { TASKS_AT_ONCE = 4 };
    size_t bytes = 0;
    for (unsigned i = 0; i < (unsigned)STARPU_TASK_GET_NBUFFERS(task); i++) {
        bytes += starpu_data_get_size(STARPU_TASK_GET_HANDLE(task, i));
    }
    return bytes <= (size_t)(weft_runtime.device_bytes / TASKS_AT_ONCE);
}

/* Devices run all that has a CUDA function and fits there, CPUs the rest. */
static int can_execute(unsigned worker, struct starpu_task *task, unsigned implementation)
{
    (void)implementation;
    return (starpu_worker_get_type((int)worker) == STARPU_CUDA_WORKER) == fits_on_device(task);
}

/* Behind the stream, before others get what the task has written. */
static void report_found(void *argument)
{
    const weft_submitted_run *submitted = argument;
    if (submitted->run.error->status != WEFT_OK) {
        weft_task_run_report(&submitted->run, submitted->operation);
    }
}

/* Launches the kernel, and returns. */
static void run_cuda(void *buffers[], void *argument)
{
    weft_submitted_run *submitted = argument;
    weft_task_run *run = &submitted->run;
    weft_cuda_queue *queue = &weft_runtime.cuda_queues[starpu_worker_get_id()];
    weft_task_run_place(submitted, buffers);
    queue->stream = starpu_cuda_get_local_stream();
    queue->pending = NULL;
    int failed = weft_cuda_kernels[run->kernel](run, queue);
    if (failed != 0) {
        weft_kernel_error error = { .status = WEFT_OK };
        weft_problem_device(&error, failed);
        run->error = &error;
        weft_task_run_report(run, submitted->operation);
    } else if (queue->pending != NULL) {
        struct starpu_task *task = starpu_task_get_current();
        run->error = &queue->pending->error;
        task->epilogue_callback_func = report_found;
        task->epilogue_callback_arg = submitted;
    }
}

void weft_cuda_fill_in(struct starpu_codelet *codelet, weft_kernel_id kernel)
{
    if (weft_runtime.cuda_queues != NULL && weft_cuda_kernels[kernel] != NULL) {
        codelet->cuda_funcs[0] = run_cuda;
        codelet->cuda_flags[0] = STARPU_CUDA_ASYNC;
        codelet->can_execute = can_execute;
    }
}

void weft_cuda_print(FILE *file)
{
    int workers[STARPU_NMAXWORKERS];
    int count = (int)starpu_worker_get_ids_by_type(STARPU_CUDA_WORKER, workers, STARPU_NMAXWORKERS);
    for (int i = 0; i < count; i++) {
        char name[128];
        unsigned node = starpu_worker_get_memory_node((unsigned)workers[i]);
        starpu_worker_get_name(workers[i], name, sizeof(name));
        fprintf(file, "device %s: %lld MB for panels; from main memory %.4g MB/s, to it %.4g MB/s\n", name,
                (long long)starpu_memory_get_total(node) / 1000000, starpu_transfer_bandwidth(STARPU_MAIN_RAM, node),
                starpu_transfer_bandwidth(node, STARPU_MAIN_RAM));
    }
    if (count == 0) {
        print_none(file);
    }
}

void weft_cuda_stop(void)
{
    for (int i = 0; i < STARPU_NMAXWORKERS && weft_runtime.cuda_queues != NULL; i++) {
        weft_cuda_queue_free(&weft_runtime.cuda_queues[i]);
    }
    free(weft_runtime.cuda_queues);
}

#else

weft_status weft_cuda_started(const char *function, const weft_settings *settings, const struct starpu_conf *conf)
{
    (void)settings;
    return conf->ncuda <= 0 ? WEFT_OK
                            : weft_fail(WEFT_ERR_UNSUPPORTED, function,
                                        "WEFT_DEVICES is %d, but StarPU was built without CUDA", conf->ncuda);
}

void weft_cuda_fill_in(struct starpu_codelet *codelet, weft_kernel_id kernel)
{
    (void)codelet;
    (void)kernel;
}

void weft_cuda_print(FILE *file)
{
    print_none(file);
}

void weft_cuda_stop(void)
{
}

#endif
