/* Look-ups along a dimension, and sums scattered along one. */
#include "codelets/indexing.h"

#include "ops/ops.h"

/* Rules of each operation: indices for every element, or for all of one place of the dimension together. */
enum { EACH, TOGETHER };

/* ---- look-ups ------------------------------------------------------------------------------------------ */

/* Choosing elements commutes with everything that reduces them; a rank without the element adds 0. */
static const weft_operation operation_lookup = {
    .name = "lookup",
    .gradient = "scatter",
    .rules = { [EACH] = "AvB,AnB->AnB", [TOGETHER] = "AvB,n->AnB" },
    .linear = { .kind = WEFT_LINEAR_EACH, .inputs = 1u << 0, .ops = ~0u, .contracts = WEFT_SUM },
    .inputs = { { "a", WEFT_TYPES_ALL, false }, { "indices", WEFT_TYPES_INDEX, false } },
    .kernel = WEFT_KERNEL_lookup,
};

static weft_tensor *look_up(const char *function, weft_tensor *a, int dim, weft_tensor *indices, int rule)
{
    return weft_dispatch(&(weft_call){
        .function = function,
        .operation = &operation_lookup,
        .num_inputs = 2,
        .inputs = { a, indices },
        .attributes = { .rule = rule,
                        .leading = dim,
                        .num_numbers = 2,
                        .numbers = { [WEFT_INDEXED_DIM] = dim, [WEFT_INDEXED_TOGETHER] = rule == TOGETHER } },
    });
}

weft_tensor *weft_look_up(const char *function, weft_tensor *a, int dim, weft_tensor *indices)
{
    return look_up(function, a, dim, indices, EACH);
}

weft_tensor *weft_gather(weft_tensor *a, int dim, weft_tensor *indices)
{
    static const char function[] = "weft_gather";
    dim = weft_check_dim_of(function, a, dim);
    return dim < 0 ? NULL : look_up(function, a, dim, indices, EACH);
}

/* Whether each index is in range. */
static const weft_operation operation_check_indices = {
    .name = "check_indices",
    .rules = { "A->A" },
    .inputs = { { "indices", WEFT_TYPES_INDEX, false } },
    .output_type = WEFT_TYPE_BOOL,
    .kernel = WEFT_KERNEL_check_indices,
};

static bool is_empty(const weft_tensor *a)
{
    const weft_layout *layout = weft_layout_of(a);
    bool empty = false;
    for (int d = 0; d < layout->ndim; d++) {
        empty |= layout->shape[d] == 0;
    }
    return empty;
}

weft_tensor *weft_with_checked_indices(const char *function, weft_tensor *result, weft_tensor *indices,
                                       int64_t size)
{
    if (result == NULL || !is_empty(result)) {
        return result;
    }
    weft_scope_open();
    bool done =
        weft_dispatch(&(weft_call){ .function = function,
                                    .operation = &operation_check_indices,
                                    .num_inputs = 1,
                                    .inputs = { indices },
                                    .attributes = { .num_numbers = 1, .numbers = { size } } }) != NULL;
    weft_scope_close();
    return done ? result : NULL;
}

weft_tensor *weft_index_select(weft_tensor *a, int dim, weft_tensor *indices)
{
    static const char function[] = "weft_index_select";
    dim = weft_check_dim_of(function, a, dim);
    if (dim < 0 || !weft_composite_open(function)) {
        return NULL;
    }
    weft_tensor *result = look_up(function, a, dim, indices, TOGETHER);
    return weft_leave_scope(
        weft_with_checked_indices(function, result, indices, weft_layout_of(a)->shape[dim]));
}

/* ---- scattered sums ------------------------------------------------------------------------------------ */

/* The sums alone, of the size that the call gives; what a rank has of the source are addends. */
static const weft_operation operation_scatter = {
    .name = "scatter",
    .gradient = "lookup",
    .rules = { [EACH] = "AnB,AnB->AvB", [TOGETHER] = "AnB,n->AvB" },
    .linear = { .kind = WEFT_LINEAR_EACH, .inputs = 1u << 0, .ops = WEFT_LINEAR_OPS, .contracts = WEFT_SUM },
    .inputs = { { "source", WEFT_TYPES_ALL, false }, { "indices", WEFT_TYPES_INDEX, false } },
    .output_type = WEFT_TYPE_GIVEN,
    .kernel = WEFT_KERNEL_scatter,
    .accumulates = true,
};

typedef struct addition {
    const char *function;
    weft_tensor *a;
    int dim;
    weft_tensor *indices, *source;
    int rule;
    bool in_place;
} addition;

static bool check_source(const addition *x)
{
    const weft_layout *a = weft_layout_of(x->a), *source = weft_layout_of(x->source);
    if (source->dtype != a->dtype) {
        weft_fail(WEFT_ERR_DTYPE, x->function, "source is %s, expected %s, the type of a",
                  weft_dtype_name(source->dtype), weft_dtype_name(a->dtype));
        return false;
    }
    if (!weft_check_same_mesh(x->function, "a", a, "source", source)) {
        return false;
    }
    if (source->ndim != a->ndim) {
        weft_fail(WEFT_ERR_SHAPE, x->function, "source has %d dimensions, expected %d, as a has",
                  source->ndim, a->ndim);
        return false;
    }
    for (int d = 0; d < a->ndim; d++) {
        if (d != x->dim && source->shape[d] != a->shape[d]) {
            weft_fail(WEFT_ERR_SHAPE, x->function,
                      "source has size %lld in dimension %d, expected %lld, as a has",
                      (long long)source->shape[d], d, (long long)a->shape[d]);
            return false;
        }
    }
    return true;
}

static bool check_addition(addition *x)
{
    x->dim = weft_check_dim_of(x->function, x->a, x->dim);
    if (x->dim < 0 || weft_check_tensor(x->function, "indices", x->indices) == NULL ||
        weft_check_tensor(x->function, "source", x->source) == NULL || !check_source(x)) {
        return false;
    }
    if (x->in_place && weft_layout_of(x->a)->has_partial) {
        weft_fail(WEFT_ERR_LAYOUT, x->function,
                  "a is Partial, which cannot be added to: weft_redistribute() it");
        return false;
    }
    return true;
}

static weft_tensor *scatter(const addition *x)
{
    return weft_dispatch(&(weft_call){
        .function = x->function,
        .operation = &operation_scatter,
        .num_inputs = 2,
        .inputs = { x->source, x->indices },
        .attributes = { .rule = x->rule,
                        .leading = x->dim,
                        .type = weft_wide_type(weft_layout_of(x->source)->dtype),
                        .num_sizes = 1,
                        .sizes = { weft_layout_of(x->a)->shape[x->dim] },
                        .num_numbers = 2,
                        .numbers = { [WEFT_INDEXED_DIM] = x->dim,
                                     [WEFT_INDEXED_TOGETHER] = x->rule == TOGETHER } },
    });
}

/* Truth values have no sum in place. */
static weft_tensor *add_in_place(weft_tensor *a, weft_tensor *sums)
{
    return weft_layout_of(a)->dtype == WEFT_BOOL ? weft_copy_inplace(a, weft_add(a, sums))
                                                 : weft_add_inplace(a, sums, 1);
}

static weft_tensor *add(addition x)
{
    if (!check_addition(&x)) {
        return NULL;
    }
    if (!weft_composite_open(x.function)) {
        return NULL;
    }
    weft_tensor *sums =
        weft_with_checked_indices(x.function, scatter(&x), x.indices, weft_layout_of(x.a)->shape[x.dim]);
    if (!x.in_place) {
        weft_tensor *result = sums == NULL ? NULL : weft_add(x.a, sums);
        return weft_leave_scope(result == NULL ? NULL : weft_to_type(result, weft_layout_of(x.a)->dtype));
    }
    weft_tensor *target = sums == NULL ? NULL : add_in_place(x.a, sums);
    weft_composite_close();
    return target;
}

weft_tensor *weft_scatter_add(weft_tensor *a, int dim, weft_tensor *indices, weft_tensor *source)
{
    return add((addition){ "weft_scatter_add", a, dim, indices, source, EACH, false });
}

weft_tensor *weft_scatter_add_inplace(weft_tensor *a, int dim, weft_tensor *indices, weft_tensor *source)
{
    return add((addition){ "weft_scatter_add_inplace", a, dim, indices, source, EACH, true });
}

weft_tensor *weft_index_add(weft_tensor *a, int dim, weft_tensor *indices, weft_tensor *source)
{
    return add((addition){ "weft_index_add", a, dim, indices, source, TOGETHER, false });
}

weft_tensor *weft_index_add_inplace(weft_tensor *a, int dim, weft_tensor *indices, weft_tensor *source)
{
    return add((addition){ "weft_index_add_inplace", a, dim, indices, source, TOGETHER, true });
}

/* ---- one-hot rows -------------------------------------------------------------------------------------- */

static const weft_operation operation_one_hot = {
    .name = "one_hot",
    .rules = { "A->Ac" },
    .inputs = { { "indices", WEFT_TYPES_INDEX, false } },
    .output_type = WEFT_TYPE_INDEX,
    .kernel = WEFT_KERNEL_one_hot,
};

weft_tensor *weft_one_hot(weft_tensor *indices, int64_t num_classes)
{
    static const char function[] = "weft_one_hot";
    if (weft_check_tensor(function, "indices", indices) == NULL) {
        return NULL;
    }
    if (num_classes < 0) {
        weft_fail(WEFT_ERR_INVALID, function, "num_classes is %lld, expected at least 0",
                  (long long)num_classes);
        return NULL;
    }
    if (!weft_composite_open(function)) {
        return NULL;
    }
    weft_tensor *result = weft_dispatch(&(weft_call){
        .function = function,
        .operation = &operation_one_hot,
        .num_inputs = 1,
        .inputs = { indices },
        .attributes = { .num_sizes = 1, .sizes = { num_classes } },
    });
    return weft_leave_scope(weft_with_checked_indices(function, result, indices, num_classes));
}

const weft_operation *const weft_indexing_operations[] = {
    &operation_lookup, &operation_check_indices, &operation_scatter, &operation_one_hot, NULL,
};
