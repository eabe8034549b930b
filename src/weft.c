/* Library start and stop: starts the levels from the bottom up, stops them from the top down. */
#include <weft/weft.h>

#include <stdlib.h>
#include <string.h>

#if WEFT_HAVE_MPI
#include "comm/mpi_identity.h"
#endif

#include "arrays/arrays.h"
#include "autograd/tape.h"
#include "call/deferral.h"
#include "codelets/linear.h"
#include "comm/calibrate.h"
#include "comm/check_spmd.h"
#include "comm/comm.h"
#include "comm/handshake.h"
#include "comm/launcher.h"
#include "comm/nccl_open.h"
#include "dispatch/dispatch.h"
#include "graph/auto/auto.h"
#include "graph/run/graph.h"
#include "io/contents.h"
#include "io/saving.h"
#include "module/module.h"
#include "predict/predict.h"
#include "runtime/components.h"
#include "runtime/device_watch.h"
#include "runtime/failures.h"
#include "runtime/pool.h"
#include "runtime/task_memory.h"
#include "runtime/thread.h"
#include "runtime/variables.h"
#include "start.h"
#include "tensor/tensor.h"

/* No transport: this process is alone. */
static const weft_transport no_transport = { .name = "self", .place = { 0, 1, 0, 1 } };

#if WEFT_HAVE_MPI
static weft_status open_mpi(const char *function, const weft_settings *settings, const void *communicator,
                            weft_transport *transport)
{
    int takes_devices = settings->devices > 0 ? settings->mpi_devices : 0;
    return weft_mpi_open(function, communicator, settings->pack_bytes, settings->timeout_s, takes_devices, transport);
}
#else
static weft_status open_mpi(const char *function, const weft_settings *settings, const void *communicator,
                            weft_transport *transport)
{
    (void)settings;
    (void)communicator;
    (void)transport;
    return weft_fail(WEFT_ERR_UNSUPPORTED, function, "this library was built without MPI");
}
#endif

static weft_status open_transport(const char *function, weft_settings *settings, const weft_opener *opener,
                                  weft_transport *transport)
{
    *transport = no_transport;
    bool launched = false;
#if WEFT_HAVE_MPI
    launched = weft_launched_for_mpi();
#endif
    if (settings->world == WEFT_WORLD_AUTO) {
        settings->world = launched ? WEFT_WORLD_MPI : WEFT_WORLD_SELF;
    }
    if (settings->world != WEFT_WORLD_MPI) {
        return WEFT_OK;
    }
    return opener == NULL ? open_mpi(function, settings, NULL, transport)
                          : opener->open(function, settings, opener->argument, transport);
}

/* Whether all processes that a launcher has started should be in the world: not where the program names a
 * world of one process. */
static bool expects_all(weft_world asked, const weft_opener *opener)
{
    return opener != NULL ? opener->expects_all : asked == WEFT_WORLD_AUTO || asked == WEFT_WORLD_MPI;
}

static void warn(const weft_settings *settings, bool all_expected, const weft_transport *transport)
{
    if (settings->silent || transport->place.process != 0) {
        return;
    }
    weft_variables_warn(stderr);
    if (all_expected && transport->place.num_processes == 1) {
        weft_launcher_warn(stderr);
    }
}

/* The message that is kept, without the function that it begins with. */
static const char *bare_message(const char *function)
{
    const char *message = weft_kept_message();
    size_t length = strlen(function);
    bool named = strncmp(message, function, length) == 0 && strncmp(message + length, ": ", 2) == 0;
    return named ? message + length + 2 : message;
}

/* The others do not ask any more whether this process starts: they have to be told. */
static void give_up_world(const char *function, weft_status status, const weft_transport *transport)
{
    if (transport->place.num_processes == 1 || weft_is_broken()) {
        return;
    }
    weft_break(status, function, "%s", bare_message(function));
    if (weft_runtime.comm == NULL) { /* else its thread tells them */
        weft_transport_abort(transport);
    }
}

static void stop_floors(const weft_transport *transport)
{
    weft_auto_stop();
    weft_graphs_stop();
    weft_autograd_stop();
    weft_dispatch_stop();
    weft_arrays_stop();
    weft_tensors_stop();
    weft_device_watch_leave(weft_runtime.device_watch);
    if (weft_runtime.comm != NULL) {
        weft_comm_stop(weft_runtime.comm);
        weft_runtime.comm = NULL;
    } else if (transport->data.state != NULL) {
        weft_transport_close(transport);
    }
    weft_runtime_stop();
}

/* Where messages in device memory lie: a part of the first device's memory. Granted panels are not evicted. */
static void use_device(weft_data *data)
{
    enum { GRANTED_PART = 4 };
    int worker;
    if (data->takes_devices && weft_runtime.cuda_queues != NULL &&
        starpu_worker_get_ids_by_type(STARPU_CUDA_WORKER, &worker, 1) > 0) {
        data->node = (int)starpu_worker_get_memory_node((unsigned)worker);
        data->device_bytes = weft_runtime.device_bytes / GRANTED_PART;
        weft_runtime.device_bytes -= data->device_bytes; /* tasks share the rest */
    }
}

/* *told: the others know of the error. */
static weft_status start_comm(const char *function, const weft_settings *settings, weft_transport *transport, bool *told)
{
    if (transport->data.state == NULL) {
        return WEFT_OK;
    }
    use_device(&transport->data);
    weft_status status = weft_nccl_open(function, settings, transport, told);
    if (status != WEFT_OK) {
        return status;
    }
    *told = false;
    if (transport->data.enable_packing != NULL) {
        transport->data.enable_packing(transport->data.state);
    }
    weft_runtime.give_up = weft_comm_give_up;
    weft_runtime.comm = weft_comm_start(function, *transport, settings->timeout_s);
    return weft_runtime.comm == NULL ? weft_latest_status() : WEFT_OK;
}

/* Above the runtime, which all processes have started. */
static weft_status start_floors(const char *function, const weft_settings *settings,
                                weft_transport *transport)
{
    bool told = false;
    weft_status status = weft_calibrate(function, settings, transport);
    status = status == WEFT_OK ? weft_runtime_configure(function, settings) : status;
    status = status == WEFT_OK ? start_comm(function, settings, transport, &told) : status;
    status = status == WEFT_OK ? weft_tensors_start() : status;
    status = status == WEFT_OK ? weft_arrays_start() : status;
    status = status == WEFT_OK ? weft_dispatch_start() : status;
    status = status == WEFT_OK ? weft_graphs_start() : status;
    status = status == WEFT_OK ? weft_auto_start() : status;
    if (status != WEFT_OK && !told) {
        give_up_world(function, status, transport);
    }
    if (status == WEFT_OK) {
        weft_predict_start();
    }
    return status;
}

/* Called by exit(). What exit() ends in the child of a fork() is not this world. */
static void leave_at_exit(void)
{
    const weft_runtime_state *state = &weft_runtime;
    if (state->initialized && state->comm != NULL && state->num_processes > 1 && !weft_thread_forked()) {
        weft_comm_leave(state->comm);
    }
}

/* Functions of atexit() are called from the last to the first: this one before those that end MPI. */
static void watch_exit(void)
{
    static bool watches_exit;
    watches_exit = watches_exit || atexit(leave_at_exit) == 0;
}

/* A process that cannot start comes as far as the others' handshake all the same, where it can: they wait
 * for it. */
static weft_status start(const char *function, const weft_config *config, const weft_opener *opener)
{
    weft_settings settings;
    weft_status status = weft_settings_read(function, config, &settings);
    status = status == WEFT_OK ? weft_predict_check(function) : status;
    if (opener != NULL) {
        settings.world = WEFT_WORLD_MPI;
    }
    bool all_expected = expects_all(settings.world, opener);
    weft_transport transport;
    bool limited = weft_components_limit();
    weft_status opened = open_transport(function, &settings, opener, &transport);
    status = status != WEFT_OK ? status : opened;
    status = status == WEFT_OK ? weft_runtime_start(function, &settings, transport.place) : status;
    weft_components_restore(limited);
    status = weft_handshake(function, status, &settings, &transport);
    status = status == WEFT_OK ? start_floors(function, &settings, &transport) : status;
    if (status != WEFT_OK) {
        stop_floors(&transport);
        return status;
    }
    warn(&settings, all_expected, &transport);
    weft_blas_use_one_thread();
    weft_runtime.initialized = true;
    weft_runtime.sweep_layouts = weft_sweep_layouts;
    weft_runtime.check = settings.check && transport.place.num_processes > 1;
    watch_exit();
    if (weft_runtime.comm != NULL && transport.place.num_processes > 1 && settings.signals) {
        weft_comm_heed_sigterm(weft_runtime.comm);
    }
    return WEFT_OK;
}

weft_status weft_init_over(const char *function, const weft_opener *opener, const weft_config *config)
{
    weft_status status = weft_thread_claim(function);
    if (status == WEFT_OK && (status = start(function, config, opener)) != WEFT_OK) {
        weft_thread_leave();
    }
    return status;
}

weft_status weft_init(const weft_config *config)
{
    return weft_init_over("weft_init", NULL, config);
}

#if WEFT_HAVE_MPI
weft_status weft_init_communicator(const weft_communicator *communicator, const weft_config *config)
{
    static const char function[] = "weft_init_mpi"; /* by which programs call it */
    weft_status status = weft_mpi_check_program(function, communicator);
    if (status != WEFT_OK) {
        return status;
    }
    const MPI_Comm *comm = communicator->handle;
    weft_opener opener = { .open = open_mpi, .argument = comm, .expects_all = *comm == MPI_COMM_WORLD };
    return weft_init_over(function, &opener, config);
}

weft_status weft_init_mpi_fortran(int communicator, const weft_config *config)
{
    static const char function[] = "weft_init_mpi_fortran";
    weft_status status = weft_mpi_check_running(function);
    if (status != WEFT_OK) {
        return status;
    }
    int initialized = 0, finalized = 0;
    MPI_Initialized(&initialized);
    MPI_Finalized(&finalized);
    if (!initialized || finalized) {
        return weft_fail(WEFT_ERR_STATE, function, "MPI is not initialised");
    }
    MPI_Comm comm = MPI_Comm_f2c((MPI_Fint)communicator);
#ifdef OPEN_MPI
    bool is_one = comm != NULL && comm != MPI_COMM_NULL; /* NULL: no communicator has that number */
#else
    bool is_one = comm != MPI_COMM_NULL;
#endif
    if (!is_one) {
        return weft_fail(WEFT_ERR_INVALID, function, "%d is no communicator of Fortran", communicator);
    }
    return weft_init_mpi(comm, config);
}
#endif

/* Everything that the program has asked for is submitted then, and nothing keeps it from ending. */
static weft_status begin_to_wait(const char *function)
{
    weft_status status = weft_require_init(function);
    if (status != WEFT_OK) {
        return status;
    }
    if (weft_tensors_acquired() > 0) {
        return weft_fail(
            WEFT_ERR_STATE, function,
            "weft_local_acquire() holds %d of the shards: tasks may wait for weft_local_release()",
            weft_tensors_acquired());
    }
    if (!weft_deferral_finish(function)) {
        return weft_latest_status();
    }
    weft_end_pause();
    return WEFT_OK;
}

weft_status weft_test(bool *ended)
{
    if (ended == NULL) {
        return weft_fail(WEFT_ERR_INVALID, "weft_test", "ended is NULL");
    }
    *ended = false;
    weft_status status = begin_to_wait("weft_test");
    if (status == WEFT_OK) {
        *ended = (weft_runtime.comm == NULL || weft_comm_is_idle(weft_runtime.comm)) && starpu_task_nsubmitted() == 0;
    }
    return status;
}

weft_status weft_wait(void)
{
    weft_status status = begin_to_wait("weft_wait");
    if (status != WEFT_OK) {
        return status;
    }
    /* Transfers first: the tasks that are left then wait for nothing but tasks. */
    if (weft_runtime.comm != NULL) {
        weft_comm_wait(weft_runtime.comm);
    }
    starpu_task_wait_for_all();
    weft_task_memory_collect(weft_runtime.task_memory);
    weft_pool_wait_for_borrowed(weft_runtime.pool);
    weft_pool_collect(weft_runtime.pool);
    weft_errors_forget_operations();
    return weft_error_collect();
}

weft_status weft_pause(void)
{
    weft_status status = weft_require_init("weft_pause");
    weft_deferral_note("weft_pause");
    if (status == WEFT_OK && !weft_runtime.paused) {
        weft_pause_workers();
    }
    return status;
}

weft_status weft_resume(void)
{
    weft_status status = weft_require_init("weft_resume");
    weft_deferral_note("weft_resume");
    if (status == WEFT_OK) {
        weft_end_pause();
    }
    return status;
}

weft_status weft_finalize(void)
{
    weft_status status = weft_require_init("weft_finalize");
    if (status != WEFT_OK) {
        return status;
    }
    if (weft_runtime.context.deferral != NULL) {
        return weft_fail(WEFT_ERR_STATE, "weft_finalize", "called from within the function of a graph");
    }
    if (weft_runtime.context.in_program > 0) {
        return weft_fail(WEFT_ERR_STATE, "weft_finalize", "called from within a function that the library has called");
    }
    const weft_status late = weft_deferral_finish("weft_finalize") ? WEFT_OK : weft_latest_status();
    if (weft_runtime.tells_left_over) {
        weft_tensors_tell_left_over(stderr);
    }
    weft_tensors_let_go();
    weft_check_spmd(&(weft_call_signature){ .function = "weft_finalize" });
    weft_savings_join();
    status = weft_wait();
    if (!weft_call_last("weft_finalize")) {
        status = weft_wait(); /* for transfers of the broken world */
    }
    if (weft_runtime.silent) {
        weft_failures_forget();
    }
    weft_failures_tell(stderr);
    weft_auto_stop();
    weft_graphs_stop();
    weft_modules_stop();
    weft_autograd_stop();
    weft_savings_stop();
    weft_files_stop();
    weft_dispatch_stop();
    weft_arrays_stop();
    weft_tensors_stop();
    weft_device_watch_leave(weft_runtime.device_watch);
    weft_comm_stop(weft_runtime.comm);
    weft_runtime.comm = NULL;
    weft_operations_forget();
    weft_runtime_stop();
    weft_thread_leave();
    return status == WEFT_OK ? late : status;
}

/* The number, where it may be asked for; 0 elsewhere, which before weft_init() is no error. */
static int tell(const char *function, const int *number)
{
    return !weft_thread_none() && weft_require_init(function) == WEFT_OK ? *number : 0;
}

int weft_world_size(void)
{
    return tell("weft_world_size", &weft_runtime.topology.num_ranks);
}

int weft_first_rank(void)
{
    return tell("weft_first_rank", &weft_runtime.first_rank);
}

int weft_local_ranks(void)
{
    return tell("weft_local_ranks", &weft_runtime.local_ranks);
}

int weft_num_processes(void)
{
    return tell("weft_num_processes", &weft_runtime.num_processes);
}

int weft_process_index(void)
{
    return tell("weft_process_index", &weft_runtime.process);
}

weft_status weft_get_counters(weft_counters *counters, size_t size)
{
    weft_status status = weft_require_init("weft_get_counters");
    if (status != WEFT_OK) {
        return status;
    }
    weft_deferral_finish_implicit("weft_get_counters");
    weft_counters now = weft_runtime.counters;
    now.tensor_bytes = (uint64_t)weft_pool_bytes_in_use(weft_runtime.pool);
    return weft_give_struct("weft_get_counters", "counters", counters, size, &now, sizeof(now))
               ? WEFT_OK
               : weft_latest_status();
}

weft_status weft_print_pending(FILE *file)
{
    static const char function[] = "weft_print_pending";
    if (file == NULL) {
        return weft_fail(WEFT_ERR_INVALID, function, "file is NULL");
    }
    if (weft_thread_forked()) {
        return weft_require_init(function);
    }
    if (weft_runtime.comm != NULL) {
        weft_comm_print_pending(weft_runtime.comm, file);
    }
    return WEFT_OK;
}
