/* Products, sums, look-ups, losses, reshapes and a small network on random shapes, meshes and placements
 * against the plain answer, with panels of several heights; in one process that hosts all ranks, or in
 * several. WEFT_TEST_CASES says how many cases of each. Values are small whole numbers where the answer
 * can be exact. */
#include "operand.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/backward.h"

/* ---- products ------------------------------------------------------------------------------------------ */

static void case_matmul(void)
{
    bool transpose_a = below(2), transpose_b = below(2);
    int batch = below(2) ? 0 : (int)below(3);
    int64_t sizes[2] = { below(5), below(4) }, m = any_size(), n = any_size(), k = any_size();
    int64_t shape_a[4], shape_b[4], shape[4];
    for (int d = 0; d < batch; d++) {
        shape_a[d] = shape_b[d] = shape[d] = sizes[d];
    }
    shape_a[batch] = transpose_a ? k : m;
    shape_a[batch + 1] = transpose_a ? m : k;
    shape_b[batch] = transpose_b ? n : k;
    shape_b[batch + 1] = transpose_b ? k : n;
    shape[batch] = m;
    shape[batch + 1] = n;
    weft_mesh *mesh = any_mesh();
    weft_dtype dtype = any_float();
    operand a = make_operand(mesh, dtype, batch + 2, shape_a, WHOLE, 0);
    operand b = make_operand(mesh, dtype, batch + 2, shape_b, WHOLE, 0);
    int64_t count = shape_count(batch + 2, shape);
    double *expected = calloc((size_t)count + 1, sizeof(double));
    for (int64_t i = 0; i < count; i++) {
        int64_t column = i % n, row = i / n % m, product = i / n / m;
        for (int64_t j = 0; j < k; j++) {
            int64_t at_a = transpose_a ? j * m + row : row * k + j,
                    at_b = transpose_b ? column * k + j : j * n + column;
            expected[i] += a.dense[product * m * k + at_a] * b.dense[product * k * n + at_b];
        }
    }
    char what[600];
    snprintf(what, sizeof(what), "matmul(%s%s, %s%s)", describe_operand(&a), transpose_a ? "^T" : "",
             describe_operand(&b), transpose_b ? "^T" : "");
    bool plain = !transpose_a && !transpose_b && below(2);
    weft_tensor *result = plain ? weft_matmul(a.tensor, b.tensor)
                                : weft_matmul_ex(a.tensor, transpose_a, b.tensor, transpose_b);
    check(result, dtype, batch + 2, shape, expected, a.exact && b.exact ? 0 : 64, 500, what);
    free(expected);
    release(&a);
    release(&b);
}

/* ---- sums ---------------------------------------------------------------------------------------------- */

static weft_dtype type_of_sum(weft_dtype type)
{
    return type == WEFT_I32 ? WEFT_I64 : type;
}

static void case_sum(void)
{
    int64_t shape[WEFT_MAX_DIMS], result_shape[WEFT_MAX_DIMS];
    int ndim = 0;
    while (ndim == 0) {
        ndim = random_shape(&source, 4, 9, shape);
    }
    int dim = (int)below(ndim);
    bool keepdim = below(2);
    int result_ndim = 0;
    for (int d = 0; d < ndim; d++) {
        if (d != dim || keepdim) {
            result_shape[result_ndim++] = d == dim ? 1 : shape[d];
        }
    }
    operand a = make_operand(any_mesh(), any_number(), ndim, shape, WHOLE, 0);
    int64_t inner = shape_count(ndim - dim - 1, shape + dim + 1),
            count = shape_count(result_ndim, result_shape);
    double *expected = calloc((size_t)count + 1, sizeof(double));
    for (int64_t i = 0; i < a.count; i++) {
        expected[i / inner / shape[dim] * inner + i % inner] += a.dense[i];
    }
    char what[400];
    snprintf(what, sizeof(what), "sum(%s, %d, %d)", describe_operand(&a), dim, keepdim);
    check(weft_sum(a.tensor, below(2) ? dim : dim - ndim, keepdim), type_of_sum(a.dtype), result_ndim,
          result_shape, expected, a.exact ? 0 : 32, 100, what);
    free(expected);
    release(&a);
}

static void case_sum_all(void)
{
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = random_shape(&source, 4, 9, shape);
    operand a = make_operand(any_mesh(), any_number(), ndim, shape, WHOLE, 0);
    double expected = 0;
    for (int64_t i = 0; i < a.count; i++) {
        expected += a.dense[i];
    }
    check(weft_sum(a.tensor, WEFT_ALL_DIMS, false), type_of_sum(a.dtype), 0, NULL, &expected, a.exact ? 0 : 32,
          5.0 * (double)a.count + 100, describe_operand(&a));
    release(&a);
}

/* ---- look-ups ------------------------------------------------------------------------------------------ */

static void case_embedding(void)
{
    bool is_wide = below(6) == 0; /* enough for non-temporal stores */
    int64_t table_shape[2] = { 1 + below(MAX_SIZE), is_wide ? 128 + below(200) : any_size() }, shape[WEFT_MAX_DIMS];
    int ndim = random_shape(&source, 3, 9, shape);
    weft_mesh *mesh = any_mesh();
    operand table = make_operand(mesh, any_float(), 2, table_shape, WHOLE, 0);
    operand indices = make_operand(mesh, any_index(), ndim, shape, INDEX, table_shape[0]);
    int64_t width = table_shape[1];
    double *expected = malloc(((size_t)(indices.count * width) + 1) * sizeof(double));
    for (int64_t i = 0; i < indices.count * width; i++) {
        expected[i] = table.dense[(int64_t)indices.dense[i / width] * width + i % width];
    }
    shape[ndim] = width;
    char what[600];
    snprintf(what, sizeof(what), "embedding(%s, %s)", describe_operand(&table), describe_operand(&indices));
    check(weft_embedding(table.tensor, indices.tensor), table.dtype, ndim + 1, shape, expected,
          table.exact ? 0 : 32, 10, what);
    free(expected);
    release(&table);
    release(&indices);
}

static void case_embedding_backward(void)
{
    int64_t rows = 1 + below(MAX_SIZE), width = any_size(), shape[WEFT_MAX_DIMS],
            table_shape[2] = { rows, width };
    int ndim = random_shape(&source, 3, 9, shape);
    weft_mesh *mesh = any_mesh();
    operand indices = make_operand(mesh, any_index(), ndim, shape, INDEX, rows);
    shape[ndim] = width;
    operand gradient = make_operand(mesh, any_float(), ndim + 1, shape, WHOLE, 0);
    double *expected = calloc((size_t)(rows * width) + 1, sizeof(double));
    for (int64_t i = 0; i < gradient.count; i++) {
        expected[(int64_t)indices.dense[i / width] * width + i % width] += gradient.dense[i];
    }
    char what[600];
    snprintf(what, sizeof(what), "embedding_backward(%s, %s, %d)", describe_operand(&gradient),
             describe_operand(&indices), (int)rows);
    check(weft_embedding_backward(gradient.tensor, indices.tensor, rows), gradient.dtype, 2, table_shape,
          expected, gradient.exact ? 0 : 64, 100, what);
    free(expected);
    release(&indices);
    release(&gradient);
}

/* ---- losses -------------------------------------------------------------------------------------------- */

/* log(sum(exp(row))) */
static double log_sum_exp(const double *row, int64_t n)
{
    double max = row[0], sum = 0;
    for (int64_t i = 1; i < n; i++) {
        max = row[i] > max ? row[i] : max;
    }
    for (int64_t i = 0; i < n; i++) {
        sum += exp(row[i] - max);
    }
    return max + log(sum);
}

typedef struct loss_case {
    operand logits, targets;
    int64_t n, classes;
} loss_case;

static loss_case make_loss_case(weft_mesh *mesh)
{
    loss_case c = { .n = any_size(), .classes = 1 + below(MAX_SIZE) };
    int64_t shape[2] = { c.n, c.classes };
    c.logits = make_operand(mesh, any_float(), 2, shape, REAL, 0);
    c.targets = make_operand(mesh, any_index(), 1, shape, INDEX, c.classes);
    return c;
}

static void case_cross_entropy(void)
{
    loss_case c = make_loss_case(any_mesh());
    double expected = 0;
    for (int64_t i = 0; i < c.n; i++) {
        const double *row = c.logits.dense + i * c.classes;
        expected += log_sum_exp(row, c.classes) - row[(int64_t)c.targets.dense[i]];
    }
    expected /= (double)c.n; /* 0 / 0 of no rows */
    char what[600];
    snprintf(what, sizeof(what), "cross_entropy(%s, %s)", describe_operand(&c.logits),
             describe_operand(&c.targets));
    check(weft_cross_entropy(c.logits.tensor, c.targets.tensor, NULL), c.logits.dtype, 0, NULL, &expected, 100, 30,
          what);
    release(&c.logits);
    release(&c.targets);
}

static void case_cross_entropy_backward(void)
{
    weft_mesh *mesh = any_mesh();
    loss_case c = make_loss_case(mesh);
    bool has_gradient = below(2);
    operand gradient = make_operand(mesh, c.logits.dtype, 0, NULL, WHOLE, 0);
    double g = has_gradient ? gradient.dense[0] : 1;
    double *expected = malloc(((size_t)c.logits.count + 1) * sizeof(double));
    for (int64_t i = 0; i < c.logits.count; i++) {
        const double *row = c.logits.dense + i / c.classes * c.classes;
        double softmax = exp(c.logits.dense[i] - log_sum_exp(row, c.classes));
        bool target = i % c.classes == (int64_t)c.targets.dense[i / c.classes];
        expected[i] = g * (softmax - (target ? 1 : 0)) / (double)c.n;
    }
    char what[600];
    snprintf(what, sizeof(what), "cross_entropy_backward(%s, %s)", describe_operand(&c.logits),
             describe_operand(&c.targets));
    check(
        weft_cross_entropy_backward(has_gradient ? gradient.tensor : NULL, c.logits.tensor, c.targets.tensor),
        c.logits.dtype, 2, c.logits.shape, expected, 100, 30, what);
    free(expected);
    release(&gradient);
    release(&c.logits);
    release(&c.targets);
}

/* ---- shapes -------------------------------------------------------------------------------------------- */

/* Another shape of `count` elements: a random split of it into factors, sometimes with ones. */
static int other_shape(int64_t count, int64_t shape[])
{
    int ndim = 0;
    if (count == 0) {
        shape[ndim++] = below(4);
        shape[ndim++] = 0;
        return ndim;
    }
    while (count > 1 && ndim < 5) {
        int64_t factor = 2 + below(count - 1);
        while (count % factor != 0) {
            factor = factor == count ? count : factor + 1;
        }
        shape[ndim++] = below(4) == 0 ? 1 : factor;
        count /= shape[ndim - 1];
    }
    if (count > 1 || below(3) == 0) {
        shape[ndim++] = count;
    }
    return ndim;
}

static void case_reshape(void)
{
    int64_t shape[WEFT_MAX_DIMS], new_shape[WEFT_MAX_DIMS], given[WEFT_MAX_DIMS];
    int ndim = random_shape(&source, 4, 9, shape);
    static const weft_dtype types[] = { WEFT_F32, WEFT_F64, WEFT_I32, WEFT_I64 };
    operand a = make_operand(any_mesh(), types[below(4)], ndim, shape, WHOLE, 0);
    int new_ndim = other_shape(a.count, new_shape);
    if (ndim > 1 && below(3) == 0) {
        /* Keeps the first dimension, joins the others. */
        new_shape[0] = shape[0];
        new_shape[1] = shape_count(ndim - 1, shape + 1);
        new_ndim = 2;
    } else if (ndim > 1 && below(3) == 0) {
        /* Joins the first two. */
        new_shape[0] = shape[0] * shape[1];
        new_ndim = ndim - 1;
        memcpy(new_shape + 1, shape + 2, (size_t)(ndim - 2) * sizeof(shape[0]));
    }
    memcpy(given, new_shape, sizeof(given));
    if (new_ndim > 0 && a.count > 0 && below(2)) {
        given[below(new_ndim)] = -1;
    }
    char what[400];
    snprintf(what, sizeof(what), "reshape(%s)", describe_operand(&a));
    weft_tensor *result = weft_reshape(a.tensor, new_ndim, given);
    check(result, a.dtype, new_ndim, new_shape, a.dense, a.exact ? 0 : 32, 10, what);
    /* Writes to the result do not show in its inputs. */
    if (a.dtype == WEFT_F64 && !any_partial(&a)) {
        weft_add_inplace(result, weft_ones(WEFT_F64, new_ndim, new_shape, a.mesh, NULL), 1);
        check(a.tensor, a.dtype, ndim, shape, a.dense, 0, 10, what);
    }
    release(&a);
}

/* ---- a chain: a training step of a small network, against the same on one rank ------------------------- */

/* Loss and the gradient of the first weight. */
static void network(weft_mesh *mesh, const weft_placement *data, const weft_placement *first,
                    const weft_placement *second, double *loss, double *gradient)
{
    enum { ROWS = 12, IN = 6, HIDDEN = 10, OUT = 5 };
    double x[ROWS * IN], w1[IN * HIDDEN], w2[HIDDEN * OUT];
    int64_t targets[ROWS];
    prng random = { 99 };
    for (int i = 0; i < ROWS * IN; i++) {
        x[i] = (double)prng_below(&random, 200) / 100 - 1;
    }
    for (int i = 0; i < IN * HIDDEN; i++) {
        w1[i] = (double)prng_below(&random, 200) / 100 - 1;
    }
    for (int i = 0; i < HIDDEN * OUT; i++) {
        w2[i] = (double)prng_below(&random, 200) / 100 - 1;
    }
    for (int i = 0; i < ROWS; i++) {
        targets[i] = prng_below(&random, OUT);
    }
    int64_t x_shape[] = { ROWS, IN }, w1_shape[] = { IN, HIDDEN }, w2_shape[] = { HIDDEN, OUT };
    weft_scope_begin();
    weft_tensor *tx = weft_distribute(WEFT_F64, 2, x_shape, x, mesh, data);
    weft_tensor *tw1 = weft_distribute(WEFT_F64, 2, w1_shape, w1, mesh, first);
    weft_tensor *tw2 = weft_distribute(WEFT_F64, 2, w2_shape, w2, mesh, second);
    weft_tensor *tt = weft_distribute(WEFT_I64, 1, x_shape, targets, mesh, data);
    weft_tensor *hidden = weft_matmul(tx, tw1), *active = weft_gelu(hidden),
                *logits = weft_matmul(active, tw2);
    weft_tensor *result = weft_cross_entropy(logits, tt, NULL);
    weft_tensor *d_logits = weft_cross_entropy_backward(NULL, logits, tt);
    weft_tensor *d_active = weft_matmul_ex(d_logits, false, tw2, true);
    weft_tensor *d_hidden = weft_gelu_backward(d_active, hidden);
    weft_tensor *d_w1 = weft_matmul_ex(tx, true, d_hidden, false);
    weft_add_inplace(tw1, d_w1, -0.5);
    assert_no_error();
    assert_int_equal(weft_to_host(result, loss, sizeof(*loss)), WEFT_OK);
    assert_int_equal(weft_to_host(tw1, gradient, sizeof(w1)), WEFT_OK);
    weft_scope_end();
}

static void case_network(void)
{
    static const char *const forms[][3] = {
        { "R,R", "R,R", "R,R" },    { "S0,S0", "R,R", "R,R" },     { "R,R", "S1,S1", "S0,S0" },
        { "S0,R", "R,S1", "R,S0" }, { "S0,S0", "S0,S0", "S0,S0" }, { "S0,R", "S0,S1", "S1,S0" },
    };
    double loss[2], gradient[2][60];
    int64_t one[] = { 1, 1 }, shape[] = { 1 + below(4), 1 + below(2) };
    const char *const *form = forms[below(6)];
    weft_placement placements[3][2];
    for (int i = 0; i < 3; i++) {
        assert_int_equal(weft_placements_parse(form[i], 2, placements[i]), WEFT_OK);
    }
    network(weft_mesh_create(2, one, NULL), NULL, NULL, NULL, &loss[0], gradient[0]);
    network(weft_mesh_create(2, shape, NULL), placements[0], placements[1], placements[2], &loss[1],
            gradient[1]);
    assert_true(fabs(loss[0] - loss[1]) < 1e-13);
    for (int i = 0; i < 60; i++) {
        assert_true(fabs(gradient[0][i] - gradient[1][i]) < 1e-13);
    }
    checks_made++;
}

/* ---- the suites ---------------------------------------------------------------------------------------- */

static const family families[] = {
    { "matmul", case_matmul },
    { "sum", case_sum },
    { "sum_all", case_sum_all },
    { "embedding", case_embedding },
    { "embedding_backward", case_embedding_backward },
    { "cross_entropy", case_cross_entropy },
    { "cross_entropy_backward", case_cross_entropy_backward },
    { "reshape", case_reshape },
    { "network", case_network },
};

static const suite operations = { families, sizeof(families) / sizeof(families[0]), 70, 1, NULL };

int main(void)
{
    return run_suite(&operations, NULL, 0);
}
