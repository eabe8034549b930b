/* Pooling and interpolation: images.h. */
#include "sums.h"

/* wholes: dimensions of the image; kernel, stride, padding, dilation; ceil mode, without padding, divisor. */
enum { DIMS, KERNEL = 1, STRIDE = 4, PADDING = 7, DILATION = 10, CEIL = 13, EXCLUDES, DIVISOR, NUM_WHOLES };

CALLS(max_pool, out[0] = weft_max_pool(in[0], (int)whole[0],
                                       &(weft_pooling){ 0, { whole[1], whole[2], whole[3] },
                                                        { whole[4], whole[5], whole[6] },
                                                        { whole[7], whole[8], whole[9] },
                                                        { whole[10], whole[11], whole[12] },
                                                        whole[13] != 0 },
                                       &out[1]))
CALLS(avg_pool, out[0] = weft_avg_pool(in[0], (int)whole[0],
                                       &(weft_pooling){ 0, { whole[1], whole[2], whole[3] },
                                                        { whole[4], whole[5], whole[6] },
                                                        { whole[7], whole[8], whole[9] },
                                                        { 0 },
                                                        whole[13] != 0,
                                                        whole[14] != 0,
                                                        whole[15] }))
CALLS(adaptive_max_pool, out[0] = weft_adaptive_max_pool(in[0], ndim, shape, &out[1]))
CALLS(adaptive_avg_pool, out[0] = weft_adaptive_avg_pool(in[0], ndim, shape))

CALLS(interpolate, out[0] = weft_interpolate(in[0], (int)whole[0],
                                             &(weft_interpolation){ 0, (weft_interpolation_mode)whole[1],
                                                                    { whole[2], whole[3], whole[4] },
                                                                    { real[0], real[1], real[2] },
                                                                    whole[5] != 0 }))

typedef struct pooling {
    bool averages, adaptive;
} pooling;

static const pooling details_max_pool = { false, false }, details_avg_pool = { true, false };
static const pooling details_adaptive_max_pool = { false, true }, details_adaptive_avg_pool = { true, true };

/* Windows along one dimension. */
typedef struct axis {
    int64_t kernel, stride, padding, dilation, size, count; /* kernel 0: adaptive */
} axis;

/* Windows of dimension d of the image. */
static axis axis_of(const step *s, const pooling *p, int d, int64_t size)
{
    const int64_t *w = s->wholes;
    axis a = { .size = size, .stride = 1, .dilation = 1 };
    if (p->adaptive) {
        a.count = s->shape[d] < 0 ? size : s->shape[d];
        return a;
    }
    a.kernel = w[KERNEL + d];
    a.stride = w[STRIDE + d] == 0 ? a.kernel : w[STRIDE + d];
    a.padding = w[PADDING + d];
    a.dilation = w[DILATION + d] == 0 || p->averages ? 1 : w[DILATION + d];
    int64_t reach = a.dilation * (a.kernel - 1), room = size + 2 * a.padding - reach - 1 + (w[CEIL] ? a.stride - 1 : 0);
    bool right = a.kernel > 0 && a.stride > 0 && a.padding >= 0 && a.dilation > 0 && a.padding <= (reach + 1) / 2;
    a.count = !right || room < 0 ? 0 : room / a.stride + 1;
    a.count -= a.count > 0 && w[CEIL] && (a.count - 1) * a.stride >= size + a.padding;
    return a;
}

static int64_t first_of(const axis *a, int64_t i)
{
    return a->kernel == 0 ? i * a->size / a->count : i * a->stride - a->padding;
}

static int64_t last_of(const axis *a, int64_t i)
{
    return a->kernel == 0 ? ((i + 1) * a->size + a->count - 1) / a->count
                          : first_of(a, i) + a->dilation * (a->kernel - 1) + 1;
}

/* What one window has. */
typedef struct found {
    int64_t largest, place; /* -1: none */
    double sum, mass;
    int64_t inside, counted;
} found;

static bool is_larger(const dense *x, int64_t i, int64_t than)
{
    return than < 0 || isnan(x->at[i].real) || x->at[i].real > x->at[than].real;
}

static void visit(found *f, const dense *x, int64_t base, const axis axes[3], const int64_t i[3])
{
    bool inside = true, counts = true;
    for (int d = 0; d < 3; d++) {
        inside &= i[d] >= 0 && i[d] < axes[d].size;
        counts &= i[d] < axes[d].size + axes[d].padding;
    }
    f->counted += counts;
    if (!inside) {
        return;
    }
    int64_t place = (i[0] * axes[1].size + i[1]) * axes[2].size + i[2];
    f->inside++;
    f->sum += x->at[base + place].real;
    f->mass += mass_at(x, base + place);
    if (is_larger(x, base + place, f->largest)) {
        f->largest = base + place;
        f->place = place;
    }
}

static found look(const dense *x, int64_t base, const axis axes[3], const int64_t window[3])
{
    found f = { .largest = -1, .place = -1 };
    int64_t i[3];
    for (i[0] = first_of(&axes[0], window[0]); i[0] < last_of(&axes[0], window[0]); i[0] += axes[0].dilation) {
        for (i[1] = first_of(&axes[1], window[1]); i[1] < last_of(&axes[1], window[1]); i[1] += axes[1].dilation) {
            for (i[2] = first_of(&axes[2], window[2]); i[2] < last_of(&axes[2], window[2]); i[2] += axes[2].dilation) {
                visit(&f, x, base, axes, i);
            }
        }
    }
    return f;
}

/* The axes and the result's shape; those that are missing have size 1. False: they do not fit. */
static bool find_axes(const step *s, const dense *x, axis axes[3], int64_t shape[])
{
    const pooling *p = s->operation->details;
    int dims = p->adaptive ? s->ndim : s->num_wholes < NUM_WHOLES ? 0 : (int)s->wholes[DIMS];
    if (x == NULL || !is_floating(x->dtype) || dims < 1 || dims > 3 || x->ndim <= dims) {
        return false;
    }
    for (int d = 0; d < 3; d++) {
        axes[d] = (axis){ 1, 1, 0, 1, 1, 1 };
    }
    bool right = true;
    for (int d = 0; d < x->ndim; d++) {
        int own = d - (x->ndim - dims);
        shape[d] = x->shape[d];
        if (own >= 0) {
            axis a = axes[3 - dims + own] = axis_of(s, p, own, x->shape[d]);
            right &= a.size > 0 && a.count >= !p->adaptive;
            shape[d] = a.count;
        }
    }
    return right && (p->adaptive || p->averages || (s->wholes[EXCLUDES] == 0 && s->wholes[DIVISOR] == 0)) &&
           (p->adaptive || s->wholes[DIVISOR] >= 0);
}

static void set_average(scene *s, dense *out, int64_t i, const found *f, bool adaptive)
{
    const int64_t *w = s->step->wholes;
    double divisor = (double)(adaptive           ? f->inside
                              : w[DIVISOR] > 0   ? w[DIVISOR]
                              : w[EXCLUDES] != 0 ? f->inside
                                                 : f->counted);
    set_linear(s, out, i, f->sum / divisor, 8, f->mass / divisor);
    dense_allow(s->arena, out, i, f->mass < 1e300 ? 0 : (double)INFINITY);
}

static bool pooled(scene *s)
{
    const dense *x = s->in[0];
    const pooling *p = s->step->operation->details;
    axis axes[3];
    int64_t shape[WEFT_MAX_DIMS];
    if (!find_axes(s->step, x, axes, shape)) {
        return false;
    }
    dense *out = scene_output(s, 0, x->dtype, x->ndim, shape);
    dense *places = p->averages ? NULL : scene_output(s, 1, WEFT_I64, x->ndim, shape);
    int64_t windows = axes[0].count * axes[1].count * axes[2].count, plane = axes[0].size * axes[1].size * axes[2].size;
    for (int64_t i = 0; i < out->count; i++) {
        int64_t window[] = { i / axes[2].count / axes[1].count % axes[0].count, i / axes[2].count % axes[1].count,
                             i % axes[2].count };
        found f = look(x, i / windows * plane, axes, window);
        if (p->averages) {
            set_average(s, out, i, &f, p->adaptive);
            continue;
        }
        places->at[i].whole = f.place;
        if (f.largest < 0) {
            out->at[i].real = -INFINITY;
        } else {
            carry_element(s, out, i, x, f.largest);
        }
    }
    out->signed_zeros = false;
    distrust_vague(s, out);
    if (p->averages) {
        distrust_infinite(s, out);
    } else {
        out->mass = dense_mass(x);
        out->unit = dense_unit(x);
        distrust_vague(s, places);
    }
    return true;
}

/* ---- interpolation ------------------------------------------------------------------------------------- */

/* Behind the dimensions of the image. */
enum { MODE = 1, SIZES = 2, ALIGNS = 5, NUM_INTERPOLATION_WHOLES };

/* A dimension of the image: its size, that of the result, and the distance of two elements of the result. */
typedef struct stretch {
    int64_t size, count;
    double step;
} stretch;

static bool find_stretch(const step *s, int d, int64_t size, stretch *t)
{
    int64_t wanted = s->wholes[SIZES + d];
    double scale = s->reals[d] == 0 ? 1 : s->reals[d];
    if (size < 1 || wanted < 0 || !(scale > 0 && scale <= 16) || (wanted > 0 && s->reals[d] != 0)) {
        return false;
    }
    *t = (stretch){ size, wanted > 0 ? wanted : (int64_t)floor((double)size * scale), 1 / scale };
    if (wanted > 0) {
        t->step = (double)size / (double)wanted;
    }
    if (s->wholes[ALIGNS]) {
        t->step = t->count > 1 ? (double)(size - 1) / (double)(t->count - 1) : 0;
    }
    return t->count > 0;
}

/* The result's shape, and its stretches; missing dimensions have size 1. False: the call is not valid. */
static bool find_stretches(const step *s, const dense *x, stretch t[3], int64_t shape[])
{
    int dims = s->num_wholes < NUM_INTERPOLATION_WHOLES ? 0 : (int)s->wholes[DIMS];
    if (x == NULL || !is_floating(x->dtype) || dims < 1 || dims > 3 || x->ndim <= dims || s->num_reals < 3) {
        return false;
    }
    int64_t mode = s->wholes[MODE];
    bool right = mode >= 0 && mode <= 3 && (mode != 3 || dims == 2) && (mode >= 2 || !s->wholes[ALIGNS]);
    for (int d = 0; d < 3; d++) {
        t[d] = (stretch){ 1, 1, 1 };
    }
    for (int d = 0; d < x->ndim && right; d++) {
        int own = d - (x->ndim - dims);
        shape[d] = x->shape[d];
        if (own >= 0) {
            right = find_stretch(s, own, x->shape[d], &t[3 - dims + own]);
            shape[d] = t[3 - dims + own].count;
        }
    }
    return right;
}

static double cubic(double x)
{
    return x <= 1 ? (1.25 * x - 2.25) * x * x + 1 : ((-0.75 * x + 3.75) * x - 6) * x + 3;
}

/* Neighbours of element i and their weights. Returns how many there are. The nearest element's position is computed as in
 * the type of the image. */
static int neighbours(const step *s, weft_dtype dtype, const stretch *t, int64_t i, int64_t places[4], double weights[4])
{
    int64_t mode = s->wholes[MODE];
    double half = mode == 0 || s->wholes[ALIGNS] ? 0 : 0.5;
    double at = dtype == WEFT_F64 ? ((double)i + half) * t->step : (double)(((float)i + (float)half) * (float)t->step);
    int taps = mode < 2 ? 1 : mode == 2 ? 2 : 4;
    at = taps == 2 ? fmax(at - half, 0) : taps == 4 ? at - half : at;
    int64_t before = (int64_t)floor(at);
    for (int tap = 0; tap < taps; tap++) {
        int64_t place = before + tap - (taps == 4);
        double distance = fabs(at - (double)place);
        weights[tap] = taps == 1 ? 1 : taps == 2 ? 1 - distance : cubic(distance);
        places[tap] = place < 0 ? 0 : place >= t->size ? t->size - 1 : place;
    }
    return taps;
}

/* Element i, whose image begins at `base`. */
static void set_interpolated(scene *s, dense *out, int64_t i, int64_t base, const stretch t[3])
{
    const dense *x = s->in[0];
    int64_t places[3][4];
    double weights[3][4], sum = 0, mass = 0, largest = 0;
    int taps[3], all = 1;
    int64_t index[3] = { i / t[2].count / t[1].count % t[0].count, i / t[2].count % t[1].count, i % t[2].count };
    for (int d = 0; d < 3; d++) {
        taps[d] = neighbours(s->step, x->dtype, &t[d], index[d], places[d], weights[d]);
        if (t[d].count == t[d].size && t[d].step == 1) {
            taps[d] = 1;
            places[d][0] = index[d];
            weights[d][0] = 1;
        }
        all *= taps[d];
    }
    for (int k = 0; k < all; k++) {
        int tap[3] = { k / taps[2] / taps[1], k / taps[2] % taps[1], k % taps[2] };
        int64_t from = base + (places[0][tap[0]] * t[1].size + places[1][tap[1]]) * t[2].size + places[2][tap[2]];
        double weight = weights[0][tap[0]] * weights[1][tap[1]] * weights[2][tap[2]];
        if (all == 1 && s->step->wholes[MODE] < 2) {
            carry_element(s, out, i, x, from);
            return;
        }
        sum += weight * x->at[from].real;
        mass += fabs(weight) * mass_at(x, from);
        largest = fmax(largest, mass_at(x, from));
    }
    /* Positions are off by roundings of the image's size. */
    set_linear(s, out, i, sum, 100, mass + largest);
    dense_allow(s->arena, out, i, largest < 1e300 ? 0 : (double)INFINITY);
}

static bool interpolated(scene *s)
{
    const dense *x = s->in[0];
    stretch t[3];
    int64_t shape[WEFT_MAX_DIMS];
    if (!find_stretches(s->step, x, t, shape)) {
        return false;
    }
    dense *out = scene_output(s, 0, x->dtype, x->ndim, shape);
    int64_t result = t[0].count * t[1].count * t[2].count, plane = t[0].size * t[1].size * t[2].size;
    for (int64_t i = 0; i < out->count; i++) {
        set_interpolated(s, out, i, i / result * plane, t);
    }
    out->signed_zeros = false;
    distrust_vague(s, out);
    if (s->step->wholes[MODE] < 2) {
        out->mass = dense_mass(x);
        out->unit = dense_unit(x);
    } else {
        distrust_infinite(s, out);
    }
    return true;
}

static bool make_interpolation(maker *m, step *s)
{
    int a = choose_any(m, FLOATS, 2, 4);
    if (a == NO_VALUE || value_of(m, a)->ndim < 2) {
        return false;
    }
    const dense *x = value_of(m, a);
    *s = step_of(s->operation, 1, a);
    s->num_wholes = NUM_INTERPOLATION_WHOLES;
    s->wholes[MODE] = below(m, 4);
    s->wholes[ALIGNS] = s->wholes[MODE] >= 2 && one_in(m, 2);
    s->wholes[DIMS] = s->wholes[MODE] == 3 ? 2 : between(m, 1, x->ndim - 1 < 3 ? x->ndim - 1 : 3);
    s->num_reals = 3;
    for (int d = 0; d < 3; d++) {
        bool sized = one_in(m, 2);
        s->wholes[SIZES + d] = sized ? between(m, 1, 6) : 0;
        s->reals[d] = sized ? 0 : (double)below(m, 9) / 4;
    }
    stretch t[3];
    int64_t shape[WEFT_MAX_DIMS];
    return find_stretches(s, x, t, shape);
}

/* ---- making -------------------------------------------------------------------------------------------- */

static void any_windows(maker *m, step *s, const pooling *p, int dims)
{
    s->num_wholes = NUM_WHOLES;
    s->wholes[DIMS] = dims;
    for (int d = 0; d < 3; d++) {
        int64_t kernel = between(m, 1, 3), dilation = p->averages ? 1 : between(m, 1, 2);
        s->wholes[KERNEL + d] = kernel;
        s->wholes[STRIDE + d] = below(m, 3);
        s->wholes[PADDING + d] = below(m, (dilation * (kernel - 1) + 1) / 2 + 1);
        s->wholes[DILATION + d] = p->averages ? 0 : dilation;
    }
    s->wholes[CEIL] = below(m, 2);
    s->wholes[EXCLUDES] = p->averages ? below(m, 2) : 0;
    s->wholes[DIVISOR] = p->averages && one_in(m, 4) ? between(m, 1, 4) : 0;
}

static bool make_pooling(maker *m, step *s)
{
    const pooling *p = s->operation->details;
    int a = choose_any(m, FLOATS, 2, 4);
    if (a == NO_VALUE) {
        return false;
    }
    const dense *x = value_of(m, a);
    *s = step_of(s->operation, 1, a);
    s->num_outputs = p->averages ? 1 : 2;
    s->outputs[0] = s->outputs[1] = NO_VALUE;
    if (x->ndim < 2) {
        return false;
    }
    int dims = (int)between(m, 1, x->ndim - 1 < 3 ? x->ndim - 1 : 3);
    if (p->adaptive) {
        s->ndim = dims;
        for (int d = 0; d < dims; d++) {
            s->shape[d] = one_in(m, 4) ? -1 : between(m, 0, 5);
        }
    } else {
        any_windows(m, s, p, dims);
    }
    axis axes[3];
    int64_t shape[WEFT_MAX_DIMS];
    return find_axes(s, x, axes, shape);
}

#define POOLING(name_, flags_) ROW(name_, make_pooling, pooled, .details = &details_##name_, .flags = flags_, .weight = 6)

const operation image_calls[] = {
    POOLING(max_pool, 0),
    POOLING(avg_pool, MAY_BE_PARTIAL),
    POOLING(adaptive_max_pool, 0),
    POOLING(adaptive_avg_pool, MAY_BE_PARTIAL),
    ROW(interpolate, make_interpolation, interpolated, .flags = MAY_BE_PARTIAL, .weight = 6),
    { .name = NULL },
};
