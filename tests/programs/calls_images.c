/* Pooling: images.h. */
#include "sums.h"

/* wholes: dimensions of the image; kernel, stride, padding, dilation; ceil mode, without padding, divisor. */
enum { DIMS, KERNEL = 1, STRIDE = 4, PADDING = 7, DILATION = 10, CEIL = 13, EXCLUDES, DIVISOR, NUM_WHOLES };

CALLS(max_pool, out[0] = weft_max_pool(in[0], (int)whole[0],
                                       &(weft_pooling){ { whole[1], whole[2], whole[3] },
                                                        { whole[4], whole[5], whole[6] },
                                                        { whole[7], whole[8], whole[9] },
                                                        { whole[10], whole[11], whole[12] },
                                                        whole[13] != 0 },
                                       &out[1]))
CALLS(avg_pool, out[0] = weft_avg_pool(in[0], (int)whole[0],
                                       &(weft_pooling){ { whole[1], whole[2], whole[3] },
                                                        { whole[4], whole[5], whole[6] },
                                                        { whole[7], whole[8], whole[9] },
                                                        { 0 },
                                                        whole[13] != 0,
                                                        whole[14] != 0,
                                                        whole[15] }))
CALLS(adaptive_max_pool, out[0] = weft_adaptive_max_pool(in[0], ndim, shape, &out[1]))
CALLS(adaptive_avg_pool, out[0] = weft_adaptive_avg_pool(in[0], ndim, shape))

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
    { .name = NULL },
};
