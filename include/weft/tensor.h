/** \file
 * Distributed tensors. A function returns its tensor at once; the values are there when its tasks have run. */
#ifndef WEFT_TENSOR_H
#define WEFT_TENSOR_H

#include <stdio.h>

#include <weft/base.h>
#include <weft/mesh.h>
#include <weft/placement.h>

WEFT_BEGIN_DECLS

/** An opaque handle, not an address. If you pass the handle of a released tensor, the function returns
 * WEFT_ERR_INVALID, for the rest of the process's life. */
typedef struct weft_tensor weft_tensor;

/** Take and drop a reference of your own, in addition to the scope's. Releasing never blocks, because pending tasks
 * keep the tensor's memory. If you release a reference that you do not own, the status is WEFT_ERR_STATE while the
 * tensor lives and WEFT_ERR_INVALID afterwards. \{ */
WEFT_API weft_status weft_tensor_retain(weft_tensor *tensor);
WEFT_API weft_status weft_tensor_release(weft_tensor *tensor);
/** \} */

/** Moves the tensor from the innermost scope to the enclosing one; from the outermost scope it goes to the caller.
 * Returns the tensor. */
WEFT_API weft_tensor *weft_scope_keep(weft_tensor *tensor);

/**
 * Create a tensor. Each rank allocates only its shard.
 *
 * \param mesh        NULL: the current mesh
 * \param placements  one per mesh dimension; NULL: Replicate everywhere. Partial is WEFT_ERR_LAYOUT, except for
 *                    weft_empty(), whose addends you fill in.
 *
 * weft_empty() leaves the values undefined. For random values see <weft/random.h>.
 *
 *     weft_tensor *a = weft_zeros(WEFT_F32, 2, (int64_t[]){ 8, 4 }, mesh, (weft_placement[]){ weft_shard(0) });
 *
 * \{
 */
WEFT_API weft_tensor *weft_empty(weft_dtype dtype, int ndim, const int64_t shape[], weft_mesh *mesh,
                                 const weft_placement *placements);
WEFT_API weft_tensor *weft_zeros(weft_dtype dtype, int ndim, const int64_t shape[], weft_mesh *mesh,
                                 const weft_placement *placements);
WEFT_API weft_tensor *weft_ones(weft_dtype dtype, int ndim, const int64_t shape[], weft_mesh *mesh,
                                const weft_placement *placements);
WEFT_API weft_tensor *weft_full(weft_dtype dtype, weft_scalar value, int ndim, const int64_t shape[],
                                weft_mesh *mesh, const weft_placement *placements);
/** \} */
/** Create a tensor with the shape, type, mesh and placements of `a`. Partial becomes Replicate. \{ */
WEFT_API weft_tensor *weft_empty_like(weft_tensor *a);
WEFT_API weft_tensor *weft_zeros_like(weft_tensor *a);
WEFT_API weft_tensor *weft_ones_like(weft_tensor *a);
WEFT_API weft_tensor *weft_full_like(weft_tensor *a, weft_scalar value);
/** \} */

/** Creates a vector [n] of start, start + step, ... up to but not including `stop`: n = ceil((stop - start) / step),
 * exactly if all three are whole numbers. For an integer type, start and step must be whole numbers, with up to 64
 * bits. WEFT_ERR_INVALID if step is 0 or has the wrong sign; WEFT_ERR_DTYPE for WEFT_BOOL and complex types, and if
 * an integer type has not all of the numbers.
 *
 *     weft_tensor *a = weft_arange(WEFT_I64, 0, 10, 1, mesh, NULL); */
WEFT_API weft_tensor *weft_arange(weft_dtype dtype, weft_scalar start, weft_scalar stop, weft_scalar step, weft_mesh *mesh,
                                  const weft_placement *placements);
/** Creates a vector [num] of evenly spaced numbers from start to stop, both included. The type must be floating
 * (WEFT_ERR_DTYPE).
 *
 *     weft_tensor *a = weft_linspace(WEFT_F64, 0, 1, 11, mesh, NULL); */
WEFT_API weft_tensor *weft_linspace(weft_dtype dtype, double start, double stop, int64_t num, weft_mesh *mesh,
                                    const weft_placement *placements);
/** Creates a matrix [rows, columns] with ones where both indices are equal, and zeros elsewhere.
 *
 *     weft_tensor *identity = weft_eye(WEFT_F64, 100, 100, mesh, by_rows); */
WEFT_API weft_tensor *weft_eye(weft_dtype dtype, int64_t rows, int64_t columns, weft_mesh *mesh,
                               const weft_placement *placements);

/** Create a tensor without data, in any world. Calls on it return tensors without data. Their shapes, types,
 * placements and errors are the same as with data. The calls submit nothing, communicate nothing, and use no memory
 * for shards; the other processes need not make them. A call that reads or writes values is WEFT_ERR_STATE:
 * weft_to_host(), weft_tensor_item(), weft_equal(), weft_local_acquire(), ..., and a call in place on a tensor with
 * data. weft_fake_like() keeps the layout of `a`, even Partial. weft_tensor_is_fake() is also true for every tensor
 * of a fake world.
 *
 *     weft_tensor *a = weft_fake(WEFT_F32, 2, (int64_t[]){ 8, 4 }, mesh, by_rows);
 *
 * \{ */
WEFT_API weft_tensor *weft_fake(weft_dtype dtype, int ndim, const int64_t shape[], weft_mesh *mesh,
                                const weft_placement *placements);
WEFT_API weft_tensor *weft_fake_like(weft_tensor *a);
WEFT_API bool weft_tensor_is_fake(const weft_tensor *tensor);
/** \} */

/**
 * Distributes a global array. One process provides all values: the one that hosts the first rank of the mesh
 * (coordinate 0 in every dimension). It passes `global`, row-major and contiguous; the others may pass NULL. On that
 * process the call BLOCKS until the array has been read. On the others it BLOCKS until that process has made the call
 * and reported whether it has an array: if its `global` is NULL, every process returns WEFT_ERR_INVALID.
 *
 * \param mesh        NULL: the current mesh
 * \param placements  one per mesh dimension; NULL: Replicate everywhere. Partial is WEFT_ERR_LAYOUT.
 * \return NULL on error, as the factories. WEFT_ERR_STATE on a process if messages to other processes wait for a
 *         shard that it has acquired (weft_local_acquire()): the call has not been made there, and the others wait
 *         for it.
 *
 *     weft_tensor *a = weft_distribute(WEFT_F64, 2, shape, weft_first_rank() == 0 ? array : NULL, mesh, by_rows);
 */
WEFT_API weft_tensor *weft_distribute(weft_dtype dtype, int ndim, const int64_t shape[], const void *global,
                                      weft_mesh *mesh, const weft_placement *placements);

/** Flags of weft_from_local(); combine them by |. */
enum {
    WEFT_COPY = 1, /**< copy the memory before the call returns, instead of using it in place */
    /** BLOCKS: compare shapes and types across ranks. If they differ, every rank returns WEFT_ERR_MISMATCH; if one
     * process passes wrong arguments, all return an error. The call also gives every replica the values of the first
     * one (the rank at coordinate 0 of the mesh dimensions that replicate), and does the same for replicas of a
     * Partial tensor's addends. WEFT_ERR_STATE if tasks wait for a shard that the program has acquired
     * (weft_local_acquire()). */
    WEFT_CHECK_RANKS = 2,
    /** BLOCKS: use the memory in place also if its rows have gaps, as those of a slice of an array have. The gaps must be as
     * wide on all processes, and are never written to. Such a tensor lies in your memory as those of weft_from_ghosted() do
     * (<weft/ghosts.h>), without ghosts: operations of your own with `takes_strides` work there, all others read a dense copy
     * and write changes back, and weft_local_acquire() is WEFT_ERR_UNSUPPORTED. Without gaps it is an ordinary tensor. All
     * processes set the flag, and neither of the others. */
    WEFT_STRIDES = 4
};

/**
 * Makes a tensor of shards that you have in memory. WEFT_ERR_INVALID if a pointer is NULL and its shard is not empty,
 * WEFT_ERR_SHAPE for a negative size, WEFT_ERR_LAYOUT if the shape does not allow the placements.
 *
 * In WEFT_BOOL, bytes other than 0 become 1, even in memory that is used in place. The same happens in
 * weft_distribute(), weft_from_boxes(), when files are read, and in weft_local_release(). A kernel of your own must
 * write 0 or 1.
 *
 * \param shape   the GLOBAL shape. Every rank's shard must have the size that weft_shard_box() returns; this is not
 *                checked. For example, 1,001 rows on 4 ranks give shards of 251, 251, 251 and 248 rows. Many MPI
 *                programs cut N rows differently: N / p each, and one more for the first N % p. weft_from_local_ex()
 *                takes the sizes that you expect and reports an error if they are wrong; weft_from_boxes()
 *                (<weft/boxes.h>) takes any cut.
 * \param locals  weft_local_ranks() pointers, one per hosted rank, each to row-major contiguous data; NULL if the
 *                rank's shard is empty. weft uses the memory in place: keep it until you have released the tensor and
 *                weft_wait() has returned. Until then, access it only through weft_local_acquire(). Memory of a CUDA
 *                device on which this process computes (WEFT_DEVICES) may be given, without WEFT_COPY, and not of
 *                WEFT_BOOL (WEFT_ERR_UNSUPPORTED). The call then waits for all that was launched on the device before, in any
 *                stream (WEFT_ERR_COMM if that fails): not while a stream is captured. weft_local_acquire() gives a copy in main memory.
 * \param flags   0, or WEFT_COPY | WEFT_CHECK_RANKS
 *
 * For example, with one rank per process:
 *
 *     weft_tensor *a = weft_from_local(WEFT_F64, 2, shape, (void *[]){ memory }, mesh, by_rows, WEFT_CHECK_RANKS);
 */
WEFT_API weft_tensor *weft_from_local(weft_dtype dtype, int ndim, const int64_t shape[], void *const locals[],
                                      weft_mesh *mesh, const weft_placement *placements, unsigned flags);

/** The same if every rank's shard has the shape `local_shape`. The global shape follows from it.
 *
 *     weft_tensor *a = weft_from_local_even(WEFT_F64, 2, local_shape, (void *[]){ memory }, mesh, by_rows, 0); */
WEFT_API weft_tensor *weft_from_local_even(weft_dtype dtype, int ndim, const int64_t local_shape[],
                                           void *const locals[], weft_mesh *mesh,
                                           const weft_placement *placements, unsigned flags);

/** Options of weft_from_local_ex(). Zero-initialise it and set the fields you need. Sizes and strides have `ndim`
 * numbers for each hosted rank, local rank 0 first: weft_local_ranks() * ndim numbers in all. */
typedef struct weft_from_local_options {
    size_t size; /**< 0, or sizeof of this struct ("Structs of options" in <weft/base.h>) */
    const int64_t *shape; /**< shape of the whole tensor; NULL: computed from local_shapes */
    /** The sizes that you expect the shards of the hosted ranks to have. Entries of ranks outside the mesh are not
     * read. May be NULL if `shape` is set. */
    const int64_t *local_shapes;
    /** Distance in elements from one index to the next, for each dimension. NULL: all shards are row-major and
     * contiguous. Other strides need WEFT_COPY; row-major ones with gaps WEFT_STRIDES. */
    const int64_t *strides;
    unsigned flags; /**< the flags of weft_from_local() */
} weft_from_local_options;

/** Sets all fields to 0, and `size`. */
static inline void weft_from_local_options_init(weft_from_local_options *options)
{
    const weft_from_local_options all = { sizeof(all), NULL, NULL, NULL, 0 };
    *options = all;
}

/** weft_from_local() for shards whose sizes only their own ranks know, and for strided memory. If you set
 * local_shapes, the processes exchange the sizes of their shards. The call BLOCKS until they have, and an error on
 * one process is an error on all. The sizes must be those of weft_shard_box(); an empty shard may have any sizes
 * whose product is 0. If `shape` is NULL, the size of a sharded dimension is the sum over the shards.
 *
 * \return NULL on error, as weft_from_local(). WEFT_ERR_INVALID if shape and local_shapes are both NULL, or if
 *         strides are not row-major and WEFT_COPY is not set; with WEFT_STRIDES if they are not row-major with gaps, or if
 *         memory with gaps can only be copied: truth values, read-only memory, and in a world with devices.
 *         WEFT_ERR_MISMATCH if gaps differ between processes, WEFT_ERR_LAYOUT as weft_from_ghosted(). WEFT_ERR_SHAPE if a
 *         rank's sizes are not those of its shard; the message names the rank. WEFT_ERR_UNSUPPORTED in a fake world if there is no shape.
 *
 * Example: this process has some rows of a matrix with `columns` columns. Their number may differ between processes.
 *
 *     const int64_t mine[] = { rows_here, columns };
 *     const weft_from_local_options options = { .local_shapes = mine };
 *     weft_tensor *a = weft_from_local_ex(WEFT_F64, 2, (void *[]){ memory }, mesh, by_rows, &options); */
WEFT_API weft_tensor *weft_from_local_ex(weft_dtype dtype, int ndim, void *const locals[], weft_mesh *mesh,
                                         const weft_placement *placements,
                                         const weft_from_local_options *options);

/**
 * Returns a tensor with the same values in another layout, on the same mesh or another one. Any layout can become any
 * other, with one exception: the result can be Partial only if the tensor is already Partial with the same op
 * (WEFT_ERR_LAYOUT). If the tensor has the layout already, you get the same tensor with one more reference. So a leaf
 * stays a leaf, even between weft_no_grad_begin() and weft_no_grad_end(); use weft_detach() to get a constant.
 *
 * \param mesh        NULL: the tensor's own mesh, whatever the current mesh is
 * \param placements  one per dimension of that mesh; NULL: Replicate everywhere
 */
WEFT_API weft_tensor *weft_redistribute(weft_tensor *tensor, weft_mesh *mesh,
                                        const weft_placement *placements);

/** Copies the full tensor, row-major, to every process. BLOCKS; every process must call it. Partial is reduced. All
 * processes get the same values: if replicas differ, those of the first replica. `bytes` is the size of `global`. If
 * it is smaller than weft_tensor_bytes(), the function returns WEFT_ERR_INVALID at once and writes nothing. The
 * buffer must be large enough on all processes: if it is too small on one only, that process does not take part and
 * the others wait for it. */
WEFT_API weft_status weft_to_host(weft_tensor *tensor, void *global, size_t bytes);
/** Copies the full tensor to one process only (0 <= process < weft_num_processes()). BLOCKS; every process must call
 * it. The others may pass NULL as `global`, and need memory only for their shards. WEFT_ERR_INVALID if there is no
 * such process. */
WEFT_API weft_status weft_to_host_on(weft_tensor *tensor, int process, void *global, size_t bytes);

/** Returns the value of a tensor of one element. BLOCKS; every process must call it. The value is the same on every
 * process, as from weft_to_host(). 64-bit integers are rounded to double precision. WEFT_ERR_SHAPE if the tensor does
 * not have exactly one element. */
WEFT_API weft_status weft_tensor_item(weft_tensor *tensor, double *value);

/** Copies the shard of a hosted rank (0 <= local_rank < weft_local_ranks()), row-major. BLOCKS until the shard is
 * computed. Local: it adds no communication. If the tensor is Partial you get the rank's addend, not the value; to
 * reduce it, use weft_redistribute() or weft_to_host(). `bytes` is the size of `shard`. If it is smaller than
 * weft_local_bytes(), the function returns WEFT_ERR_INVALID at once and writes nothing. */
WEFT_API weft_status weft_local_to_host(weft_tensor *tensor, int local_rank, void *shard, size_t bytes);

/** Sets *ready to whether the shards of this process's ranks have been computed, so that reading them would not block. Does
 * not wait, and adds no communication; a single process may call it. Use it to wait in slices, as weft_test() for
 * everything. Errors of tasks are left to the call that reads. WEFT_ERR_INVALID if the pointer is NULL. */
WEFT_API weft_status weft_tensor_test(weft_tensor *tensor, bool *ready);

typedef enum weft_access { WEFT_READ = 1, WEFT_WRITE = 2, WEFT_READ_WRITE = 3 } weft_access;

/**
 * Returns a pointer to a hosted rank's shard (contiguous, row-major). BLOCKS until the shard is available. The
 * pointer is valid until weft_local_release(). Tasks that need the shard wait until then. Do not dereference the
 * pointer if the shard is empty.
 *
 * Writing to a tensor that was computed from leaves (<weft/autograd.h>) is WEFT_ERR_STATE outside
 * weft_no_grad_begin(), because its gradient would miss the change. You may write to a leaf.
 *
 * You may acquire several shards. But a call is WEFT_ERR_STATE if it would wait for an acquired one, for its memory
 * or for a task that needs it, because it would deadlock. This holds here and in weft_local_to_host(), weft_to_host()
 * and the like.
 *
 * \return NULL on error, which may be an error of an earlier task. WEFT_ERR_STATE if the shard is acquired already.
 */
WEFT_API void *weft_local_acquire(weft_tensor *tensor, int local_rank, weft_access access);
WEFT_API weft_status weft_local_release(weft_tensor *tensor, int local_rank);

/** The shard of local rank `local_rank` of a tensor. */
typedef struct weft_tensor_shard {
    weft_tensor *tensor;
    int local_rank;
} weft_tensor_shard;

/** Describes a tensor without its data: the arguments of weft_fake(), weft_empty() and the like. Set it to zero before
 * you fill it in. */
typedef struct weft_tensor_layout {
    weft_dtype dtype;
    int ndim;
    int64_t shape[WEFT_MAX_DIMS]; /**< shape of the whole tensor */
    weft_mesh *mesh;
    weft_placement placements[WEFT_MAX_DIMS]; /**< one per mesh dimension */
    bool requires_grad; /**< what weft_requires_grad() returns for it (<weft/autograd.h>) */
} weft_tensor_layout;

/** weft_tensor_flatten() returns the shards of the hosted ranks, and the layout. weft_tensor_unflatten() makes a
 * tensor of shards, which may belong to one tensor or to several. The layout may be theirs, or another one with the
 * same shard sizes (for example Partial instead of Replicate). (PyTorch: __tensor_flatten__, __tensor_unflatten__.)
 * Both communicate nothing and do not wait.
 *
 * Nothing is copied: the new tensor shares memory with the tensors of its shards until one of them is written to; the
 * others do not see the write. Two kinds of data are copied: shards in the program's memory (weft_from_local()), and
 * rows that the new layout cuts into different panels.
 *
 * A single process may call weft_tensor_flatten(). All processes must call weft_tensor_unflatten().
 *
 * If the layout has requires_grad set, the new tensor is computed from the tensor of the shards, if that tensor
 * requires a gradient and calls are recorded; otherwise it is a leaf. If requires_grad is not set, the new tensor is
 * a constant.
 *
 * The gradient of each shard is the rank's part of the new tensor's gradient. For Partial and Replicate it is the
 * whole gradient (divided by the number of addends for an average), whatever the other ranks do with theirs. So if
 * you use the shards of a Replicate tensor as Shard or Partial, the ranks' gradients are added. (PyTorch: to_local,
 * then from_local.) To choose the layout in which the gradient is passed on, call weft_set_grad_placements() on
 * either tensor.
 *
 * For gradients all processes must pass the shards of one tensor, shards[i] with local_rank i, even for ranks whose
 * part is empty. weft_backward() is WEFT_ERR_UNSUPPORTED for other shards, for addends of a Partial tensor that are
 * used as values, and for a reduction other than a sum or an average.
 *
 * \param shards  weft_local_ranks() of them, in the order of the ranks. weft_tensor_flatten() gives you a reference
 *                to each: call weft_tensor_release(shards[i].tensor). weft_tensor_unflatten() ignores entries of
 *                ranks whose part of the new tensor is empty. Replicas must have the same values.
 * \param size    sizeof(*layout) ("Structs that the library fills in" in <weft/base.h>)
 * \return weft_tensor_unflatten(): a new tensor, or NULL on error: WEFT_ERR_SHAPE or WEFT_ERR_DTYPE if a shard does
 *         not match the layout, WEFT_ERR_DTYPE if requires_grad is set and the type is not floating,
 *         WEFT_ERR_INVALID, otherwise as weft_empty(). \{ */
WEFT_API weft_status weft_tensor_flatten(weft_tensor *tensor, weft_tensor_shard shards[],
                                         weft_tensor_layout *layout, size_t size);
WEFT_API weft_tensor *weft_tensor_unflatten(const weft_tensor_shard shards[], const weft_tensor_layout *layout, size_t size);
/** \} */

/** Properties of a tensor. On error they return 0 or NULL; weft_tensor_dtype() sets the error and returns WEFT_F32.
 * \{ */
WEFT_API int weft_tensor_ndim(const weft_tensor *tensor);
WEFT_API int64_t weft_tensor_size(const weft_tensor *tensor, int dim);
/** Returns all weft_tensor_ndim() sizes. The array is valid as long as the tensor. */
WEFT_API const int64_t *weft_tensor_shape(const weft_tensor *tensor);
/** Returns the product of the sizes; 1 if the tensor has no dimensions. */
WEFT_API int64_t weft_tensor_num_elements(const weft_tensor *tensor);
WEFT_API weft_dtype weft_tensor_dtype(const weft_tensor *tensor);
WEFT_API weft_mesh *weft_tensor_mesh(const weft_tensor *tensor);
/** Returns one placement for each dimension of weft_tensor_mesh(), in canonical form (Shard dimensions are not negative). The array is valid
 * as long as the tensor. */
WEFT_API const weft_placement *weft_tensor_placements(const weft_tensor *tensor);
/** Returns the offset and extent (ndim entries each) of a hosted rank's shard. WEFT_ERR_LAYOUT if it is no box: if a cut is
 * cyclic or zigzag. */
WEFT_API weft_status weft_local_box(const weft_tensor *tensor, int local_rank, int64_t offset[],
                                    int64_t extent[]);

/** Consecutive global indices of a dimension. */
typedef struct weft_index_run {
    int64_t begin, count;
} weft_index_run;
/**
 * Lists the global indices of a dimension that a hosted rank's shard has, ascending, for every cut. The shard has them one after
 * the other.
 *
 * \param dim   negative counts from the end
 * \param most  room in `runs`; if it is 0, `runs` may be NULL
 * \return the number of runs, of which the first `most` are written; 0 if the shard has no index; -1 on error
 */
WEFT_API int64_t weft_local_runs(const weft_tensor *tensor, int local_rank, int dim, int64_t most, weft_index_run runs[]);
/** Return the bytes of the full tensor, and of a hosted rank's shard (0 if it is empty). */
WEFT_API size_t weft_tensor_bytes(const weft_tensor *tensor);
WEFT_API size_t weft_local_bytes(const weft_tensor *tensor, int local_rank);
/** \} */

/** Gives the tensor a name, which traces and messages show. The string is copied. */
WEFT_API weft_status weft_tensor_set_name(weft_tensor *tensor, const char *name);

/** Writes a tensor's name, type, shape, placements and mesh: "h: f32[8, 4] [S0,R] on 2x2 (dp, tp)". Use it for
 * messages and in debuggers: it waits for nothing, communicates nothing, and sets no error. If the pointer is not a
 * live tensor, or you call it on a thread other than weft_init()'s, the text says so. It writes at most `size` bytes,
 * including the terminating 0. Returns `text` ("" if `text` is NULL or `size` is 0). */
WEFT_API const char *weft_tensor_describe(const weft_tensor *tensor, char *text, size_t size);

/** Process 0 prints dtype, shape, placements, mesh and contents. Long contents are abbreviated. BLOCKS; every process
 * must call it. */
WEFT_API weft_status weft_tensor_print(weft_tensor *tensor, FILE *file);
/** Writes the same text into a buffer on every process, truncated to `size` bytes including the terminating 0. BLOCKS;
 * every process must call it. `text` may be NULL if `size` is 0. `*length` receives the length of the whole text
 * without the 0; `length` may be NULL. WEFT_ERR_INVALID if `text` is NULL and `size` is not 0. */
WEFT_API weft_status weft_tensor_print_text(weft_tensor *tensor, char *text, size_t size, size_t *length);

/** Format of weft_visualize_sharding(). */
typedef enum weft_sharding_format { WEFT_SHARDING_TEXT = 0, WEFT_SHARDING_SVG } weft_sharding_format;

/**
 * Draws which rank has which part of a tensor. It is local: it needs no other process, waits for nothing and reads no
 * values. Each process that calls it writes. It draws two dimensions, down and across. If more dimensions are
 * sharded, it draws one plane after another. "0,1" are replicas, "0 + 1" are addends of a Partial tensor, "0-3" means
 * "0,1,2,3". (PyTorch: torch.distributed.tensor.debug.visualize_sharding.)
 *
 *     f32[8, 6] [S0,S1] on 2x2
 *     [down, across]
 *         | 0:3 | 3:6
 *     0:4 | 0   | 1
 *     4:8 | 2   | 3
 *
 * \return WEFT_ERR_INVALID if `file` is NULL or the format is unknown, WEFT_ERR_IO if writing fails.
 */
WEFT_API weft_status weft_visualize_sharding(const weft_tensor *tensor, weft_sharding_format format,
                                             FILE *file);

#ifndef __cplusplus
/* Numbers of any type (::weft_scalar). */
#define weft_full(dtype, value, ...) weft_full(dtype, WEFT_SCALAR(value), __VA_ARGS__)
#define weft_full_like(a, value) weft_full_like(a, WEFT_SCALAR(value))
#define weft_arange(dtype, start, stop, step, ...) \
    weft_arange(dtype, WEFT_SCALAR(start), WEFT_SCALAR(stop), WEFT_SCALAR(step), __VA_ARGS__)
#endif

WEFT_END_DECLS

#endif
