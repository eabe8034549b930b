/** \file
 * Local regions: a function of the program's own computes with the shards of each rank, as tasks, and what it
 * writes becomes tensors. PyTorch: torch.distributed.tensor.experimental.local_map, JAX: shard_map.
 *
 * An operation (<weft/operation.h>) says how its indices relate and leaves the layouts to weft. A local region
 * says the layouts and leaves everything else to the function, which sees what one rank holds and nothing else.
 */
#ifndef WEFT_LOCAL_MAP_H
#define WEFT_LOCAL_MAP_H

#include <weft/kernel.h>
#include <weft/tensor.h>

WEFT_BEGIN_DECLS

/** What one rank holds of a tensor: a box of the global index space, row-major, in one piece. */
typedef struct weft_local_tensor {
    weft_dtype dtype;
    int ndim;
    int64_t shape[WEFT_MAX_DIMS];  /**< of the whole tensor */
    int64_t offset[WEFT_MAX_DIMS]; /**< global index of the first element */
    int64_t extent[WEFT_MAX_DIMS]; /**< of the box */
    int64_t count;                 /**< elements of the box; 0: it is empty */
    void *data;                    /**< NULL where it is empty */
} weft_local_tensor;

/** One call of a local function: for one rank. */
typedef struct weft_local_call {
    int rank;
    int num_inputs, num_outputs;
    const weft_local_tensor *inputs;  /**< read only. Of a Partial tensor: the rank's addend */
    const weft_local_tensor *outputs; /**< of undefined values: the function writes every element */
    void *context;        /**< see ::weft_local_map_options; may be shared by calls that run at once */
    const char *function; /**< the region's name, for messages */
    /** Where a value cannot be used: the function writes zeros in its place and goes on, and the program gets
     * the status at its next call that blocks. weft_kernel_fail(call, status, format, ...) calls it. */
    weft_kernel_error *error;
} weft_local_call;

/** Called by worker threads, several at once: for each rank of the mesh that this process hosts and that holds
 * a part of an output. It must write the same for the same inputs, and calls no function of weft but those of
 * <weft/kernel.h>; others return WEFT_ERR_STATE there. */
typedef void (*weft_local_function)(const weft_local_call *call);

/** An output: a new tensor of this layout. */
typedef struct weft_local_output {
    weft_dtype dtype;
    int ndim;
    const int64_t *shape;             /**< of the whole tensor; each rank's part is what weft_shard_box() says */
    const weft_placement *placements; /**< one per mesh dimension; NULL: Replicate everywhere. Replicate is a
                                           promise: replicas write the same. Partial: the ranks write addends */
} weft_local_output;

/** Zero-initialise it (WEFT_LOCAL_MAP_OPTIONS_DEFAULT) and set what matters. */
typedef struct weft_local_map_options {
    const char *name; /**< for messages and traces (copied); NULL: "local_map" */
    weft_mesh *mesh;  /**< of the region; NULL: that of input 0, or the current mesh where there are no inputs */
    /** One entry per input: the placements in which the function takes it, one per mesh dimension; inputs that
     * lie otherwise, on other meshes too, are redistributed. An entry that is NULL, or NULL for all of them:
     * as the input is, which must be on the region's mesh. */
    const weft_placement *const *in_placements;
    /** Reserved for gradients, must be NULL: the placements of the inputs' gradients. */
    const weft_placement *const *grad_placements;
    void *context;       /**< for the function */
    size_t context_size; /**< > 0: so many bytes of it are copied before the call returns; 0: the pointer itself
                              is handed on, and what it points to must stay until weft_wait() has returned */
    size_t size; /**< 0, or sizeof of this struct ("Structs of options" in <weft/base.h>) */
} weft_local_map_options;

#define WEFT_LOCAL_MAP_OPTIONS_DEFAULT                                                                       \
    {                                                                                                        \
        NULL, NULL, NULL, NULL, NULL, 0, 0                                                                   \
    }

/** Sets all fields to 0, and `size`. */
static inline void weft_local_map_options_init(weft_local_map_options *options)
{
    const weft_local_map_options all = WEFT_LOCAL_MAP_OPTIONS_DEFAULT;
    *options = all;
    options->size = sizeof(*options);
}

/**
 * Calls `function` on the shards of each hosted rank, as a task for each, and makes tensors of what it writes.
 * Returns at once: a task begins when all that it reads is there, and tasks that need its outputs wait for it.
 * Every process calls it, those that host no rank of the mesh too: there the outputs are empty. Of an input without
 * data (weft_fake()) the outputs have no data either, and the function is not called.
 *
 * \param inputs        num_inputs tensors, 0 or more; one may come several times
 *
 * \param descriptions  num_outputs descriptions, 1 or more
 *
 * \param options       NULL: none
 *
 * \param outputs       num_outputs new tensors, of the innermost scope; after an error all are NULL
 *
 * \return WEFT_ERR_INVALID for an argument that is missing or out of range, WEFT_ERR_SHAPE, WEFT_ERR_DTYPE and
 *         WEFT_ERR_LAYOUT for an output's, WEFT_ERR_MESH for an input on another mesh without in_placements,
 *         WEFT_ERR_UNSUPPORTED for more than 65,536 panels on a rank, WEFT_ERR_STATE, WEFT_ERR_NOMEM
 *
 * Example: the rows of x, sharded, each divided by its sum.
 *
 *     const weft_placement rows[] = { weft_shard(0) };
 *     const weft_local_output like_x = { WEFT_F32, 2, shape, rows };
 *     weft_local_map(normalise_rows, 1, &x, 1, &like_x, NULL, &y);
 */
WEFT_API weft_status weft_local_map(weft_local_function function, int num_inputs, weft_tensor *const inputs[],
                                    int num_outputs, const weft_local_output descriptions[],
                                    const weft_local_map_options *options, weft_tensor *outputs[]);

WEFT_END_DECLS

#endif
