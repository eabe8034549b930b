/* Diagonals: in row-major order their elements are equally far apart. */
#include "ops/data_movement.h"

/* The dimensions that are not these two, in their order, and then these. */
static weft_tensor *with_last(weft_tensor *a, int dim1, int dim2)
{
    int dims[WEFT_MAX_DIMS], ndim = weft_layout_of(a)->ndim, count = 0;
    for (int d = 0; d < ndim; d++) {
        if (d != dim1 && d != dim2) {
            dims[count++] = d;
        }
    }
    dims[count++] = dim1;
    dims[count++] = dim2;
    return weft_permute(a, ndim, dims);
}

/* The diagonal of the last two dimensions. */
static weft_tensor *last_diagonal(weft_tensor *a, int64_t offset)
{
    const weft_layout *layout = weft_layout_of(a);
    int last = layout->ndim - 2;
    int64_t rows = layout->shape[last], columns = layout->shape[last + 1];
    int64_t below = weft_min_i64(rows, weft_max_i64(0, -offset)), right = weft_min_i64(columns, weft_max_i64(0, offset));
    int64_t count = weft_min_i64(rows - below, columns - right), first = below * columns + right;
    weft_tensor *flat = weft_flatten(a, last, last + 1);
    return flat == NULL ? NULL
           : count == 0 ? weft_slice(flat, last, 0, 0, 1)
                        : weft_slice(flat, last, first, first + (count - 1) * (columns + 1) + 1, columns + 1);
}

enum { DIAGONAL_OFFSET, DIAGONAL_DIM1, DIAGONAL_DIM2, DIAGONAL_NUMBERS };

static bool expand_diagonal(const weft_call *call, weft_tensor *outputs[])
{
    const int64_t *numbers = call->attributes.numbers;
    weft_tensor *moved = with_last(call->inputs[0], (int)numbers[DIAGONAL_DIM1], (int)numbers[DIAGONAL_DIM2]);
    outputs[0] = moved == NULL ? NULL : last_diagonal(moved, numbers[DIAGONAL_OFFSET]);
    return outputs[0] != NULL;
}

static bool expand_trace(const weft_call *call, weft_tensor *outputs[])
{
    weft_tensor *diagonal = last_diagonal(call->inputs[0], 0);
    outputs[0] = diagonal == NULL ? NULL : weft_sum(diagonal, 0, false);
    return outputs[0] != NULL;
}

#define OF_DIAGONAL(name_, types)                                                                             \
    static const weft_operation operation_##name_ = {                                                        \
        .name = #name_,                                                                                      \
        .gradient = WEFT_GRADIENT_OF_MOVES,                                                                  \
        .inputs = { { "a", types, false } },                                                                 \
        .expand = expand_##name_,                                                                            \
    };

OF_DIAGONAL(diagonal, WEFT_TYPES_MOVED)
OF_DIAGONAL(trace, WEFT_TYPES_ANY)

weft_tensor *weft_diagonal(weft_tensor *a, int64_t offset, int dim1, int dim2)
{
    static const char function[] = "weft_diagonal";
    dim1 = weft_check_tensor(function, "a", a) == NULL ? -1 : weft_check_own_dim(function, "dim1", a, dim1);
    dim2 = dim1 < 0 ? -1 : weft_check_own_dim(function, "dim2", a, dim2);
    if (dim2 < 0) {
        return NULL;
    }
    if (dim1 == dim2) {
        weft_fail(WEFT_ERR_INVALID, function, "dim1 and dim2 are both %d", dim1);
        return NULL;
    }
    int64_t most = weft_max_i64(weft_layout_of(a)->shape[dim1], weft_layout_of(a)->shape[dim2]);
    offset = weft_max_i64(-most, weft_min_i64(most, offset)); /* further out it has no elements */
    return weft_dispatch_move(function, &operation_diagonal, a,
                              &(weft_attributes){ .num_numbers = DIAGONAL_NUMBERS, .numbers = { offset, dim1, dim2 } });
}

weft_tensor *weft_trace(weft_tensor *a)
{
    static const char function[] = "weft_trace";
    if (weft_check_tensor(function, "a", a) == NULL) {
        return NULL;
    }
    if (weft_layout_of(a)->ndim != 2) {
        weft_fail(WEFT_ERR_SHAPE, function, "a has %d dimension%s, expected 2", weft_layout_of(a)->ndim,
                  weft_layout_of(a)->ndim == 1 ? "" : "s");
        return NULL;
    }
    return weft_dispatch_move(function, &operation_trace, a, &(weft_attributes){ 0 });
}

const weft_operation *const weft_diagonal_operations[] = {
    &operation_diagonal,
    &operation_trace,
    NULL,
};
