/* Operations that move elements: each says by which affine map; its rule and its tasks follow from that
 * (affine.h). */
#include <stdio.h>

#include "codelets/shapes.h"
#include "ops/affine.h"
#include "ops/ops.h"

/* ---- how one is declared ------------------------------------------------------------------------------- */

enum { MAX_MAPS = 2 };

/* Fills in the maps from an input of a layout to the output; returns how many. They differ in their places
 * only: the first one gives the rule. */
typedef int (*describe_function)(const weft_call *call, const weft_layout *from, weft_affine maps[MAX_MAPS]);

static void write_rule(describe_function describe, const weft_call *call, const weft_layout *from, char *text,
                       size_t size)
{
    weft_affine maps[MAX_MAPS];
    describe(call, from, maps);
    weft_affine_rule(&maps[0], call->operation->in_place, text, size);
}

static bool lower(describe_function describe, const weft_lowering *lowering, int input)
{
    weft_affine maps[MAX_MAPS];
    int count = describe(lowering->call, lowering->inputs[input]->layout, maps);
    return weft_lower_affine(lowering, input, count, maps);
}

/* Moved elements stay addends of what they were: Partial passes with any op. So do zeros beside them: every
 * op makes 0 of zeros. */
#define PASSES_ALL                                                                                           \
    {                                                                                                        \
        .kind = WEFT_LINEAR_JOINTLY, .ops = ~0u                                                              \
    }

/* first_row: which rows of the input the output is, where these are all that it is; NULL: as `views` says. */
#define MOVES(name_, like, views_, first_row_)                                                               \
    static void write_##name_##_rule(const weft_call *call, const weft_layout *const inputs[], char *text,   \
                                     size_t size)                                                            \
    {                                                                                                        \
        write_rule(describe_##name_, call, inputs[0], text, size);                                           \
    }                                                                                                        \
    static bool lower_##name_(const weft_lowering *lowering)                                                 \
    {                                                                                                        \
        return lower(describe_##name_, lowering, 0);                                                         \
    }                                                                                                        \
    static const weft_operation operation_##name_ = {                                                        \
        .name = #name_,                                                                                      \
        .write_rule = write_##name_##_rule,                                                                  \
        .rule_like = like,                                                                                   \
        .linear = PASSES_ALL,                                                                                \
        .inputs = { { "a", WEFT_TYPES_ALL, false } },                                                        \
        .views = views_,                                                                                     \
        .first_row = first_row_,                                                                             \
        .lower = lower_##name_,                                                                              \
    };

static weft_tensor *dispatch(const char *function, const weft_operation *operation, weft_tensor *a,
                             const weft_attributes *attributes)
{
    return weft_dispatch(&(weft_call){ .function = function,
                                       .operation = operation,
                                       .num_inputs = 1,
                                       .inputs = { a },
                                       .attributes = *attributes });
}

/* A map that leaves everything where it is. */
static weft_affine same_map(const weft_layout *from)
{
    weft_affine map = { .num_loops = from->ndim };
    for (int d = 0; d < from->ndim; d++) {
        map.loops[d] = weft_affine_same(from->shape[d], d, d);
    }
    return map;
}

/* ---- checks -------------------------------------------------------------------------------------------- */

/* The dimension as 0 .. ndim - 1; -1 with the error kept. */
static int check_dim(const char *function, const char *argument, const weft_tensor *a, int dim)
{
    if (a->layout->ndim == 0) {
        weft_fail(WEFT_ERR_INVALID, function, "%s is %d, but a is a scalar and has no dimensions", argument,
                  dim);
        return -1;
    }
    return weft_check_dim(function, argument, dim, a->layout->ndim);
}

/* Of a dimension that is added: 0 .. ndim. */
static int check_new_dim(const char *function, const weft_tensor *a, int dim)
{
    int ndim = a->layout->ndim;
    if (ndim == WEFT_MAX_DIMS) {
        weft_fail(WEFT_ERR_SHAPE, function, "a has %d dimensions, expected at most %d: one is added", ndim,
                  WEFT_MAX_DIMS - 1);
        return -1;
    }
    return weft_check_dim(function, "dim", dim, ndim + 1);
}

/* Writes num_dims dimensions as 0 .. ndim - 1, each at most once. False with the error kept. */
static bool check_dims(const char *function, const weft_tensor *a, int num_dims, const int dims[],
                       int checked[])
{
    if (num_dims < 0 || num_dims > a->layout->ndim || (num_dims > 0 && dims == NULL)) {
        weft_fail(WEFT_ERR_INVALID, function, "num_dims is %d%s, expected 0 to %d", num_dims,
                  dims == NULL ? " and dims NULL" : "", a->layout->ndim);
        return false;
    }
    int64_t seen = 0;
    for (int i = 0; i < num_dims; i++) {
        checked[i] = check_dim(function, "dims", a, dims[i]);
        if (checked[i] < 0) {
            return false;
        }
        if (seen >> checked[i] & 1) {
            weft_fail(WEFT_ERR_INVALID, function, "dims has dimension %d twice", checked[i]);
            return false;
        }
        seen |= (int64_t)1 << checked[i];
    }
    return true;
}

/* ---- dimensions of size 1 ------------------------------------------------------------------------------ */

/* numbers[0]: bit d for each dimension that goes. */
static int describe_squeeze(const weft_call *call, const weft_layout *from, weft_affine maps[])
{
    maps[0] = same_map(from);
    int kept = 0;
    for (int d = 0; d < from->ndim; d++) {
        bool goes = call->attributes.numbers[0] >> d & 1;
        maps[0].loops[d].kind = goes ? WEFT_LOOP_ONE : WEFT_LOOP_SAME;
        maps[0].loops[d].target.dim = goes ? -1 : kept++;
    }
    return 1;
}

MOVES(squeeze, "a1b->ab", true, NULL)

weft_tensor *weft_squeeze_dims(const char *function, weft_tensor *a, int64_t mask)
{
    return dispatch(function, &operation_squeeze, a,
                    &(weft_attributes){ .num_numbers = 1, .numbers = { mask } });
}

/* What a call that has nothing to do returns: a tensor of its own, on the same memory where that can be. */
static weft_tensor *same(const char *function, weft_tensor *a)
{
    return weft_squeeze_dims(function, a, 0);
}

weft_tensor *weft_squeeze(weft_tensor *a, int dim)
{
    static const char function[] = "weft_squeeze";
    a = weft_check_tensor(function, "a", a);
    dim = a == NULL ? -1 : check_dim(function, "dim", a, dim);
    if (dim < 0) {
        return NULL;
    }
    return weft_squeeze_dims(function, a, a->layout->shape[dim] == 1 ? (int64_t)1 << dim : 0);
}

weft_tensor *weft_squeeze_all(weft_tensor *a)
{
    static const char function[] = "weft_squeeze_all";
    a = weft_check_tensor(function, "a", a);
    if (a == NULL) {
        return NULL;
    }
    int64_t mask = 0;
    for (int d = 0; d < a->layout->ndim; d++) {
        mask |= (int64_t)(a->layout->shape[d] == 1) << d;
    }
    return weft_squeeze_dims(function, a, mask);
}

/* numbers[0]: where the new dimension is. */
static int describe_unsqueeze(const weft_call *call, const weft_layout *from, weft_affine maps[])
{
    int dim = (int)call->attributes.numbers[0];
    maps[0] = (weft_affine){ .num_loops = from->ndim + 1 };
    for (int d = 0; d < from->ndim; d++) {
        maps[0].loops[d < dim ? d : d + 1] = weft_affine_same(from->shape[d], d, d < dim ? d : d + 1);
    }
    maps[0].loops[dim] = weft_affine_same(1, -1, dim);
    maps[0].loops[dim].kind = WEFT_LOOP_ONE;
    return 1;
}

MOVES(unsqueeze, "ab->a1b", true, NULL)

weft_tensor *weft_unsqueeze_dim(const char *function, weft_tensor *a, int dim)
{
    dim = check_new_dim(function, a, dim);
    return dim < 0 ? NULL
                   : dispatch(function, &operation_unsqueeze, a,
                              &(weft_attributes){ .num_numbers = 1, .numbers = { dim } });
}

weft_tensor *weft_unsqueeze(weft_tensor *a, int dim)
{
    a = weft_check_tensor("weft_unsqueeze", "a", a);
    return a == NULL ? NULL : weft_unsqueeze_dim("weft_unsqueeze", a, dim);
}

/* ---- the order of dimensions --------------------------------------------------------------------------- */

/* numbers[i]: the dimension of the input that becomes dimension i. */
static int describe_permute(const weft_call *call, const weft_layout *from, weft_affine maps[])
{
    maps[0] = (weft_affine){ .num_loops = from->ndim };
    for (int i = 0; i < from->ndim; i++) {
        int dim = (int)call->attributes.numbers[i];
        maps[0].loops[i] = weft_affine_same(from->shape[dim], dim, i);
    }
    return 1;
}

MOVES(permute, "abc->cab", false, NULL)

static weft_tensor *permute(const char *function, weft_tensor *a, const int dims[])
{
    weft_attributes attributes = { .num_numbers = a->layout->ndim };
    bool moves = false;
    for (int i = 0; i < a->layout->ndim; i++) {
        attributes.numbers[i] = dims[i];
        moves |= dims[i] != i;
    }
    return moves ? dispatch(function, &operation_permute, a, &attributes) : same(function, a);
}

weft_tensor *weft_permute(weft_tensor *a, int ndim, const int dims[])
{
    static const char function[] = "weft_permute";
    int checked[WEFT_MAX_DIMS];
    a = weft_check_tensor(function, "a", a);
    if (a == NULL) {
        return NULL;
    }
    if (ndim != a->layout->ndim) {
        weft_fail(WEFT_ERR_INVALID, function, "ndim is %d, expected %d, as a has", ndim, a->layout->ndim);
        return NULL;
    }
    return check_dims(function, a, ndim, dims, checked) ? permute(function, a, checked) : NULL;
}

weft_tensor *weft_transpose(weft_tensor *a, int dim0, int dim1)
{
    static const char function[] = "weft_transpose";
    a = weft_check_tensor(function, "a", a);
    dim0 = a == NULL ? -1 : check_dim(function, "dim0", a, dim0);
    dim1 = dim0 < 0 ? -1 : check_dim(function, "dim1", a, dim1);
    if (dim1 < 0) {
        return NULL;
    }
    int dims[WEFT_MAX_DIMS];
    for (int d = 0; d < a->layout->ndim; d++) {
        dims[d] = d == dim0 ? dim1 : d == dim1 ? dim0 : d;
    }
    return permute(function, a, dims);
}

weft_tensor *weft_movedim(weft_tensor *a, int from, int to)
{
    static const char function[] = "weft_movedim";
    a = weft_check_tensor(function, "a", a);
    from = a == NULL ? -1 : check_dim(function, "from", a, from);
    to = from < 0 ? -1 : check_dim(function, "to", a, to);
    if (to < 0) {
        return NULL;
    }
    int dims[WEFT_MAX_DIMS];
    for (int d = 0, next = 0; d < a->layout->ndim; d++) {
        next += next == from;
        dims[d] = d == to ? from : next++;
    }
    return permute(function, a, dims);
}

/* ---- repetition ---------------------------------------------------------------------------------------- */

/* numbers: the new shape; sizes: those of its dimensions that are repeated. */
static int describe_expand(const weft_call *call, const weft_layout *from, weft_affine maps[])
{
    int ndim = (int)call->attributes.num_numbers, added = ndim - from->ndim;
    maps[0] = (weft_affine){ .num_loops = ndim };
    for (int d = 0; d < ndim; d++) {
        int own = d - added;
        int64_t size = call->attributes.numbers[d];
        weft_affine_loop *loop = &maps[0].loops[d];
        *loop = weft_affine_same(size, own < 0 ? -1 : own, d);
        if (own < 0 || from->shape[own] != size) {
            loop->kind = WEFT_LOOP_REPEATED;
            loop->source.step = 0;
        }
    }
    return 1;
}

MOVES(expand, "a1->ab", false, NULL)

/* Writes the whole shape that a is expanded to. False with the error kept. */
static bool complete_expansion(const weft_tensor *a, int ndim, const int64_t shape[], int64_t complete[])
{
    static const char function[] = "weft_expand";
    int added = ndim - a->layout->ndim;
    if (ndim > WEFT_MAX_DIMS || (ndim > 0 && shape == NULL)) {
        return weft_check_shape(function, ndim, shape);
    }
    if (added < 0) {
        weft_fail(WEFT_ERR_SHAPE, function, "shape has %d dimensions, expected at least %d, as a has", ndim,
                  a->layout->ndim);
        return false;
    }
    for (int d = 0; d < ndim; d++) {
        int64_t own = d < added ? 1 : a->layout->shape[d - added];
        complete[d] = shape[d] == -1 && d >= added ? own : shape[d];
        if (complete[d] != own && own != 1 && complete[d] >= 0) {
            weft_fail(WEFT_ERR_SHAPE, function,
                      "shape[%d] is %lld, expected %lld: a has this size in dimension %d", d,
                      (long long)shape[d], (long long)own, d - added);
            return false;
        }
    }
    return weft_check_shape(function, ndim, complete);
}

weft_tensor *weft_expand(weft_tensor *a, int ndim, const int64_t shape[])
{
    static const char function[] = "weft_expand";
    weft_attributes attributes = { .num_numbers = ndim };
    a = weft_check_tensor(function, "a", a);
    if (a == NULL || !complete_expansion(a, ndim, shape, attributes.numbers)) {
        return NULL;
    }
    int added = ndim - a->layout->ndim;
    for (int d = 0; d < ndim; d++) {
        if (d < added || a->layout->shape[d - added] != attributes.numbers[d]) {
            attributes.sizes[attributes.num_sizes++] = attributes.numbers[d];
        }
    }
    return attributes.num_sizes == 0 ? same(function, a)
                                     : dispatch(function, &operation_expand, a, &attributes);
}

/* Which dimensions weft_sum_to() adds up, bit d for dimension d; -1 with the error kept. */
static int64_t mask_of_sum(const weft_tensor *a, int ndim, const int64_t shape[])
{
    static const char function[] = "weft_sum_to";
    if (!weft_check_shape(function, ndim, shape)) {
        return -1;
    }
    int added = a->layout->ndim - ndim;
    if (added < 0) {
        weft_fail(WEFT_ERR_SHAPE, function, "shape has %d dimensions, expected at most %d, as a has", ndim,
                  a->layout->ndim);
        return -1;
    }
    int64_t mask = ((int64_t)1 << added) - 1;
    for (int d = 0; d < ndim; d++) {
        int64_t own = a->layout->shape[d + added];
        if (shape[d] != own && shape[d] != 1) {
            weft_fail(WEFT_ERR_SHAPE, function,
                      "shape[%d] is %lld, expected 1 or %lld, as a has in dimension %d", d,
                      (long long)shape[d], (long long)own, d + added);
            return -1;
        }
        mask |= (int64_t)(shape[d] != own) << (d + added);
    }
    return mask;
}

weft_tensor *weft_sum_to(weft_tensor *a, int ndim, const int64_t shape[])
{
    static const char function[] = "weft_sum_to";
    a = weft_check_tensor(function, "a", a);
    int64_t mask = a == NULL ? -1 : mask_of_sum(a, ndim, shape);
    if (mask < 0) {
        return NULL;
    }
    if (mask == 0) {
        return same(function, a);
    }
    int dims[WEFT_MAX_DIMS], num_dims = 0;
    for (int d = 0; d < a->layout->ndim; d++) {
        dims[num_dims] = d;
        num_dims += (int)(mask >> d & 1);
    }
    weft_scope_open();
    weft_tensor *sum = weft_sum_over(a, num_dims, dims, true);
    weft_tensor *result =
        sum == NULL ? NULL : weft_squeeze_dims(function, sum, ((int64_t)1 << (a->layout->ndim - ndim)) - 1);
    if (result != NULL) {
        weft_scope_keep(result);
    }
    weft_scope_close();
    return result;
}

/* ---- parts --------------------------------------------------------------------------------------------- */

/* What Python's slice() means for a dimension of a size. */
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

/* Numbers of operations that cut along one dimension. */
enum { CUT_DIM, CUT_START, CUT_STEP };

/* What is cut out of the rows lies together. */
static int64_t first_row_of_cut(const weft_call *call)
{
    const int64_t *numbers = call->attributes.numbers;
    return numbers[CUT_DIM] == 0 && numbers[CUT_STEP] == 1 ? numbers[CUT_START] : -1;
}

/* sizes[0]: how many are taken. */
static int describe_slice(const weft_call *call, const weft_layout *from, weft_affine maps[])
{
    const int64_t *numbers = call->attributes.numbers;
    int dim = (int)numbers[CUT_DIM];
    maps[0] = same_map(from);
    maps[0].loops[dim] = (weft_affine_loop){ .kind = WEFT_LOOP_RESIZED,
                                             .extent = call->attributes.sizes[0],
                                             .source = { dim, numbers[CUT_START], numbers[CUT_STEP] },
                                             .target = { dim, 0, 1 } };
    return 1;
}

MOVES(slice, "a[s]b->a[t]b", true, first_row_of_cut)

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
    a = weft_check_tensor(function, "a", a);
    dim = a == NULL ? -1 : check_dim(function, "dim", a, dim);
    if (dim < 0 || !make_slice(function, a->layout->shape[dim], start, stop, step, &s)) {
        return NULL;
    }
    if (s.extent == a->layout->shape[dim]) {
        return same(function, a);
    }
    weft_attributes attributes = slice_attributes(dim, &s, s.extent);
    return dispatch(function, &operation_slice, a, &attributes);
}

weft_tensor *weft_slice(weft_tensor *a, int dim, int64_t start, int64_t stop)
{
    return take_slice("weft_slice", a, dim, start, stop, 1);
}

weft_tensor *weft_slice_step(weft_tensor *a, int dim, int64_t start, int64_t stop, int64_t step)
{
    return take_slice("weft_slice_step", a, dim, start, stop, step);
}

/* The same the other way round; sizes[0]: of the output. */
static int describe_slice_backward(const weft_call *call, const weft_layout *from, weft_affine maps[])
{
    const int64_t *numbers = call->attributes.numbers;
    int dim = (int)numbers[CUT_DIM];
    maps[0] = same_map(from);
    maps[0].loops[dim].kind = WEFT_LOOP_RESIZED;
    maps[0].loops[dim].target.first = numbers[CUT_START];
    maps[0].loops[dim].target.step = numbers[CUT_STEP];
    return 1;
}

static void write_slice_backward_rule(const weft_call *call, const weft_layout *const inputs[], char *text,
                                      size_t size)
{
    write_rule(describe_slice_backward, call, inputs[0], text, size);
}

static bool lower_slice_backward(const weft_lowering *lowering)
{
    return weft_lower_fill(lowering, 0) && lower(describe_slice_backward, lowering, 0);
}

static const weft_operation operation_slice_backward = {
    .name = "slice_backward",
    .write_rule = write_slice_backward_rule,
    .rule_like = "a[s]b->a[t]b",
    .linear = PASSES_ALL,
    .inputs = { { "gradient", WEFT_TYPES_ALL, false } },
    .lower = lower_slice_backward,
};

weft_tensor *weft_slice_backward(weft_tensor *gradient, int dim, int64_t size, int64_t start, int64_t stop,
                                 int64_t step)
{
    static const char function[] = "weft_slice_backward";
    slice s;
    gradient = weft_check_tensor(function, "gradient", gradient);
    dim = gradient == NULL ? -1 : check_dim(function, "dim", gradient, dim);
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
    if (gradient->layout->shape[dim] != s.extent) {
        weft_fail(WEFT_ERR_SHAPE, function,
                  "gradient has size %lld in dimension %d, expected %lld, as the slice has",
                  (long long)gradient->layout->shape[dim], dim, (long long)s.extent);
        return NULL;
    }
    if (s.extent == size) {
        return same(function, gradient);
    }
    weft_attributes attributes = slice_attributes(dim, &s, size);
    return dispatch(function, &operation_slice_backward, gradient, &attributes);
}

static int describe_select(const weft_call *call, const weft_layout *from, weft_affine maps[])
{
    const int64_t *numbers = call->attributes.numbers;
    int dim = (int)numbers[CUT_DIM];
    maps[0] = same_map(from);
    for (int d = dim; d < from->ndim; d++) {
        maps[0].loops[d].target.dim = d - 1;
    }
    maps[0].loops[dim] = (weft_affine_loop){ .kind = WEFT_LOOP_RESIZED,
                                             .extent = 1,
                                             .source = { dim, numbers[CUT_START], 1 },
                                             .target = { -1, 0, 1 } };
    return 1;
}

MOVES(select, "a[s]b->ab", true, first_row_of_cut)

weft_tensor *weft_select(weft_tensor *a, int dim, int64_t index)
{
    static const char function[] = "weft_select";
    a = weft_check_tensor(function, "a", a);
    dim = a == NULL ? -1 : check_dim(function, "dim", a, dim);
    if (dim < 0) {
        return NULL;
    }
    int64_t size = a->layout->shape[dim];
    if (index < -size || index >= size) {
        weft_fail(WEFT_ERR_INVALID, function,
                  "index is %lld, expected %lld to %lld, as a has size %lld in dimension %d",
                  (long long)index, (long long)-size, (long long)size - 1, (long long)size, dim);
        return NULL;
    }
    return dispatch(
        function, &operation_select, a,
        &(weft_attributes){
            .num_numbers = 3,
            .numbers = { [CUT_DIM] = dim, [CUT_START] = index < 0 ? index + size : index, [CUT_STEP] = 1 } });
}

/* ---- the order of elements ----------------------------------------------------------------------------- */

/* numbers[0]: bit d for each dimension that is reversed. */
static int describe_flip(const weft_call *call, const weft_layout *from, weft_affine maps[])
{
    maps[0] = same_map(from);
    for (int d = 0; d < from->ndim; d++) {
        if (call->attributes.numbers[0] >> d & 1) {
            maps[0].loops[d].kind = WEFT_LOOP_WHOLE;
            maps[0].loops[d].source = (weft_affine_side){ d, from->shape[d] - 1, -1 };
        }
    }
    return 1;
}

MOVES(flip, "a[b]->a[b]", false, NULL)

weft_tensor *weft_flip(weft_tensor *a, int num_dims, const int dims[])
{
    static const char function[] = "weft_flip";
    int checked[WEFT_MAX_DIMS];
    a = weft_check_tensor(function, "a", a);
    if (a == NULL || !check_dims(function, a, num_dims, dims, checked)) {
        return NULL;
    }
    int64_t mask = 0;
    for (int i = 0; i < num_dims; i++) {
        mask |= (int64_t)(a->layout->shape[checked[i]] > 1) << checked[i];
    }
    return mask == 0 ? same(function, a)
                     : dispatch(function, &operation_flip, a,
                                &(weft_attributes){ .num_numbers = 1, .numbers = { mask } });
}

/* numbers: the dimension, and how far it is moved, 1 .. size - 1. The end comes first. */
static int describe_roll(const weft_call *call, const weft_layout *from, weft_affine maps[])
{
    int dim = (int)call->attributes.numbers[0];
    int64_t shift = call->attributes.numbers[1], rest = from->shape[dim] - shift;
    maps[0] = maps[1] = same_map(from);
    maps[0].loops[dim] = (weft_affine_loop){ WEFT_LOOP_WHOLE, shift, { dim, rest, 1 }, { dim, 0, 1 } };
    maps[1].loops[dim] = (weft_affine_loop){ WEFT_LOOP_WHOLE, rest, { dim, 0, 1 }, { dim, shift, 1 } };
    return 2;
}

MOVES(roll, "a[b]->a[b]", false, NULL)

weft_tensor *weft_roll(weft_tensor *a, int64_t shift, int dim)
{
    static const char function[] = "weft_roll";
    a = weft_check_tensor(function, "a", a);
    dim = a == NULL ? -1 : check_dim(function, "dim", a, dim);
    if (dim < 0) {
        return NULL;
    }
    int64_t size = a->layout->shape[dim];
    shift = size == 0 ? 0 : shift % size;
    shift = shift < 0 ? shift + size : shift;
    return shift == 0 ? same(function, a)
                      : dispatch(function, &operation_roll, a,
                                 &(weft_attributes){ .num_numbers = 2, .numbers = { dim, shift } });
}

/* ---- writing into a tensor ----------------------------------------------------------------------------- */

/* numbers[0]: the dimension along which they follow each other; numbers[1]: where the part begins. */
static int describe_put(const weft_call *call, const weft_layout *from, weft_affine maps[])
{
    int dim = (int)call->attributes.numbers[0];
    maps[0] = same_map(from);
    maps[0].loops[dim].kind = WEFT_LOOP_RESIZED;
    maps[0].loops[dim].target.first = call->attributes.numbers[1];
    return 1;
}

static void write_put_rule(const weft_call *call, const weft_layout *const inputs[], char *text, size_t size)
{
    write_rule(describe_put, call, inputs[1], text, size);
}

static bool lower_put(const weft_lowering *lowering)
{
    return lower(describe_put, lowering, 1);
}

static const weft_operation operation_put = {
    .name = "cat",
    .write_rule = write_put_rule,
    .rule_like = "a[t],a[s]->a[t]",
    .linear = PASSES_ALL,
    .inputs = { { "target", WEFT_TYPES_ALL, false }, { "tensor", WEFT_TYPES_ALL, true } },
    .in_place = true,
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

/* ---- triangles ----------------------------------------------------------------------------------------- */

#define TRIANGLE(name_)                                                                                      \
    static const weft_operation operation_##name_ = {                                                        \
        .name = #name_,                                                                                      \
        .rules = { "Abc->Abc" },                                                                             \
        .linear = PASSES_ALL,                                                                                \
        .inputs = { { "a", WEFT_TYPES_ALL, false } },                                                        \
        .kernel = weft_kernel_##name_,                                                                       \
    };                                                                                                       \
    weft_tensor *weft_##name_(weft_tensor *a, int64_t diagonal)                                              \
    {                                                                                                        \
        return triangle("weft_" #name_, &operation_##name_, a, diagonal);                                    \
    }

static weft_tensor *triangle(const char *function, const weft_operation *operation, weft_tensor *a,
                             int64_t diagonal)
{
    a = weft_check_tensor(function, "a", a);
    if (a == NULL) {
        return NULL;
    }
    /* What is out of the matrix is as good as the next diagonal outside it, and cannot overflow. */
    int ndim = a->layout->ndim;
    int64_t rows = ndim < 2 ? 0 : a->layout->shape[ndim - 2],
            columns = ndim < 2 ? 0 : a->layout->shape[ndim - 1];
    diagonal = weft_max_i64(-rows - 1, weft_min_i64(diagonal, columns + 1));
    return dispatch(function, operation, a, &(weft_attributes){ .num_numbers = 1, .numbers = { diagonal } });
}

TRIANGLE(tril)
TRIANGLE(triu)

/* ---- all of them --------------------------------------------------------------------------------------- */

const weft_operation *const weft_shape_operations[] = {
    &operation_squeeze,
    &operation_unsqueeze,
    &operation_permute,
    &operation_expand,
    &operation_slice,
    &operation_select,
    &operation_slice_backward,
    &operation_flip,
    &operation_roll,
    &operation_put,
    &operation_tril,
    &operation_triu,
    NULL,
};
