/* Softmax, normalisation, losses: nn.h. */
#include "calls.h"

#include "ops/backward.h"

/* ---- calls with attributes ----------------------------------------------------------------------------- */

static int dim(const oracle_case *c)
{
    return (int)oracle_whole(c, "dim");
}

CALL(softmax)
{
    return weft_softmax(in[0], dim(c));
}

CALL(log_softmax)
{
    return weft_log_softmax(in[0], dim(c));
}

CALL(softmax_backward)
{
    return weft_softmax_backward(in[0], in[1], dim(c));
}

CALL(log_softmax_backward)
{
    return weft_log_softmax_backward(in[0], in[1], dim(c));
}

/* Input `first`, where the case has a gain; the one after it, where it has a bias. \{ */
static weft_tensor *gain_of(const oracle_case *c, weft_tensor *const in[], int first)
{
    return oracle_whole(c, "gain") ? in[first] : NULL;
}

static weft_tensor *bias_of(const oracle_case *c, weft_tensor *const in[], int first)
{
    return oracle_whole(c, "bias") ? in[first + oracle_whole(c, "gain")] : NULL;
}
/* \} */

CALL(layer_norm)
{
    return weft_layer_norm(in[0], gain_of(c, in, 1), bias_of(c, in, 1), oracle_number(c, "epsilon"));
}

CALL(rms_norm)
{
    return weft_rms_norm(in[0], gain_of(c, in, 1), oracle_number(c, "epsilon"));
}

CALL_SEVERAL(layer_norm_backward)
{
    bool more = oracle_results(c) > 1;
    return weft_layer_norm_backward(in[0], in[1], gain_of(c, in, 2), oracle_number(c, "epsilon"),
                                    more ? &out[1] : NULL, more ? &out[2] : NULL);
}

CALL_SEVERAL(rms_norm_backward)
{
    return weft_rms_norm_backward(in[0], in[1], gain_of(c, in, 2), oracle_number(c, "epsilon"),
                                  oracle_results(c) > 1 ? &out[1] : NULL);
}

CALL(rotary)
{
    return weft_rotary(in[0], oracle_number(c, "theta"), oracle_whole(c, "first"));
}

CALL(rotary_backward)
{
    return weft_rotary_backward(in[0], oracle_number(c, "theta"), oracle_whole(c, "first"));
}

static weft_loss_reduction reduction(const oracle_case *c)
{
    return (weft_loss_reduction)oracle_whole(c, "reduction");
}

static weft_cross_entropy_options options(const oracle_case *c)
{
    return (weft_cross_entropy_options){
        .reduction = reduction(c),
        .ignore_index = oracle_whole(c, "ignore_index"),
        .label_smoothing = oracle_number(c, "label_smoothing"),
    };
}

/* The gradient of the result, or NULL. */
static weft_tensor *gradient_of(const oracle_case *c, weft_tensor *const in[])
{
    return c->num_inputs > 2 ? in[2] : NULL;
}

CALL(cross_entropy_ex)
{
    weft_cross_entropy_options o = options(c);
    return weft_cross_entropy(in[0], in[1], &o);
}

CALL(cross_entropy_ex_backward)
{
    weft_cross_entropy_options o = options(c);
    return weft_cross_entropy_ex_backward(gradient_of(c, in), in[0], in[1], &o);
}

/* The options of a case, or NULL for those by default. */
static const weft_cross_entropy_options *options_of(const oracle_case *c, weft_cross_entropy_options *o)
{
    const weft_cross_entropy_options all = WEFT_CROSS_ENTROPY_OPTIONS_DEFAULT;
    *o = options(c);
    return o->reduction == all.reduction && o->ignore_index == all.ignore_index && o->label_smoothing == all.label_smoothing ? NULL : o;
}

/* Log-sums are WEFT_F64: those of other logits are as exact as WEFT_F32. */
CALL_SEVERAL(cross_entropy_with_log_sums)
{
    weft_cross_entropy_options o;
    weft_tensor *log_sums, *result = weft_cross_entropy_with_log_sums(in[0], in[1], options_of(c, &o), &log_sums);
    if (result != NULL) {
        assert_int_equal(weft_tensor_dtype(log_sums), WEFT_F64);
        out[1] = weft_tensor_dtype(in[0]) == WEFT_F64 ? log_sums : weft_to_type(log_sums, WEFT_F32);
    }
    return result;
}

CALL(cross_entropy_backward_with_log_sums)
{
    weft_cross_entropy_options o;
    weft_tensor *log_sums;
    return weft_cross_entropy_with_log_sums(in[0], in[1], options_of(c, &o), &log_sums) == NULL
               ? NULL
               : weft_cross_entropy_backward_with_log_sums(gradient_of(c, in), in[0], in[1], log_sums, options_of(c, &o));
}

CALL(nll)
{
    return weft_nll(in[0], in[1], oracle_whole(c, "ignore_index"), reduction(c));
}

CALL(nll_backward)
{
    return weft_nll_backward(gradient_of(c, in), in[0], in[1], oracle_whole(c, "ignore_index"), reduction(c));
}

CALL(mse)
{
    return weft_mse(in[0], in[1], reduction(c));
}

CALL(mse_backward)
{
    return weft_mse_backward(gradient_of(c, in), in[0], in[1], reduction(c));
}

/* ---- the table ----------------------------------------------------------------------------------------- */

const oracle_operation oracle_nn_operations[] = {
    CALLED(softmax, ROUNDINGS),
    CALLED(log_softmax, ROUNDINGS),
    CALLED(softmax_backward, ORDER),
    CALLED(log_softmax_backward, ORDER),
    CALLED(layer_norm, ORDER),
    CALLED(rms_norm, ORDER),
    SEVERAL(layer_norm_backward, ORDER),
    SEVERAL(rms_norm_backward, ORDER),
    CALLED(cross_entropy_ex, ORDER),
    CALLED(cross_entropy_ex_backward, ORDER),
    SEVERAL(cross_entropy_with_log_sums, ORDER),
    CALLED(cross_entropy_backward_with_log_sums, ORDER),
    CALLED(nll, ORDER),
    CALLED(nll_backward, ORDER),
    CALLED(mse, ORDER),
    CALLED(mse_backward, ORDER),
    CALLED(rotary, ROUNDINGS),
    CALLED(rotary_backward, ROUNDINGS),
    { .name = NULL },
};
