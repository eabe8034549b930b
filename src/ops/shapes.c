/* Dimensions: size 1, permutations, repetition. */
#include "ops/data_movement.h"
#include "ops/reductions.h"

/* ---- checks -------------------------------------------------------------------------------------------- */

/* A position for a new dimension: 0 .. ndim. */
static int check_new_dim(const char *function, const weft_tensor *a, int dim)
{
    int ndim = weft_layout_of(a)->ndim;
    if (ndim == WEFT_MAX_DIMS) {
        weft_fail(WEFT_ERR_SHAPE, function, "a has %d dimensions, expected at most %d: one is added", ndim,
                  WEFT_MAX_DIMS - 1);
        return -1;
    }
    return weft_check_dim(function, "dim", dim, ndim + 1);
}

/* ---- dimensions of size 1 ------------------------------------------------------------------------------ */

/* numbers[0]: bit d: dimension d is removed. */
static int describe_squeeze(const weft_attributes *attributes, const weft_layout *from, weft_affine maps[])
{
    maps[0] = weft_same_map(from);
    int kept = 0;
    for (int d = 0; d < from->ndim; d++) {
        bool goes = attributes->numbers[0] >> d & 1;
        maps[0].loops[d].kind = goes ? WEFT_LOOP_ONE : WEFT_LOOP_SAME;
        maps[0].loops[d].target.dim = goes ? -1 : kept++;
    }
    return 1;
}

static bool gradient_of_squeeze(const weft_gradient *of)
{
    weft_tensor *gradient = weft_gradient_of_output(of, 0);
    for (int d = 0; d < WEFT_MAX_DIMS && gradient != NULL; d++) {
        if (of->call->attributes.numbers[0] >> d & 1) {
            gradient = weft_unsqueeze_dim(of->call->function, gradient, d);
        }
    }
    return weft_give_gradient(of, 0, gradient);
}

WEFT_MOVES(squeeze, "a1b->a*b*", true, NULL, gradient_of_squeeze)

weft_tensor *weft_squeeze_dims(const char *function, weft_tensor *a, int64_t mask)
{
    return weft_dispatch_move(function, &operation_squeeze, a,
                              &(weft_attributes){ .num_numbers = 1, .numbers = { mask } });
}

weft_tensor *weft_same(const char *function, weft_tensor *a)
{
    return weft_squeeze_dims(function, a, 0);
}

weft_tensor *weft_squeeze(weft_tensor *a, int dim)
{
    static const char function[] = "weft_squeeze";
    if (weft_check_tensor(function, "a", a) == NULL) {
        return NULL;
    }
    bool all = dim == WEFT_ALL_DIMS;
    dim = all ? 0 : weft_wrap_dim(function, "dim", a, dim);
    if (dim < 0) {
        return NULL;
    }
    int64_t mask = 0;
    for (int d = 0; d < weft_layout_of(a)->ndim; d++) {
        mask |= (int64_t)((all || d == dim) && weft_layout_of(a)->shape[d] == 1) << d;
    }
    return weft_squeeze_dims(function, a, mask);
}

/* numbers[0]: position of the new dimension. */
static int describe_unsqueeze(const weft_attributes *attributes, const weft_layout *from, weft_affine maps[])
{
    int dim = (int)attributes->numbers[0];
    maps[0] = (weft_affine){ .num_loops = from->ndim + 1 };
    for (int d = 0; d < from->ndim; d++) {
        maps[0].loops[d < dim ? d : d + 1] = weft_affine_same(from->shape[d], d, d < dim ? d : d + 1);
    }
    maps[0].loops[dim] = weft_affine_same(1, -1, dim);
    maps[0].loops[dim].kind = WEFT_LOOP_ONE;
    return 1;
}

static bool gradient_of_unsqueeze(const weft_gradient *of)
{
    int64_t mask = (int64_t)1 << of->call->attributes.numbers[0];
    return weft_give_gradient(of, 0, weft_squeeze_dims(of->call->function, weft_gradient_of_output(of, 0), mask));
}

WEFT_MOVES(unsqueeze, "ab->a*1b*", true, NULL, gradient_of_unsqueeze)

weft_tensor *weft_unsqueeze_dim(const char *function, weft_tensor *a, int dim)
{
    dim = check_new_dim(function, a, dim);
    return dim < 0 ? NULL
                   : weft_dispatch_move(function, &operation_unsqueeze, a,
                                        &(weft_attributes){ .num_numbers = 1, .numbers = { dim } });
}

weft_tensor *weft_unsqueeze(weft_tensor *a, int dim)
{
    static const char function[] = "weft_unsqueeze";
    return weft_check_tensor(function, "a", a) == NULL ? NULL : weft_unsqueeze_dim(function, a, dim);
}

/* ---- the order of dimensions --------------------------------------------------------------------------- */

/* numbers[i]: the input's dimension that becomes dimension i. */
static int describe_permute(const weft_attributes *attributes, const weft_layout *from, weft_affine maps[])
{
    maps[0] = (weft_affine){ .num_loops = from->ndim };
    for (int i = 0; i < from->ndim; i++) {
        int dim = (int)attributes->numbers[i];
        maps[0].loops[i] = weft_affine_same(from->shape[dim], dim, i);
    }
    return 1;
}

static bool gradient_of_permute(const weft_gradient *of)
{
    const weft_attributes *attributes = &of->call->attributes;
    int inverse[WEFT_MAX_DIMS];
    for (int i = 0; i < attributes->num_numbers; i++) {
        inverse[attributes->numbers[i]] = i;
    }
    return weft_give_gradient(of, 0,
                              weft_permute(weft_gradient_of_output(of, 0), (int)attributes->num_numbers, inverse));
}

WEFT_MOVES(permute, "abc->c*a*b*", false, NULL, gradient_of_permute)

static weft_tensor *permute(const char *function, weft_tensor *a, const int dims[])
{
    weft_attributes attributes = { .num_numbers = weft_layout_of(a)->ndim };
    bool moves = false;
    for (int i = 0; i < weft_layout_of(a)->ndim; i++) {
        attributes.numbers[i] = dims[i];
        moves |= dims[i] != i;
    }
    return moves ? weft_dispatch_move(function, &operation_permute, a, &attributes) : weft_same(function, a);
}

weft_tensor *weft_permute(weft_tensor *a, int ndim, const int dims[])
{
    static const char function[] = "weft_permute";
    int checked[WEFT_MAX_DIMS];
    if (weft_check_tensor(function, "a", a) == NULL) {
        return NULL;
    }
    if (ndim != weft_layout_of(a)->ndim) {
        weft_fail(WEFT_ERR_INVALID, function, "ndim is %d, expected %d, as a has", ndim,
                  weft_layout_of(a)->ndim);
        return NULL;
    }
    return weft_check_own_dims(function, a, ndim, dims, checked) ? permute(function, a, checked) : NULL;
}

weft_tensor *weft_transpose(weft_tensor *a, int dim0, int dim1)
{
    static const char function[] = "weft_transpose";
    dim0 = weft_check_tensor(function, "a", a) == NULL ? -1 : weft_wrap_dim(function, "dim0", a, dim0);
    dim1 = dim0 < 0 ? -1 : weft_wrap_dim(function, "dim1", a, dim1);
    if (dim1 < 0) {
        return NULL;
    }
    int dims[WEFT_MAX_DIMS];
    for (int d = 0; d < weft_layout_of(a)->ndim; d++) {
        dims[d] = d == dim0 ? dim1 : d == dim1 ? dim0 : d;
    }
    return permute(function, a, dims);
}

weft_tensor *weft_movedim(weft_tensor *a, int num, const int from[], const int to[])
{
    static const char function[] = "weft_movedim";
    int source[WEFT_MAX_DIMS], target[WEFT_MAX_DIMS], dims[WEFT_MAX_DIMS] = { 0 };
    if (weft_check_tensor(function, "a", a) == NULL) {
        return NULL;
    }
    if (weft_layout_of(a)->ndim == 0 && num == 1 && from != NULL && to != NULL) { /* a scalar accepts 0 and -1 */
        bool right = weft_wrap_dim(function, "from", a, from[0]) >= 0 && weft_wrap_dim(function, "to", a, to[0]) >= 0;
        return right ? permute(function, a, dims) : NULL;
    }
    for (int i = 0; i < num && i < WEFT_MAX_DIMS && from != NULL && to != NULL; i++) {
        if (weft_check_own_dim(function, "from", a, from[i]) < 0 || weft_check_own_dim(function, "to", a, to[i]) < 0) {
            return NULL;
        }
    }
    if (!weft_check_own_dims(function, a, num, from, source) || !weft_check_own_dims(function, a, num, to, target)) {
        return NULL;
    }
    int64_t moved = 0;
    for (int d = 0; d < WEFT_MAX_DIMS; d++) {
        dims[d] = -1;
    }
    for (int i = 0; i < num; i++) {
        moved |= (int64_t)1 << source[i];
        dims[target[i]] = source[i];
    }
    for (int d = 0, next = 0; d < weft_layout_of(a)->ndim; d++) {
        while (moved >> next & 1) {
            next++;
        }
        dims[d] = dims[d] < 0 ? next++ : dims[d];
    }
    return permute(function, a, dims);
}

/* ---- repetition ---------------------------------------------------------------------------------------- */

/* numbers: the new shape; sizes: sizes of its repeated dimensions. */
static int describe_expand(const weft_attributes *attributes, const weft_layout *from, weft_affine maps[])
{
    int ndim = (int)attributes->num_numbers, added = ndim - from->ndim;
    maps[0] = (weft_affine){ .num_loops = ndim };
    for (int d = 0; d < ndim; d++) {
        int own = d - added;
        int64_t size = attributes->numbers[d];
        weft_affine_loop *loop = &maps[0].loops[d];
        *loop = weft_affine_same(size, own < 0 ? -1 : own, d);
        if (own < 0 || from->shape[own] != size) {
            loop->kind = WEFT_LOOP_REPEATED;
            loop->source.step = 0;
        }
    }
    return 1;
}

WEFT_MOVES(expand, "a1->a*b", false, NULL, weft_gradient_same)

/* Writes the whole shape of the expanded tensor. False with the error kept. */
static bool complete_expansion(const weft_tensor *a, int ndim, const int64_t shape[], int64_t complete[])
{
    static const char function[] = "weft_expand";
    if (ndim < 0 || ndim > WEFT_MAX_DIMS || (ndim > 0 && shape == NULL)) {
        return weft_check_shape(function, ndim, shape);
    }
    int added = ndim - weft_layout_of(a)->ndim;
    if (added < 0) {
        weft_fail(WEFT_ERR_SHAPE, function, "shape has %d dimensions, expected at least %d, as a has", ndim,
                  weft_layout_of(a)->ndim);
        return false;
    }
    for (int d = 0; d < ndim; d++) {
        int64_t own = d < added ? 1 : weft_layout_of(a)->shape[d - added];
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

static weft_tensor *expand(weft_tensor *a, int ndim, const int64_t shape[], int64_t wish)
{
    static const char function[] = "weft_expand";
    weft_attributes attributes = { .num_numbers = ndim, .wish = wish };
    if (weft_check_tensor(function, "a", a) == NULL ||
        !complete_expansion(a, ndim, shape, attributes.numbers)) {
        return NULL;
    }
    int added = ndim - weft_layout_of(a)->ndim;
    for (int d = 0; d < ndim; d++) {
        if (d < added || weft_layout_of(a)->shape[d - added] != attributes.numbers[d]) {
            attributes.sizes[attributes.num_sizes++] = attributes.numbers[d];
        }
    }
    return attributes.num_sizes == 0 ? weft_same(function, a)
                                     : weft_dispatch_move(function, &operation_expand, a, &attributes);
}

weft_tensor *weft_expand(weft_tensor *a, int ndim, const int64_t shape[])
{
    return expand(a, ndim, shape, 0);
}

weft_tensor *weft_expand_beside(weft_tensor *a, const weft_layout *beside)
{
    bool meets = a != NULL && weft_layout_of(a)->mesh == beside->mesh;
    return a == NULL ? NULL : expand(a, beside->ndim, beside->shape, meets ? weft_wish(beside) : 0);
}

/* Mask of the dimensions that weft_sum_to() sums over (bit d: dimension d); -1 with the error kept. */
static int64_t mask_of_sum(const weft_tensor *a, int ndim, const int64_t shape[])
{
    static const char function[] = "weft_sum_to";
    if (!weft_check_shape(function, ndim, shape)) {
        return -1;
    }
    int added = weft_layout_of(a)->ndim - ndim;
    if (added < 0) {
        weft_fail(WEFT_ERR_SHAPE, function, "shape has %d dimensions, expected at most %d, as a has", ndim,
                  weft_layout_of(a)->ndim);
        return -1;
    }
    int64_t mask = ((int64_t)1 << added) - 1;
    for (int d = 0; d < ndim; d++) {
        int64_t own = weft_layout_of(a)->shape[d + added];
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

/* numbers[0]: mask of summed dimensions; numbers[1]: mask of those removed. */
static bool expand_sum_to(const weft_call *call, weft_tensor *outputs[])
{
    weft_tensor *a = call->inputs[0];
    int dims[WEFT_MAX_DIMS], num_dims = 0;
    for (int d = 0; d < weft_layout_of(a)->ndim; d++) {
        dims[num_dims] = d;
        num_dims += (int)(call->attributes.numbers[0] >> d & 1);
    }
    weft_tensor *sum = weft_sum(a, weft_set_of_dims(num_dims, dims), true);
    outputs[0] = sum == NULL ? NULL : weft_squeeze_dims(call->function, sum, call->attributes.numbers[1]);
    return outputs[0] != NULL;
}

static bool gradient_of_sum_to(const weft_gradient *of)
{
    const weft_layout *a = weft_layout_of(of->call->inputs[0]);
    return weft_give_gradient(of, 0, weft_expand_beside(weft_gradient_of_output(of, 0), a));
}

static const weft_operation operation_sum_to = {
    .name = "sum_to",
    .gradient = { .function = gradient_of_sum_to },
    .inputs = { { "a", WEFT_TYPES_ANY, false } },
    .expand = expand_sum_to,
};

weft_tensor *weft_sum_to(weft_tensor *a, int ndim, const int64_t shape[])
{
    static const char function[] = "weft_sum_to";
    int64_t mask = weft_check_tensor(function, "a", a) == NULL ? -1 : mask_of_sum(a, ndim, shape);
    if (mask < 0) {
        return NULL;
    }
    if (mask == 0) {
        return weft_same(function, a);
    }
    int64_t gone = ((int64_t)1 << (weft_layout_of(a)->ndim - ndim)) - 1;
    return weft_dispatch_move(function, &operation_sum_to, a,
                              &(weft_attributes){ .num_numbers = 2, .numbers = { mask, gone } });
}

/* ---- all of them --------------------------------------------------------------------------------------- */

const weft_operation *const weft_shape_operations[] = {
    &operation_squeeze, &operation_unsqueeze, &operation_permute, &operation_expand, &operation_sum_to,
    NULL,
};
