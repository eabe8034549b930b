/* Start and stop of the lower levels: numbers of the world, StarPU, layouts, pool. */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codelets/fft.h"
#include "machine/models.h"
#include "runtime/codelets.h"
#include "runtime/cuda.h"
#include "runtime/memory_limit.h"
#include "runtime/pending.h"
#include "runtime/pool.h"
#include "runtime/runtime.h"
#include "runtime/task_memory.h"
#include "runtime/trace.h"
#include "runtime/variables.h"
#include "sched/sched.h"

/* OpenBLAS's own; NULL with another BLAS. */
extern int openblas_get_num_threads(void) __attribute__((weak));
extern void openblas_set_num_threads(int) __attribute__((weak));

weft_runtime_state weft_runtime;

/* BLAS without threads of its own: each worker is a core and calls BLAS itself. */
static void take_blas_threads(void)
{
    if (openblas_set_num_threads != NULL && openblas_get_num_threads != NULL &&
        getenv("OPENBLAS_NUM_THREADS") == NULL) {
        weft_runtime.blas_threads = openblas_get_num_threads();
        openblas_set_num_threads(1);
    }
}

static void give_blas_threads_back(void)
{
    if (weft_runtime.blas_threads > 0) {
        openblas_set_num_threads(weft_runtime.blas_threads);
    }
}

/* Fills first_rank_of: ranks spread evenly, the first processes hosting one more; or the given number per
 * process. */
static weft_status spread_ranks(const char *function, const weft_settings *settings, weft_process_place place)
{
    weft_runtime_state *state = &weft_runtime;
    int64_t processes = place.num_processes;
    int64_t ranks = settings->ranks > 0 ? settings->ranks : settings->local_ranks * processes;
    ranks = weft_max_i64(ranks, processes);
    if (settings->world == WEFT_WORLD_FAKE) { /* this process takes the place of all */
        ranks = settings->fake_size;
        processes = weft_min_i64(ranks, weft_max_i64(settings->fake_processes, 1));
    }
    /* Redistributions have a transfer for each pair of a process's ranks: with more of them one call takes minutes. */
    enum { MAX_RANKS = 1 << 20, MAX_HOSTED = 4096 };
    if (ranks > MAX_RANKS) {
        return weft_fail(WEFT_ERR_INVALID, function,
                         "the world would have %lld ranks, at most %d are possible", (long long)ranks,
                         MAX_RANKS);
    }
    if (settings->world != WEFT_WORLD_FAKE && weft_ceil_div(ranks, processes) > MAX_HOSTED) {
        return weft_fail(WEFT_ERR_INVALID, function,
                         "a process would host %lld of %lld ranks, at most %d are possible: start more processes, or a fake "
                         "world (WEFT_WORLD=fake)",
                         (long long)weft_ceil_div(ranks, processes), (long long)ranks, MAX_HOSTED);
    }
    state->first_rank_of = malloc(((size_t)processes + 1) * sizeof(int));
    if (state->first_rank_of == NULL) {
        return weft_fail(WEFT_ERR_NOMEM, function, "no memory for %lld processes", (long long)processes);
    }
    int64_t each = ranks / processes, more = ranks % processes;
    for (int64_t p = 0; p <= processes; p++) {
        state->first_rank_of[p] = (int)(p * each + weft_min_i64(p, more));
    }
    state->process = place.process;
    state->num_processes = place.num_processes;
    state->topology = (weft_topology){ (int)ranks, (int)processes, state->first_rank_of };
    bool fake = settings->world == WEFT_WORLD_FAKE;
    state->first_rank = state->first_rank_of[place.process];
    state->local_ranks = fake ? 0 : state->first_rank_of[place.process + 1] - state->first_rank;
    return WEFT_OK;
}

static void *pass_gate(void *gate)
{
    pthread_mutex_lock(gate);
    pthread_mutex_unlock(gate);
    return NULL;
}

/* Creates and joins so many threads: 0, or an errno. */
static int try_threads(int count)
{
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    pthread_t *threads = malloc((size_t)count * sizeof(*threads));
    int made = 0, error = threads == NULL ? ENOMEM : 0;
    pthread_mutex_lock(&gate);
    while (made < count && error == 0) {
        error = pthread_create(&threads[made], NULL, pass_gate, &gate);
        made += error == 0;
    }
    pthread_mutex_unlock(&gate);
    for (int i = 0; i < made; i++) {
        pthread_join(threads[i], NULL);
    }
    pthread_mutex_destroy(&gate);
    free(threads);
    return error;
}

/* Checks that threads for StarPU's workers, and one for messages, can be created. */
static weft_status check_threads(const char *function, int workers)
{
    const char *given = getenv("STARPU_NCPU");
    int asked = given == NULL ? 0 : atoi(given);
    workers = asked > workers ? asked : workers;
    workers = workers < STARPU_MAXCPUS ? workers : STARPU_MAXCPUS;
    int error = try_threads(workers + 1);
    return error == 0 ? WEFT_OK
                      : weft_fail(WEFT_ERR_NOMEM, function, "no threads for %d workers and for messages: %s",
                                  workers, strerror(error));
}

static weft_status prepare_models(const char *function, bool warn)
{
    char why[PATH_MAX + 128];
    weft_status status = weft_models_prepare(warn, why, sizeof(why));
    return status == WEFT_OK ? WEFT_OK : weft_fail(status, function, "%s", why);
}

/* StarPU aborts without these resources, so they are checked first. */
static weft_status init_starpu(const char *function, const weft_settings *settings, weft_process_place place,
                               struct starpu_conf *conf)
{
    weft_status status = weft_trace_identify(function, place.process);
    status = status == WEFT_OK ? prepare_models(function, !settings->silent && place.process == 0) : status;
    status = status == WEFT_OK ? check_threads(function, conf->ncpus) : status;
    int failed = status == WEFT_OK ? starpu_init(conf) : 0;
    weft_models_restore();
    return failed == 0
               ? status
               : weft_fail(WEFT_ERR_UNSUPPORTED, function, "StarPU does not start: %s", strerror(-failed));
}

static weft_status start_starpu(const char *function, const weft_settings *settings, weft_process_place place)
{
    if (starpu_is_initialized()) {
        return WEFT_OK;
    }
    struct starpu_conf conf;
    starpu_conf_init(&conf);
    unsigned units[STARPU_NMAXWORKERS];
    bool bind = false;
    int wanted = settings->world == WEFT_WORLD_FAKE ? 1 : settings->workers;
    int workers = weft_devices_choose(wanted, place, units, STARPU_MAXCPUS, &bind);
    /* STARPU_NCPU in the environment wins. */
    conf.ncpus = workers;
    conf.nopencl = 0;
    conf.sched_policy = weft_sched_policy();
    if (bind && getenv("STARPU_WORKERS_NOBIND") == NULL && getenv("STARPU_NCPU") == NULL) {
        conf.use_explicit_workers_bindid = 1;
        memcpy(conf.workers_bindid, units, (size_t)workers * sizeof(units[0]));
    } else {
        setenv("STARPU_WORKERS_NOBIND", "1", 0);
    }
    starpu_malloc_set_align(64); /* a cache line, and the widest vector */
    weft_status status = weft_cuda_choose(function, settings, place, &conf);
    status = status == WEFT_OK ? init_starpu(function, settings, place, &conf) : status;
    if (status != WEFT_OK) {
        return status;
    }
    weft_runtime.owns_starpu = true;
    status = weft_cuda_started(function, settings, &conf);
    if (status != WEFT_OK) {
        return status;
    }
    if (conf.sched_policy != NULL && !weft_sched_has_started()) {
        return weft_fail(WEFT_ERR_NOMEM, function, "no memory for the queue of tasks");
    }
    return WEFT_OK;
}

/* This process's share of the machine's memory, or of what its control groups allow. */
static int64_t share_of_memory(weft_process_place place)
{
    int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    int64_t memory = weft_min_i64(pages > 0 && page > 0 ? pages * page : (int64_t)1 << 32, weft_memory_limit(""));
    return memory / weft_max_i64(1, place.node_processes);
}

weft_status weft_runtime_start(const char *function, const weft_settings *settings, weft_process_place place)
{
    weft_runtime_state *state = &weft_runtime;
    state->world = settings->world;
    state->seed = settings->seed;
    state->silent = settings->silent;
    state->tells_left_over = settings->check && !settings->silent;
    state->task_cache = settings->task_cache;
    state->call_cache.budget = (size_t)settings->cache_bytes;
    weft_status status = spread_ranks(function, settings, place);
    if (status == WEFT_OK) {
        status = start_starpu(function, settings, place);
    }
    if (status == WEFT_OK) {
        take_blas_threads();
        state->trace = weft_trace_start(place);
        state->counts_flops = state->trace != NULL || weft_starpu_measures();
        const int64_t share = share_of_memory(place);
        state->memory_bytes = settings->memory_bytes > 0 ? settings->memory_bytes : share;
        state->pool = weft_pool_new(settings->pool_bytes > 0 ? settings->pool_bytes : share / 4);
        state->pending = weft_pending_new(settings->max_pending_tasks);
        state->task_memory = weft_task_memory_new();
        if (state->pool == NULL || state->pending == NULL || state->task_memory == NULL) {
            status = weft_fail(WEFT_ERR_NOMEM, function, "no memory for the runtime");
        }
        status = status == WEFT_OK ? weft_codelets_start(function) : status;
    }
    if (status != WEFT_OK) {
        weft_runtime_stop();
    }
    return status;
}

weft_status weft_runtime_configure(const char *function, const weft_settings *settings)
{
    weft_runtime_state *state = &weft_runtime;
    bool measured = state->machine_source != weft_machine_builtin;
    const weft_machine machine = state->planned = measured ? weft_machine_rounded(&state->machine) : state->machine;
    state->cost = weft_machine_cost(&machine, state->spread);
    state->cost.algorithm = settings->algorithm;
    state->graph_passes = settings->graph_passes;
    state->autograph = settings->autograph;
    /* Heights determine the order of sums, so the CPU's bits need the CPU's heights. */
    weft_device_world devices = settings->fast ? state->devices : (weft_device_world){ 0 };
    state->panels = weft_machine_prescribed_panels(&machine, settings->panel_bytes, settings->panel_rows, devices);
    state->messages = weft_machine_messages(&machine, state->spread);
    state->layouts = weft_layout_table_new(state->panels);
    if (state->layouts == NULL) {
        return weft_fail(WEFT_ERR_NOMEM, function, "no memory for the runtime");
    }
    enum { SPARE_PART = 16 }; /* of the caches' bytes */
    weft_layout_table_spare(state->layouts, settings->cache_bytes / SPARE_PART);
    return WEFT_OK;
}

void weft_runtime_stop(void)
{
    weft_runtime_state *state = &weft_runtime;
    weft_task_memory_delete(state->task_memory);
    weft_pool_delete(state->pool);
    weft_pending_delete(state->pending);
    weft_layout_table_delete(state->layouts);
    weft_handle_remove_all(&state->handles.meshes);
    weft_mesh_impl **meshes = state->meshes.items;
    for (size_t i = 0; i < state->meshes.count; i++) {
        weft_mesh_delete(meshes[i]);
    }
    weft_vec_free(&state->meshes);
    weft_vec_free(&state->mesh_stack);
    free(state->first_rank_of);
    weft_cuda_stop();
    if (state->owns_starpu) {
        weft_sched_stop();
        starpu_shutdown();
    }
    weft_codelets_stop();
    weft_fft_forget_plans();
    weft_models_remove();
    give_blas_threads_back();
    weft_trace_stop(state->trace);
    weft_here_stop(state);
    *state = (weft_runtime_state){ .handles = state->handles };
    weft_unbreak();
}
