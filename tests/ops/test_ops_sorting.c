/* Sorting, comparing and single elements on random shapes, types, meshes and placements against the plain
 * answer, with panels of several heights; in one process that hosts all ranks, or in several.
 * WEFT_TEST_CASES says how many cases of each. */
#include "lines.h"
#include "ops/sorted_lines.h"
#include "typed_operand.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    bool in_parts = below(6) == 0;
    weft_sort_lines_from(in_parts ? 1 : 0);
    out = l;
    set_length(&out, kind != TOPK ? l.length : below(3) ? below(l.length + 1) : below(l.length / 8 + 1));
    bool descending = below(2), wants_indices = kind == ARGSORT || below(2);
    typed a = make_typed(any_mesh(), any_type(), l.ndim, l.shape);
    sprinkle(&a, kind == ARGSORT);
    double *values = new_values(count_of(&out)), *places = new_values(count_of(&out));
    int64_t *order = malloc(((size_t)l.length + 1) * sizeof(*order));
    for (int64_t line = 0; line < l.outer * l.inner; line++) {
        sort_line(&l, a.base.dense, line, descending, order);
        for (int64_t k = 0; k < out.length; k++) {
            values[place_in(&out, line, k)] = a.base.dense[place_in(&l, line, order[k])];
            places[place_in(&out, line, k)] = (double)order[k];
        }
    }
    char what[400];
    snprintf(what, sizeof(what), "sorting %d(%s %s, %d, %d), k %d%s", (int)kind, weft_dtype_name(a.dtype),
             describe_operand(&a.base), l.dim, descending, (int)out.length, in_parts ? ", in parts" : "");
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
    weft_sort_lines_from(0);
    free(order);
    free(places);
    free(values);
    release(&a.base);
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
    memcpy(b.base.dense, a.base.dense, (size_t)a.base.count * sizeof(double));
    bool differ = a.base.count > 0 && below(2), result = !differ;
    if (differ) {
        double *value = &b.base.dense[below(a.base.count)];
        *value = is_floating(a.dtype) && below(3) == 0 ? NAN : a.dtype == WEFT_BOOL ? 1 - *value : *value + 1;
    }
    realise_typed(&b);
    char what[700];
    snprintf(what, sizeof(what), "equal(%s %s, %s), which %s", weft_dtype_name(a.dtype),
             describe_operand(&a.base), describe_operand(&b.base), differ ? "differ" : "do not differ");
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
    release(&b.base);
    release(&a.base);
}

/* One element of `type` compared with another, on a mesh of one rank, which not all processes host. */
static bool one_is_close(weft_dtype type, double a, double b, double rtol, double atol, bool equal_nan)
{
    int rank = (int)below(weft_world_size());
    weft_mesh *mesh = weft_mesh_of_ranks(1, (const int64_t[]){ 1 }, &rank, NULL);
    bool result = false;
    assert_int_equal(weft_allclose(weft_full(type, a, 0, NULL, mesh, NULL),
                                   weft_full(type, b, 0, NULL, mesh, NULL), rtol, atol, equal_nan, &result),
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
    assert_int_equal(weft_tensor_item(weft_argmax(a, WEFT_ALL_DIMS, false), &place), WEFT_OK);
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
    assert_true(value == a.base.dense[0]);
    value = NAN;
    assert_int_equal(weft_tensor_item(a.base.tensor, &value), WEFT_OK);
    assert_true(value == a.base.dense[0]);
    checks_made++;
    release(&a.base);
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
    check(weft_sum(a, WEFT_ALL_DIMS, false), WEFT_I64, 0, NULL, &two, 0, 0, "sum of truths");
    check(weft_sum(b, WEFT_ALL_DIMS, false), WEFT_I64, 0, NULL, &sum_of_b, 0, 0, "sum of bytes");
    check(weft_prod(c, WEFT_ALL_DIMS, false), WEFT_I64, 0, NULL, &product_of_c, 0, 0, "product of bytes");
}

/* ---- the suites ---------------------------------------------------------------------------------------- */

static const family families[] = {
    { "sort", case_sort },   { "argsort", case_argsort }, { "topk", case_topk },
    { "equal", case_equal }, { "item", case_item },
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
    static void (*const calls[])(void) = { test_closeness, test_large_integers, test_unlike_tensors,
                                           test_sums_of_narrow_addends, test_no_indices_on_failure };
    run_single_calls(5, sizeof(calls) / sizeof(calls[0]), calls);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_single_calls),
    };
    return run_suite(&operations, tests, sizeof(tests) / sizeof(tests[0]));
}
