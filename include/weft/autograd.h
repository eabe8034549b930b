/** \file
 * Gradients. Calls on a tensor that requires a gradient are recorded on a tape; weft_backward() walks the
 * tape back. The gradients' computations are calls like any other: tasks, in any layout, which overlap with
 * other tasks. Only weft_unscale_gradients() waits.
 *
 *     weft_set_requires_grad(w, true);
 *     weft_scope_open();
 *     weft_tensor *loss = weft_cross_entropy(weft_matmul(x, w), targets);
 *     weft_backward(loss);
 *     weft_sgd(1, &w, (weft_tensor *[]){ weft_grad(w) }, &options, NULL);
 *     weft_zero_grad(1, &w);
 *     weft_scope_close();
 *
 * A leaf is a tensor that requires a gradient by weft_set_requires_grad(). Results computed from leaves
 * require gradients too. Values that gradients need are saved: shares of their memory, copied when the
 * program writes to it. Memory of the program's own (weft_from_local() without WEFT_COPY) cannot be shared: it is copied
 * at once.
 *
 * All processes make the same calls in the same order; ranks outside a mesh too. */
#ifndef WEFT_AUTOGRAD_H
#define WEFT_AUTOGRAD_H

#include <stdio.h>

#include <weft/tensor.h>

WEFT_BEGIN_DECLS

/* ---- leaves ---------------------------------------------------------------------------------------------- */

/** Makes a tensor a leaf (on), or a constant again (off: its gradient, hook and settings below are dropped). WEFT_ERR_DTYPE: not of a
 * floating type. WEFT_ERR_STATE: computed from leaves (weft_detach() gives its values without). */
WEFT_API weft_status weft_set_requires_grad(weft_tensor *leaf, bool on);
/** Whether it is a leaf or was computed from leaves. */
WEFT_API bool weft_requires_grad(const weft_tensor *tensor);
/** Whether it is a leaf. */
WEFT_API bool weft_is_leaf(const weft_tensor *tensor);

/** The accumulated gradient of a leaf: its shape and type, in its layout (Replicate in place of Partial) or
 * that of weft_set_grad_placements(). Borrowed: valid until weft_zero_grad(), a
 * pass with create_graph, or the leaf's end. NULL where
 * there is none yet; with the error kept where the tensor is no leaf. */
WEFT_API weft_tensor *weft_grad(weft_tensor *leaf);
/** Drops the gradients of n leaves. */
WEFT_API weft_status weft_zero_grad(int n, weft_tensor *const leaves[]);

/** Placements of the gradient of a leaf, or of a tensor computed from leaves, on its mesh; NULL: none are set any more. A sharded
 * gradient of a replicated leaf is reduce-scattered instead of all-reduced. The gradient of a computed tensor is brought to
 * them once it is complete, and goes on so to the call that made the tensor. (PyTorch: grad_placements of from_local, to_local and
 * full_tensor.)
 *
 * WEFT_ERR_LAYOUT for Partial: gradients are whole. WEFT_ERR_STATE for a leaf with a gradient in another layout.
 * WEFT_ERR_INVALID for a tensor that requires no gradient; but where nothing is recorded, between weft_no_grad_begin() and
 * weft_no_grad_end() and in the first run of weft_recompute(), the call does nothing to it.
 *
 *     weft_tensor *full = weft_redistribute(x, NULL, NULL);
 *     weft_set_grad_placements(full, by_columns);
 *
 * A redistribution to the layout that a tensor has returns that tensor: here x itself, if it is replicated already. */
WEFT_API weft_status weft_set_grad_placements(weft_tensor *tensor, const weft_placement *placements);

/** Hook: called in weft_backward() by the submitting thread, without recording, as soon as the leaf's gradient
 * is complete: all its contributions have been submitted and added to weft_grad(leaf). The rest of the backward
 * pass is submitted after it, so an optimiser's step in a hook overlaps with that. An error ends the pass with it: some leaves
 * have their gradients then, and the tape is released in part. New tensors belong to the pass's scope: weft_scope_keep() keeps one. A hook may release leaves;
 * backward passes, weft_finalize(), and the end of a scope or region that it has not opened are WEFT_ERR_STATE in it. */
typedef weft_status (*weft_grad_hook)(weft_tensor *leaf, weft_tensor *gradient, void *context);
/** One hook of each leaf; NULL: none. */
WEFT_API weft_status weft_set_grad_hook(weft_tensor *leaf, weft_grad_hook hook, void *context);

/** A leaf whose redistributions to other layouts are repeated in the backward pass, instead of being saved for
 * it: a gathered parameter is released after its last use, and gathered again (PyTorch: FSDP's
 * reshard_after_forward). */
WEFT_API weft_status weft_set_regather(weft_tensor *leaf, bool on);

/* ---- the backward pass ----------------------------------------------------------------------------------- */

/** Adds the gradients of a loss of one element to those of all leaves that it was computed from. Its tape is
 * released on the way: a second pass over it is WEFT_ERR_STATE, as is a loss that was not computed from leaves.
 * WEFT_ERR_SHAPE: several elements; WEFT_ERR_UNSUPPORTED: a call on the way has no known gradient. These change
 * nothing. */
WEFT_API weft_status weft_backward(weft_tensor *loss);

typedef struct weft_backward_options {
    weft_tensor *output_gradient; /**< NULL: one, for a loss of one element */
    bool retain;                  /**< keep the tape for another pass */
    /** Record the pass, so that gradients can be differentiated; retains. The gradients of leaves refer to the tape then,
     * and it to the leaves: weft_zero_grad() ends that. */
    bool create_graph;
    size_t size;                  /**< 0, or sizeof of this struct ("Structs of options" in <weft/base.h>) */
} weft_backward_options;

/** Sets all fields to 0, and `size`. */
static inline void weft_backward_options_init(weft_backward_options *options)
{
    const weft_backward_options all = { NULL, false, false, 0 };
    *options = all;
    options->size = sizeof(*options);
}

/** The same with options; NULL: defaults. */
WEFT_API weft_status weft_backward_ex(weft_tensor *loss, const weft_backward_options *options);

/** Gradients of the sum of outputs[i] * output_gradients[i] by chosen inputs: leaves, or tensors computed from
 * leaves. Adds nothing to weft_grad(), calls no hooks. gradients[i] is new, in the input's layout (Replicate in
 * place of Partial) or that of weft_set_grad_placements(); NULL where the outputs do not depend on the input.
 * \param output_gradients  NULL: ones, for outputs of one element; an entry NULL likewise
 * \param create_graph      the results can be differentiated again; else the tape is released, as by weft_backward()
 * \return as weft_backward_ex(); WEFT_ERR_INVALID for a NULL or negative argument. On error all gradients are NULL.
 *
 * Example: the gradient of a loss by an activation h and a weight w.
 *
 *     weft_tensor *inputs[] = { h, w }, *gradients[2];
 *     weft_gradients(1, &loss, NULL, 2, inputs, false, gradients); */
WEFT_API weft_status weft_gradients(int num_outputs, weft_tensor *const outputs[],
                                    weft_tensor *const output_gradients[], int num_inputs,
                                    weft_tensor *const inputs[], bool create_graph, weft_tensor *gradients[]);

/* ---- without recording ------------------------------------------------------------------------------------ */

/** The same values as a constant: a new tensor, which shares memory until one of them is written to. */
WEFT_API weft_tensor *weft_detach(weft_tensor *tensor);
/** Calls between these are not recorded, and leaves may be changed in place. They nest. \{ */
WEFT_API void weft_no_grad_begin(void);
WEFT_API void weft_no_grad_end(void);
/** \} */
/** Steps of optimisers (<weft/optimizers.h>) are never recorded, and may change leaves. */

/* ---- segments that are computed again ---------------------------------------------------------------------- */

/** A function of tensors, for weft_recompute(): makes the same calls each time. Writes num_outputs tensors. */
typedef weft_status (*weft_segment_function)(void *context, int num_inputs, weft_tensor *const inputs[],
                                             int num_outputs, weft_tensor *outputs[]);
/** Calls the function, and saves nothing but its inputs: the backward pass calls it again, with the same random
 * numbers (PyTorch: torch.utils.checkpoint). Leaves that it uses beside its inputs get their gradients.
 * Tensors that it uses beside its inputs must live until then. Passes through it with create_graph are
 * WEFT_ERR_UNSUPPORTED.
 * \param context       must stay valid until the backward pass, or until the outputs are released
 * \param context_size  > 0: so many bytes are copied instead */
WEFT_API weft_status weft_recompute(weft_segment_function function, void *context, size_t context_size, int num_inputs,
                                    weft_tensor *const inputs[], int num_outputs, weft_tensor *outputs[]);

/* ---- mixed precision ------------------------------------------------------------------------------------- */

/** Region in which products, convolutions and attention convert floating inputs to `dtype` (WEFT_BF16 or
 * WEFT_F16), and reductions, norms, softmax and losses convert 16-bit inputs to WEFT_F32 (PyTorch: torch.amp.autocast).
 * A leaf is converted once in a region; parameters that weft_module_use() gathers are converted before. Regions nest; dtype
 * WEFT_F32: no conversions within. \{ */
WEFT_API weft_status weft_autocast_begin(weft_dtype dtype);
WEFT_API weft_status weft_autocast_end(void);
/** \} */
/** The type of 16 bits that suits the kind of device that computes, as PyTorch's default: WEFT_F16 in a world where a process
 * has CUDA devices, else WEFT_BF16; the same on all processes. WEFT_F32 on error. */
WEFT_API weft_dtype weft_autocast_dtype(void);
/** Writes which operations convert to which type. */
WEFT_API weft_status weft_autocast_print(FILE *file);

/** Loss scaling (PyTorch: torch.amp.GradScaler), for gradients in WEFT_F16, which would be rounded to zero. The
 * program multiplies the loss, divides the gradients, and steps where they are finite. The same numbers on every
 * process. */
typedef struct weft_loss_scaler {
    double scale;       /**< the loss is multiplied by it */
    double growth;      /**< of the scale, after `interval` steps with finite gradients in a row */
    double backoff;     /**< of the scale, after one without */
    int64_t interval;   /**< steps */
    int64_t good_steps; /**< in a row so far */
} weft_loss_scaler;

/** PyTorch's defaults. */
#define WEFT_LOSS_SCALER_DEFAULT                                                                             \
    {                                                                                                        \
        65536, 2, 0.5, 2000, 0                                                                               \
    }

/** The loss times the scale: a new tensor, for weft_backward(). */
WEFT_API weft_tensor *weft_scale_loss(const weft_loss_scaler *scaler, weft_tensor *loss);
/** BLOCKS: divides n gradients by the scale, in place, and changes the scale for the next step.
 * \param finite  set to whether all their elements are: the same on every process. If not, skip the step.
 * WEFT_ERR_INVALID, WEFT_ERR_DTYPE for a gradient that is not floating: nothing is changed. */
WEFT_API weft_status weft_unscale_gradients(weft_loss_scaler *scaler, int n, weft_tensor *const gradients[],
                                            bool *finite);

WEFT_END_DECLS

#endif
