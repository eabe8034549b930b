/* Complex numbers and Fourier transforms, on real tensors: complex ones are made of these, and go back to them, in one row. */
#include "elementwise.h"
#include "sums.h"

/* ---- parts --------------------------------------------------------------------------------------------- */

enum { OF_REAL, OF_IMAG, OF_PRODUCT, OF_SIZE, OF_ANGLE, OF_NORM, OF_SIGN, OF_CONVOLUTION, OF_VARIANCE, OF_DEVIATION, NUM_OF };

/* whole[0]: which of these. What comes between is released with its scope. A norm may be a Partial maximum, which later calls cannot change
 * in place; its size is whole. */
CALLS(of_complex, weft_scope_begin(); out[0] = weft_scope_keep(whole[0] == 0   ? weft_real(weft_complex(in[0], in[1]))
                           : whole[0] == 1 ? weft_imag(weft_conj(weft_complex(in[0], in[1])))
                           : whole[0] == 2 ? weft_imag(weft_mul(weft_complex(in[0], in[1]), weft_complex(in[1], in[0])))
                           : whole[0] == 3 ? weft_abs(weft_polar(in[0], in[1]))
                           : whole[0] == 4 ? weft_angle(weft_add(in[0], in[1]))
                           : whole[0] == 5 ? weft_abs(weft_norm(weft_complex(in[0], in[1]), INFINITY, -1, true))
                           : whole[0] == 6 ? weft_abs(weft_mul(weft_complex(in[0], in[1]), weft_sgn(weft_complex(in[0], in[1]))))
                           : whole[0] == 7
                               ? weft_reshape(weft_real(weft_conv1d(weft_reshape(weft_complex(in[0], in[1]), 3, (int64_t[]){ -1, 1, 1 }),
                                     weft_complex(weft_ones(weft_tensor_dtype(in[0]), 3, (int64_t[]){ 1, 1, 1 },
                                                            weft_tensor_mesh(in[0]), NULL),
                                                  weft_ones(weft_tensor_dtype(in[0]), 3, (int64_t[]){ 1, 1, 1 },
                                                            weft_tensor_mesh(in[0]), NULL)),
                                     NULL, NULL)), ndim, shape)
                           : whole[0] == 8 ? weft_var(weft_complex(in[0], in[1]), -1, 0, true)
                                           : weft_square(weft_std(weft_complex(in[0], in[1]), -1, 0, true))); weft_scope_end())
CALLS(of_pairs, weft_scope_begin(); out[0] = weft_scope_keep(weft_view_as_real(weft_square(weft_view_as_complex(in[0])))); weft_scope_end())

static bool make_of_complex(maker *m, step *s)
{
    int a = choose_any(m, BIT(WEFT_F32) | BIT(WEFT_F64), 1, MAX_TENSOR_DIMS);
    int b = a == NO_VALUE ? NO_VALUE : choose_like(m, a, BIT(value_of(m, a)->dtype), value_of(m, a)->ndim, value_of(m, a)->shape);
    *s = step_of(s->operation, 2, a, b);
    s->num_wholes = 1;
    s->wholes[0] = below(m, NUM_OF);
    s->ndim = a == NO_VALUE ? 0 : value_of(m, a)->ndim;
    for (int d = 0; d < s->ndim; d++) {
        s->shape[d] = value_of(m, a)->shape[d];
    }
    return b != NO_VALUE;
}

static bool make_of_pairs(maker *m, step *s)
{
    int64_t shape[WEFT_MAX_DIMS] = { 0 };
    int ndim = any_shape(m, 0, MAX_TENSOR_DIMS - 1, shape);
    shape[ndim] = 2;
    int a = choose_value(m, &(wish){ .types = BIT(WEFT_F32) | BIT(WEFT_F64), .mesh = -1, .least = ndim + 1, .shape = shape });
    *s = step_of(s->operation, 1, a);
    return a != NO_VALUE;
}

static bool is_wide(const dense *x)
{
    return x != NULL && (x->dtype == WEFT_F32 || x->dtype == WEFT_F64);
}

static bool have_one_shape(const dense *a, const dense *b)
{
    bool same = a->ndim == b->ndim && a->dtype == b->dtype;
    for (int d = 0; d < a->ndim && same; d++) {
        same = a->shape[d] == b->shape[d];
    }
    return same;
}

/* Numbers beyond this may overflow when they are squared or added up: then, and if one is not finite, a result may be anything. */
static void distrust_large(scene *s, dense *out)
{
    for (int k = 0; k < s->step->num_inputs; k++) {
        if (!dense_is_finite(s->in[k]) || !(dense_mass(s->in[k]) < 1e15)) {
            allow_all(s, out, (double)INFINITY);
        }
    }
}

/* The larger of |x| and |y|, where both meet in a result. */
static double both(const dense *a, const dense *b, int64_t i)
{
    return mass_at(a, i) + mass_at(b, i);
}

static double value_of_complex(int64_t kind, double x, double y)
{
    switch (kind) {
    case OF_REAL:
        return x;
    case OF_IMAG:
        return -y;
    case OF_PRODUCT: /* (x + i y) (y + i x) */
        return x * x + y * y;
    case OF_SIZE:
        return fabs(x);
    case OF_SIGN: /* the size of z z / |z| */
        return hypot(x, y);
    case OF_CONVOLUTION: /* with 1 + i */
        return x - y;
    default: /* the angle of a real number */
        return x + y < 0 ? 3.14159265358979323846 : 0;
    }
}

static double variance_of(const dense *a, int64_t first, int64_t length)
{
    double mean = 0, squares = 0;
    for (int64_t j = first; j < first + length; j++) {
        mean += a->at[j].real / (double)length;
    }
    for (int64_t j = first; j < first + length; j++) {
        squares += (a->at[j].real - mean) * (a->at[j].real - mean);
    }
    return squares / (double)length;
}

/* The largest absolute value along the last dimension, or the variance. */
static bool norm_of_complex(scene *s, bool variance)
{
    const dense *a = s->in[0], *b = s->in[1];
    int64_t shape[WEFT_MAX_DIMS], length = a->shape[a->ndim - 1];
    if (length == 0) {
        return false;
    }
    for (int d = 0; d < a->ndim; d++) {
        shape[d] = d == a->ndim - 1 ? 1 : a->shape[d];
    }
    dense *out = scene_output(s, 0, a->dtype, a->ndim, shape);
    for (int64_t i = 0; i < out->count; i++) {
        double most = 0, magnitude = 0;
        for (int64_t j = i * length; j < (i + 1) * length; j++) {
            most = fmax(most, hypot(a->at[j].real, b->at[j].real));
            magnitude = fmax(magnitude, both(a, b, j));
        }
        const double squares = variance ? variance_of(a, i * length, length) + variance_of(b, i * length, length) : 0;
        set_linear(s, out, i, variance ? squares : most, variance ? 32 + (double)length : 8, variance ? magnitude * magnitude : magnitude);
    }
    distrust_large(s, out);
    return !s->program->gradients; /* equal ones share the gradient */
}

static bool of_complex(scene *s)
{
    const dense *a = s->in[0], *b = s->in[1];
    int64_t kind = whole_of_call(s, 0);
    if (!is_wide(a) || !is_wide(b) || a->ndim == 0 || !have_one_shape(a, b) || kind < 0 || kind >= NUM_OF || (s->program->gradients && kind >= OF_SIZE)) {
        return false;
    }
    if (kind == OF_NORM || kind >= OF_VARIANCE) {
        return norm_of_complex(s, kind != OF_NORM);
    }
    dense *out = scene_output(s, 0, a->dtype, a->ndim, a->shape);
    for (int64_t i = 0; i < out->count; i++) {
        double magnitude = kind == OF_PRODUCT ? both(a, b, i) * both(a, b, i) : kind == OF_ANGLE ? 4 : both(a, b, i);
        set_linear(s, out, i, value_of_complex(kind, a->at[i].real, b->at[i].real), kind < OF_PRODUCT ? 0 : 16, magnitude);
    }
    out->signed_zeros = false;
    if (kind == OF_ANGLE) { /* a step, which the last bit of a sum decides */
        allow_all(s, out, any_partial(s) ? (double)INFINITY : 0);
    }
    for (int64_t i = 0; i < out->count && kind == OF_ANGLE; i++) {
        double sum = a->at[i].real + b->at[i].real;
        dense_allow(s->arena, out, i, fabs(sum) <= 1e-5 * both(a, b, i) ? 4 : 0);
    }
    distrust_large(s, out);
    return true;
}

static bool of_pairs(scene *s)
{
    const dense *x = s->in[0];
    if (!is_wide(x) || x->ndim == 0 || x->shape[x->ndim - 1] != 2) {
        return false;
    }
    dense *out = scene_output(s, 0, x->dtype, x->ndim, x->shape);
    for (int64_t i = 0; i < out->count; i += 2) {
        double a = x->at[i].real, b = x->at[i + 1].real, size = mass_at(x, i) + mass_at(x, i + 1);
        set_linear(s, out, i, a * a - b * b, 16, size * size);
        set_linear(s, out, i + 1, 2 * a * b, 16, size * size);
    }
    out->signed_zeros = false;
    distrust_large(s, out);
    return true;
}

/* ---- transforms ---------------------------------------------------------------------------------------- */

enum { FFT, IFFT, RFFT, IRFFT, HFFT, IHFFT, DCT, IDCT, DST, IDST, NUM_TRANSFORMS };

/* whole: the dimension, which transform, n, the norm. */
CALLS(transform,
      weft_scope_begin(); out[0] = weft_scope_keep(whole[1] == 0   ? weft_view_as_real(weft_fft(in[0], whole[2], (int)whole[0], (weft_fft_norm)whole[3]))
               : whole[1] == 1 ? weft_view_as_real(weft_ifft(in[0], whole[2], (int)whole[0], (weft_fft_norm)whole[3]))
               : whole[1] == 2 ? weft_view_as_real(weft_rfft(in[0], whole[2], (int)whole[0], (weft_fft_norm)whole[3]))
               : whole[1] == 3 ? weft_irfft(in[0], whole[2], (int)whole[0], (weft_fft_norm)whole[3])
               : whole[1] == 6 ? weft_dct(in[0], 2, whole[2], (int)whole[0], (weft_fft_norm)whole[3])
               : whole[1] == 7 ? weft_idct(in[0], 3, whole[2], (int)whole[0], (weft_fft_norm)whole[3])
               : whole[1] == 8 ? weft_dst(in[0], 2, whole[2], (int)whole[0], (weft_fft_norm)whole[3])
               : whole[1] == 9 ? weft_idst(in[0], 3, whole[2], (int)whole[0], (weft_fft_norm)whole[3])
               : whole[1] == 4 ? weft_hfft(in[0], whole[2], (int)whole[0], (weft_fft_norm)whole[3])
                               : weft_view_as_real(weft_ihfft(in[0], whole[2], (int)whole[0], (weft_fft_norm)whole[3]))); weft_scope_end())

/* There and back, of the last whole[0] dimensions: the result is the input again. */
CALLS(transforms,
      weft_scope_begin(); out[0] = weft_scope_keep(whole[1] == 0   ? weft_real(weft_ifftn(weft_fftn(in[0], (int)whole[0], NULL, NULL, WEFT_FFT_ORTHO), (int)whole[0], NULL,
                                                      NULL, WEFT_FFT_ORTHO))
               : whole[1] == 1 ? weft_irfftn(weft_rfftn(in[0], (int)whole[0], NULL, NULL, WEFT_FFT_BACKWARD), (int)whole[0],
                                             shape + ndim - whole[0], NULL, WEFT_FFT_BACKWARD)
                               : weft_real(weft_ifft2(weft_fft2(in[0], NULL, NULL, WEFT_FFT_FORWARD), NULL, NULL, WEFT_FFT_FORWARD))); weft_scope_end())

static bool make_transform(maker *m, step *s)
{
    if (!make_along(m, s, BIT(WEFT_F32) | BIT(WEFT_F64), 1)) {
        return false;
    }
    s->num_wholes = 4;
    s->wholes[1] = below(m, NUM_TRANSFORMS);
    s->wholes[2] = one_in(m, 2) ? 0 : between(m, 1, 12);
    s->wholes[3] = below(m, 3);
    return true;
}

static bool make_transforms(maker *m, step *s)
{
    int a = choose_any(m, BIT(WEFT_F32) | BIT(WEFT_F64), 1, MAX_TENSOR_DIMS);
    *s = step_of(s->operation, 1, a);
    if (a == NO_VALUE) {
        return false;
    }
    const dense *x = value_of(m, a);
    s->num_wholes = 2;
    s->wholes[1] = below(m, x->ndim < 2 ? 2 : 3);
    s->wholes[0] = s->wholes[1] == 2 ? 2 : between(m, 1, x->ndim);
    s->ndim = x->ndim;
    for (int d = 0; d < x->ndim; d++) {
        s->shape[d] = x->shape[d];
    }
    return true;
}

/* A line of m real values, as the transform of size n sees it. */
static double signal_at(int64_t kind, const dense *x, int64_t first, int64_t stride, int64_t m, int64_t n, int64_t j)
{
    bool half = kind == IRFFT || kind == HFFT;
    j = half && j > n / 2 ? n - j : j;
    return j < m ? x->at[first + j * stride].real : 0;
}

/* weft_dct() and weft_dst() of type 2, or the inverses of type 3, which have the matrix of type 2. */
static void wave_line(scene *s, dense *out, int64_t to, int64_t from, int64_t stride, int64_t m, int64_t n)
{
    const dense *x = s->in[0];
    int64_t kind = whole_of_call(s, 1), norm = whole_of_call(s, 3);
    bool sine = kind >= DST, inverse = kind == IDCT || kind == IDST;
    double factor = norm == 1 ? 1 / sqrt(2 * (double)n) : (norm == 2) == inverse ? 1 : 1 / (2 * (double)n), mass = 0;
    for (int64_t j = 0; j < m && j < n; j++) {
        mass += 2 * mass_at(x, from + j * stride);
    }
    for (int64_t k = 0; k < n; k++) {
        double sum = 0, end = norm == 1 && k == (sine ? n - 1 : 0) ? sqrt(0.5) : 1;
        for (int64_t j = 0; j < m && j < n; j++) {
            double angle = 3.14159265358979323846 * (double)((2 * j + 1) * (k + sine) % (4 * n)) / (2 * (double)n);
            sum += 2 * x->at[from + j * stride].real * (sine ? sin(angle) : cos(angle));
        }
        set_linear(s, out, to + k * stride, sum * factor * end, 60, mass * factor);
    }
}

/* All results of one line; `out` has pairs, or real numbers. */
static void transform_line(scene *s, dense *out, int64_t to, int64_t from, int64_t stride, int64_t m, int64_t n, int64_t bins)
{
    const dense *x = s->in[0];
    int64_t kind = whole_of_call(s, 1), norm = whole_of_call(s, 3), width = kind == IRFFT || kind == HFFT ? 1 : 2;
    bool forward = kind == FFT || kind == RFFT || kind == HFFT, divides = (norm == 2) == forward;
    double factor = norm == 1 ? 1 / sqrt((double)n) : divides ? 1 / (double)n : 1, mass = 0;
    for (int64_t j = 0; j < m; j++) {
        mass += 2 * mass_at(x, from + j * stride);
    }
    for (int64_t k = 0; k < bins; k++) {
        double re = 0, im = 0;
        for (int64_t j = 0; j < n; j++) {
            double value = signal_at(kind, x, from, stride, m, n, j);
            double angle = 2 * 3.14159265358979323846 * (double)(j * k % n) / (double)n * (forward ? -1 : 1);
            re += value * cos(angle);
            im += value * sin(angle);
        }
        int64_t place = to + k * stride * width;
        set_linear(s, out, place, re * factor, 60, mass * factor);
        if (width == 2) {
            set_linear(s, out, place + 1, im * factor, 60, mass * factor);
        }
    }
}

static bool transformed(scene *s)
{
    const dense *x = s->in[0];
    int64_t kind = whole_of_call(s, 1), n = whole_of_call(s, 2), norm = whole_of_call(s, 3), shape[WEFT_MAX_DIMS];
    int dim = x == NULL || s->step->num_wholes < 4 ? -1 : dim_in(whole_of_call(s, 0), x->ndim);
    if (dim < 0 || !is_wide(x) || kind < 0 || kind >= NUM_TRANSFORMS || n < 0 || n > 40 || norm < 0 || norm > 2 ||
        x->ndim >= WEFT_MAX_DIMS) {
        return false;
    }
    bool half = kind == IRFFT || kind == HFFT, halved = kind == RFFT || kind == IHFFT, real = half || kind >= DCT;
    int64_t m = x->shape[dim], stride = count_of(x->ndim - dim - 1, x->shape + dim + 1), lines = m == 0 ? 0 : x->count / m;
    n = n > 0 ? n : half ? 2 * (m - 1) : m;
    if (n < 1) {
        return false;
    }
    int64_t bins = halved ? n / 2 + 1 : n;
    for (int d = 0; d < x->ndim; d++) {
        shape[d] = d == dim ? bins : x->shape[d];
    }
    shape[x->ndim] = 2;
    dense *out = scene_output(s, 0, x->dtype, x->ndim + !real, shape);
    for (int64_t line = 0; line < lines; line++) {
        int64_t outer = line / stride, inner = line % stride;
        int64_t to = (outer * bins * stride + inner) * (real ? 1 : 2), from = outer * m * stride + inner;
        if (kind >= DCT) {
            wave_line(s, out, to, from, stride, m, n);
        } else {
            transform_line(s, out, to, from, stride, m, n, bins);
        }
    }
    out->signed_zeros = false;
    distrust_large(s, out);
    return true;
}

static bool transformed_back(scene *s)
{
    const dense *x = s->in[0];
    int64_t num_dims = whole_of_call(s, 0), kind = whole_of_call(s, 1);
    if (!is_wide(x) || num_dims < 1 || num_dims > x->ndim || kind < 0 || kind > 2 || s->step->ndim != x->ndim ||
        (kind == 2 && num_dims != 2)) {
        return false;
    }
    int64_t each = 1;
    for (int d = 0; d < x->ndim; d++) {
        if (s->step->shape[d] != x->shape[d]) {
            return false;
        }
        each *= d >= x->ndim - num_dims ? x->shape[d] : 1;
    }
    for (int64_t d = x->ndim - num_dims; d < x->ndim; d++) {
        if (x->shape[d] == 0) {
            return false;
        }
    }
    dense *out = scene_output(s, 0, x->dtype, x->ndim, x->shape);
    for (int64_t first = 0; first < x->count; first += each) {
        double mass = 0;
        for (int64_t i = first; i < first + each; i++) {
            mass += mass_at(x, i);
        }
        for (int64_t i = first; i < first + each; i++) {
            set_linear(s, out, i, x->at[i].real, 60, mass);
        }
    }
    out->signed_zeros = false;
    distrust_large(s, out);
    return true;
}

/* ---- shifts and frequencies ---------------------------------------------------------------------------- */

CALLS(fftshift, out[0] = whole[1] == 0 ? weft_fftshift(in[0], 1, &(int){ (int)whole[0] })
                                       : weft_ifftshift(in[0], 1, &(int){ (int)whole[0] }))
CALLS(fftfreq, out[0] = whole[1] == 0 ? weft_fftfreq(dtype, whole[0], real[0], mesh, placements)
                                      : weft_rfftfreq(dtype, whole[0], real[0], mesh, placements))

static bool make_shift(maker *m, step *s)
{
    bool made = make_along(m, s, ALL_TYPES, 1);
    s->num_wholes = 2;
    s->wholes[1] = below(m, 2);
    return made;
}

static bool by_half(const scene *s, const int64_t at[], int64_t from[])
{
    const dense *x = s->in[0];
    int dim = dim_in(whole_of_call(s, 0), x->ndim);
    for (int d = 0; d < x->ndim; d++) {
        int64_t size = x->shape[d], half = whole_of_call(s, 1) == 0 ? size / 2 : (size + 1) / 2;
        from[d] = d == dim ? (at[d] + size - half) % size : at[d];
    }
    return true;
}

static bool shifted(scene *s)
{
    const dense *x = s->in[0];
    if (x == NULL || dim_in(whole_of_call(s, 0), x->ndim) < 0) {
        return false;
    }
    move_elements(s, 0, x, x->ndim, x->shape, by_half);
    return true;
}

static bool make_frequencies(maker *m, step *s)
{
    s->num_outputs = 1;
    s->outputs[0] = NO_VALUE;
    s->mesh = any_mesh(m);
    s->dtype = any_type(m, FLOATS);
    any_placements(m, s->mesh, 1, false, s->placements);
    s->num_wholes = 2;
    s->num_reals = 1;
    s->wholes[0] = (int64_t)1 << below(m, 5); /* dividing by these is exact */
    s->wholes[1] = below(m, 2);
    s->reals[0] = one_in(m, 2) ? 0.5 : 2;
    return true;
}

static bool frequencies(scene *s)
{
    const step *call = s->step;
    int64_t n = whole_of_call(s, 0), half = whole_of_call(s, 1);
    if (n < 1 || n > 16 || (n & (n - 1)) != 0 || call->num_reals < 1 || !is_floating(call->dtype) ||
        (call->reals[0] != 0.5 && call->reals[0] != 2)) {
        return false;
    }
    int64_t count = half ? n / 2 + 1 : n;
    dense *x = scene_output(s, 0, call->dtype, 1, &count);
    for (int64_t i = 0; i < count; i++) {
        x->at[i].real = (double)(half || i < (n + 1) / 2 ? i : i - n) / ((double)n * call->reals[0]);
    }
    return true;
}

const operation complex_calls[] = {
    ROW(of_complex, make_of_complex, of_complex, .flags = 0, .weight = 6),
    ROW(of_pairs, make_of_pairs, of_pairs, .flags = 0, .weight = 4),
    ROW(transform, make_transform, transformed, .flags = 0, .weight = 12),
    ROW(transforms, make_transforms, transformed_back, .flags = 0, .weight = 8),
    ROW(fftshift, make_shift, shifted, .flags = MOVES | MAY_BE_SAME, .weight = 4),
    ROW(fftfreq, make_frequencies, frequencies, .flags = 0, .weight = 4),
    { .name = NULL },
};
