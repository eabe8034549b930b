/* Whether two tensors have equal values: the same answer on all processes. */
#include <math.h>
#include <string.h>

#include "arrays/arrays.h"
#include "call/deferral.h"
#include "codelets/elementwise.h"
#include "ops/ops.h"
#include "tensor/state.h"

static const weft_operation operation_close = {
    .name = "close",
    .gradient = WEFT_GRADIENT_ZERO("truth values"),
    .rules = { "A,A->A" },
    .inputs = { { "a", WEFT_TYPES_ALL, false }, { "b", WEFT_TYPES_ALL, true } },
    .outputs[0].type = WEFT_TYPE_BOOL,
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

/* Replicas may differ, so the answers of all ranks count. NULL with the error kept. */
static weft_tensor_impl *answers_of_all(const char *function, weft_tensor *truths)
{
    weft_tensor *answer = truths == NULL ? NULL : weft_all(truths, WEFT_ALL_DIMS, false);
    weft_tensor_impl *own = answer == NULL ? NULL : weft_tensor_get(answer);
    if (own == NULL || weft_runtime.num_processes == 1) {
        return own;
    }
    return weft_deferral_finish(function) ? weft_tensor_replicas_as_addends(function, own, WEFT_MIN) : NULL;
}

/* `truths`: one per element, or NULL with the error kept. */
static weft_status all_true(const char *function, weft_tensor *truths, bool *result)
{
    weft_tensor_impl *answer = answers_of_all(function, truths);
    unsigned char truth = 0;
    weft_status status =
        answer == NULL ? weft_latest_status() : weft_tensor_to_host(function, answer, &truth, sizeof(truth));
    if (status == WEFT_OK) {
        *result = truth != 0;
    }
    return status;
}

static weft_status compare(const char *function, weft_tensor *truths, bool *result)
{
    weft_status status = all_true(function, truths, result);
    weft_composite_close();
    return status;
}

/* details->memory: receives the answer. */
static bool *answer_of(const weft_call *call)
{
    return call->details->memory;
}

/* Whether the answer is known: the tensors differ in kind, or the call is refused. */
static bool has_ended(const weft_call *call, weft_status *status)
{
    *status = WEFT_OK;
    if (!are_alike(weft_layout_of(call->inputs[0]), weft_layout_of(call->inputs[1]))) {
        *answer_of(call) = false;
        return true;
    }
    if (!weft_composite_open(call->function)) {
        *status = weft_latest_status();
        return true;
    }
    return false;
}

static weft_status perform_equal(const weft_call *call, weft_tensor *outputs[])
{
    (void)outputs;
    weft_status status;
    return has_ended(call, &status)
               ? status
               : compare(call->function, weft_eq(call->inputs[0], call->inputs[1]), answer_of(call));
}

/* scalars: rtol, atol, equal_nan. */
static weft_status perform_allclose(const weft_call *call, weft_tensor *outputs[])
{
    (void)outputs;
    weft_status status;
    if (has_ended(call, &status)) {
        return status;
    }
    weft_call close = {
        .function = call->function, .operation = &operation_close, .num_inputs = 2, .inputs = { call->inputs[0], call->inputs[1] }
    };
    memcpy(close.scalars, call->scalars, sizeof(close.scalars));
    return compare(call->function, weft_dispatch(&close), answer_of(call));
}

static weft_status act(const char *function, const weft_operation *action, weft_tensor *a, weft_tensor *b,
                       const double scalars[3], bool *result)
{
    return weft_act(&(weft_call){ .function = function,
                                  .operation = action,
                                  .num_inputs = 2,
                                  .inputs = { a, b },
                                  .scalars = { scalars[0], scalars[1], scalars[2] },
                                  .details = &(weft_call_details){ .memory = result } },
                    NULL);
}

weft_status weft_equal(weft_tensor *a, weft_tensor *b, bool *result)
{
    static const char function[] = "weft_equal";
    static const weft_operation action = { .name = "equal", .perform = perform_equal, .effects = WEFT_NEEDS_DATA | WEFT_ONLY_READS };
    return check_pair(function, a, b, result) ? act(function, &action, a, b, (const double[3]){ 0 }, result)
                                              : weft_latest_status();
}

weft_status weft_allclose(weft_tensor *a, weft_tensor *b, double rtol, double atol, bool equal_nan,
                          bool *result)
{
    static const char function[] = "weft_allclose";
    static const weft_operation action = { .name = "allclose", .perform = perform_allclose, .effects = WEFT_NEEDS_DATA | WEFT_ONLY_READS };
    if (!check_pair(function, a, b, result)) {
        return weft_latest_status();
    }
    if (!(rtol >= 0) || !(atol >= 0)) {
        return weft_fail(WEFT_ERR_INVALID, function, "%s is %g, expected at least 0",
                         rtol >= 0 ? "atol" : "rtol", rtol >= 0 ? atol : rtol);
    }
    return act(function, &action, a, b, (const double[3]){ rtol, atol, equal_nan }, result);
}

const weft_operation *const weft_compare_operations[] = {
    &operation_close,
    NULL,
};
