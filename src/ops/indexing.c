/* Look-up along a dimension, and scattered sums. */
#include "codelets/indexing.h"

#include "ops/ops.h"

/* Rule variants: indices for every element, or shared by all elements at one position of the dimension. */
enum { EACH, TOGETHER };

/* ---- look-ups ------------------------------------------------------------------------------------------ */

/* The result of weft_index_select() has no elements, so no task would report a wrong index. */
static bool selects_nothing(const weft_call_layouts *call)
{
    bool nothing = false;
    for (int d = 0; d < call->inputs[0]->ndim && call->attributes->rule == TOGETHER; d++) {
        nothing |= d != call->attributes->leading && call->inputs[0]->shape[d] == 0;
    }
    return nothing;
}

static bool expand_unseen(const weft_call *call, weft_tensor *outputs[])
{
    int64_t size = weft_layout_of(call->inputs[0])->shape[call->attributes.leading];
    outputs[0] = weft_with_checked_indices(call->function, weft_dispatch_itself(call), call->inputs[1], size);
    return outputs[0] != NULL;
}

static weft_tensor *scatter(const weft_call *like, weft_tensor *source, int64_t size);

static bool gradient_of_lookup(const weft_gradient *of)
{
    int64_t size = weft_layout_of(of->call->inputs[0])->shape[of->call->attributes.leading];
    return weft_give_gradient(of, 0, scatter(of->call, weft_gradient_of_output(of, 0), size));
}

/* Selection commutes with every reduction; a rank without the element contributes 0. */
static const weft_operation operation_lookup = {
    .name = "lookup",
    .gradient = WEFT_GRADIENT_BY(gradient_of_lookup, WEFT_READS_INPUT(1)),
    .rules = { [EACH] = "AvB,AnB->AnB", [TOGETHER] = "AvB,n->AnB" },
    .outputs[0].linear = { .kind = WEFT_LINEAR_EACH, .inputs = 1u << 0, .ops = ~0u, .contracts = WEFT_SUM },
    .inputs = { { "a", WEFT_TYPES_ANY, false }, { "indices", WEFT_TYPES_INDEX, false } },
    .kernel = WEFT_KERNEL_lookup,
    .expand = expand_unseen,
    .expands = selects_nothing,
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

weft_tensor *weft_look_up(const char *function, weft_tensor *a, int dim, bool together, weft_tensor *indices)
{
    return look_up(function, a, dim, indices, together ? TOGETHER : EACH);
}

static weft_tensor *look_up_checked(weft_scattering x)
{
    x.dim = weft_check_dim_of(x.function, x.a, x.dim);
    return x.dim < 0                        ? NULL
           : weft_layout_of(x.a)->ndim == 0 ? weft_index_scalar(&x, WEFT_SCALAR_LOOK_UP, WEFT_SUM, false, 0)
                                            : weft_look_up(x.function, x.a, x.dim, x.together, x.indices);
}

weft_tensor *weft_gather(weft_tensor *a, int dim, weft_tensor *indices)
{
    return look_up_checked((weft_scattering){ "weft_gather", a, dim, indices, NULL, false });
}

/* Whether each index is in range. */
static const weft_operation operation_check_indices = {
    .name = "check_indices",
    .gradient = WEFT_GRADIENT_ZERO("truth values"),
    .rules = { "A->A" },
    .inputs = { { "indices", WEFT_TYPES_INDEX, false } },
    .outputs[0].type = WEFT_TYPE_BOOL,
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
    weft_scope_begin();
    bool done =
        weft_dispatch(&(weft_call){ .function = function,
                                    .operation = &operation_check_indices,
                                    .num_inputs = 1,
                                    .inputs = { indices },
                                    .attributes = { .num_numbers = 1, .numbers = { size } } }) != NULL;
    weft_scope_end_own();
    return done ? result : NULL;
}

weft_tensor *weft_index_select(weft_tensor *a, int dim, weft_tensor *indices)
{
    return look_up_checked((weft_scattering){ "weft_index_select", a, dim, indices, NULL, true });
}

/* ---- scattered elements ------------------------------------------------------------------------------------ */

static bool gradient_of_scatter(const weft_gradient *of)
{
    const weft_attributes *attributes = &of->call->attributes;
    return weft_give_gradient(of, 0,
                              look_up(of->call->function, weft_gradient_of_output(of, 0), (int)attributes->leading,
                                      of->call->inputs[1], (int)attributes->rule));
}

/* Only what is scattered, of the size given by the call; a rank's part of the source gives addends, factors, ... */
#define SCATTER(name_, types_, op_, linear_, ...)                                                              \
    static const weft_operation operation_##name_ = {                                                        \
        .name = #name_,                                                                                      \
        .gradient = __VA_ARGS__,                                                                             \
        .rules = { [EACH] = "AnB,AnB->AvB", [TOGETHER] = "AnB,n->AvB" },                                     \
        .outputs[0].linear = { .kind = linear_, .inputs = 1u << 0, .ops = WEFT_LINEAR_OPS, .contracts = op_ }, \
        .inputs = { { "source", types_, false }, { "indices", WEFT_TYPES_INDEX, false } },                   \
        .outputs[0].type = WEFT_TYPE_GIVEN,                                                                  \
        .kernel = WEFT_KERNEL_scatter,                                                                       \
        .accumulates = true,                                                                                 \
    };

SCATTER(scatter, WEFT_TYPES_ANY, WEFT_SUM, WEFT_LINEAR_EACH, WEFT_GRADIENT_BY(gradient_of_scatter, WEFT_READS_INPUT(1)))
SCATTER(scatter_prod, WEFT_TYPES_ALL, WEFT_PROD, WEFT_NOT_LINEAR, WEFT_GRADIENT_OF_WHOLE("scatter_reduce"))
SCATTER(scatter_min, WEFT_TYPES_ALL, WEFT_MIN, WEFT_NOT_LINEAR, WEFT_GRADIENT_OF_WHOLE("scatter_reduce"))
SCATTER(scatter_max, WEFT_TYPES_ALL, WEFT_MAX, WEFT_NOT_LINEAR, WEFT_GRADIENT_OF_WHOLE("scatter_reduce"))

static bool check_source(const weft_scattering *x)
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

bool weft_check_scattering(weft_scattering *x)
{
    x->dim = weft_check_dim_of(x->function, x->a, x->dim);
    return x->dim >= 0 && weft_check_tensor(x->function, "indices", x->indices) != NULL &&
           weft_check_tensor(x->function, "source", x->source) != NULL && check_source(x);
}

weft_tensor *weft_scatter_by(const char *function, weft_reduce_op op, weft_tensor *source, int dim, bool together,
                             weft_tensor *indices, int64_t size)
{
    static const weft_operation *const operations[] = { [WEFT_SUM] = &operation_scatter,
                                                        [WEFT_PROD] = &operation_scatter_prod,
                                                        [WEFT_MIN] = &operation_scatter_min,
                                                        [WEFT_MAX] = &operation_scatter_max };
    weft_tensor *result = weft_dispatch(&(weft_call){
        .function = function,
        .operation = operations[op],
        .num_inputs = 2,
        .inputs = { source, indices },
        .attributes = { .rule = together ? TOGETHER : EACH,
                        .leading = dim,
                        .type = source == NULL ? 0 : weft_wide_type(weft_layout_of(source)->dtype),
                        .num_sizes = 1,
                        .sizes = { size },
                        .num_numbers = WEFT_SCATTER_NUMBERS,
                        .numbers = { [WEFT_INDEXED_DIM] = dim,
                                     [WEFT_INDEXED_TOGETHER] = together,
                                     [WEFT_SCATTER_OP] = op } },
    });
    return weft_with_checked_indices(function, result, indices, size);
}

/* Sums of a source's elements, for a call whose input 1 is the indices. */
static weft_tensor *scatter(const weft_call *like, weft_tensor *source, int64_t size)
{
    return weft_scatter_by(like->function, WEFT_SUM, source, (int)like->attributes.leading,
                           like->attributes.rule == TOGETHER, like->inputs[1], size);
}

weft_tensor *weft_scatter_to(const char *function, weft_tensor *source, int dim, weft_tensor *indices, int64_t size)
{
    return weft_scatter_by(function, WEFT_SUM, source, dim, false, indices, size);
}

/* WEFT_BOOL has no sum in place. */
static weft_tensor *add_in_place(weft_tensor *a, weft_tensor *sums)
{
    return weft_layout_of(a)->dtype == WEFT_BOOL ? weft_copy_inplace(a, weft_add(a, sums))
                                                 : weft_add_inplace(a, sums, 1);
}

/* Inputs: a, indices and source. */
static bool expand_addition(const weft_call *call, weft_tensor *outputs[])
{
    weft_tensor *a = call->inputs[0];
    int64_t size = weft_layout_of(a)->shape[call->attributes.leading];
    weft_tensor *sums = scatter(call, call->inputs[2], size);
    if (sums == NULL) {
        return false;
    }
    if (weft_operation_changes(call->operation, 0)) {
        outputs[0] = add_in_place(a, sums);
    } else {
        weft_tensor *result = weft_add(a, sums);
        outputs[0] = result == NULL ? NULL : weft_to_type(result, weft_layout_of(a)->dtype);
    }
    return outputs[0] != NULL;
}

static bool gradients_of_addition(const weft_gradient *of)
{
    weft_tensor *gradient = weft_gradient_of_output(of, 0);
    const weft_attributes *attributes = &of->call->attributes;
    return (!weft_gradient_wanted(of, 0) || weft_give_gradient(of, 0, gradient)) &&
           (!weft_gradient_wanted(of, 2) ||
            weft_give_gradient(of, 2,
                               look_up(of->call->function, gradient, (int)attributes->leading, of->call->inputs[1],
                                       (int)attributes->rule)));
}

#define ADDITION(name_, in_place_)                                                                           \
    static const weft_operation operation_##name_ = {                                                        \
        .name = #name_,                                                                                      \
        .gradient = { .function = gradients_of_addition, .reads = { [2] = WEFT_READS_INPUT(1) } },           \
        .inputs = { { "a", WEFT_TYPES_ANY, false },                                                          \
                    { "indices", WEFT_TYPES_INDEX, false },                                                  \
                    { "source", WEFT_TYPES_ANY, true } },                                                    \
        .outputs[0].in_place = in_place_,                                                                    \
        .expand = expand_addition,                                                                           \
    };

ADDITION(index_add, false)
ADDITION(index_add_inplace, true)

static weft_tensor *add(weft_scattering x)
{
    if (weft_check_dim_of(x.function, x.a, x.dim) < 0) {
        return NULL;
    }
    if (weft_layout_of(x.a)->ndim == 0) {
        return weft_index_scalar(&x, WEFT_SCALAR_ADD, WEFT_SUM, false, 0);
    }
    if (!weft_check_scattering(&x)) {
        return NULL;
    }
    if (x.in_place && weft_layout_of(x.a)->has_partial) {
        weft_fail(WEFT_ERR_LAYOUT, x.function, "a is Partial, which cannot be added to: weft_redistribute() it");
        return NULL;
    }
    return weft_dispatch(&(weft_call){
        .function = x.function,
        .operation = x.in_place ? &operation_index_add_inplace : &operation_index_add,
        .num_inputs = 3,
        .inputs = { x.a, x.indices, x.source },
        .attributes = { .rule = x.together ? TOGETHER : EACH, .leading = x.dim },
    });
}

weft_tensor *weft_scatter_add(weft_tensor *a, int dim, weft_tensor *indices, weft_tensor *source)
{
    return add((weft_scattering){ "weft_scatter_add", a, dim, indices, source, false, false });
}

weft_tensor *weft_scatter_add_inplace(weft_tensor *a, int dim, weft_tensor *indices, weft_tensor *source)
{
    return add((weft_scattering){ "weft_scatter_add_inplace", a, dim, indices, source, false, true });
}

weft_tensor *weft_index_add(weft_tensor *a, int dim, weft_tensor *indices, weft_tensor *source)
{
    return add((weft_scattering){ "weft_index_add", a, dim, indices, source, true, false });
}

weft_tensor *weft_index_add_inplace(weft_tensor *a, int dim, weft_tensor *indices, weft_tensor *source)
{
    return add((weft_scattering){ "weft_index_add_inplace", a, dim, indices, source, true, true });
}

/* ---- one-hot rows -------------------------------------------------------------------------------------- */

static bool has_no_classes(const weft_call_layouts *call)
{
    return call->attributes->sizes[0] == 0;
}

static bool expand_no_classes(const weft_call *call, weft_tensor *outputs[])
{
    outputs[0] = weft_with_checked_indices(call->function, weft_dispatch_itself(call), call->inputs[0], 0);
    return outputs[0] != NULL;
}

static const weft_operation operation_one_hot = {
    .name = "one_hot",
    .gradient = WEFT_GRADIENT_ZERO("indices"),
    .rules = { "A->Ac" },
    .inputs = { { "indices", WEFT_TYPES_INDEX, false } },
    .outputs[0].type = WEFT_TYPE_INDEX,
    .kernel = WEFT_KERNEL_one_hot,
    .expand = expand_no_classes,
    .expands = has_no_classes,
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
    return weft_dispatch(&(weft_call){
        .function = function,
        .operation = &operation_one_hot,
        .num_inputs = 1,
        .inputs = { indices },
        .attributes = { .num_sizes = 1, .sizes = { num_classes } },
    });
}

const weft_operation *const weft_indexing_operations[] = {
    &operation_lookup,
    &operation_check_indices,
    &operation_scatter,
    &operation_scatter_prod,
    &operation_scatter_min,
    &operation_scatter_max,
    &operation_one_hot,
    &operation_index_add,
    &operation_index_add_inplace,
    NULL,
};
