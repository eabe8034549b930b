/* Random numbers: kernels that write in place, as a function of global index and random state. */
#include "codelets/random.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "codelets/elementwise.h"
#include "comm/check_spmd.h"
#include "ops/ops.h"

#define FILLING(name_, types_)                                                                               \
    static const weft_operation operation_##name_ = {                                                        \
        .name = #name_,                                                                                      \
        .gradient = WEFT_GRADIENT_ZERO("random numbers"),                                                    \
        .rules = { "A->A" },                                                                                 \
        .inputs = { { "a", types_, false } },                                                                \
        .outputs[0].in_place = true,                                                                         \
        .overwrites = true,                                                                                  \
        .kernel = WEFT_KERNEL_##name_,                                                                       \
        .expand = weft_expand_new,                                                                                \
        .expands = weft_fills_new,                                                                                \
        .passes_scalars = true,                                                                              \
        .draws = true,                                                                                       \
    };

FILLING(uniform, WEFT_TYPES_FLOAT)
FILLING(normal, WEFT_TYPES_FLOAT)
FILLING(randint, WEFT_TYPES_INTEGER | WEFT_TYPES_BOOL)
FILLING(bernoulli_scalar, WEFT_TYPES_ALL)
FILLING(randperm, WEFT_TYPE_BIT(WEFT_I64))

/* ---- calls --------------------------------------------------------------------------------------------- */

enum { OWN_SCALARS = WEFT_MAX_SCALARS - WEFT_RANDOM_OWN };

/* Arguments of a random operation, with the kernel's parameters. */
typedef struct drawing {
    const char *function;
    const weft_operation *operation;
    double own[OWN_SCALARS];
} drawing;

static weft_tensor *draw(const drawing *d, weft_tensor *a)
{
    weft_call call = { .function = d->function, .operation = d->operation, .num_inputs = 1, .inputs = { a } };
    memcpy(call.scalars + WEFT_RANDOM_OWN, d->own, sizeof(d->own));
    return weft_dispatch(&call);
}

/* Takes part in the SPMD check with wrong arguments. NULL. */
static weft_tensor *refuse(const char *function)
{
    weft_check_spmd(&(weft_call_signature){ .function = function, .failed = true });
    return NULL;
}

/* A new tensor of random values; `layout` NULL: wrong arguments, the error is kept. */
static weft_tensor *draw_new(const drawing *d, const weft_layout *layout)
{
    double scalars[WEFT_MAX_SCALARS] = { 0 };
    memcpy(scalars + WEFT_RANDOM_OWN, d->own, sizeof(d->own));
    return weft_fill_new(d->function, d->operation, layout, scalars);
}

/* Draws by global index, so a target whose shards are no boxes gets a copy of what has been drawn in boxes. */
static weft_tensor *draw_inplace(const drawing *d, weft_tensor *a)
{
    if (!weft_layout_of(a)->has_runs) {
        return draw(d, a);
    }
    weft_scope_begin();
    weft_tensor *drawn = draw_new(d, weft_layout_of_boxes(d->function, weft_layout_of(a)));
    weft_tensor *result = drawn == NULL ? NULL : weft_copy_inplace(a, drawn);
    weft_scope_end_own();
    return result;
}

/* ---- checks -------------------------------------------------------------------------------------------- */

static bool check_floating(const char *function, const char *argument, weft_dtype dtype)
{
    if (!weft_dtype_is_floating(dtype)) {
        weft_fail(WEFT_ERR_DTYPE, function, "%s is %s, expected a floating type", argument,
                  weft_dtype_name(dtype));
        return false;
    }
    return true;
}

/* Complex numbers are dropped, too. */
static bool check_dropped(const char *function, const char *argument, const weft_tensor *a)
{
    const weft_dtype type = weft_layout_of(a)->dtype;
    return weft_dtype_is_complex(type) || check_floating(function, argument, type);
}

static bool check_probability(const char *function, double p)
{
    if (!(p >= 0 && p <= 1)) {
        weft_fail(WEFT_ERR_INVALID, function, "p is %g, expected 0 to 1", p);
        return false;
    }
    return true;
}

/* The layout of a factory with a floating type. */
static const weft_layout *floating_layout(const weft_factory *request)
{
    const weft_layout *layout = weft_factory_layout(request);
    return layout != NULL && check_floating(request->function, "dtype", layout->dtype) ? layout : NULL;
}

static const weft_layout *floating_like(const char *function, weft_tensor *a)
{
    if (weft_check_tensor(function, "a", a) == NULL ||
        !check_floating(function, "a", weft_layout_of(a)->dtype)) {
        return NULL;
    }
    return weft_layout_like(function, weft_layout_of(a), weft_layout_of(a)->dtype);
}

/* ---- uniform and normal -------------------------------------------------------------------------------- */

static drawing standard_uniform(const char *function)
{
    return (drawing){ function, &operation_uniform, { 0, 1 } };
}

static drawing standard_normal(const char *function)
{
    return (drawing){ function, &operation_normal, { 0, 1 } };
}

/* Complex numbers: both parts of variance 1/2, drawn as a real tensor with one more dimension. */
static weft_tensor *draw_pairs(const char *function, const weft_layout *layout)
{
    if (layout->ndim == WEFT_MAX_DIMS) {
        weft_fail(WEFT_ERR_SHAPE, function, "%s has %d dimensions, expected at most %d", weft_dtype_name(layout->dtype), WEFT_MAX_DIMS,
                  WEFT_MAX_DIMS - 1);
        return refuse(function);
    }
    const drawing d = { function, &operation_normal, { 0, sqrt(0.5) } };
    int64_t shape[WEFT_MAX_DIMS];
    memcpy(shape, layout->shape, sizeof(shape));
    shape[layout->ndim] = 2;
    const weft_layout *pairs = weft_layout_intern(weft_runtime.layouts, layout->mesh, layout->placements, layout->ndim + 1, shape,
                                                  weft_part_type(layout->dtype));
    if (pairs == NULL) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for a layout");
        return NULL;
    }
    if (!weft_scope_begin_unrecorded()) {
        return NULL;
    }
    weft_tensor *drawn = draw_new(&d, pairs), *result = drawn == NULL ? NULL : weft_view_as_complex(drawn);
    return weft_scope_end_keeping(1, &result, NULL, NULL) ? result : NULL;
}

/* `layout` NULL: wrong arguments, the error is kept. */
static weft_tensor *draw_normal(const char *function, const weft_layout *layout)
{
    if (layout != NULL && weft_dtype_is_complex(layout->dtype)) {
        return draw_pairs(function, layout);
    }
    bool right = layout != NULL && check_floating(function, "dtype", layout->dtype);
    drawing d = standard_normal(function);
    return draw_new(&d, right ? layout : NULL);
}

weft_tensor *weft_rand(weft_dtype dtype, int ndim, const int64_t shape[], weft_mesh *mesh,
                       const weft_placement *placements)
{
    weft_factory request = { "weft_rand", dtype, ndim, shape, mesh, placements, false };
    drawing d = standard_uniform(request.function);
    return weft_made(dtype, draw_new(&d, floating_layout(&request)));
}

weft_tensor *weft_randn(weft_dtype dtype, int ndim, const int64_t shape[], weft_mesh *mesh,
                        const weft_placement *placements)
{
    weft_factory request = { "weft_randn", dtype, ndim, shape, mesh, placements, false };
    return weft_made(dtype, draw_normal(request.function, weft_factory_layout(&request)));
}

weft_tensor *weft_rand_like(weft_tensor *a)
{
    drawing d = standard_uniform("weft_rand_like");
    return draw_new(&d, floating_like(d.function, a));
}

weft_tensor *weft_randn_like(weft_tensor *a)
{
    static const char function[] = "weft_randn_like";
    if (weft_check_tensor(function, "a", a) != NULL && weft_dtype_is_complex(weft_layout_of(a)->dtype)) {
        return draw_normal(function, weft_layout_like(function, weft_layout_of(a), weft_layout_of(a)->dtype));
    }
    return draw_normal(function, floating_like(function, a));
}

/* The largest finite number of a floating type. */
static double largest(weft_dtype dtype)
{
    switch (dtype) {
    case WEFT_F64:
        return DBL_MAX;
    case WEFT_F32:
        return (double)FLT_MAX;
    case WEFT_BF16:
        return 0x1.fep127;
    default:
        return 65504;
    }
}

static bool check_bounds(const char *function, weft_dtype dtype, double low, double high)
{
    double most = largest(dtype);
    if (!(fabs(low) <= most && fabs(high) <= most && high - low <= most)) {
        weft_fail(WEFT_ERR_INVALID, function,
                  "low is %g and high %g, expected finite numbers of %s, as their distance is", low, high,
                  weft_dtype_name(dtype));
        return false;
    }
    if (low > high) {
        weft_fail(WEFT_ERR_INVALID, function, "low is %g, expected at most high, %g", low, high);
        return false;
    }
    return true;
}

weft_tensor *weft_uniform_inplace(weft_tensor *a, double low, double high)
{
    drawing d = { "weft_uniform_inplace", &operation_uniform, { low, high } };
    if (weft_check_tensor(d.function, "a", a) == NULL ||
        !check_floating(d.function, "a", weft_layout_of(a)->dtype) ||
        !check_bounds(d.function, weft_layout_of(a)->dtype, low, high)) {
        return refuse(d.function);
    }
    return draw_inplace(&d, a);
}

weft_tensor *weft_normal_inplace(weft_tensor *a, double mean, double deviation)
{
    drawing d = { "weft_normal_inplace", &operation_normal, { mean, deviation } };
    if (weft_check_tensor(d.function, "a", a) == NULL ||
        !check_floating(d.function, "a", weft_layout_of(a)->dtype)) {
        return refuse(d.function);
    }
    if (!(deviation >= 0)) {
        weft_fail(WEFT_ERR_INVALID, d.function, "deviation is %g, expected at least 0", deviation);
        return refuse(d.function);
    }
    return draw_inplace(&d, a);
}

/* ---- whole numbers ------------------------------------------------------------------------------------- */

/* Whether an integer type contains low .. last. */
static bool holds(weft_dtype dtype, int64_t low, int64_t last)
{
    int64_t least;
    uint64_t most;
    weft_whole_range(dtype, &least, &most);
    return low >= least && (last < 0 || (uint64_t)last <= most);
}

static bool check_range(const char *function, int64_t low, int64_t high, weft_dtype dtype)
{
    if (!((WEFT_TYPES_INTEGER | WEFT_TYPES_BOOL) & WEFT_TYPE_BIT(dtype))) {
        weft_fail(WEFT_ERR_DTYPE, function, "dtype is %s, expected integers or truth values",
                  weft_dtype_name(dtype));
        return false;
    }
    if (low >= high) {
        weft_fail(WEFT_ERR_INVALID, function, "low is %lld, expected less than high, %lld", (long long)low,
                  (long long)high);
        return false;
    }
    if (!holds(dtype, low, high - 1)) {
        weft_fail(WEFT_ERR_INVALID, function, "low is %lld and high %lld: %s cannot hold all numbers between",
                  (long long)low, (long long)high, weft_dtype_name(dtype));
        return false;
    }
    return true;
}

weft_tensor *weft_randint(weft_dtype dtype, int64_t low, int64_t high, int ndim, const int64_t shape[],
                          weft_mesh *mesh, const weft_placement *placements)
{
    weft_factory request = { "weft_randint", dtype, ndim, shape, mesh, placements, false };
    drawing d = { request.function, &operation_randint, { 0 } };
    weft_random_pack(d.own, (uint64_t)low);
    weft_random_pack(d.own + 2, (uint64_t)high - (uint64_t)low);
    const weft_layout *layout = weft_factory_layout(&request);
    bool valid = layout != NULL && check_range(request.function, low, high, layout->dtype);
    return draw_new(&d, valid ? layout : NULL);
}

weft_tensor *weft_randperm(int64_t n, weft_mesh *mesh, const weft_placement *placements)
{
    weft_factory request = { "weft_randperm", WEFT_I64, 1, &n, mesh, placements, false };
    drawing d = { request.function, &operation_randperm, { 0 } };
    if (weft_require_init(request.function) == WEFT_OK && n < 0) {
        weft_fail(WEFT_ERR_INVALID, request.function, "n is %lld, expected at least 0", (long long)n);
        return refuse(request.function);
    }
    return draw_new(&d, weft_factory_layout(&request));
}

/* ---- truth values -------------------------------------------------------------------------------------- */

static const weft_operation operation_bernoulli = {
    .name = "bernoulli",
    .gradient = WEFT_GRADIENT_ZERO("random numbers"),
    .rules = { "A->A" },
    .inputs = { { "p", WEFT_TYPES_FLOAT, false } },
    .kernel = WEFT_KERNEL_bernoulli,
    .draws = true,
};

weft_tensor *weft_bernoulli(weft_tensor *p)
{
    drawing d = { "weft_bernoulli", &operation_bernoulli, { 0 } };
    return draw(&d, p);
}

weft_tensor *weft_bernoulli_scalar(weft_dtype dtype, double p, int ndim, const int64_t shape[],
                                   weft_mesh *mesh, const weft_placement *placements)
{
    weft_factory request = { "weft_bernoulli_scalar", dtype, ndim, shape, mesh, placements, false };
    drawing d = { request.function, &operation_bernoulli_scalar, { p } };
    const weft_layout *layout = weft_factory_layout(&request);
    bool valid = layout != NULL && check_probability(request.function, p);
    return weft_made(dtype, draw_new(&d, valid ? layout : NULL));
}

/* ---- dropout ------------------------------------------------------------------------------------------- */

static bool gradient_of_dropout_backward(const weft_gradient *of);

/* All addends of a Partial tensor drop the same elements. The mask broadcasts to the tensor. */
#define MASKED_SCALE(variable, name_, argument, ...)                                                         \
    static const weft_operation variable = {                                                                 \
        .name = name_,                                                                                       \
        .gradient = __VA_ARGS__,                                                                             \
        .rules = { "...,...->..." },                                                                         \
        .outputs[0].linear = { .kind = WEFT_LINEAR_EACH, .inputs = 1u << 0, .ops = WEFT_LINEAR_OPS },        \
        .inputs = { { argument, WEFT_TYPES_FLOAT | WEFT_TYPES_COMPLEX, false }, { "mask", WEFT_TYPES_BOOL, false } },             \
        .kernel = WEFT_KERNEL_masked_scale,                                                                  \
    };

MASKED_SCALE(operation_masked_scale, "masked_scale", "a", WEFT_GRADIENT_OF_WHOLE("dropout"))
MASKED_SCALE(operation_dropout_backward, "dropout_backward", "gradient",
             WEFT_GRADIENT_BY(gradient_of_dropout_backward, WEFT_READS_INPUT(1)))

/* The factor of elements kept; the probability to keep one. */
enum { FACTOR, KEPT = WEFT_RANDOM_OWN };

static weft_tensor *scale_kept(const weft_gradient *of, weft_tensor *mask)
{
    return weft_dispatch(&(weft_call){ .function = "weft_dropout_backward",
                                       .operation = &operation_dropout_backward,
                                       .num_inputs = 2,
                                       .inputs = { weft_gradient_of_output(of, 0), mask },
                                       .scalars = { [FACTOR] = of->call->scalars[FACTOR] } });
}

static bool gradient_of_dropout_backward(const weft_gradient *of)
{
    return weft_give_gradient(of, 0, scale_kept(of, of->call->inputs[1]));
}

/* The mask is output 1. */
static bool gradient_of_dropout(const weft_gradient *of)
{
    weft_tensor *gradient = weft_gradient_of_output(of, 0);
    return gradient == NULL || weft_give_gradient(of, 0, scale_kept(of, of->outputs[1]));
}

static double factor_of(double p)
{
    return p < 1 ? 1 / (1 - p) : 0;
}

/* attributes.leading: how many dimensions of the mask have a's sizes; the others have size 1. */
static const weft_layout *mask_layout(const weft_call *call)
{
    const weft_layout *a = weft_layout_of(call->inputs[0]);
    int64_t shape[WEFT_MAX_DIMS];
    weft_placement placements[WEFT_MAX_DIMS];
    for (int d = 0; d < a->ndim; d++) {
        shape[d] = d < call->attributes.leading ? a->shape[d] : 1;
    }
    for (int m = 0; m < a->mesh->ndim; m++) {
        bool sharded = a->placements[m].kind == WEFT_SHARD && a->placements[m].dim < call->attributes.leading;
        placements[m] = sharded ? a->placements[m] : weft_replicate();
    }
    return weft_check_layout(call->function, a->mesh, placements, a->ndim, shape, WEFT_BOOL);
}

/* Outputs: the result, and the mask. */
static bool expand_dropout(const weft_call *call, weft_tensor *outputs[])
{
    const weft_layout *layout = mask_layout(call);
    if (layout == NULL) {
        return false;
    }
    weft_tensor *mask = weft_dispatch(&(weft_call){ .function = call->function,
                                                    .operation = &operation_bernoulli_scalar,
                                                    .scalars = { [KEPT] = call->scalars[KEPT] },
                                                    .inherited = 1u << KEPT,
                                                    .details = &(weft_call_details){ .layout = layout } });
    outputs[0] = mask == NULL ? NULL
                              : weft_dispatch(&(weft_call){ .function = call->function,
                                                            .operation = &operation_masked_scale,
                                                            .num_inputs = 2,
                                                            .inputs = { call->inputs[0], mask },
                                                            .scalars = { [FACTOR] = call->scalars[FACTOR] },
                                                            .inherited = 1u << FACTOR });
    outputs[1] = mask;
    return outputs[0] != NULL;
}

static const weft_operation operation_dropout = {
    .name = "dropout",
    .gradient = WEFT_GRADIENT_BY(gradient_of_dropout, WEFT_READS_OUTPUT(1)),
    .inputs = { { "a", WEFT_TYPES_FLOAT | WEFT_TYPES_COMPLEX, false } },
    .expand = expand_dropout,
    .passes_scalars = true,
    .draws = true, /* one of its calls does */
    .num_outputs = 2,
};

/* `leading`: dimensions of the mask with a's sizes, of those that a has. */
static weft_tensor *drop(const char *function, weft_tensor *a, int leading, double p, bool training, weft_tensor **mask)
{
    if (!check_dropped(function, "a", a) || !check_probability(function, p)) {
        return refuse(function);
    }
    if (!training) {
        return weft_itself(function, a);
    }
    return weft_dispatch_pair(&(weft_call){ .function = function,
                                            .operation = &operation_dropout,
                                            .num_inputs = 1,
                                            .inputs = { a },
                                            .attributes = { .leading = leading },
                                            .scalars = { [FACTOR] = factor_of(p), [KEPT] = 1 - p } },
                              mask);
}

weft_tensor *weft_dropout(weft_tensor *a, double p, bool training, weft_tensor **mask)
{
    static const char function[] = "weft_dropout";
    if (mask != NULL) {
        *mask = NULL;
    }
    return weft_check_tensor(function, "a", a) == NULL ? refuse(function)
                                                       : drop(function, a, weft_layout_of(a)->ndim, p, training, mask);
}

weft_tensor *weft_dropout2d(weft_tensor *a, double p, bool training, weft_tensor **mask)
{
    static const char function[] = "weft_dropout2d";
    if (mask != NULL) {
        *mask = NULL;
    }
    if (weft_check_tensor(function, "a", a) == NULL) {
        return refuse(function);
    }
    if (weft_layout_of(a)->ndim < 2) {
        weft_fail(WEFT_ERR_SHAPE, function, "a has %d dimension%s, expected samples and channels at least",
                  weft_layout_of(a)->ndim, weft_layout_of(a)->ndim == 1 ? "" : "s");
        return refuse(function);
    }
    return drop(function, a, 2, p, training, mask);
}

/* False with the error kept: the mask is no tensor, or does not broadcast to the gradient. */
static bool check_mask(const char *function, weft_tensor *gradient, weft_tensor *mask)
{
    if (weft_check_tensor(function, "mask", mask) == NULL) {
        return false;
    }
    const weft_layout *wanted = weft_layout_of(gradient), *given = weft_layout_of(mask);
    if (given->ndim != wanted->ndim) {
        weft_fail(WEFT_ERR_SHAPE, function, "mask has %d dimension%s, expected %d, as gradient has", given->ndim,
                  given->ndim == 1 ? "" : "s", wanted->ndim);
        return false;
    }
    for (int d = 0; d < given->ndim; d++) {
        if (given->shape[d] != wanted->shape[d] && given->shape[d] != 1) {
            weft_fail(WEFT_ERR_SHAPE, function, "mask has size %lld in dimension %d, expected 1, or %lld, as gradient has",
                      (long long)given->shape[d], d, (long long)wanted->shape[d]);
            return false;
        }
    }
    return true;
}

weft_tensor *weft_dropout_backward(weft_tensor *gradient, weft_tensor *mask, double p, bool training)
{
    static const char function[] = "weft_dropout_backward";
    if (weft_check_tensor(function, "gradient", gradient) == NULL ||
        !check_dropped(function, "gradient", gradient) || !check_probability(function, p) ||
        (training && !check_mask(function, gradient, mask))) {
        return refuse(function);
    }
    return training ? weft_dispatch(&(weft_call){ .function = function,
                                                  .operation = &operation_dropout_backward,
                                                  .num_inputs = 2,
                                                  .inputs = { gradient, mask },
                                                  .scalars = { [FACTOR] = factor_of(p) } })
                    : weft_itself(function, gradient);
}

const weft_operation *const weft_random_operations[] = {
    &operation_uniform,          &operation_normal,           &operation_randint,
    &operation_bernoulli_scalar, &operation_randperm,         &operation_bernoulli,
    &operation_masked_scale,     &operation_dropout,
    &operation_dropout_backward, NULL,
};
