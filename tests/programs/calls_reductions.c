/* Reductions, and the places of the largest and smallest values: reductions.h, and some of indexing.h. */
#include <stdlib.h>
#include <string.h>

#include "sums.h"

/* ---- which elements come together ---------------------------------------------------------------------- */

/* Over one dimension (wholes[0]), over several (the list), over all. */
typedef enum form { ONE, SEVERAL, ALL } form;

/* The elements of one result, in row-major order. */
typedef struct group {
    scene *scene;
    const dense *in;
    dense *out;
    int64_t at; /* of the result */
    int64_t count;
    const int64_t *members; /* of the input */
    double unit;            /* of the input */
    double number;          /* the call's: a power, a correction */
} group;

typedef struct reduction {
    form form;
    unsigned types;
    bool needs_elements;
    enum { SUMMED, SAME, TRUTH, PLACE } type;
    void (*reduce)(const group *g);
    bool linear; /* addends pass */
} reduction;

/* Bit d: dimension d is reduced; -1: there is no such dimension. */
static int mask_of(const scene *s, const reduction *r)
{
    const dense *x = s->in[0];
    int mask = 0, count = r->form == ONE ? 1 : r->form == ALL ? 0 : s->step->ndim;
    for (int i = 0; i < count; i++) {
        int dim = dim_in(r->form == ONE ? whole_of_call(s, 0) : s->step->shape[i], x->ndim);
        if (dim < 0 || (mask >> dim & 1)) {
            return -1;
        }
        mask |= 1 << dim;
    }
    return count == 0 ? (1 << x->ndim) - 1 : mask;
}

static weft_dtype type_of_result(const reduction *r, weft_dtype dtype)
{
    return r->type == TRUTH                           ? WEFT_BOOL
           : r->type == PLACE                         ? WEFT_I64
           : r->type == SUMMED && !is_floating(dtype) ? WEFT_I64
                                                      : dtype;
}

/* The result that element `at` of the input belongs to. */
static int64_t result_of(const dense *x, int mask, const dense *out, bool keeps, const int64_t at[])
{
    int64_t to[WEFT_MAX_DIMS];
    int ndim = 0;
    for (int d = 0; d < x->ndim; d++) {
        if (!(mask >> d & 1) || keeps) {
            to[ndim++] = mask >> d & 1 ? 0 : at[d];
        }
    }
    return ravel(out->ndim, out->shape, to);
}

static void reduce_groups(scene *s, const reduction *r, int mask, bool keeps, dense *out)
{
    const dense *x = s->in[0];
    int64_t at[WEFT_MAX_DIMS], *members = malloc((size_t)(x->count + 1) * sizeof(*members));
    int64_t *ends = calloc((size_t)out->count + 2, sizeof(*ends));
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t i = 0; i < x->count; i++) {
            unravel(x->ndim, x->shape, i, at);
            int64_t to = result_of(x, mask, out, keeps, at);
            if (pass == 0) {
                ends[to + 2]++;
            } else {
                members[ends[to + 1]++] = i;
            }
        }
        for (int64_t k = 2; k < out->count + 2 && pass == 0; k++) {
            ends[k] += ends[k - 1];
        }
    }
    double unit = dense_unit(x);
    out->unit = unit;
    for (int64_t k = 0; k < out->count; k++) {
        r->reduce(&(group){ s, x, out, k, ends[k + 1] - ends[k], members + ends[k], unit,
                            s->step->num_reals > 0 ? s->step->reals[0] : 0 });
    }
    free(members);
    free(ends);
}

static bool reduced(scene *s)
{
    const reduction *r = s->step->operation->details;
    const dense *x = s->in[0];
    int mask = x == NULL || !(r->types & BIT(x->dtype)) ? -1 : mask_of(s, r), ndim = 0;
    bool keeps = whole_of_call(s, 1) != 0;
    int64_t shape[WEFT_MAX_DIMS];
    for (int d = 0; mask >= 0 && d < x->ndim; d++) {
        bool goes = mask >> d & 1;
        if (goes && r->needs_elements && x->shape[d] == 0) {
            return false;
        }
        if (!goes || keeps) {
            shape[ndim++] = goes ? 1 : x->shape[d];
        }
    }
    if (mask < 0) {
        return false;
    }
    dense *out = scene_output(s, 0, type_of_result(r, x->dtype), ndim, shape);
    reduce_groups(s, r, mask, keeps, out);
    if (!r->linear) {
        distrust_vague(s, out);
    }
    return true;
}

/* ---- what becomes of them ------------------------------------------------------------------------------ */

static double number_at(const group *g, int64_t i)
{
    return number_of(g->in->dtype, g->in->at[g->members[i]]);
}

/* The sum of |x|, also of the addends that a Partial x is made of. */
static double mass_of(const group *g)
{
    double mass = 0;
    for (int64_t i = 0; i < g->count; i++) {
        mass += mass_at(g->in, g->members[i]);
    }
    return mass;
}

static void add_up(const group *g)
{
    int64_t whole = 0;
    double real = 0;
    for (int64_t i = 0; i < g->count; i++) {
        whole = (int64_t)((uint64_t)whole + (uint64_t)g->in->at[g->members[i]].whole);
        real += is_floating(g->in->dtype) ? number_at(g, i) : 0;
    }
    if (is_floating(g->in->dtype)) {
        set_sum(g->scene, g->out, g->at, real, g->count, mass_of(g), g->unit);
    } else {
        g->out->at[g->at].whole = whole;
    }
}

static bool is_power_of_two(int64_t n)
{
    return n > 0 && (n & (n - 1)) == 0;
}

/* Each part of the sum is multiplied by 1 / n, which is exact for few n. */
static void average(const group *g)
{
    double n = (double)g->count, total = 0;
    for (int64_t i = 0; i < g->count; i++) {
        total += number_at(g, i);
    }
    set_sum(g->scene, g->out, g->at, g->count == 0 ? (double)NAN : total / n, g->count, mass_of(g) / n,
            is_power_of_two(g->count) ? g->unit / n : 0);
    g->out->unit = 0;
}

static void multiply(const group *g)
{
    int64_t whole = 1;
    double real = 1, most = 1, least = 1;
    for (int64_t i = 0; i < g->count; i++) {
        whole = (int64_t)((uint64_t)whole * (uint64_t)g->in->at[g->members[i]].whole);
        if (is_floating(g->in->dtype)) {
            double factor = fabs(number_at(g, i));
            real *= number_at(g, i);
            most *= factor > 1 && isfinite(factor) ? factor : 1;
            least *= factor < 1 && factor > 0 ? factor : 1;
        }
    }
    if (is_floating(g->in->dtype)) {
        set_product_of(g->scene, g->out, g->at, g->in, real, most, least, g->unit == 1, g->count,
                       epsilon_of(g->in->dtype));
    } else {
        g->out->at[g->at].whole = whole;
    }
}

/* Whether a is beyond b: NaN is beyond all. */
static bool is_beyond(const group *g, int64_t a, int64_t b, bool largest)
{
    weft_dtype dtype = g->in->dtype;
    element x = g->in->at[g->members[a]], y = g->in->at[g->members[b]];
    if (!is_floating(dtype)) {
        return largest ? x.whole > y.whole : x.whole < y.whole;
    }
    return y.real == y.real && (x.real != x.real || (largest ? x.real > y.real : x.real < y.real));
}

static int64_t farthest(const group *g, bool largest)
{
    int64_t found = 0;
    for (int64_t i = 1; i < g->count; i++) {
        found = is_beyond(g, i, found, largest) ? i : found;
    }
    return found;
}

static void take(const group *g, bool largest)
{
    g->out->at[g->at] = g->in->at[g->members[farthest(g, largest)]];
}

static void take_largest(const group *g)
{
    take(g, true);
}

static void take_smallest(const group *g)
{
    take(g, false);
}

static void place_largest(const group *g)
{
    g->out->at[g->at].whole = farthest(g, true);
}

static void place_smallest(const group *g)
{
    g->out->at[g->at].whole = farthest(g, false);
}

static void count_true(const group *g, bool wanted)
{
    int64_t found = 0;
    for (int64_t i = 0; i < g->count; i++) {
        found += (number_at(g, i) != 0) == wanted;
    }
    g->out->at[g->at].whole = wanted ? found > 0 : found == 0;
}

static void is_any(const group *g)
{
    count_true(g, true);
}

static void is_every(const group *g)
{
    count_true(g, false);
}

/* (sum |x|^p)^(1/p) */
static void norm(const group *g)
{
    double sum = 0, largest = 0, p = g->number, epsilon = epsilon_of(g->in->dtype), result;
    for (int64_t i = 0; i < g->count; i++) {
        double x = fabs(number_at(g, i));
        largest = x > largest || x != x ? x : largest;
        sum += p == 0 ? x != 0 : isinf(p) ? 0 : pow(x, p);
    }
    result = isinf(p) ? largest : p == 0 || p == 1 ? sum : pow(sum, 1 / p);
    if (isinf(p) || p == 0) {
        set_number(g->scene, g->out, g->at, result, 0);
    } else if (p == 1 && !g->in->partial) {
        set_sum(g->scene, g->out, g->at, result, g->count, sum, g->unit);
    } else {
        bool wild = isfinite(sum) && (sum > 1e30 || (sum < 1e-30 && sum > 0));
        double slack = ((double)g->count + 30) * epsilon * result * (1 + 1 / p);
        set_number(g->scene, g->out, g->at, result, wild ? (double)INFINITY : slack);
    }
    g->out->unit = 0;
}

/* The variance, or its root. */
static void spread(const group *g, bool root)
{
    double n = (double)g->count, mean = 0, squares = 0, distances = 0, largest = 0;
    double epsilon = epsilon_of(g->in->dtype), left = n > g->number ? n - g->number : 0;
    for (int64_t i = 0; i < g->count; i++) {
        mean += number_at(g, i) / n;
        largest = fmax(largest, fabs(number_at(g, i)));
    }
    for (int64_t i = 0; i < g->count; i++) {
        double distance = number_at(g, i) - mean;
        squares += distance * distance;
        distances += fabs(distance);
    }
    double error = n * epsilon * largest; /* of the mean */
    double slack = (n + 8) * epsilon * squares + 4 * error * distances + n * error * error;
    double result = g->count == 0 ? (double)NAN : squares / left;
    double off = left > 0 ? slack / left : 0;
    if (root) {
        result = sqrt(result);
        off = result > 0 ? fmin(sqrt(off), off / result) + 4 * epsilon * result : sqrt(off);
    }
    set_number(g->scene, g->out, g->at, result, off);
    /* Whether all values are equal cannot be told where their mean is rounded. */
    if (left == 0 && g->count > 0 && squares <= slack) {
        dense_allow(g->scene->arena, g->out, g->at, (double)INFINITY);
    }
    g->out->unit = 0;
}

static void variance(const group *g)
{
    spread(g, false);
}

static void deviation(const group *g)
{
    spread(g, true);
}

/* Their sum or mean without NaN. */
static void add_numbers(const group *g, bool averages)
{
    double total = 0, mass = 0, n = 0;
    for (int64_t i = 0; i < g->count; i++) {
        double x = number_at(g, i);
        total += x == x ? x : 0;
        mass += x == x ? mass_at(g->in, g->members[i]) : 0;
        n += x == x;
    }
    if (averages) {
        set_sum(g->scene, g->out, g->at, n > 0 ? total / n : (double)NAN, g->count + 2, n > 0 ? mass / n : 0, 0);
        g->out->unit = 0;
    } else {
        set_sum(g->scene, g->out, g->at, total, g->count, mass, g->unit);
    }
}

static void add_up_numbers(const group *g)
{
    if (is_floating(g->in->dtype)) {
        add_numbers(g, false);
    } else {
        add_up(g);
    }
}

static void average_numbers(const group *g)
{
    add_numbers(g, true);
}

static void log_of_sum(const group *g)
{
    double largest = g->count > 0 ? number_at(g, farthest(g, true)) : 0, sum = 0;
    double shift = isinf(largest) ? 0 : largest;
    for (int64_t i = 0; i < g->count; i++) {
        sum += exp(number_at(g, i) - shift);
    }
    double result = isinf(largest) ? largest : log(sum) + shift;
    double slack = epsilon_of(g->in->dtype) * ((double)g->count + 16 + 4 * fabs(shift) + fabs(result));
    set_number(g->scene, g->out, g->at, result, isfinite(slack) ? slack : 0);
    g->out->unit = 0;
}

/* ---- rows ---------------------------------------------------------------------------------------------- */

#define REDUCTION(name_, types_, needs_, type_, ...)                                                         \
    CALLS(name_, out[0] = weft_##name_(in[0], (int)whole[0], whole[1] != 0))                                 \
    CALLS(name_##_over, out[0] = weft_##name_(in[0], set_of_dims(ndim, dims), whole[1] != 0))                      \
    CALLS(name_##_all, out[0] = weft_##name_(in[0], WEFT_ALL_DIMS, whole[1] != 0))                           \
    static const reduction details_##name_ = { ONE, types_, needs_, type_, __VA_ARGS__ };                    \
    static const reduction details_##name_##_over = { SEVERAL, types_, needs_, type_, __VA_ARGS__ };         \
    static const reduction details_##name_##_all = { ALL, types_, needs_, type_, __VA_ARGS__ };

REDUCTION(sum, ALL_TYPES, false, SUMMED, add_up, true)
REDUCTION(prod, ALL_TYPES, false, SUMMED, multiply, false)
REDUCTION(mean, FLOATS, false, SAME, average, true)
REDUCTION(max, ALL_TYPES, true, SAME, take_largest, false)
REDUCTION(min, ALL_TYPES, true, SAME, take_smallest, false)
REDUCTION(any, ALL_TYPES, false, TRUTH, is_any, false)
REDUCTION(all, ALL_TYPES, false, TRUTH, is_every, false)

#define NUMBERED_REDUCTION(name_, reduce_)                                                                   \
    static const reduction details_##name_ = { ONE, FLOATS, false, SAME, reduce_ };                          \
    static const reduction details_##name_##_over = { SEVERAL, FLOATS, false, SAME, reduce_ };               \
    static const reduction details_##name_##_all = { ALL, FLOATS, false, SAME, reduce_ };

CALLS(norm, out[0] = weft_norm(in[0], real[0], (int)whole[0], whole[1] != 0))
CALLS(norm_all, out[0] = weft_norm(in[0], real[0], WEFT_ALL_DIMS, whole[1] != 0))
CALLS(norm_over, out[0] = weft_norm(in[0], real[0], set_of_dims(ndim, dims), whole[1] != 0))
NUMBERED_REDUCTION(norm, norm)
CALLS(var, out[0] = weft_var(in[0], (int)whole[0], real[0], whole[1] != 0))
CALLS(var_all, out[0] = weft_var(in[0], WEFT_ALL_DIMS, real[0], whole[1] != 0))
CALLS(var_over, out[0] = weft_var(in[0], set_of_dims(ndim, dims), real[0], whole[1] != 0))
NUMBERED_REDUCTION(var, variance)

CALLS(std, out[0] = weft_std(in[0], (int)whole[0], real[0], whole[1] != 0))
CALLS(std_all, out[0] = weft_std(in[0], WEFT_ALL_DIMS, real[0], whole[1] != 0))
CALLS(std_over, out[0] = weft_std(in[0], set_of_dims(ndim, dims), real[0], whole[1] != 0))
NUMBERED_REDUCTION(std, deviation)

REDUCTION(logsumexp, FLOATS, false, SAME, log_of_sum, false)
REDUCTION(nansum, ALL_TYPES, false, SUMMED, add_up_numbers, false)
REDUCTION(nanmean, FLOATS, false, SAME, average_numbers, false)

#define PLACES(name_, reduce_)                                                                               \
    CALLS(name_, out[0] = weft_##name_(in[0], (int)whole[0], whole[1] != 0))                                 \
    CALLS(name_##_all, out[0] = weft_##name_(in[0], WEFT_ALL_DIMS, whole[1] != 0))                           \
    static const reduction details_##name_ = { ONE, ALL_TYPES, true, PLACE, reduce_ };                       \
    static const reduction details_##name_##_all = { ALL, ALL_TYPES, true, PLACE, reduce_ };
PLACES(argmax, place_largest)
PLACES(argmin, place_smallest)

/* Their values alone. */
CALLS(max_with_indices, out[0] = weft_max_with_indices(in[0], (int)whole[0], whole[1] != 0, NULL))
CALLS(min_with_indices, out[0] = weft_min_with_indices(in[0], (int)whole[0], whole[1] != 0, NULL))

static bool make_reduction(maker *m, step *s)
{
    const reduction *r = s->operation->details;
    int a = choose_any(m, r->types, r->form == ONE ? 1 : 0, MAX_TENSOR_DIMS);
    if (a == NO_VALUE || (r->form == ONE && value_of(m, a)->ndim == 0)) {
        return false;
    }
    int ndim = value_of(m, a)->ndim;
    *s = step_of(s->operation, 1, a);
    s->num_wholes = 2;
    s->wholes[0] = ndim == 0 ? 0 : any_dim(m, ndim);
    s->wholes[1] = below(m, 2);
    for (int d = 0; d < ndim && r->form == SEVERAL; d++) {
        if (one_in(m, 2)) {
            s->shape[s->ndim++] = one_in(m, 3) ? d - ndim : d;
        }
    }
    return true;
}

static bool make_norm(maker *m, step *s)
{
    static const double powers[] = { 0, 1, 2, 2, 3, 0.5, 2.5, (double)INFINITY };
    bool made = make_reduction(m, s);
    s->num_reals = 1;
    s->reals[0] = powers[below(m, 8)];
    return made;
}

/* The largest of nothing is none. */
static bool normed(scene *s)
{
    bool empty = s->in[0] != NULL && s->in[0]->count == 0;
    return s->step->num_reals > 0 && s->step->reals[0] >= 0 && !(isinf(s->step->reals[0]) && empty) &&
           reduced(s);
}

static bool make_variance(maker *m, step *s)
{
    bool made = make_reduction(m, s);
    s->num_reals = 1;
    s->reals[0] = (double)between(m, -1, 2);
    return made;
}

static bool varied(scene *s)
{
    return s->step->num_reals > 0 && reduced(s);
}

#define FORMS(name_, make_, reference_, flags_)                                                              \
    ROW(name_, make_, reference_, .details = &details_##name_, .flags = flags_),                             \
        ROW(name_##_over, make_, reference_, .details = &details_##name_##_over, .flags = flags_),           \
        ROW(name_##_all, make_, reference_, .details = &details_##name_##_all, .flags = flags_)
#define PLACED(name_)                                                                                        \
    ROW(name_, make_reduction, reduced, .details = &details_##name_, .flags = MAY_BE_PARTIAL)

const operation reduction_calls[] = {
    FORMS(sum, make_reduction, reduced, MAY_BE_PARTIAL),
    FORMS(prod, make_reduction, reduced, MAY_BE_PARTIAL),
    FORMS(mean, make_reduction, reduced, MAY_BE_PARTIAL),
    FORMS(max, make_reduction, reduced, MAY_BE_PARTIAL),
    FORMS(min, make_reduction, reduced, MAY_BE_PARTIAL),
    FORMS(any, make_reduction, reduced, MAY_BE_PARTIAL),
    FORMS(all, make_reduction, reduced, MAY_BE_PARTIAL),
    FORMS(norm, make_norm, normed, MAY_BE_PARTIAL),
    FORMS(var, make_variance, varied, MAY_BE_PARTIAL),
    FORMS(std, make_variance, varied, MAY_BE_PARTIAL),
    FORMS(logsumexp, make_reduction, reduced, MAY_BE_PARTIAL),
    FORMS(nansum, make_reduction, reduced, MAY_BE_PARTIAL),
    FORMS(nanmean, make_reduction, reduced, MAY_BE_PARTIAL),
    PLACED(argmax),
    PLACED(argmax_all),
    PLACED(argmin),
    PLACED(argmin_all),
    ROW(max_with_indices, make_reduction, reduced, .details = &details_max, .flags = MAY_BE_PARTIAL),
    ROW(min_with_indices, make_reduction, reduced, .details = &details_min, .flags = MAY_BE_PARTIAL),
    { .name = NULL },
};
