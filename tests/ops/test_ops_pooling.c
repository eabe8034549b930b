/* Pooling, interpolation and their gradients on random shapes, meshes and placements against plain loops, with panels of
 * several heights; in one process that hosts all ranks, or in several. WEFT_TEST_CASES says how many cases of each. */
#include "operand.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Missing dimensions of the image have size 1 and windows of one element; kernel 0: adaptive. */
typedef struct pooling_case {
    int dims, ndim;
    weft_pooling options; /* of the last three dimensions */
    int64_t shape[WEFT_MAX_DIMS], result[WEFT_MAX_DIMS];
    int64_t image[3], windows[3], images;
} pooling_case;

/* The number of windows; 0: there is none. */
static int64_t windows_of(const weft_pooling *o, int d, int64_t size)
{
    int64_t room = size + 2 * o->padding[d] - o->dilation[d] * (o->kernel[d] - 1) - 1 + (o->ceil_mode ? o->stride[d] - 1 : 0);
    int64_t count = room < 0 ? 0 : room / o->stride[d] + 1;
    return count > 0 && o->ceil_mode && (count - 1) * o->stride[d] >= size + o->padding[d] ? count - 1 : count;
}

/* Whether an element of window i of a dimension is in the image. */
static bool has_element(const pooling_case *c, int d, int64_t i)
{
    bool has = c->options.kernel[d] == 0;
    for (int64_t tap = 0; tap < c->options.kernel[d]; tap++) {
        int64_t place = i * c->options.stride[d] - c->options.padding[d] + tap * c->options.dilation[d];
        has |= place >= 0 && place < c->image[d];
    }
    return has;
}

static bool have_elements(const pooling_case *c, int d)
{
    bool have = true;
    for (int64_t i = 0; i < c->windows[d]; i++) {
        have &= has_element(c, d, i);
    }
    return have;
}

static void any_windows(pooling_case *c, int d, bool adaptive, bool averages)
{
    weft_pooling *o = &c->options;
    do {
        o->kernel[d] = adaptive ? 0 : 1 + below(4);
        o->stride[d] = 1 + below(3);
        o->dilation[d] = averages || adaptive ? 1 : 1 + below(2);
        o->padding[d] = adaptive ? 0 : below((o->dilation[d] * (o->kernel[d] - 1) + 1) / 2 + 1);
        c->image[d] = 1 + below(c->dims == 1 ? 16 : c->dims == 2 ? 9 : 5);
        c->windows[d] = adaptive ? below(8) : windows_of(o, d, c->image[d]);
    } while (!adaptive && (c->windows[d] == 0 || !have_elements(c, d)));
}

static pooling_case any_pooling(bool adaptive, bool averages)
{
    pooling_case c = { .dims = 1 + (int)below(3), .images = 1 };
    c.options.ceil_mode = !adaptive && below(2);
    c.options.excludes_padding = averages && !adaptive && below(2);
    c.options.divisor = averages && !adaptive && below(4) == 0 ? 1 + below(5) : 0;
    int leading = 1 + (int)below(2);
    for (int d = 0; d < leading; d++) {
        c.shape[d] = c.result[d] = below(5);
        c.images *= c.shape[d];
    }
    for (int d = 0; d < 3; d++) {
        c.image[d] = c.windows[d] = c.options.kernel[d] = c.options.stride[d] = c.options.dilation[d] = 1;
    }
    for (int d = 0; d < c.dims; d++) {
        any_windows(&c, 3 - c.dims + d, adaptive, averages);
        c.shape[leading + d] = c.image[3 - c.dims + d];
        c.result[leading + d] = c.windows[3 - c.dims + d];
    }
    c.ndim = leading + c.dims;
    return c;
}

/* The options as the functions take them. */
static weft_pooling options_of(const pooling_case *c)
{
    weft_pooling options = c->options;
    for (int d = 0; d < 3; d++) {
        int own = 3 - c->dims + d;
        bool has = d < c->dims;
        options.kernel[d] = has ? c->options.kernel[own] : -1; /* does not count */
        options.stride[d] = !has ? -1 : c->options.stride[own] == c->options.kernel[own] ? 0 : c->options.stride[own];
        options.padding[d] = has ? c->options.padding[own] : -1;
        options.dilation[d] = !has ? -1 : c->options.dilation[own] == 1 ? 0 : c->options.dilation[own];
    }
    return options;
}

/* Elements first, first + step, ... below last of window i, with its padding. */
static void find_window(const pooling_case *c, int d, int64_t i, int64_t *first, int64_t *last, int64_t *step)
{
    const weft_pooling *o = &c->options;
    *step = o->dilation[d];
    if (o->kernel[d] == 0) {
        *first = i * c->image[d] / c->windows[d];
        *last = ((i + 1) * c->image[d] + c->windows[d] - 1) / c->windows[d];
    } else {
        *first = i * o->stride[d] - o->padding[d];
        *last = *first + o->dilation[d] * (o->kernel[d] - 1) + 1;
    }
}

/* One element of the image (-1: of the padding) in one window. */
typedef void (*visit_function)(void *context, int64_t element, int64_t place, int64_t window);

static void visit_windows(const pooling_case *c, visit_function visit, void *context)
{
    int64_t all = c->windows[0] * c->windows[1] * c->windows[2], plane = c->image[0] * c->image[1] * c->image[2];
    for (int64_t at = 0; at < c->images * all; at++) {
        int64_t index[3] = { at / c->windows[2] / c->windows[1] % c->windows[0], at / c->windows[2] % c->windows[1],
                             at % c->windows[2] };
        int64_t first[3], last[3], step[3], i[3];
        for (int d = 0; d < 3; d++) {
            find_window(c, d, index[d], &first[d], &last[d], &step[d]);
        }
        for (i[0] = first[0]; i[0] < last[0]; i[0] += step[0]) {
            for (i[1] = first[1]; i[1] < last[1]; i[1] += step[1]) {
                for (i[2] = first[2]; i[2] < last[2]; i[2] += step[2]) {
                    bool inside = true, counts = true;
                    for (int d = 0; d < 3; d++) {
                        inside &= i[d] >= 0 && i[d] < c->image[d];
                        counts &= i[d] < c->image[d] + c->options.padding[d];
                    }
                    int64_t place = (i[0] * c->image[1] + i[1]) * c->image[2] + i[2];
                    if (counts) {
                        visit(context, inside ? at / all * plane + place : -1, place, at);
                    }
                }
            }
        }
    }
}

/* Arrays of the image and of windows. */
typedef struct arrays {
    const double *image, *gradient;
    double *values, *places, *counts, *image_gradient;
    bool excludes_padding;
} arrays;

static void take_largest(void *context, int64_t element, int64_t place, int64_t window)
{
    arrays *a = context;
    if (element >= 0 && (a->places[window] < 0 || a->image[element] > a->values[window])) {
        a->values[window] = a->image[element];
        a->places[window] = (double)place;
    }
}

static void give_largest(void *context, int64_t element, int64_t place, int64_t window)
{
    arrays *a = context;
    if (element >= 0 && a->places[window] == (double)place) {
        a->image_gradient[element] += a->gradient[window];
    }
}

static void add_element(void *context, int64_t element, int64_t place, int64_t window)
{
    arrays *a = context;
    (void)place;
    a->values[window] += element >= 0 ? a->image[element] : 0;
    a->counts[window] += element >= 0 || !a->excludes_padding;
}

static void add_share(void *context, int64_t element, int64_t place, int64_t window)
{
    arrays *a = context;
    (void)place;
    if (element >= 0) {
        a->image_gradient[element] += a->gradient[window] / a->counts[window];
    }
}

static const char *describe_pooling(const char *name, const pooling_case *c, const operand *a)
{
    static char text[800];
    const weft_pooling *o = &c->options;
    snprintf(text, sizeof(text),
             "%s of %s, %d dimensions, kernel %dx%dx%d, stride %dx%dx%d, padding %dx%dx%d, dilation %dx%dx%d%s%s, divisor %d, %s",
             name, describe_operand(a), c->dims, (int)o->kernel[0], (int)o->kernel[1], (int)o->kernel[2], (int)o->stride[0],
             (int)o->stride[1], (int)o->stride[2], (int)o->padding[0], (int)o->padding[1], (int)o->padding[2],
             (int)o->dilation[0], (int)o->dilation[1], (int)o->dilation[2], o->ceil_mode ? ", ceil" : "",
             o->excludes_padding ? ", without padding" : "", (int)o->divisor, weft_dtype_name(a->dtype));
    return text;
}

static arrays arrays_of(const pooling_case *c, const operand *a, const operand *gradient)
{
    size_t windows = (size_t)shape_count(c->ndim, c->result) + 1;
    arrays all = { .image = a->dense, .gradient = gradient->dense, .excludes_padding = c->options.excludes_padding };
    all.values = calloc(windows, sizeof(double));
    all.places = calloc(windows, sizeof(double));
    all.counts = calloc(windows, sizeof(double));
    all.image_gradient = calloc((size_t)a->count + 1, sizeof(double));
    for (size_t i = 0; i < windows; i++) {
        all.places[i] = -1;
    }
    return all;
}

static void free_arrays(arrays *all)
{
    free(all->values);
    free(all->places);
    free(all->counts);
    free(all->image_gradient);
}

/* The gradient of the image, from that of the result. */
static weft_tensor *gradient_of(weft_tensor *result, const operand *gradient, const operand *a)
{
    weft_tensor *found;
    assert_int_equal(weft_gradients(1, &result, &gradient->tensor, 1, &a->tensor, false, &found), WEFT_OK);
    return found;
}

static void one_max_pool(bool adaptive)
{
    pooling_case c = any_pooling(adaptive, false);
    weft_pooling options = options_of(&c);
    weft_mesh *mesh = any_mesh();
    weft_dtype type = any_float_type();
    operand a = make_narrow(mesh, type, c.ndim, c.shape, WHOLE), gradient = make_narrow(mesh, type, c.ndim, c.result, WHOLE);
    const char *what = describe_pooling(adaptive ? "adaptive_max_pool" : "max_pool", &c, &a);
    arrays all = arrays_of(&c, &a, &gradient);
    visit_windows(&c, take_largest, &all);
    visit_windows(&c, give_largest, &all);
    assert_int_equal(weft_set_requires_grad(a.tensor, true), WEFT_OK);
    weft_tensor *indices = NULL, **asked = below(2) ? &indices : NULL;
    weft_tensor *result = adaptive ? weft_adaptive_max_pool(a.tensor, c.dims, c.windows + 3 - c.dims, asked)
                                   : weft_max_pool(a.tensor, c.dims, &options, asked);
    check_narrow(result, type, c.ndim, c.result, all.values, 0, 0, what);
    if (asked != NULL) {
        check(indices, WEFT_I64, c.ndim, c.result, all.places, 0, 0, what);
    }
    check_narrow(gradient_of(result, &gradient, &a), type, c.ndim, c.shape, all.image_gradient, 0, 0, what);
    free_arrays(&all);
    release(&a);
    release(&gradient);
}

static void case_max_pool(void)
{
    one_max_pool(false);
}

static void case_adaptive_max_pool(void)
{
    one_max_pool(true);
}

static void one_avg_pool(bool adaptive)
{
    pooling_case c = any_pooling(adaptive, true);
    weft_pooling options = options_of(&c);
    weft_mesh *mesh = any_mesh();
    weft_dtype type = any_float_type();
    operand a = make_narrow(mesh, type, c.ndim, c.shape, WHOLE), gradient = make_narrow(mesh, type, c.ndim, c.result, WHOLE);
    const char *what = describe_pooling(adaptive ? "adaptive_avg_pool" : "avg_pool", &c, &a);
    arrays all = arrays_of(&c, &a, &gradient);
    visit_windows(&c, add_element, &all);
    for (int64_t i = 0; i < shape_count(c.ndim, c.result); i++) {
        all.counts[i] = c.options.divisor > 0 ? (double)c.options.divisor : all.counts[i];
        all.values[i] /= all.counts[i];
    }
    visit_windows(&c, add_share, &all);
    assert_int_equal(weft_set_requires_grad(a.tensor, true), WEFT_OK);
    weft_tensor *result = adaptive ? weft_adaptive_avg_pool(a.tensor, c.dims, c.windows + 3 - c.dims)
                                   : weft_avg_pool(a.tensor, c.dims, &options);
    check_narrow(result, type, c.ndim, c.result, all.values, 64, 500, what);
    check_narrow(gradient_of(result, &gradient, &a), type, c.ndim, c.shape, all.image_gradient, 64, 500, what);
    free_arrays(&all);
    release(&a);
    release(&gradient);
}

static void case_avg_pool(void)
{
    one_avg_pool(false);
}

static void case_adaptive_avg_pool(void)
{
    one_avg_pool(true);
}

/* ---- interpolation ------------------------------------------------------------------------------------- */

typedef struct interpolation_case {
    int dims, ndim, leading;
    weft_interpolation options;
    int64_t shape[WEFT_MAX_DIMS], result[WEFT_MAX_DIMS];
    double step[3];
} interpolation_case;

static interpolation_case any_interpolation(void)
{
    interpolation_case c = { .leading = 1 + (int)below(2), .options.mode = (weft_interpolation_mode)below(4) };
    weft_interpolation *o = &c.options;
    c.dims = o->mode == WEFT_INTERPOLATE_BICUBIC ? 2 : 1 + (int)below(3);
    c.ndim = c.leading + c.dims;
    o->align_corners = o->mode >= WEFT_INTERPOLATE_LINEAR && below(2);
    for (int d = 0; d < c.leading; d++) {
        c.shape[d] = c.result[d] = below(5);
    }
    for (int d = 0; d < c.dims; d++) {
        int64_t n = c.shape[c.leading + d] = 1 + below(c.dims == 3 ? 5 : 9), size = 1 + below(9);
        if (below(2)) {
            double scale = (double)(size + n - 1) / (double)n;
            o->scale[d] = scale == 1 && below(2) ? 0 : scale;
            size = (int64_t)floor((double)n * scale);
            c.step[d] = 1 / scale;
        } else {
            o->sizes[d] = size;
            c.step[d] = (double)n / (double)size;
        }
        if (o->align_corners) {
            c.step[d] = size > 1 ? (double)(n - 1) / (double)(size - 1) : 0;
        }
        c.result[c.leading + d] = size;
    }
    return c;
}

/* The weight of element `from` in element i of the result, along dimension d of the image; the position of the nearest
 * element in f32 but for images of f64. */
static double weight_along(const interpolation_case *c, weft_dtype type, int d, int64_t i, int64_t from)
{
    const weft_interpolation *o = &c->options;
    int64_t last = c->shape[c->leading + d] - 1;
    double half = o->align_corners || o->mode == WEFT_INTERPOLATE_NEAREST ? 0 : 0.5, at = ((double)i + half) * c->step[d];
    if (o->mode <= WEFT_INTERPOLATE_NEAREST_EXACT) {
        at = type == WEFT_F64 ? at : (double)(((float)i + (float)half) * (float)c->step[d]);
        return (int64_t)at == from;
    }
    at = o->mode == WEFT_INTERPOLATE_LINEAR ? fmax(at - half, 0) : at - half;
    double sum = 0;
    for (int64_t tap = (int64_t)floor(at) - 1; tap <= (int64_t)floor(at) + 2; tap++) {
        double x = fabs(at - (double)tap);
        double cubic = x <= 1 ? 1.25 * x * x * x - 2.25 * x * x + 1 : -0.75 * (x * x * x - 5 * x * x + 8 * x - 4);
        double weight = o->mode == WEFT_INTERPOLATE_LINEAR ? fmax(0, 1 - x) : cubic;
        sum += (tap < 0 ? 0 : tap > last ? last : tap) == from ? weight : 0;
    }
    return sum;
}

/* values = W image, image_gradient = W^T gradient. */
static void multiply_weights(const interpolation_case *c, weft_dtype type, const arrays *all)
{
    int64_t results = shape_count(c->ndim, c->result), elements = shape_count(c->ndim, c->shape);
    for (int64_t i = 0; i < results; i++) {
        for (int64_t k = 0; k < elements; k++) {
            double weight = 1;
            int64_t to = i, from = k;
            for (int d = c->ndim - 1; d >= 0; d--) {
                int64_t to_own = to % c->result[d], from_own = from % c->shape[d];
                to /= c->result[d];
                from /= c->shape[d];
                weight *= d >= c->leading ? weight_along(c, type, d - c->leading, to_own, from_own) : to_own == from_own;
                if (weight == 0) {
                    break;
                }
            }
            all->values[i] += weight * all->image[k];
            all->image_gradient[k] += weight * all->gradient[i];
        }
    }
}

static void case_interpolate(void)
{
    interpolation_case c = any_interpolation();
    weft_mesh *mesh = any_mesh();
    weft_dtype type = any_float_type();
    operand a = make_narrow(mesh, type, c.ndim, c.shape, WHOLE), gradient = make_narrow(mesh, type, c.ndim, c.result, WHOLE);
    pooling_case shapes = { .ndim = c.ndim };
    memcpy(shapes.result, c.result, sizeof(c.result));
    arrays all = arrays_of(&shapes, &a, &gradient);
    multiply_weights(&c, type, &all);
    const weft_interpolation *o = &c.options;
    char what[700];
    snprintf(what, sizeof(what), "interpolate %s, %d dimensions, mode %d%s, sizes %dx%dx%d, scale %gx%gx%g, %s",
             describe_operand(&a), c.dims, (int)o->mode, o->align_corners ? ", corners" : "", (int)o->sizes[0],
             (int)o->sizes[1], (int)o->sizes[2], o->scale[0], o->scale[1], o->scale[2], weft_dtype_name(type));
    bool sums = o->mode >= WEFT_INTERPOLATE_LINEAR;
    assert_int_equal(weft_set_requires_grad(a.tensor, true), WEFT_OK);
    weft_tensor *result = weft_interpolate(a.tensor, c.dims, &c.options);
    check_narrow(result, type, c.ndim, c.result, all.values, sums ? 64 : 0, sums ? 1000 : 0, what);
    check_narrow(gradient_of(result, &gradient, &a), type, c.ndim, c.shape, all.image_gradient, 64, 5000, what);
    free_arrays(&all);
    release(&a);
    release(&gradient);
}

/* ---- the suites ---------------------------------------------------------------------------------------- */

static const family families[] = {
    { "max_pool", case_max_pool },
    { "avg_pool", case_avg_pool },
    { "adaptive_max_pool", case_adaptive_max_pool },
    { "adaptive_avg_pool", case_adaptive_avg_pool },
    { "interpolate", case_interpolate },
};

static const suite operations = { families, sizeof(families) / sizeof(families[0]), 50, 7, NULL };

/* Rows sharded over four ranks, windows of three with padding 1: what moves is a row from each neighbour. */
static void test_halo(void **state)
{
    (void)state;
    WORLD(MAX_RANKS);
    enum { N = 2, CHANNELS = 3, H = 16, W = 5 };
    int64_t four[] = { 4 }, shape[] = { N, CHANNELS, H, W };
    weft_mesh *mesh = weft_mesh_create(1, four, NULL);
    weft_placement by_rows[] = { weft_shard(2) };
    weft_pooling options;
    weft_pooling_init(&options);
    for (int d = 0; d < 2; d++) {
        options.kernel[d] = 3;
        options.stride[d] = options.padding[d] = 1;
    }
    weft_tensor *x = weft_ones(WEFT_F32, 4, shape, mesh, by_rows);
    weft_counters before, after;
    weft_get_counters(&before, sizeof(before));
    weft_tensor *y = weft_max_pool(x, 2, &options, NULL);
    weft_get_counters(&after, sizeof(after));
    assert_no_error();
    assert_int_equal(weft_tensor_placements(y)[0].kind, WEFT_SHARD);
    assert_int_equal(weft_tensor_placements(y)[0].dim, 2);
    uint64_t row = N * CHANNELS * W * sizeof(float), moved = after.bytes_moved - before.bytes_moved;
    assert_true(weft_num_processes() == 1 ? moved == 6 * row : moved <= 6 * row);
    /* Sharded as the image where windows touch no other rank's rows: nothing moves. */
    weft_pooling halves = { .kernel = { 2, 1 } };
    weft_get_counters(&before, sizeof(before));
    weft_tensor *z = weft_avg_pool(x, 2, &halves);
    weft_get_counters(&after, sizeof(after));
    assert_no_error();
    assert_int_equal(weft_tensor_placements(z)[0].dim, 2);
    assert_true(after.bytes_moved == before.bytes_moved);
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* Rows sharded over four ranks: each gets the others' rows, and computes its own part of the result. */
static void test_sharded_rows(void **state)
{
    (void)state;
    WORLD(MAX_RANKS);
    enum { N = 2, H = 8, W = 5 };
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ 4 }, NULL);
    weft_placement by_rows[] = { weft_shard(1) };
    weft_tensor *x = weft_ones(WEFT_F32, 3, (int64_t[]){ N, H, W }, mesh, by_rows);
    weft_interpolation options = { .mode = WEFT_INTERPOLATE_LINEAR, .scale = { 2, 2 } };
    weft_counters before, after;
    weft_get_counters(&before, sizeof(before));
    weft_tensor *y = weft_interpolate(x, 2, &options);
    weft_get_counters(&after, sizeof(after));
    assert_no_error();
    assert_true(weft_tensor_placements(y)[0].kind == WEFT_SHARD && weft_tensor_placements(y)[0].dim == 1);
    uint64_t others = (uint64_t)3 * N * H * W * sizeof(float), moved = after.bytes_moved - before.bytes_moved;
    assert_true(weft_num_processes() == 1 ? moved == others : moved <= others);
    /* Columns are not sharded. */
    options.scale[0] = 0;
    weft_get_counters(&before, sizeof(before));
    y = weft_interpolate(x, 2, &options);
    weft_get_counters(&after, sizeof(after));
    assert_no_error();
    assert_true(weft_tensor_placements(y)[0].kind == WEFT_SHARD && weft_tensor_placements(y)[0].dim == 1);
    assert_true(after.bytes_moved == before.bytes_moved);
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* NaN is the largest, the last one counts; windows of -infinity select their first element. */
static void test_not_finite(void **state)
{
    (void)state;
    WORLD(2);
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ 2 }, NULL);
    const float values[] = { 1, NAN, 3, NAN, -INFINITY, -INFINITY, -INFINITY, -INFINITY };
    weft_tensor *a = weft_distribute(WEFT_F32, 2, (int64_t[]){ 1, 8 }, values, mesh, (weft_placement[]){ weft_shard(1) });
    weft_tensor *indices, *result = weft_max_pool(a, 1, &(weft_pooling){ .kernel = { 4 } }, &indices);
    float largest[2];
    int64_t places[2];
    assert_no_error();
    assert_int_equal(weft_to_host(result, largest, sizeof(largest)), WEFT_OK);
    assert_int_equal(weft_to_host(indices, places, sizeof(places)), WEFT_OK);
    assert_true(isnan(largest[0]) && largest[1] == -INFINITY);
    assert_true(places[0] == 3 && places[1] == 4);
    /* The elements of a dilated window are both in the padding. */
    weft_tensor *one = weft_ones(WEFT_F32, 2, (int64_t[]){ 1, 1 }, mesh, NULL);
    weft_pooling dilated = { .kernel = { 2 }, .stride = { 1 }, .padding = { 2 }, .dilation = { 3 } };
    result = weft_max_pool(one, 1, &dilated, &indices);
    assert_no_error();
    assert_int_equal(weft_to_host(result, largest, sizeof(largest)), WEFT_OK);
    assert_int_equal(weft_to_host(indices, places, sizeof(places)), WEFT_OK);
    assert_true(largest[0] == -INFINITY && places[0] == -1);
    assert_int_equal(weft_finalize(), WEFT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_halo), cmocka_unit_test(test_sharded_rows), cmocka_unit_test(test_not_finite) };
    return run_suite(&operations, tests, sizeof(tests) / sizeof(tests[0]));
}
