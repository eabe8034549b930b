/* Losses of pairs of elements: losses.h; cross-entropy with weights of classes, and of probabilities: nn.h. */
#include <string.h>

#include "sums.h"

CALLS(l1, out[0] = weft_l1(in[0], in[1], (weft_loss_reduction)whole[0]))
CALLS(huber, out[0] = weft_huber(in[0], in[1], real[0], (weft_loss_reduction)whole[0]))
CALLS(smooth_l1, out[0] = weft_smooth_l1(in[0], in[1], real[0], (weft_loss_reduction)whole[0]))
CALLS(binary_cross_entropy, out[0] = weft_binary_cross_entropy(in[0], in[1], in[2], (weft_loss_reduction)whole[0]))
CALLS(binary_cross_entropy_with_logits,
      out[0] = weft_binary_cross_entropy_with_logits(in[0], in[1], in[2], in[3], (weft_loss_reduction)whole[0]))
CALLS(kl_div, out[0] = weft_kl_div(in[0], in[1], false, (weft_loss_reduction)whole[0]))
CALLS(kl_div_of_logs, out[0] = weft_kl_div(in[0], in[1], true, (weft_loss_reduction)whole[0]))

CALLS(weighted_cross_entropy,
      out[0] = weft_cross_entropy(in[0], in[1],
                                     &(weft_cross_entropy_options){ 0, (weft_loss_reduction)whole[0], whole[1], real[0], in[2] }))
CALLS(soft_cross_entropy,
      out[0] = weft_cross_entropy(in[0], in[1],
                                     &(weft_cross_entropy_options){ 0, (weft_loss_reduction)whole[0], -100, real[0], in[2] }))

/* ---- pairs of elements --------------------------------------------------------------------------------- */

/* The loss of one element; `scale`: what its rounding errors are measured by. */
typedef double element_loss(double a, double b, double ones, double bend, double *scale);

typedef struct pair_loss {
    element_loss *of;
    value_kind first, second;
    int weights; /* inputs after the two */
} pair_loss;

static double distance(double a, double b, double ones, double bend, double *scale)
{
    (void)ones, (void)bend;
    *scale = fabs(a) + fabs(b);
    return fabs(a - b);
}

static double huber(double a, double b, double ones, double bend, double *scale)
{
    double d = distance(a, b, ones, bend, scale);
    *scale *= fmin(d, bend) + bend * 0x1p-8;
    return d < bend ? d * d / 2 : bend * (d - bend / 2);
}

static double smooth_l1(double a, double b, double ones, double bend, double *scale)
{
    double value = huber(a, b, ones, bend, scale);
    *scale /= bend;
    return value / bend;
}

static double binary_cross_entropy(double a, double b, double ones, double bend, double *scale)
{
    (void)ones, (void)bend;
    double value = (b - 1) * fmax(log1p(-a), -100) - b * fmax(log(a), -100);
    *scale = value;
    return value;
}

static double logit_cross_entropy(double a, double b, double ones, double bend, double *scale)
{
    (void)bend;
    double rest = log1p(exp(-fabs(a))) + (a < 0 ? -a : 0);
    *scale = (2 + fabs(ones)) * (fabs(a) + rest);
    return (1 - b) * a + (1 + (ones - 1) * b) * rest;
}

static double kl_div(double a, double b, double ones, double bend, double *scale)
{
    (void)ones, (void)bend;
    double own = b == 0 ? 0 : b * log(b);
    *scale = fabs(own) + fabs(b * a);
    return own - b * a;
}

static double kl_div_of_logs(double a, double b, double ones, double bend, double *scale)
{
    (void)ones, (void)bend;
    *scale = exp(b) * (fabs(a) + fabs(b)) * (4 + fabs(b));
    return exp(b) * (b - a);
}

static const pair_loss details_l1 = { distance, VALUES_SMALL, VALUES_SMALL, 0 };
static const pair_loss details_huber = { huber, VALUES_SMALL, VALUES_SMALL, 0 };
static const pair_loss details_smooth_l1 = { smooth_l1, VALUES_SMALL, VALUES_SMALL, 0 };
static const pair_loss details_binary_cross_entropy = { binary_cross_entropy, VALUES_UNIT, VALUES_UNIT, 1 };
static const pair_loss details_binary_cross_entropy_with_logits = { logit_cross_entropy, VALUES_SMALL, VALUES_UNIT, 2 };
static const pair_loss details_kl_div = { kl_div, VALUES_SMALL, VALUES_UNIT, 0 };
static const pair_loss details_kl_div_of_logs = { kl_div_of_logs, VALUES_SMALL, VALUES_SMALL, 0 };

/* Of the shape of a, or of its last dimension; or none. */
static int choose_weight(maker *m, int a, weft_dtype dtype)
{
    const dense *x = value_of(m, a);
    bool whole = x->ndim == 0 || one_in(m, 2);
    return one_in(m, 2) ? NO_VALUE
                        : choose_value(m, &(wish){ .types = BIT(dtype),
                                                   .mesh = mesh_of(m, a),
                                                   .least = whole ? x->ndim : 1,
                                                   .shape = whole ? x->shape : x->shape + x->ndim - 1,
                                                   .kind = VALUES_SMALL });
}

static bool make_loss(maker *m, step *s)
{
    const pair_loss *l = s->operation->details;
    int a = choose_value(m, &(wish){ .types = FLOATS, .mesh = -1, .most = MAX_TENSOR_DIMS, .kind = l->first });
    if (a == NO_VALUE) {
        return false;
    }
    weft_dtype dtype = value_of(m, a)->dtype;
    int b = choose_value(m, &(wish){ .types = BIT(dtype),
                                     .mesh = mesh_of(m, a),
                                     .least = value_of(m, a)->ndim,
                                     .shape = value_of(m, a)->shape,
                                     .kind = l->second });
    int weights[2] = { NO_VALUE, NO_VALUE };
    for (int i = 0; i < l->weights && b != NO_VALUE; i++) {
        weights[i] = choose_weight(m, a, dtype);
    }
    *s = step_of(s->operation, 2 + l->weights, a, b, weights[0], weights[1]);
    s->num_wholes = 1;
    s->wholes[0] = below(m, 3);
    s->num_reals = 1;
    s->reals[0] = 0.5 * (double)between(m, 1, 4);
    return b != NO_VALUE;
}

static bool are_alike(const dense *a, const dense *b)
{
    return a != NULL && b != NULL && a->dtype == b->dtype && is_floating(a->dtype) && a->ndim == b->ndim &&
           memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof(a->shape[0])) == 0;
}

/* No weight, or one as choose_weight() makes. */
static bool is_weight(const dense *a, const dense *weight)
{
    return weight == NULL || are_alike(a, weight) ||
           (weight->dtype == a->dtype && weight->ndim == 1 && a->ndim > 0 && weight->shape[0] == a->shape[a->ndim - 1]);
}

static double weight_at(const dense *weight, int64_t i)
{
    return weight == NULL ? 1 : weight->at[i % weight->count].real;
}

static bool are_units(const dense *x, value_kind kind)
{
    bool units = true;
    for (int64_t i = 0; i < x->count && kind == VALUES_UNIT; i++) {
        units &= x->at[i].real >= 0 && x->at[i].real <= 1;
    }
    return units;
}

static bool reference(scene *s)
{
    const pair_loss *l = s->step->operation->details;
    const dense *a = s->in[0], *b = s->in[1], *weight = l->weights > 0 ? s->in[2] : NULL,
                *ones = l->weights > 1 ? s->in[3] : NULL;
    if (!are_alike(a, b) || !is_weight(a, weight) || !is_weight(a, ones) || !are_units(a, l->first) ||
        !are_units(b, l->second) || s->step->num_reals < 1 || !(s->step->reals[0] > 0 && s->step->reals[0] < 100)) {
        return false;
    }
    weft_loss_reduction reduction = (weft_loss_reduction)whole_of_call(s, 0);
    bool each = reduction == WEFT_LOSS_NONE;
    dense *out = scene_output(s, 0, a->dtype, each ? a->ndim : 0, a->shape);
    double total = 0, scales = 0, count = reduction == WEFT_LOSS_MEAN ? (double)a->count : 1;
    for (int64_t i = 0; i < a->count; i++) {
        if (s->program->gradients && l->of == binary_cross_entropy && (a->at[i].real == 0 || a->at[i].real == 1)) {
            return false; /* the gradient of the targets is infinite, as PyTorch's: its logarithms are not bounded */
        }
        double scale, factor = weight_at(weight, i), most = weight == NULL ? 1 : mass_at(weight, i % weight->count);
        double value = factor * l->of(a->at[i].real, b->at[i].real, weight_at(ones, i), s->step->reals[0], &scale);
        total += value;
        scales += most * scale;
        if (each) {
            set_number(s, out, i, value, 16 * epsilon_of(a->dtype) * most * scale);
        }
    }
    if (!each) {
        set_number(s, out, 0, total / count,
                   ((double)a->count + 20) * epsilon_of(a->dtype) * scales / (count == 0 ? 1 : count));
        out->mass = scales;
    }
    distrust_vague(s, out);
    return true;
}

/* ---- classes ------------------------------------------------------------------------------------------- */

static const bool details_weighted_cross_entropy = false, details_soft_cross_entropy = true;

static bool is_soft(const operation *o)
{
    return *(const bool *)o->details;
}

static bool make_class_loss(maker *m, step *s)
{
    bool soft = is_soft(s->operation);
    int logits =
        choose_value(m, &(wish){ .types = FLOATS, .mesh = -1, .least = 2, .most = 2, .kind = VALUES_SMALL });
    if (logits == NO_VALUE || value_of(m, logits)->ndim != 2) {
        return false;
    }
    const dense *x = value_of(m, logits);
    int64_t classes = x->shape[1], ignored = one_in(m, 2) ? -100 : below(m, classes + 1);
    weft_dtype dtype = x->dtype;
    int targets = soft ? choose_value(m, &(wish){ .types = BIT(dtype), .mesh = mesh_of(m, logits), .least = 2,
                                                  .shape = x->shape, .kind = VALUES_UNIT })
                       : choose_value(m, &(wish){ .types = INDICES, .mesh = mesh_of(m, logits), .least = 1,
                                                  .shape = x->shape, .kind = VALUES_INDEX, .limit = classes });
    int weight = targets == NO_VALUE || (soft && one_in(m, 2))
                     ? NO_VALUE
                     : choose_value(m, &(wish){ .types = BIT(dtype), .mesh = mesh_of(m, logits), .least = 1,
                                                .shape = &classes, .kind = VALUES_POSITIVE });
    *s = step_of(s->operation, 3, logits, targets, weight);
    s->num_wholes = 2;
    s->wholes[0] = below(m, 3);
    s->wholes[1] = ignored;
    s->num_reals = 1;
    s->reals[0] = one_in(m, 2) ? 0 : (double)between(m, 0, 4) / 4;
    return targets != NO_VALUE && (soft || weight != NO_VALUE);
}

/* Sums of a row: of its loss, of the terms' magnitudes; and its weight in a mean. */
typedef struct row_loss {
    double value, scale, count;
} row_loss;

static row_loss loss_of_row(const scene *s, int64_t row, int64_t classes)
{
    const element *x = s->in[0]->at + row * classes;
    const dense *targets = s->in[1], *weight = s->in[2];
    bool soft = is_soft(s->step->operation);
    double most = -(double)INFINITY, sum = 0, smoothing = s->step->reals[0];
    int64_t target = soft ? -1 : targets->at[row].whole;
    row_loss loss = { .count = soft ? 1 : weight->at[target].real };
    for (int64_t c = 0; c < classes; c++) {
        most = fmax(most, x[c].real);
    }
    for (int64_t c = 0; c < classes; c++) {
        sum += exp(x[c].real - most);
    }
    for (int64_t c = 0; c < classes; c++) {
        double probability = soft ? targets->at[row * classes + c].real : c == target ? 1 : 0;
        probability = probability * (1 - smoothing) + smoothing / (double)classes;
        double factor = probability * (weight == NULL ? 1 : weight->at[c].real);
        loss.value += factor * (most + log(sum) - x[c].real);
        loss.scale += factor * (4 * (fabs(most) + log(sum) + fabs(x[c].real)) + 2);
    }
    return loss;
}

static bool are_class_losses(scene *s)
{
    const dense *x = s->in[0], *targets = s->in[1], *weight = s->in[2];
    bool soft = is_soft(s->step->operation);
    if (x == NULL || targets == NULL || x->ndim != 2 || !is_floating(x->dtype) || s->step->num_wholes < 2 ||
        s->step->num_reals < 1 || !(s->step->reals[0] >= 0 && s->step->reals[0] <= 1) ||
        (x->shape[0] > 0 && x->shape[1] == 0)) {
        return false;
    }
    bool weighs = weight != NULL && weight->ndim == 1 && weight->shape[0] == x->shape[1] && weight->dtype == x->dtype;
    for (int64_t c = 0; weighs && c < weight->count; c++) {
        weighs = weight->at[c].real > 0.1 && weight->at[c].real < 100;
    }
    bool right = soft ? are_alike(x, targets) && are_units(targets, VALUES_UNIT)
                      : targets->ndim == 1 && targets->shape[0] == x->shape[0] && (INDICES & BIT(targets->dtype));
    for (int64_t row = 0; right && !soft && row < targets->count; row++) {
        int64_t target = targets->at[row].whole;
        right = target == s->step->wholes[1] || (target >= 0 && target < x->shape[1]);
    }
    return right && (weighs || (soft && weight == NULL));
}

static bool class_loss(scene *s)
{
    if (!are_class_losses(s)) {
        return false;
    }
    const dense *x = s->in[0], *targets = s->in[1];
    weft_loss_reduction reduction = (weft_loss_reduction)whole_of_call(s, 0);
    bool soft = is_soft(s->step->operation), each = reduction == WEFT_LOSS_NONE;
    dense *out = scene_output(s, 0, x->dtype, each, x->shape);
    double total = 0, scale = 0, count = 0, roundings = (double)(x->shape[0] + x->shape[1]) + 30;
    for (int64_t row = 0; row < x->shape[0]; row++) {
        bool ignored = !soft && targets->at[row].whole == s->step->wholes[1];
        row_loss loss = ignored ? (row_loss){ 0 } : loss_of_row(s, row, x->shape[1]);
        total += loss.value;
        scale += loss.scale;
        count += loss.count;
        if (each) {
            set_number(s, out, row, loss.value, roundings * epsilon_of(x->dtype) * loss.scale);
        }
    }
    if (!each) {
        count = reduction == WEFT_LOSS_MEAN ? count : 1;
        set_number(s, out, 0, total / count, roundings * epsilon_of(x->dtype) * scale / (count == 0 ? 1 : count));
        out->mass = scale;
    }
    distrust_vague(s, out);
    return true;
}

/* ---- the table ----------------------------------------------------------------------------------------- */

#define LOSS(name_)                                                                                          \
    ROW(name_, make_loss, reference, .details = &details_##name_, .flags = MAY_BE_PARTIAL, .weight = 3)

const operation element_loss_calls[] = {
    LOSS(l1),
    LOSS(huber),
    LOSS(smooth_l1),
    LOSS(binary_cross_entropy),
    LOSS(binary_cross_entropy_with_logits),
    LOSS(kl_div),
    LOSS(kl_div_of_logs),
    ROW(weighted_cross_entropy, make_class_loss, class_loss, .details = &details_weighted_cross_entropy,
        .flags = MAY_BE_PARTIAL, .weight = 3),
    ROW(soft_cross_entropy, make_class_loss, class_loss, .details = &details_soft_cross_entropy,
        .flags = MAY_BE_PARTIAL, .weight = 3),
    { .name = NULL },
};
