/** \file
 * Starting and stopping, errors, scopes, counters.
 */
#ifndef WEFT_RUNTIME_H
#define WEFT_RUNTIME_H

#include <stdio.h>

#include <weft/base.h>

WEFT_BEGIN_DECLS

/*
 * Back-pressure. A call that creates, computes or moves tensors returns before its tasks have run. While
 * weft_config.max_pending_tasks tasks of this process are pending, the next such call BLOCKS until half of
 * them have ended, so a program that never waits needs bounded memory. All tasks of one call are submitted
 * together, however many they are.
 *
 * The same holds while memory of released tensors that waits for its tasks to end takes more than a quarter
 * of weft_config.pool_bytes (64 MiB at least): few tasks with large arrays.
 *
 * A call may therefore wait for other processes to make the calls before it. A program that sends messages of
 * its own beside weft's must not have a process wait for such a message while another one makes calls.
 *
 * WEFT_ERR_STATE: as many tasks as may be pending, or so much memory, wait for a shard that the program holds
 * (weft_local_acquire()). The call has not been made: no rank has changed, other processes wait for it.
 * Release the shard and make the call again.
 */

/** What the ranks are. */
typedef enum weft_world {
    WEFT_WORLD_AUTO = 0, /**< mpi under mpirun (or srun), else self */
    WEFT_WORLD_SELF,     /**< this process hosts every rank; no MPI needed */
    WEFT_WORLD_MPI,      /**< the processes of an MPI communicator host the ranks, contiguously */
    WEFT_WORLD_FAKE      /**< any number of ranks, no data: shapes, layouts and plans only */
} weft_world;

/** Zero-initialise (WEFT_CONFIG_DEFAULT) and set what matters. A field that is zero is taken from the
 * environment variable named, and else has the default. */
typedef struct weft_config {
    weft_world world; /**< WEFT_WORLD: "auto", "self", "mpi", "fake" */
    int local_ranks;  /**< WEFT_LOCAL_RANKS: ranks that each process hosts; default 1, at most 4096 */
    int fake_size;    /**< WEFT_FAKE_SIZE: number of ranks of the fake world; default 1. Costs are those of so many
                           processes as WEFT_FAKE_PROCESSES says (default 1), each on a host of its own, and of the machine
                           whose figures the file WEFT_MACHINE has (docs/machine.md) */
    uint64_t seed;    /**< WEFT_SEED: of rand and randn; default 0. Must be the same on every process */
    int ranks;   /**< WEFT_RANKS: number of ranks in all, spread over the processes as evenly as can be (the
                      first ones host one more); at least one per process. Instead of local_ranks: a program
                      that sets it runs unchanged on any number of processes */
    int workers; /**< WEFT_WORKERS: CPU workers of this process; default: its share of the cores that hwloc
                      shows, at least 1. STARPU_NCPU, when set, wins */
    int64_t pool_bytes; /**< WEFT_POOL_BYTES: memory of released tensors that is kept for reuse or on its way
                           back to the system, StarPU's handles included (2.5 KB or more for each panel);
                           default a quarter of the machine's, or of the limit that control groups (of a
                           batch job, of a container) set, divided by the machine's processes */
    int64_t cache_bytes; /**< WEFT_CACHE_BYTES: memory for what calls leave behind for calls like them: layouts chosen,
                            plans of redistributions, lists of tasks. Least recently used ones go first; default
                            128 MiB. WEFT_CACHE_BYTES=0: nothing is kept. Layouts that no tensor has any more take a
                            sixteenth of it beside that, or as much as those of live tensors */
    int timeout_s; /**< WEFT_TIMEOUT_S: seconds after which messages that do not move, or a process that does
                        not come, break the world (see weft_wait()); default 1800. WEFT_TIMEOUT_S=0: never */
    int64_t max_pending_tasks; /**< WEFT_MAX_PENDING_TASKS: tasks of this process that may be pending before a
                                  call waits ("Back-pressure" above); default 16384, about 60 MB. Negative
                                  (WEFT_MAX_PENDING_TASKS=-1): no limit. Processes may differ in it */
    size_t size; /**< 0, or sizeof of this struct ("Structs of options" in <weft/base.h>) */
} weft_config;

#define WEFT_CONFIG_DEFAULT                                                                                  \
    {                                                                                                        \
        WEFT_WORLD_AUTO, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0                                                        \
    }

/** Sets all fields to 0, and `size`. */
static inline void weft_config_init(weft_config *options)
{
    const weft_config all = WEFT_CONFIG_DEFAULT;
    *options = all;
    options->size = sizeof(*options);
}

/** Threads. From weft_init() to weft_finalize() weft belongs to the thread that called weft_init(), which
 * may be any. On other threads, in tasks (a kernel of weft_operation_register(), a callback of StarPU)
 * and in children of fork() every function returns WEFT_ERR_STATE and changes nothing; any of them may
 * exit. Errors are kept per thread (weft_last_error()). Functions that need no weft_init() may be called
 * anywhere: those of <weft/base.h> and <weft/placement.h>, and those that query and clear errors.
 * weft_print_pending() may be called on any thread, but not in a child, and not during weft_finalize(). A
 * child of a process in which weft does not run may start it, but not on MPI initialised by its parent. */

/** Starts StarPU (if the program has started it, it is shared and left running) and the world. `config`
 * NULL: from the environment, then defaults. In the mpi world weft initialises MPI unless the program
 * has, asking for MPI_THREAD_MULTIPLE, and then also finalises it; <weft/mpi.h> has weft_init_mpi() for a
 * communicator of the program.
 *
 * BLOCKS until all processes of the world have come, or WEFT_TIMEOUT_S is over (WEFT_ERR_TIMEOUT; weft
 * cannot be started again then). If weft initialises MPI, MPI_Init_thread() waits first, without a limit,
 * for absent processes: after WEFT_TIMEOUT_S a line on standard error says so. All processes start or
 * none does: if one cannot, the others return its status, with a message that names it.
 *
 * The number of ranks, the seed, WEFT_PANEL_BYTES, WEFT_PANEL_ROWS, WEFT_PLAN, WEFT_GRAPH_PASSES, WEFT_TF32, WEFT_BITS and
 * WEFT_CHECK must be the same on every process. The first start on a machine takes about 0.1 s longer, because it measures the
 * machine (WEFT_CALIBRATE="auto"; "again": each start; "off": never) and keeps the figures with StarPU's
 * performance models; process 0 decides for all. Warnings on standard error (WEFT_SILENT=1: none) name
 * unknown variables that begin with WEFT_, and a world of one process whose launcher has started several.
 * WEFT_ON_ERROR: see <weft/base.h>.
 *
 * \return WEFT_ERR_STATE if already initialised, on any thread, WEFT_ERR_INVALID for a field or variable out
 *         of range, WEFT_ERR_MISMATCH for one that differs between processes, WEFT_ERR_TIMEOUT if a process
 *         does not come, WEFT_ERR_NOMEM for lack of memory or of threads, WEFT_ERR_IO if StarPU has no folder
 *         for its files, WEFT_ERR_UNSUPPORTED, WEFT_ERR_COMM. */
WEFT_API weft_status weft_init(const weft_config *config);

/** Signals. In a world of several processes SIGTERM, where the program leaves it at its default, breaks the world
 * (weft_wait()): within 0.1 s this process's functions fail with WEFT_ERR_COMM and a message that names the signal, the process
 * and its host; the others hear of it and fail likewise. The program then has five seconds to end by itself, with
 * weft_finalize() or without. After these, and on a second SIGTERM at once, the process ends by the signal, as it would
 * have without weft. A handler of the program stays, and so does SIG_IGN; forked children end at once.
 * With devices, abort() waits for half a second, or until the others know that a device is lost (docs/gpu.md).
 * WEFT_SIGNALS=0: weft leaves all signals alone. */

/** BLOCKS until everything submitted has ended, on every process; releases all remaining tensors, meshes
 * and scopes. Returns as weft_wait(). In a broken world it waits for no other process; memory given to
 * weft_from_local() or weft_distribute() must then stay valid until the process ends, because messages
 * that could not be cancelled may still use it.
 *
 * If calls have failed, and the program has not called weft_last_status(), weft_last_error() or
 * weft_clear_error() afterwards, a line on standard error reports their number and the first error. Calls
 * that returned a status count too, as it may have been dropped. WEFT_SILENT=1: no such line; nor with
 * WEFT_ON_ERROR=print, which has shown each. With WEFT_CHECK=1 another line counts the shards still
 * acquired, the caller's tensors and the open scopes. WEFT_ERR_STATE: called from within a function that the
 * library has called (a hook, a segment, a forward function, that of a graph). */
WEFT_API weft_status weft_finalize(void);

/** BLOCKS until everything submitted has ended. Returns WEFT_OK, or the error of a task or transfer;
 * WEFT_ERR_STATE, without waiting, while weft_local_acquire() holds a shard: tasks may wait for that.
 *
 * A world of several processes breaks when messages are under way and none begins or ends for
 * WEFT_TIMEOUT_S seconds, or a process that is waited for has vanished (WEFT_ERR_TIMEOUT), when the
 * transport fails or a process calls exit() without weft_finalize() (WEFT_ERR_COMM), when another process reports that its world broke, when a process has
 * no memory (WEFT_ERR_NOMEM), or when processes make different calls (WEFT_ERR_MISMATCH). The message
 * names the process that differs, does not answer, or is behind, the call, the tensor and the ranks. From
 * then on all functions that compute, block or return values fail with this status (or NULL), write
 * nothing to the caller's memory, and wait for no other process; weft_clear_error() does not change that.
 * A slow process, or one very long message, cannot be told from a hang: choose a larger WEFT_TIMEOUT_S.
 *
 * Processes that have made different calls (another function, shape, type or number) exchange no more
 * messages, which breaks the world about a second later; without further messages weft_finalize() returns
 * WEFT_ERR_MISMATCH.
 *
 * WEFT_REPORT=NAME: in a broken world each process writes a file NAME.0, NAME.1, ..., by its number: its
 * last 256 calls, unfinished messages, and the other processes' answers. If the file cannot be written a
 * line on standard error says so.
 *
 * WEFT_CHECK=1, on all processes, is for debugging: before a call that creates, computes, redistributes
 * or gathers tensors, and in weft_finalize(), all processes wait for each other and compare the call. */
WEFT_API weft_status weft_wait(void);

/** Leaves the cores to the program, for threads of its own (an OpenMP loop, another library). From weft_pause() on no
 * worker begins a task: each ends the one that it executes, and sleeps. weft_pause() itself does not wait for that. Calls
 * may be made as always; their tasks run after weft_resume(), or as soon as the program waits for something: a function
 * marked as blocking, or a call that has to wait ("Back-pressure" above), resumes by itself. So nothing waits forever; but
 * other processes wait for this one's tasks, up to WEFT_TIMEOUT_S. Messages go on. Pauses do not nest; to resume
 * without a pause has no effect.
 *
 * Without them, workers that find no task for a millisecond sleep too, and tasks wake them (not with another policy
 * than weft's: STARPU_SCHED, or a StarPU that the program has started). A program that computes in turn with weft gains
 * that millisecond: weft_wait(), weft_pause(), loops, weft_resume(). WEFT_ERR_STATE before weft_init(). \{ */
WEFT_API weft_status weft_pause(void);
WEFT_API weft_status weft_resume(void);
/** \} */

/** Number of ranks; 0 before weft_init(), as those below, without an error. */
WEFT_API int weft_world_size(void);
/** First rank that this process hosts. */
WEFT_API int weft_first_rank(void);
/** Number of ranks that this process hosts; 0 in the fake world. */
WEFT_API int weft_local_ranks(void);
/** Processes in the world, and which of them this one is. \{ */
WEFT_API int weft_num_processes(void);
WEFT_API int weft_process_index(void);
/** \} */

/** The first error of this thread since its last weft_clear_error(): its status (WEFT_OK: none) and a
 * message that names the function, the argument and the expected value ("" if there is none). They work
 * before weft_init() too. \{ */
WEFT_API weft_status weft_last_status(void);
WEFT_API const char *weft_last_error(void);
WEFT_API void weft_clear_error(void);
/** \} */

/** Scopes nest. A new tensor belongs to the innermost open scope, which releases it when it closes;
 * outside any scope the caller owns the reference and drops it with weft_tensor_release().
 * weft_finalize() releases the rest. A scope without memory (WEFT_ERR_NOMEM is kept) must be closed like
 * any other; its new tensors belong to the enclosing one. */
WEFT_API weft_status weft_scope_open(void);
WEFT_API weft_status weft_scope_close(void); /**< WEFT_ERR_STATE where none is open */

/** Counts of this process since weft_init(). */
typedef struct weft_counters {
    uint64_t tasks;       /**< StarPU tasks submitted */
    uint64_t transfers;   /**< boxes moved from one rank to another, in process or as a message, counted where
                             they are received */
    uint64_t bytes_moved; /**< bytes of these */
    uint64_t messages;    /**< of these transfers, those that came from another process */
    uint64_t stages;      /**< of redistributions and halos, in which they were moved */
    uint64_t plan_hits, plan_misses;         /**< look-ups of redistribution plans */
    uint64_t dispatch_hits, dispatch_misses; /**< look-ups of operations' layouts */
    uint64_t expansion_hits, expansion_misses; /**< look-ups of the calls that a call is made of */
    uint64_t buffers_created, buffers_reused;
    uint64_t views_copied; /**< calls that share memory elsewhere, and made a copy because the memory is the
                                program's (weft_from_local()); counted where a copied part is held */
    uint64_t gradients_skipped; /**< NULL gradients of optimisers' steps and of weft_clip_grad_norm() */
} weft_counters;

/** Copies the counters. WEFT_ERR_INVALID for NULL, WEFT_ERR_STATE before weft_init(). */
WEFT_API weft_status weft_get_counters(weft_counters *counters, size_t size);

/** Prints the oldest 20 unfinished messages of this process (tensor, peer, ranks, bytes, call, age), and
 * the number of the others, to standard error: for both sides of a program that seems to hang. Happens by
 * itself when WEFT_TIMEOUT_S is over. */
WEFT_API weft_status weft_print_pending(void);
/** The same into a buffer, as weft_tensor_print_text() does; "" where nothing is pending. May be called from any thread
 * too. WEFT_ERR_INVALID, WEFT_ERR_NOMEM. */
WEFT_API weft_status weft_print_pending_text(char *text, size_t size, size_t *length);

/** Prints the figures of this world's machines and their consequences: the cost of a task, the rates of
 * copies and products, the links between processes, panel heights and message sizes (docs/machine.md).
 * The same on every process. WEFT_CALIBRATE says where the figures come from. WEFT_ERR_INVALID for NULL,
 * WEFT_ERR_STATE before weft_init(). */
WEFT_API weft_status weft_print_machine(FILE *file);
/** The same into a buffer, as weft_tensor_print_text() does. */
WEFT_API weft_status weft_print_machine_text(char *text, size_t size, size_t *length);

WEFT_END_DECLS

#endif
