/** \file
 * Gradients. Calls on a tensor that requires a gradient are recorded on a tape; weft_backward() walks the tape
 * backwards. Gradients are computed by calls like any other: tasks, in any layout, which overlap with other tasks.
 * Only weft_unscale_gradients() waits.
 *
 *     weft_set_requires_grad(w, true);
 *     weft_scope_begin();
 *     weft_tensor *loss = weft_cross_entropy(weft_matmul(x, w), targets, NULL);
 *     weft_backward(loss, NULL);
 *     weft_sgd(1, &w, (weft_tensor *[]){ weft_grad(w) }, &options, NULL);
 *     weft_zero_grad(1, &w);
 *     weft_scope_end();
 *
 * A leaf is a tensor that requires a gradient because you called weft_set_requires_grad(). Results computed from
 * leaves require gradients too. The tape saves the values that gradients need. Saved values share memory with their
 * tensors; they are copied if you write to the tensor. Your own memory (weft_from_local() without WEFT_COPY) cannot
 * be shared, so it is copied at once.
 *
 * All processes make the same calls in the same order, including those whose ranks are outside a mesh. */
#ifndef WEFT_AUTOGRAD_H
#define WEFT_AUTOGRAD_H

#include <stdio.h>

#include <weft/tensor.h>

WEFT_BEGIN_DECLS

/* ---- leaves ---------------------------------------------------------------------------------------------- */

/** Makes a tensor a leaf (on), or a constant again (off). Turning it off drops its gradient, its hook and the settings
 * below. WEFT_ERR_DTYPE if the type is not floating. WEFT_ERR_STATE if the tensor was computed from leaves
 * (weft_detach() returns its values as a constant). */
WEFT_API weft_status weft_set_requires_grad(weft_tensor *leaf, bool on);
/** Returns whether the tensor is a leaf or was computed from leaves. */
WEFT_API bool weft_requires_grad(const weft_tensor *tensor);
/** Returns whether the tensor is a leaf. */
WEFT_API bool weft_is_leaf(const weft_tensor *tensor);

/** Returns the accumulated gradient of a leaf. It has the leaf's shape and type, and its layout (Replicate instead of
 * Partial) or that of weft_set_grad_placements(). The reference is borrowed: it is valid until weft_zero_grad(), a
 * pass with create_graph, or the end of the leaf. NULL if there is no gradient yet; if the tensor is not a leaf, the
 * error is set too. */
WEFT_API weft_tensor *weft_grad(weft_tensor *leaf);
/** Drops the gradients of n leaves. */
WEFT_API weft_status weft_zero_grad(int n, weft_tensor *const leaves[]);

/** Chooses the placements of the gradient of a leaf, or of a tensor computed from leaves, on its mesh. NULL removes
 * the choice. For example, if the leaf is replicated and its gradient is sharded, the gradient is reduce-scattered
 * instead of all-reduced. The gradient of a computed tensor is redistributed to these placements once it is complete,
 * and then passed on to the call that made the tensor. (PyTorch: grad_placements of from_local, to_local and
 * full_tensor.)
 *
 * WEFT_ERR_LAYOUT for Partial, because gradients are whole. WEFT_ERR_STATE if the leaf has a gradient in another
 * layout. WEFT_ERR_INVALID if the tensor requires no gradient. But if nothing is recorded, between
 * weft_no_grad_begin() and weft_no_grad_end() and in the first run of weft_recompute(), the call has no effect on
 * such a tensor.
 *
 *     weft_tensor *full = weft_redistribute(x, NULL, NULL);
 *     weft_set_grad_placements(full, by_columns);
 *
 * If you redistribute a tensor to the layout that it has, you get the tensor itself: here `full` is x if x is
 * replicated already. */
WEFT_API weft_status weft_set_grad_placements(weft_tensor *tensor, const weft_placement *placements);

/** A gradient hook. weft_backward() calls it on the submitting thread, without recording, as soon as the leaf's
 * gradient is complete: all contributions have been submitted and added to weft_grad(leaf). The rest of the backward
 * pass is submitted after it, so an optimiser step in a hook overlaps with the rest. New tensors belong to the pass's
 * scope; call weft_scope_keep() to keep one. A hook may release leaves. Backward passes, weft_finalize(), and closing
 * a scope or region that the hook has not opened are WEFT_ERR_STATE. If the hook returns an error, the pass ends with
 * it: some leaves have their gradients then, and part of the tape is released. */
typedef weft_status (*weft_grad_hook)(weft_tensor *leaf, weft_tensor *gradient, void *context);
/** Sets the hook of a leaf. A leaf has one hook; NULL removes it. */
WEFT_API weft_status weft_set_grad_hook(weft_tensor *leaf, weft_grad_hook hook, void *context);

/** If on, redistributions of this leaf to other layouts are repeated in the backward pass instead of saved for it. So
 * a gathered parameter is released after its last use, and gathered again (PyTorch: FSDP's reshard_after_forward). */
WEFT_API weft_status weft_set_regather(weft_tensor *leaf, bool on);

/* ---- the backward pass ----------------------------------------------------------------------------------- */

typedef struct weft_backward_options {
    size_t size; /**< 0, or sizeof of this struct ("Structs of options" in <weft/base.h>) */
    weft_tensor *output_gradient; /**< NULL: 1, for a loss of one element */
    bool retain;                  /**< keep the tape for another pass */
    /** Record the pass, so that you can differentiate the gradients; implies `retain`. The gradients of leaves then
     * refer to the tape, and the tape to the leaves; weft_zero_grad() breaks that cycle. */
    bool create_graph;
} weft_backward_options;

/** Sets all fields to 0, and `size`. */
static inline void weft_backward_options_init(weft_backward_options *options)
{
    const weft_backward_options all = { sizeof(all), NULL, false, false };
    *options = all;
}

/** Computes the gradients of a loss with one element, and adds them to those of all leaves that it was computed from.
 * The tape is released on the way, so a second pass over it is WEFT_ERR_STATE. So is a loss that was not computed
 * from leaves. WEFT_ERR_SHAPE if the loss has several elements; WEFT_ERR_UNSUPPORTED if a call on the way has no
 * known gradient. After any of these errors nothing has changed.
 *
 * \param options  NULL: defaults */
WEFT_API weft_status weft_backward(weft_tensor *loss, const weft_backward_options *options);

/** Computes gradients of the sum of outputs[i] * output_gradients[i] with respect to inputs of your choice: leaves, or
 * tensors computed from leaves. It adds nothing to weft_grad(), and calls no hooks. gradients[i] is a new tensor in
 * the input's layout (Replicate instead of Partial) or that of weft_set_grad_placements(); NULL if the outputs do not
 * depend on the input.
 *
 * \param output_gradients  NULL: all 1, for outputs of one element; an entry may be NULL in the same way
 * \param create_graph      the results can be differentiated again; otherwise the tape is released, as by
 *                          weft_backward()
 * \return as weft_backward(); WEFT_ERR_INVALID if an argument is NULL or negative. On error all gradients are
 *         NULL.
 *
 * Example: the gradient of a loss with respect to an activation h and a weight w.
 *
 *     weft_tensor *inputs[] = { h, w }, *gradients[2];
 *     weft_gradients(1, &loss, NULL, 2, inputs, false, gradients); */
WEFT_API weft_status weft_gradients(int num_outputs, weft_tensor *const outputs[],
                                    weft_tensor *const output_gradients[], int num_inputs,
                                    weft_tensor *const inputs[], bool create_graph, weft_tensor *gradients[]);

/* ---- without recording ------------------------------------------------------------------------------------ */

/** Returns a new tensor with the same values as a constant. They share memory until one of them is written to. */
WEFT_API weft_tensor *weft_detach(weft_tensor *tensor);
/** Calls between these two are not recorded, and leaves may be changed in place. They nest. \{ */
WEFT_API void weft_no_grad_begin(void);
WEFT_API void weft_no_grad_end(void);
/** \} */
/** Optimiser steps (<weft/optimizers.h>) are never recorded, and may change leaves. */

/* ---- recomputed regions (activation checkpointing) ------------------------------------------------------------ */

/** A function of tensors, for weft_recompute(). It must make the same calls each time, and set num_outputs tensors. */
typedef weft_status (*weft_segment_function)(void *context, int num_inputs, weft_tensor *const inputs[],
                                             int num_outputs, weft_tensor *outputs[]);
/** Calls the function and saves only its inputs. The backward pass calls it again, with the same random numbers
 * (PyTorch: torch.utils.checkpoint). If the function uses leaves other than its inputs, they get their gradients too.
 * All tensors that it uses besides its inputs must live until then. A pass through it with create_graph is
 * WEFT_ERR_UNSUPPORTED.
 *
 * \param context       must stay valid until the backward pass, or until the outputs are released
 * \param context_size  if > 0, this many bytes of context are copied instead
 *
 * For example, with a context that stays valid:
 *
 *     weft_recompute(block, layer, 0, 1, &x, 1, &y); */
WEFT_API weft_status weft_recompute(weft_segment_function function, void *context, size_t context_size, int num_inputs,
                                    weft_tensor *const inputs[], int num_outputs, weft_tensor *outputs[]);

/* ---- functions with a gradient of their own ------------------------------------------------------------------- */

/** A backward function computes gradients from this. Valid until it returns. */
typedef struct weft_custom_request {
    int num_inputs, num_outputs; /**< of the call of weft_custom_gradient() */
    int num_saved;               /**< tensors that the forward function saved */
    weft_tensor *const *saved;   /**< these, with the values that they had */
    const void *bytes;           /**< the bytes that it saved; NULL: none */
    size_t num_bytes;
    weft_tensor *const *output_gradients; /**< one per output: of its shape and type, in any layout; NULL means zero */
    const bool *wanted;                   /**< one per input */
} weft_custom_request;

/** Writes the wanted gradients, each of its input's shape, of any floating type and in any layout; NULL means zero.
 * Returns WEFT_OK, or the status of a failed call. */
typedef weft_status (*weft_custom_backward)(void *context, const weft_custom_request *request, weft_tensor *gradients[]);

/** Calls `forward`, and records the call as a whole: the backward pass calls `backward` for the gradients of the inputs
 * (PyTorch: torch.autograd.Function, JAX: custom_vjp). Nothing within `forward` is recorded. What `backward` needs,
 * `forward` gives to weft_save_for_backward(). Both may call all of weft, and run when they are called, also in the
 * function of a graph (<weft/graph.h>): their calls are captured and replayed there. If one of them reads values, the
 * graph ends a segment there, and its listing says where.
 *
 * With create_graph the calls of `backward` are recorded. Saved tensors are then the inputs and outputs that they were,
 * so second gradients are right, if `backward` is written as a function of inputs, outputs and their gradients. What
 * else was computed from the inputs would count as a constant: floating tensors that are no inputs or outputs must not
 * be saved then (return them as outputs), and saved bytes must not depend on values of inputs.
 *
 * \param context       passed to both functions; must stay valid until the backward pass, or until the outputs are
 *                      released
 * \param context_size  if > 0, `backward` gets a copy of this many bytes of it
 *
 * WEFT_ERR_INVALID if an argument is NULL or a number negative. WEFT_ERR_STATE if `forward` used a tensor that requires
 * a gradient and is no input, because that gradient would be lost, or changed an input in place (which is noticed where something is
 * recorded). The status of `forward` if that is not WEFT_OK. Backward passes return WEFT_ERR_SHAPE if a gradient has another shape than its
 * input, WEFT_ERR_DTYPE if it is not floating, and WEFT_ERR_UNSUPPORTED if they have create_graph and another floating
 * tensor was saved.
 *
 * For example, log(1 + exp(x)), whose gradient does not overflow:
 *
 *     weft_status forward(void *context, int num_inputs, weft_tensor *const in[], int num_outputs, weft_tensor *out[])
 *     {
 *         out[0] = weft_log1p(weft_exp(in[0]));
 *         return out[0] == NULL ? weft_last_status() : weft_save_for_backward(1, in, NULL, 0);
 *     }
 *     weft_status backward(void *context, const weft_custom_request *request, weft_tensor *gradients[])
 *     {
 *         gradients[0] = weft_mul(request->output_gradients[0], weft_sigmoid(request->saved[0]));
 *         return gradients[0] == NULL ? weft_last_status() : WEFT_OK;
 *     }
 *     weft_custom_gradient(forward, backward, NULL, 0, 1, &x, 1, &y); */
WEFT_API weft_status weft_custom_gradient(weft_segment_function forward, weft_custom_backward backward, void *context,
                                          size_t context_size, int num_inputs, weft_tensor *const inputs[],
                                          int num_outputs, weft_tensor *outputs[]);
/** Within the forward function of weft_custom_gradient(): saves tensors and bytes for its backward function, in place of
 * what the same call has saved before. Tensors are saved as they are now, and share their memory until they are written
 * to; bytes are copied. weft frees both after the backward pass, or with the outputs. If nothing is recorded, nothing is
 * saved.
 *
 * \param bytes  NULL if num_bytes is 0
 *
 * WEFT_ERR_STATE elsewhere; WEFT_ERR_INVALID if an argument is NULL or negative. */
WEFT_API weft_status weft_save_for_backward(int num_tensors, weft_tensor *const tensors[], const void *bytes,
                                            size_t num_bytes);

/* ---- mixed precision ------------------------------------------------------------------------------------- */

/** Opens and closes a region in which products, convolutions and attention convert floating inputs to `dtype`
 * (WEFT_BF16 or WEFT_F16), and reductions, norms, softmax and losses convert 16-bit inputs to WEFT_F32 (PyTorch:
 * torch.amp.autocast). A leaf is converted only once in a region. Parameters that weft_module_use() gathers are
 * converted before they are gathered. Regions nest; WEFT_F32 turns conversions off inside. \{ */
WEFT_API weft_status weft_autocast_begin(weft_dtype dtype);
WEFT_API weft_status weft_autocast_end(void);
/** \} */
/** Returns the 16-bit type that suits the devices of the world, as PyTorch's default does: WEFT_F16 if a process has
 * CUDA devices, otherwise WEFT_BF16. It is the same on all processes. WEFT_F32 on error. */
WEFT_API weft_dtype weft_autocast_dtype(void);
/** Prints which operations convert to which type. */
WEFT_API weft_status weft_autocast_print(FILE *file);

/** Loss scaling (PyTorch: torch.amp.GradScaler), for WEFT_F16 gradients that would otherwise be rounded to zero. Your
 * program multiplies the loss, divides the gradients, and makes the step only if they are finite. The numbers must be
 * the same on every process. */
typedef struct weft_loss_scaler {
    double scale;       /**< factor of the loss */
    double growth;      /**< factor of the scale after `interval` steps in a row with finite gradients */
    double backoff;     /**< factor of the scale after a step without */
    int64_t interval;   /**< number of steps */
    int64_t good_steps; /**< steps in a row so far */
} weft_loss_scaler;

/** PyTorch's defaults. */
#define WEFT_LOSS_SCALER_DEFAULT                                                                             \
    {                                                                                                        \
        65536, 2, 0.5, 2000, 0                                                                               \
    }

/** Returns the loss times the scale: a new tensor, for weft_backward(). */
WEFT_API weft_tensor *weft_scale_loss(const weft_loss_scaler *scaler, weft_tensor *loss);
/** Divides n gradients by the scale, in place, and changes the scale for the next step. BLOCKS.
 *
 * \param finite  set to whether all elements of the gradients are finite; the same on every process. If it is false,
 *                skip the step.
 *
 * WEFT_ERR_INVALID; WEFT_ERR_DTYPE if a gradient is not floating. Nothing has changed then. */
WEFT_API weft_status weft_unscale_gradients(weft_loss_scaler *scaler, int n, weft_tensor *const gradients[],
                                            bool *finite);

WEFT_END_DECLS

#endif
