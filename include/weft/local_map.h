/** \file
 * Local regions: a function of the program on the shards of each rank, as tasks; its outputs become
 * tensors. PyTorch: torch.distributed.tensor.experimental.local_map, JAX: shard_map.
 *
 * An operation (<weft/operation.h>) gives the relation of its indices, and weft chooses the layouts. A
 * local region gives the layouts, and its function sees the shards of one rank. */
#ifndef WEFT_LOCAL_MAP_H
#define WEFT_LOCAL_MAP_H

#include <weft/kernel.h>
#include <weft/tensor.h>

WEFT_BEGIN_DECLS

/** The shard of one rank: a box of the global index space, row-major, contiguous. */
typedef struct weft_local_tensor {
    weft_dtype dtype;
    int ndim;
    int64_t shape[WEFT_MAX_DIMS];  /**< of the whole tensor */
    int64_t offset[WEFT_MAX_DIMS]; /**< global index of the first element */
    int64_t extent[WEFT_MAX_DIMS]; /**< of the box */
    int64_t count;                 /**< elements of the box; 0: it is empty */
    void *data;                    /**< NULL where it is empty */
} weft_local_tensor;

/** One call of a local function, for one rank. */
typedef struct weft_local_call {
    int rank;
    int num_inputs, num_outputs;
    const weft_local_tensor *inputs;  /**< read only. Of a Partial tensor: the rank's addend */
    const weft_local_tensor *outputs; /**< of undefined values: the function writes every element */
    void *context;        /**< see ::weft_local_map_options; may be shared by calls that run at once */
    const char *function; /**< the region's name, for messages */
    /** For an invalid value: the function writes zeros instead and continues, and the program gets the
     * status at its next blocking call. Use weft_kernel_fail(call, status, format, ...). */
    weft_kernel_error *error;
} weft_local_call;

/** Called by worker threads, concurrently: for each hosted rank of the mesh with a part of an output. Equal
 * inputs must give equal outputs. It calls only the functions of <weft/kernel.h>; others return
 * WEFT_ERR_STATE there. */
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
    /** One entry per input: the placements that the function expects, one per mesh dimension; other
     * inputs, also on other meshes, are redistributed. An entry NULL, or NULL for all: the input's own
     * placements, on the region's mesh. */
    const weft_placement *const *in_placements;
    /** Computes the gradients of the inputs (<weft/autograd.h>): a function like the region's own, with the same
     * context. Its inputs: those of the region, then a gradient for each output, with that output's type and
     * placements (Replicate for Partial, also for Partial(avg): it is that of the value, not of the addends; zeros where the
     * loss does not depend on it). Its outputs: a gradient for each floating input, in their order. NULL: a backward pass that needs one is WEFT_ERR_UNSUPPORTED. */
    weft_local_function gradient;
    /** One entry per input: the placements in which `gradient` writes that input's gradient (PyTorch:
     * in_grad_placements); Partial: the ranks write addends. An entry NULL, or NULL for all: those in which the function
     * takes the input, with Replicate for Partial. Without `gradient` only NULL. */
    const weft_placement *const *grad_placements;
    void *context;       /**< for the function */
    size_t context_size; /**< > 0: so many bytes, at most 2^20, are copied before the call returns; 0: the pointer is
                              passed on, and its target must stay valid until weft_wait() has returned; with
                              `gradient` until that has run, or the outputs are released */
    size_t size; /**< 0, or sizeof of this struct ("Structs of options" in <weft/base.h>) */
} weft_local_map_options;

#define WEFT_LOCAL_MAP_OPTIONS_DEFAULT                                                                       \
    {                                                                                                        \
        NULL, NULL, NULL, NULL, NULL, NULL, 0, 0                                                                   \
    }

/** Sets all fields to 0, and `size`. */
static inline void weft_local_map_options_init(weft_local_map_options *options)
{
    const weft_local_map_options all = WEFT_LOCAL_MAP_OPTIONS_DEFAULT;
    *options = all;
    options->size = sizeof(*options);
}

/** Calls `function` on the shards of each hosted rank, as one task each, and returns its outputs as
 * tensors, at once. Tasks have dependencies as those of operations do. Every process calls it; without a
 * rank of the mesh the outputs are empty there. If an input has no data (weft_fake()) the outputs have
 * none, and the function is not called.
 *
 * \param inputs        num_inputs tensors, 0 or more; one may occur several times
 *
 * \param descriptions  num_outputs descriptions, 1 or more
 *
 * \param options       NULL: defaults
 *
 * \param outputs       num_outputs new tensors, in the innermost scope; after an error all are NULL
 *
 * \return WEFT_ERR_INVALID for an argument that is missing or out of range, WEFT_ERR_SHAPE, WEFT_ERR_DTYPE
 *         and WEFT_ERR_LAYOUT for an output's, WEFT_ERR_MESH for an input on another mesh without
 *         in_placements, WEFT_ERR_UNSUPPORTED for more than 65,536 panels on a rank, WEFT_ERR_STATE,
 *         WEFT_ERR_NOMEM
 *
 * Example: the rows of x, sharded, each divided by its sum.
 *
 *     const weft_placement rows[] = { weft_shard(0) };
 *     const weft_local_output like_x = { WEFT_F32, 2, shape, rows };
 *     weft_local_map(normalise_rows, 1, &x, 1, &like_x, NULL, &y); */
WEFT_API weft_status weft_local_map(weft_local_function function, int num_inputs, weft_tensor *const inputs[],
                                    int num_outputs, const weft_local_output descriptions[],
                                    const weft_local_map_options *options, weft_tensor *outputs[]);

WEFT_END_DECLS

#endif
