/* Pooling, line by line: a line is the last dimension of the output. */
#include "codelets/pooling.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codelets/convert.h"
#include "codelets/cpu/vectors.h"
#include "codelets/kernels.h"
#include "codelets/pooling_windows.h"

_Static_assert((int)WEFT_POOLING_NUMBERS <= (int)WEFT_KERNEL_NUMBERS, "a call has room for them");

enum { AXES = WEFT_POOLING_AXES, LAST = AXES - 1 };

/* ---- images -------------------------------------------------------------------------------------------- */

/* A part of a tensor: the last three dimensions, of which missing ones have size 1. */
typedef struct image {
    const weft_view *view;
    int64_t offset[AXES], extent[AXES], shape[AXES], stride[AXES];
    int64_t per_row, apart; /* images in a row, and elements from one to the next */
    const char *row;
} image;

static image image_of(const weft_view *view, int dims)
{
    image m = { .view = view, .per_row = 1, .apart = 0 };
    for (int d = 0; d < AXES; d++) {
        int own = view->ndim - AXES + d;
        bool pooled = d >= AXES - dims;
        m.offset[d] = pooled ? view->offset[own] : 0;
        m.extent[d] = pooled ? view->extent[own] : 1;
        m.shape[d] = pooled ? view->shape[own] : 1;
        m.stride[d] = pooled ? view->strides[own] : 0;
    }
    for (int d = 1; d < view->ndim - dims; d++) {
        m.per_row *= view->extent[d];
        m.apart = view->strides[d];
    }
    return m;
}

static char *line_at(const image *m, int64_t number, int64_t d, int64_t h)
{
    int64_t place = number * m->apart + (d - m->offset[0]) * m->stride[0] + (h - m->offset[1]) * m->stride[1];
    return (char *)m->row + place * (int64_t)weft_dtype_size(m->view->dtype);
}

static bool is_in(const image *m, int d, int64_t i)
{
    return i >= m->offset[d] && i < m->offset[d] + m->extent[d];
}

/* ---- jobs ---------------------------------------------------------------------------------------------- */

/* One call. Lines are in double precision: `in` of an input, `out` of the output. */
typedef struct job {
    weft_pooling_axis axes[AXES];
    int64_t divisor;
    image inputs[2], outputs[2];
    int num_inputs, num_outputs;
    weft_pooling_range *windows; /* of the last dimension, those of the part */
    double *lengths, *in, *out;
    int64_t *places;
    int64_t number; /* of the image in its row */
} job;

/* Makes line (d, h) of output 0. */
typedef void (*line_function)(job *j, int64_t d, int64_t h);

static const double *load(job *j, int64_t d, int64_t h)
{
    const image *m = &j->inputs[0];
    weft_load(WEFT_F64, j->in, m->view->dtype, line_at(m, j->number, d, h), 1, m->extent[LAST]);
    return j->in;
}

/* Sets the axes, from the image or its gradient, and from what has a value for each window. */
static void set_axes(job *j, const int64_t numbers[], const image *whole, const image *pooled)
{
    for (int d = 0; d < AXES; d++) {
        j->axes[d] = (weft_pooling_axis){ .kernel = numbers[WEFT_POOLING_KERNEL + d],
                             .stride = numbers[WEFT_POOLING_STRIDE + d],
                             .padding = numbers[WEFT_POOLING_PADDING + d],
                             .dilation = numbers[WEFT_POOLING_DILATION + d],
                             .size = whole->shape[d],
                             .count = pooled->shape[d] };
    }
    for (int64_t i = 0; i < pooled->extent[LAST]; i++) {
        j->windows[i] = weft_pooling_window(&j->axes[LAST], pooled->offset[LAST] + i);
        j->lengths[i] = weft_pooling_length(&j->axes[LAST], pooled->offset[LAST] + i, j->divisor);
    }
}

static void make_image(job *j, line_function make)
{
    const image *out = &j->outputs[0];
    for (int64_t d = out->offset[0]; d < out->offset[0] + out->extent[0]; d++) {
        for (int64_t h = out->offset[1]; h < out->offset[1] + out->extent[1]; h++) {
            make(j, d, h);
            weft_store(out->view->dtype, line_at(out, j->number, d, h), 1, WEFT_F64, j->out, out->extent[LAST]);
            if (j->num_outputs > 1) {
                memcpy(line_at(&j->outputs[1], j->number, d, h), j->places,
                       (size_t)out->extent[LAST] * sizeof(*j->places));
            }
        }
    }
}

static void take_row(image images[], int count, int64_t row)
{
    for (int i = 0; i < count; i++) {
        images[i].row = weft_view_count(images[i].view) == 0 ? NULL : weft_view_row(images[i].view, row, NULL);
    }
}

/* Room for lines of the longest operand. False: no memory, the output is 0. */
static bool make_room(job *j, const weft_kernel_call *call)
{
    int64_t most = j->outputs[0].extent[LAST];
    for (int i = 0; i < j->num_inputs; i++) {
        most = j->inputs[i].extent[LAST] > most ? j->inputs[i].extent[LAST] : most;
    }
    size_t count = (size_t)most + 1;
    j->windows = malloc(count * (sizeof(*j->windows) + 3 * sizeof(double) + sizeof(*j->places)));
    if (j->windows == NULL) {
        weft_kernel_lacks_memory(call, WEFT_PROBLEM_ROW, 0);
        return false;
    }
    j->lengths = (double *)(j->windows + count);
    j->in = j->lengths + count;
    j->out = j->in + count;
    j->places = (int64_t *)(j->out + count);
    return true;
}

/* `backward`: the output is the image's gradient; else it has an element for each window. */
static void run(const weft_kernel_call *call, bool backward, line_function make)
{
    int dims = (int)call->numbers[WEFT_POOLING_DIMS];
    job j = { .divisor = call->numbers[WEFT_POOLING_DIVISOR],
              .num_inputs = call->num_inputs,
              .num_outputs = call->num_outputs };
    for (int i = 0; i < j.num_inputs; i++) {
        j.inputs[i] = image_of(&call->inputs[i], dims);
    }
    for (int o = 0; o < j.num_outputs; o++) {
        j.outputs[o] = image_of(&call->outputs[o], dims);
    }
    if (!make_room(&j, call)) {
        return;
    }
    set_axes(&j, call->numbers, backward ? &j.outputs[0] : &j.inputs[0], backward ? &j.inputs[0] : &j.outputs[0]);
    for (int64_t row = 0; row < weft_view_rows(&call->output); row++) {
        take_row(j.inputs, j.num_inputs, row);
        take_row(j.outputs, j.num_outputs, row);
        for (j.number = 0; j.number < j.outputs[0].per_row; j.number++) {
            make_image(&j, make);
        }
    }
    free(j.windows);
}

/* ---- forward ------------------------------------------------------------------------------------------- */

/* `place`: the index of the line's first element in the whole image. */
static void max_of_line(job *j, const double *line, int64_t place)
{
    int64_t offset = j->inputs[0].offset[LAST];
    for (int64_t i = 0; i < j->outputs[0].extent[LAST]; i++) {
        const weft_pooling_range *r = &j->windows[i];
        for (int64_t w = r->first; w < r->last; w += r->step) {
            double value = line[w - offset];
            if (value > j->out[i] || isnan(value) || j->places[i] < 0) {
                j->out[i] = value;
                j->places[i] = place + w;
            }
        }
    }
}

static void make_max(job *j, int64_t y, int64_t z)
{
    const image *in = &j->inputs[0];
    weft_pooling_range r = weft_pooling_window(&j->axes[0], y), s = weft_pooling_window(&j->axes[1], z);
    for (int64_t i = 0; i < j->outputs[0].extent[LAST]; i++) {
        j->out[i] = -INFINITY;
        j->places[i] = -1;
    }
    for (int64_t d = r.first; d < r.last; d += r.step) {
        for (int64_t h = s.first; h < s.last; h += s.step) {
            max_of_line(j, load(j, d, h), (d * in->shape[1] + h) * in->shape[LAST]);
        }
    }
}

/* The divisor of windows (y, z, ...), up to their lengths. */
static double divisor_of(const job *j, int64_t y, int64_t z)
{
    return j->divisor > 0 ? (double)j->divisor
                          : weft_pooling_length(&j->axes[0], y, j->divisor) * weft_pooling_length(&j->axes[1], z, j->divisor);
}

static void make_avg(job *j, int64_t y, int64_t z)
{
    weft_pooling_range r = weft_pooling_window(&j->axes[0], y), s = weft_pooling_window(&j->axes[1], z);
    int64_t count = j->outputs[0].extent[LAST], offset = j->inputs[0].offset[LAST];
    double divisor = divisor_of(j, y, z);
    memset(j->out, 0, (size_t)count * sizeof(*j->out));
    for (int64_t d = r.first; d < r.last; d += r.step) {
        for (int64_t h = s.first; h < s.last; h += s.step) {
            const double *line = load(j, d, h);
            for (int64_t i = 0; i < count; i++) {
                for (int64_t w = j->windows[i].first; w < j->windows[i].last; w += j->windows[i].step) {
                    j->out[i] += line[w - offset];
                }
            }
        }
    }
    for (int64_t i = 0; i < count; i++) {
        j->out[i] /= divisor * j->lengths[i];
    }
}

/* The indices of line (y, z), from the windows on with which the line of another operand begins. */
static const int64_t *places_of(const job *j, int64_t y, int64_t z, const image *other)
{
    const void *line = line_at(&j->inputs[1], j->number, y, z);
    return (const int64_t *)line + (other->offset[LAST] - j->inputs[1].offset[LAST]);
}

static void make_pick(job *j, int64_t y, int64_t z)
{
    const image *in = &j->inputs[0];
    const int64_t *places = places_of(j, y, z, &j->outputs[0]);
    weft_pooling_range r = weft_pooling_window(&j->axes[0], y), s = weft_pooling_window(&j->axes[1], z);
    int64_t count = j->outputs[0].extent[LAST];
    memset(j->out, 0, (size_t)count * sizeof(*j->out));
    for (int64_t d = r.first; d < r.last; d += r.step) {
        for (int64_t h = s.first; h < s.last; h += s.step) {
            const double *line = load(j, d, h);
            int64_t begin = (d * in->shape[1] + h) * in->shape[LAST] + in->offset[LAST];
            for (int64_t i = 0; i < count; i++) {
                int64_t w = places[i] - begin;
                j->out[i] = w >= 0 && w < in->extent[LAST] ? line[w] : j->out[i];
            }
        }
    }
}

void weft_kernel_max_pool(const weft_kernel_call *call)
{
    run(call, false, make_max);
}

void weft_kernel_avg_pool(const weft_kernel_call *call)
{
    run(call, false, make_avg);
}

void weft_kernel_max_pool_pick(const weft_kernel_call *call)
{
    run(call, false, make_pick);
}

/* ---- backward ------------------------------------------------------------------------------------------ */

/* Adds the shares of line (y, z) of the gradient to a line of the image's, whose first element has this index in the whole
 * image. */
typedef void (*spread_function)(job *j, int64_t y, int64_t z, int64_t begin);

/* Whether the gradient's part has window i of a dimension, and the window has element x. */
static bool meets(const job *j, int d, int64_t i, int64_t x)
{
    weft_pooling_range r = weft_pooling_window(&j->axes[d], i);
    return is_in(&j->inputs[0], d, i) && weft_pooling_has(&r, x);
}

static void spread(job *j, int64_t d, int64_t h, spread_function add)
{
    const image *out = &j->outputs[0];
    weft_pooling_range r = weft_pooling_windows_with(&j->axes[0], d), s = weft_pooling_windows_with(&j->axes[1], h);
    memset(j->out, 0, (size_t)out->extent[LAST] * sizeof(*j->out));
    for (int64_t y = r.first; y < r.last; y++) {
        for (int64_t z = s.first; z < s.last; z++) {
            if (meets(j, 0, y, d) && meets(j, 1, z, h)) {
                add(j, y, z, (d * out->shape[1] + h) * out->shape[LAST] + out->offset[LAST]);
            }
        }
    }
}

static void add_selected(job *j, int64_t y, int64_t z, int64_t begin)
{
    const double *line = load(j, y, z);
    const int64_t *places = places_of(j, y, z, &j->inputs[0]);
    for (int64_t i = 0; i < j->inputs[0].extent[LAST]; i++) {
        int64_t w = places[i] - begin;
        if (w >= 0 && w < j->outputs[0].extent[LAST]) {
            j->out[w] += line[i];
        }
    }
}

static void add_average(job *j, int64_t y, int64_t z, int64_t begin)
{
    const image *out = &j->outputs[0];
    const double *line = load(j, y, z);
    double divisor = divisor_of(j, y, z);
    (void)begin;
    for (int64_t i = 0; i < j->inputs[0].extent[LAST]; i++) {
        const weft_pooling_range *r = &j->windows[i];
        double share = line[i] / (divisor * j->lengths[i]);
        for (int64_t w = r->first; w < r->last; w += r->step) {
            if (is_in(out, LAST, w)) {
                j->out[w - out->offset[LAST]] += share;
            }
        }
    }
}

static void make_max_backward(job *j, int64_t d, int64_t h)
{
    spread(j, d, h, add_selected);
}

static void make_avg_backward(job *j, int64_t d, int64_t h)
{
    spread(j, d, h, add_average);
}

void weft_kernel_max_pool_backward(const weft_kernel_call *call)
{
    run(call, true, make_max_backward);
}

void weft_kernel_avg_pool_backward(const weft_kernel_call *call)
{
    run(call, true, make_avg_backward);
}
