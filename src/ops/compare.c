/* Whether two tensors have the same values: one answer for all processes. */
#include <math.h>
#include <string.h>

#include "codelets/elementwise.h"
#include "ops/ops.h"

static const weft_operation operation_close = {
    .name = "close",
    .rules = { "A,A->A" },
    .inputs = { { "a", WEFT_TYPES_ALL, false }, { "b", WEFT_TYPES_ALL, true } },
    .output_type = WEFT_TYPE_BOOL,
    .kernel = WEFT_KERNEL_close,
};

static bool check_pair(const char *function, weft_tensor *a, weft_tensor *b, const bool *result)
{
    const weft_tensor_impl *first = weft_check_tensor(function, "a", a);
    const weft_tensor_impl *second = first == NULL ? NULL : weft_check_tensor(function, "b", b);
    if (second == NULL) {
        return false;
    }
    if (result == NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "result is NULL");
        return false;
    }
    return weft_check_same_mesh(function, "a", first->layout, "b", second->layout) &&
           weft_check_not_acquired(function, "a", first) && weft_check_not_acquired(function, "b", second);
}

static bool are_alike(const weft_layout *a, const weft_layout *b)
{
    return a->dtype == b->dtype && a->ndim == b->ndim &&
           memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof(a->shape[0])) == 0;
}

/* `truths`: of each element, or NULL with the error kept. */
static weft_status all_true(const char *function, weft_tensor *truths, bool *result)
{
    weft_tensor *answer = truths == NULL ? NULL : weft_all(truths, WEFT_ALL_DIMS, false);
    unsigned char truth = 0;
    weft_status status = answer == NULL
                             ? weft_latest_status()
                             : weft_tensor_to_host(function, weft_tensor_get(answer), &truth, sizeof(truth));
    if (status == WEFT_OK) {
        *result = truth != 0;
    }
    return status;
}

weft_status weft_equal(weft_tensor *a, weft_tensor *b, bool *result)
{
    static const char function[] = "weft_equal";
    if (!check_pair(function, a, b, result)) {
        return weft_latest_status();
    }
    if (!are_alike(weft_layout_of(a), weft_layout_of(b))) {
        *result = false;
        return WEFT_OK;
    }
    if (!weft_composite_open(function)) {
        return weft_latest_status();
    }
    weft_status status = all_true(function, weft_eq(a, b), result);
    weft_composite_close();
    return status;
}

weft_status weft_allclose(weft_tensor *a, weft_tensor *b, double rtol, double atol, bool equal_nan,
                          bool *result)
{
    static const char function[] = "weft_allclose";
    if (!check_pair(function, a, b, result)) {
        return weft_latest_status();
    }
    if (!(rtol >= 0) || !(atol >= 0)) {
        return weft_fail(WEFT_ERR_INVALID, function, "%s is %g, expected at least 0",
                         rtol >= 0 ? "atol" : "rtol", rtol >= 0 ? atol : rtol);
    }
    if (!are_alike(weft_layout_of(a), weft_layout_of(b))) {
        *result = false;
        return WEFT_OK;
    }
    if (!weft_composite_open(function)) {
        return weft_latest_status();
    }
    weft_tensor *close = weft_dispatch(&(weft_call){ .function = function,
                                                     .operation = &operation_close,
                                                     .num_inputs = 2,
                                                     .inputs = { a, b },
                                                     .scalars = { rtol, atol, equal_nan } });
    weft_status status = all_true(function, close, result);
    weft_composite_close();
    return status;
}

const weft_operation *const weft_compare_operations[] = {
    &operation_close,
    NULL,
};
