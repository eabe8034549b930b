/* Second derivatives of norms: the gradients of the gradients of a, gain and bias. */
#include <math.h>

#include "ops/norm_calls.h"
#include "ops/reductions.h"

/* The call's tensors, in f32 or f64, and the gradients of its outputs, those of a, gain and bias; NULL: zero. */
typedef struct operands {
    weft_norm_call n;
    weft_tensor *of_a, *of_gain, *of_bias;
    weft_tensor *centred, *rstd, *normal; /* a - mean, 1 / sqrt(variance + epsilon), and their product */
    int dims[WEFT_MAX_DIMS], num_dims;
    double count;
} operands;

/* By n.gradient, n.gain, normal and rstd; NULL: zero. */
typedef struct slopes {
    weft_tensor *gradient, *gain, *normal, *rstd;
} slopes;

static weft_tensor *mean_of(const operands *o, weft_tensor *x)
{
    return weft_mean(x, weft_set_of_dims(o->num_dims, o->dims), true);
}

static weft_tensor *sum_of(const operands *o, weft_tensor *x)
{
    return weft_sum(x, weft_set_of_dims(o->num_dims, o->dims), true);
}

/* Adds to a sum; NULL: it is zero so far. */
static bool add_to(weft_tensor **sum, weft_tensor *addend)
{
    *sum = *sum == NULL || addend == NULL ? addend : weft_add(*sum, addend);
    return *sum != NULL;
}

/* An optional tensor in f32 or f64. False with the error kept. */
static bool widen(weft_tensor **tensor, weft_dtype type)
{
    if (*tensor != NULL) {
        *tensor = weft_to_type(*tensor, type);
        return *tensor != NULL;
    }
    return true;
}

static bool take_operands(const weft_gradient *of, operands *o)
{
    const weft_call *call = of->call;
    bool given = call->attributes.numbers[WEFT_NORM_PARTS] & WEFT_NORM_HAS_STATISTICS,
         centred = call->attributes.numbers[WEFT_NORM_CENTRED];
    int used = 2 + (given && centred) + given;
    *o = (operands){ .n = weft_norm_of(call, used),
                     .of_a = weft_gradient_of_output(of, 0),
                     .of_gain = weft_gradient_of_output(of, 1),
                     .of_bias = weft_gradient_of_output(of, 2) };
    o->n.gradient = call->inputs[1];
    o->n.mean = given && centred ? call->inputs[2] : NULL;
    o->rstd = given ? call->inputs[used - 1] : NULL;
    o->count = weft_count_along(weft_layout_of(o->n.a), o->n.mask);
    for (int d = (int)o->n.first; d < weft_layout_of(o->n.a)->ndim; d++) {
        o->dims[o->num_dims++] = d;
    }
    weft_dtype type = weft_wide_type(weft_layout_of(o->n.a)->dtype);
    weft_tensor **const all[] = { &o->n.a,  &o->n.gradient, &o->n.gain,  &o->n.mean,
                                  &o->rstd, &o->of_a,       &o->of_gain, &o->of_bias };
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(all); i++) {
        if (!widen(all[i], type)) {
            return false;
        }
    }
    weft_tensor *mean = !centred ? NULL : given ? o->n.mean : mean_of(o, o->n.a);
    o->centred = centred ? weft_sub(o->n.a, mean) : o->n.a;
    o->rstd =
        given ? o->rstd : weft_rsqrt(weft_add_scalar(mean_of(o, weft_square(o->centred)), o->n.epsilon));
    o->normal = weft_mul(o->centred, o->rstd);
    return o->normal != NULL;
}

/* With h = gradient gain, u = of_a and means over a vector: sum(u rstd (h - mean(h) - normal mean(h normal))). */
static bool add_slopes_of_a(const operands *o, slopes *s)
{
    weft_tensor *h = o->n.gain == NULL ? o->n.gradient : weft_mul(o->n.gradient, o->n.gain), *u = o->of_a;
    weft_tensor *u_normal = mean_of(o, weft_mul(u, o->normal)),
                *h_normal = mean_of(o, weft_mul(h, o->normal));
    weft_tensor *rest = o->n.centred ? weft_sub(u, mean_of(o, u)) : u;
    weft_tensor *by_h = weft_mul(o->rstd, weft_sub(rest, weft_mul(o->normal, u_normal)));
    s->gradient = o->n.gain == NULL ? by_h : weft_mul(by_h, o->n.gain);
    s->gain = o->n.gain == NULL ? NULL : weft_mul(by_h, o->n.gradient);
    s->normal = weft_mul(weft_neg(o->rstd), weft_add(weft_mul(u, h_normal), weft_mul(h, u_normal)));
    s->rstd = weft_scale(weft_sub(mean_of(o, weft_mul(rest, h)), weft_mul(u_normal, h_normal)), o->count);
    return s->gradient != NULL && (o->n.gain == NULL || s->gain != NULL) && s->normal != NULL &&
           s->rstd != NULL;
}

static bool find_slopes(const operands *o, slopes *s)
{
    const weft_layout *layout = weft_layout_of(o->n.gradient);
    return (o->of_a == NULL || add_slopes_of_a(o, s)) &&
           (o->of_gain == NULL || (add_to(&s->normal, weft_mul(o->of_gain, o->n.gradient)) &&
                                   add_to(&s->gradient, weft_mul(o->of_gain, o->normal)))) &&
           (o->of_bias == NULL || add_to(&s->gradient, weft_expand_beside(o->of_bias, layout)));
}

/* Where the statistics are inputs a counts by itself; else also by them: rstd' = -rstd^3 centred / count, mean' = 1 / count. */
static bool give_statistics(const weft_gradient *of, const operands *o, const slopes *s, bool given)
{
    weft_tensor *direct = weft_mul(s->normal, o->rstd), *by_rstd = sum_of(o, weft_mul(s->normal, o->centred));
    if (direct == NULL || by_rstd == NULL || (s->rstd != NULL && !add_to(&by_rstd, s->rstd))) {
        return false;
    }
    int rstd = o->n.centred ? 3 : 2;
    if (given) {
        return (!weft_gradient_wanted(of, 0) || weft_give_gradient(of, 0, direct)) &&
               (!weft_gradient_wanted(of, rstd) || weft_give_gradient(of, rstd, by_rstd)) &&
               (!o->n.centred || !weft_gradient_wanted(of, 2) ||
                weft_give_gradient(of, 2, weft_neg(sum_of(o, direct))));
    }
    weft_tensor *cube = weft_mul(o->rstd, weft_square(o->rstd));
    weft_tensor *own = o->n.centred ? weft_sub(direct, mean_of(o, direct)) : direct;
    weft_tensor *through = weft_mul(o->centred, weft_scale(weft_mul(by_rstd, cube), -1 / o->count));
    return !weft_gradient_wanted(of, 0) || weft_give_gradient(of, 0, weft_add(own, through));
}

bool weft_gradients_of_norm_gradients(const weft_gradient *of)
{
    operands o;
    slopes s = { NULL, NULL, NULL, NULL };
    if (!take_operands(of, &o) || !find_slopes(&o, &s)) {
        return false;
    }
    int gain = of->call->num_inputs - 1;
    return (s.gradient == NULL || !weft_gradient_wanted(of, 1) || weft_give_gradient(of, 1, s.gradient)) &&
           (s.gain == NULL || !weft_gradient_wanted(of, gain) || weft_give_gradient(of, gain, s.gain)) &&
           (s.normal == NULL ||
            give_statistics(of, &o, &s,
                            of->call->attributes.numbers[WEFT_NORM_PARTS] & WEFT_NORM_HAS_STATISTICS));
}
