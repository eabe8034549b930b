/* Losses: nn.h. */
#include <string.h>

#include "sums.h"

#include "ops/backward.h"

CALLS(cross_entropy, out[0] = weft_cross_entropy(in[0], in[1], NULL))
CALLS(cross_entropy_backward, out[0] = weft_cross_entropy_backward(in[2], in[0], in[1]))
CALLS(cross_entropy_ex,
      out[0] = weft_cross_entropy(in[0], in[1],
                                     &(weft_cross_entropy_options){ 0, (weft_loss_reduction)whole[0], whole[1],
                                                                    real[0] }))
CALLS(cross_entropy_ex_backward,
      out[0] = weft_cross_entropy_ex_backward(in[2], in[0], in[1],
                                              &(weft_cross_entropy_options){ 0, (weft_loss_reduction)whole[0],
                                                                             whole[1], real[0] }))
CALLS(cross_entropy_with_log_sums,
      out[0] = weft_cross_entropy_with_log_sums(in[0], in[1],
                                                &(weft_cross_entropy_options){ 0, (weft_loss_reduction)whole[0], whole[1],
                                                                               real[0] },
                                                &out[1]))
CALLS(cross_entropy_backward_with_log_sums,
      out[0] = weft_cross_entropy_backward_with_log_sums(in[2], in[0], in[1], in[3],
                                                         &(weft_cross_entropy_options){ 0, (weft_loss_reduction)whole[0],
                                                                                        whole[1], real[0] }))
CALLS(nll, out[0] = weft_nll(in[0], in[1], whole[1], (weft_loss_reduction)whole[0]))
CALLS(nll_backward, out[0] = weft_nll_backward(in[2], in[0], in[1], whole[1], (weft_loss_reduction)whole[0]))
CALLS(mse, out[0] = weft_mse(in[0], in[1], (weft_loss_reduction)whole[0]))
CALLS(mse_backward, out[0] = weft_mse_backward(in[2], in[0], in[1], (weft_loss_reduction)whole[0]))

/* ---- of rows with a target ----------------------------------------------------------------------------- */

/* A loss of logits, or of log-probabilities; with options; with log-sums. */
typedef struct loss {
    bool picks, extended, backward, keeps;
} loss;

static const loss details_cross_entropy = { false, false, false };
static const loss details_cross_entropy_backward = { false, false, true };
static const loss details_cross_entropy_ex = { false, true, false };
static const loss details_cross_entropy_ex_backward = { false, true, true };
static const loss details_cross_entropy_with_log_sums = { false, true, false, true };
static const loss details_cross_entropy_backward_with_log_sums = { false, true, true, true };
static const loss details_nll = { true, true, false }, details_nll_backward = { true, true, true };

static int choose_targets(maker *m, int logits)
{
    const dense *x = value_of(m, logits);
    return choose_value(m, &(wish){ .types = INDICES,
                                    .mesh = mesh_of(m, logits),
                                    .least = 1,
                                    .shape = x->shape,
                                    .kind = VALUES_INDEX,
                                    .limit = x->shape[1] });
}

static bool make_loss(maker *m, step *s)
{
    const loss *l = s->operation->details;
    int logits =
        choose_value(m, &(wish){ .types = FLOATS, .mesh = -1, .least = 2, .most = 2, .kind = VALUES_SMALL });
    if (logits == NO_VALUE || value_of(m, logits)->ndim != 2) {
        return false;
    }
    const dense *x = value_of(m, logits);
    int64_t reduction = l->extended ? below(m, 3) : WEFT_LOSS_MEAN,
            ignored = one_in(m, 2) ? -100 : below(m, x->shape[1] + 1);
    weft_dtype dtype = x->dtype;
    int targets = choose_targets(m, logits);
    int gradient =
        !l->backward || one_in(m, 3) || targets == NO_VALUE
            ? NO_VALUE
            : choose_like(m, logits, BIT(dtype), reduction == WEFT_LOSS_NONE, value_of(m, logits)->shape);
    *s = step_of(s->operation, l->backward ? 3 : 2, logits, targets, gradient);
    s->num_outputs = l->keeps && !l->backward ? 2 : 1;
    s->outputs[1] = NO_VALUE;
    s->num_wholes = 2;
    s->wholes[0] = reduction;
    s->wholes[1] = ignored;
    s->num_reals = 1;
    s->reals[0] = one_in(m, 2) ? 0 : (double)between(m, 0, 4) / 4;
    return targets != NO_VALUE;
}

/* The step that keeps the log-sums, and then its gradient. */
static bool make_loss_backward(maker *m, step *s)
{
    step forward = { .operation = operation_find("cross_entropy_with_log_sums") };
    if (!make_loss(m, &forward) || !add_step(m, &forward)) {
        return false;
    }
    int logits = forward.inputs[0];
    const dense *x = value_of(m, logits);
    bool each = forward.wholes[0] == WEFT_LOSS_NONE;
    int gradient = one_in(m, 3) ? NO_VALUE : choose_like(m, logits, BIT(x->dtype), each, x->shape);
    *s = step_of(s->operation, 4, logits, forward.inputs[1], gradient, forward.outputs[1]);
    s->num_wholes = 2;
    s->wholes[0] = forward.wholes[0];
    s->wholes[1] = forward.wholes[1];
    s->num_reals = 1;
    s->reals[0] = forward.reals[0];
    return true;
}

/* The rows of one call. */
typedef struct targets {
    const loss *l;
    const dense *x, *targets, *gradient, *log_sums; /* log_sums: of the forward pass, or NULL */
    int64_t rows, classes, ignored, counted; /* counted: rows in the mean */
    weft_loss_reduction reduction;
    double smoothing;
} targets;

static bool is_ignored(const targets *t, int64_t row)
{
    return t->l->extended && t->targets->at[row].whole == t->ignored;
}

/* The logarithm of the sum of a row's exponentials. */
static double log_sum(const targets *t, int64_t row)
{
    if (t->log_sums != NULL) {
        return t->log_sums->at[row].real;
    }
    const element *x = t->x->at + row * t->classes;
    double most = -(double)INFINITY, total = 0;
    for (int64_t c = 0; c < t->classes; c++) {
        most = x[c].real > most || x[c].real != x[c].real ? x[c].real : most;
    }
    for (int64_t c = 0; c < t->classes; c++) {
        total += exp(x[c].real - most);
    }
    return most == -(double)INFINITY ? most : most + log(total); /* of no class: the logarithm of 0 */
}

/* How far a row's log-sum may be off. */
static double log_sum_slack(const targets *t, int64_t row)
{
    double size = 0;
    for (int64_t c = 0; c < t->classes; c++) {
        size = fmax(size, fabs(t->x->at[row * t->classes + c].real));
    }
    return ((double)t->classes + 20 + 4 * size) * epsilon_of(t->x->dtype == WEFT_F64 ? WEFT_F64 : WEFT_F32);
}

/* A call may compute them anew (of sharded classes, say): they have to be those of the logits as they are now. */
static bool has_own_log_sums(const targets *t)
{
    targets own = *t;
    own.log_sums = NULL;
    for (int64_t row = 0; row < t->rows; row++) {
        double given = log_sum(t, row), found = log_sum(&own, row);
        if (isfinite(given) && isfinite(found) && fabs(given - found) > 2 * log_sum_slack(t, row)) {
            return false;
        }
    }
    return true;
}

static bool find_targets(scene *s, targets *t)
{
    const loss *l = s->step->operation->details;
    *t = (targets){ .l = l, .x = s->in[0], .targets = s->in[1], .gradient = l->backward ? s->in[2] : NULL };
    if (t->x == NULL || t->targets == NULL || t->x->ndim != 2 || !is_floating(t->x->dtype) ||
        t->targets->ndim != 1 || !(INDICES & BIT(t->targets->dtype)) ||
        t->targets->shape[0] != t->x->shape[0] ||
        (l->extended && (s->step->num_wholes < 2 || s->step->num_reals < 1))) {
        return false;
    }
    t->rows = t->x->shape[0];
    t->classes = t->x->shape[1];
    t->reduction = l->extended ? (weft_loss_reduction)s->step->wholes[0] : WEFT_LOSS_MEAN;
    t->ignored = l->extended ? s->step->wholes[1] : 0;
    t->smoothing = l->extended && !l->picks ? s->step->reals[0] : 0;
    if ((t->rows > 0 && t->classes == 0) || t->smoothing < 0 || t->smoothing > 1) {
        return false;
    }
    for (int64_t row = 0; row < t->rows; row++) {
        int64_t target = t->targets->at[row].whole;
        t->counted += !is_ignored(t, row);
        if (!is_ignored(t, row) && (target < 0 || target >= t->classes)) {
            return false;
        }
    }
    bool each = t->reduction == WEFT_LOSS_NONE;
    if (l->backward && l->keeps) {
        t->log_sums = s->in[3];
        if (t->log_sums == NULL || t->log_sums->dtype != WEFT_F64 || t->log_sums->ndim != 1 ||
            t->log_sums->shape[0] != t->rows || !has_own_log_sums(t)) {
            return false;
        }
    }
    return t->gradient == NULL || (t->gradient->dtype == t->x->dtype && t->gradient->ndim == each &&
                                   (!each || t->gradient->shape[0] == t->rows));
}

/* The loss of a row; *mass: sum of the magnitudes of its terms. */
static double loss_of_row(const targets *t, int64_t row, double *mass)
{
    const element *x = t->x->at + row * t->classes;
    int64_t target = t->targets->at[row].whole;
    if (t->l->picks) {
        *mass = mass_at(t->x, row * t->classes + target);
        return -x[target].real;
    }
    double all = log_sum(t, row), spread = 0, size = fabs(all);
    for (int64_t c = 0; c < t->classes; c++) {
        spread += (all - x[c].real) / (double)t->classes;
        size = fmax(size, fabs(x[c].real));
    }
    *mass = 4 * size + 2;
    double own = (1 - t->smoothing) * (all - x[target].real);
    return t->smoothing == 0 ? own : own + t->smoothing * spread;
}

static void set_log_sums(scene *s, const targets *t)
{
    dense *out = scene_output(s, 1, WEFT_F64, 1, t->x->shape);
    for (int64_t row = 0; row < t->rows; row++) {
        set_number(s, out, row, log_sum(t, row), log_sum_slack(t, row));
    }
    distrust_vague(s, out);
    distrust_infinite(s, out);
}

static bool loss_forward(scene *s)
{
    targets t;
    if (!find_targets(s, &t)) {
        return false;
    }
    bool each = t.reduction == WEFT_LOSS_NONE;
    dense *out = scene_output(s, 0, t.x->dtype, each, t.x->shape);
    double total = 0, masses = 0, roundings = (double)(t.rows + t.classes) + 20;
    for (int64_t row = 0; row < t.rows; row++) {
        double mass = 0, own = is_ignored(&t, row) ? 0 : loss_of_row(&t, row, &mass);
        total += own;
        masses += mass;
        if (each) {
            set_linear(s, out, row, own, is_ignored(&t, row) ? 0 : roundings, mass);
        }
    }
    if (!each) {
        double count = t.reduction == WEFT_LOSS_MEAN ? (double)t.counted : 1;
        set_linear(s, out, 0, total / count, roundings, masses / (count == 0 ? 1 : count));
    }
    if (!t.l->picks) {
        distrust_vague(s, out);
    }
    distrust_infinite(s, out);
    if (t.l->keeps) {
        set_log_sums(s, &t);
    }
    return true;
}

static bool loss_backward(scene *s)
{
    targets t;
    if (!find_targets(s, &t)) {
        return false;
    }
    dense *out = scene_output(s, 0, t.x->dtype, 2, t.x->shape);
    double count = t.reduction == WEFT_LOSS_MEAN ? (double)t.counted : 1, roundings = (double)t.classes + 20;
    for (int64_t i = 0; i < out->count; i++) {
        int64_t row = i / t.classes, c = i % t.classes;
        bool own = t.targets->at[row].whole == c;
        if (is_ignored(&t, row) || (t.l->picks && !own)) {
            continue;
        }
        int64_t from = t.reduction == WEFT_LOSS_NONE ? row : 0;
        double gradient = t.gradient == NULL ? 1 : t.gradient->at[from].real;
        double size = t.gradient == NULL ? 1 : mass_at(t.gradient, from), x = t.x->at[i].real,
               all = t.l->picks ? 0 : log_sum(&t, row);
        double wanted = (1 - t.smoothing) * own + t.smoothing / (double)t.classes;
        double value = t.l->picks ? -(double)own : exp(x - all) - wanted;
        double growth = t.l->picks ? 0 : 2 * (fabs(x) + fabs(all));
        set_linear(s, out, i, gradient * value / count, roundings + growth,
                   size * (t.l->picks ? own : 1) / count);
        /* Infinity times a probability that underflows, or a difference that rounding makes 0, is NaN. */
        if (!isfinite(gradient / count) && fabs(value) <= (roundings + growth) * epsilon_of(out->dtype)) {
            dense_allow(s->arena, out, i, (double)INFINITY);
        }
    }
    distrust_vague(s, out);
    distrust_infinite(s, out);
    return true;
}

/* ---- squared distances --------------------------------------------------------------------------------- */

static bool make_mse(maker *m, step *s)
{
    bool backward = s->operation->name[3] != '\0';
    int a = choose_value(
        m, &(wish){ .types = FLOATS, .mesh = -1, .most = MAX_TENSOR_DIMS, .kind = VALUES_SMALL });
    if (a == NO_VALUE) {
        return false;
    }
    const dense *x = value_of(m, a);
    weft_dtype dtype = x->dtype;
    int64_t reduction = below(m, 3);
    int ndim = x->ndim, b = choose_like(m, a, BIT(dtype), ndim, x->shape);
    int gradient =
        !backward || one_in(m, 3) || b == NO_VALUE
            ? NO_VALUE
            : choose_like(m, a, BIT(dtype), reduction == WEFT_LOSS_NONE ? ndim : 0, value_of(m, a)->shape);
    *s = step_of(s->operation, backward ? 3 : 2, a, b, gradient);
    s->num_wholes = 1;
    s->wholes[0] = reduction;
    return b != NO_VALUE;
}

static bool are_alike(const dense *a, const dense *b)
{
    return a != NULL && b != NULL && a->dtype == b->dtype && is_floating(a->dtype) && a->ndim == b->ndim &&
           memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof(a->shape[0])) == 0;
}

static bool mse(scene *s)
{
    const dense *a = s->in[0], *b = s->in[1];
    weft_loss_reduction reduction = (weft_loss_reduction)whole_of_call(s, 0);
    if (!are_alike(a, b)) {
        return false;
    }
    bool each = reduction == WEFT_LOSS_NONE;
    dense *out = scene_output(s, 0, a->dtype, each ? a->ndim : 0, a->shape);
    double total = 0, masses = 0, count = reduction == WEFT_LOSS_MEAN ? (double)a->count : 1;
    for (int64_t i = 0; i < a->count; i++) {
        double distance = a->at[i].real - b->at[i].real, size = fabs(a->at[i].real) + fabs(b->at[i].real);
        total += distance * distance;
        masses += distance * distance + size * fabs(distance);
        if (each) {
            set_number(s, out, i, distance * distance,
                       4 * epsilon_of(a->dtype) * (distance * distance + size * fabs(distance)));
        }
    }
    if (!each) {
        set_number(s, out, 0, total / count,
                   ((double)a->count + 10) * epsilon_of(a->dtype) * masses / (count == 0 ? 1 : count));
        out->mass = masses;
    }
    distrust_vague(s, out);
    return true;
}

static bool mse_backward(scene *s)
{
    const dense *a = s->in[0], *b = s->in[1], *gradient = s->in[2];
    weft_loss_reduction reduction = (weft_loss_reduction)whole_of_call(s, 0);
    bool each = reduction == WEFT_LOSS_NONE;
    if (!are_alike(a, b) ||
        (gradient != NULL &&
         (each ? !are_alike(a, gradient) : gradient->ndim != 0 || gradient->dtype != a->dtype))) {
        return false;
    }
    dense *out = scene_output(s, 0, a->dtype, a->ndim, a->shape);
    double scale = 2 / (reduction == WEFT_LOSS_MEAN ? (double)a->count : 1);
    for (int64_t i = 0; i < a->count; i++) {
        double own = gradient == NULL ? 1 : gradient->at[each ? i : 0].real;
        double size = (mass_at(a, i) + mass_at(b, i)) * fabs(own) * scale;
        set_linear(s, out, i, scale * own * (a->at[i].real - b->at[i].real), 6, size);
    }
    if (gradient != NULL) {
        distrust_vague(s, out);
    }
    distrust_infinite(s, out);
    return true;
}

/* ---- the table ----------------------------------------------------------------------------------------- */

#define LOSS(name_, reference_)                                                                              \
    ROW(name_, make_loss, reference_, .details = &details_##name_, .flags = MAY_BE_PARTIAL, .weight = 5)

const operation loss_calls[] = {
    LOSS(cross_entropy, loss_forward),
    LOSS(cross_entropy_backward, loss_backward),
    LOSS(cross_entropy_ex, loss_forward),
    LOSS(cross_entropy_ex_backward, loss_backward),
    LOSS(cross_entropy_with_log_sums, loss_forward),
    ROW(cross_entropy_backward_with_log_sums, make_loss_backward, loss_backward,
        .details = &details_cross_entropy_backward_with_log_sums, .flags = MAY_BE_PARTIAL, .weight = 5),
    LOSS(nll, loss_forward),
    LOSS(nll_backward, loss_backward),
    ROW(mse, make_mse, mse, .flags = MAY_BE_PARTIAL, .weight = 5),
    ROW(mse_backward, make_mse, mse_backward, .flags = MAY_BE_PARTIAL, .weight = 5),
    { .name = NULL },
};
