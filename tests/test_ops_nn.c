/* Softmax, norms, losses and tables on random shapes, meshes and placements against plain loops, with panels
 * of several heights; what is moved where rows are sharded; and values that are not finite. */
#include "operand.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codelets/half.h"

/* ---- operands of all floating types -------------------------------------------------------------------- */

static weft_dtype any_type(void)
{
    static const weft_dtype types[] = { WEFT_F32, WEFT_F64, WEFT_F32, WEFT_F64, WEFT_BF16, WEFT_F16 };
    return types[below(6)];
}

static bool is_half(weft_dtype type)
{
    return type == WEFT_BF16 || type == WEFT_F16;
}

static double rounded(weft_dtype type, double value)
{
    return type == WEFT_BF16  ? (double)weft_bf16_to_f32(weft_f32_to_bf16((float)value))
           : type == WEFT_F16 ? (double)weft_f16_to_f32(weft_f32_to_f16((float)value))
                              : value;
}

/* Reals of about -3 .. 3 in a random layout; of 16 bits: rounded from single precision by the library. */
static operand make_real(weft_mesh *mesh, weft_dtype type, int ndim, const int64_t shape[])
{
    operand x = make_operand(mesh, is_half(type) ? WEFT_F32 : type, ndim, shape, REAL, 0);
    if (is_half(type)) {
        x.tensor = weft_to_type(x.tensor, type);
        for (int64_t i = 0; i < x.count; i++) {
            x.dense[i] = rounded(type, x.dense[i]);
        }
    }
    return x;
}

/* Roundings of single precision that a value of the type may differ by: `exactly` where what it is computed
 * from is known exactly; a value of 16 bits that is rounded from an inexact one may be the next one. */
static double allowed(weft_dtype type, bool exactly, double roundings)
{
    double unit = type == WEFT_BF16 ? 0x1p15 : type == WEFT_F16 ? 0x1p12 : 1;
    return is_half(type) ? unit * (exactly ? 1 : 24) + roundings : exactly ? roundings : 20 * roundings;
}

static void compare(weft_tensor *tensor, weft_dtype type, int ndim, const int64_t shape[],
                    const double *expected, double roundings, double magnitude, const char *what)
{
    assert_no_error();
    assert_non_null(tensor);
    assert_int_equal(weft_tensor_dtype(tensor), type);
    weft_dtype wide = is_half(type) ? WEFT_F32 : type;
    check(weft_to_type(tensor, wide), wide, ndim, shape, expected, roundings, magnitude, what);
}

static double *array(int64_t count)
{
    return calloc((size_t)count + 1, sizeof(double));
}

/* ---- softmax ------------------------------------------------------------------------------------------- */

/* Element i of an array of `shape` is element `place` of line `line` along `dim`. */
typedef struct lines {
    int64_t length, inner, count;
} lines;

static lines lines_along(int ndim, const int64_t shape[], int dim)
{
    lines l = { .length = ndim == 0 ? 1 : shape[dim], .inner = 1 };
    for (int d = dim + 1; d < ndim; d++) {
        l.inner *= shape[d];
    }
    int64_t count = shape_count(ndim, shape);
    l.count = l.length == 0 ? 0 : count / l.length;
    return l;
}

static int64_t element_of(const lines *l, int64_t line, int64_t place)
{
    return (line / l->inner * l->length + place) * l->inner + line % l->inner;
}

static void reference_softmax(const operand *a, int dim, bool logarithm, double *expected)
{
    lines l = lines_along(a->ndim, a->shape, dim);
    for (int64_t line = 0; line < l.count; line++) {
        double most = -INFINITY, sum = 0;
        for (int64_t i = 0; i < l.length; i++) {
            most = fmax(most, a->dense[element_of(&l, line, i)]);
        }
        for (int64_t i = 0; i < l.length; i++) {
            sum += exp(a->dense[element_of(&l, line, i)] - most);
        }
        for (int64_t i = 0; i < l.length; i++) {
            double x = a->dense[element_of(&l, line, i)] - most;
            expected[element_of(&l, line, i)] = logarithm ? x - log(sum) : exp(x) / sum;
        }
    }
}

static int any_shape(int64_t shape[])
{
    int ndim = random_shape(&source, 4, 9, shape);
    if (ndim > 0 && below(3) == 0) {
        shape[below(ndim)] = 1 + below(70); /* longer than the lanes of a sum */
    }
    return ndim;
}

static void one_softmax(const char *name, weft_tensor *(*function)(weft_tensor *, int), bool logarithm)
{
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = any_shape(shape), dim = ndim == 0 ? 0 : (int)below(ndim);
    weft_dtype type = any_type();
    operand a = make_real(any_mesh(), type, ndim, shape);
    double *expected = array(a.count);
    reference_softmax(&a, dim, logarithm, expected);
    char what[400];
    snprintf(what, sizeof(what), "%s(%s, %d) of %s", name, describe_operand(&a), dim, weft_dtype_name(type));
    int given = below(2) ? dim : dim - (ndim == 0 ? 1 : ndim);
    compare(function(a.tensor, given), type, ndim, shape, expected, allowed(type, a.exact, 4),
            logarithm ? 12 : 1, what);
    free(expected);
    release(&a);
}

static void case_softmax(void)
{
    one_softmax("softmax", weft_softmax, false);
}

static void case_log_softmax(void)
{
    one_softmax("log_softmax", weft_log_softmax, true);
}

static void one_softmax_backward(const char *name,
                                 weft_tensor *(*function)(weft_tensor *, weft_tensor *, int), bool logarithm)
{
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = any_shape(shape), dim = ndim == 0 ? 0 : (int)below(ndim);
    weft_dtype type = any_type();
    weft_mesh *mesh = any_mesh();
    operand gradient = make_real(mesh, type, ndim, shape), output = make_real(mesh, type, ndim, shape);
    double *expected = array(output.count);
    lines l = lines_along(ndim, shape, dim);
    double largest = 0;
    for (int64_t line = 0; line < l.count; line++) {
        double sum = 0;
        for (int64_t i = 0; i < l.length; i++) {
            int64_t e = element_of(&l, line, i);
            sum += gradient.dense[e] * (logarithm ? 1 : output.dense[e]);
        }
        for (int64_t i = 0; i < l.length; i++) {
            int64_t e = element_of(&l, line, i);
            expected[e] = logarithm ? gradient.dense[e] - exp(output.dense[e]) * sum
                                    : output.dense[e] * (gradient.dense[e] - sum);
            largest = fmax(largest, 20 * fabs(sum) + 10);
        }
    }
    char what[700];
    snprintf(what, sizeof(what), "%s(%s, %s, %d) of %s", name, describe_operand(&gradient),
             describe_operand(&output), dim, weft_dtype_name(type));
    compare(function(gradient.tensor, output.tensor, dim), type, ndim, shape, expected,
            allowed(type, gradient.exact && output.exact, 4), largest + 10 * (double)l.length, what);
    free(expected);
    release(&gradient);
    release(&output);
}

static void case_softmax_backward(void)
{
    one_softmax_backward("softmax_backward", weft_softmax_backward, false);
}

static void case_log_softmax_backward(void)
{
    one_softmax_backward("log_softmax_backward", weft_log_softmax_backward, true);
}

/* ---- norms --------------------------------------------------------------------------------------------- */

#define EPSILON 0.125

typedef struct norm_case {
    bool centred, has_gain, has_bias;
    int ndim, own; /* own: dimensions of a vector */
    int64_t shape[WEFT_MAX_DIMS], vectors, length;
    weft_dtype type;
    operand a, gain, bias, gradient;
    bool exact;
    double *normal, *inverse; /* normal(a), and 1 / sqrt(...) of each vector */
    char what[900];
} norm_case;

static void normalise(norm_case *c)
{
    for (int64_t v = 0; v < c->vectors; v++) {
        const double *x = c->a.dense + v * c->length;
        double mean = 0, variance = 0;
        for (int64_t i = 0; i < c->length && c->centred; i++) {
            mean += x[i] / (double)c->length;
        }
        for (int64_t i = 0; i < c->length; i++) {
            variance += (x[i] - mean) * (x[i] - mean) / (double)c->length;
        }
        c->inverse[v] = 1 / sqrt(variance + EPSILON);
        for (int64_t i = 0; i < c->length; i++) {
            c->normal[v * c->length + i] = (x[i] - mean) * c->inverse[v];
        }
    }
}

static norm_case make_norm_case(bool centred, bool backward)
{
    norm_case c = { .centred = centred,
                    .has_gain = below(3) > 0,
                    .has_bias = centred && !backward && below(2) };
    do {
        c.ndim = any_shape(c.shape);
    } while (c.ndim == 0);
    c.own = c.has_gain || c.has_bias ? 1 + (int)below(c.ndim) : 1;
    const int64_t *vector = c.shape + c.ndim - c.own;
    c.vectors = shape_count(c.ndim - c.own, c.shape);
    c.length = shape_count(c.own, vector);
    c.type = any_type();
    weft_mesh *mesh = any_mesh();
    c.a = make_real(mesh, c.type, c.ndim, c.shape);
    c.gain = make_real(mesh, c.type, c.own, vector);
    c.bias = make_real(mesh, c.type, c.own, vector);
    c.gradient = make_real(mesh, c.type, c.ndim, c.shape);
    c.exact = c.a.exact && (!c.has_gain || c.gain.exact) &&
              (backward ? c.gradient.exact : !c.has_bias || c.bias.exact);
    c.normal = array(c.a.count);
    c.inverse = array(c.vectors);
    normalise(&c);
    snprintf(c.what, sizeof(c.what), "%s%s(%s) of %s over %d dimensions", centred ? "layer_norm" : "rms_norm",
             backward ? "_backward" : "", describe_operand(&c.a), weft_dtype_name(c.type), c.own);
    return c;
}

static void release_norm_case(norm_case *c)
{
    release(&c->a);
    release(&c->gain);
    release(&c->bias);
    release(&c->gradient);
    free(c->normal);
    free(c->inverse);
}

static void one_norm(bool centred)
{
    norm_case c = make_norm_case(centred, false);
    double *expected = array(c.a.count);
    for (int64_t i = 0; i < c.a.count; i++) {
        expected[i] = c.normal[i] * (c.has_gain ? c.gain.dense[i % c.length] : 1) +
                      (c.has_bias ? c.bias.dense[i % c.length] : 0);
    }
    weft_tensor *gain = c.has_gain ? c.gain.tensor : NULL, *bias = c.has_bias ? c.bias.tensor : NULL;
    weft_tensor *result =
        centred ? weft_layer_norm(c.a.tensor, gain, bias, EPSILON) : weft_rms_norm(c.a.tensor, gain, EPSILON);
    compare(result, c.type, c.ndim, c.shape, expected, allowed(c.type, c.exact, 8), 30, c.what);
    free(expected);
    release_norm_case(&c);
}

static void case_layer_norm(void)
{
    one_norm(true);
}

static void case_rms_norm(void)
{
    one_norm(false);
}

static void reference_norm_backward(const norm_case *c, double *of_a, double *of_gain, double *of_bias)
{
    for (int64_t v = 0; v < c->vectors; v++) {
        const double *normal = c->normal + v * c->length, *gradient = c->gradient.dense + v * c->length;
        double mean = 0, slope = 0;
        for (int64_t i = 0; i < c->length; i++) {
            double weighted = gradient[i] * (c->has_gain ? c->gain.dense[i] : 1);
            mean += c->centred ? weighted / (double)c->length : 0;
            slope += weighted * normal[i] / (double)c->length;
            of_gain[i] += gradient[i] * normal[i];
            of_bias[i] += gradient[i];
        }
        for (int64_t i = 0; i < c->length; i++) {
            double weighted = gradient[i] * (c->has_gain ? c->gain.dense[i] : 1);
            of_a[v * c->length + i] = c->inverse[v] * (weighted - mean - normal[i] * slope);
        }
    }
}

static void one_norm_backward(bool centred)
{
    norm_case c = make_norm_case(centred, true);
    double *of_a = array(c.a.count), *of_gain = array(c.length), *of_bias = array(c.length);
    reference_norm_backward(&c, of_a, of_gain, of_bias);
    weft_tensor *gain = c.has_gain ? c.gain.tensor : NULL, *gain_result = NULL, *bias_result = NULL;
    bool wants_gain = below(4) > 0, wants_bias = centred && below(4) > 0;
    weft_tensor *result =
        centred ? weft_layer_norm_backward(c.gradient.tensor, c.a.tensor, gain, EPSILON,
                                           wants_gain ? &gain_result : NULL, wants_bias ? &bias_result : NULL)
                : weft_rms_norm_backward(c.gradient.tensor, c.a.tensor, gain, EPSILON,
                                         wants_gain ? &gain_result : NULL);
    const int64_t *vector = c.shape + c.ndim - c.own;
    double roundings = allowed(c.type, c.exact, 16), sums = 20 + 10 * (double)c.vectors;
    compare(result, c.type, c.ndim, c.shape, of_a, roundings, 100, c.what);
    if (wants_gain) {
        compare(gain_result, c.type, c.own, vector, of_gain, roundings, sums, c.what);
    }
    assert_ptr_not_equal(result, c.gradient.tensor);
    assert_true(bias_result == NULL || bias_result != c.gradient.tensor);
    if (wants_bias) {
        compare(bias_result, c.type, c.own, vector, of_bias, roundings, sums, c.what);
    }
    free(of_a);
    free(of_gain);
    free(of_bias);
    release_norm_case(&c);
}

static void case_layer_norm_backward(void)
{
    one_norm_backward(true);
}

static void case_rms_norm_backward(void)
{
    one_norm_backward(false);
}

/* ---- losses of classes --------------------------------------------------------------------------------- */

typedef struct class_case {
    operand values, targets, gradient;
    int64_t n, classes, counted;
    weft_dtype type;
    weft_cross_entropy_options options;
    bool has_gradient, exact;
    double *losses, *gradients; /* of each row, and of each value */
    char what[700];
} class_case;

/* A gradient of the loss: of its shape. */
static operand make_gradient(weft_mesh *mesh, weft_dtype type, weft_loss_reduction reduction, int ndim,
                             const int64_t shape[])
{
    return make_real(mesh, type, reduction == WEFT_LOSS_NONE ? ndim : 0, shape);
}

static double scale_of(const class_case *c, int64_t row)
{
    double gradient =
        !c->has_gradient ? 1 : c->gradient.dense[c->options.reduction == WEFT_LOSS_NONE ? row : 0];
    return c->options.reduction == WEFT_LOSS_MEAN ? gradient / (double)c->counted : gradient;
}

static class_case make_class_case(const char *name)
{
    class_case c = { .n = any_size(),
                     .classes = 1 + below(below(3) == 0 ? 70 : MAX_SIZE),
                     .type = any_type() };
    weft_mesh *mesh = any_mesh();
    int64_t shape[2] = { c.n, c.classes };
    c.values = make_real(mesh, c.type, 2, shape);
    c.targets = make_operand(mesh, any_index(), 1, shape, INDEX, c.classes);
    c.options = (weft_cross_entropy_options){ .reduction = (weft_loss_reduction)below(3),
                                              .ignore_index = below(2) ? below(c.classes) : -100,
                                              .label_smoothing = below(2) ? 0 : 0.25 };
    c.gradient = make_gradient(mesh, c.type, c.options.reduction, 1, shape);
    c.has_gradient = below(2);
    c.exact = c.values.exact && (!c.has_gradient || c.gradient.exact);
    for (int64_t i = 0; i < c.n; i++) {
        c.counted += (int64_t)c.targets.dense[i] != c.options.ignore_index;
    }
    c.losses = array(c.n);
    c.gradients = array(c.values.count);
    snprintf(c.what, sizeof(c.what), "%s(%s of %s, %s) reduction %d, ignoring %d, smoothing %g", name,
             describe_operand(&c.values), weft_dtype_name(c.type), describe_operand(&c.targets),
             (int)c.options.reduction, (int)c.options.ignore_index, c.options.label_smoothing);
    return c;
}

static void release_class_case(class_case *c)
{
    release(&c->values);
    release(&c->targets);
    release(&c->gradient);
    free(c->losses);
    free(c->gradients);
}

static bool is_ignored(const class_case *c, int64_t row)
{
    return (int64_t)c->targets.dense[row] == c->options.ignore_index;
}

static void reference_cross_entropy(class_case *c)
{
    double spread = c->options.label_smoothing / (double)c->classes;
    for (int64_t row = 0; row < c->n; row++) {
        const double *x = c->values.dense + row * c->classes;
        int64_t target = (int64_t)c->targets.dense[row];
        double most = -INFINITY, sum = 0, total = 0;
        for (int64_t i = 0; i < c->classes; i++) {
            most = fmax(most, x[i]);
        }
        for (int64_t i = 0; i < c->classes; i++) {
            sum += exp(x[i] - most);
            total += x[i];
        }
        double log_sum = most + log(sum);
        if (is_ignored(c, row)) {
            continue;
        }
        c->losses[row] = log_sum - (1 - c->options.label_smoothing) * x[target] - spread * total;
        for (int64_t i = 0; i < c->classes; i++) {
            double wanted = (i == target ? 1 - c->options.label_smoothing : 0) + spread;
            c->gradients[row * c->classes + i] = scale_of(c, row) * (exp(x[i] - log_sum) - wanted);
        }
    }
}

static void reference_nll(class_case *c)
{
    for (int64_t row = 0; row < c->n; row++) {
        if (!is_ignored(c, row)) {
            int64_t place = row * c->classes + (int64_t)c->targets.dense[row];
            c->losses[row] = -c->values.dense[place];
            c->gradients[place] = -scale_of(c, row);
        }
    }
}

static void compare_losses(const class_case *c, weft_tensor *loss, weft_tensor *gradient)
{
    double total = 0;
    for (int64_t row = 0; row < c->n; row++) {
        total += c->losses[row];
    }
    double mean = total / (double)c->counted, roundings = allowed(c->type, c->values.exact, 8);
    if (c->options.reduction == WEFT_LOSS_NONE) {
        compare(loss, c->type, 1, &c->n, c->losses, roundings, 12, c->what);
    } else {
        bool averages = c->options.reduction == WEFT_LOSS_MEAN;
        compare(loss, c->type, 0, NULL, averages ? &mean : &total, roundings,
                averages ? 12 : 12 * (double)c->n + 12, c->what);
    }
    compare(gradient, c->type, 2, c->values.shape, c->gradients, allowed(c->type, c->exact, 8), 8, c->what);
}

static void case_cross_entropy(void)
{
    class_case c = make_class_case("cross_entropy_ex");
    reference_cross_entropy(&c);
    weft_tensor *loss = weft_cross_entropy_ex(c.values.tensor, c.targets.tensor, &c.options);
    weft_tensor *gradient = weft_cross_entropy_ex_backward(c.has_gradient ? c.gradient.tensor : NULL,
                                                           c.values.tensor, c.targets.tensor, &c.options);
    compare_losses(&c, loss, gradient);
    release_class_case(&c);
}

/* The function without options ignores nothing. */
static void case_plain_cross_entropy(void)
{
    class_case c = make_class_case("cross_entropy");
    if (c.options.reduction == WEFT_LOSS_NONE) {
        c.has_gradient = false;
    }
    c.options = (weft_cross_entropy_options)WEFT_CROSS_ENTROPY_OPTIONS_DEFAULT;
    c.counted = c.n;
    c.exact = c.values.exact && (!c.has_gradient || c.gradient.exact);
    reference_cross_entropy(&c);
    weft_tensor *gradient = weft_cross_entropy_backward(c.has_gradient ? c.gradient.tensor : NULL,
                                                        c.values.tensor, c.targets.tensor);
    compare_losses(&c, weft_cross_entropy(c.values.tensor, c.targets.tensor), gradient);
    compare_losses(&c, weft_cross_entropy_ex(c.values.tensor, c.targets.tensor, NULL), gradient);
    release_class_case(&c);
}

static void case_nll(void)
{
    class_case c = make_class_case("nll");
    reference_nll(&c);
    weft_tensor *loss =
        weft_nll(c.values.tensor, c.targets.tensor, c.options.ignore_index, c.options.reduction);
    weft_tensor *gradient = weft_nll_backward(c.has_gradient ? c.gradient.tensor : NULL, c.values.tensor,
                                              c.targets.tensor, c.options.ignore_index, c.options.reduction);
    compare_losses(&c, loss, gradient);
    release_class_case(&c);
}

/* ---- squared distances --------------------------------------------------------------------------------- */

static void case_mse(void)
{
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = any_shape(shape);
    weft_dtype type = any_type();
    weft_loss_reduction reduction = (weft_loss_reduction)below(3);
    weft_mesh *mesh = any_mesh();
    operand a = make_real(mesh, type, ndim, shape), b = make_real(mesh, type, ndim, shape),
            gradient = make_gradient(mesh, type, reduction, ndim, shape);
    bool has_gradient = below(2), none = reduction == WEFT_LOSS_NONE, exact = a.exact && b.exact;
    double *squares = array(a.count), *gradients = array(a.count), total = 0;
    for (int64_t i = 0; i < a.count; i++) {
        double difference = a.dense[i] - b.dense[i];
        double g = has_gradient ? gradient.dense[none ? i : 0] : 1;
        squares[i] = difference * difference;
        total += squares[i];
        gradients[i] = 2 * difference * (reduction == WEFT_LOSS_MEAN ? g / (double)a.count : g);
    }
    total /= reduction == WEFT_LOSS_MEAN ? (double)a.count : 1;
    char what[900];
    snprintf(what, sizeof(what), "mse(%s, %s) of %s, reduction %d", describe_operand(&a),
             describe_operand(&b), weft_dtype_name(type), (int)reduction);
    weft_tensor *loss = weft_mse(a.tensor, b.tensor, reduction);
    if (none) {
        compare(loss, type, ndim, shape, squares, allowed(type, exact, 4), 40, what);
    } else {
        compare(loss, type, 0, NULL, &total, allowed(type, exact, 4 + sqrt((double)a.count)),
                fabs(total) + 40, what);
    }
    compare(weft_mse_backward(has_gradient ? gradient.tensor : NULL, a.tensor, b.tensor, reduction), type,
            ndim, shape, gradients, allowed(type, exact && (!has_gradient || gradient.exact), 4), 40, what);
    free(squares);
    free(gradients);
    release(&a);
    release(&b);
    release(&gradient);
}

/* ---- tables of 16 bits --------------------------------------------------------------------------------- */

static void case_embedding(void)
{
    weft_dtype type = below(2) ? WEFT_BF16 : WEFT_F16;
    int64_t rows = 1 + below(MAX_SIZE), width = any_size(), table_shape[2] = { rows, width },
            shape[WEFT_MAX_DIMS];
    int ndim = random_shape(&source, 3, 9, shape);
    weft_mesh *mesh = any_mesh();
    operand table = make_real(mesh, type, 2, table_shape);
    operand indices = make_operand(mesh, any_index(), ndim, shape, INDEX, rows);
    shape[ndim] = width;
    operand gradient = make_operand(mesh, WEFT_F32, ndim + 1, shape, WHOLE, 0);
    double *found = array(gradient.count), *back = array(rows * width);
    for (int64_t i = 0; i < gradient.count; i++) {
        int64_t place = (int64_t)indices.dense[i / width] * width + i % width;
        found[i] = table.dense[place];
        back[place] += gradient.dense[i];
    }
    for (int64_t i = 0; i < rows * width; i++) {
        back[i] = rounded(type, back[i]); /* once, at the end: sums in 16 bits would lose ones above 256 */
    }
    char what[700];
    snprintf(what, sizeof(what), "embedding(%s, %s)", describe_operand(&table), describe_operand(&indices));
    compare(weft_embedding(table.tensor, indices.tensor), type, ndim + 1, shape, found,
            table.exact ? 0 : allowed(type, false, 1), 3, what);
    weft_tensor *narrow = weft_to_type(gradient.tensor, type);
    compare(weft_embedding_backward(narrow, indices.tensor, rows), type, 2, table_shape, back,
            gradient.exact ? 0 : allowed(type, false, 1), 1000, what);
    free(found);
    free(back);
    release(&table);
    release(&indices);
    release(&gradient);
}

/* ---- all of them --------------------------------------------------------------------------------------- */

static const family families[] = {
    { "softmax", case_softmax },
    { "log_softmax", case_log_softmax },
    { "softmax_backward", case_softmax_backward },
    { "log_softmax_backward", case_log_softmax_backward },
    { "layer_norm", case_layer_norm },
    { "layer_norm_backward", case_layer_norm_backward },
    { "rms_norm", case_rms_norm },
    { "rms_norm_backward", case_rms_norm_backward },
    { "cross_entropy_ex", case_cross_entropy },
    { "cross_entropy", case_plain_cross_entropy },
    { "nll", case_nll },
    { "mse", case_mse },
    { "embedding", case_embedding },
};

static const suite operations = { families, sizeof(families) / sizeof(families[0]), 40, 21, NULL };

/* ---- what is moved ------------------------------------------------------------------------------------- */

static uint64_t bytes_moved(void)
{
    weft_counters counters;
    assert_int_equal(weft_wait(), WEFT_OK);
    weft_get_counters(&counters);
    return counters.bytes_moved;
}

/* Rows lie in parts on all ranks, and so do results; what goes from rank to rank is a few numbers of each
 * row. */
static void test_rows_are_not_gathered(void **state)
{
    (void)state;
    enum { ROWS = 6, LENGTH = 4096 };
    start_world(NULL, NULL);
    weft_scope_open();
    const int64_t ranks[] = { MAX_RANKS }, shape[] = { ROWS, LENGTH };
    const weft_placement cut[] = { { WEFT_SHARD, 1, WEFT_SUM } }, along[] = { { WEFT_SHARD, 0, WEFT_SUM } };
    weft_mesh *mesh = weft_mesh_create(1, ranks, NULL);
    weft_tensor *a = weft_randn(WEFT_F32, 2, shape, mesh, cut),
                *g = weft_randn(WEFT_F32, 2, shape, mesh, cut);
    weft_tensor *targets = weft_zeros(WEFT_I64, 1, shape, mesh, NULL);
    weft_tensor *gain = weft_randn(WEFT_F32, 1, shape + 1, mesh, along);
    weft_cross_entropy_options options = WEFT_CROSS_ENTROPY_OPTIONS_DEFAULT;
    options.label_smoothing = 0.5;
    weft_tensor *of_gain, *of_bias;
    uint64_t before = bytes_moved();
    weft_tensor *results[] = {
        weft_softmax(a, 1),
        weft_log_softmax(a, -1),
        weft_softmax_backward(g, a, 1),
        weft_log_softmax_backward(g, a, 1),
        weft_layer_norm(a, gain, gain, 1e-5),
        weft_rms_norm(a, gain, 1e-5),
        weft_layer_norm_backward(g, a, gain, 1e-5, &of_gain, &of_bias),
        weft_cross_entropy_backward(NULL, a, targets),
        weft_cross_entropy_ex_backward(NULL, a, targets, &options),
        weft_nll_backward(NULL, a, targets, -100, WEFT_LOSS_MEAN),
    };
    weft_cross_entropy(a, targets);
    weft_cross_entropy_ex(a, targets, &options);
    weft_nll(a, targets, -100, WEFT_LOSS_MEAN);
    assert_no_error();
    uint64_t moved = bytes_moved() - before;
    for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++) {
        assert_int_equal(weft_tensor_placements(results[i])[0].kind, WEFT_SHARD);
        assert_int_equal(weft_tensor_placements(results[i])[0].dim, 1);
    }
    assert_int_equal(weft_tensor_placements(of_gain)[0].kind, WEFT_SHARD);
    /* About 35 numbers of eight bytes for each row, to and from each rank. */
    assert_true(moved > 0);
    assert_true(moved < ROWS * LENGTH * sizeof(float) / 2);
    weft_scope_close();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* ---- values that are not finite, and large ones -------------------------------------------------------- */

static weft_tensor *matrix(weft_dtype type, int64_t rows, int64_t columns, const double *values,
                           weft_mesh *mesh, int cut)
{
    const int64_t shape[] = { rows, columns };
    const weft_placement placement[] = { cut < 0 ? weft_replicate() : weft_shard(cut) };
    return weft_to_type(weft_distribute(WEFT_F64, 2, shape, values, mesh, placement), type);
}

static void special_softmax(weft_dtype type, weft_mesh *mesh, int cut)
{
    enum { N = 6, C = 4 };
    const double inf = INFINITY;
    const double values[N * C] = { 1,   -inf, 2, -inf, -inf, -inf, -inf, -inf, inf,  0,    1,    2,
                                   NAN, 0,    1, 2,    1000, 1000, 1000, 1000, -3e4, -3e4, -inf, -3e4 };
    const double wanted[N * C] = { 1 / (1 + exp(1)),
                                   0,
                                   exp(1) / (1 + exp(1)),
                                   0,
                                   NAN,
                                   NAN,
                                   NAN,
                                   NAN,
                                   NAN,
                                   NAN,
                                   NAN,
                                   NAN,
                                   NAN,
                                   NAN,
                                   NAN,
                                   NAN,
                                   0.25,
                                   0.25,
                                   0.25,
                                   0.25,
                                   1.0 / 3,
                                   1.0 / 3,
                                   0,
                                   1.0 / 3 };
    double logarithms[N * C];
    for (int i = 0; i < N * C; i++) {
        logarithms[i] = log(wanted[i]);
    }
    weft_tensor *a = matrix(type, N, C, values, mesh, cut);
    double plain[N * C], logged[N * C];
    assert_int_equal(weft_to_host(weft_to_type(weft_softmax(a, 1), WEFT_F64), plain, sizeof(plain)), WEFT_OK);
    assert_int_equal(weft_to_host(weft_to_type(weft_log_softmax(a, 1), WEFT_F64), logged, sizeof(logged)),
                     WEFT_OK);
    double tolerance = type == WEFT_BF16 ? 0x1p-7 : 1e-6;
    for (int i = 0; i < N * C; i++) {
        assert_true(isnan(wanted[i]) ? isnan(plain[i]) : fabs(plain[i] - wanted[i]) <= tolerance);
        assert_true(isnan(wanted[i])       ? isnan(logged[i])
                    : isinf(logarithms[i]) ? logged[i] == logarithms[i]
                                           : fabs(logged[i] - logarithms[i]) <= 2 * tolerance);
    }
}

static void special_losses(weft_mesh *mesh, int cut)
{
    enum { N = 4, C = 3 };
    const double inf = INFINITY;
    const double values[N * C] = { 0, 0, -inf, 700, 700, 700, -inf, -inf, -inf, 1, NAN, 2 };
    const int64_t targets[N] = { 2, 1, 0, 2 }, ranks = N;
    weft_tensor *a = matrix(WEFT_F32, N, C, values, mesh, cut);
    weft_tensor *t = weft_distribute(WEFT_I64, 1, &ranks, targets, mesh, NULL);
    weft_cross_entropy_options options = WEFT_CROSS_ENTROPY_OPTIONS_DEFAULT;
    options.reduction = WEFT_LOSS_NONE;
    float losses[N];
    assert_int_equal(weft_to_host(weft_cross_entropy_ex(a, t, &options), losses, sizeof(losses)), WEFT_OK);
    assert_true(losses[0] == INFINITY);
    assert_true(fabs((double)losses[1] - log(3)) < 1e-6);
    assert_true(isnan(losses[2]) && isnan(losses[3]));
    /* All are ignored. */
    weft_tensor *ones = weft_full(WEFT_I64, 1, &ranks, -100, mesh, NULL);
    float mean;
    assert_int_equal(weft_to_host(weft_cross_entropy_ex(a, ones, NULL), &mean, sizeof(mean)), WEFT_OK);
    assert_true(isnan(mean));
    if (weft_num_processes() > 1) {
        return;
    }
    /* A class that there is not is reported, on the process that has the first classes. */
    const int64_t bad[N] = { 2, 3, 0, -1 };
    weft_tensor *wrong = weft_distribute(WEFT_I64, 1, &ranks, bad, mesh, NULL);
    assert_no_error();
    weft_cross_entropy_ex(a, wrong, &options);
    assert_int_equal(weft_wait(), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "weft_cross_entropy_ex: targets has ");
    weft_nll_backward(NULL, a, wrong, 0, WEFT_LOSS_SUM);
    assert_int_equal(weft_wait(), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "weft_nll_backward: targets has ");
}

/* A mean that is large against what differs from it. */
static void special_norm(weft_mesh *mesh, int cut)
{
    enum { N = 2, C = 8 };
    double values[N * C], results[N * C];
    for (int i = 0; i < N * C; i++) {
        values[i] = 65536 + i % C % 2; /* half of them 1 above the others */
    }
    weft_tensor *a = matrix(WEFT_F32, N, C, values, mesh, cut);
    assert_int_equal(
        weft_to_host(weft_to_type(weft_layer_norm(a, NULL, NULL, 0), WEFT_F64), results, sizeof(results)),
        WEFT_OK);
    for (int i = 0; i < N * C; i++) {
        assert_true(results[i] == (i % 2 == 0 ? -1 : 1));
    }
}

static void test_special_values(void **state)
{
    (void)state;
    start_world(NULL, NULL);
    const int64_t ranks[] = { 3 };
    weft_mesh *mesh = weft_mesh_create(1, ranks, NULL);
    for (int cut = -1; cut < 2; cut++) {
        weft_scope_open();
        special_softmax(WEFT_F64, mesh, cut);
        special_softmax(WEFT_F32, mesh, cut);
        special_softmax(WEFT_BF16, mesh, cut);
        special_losses(mesh, cut);
        special_norm(mesh, cut);
        weft_scope_close();
    }
    assert_int_equal(weft_finalize(), WEFT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_not_gathered),
        cmocka_unit_test(test_special_values),
    };
    return run_suite(&operations, tests, sizeof(tests) / sizeof(tests[0]));
}
