/* Images of other sizes: weighted sums of neighbours, one dimension after the other. */
#include "codelets/interpolation.h"

#include <math.h>
#include <string.h>

#include <weft/images.h>

#include "ops/ops.h"

enum { MAX_IMAGE_DIMS = 3 };

/* attributes.sizes: those of the result's image. Numbers of a call; scalars: the steps of the image's dimensions. */
enum { NUMBER_TAPS, NUMBER_CENTRES, NUMBER_NUMBERS };

/* ---- bodies -------------------------------------------------------------------------------------------- */

static const weft_operation operation_interpolation = {
    .name = "interpolation",
    .gradient = WEFT_GRADIENT_ZERO("indices"),
    .rules = { "A->A" },
    .inputs = { { "a", WEFT_TYPES_WIDE | WEFT_TYPE_BIT(WEFT_I64), false } },
    .outputs[0].in_place = true,
    .overwrites = true,
    .kernel = WEFT_KERNEL_interpolation,
    .expand = weft_expand_new,
    .expands = weft_fills_new,
    .passes_scalars = true,
};

/* One dimension of an image, whose elements along it every rank has. */
typedef struct line {
    const char *function;
    weft_tensor *a;
    int dim;
    int64_t size; /* of the result */
    const weft_mesh_impl *mesh;
    weft_placement placements[WEFT_MAX_DIMS]; /* of the result's elements along it */
    double scalars[WEFT_MAX_SCALARS];
} line;

/* Gathers a sharded dimension; each rank will compute its own part of the result's. */
static bool take_line(line *l, weft_tensor *a)
{
    const weft_layout *layout = weft_layout_of(a);
    weft_placement whole[WEFT_MAX_DIMS];
    l->mesh = layout->mesh;
    for (int m = 0; m < layout->mesh->ndim; m++) {
        bool sharded = layout->placements[m].kind == WEFT_SHARD && layout->placements[m].dim == l->dim;
        l->placements[m] = sharded ? weft_shard(0) : weft_replicate();
        whole[m] = sharded ? weft_replicate() : layout->placements[m];
    }
    l->scalars[WEFT_INTERPOLATION_SIZE] = (double)layout->shape[l->dim];
    l->scalars[WEFT_INTERPOLATION_SINGLE] = layout->dtype != WEFT_F64;
    l->a = weft_redistribute(a, layout->mesh->handle, whole);
    return l->a != NULL;
}

/* Indices or weights of a tap. */
static weft_tensor *tap_values(line *l, int tap, weft_dtype dtype)
{
    l->scalars[WEFT_INTERPOLATION_TAP] = tap;
    const weft_layout *layout = weft_check_layout(l->function, l->mesh, l->placements, 1, &l->size, dtype);
    return layout == NULL ? NULL : weft_fill_new(l->function, &operation_interpolation, layout, l->scalars);
}

static weft_tensor *selected(line *l, int tap)
{
    weft_tensor *indices = tap_values(l, tap, WEFT_I64);
    return indices == NULL ? NULL : weft_index_select(l->a, l->dim, indices);
}

/* A tap's elements, times its weights. */
static weft_tensor *weighted(line *l, int tap)
{
    const weft_layout *a = weft_layout_of(l->a);
    int64_t shape[WEFT_MAX_DIMS] = { l->size, 1, 1, 1, 1, 1, 1, 1 };
    weft_tensor *elements = selected(l, tap), *weights = tap_values(l, tap, a->dtype);
    weights = weights == NULL ? NULL : weft_reshape(weights, a->ndim - l->dim, shape);
    return elements == NULL || weights == NULL ? NULL : weft_mul(elements, weights);
}

static weft_tensor *interpolate_line(line *l)
{
    int taps = (int)l->scalars[WEFT_INTERPOLATION_TAPS];
    if (taps == 1) {
        return selected(l, 0);
    }
    weft_tensor *sum = weighted(l, 0);
    for (int tap = 1; tap < taps && sum != NULL; tap++) {
        weft_tensor *addend = weighted(l, tap);
        sum = addend == NULL ? NULL : weft_add(sum, addend);
    }
    return sum;
}

/* Sums of 16-bit types are rounded once. Dimensions with a step of 1 and the size that they have stay as they are. */
static bool expand_interpolate(const weft_call *call, weft_tensor *outputs[])
{
    const weft_layout *layout = weft_layout_of(call->inputs[0]);
    const int64_t *numbers = call->attributes.numbers, *sizes = call->attributes.sizes;
    int dims = call->attributes.num_sizes, first = layout->ndim - dims;
    bool sums = numbers[NUMBER_TAPS] > 1;
    weft_tensor *a = sums ? weft_to_type(call->inputs[0], weft_wide_type(layout->dtype)) : call->inputs[0];
    for (int d = 0; d < dims && a != NULL; d++) {
        if (sizes[d] == layout->shape[first + d] && call->scalars[d] == 1) {
            continue;
        }
        line l = { .function = call->function, .dim = first + d, .size = sizes[d] };
        l.scalars[WEFT_INTERPOLATION_STEP] = call->scalars[d];
        l.scalars[WEFT_INTERPOLATION_CENTRES] = (double)numbers[NUMBER_CENTRES];
        l.scalars[WEFT_INTERPOLATION_TAPS] = (double)numbers[NUMBER_TAPS];
        a = take_line(&l, a) ? interpolate_line(&l) : NULL;
    }
    a = a == NULL || !sums ? a : weft_to_type(a, layout->dtype);
    outputs[0] = a == call->inputs[0] ? weft_same(call->function, a) : a;
    return outputs[0] != NULL;
}

static const weft_operation operation_interpolate = {
    .name = "interpolate",
    .gradient = WEFT_GRADIENT_OF_MOVES, /* linear: no value matters */
    .inputs = { { "a", WEFT_TYPES_FLOAT, false } },
    .expand = expand_interpolate,
};

/* ---- checks -------------------------------------------------------------------------------------------- */

/* False with the error kept. */
static bool check_image(const char *function, weft_tensor *a, int num_dims)
{
    if (weft_check_tensor(function, "a", a) == NULL) {
        return false;
    }
    if (num_dims < 1 || num_dims > MAX_IMAGE_DIMS) {
        weft_fail(WEFT_ERR_INVALID, function, "num_dims is %d, expected 1 to %d", num_dims, MAX_IMAGE_DIMS);
        return false;
    }
    const weft_layout *layout = weft_layout_of(a);
    if (layout->ndim < num_dims + 1) {
        weft_fail(WEFT_ERR_SHAPE, function, "a has %d dimension%s, expected at least %d", layout->ndim,
                  layout->ndim == 1 ? "" : "s", num_dims + 1);
        return false;
    }
    for (int d = layout->ndim - num_dims; d < layout->ndim; d++) {
        if (layout->shape[d] < 1 || layout->shape[d] > INT32_MAX) {
            weft_fail(WEFT_ERR_SHAPE, function, "a has size %lld in dimension %d, expected 1 to %d",
                      (long long)layout->shape[d], d, INT32_MAX);
            return false;
        }
    }
    return true;
}

static bool check_mode(const char *function, int num_dims, const weft_interpolation *o)
{
    if ((unsigned)o->mode > WEFT_INTERPOLATE_BICUBIC) {
        weft_fail(WEFT_ERR_INVALID, function, "mode is %d, expected a weft_interpolation_mode", (int)o->mode);
        return false;
    }
    if (o->mode == WEFT_INTERPOLATE_BICUBIC && num_dims != 2) {
        weft_fail(WEFT_ERR_INVALID, function, "num_dims is %d, expected 2 for WEFT_INTERPOLATE_BICUBIC", num_dims);
        return false;
    }
    if (o->align_corners && o->mode <= WEFT_INTERPOLATE_NEAREST_EXACT) {
        weft_fail(WEFT_ERR_INVALID, function, "align_corners is true, expected false for the nearest element");
        return false;
    }
    return true;
}

/* Finds the result's size and the step in dimension d of the image, of size n. False with the error kept. */
static bool take_dim(const char *function, const weft_interpolation *o, int d, int64_t n, int64_t *size, double *step)
{
    if (o->sizes[d] < 0 || o->sizes[d] > INT32_MAX) {
        weft_fail(WEFT_ERR_INVALID, function, "sizes[%d] is %lld, expected 0 to %d", d, (long long)o->sizes[d], INT32_MAX);
        return false;
    }
    if (!(o->scale[d] >= 0) || (o->scale[d] != 0 && o->sizes[d] != 0)) {
        weft_fail(WEFT_ERR_INVALID, function, "scale[%d] is %g, expected %s", d, o->scale[d],
                  o->sizes[d] != 0 ? "0 beside a size" : "at least 0");
        return false;
    }
    double scale = o->scale[d] == 0 ? 1 : o->scale[d], scaled = floor((double)n * scale);
    if (o->sizes[d] == 0 && !(scaled >= 1 && scaled <= INT32_MAX)) {
        weft_fail(WEFT_ERR_INVALID, function, "scale[%d] is %g, which makes size %g of %lld, expected 1 to %d", d, scale,
                  scaled, (long long)n, INT32_MAX);
        return false;
    }
    *size = o->sizes[d] == 0 ? (int64_t)scaled : o->sizes[d];
    *step = o->sizes[d] == 0 ? 1 / scale : (double)n / (double)*size;
    if (o->align_corners) {
        *step = *size > 1 ? (double)(n - 1) / (double)(*size - 1) : 0;
    }
    return true;
}

/* ---- public -------------------------------------------------------------------------------------------- */

weft_tensor *weft_interpolate(weft_tensor *a, int num_dims, const weft_interpolation *options)
{
    static const char function[] = "weft_interpolate";
    static const int64_t taps[] = { 1, 1, 2, 4 };
    weft_interpolation o;
    if (!check_image(function, a, num_dims)) {
        return NULL;
    }
    if (options == NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "options is NULL");
        return NULL;
    }
    if (!WEFT_TAKE_OPTIONS(function, &o, options) || !check_mode(function, num_dims, &o)) {
        return NULL;
    }
    const weft_layout *layout = weft_layout_of(a);
    weft_call call = { .function = function, .operation = &operation_interpolate, .num_inputs = 1, .inputs = { a } };
    call.attributes.num_sizes = num_dims;
    call.attributes.num_numbers = NUMBER_NUMBERS;
    call.attributes.numbers[NUMBER_TAPS] = taps[o.mode];
    call.attributes.numbers[NUMBER_CENTRES] = o.mode != WEFT_INTERPOLATE_NEAREST && !o.align_corners;
    int64_t shape[WEFT_MAX_DIMS];
    memcpy(shape, layout->shape, sizeof(shape));
    for (int d = 0; d < num_dims; d++) {
        int64_t *size = &shape[layout->ndim - num_dims + d];
        if (!take_dim(function, &o, d, *size, &call.attributes.sizes[d], &call.scalars[d])) {
            return NULL;
        }
        *size = call.attributes.sizes[d];
    }
    return weft_check_shape(function, layout->ndim, shape) ? weft_dispatch(&call) : NULL;
}

const weft_operation *const weft_interpolate_operations[] = {
    &operation_interpolate,
    &operation_interpolation,
    NULL,
};
