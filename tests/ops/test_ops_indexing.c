/* Places of extremes, cumulative sums, look-ups and scattered sums on random shapes, types, meshes and
 * placements against the plain answer, with panels of several heights; in one process that hosts all
 * ranks, or in several. WEFT_TEST_CASES says how many cases of each. */
#include "lines.h"
#include "typed_operand.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- argmax and argmin --------------------------------------------------------------------------------- */

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
            double best = a.base.dense[place_in(&l, line, (int64_t)expected[line])];
            if (is_more_extreme(a.base.dense[place_in(&l, line, k)], best, largest)) {
                expected[line] = (double)k;
            }
        }
    }
    char what[400];
    snprintf(what, sizeof(what), "%s%s(%s %s, %d)", largest ? "argmax" : "argmin", all ? "_all" : "",
             weft_dtype_name(a.dtype), describe_operand(&a.base), l.dim);
    int dim = all ? WEFT_ALL_DIMS : spoken(&l);
    bool kept = !all && keepdim, with_values = below(2);
    weft_tensor *result = NULL;
    if (with_values) {
        weft_tensor *values =
            (largest ? weft_max_with_indices : weft_min_with_indices)(a.tensor, dim, kept, &result);
        double *found = new_values(l.outer * l.inner + 1);
        assert_int_equal(
            weft_to_host(weft_to_type(values, WEFT_F64), found, (size_t)(l.outer * l.inner) * sizeof(double)),
            WEFT_OK);
        for (int64_t line = 0; line < l.outer * l.inner; line++) {
            double x = found[line], y = a.base.dense[place_in(&l, line, (int64_t)expected[line])];
            assert_true(x == y || (x != x && y != y));
        }
        free(found);
    } else {
        result = (largest ? weft_argmax : weft_argmin)(a.tensor, dim, kept);
    }
    check(result, WEFT_I64, ndim, shape, expected, 0, 0, what);
    free(expected);
    release(&a.base);
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
    for (int64_t i = 0; i < a.base.count; i++) {
        double size = (double)(1 + below(5)), without_sign = largest                ? 0
                                                             : a.dtype == WEFT_BOOL ? 1
                                                                                    : 200 + size;
        a.base.dense[i] = a.dtype == WEFT_U8 || a.dtype == WEFT_BOOL ? without_sign : largest ? -size : size;
    }
    realise_typed(&a);
    double expected = a.base.dense[0];
    for (int64_t i = 1; i < a.base.count; i++) {
        expected = largest ? fmax(expected, a.base.dense[i]) : fmin(expected, a.base.dense[i]);
    }
    char what[400];
    snprintf(what, sizeof(what), "%s(%s %s)", largest ? "max" : "min", weft_dtype_name(a.dtype),
             describe_operand(&a.base));
    check_typed(largest ? weft_max(a.tensor, WEFT_ALL_DIMS, false) : weft_min(a.tensor, WEFT_ALL_DIMS, false),
                a.dtype, 0, NULL, &expected, what);
    release(&a.base);
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
        for (int64_t i = 0; i < a.base.count; i++) {
            bool has_sign = a.dtype != WEFT_U8 && a.dtype != WEFT_BOOL;
            a.base.dense[i] = below(9) == 0 && a.dtype != WEFT_BOOL ? 2 : has_sign && below(2) ? -1 : 1;
        }
        realise_typed(&a);
    }
    double *expected = new_values(count_of(&l));
    for (int64_t line = 0; line < l.outer * l.inner; line++) {
        double running = product;
        for (int64_t k = 0; k < l.length; k++) {
            double value = a.base.dense[place_in(&l, line, k)];
            expected[place_in(&l, line, k)] = running = product ? running * value : running + value;
        }
    }
    char what[400];
    snprintf(what, sizeof(what), "%s(%s %s, %d)", product ? "cumprod" : "cumsum", weft_dtype_name(a.dtype),
             describe_operand(&a.base), l.dim);
    weft_tensor *result = product ? weft_cumprod(a.tensor, spoken(&l)) : weft_cumsum(a.tensor, spoken(&l));
    check_typed(result, is_floating(a.dtype) ? a.dtype : WEFT_I64, l.ndim, l.shape, expected, what);
    free(expected);
    release(&a.base);
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
            expected[place_in(&to, line, k)] = a.base.dense[place_in(&from, line, (int64_t)index)];
        }
    }
    char what[700];
    snprintf(what, sizeof(what), "%s(%s %s, %d, %s)", together ? "index_select" : "gather",
             weft_dtype_name(a.dtype), describe_operand(&a.base), from.dim, describe_operand(&indices));
    /* The addends themselves pass as well. */
    weft_tensor *looked_in = a.dtype == a.base.dtype ? a.base.tensor : a.tensor;
    weft_tensor *result = together ? weft_index_select(looked_in, spoken(&from), indices.tensor)
                                   : weft_gather(looked_in, spoken(&from), indices.tensor);
    check_typed(result, a.dtype, to.ndim, to.shape, expected, what);
    free(expected);
    release(&indices);
    release(&a.base);
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
    memcpy(expected, a.base.dense, (size_t)a.base.count * sizeof(double));
    for (int64_t line = 0; line < from.outer * from.inner; line++) {
        for (int64_t k = 0; k < from.length; k++) {
            int64_t at = place_in(&from, line, k);
            int64_t index = (int64_t)indices.dense[together ? k : at], target = place_in(&to, line, index);
            expected[target] = sum_in(dtype, expected[target], added.base.dense[at]);
        }
    }
    bool in_place = below(2);
    char what[900];
    snprintf(what, sizeof(what), "%s%s(%s %s, %d, %s, %s)", together ? "index_add" : "scatter_add",
             in_place ? "_" : "", weft_dtype_name(dtype), describe_operand(&a.base), to.dim,
             describe_operand(&indices), describe_operand(&added.base));
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
    release(&added.base);
    release(&a.base);
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

/* ---- elements whose number depends on values ----------------------------------------------------------- */

static void case_nonzero(void)
{
    int64_t shape[WEFT_MAX_DIMS], count = 0;
    int ndim = random_shape(&source, 3, 5, shape);
    typed a = make_typed(any_mesh(), any_type(), ndim, shape);
    double *expected = new_values(a.base.count * ndim);
    for (int64_t i = 0; i < a.base.count; i++) {
        int64_t rest = i;
        for (int d = ndim - 1; d >= 0 && a.base.dense[i] != 0; d--) {
            expected[count * ndim + d] = (double)(rest % shape[d]);
            rest /= shape[d];
        }
        count += a.base.dense[i] != 0;
    }
    check(weft_nonzero(a.tensor), WEFT_I64, 2, (const int64_t[]){ count, ndim }, expected, 0, 0,
          describe_operand(&a.base));
    free(expected);
    release(&a.base);
}

static void case_masked_select(void)
{
    int64_t shape[WEFT_MAX_DIMS], count = 0;
    int ndim = random_shape(&source, 3, 5, shape);
    weft_mesh *mesh = any_mesh();
    typed a = make_typed(mesh, any_type(), ndim, shape), mask = make_typed(mesh, WEFT_BOOL, ndim, shape);
    double *expected = new_values(a.base.count);
    for (int64_t i = 0; i < a.base.count; i++) {
        expected[count] = a.base.dense[i];
        count += mask.base.dense[i] != 0;
    }
    check(weft_masked_select(a.tensor, mask.tensor), a.dtype, 1, &count, expected, 0, 0,
          describe_operand(&a.base));
    free(expected);
    release(&a.base);
    release(&mask.base);
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
    { "one_hot", case_one_hot },     { "nonzero", case_nonzero },
    { "masked_select", case_masked_select },
};

static const suite operations = { families, sizeof(families) / sizeof(families[0]), 60, 1, NULL };

/* More values than are counted at a time, in few bins and in many; all in one bin; and values that are in none. */
static void test_counts(void)
{
    enum { COUNT = 5003 };
    static const double odd[] = { NAN, INFINITY, -INFINITY, -1e-300, 10.000001, 10, 0, -0.0 };
    static double values[COUNT];
    static int64_t numbers[COUNT], counted[2000], expected[2000];
    const int64_t shape[] = { COUNT };
    weft_mesh *mesh = any_mesh();
    weft_placement rows[WEFT_MAX_DIMS];
    for (int d = 0; d < weft_mesh_ndim(mesh); d++) {
        rows[d] = d == 0 ? weft_shard(0) : weft_replicate();
    }
    for (int64_t bins = 1; bins <= 2000; bins += bins == 1 ? 999 : 500) {
        for (int kind = 0; kind < 2; kind++) { /* whole numbers, intervals of 0 to 10 */
            memset(expected, 0, sizeof(expected));
            for (int64_t i = 0; i < COUNT; i++) {
                values[i] = i % 9 == 8 ? odd[below(8)] : i < COUNT / 2 ? 5 : (double)below(100000) / 10000;
                numbers[i] = i < COUNT / 2 ? bins / 2 : below(bins);
                const double place = floor(values[i] * ((double)bins / 10));
                if (kind == 0) {
                    expected[numbers[i]]++;
                } else if (values[i] >= 0 && values[i] <= 10) {
                    expected[place < (double)bins ? (int64_t)place : bins - 1]++;
                }
            }
            weft_tensor *result = kind == 0
                                      ? weft_bincount(weft_distribute(WEFT_I64, 1, shape, numbers, mesh, rows), NULL, bins)
                                      : weft_histogram(weft_distribute(WEFT_F64, 1, shape, values, mesh, rows), bins, 0, 10);
            assert_int_equal(weft_to_host(result, counted, sizeof(counted)), WEFT_OK);
            assert_memory_equal(counted, expected, (size_t)bins * sizeof(int64_t));
        }
    }
    checks_made++;
}

/* Indices out of range are not counted, and reported. */
static void test_counts_of_wrong_indices(void)
{
    const int64_t shape[] = { 3 }, numbers[] = { 1, -1, 1 };
    weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ 1 }, NULL);
    int64_t counted[2];
    weft_tensor *result = weft_bincount(weft_distribute(WEFT_I64, 1, shape, numbers, mesh, NULL), NULL, 2);
    const weft_status status = weft_to_host(result, counted, sizeof(counted));
    assert_true(status == WEFT_ERR_INVALID || weft_process_index() > 0);
    assert_true(status == WEFT_OK || strstr(weft_last_error(), "-1") != NULL);
    weft_clear_error();
}

static void test_single_calls(void **state)
{
    (void)state;
    static void (*const calls[])(void) = { test_indices_out_of_range, test_counts, test_counts_of_wrong_indices };
    run_single_calls(5, sizeof(calls) / sizeof(calls[0]), calls);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_single_calls),
    };
    return run_suite(&operations, tests, sizeof(tests) / sizeof(tests[0]));
}
