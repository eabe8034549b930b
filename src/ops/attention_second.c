/* Gradients of attention that need the matrix of all scores: of the mask, and second derivatives. */
#include <math.h>

#include "ops/attention.h"

/* Tensors of a call and matrices [..., s, t] in f32 or f64. */
typedef struct operands {
    weft_tensor *gradient, *q, *k, *v, *output, *log_sums; /* gradient NULL: zero; log_sums: [..., s, 1] */
    weft_tensor *weights;                                  /* e^(score - log-sum) */
    double scale;
} operands;

/* a b^T */
static weft_tensor *times_transposed(weft_tensor *a, weft_tensor *b)
{
    return weft_matmul_ex(a, false, b, true);
}

/* a^T b */
static weft_tensor *transposed_times(weft_tensor *a, weft_tensor *b)
{
    return weft_matmul_ex(a, true, b, false);
}

static weft_tensor *row_sums(weft_tensor *a)
{
    return weft_sum(a, -1, true);
}

/* NULL stays NULL. */
static weft_tensor *widened(weft_tensor *a, weft_dtype type)
{
    return a == NULL ? NULL : weft_to_type(a, type);
}

/* Adds to a sum; NULL: it is zero so far. */
static bool add_to(weft_tensor **sum, weft_tensor *addend)
{
    *sum = *sum == NULL || addend == NULL ? addend : weft_add(*sum, addend);
    return *sum != NULL;
}

/* Keys that a row does not see count 0, so that weights are finite everywhere. */
static weft_tensor *find_weights(const operands *o, weft_tensor *mask, bool causal)
{
    weft_tensor *scores = weft_scale(times_transposed(o->q, o->k), o->scale);
    bool adds = mask != NULL && weft_dtype_is_floating(weft_layout_of(mask)->dtype);
    scores = adds ? weft_add(scores, weft_to_type(mask, weft_layout_of(o->q)->dtype)) : scores;
    scores = causal ? weft_tril(scores, 0) : scores;
    weft_tensor *hidden = mask != NULL && !adds ? weft_logical_not(mask) : NULL;
    scores = hidden != NULL ? weft_masked_fill(scores, hidden, -INFINITY) : scores;
    weft_tensor *weights = weft_exp(weft_sub(scores, o->log_sums));
    return causal ? weft_tril(weights, 0) : weights;
}

/* The other fields are as in the call; log_sums may be NULL. False with the error kept. */
static bool take_operands(operands *o, const weft_attention_options *options)
{
    weft_dtype type = weft_wide_type(weft_layout_of(o->q)->dtype);
    if (o->log_sums == NULL &&
        weft_attention_with_log_sums(o->q, o->k, o->v, options, &o->log_sums) == NULL) {
        return false;
    }
    o->scale = options->scale;
    o->gradient = widened(o->gradient, type);
    o->q = widened(o->q, type);
    o->k = widened(o->k, type);
    o->v = widened(o->v, type);
    o->output = widened(o->output, type);
    o->log_sums = widened(weft_unsqueeze(o->log_sums, -1), type);
    o->weights = find_weights(o, options->mask, options->causal);
    return o->weights != NULL;
}

/* gradient v^T less each row's product of gradient and output: that of a score is this times the weight. */
static weft_tensor *slopes_of_weights(const operands *o)
{
    return weft_sub(times_transposed(o->gradient, o->v), row_sums(weft_mul(o->gradient, o->output)));
}

bool weft_attention_give_mask(const weft_gradient *of, const weft_attention_options *options)
{
    weft_tensor *const *in = of->call->inputs, *of_log_sums = weft_gradient_of_output(of, 1), *slopes = NULL;
    operands o = { .gradient = weft_gradient_of_output(of, 0),
                   .q = in[0],
                   .k = in[1],
                   .v = in[2],
                   .output = of->outputs[0],
                   .log_sums = of->outputs[1] };
    if (!take_operands(&o, options) || (o.gradient != NULL && !add_to(&slopes, slopes_of_weights(&o))) ||
        (of_log_sums != NULL && !add_to(&slopes, weft_unsqueeze(of_log_sums, -1)))) {
        return false;
    }
    return weft_give_gradient(of, 3, weft_mul(o.weights, slopes));
}

/* ---- second derivatives -------------------------------------------------------------------------------- */

/* Gradients of the backward pass's results, a, b and c, those of q, k and v; NULL: zero. With weights p and the
 * pass's gradients of scores s = p (slopes): <s, scale (a k^T + q b^T)> + <p, gradient c^T>. */
typedef struct second {
    weft_tensor *a, *b, *c;
    weft_tensor *scores, *by_scores;                              /* s; scale (a k^T + q b^T) */
    weft_tensor *gradient, *q, *k, *v, *output, *log_sums, *mask; /* the results */
} second;

/* The part that a and b count in. `by_weights` becomes its gradient by p. */
static bool add_scores(const operands *o, second *s, weft_tensor **by_weights)
{
    weft_tensor *slopes = slopes_of_weights(o);
    s->scores = weft_mul(o->weights, slopes);
    if (s->scores == NULL || (s->a != NULL && !add_to(&s->by_scores, times_transposed(s->a, o->k))) ||
        (s->b != NULL && !add_to(&s->by_scores, times_transposed(o->q, s->b)))) {
        return false;
    }
    s->by_scores = weft_scale(s->by_scores, o->scale);
    weft_tensor *by_products = weft_mul(s->by_scores, o->weights), *sums = row_sums(by_products);
    s->v = transposed_times(by_products, o->gradient);
    s->output = weft_neg(weft_mul(sums, o->gradient));
    return add_to(by_weights, weft_mul(s->by_scores, slopes)) && s->v != NULL && s->output != NULL &&
           add_to(&s->gradient, weft_sub(weft_matmul(by_products, o->v), weft_mul(sums, o->output))) &&
           (s->b == NULL || add_to(&s->q, weft_scale(weft_matmul(s->scores, s->b), o->scale))) &&
           (s->a == NULL || add_to(&s->k, weft_scale(transposed_times(s->scores, s->a), o->scale)));
}

static bool find_second(const operands *o, second *s, bool given)
{
    weft_tensor *by_weights = NULL;
    if (((s->a != NULL || s->b != NULL) && !add_scores(o, s, &by_weights)) ||
        (s->c != NULL && (!add_to(&by_weights, times_transposed(o->gradient, s->c)) ||
                          !add_to(&s->gradient, weft_matmul(o->weights, s->c))))) {
        return false;
    }
    weft_tensor *own = weft_mul(by_weights, o->weights), *sums = row_sums(own);
    s->mask = given ? own : weft_sub(own, weft_mul(o->weights, sums));
    s->log_sums = weft_neg(weft_squeeze(sums, -1));
    return s->log_sums != NULL && add_to(&s->q, weft_scale(weft_matmul(s->mask, o->k), o->scale)) &&
           add_to(&s->k, weft_scale(transposed_times(s->mask, o->q), o->scale));
}

bool weft_gradients_of_attention_backward(const weft_gradient *of)
{
    const weft_call *call = of->call;
    const int64_t *numbers = call->attributes.numbers;
    weft_tensor *const *in = call->inputs;
    bool given = numbers[WEFT_ATTENTION_PARTS] & WEFT_ATTENTION_HAS_LOG_SUMS;
    int mask = numbers[WEFT_ATTENTION_PARTS] & WEFT_ATTENTION_HAS_MASK ? call->num_inputs - 1 : -1;
    const weft_attention_options options = { .causal = numbers[WEFT_ATTENTION_CAUSAL] != 0,
                                             .scale = call->scalars[0],
                                             .mask = mask < 0 ? NULL : in[mask] };
    operands o = { in[0], in[1], in[2], in[3], in[4], given ? in[5] : NULL };
    weft_dtype type = weft_wide_type(weft_layout_of(in[1])->dtype);
    second s = { widened(weft_gradient_of_output(of, 0), type), widened(weft_gradient_of_output(of, 1), type),
                 widened(weft_gradient_of_output(of, 2), type) };
    if (!take_operands(&o, &options) || !find_second(&o, &s, given)) {
        return false;
    }
    weft_tensor *const results[] = {
        s.gradient, s.q, s.k, s.v, s.output, given ? s.log_sums : s.mask, s.mask
    };
    bool done = true;
    for (int i = 0; i < call->num_inputs && done; i++) {
        done = results[i] == NULL || !weft_gradient_wanted(of, i) || weft_give_gradient(of, i, results[i]);
    }
    return done;
}
