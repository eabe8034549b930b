/* src/tensor: shards as panels; creating, importing and exporting tensors; redistribution (executes a plan).
 */
#ifndef WEFT_SRC_TENSOR_H
#define WEFT_SRC_TENSOR_H

#include <weft/random.h>
#include <weft/tensor.h>

#include "codelets/args.h"
#include "runtime/pool.h"
#include "runtime/runtime.h"

/* What one hosted rank holds, box of the global index space, row-major and contiguous. */
typedef struct weft_local_shard {
    int rank;
    bool member; /* the rank is in the mesh */
    weft_box box;
    int64_t count;      /* elements; 0: empty, then there are no panels and no buffer */
    int64_t num_panels; /* cut as weft_panel_range(layout, &box, ...) says */
    /* Those of the buffer, or a view's own; two panels of a view may share a handle. */
    const weft_panel *panels;
    weft_panel *view_panels;       /* of a view of several panels: allocated; else NULL */
    weft_panel view_panel;         /* of a view of one */
    weft_buffer *buffer;           /* the memory; shared with other tensors by views */
    int64_t offset;                /* bytes from the buffer's start to the shard's first element */
    struct weft_acquisition *hold; /* while weft_local_acquire() holds it; else NULL */
} weft_local_shard;

/* What a weft_tensor of the program's names. */
typedef struct weft_tensor_impl {
    weft_tensor *handle; /* NULL: not registered yet */
    const weft_layout *layout;
    int references;        /* the caller's and the scopes' */
    int caller_references; /* of these, the caller's own */
    char *name;            /* NULL: none */
    const char *origin;    /* the operation that made it, or what it was moved from; NULL: not tracing */
    int num_shards;        /* ranks that this process hosts */
    bool fake;             /* without data, and without shards: actions.h */
    int number;            /* of one without data: in the expansion that it belongs to */
    struct weft_tensor_impl *newer, *older; /* every live tensor */
    weft_local_shard shards[];
} weft_tensor_impl;

/* ---- life (tensor.c, scope.c) -------------------------------------------------------------------------- */

/* Functions of the program, and calls of the dispatcher, take and return handles; everything else objects. */

/* The object; NULL, with the error kept, unless it is a live tensor. `argument` is its name in messages. A
 * NULL tensor after an earlier error keeps that error: chains of calls need one check. */
weft_tensor_impl *weft_check_tensor(const char *function, const char *argument, const weft_tensor *tensor);
/* The same without a message: of a tensor that has been checked. */
static inline weft_tensor_impl *weft_tensor_get(const weft_tensor *tensor)
{
    return weft_handle_get(&weft_runtime.handles.tensors, tensor);
}
static inline const weft_layout *weft_layout_of(const weft_tensor *tensor)
{
    return weft_tensor_get(tensor)->layout;
}
/* What the program calls it; NULL: NULL. */
static inline weft_tensor *weft_tensor_handle(const weft_tensor_impl *tensor)
{
    return tensor == NULL ? NULL : tensor->handle;
}

/* A new tensor with undefined values, owned by the innermost scope; NULL with the error kept: no memory. */
weft_tensor_impl *weft_tensor_new(const char *function, const weft_layout *layout);
/* A new tensor on the same memory: the elements of each hosted rank from row `first_row` of its shard on, as
 * many as `layout` gives it, in panels that each lie inside one panel of the source. Value semantics: see
 * weft_tensor_make_writable(). NULL with no error kept when they do not fit; NULL with an error: no memory.
 */
weft_tensor_impl *weft_tensor_view(const char *function, weft_tensor_impl *source, int64_t first_row,
                                   const weft_layout *layout);
/* One more reference for the innermost scope. Returns it. */
weft_tensor_impl *weft_tensor_share(weft_tensor_impl *tensor);
/* Before tasks write to a tensor that exists: gives it memory of its own where it shares, so that writing
 * never shows in another tensor; `keep`: with its values (a copy task per panel), else they are undefined.
 * False with the error kept: no memory. */
bool weft_tensor_make_writable(const char *function, weft_tensor_impl *tensor, bool keep);
/* The target gets the source's values by sharing its memory; its own it has. False where that cannot be done,
 * with no error kept: then nothing has changed, or shards that have got them already; they are copied
 * instead. */
bool weft_tensor_take(weft_tensor_impl *target, weft_tensor_impl *source);

/* A public call that is put together from others: a scope for what it makes on the way, within which
 * submission neither waits nor is refused (runtime/pending.h). Opened before the first of them, and before
 * anything is moved for them. Composites nest; the outermost one may be refused: false with the error kept,
 * nothing is open. */
bool weft_composite_open(const char *function);
/* The same within a call that has been admitted. */
void weft_composite_enter(void);
void weft_composite_close(void);

/* ---- new ones (factories.c) ---------------------------------------------------------------------------- */

/* What a factory has been given. */
typedef struct weft_factory {
    const char *function;
    weft_dtype dtype;
    int ndim;
    const int64_t *shape;
    weft_mesh *mesh;
    const weft_placement *placements;
    bool partial_allowed;
} weft_factory;

/* The layout asked for, after all checks; NULL with the error kept. */
const weft_layout *weft_factory_layout(const weft_factory *request);
/* Whether a number can be an operand beside elements of a type: integers take whole numbers in their range
 * (WEFT_U8 from -255 on, which wrap around), truth values any whole number. False with the error kept. */
bool weft_check_number(const char *function, const char *argument, weft_dtype dtype, double value);
/* The same layout for another type, Replicate where it is Partial. NULL with the error kept: no memory. */
const weft_layout *weft_layout_like(const char *function, const weft_layout *layout, weft_dtype dtype);

/* ---- states of random numbers (random.c) --------------------------------------------------------------- */

/* The one in use. */
weft_random_state *weft_random_in_use(void);

/* ---- names in traces (names.c) ------------------------------------------------------------------------- */

/* What reports call the tensor: its name, else its origin, else "". */
const char *weft_tensor_label(const weft_tensor_impl *tensor);
/* The others only when weft_runtime.trace is not NULL. For a tensor that is new, made by a public function;
 * for one that has become a copy of another's values; for one whose name or memory has changed. */
void weft_tensor_trace_new(weft_tensor_impl *tensor, const char *function);
void weft_tensor_trace_moved(weft_tensor_impl *target, const weft_tensor_impl *source);
void weft_tensor_trace_renamed(const weft_tensor_impl *tensor);
/* "matmul:h[3]": the operation, and the panel that the task writes. Kept until the runtime stops. */
const char *weft_task_trace_name(const char *operation, starpu_data_handle_t written);

/* ---- redistribution (redistribute.c, exchange.c) ------------------------------------------------------- */

/* The tensor in another layout of the same shape and type: itself with one more reference, a view, or a new
 * tensor. */
weft_tensor_impl *weft_tensor_to_layout(const char *function, weft_tensor_impl *tensor,
                                        const weft_layout *layout);
/* What each rank needs of a tensor for its part of windows->cut, whose placements are the tensor's own: a new
 * tensor of the shape that weft_access_map tells. NULL with the error kept. */
weft_tensor_impl *weft_tensor_access(const char *function, weft_tensor_impl *tensor,
                                     const weft_access_map *access_map);
/* Writes windows of a tensor that are placed into a target of the layout windows->cut, which shares its
 * memory with no other tensor. False with the error kept. */
bool weft_tensor_place(const char *function, weft_tensor_impl *target, weft_tensor_impl *tensor,
                       const weft_access_map *access_map);
/* Copies a tensor's values into one that exists, of the same shape and type and any layout without Partial.
 */
bool weft_tensor_copy_into(const char *function, weft_tensor_impl *target, weft_tensor_impl *source);
/* What blocks until tasks have read a tensor must not begin while the program holds a shard: they wait for
 * that. False with the error kept. */
bool weft_check_not_acquired(const char *function, const char *argument, const weft_tensor_impl *tensor);
/* BLOCKS: the whole of a live tensor on every process; nothing is written unless all of it is there. `bytes`:
 * that `global` has room for. */
weft_status weft_tensor_to_host(const char *function, weft_tensor_impl *tensor, void *global, size_t bytes);
/* WEFT_ERR_INVALID unless `bytes` bytes at `memory`, an argument of the name, are room for `needed`. False
 * with the error kept. */
bool weft_check_room(const char *function, const char *name, const void *memory, size_t bytes, size_t needed);

/* ---- start and stop (state.c) -------------------------------------------------------------------------- */

weft_status weft_tensors_start(void);
/* Shards that weft_local_acquire() holds: tasks that need them wait for the program. */
int weft_tensors_acquired(void);
/* Takes them all back. */
void weft_tensors_let_go(void);
/* What weft_finalize() will have to release: shards that are held, tensors of the caller's own, open scopes.
 * Nothing where there is nothing. */
void weft_tensors_tell_left_over(FILE *file);
/* Releases every tensor and scope that is left. */
void weft_tensors_stop(void);

#endif
