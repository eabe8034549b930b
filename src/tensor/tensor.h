/* src/tensor: shards as panels; creating tensors; redistribution (executes a plan). */
#ifndef WEFT_SRC_TENSOR_H
#define WEFT_SRC_TENSOR_H

#include <weft/random.h>
#include <weft/tensor.h>

#include "codelets/args.h"
#include "codelets/scalars.h"
#include "runtime/pool.h"
#include "runtime/runtime.h"

/* The shard of one hosted rank: a box of the global index space, row-major and contiguous. */
typedef struct weft_local_shard {
    int rank;
    bool member; /* the rank is in the mesh */
    weft_box box;
    int64_t count;      /* elements; 0: empty, without panels and buffer */
    int64_t num_panels; /* cut as weft_panel_range(layout, &box, ...) says */
    /* The buffer's, or a view's own; two panels of a view may share a handle. */
    const weft_panel *panels;
    weft_panel *view_panels;       /* of a view with several panels: allocated; else NULL */
    weft_panel view_panel;         /* of a view with one panel */
    weft_buffer *buffer;           /* the memory; views share it */
    int64_t offset;                /* bytes from the buffer's start to the shard's first element */
    struct weft_acquisition *hold; /* while acquired by the program; else NULL */
} weft_local_shard;

/* The object behind a weft_tensor handle. */
typedef struct weft_tensor_impl {
    weft_tensor *handle; /* NULL: unregistered */
    const weft_layout *layout;
    int references;        /* of the caller, the scopes, and those who have saved it */
    int caller_references; /* the caller's own part of these */
    char *name;            /* NULL: none */
    const char *origin;    /* name of the operation or tensor it comes from; NULL: not tracing */
    int num_shards;        /* number of hosted ranks */
    bool fake;             /* no data and no shards: actions.h */
    bool promised;         /* output of a deferred call: promised.h */
    int number;            /* of one without data: its number in the expansion; else its value's in the graph */
    uint64_t graph_run;    /* the run of a graph that `number` belongs to; 0: none */
    weft_tensor *saved_from; /* the tensor that it is a copy of by weft_tensor_save(); NULL: none */
    uint64_t saved_version; /* that one's version then */
    uint64_t saved_in;     /* the run of a graph in which it was made, as imported_in */
    uint64_t imported_in;  /* the run of a graph in which weft_from_local() made it; 0: none */
    bool borrowed;         /* on the program's memory (weft_from_local()), also on ranks whose shard is empty */
    uint64_t version;      /* number of operations that have written to it: the same on every process */
    struct weft_tape_value *tape; /* src/autograd: the value that it is of the tape; NULL: a constant */
    struct weft_gathering *gathering; /* src/autograd: the sharded tensor that has its values; NULL: none is known */
    struct weft_ghosted *ghosted;     /* it lies in ghosted arrays (ghosts.h); NULL: it does not */
    bool replaced;                    /* another tensor has taken its place in a module */
    bool is_array;                    /* it is the arrays of a ghosted tensor, margins included */
    struct weft_tensor_impl *newer, *older;                   /* list of all, also those without a handle */
    struct weft_tensor_impl *next_promised, *former_promised; /* list of all promised tensors */
    weft_local_shard shards[];
} weft_tensor_impl;

/* ---- life (tensor.c, scope.c) -------------------------------------------------------------------------- */

/* Public functions and calls of the dispatcher take and return handles; all others take objects. */

/* The object of a handle. NULL, with the error kept: not a live tensor. `argument` is its name in
 * messages. A NULL handle after an earlier error keeps that error: chains of calls need one check. */
weft_tensor_impl *weft_check_tensor(const char *function, const char *argument, const weft_tensor *tensor);
/* The same for entry `i` of a list of tensors: "list[i]" in messages. Costs no text where it is live. */
weft_tensor_impl *weft_check_entry(const char *function, const char *list, int i, const weft_tensor *tensor);
/* The same for a checked handle, without a message. */
static inline weft_tensor_impl *weft_tensor_get(const weft_tensor *tensor)
{
    return weft_handle_get(&weft_runtime.handles.tensors, tensor);
}
static inline const weft_layout *weft_layout_of(const weft_tensor *tensor)
{
    return weft_tensor_get(tensor)->layout;
}
/* The handle; NULL: NULL. */
static inline weft_tensor *weft_tensor_handle(const weft_tensor_impl *tensor)
{
    return tensor == NULL ? NULL : tensor->handle;
}

/* Whether it has no values at all; others without data get them when they are used. */
static inline bool weft_tensor_is_layout_alone(const weft_tensor_impl *tensor)
{
    return tensor->fake && tensor->gathering == NULL && tensor->ghosted == NULL;
}

/* A new tensor with undefined values, owned by the innermost scope; NULL with the error kept: no memory. */
weft_tensor_impl *weft_tensor_new(const char *function, const weft_layout *layout);
/* Deletes a new tensor of a call that fails, in the scope in which it was made. `tensor` NULL: nothing. Returns NULL. */
weft_tensor_impl *weft_tensor_discard(weft_tensor_impl *tensor);
/* The same in the memory of a tensor of this layout, whose values nobody needs any more but the tasks that write to the new
 * one, if nothing else has that memory. */
weft_tensor_impl *weft_tensor_new_over(const char *function, weft_tensor_impl *dying);
/* A new tensor on the same memory: the elements of each hosted rank from row `first_row` of its shard on,
 * as many as `layout` gives it, in panels that each lie inside one panel of the source. Value semantics:
 * see weft_tensor_make_writable(). NULL with no error kept: impossible; NULL with an error: no memory. */
weft_tensor_impl *weft_tensor_view(const char *function, weft_tensor_impl *source, int64_t first_row,
                                   const weft_layout *layout);
/* Its handle ends, with the caller's references, and so does its part of the memory; scopes keep their references. */
void weft_tensor_give_up(weft_tensor_impl *tensor);
/* One more reference for the innermost scope. Returns it. */
weft_tensor_impl *weft_tensor_share(weft_tensor_impl *tensor);
/* An unregistered tensor on the same memory with one reference, the caller's: another handle-less object with
 * these values, which writes to the tensor do not show in. Not of a borrowed tensor. NULL with the error kept: no
 * memory. */
weft_tensor_impl *weft_tensor_save(const char *function, const weft_tensor_impl *tensor);
/* weft_scope_end() and weft_tensor_release() for the library itself: those of the program may sweep layouts
 * (src/sweep.c). */
weft_status weft_scope_end_own(void);
weft_status weft_tensor_release_own(weft_tensor *tensor);
/* Whether no call of the program's is under way. */
bool weft_is_between_calls(void);
/* weft_scope_begin(), unrecorded. False with the error kept: no memory, and no scope is open. */
bool weft_scope_begin_unrecorded(void);
/* weft_scope_end(), unrecorded, which hands each of tensors[] that is not NULL to the enclosing scope, but those for which
 * has_reference(context, number) is true (NULL: none). False with the error kept: no memory. */
bool weft_scope_end_keeping(int num_tensors, weft_tensor *const tensors[],
                              bool (*has_reference)(const void *context, int number), const void *context);
/* To be called before tasks write to an existing tensor: gives it memory of its own if it shares, so that
 * the write does not show in other tensors. `keep`: with its values (a copy task per panel); else they are
 * undefined. False with the error kept: no memory. */
bool weft_tensor_make_writable(const char *function, weft_tensor_impl *tensor, bool keep);
/* The target gets the source's values by sharing memory, and gives up its own. False with no error kept:
 * impossible, and nothing changed but shards that share already; copying all is correct then. */
bool weft_tensor_take(weft_tensor_impl *target, weft_tensor_impl *source);

/* A tensor without data gets that of another one in its layout, by sharing memory. False with the error kept: no memory. */
bool weft_tensor_give_data(const char *function, weft_tensor_impl *tensor, const weft_tensor_impl *source);

/* A public call made of other calls: opens a scope for its intermediate tensors, within which submission
 * neither waits nor is refused (runtime/pending.h). Call it before the first call and the first
 * redistribution. Composites nest; the outermost may be refused: false with the error kept, nothing is
 * open. */
bool weft_composite_open(const char *function);
/* weft_composite_close() of one that has a result (NULL: none), which goes to the enclosing scope. False with the error kept. */
bool weft_composite_close_keeping(weft_tensor *result);
/* The same within an admitted call. */
void weft_composite_enter(void);
void weft_composite_close(void);

/* ---- new ones (factories.c) ---------------------------------------------------------------------------- */

/* Arguments of a factory. */
typedef struct weft_factory {
    const char *function;
    weft_dtype dtype; /* as the program gives it: maybe with WEFT_WITH_GRAD, which the layout does not have */
    int ndim;
    const int64_t *shape;
    weft_mesh *mesh;
    const weft_placement *placements;
    bool partial_allowed;
} weft_factory;

/* The type alone; what is no type stays as it is. */
static inline weft_dtype weft_plain_type(weft_dtype given)
{
    int type = (int)given - WEFT_WITH_GRAD;
    return type >= 0 && type < WEFT_DTYPE_COUNT ? (weft_dtype)type : given;
}

/* A type as the program gives it. False with the error kept: no type, or one without gradients where they are wanted. */
bool weft_check_given_type(const char *function, weft_dtype given);
/* The new tensor, as a leaf if the given type says so. NULL stays NULL; NULL with the error kept: no memory. */
weft_tensor *weft_made(weft_dtype given, weft_tensor *tensor);

/* The layout for these arguments, after all checks; NULL with the error kept. */
const weft_layout *weft_factory_layout(const weft_factory *request);
/* Submits the tasks that set all elements of a shard, which is not empty. False with the error kept. */
bool weft_shard_fill(const weft_tensor_impl *tensor, const weft_local_shard *shard, weft_exact value);
/* An integer as a call passes it. */
weft_exact weft_exact_of(int64_t number);
/* Whether a number can be an operand beside elements of a type: integer types take whole numbers in their
 * range (WEFT_U8 from -255 on, which wrap around, and so on), WEFT_BOOL any whole number. False with the error kept. */
bool weft_check_number(const char *function, const char *argument, weft_dtype dtype, double value);
/* The same for a number of the program, which becomes what a call passes; beside WEFT_U64 the int64_t of its bits. */
bool weft_take_number(const char *function, const char *argument, weft_dtype dtype, weft_scalar number, weft_exact *taken);
/* For kernels that take one double: also false for whole numbers that no double has. */
bool weft_take_double(const char *function, const char *argument, weft_dtype dtype, weft_scalar number, double *taken);
/* The layout with another type, and Replicate for Partial. NULL with the error kept: no memory. */
const weft_layout *weft_layout_like(const char *function, const weft_layout *layout, weft_dtype dtype);

/* ---- states of random numbers (random.c) --------------------------------------------------------------- */

/* The current random state. */
weft_random_state *weft_random_in_use(void);

/* ---- names in traces (names.c) ------------------------------------------------------------------------- */

/* The tensor's label in reports: its name, else its origin, else "". */
const char *weft_tensor_label(const weft_tensor_impl *tensor);
/* The others need weft_runtime.trace. For a new tensor of a public function; for a tensor that has become
 * a copy of another's values; for one whose name or memory has changed. */
void weft_tensor_trace_new(weft_tensor_impl *tensor, const char *function);
void weft_tensor_trace_moved(weft_tensor_impl *target, const weft_tensor_impl *source);
void weft_tensor_trace_renamed(const weft_tensor_impl *tensor);
/* "matmul:h[3]": the operation, and the panel that the task writes. Valid until the runtime stops. */
const char *weft_task_trace_name(const char *operation, starpu_data_handle_t written);

/* ---- redistribution (redistribute.c, exchange.c) ------------------------------------------------------- */

/* The tensor in another layout of the same shape and type: itself with one more reference, a view, or a
 * new tensor. */
weft_tensor_impl *weft_tensor_to_layout(const char *function, weft_tensor_impl *tensor,
                                        const weft_layout *layout);
/* The elements of a tensor that each rank reads for its part of the access map's `cut`, whose placements
 * are the tensor's own: a new tensor, of the shape described at weft_access_map. NULL with the error kept. */
weft_tensor_impl *weft_tensor_access(const char *function, weft_tensor_impl *tensor,
                                     const weft_access_map *access_map);
/* The layout of that tensor; NULL with the error kept. */
const weft_layout *weft_access_layout(const char *function, const weft_layout *from, const weft_access_map *access_map);
/* Writes through a placed access map into a target of the layout access_map->cut, which shares its memory
 * with no other tensor. False with the error kept. */
bool weft_tensor_place(const char *function, weft_tensor_impl *target, weft_tensor_impl *tensor,
                       const weft_access_map *access_map);
/* Copies a tensor's values into an existing one of the same shape and type, in any layout without Partial. */
bool weft_tensor_copy_into(const char *function, weft_tensor_impl *target, weft_tensor_impl *source);
/* ---- start and stop (state.c) -------------------------------------------------------------------------- */

/* A level above keeps data of its own for tensors (weft_tensor_impl.tape and .gathering, of src/autograd). */
typedef struct weft_tensor_owner {
    void (*drop)(weft_tensor_impl *tensor);   /* the tensor ends */
    bool (*gather)(weft_tensor_impl *tensor); /* the data of one that is gathered when it is used; false with the error kept */
} weft_tensor_owner;
/* NULL: none any more. */
void weft_tensors_set_owner(const weft_tensor_owner *owner);

weft_status weft_tensors_start(void);
/* Number of shards that the program has acquired: tasks on them wait for the program. */
int weft_tensors_acquired(void);
/* Releases them all. */
void weft_tensors_let_go(void);
/* A function of the program that the library calls in the midst of its work: a hook, a segment, a gradient. Until it
 * returns it can close its own scopes alone, and not call weft_finalize(). Scopes that it leaves open are closed. */
typedef struct weft_visit {
    size_t scopes_below, scopes;
    int64_t unopened;
    weft_context outer;
} weft_visit;
void weft_visit_begin(weft_visit *visit);
void weft_visit_end(const weft_visit *visit);

/* Warns in weft_finalize() of resources left open: acquired shards, the caller's tensors, open scopes. */
void weft_tensors_tell_left_over(FILE *file);
/* weft_meet_layout() for all layouts of src/tensor. */
void weft_tensors_meet_layouts(void);
/* Releases all remaining tensors and scopes. */
void weft_tensors_stop(void);

#endif
