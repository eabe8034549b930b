#include "runtime/cuda.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "codelets/complex.h"
#include "codelets/cuda/dnn.h"
#include "codelets/cuda/fourier.h"
#include "codelets/cuda/kernels.h"
#include "codelets/cuda/products.h"
#include "codelets/problems.h"
#include "codelets/same_bits.h"
#include "runtime/background.h"
#include "runtime/device_watch.h"
#include "runtime/home.h"
#include "runtime/variables.h"
#include "sched/sched.h"

/* StarPU allocates device memory in blocks of 32 MB, which it divides. Where a few of these are all there is, it waits for
 * ever for one that is free as a whole. */
static weft_status check_memory(const char *function, int device)
{
    enum { FEWEST = 1 << 20, FEWEST_FOR_BLOCKS = 128 << 20 };
    int64_t bytes = weft_cuda_device_bytes(device);
    if (bytes < FEWEST) {
        return weft_fail(WEFT_ERR_UNSUPPORTED, function, "device %d has %lld bytes of memory, at least %d are needed", device,
                         (long long)bytes, FEWEST);
    }
    if (bytes < FEWEST_FOR_BLOCKS) {
        setenv("STARPU_SUBALLOCATOR", "0", 0);
    }
    return WEFT_OK;
}

weft_status weft_cuda_choose(const char *function, const weft_settings *settings, weft_process_place place,
                             struct starpu_conf *conf)
{
    int wanted = settings->world == WEFT_WORLD_FAKE ? 0 : settings->devices;
    conf->ncuda = wanted;
    if (wanted == 0) {
        return WEFT_OK;
    }
    /* A kernel that is loaded when it is first launched waits for the device, where a group of messages may wait for other processes,
     * which may wait for that kernel's task. CUDA reads this at its first call. */
    if (place.num_processes > 1) {
        setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    }
    /* StarPU keeps a part of a device's buffers equal to copies in main memory, so that it can evict them at once: in a training step
     * it copied each gradient, and pinned memory for it. Here most buffers are temporaries, which are never evicted. */
    setenv("STARPU_MINIMUM_CLEAN_BUFFERS", "0", 0);
    setenv("STARPU_TARGET_CLEAN_BUFFERS", "0", 0);
    int there = weft_cuda_count_devices();
    if (there < 0) {
        return weft_fail(WEFT_ERR_UNSUPPORTED, function, "WEFT_DEVICES is %d, but weft was built without CUDA", wanted);
    }
    if (there < wanted) {
        return weft_fail(WEFT_ERR_UNSUPPORTED, function, "WEFT_DEVICES is %d, but CUDA finds %d devices", wanted, there);
    }
    /* Processes of a machine take different devices, and share them where there are too few. */
    conf->use_explicit_workers_cuda_gpuid = 1;
    weft_status status = WEFT_OK;
    for (int i = 0; i < wanted && i < STARPU_NMAXWORKERS && status == WEFT_OK; i++) {
        conf->workers_cuda_gpuid[i] = (unsigned)(((int64_t)place.node_process * wanted + i) % there);
        status = check_memory(function, (int)conf->workers_cuda_gpuid[i]);
    }
    return status;
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

/* Less than three quarters are free: up to then such copies may take the rest. Panels of groups and of messages take a quarter
 * at most, two tasks at once a quarter each (fits_on_device()). */
static bool is_scarce(unsigned node)
{
    starpu_ssize_t total = starpu_memory_get_total(node); /* -1: StarPU does not know */
    return total < 0 || starpu_memory_get_available(node) < total - total / 4;
}

void weft_cuda_free_stale(starpu_data_handle_t handle, int granted)
{
    unsigned nodes = weft_runtime.device_bytes == 0 ? 0 : starpu_memory_nodes_get_count();
    for (unsigned node = 0; node < nodes; node++) {
        int allocated = 0, valid = 0, loading = 0, requested = 0;
        if ((int)node == granted || starpu_node_get_kind(node) != STARPU_CUDA_RAM) {
            continue;
        }
        starpu_data_query_status2(handle, (int)node, &allocated, &valid, &loading, &requested);
        if (allocated && is_scarce(node) && !weft_home_is_lent(handle, node)) {
            starpu_data_evict_from_node(handle, node); /* copies a last value to main memory, of no use */
        }
    }
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

static bool is_for_cpus(const weft_codelet *codelet, const weft_task_run *run)
{
    return weft_task_is_for_cpus(codelet->info->form, run->arguments, run->num_operands);
}

/* Devices run all that has a CUDA function and fits there, CPUs the rest; where the results' bits are the same anyway, CPUs may
 * run it as well. Otherwise bits would depend on time. */
static int can_execute(unsigned worker, struct starpu_task *task, unsigned implementation)
{
    const weft_codelet *codelet = (const weft_codelet *)(const void *)task->cl;
    (void)implementation;
    bool on_device = (codelet->on_devices == NULL ? !is_for_cpus(codelet, task->cl_arg) : codelet->on_devices(task->cl_arg)) &&
                     fits_on_device(task);
    if (starpu_worker_get_type((int)worker) == STARPU_CUDA_WORKER) {
        return on_device;
    }
    return !on_device || (codelet->on_devices == NULL && weft_kernel_has_same_bits(codelet->info));
}

static bool has_model(const char *symbol)
{
    char path[PATH_MAX];
    starpu_perfmodel_get_model_path(symbol, path, sizeof(path));
    return access(path, R_OK) == 0;
}

/* A model that knows nothing would be measured from now on, with a warning. */
static bool asks_model(struct starpu_task *task)
{
    return task->cl->can_execute == can_execute && ((const weft_codelet *)(const void *)task->cl)->asks;
}

/* After the stream's work, before others get what the task has written. */
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
    const weft_codelet *codelet = weft_codelet_of(run->kernel);
    weft_device_watch_launch(weft_runtime.device_watch, codelet->info->name, run->function);
    int failed = codelet->cuda(run, queue);
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

void weft_cuda_fill_in(weft_codelet *codelet)
{
    struct starpu_codelet *starpu = &codelet->starpu;
    if (weft_runtime.cuda_queues != NULL && codelet->cuda != NULL) {
        starpu->cuda_funcs[0] = run_cuda;
        starpu->cuda_flags[0] = STARPU_CUDA_ASYNC;
        starpu->can_execute = can_execute;
        codelet->asks = weft_starpu_measures() || has_model(codelet->symbol);
    }
}

/* StarPU takes nine tenths of a device's memory, in whole MB; less than one is no limit to it. */
static int64_t smallest_memory(const int workers[], int count)
{
    int64_t smallest = INT64_MAX;
    for (int i = 0; i < count; i++) {
        int64_t limit = starpu_memory_get_total(starpu_worker_get_memory_node((unsigned)workers[i])); /* -1: none */
        int64_t part = weft_cuda_device_bytes(starpu_worker_get_devid(workers[i])) / 10 * 9;
        smallest = weft_min_i64(smallest, limit < 0 ? part : weft_min_i64(limit, part));
    }
    return smallest;
}

/* On each worker of a device, before panels have filled its memory. A device without memory says so where a kernel needs it. */
static void start_worker(void *nothing)
{
    int worker = starpu_worker_get_id();
    (void)nothing;
    weft_background_wake_on_time(); /* it naps where nothing is computed, and then moves data */
    weft_runtime.cuda_queues[worker].stream = starpu_cuda_get_local_stream();
    weft_cuda_queue_start(&weft_runtime.cuda_queues[worker]);
    weft_device_watch_add(weft_runtime.device_watch, starpu_worker_get_devid(worker), starpu_cuda_get_local_stream());
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
    weft_runtime.devices = (weft_device_world){ weft_runtime.device_bytes,
                                                (int)weft_ceil_div(count, weft_max_i64(1, weft_runtime.local_ranks)) };
    weft_runtime.cuda_queues = calloc(STARPU_NMAXWORKERS, sizeof(*weft_runtime.cuda_queues));
    weft_runtime.device_watch = weft_device_watch_new();
    if (weft_runtime.cuda_queues == NULL || weft_runtime.device_watch == NULL) {
        return weft_fail(WEFT_ERR_NOMEM, function, "no memory for the devices' queues");
    }
    int tasks = weft_device_watch_tasks(weft_runtime.device_watch);
    for (int i = 0; i < STARPU_NMAXWORKERS; i++) {
        weft_runtime.cuda_queues[i].tf32 = settings->tf32;
        weft_runtime.cuda_queues[i].fast = settings->fast;
        weft_runtime.cuda_queues[i].num_errors = tasks * WEFT_CUDA_TASK_ERRORS;
    }
    unsigned chosen[STARPU_NMAXWORKERS];
    for (int i = 0; i < count; i++) {
        chosen[i] = (unsigned)workers[i];
    }
    starpu_execute_on_specific_workers(start_worker, NULL, (unsigned)count, chosen, "weft");
    if (!weft_device_watch_start(weft_runtime.device_watch, settings->signals)) {
        return weft_fail(WEFT_ERR_NOMEM, function, "no thread to watch the devices");
    }
    if (conf->sched_policy != NULL) {
        weft_sched_use_models(asks_model, weft_starpu_measures());
    }
    return WEFT_OK;
}

int weft_cuda_node_of(int device)
{
    int workers[STARPU_NMAXWORKERS], node = -1;
    int count = (int)starpu_worker_get_ids_by_type(STARPU_CUDA_WORKER, workers, STARPU_NMAXWORKERS);
    for (int i = 0; i < count && weft_runtime.cuda_queues != NULL; i++) {
        node = starpu_worker_get_devid(workers[i]) == device ? (int)starpu_worker_get_memory_node((unsigned)workers[i]) : node;
    }
    return node;
}

static bool has_values(starpu_data_handle_t handle, int node)
{
    int allocated = 0, valid = 0, loading = 0, requested = 0;
    starpu_data_query_status2(handle, node, &allocated, &valid, &loading, &requested);
    return valid;
}

int weft_cuda_hold(starpu_data_handle_t handle, int number, void **memory)
{
    int workers[STARPU_NMAXWORKERS];
    int count = (int)starpu_worker_get_ids_by_type(STARPU_CUDA_WORKER, workers, STARPU_NMAXWORKERS);
    int node = (int)starpu_worker_get_memory_node((unsigned)workers[number % count]);
    weft_end_pause();
    starpu_data_acquire_on_node(handle, STARPU_ACQUIRE_NO_NODE, STARPU_R); /* until it is known where they are */
    for (int i = 0; i < count && !has_values(handle, node); i++) {
        int other = (int)starpu_worker_get_memory_node((unsigned)workers[i]);
        node = has_values(handle, other) ? other : node;
    }
    starpu_data_acquire_on_node(handle, node, STARPU_R);
    starpu_data_release_on_node(handle, STARPU_ACQUIRE_NO_NODE);
    *memory = weft_cuda_held(handle, node);
    return node;
}

void *weft_cuda_held(starpu_data_handle_t handle, int node)
{
    const struct starpu_variable_interface *panel = starpu_data_get_interface_on_node(handle, (unsigned)node);
    return (void *)panel->ptr; // NOLINT
}

void weft_cuda_let_go(starpu_data_handle_t handle, int node)
{
    starpu_data_release_on_node(handle, node);
}

/* A device to wait for, and the cudaError_t. */
typedef struct waiting {
    int device, failed;
} waiting;

static void *wait_for_device(void *argument)
{
    waiting *w = argument;
    w->failed = weft_cuda_synchronize(w->device);
    return NULL;
}

int weft_cuda_wait(int node)
{
    waiting w = { .device = starpu_memory_node_get_devid((unsigned)node) };
    pthread_t thread;
    /* The program's thread would get another current device, and setting that back would make a context, of hundreds of MB, where the
     * thread has never chosen one. */
    if (!weft_background_start(&thread, wait_for_device, &w)) {
        return WEFT_CUDA_NO_THREAD;
    }
    pthread_join(thread, NULL);
    return w.failed;
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
    } else if (weft_runtime.cuda_queues != NULL && weft_runtime.cuda_queues[workers[0]].fast) {
        char text[200];
        weft_dnn_describe(text, sizeof(text));
        fprintf(file, "cuDNN, for attention of 16-bit types, and convolution: %s\n", text);
        fprintf(file, "cuFFT: %s\n", weft_fourier_is_there() ? "found" : "none; CPUs compute Fourier transforms");
    }
}

void weft_cuda_stop(void)
{
    for (int i = 0; i < STARPU_NMAXWORKERS && weft_runtime.cuda_queues != NULL; i++) {
        weft_cuda_queue_free(&weft_runtime.cuda_queues[i]);
    }
    free(weft_runtime.cuda_queues);
    weft_device_watch_stop(weft_runtime.device_watch);
}

#else

weft_status weft_cuda_started(const char *function, const weft_settings *settings, const struct starpu_conf *conf)
{
    (void)settings;
    return conf->ncuda <= 0 ? WEFT_OK
                            : weft_fail(WEFT_ERR_UNSUPPORTED, function,
                                        "WEFT_DEVICES is %d, but StarPU was built without CUDA", conf->ncuda);
}

void weft_cuda_fill_in(weft_codelet *codelet)
{
    (void)codelet;
}

void weft_cuda_free_stale(starpu_data_handle_t handle, int granted)
{
    (void)handle;
    (void)granted;
}

int weft_cuda_node_of(int device)
{
    (void)device;
    return -1;
}

int weft_cuda_hold(starpu_data_handle_t handle, int number, void **memory)
{
    (void)handle;
    (void)number;
    *memory = NULL;
    return -1;
}

void *weft_cuda_held(starpu_data_handle_t handle, int node)
{
    (void)handle;
    (void)node;
    return NULL;
}

void weft_cuda_let_go(starpu_data_handle_t handle, int node)
{
    (void)handle;
    (void)node;
}

int weft_cuda_wait(int node)
{
    (void)node;
    return 0;
}

void weft_cuda_print(FILE *file)
{
    print_none(file);
}

void weft_cuda_stop(void)
{
}

#endif
