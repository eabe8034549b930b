/* Sorting: one task computes values and indices, of a line that one rank has, or has gathered. Long lines that ranks hold parts of:
 * sorted_lines.c. */
#include "codelets/sorting.h"

#include "ops/sorted_lines.h"

/* attributes.sizes[0]: number of indices wanted. */
static const weft_operation operation_argsort = {
    .name = "order",
    .gradient = WEFT_GRADIENT_ZERO("indices"),
    .rules = { "A[n]B->A[k]B" },
    .inputs = { { "a", WEFT_TYPES_ALL, false } },
    .outputs[0].type = WEFT_TYPE_INDEX,
    .kernel = WEFT_KERNEL_order,
};

bool weft_gradient_of_order(const weft_gradient *of)
{
    const weft_attributes *attributes = &of->call->attributes;
    weft_tensor *gradient = weft_gradient_of_output(of, 0);
    int64_t size = weft_layout_of(of->call->inputs[0])->shape[attributes->leading];
    return gradient == NULL ||
           weft_give_gradient(of, 0,
                              weft_scatter_to(of->call->function, gradient, (int)attributes->leading, of->outputs[1],
                                              size));
}

static const weft_operation operation_sort = {
    .name = "sort",
    .gradient = WEFT_GRADIENT_BY(weft_gradient_of_order, WEFT_READS_OUTPUT(1)),
    .rules = { "A[n]B->A[k]B,A[k]B" },
    .inputs = { { "a", WEFT_TYPES_ALL, false } },
    .outputs = { { .type = WEFT_TYPE_FIRST }, { .type = WEFT_TYPE_INDEX } },
    .num_outputs = 2,
    .kernel = WEFT_KERNEL_sort,
};

static weft_call call_of(const char *function, const weft_operation *operation, weft_tensor *a, int dim,
                         int64_t k, bool descending)
{
    return (weft_call){ .function = function,
                        .operation = operation,
                        .num_inputs = 1,
                        .inputs = { a },
                        .attributes = { .leading = dim,
                                        .num_sizes = 1,
                                        .sizes = { k },
                                        .num_numbers = 2,
                                        .numbers = { dim, descending } } };
}

/* The size of dimension `dim` as weft_wrap_dim() gives it. */
static int64_t size_along(const weft_tensor *a, int dim)
{
    return weft_layout_of(a)->ndim == 0 ? 1 : weft_layout_of(a)->shape[dim];
}

static weft_tensor *order(const char *function, weft_tensor *a, int dim, int64_t k, bool descending)
{
    if (weft_layout_of(a)->ndim == 0) {
        return weft_only_index(function, a);
    }
    const weft_call call = call_of(function, &operation_argsort, a, dim, k, descending);
    return weft_dispatch(&call);
}

weft_tensor *weft_first_values(const char *function, weft_tensor *a, int dim, int64_t k, bool descending, weft_tensor **indices)
{
    if (weft_layout_of(a)->ndim == 0) {
        return weft_only_element(function, a, indices); /* also for k = 0, as PyTorch's topk() */
    }
    const weft_call call = call_of(function, &operation_sort, a, dim, k, descending);
    return weft_dispatch_pair(&call, indices);
}

/* NULL until the call succeeds. */
static void no_indices(weft_tensor **indices)
{
    if (indices != NULL) {
        *indices = NULL;
    }
}

weft_tensor *weft_sort(weft_tensor *a, int dim, bool descending, weft_tensor **indices)
{
    static const char function[] = "weft_sort";
    no_indices(indices);
    dim = weft_check_dim_of(function, a, dim);
    if (dim < 0 || !weft_sorts_line(a)) {
        return dim < 0 ? NULL : weft_first_values(function, a, dim, size_along(a, dim), descending, indices);
    }
    weft_tensor *values = NULL;
    weft_sort_line(function, a, descending, &values, indices);
    return values;
}

weft_tensor *weft_argsort(weft_tensor *a, int dim, bool descending)
{
    static const char function[] = "weft_argsort";
    dim = weft_check_dim_of(function, a, dim);
    if (dim < 0 || !weft_sorts_line(a)) {
        return dim < 0 ? NULL : order(function, a, dim, size_along(a, dim), descending);
    }
    weft_tensor *indices = NULL;
    weft_sort_line(function, a, descending, NULL, &indices);
    return indices;
}

weft_tensor *weft_topk(weft_tensor *a, int64_t k, int dim, bool largest, weft_tensor **indices)
{
    static const char function[] = "weft_topk";
    no_indices(indices);
    dim = weft_check_dim_of(function, a, dim);
    if (dim < 0) {
        return NULL;
    }
    int64_t size = size_along(a, dim);
    if (k < 0 || k > size) {
        weft_fail(WEFT_ERR_INVALID, function, "k is %lld, expected 0 to %lld, the size of dimension %d",
                  (long long)k, (long long)size, dim);
        return NULL;
    }
    if (!weft_takes_first(a, dim, k)) {
        return weft_first_values(function, a, dim, k, largest, indices);
    }
    weft_tensor *values = NULL;
    weft_take_first(function, a, dim, k, largest, &values, indices);
    return values;
}

const weft_operation *const weft_sorting_operations[] = {
    &operation_argsort,
    &operation_sort,
    NULL,
};
