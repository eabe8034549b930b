/* src/runtime: the one state of the library, errors, devices, StarPU's start and stop, the buffer pool, and
 * the public functions on meshes. The floors above hang their own states on weft_runtime; src/weft.c starts
 * and stops all. */
#ifndef WEFT_SRC_RUNTIME_H
#define WEFT_SRC_RUNTIME_H

#include <weft/runtime.h>

#include "base/handles.h"
#include "base/text.h"
#include "layout/layout.h"
#include "machine/agree.h"
#include "plan/plan.h"

struct weft_comm;     /* src/comm */
struct weft_pending;  /* runtime/pending.h */
struct weft_pool;     /* runtime/pool.h */
struct weft_tensors;  /* src/tensor */
struct weft_dispatch; /* src/dispatch */
struct weft_trace;    /* runtime/trace.h */
struct weft_recorder; /* runtime/recorder.h */
struct weft_steps;    /* tensor/actions.h */
struct weft_regions;  /* tensor/regions.c */

/* WEFT_TASK_CACHE: what becomes of the tasks of calls that were made before */
typedef enum weft_task_cache {
    WEFT_TASK_CACHE_ON,   /* they are kept, and submitted again */
    WEFT_TASK_CACHE_OFF,  /* each call makes them anew */
    WEFT_TASK_CACHE_CHECK /* they are kept, and compared with those that each call makes anew */
} weft_task_cache;

/* The library's one state. Written by the submitting thread alone. */
typedef struct weft_runtime_state {
    bool initialized; /* weft_init() has come to its end */
    bool owns_starpu;
    int blas_threads; /* what OpenBLAS had before, to be given back; 0: it was left alone */
    weft_world world;
    int process, num_processes;
    int first_rank, local_ranks; /* of this process */
    int *first_rank_of;          /* num_processes + 1 entries */
    weft_topology topology;
    weft_machine
        machine; /* as it was measured, the same on every process; the rest of these follow from it */
    const char *machine_source; /* "built in", "kept", "measured": static storage */
    weft_spread spread;
    weft_cost_model cost;
    weft_panel_policy panels;
    weft_message_sizes messages;
    int64_t cache_bytes; /* the largest cache of this machine; 0: not known */
    weft_layout_table *layouts;
    weft_vec meshes;            /* weft_mesh_impl *, each alive until weft_finalize() */
    weft_vec mesh_stack;        /* weft_mesh_impl * */
    uint64_t seed;              /* of the default random state */
    bool silent;                /* WEFT_SILENT: no warnings */
    bool tells_left_over;       /* weft_finalize() says what the program has not released: WEFT_CHECK */
    weft_task_cache task_cache; /* WEFT_TASK_CACHE */
    int implicit_replications;  /* regions of weft_implicit_replication_begin(), one inside the other */
    /* The public call that submits at present, or did last: for reports. Calls are numbered from 1 in worlds
     * of several processes. */
    const char *call;
    uint64_t call_number;
    uint64_t digest; /* of all of them: of what WEFT_CHECK compares */
    bool check;      /* WEFT_CHECK */
    struct weft_recorder *recorder; /* the newest of those that are told of public calls; NULL: nobody listens */
    int call_depth;                 /* of what is told: public calls under way, one inside the other */
    struct weft_steps *steps;       /* what is called is collected, and not carried out; NULL: it is carried out */
    struct weft_regions *regions;   /* tensor/regions.c; NULL: none has begun */
    int expanded;                   /* expansions that are run: their calls are no public ones */
    weft_counters counters;
    uint64_t operations; /* and redistributions submitted: what tasks are ordered by */
    struct weft_pending *pending;
    struct weft_pool *pool;
    struct weft_task_memory *task_memory;
    struct weft_codelet *codelets; /* by the kernels' numbers (codelets.c) */
    weft_vec own_codelets;         /* weft_codelet *: of the program's kernels */
    int *codelet_nodes;            /* read by StarPU for tasks of many buffers: all 0 */
    struct weft_comm *comm;
    /* weft_comm_give_up(): to be called when the submitting thread has broken the world. */
    void (*give_up)(struct weft_comm *comm);
    struct weft_tensors *tensors;
    struct weft_dispatch *dispatch;
    weft_vec registered;      /* weft_operation *: those of the program */
    struct weft_trace *trace; /* NULL: StarPU traces nothing */
    /* These outlast weft_finalize(): a handle of a former world is refused. */
    struct {
        weft_handle_table tensors, meshes, operations;
    } handles;
} weft_runtime_state;

extern weft_runtime_state weft_runtime;

/* ---- errors (error.c) ---------------------------------------------------------------------------------- */

/* Keeps the error if it is the first since weft_clear_error(), with the message "function: ..."; returns
 * status. WEFT_ERR_NOMEM breaks the world of several processes: the others cannot know that this one did not
 * come along, would wait for its messages, and draw other random numbers. */
weft_status weft_fail(weft_status status, const char *function, const char *format, ...) WEFT_PRINTF(3, 4);
/* The same for another status, where this process fails alone. */
weft_status weft_fail_alone(weft_status status, const char *function, const char *format, ...)
    WEFT_PRINTF(3, 4);
/* The same from a task of an operation with this number (weft_runtime.operations): kept aside until
 * weft_error_collect(), which tells the first. Of one operation, whose tasks may all meet the same, only the
 * first error counts, also when it has been told already. Thread-safe. */
void weft_fail_later(uint64_t operation, weft_status status, const char *function, const char *format, ...)
    WEFT_PRINTF(4, 5);
/* weft_last_error() for the library itself: the program has not looked at it. */
const char *weft_kept_message(void);
/* Called by what BLOCKS, after waiting: brings an error kept aside to the program. WEFT_OK when there is
 * none. Once the world is broken, that error, every time. */
weft_status weft_error_collect(void);
/* No task is left that could fail: forgets which operations have. */
void weft_errors_forget_operations(void);
/* The world is broken: messages are lost, or processes do different things, so that values are no longer what
 * the program asked for. For ever (until weft_finalize()): nothing that computes, blocks or hands out values
 * succeeds any more. The first one counts. Thread-safe. */
void weft_break(weft_status status, const char *function, const char *format, ...) WEFT_PRINTF(3, 4);
bool weft_is_broken(void);
/* The error that weft_break() kept; WEFT_OK and "" when the world is whole. Thread-safe. */
weft_status weft_broken_by(char *message, size_t size);
/* A new world begins. */
void weft_unbreak(void);
/* The status of the most recent weft_fail(), kept or not: what a function returns whose check has just
 * failed. */
weft_status weft_latest_status(void);
/* WEFT_ERR_STATE, kept, unless this is the thread that called weft_init(), in the process in which it did
 * (thread.c). What every public function does first. */
weft_status weft_require_init(const char *function);
/* The same without an error. */
bool weft_may_call(void);

/* ---- checks of arguments, shared by all public functions (check.c) ------------------------------------- */

/* Each keeps an error that names the argument, and returns false, when it is wrong. */
bool weft_check_shape(const char *function, int ndim, const int64_t shape[]);
/* What a function prints to a file, into a buffer of the program's instead. */
typedef weft_status (*weft_print_function)(const char *function, const void *printed, FILE *file);
weft_status weft_print_to_text(const char *function, weft_print_function print, const void *printed, char *text,
                               size_t size, size_t *length);
/* Copies a struct of options into `own`, where what the program's struct does not have is 0. `given_size`: what its
 * field `size` says; `first`: what 0 stands for. False with the error kept. */
bool weft_check_options(const char *function, void *own, size_t own_size, const void *given, size_t given_size,
                        size_t first);
#define WEFT_TAKE_OPTIONS(function, own, given)                                                              \
    weft_check_options(function, (own), sizeof(*(own)), (given), (given)->size,                              \
                       (size_t)((const char *)&(given)->size - (const char *)(given)) + sizeof((given)->size))
bool weft_check_dtype(const char *function, weft_dtype dtype);
/* The mesh meant by an argument: its own when alive, the stack's top for NULL. NULL on error. */
weft_mesh_impl *weft_check_mesh(const char *function, const weft_mesh *mesh);
/* 0 <= result < ndim, or -1 on error; `argument` is its name. */
int weft_check_dim(const char *function, const char *argument, int dim, int ndim);
/* Placements of the program in canonical form. False with the error kept. */
bool weft_check_placements(const char *function, const weft_mesh_impl *mesh, const weft_placement *placements,
                           int ndim, weft_placement canonical[]);
/* The interned layout of checked mesh, dtype and shape with these placements; NULL on error. */
const weft_layout *weft_check_layout(const char *function, const weft_mesh_impl *mesh,
                                     const weft_placement *placements, int ndim, const int64_t shape[],
                                     weft_dtype dtype);

/* ---- meshes (mesh.c) ----------------------------------------------------------------------------------- */

/* The one mesh with these ranks, shape and names (created when new). Errors are kept. */
weft_mesh_impl *weft_mesh_obtain(const char *function, int ndim, const int64_t shape[], const int ranks[],
                                 const char *const names[]);
/* One rank of each process, the first it hosts: where weft_to_host() gathers. */
weft_mesh_impl *weft_host_mesh(void);
/* What the program calls it; NULL: NULL. */
static inline weft_mesh *weft_mesh_handle(const weft_mesh_impl *mesh)
{
    return mesh == NULL ? NULL : mesh->handle;
}

/* ---- start and stop (start.c, devices.c) --------------------------------------------------------------- */

typedef struct weft_settings { /* weft_config with the environment and the defaults worked in */
    weft_world world;
    int local_ranks, fake_size, ranks, workers;
    uint64_t seed;
    int64_t pool_bytes;        /* 0: default */
    int64_t max_pending_tasks; /* 0: default; negative: no limit */
    double timeout_s;   /* 0: none */
    bool check;         /* compare the calls of all processes */
    bool silent;        /* no warnings */
    int64_t pack_bytes; /* messages up to here travel together; 0: none; -1: the transport decides */
    int64_t panel_bytes, panel_rows; /* of every panel, at least; exactly. 0: as the cost model says */
    weft_algorithm algorithm;        /* of moves to several ranks */
    weft_calibration calibration;
    weft_task_cache task_cache;
} weft_settings;

/* Reads config (may be NULL) and the environment. Errors are kept; world and time-out are then those that
 * were right, or the defaults, for there the other processes can be told. */
weft_status weft_settings_read(const char *function, const weft_config *config, weft_settings *settings);

/* Where this process stands among the processes, as the transport says. */
typedef struct weft_process_place {
    int process, num_processes;
    int node_process, node_processes; /* among those of the same machine */
    int node;                         /* number of the first process of the same machine */
} weft_process_place;

weft_status weft_runtime_start(const char *function, const weft_settings *settings, weft_process_place place);
/* The second half of the start, once it is known what the machine can do: costs, panels and layouts. */
weft_status weft_runtime_configure(const char *function, const weft_settings *settings);
void weft_runtime_stop(void);

/* CPU workers for this process, and their places: logical numbers of hwloc processing units, one per worker.
 * Returns how many were written; *bind is false when cores must be shared (more processes than cores). */
int weft_devices_choose(int wanted, weft_process_place place, unsigned units[], int max, bool *bind);

/* The top of the mesh stack; NULL when it is empty. */
static inline weft_mesh_impl *weft_mesh_stack_top(void)
{
    const weft_vec *stack = &weft_runtime.mesh_stack;
    return stack->count == 0 ? NULL : ((weft_mesh_impl **)stack->items)[stack->count - 1];
}

static inline bool weft_hosts(int rank)
{
    return rank >= weft_runtime.first_rank && rank < weft_runtime.first_rank + weft_runtime.local_ranks;
}

#endif
