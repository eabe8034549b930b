/** \file
 * Meshes: n-D arrays of ranks with optional dimension names.
 *
 * Meshes belong to the library and live until weft_finalize(). Creating one is local (no communication);
 * every process must create the same meshes in the same order. A rank outside a mesh calls the same
 * functions on the mesh's tensors; its shards are empty, and it has no value of tensors without
 * dimensions: functions that access its shard of such a tensor fail (WEFT_ERR_MESH). weft_to_host() and
 * weft_tensor_print() work on every process; weft_redistribute() brings values to other meshes. */
#ifndef WEFT_MESH_H
#define WEFT_MESH_H

#include <weft/base.h>
#include <weft/placement.h>

WEFT_BEGIN_DECLS

/** A handle, as ::weft_tensor: one of a former weft_init() is refused. */
typedef struct weft_mesh weft_mesh;

/**
 * A mesh of the ranks 0 .. product(shape) - 1, row-major.
 * \param ndim   1 .. WEFT_MAX_DIMS
 * \param shape  ndim sizes, each at least 1; their product at most weft_world_size()
 * \param names  NULL, or ndim distinct, non-empty names (copied); a single name may be NULL
 * \return NULL on error: WEFT_ERR_INVALID, WEFT_ERR_MESH (more ranks than the world has).
 */
WEFT_API weft_mesh *weft_mesh_create(int ndim, const int64_t shape[], const char *const names[]);

/** The same with the ranks given, row-major: product(shape) distinct ranks of the world (copied). */
WEFT_API weft_mesh *weft_mesh_of_ranks(int ndim, const int64_t shape[], const int ranks[],
                                       const char *const names[]);

/**
 * The sub-mesh along the named dimensions that goes through `rank`, in the order of the names: the ranks
 * whose coordinates in the other dimensions are those of `rank`. The answer depends on the arguments alone,
 * so it is the same on every process and in every world. PyTorch: mesh["dp", "tp"], there through the
 * caller's own rank.
 *
 * \param num_names,names  1 .. weft_mesh_ndim(mesh) distinct names of dimensions
 *
 * \param rank             a rank of the mesh; weft_first_rank() where each process means a mesh of its own
 *
 * \return NULL on error: WEFT_ERR_INVALID for a name that no dimension has or that comes twice, and for a
 *         rank that the world does not have, WEFT_ERR_MESH for one that the mesh does not have. All
 *         dimensions in their order: the mesh itself.
 *
 * Example, on a mesh 2x2x2 of (pp, dp, tp): the stage of rank 5 is ranks 4, 5, 6, 7 as (dp, tp):
 *
 *     weft_mesh *stage = weft_mesh_submesh(mesh, 2, (const char *const[]){ "dp", "tp" }, 5);
 */
WEFT_API weft_mesh *weft_mesh_submesh(weft_mesh *mesh, int num_names, const char *const names[], int rank);

/**
 * The 1-D sub-mesh along the dimension `name` through this process's first hosted rank that is in the mesh.
 * In a process that hosts several ranks of the mesh, these must lie on one such line when the world is spread
 * over processes: then, as when this process hosts no rank of the mesh, the error is WEFT_ERR_MESH. In a
 * world of one process it is the line through the mesh's first rank. weft_mesh_submesh() takes the rank as an
 * argument.
 */
WEFT_API weft_mesh *weft_mesh_slice(weft_mesh *mesh, const char *name);

/**
 * A mesh of the same ranks whose dimensions first .. last (inclusive) are joined into one, named `name`
 * (may be NULL). PyTorch: DeviceMesh._flatten.
 */
WEFT_API weft_mesh *weft_mesh_flatten(weft_mesh *mesh, int first, int last, const char *name);

/**
 * The reverse: a mesh of the same ranks whose dimension `dim` (negative counts from the end) is split into
 * `num_sizes` dimensions, the first one outermost. PyTorch: DeviceMesh._unflatten.
 * \param sizes  at least 1 each; WEFT_ERR_SHAPE when their product is not the size of the dimension
 * \param names  NULL, or num_sizes names (copied), each of which may be NULL
 */
WEFT_API weft_mesh *weft_mesh_unflatten(weft_mesh *mesh, int dim, int num_sizes, const int64_t sizes[],
                                        const char *const names[]);

/** Number of dimensions; 0 on error. */
WEFT_API int weft_mesh_ndim(const weft_mesh *mesh);
/** Size of dimension `dim` (negative counts from the end); 0 on error. */
WEFT_API int64_t weft_mesh_size(const weft_mesh *mesh, int dim);
/** Name of dimension `dim`, or NULL when it has none; valid as long as the mesh. */
WEFT_API const char *weft_mesh_dim_name(const weft_mesh *mesh, int dim);
/** Number of ranks in the mesh; 0 on error. */
WEFT_API int64_t weft_mesh_num_ranks(const weft_mesh *mesh);
/** Writes all ranks of the mesh, row-major: weft_mesh_num_ranks() of them. WEFT_ERR_INVALID for NULL. */
WEFT_API weft_status weft_mesh_ranks(const weft_mesh *mesh, int ranks[]);
/** Writes the names of all dimensions: weft_mesh_ndim() of them, NULL where there is none, valid as long as the mesh.
 * WEFT_ERR_INVALID for NULL. */
WEFT_API weft_status weft_mesh_names(const weft_mesh *mesh, const char *names[]);
/** Writes the `ndim` coordinates of `rank`. \return 1, or 0 when the rank is no member (nothing is written).
 */
WEFT_API int weft_mesh_coordinate(const weft_mesh *mesh, int rank, int64_t coordinate[]);

/** The mesh stack: NULL for a mesh means its top, but for weft_redistribute(), where it is the tensor's own.
 * Pushes nest. \{ */
WEFT_API weft_status weft_mesh_push(weft_mesh *mesh);
WEFT_API weft_status weft_mesh_pop(void);
/** The top of the stack; NULL, with no error, when it is empty. */
WEFT_API weft_mesh *weft_mesh_current(void);
/** \} */

/**
 * The box of the global index space that `rank` holds under these placements (Replicate and Partial: all of
 * it).
 *
 * \param mesh           NULL: the current mesh
 *
 * \param placements     one per mesh dimension; NULL: Replicate everywhere
 *
 * \param ndim,shape     of the global tensor
 *
 * \param offset,extent  ndim entries each, written; extents are 0 in every dimension for a rank outside the
 *                       mesh
 */
WEFT_API weft_status weft_shard_box(weft_mesh *mesh, const weft_placement *placements, int ndim,
                                    const int64_t shape[], int rank, int64_t offset[], int64_t extent[]);

WEFT_END_DECLS

#endif
