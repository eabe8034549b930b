/** \file
 * Meshes: n-D arrays of ranks with optional dimension names.
 *
 * The library owns meshes; they live until weft_finalize(). Creating a mesh is local (no communication), and every
 * process must create the same meshes in the same order. A rank outside a mesh calls the same functions on the mesh's
 * tensors. Its shards are empty, and it has no value of tensors without dimensions: functions that access its shard
 * of such a tensor fail (WEFT_ERR_MESH). weft_to_host() and weft_tensor_print() work on every process. To bring
 * values to another mesh, use weft_redistribute(). */
#ifndef WEFT_MESH_H
#define WEFT_MESH_H

#include <weft/base.h>
#include <weft/placement.h>

WEFT_BEGIN_DECLS

/** An opaque handle like ::weft_tensor. A handle from before the last weft_init() is refused. */
typedef struct weft_mesh weft_mesh;

/**
 * Creates a mesh of the ranks 0 .. product(shape) - 1, row-major.
 *
 * \param ndim   1 .. WEFT_MAX_DIMS
 * \param shape  ndim sizes, each at least 1; their product is at most weft_world_size()
 * \param names  NULL, or ndim distinct, non-empty names (copied); each name may be NULL
 * \return NULL on error: WEFT_ERR_INVALID, WEFT_ERR_MESH (more ranks than the world has).
 */
WEFT_API weft_mesh *weft_mesh_create(int ndim, const int64_t shape[], const char *const names[]);

/** Creates a mesh of the given ranks, row-major: product(shape) distinct ranks of the world (copied). */
WEFT_API weft_mesh *weft_mesh_of_ranks(int ndim, const int64_t shape[], const int ranks[],
                                       const char *const names[]);

/**
 * Returns the sub-mesh along the named dimensions that contains `rank`, in the order of the names. It has the ranks
 * whose coordinates in the other dimensions are those of `rank`. The result depends only on the arguments, so it is
 * the same on every process and in every world. (PyTorch: mesh["dp", "tp"], which contains the caller's own rank.)
 *
 * \param num_names  number of names, 1 .. weft_mesh_ndim(mesh)
 * \param names      distinct names of dimensions. If you list all dimensions in their order, you get the mesh itself.
 * \param rank       a rank of the mesh; pass weft_first_rank() if each process should get the sub-mesh of its own
 *                   rank
 * \return NULL on error: WEFT_ERR_INVALID if no dimension has a name, a name occurs twice, or the world does not have
 *         the rank; WEFT_ERR_MESH if the mesh does not have the rank.
 *
 * Example, on a mesh 2x2x2 of (pp, dp, tp): the stage of rank 5 is ranks 4, 5, 6, 7 as (dp, tp):
 *
 *     weft_mesh *stage = weft_mesh_submesh(mesh, 2, (const char *const[]){ "dp", "tp" }, 5);
 */
WEFT_API weft_mesh *weft_mesh_submesh(weft_mesh *mesh, int num_names, const char *const names[], int rank);

/**
 * Returns the 1-D sub-mesh along the dimension `name` that contains this process's first hosted rank in the mesh. In
 * a world of one process, it is the line through the mesh's first rank. In a world of several processes, the error is
 * WEFT_ERR_MESH if this process hosts no rank of the mesh, or several that do not all lie on one such line. To pass
 * the rank as an argument, use weft_mesh_submesh().
 */
WEFT_API weft_mesh *weft_mesh_slice(weft_mesh *mesh, const char *name);

/**
 * Returns a mesh of the same ranks with dimensions first .. last (inclusive) joined into one, named `name` (may be
 * NULL). PyTorch: DeviceMesh._flatten.
 */
WEFT_API weft_mesh *weft_mesh_flatten(weft_mesh *mesh, int first, int last, const char *name);

/**
 * The reverse: returns a mesh of the same ranks with dimension `dim` (negative counts from the end) split into
 * `num_sizes` dimensions, the first one outermost. PyTorch: DeviceMesh._unflatten.
 *
 * \param sizes  at least 1 each; WEFT_ERR_SHAPE if their product is not the size of the dimension
 * \param names  NULL, or num_sizes names (copied), each of which may be NULL
 *
 * For example, to split 8 ranks of dimension 0 into 2 x 4:
 *
 *     weft_mesh_unflatten(mesh, 0, 2, (int64_t[]){ 2, 4 }, (const char *const[]){ "dp", "tp" });
 */
WEFT_API weft_mesh *weft_mesh_unflatten(weft_mesh *mesh, int dim, int num_sizes, const int64_t sizes[],
                                        const char *const names[]);

/** Returns the number of dimensions; 0 on error. */
WEFT_API int weft_mesh_ndim(const weft_mesh *mesh);
/** Returns the size of dimension `dim` (negative counts from the end); 0 on error. */
WEFT_API int64_t weft_mesh_size(const weft_mesh *mesh, int dim);
/** Returns the name of dimension `dim`, or NULL if it has none. Valid as long as the mesh. */
WEFT_API const char *weft_mesh_dim_name(const weft_mesh *mesh, int dim);
/** Returns the number of ranks in the mesh; 0 on error. */
WEFT_API int64_t weft_mesh_num_ranks(const weft_mesh *mesh);
/** Writes all weft_mesh_num_ranks() ranks of the mesh, row-major. WEFT_ERR_INVALID if `ranks` is NULL. */
WEFT_API weft_status weft_mesh_ranks(const weft_mesh *mesh, int ranks[]);
/** Writes the names of all weft_mesh_ndim() dimensions, NULL for those without a name. Valid as long as the mesh.
 * WEFT_ERR_INVALID if `names` is NULL. */
WEFT_API weft_status weft_mesh_names(const weft_mesh *mesh, const char *names[]);
/** Writes the `ndim` coordinates of `rank`.
 *
 * \return 1, or 0 if the mesh does not have the rank (then nothing is written). */
WEFT_API int weft_mesh_coordinate(const weft_mesh *mesh, int rank, int64_t coordinate[]);

/** The mesh stack. If you pass NULL as a mesh, functions use its top; weft_redistribute() uses the tensor's own mesh
 * instead. Pushes nest. \{ */
WEFT_API weft_status weft_mesh_push(weft_mesh *mesh);
WEFT_API weft_status weft_mesh_pop(void);
/** Returns the top of the stack; NULL without an error if the stack is empty. */
WEFT_API weft_mesh *weft_mesh_current(void);
/** \} */

/**
 * Computes the box of the global index space that `rank` holds under these placements. For Replicate and Partial it
 * is the whole index space.
 *
 * \param mesh        NULL: the current mesh
 * \param placements  one per mesh dimension; NULL: Replicate everywhere
 * \param ndim        number of dimensions of the global tensor
 * \param shape       shape of the global tensor
 * \param rank        0 .. weft_world_size() - 1
 * \param offset      receives ndim entries
 * \param extent      receives ndim entries; all are 0 if the rank is outside the mesh
 * \return WEFT_ERR_INVALID if there is no such rank or a pointer is NULL, WEFT_ERR_SHAPE, WEFT_ERR_LAYOUT,
 *         WEFT_ERR_MESH
 *
 * For example, the part of this process's first rank:
 *
 *     weft_shard_box(mesh, by_rows, 2, shape, weft_first_rank(), offset, extent);
 */
WEFT_API weft_status weft_shard_box(weft_mesh *mesh, const weft_placement *placements, int ndim,
                                    const int64_t shape[], int rank, int64_t offset[], int64_t extent[]);

WEFT_END_DECLS

#endif
