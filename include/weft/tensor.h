/** \file
 * Distributed tensors. Functions return a tensor at once; its values come later, when its tasks have run. */
#ifndef WEFT_TENSOR_H
#define WEFT_TENSOR_H

#include <stdio.h>

#include <weft/base.h>
#include <weft/mesh.h>
#include <weft/placement.h>

WEFT_BEGIN_DECLS

/** A handle, not an address. The handle of a released tensor is refused (WEFT_ERR_INVALID) for the rest of
 * the process's life. */
typedef struct weft_tensor weft_tensor;

/** A reference of the caller's own, beside the scope's. Releasing never blocks: pending tasks keep the
 * tensor's memory. Releasing a reference that the caller does not have is WEFT_ERR_STATE while the tensor
 * lives, and WEFT_ERR_INVALID afterwards. \{ */
WEFT_API weft_status weft_tensor_retain(weft_tensor *tensor);
WEFT_API weft_status weft_tensor_release(weft_tensor *tensor);
/** \} */

/** Moves the tensor from the innermost scope to the enclosing one (from the outermost: to the caller).
 * Returns it. */
WEFT_API weft_tensor *weft_scope_keep(weft_tensor *tensor);

/**
 * Factories. No rank holds more than its shard.
 * \param mesh        NULL: the current mesh
 * \param placements  one per mesh dimension; NULL: Replicate everywhere. Partial is WEFT_ERR_LAYOUT, but for
 *                    weft_empty(), whose addends the caller fills.
 * weft_empty: the values are undefined. <weft/random.h> has those with random values.
 * \{
 */
WEFT_API weft_tensor *weft_empty(weft_dtype dtype, int ndim, const int64_t shape[], weft_mesh *mesh,
                                 const weft_placement *placements);
WEFT_API weft_tensor *weft_zeros(weft_dtype dtype, int ndim, const int64_t shape[], weft_mesh *mesh,
                                 const weft_placement *placements);
WEFT_API weft_tensor *weft_ones(weft_dtype dtype, int ndim, const int64_t shape[], weft_mesh *mesh,
                                const weft_placement *placements);
WEFT_API weft_tensor *weft_full(weft_dtype dtype, int ndim, const int64_t shape[], double value,
                                weft_mesh *mesh, const weft_placement *placements);
/** \} */
/** The same with the shape, type, mesh and placements of a, with Replicate in place of Partial. \{ */
WEFT_API weft_tensor *weft_empty_like(weft_tensor *a);
WEFT_API weft_tensor *weft_zeros_like(weft_tensor *a);
WEFT_API weft_tensor *weft_ones_like(weft_tensor *a);
WEFT_API weft_tensor *weft_full_like(weft_tensor *a, double value);
/** \} */

/** [n]: start, start + step, ... before `stop`: n = ceil((stop - start) / step), computed in double precision. For an
 * integer type start and step are whole numbers. WEFT_ERR_INVALID for a step of 0, or away from stop; WEFT_ERR_DTYPE for
 * WEFT_BOOL. */
WEFT_API weft_tensor *weft_arange(weft_dtype dtype, double start, double stop, double step, weft_mesh *mesh,
                                  const weft_placement *placements);
/** [num]: numbers at equal distances from start to stop, both included; of a floating type (WEFT_ERR_DTYPE). */
WEFT_API weft_tensor *weft_linspace(weft_dtype dtype, double start, double stop, int64_t num, weft_mesh *mesh,
                                    const weft_placement *placements);
/** [rows, columns]: ones where both indices are equal, else zeros. */
WEFT_API weft_tensor *weft_eye(weft_dtype dtype, int64_t rows, int64_t columns, weft_mesh *mesh,
                               const weft_placement *placements);

/** A tensor without data, in any world: calls on it return tensors without data, with the shapes, types
 * and placements of the same calls on data, and the same errors; they submit nothing, communicate
 * nothing, and use no memory for shards. Other processes need not make them. Calls that read or write
 * values (weft_to_host(), weft_tensor_item(), weft_equal(), weft_local_acquire(), ..., and calls in place
 * on a tensor with data) are WEFT_ERR_STATE. weft_fake_like: the layout of a, Partial included.
 * weft_tensor_is_fake: also true for every tensor of a fake world. \{ */
WEFT_API weft_tensor *weft_fake(weft_dtype dtype, int ndim, const int64_t shape[], weft_mesh *mesh,
                                const weft_placement *placements);
WEFT_API weft_tensor *weft_fake_like(weft_tensor *a);
WEFT_API bool weft_tensor_is_fake(const weft_tensor *tensor);
/** \} */

/**
 * Distributes a global array. `global` (row-major, contiguous) is read on the process that hosts the mesh's
 * first rank alone, the one at coordinate 0 of every dimension: the source of all values. Others may pass
 * NULL. BLOCKS there until it has been read, and elsewhere until that process has come to the call and says
 * whether there is an array: NULL where it is read is WEFT_ERR_INVALID on every process.
 * \param mesh        NULL: the current mesh
 * \param placements  one per mesh dimension; NULL: Replicate everywhere. Partial is WEFT_ERR_LAYOUT.
 * \return NULL on error, as the factories; WEFT_ERR_STATE on a process where messages to others wait for a
 *         shard that weft_local_acquire() holds: the call has not been made there, and the others wait for it.
 */
WEFT_API weft_tensor *weft_distribute(weft_dtype dtype, int ndim, const int64_t shape[], const void *global,
                                      weft_mesh *mesh, const weft_placement *placements);

/** Flags of weft_from_local(), to be combined by |. */
enum {
    WEFT_COPY = 1, /**< copy the memory (before the call returns) instead of using it in place */
    /** BLOCKS: compare shapes and types across ranks (WEFT_ERR_MISMATCH on every rank when they differ; wrong
     * arguments on one process are an error on all), and give replicas the values of their first rank, that
     * at coordinate 0 of the mesh dimensions that replicate; replicas of a Partial tensor's addends too.
     * WEFT_ERR_STATE while tasks wait for a shard that weft_local_acquire() holds. */
    WEFT_CHECK_RANKS = 2
};

/**
 * A tensor of the caller's own shards. WEFT_ERR_INVALID for a NULL where a shard is not empty, WEFT_ERR_SHAPE
 * for a negative size, WEFT_ERR_LAYOUT for placements that the shape does not have.
 *
 * Bytes of WEFT_BOOL other than 0 become 1, in memory that is used in place too; so they do in weft_distribute(),
 * weft_from_boxes(), files, and shards at weft_local_release(). A program's own kernel must write 0 or 1.
 *
 * \param shape   the GLOBAL shape; every rank's shard must be what weft_shard_box() says. That is not checked: of 1,001
 *                rows on 4 ranks they have 251, 251, 251 and 248, and not N / p and one more for the first N % p, as many MPI
 *                programs cut. weft_from_local_ex() takes the sizes that the caller believes in and refuses others;
 *                weft_from_boxes() (<weft/boxes.h>) takes any cut.
 *
 * \param locals  weft_local_ranks() pointers, one per hosted rank, each row-major and contiguous; NULL where
 *                the rank's shard is empty. The memory is used in place: it must stay until the tensor is
 *                released and weft_wait() has returned, and must not be touched meanwhile but through
 *                weft_local_acquire().
 *
 * \param flags   0, or WEFT_COPY | WEFT_CHECK_RANKS
 */
WEFT_API weft_tensor *weft_from_local(weft_dtype dtype, int ndim, const int64_t shape[], void *const locals[],
                                      weft_mesh *mesh, const weft_placement *placements, unsigned flags);

/** The same, where every rank's shard has `local_shape`: the global shape follows. */
WEFT_API weft_tensor *weft_from_local_even(weft_dtype dtype, int ndim, const int64_t local_shape[],
                                           void *const locals[], weft_mesh *mesh,
                                           const weft_placement *placements, unsigned flags);

/** Options of weft_from_local_ex(). Zero-initialise it and set what matters. Sizes and strides: `ndim`
 * numbers for each hosted rank, local rank 0 first: weft_local_ranks() * ndim. */
typedef struct weft_from_local_options {
    const int64_t *shape; /**< of the whole tensor; NULL: it follows from local_shapes */
    /** The sizes that the caller believes the hosted ranks' shards to have; those of ranks outside the mesh are not read. May be NULL where
     * `shape` is given. */
    const int64_t *local_shapes;
    /** Elements from one index to the next, of each dimension; NULL: all shards are row-major and contiguous.
     * Others need WEFT_COPY. */
    const int64_t *strides;
    unsigned flags; /**< as those of weft_from_local() */
    size_t size;    /**< 0, or sizeof of this struct ("Structs of options" in <weft/base.h>) */
} weft_from_local_options;

/** Sets all fields to 0, and `size`. */
static inline void weft_from_local_options_init(weft_from_local_options *options)
{
    const weft_from_local_options all = { NULL, NULL, NULL, 0, sizeof(all) };
    *options = all;
}

/** weft_from_local() for shards whose sizes only their ranks know, and for strided memory. With local_shapes
 * all processes exchange the sizes of their shards. BLOCKS until they have; an error on one process is an
 * error on all. Sizes must be those of weft_shard_box(); an empty shard may have any sizes without elements. `shape` NULL:
 * the size of a sharded dimension is the sum of the shards' sizes.
 *
 * \return NULL on error, as weft_from_local(). WEFT_ERR_INVALID if shape and local_shapes are both NULL, and
 *         for strides that are not row-major without WEFT_COPY; WEFT_ERR_SHAPE if a rank's sizes are not
 *         those of its shard: the message names the rank; WEFT_ERR_UNSUPPORTED without a shape in a fake
 *         world.
 *
 * Example: this process's rows of a matrix with `columns` columns; their number may differ between
 * processes.
 *
 *     const int64_t mine[] = { rows_here, columns };
 *     const weft_from_local_options options = { .local_shapes = mine };
 *     weft_tensor *a = weft_from_local_ex(WEFT_F64, 2, (void *[]){ memory }, mesh, by_rows, &options); */
WEFT_API weft_tensor *weft_from_local_ex(weft_dtype dtype, int ndim, void *const locals[], weft_mesh *mesh,
                                         const weft_placement *placements,
                                         const weft_from_local_options *options);

/**
 * The same values in another layout, on the same mesh or another. Any layout to any layout; to Partial only
 * where the tensor is Partial with the same op already (WEFT_ERR_LAYOUT). The layout it has: the same tensor,
 * one more reference; so a leaf stays one, also between weft_no_grad_begin() and weft_no_grad_end() (weft_detach() gives
 * a constant).
 * \param mesh        NULL: the tensor's own, whatever mesh is the current one
 * \param placements  one per dimension of that mesh; NULL: Replicate everywhere
 */
WEFT_API weft_tensor *weft_redistribute(weft_tensor *tensor, weft_mesh *mesh,
                                        const weft_placement *placements);

/** BLOCKS, every process must call it: the full tensor, row-major, on every process; Partial is reduced. All
 * processes get the same values: where replicas differ, those of the first one. `global` has room for `bytes` bytes. Less than weft_tensor_bytes(): WEFT_ERR_INVALID at once, nothing is
 * written. All processes must give room enough: one that alone gives too little is missed by the others. */
WEFT_API weft_status weft_to_host(weft_tensor *tensor, void *global, size_t bytes);
/** BLOCKS, every process must call it: the same on one process alone (0 <= process < weft_num_processes()). The others' `global`
 * may be NULL, and they hold no more than their shards. WEFT_ERR_INVALID for another process. */
WEFT_API weft_status weft_to_host_on(weft_tensor *tensor, int process, void *global, size_t bytes);

/** BLOCKS, every process must call it: the value of a tensor of one element, the same on every process, as
 * weft_to_host() gives it; 64-bit integers are rounded to double precision. WEFT_ERR_SHAPE for any other number of elements. */
WEFT_API weft_status weft_tensor_item(weft_tensor *tensor, double *value);

/** BLOCKS: copies one hosted rank's shard (0 <= local_rank < weft_local_ranks()), row-major. Local: no
 * communication of its own. For a Partial tensor the rank's addend, not the value: weft_redistribute() or
 * weft_to_host() reduce. `shard` has room for `bytes` bytes. Less than weft_local_bytes():
 * WEFT_ERR_INVALID at once, nothing is written. */
WEFT_API weft_status weft_local_to_host(weft_tensor *tensor, int local_rank, void *shard, size_t bytes);

typedef enum weft_access { WEFT_READ = 1, WEFT_WRITE = 2, WEFT_READ_WRITE = 3 } weft_access;

/**
 * BLOCKS: a pointer to a hosted rank's shard (contiguous, row-major), valid until weft_local_release(). Tasks
 * that need the shard wait meanwhile. Do not dereference the pointer of an empty shard. Writing to a tensor that
 * was computed from leaves (<weft/autograd.h>) is WEFT_ERR_STATE outside weft_no_grad_begin(): its gradient would
 * not know; a leaf may be written to. NULL on error, also
 * an earlier task's; WEFT_ERR_STATE if the shard is acquired already. A program may hold several shards; but
 * a call that would wait for a held one (for its memory, or for a task that needs it) is WEFT_ERR_STATE, here
 * and in weft_local_to_host(), weft_to_host() and the like: it would deadlock. */
WEFT_API void *weft_local_acquire(weft_tensor *tensor, int local_rank, weft_access access);
WEFT_API weft_status weft_local_release(weft_tensor *tensor, int local_rank);

/** A hosted rank's shard: that of local rank `local_rank` of a tensor. */
typedef struct weft_tensor_shard {
    weft_tensor *tensor;
    int local_rank;
} weft_tensor_shard;

/** A tensor without its data: the arguments of weft_fake(), weft_empty() and the like. A program that fills it in sets it to zero
 * first. */
typedef struct weft_tensor_layout {
    weft_dtype dtype;
    int ndim;
    int64_t shape[WEFT_MAX_DIMS]; /**< of the whole tensor */
    weft_mesh *mesh;
    weft_placement placements[WEFT_MAX_DIMS]; /**< one per mesh dimension */
    bool requires_grad; /**< weft_requires_grad() of it (<weft/autograd.h>) */
} weft_tensor_layout;

/** weft_tensor_flatten: the shards of the hosted ranks, and the layout. weft_tensor_unflatten: a tensor of
 * given shards, which may belong to one tensor or to several, in their layout or in another one with the
 * same shard sizes (Partial for Replicate). (PyTorch: __tensor_flatten__, __tensor_unflatten__.) No
 * communication, no waiting. Nothing is copied: the new tensor shares memory with the tensors of its
 * shards, and a write to one of them does not show in the others. Exceptions, which are copied: shards in
 * the program's memory (weft_from_local()), and rows that the new layout cuts into other panels.
 *
 * One process may call weft_tensor_flatten(); all make weft_tensor_unflatten().
 *
 * Where the layout says requires_grad the new tensor is computed from the tensor of the shards, if that requires a gradient
 * and calls are recorded; else it is a leaf. Without it the new tensor is a constant. The gradient of each shard
 * is the rank's part of the new tensor's gradient (the whole of it for Partial and Replicate, divided by the number of addends
 * for an average), whatever the other ranks do with theirs: so the shards of a Replicate tensor, used as Shard or Partial,
 * get gradients that are added. (PyTorch: to_local, then from_local.) weft_set_grad_placements() of either tensor says in which
 * layout its gradient goes on. For gradients all processes give the shards of one tensor, shards[i] with local_rank i, also
 * of ranks whose part is empty; for other shards, for addends of a Partial tensor that are used as values, and for another
 * reduction than a sum or an average weft_backward() is WEFT_ERR_UNSUPPORTED.
 *
 * \param shards  weft_local_ranks() of them, in the order of the ranks. weft_tensor_flatten() gives each a
 *                reference of the caller's: weft_tensor_release(shards[i].tensor). weft_tensor_unflatten()
 *                ignores those of ranks whose part of the new tensor is empty. Replicas must have the same
 *                values.
 * \return weft_tensor_unflatten(): a new tensor; NULL on error: WEFT_ERR_SHAPE, WEFT_ERR_DTYPE for a shard
 *         that does not fit, WEFT_ERR_DTYPE for requires_grad with a type that is not floating, WEFT_ERR_INVALID, else as
 *         weft_empty(). \{ */
WEFT_API weft_status weft_tensor_flatten(weft_tensor *tensor, weft_tensor_shard shards[],
                                         weft_tensor_layout *layout, size_t size);
WEFT_API weft_tensor *weft_tensor_unflatten(const weft_tensor_shard shards[], const weft_tensor_layout *layout, size_t size);
/** \} */

/** Properties. On error: 0, WEFT_F32 with the error set, NULL. \{ */
WEFT_API int weft_tensor_ndim(const weft_tensor *tensor);
WEFT_API int64_t weft_tensor_size(const weft_tensor *tensor, int dim);
/** All sizes: weft_tensor_ndim() of them, valid as long as the tensor. */
WEFT_API const int64_t *weft_tensor_shape(const weft_tensor *tensor);
/** The product of the sizes: 1 of a tensor without dimensions. */
WEFT_API int64_t weft_tensor_num_elements(const weft_tensor *tensor);
WEFT_API weft_dtype weft_tensor_dtype(const weft_tensor *tensor);
WEFT_API weft_mesh *weft_tensor_mesh(const weft_tensor *tensor);
/** One per mesh dimension, in canonical form (Shard dimensions not negative); valid as long as the tensor. */
WEFT_API const weft_placement *weft_tensor_placements(const weft_tensor *tensor);
/** The number of placements: the dimensions of the mesh. */
WEFT_API int weft_tensor_num_placements(const weft_tensor *tensor);
/** Offset and extent (ndim entries each) of a hosted rank's shard. */
WEFT_API weft_status weft_local_box(const weft_tensor *tensor, int local_rank, int64_t offset[],
                                    int64_t extent[]);
/** Bytes of the full tensor, and of a hosted rank's shard (0 if it is empty). */
WEFT_API size_t weft_tensor_bytes(const weft_tensor *tensor);
WEFT_API size_t weft_local_bytes(const weft_tensor *tensor, int local_rank);
/** \} */

/** A name for traces and messages (copied). */
WEFT_API weft_status weft_tensor_set_name(weft_tensor *tensor, const char *name);

/** Writes a tensor's name, type, shape, placements and mesh: "h: f32[8, 4] [S0,R] on 2x2 (dp, tp)". For
 * messages and debuggers: waits for nothing, communicates nothing, keeps no error. For a pointer that is
 * no live tensor, or on another thread than weft_init()'s, the text says that. At most `size` bytes, the
 * terminating 0 included. Returns `text` ("" if that is NULL or `size` 0). */
WEFT_API const char *weft_tensor_describe(const weft_tensor *tensor, char *text, size_t size);

/** BLOCKS, every process must call it; process 0 prints dtype, shape, placements, mesh and contents (long
 * ones abbreviated). */
WEFT_API weft_status weft_tensor_print(weft_tensor *tensor, FILE *file);
/** BLOCKS, every process must call it: the same into a buffer, on every process, truncated to `size` bytes
 * with the terminating 0. `text` may be NULL if `size` is 0. `*length` (may be NULL) gets the length of
 * the whole text, without the 0. WEFT_ERR_INVALID for a NULL text with a size. */
WEFT_API weft_status weft_tensor_print_text(weft_tensor *tensor, char *text, size_t size, size_t *length);

/** Format of weft_visualize_sharding(). */
typedef enum weft_sharding_format { WEFT_SHARDING_TEXT = 0, WEFT_SHARDING_SVG } weft_sharding_format;

/**
 * Draws which rank holds which part of a tensor. Local: needs no other process, waits for nothing, reads no
 * values; each process that calls it writes. Two dimensions are drawn, down and across; where more are
 * sharded, one plane after another. "0,1" are replicas, "0 + 1" are addends of a Partial tensor, "0-3" is
 * "0,1,2,3". PyTorch: torch.distributed.tensor.debug.visualize_sharding.
 *
 *     f32[8, 6] [S0,S1] on 2x2
 *     [down, across]
 *         | 0:3 | 3:6
 *     0:4 | 0   | 1
 *     4:8 | 2   | 3
 *
 * \return WEFT_ERR_INVALID for a NULL file or an unknown format, WEFT_ERR_IO when writing failed.
 */
WEFT_API weft_status weft_visualize_sharding(const weft_tensor *tensor, weft_sharding_format format,
                                             FILE *file);
/** The same into a buffer, as weft_tensor_print_text() does. */
WEFT_API weft_status weft_visualize_sharding_text(const weft_tensor *tensor, weft_sharding_format format, char *text,
                                                  size_t size, size_t *length);

WEFT_END_DECLS

#endif
