/* Parts of a tensor: slices, single indices, triangles; and writes to a part. */
#include "codelets/shapes.h"

#include "ops/data_movement.h"

/* ---- parts --------------------------------------------------------------------------------------------- */

/* A resolved Python slice of a dimension. */
typedef struct slice {
    int64_t start, step, extent;
} slice;

static int64_t clamp_index(int64_t index, int64_t size)
{
    index = index < 0 ? index + size : index;
    return weft_max_i64(0, weft_min_i64(index, size));
}

/* False with the error kept. */
static bool make_slice(const char *function, int64_t size, int64_t start, int64_t stop, int64_t step,
                       slice *s)
{
    if (step < 1) {
        weft_fail(WEFT_ERR_INVALID, function, "step is %lld, expected at least 1", (long long)step);
        return false;
    }
    start = clamp_index(start, size);
    stop = clamp_index(stop, size);
    *s = (slice){ start, step, stop > start ? (stop - start - 1) / step + 1 : 0 };
    s->step = s->extent < 2 ? 1 : step;
    return true;
}

/* Attributes of operations that cut along one dimension. */
enum { CUT_DIM, CUT_START, CUT_STEP };

/* Rows cut out of a shard are consecutive in memory. */
static int64_t first_row_of_cut(const weft_lowering *lowering)
{
    const int64_t *numbers = lowering->attributes->numbers;
    bool together = numbers[CUT_DIM] == 0 && numbers[CUT_STEP] == 1 && lowering->access_map[0] == NULL;
    return together ? numbers[CUT_START] : -1;
}

/* sizes[0]: number of indices taken. */
static int describe_slice(const weft_attributes *attributes, const weft_layout *from, weft_affine maps[])
{
    const int64_t *numbers = attributes->numbers;
    int dim = (int)numbers[CUT_DIM];
    maps[0] = weft_same_map(from);
    maps[0].loops[dim] = (weft_affine_loop){ .kind = WEFT_LOOP_ACCESS,
                                             .extent = attributes->sizes[0],
                                             .source = { dim, numbers[CUT_START], numbers[CUT_STEP] },
                                             .target = { dim, 0, 1 } };
    return 1;
}

/* The gradient of a slice along dimension `dim` of an input, with zeros around it. */
static bool give_around(const weft_gradient *of, weft_tensor *gradient);

static bool gradient_of_slice(const weft_gradient *of)
{
    return give_around(of, weft_gradient_of_output(of, 0));
}

WEFT_MOVES(slice, "as~b->a*sb*", true, first_row_of_cut, gradient_of_slice)

static weft_attributes slice_attributes(int dim, const slice *s, int64_t size)
{
    return (weft_attributes){ .num_sizes = 1,
                              .sizes = { size },
                              .num_numbers = 3,
                              .numbers = { [CUT_DIM] = dim, [CUT_START] = s->start, [CUT_STEP] = s->step } };
}

static weft_tensor *take_slice(const char *function, weft_tensor *a, int dim, int64_t start, int64_t stop,
                               int64_t step)
{
    slice s;
    dim = weft_check_tensor(function, "a", a) == NULL ? -1 : weft_check_own_dim(function, "dim", a, dim);
    if (dim < 0 || !make_slice(function, weft_layout_of(a)->shape[dim], start, stop, step, &s)) {
        return NULL;
    }
    if (s.extent == weft_layout_of(a)->shape[dim]) {
        return weft_same(function, a);
    }
    weft_attributes attributes = slice_attributes(dim, &s, s.extent);
    return weft_dispatch_move(function, &operation_slice, a, &attributes);
}

weft_tensor *weft_slice(weft_tensor *a, int dim, int64_t start, int64_t stop, int64_t step)
{
    return take_slice("weft_slice", a, dim, start, stop, step);
}

/* The inverse of describe_slice(); sizes[0]: of the output. */
static int describe_slice_backward(const weft_attributes *attributes, const weft_layout *from,
                                   weft_affine maps[])
{
    const int64_t *numbers = attributes->numbers;
    int dim = (int)numbers[CUT_DIM];
    maps[0] = weft_same_map(from);
    maps[0].loops[dim].kind = WEFT_LOOP_ACCESS;
    maps[0].loops[dim].target.first = numbers[CUT_START];
    maps[0].loops[dim].target.step = numbers[CUT_STEP];
    return 1;
}

WEFT_MOVE_FUNCTIONS(slice_backward)

static bool lower_slice_gradient(const weft_lowering *lowering)
{
    return weft_lower_fill(lowering, (weft_exact){ 0, 0 }) && lower_slice_backward(lowering);
}

static void fill_of_slice_backward(const weft_attributes *attributes, double value[2])
{
    (void)attributes;
    value[0] = value[1] = 0;
}

static bool gradient_of_slice_backward(const weft_gradient *of)
{
    weft_attributes attributes = of->call->attributes;
    attributes.sizes[0] = weft_layout_of(of->call->inputs[0])->shape[attributes.numbers[CUT_DIM]];
    return weft_give_gradient(
        of, 0,
        weft_dispatch_move(of->call->function, &operation_slice, weft_gradient_of_output(of, 0), &attributes));
}

static const weft_operation operation_slice_backward = {
    .name = "slice_backward",
    .gradient = { .function = gradient_of_slice_backward },
    .write_rule = write_slice_backward_rule,
    .rule_like = "as~b->a*sb*",
    .window = window_of_slice_backward,
    .describe = describe_slice_backward,
    .fill = fill_of_slice_backward,
    .outputs[0].linear = WEFT_PASSES_ALL,
    .inputs = { { "gradient", WEFT_TYPES_ANY, false } },
    .places = true,
    .lower = lower_slice_gradient,
};

static bool give_around(const weft_gradient *of, weft_tensor *gradient)
{
    weft_attributes attributes = of->call->attributes;
    attributes.num_sizes = 1;
    attributes.sizes[0] = weft_layout_of(of->call->inputs[0])->shape[attributes.numbers[CUT_DIM]];
    return gradient != NULL &&
           weft_give_gradient(
               of, 0, weft_dispatch_move(of->call->function, &operation_slice_backward, gradient, &attributes));
}

weft_tensor *weft_slice_backward(weft_tensor *gradient, int dim, int64_t size, int64_t start, int64_t stop,
                                 int64_t step)
{
    static const char function[] = "weft_slice_backward";
    slice s;
    dim = weft_check_tensor(function, "gradient", gradient) == NULL
              ? -1
              : weft_check_own_dim(function, "dim", gradient, dim);
    if (dim < 0) {
        return NULL;
    }
    if (size < 0) {
        weft_fail(WEFT_ERR_SHAPE, function, "size is %lld, expected at least 0", (long long)size);
        return NULL;
    }
    if (!make_slice(function, size, start, stop, step, &s)) {
        return NULL;
    }
    if (weft_layout_of(gradient)->shape[dim] != s.extent) {
        weft_fail(WEFT_ERR_SHAPE, function,
                  "gradient has size %lld in dimension %d, expected %lld, as the slice has",
                  (long long)weft_layout_of(gradient)->shape[dim], dim, (long long)s.extent);
        return NULL;
    }
    if (s.extent == size) {
        return weft_same(function, gradient);
    }
    weft_attributes attributes = slice_attributes(dim, &s, size);
    return weft_dispatch_move(function, &operation_slice_backward, gradient, &attributes);
}

static int describe_select(const weft_attributes *attributes, const weft_layout *from, weft_affine maps[])
{
    const int64_t *numbers = attributes->numbers;
    int dim = (int)numbers[CUT_DIM];
    maps[0] = weft_same_map(from);
    for (int d = dim; d < from->ndim; d++) {
        maps[0].loops[d].target.dim = d - 1;
    }
    maps[0].loops[dim] = (weft_affine_loop){
        .kind = WEFT_LOOP_TAKEN, .extent = 1, .source = { dim, numbers[CUT_START], 1 }, .target = { -1, 0, 1 }
    };
    return 1;
}

/* Only the rank with the index sends it; the dimension is not gathered. */
static bool selects_from_parts(const weft_call_layouts *call)
{
    return weft_layout_parts(call->inputs[0], (int)call->attributes->numbers[CUT_DIM]) > 1;
}

static bool expand_select(const weft_call *call, weft_tensor *outputs[])
{
    int64_t dim = call->attributes.numbers[CUT_DIM], index = call->attributes.numbers[CUT_START];
    weft_call rest = *call;
    rest.inputs[0] = take_slice(call->function, call->inputs[0], (int)dim, index, index + 1, 1);
    rest.attributes.numbers[CUT_START] = 0;
    outputs[0] = rest.inputs[0] == NULL ? NULL : weft_dispatch_itself(&rest);
    return outputs[0] != NULL;
}

static bool gradient_of_select(const weft_gradient *of)
{
    int dim = (int)of->call->attributes.numbers[CUT_DIM];
    return give_around(of, weft_unsqueeze_dim(of->call->function, weft_gradient_of_output(of, 0), dim));
}

WEFT_MOVES_AND(select, "a[s]b->a*b*", true, first_row_of_cut, gradient_of_select, .expand = expand_select,
               .expands = selects_from_parts)

weft_tensor *weft_select(weft_tensor *a, int dim, int64_t index)
{
    static const char function[] = "weft_select";
    dim = weft_check_tensor(function, "a", a) == NULL ? -1 : weft_check_own_dim(function, "dim", a, dim);
    if (dim < 0) {
        return NULL;
    }
    int64_t size = weft_layout_of(a)->shape[dim];
    if (index < -size || index >= size) {
        weft_fail(WEFT_ERR_INVALID, function,
                  "index is %lld, expected %lld to %lld, as a has size %lld in dimension %d",
                  (long long)index, (long long)-size, (long long)size - 1, (long long)size, dim);
        return NULL;
    }
    index = index < 0 ? index + size : index;
    return weft_dispatch_move(
        function, &operation_select, a,
        &(weft_attributes){ .num_numbers = 3,
                            .numbers = { [CUT_DIM] = dim, [CUT_START] = index, [CUT_STEP] = 1 } });
}

/* ---- writing into a tensor ----------------------------------------------------------------------------- */

/* numbers[0]: the dimension; numbers[1]: the part's first index. */
static int describe_put(const weft_attributes *attributes, const weft_layout *from, weft_affine maps[])
{
    int dim = (int)attributes->numbers[0];
    maps[0] = weft_same_map(from);
    maps[0].input = 1;
    maps[0].loops[dim].kind = WEFT_LOOP_ACCESS;
    maps[0].loops[dim].target.first = attributes->numbers[1];
    return 1;
}

WEFT_MOVE_FUNCTIONS(put)

static const weft_operation operation_put = {
    .name = "cat",
    .gradient = WEFT_GRADIENT_OF_WHOLE("concat"),
    .write_rule = write_put_rule,
    .rule_like = "a*s,as~->a*s",
    .window = window_of_put,
    .outputs[0].linear = WEFT_PASSES_ALL,
    .inputs = { { "target", WEFT_TYPES_MOVED, false }, { "tensor", WEFT_TYPES_MOVED, true } },
    .outputs[0].in_place = true,
    .places = true,
    .lower = lower_put,
};

bool weft_put_part(const char *function, weft_tensor *target, weft_tensor *part, int dim, int64_t start)
{
    return weft_dispatch(&(weft_call){ .function = function,
                                       .operation = &operation_put,
                                       .num_inputs = 2,
                                       .inputs = { target, part },
                                       .attributes = { .num_numbers = 2, .numbers = { dim, start } } }) !=
           NULL;
}

bool weft_is_slice(const weft_call *call)
{
    return !weft_call_is_action(call) && call->attributes.numbers[CUT_STEP] == 1 &&
           (weft_operation_is(call->operation, &operation_slice) ||
            weft_operation_is(call->operation, &operation_select));
}

/* The slice of `whole` is released before it is written to, so that nothing shares its memory then. */
bool weft_add_to_slice(const weft_call *call, weft_tensor *whole, weft_tensor *part)
{
    int dim = (int)call->attributes.numbers[CUT_DIM];
    int64_t start = call->attributes.numbers[CUT_START];
    if (!weft_scope_begin_unrecorded()) {
        return false;
    }
    if (weft_operation_is(call->operation, &operation_select)) {
        part = weft_unsqueeze_dim(call->function, part, dim);
    }
    weft_tensor *sum = NULL;
    if (part != NULL) {
        weft_tensor *former = weft_slice(whole, dim, start, start + weft_layout_of(part)->shape[dim], 1);
        sum = former == NULL ? NULL : weft_add(former, part);
    }
    bool done = weft_scope_end_keeping(1, &sum, NULL, NULL) && sum != NULL;
    return done && (weft_tensor_num_elements(sum) == 0 || weft_put_part(call->function, whole, sum, dim, start));
}

/* ---- triangles ----------------------------------------------------------------------------------------- */

#define TRIANGLE(name_)                                                                                      \
    static bool gradient_of_##name_(const weft_gradient *of)                                                 \
    {                                                                                                        \
        int64_t diagonal = of->call->attributes.numbers[0];                                                  \
        return weft_give_gradient(of, 0, weft_##name_(weft_gradient_of_output(of, 0), diagonal));            \
    }                                                                                                        \
    static const weft_operation operation_##name_ = {                                                        \
        .name = #name_,                                                                                      \
        .gradient = { .function = gradient_of_##name_ },                                                     \
        .rules = { "Abc->Abc" },                                                                             \
        .outputs[0].linear = WEFT_PASSES_ALL,                                                                \
        .inputs = { { "a", WEFT_TYPES_ANY, false } },                                                        \
        .kernel = WEFT_KERNEL_##name_,                                                                       \
    };                                                                                                       \
    weft_tensor *weft_##name_(weft_tensor *a, int64_t diagonal)                                              \
    {                                                                                                        \
        return triangle("weft_" #name_, &operation_##name_, a, diagonal);                                    \
    }

static weft_tensor *triangle(const char *function, const weft_operation *operation, weft_tensor *a,
                             int64_t diagonal)
{
    if (weft_check_tensor(function, "a", a) == NULL) {
        return NULL;
    }
    /* A diagonal outside the matrix is replaced by the nearest one outside, which cannot overflow. */
    int ndim = weft_layout_of(a)->ndim;
    int64_t rows = ndim < 2 ? 0 : weft_layout_of(a)->shape[ndim - 2],
            columns = ndim < 2 ? 0 : weft_layout_of(a)->shape[ndim - 1];
    diagonal = weft_max_i64(-rows - 1, weft_min_i64(diagonal, columns + 1));
    return weft_dispatch_move(function, operation, a,
                              &(weft_attributes){ .num_numbers = 1, .numbers = { diagonal } });
}

TRIANGLE(tril)
TRIANGLE(triu)

/* ---- all of them --------------------------------------------------------------------------------------- */

const weft_operation *const weft_slice_operations[] = {
    &operation_slice,
    &operation_select,
    &operation_slice_backward,
    &operation_put,
    &operation_tril,
    &operation_triu,
    NULL,
};
