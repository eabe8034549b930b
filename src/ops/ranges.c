/* New tensors whose values follow from their indices. */
#include "codelets/ranges.h"

#include <math.h>
#include <stdint.h>

#include "ops/ops.h"

#define FILLING(name_)                                                                                       \
    static const weft_operation operation_##name_ = {                                                        \
        .name = #name_,                                                                                      \
        .gradient = WEFT_GRADIENT_ZERO("indices"),                                                           \
        .rules = { "A->A" },                                                                                 \
        .inputs = { { "a", WEFT_TYPES_ANY, false } },                                                        \
        .outputs[0].in_place = true,                                                                         \
        .overwrites = true,                                                                                  \
        .kernel = WEFT_KERNEL_##name_,                                                                       \
        .expand = weft_expand_new,                                                                           \
        .expands = weft_fills_new,                                                                           \
        .passes_scalars = true,                                                                              \
    };

FILLING(range)
FILLING(eye)

/* A range on a mesh, of a size that fits; NULL with the error kept. */
static const weft_layout *range_layout(const weft_factory *request, double size)
{
    if (size > 0x1p62) {
        weft_fail(WEFT_ERR_SHAPE, request->function, "the range has %g elements: too many", size);
        return NULL;
    }
    const int64_t shape[] = { (int64_t)size };
    weft_factory own = *request;
    own.ndim = 1;
    own.shape = shape;
    return weft_factory_layout(&own);
}

static weft_tensor *make_range(const char *function, const weft_layout *layout, weft_exact first, weft_exact step, double last,
                               double turn)
{
    const double scalars[WEFT_MAX_SCALARS] = { [WEFT_RANGE_FIRST] = first.value,
                                               [WEFT_RANGE_STEP] = step.value,
                                               [WEFT_RANGE_LAST] = last,
                                               [WEFT_RANGE_TURN] = turn,
                                               [WEFT_SCALAR_RESTS + WEFT_RANGE_FIRST] = first.rest,
                                               [WEFT_SCALAR_RESTS + WEFT_RANGE_STEP] = step.rest };
    return weft_fill_new(function, &operation_range, layout, scalars);
}

/* The number as a double; its imaginary part is dropped. */
static double real_of(weft_scalar number)
{
    return number.dtype == WEFT_I64 ? (double)number.whole : number.dtype == WEFT_U64 ? (double)(uint64_t)number.whole : number.real;
}

/* A number below 2^63 as WEFT_I64; 2^63, which `stop` may be, as WEFT_F64, and so any number beside floating types. */
static weft_scalar settled(weft_dtype type, weft_scalar number)
{
    const bool real = type <= WEFT_F16 || number.whole == INT64_MIN;
    if (number.dtype == WEFT_U64 && number.whole >= 0) {
        number.dtype = WEFT_I64;
    } else if (number.dtype == WEFT_U64 && real) {
        number = (weft_scalar){ WEFT_F64, real_of(number), 0, 0 };
    }
    return number;
}

/* False: it has a fraction, or is too large. */
static bool is_whole(weft_scalar number, int64_t *whole)
{
    bool fits = number.dtype == WEFT_I64 || (number.real == trunc(number.real) && fabs(number.real) < 0x1p63);
    *whole = number.dtype == WEFT_I64 ? number.whole : fits ? (int64_t)number.real : 0;
    return fits;
}

/* Counts the numbers from `start` up to, but without, `stop`: exactly if all three are whole. `stop` may then be 2^63, which no int64_t is. */
static double range_size(weft_scalar start, weft_scalar stop, weft_scalar step)
{
    int64_t from, to, by;
    const bool beyond = stop.dtype != WEFT_I64 && stop.real == 0x1p63 && is_whole(start, &from) && from > INT64_MIN;
    if (!is_whole(start, &from) || !(is_whole(stop, &to) || beyond) || !is_whole(step, &by)) {
        return ceil((real_of(stop) - real_of(start)) / real_of(step));
    }
    const uint64_t end = beyond ? UINT64_C(1) << 63 : (uint64_t)to;
    const uint64_t distance = by > 0 ? end - (uint64_t)from : (uint64_t)from - end;
    const uint64_t stride = by > 0 ? (uint64_t)by : (uint64_t)-(by + 1) + 1;
    const uint64_t count = distance / stride + (distance % stride != 0);
    return (double)count;
}

static bool is_real(const char *function, const char *argument, weft_scalar number)
{
    const bool real = number.dtype != WEFT_C128 || number.imag == 0;
    if (number.dtype == WEFT_U64) {
        weft_fail(WEFT_ERR_DTYPE, function, "%s is %llu, expected at most 2^63", argument, (unsigned long long)number.whole);
        return false;
    }
    if (!real) {
        weft_fail(WEFT_ERR_DTYPE, function, "%s is %g + %gi, expected a real number", argument, number.real, number.imag);
    }
    return real;
}

static bool check_range(const char *function, weft_dtype dtype, weft_scalar start, weft_scalar stop, weft_scalar step)
{
    const double from = real_of(start), to = real_of(stop), by = real_of(step);
    if (!is_real(function, "start", start) || !is_real(function, "stop", stop) || !is_real(function, "step", step)) {
        return false;
    }
    const bool late = start.dtype != WEFT_I64 && from >= 0x1p63, steep = step.dtype != WEFT_I64 && by >= 0x1p63;
    if ((WEFT_TYPES_INTEGER & WEFT_TYPE_BIT(dtype)) && (late || steep) && isfinite(late ? from : by)) {
        weft_fail(WEFT_ERR_DTYPE, function, "%s is %.0f, expected less than 2^63", late ? "start" : "step", late ? from : by);
        return false;
    }
    if (!isfinite(from) || !isfinite(to) || !isfinite(by) || by == 0) {
        weft_fail(WEFT_ERR_INVALID, function, "start is %g, stop %g and step %g, expected finite numbers, and no step of 0", from, to, by);
        return false;
    }
    const bool both = start.dtype == WEFT_I64 && stop.dtype == WEFT_I64;
    if (by > 0 ? (both ? stop.whole < start.whole : to < from) : both ? stop.whole > start.whole : to > from) {
        weft_fail(WEFT_ERR_INVALID, function, "step is %g, which has the wrong sign: start is %g and stop is %g", by, from, to);
        return false;
    }
    if (dtype == WEFT_BOOL || !((WEFT_TYPES_FLOAT | WEFT_TYPES_INTEGER) & WEFT_TYPE_BIT(dtype))) {
        weft_fail(WEFT_ERR_DTYPE, function, "dtype is %s, expected a type of %snumbers", weft_dtype_name(dtype),
                  dtype == WEFT_BOOL ? "" : "real ");
        return false;
    }
    return true;
}

/* Whether an integer type has all `size` numbers. False with the error kept. */
static bool check_last(const char *function, weft_dtype dtype, weft_exact first, weft_exact step, weft_scalar stop, double size)
{
    const double last = first.value + step.value * (size - 1);
    int64_t least;
    uint64_t most;
    /* A range of 64 bits that ends within them has only such numbers; the double nearest to its last one may be 2^63. */
    const bool ends_within = dtype == WEFT_I64 && (stop.dtype == WEFT_I64 || fabs(stop.real) <= 0x1p63);
    const bool bounded = weft_whole_range(dtype, &least, &most) && !ends_within;
    const bool fits = !bounded || size == 0 || (last >= (double)least && (dtype == WEFT_I64 ? last < 0x1p63 : last <= (double)most));
    if (!fits) {
        weft_fail(WEFT_ERR_DTYPE, function, "the last number is %.0f, expected one in the range of %s", last, weft_dtype_name(dtype));
    }
    return fits;
}

weft_tensor *(weft_arange)(weft_dtype dtype, weft_scalar start, weft_scalar stop, weft_scalar step, weft_mesh *mesh,
                           const weft_placement *placements)
{
    weft_factory request = { .function = "weft_arange", .dtype = dtype, .mesh = mesh, .placements = placements };
    const weft_dtype type = weft_plain_type(dtype);
    weft_exact first, by, end;
    start = settled(type, start);
    stop = settled(type, stop);
    step = settled(type, step);
    /* No element is `stop`, which may have a fraction beside integers. */
    bool right = weft_check_given_type(request.function, dtype) &&
                 weft_take_number(request.function, "stop", stop.dtype == WEFT_I64 ? WEFT_I64 : WEFT_C128, stop, &end) &&
                 check_range(request.function, type, start, stop, step) &&
                 weft_take_number(request.function, "start", type, start, &first) &&
                 weft_take_number(request.function, "step", type, step, &by) &&
                 check_last(request.function, type, first, by, stop, range_size(start, stop, step));
    const weft_layout *layout = right ? range_layout(&request, range_size(start, stop, step)) : NULL;
    return weft_made(dtype, layout == NULL ? NULL : make_range(request.function, layout, first, by, 0, INFINITY));
}

weft_tensor *weft_linspace(weft_dtype dtype, double start, double stop, int64_t num, weft_mesh *mesh,
                           const weft_placement *placements)
{
    weft_factory request = { .function = "weft_linspace", .dtype = dtype, .mesh = mesh, .placements = placements };
    const weft_layout *layout = NULL;
    if (!weft_check_given_type(request.function, dtype)) {
        layout = NULL;
    } else if (!weft_dtype_is_floating(weft_plain_type(dtype))) {
        weft_fail(WEFT_ERR_DTYPE, request.function, "dtype is %s, expected a floating type", weft_dtype_name(dtype));
    } else if (num < 0) {
        weft_fail(WEFT_ERR_SHAPE, request.function, "num is %lld, expected at least 0", (long long)num);
    } else {
        layout = range_layout(&request, (double)num);
    }
    /* From both ends, so that both are exact. */
    double step = num > 1 ? (stop - start) / (double)(num - 1) : 0;
    double turn = num == 1 ? 1 : floor((double)num / 2);
    return weft_made(dtype, make_range(request.function, layout, (weft_exact){ start, 0 }, (weft_exact){ step, 0 }, stop, turn));
}

/* Multiples of 1 / (n spacing): 0, 1, ..., n / 2, or all n, the upper ones up to -1. */
static weft_tensor *make_frequencies(const char *function, weft_dtype dtype, int64_t n, bool half, double spacing, weft_mesh *mesh,
                                     const weft_placement *placements)
{
    weft_factory request = { .function = function, .dtype = dtype, .mesh = mesh, .placements = placements };
    const weft_layout *layout = NULL;
    if (!weft_check_given_type(function, dtype)) {
        layout = NULL;
    } else if (!weft_dtype_is_floating(weft_plain_type(dtype))) {
        weft_fail(WEFT_ERR_DTYPE, function, "dtype is %s, expected a floating type", weft_dtype_name(weft_plain_type(dtype)));
    } else if (n < 1) {
        weft_fail(WEFT_ERR_SHAPE, function, "n is %lld, expected at least 1", (long long)n);
    } else if (!isfinite(spacing) || spacing == 0) {
        weft_fail(WEFT_ERR_INVALID, function, "spacing is %g, expected a finite number other than 0", spacing);
    } else {
        layout = range_layout(&request, (double)(half ? n / 2 + 1 : n));
    }
    const int64_t middle = (n + 1) / 2;
    double step = 1 / ((double)n * spacing), turn = half ? INFINITY : (double)middle;
    return weft_made(dtype, make_range(function, layout, (weft_exact){ 0, 0 }, (weft_exact){ step, 0 }, -step, turn));
}

weft_tensor *weft_fftfreq(weft_dtype dtype, int64_t n, double spacing, weft_mesh *mesh, const weft_placement *placements)
{
    return make_frequencies("weft_fftfreq", dtype, n, false, spacing, mesh, placements);
}

weft_tensor *weft_rfftfreq(weft_dtype dtype, int64_t n, double spacing, weft_mesh *mesh, const weft_placement *placements)
{
    return make_frequencies("weft_rfftfreq", dtype, n, true, spacing, mesh, placements);
}

weft_tensor *weft_eye(weft_dtype dtype, int64_t rows, int64_t columns, weft_mesh *mesh, const weft_placement *placements)
{
    const int64_t shape[] = { rows, columns };
    weft_factory request = { "weft_eye", dtype, 2, shape, mesh, placements, false };
    const double scalars[WEFT_MAX_SCALARS] = { 0 };
    return weft_made(dtype, weft_fill_new(request.function, &operation_eye, weft_factory_layout(&request), scalars));
}

const weft_operation *const weft_range_operations[] = {
    &operation_range,
    &operation_eye,
    NULL,
};
