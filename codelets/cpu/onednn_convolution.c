/* Convolutions by oneDNN, versions 2 and 3. Its kernels want channels side by side: the task's parts of tensors are copied
 * into the order that a kernel chooses, some samples at a time, and the results back. */
#include "codelets/cpu/onednn_convolution.h"

#if defined WEFT_HAVE_ONEDNN
#include "codelets/cpu/onednn_versions.h"

/* Tasks of fewer multiplications take less time as products. */
#define MIN_WORK 1e6

enum {
    SAMPLES_BYTES = 8 << 20, /* about: of samples, and their results, at a time */
    MIN_CHANNELS = 16,     /* of a group: fewer do not fill the kernels' vectors */
    MIN_POSITIONS =
        256, /* of y, in a gradient of the weights, whose sums are copied once more than those of products */
};

typedef enum direction { FORWARD, BACKWARD_INPUT, BACKWARD_WEIGHT } direction;
enum { X, WEIGHT, Y, SIDES };

/* ---- the part of a task that has products --------------------------------------------------------------- */

/* Elements of x and y, by local index, and the padding that x then has: only what is outside the image is padding, as a part
 * includes its halo. */
typedef struct region {
    int64_t x_first[2], x_extent[2], y_first[2], y_extent[2];
    weft_dnnl_window window;
} region;

/* The rows of y that meet x: all of them, except for x's gradient. False: there are none, or no row of x meets them. */
static bool find_region(region *r, const weft_convolution_task *t, direction kind)
{
    const weft_geometry *g = t->geometry;
    for (int d = 0; d < 2; d++) {
        const weft_image *x = t->x, *y = t->y;
        int64_t first = y->offset[2 + d], last = first + y->extent[2 + d];
        if (kind == BACKWARD_INPUT) {
            weft_gradient_meets(g, d, y, x, &first, &last);
        }
        int64_t low = x->offset[2 + d], high = low + x->extent[2 + d];
        int64_t top = first * g->stride[d] + weft_tap_place(g, d, 0);
        int64_t bottom = (last - 1) * g->stride[d] + weft_tap_place(g, d, g->kernel[d] - 1) + 1;
        int64_t begin = weft_most(low, top), end = weft_least(high, bottom);
        if (first >= last || begin >= end) {
            return false;
        }
        r->x_first[d] = begin - low;
        r->x_extent[d] = end - begin;
        r->y_first[d] = first - y->offset[2 + d];
        r->y_extent[d] = last - first;
        r->window.strides[d] = g->stride[d];
        r->window.dilations[d] = g->dilation[d] - 1;
        r->window.before[d] = begin - top;
        r->window.after[d] = bottom - end;
    }
    return true;
}

/* ---- objects ------------------------------------------------------------------------------------------- */

/* A tensor of a primitive, in memory of the task. */
typedef struct side {
    weft_dnnl_description any;
    bool described;
    weft_dnnl_borrowed chosen;
    dnnl_memory_t memory;
    void *bytes;
} side;

/* Objects of one primitive; NULL before they are made. */
typedef struct objects {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    side side[SIDES];
    weft_dnnl_description bias;
    bool has_bias;
    dnnl_memory_t bias_memory, scratch;
    void *bytes; /* of the sides, and scratch memory */
    dnnl_primitive_attr_t attributes;
    dnnl_primitive_desc_t plan;
    dnnl_primitive_t primitive;
} objects;

/* Destroying NULL is an error that means nothing. */
static void destroy(objects *o)
{
    for (int i = 0; i < SIDES; i++) {
        dnnl_memory_destroy(o->side[i].memory);
        if (o->side[i].described) {
            weft_dnnl_forget(&o->side[i].any);
        }
    }
    dnnl_memory_destroy(o->bias_memory);
    if (o->has_bias) {
        weft_dnnl_forget(&o->bias);
    }
    dnnl_memory_destroy(o->scratch);
    free(o->bytes);
    dnnl_primitive_destroy(o->primitive);
    dnnl_primitive_desc_destroy(o->plan);
    dnnl_primitive_attr_destroy(o->attributes);
    dnnl_stream_destroy(o->stream);
    dnnl_engine_destroy(o->engine);
}

static bool describe_any(side *s, int ndims, const dnnl_dims_t extent, dnnl_data_type_t type)
{
    s->described = weft_dnnl_describe_any(&s->any, ndims, extent, type);
    return s->described;
}

/* Dimensions of the weights: with groups, one more in front. */
static int weight_extent(const weft_convolution_task *t, dnnl_dims_t extent)
{
    const weft_geometry *g = t->geometry;
    const dnnl_dims_t all = { t->groups, g->features, g->channels, g->kernel[0], g->kernel[1] };
    int first = t->groups > 1 ? 0 : 1, ndims = 5 - first;
    memcpy(extent, all + first, (size_t)ndims * sizeof all[0]);
    return ndims;
}

static bool describe(objects *o, const weft_convolution_task *t, const region *r, direction kind,
                     int64_t samples, dnnl_data_type_t type)
{
    const weft_geometry *g = t->geometry;
    const dnnl_dims_t x = { samples, t->groups * g->channels, r->x_extent[0], r->x_extent[1] };
    const dnnl_dims_t y = { samples, t->groups * g->features, r->y_extent[0], r->y_extent[1] };
    const dnnl_dims_t features = { t->groups * g->features }, one = { 1 };
    dnnl_dims_t weight;
    int ndims = weight_extent(t, weight);
    if (kind == FORWARD && t->bias != NULL) {
        o->has_bias = weft_dnnl_describe(&o->bias, 1, features, dnnl_f32, one);
        if (!o->has_bias) {
            return false;
        }
    }
    return describe_any(&o->side[X], 4, x, kind == BACKWARD_INPUT ? dnnl_f32 : type) &&
           describe_any(&o->side[WEIGHT], ndims, weight, kind == BACKWARD_WEIGHT ? dnnl_f32 : type) &&
           describe_any(&o->side[Y], 4, y, kind == FORWARD ? dnnl_f32 : type);
}

static bool plan(objects *o, const region *r, direction kind)
{
    if (dnnl_primitive_attr_create(&o->attributes) != dnnl_success ||
        dnnl_primitive_attr_set_scratchpad_mode(o->attributes, dnnl_scratchpad_mode_user) != dnnl_success) {
        return false;
    }
    const weft_dnnl_description sides[SIDES] = { o->side[X].any, o->side[WEIGHT].any, o->side[Y].any };
    bool planned =
        kind == FORWARD ? weft_dnnl_plan_forward(&o->plan, o->engine, sides, o->has_bias ? &o->bias : NULL,
                                                 &r->window, o->attributes)
        : kind == BACKWARD_INPUT
            ? weft_dnnl_plan_backward_input(&o->plan, o->engine, sides, &r->window, o->attributes)
            : weft_dnnl_plan_backward_weight(&o->plan, o->engine, sides, &r->window, o->attributes);
    return planned && weft_dnnl_is_generated(o->plan) && dnnl_primitive_create(&o->primitive, o->plan) == dnnl_success;
}

static const int arguments_of[][SIDES] = {
    [FORWARD] = { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST },
    [BACKWARD_INPUT] = { DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST },
    [BACKWARD_WEIGHT] = { DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST },
};

/* Bytes of a tensor in whole lines. */
static size_t lines_of(weft_dnnl_borrowed description)
{
    enum { LINE = 64 };
    return description == NULL ? 0 : (dnnl_memory_desc_get_size(description) + LINE - 1) / LINE * LINE;
}

/* One allocation: the C library then keeps it for the next task, instead of giving pages back. */
static bool provide_memory(objects *o, const weft_convolution_task *t, direction kind)
{
    weft_dnnl_borrowed scratch = dnnl_primitive_desc_query_md(o->plan, dnnl_query_scratchpad_md, 0);
    size_t size = lines_of(scratch);
    for (int i = 0; i < SIDES; i++) {
        o->side[i].chosen = dnnl_primitive_desc_query_md(o->plan, dnnl_query_exec_arg_md, arguments_of[kind][i]);
        if (o->side[i].chosen == NULL) {
            return false;
        }
        size += lines_of(o->side[i].chosen);
    }
    char *next = o->bytes = size == 0 ? NULL : weft_dnnl_allocate(size);
    bool done = next != NULL;
    for (int i = 0; i < SIDES && done; i++) {
        side *s = &o->side[i];
        s->bytes = next;
        done = dnnl_memory_create(&s->memory, s->chosen, o->engine, next) == dnnl_success;
        next += lines_of(s->chosen);
    }
    done = done && (lines_of(scratch) == 0 || dnnl_memory_create(&o->scratch, scratch, o->engine, next) == dnnl_success);
    return done && (!o->has_bias || dnnl_memory_create(&o->bias_memory, weft_dnnl_borrow(&o->bias), o->engine,
                                                       (void *)(uintptr_t)t->bias) == dnnl_success);
}

static bool execute(objects *o, direction kind)
{
    dnnl_exec_arg_t arguments[SIDES + 2];
    int count = 0;
    for (int i = 0; i < SIDES; i++) {
        arguments[count++] = (dnnl_exec_arg_t){ arguments_of[kind][i], o->side[i].memory };
    }
    if (o->scratch != NULL) {
        arguments[count++] = (dnnl_exec_arg_t){ DNNL_ARG_SCRATCHPAD, o->scratch };
    }
    if (o->has_bias) {
        arguments[count++] = (dnnl_exec_arg_t){ DNNL_ARG_BIAS, o->bias_memory };
    }
    return dnnl_primitive_execute(o->primitive, o->stream, count, arguments) == dnnl_success &&
           dnnl_stream_wait(o->stream) == dnnl_success;
}

/* ---- copies between orders ------------------------------------------------------------------------------ */

/* Copies between an address and bytes of a side, each as described. */
static bool reorder(objects *o, weft_dnnl_borrowed plain, void *address, weft_dnnl_borrowed chosen, void *bytes, bool in)
{
    return in ? weft_dnnl_reorder(o->engine, o->stream, plain, address, chosen, bytes)
              : weft_dnnl_reorder(o->engine, o->stream, chosen, bytes, plain, address);
}

/* An image's samples from `from` on that are at one distance in memory, as `planes` from `first` on and the region's rows. */
static bool copy_samples(objects *o, const side *s, const weft_image *m, int64_t from, int64_t samples,
                         int64_t place, const dnnl_dims_t whole, int64_t all_samples, bool in)
{
    const dnnl_dims_t extent = { samples, whole[1], whole[2], whole[3] };
    const dnnl_dims_t strides = { m->room[1] * m->room[2] * m->room[3], m->room[2] * m->room[3], m->room[3],
                                  1 };
    const dnnl_dims_t offset = { from, 0, 0, 0 };
    dnnl_data_type_t type = m->view->dtype == WEFT_BF16 ? dnnl_bf16 : dnnl_f32;
    char *address = (char *)weft_view_row(m->view, whole[0] + from, NULL) +
                    place * (int64_t)weft_dtype_size(m->view->dtype);
    weft_dnnl_description plain, part;
    if (!weft_dnnl_describe(&plain, 4, extent, type, strides)) {
        return false;
    }
    bool all = samples == all_samples;
    bool done = all || weft_dnnl_describe_part(&part, s->chosen, extent, offset);
    if (done) {
        done = reorder(o, weft_dnnl_borrow(&plain), address, all ? s->chosen : weft_dnnl_borrow(&part),
                       s->bytes, in);
        if (!all) {
            weft_dnnl_forget(&part);
        }
    }
    weft_dnnl_forget(&plain);
    return done;
}

/* Between samples of x or y and the side's memory. */
static bool copy_image(objects *o, const weft_convolution_task *t, const region *r, int which, int64_t first,
                       int64_t samples, bool in)
{
    const weft_image *m = which == X ? t->x : t->y;
    const int64_t *begin = which == X ? r->x_first : r->y_first,
                  *extent = which == X ? r->x_extent : r->y_extent;
    int64_t plane = which == X ? t->first_channel : t->first_feature;
    int64_t planes = t->groups * (which == X ? t->geometry->channels : t->geometry->features);
    int64_t place = (plane * m->room[2] + begin[0]) * m->room[3] + begin[1];
    const dnnl_dims_t whole = { first, planes, extent[0], extent[1] };
    for (int64_t from = 0, together; from < samples; from += together) {
        weft_view_row(m->view, first + from, &together);
        together = weft_least(together, samples - from);
        if (!copy_samples(o, &o->side[which], m, from, together, place, whole, samples, in)) {
            return false;
        }
    }
    return true;
}

static bool copy_weight(objects *o, const weft_convolution_task *t, float *plain, bool in)
{
    dnnl_dims_t extent, strides;
    int ndims = weight_extent(t, extent);
    strides[ndims - 1] = 1;
    for (int d = ndims - 1; d > 0; d--) {
        strides[d - 1] = strides[d] * extent[d];
    }
    weft_dnnl_description description;
    if (!weft_dnnl_describe(&description, ndims, extent, dnnl_f32, strides)) {
        return false;
    }
    bool done =
        reorder(o, weft_dnnl_borrow(&description), plain, o->side[WEIGHT].chosen, o->side[WEIGHT].bytes, in);
    weft_dnnl_forget(&description);
    return done;
}

/* ---- some samples --------------------------------------------------------------------------------------- */

static int64_t weight_count(const weft_convolution_task *t)
{
    return t->groups * t->geometry->features * t->geometry->taps;
}

/* Sums of the first samples are copied, those of others added. */
static bool store_sums(objects *o, const weft_convolution_task *t, bool adds)
{
    if (!adds) {
        return copy_weight(o, t, t->sums, false);
    }
    int64_t count = weight_count(t);
    float *own = malloc((size_t)count * sizeof *own + 1);
    bool done = own != NULL && copy_weight(o, t, own, false);
    if (done) {
        for (int64_t i = 0; i < count; i++) {
            t->sums[i] += own[i];
        }
    }
    free(own);
    return done;
}

static bool run_samples(objects *o, const weft_convolution_task *t, const region *r, direction kind,
                        int64_t first, int64_t samples, dnnl_data_type_t type)
{
    return dnnl_engine_create(&o->engine, dnnl_cpu, 0) == dnnl_success &&
           dnnl_stream_create(&o->stream, o->engine, dnnl_stream_default_flags) == dnnl_success &&
           describe(o, t, r, kind, samples, type) && plan(o, r, kind) && provide_memory(o, t, kind) &&
           (kind == BACKWARD_INPUT || copy_image(o, t, r, X, first, samples, true)) &&
           (kind == BACKWARD_WEIGHT || copy_weight(o, t, (float *)(uintptr_t)t->weight, true)) &&
           (kind == FORWARD || copy_image(o, t, r, Y, first, samples, true)) && execute(o, kind) &&
           (kind != FORWARD || copy_image(o, t, r, Y, first, samples, false)) &&
           (kind != BACKWARD_INPUT || copy_image(o, t, r, X, first, samples, false)) &&
           (kind != BACKWARD_WEIGHT || store_sums(o, t, first > 0));
}

/* ---- which convolutions --------------------------------------------------------------------------------- */

/* Samples of WEFT_BF16 are multiplied as such where the processor does that, else in f32. */
static bool type_of(const weft_convolution_task *t, direction kind, dnnl_data_type_t *type)
{
    const weft_image *input = kind == BACKWARD_INPUT ? t->y : t->x;
    weft_dtype own = input->view->dtype;
    bool mixed = kind == BACKWARD_WEIGHT && t->y->view->dtype != own;
    /* Without AVX-512 oneDNN converts bf16 by plain loops. */
    dnnl_cpu_isa_t wanted = own == WEFT_BF16 ? dnnl_cpu_isa_avx512_core : dnnl_cpu_isa_avx2;
    if (t->geometry->type != WEFT_F32 || (own != WEFT_F32 && own != WEFT_BF16) || mixed || !weft_dnnl_has(wanted)) {
        return false;
    }
    *type = own == WEFT_BF16 && weft_dnnl_has(dnnl_cpu_isa_avx512_core_bf16) ? dnnl_bf16 : dnnl_f32;
    return true;
}

/* Products of matrices that need no columns: an image of one tap is one. */
static bool is_product(const weft_convolution_task *t, direction kind, dnnl_data_type_t type)
{
    const weft_geometry *g = t->geometry;
    bool one_tap = g->kernel[0] == 1 && g->kernel[1] == 1, each = g->stride[0] == 1 && g->stride[1] == 1;
    return type == dnnl_f32 && g->channels > 1 && one_tap && (kind == FORWARD || !each);
}

static bool fills_vectors(const weft_convolution_task *t)
{
    const weft_geometry *g = t->geometry;
    return (g->channels >= MIN_CHANNELS && g->features >= MIN_CHANNELS) ||
           (g->channels == 1 && g->features == 1 && t->groups >= MIN_CHANNELS);
}

static bool run(const weft_convolution_task *t, direction kind)
{
    const weft_geometry *g = t->geometry;
    dnnl_data_type_t type;
    region r;
    int64_t samples = t->y->extent[0];
    if (!type_of(t, kind, &type) || !fills_vectors(t) || samples == 0 || g->kernel[0] == 0 ||
        g->kernel[1] == 0 || !find_region(&r, t, kind) || !weft_dnnl_has_one_thread()) {
        return false;
    }
    double of_x = (double)(t->groups * g->channels) * (double)r.x_extent[0] * (double)r.x_extent[1];
    double of_y = (double)(t->groups * g->features) * (double)r.y_extent[0] * (double)r.y_extent[1];
    double positions = (double)samples * (double)(r.y_extent[0] * r.y_extent[1]);
    if (is_product(t, kind, type) || (double)samples * of_y * (double)g->taps < MIN_WORK ||
        (kind == BACKWARD_WEIGHT && positions < MIN_POSITIONS)) {
        return false;
    }
    int64_t at_once = weft_most(1, (int64_t)(SAMPLES_BYTES / ((of_x + of_y) * sizeof(float))));
    int former = weft_dnnl_use_threads(1);
    bool done = true;
    for (int64_t first = 0, n; done && first < samples; first += n) {
        n = weft_least(at_once, samples - first);
        objects o = { 0 };
        done = run_samples(&o, t, &r, kind, first, n, type);
        destroy(&o);
    }
    weft_dnnl_use_threads(former);
    return done;
}

bool weft_onednn_convolve(const weft_convolution_task *task)
{
    return run(task, FORWARD);
}

bool weft_onednn_convolve_backward_input(const weft_convolution_task *task)
{
    return run(task, BACKWARD_INPUT);
}

bool weft_onednn_convolve_backward_weight(const weft_convolution_task *task)
{
    return run(task, BACKWARD_WEIGHT);
}

#else

bool weft_onednn_convolve(const weft_convolution_task *task)
{
    (void)task;
    return false;
}

bool weft_onednn_convolve_backward_input(const weft_convolution_task *task)
{
    (void)task;
    return false;
}

bool weft_onednn_convolve_backward_weight(const weft_convolution_task *task)
{
    (void)task;
    return false;
}

#endif
