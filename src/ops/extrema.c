/* The largest and smallest values with their indices. */
#include <stdio.h>

#include "codelets/reductions.h"
#include "ops/reductions.h"
#include "ops/row_reduce.h"

static bool is_in_parts(const weft_call_layouts *call)
{
    return weft_is_cut(call->inputs[0], call->attributes->numbers[WEFT_REDUCTION_MASK]);
}

/* The values first, with size 1 in the reduced dimensions, then their indices, so that rows need not be
 * gathered. False with the error kept. */
static bool values_then_indices(const weft_call *call, const weft_operation *extreme, weft_tensor **values,
                                weft_tensor **indices)
{
    weft_reduction r = { call->function, extreme, .keepdim = true };
    r.mask = call->attributes.numbers[WEFT_REDUCTION_MASK];
    r.a = weft_unshard_dim(call->function, call->inputs[0], -1);
    *values = r.centre = r.a == NULL ? NULL : weft_reduce(&r);
    if (r.centre == NULL || call->attributes.omitted > 0) {
        return r.centre != NULL;
    }
    r.operation = weft_reduction_place;
    r.keepdim = call->attributes.numbers[WEFT_REDUCTION_KEEPS] != 0;
    *indices = weft_reduce(&r);
    return *indices != NULL;
}

/* ---- indices ------------------------------------------------------------------------------------------- */

static bool expand_argmax(const weft_call *call, weft_tensor *outputs[])
{
    weft_tensor *values;
    return values_then_indices(call, weft_reduction_max, &values, &outputs[0]);
}

static bool expand_argmin(const weft_call *call, weft_tensor *outputs[])
{
    weft_tensor *values;
    return values_then_indices(call, weft_reduction_min, &values, &outputs[0]);
}

static const weft_operation operation_argmax = {
    .name = "argmax",
    .gradient = WEFT_GRADIENT_ZERO("indices"),
    .inputs = { { "a", WEFT_TYPES_ALL, false } },
    .expand = expand_argmax,
};

static const weft_operation operation_argmin = {
    .name = "argmin",
    .gradient = WEFT_GRADIENT_ZERO("indices"),
    .inputs = { { "a", WEFT_TYPES_ALL, false } },
    .expand = expand_argmin,
};

/* ---- values and indices -------------------------------------------------------------------------------- */

/* "a*[b]c*->ac,ac" */
static void write_rule(const weft_call_layouts *call, char *text, size_t size)
{
    char whole[WEFT_LETTERS_SIZE], result[WEFT_LETTERS_SIZE];
    int64_t mask = call->attributes->numbers[WEFT_REDUCTION_MASK];
    int ndim = call->inputs[0]->ndim;
    weft_write_letters(whole, ndim, mask, WEFT_LETTERS_WHOLE);
    if (call->attributes->numbers[WEFT_REDUCTION_KEEPS]) {
        weft_write_letters(result, ndim, mask, WEFT_LETTERS_ONES);
    } else {
        weft_write_letters(result, ndim, ~mask, WEFT_LETTERS_CHOSEN);
    }
    snprintf(text, size, "%s->%s,%s", whole, result, result);
}

static bool with_indices_expands(const weft_call_layouts *call)
{
    return is_in_parts(call) || weft_reduction_drops_rows(call);
}

/* Reduces whole rows into one row of the results. */
static bool keep_rows(const weft_call *call, weft_tensor *outputs[])
{
    weft_call inner = *call;
    inner.attributes.numbers[WEFT_REDUCTION_KEEPS] = true;
    bool done = weft_dispatch_itself_all(&inner, outputs);
    for (int o = 0; o < 2 - call->attributes.omitted && done; o++) {
        outputs[o] =
            weft_squeeze_dims(call->function, outputs[o], call->attributes.numbers[WEFT_REDUCTION_MASK]);
        done = outputs[o] != NULL;
    }
    return done;
}

static bool expand_with_indices(const weft_call *call, const weft_operation *extreme, weft_tensor *outputs[])
{
    weft_call_layouts layouts;
    weft_call_get_layouts(call, &layouts);
    if (!is_in_parts(&layouts)) {
        return keep_rows(call, outputs);
    }
    bool done = values_then_indices(call, extreme, &outputs[0], &outputs[1]);
    if (done && !call->attributes.numbers[WEFT_REDUCTION_KEEPS]) {
        outputs[0] =
            weft_squeeze_dims(call->function, outputs[0], call->attributes.numbers[WEFT_REDUCTION_MASK]);
    }
    return done && outputs[0] != NULL;
}

static bool expand_max_with_indices(const weft_call *call, weft_tensor *outputs[])
{
    return expand_with_indices(call, weft_reduction_max, outputs);
}

static bool expand_min_with_indices(const weft_call *call, weft_tensor *outputs[])
{
    return expand_with_indices(call, weft_reduction_min, outputs);
}

/* The selected element gets the whole gradient: output 1 has its index, over all elements or along one
 * dimension. */
bool weft_gradient_of_selected(const weft_gradient *of)
{
    const char *function = of->call->function;
    int64_t mask = of->call->attributes.numbers[WEFT_REDUCTION_MASK];
    const weft_layout *a = weft_layout_of(of->call->inputs[0]);
    weft_tensor *gradient = weft_gradient_of_output(of, 0), *indices = of->outputs[1];
    if (gradient == NULL) {
        return true;
    }
    bool one = mask != 0 && (mask & (mask - 1)) == 0;
    int dim = 0;
    while (one && mask >> dim != 1) {
        dim++;
    }
    if (!one) {
        gradient = weft_reshape(gradient, 1, (int64_t[]){ 1 });
        indices = weft_reshape(indices, 1, (int64_t[]){ 1 });
    } else if (!of->call->attributes.numbers[WEFT_REDUCTION_KEEPS]) {
        gradient = weft_unsqueeze_dim(function, gradient, dim);
        indices = weft_unsqueeze_dim(function, indices, dim);
    }
    if (gradient == NULL || indices == NULL) {
        return false;
    }
    weft_tensor *whole = weft_scatter_to(function, gradient, dim, indices, 
                                         one ? a->shape[dim] : (int64_t)weft_count_along(a, -1));
    return whole != NULL && weft_give_gradient(of, 0, one ? whole : weft_reshape(whole, a->ndim, a->shape));
}

#define WITH_INDICES(name_)                                                                                  \
    static const weft_operation operation_##name_ = {                                                        \
        .name = #name_,                                                                                      \
        .gradient = WEFT_GRADIENT_BY(weft_gradient_of_selected, WEFT_READS_OUTPUT(1)),                             \
        .write_rule = write_rule,                                                                            \
        .rule_like = "a*[b]c*->ac,ac",                                                                         \
        .inputs = { { "a", WEFT_TYPES_ALL, false } },                                                        \
        .outputs = { { .type = WEFT_TYPE_FIRST }, { .type = WEFT_TYPE_INDEX } },                             \
        .num_outputs = 2,                                                                                    \
        .kernel = WEFT_KERNEL_##name_,                                                                       \
        .expand = expand_##name_,                                                                            \
        .expands = with_indices_expands,                                                                     \
    };
WITH_INDICES(max_with_indices)
WITH_INDICES(min_with_indices)

/* ---- public -------------------------------------------------------------------------------------------- */

static weft_tensor *indices_of(const char *function, const weft_operation *operation, weft_tensor *a, int dim,
                               bool keepdim)
{
    weft_call call = weft_call_of_reduced_dim(function, operation, a, dim, keepdim);
    return call.operation == NULL ? NULL : weft_dispatch(&call);
}

weft_tensor *weft_argmax(weft_tensor *a, int dim, bool keepdim)
{
    return indices_of("weft_argmax", &operation_argmax, a, dim, keepdim);
}

weft_tensor *weft_argmin(weft_tensor *a, int dim, bool keepdim)
{
    return indices_of("weft_argmin", &operation_argmin, a, dim, keepdim);
}

static weft_tensor *with_indices(const char *function, const weft_operation *operation, weft_tensor *a,
                                 int dim, bool keepdim, weft_tensor **indices)
{
    if (indices != NULL) {
        *indices = NULL;
    }
    weft_call call = weft_call_of_reduced_dim(function, operation, a, dim, keepdim);
    return call.operation == NULL ? NULL : weft_dispatch_pair(&call, indices);
}

weft_tensor *weft_max_with_indices(weft_tensor *a, int dim, bool keepdim, weft_tensor **indices)
{
    return with_indices("weft_max_with_indices", &operation_max_with_indices, a, dim, keepdim, indices);
}

weft_tensor *weft_min_with_indices(weft_tensor *a, int dim, bool keepdim, weft_tensor **indices)
{
    return with_indices("weft_min_with_indices", &operation_min_with_indices, a, dim, keepdim, indices);
}

weft_tensor *weft_only_element(const char *function, weft_tensor *scalar, weft_tensor **indices)
{
    return with_indices(function, &operation_max_with_indices, scalar, WEFT_ALL_DIMS, false, indices);
}

weft_tensor *weft_only_index(const char *function, weft_tensor *scalar)
{
    return indices_of(function, &operation_argmax, scalar, WEFT_ALL_DIMS, false);
}

const weft_operation *const weft_extremum_operations[] = {
    &operation_argmax, &operation_argmin, &operation_max_with_indices, &operation_min_with_indices, NULL,
};
