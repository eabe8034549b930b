/* Elements that truth values choose, or several indices: nonzero(), masked_select(), index_put(). */
#include <string.h>

#include "arrays/arrays.h"
#include "call/context.h"
#include "comm/check_spmd.h"
#include "ops/ops.h"
#include "tensor/state.h"

enum { MAX_INDICES = WEFT_MAX_INPUTS - 2 };

/* ---- shapes -------------------------------------------------------------------------------------------- */

static int64_t product_of(int ndim, const int64_t shape[])
{
    int64_t product = 1;
    weft_count_checked(ndim, shape, &product);
    return product;
}

/* ---- places of true elements --------------------------------------------------------------------------- */

/* The indices of the `count` true elements of truths [n], in order. Each goes to the place that the sum of truths up to it
 * says, all others after the last one. */
static weft_tensor *places_of(const char *function, weft_tensor *truths, int64_t count)
{
    int64_t size = weft_layout_of(truths)->shape[0];
    weft_mesh *mesh = weft_layout_of(truths)->mesh->handle;
    if (size == 0) {
        return weft_zeros(WEFT_I64, 1, (int64_t[]){ 0 }, mesh, NULL);
    }
    weft_tensor *whole = weft_unshard_dim(function, truths, 0);
    weft_tensor *ends = whole == NULL ? NULL : weft_cumsum(whole, 0);
    weft_tensor *targets =
        ends == NULL ? NULL : weft_masked_fill(weft_add_scalar(ends, -1), weft_logical_not(whole), (double)count);
    weft_tensor *line = targets == NULL ? NULL : weft_arange(WEFT_I64, 0, size, 1, mesh, NULL);
    weft_tensor *all = line == NULL ? NULL : weft_scatter_by(function, WEFT_SUM, line, 0, false, targets, count + 1);
    return all == NULL ? NULL : weft_slice(all, 0, 0, count, 1);
}

/* A tensor, broadcast to a shape, as one line. */
static weft_tensor *line_of(weft_tensor *a, int ndim, const int64_t shape[])
{
    weft_tensor *whole = a == NULL ? NULL : weft_expand(a, ndim, shape);
    return whole == NULL ? NULL : weft_reshape(whole, 1, (int64_t[]){ product_of(ndim, shape) });
}

/* ---- nonzero ------------------------------------------------------------------------------------------- */

/* The index along dimension d from the row-major one. */
static weft_tensor *index_along(weft_tensor *places, const weft_layout *a, int d)
{
    weft_mesh *mesh = a->mesh->handle;
    double step = (double)product_of(a->ndim - d - 1, a->shape + d + 1), size = (double)a->shape[d];
    weft_tensor *rows = weft_floor_div(places, weft_full(WEFT_I64, step, 0, NULL, mesh, NULL));
    return rows == NULL || d == 0 ? rows : weft_remainder(rows, weft_full(WEFT_I64, size, 0, NULL, mesh, NULL));
}

/* attributes.sizes[0]: how many elements are not 0. */
static bool expand_nonzero(const weft_call *call, weft_tensor *outputs[])
{
    const weft_layout *a = weft_layout_of(call->inputs[0]);
    int64_t count = call->attributes.sizes[0];
    if (a->ndim == 0 || count == 0) {
        outputs[0] = weft_zeros(WEFT_I64, 2, (int64_t[]){ count, a->ndim }, a->mesh->handle, NULL);
        return outputs[0] != NULL;
    }
    weft_tensor *truths = line_of(weft_ne_scalar(call->inputs[0], 0), a->ndim, a->shape);
    weft_tensor *places = truths == NULL ? NULL : places_of(call->function, truths, count);
    weft_tensor *columns[WEFT_MAX_DIMS];
    for (int d = 0; d < a->ndim && places != NULL; d++) {
        columns[d] = index_along(places, a, d);
        places = columns[d] == NULL ? NULL : places;
    }
    outputs[0] = places == NULL ? NULL : weft_stack(a->ndim, columns, 1);
    return outputs[0] != NULL;
}

static const weft_operation operation_nonzero = {
    .name = "nonzero",
    .gradient = WEFT_GRADIENT_ZERO("indices"),
    .inputs = { { "a", WEFT_TYPES_ANY, false } },
    .outputs[0].type = WEFT_TYPE_INDEX,
    .expand = expand_nonzero,
};

/* ---- masked_select ------------------------------------------------------------------------------------- */

/* attributes.sizes[0]: how many elements there are. */
static bool expand_masked_select(const weft_call *call, weft_tensor *outputs[])
{
    const weft_layout *a = weft_layout_of(call->inputs[0]);
    int ndim = a->ndim;
    int64_t shape[WEFT_MAX_DIMS];
    memcpy(shape, a->shape, sizeof(shape));
    bool fits = weft_check_broadcast(call->function, "mask", weft_layout_of(call->inputs[1]), &ndim, shape);
    weft_tensor *truths = fits ? line_of(call->inputs[1], ndim, shape) : NULL;
    weft_tensor *values = truths == NULL ? NULL : line_of(call->inputs[0], ndim, shape);
    weft_tensor *places = values == NULL ? NULL : places_of(call->function, truths, call->attributes.sizes[0]);
    outputs[0] = places == NULL ? NULL : weft_look_up(call->function, values, 0, true, places);
    return outputs[0] != NULL;
}

static const weft_operation operation_masked_select = {
    .name = "masked_select",
    .gradient = WEFT_GRADIENT_OF_WHOLE("masked_select"),
    .inputs = { { "a", WEFT_TYPES_ANY, false }, { "mask", WEFT_TYPES_BOOL, false } },
    .expand = expand_masked_select,
};

/* ---- calls that count first ---------------------------------------------------------------------------- */

/* The number of elements that are not 0. BLOCKS; errors of earlier tasks are left to the next function, because one process
 * alone may have them. */
static weft_status count_true(const char *function, weft_tensor *a, int64_t *count)
{
    weft_tensor *truths = weft_ne_scalar(a, 0);
    weft_tensor *sum = truths == NULL ? NULL : weft_sum(truths, WEFT_ALL_DIMS, false);
    return sum == NULL ? weft_latest_status()
                       : weft_tensor_gather(function, weft_tensor_get(sum), count, sizeof(*count));
}

/* Of a mask that is broadcast: how often each of its elements counts. */
static int64_t repetitions(const weft_call *call)
{
    const weft_layout *a = weft_layout_of(call->inputs[0]), *mask = weft_layout_of(call->inputs[call->num_inputs - 1]);
    int ndim = a->ndim;
    int64_t shape[WEFT_MAX_DIMS], own = product_of(mask->ndim, mask->shape);
    memcpy(shape, a->shape, sizeof(shape));
    return own == 0 || !weft_check_broadcast(call->function, "mask", mask, &ndim, shape) ? 0
                                                                                          : product_of(ndim, shape) / own;
}

/* The processes compare this call; those that it consists of follow from it. False with the error kept. */
static bool begin_counting(const weft_call *call, weft_context *outer)
{
    const weft_layout *layouts[2] = { weft_layout_of(call->inputs[0]), weft_layout_of(call->inputs[call->num_inputs - 1]) };
    if (!weft_composite_open(call->function)) {
        return false;
    }
    bool same = weft_check_spmd(
        &(weft_call_signature){ .function = call->function, .num_layouts = call->num_inputs, .layouts = layouts });
    if (same) {
        *outer = weft_context_enter(weft_context_expanded());
    } else {
        weft_composite_close();
    }
    return same;
}

static weft_status perform(const weft_call *call, const weft_operation *operation, weft_tensor *outputs[])
{
    int64_t count = 0;
    weft_context outer;
    if (!begin_counting(call, &outer)) {
        return weft_latest_status();
    }
    weft_status status = count_true(call->function, call->inputs[call->num_inputs - 1], &count);
    weft_call chosen = { .function = call->function,
                         .operation = operation,
                         .num_inputs = call->num_inputs,
                         .inputs = { call->inputs[0], call->inputs[1] },
                         .attributes = { .num_sizes = 1, .sizes = { count * repetitions(call) } } };
    weft_tensor *result = status == WEFT_OK ? weft_dispatch(&chosen) : NULL;
    weft_context_leave(outer);
    bool done = weft_composite_close_keeping(result) && result != NULL;
    outputs[0] = done ? result : NULL;
    return done ? WEFT_OK : weft_latest_status();
}

static weft_status perform_nonzero(const weft_call *call, weft_tensor *outputs[])
{
    return perform(call, &operation_nonzero, outputs);
}

static weft_status perform_masked_select(const weft_call *call, weft_tensor *outputs[])
{
    return perform(call, &operation_masked_select, outputs);
}

/* Each chosen element's gradient goes where it came from. */
static bool gradient_of_masked_select(const weft_gradient *of)
{
    const weft_call *call = of->call;
    const weft_layout *a = weft_layout_of(call->inputs[0]);
    weft_tensor *gradient = weft_gradient_of_output(of, 0);
    int ndim = a->ndim;
    int64_t shape[WEFT_MAX_DIMS];
    memcpy(shape, a->shape, sizeof(shape));
    if (gradient == NULL) {
        return true;
    }
    bool fits = weft_check_broadcast(call->function, "mask", weft_layout_of(call->inputs[1]), &ndim, shape);
    weft_tensor *truths = fits ? line_of(call->inputs[1], ndim, shape) : NULL;
    weft_tensor *places =
        truths == NULL ? NULL : places_of(call->function, truths, weft_layout_of(gradient)->shape[0]);
    weft_tensor *line =
        places == NULL ? NULL : weft_scatter_to(call->function, gradient, 0, places, product_of(ndim, shape));
    return line != NULL && weft_give_gradient(of, 0, weft_reshape(line, ndim, shape));
}

weft_tensor *weft_nonzero(weft_tensor *a)
{
    static const char function[] = "weft_nonzero";
    static const weft_operation action = {
        .name = "nonzero", .perform = perform_nonzero, .num_outputs = 1, .effects = WEFT_NEEDS_DATA, .gradient = WEFT_GRADIENT_ZERO("indices")
    };
    const weft_tensor_impl *own = weft_check_tensor(function, "a", a);
    return own == NULL || !weft_check_not_acquired(function, "a", own)
               ? NULL
               : weft_act_for_tensor(
                     &(weft_call){ .function = function, .operation = &action, .num_inputs = 1, .inputs = { a } });
}

weft_tensor *weft_masked_select(weft_tensor *a, weft_tensor *mask)
{
    static const char function[] = "weft_masked_select";
    static const weft_operation action = { .name = "masked_select",
                                           .perform = perform_masked_select,
                                           .num_outputs = 1,
                                           .effects = WEFT_NEEDS_DATA,
                                           .gradient = { .function = gradient_of_masked_select, .reads = { WEFT_READS_INPUT(1) } } };
    if (weft_check_tensor(function, "a", a) == NULL || weft_check_tensor(function, "mask", mask) == NULL) {
        return NULL;
    }
    const weft_layout *own = weft_layout_of(a), *truths = weft_layout_of(mask);
    int ndim = own->ndim;
    int64_t shape[WEFT_MAX_DIMS];
    memcpy(shape, own->shape, sizeof(shape));
    if (!weft_check_type(function, "mask", mask, WEFT_TYPES_BOOL, "bool") ||
        !weft_check_same_mesh(function, "a", own, "mask", truths) || !weft_check_broadcast(function, "mask", truths, &ndim, shape) ||
        !weft_check_not_acquired(function, "mask", weft_tensor_get(mask))) {
        return NULL;
    }
    return weft_act_for_tensor(&(weft_call){ .function = function,
                                             .operation = &action,
                                             .num_inputs = 2,
                                             .inputs = { a, mask },
                                             .details = &(weft_call_details){ .num_outputs = 1 } });
}

/* ---- index_put ----------------------------------------------------------------------------------------- */

static const char *const index_names[MAX_INDICES] = { "indices[0]", "indices[1]", "indices[2]", "indices[3]", "indices[4]" };

/* The elements that the indices name: the indices' broadcast shape, then a's dimensions after the indexed ones. False with
 * the error kept. */
static bool target_shape(const char *function, const weft_layout *a, int num_indices, weft_tensor *const indices[],
                         int *num_before, int *ndim, int64_t shape[])
{
    *ndim = 0;
    for (int k = 0; k < num_indices; k++) {
        if (!weft_check_broadcast(function, index_names[k], weft_layout_of(indices[k]), ndim, shape)) {
            return false;
        }
    }
    *num_before = *ndim;
    if (*ndim + a->ndim - num_indices > WEFT_MAX_DIMS) {
        weft_fail(WEFT_ERR_SHAPE, function, "the indices choose elements of %d dimensions, expected at most %d",
                  *ndim + a->ndim - num_indices, WEFT_MAX_DIMS);
        return false;
    }
    for (int d = num_indices; d < a->ndim; d++) {
        shape[(*ndim)++] = a->shape[d];
    }
    return true;
}

/* One index for each tuple of indices, row-major over the indexed dimensions; -1 where one of them is out of range. */
static weft_tensor *joined_indices(const weft_layout *a, int num_indices, weft_tensor *const indices[])
{
    weft_tensor *joined = NULL, *outside = NULL;
    for (int k = 0; k < num_indices; k++) {
        double size = (double)a->shape[k];
        weft_tensor *index = weft_to_type(indices[k], WEFT_I64);
        weft_tensor *wrong = weft_logical_or(weft_lt_scalar(index, 0), weft_ge_scalar(index, size));
        joined = k == 0 ? index : weft_add(weft_scale(joined, size), index);
        outside = k == 0 ? wrong : weft_logical_or(outside, wrong);
        if (joined == NULL || outside == NULL) {
            return NULL;
        }
    }
    return weft_masked_fill(joined, outside, -1);
}

/* Inputs: a, values, indices. attributes.number 0: whether values are added. */
static bool expand_index_put(const weft_call *call, weft_tensor *outputs[])
{
    const weft_layout *a = weft_layout_of(call->inputs[0]);
    const int num_indices = call->num_inputs - 2;
    int ndim, num_before;
    int64_t shape[WEFT_MAX_DIMS], line[WEFT_MAX_DIMS];
    if (!target_shape(call->function, a, num_indices, call->inputs + 2, &num_before, &ndim, shape)) {
        return false;
    }
    const int num_behind = a->ndim - num_indices;
    memcpy(line + 1, a->shape + num_indices, (size_t)num_behind * sizeof(line[0]));
    line[0] = product_of(num_before, shape);
    weft_tensor *joined = joined_indices(a, num_indices, call->inputs + 2);
    weft_tensor *places = line_of(joined, num_before, shape);
    weft_tensor *whole = places == NULL ? NULL : weft_expand(call->inputs[1], ndim, shape);
    weft_tensor *values = whole == NULL ? NULL : weft_reshape(whole, 1 + num_behind, line);
    line[0] = product_of(num_indices, a->shape);
    weft_tensor *rows = values == NULL ? NULL : weft_reshape(call->inputs[0], 1 + num_behind, line);
    weft_tensor *result = rows == NULL                          ? NULL
                          : call->attributes.numbers[0] != 0 ? weft_index_add(rows, 0, places, values)
                                                                 : weft_index_copy(rows, 0, places, values);
    outputs[0] = result == NULL ? NULL : weft_reshape(result, a->ndim, a->shape);
    return outputs[0] != NULL;
}

#define INDICES 0x7cu /* inputs 2 to 6 */
#define INDEX(name_) { name_, WEFT_TYPES_INDEX, false }

static const weft_operation operation_index_put = {
    .name = "index_put",
    .gradient = { .function = weft_gradient_of_body, .reads = { INDICES, INDICES } },
    .inputs = { { "a", WEFT_TYPES_ANY, false },
                { "values", WEFT_TYPES_ANY, true },
                INDEX("indices[0]"),
                INDEX("indices[1]"),
                INDEX("indices[2]"),
                INDEX("indices[3]"),
                INDEX("indices[4]") },
    .expand = expand_index_put,
};

static bool check_index_put(const char *function, weft_tensor *a, int num_indices, weft_tensor *const indices[],
                            weft_tensor *values)
{
    if (weft_check_tensor(function, "a", a) == NULL) {
        return false;
    }
    const weft_layout *own = weft_layout_of(a);
    int most = own->ndim < MAX_INDICES ? own->ndim : MAX_INDICES, ndim, num_before;
    if (num_indices < 1 || num_indices > most) {
        weft_fail(WEFT_ERR_INVALID, function, "num_indices is %d, expected 1 to %d", num_indices, most);
        return false;
    }
    if (indices == NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "indices is NULL");
        return false;
    }
    for (int k = 0; k < num_indices; k++) {
        const char *name = index_names[k];
        if (weft_check_tensor(function, name, indices[k]) == NULL ||
            !weft_check_type(function, name, indices[k], WEFT_TYPES_INDEX, "i64 or i32") ||
            !weft_check_same_mesh(function, "a", own, name, weft_layout_of(indices[k]))) {
            return false;
        }
    }
    int64_t shape[WEFT_MAX_DIMS];
    if (weft_check_tensor(function, "values", values) == NULL ||
        !weft_check_same_mesh(function, "a", own, "values", weft_layout_of(values)) ||
        !weft_check_type(function, "values", values, WEFT_TYPE_BIT(own->dtype), "the type of a") ||
        !target_shape(function, own, num_indices, indices, &num_before, &ndim, shape)) {
        return false;
    }
    const weft_layout *given = weft_layout_of(values);
    for (int d = 0; d < given->ndim; d++) {
        int at = ndim - given->ndim + d;
        if (at < 0 || (given->shape[d] != 1 && given->shape[d] != shape[at])) {
            weft_fail(WEFT_ERR_SHAPE, function, "values have size %lld in dimension %d, and do not broadcast to the chosen elements",
                      (long long)given->shape[d], d);
            return false;
        }
    }
    return true;
}

weft_tensor *weft_index_put(weft_tensor *a, int num_indices, weft_tensor *const indices[], weft_tensor *values,
                            bool accumulate)
{
    static const char function[] = "weft_index_put";
    if (!check_index_put(function, a, num_indices, indices, values)) {
        return NULL;
    }
    weft_call call = { .function = function,
                       .operation = &operation_index_put,
                       .num_inputs = 2 + num_indices,
                       .inputs = { a, values },
                       .attributes = { .num_numbers = 1, .numbers = { accumulate } } };
    memcpy(call.inputs + 2, indices, (size_t)num_indices * sizeof(indices[0]));
    return weft_dispatch(&call);
}

const weft_operation *const weft_selection_operations[] = {
    &operation_nonzero,
    &operation_masked_select,
    &operation_index_put,
    NULL,
};
