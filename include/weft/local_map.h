/** \file
 * Local regions: your function runs on the shards of each rank, as tasks, and its outputs become tensors. PyTorch:
 * torch.distributed.tensor.experimental.local_map, JAX: shard_map.
 *
 * Compare user-defined operations (<weft/operation.h>): there you describe how indices relate, and weft chooses the
 * layouts. For a local region you choose the layouts, and your function sees the shards of one rank. */
#ifndef WEFT_LOCAL_MAP_H
#define WEFT_LOCAL_MAP_H

#include <weft/kernel.h>
#include <weft/tensor.h>

WEFT_BEGIN_DECLS

/** The shard of one rank: a box of the global index space, row-major and contiguous. */
typedef struct weft_local_tensor {
    weft_dtype dtype;
    int ndim;
    int64_t shape[WEFT_MAX_DIMS];  /**< shape of the whole tensor */
    int64_t offset[WEFT_MAX_DIMS]; /**< global index of the first element */
    int64_t extent[WEFT_MAX_DIMS]; /**< extent of the box */
    int64_t count;                 /**< number of elements of the box; 0: it is empty */
    void *data;                    /**< NULL if the box is empty */
} weft_local_tensor;

/** One call of a local function, for one rank. */
typedef struct weft_local_call {
    int rank;
    int num_inputs, num_outputs;
    const weft_local_tensor *inputs;  /**< read only. If the tensor is Partial, this is the rank's addend */
    const weft_local_tensor *outputs; /**< values are undefined: the function must write every element */
    void *context;        /**< see ::weft_local_map_options; calls that run at the same time may share it */
    const char *function; /**< the region's name, for messages */
    /** To report an invalid value: write zeros instead, and go on. The program gets the status from its next blocking
     * call. Use weft_kernel_fail(call, status, format, ...). */
    weft_kernel_error *error;
} weft_local_call;

/** Worker threads call this function concurrently, once for each hosted rank of the mesh that has a part of an output.
 * Equal inputs must give equal outputs. It may call only the functions of <weft/kernel.h>; others return
 * WEFT_ERR_STATE there. */
typedef void (*weft_local_function)(const weft_local_call *call);

/** An output: a new tensor of this layout. */
typedef struct weft_local_output {
    weft_dtype dtype;
    int ndim;
    const int64_t *shape;             /**< shape of the whole tensor; each rank's part is that of weft_shard_box() */
    const weft_placement *placements; /**< one per mesh dimension; NULL: Replicate everywhere. With Replicate you
                                           promise that replicas write the same values. With Partial the ranks write
                                           addends */
} weft_local_output;

/** Zero-initialise it (WEFT_LOCAL_MAP_OPTIONS_DEFAULT) and set the fields you need. */
typedef struct weft_local_map_options {
    size_t size; /**< 0, or sizeof of this struct ("Structs of options" in <weft/base.h>) */
    const char *name; /**< for messages and traces (copied); NULL: "local_map" */
    weft_mesh *mesh;  /**< mesh of the region; NULL: that of input 0, or the current mesh if there are no inputs */
    /** One entry per input: the placements that the function expects, one per mesh dimension. Inputs with other
     * placements, or on other meshes, are redistributed. If an entry, or the whole array, is NULL, the input's own
     * placements on the region's mesh are used. */
    const weft_placement *const *in_placements;
    /** Computes the gradients of the inputs (<weft/autograd.h>). It is a function like the region's own, with the same
     * context. Its inputs are those of the region, then a gradient for each output, with that output's type and
     * placements. (A Partial output has a Replicate gradient, because the gradient belongs to the value, not to the
     * addends; this holds for Partial(avg) too. If the loss does not depend on the output, the gradient is zero.) Its
     * outputs are a gradient for each floating input, in their order. If NULL, a backward pass that needs it is
     * WEFT_ERR_UNSUPPORTED. */
    weft_local_function gradient;
    /** One entry per input: the placements in which `gradient` writes that input's gradient (PyTorch:
     * in_grad_placements). With Partial the ranks write addends. If an entry, or the whole array, is NULL, they are
     * the placements in which the function takes the input, with Replicate instead of Partial. Must be NULL if
     * `gradient` is. */
    const weft_placement *const *grad_placements;
    void *context;       /**< passed to the function */
    size_t context_size; /**< > 0: this many bytes (at most 2^20) are copied before the call returns. 0: the pointer
                              is passed on, and its target must stay valid until weft_wait() has returned; if there is
                              a `gradient`, until that has run or the outputs are released */
} weft_local_map_options;

#define WEFT_LOCAL_MAP_OPTIONS_DEFAULT                                                                       \
    {                                                                                                        \
        0, NULL, NULL, NULL, NULL, NULL, NULL, 0                                                             \
    }

/** Sets all fields to 0, and `size`. */
static inline void weft_local_map_options_init(weft_local_map_options *options)
{
    const weft_local_map_options all = WEFT_LOCAL_MAP_OPTIONS_DEFAULT;
    *options = all;
    options->size = sizeof(*options);
}

/** Calls `function` on the shards of each hosted rank, as one task per rank, and returns its outputs as tensors, at
 * once. The tasks depend on data like those of operations. Every process calls it; if a process has no rank of the
 * mesh, the outputs are empty there. If an input has no data (weft_fake()), the outputs have none either, and the
 * function is not called.
 *
 * \param inputs        num_inputs tensors, 0 or more; a tensor may occur several times
 * \param descriptions  num_outputs descriptions, 1 or more
 * \param options       NULL: defaults
 * \param outputs       num_outputs new tensors, in the innermost scope; after an error all are NULL
 *
 * \return WEFT_ERR_INVALID if an argument is missing or out of range; WEFT_ERR_SHAPE, WEFT_ERR_DTYPE or
 *         WEFT_ERR_LAYOUT if that of an output is wrong; WEFT_ERR_MESH if an input is on another mesh and has no
 *         in_placements; WEFT_ERR_UNSUPPORTED if a rank has more than 65,536 panels; WEFT_ERR_STATE, WEFT_ERR_NOMEM
 *
 * Example: divides each row of x, whose rows are sharded, by its sum.
 *
 *     const weft_placement rows[] = { weft_shard(0) };
 *     const weft_local_output like_x = { WEFT_F32, 2, shape, rows };
 *     weft_local_map(normalise_rows, 1, &x, 1, &like_x, NULL, &y); */
WEFT_API weft_status weft_local_map(weft_local_function function, int num_inputs, weft_tensor *const inputs[],
                                    int num_outputs, const weft_local_output descriptions[],
                                    const weft_local_map_options *options, weft_tensor *outputs[]);

WEFT_END_DECLS

#endif
