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

/** The shard of one rank, or some of its rows: a box of the global index space, row-major and contiguous. */
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
    /** Values are undefined: the function must write every element. An output in place is the input of the same
     * number, at the same address */
    const weft_local_tensor *outputs;
    void *context;        /**< see ::weft_local_map_options; calls that run at the same time may share it */
    const char *function; /**< the region's name, for messages */
    /** To report an invalid value: write zeros instead, and go on. The program gets the status from its next blocking
     * call. Use weft_kernel_fail(call, status, format, ...). */
    weft_kernel_error *error;
    weft_random_state random; /**< see weft_local_map_options.random; else 0 */
} weft_local_call;

/** Returns the number of an element of the whole tensor, row-major: element `i` of the box. For random numbers
 * ("Random numbers in kernels" in <weft/kernel.h>). */
WEFT_INLINE uint64_t weft_local_number(const weft_local_tensor *tensor, int64_t i)
{
    uint64_t number = 0, step = 1;
    for (int d = tensor->ndim - 1; d >= 0; d--) {
        int64_t index = d > 0 ? i % tensor->extent[d] : i;
        i = d > 0 ? i / tensor->extent[d] : 0;
        number += (uint64_t)(tensor->offset[d] + index) * step;
        step *= (uint64_t)tensor->shape[d];
    }
    return number;
}

/** Worker threads call this function concurrently, once for each hosted rank of the mesh that has a part of an output;
 * or, by rows, once for each panel of such parts.
 * Equal inputs must give equal outputs. It may call only the functions of <weft/kernel.h>; others return
 * WEFT_ERR_STATE there. */
typedef void (*weft_local_function)(const weft_local_call *call);

/** An output: a new tensor of this layout, or an input that is changed. */
typedef struct weft_local_output {
    weft_dtype dtype;
    int ndim;
    const int64_t *shape;             /**< shape of the whole tensor; each rank's part is that of weft_shard_box() */
    const weft_placement *placements; /**< one per mesh dimension; NULL: Replicate everywhere. With Replicate you
                                           promise that replicas write the same values. With Partial the ranks write
                                           addends */
    /** The output is the input of the same number, changed, without a new tensor. The other fields are ignored. List
     * inputs that are changed in place first. They keep their layout, so their entry in in_placements must be NULL, or
     * this layout's. A region that changes an input has no gradient. */
    bool in_place;
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
    /** The function is called for some rows at a time (indices of dimension 0), by a task for each panel of rows of the
     * outputs: several workers share a rank's shard, and each task begins when its rows of the inputs are there. All
     * outputs must have rows, as many as each other, and cut alike. The function gets the same rows, by global index, of
     * every output and input, contiguous; `offset`, `extent` and `count` describe these rows. How many rows a call gets
     * depends on the sizes (and on WEFT_PANEL_ROWS); elements must not depend on it. It gets the whole shard of inputs
     * without dimensions and of those that `whole_inputs` names. Rows of Partial inputs are the rank's addends; rows that
     * are replicated are computed on each rank.
     *
     * `gradient` is called by rows too, if the gradients of all floating inputs have these rows and are cut like them;
     * otherwise once for each rank. */
    bool by_rows;
    /** One entry per input: with by_rows, the function gets the whole shard. NULL: of none. Other inputs must have as many
     * rows as the outputs, cut alike (WEFT_ERR_LAYOUT). */
    const bool *whole_inputs;
    /** The function draws random numbers ("Random numbers in kernels" in <weft/kernel.h>), and the current state advances
     * by one. `gradient` draws none. */
    bool random;
} weft_local_map_options;

#define WEFT_LOCAL_MAP_OPTIONS_DEFAULT                                                                       \
    {                                                                                                        \
        0, NULL, NULL, NULL, NULL, NULL, NULL, 0, false, NULL, false                                         \
    }

/** Sets all fields to 0, and `size`. */
static inline void weft_local_map_options_init(weft_local_map_options *options)
{
    const weft_local_map_options all = WEFT_LOCAL_MAP_OPTIONS_DEFAULT;
    *options = all;
    options->size = sizeof(*options);
}

/** Calls `function` on the shards of each hosted rank, as one task per rank (or, by rows, per panel), and returns its
 * outputs as tensors, at once. The tasks depend on data like those of operations. Every process calls it; if a process has no rank of the
 * mesh, the outputs are empty there. If an input has no data (weft_fake()), the outputs have none either, and the
 * function is not called.
 *
 * \param inputs        num_inputs tensors, 0 or more; a tensor may occur several times
 * \param descriptions  num_outputs descriptions, 1 or more
 * \param options       NULL: defaults
 * \param outputs       num_outputs new tensors, in the innermost scope, and inputs that are changed in place; after an
 *                      error all are NULL
 *
 * \return WEFT_ERR_INVALID if an argument is missing or out of range, or two inputs that are changed are one tensor;
 *         WEFT_ERR_SHAPE, WEFT_ERR_DTYPE or WEFT_ERR_LAYOUT if that of an output is wrong, or rows are not cut alike;
 *         WEFT_ERR_MESH if an input is on another mesh and has no in_placements; WEFT_ERR_UNSUPPORTED if a task would
 *         have more than 65,536 panels; WEFT_ERR_STATE, WEFT_ERR_NOMEM
 *
 * Example: divides each row of x, whose rows are sharded, by its sum.
 *
 *     const weft_placement rows[] = { weft_shard(0) };
 *     const weft_local_output like_x = { WEFT_F32, 2, shape, rows };
 *     const weft_local_map_options options = { .by_rows = true };
 *     weft_local_map(normalise_rows, 1, &x, 1, &like_x, &options, &y); */
WEFT_API weft_status weft_local_map(weft_local_function function, int num_inputs, weft_tensor *const inputs[],
                                    int num_outputs, const weft_local_output descriptions[],
                                    const weft_local_map_options *options, weft_tensor *outputs[]);

WEFT_END_DECLS

#endif
