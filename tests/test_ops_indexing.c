/* Places and orders on random shapes, types, meshes and placements against the plain answer, with panels of
 * several heights; in one process that hosts all ranks, or in several. WEFT_TEST_CASES says how many cases of
 * each. */
#include "operand.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- operands of all types ----------------------------------------------------------------------------- */

/* A random tensor whose values are its dense ones without rounding. `tensor` has the type, `x` the operand it
 * was made of, in a type that operands have. */
typedef struct typed {
    operand x;
    weft_dtype dtype;
    weft_tensor *tensor;
} typed;

static weft_dtype any_type(void)
{
    return (weft_dtype)below(WEFT_DTYPE_COUNT);
}

static bool is_floating(weft_dtype dtype)
{
    return dtype == WEFT_F64 || dtype == WEFT_F32 || dtype == WEFT_BF16 || dtype == WEFT_F16;
}

static weft_dtype type_of_operand(weft_dtype dtype)
{
    return dtype == WEFT_BF16 || dtype == WEFT_F16  ? WEFT_F32
           : dtype == WEFT_U8 || dtype == WEFT_BOOL ? WEFT_I32
                                                    : dtype;
}

/* After the dense values have changed. */
static void realise_typed(typed *t)
{
    realise(&t->x);
    t->tensor = weft_to_type(t->x.tensor, t->dtype);
    assert_no_error();
}

static typed make_typed(weft_mesh *mesh, weft_dtype dtype, int ndim, const int64_t shape[])
{
    typed t = { .dtype = dtype };
    bool without_sign = dtype == WEFT_U8 || dtype == WEFT_BOOL;
    for (;;) {
        t.x = make_operand(mesh, type_of_operand(dtype), ndim, shape, without_sign ? INDEX : WHOLE,
                           dtype == WEFT_BOOL ? 2 : 11);
        if (t.x.exact) {
            break;
        }
        release(&t.x);
    }
    t.tensor = weft_to_type(t.x.tensor, dtype);
    return t;
}

/* A tensor that lies as it pleases, without Partial. */
static weft_tensor *whole_somehow(weft_tensor *tensor, weft_mesh *mesh, int ndim)
{
    weft_placement placements[3];
    random_placements(&source, mesh, ndim, false, placements);
    return weft_redistribute(tensor, mesh, placements);
}

static void check_typed(weft_tensor *tensor, weft_dtype dtype, int ndim, const int64_t shape[],
                        const double *expected, const char *what)
{
    assert_no_error();
    assert_int_equal(weft_tensor_dtype(tensor), dtype);
    check(weft_to_type(tensor, WEFT_F64), WEFT_F64, ndim, shape, expected, 0, 0, what);
}

/* ---- lines --------------------------------------------------------------------------------------------- */

/* A random shape, and one dimension of it. */
typedef struct lines {
    int ndim, dim;
    int64_t shape[WEFT_MAX_DIMS];
    int64_t outer, length, inner;
} lines;

static void set_length(lines *l, int64_t length)
{
    l->shape[l->dim] = l->length = length;
    l->outer = shape_count(l->dim, l->shape);
    l->inner = shape_count(l->ndim - l->dim - 1, l->shape + l->dim + 1);
}

static lines any_lines(void)
{
    lines l = { .ndim = 0 };
    while (l.ndim == 0) {
        l.ndim = random_shape(&source, 4, 9, l.shape);
    }
    l.dim = (int)below(l.ndim);
    set_length(&l, l.shape[l.dim]);
    return l;
}

static int64_t count_of(const lines *l)
{
    return l->outer * l->length * l->inner;
}

/* Element k of line (outer, j), which is counted by `line`. */
static int64_t place_in(const lines *l, int64_t line, int64_t k)
{
    return (line / l->inner * l->length + k) * l->inner + line % l->inner;
}

/* The dimension, sometimes counted from the end. */
static int spoken(const lines *l)
{
    return below(2) ? l->dim : l->dim - l->ndim;
}

static double *new_values(int64_t count)
{
    return calloc((size_t)count + 1, sizeof(double));
}

/* ---- argmax and argmin --------------------------------------------------------------------------------- */

/* Some values become special. */
static void sprinkle(typed *t, bool infinities)
{
    if (!is_floating(t->dtype) || below(2)) {
        return;
    }
    for (int64_t i = 0; i < t->x.count; i++) {
        int64_t which = below(10);
        if (which == 0) {
            t->x.dense[i] = NAN;
        } else if (which < 3 && infinities) {
            t->x.dense[i] = which == 1 ? INFINITY : -INFINITY;
        }
    }
    realise_typed(t);
}

static bool is_more_extreme(double a, double b, bool largest)
{
    return !isnan(b) && (isnan(a) || (largest ? a > b : a < b));
}

static void one_argument(bool all)
{
    lines l = any_lines();
    if (all) {
        l.dim = 0;
        l.ndim = random_shape(&source, 4, 9, l.shape);
    }
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = 0;
    bool keepdim = below(2), largest = below(2);
    if (all) {
        for (int d = 0; d < l.ndim; d++) {
            l.shape[d] += l.shape[d] == 0;
        }
        l.outer = l.inner = 1;
        l.length = shape_count(l.ndim, l.shape);
    } else {
        set_length(&l, l.length + (l.length == 0));
        for (int d = 0; d < l.ndim; d++) {
            if (d != l.dim || keepdim) {
                shape[ndim++] = d == l.dim ? 1 : l.shape[d];
            }
        }
    }
    typed a = make_typed(any_mesh(), any_type(), l.ndim, l.shape);
    sprinkle(&a, true);
    double *expected = new_values(l.outer * l.inner);
    for (int64_t line = 0; line < l.outer * l.inner; line++) {
        for (int64_t k = 1; k < l.length; k++) {
            double best = a.x.dense[place_in(&l, line, (int64_t)expected[line])];
            if (is_more_extreme(a.x.dense[place_in(&l, line, k)], best, largest)) {
                expected[line] = (double)k;
            }
        }
    }
    char what[400];
    snprintf(what, sizeof(what), "%s%s(%s %s, %d)", largest ? "argmax" : "argmin", all ? "_all" : "",
             weft_dtype_name(a.dtype), describe_operand(&a.x), l.dim);
    weft_tensor *result = all       ? (largest ? weft_argmax_all(a.tensor) : weft_argmin_all(a.tensor))
                          : largest ? weft_argmax(a.tensor, spoken(&l), keepdim)
                                    : weft_argmin(a.tensor, spoken(&l), keepdim);
    check(result, WEFT_I64, ndim, shape, expected, 0, 0, what);
    free(expected);
    release(&a.x);
}

static void case_argument(void)
{
    one_argument(false);
}

static void case_argument_all(void)
{
    one_argument(true);
}

/* Ranks that have nothing must not win: the extreme of few values on many ranks. */
static void case_extreme_of_few(void)
{
    int64_t shape[1] = { 1 + below(3) };
    bool largest = below(2);
    typed a = make_typed(any_mesh(), any_type(), 1, shape);
    for (int64_t i = 0; i < a.x.count; i++) {
        double size = (double)(1 + below(5)), without_sign = largest                ? 0
                                                             : a.dtype == WEFT_BOOL ? 1
                                                                                    : 200 + size;
        a.x.dense[i] = a.dtype == WEFT_U8 || a.dtype == WEFT_BOOL ? without_sign : largest ? -size : size;
    }
    realise_typed(&a);
    double expected = a.x.dense[0];
    for (int64_t i = 1; i < a.x.count; i++) {
        expected = largest ? fmax(expected, a.x.dense[i]) : fmin(expected, a.x.dense[i]);
    }
    char what[400];
    snprintf(what, sizeof(what), "%s(%s %s)", largest ? "max" : "min", weft_dtype_name(a.dtype),
             describe_operand(&a.x));
    check_typed(largest ? weft_max_all(a.tensor) : weft_min_all(a.tensor), a.dtype, 0, NULL, &expected, what);
    release(&a.x);
}

/* ---- cumulative ---------------------------------------------------------------------------------------- */

static void one_scan(bool product)
{
    lines l = any_lines();
    if (below(4) == 0) {
        l.ndim = 1, l.dim = 0;
        set_length(&l, below(40));
    }
    typed a = make_typed(any_mesh(), any_type(), l.ndim, l.shape);
    if (product) {
        for (int64_t i = 0; i < a.x.count; i++) {
            bool has_sign = a.dtype != WEFT_U8 && a.dtype != WEFT_BOOL;
            a.x.dense[i] = below(9) == 0 && a.dtype != WEFT_BOOL ? 2 : has_sign && below(2) ? -1 : 1;
        }
        realise_typed(&a);
    }
    double *expected = new_values(count_of(&l));
    for (int64_t line = 0; line < l.outer * l.inner; line++) {
        double running = product;
        for (int64_t k = 0; k < l.length; k++) {
            double value = a.x.dense[place_in(&l, line, k)];
            expected[place_in(&l, line, k)] = running = product ? running * value : running + value;
        }
    }
    char what[400];
    snprintf(what, sizeof(what), "%s(%s %s, %d)", product ? "cumprod" : "cumsum", weft_dtype_name(a.dtype),
             describe_operand(&a.x), l.dim);
    weft_tensor *result = product ? weft_cumprod(a.tensor, spoken(&l)) : weft_cumsum(a.tensor, spoken(&l));
    check_typed(result, is_floating(a.dtype) ? a.dtype : WEFT_I64, l.ndim, l.shape, expected, what);
    free(expected);
    release(&a.x);
}

static void case_cumsum(void)
{
    one_scan(false);
}

static void case_cumprod(void)
{
    one_scan(true);
}

/* ---- look-ups ------------------------------------------------------------------------------------------ */

static void one_lookup(bool together)
{
    lines from = any_lines(), to;
    set_length(&from, from.length + (from.length == 0));
    to = from;
    set_length(&to, any_size());
    weft_mesh *mesh = any_mesh();
    typed a = make_typed(mesh, any_type(), from.ndim, from.shape);
    operand indices = make_operand(mesh, any_index(), together ? 1 : to.ndim,
                                   together ? &to.length : to.shape, INDEX, from.length);
    double *expected = new_values(count_of(&to));
    for (int64_t line = 0; line < to.outer * to.inner; line++) {
        for (int64_t k = 0; k < to.length; k++) {
            double index = indices.dense[together ? k : place_in(&to, line, k)];
            expected[place_in(&to, line, k)] = a.x.dense[place_in(&from, line, (int64_t)index)];
        }
    }
    char what[700];
    snprintf(what, sizeof(what), "%s(%s %s, %d, %s)", together ? "index_select" : "gather",
             weft_dtype_name(a.dtype), describe_operand(&a.x), from.dim, describe_operand(&indices));
    /* The addends themselves pass as well. */
    weft_tensor *looked_in = a.dtype == a.x.dtype ? a.x.tensor : a.tensor;
    weft_tensor *result = together ? weft_index_select(looked_in, spoken(&from), indices.tensor)
                                   : weft_gather(looked_in, spoken(&from), indices.tensor);
    check_typed(result, a.dtype, to.ndim, to.shape, expected, what);
    free(expected);
    release(&indices);
    release(&a.x);
}

static void case_index_select(void)
{
    one_lookup(true);
}

static void case_gather(void)
{
    one_lookup(false);
}

/* ---- scattered sums ------------------------------------------------------------------------------------ */

static double sum_in(weft_dtype dtype, double a, double b)
{
    return dtype == WEFT_BOOL ? (a != 0 || b != 0) : dtype == WEFT_U8 ? fmod(a + b, 256) : a + b;
}

static void one_scatter(bool together)
{
    lines to = any_lines(), from;
    set_length(&to, to.length + (to.length == 0));
    from = to;
    set_length(&from, any_size());
    weft_mesh *mesh = any_mesh();
    weft_dtype dtype = any_type();
    typed a = make_typed(mesh, dtype, to.ndim, to.shape),
          added = make_typed(mesh, dtype, from.ndim, from.shape);
    operand indices = make_operand(mesh, any_index(), together ? 1 : from.ndim,
                                   together ? &from.length : from.shape, INDEX, to.length);
    double *expected = new_values(count_of(&to));
    memcpy(expected, a.x.dense, (size_t)a.x.count * sizeof(double));
    for (int64_t line = 0; line < from.outer * from.inner; line++) {
        for (int64_t k = 0; k < from.length; k++) {
            int64_t at = place_in(&from, line, k);
            int64_t index = (int64_t)indices.dense[together ? k : at], target = place_in(&to, line, index);
            expected[target] = sum_in(dtype, expected[target], added.x.dense[at]);
        }
    }
    bool in_place = below(2);
    char what[900];
    snprintf(what, sizeof(what), "%s%s(%s %s, %d, %s, %s)", together ? "index_add" : "scatter_add",
             in_place ? "_" : "", weft_dtype_name(dtype), describe_operand(&a.x), to.dim,
             describe_operand(&indices), describe_operand(&added.x));
    weft_tensor *target = in_place ? whole_somehow(a.tensor, mesh, to.ndim) : a.tensor, *result;
    if (together) {
        result = (in_place ? weft_index_add_inplace : weft_index_add)(target, spoken(&to), indices.tensor,
                                                                      added.tensor);
    } else {
        result = (in_place ? weft_scatter_add_inplace : weft_scatter_add)(target, spoken(&to), indices.tensor,
                                                                          added.tensor);
    }
    assert_no_error();
    assert_int_equal(result == target, in_place);
    check_typed(result, dtype, to.ndim, to.shape, expected, what);
    free(expected);
    release(&indices);
    release(&added.x);
    release(&a.x);
}

static void case_scatter_add(void)
{
    one_scatter(false);
}

static void case_index_add(void)
{
    one_scatter(true);
}

/* Sources that stay addends: of types that operands have. */
static void case_scatter_of_addends(void)
{
    int64_t rows = 1 + below(9), shape[2] = { below(12), 1 + below(9) }, target[2] = { rows, shape[1] };
    weft_mesh *mesh = any_mesh();
    weft_dtype dtype = any_number();
    operand a = make_operand(mesh, dtype, 2, target, WHOLE, 0),
            added = make_operand(mesh, dtype, 2, shape, WHOLE, 0);
    operand indices = make_operand(mesh, any_index(), 1, shape, INDEX, rows);
    double *expected = new_values(a.count);
    memcpy(expected, a.dense, (size_t)a.count * sizeof(double));
    for (int64_t i = 0; i < added.count; i++) {
        expected[(int64_t)indices.dense[i / shape[1]] * shape[1] + i % shape[1]] += added.dense[i];
    }
    char what[900];
    snprintf(what, sizeof(what), "index_add(%s, %s, %s)", describe_operand(&a), describe_operand(&indices),
             describe_operand(&added));
    check(weft_index_add(a.tensor, 0, indices.tensor, added.tensor), dtype, 2, target, expected,
          a.exact && added.exact ? 0 : 64, 100, what);
    free(expected);
    release(&indices);
    release(&added);
    release(&a);
}

static void case_one_hot(void)
{
    int64_t shape[WEFT_MAX_DIMS], classes = 1 + below(9);
    int ndim = random_shape(&source, 3, 9, shape);
    operand indices = make_operand(any_mesh(), any_index(), ndim, shape, INDEX, classes);
    double *expected = new_values(indices.count * classes);
    for (int64_t i = 0; i < indices.count; i++) {
        expected[i * classes + (int64_t)indices.dense[i]] = 1;
    }
    shape[ndim] = classes;
    check(weft_one_hot(indices.tensor, classes), WEFT_I64, ndim + 1, shape, expected, 0, 0,
          describe_operand(&indices));
    free(expected);
    release(&indices);
}

/* ---- sorting ------------------------------------------------------------------------------------------- */

static bool goes_before(double a, double b, bool descending)
{
    if (isnan(a) || isnan(b)) {
        return isnan(a) != isnan(b) && isnan(a) == descending;
    }
    return descending ? a > b : a < b;
}

/* The order of a line, by insertion. */
static void sort_line(const lines *l, const double *dense, int64_t line, bool descending, int64_t order[])
{
    for (int64_t k = 0; k < l->length; k++) {
        double value = dense[place_in(l, line, k)];
        int64_t at = k;
        for (; at > 0 && goes_before(value, dense[place_in(l, line, order[at - 1])], descending); at--) {
            order[at] = order[at - 1];
        }
        order[at] = k;
    }
}

typedef enum sorting { SORT, ARGSORT, TOPK } sorting;

static void one_sorting(sorting kind)
{
    lines l = any_lines(), out;
    if (below(3) == 0) { /* long enough for each way of sorting */
        l.ndim = 1 + (int)below(2);
        l.dim = (int)below(l.ndim);
        l.shape[1 - l.dim] = 1 + below(3);
        set_length(&l, 40 + below(300));
    }
    out = l;
    set_length(&out, kind != TOPK ? l.length : below(3) ? below(l.length + 1) : below(l.length / 8 + 1));
    bool descending = below(2), wants_indices = kind == ARGSORT || below(2);
    typed a = make_typed(any_mesh(), any_type(), l.ndim, l.shape);
    sprinkle(&a, kind == ARGSORT);
    double *values = new_values(count_of(&out)), *places = new_values(count_of(&out));
    int64_t *order = malloc(((size_t)l.length + 1) * sizeof(*order));
    for (int64_t line = 0; line < l.outer * l.inner; line++) {
        sort_line(&l, a.x.dense, line, descending, order);
        for (int64_t k = 0; k < out.length; k++) {
            values[place_in(&out, line, k)] = a.x.dense[place_in(&l, line, order[k])];
            places[place_in(&out, line, k)] = (double)order[k];
        }
    }
    char what[400];
    snprintf(what, sizeof(what), "sorting %d(%s %s, %d, %d), k %d", (int)kind, weft_dtype_name(a.dtype),
             describe_operand(&a.x), l.dim, descending, (int)out.length);
    weft_tensor *indices = NULL, **where = wants_indices ? &indices : NULL, *result = NULL;
    if (kind == SORT) {
        result = weft_sort(a.tensor, spoken(&l), descending, where);
    } else if (kind == TOPK) {
        result = weft_topk(a.tensor, out.length, spoken(&l), descending, where);
    } else {
        indices = weft_argsort(a.tensor, spoken(&l), descending);
    }
    if (kind != ARGSORT) {
        check_typed(result, a.dtype, out.ndim, out.shape, values, what);
    }
    if (wants_indices) {
        check(indices, WEFT_I64, out.ndim, out.shape, places, 0, 0, what);
    }
    free(order);
    free(places);
    free(values);
    release(&a.x);
}

static void case_sort(void)
{
    one_sorting(SORT);
}

static void case_argsort(void)
{
    one_sorting(ARGSORT);
}

static void case_topk(void)
{
    one_sorting(TOPK);
}

/* ---- comparing ----------------------------------------------------------------------------------------- */

/* The same values in two layouts, or all but one of them. */
static void case_equal(void)
{
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = random_shape(&source, 3, 9, shape);
    weft_mesh *mesh = any_mesh();
    typed a = make_typed(mesh, any_type(), ndim, shape), b = make_typed(mesh, a.dtype, ndim, shape);
    memcpy(b.x.dense, a.x.dense, (size_t)a.x.count * sizeof(double));
    bool differ = a.x.count > 0 && below(2), result = !differ;
    if (differ) {
        double *value = &b.x.dense[below(a.x.count)];
        *value = is_floating(a.dtype) && below(3) == 0 ? NAN : a.dtype == WEFT_BOOL ? 1 - *value : *value + 1;
    }
    realise_typed(&b);
    char what[700];
    snprintf(what, sizeof(what), "equal(%s %s, %s), which %s", weft_dtype_name(a.dtype),
             describe_operand(&a.x), describe_operand(&b.x), differ ? "differ" : "do not differ");
    result = differ;
    weft_status status = weft_equal(a.tensor, b.tensor, &result);
    if (status != WEFT_OK || result == differ) {
        fail_msg("%s: %s, %s", what, result ? "true" : "false", weft_last_error());
    }
    result = differ;
    status = weft_allclose(a.tensor, b.tensor, 0, 0.5, false, &result);
    if (status != WEFT_OK || result == differ) {
        fail_msg("%s: allclose %s, %s", what, result ? "true" : "false", weft_last_error());
    }
    checks_made++;
    release(&b.x);
    release(&a.x);
}

/* One element of `type` compared with another, on a mesh of one rank, which not all processes host. */
static bool one_is_close(weft_dtype type, double a, double b, double rtol, double atol, bool equal_nan)
{
    int rank = (int)below(weft_world_size());
    weft_mesh *mesh = weft_mesh_of_ranks(1, (const int64_t[]){ 1 }, &rank, NULL);
    bool result = false;
    assert_int_equal(weft_allclose(weft_full(type, 0, NULL, a, mesh, NULL),
                                   weft_full(type, 0, NULL, b, mesh, NULL), rtol, atol, equal_nan, &result),
                     WEFT_OK);
    return result;
}

static void test_closeness(void)
{
    assert_true(one_is_close(WEFT_F64, 1.0625, 1, 0.0625, 0, false));
    assert_false(one_is_close(WEFT_F64, 1.0626, 1, 0.0625, 0, false));
    assert_true(one_is_close(WEFT_F32, -1.125, -1, 0.0625, 0.0625, false));
    assert_false(one_is_close(WEFT_F32, 1, -1, 1, 0.5, false));
    assert_false(one_is_close(WEFT_F64, NAN, NAN, 1, 1, false));
    assert_true(one_is_close(WEFT_F16, NAN, NAN, 0, 0, true));
    assert_false(one_is_close(WEFT_F64, NAN, 1, 1, 1, true));
    assert_true(one_is_close(WEFT_BF16, INFINITY, INFINITY, 0, 0, false));
    assert_false(one_is_close(WEFT_F64, INFINITY, -INFINITY, 1, 1, false));
    assert_false(one_is_close(WEFT_F64, 1, INFINITY, 1, 1, false));
    assert_true(one_is_close(WEFT_I64, 10, 8, 0.25, 0, false));
    assert_false(one_is_close(WEFT_I64, 11, 8, 0.25, 0, false));
    assert_false(one_is_close(WEFT_I64, 0x1p53 + 2, 0x1p53, 0, 1, false));
    assert_true(one_is_close(WEFT_U8, 3, 5, 0, 2, false));
    assert_false(one_is_close(WEFT_BOOL, 0, 1, 0, 0.5, false));
}

/* 2^53 and the next integer are one number in double precision. */
static void test_large_integers(void)
{
    const int64_t shape[] = { 2 }, values[] = { INT64_C(1) << 53, (INT64_C(1) << 53) + 1 };
    weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ 2 }, NULL);
    weft_placement rows = weft_shard(0);
    weft_tensor *a = weft_distribute(WEFT_I64, 1, shape, values, mesh, &rows);
    weft_tensor *b =
        weft_distribute(WEFT_I64, 1, shape, (const int64_t[]){ values[0], values[0] }, mesh, NULL);
    bool result = true;
    assert_int_equal(weft_equal(a, b, &result), WEFT_OK);
    assert_false(result);
    result = true;
    assert_int_equal(weft_allclose(a, b, 0, 0, true, &result), WEFT_OK);
    assert_false(result);
    double place = -1;
    assert_int_equal(weft_tensor_item(weft_argmax_all(a), &place), WEFT_OK);
    assert_true(place == 1);
    int64_t order[2];
    assert_int_equal(weft_to_host(weft_argsort(a, 0, true), order, sizeof(order)), WEFT_OK);
    assert_true(order[0] == 1 && order[1] == 0);
}

static void test_unlike_tensors(void)
{
    const int64_t shape[] = { 2, 3 };
    weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ 1 }, NULL);
    weft_tensor *a = weft_zeros(WEFT_F32, 2, shape, mesh, NULL);
    bool result = true;
    assert_int_equal(weft_equal(a, weft_zeros(WEFT_F64, 2, shape, mesh, NULL), &result), WEFT_OK);
    assert_false(result);
    result = true;
    assert_int_equal(weft_equal(a, weft_zeros(WEFT_F32, 1, shape + 1, mesh, NULL), &result), WEFT_OK);
    assert_false(result);
    result = true;
    assert_int_equal(weft_allclose(a, weft_zeros(WEFT_F32, 1, shape, mesh, NULL), 1, 1, true, &result),
                     WEFT_OK);
    assert_false(result);
    /* Of no elements all are equal. */
    weft_tensor *empty = weft_zeros(WEFT_F32, 1, (const int64_t[]){ 0 }, mesh, NULL);
    assert_int_equal(weft_equal(empty, empty, &result), WEFT_OK);
    assert_true(result);
}

static void case_item(void)
{
    const int64_t ones[] = { 1, 1, 1 };
    typed a = make_typed(any_mesh(), any_type(), (int)below(4), ones);
    double value = NAN;
    assert_int_equal(weft_tensor_item(a.tensor, &value), WEFT_OK);
    assert_true(value == a.x.dense[0]);
    value = NAN;
    assert_int_equal(weft_tensor_item(a.x.tensor, &value), WEFT_OK);
    assert_true(value == a.x.dense[0]);
    checks_made++;
    release(&a.x);
}

/* ---- sums of addends ----------------------------------------------------------------------------------- */

/* Addends of few bits wrap around before they are summed in 64 bits; two truths are one. */
static void test_sums_of_narrow_addends(void)
{
    weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ weft_world_size() }, NULL);
    const int64_t shape[] = { 3 };
    weft_placement sums = weft_partial(WEFT_SUM), products = weft_partial(WEFT_PROD);
    uint8_t truths[] = { 1, 1, 0 }, large[] = { 201, 101, 3 };
    void *of_truths[MAX_RANKS], *of_large[MAX_RANKS];
    for (int i = 0; i < MAX_RANKS; i++) {
        of_truths[i] = truths;
        of_large[i] = large;
    }
    weft_tensor *a = weft_from_local(WEFT_BOOL, 1, shape, of_truths, mesh, &sums, WEFT_COPY);
    weft_tensor *b = weft_from_local(WEFT_U8, 1, shape, of_large, mesh, &sums, WEFT_COPY);
    weft_tensor *c = weft_from_local(WEFT_U8, 1, shape, of_large, mesh, &products, WEFT_COPY);
    int ranks = weft_world_size();
    double sum_of_b = 0, product_of_c = 1;
    for (int i = 0; i < 3; i++) {
        unsigned product = 1;
        for (int rank = 0; rank < ranks; rank++) {
            product = product * large[i] & 255;
        }
        sum_of_b += (double)(large[i] * ranks & 255);
        product_of_c *= (double)product;
    }
    const double expected[] = { 1, 2, 2 }, two = 2;
    check(weft_cumsum(a, 0), WEFT_I64, 1, shape, expected, 0, 0, "cumsum of truths");
    check(weft_sum_all(a), WEFT_I64, 0, NULL, &two, 0, 0, "sum of truths");
    check(weft_sum_all(b), WEFT_I64, 0, NULL, &sum_of_b, 0, 0, "sum of bytes");
    check(weft_prod_all(c), WEFT_I64, 0, NULL, &product_of_c, 0, 0, "product of bytes");
}

/* ---- indices out of range ------------------------------------------------------------------------------ */

/* The next blocking call says so, and the value is 0. The first process hosts rank 0, which always has a part
 * of the result; another process may have none, and hear nothing. */
static void check_refused(weft_tensor *result, weft_dtype dtype, int ndim, const int64_t shape[],
                          const double *expected, const char *function, const char *range)
{
    assert_no_error();
    weft_status status = weft_wait();
    assert_true(status == WEFT_ERR_INVALID || weft_process_index() > 0);
    if (status != WEFT_OK) {
        assert_non_null(strstr(weft_last_error(), function));
        assert_error(WEFT_ERR_INVALID, range);
    }
    check(result, dtype, ndim, shape, expected, 0, 0, function);
}

static void test_indices_out_of_range(void)
{
    weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ weft_world_size() }, NULL);
    weft_placement rows = weft_shard(0);
    const int64_t shape[] = { 3, 2 }, few[] = { 2 };
    const float values[] = { 1, 2, 3, 4, 5, 6 };
    const int64_t wrong[] = { -1, 2 };
    const int32_t wrong_each[] = { 2, 3, 0, 1, 1, 0 };
    weft_tensor *a = weft_distribute(WEFT_F32, 2, shape, values, mesh, &rows);
    weft_tensor *indices = weft_distribute(WEFT_I64, 1, few, wrong, mesh, NULL);
    weft_tensor *each = weft_distribute(WEFT_I32, 2, shape, wrong_each, mesh, NULL);
    weft_tensor *whole = weft_redistribute(a, mesh, NULL);
    assert_int_equal(weft_wait(), WEFT_OK);
    const double selected[] = { 0, 0, 5, 6 };
    check_refused(weft_index_select(whole, 0, indices), WEFT_F32, 2, (const int64_t[]){ 2, 2 }, selected,
                  "weft_index_select", "indices has -1, expected 0 to 2");
    check_refused(weft_index_select(a, 0, indices), WEFT_F32, 2, (const int64_t[]){ 2, 2 }, selected,
                  "weft_index_select", "indices has -1, expected 0 to 2");
    const double gathered[] = { 5, 0, 1, 4, 3, 2 };
    check_refused(weft_gather(whole, 0, each), WEFT_F32, 2, shape, gathered, "weft_gather",
                  "indices has 3, expected 0 to 2");
    const double added[] = { 1 + 3, 2 + 6, 3 + 5, 4 + 4, 5 + 1, 6 };
    check_refused(weft_scatter_add(whole, 0, each, whole), WEFT_F32, 2, shape, added, "weft_scatter_add",
                  "indices has 3, expected 0 to 2");
    const double hot[] = { 0, 0, 0, 0, 0, 1 };
    check_refused(weft_one_hot(indices, 3), WEFT_I64, 2, (const int64_t[]){ 2, 3 }, hot, "weft_one_hot",
                  "indices has -1, expected 0 to 2");
    /* Blocking calls that compute their answer fail, and leave it alone. */
    weft_tensor *spoilt = weft_one_hot(indices, 3);
    bool result = true;
    weft_status status = weft_equal(spoilt, weft_scale(spoilt, 2), &result);
    assert_true(status == WEFT_ERR_INVALID || weft_process_index() > 0);
    assert_int_equal(result, status != WEFT_OK);
    weft_clear_error();
}

/* ---- the suites ---------------------------------------------------------------------------------------- */

static const family families[] = {
    { "argmax", case_argument },     { "argmax_all", case_argument_all },
    { "max", case_extreme_of_few },  { "cumsum", case_cumsum },
    { "cumprod", case_cumprod },     { "index_select", case_index_select },
    { "gather", case_gather },       { "scatter_add", case_scatter_add },
    { "index_add", case_index_add }, { "index_add of addends", case_scatter_of_addends },
    { "one_hot", case_one_hot },     { "sort", case_sort },
    { "argsort", case_argsort },     { "topk", case_topk },
    { "equal", case_equal },         { "item", case_item },
};

static const suite operations = { families, sizeof(families) / sizeof(families[0]), 60, 1, NULL };

/* No pointer to nothing is left where a call fails. */
static void test_no_indices_on_failure(void)
{
    weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ 2 }, NULL);
    weft_tensor *a = weft_ones(WEFT_F32, 1, (const int64_t[]){ 3 }, mesh, NULL), *indices = a;
    assert_null(weft_sort(a, 5, false, &indices));
    assert_error(WEFT_ERR_INVALID, "dim");
    assert_null(indices);
    indices = a;
    assert_null(weft_topk(a, 4, 0, true, &indices));
    assert_error(WEFT_ERR_INVALID, "k is 4");
    assert_null(indices);
}

static void test_single_calls(void **state)
{
    (void)state;
    start_world(NULL, NULL);
    source = prng_start(5);
    weft_scope_open();
    test_closeness();
    test_large_integers();
    test_unlike_tensors();
    test_sums_of_narrow_addends();
    test_indices_out_of_range();
    test_no_indices_on_failure();
    weft_scope_close();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_single_calls),
    };
    return run_suite(&operations, tests, sizeof(tests) / sizeof(tests[0]));
}
