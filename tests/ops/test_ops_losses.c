/* Losses and tables of embeddings on random shapes, meshes and placements against plain loops, with panels
 * of several heights. */
#include "real_operand.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "ops/backward.h"
#include "values.h"

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
                     .type = any_real_type() };
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
    weft_tensor *loss = weft_cross_entropy(c.values.tensor, c.targets.tensor, &c.options);
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
    compare_losses(&c, weft_cross_entropy(c.values.tensor, c.targets.tensor, NULL), gradient);
    compare_losses(&c, weft_cross_entropy(c.values.tensor, c.targets.tensor, NULL), gradient);
    release_class_case(&c);
}

/* With the log-sums of the forward pass. */
static void case_kept_log_sums(void)
{
    class_case c = make_class_case("cross_entropy_with_log_sums");
    reference_cross_entropy(&c);
    double *log_sums = array(c.n);
    for (int64_t row = 0; row < c.n; row++) {
        const double *x = c.values.dense + row * c.classes;
        double sum = 0;
        for (int64_t i = 0; i < c.classes; i++) {
            sum += exp(x[i] - x[0]);
        }
        log_sums[row] = x[0] + log(sum);
    }
    weft_tensor *kept;
    weft_tensor *loss = weft_cross_entropy_with_log_sums(c.values.tensor, c.targets.tensor, &c.options, &kept);
    weft_tensor *gradient = weft_cross_entropy_backward_with_log_sums(
        c.has_gradient ? c.gradient.tensor : NULL, c.values.tensor, c.targets.tensor, kept, &c.options);
    compare_losses(&c, loss, gradient);
    /* the sums may be in single precision */
    weft_dtype type = c.type == WEFT_F64 ? WEFT_F64 : WEFT_F32;
    compare(weft_to_type(kept, type), type, 1, &c.n, log_sums, allowed(c.type, c.values.exact, 8), 12, c.what);
    free(log_sums);
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
    weft_dtype type = any_real_type();
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

/* ---- losses of pairs of elements ----------------------------------------------------------------------- */

/* Multiples of 1/64 from 0 to 1, which all types hold. */
static operand make_probabilities(weft_mesh *mesh, weft_dtype type, int ndim, const int64_t shape[])
{
    operand x = make_operand(mesh, WEFT_I64, ndim, shape, INDEX, 65);
    x.tensor = weft_scale(weft_to_type(x.tensor, type), 1.0 / 64);
    for (int64_t i = 0; i < x.count; i++) {
        x.dense[i] /= 64;
    }
    x.exact = true;
    return x;
}

/* A weight in 64ths, of the last dimension or of one element. */
static operand make_weight(weft_mesh *mesh, weft_dtype type, int ndim, const int64_t shape[])
{
    int64_t last = ndim > 0 && below(2) ? shape[ndim - 1] : 1;
    return make_probabilities(mesh, type, ndim > 0, &last);
}

static double weight_at(const operand *weight, int64_t i)
{
    return weight->dense[weight->count == 1 ? 0 : i % weight->count];
}

typedef struct pair_case {
    operand a, b, weight, pos_weight;
    weft_dtype type;
    weft_loss_reduction reduction;
    bool weighs, weighs_ones;
    int ndim;
    int64_t shape[WEFT_MAX_DIMS];
    double *losses;
} pair_case;

static pair_case make_pair_case(bool probabilities, bool real_targets)
{
    pair_case c = { .type = any_real_type(), .reduction = (weft_loss_reduction)below(3), .weighs = below(2),
                    .weighs_ones = below(2) };
    c.ndim = any_shape(c.shape);
    weft_mesh *mesh = any_mesh();
    c.a = probabilities ? make_probabilities(mesh, c.type, c.ndim, c.shape) : make_real(mesh, c.type, c.ndim, c.shape);
    c.b = real_targets ? make_real(mesh, c.type, c.ndim, c.shape)
                       : make_probabilities(mesh, c.type, c.ndim, c.shape);
    c.weight = make_weight(mesh, c.type, c.ndim, c.shape);
    c.pos_weight = make_weight(mesh, c.type, c.ndim, c.shape);
    c.losses = array(c.a.count);
    return c;
}

static void finish_pair_case(pair_case *c, weft_tensor *loss, double largest, const char *name)
{
    double total = 0, count = (double)c->a.count;
    for (int64_t i = 0; i < c->a.count; i++) {
        total += c->losses[i];
    }
    bool exact = c->a.exact && c->b.exact, averages = c->reduction == WEFT_LOSS_MEAN;
    double mean = total / count;
    char what[900];
    snprintf(what, sizeof(what), "%s(%s, %s) of %s, reduction %d, weight %d, of ones %d", name, describe_operand(&c->a),
             describe_operand(&c->b), weft_dtype_name(c->type), (int)c->reduction, c->weighs, c->weighs_ones);
    if (c->reduction == WEFT_LOSS_NONE) {
        compare(loss, c->type, c->ndim, c->shape, c->losses, allowed(c->type, exact, 8), largest, what);
    } else {
        compare(loss, c->type, 0, NULL, averages ? &mean : &total, allowed(c->type, exact, 8 + sqrt(count)),
                (averages ? fabs(mean) : fabs(total)) + largest, what);
    }
    release(&c->a);
    release(&c->b);
    release(&c->weight);
    release(&c->pos_weight);
    free(c->losses);
}

/* With weights of the classes (between 1 and 2), and of numbers of classes or of probabilities. */
static void case_general_cross_entropy(void)
{
    class_case c = make_class_case("cross_entropy_ex with a weight");
    bool soft = below(2);
    operand weight = make_probabilities(c.values.mesh, c.type, 1, &c.classes),
            shares = make_probabilities(c.values.mesh, c.type, 2, c.values.shape);
    double counted = 0;
    c.options.size = sizeof(c.options);
    c.options.weight = weft_add_scalar(weight.tensor, 1);
    c.options.ignore_index = soft ? -100 : c.options.ignore_index;
    for (int64_t row = 0; row < c.n; row++) {
        int64_t target = (int64_t)c.targets.dense[row];
        counted += soft ? 1 : target == c.options.ignore_index ? 0 : 1 + weight.dense[target];
    }
    for (int64_t row = 0; row < c.n; row++) {
        const double *x = c.values.dense + row * c.classes;
        int64_t target = (int64_t)c.targets.dense[row];
        double sum = 0, all = 0;
        for (int64_t i = 0; i < c.classes; i++) {
            sum += exp(x[i]);
        }
        for (int64_t i = 0; i < c.classes && (soft || target != c.options.ignore_index); i++) {
            double share = soft ? shares.dense[row * c.classes + i] : i == target;
            double factor = (1 - c.options.label_smoothing) * share + c.options.label_smoothing / (double)c.classes;
            factor *= 1 + weight.dense[i];
            all += factor;
            c.losses[row] += factor * (log(sum) - x[i]);
            c.gradients[row * c.classes + i] = -factor;
        }
        int64_t from = c.options.reduction == WEFT_LOSS_NONE ? row : 0;
        double scale = (c.has_gradient ? c.gradient.dense[from] : 1) / (c.options.reduction == WEFT_LOSS_MEAN ? counted : 1);
        for (int64_t i = 0; i < c.classes; i++) {
            double *gradient = &c.gradients[row * c.classes + i];
            bool ignored = !soft && target == c.options.ignore_index; /* 0, also where no row counts and the mean is NaN */
            *gradient = ignored ? 0 : scale * (*gradient + all * exp(x[i]) / sum);
        }
    }
    double total = 0, largest = 8 + 8 * (double)c.classes;
    for (int64_t row = 0; row < c.n; row++) {
        total += c.losses[row];
    }
    double mean = total / counted, roundings = allowed(c.type, c.exact, 16);
    bool each = c.options.reduction == WEFT_LOSS_NONE;
    weft_tensor *targets = soft ? shares.tensor : c.targets.tensor;
    compare(weft_cross_entropy(c.values.tensor, targets, &c.options), c.type, each, &c.n,
            each ? c.losses : c.options.reduction == WEFT_LOSS_MEAN ? &mean : &total, roundings,
            each || c.options.reduction == WEFT_LOSS_MEAN ? largest : largest * (double)(c.n + 1), c.what);
    compare(weft_cross_entropy_ex_backward(c.has_gradient ? c.gradient.tensor : NULL, c.values.tensor, targets, &c.options),
            c.type, 2, c.values.shape, c.gradients, roundings, largest, c.what);
    release(&weight);
    release(&shares);
    release_class_case(&c);
}

static void case_huber(void)
{
    pair_case c = make_pair_case(false, true);
    int64_t kind = below(3);
    double bend = kind == 0 ? 0 : 0.75;
    for (int64_t i = 0; i < c.a.count; i++) {
        double distance = fabs(c.a.dense[i] - c.b.dense[i]);
        double loss = distance < bend ? distance * distance / 2 : bend * (distance - bend / 2);
        c.losses[i] = kind == 0 ? distance : kind == 1 ? loss : loss / bend;
    }
    weft_tensor *a = c.a.tensor, *b = c.b.tensor;
    finish_pair_case(&c, kind == 0   ? weft_l1(a, b, c.reduction)
                         : kind == 1 ? weft_huber(a, b, bend, c.reduction)
                                     : weft_smooth_l1(a, b, bend, c.reduction),
                     8, kind == 0 ? "l1" : kind == 1 ? "huber" : "smooth_l1");
}

static void case_binary_cross_entropy(void)
{
    pair_case c = make_pair_case(true, false);
    for (int64_t i = 0; i < c.a.count; i++) {
        double a = c.a.dense[i], target = c.b.dense[i];
        double loss = -target * fmax(log(a), -100) - (1 - target) * fmax(log1p(-a), -100);
        c.losses[i] = c.weighs ? loss * weight_at(&c.weight, i) : loss;
    }
    finish_pair_case(&c, weft_binary_cross_entropy(c.a.tensor, c.b.tensor, c.weighs ? c.weight.tensor : NULL, c.reduction),
                     100, "binary_cross_entropy");
}

static void case_logit_cross_entropy(void)
{
    pair_case c = make_pair_case(false, false);
    for (int64_t i = 0; i < c.a.count; i++) {
        double a = c.a.dense[i], target = c.b.dense[i], ones = c.weighs_ones ? weight_at(&c.pos_weight, i) : 1;
        double loss = (1 - target) * log1p(exp(a)) + ones * target * log1p(exp(-a));
        c.losses[i] = c.weighs ? loss * weight_at(&c.weight, i) : loss;
    }
    weft_tensor *loss = weft_binary_cross_entropy_with_logits(c.a.tensor, c.b.tensor, c.weighs ? c.weight.tensor : NULL,
                                                              c.weighs_ones ? c.pos_weight.tensor : NULL, c.reduction);
    finish_pair_case(&c, loss, 16, "binary_cross_entropy_with_logits");
}

static void case_kl_div(void)
{
    bool logs = below(2);
    pair_case c = make_pair_case(false, logs);
    for (int64_t i = 0; i < c.a.count; i++) {
        double a = c.a.dense[i], target = c.b.dense[i];
        c.losses[i] = logs ? exp(target) * (target - a) : (target == 0 ? 0 : target * log(target)) - target * a;
    }
    finish_pair_case(&c, weft_kl_div(c.a.tensor, c.b.tensor, logs, c.reduction), 200, "kl_div");
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
        back[i] = rounded_to(type, back[i]); /* once, at the end: sums in 16 bits would lose ones above 256 */
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

/* ---- extreme logits ------------------------------------------------------------------------------------ */

/* Each class has the same probability, and a log-sum has lost what tells it. Infinite logits have none. */
static void check_equal_logits(weft_mesh *mesh, weft_dtype type, double logit, const weft_placement *placement)
{
    enum { N = 5, CLASSES = 4 };
    int64_t shape[] = { N, CLASSES }, n = N;
    weft_tensor *x = weft_redistribute(weft_full(type, logit, 2, shape, mesh, NULL), mesh, placement);
    weft_tensor *targets = weft_zeros(WEFT_I64, 1, &n, mesh, NULL), *log_sums;
    weft_cross_entropy_with_log_sums(x, targets, NULL, &log_sums);
    weft_tensor *gradient = weft_cross_entropy_backward_with_log_sums(NULL, x, targets, log_sums, NULL);
    double found[N][CLASSES], sums[N];
    assert_int_equal(weft_to_host(weft_to_type(gradient, WEFT_F64), found, sizeof found), WEFT_OK);
    assert_int_equal(weft_to_host(log_sums, sums, sizeof sums), WEFT_OK);
    double own = type == WEFT_F32 ? (double)(float)logit : logit;
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < CLASSES; j++) {
            double expected = (0.25 - (j == 0)) / N;
            assert_true(isfinite(logit) ? fabs(found[i][j] - expected) < 1e-7 : isnan(found[i][j]));
        }
        assert_true(isfinite(logit)        ? fabs(sums[i] - own - log(CLASSES)) <= 1e-6 + 1e-15 * fabs(own)
                    : logit == -INFINITY ? sums[i] == -INFINITY
                                         : !isfinite(sums[i]));
    }
}

/* An infinite gradient of the loss: the sign is that of what it is multiplied by, with log-sums as without. Probabilities are 1/4, which
 * smoothing makes larger or smaller than what is wanted of each class. */
static void check_infinite_gradient(weft_mesh *mesh, weft_dtype type, const weft_placement *placement)
{
    enum { N = 5, CLASSES = 4 };
    int64_t shape[] = { N, CLASSES }, n = N;
    weft_cross_entropy_options options = WEFT_CROSS_ENTROPY_OPTIONS_DEFAULT;
    options.label_smoothing = 0.5;
    weft_tensor *x = weft_redistribute(weft_zeros(type, 2, shape, mesh, NULL), mesh, placement);
    weft_tensor *targets = weft_zeros(WEFT_I64, 1, &n, mesh, NULL), *log_sums;
    weft_tensor *infinite = weft_full(type, (double)INFINITY, 0, NULL, mesh, NULL);
    weft_cross_entropy_with_log_sums(x, targets, &options, &log_sums);
    weft_tensor *gradient = weft_cross_entropy_backward_with_log_sums(infinite, x, targets, log_sums, &options);
    double found[N][CLASSES];
    assert_int_equal(weft_to_host(weft_to_type(gradient, WEFT_F64), found, sizeof found), WEFT_OK);
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < CLASSES; j++) {
            assert_true(found[i][j] == (j == 0 ? -INFINITY : INFINITY));
        }
    }
}

static void extreme_logits(void **state)
{
    (void)state;
    static const double logits[] = { 3, -70000, 1e9, 1e12, 1e17, -3e38, -INFINITY, INFINITY, NAN };
    start_world(NULL, NULL);
    int64_t two[] = { 2 };
    weft_mesh *mesh = weft_mesh_create(1, two, NULL);
    const weft_placement placements[] = { weft_replicate(), weft_shard(0), weft_shard(1) };
    for (int p = 0; p < 3; p++) {
        for (size_t i = 0; i < sizeof logits / sizeof logits[0]; i++) {
            weft_scope_begin();
            check_equal_logits(mesh, WEFT_F32, logits[i], &placements[p]);
            check_equal_logits(mesh, WEFT_F64, logits[i], &placements[p]);
            weft_scope_end();
        }
        check_infinite_gradient(mesh, WEFT_F32, &placements[p]);
        check_infinite_gradient(mesh, WEFT_F64, &placements[p]);
    }
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* ---- all of them --------------------------------------------------------------------------------------- */

static const family families[] = {
    { "cross_entropy_ex", case_cross_entropy },
    { "cross_entropy", case_plain_cross_entropy },
    { "cross_entropy_with_log_sums", case_kept_log_sums },
    { "nll", case_nll },
    { "mse", case_mse },
    { "general_cross_entropy", case_general_cross_entropy },
    { "huber", case_huber },
    { "binary_cross_entropy", case_binary_cross_entropy },
    { "logit_cross_entropy", case_logit_cross_entropy },
    { "kl_div", case_kl_div },
    { "embedding", case_embedding },
};

static const suite operations = { families, sizeof(families) / sizeof(families[0]), 40, 21, NULL };

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(extreme_logits),
    };
    return run_suite(&operations, tests, 1);
}
