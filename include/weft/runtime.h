/** \file
 * Starting and stopping, errors, scopes, counters.
 */
#ifndef WEFT_RUNTIME_H
#define WEFT_RUNTIME_H

#include <stdio.h>

#include <weft/base.h>

WEFT_BEGIN_DECLS

/*
 * Back-pressure. A call that creates, computes or moves tensors returns before its tasks have run. If
 * weft_config.max_pending_tasks tasks of this process are pending, the next such call BLOCKS until half of them have
 * ended. So a program that never waits still needs only bounded memory. A call submits all its tasks together,
 * however many they are.
 *
 * Memory is limited in the same way: a call also BLOCKS while released tensors whose tasks are still pending take
 * more than a quarter of weft_config.pool_bytes (but at least 64 MiB). This matters for programs with few tasks and
 * large arrays.
 *
 * A call may therefore wait until other processes make the calls that come before it. If your program exchanges
 * messages of its own, do not let a process wait for such a message while another one calls weft.
 *
 * WEFT_ERR_STATE: the pending tasks (or the memory) that reached the limit are waiting for a shard that your program
 * has acquired (weft_local_acquire()). The call was not made: no rank has changed, and the other processes are
 * waiting for it. Release the shard and make the call again.
 */

/** Which processes host the ranks. */
typedef enum weft_world {
    WEFT_WORLD_AUTO = 0, /**< mpi if started by mpirun or srun, otherwise self */
    WEFT_WORLD_SELF,     /**< this process hosts every rank; needs no MPI */
    WEFT_WORLD_MPI,      /**< the processes of an MPI communicator host the ranks, each a contiguous range */
    WEFT_WORLD_FAKE      /**< any number of ranks without data: shapes, layouts and plans only */
} weft_world;

/** Zero-initialise it (WEFT_CONFIG_DEFAULT) and set the fields you need. A field that is zero is taken from the
 * environment variable that its comment names; if that is not set either, the field has its default. */
typedef struct weft_config {
    size_t size; /**< 0, or sizeof of this struct ("Structs of options" in <weft/base.h>) */
    weft_world world; /**< WEFT_WORLD: "auto", "self", "mpi", "fake" */
    int local_ranks;  /**< WEFT_LOCAL_RANKS: ranks that each process hosts; default 1, at most 4096 */
    int fake_size;    /**< WEFT_FAKE_SIZE: number of ranks of the fake world; default 1. Costs are computed for
                           WEFT_FAKE_PROCESSES processes (default 1), each on a host of its own, and for the machine
                           described by the file WEFT_MACHINE (docs/machine.md) */
    uint64_t seed;    /**< WEFT_SEED: seed of the random numbers; default 0. Must be the same on every process */
    int ranks;   /**< WEFT_RANKS: total number of ranks, at least one per process. weft spreads them over the
                      processes as evenly as possible; the first processes host one more. Set it instead of
                      local_ranks, so that the program runs unchanged on any number of processes */
    int workers; /**< WEFT_WORKERS: CPU workers of this process, at least 1; default: its share of the cores that
                      hwloc shows. STARPU_NCPU overrides it */
    int64_t pool_bytes; /**< WEFT_POOL_BYTES: memory of released tensors that weft keeps for reuse or is returning to
                             the system. It includes StarPU's handles (2.5 KB or more for each panel). The default is
                             a quarter of the machine's memory, or of the limit that control groups (of a batch job or
                             a container) set, divided by the number of processes on the machine */
    int64_t cache_bytes; /**< WEFT_CACHE_BYTES: memory for results that later calls of the same kind reuse: chosen
                              layouts, plans of redistributions, lists of tasks. The least recently used are dropped
                              first; default 128 MiB. WEFT_CACHE_BYTES=0 keeps nothing. Layouts that no tensor uses
                              any more may take another sixteenth of it, or as much as those of live tensors */
    int timeout_s; /**< WEFT_TIMEOUT_S: the world breaks (see weft_wait()) if messages make no progress, or a process
                        does not arrive, for this many seconds; default 1800. WEFT_TIMEOUT_S=0: never */
    int64_t max_pending_tasks; /**< WEFT_MAX_PENDING_TASKS: how many tasks of this process may be pending before a
                                    call waits ("Back-pressure" above); default 16384, about 60 MB. Negative
                                    (WEFT_MAX_PENDING_TASKS=-1): no limit. Processes may use different values */
} weft_config;

#define WEFT_CONFIG_DEFAULT                                                                                  \
    {                                                                                                        \
        0, WEFT_WORLD_AUTO, 0, 0, 0, 0, 0, 0, 0, 0, 0                                                        \
    }

/** Sets all fields to 0, and `size`. */
static inline void weft_config_init(weft_config *options)
{
    const weft_config all = WEFT_CONFIG_DEFAULT;
    *options = all;
    options->size = sizeof(*options);
}

/** Threads. From weft_init() to weft_finalize() weft belongs to the thread that called weft_init(); any thread may do
 * that. On other threads, in tasks (a kernel of weft_operation_register(), a callback of StarPU) and in children of
 * fork(), every function returns WEFT_ERR_STATE and changes nothing. Any such thread or child may exit. Errors are
 * kept per thread (weft_last_error()). Functions that need no weft_init() may be called anywhere: those of
 * <weft/base.h> and <weft/placement.h>, and those that query and clear errors. weft_print_pending() may be called on
 * any thread, but not in a child and not during weft_finalize(). If a process does not run weft, its child may start
 * it, but not on an MPI that the parent initialised. */

/** Starts the world and StarPU. If your program has started StarPU already, weft shares it and leaves it running. If
 * `config` is NULL, all settings come from the environment or have their defaults. In the mpi world weft initialises
 * MPI, asking for MPI_THREAD_MULTIPLE, and finalises it at the end, unless your program has initialised it. To use a
 * communicator of your own, call weft_init_mpi() of <weft/mpi.h>.
 *
 * BLOCKS until all processes of the world have arrived, or for WEFT_TIMEOUT_S (WEFT_ERR_TIMEOUT; weft cannot be
 * started again then). If weft initialises MPI, MPI_Init_thread() first waits for absent processes without a limit;
 * after WEFT_TIMEOUT_S weft prints a line about that to standard error. Either all processes start or none does: if
 * one cannot, the others return its status with a message that names it.
 *
 * The number of ranks, the seed, WEFT_PANEL_BYTES, WEFT_PANEL_ROWS, WEFT_PLAN, WEFT_GRAPH_PASSES, WEFT_AUTOGRAPH,
 * WEFT_TF32, WEFT_BITS and WEFT_CHECK must be the same on every process.
 *
 * The first start on a machine takes about 0.1 s longer, because weft measures the machine and keeps the figures with
 * StarPU's performance models. WEFT_CALIBRATE says when to measure: "auto", at the first start; "again", at each
 * start; "off", never. Process 0 decides for all.
 *
 * weft warns on standard error if a variable begins with WEFT_ and is unknown, or if a launcher has started several
 * processes but the world has only one. WEFT_SILENT=1 turns warnings off. WEFT_ON_ERROR: see <weft/base.h>.
 *
 * \return WEFT_ERR_STATE if weft is already initialised, on any thread; WEFT_ERR_INVALID if a field or variable is
 *         out of range; WEFT_ERR_MISMATCH if one differs between processes; WEFT_ERR_TIMEOUT if a process does not
 *         arrive; WEFT_ERR_NOMEM if memory or threads run out; WEFT_ERR_IO if StarPU has no folder for its files;
 *         WEFT_ERR_UNSUPPORTED, WEFT_ERR_COMM. */
WEFT_API weft_status weft_init(const weft_config *config);

/** Signals. In a world of several processes SIGTERM breaks the world (weft_wait()) if the program leaves it at its
 * default. Within 0.1 s this process's functions fail with WEFT_ERR_COMM and a message that names the signal, the
 * process and its host. The other processes are told and fail in the same way. The program then has five seconds to
 * end by itself, with or without weft_finalize(). After that time, or at once on a second SIGTERM, the signal ends
 * the process as it would have without weft. weft does not replace a handler of the program or SIG_IGN. Forked
 * children end at once. With devices, abort() waits for half a second, or until the other processes know that a
 * device is lost (docs/gpu.md). With WEFT_SIGNALS=0 weft leaves all signals alone. */

/** Stops weft. BLOCKS until everything submitted has ended on every process, then releases all remaining tensors,
 * meshes and scopes. Returns the same statuses as weft_wait(). In a broken world it does not wait for other
 * processes. Memory that you gave to weft_from_local() or weft_distribute() must then stay valid until the process
 * ends, because messages that could not be cancelled may still use it.
 *
 * If calls have failed and the program did not call weft_last_status(), weft_last_error() or weft_clear_error()
 * afterwards, a line on standard error reports their number and the first error. Calls that returned a status count
 * too, because the program may have ignored it. The line is left out with WEFT_SILENT=1, and with
 * WEFT_ON_ERROR=print, which has printed each error already. With WEFT_CHECK=1 another line counts the shards still
 * acquired, the caller's tensors and the open scopes.
 *
 * WEFT_ERR_STATE if you call it from within a function that the library has called (a hook, the function of
 * weft_recompute(), a forward function, the function of a graph). */
WEFT_API weft_status weft_finalize(void);

/** BLOCKS until everything submitted has ended. Returns WEFT_OK, or the error of a task or transfer. Returns
 * WEFT_ERR_STATE without waiting if the program has acquired a shard (weft_local_acquire()), because tasks may be
 * waiting for it.
 *
 * A world of several processes breaks in these cases:
 *  - messages are under way and none begins or ends for WEFT_TIMEOUT_S seconds (WEFT_ERR_TIMEOUT);
 *  - a process that others wait for has vanished (WEFT_ERR_TIMEOUT);
 *  - the transport fails, or a process calls exit() without weft_finalize() (WEFT_ERR_COMM);
 *  - another process reports that its world broke;
 *  - a process runs out of memory (WEFT_ERR_NOMEM);
 *  - processes make different calls (WEFT_ERR_MISMATCH).
 *
 * The message names the process that differs, does not answer or is late, the call, the tensor and the ranks. From
 * then on all functions that compute, block or return values fail with this status (or return NULL), write nothing to
 * your memory, and wait for no other process. weft_clear_error() does not change that. weft cannot tell a slow
 * process, or one very long message, from a hang: choose a larger WEFT_TIMEOUT_S for those.
 *
 * If processes have made different calls (another function, shape, type or number of calls), they stop exchanging
 * messages, and the world breaks about a second later. If no further messages are due, weft_finalize() returns
 * WEFT_ERR_MISMATCH.
 *
 * WEFT_REPORT=NAME: if the world breaks, each process writes a file NAME.0, NAME.1, ... (its number). The file has
 * its last 256 calls, its unfinished messages, and the answers of the other processes. If the file cannot be written,
 * a line on standard error says so.
 *
 * WEFT_CHECK=1, set on all processes, is for debugging. Before each call that creates, computes, redistributes or
 * gathers tensors, and in weft_finalize(), all processes wait for each other and compare the call. */
WEFT_API weft_status weft_wait(void);

/** Sets *ended to whether everything submitted has ended, so that weft_wait() would not block. Does not wait. (MPI:
 * MPI_Test.) Use it to wait in slices, for example in order to hear signals:
 *
 *     for (bool ended = false; !ended && weft_test(&ended) == WEFT_OK;) {
 *         nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
 *     }
 *     weft_wait();
 *
 * Errors of tasks are left to weft_wait(). In the function of a graph it ends the trace, as weft_wait() does.
 * WEFT_ERR_INVALID if the pointer is NULL; WEFT_ERR_STATE as weft_wait(). */
WEFT_API weft_status weft_test(bool *ended);

/** Pause the workers, so that the cores are free for threads of your own (an OpenMP loop, another library), and resume
 * them. After weft_pause() no worker begins another task; each one ends the task that it is running and sleeps.
 * weft_pause() does not wait for that. You can still make calls. Their tasks run after weft_resume(), or as soon as
 * your program waits for something: a function that BLOCKS, or a call that has to wait ("Back-pressure" above),
 * resumes by itself. So nothing waits forever, but other processes wait for this one's tasks for up to
 * WEFT_TIMEOUT_S. Messages still move. Pauses do not nest. weft_resume() without a pause has no effect.
 *
 * Workers also sleep without a pause, if they find no task for a millisecond; new tasks wake them. (They do not sleep
 * with a scheduling policy other than weft's: STARPU_SCHED, or a StarPU that the program has started.) A pause saves
 * that millisecond if your program and weft compute in turns: weft_wait(), weft_pause(), your loops, weft_resume().
 * WEFT_ERR_STATE before weft_init(). \{ */
WEFT_API weft_status weft_pause(void);
WEFT_API weft_status weft_resume(void);
/** \} */

/** Returns the number of ranks. Before weft_init() it returns 0 without an error, as do the functions below. */
WEFT_API int weft_world_size(void);
/** Returns the first rank that this process hosts. */
WEFT_API int weft_first_rank(void);
/** Returns the number of ranks that this process hosts; 0 in the fake world. */
WEFT_API int weft_local_ranks(void);
/** Return the number of processes in the world, and the index of this one. \{ */
WEFT_API int weft_num_processes(void);
WEFT_API int weft_process_index(void);
/** \} */

/** Query and clear the first error of this thread since its last weft_clear_error(). weft_last_status() returns its
 * status (WEFT_OK if there is none). weft_last_error() returns a message that names the function, the argument and
 * the expected value ("" if there is none). They also work before weft_init(). \{ */
WEFT_API weft_status weft_last_status(void);
WEFT_API const char *weft_last_error(void);
WEFT_API void weft_clear_error(void);
/** \} */

/** Opens a scope, and closes the innermost one. Scopes nest. A new tensor belongs to the innermost open scope, which
 * releases it when it closes. Outside any scope the caller owns the reference and drops it with
 * weft_tensor_release(). weft_finalize() releases whatever is left. If memory for a scope runs out (the error kept is
 * WEFT_ERR_NOMEM), you must still close it like any other; the enclosing scope owns its new tensors. */
WEFT_API weft_status weft_scope_begin(void);
WEFT_API weft_status weft_scope_end(void); /**< WEFT_ERR_STATE if none is open */

/** Counts of this process since weft_init(). */
typedef struct weft_counters {
    uint64_t tasks;       /**< StarPU tasks submitted */
    uint64_t transfers;   /**< boxes moved from one rank to another, within a process or as a message; counted by the
                               process that receives them */
    uint64_t bytes_moved; /**< bytes of these transfers */
    uint64_t messages;    /**< how many of these transfers came from another process */
    uint64_t stages;      /**< stages of redistributions and halos, and index lists' calls, that made these transfers */
    uint64_t plan_hits, plan_misses;         /**< look-ups of redistribution plans in the cache */
    uint64_t dispatch_hits, dispatch_misses; /**< look-ups of the layouts of operations in the cache */
    uint64_t expansion_hits, expansion_misses; /**< look-ups of the list of calls that a call expands to */
    uint64_t buffers_created, buffers_reused;
    uint64_t views_copied; /**< calls that normally share memory, but made a copy because the memory is the program's
                                (weft_from_local()); counted where a copied part is stored. And dense copies of ghosted tensors */
    uint64_t gradients_skipped; /**< NULL gradients passed to optimiser steps and to weft_clip_grad_norm() */
    uint64_t tensor_bytes;      /**< memory that this process's shards and values in between take now. Memory that tensors share
                                     counts once; the program's own memory (weft_from_local()) does not count, nor does memory
                                     of released tensors that tasks still use or that is kept for reuse
                                     (weft_config.pool_bytes) */
    uint64_t tensor_bytes_peak; /**< the largest value of tensor_bytes */
    uint64_t windows_found;     /**< with WEFT_AUTOGRAPH=1: sequences of calls that the program repeats, and weft has recorded */
    uint64_t windows_replayed;  /**< how often the calls of one were submitted together */
    uint64_t windows_flushed;   /**< of these, before their end: the program needed a value, or made no call for a while */
    uint64_t windows_left;      /**< likewise: another call came than was recorded */
    uint64_t window_calls;      /**< calls that were submitted so */
} weft_counters;

/** Copies the counters. `size` is sizeof(*counters) ("Structs that the library fills in" in <weft/base.h>).
 * WEFT_ERR_INVALID if the pointer is NULL, WEFT_ERR_STATE before weft_init(). */
WEFT_API weft_status weft_get_counters(weft_counters *counters, size_t size);

/** Prints the oldest 20 unfinished messages of this process (tensor, peer, ranks, bytes, call, age), and the number of
 * the others; nothing if no message is pending. Call it on both sides of a program that seems to hang, from any
 * thread. weft prints this by itself when WEFT_TIMEOUT_S is over. WEFT_ERR_INVALID if `file` is NULL. */
WEFT_API weft_status weft_print_pending(FILE *file);

/** Prints the figures of this world's machines and what follows from them: the cost of a task, the rates of copies and
 * products, the links between processes, panel heights and message sizes (docs/machine.md). The text is the same on
 * every process. WEFT_CALIBRATE says where the figures come from. WEFT_ERR_INVALID if `file` is NULL, WEFT_ERR_STATE
 * before weft_init(). */
WEFT_API weft_status weft_print_machine(FILE *file);

WEFT_END_DECLS

#endif
