/* src/runtime: the one state of the library, errors, devices, StarPU's start and stop, the buffer pool,
 * and the public functions on meshes. The levels above keep what is large behind pointers in weft_runtime, each written by
 * one of them; src/weft.c starts and stops all. */
#ifndef WEFT_SRC_RUNTIME_H
#define WEFT_SRC_RUNTIME_H

#include <weft/runtime.h>

#include "base/handles.h"
#include "base/lru.h"
#include "base/text.h"
#include "layout/layout.h"
#include "machine/agree.h"
#include "plan/plan.h"

struct weft_comm;     /* src/comm */
struct weft_pending;  /* runtime/pending.h */
struct weft_pool;     /* runtime/pool.h */
struct weft_tensors;  /* src/tensor */
struct weft_arrays;   /* src/arrays */
struct weft_dispatch; /* src/dispatch */
struct weft_trace;    /* runtime/trace.h */
struct weft_own_codelets; /* runtime/codelets.h */
struct weft_interposer; /* call/interposer.h */
struct weft_steps;    /* tensor/actions.h */
struct weft_graphs;   /* src/graph */
struct weft_rehearsal; /* tensor/rehearsal.h */
struct weft_explained; /* tensor/explained.c */
struct weft_regions;  /* tensor/regions.c */
struct weft_saving;   /* src/io */
struct weft_open_file; /* src/io */

/* WEFT_TASK_CACHE: reuse of the task lists of repeated calls */
typedef enum weft_task_cache {
    WEFT_TASK_CACHE_ON,   /* cached lists are submitted again */
    WEFT_TASK_CACHE_OFF,  /* each call builds its list */
    WEFT_TASK_CACHE_CHECK /* each call builds its list, and compares it with the cached one */
} weft_task_cache;

struct weft_tensor_impl;

/* Where a call is made: what is around it. Changed by those of call/context.h alone. */
typedef struct weft_context {
    int depth;      /* above 0: in a call that interposers have seen, which do not see those that it makes */
    int expanded;   /* above 0: in an expansion that runs, whose calls are not public */
    int in_program; /* above 0: in a function of the program that the library has called, on the submitting thread */
    bool unobserved; /* within no region of the program's, and no explanation */
    bool numbered;  /* the call has its number and digest already (comm/check_spmd.h) */
    struct weft_deferral *deferral; /* calls are deferred (src/graph); NULL: executed at once */
    struct weft_rehearsal *rehearsal; /* is told of tasks and transfers instead of StarPU; NULL: they are submitted */
    struct weft_steps *steps;       /* calls are collected instead of executed (tensor/actions.h); NULL: executed */
    struct weft_tensor_impl *dying; /* an input of the elementwise call that is made, whose memory the output may take over:
                                       nothing needs it after the call; NULL: none */
    struct weft_saving_forward *saving; /* a forward function of weft_custom_gradient() runs (src/autograd); NULL: none */
} weft_context;

/* The library's one state. Written by the submitting thread alone. */
typedef struct weft_runtime_state {
    bool initialized; /* weft_init() has succeeded */
    bool owns_starpu;
    int blas_threads; /* OpenBLAS's setting before weft_init(), to be restored; 0: unchanged */
    weft_world world;
    int process, num_processes;
    int first_rank, local_ranks; /* of this process */
    int *first_rank_of;          /* num_processes + 1 entries */
    weft_topology topology;
    weft_machine
        machine; /* as measured, the same on every process; the members below follow from it */
    weft_machine planned; /* by which choices are made: rounded if it was measured, so that another measurement seldom changes them */
    const char *machine_source; /* "built in", "kept", "measured": static storage */
    weft_spread spread;
    weft_cost_model cost;
    weft_panel_policy panels;
    weft_message_sizes messages;
    int64_t last_cache_bytes; /* size of the largest cache, at most 16 MB for each core; 0: unknown */
    weft_layout_table *layouts;
    void (*sweep_layouts)(void); /* src/sweep.c */
    weft_vec meshes;            /* weft_mesh_impl *, each alive until weft_finalize() */
    weft_vec mesh_stack;        /* weft_mesh_impl * */
    uint64_t seed;              /* of the default random state */
    bool silent;                /* WEFT_SILENT: no warnings */
    bool paused;                /* weft_pause(): workers take no tasks */
    bool tells_left_over;       /* WEFT_CHECK: weft_finalize() reports unreleased resources */
    weft_task_cache task_cache; /* WEFT_TASK_CACHE */
    weft_lru call_cache; /* sharding, plans, expansions and task lists of former calls */
    int implicit_replications;  /* depth of weft_implicit_replication_begin() */
    /* The current or last submitting public call, for reports. Calls are numbered from 1 in worlds of
     * several processes. */
    const char *call;
    const char *here;    /* the program's file of the calls, by weft_here(); NULL: it has not said */
    int here_line;       /* the line in it */
    weft_map here_files; /* char *: all that it has named */
    uint64_t call_number;
    uint64_t digest; /* of all calls, over the data that WEFT_CHECK compares */
    bool check;      /* WEFT_CHECK */
    struct weft_interposer *interposers; /* outermost first; NULL: none */
    weft_context context;           /* of the call that is made */
    struct weft_tape *tape;         /* src/autograd; NULL: no tensor has required a gradient */
    uint64_t changes;               /* that the functions of graphs may depend on (weft_note_change), ever */
    const char *changed_by;         /* the public function that made the newest one */
    unsigned graph_passes;          /* weft_graph_pass: of new graphs */
    bool autograph;                 /* WEFT_AUTOGRAPH: repeated calls are found, and replayed together (src/graph/auto) */
    struct weft_deferral *implicit; /* src/graph/auto, where calls are executed at once: sees them first; NULL: nobody does */
    uint64_t cluster_seed; /* for tests: where clusters end at random; 0: they do not */
    struct weft_explained *explained; /* tensor/explained.c; NULL: none yet */
    struct weft_regions *regions;   /* tensor/regions.c; NULL: none yet */
    weft_counters counters;
    uint64_t operations; /* number of operations and redistributions submitted: orders tasks */
    uint64_t delay; /* added to that number where tasks are to run in another order (src/graph); modulo 2^64 */
    struct weft_pending *pending;
    struct weft_pool *pool;
    struct weft_task_memory *task_memory;
    int64_t memory_bytes; /* that tensors of this process may take; from the handshake on, the least of all processes */
    int64_t device_bytes; /* memory of the smallest CUDA device that StarPU drives; 0: it drives none (cuda.c) */
    weft_device_world devices; /* of this process; from the handshake on, equal on all: the least memory, the most per rank */
    struct weft_cuda_queue *cuda_queues; /* by worker; NULL: no devices */
    struct weft_device_watch *device_watch; /* as cuda_queues */
    struct weft_codelet *codelets; /* by kernel id (codelets.c) */
    struct weft_own_codelets *own_codelets; /* codelets.h: the program's kernels; NULL: none yet */
    uint32_t cluster_kernel;       /* id of the kernel that runs clusters (src/graph/fuse); 0: not registered yet */
    uint32_t bucket_kernel;        /* id of the kernel that packs and unpacks buckets (src/graph/passes); 0: not registered yet */
    int *codelet_nodes;            /* all 0; read by StarPU for tasks with many buffers */
    struct weft_comm *comm;
    /* weft_comm_give_up(), to be called after the submitting thread has broken the world. */
    void (*give_up)(struct weft_comm *comm);
    struct weft_tensors *tensors;
    struct weft_arrays *arrays;
    struct weft_dispatch *dispatch;
    struct weft_graphs *graphs;
    weft_vec registered;      /* weft_operation *: the program's operations */
    weft_vec replaced; /* of the library's operations, those that the program has replaced (src/dispatch) */
    struct weft_saving *savings;   /* src/io: saves of checkpoints, the newest first */
    struct weft_open_file *files;  /* src/io: headers that the program reads */
    struct weft_trace *trace; /* NULL: StarPU does not trace */
    bool counts_flops;        /* StarPU traces, or measures its models */
    /* Survive weft_finalize(): handles of an earlier world stay invalid. */
    struct {
        weft_handle_table tensors, meshes, operations, modules, savings, files, graphs, index_lists, sparse;
    } handles;
} weft_runtime_state;

extern weft_runtime_state weft_runtime;

/* ---- errors (error.c) ---------------------------------------------------------------------------------- */

/* Keeps the error with the message "function: ...", if it is the first since weft_clear_error(); returns
 * status. WEFT_ERR_NOMEM breaks a world of several processes: the others do not know of the failure, would
 * wait for messages of this process, and draw other random numbers. */
weft_status weft_fail(weft_status status, const char *function, const char *format, ...) WEFT_PRINTF(3, 4);
/* The same for any status of a failure on this process alone. */
weft_status weft_fail_alone(weft_status status, const char *function, const char *format, ...)
    WEFT_PRINTF(3, 4);
/* The same for any status of a failure on all processes alike. */
weft_status weft_fail_alike(weft_status status, const char *function, const char *format, ...)
    WEFT_PRINTF(3, 4);
/* An error in a task of the operation with this number (weft_runtime.operations): kept until
 * weft_error_collect(), which reports the first. Only the first error of an operation counts, also after
 * it was reported: its tasks may all fail alike. Thread-safe. */
void weft_fail_later(uint64_t operation, weft_status status, const char *function, const char *format, ...)
    WEFT_PRINTF(4, 5);
/* weft_last_error() for the library itself, without marking it as seen by the program. */
const char *weft_kept_message(void);
/* Called by all that BLOCKS, after the wait: reports an error of a task. WEFT_OK: none. In a broken world:
 * that error, every time. */
weft_status weft_error_collect(void);
/* The error of a task that weft_error_collect() would report, or of a broken world, without reporting it; WEFT_OK and
 * "": none. Thread-safe. */
weft_status weft_error_peek(char *message, size_t size);
/* No task is left that could fail: clears the set of failed operations. */
void weft_errors_forget_operations(void);
/* Breaks the world: messages are lost, or calls differ between processes, so that values are undefined.
 * Until weft_finalize() nothing that computes, blocks or returns values succeeds. The first call counts.
 * Thread-safe. */
void weft_break(weft_status status, const char *function, const char *format, ...) WEFT_PRINTF(3, 4);
bool weft_is_broken(void);
/* The error kept by weft_break(); WEFT_OK and "": the world is whole. Thread-safe. */
weft_status weft_broken_by(char *message, size_t size);
/* For the start of a new world. */
void weft_unbreak(void);
/* The status of the most recent weft_fail(), kept or not; returned after a failed check. */
weft_status weft_latest_status(void);
/* WEFT_ERR_STATE, kept, unless this is the thread and process that called weft_init() (thread.c). The
 * first check of every public function. */
weft_status weft_require_init(const char *function);
/* The same without an error. */
bool weft_may_call(void);

/* ---- checks of arguments, shared by all public functions (check.c) ------------------------------------- */

/* False with an error kept that names the wrong argument. */
bool weft_check_shape(const char *function, int ndim, const int64_t shape[]);
/* Copies an options struct into `own`; missing members are 0. `given_size`: its member `size`; `first`:
 * the size that 0 stands for. False with the error kept. */
bool weft_check_options(const char *function, void *own, size_t own_size, const void *given, size_t given_size,
                        size_t first);
/* Copies a struct into the program's, which has `size` bytes and may be of another version of weft: members that this one does not
 * know become 0. False with the error kept: a NULL argument, or no such size. */
bool weft_give_struct(const char *function, const char *argument, void *given, size_t size, const void *own, size_t own_size);
/* A struct that has been appended to since version 0.2 passes its size in 0.2 to weft_check_options() instead. */
#define WEFT_TAKE_OPTIONS(function, own, given)                                                              \
    weft_check_options(function, (own), sizeof(*(own)), (given), (given)->size, sizeof(*(own)))
bool weft_check_dtype(const char *function, weft_dtype dtype);
/* The mesh of an argument: a live mesh, or for NULL the top of the stack. NULL with the error kept. */
weft_mesh_impl *weft_check_mesh(const char *function, const weft_mesh *mesh);
/* The index of the dimension of a mesh with this name, or -1 with the error kept; `argument` is what gives the name. */
int weft_check_mesh_name(const char *function, const char *argument, const weft_mesh_impl *mesh, const char *name);
/* 0 <= result < ndim, or -1 with the error kept; `argument` is its name. */
int weft_check_dim(const char *function, const char *argument, int dim, int ndim);
/* The program's placements in canonical form. False with the error kept. */
bool weft_check_placements(const char *function, const weft_mesh_impl *mesh, const weft_placement *placements,
                           int ndim, weft_placement canonical[]);
/* The interned layout of checked mesh, dtype and shape with these placements; NULL with the error kept. */
const weft_layout *weft_check_layout(const char *function, const weft_mesh_impl *mesh,
                                     const weft_placement *placements, int ndim, const int64_t shape[],
                                     weft_dtype dtype);

/* Whether its shards are boxes of global indices. False with the error kept: a cut is cyclic or zigzag. */
bool weft_check_boxes(const char *function, const char *argument, const weft_layout *layout);
/* The same with chunks instead of cyclic and zigzag cuts; NULL with the error kept. */
const weft_layout *weft_layout_of_boxes(const char *function, const weft_layout *layout);

/* To be called in a sweep, by all that keep a layout from one public call to the next (src/sweep.c). NULL: no layout. */
static inline void weft_meet_layout(const weft_layout *layout)
{
    weft_layout_table_meet(weft_runtime.layouts, layout);
}

/* ---- meshes (mesh.c) ----------------------------------------------------------------------------------- */

/* The mesh with these ranks, shape and names; a new one if there is none. NULL with the error kept. */
weft_mesh_impl *weft_mesh_obtain(const char *function, int ndim, const int64_t shape[], const int ranks[],
                                 const char *const names[]);
/* The first hosted rank of each process: where weft_to_host() gathers. */
weft_mesh_impl *weft_host_mesh(void);
/* The mesh's handle; NULL: NULL. */
static inline weft_mesh *weft_mesh_handle(const weft_mesh_impl *mesh)
{
    return mesh == NULL ? NULL : mesh->handle;
}

/* ---- weft_pause() (pause.c) ---------------------------------------------------------------------------- */

void weft_pause_workers(void);
void weft_resume_workers(void);
/* To be called by the submitting thread before each wait for tasks, transfers, or other processes, which may wait for tasks
 * of this one. */
static inline void weft_end_pause(void)
{
    if (weft_runtime.paused) {
        weft_resume_workers();
    }
}

/* ---- start and stop (start.c, devices.c) --------------------------------------------------------------- */

typedef struct weft_settings { /* weft_config after environment and defaults */
    weft_world world;
    int local_ranks, fake_size, fake_processes, ranks, workers;
    uint64_t seed;
    int64_t pool_bytes;        /* 0: default */
    int64_t memory_bytes;      /* 0: this process's share of the machine's, or of its control groups' limit */
    int64_t cache_bytes;       /* limit of cached shardings, plans and task lists */
    int64_t max_pending_tasks; /* 0: default; negative: no limit */
    double timeout_s;   /* 0: none */
    bool check;         /* compare the calls of all processes */
    bool silent;        /* no warnings */
    bool signals;       /* SIGTERM breaks the world */
    int64_t pack_bytes; /* largest packed message; 0: none; -1: the transport decides */
    int64_t panel_bytes, panel_rows; /* of every panel: minimum; exact. 0: by the cost model */
    weft_algorithm algorithm;        /* of transfers to several ranks */
    weft_calibration calibration;
    weft_task_cache task_cache;
    unsigned graph_passes; /* weft_graph_pass: of new graphs */
    bool autograph;
    int devices; /* CUDA devices of this process */
    int nccl;        /* 1: must be used, 0: must not; -1: where all processes can */
    int mpi_devices; /* 1: MPI takes device memory, 0: it does not; -1: MPI says so */
    bool tf32;       /* their products in single precision may use TF32 */
    bool fast;       /* devices: their own order of arithmetic; false: the CPU's bits (WEFT_BITS=cpu) */
} weft_settings;

/* Reads config (may be NULL) and the environment. Errors are kept; world and time-out are then the valid
 * ones or the defaults, with which the other processes can be told. */
weft_status weft_settings_read(const char *function, const weft_config *config, weft_settings *settings);

/* Position of this process among the processes, by the transport. */
typedef struct weft_process_place {
    int process, num_processes;
    int node_process, node_processes; /* among the processes of this machine */
    int node;                         /* process number of the first process of this machine */
} weft_process_place;

weft_status weft_runtime_start(const char *function, const weft_settings *settings, weft_process_place place);
/* Second half of the start, when the machine's figures are known: costs, panels and layouts. */
weft_status weft_runtime_configure(const char *function, const weft_settings *settings);
void weft_runtime_stop(void);
/* Calls are at this line of a file that weft_here() has named, or NULL: for calls that are executed later (here.c). */
void weft_here_set(const char *file, int line);
/* Forgets the lines of the program. */
void weft_here_stop(weft_runtime_state *state);

/* CPU workers of this process: writes the logical number of an hwloc processing unit for each, and returns
 * their number. *bind is false if cores are shared (more processes than cores). */
int weft_devices_choose(int wanted, weft_process_place place, unsigned units[], int max, bool *bind);

/* The top of the mesh stack; NULL: empty. */
static inline weft_mesh_impl *weft_mesh_stack_top(void)
{
    const weft_vec *stack = &weft_runtime.mesh_stack;
    return stack->count == 0 ? NULL : ((weft_mesh_impl **)stack->items)[stack->count - 1];
}

static inline bool weft_hosts(int rank)
{
    return rank >= weft_runtime.first_rank && rank < weft_runtime.first_rank + weft_runtime.local_ranks;
}

/* The process that hosts a rank. */
static inline int weft_process_of(int rank)
{
    return weft_topology_process_of(&weft_runtime.topology, rank);
}

/* The largest number of ranks that a process hosts: the first ones host one more (runtime/start.c). */
static inline int weft_most_local_ranks(void)
{
    return weft_runtime.first_rank_of[1] - weft_runtime.first_rank_of[0];
}

#endif
