/* Convolutions: columns copied from the images, in scratch memory of limited size, and products with them, of several samples
 * at once where they fit. See cpu/convolution.c. */
#include "codelets/convolution_geometry.h"

#include "codelets/cuda/columns.h"
#include "codelets/cuda/dnn.h"
#include "codelets/cuda/products.h"
#include "codelets/kernel.h"

/* Half of the scratch memory holds columns; the other one of a gradient's elements, features by positions. */
typedef struct job {
    const weft_task_run *run;
    weft_cuda_queue *queue;
    weft_view views[3]; /* the output, then the inputs */
    weft_image images[3];
    weft_geometry g;
    weft_dtype input_type;
    char *columns, *block;
    size_t half;
    /* One step: */
    int64_t group, samples, features, taps, positions; /* at most so many of each */
} job;

/* A rectangle of output indices: rows [first, last), columns [left, right), global. */
typedef struct rectangle {
    int64_t first, last, left, right;
} rectangle;

static int64_t area_of(const rectangle *r)
{
    return (r->last - r->first) * (r->right - r->left);
}

static int begin(job *j, const weft_task_run *run, weft_cuda_queue *queue)
{
    const weft_kernel_args *args = run->arguments;
    void *scratch;
    int failed = weft_cuda_scratch(queue, &scratch, &j->half);
    j->run = run;
    j->queue = queue;
    for (int i = 0; i < 3; i++) {
        j->views[i] = weft_kernel_view(args, i);
        j->views[i].panels = run->operands + args->operands[i].first_panel;
        j->images[i] = weft_image_of(&j->views[i]);
    }
    j->input_type = j->views[1].dtype;
    j->half = j->half / 2 / 256 * 256;
    j->columns = scratch;
    j->block = j->columns + j->half;
    return failed;
}

/* Whether cuDNN computes the task, or begin() fails. */
static bool is_done(job *j, const weft_task_run *run, weft_cuda_queue *queue, int *failed)
{
    if (queue->fast && weft_dnn_convolution_task(run, queue, failed)) {
        return true;
    }
    *failed = begin(j, run, queue);
    return *failed != 0;
}

/* How much is done at once: positions before taps before samples, so that columns are long. */
static void divide(job *j, int64_t area, size_t column_size)
{
    const weft_geometry *g = &j->g;
    int64_t columns = (int64_t)(j->half / column_size), block = (int64_t)(j->half / weft_dtype_size(j->input_type));
    j->taps = weft_most(1, weft_least(g->taps, columns / 16));
    j->features = weft_most(1, weft_least(g->features, block / 16));
    j->positions = weft_most(1, weft_least(area, weft_least(columns / j->taps, block / j->features)));
    j->samples = weft_most(1, weft_least(columns / (j->taps * j->positions), block / (j->features * j->positions)));
}

/* Local rows of a view that follow each other, from `row` on, at most `most`. */
static int64_t rows_together(const weft_view *view, int64_t row, int64_t most)
{
    int64_t together = most;
    if (weft_view_rows(view) > 0) {
        weft_view_row(view, row, &together);
    }
    return weft_least(together, most);
}

/* NULL: the view is empty, and nothing of it will be read. */
static char *element(const weft_view *view, int64_t row, int64_t place)
{
    return weft_view_rows(view) == 0
               ? NULL
               : (char *)weft_view_row(view, row, NULL) + place * (int64_t)weft_dtype_size(view->dtype);
}

/* The columns of an image under the taps of a group, or of a group's gradient under a tap of size 1. */
static weft_device_columns columns_of(const job *j, int number, int64_t sample, int64_t samples, int64_t channel, const rectangle *r)
{
    const weft_image *m = &j->images[number];
    const int64_t plane = m->room[2] * m->room[3];
    weft_device_columns w = { .type = m->view->dtype,
                              .image = element(m->view, sample, channel * plane),
                              .samples = samples,
                              .image_step = m->view->row_elements,
                              .channel_step = plane,
                              .row_step = m->room[3],
                              .kernel = { 1, 1 },
                              .stride = { 1, 1 },
                              .dilation = { 1, 1 },
                              .top = r->first,
                              .left = r->left,
                              .width = r->right - r->left };
    for (int d = 0; d < 2; d++) {
        w.offset[d] = m->offset[2 + d];
        w.extent[d] = m->extent[2 + d];
        w.shape[d] = m->shape[2 + d];
    }
    return w;
}

static weft_device_columns taps_of(const job *j, int number, int64_t sample, int64_t samples, const rectangle *r)
{
    const weft_geometry *g = &j->g;
    weft_device_columns w = columns_of(j, number, sample, samples, j->group * g->channels, r);
    w.columns = j->columns;
    for (int d = 0; d < 2; d++) {
        w.kernel[d] = g->kernel[d];
        w.stride[d] = g->stride[d];
        w.padding[d] = g->padding[d];
        w.dilation[d] = g->dilation[d];
    }
    return w;
}

/* ---- forward ------------------------------------------------------------------------------------------- */

/* Adds the products of the columns `w` and the group's weights to the output. */
static int multiply_weights(const job *j, const weft_device_columns *w, int64_t sample, bool adds)
{
    const weft_geometry *g = &j->g;
    const weft_view *out = &j->views[0], *weights = &j->views[2];
    const int64_t plane = j->images[0].extent[2] * j->images[0].extent[3], end = (j->group + 1) * g->features;
    int failed = 0;
    for (int64_t o = j->group * g->features, n; o < end && failed == 0; o += n) {
        n = rows_together(weights, o, end - o);
        weft_device_products p = { .gemm = { .dtype = g->type,
                                             .m = n,
                                             .n = w->positions,
                                             .k = w->taps,
                                             .lda = weft_most(1, g->taps),
                                             .ldb = w->positions,
                                             .ldc = plane,
                                             .alpha = 1,
                                             .beta = adds ? 1 : 0 },
                                   .input_type = j->input_type,
                                   .a = element(weights, o, w->tap),
                                   .b = w->columns,
                                   .c = element(out, sample, o * plane + w->position),
                                   .count = w->samples,
                                   .b_step = w->column_step,
                                   .c_step = out->row_elements };
        failed = weft_cuda_multiply(&p, j->queue);
    }
    return failed;
}

static int convolve_samples(job *j, int64_t sample, int64_t samples, const rectangle *all, bool has_bias)
{
    const weft_geometry *g = &j->g;
    int failed = 0;
    for (j->group = 0; j->group < g->groups; j->group++) {
        weft_device_columns w = taps_of(j, 1, sample, samples, all);
        for (w.position = 0; w.position < area_of(all); w.position += w.positions) {
            w.positions = weft_least(j->positions, area_of(all) - w.position);
            w.tap_step = w.positions;
            for (w.tap = 0; w.tap == 0 || w.tap < g->taps; w.tap += j->taps) {
                w.taps = weft_least(j->taps, g->taps - w.tap);
                w.column_step = w.taps * w.positions;
                failed = failed != 0 ? failed : weft_cuda_make_columns(&w, j->queue);
                failed = failed != 0 ? failed : multiply_weights(j, &w, sample, has_bias || w.tap > 0);
            }
        }
    }
    return failed;
}

int weft_cuda_convolution(const weft_task_run *run, weft_cuda_queue *queue)
{
    const weft_kernel_args *args = run->arguments;
    job j;
    int failed = 0;
    if (is_done(&j, run, queue, &failed)) {
        return failed;
    }
    const weft_image *out = &j.images[0];
    const bool has_bias = args->numbers[WEFT_CONVOLUTION_ADDS] != 0;
    const rectangle all = { out->offset[2], out->offset[2] + out->extent[2], out->offset[3], out->offset[3] + out->extent[3] };
    j.g = weft_geometry_of(args->numbers, j.views[0].dtype, &j.images[2], j.images[1].extent[1], out->extent[1]);
    divide(&j, area_of(&all), weft_dtype_size(j.input_type));
    failed = has_bias ? weft_cuda_start_images(run, 2, queue) : 0;
    const int64_t rows = weft_view_count(&j.views[0]) == 0 ? 0 : out->extent[0];
    for (int64_t sample = 0, n; sample < rows && failed == 0; sample += n) {
        n = rows_together(&j.views[0], sample, weft_least(j.samples, rows - sample));
        n = rows_together(&j.views[1], sample, n);
        failed = convolve_samples(&j, sample, n, &all, has_bias);
    }
    return failed;
}

/* ---- the gradient of the input ------------------------------------------------------------------------- */

/* columns = weights^T gradient, of one group's features from `feature` on, whose gradient is in the block. */
static int multiply_transposed(const job *j, const weft_device_columns *w, int64_t feature, int64_t features)
{
    const weft_geometry *g = &j->g;
    const weft_view *weights = &j->views[2];
    int failed = 0;
    for (int64_t o = 0, n; o < features && failed == 0; o += n) {
        n = rows_together(weights, feature + o, features - o);
        weft_device_products p = { .gemm = { .dtype = g->type,
                                             .transpose_a = true,
                                             .m = w->taps,
                                             .n = w->positions,
                                             .k = n,
                                             .lda = g->taps,
                                             .ldb = w->positions,
                                             .ldc = w->positions,
                                             .alpha = 1,
                                             .beta = o == 0 ? 0 : 1 },
                                   .input_type = j->input_type,
                                   .a = element(weights, feature + o, w->tap),
                                   .b = j->block + (size_t)(o * w->positions) * weft_dtype_size(j->input_type),
                                   .c = w->columns,
                                   .count = w->samples,
                                   .b_step = features * w->positions,
                                   .c_step = w->column_step };
        failed = weft_cuda_multiply(&p, j->queue);
    }
    return failed;
}

/* Copies features of the gradient at the positions of `w` into the block, and adds what they give to the image. */
static int spread(const job *j, weft_device_columns *w, int64_t sample, int64_t feature, int64_t features, const rectangle *all)
{
    weft_device_columns block = columns_of(j, 1, sample, w->samples, feature, all);
    block.columns = j->block;
    block.taps = features;
    block.position = w->position;
    block.positions = block.tap_step = w->positions;
    block.column_step = features * w->positions;
    int failed = weft_cuda_make_columns(&block, j->queue);
    for (w->tap = 0; w->tap < j->g.taps && failed == 0; w->tap += j->taps) {
        w->taps = weft_least(j->taps, j->g.taps - w->tap);
        w->column_step = w->taps * w->positions;
        failed = multiply_transposed(j, w, feature, features);
        failed = failed != 0 ? failed : weft_cuda_add_columns(w, j->queue);
    }
    return failed;
}

static int spread_samples(job *j, int64_t sample, int64_t samples, const rectangle *all)
{
    const weft_geometry *g = &j->g;
    int failed = 0;
    for (j->group = 0; j->group < g->groups; j->group++) {
        weft_device_columns w = taps_of(j, 0, sample, samples, all);
        w.type = g->type;
        for (w.position = 0; w.position < area_of(all); w.position += w.positions) {
            w.positions = w.tap_step = weft_least(j->positions, area_of(all) - w.position);
            for (int64_t o = 0; o < g->features && failed == 0; o += j->features) {
                failed = spread(j, &w, sample, j->group * g->features + o, weft_least(j->features, g->features - o), all);
            }
        }
    }
    return failed;
}

int weft_cuda_convolution_backward_input(const weft_task_run *run, weft_cuda_queue *queue)
{
    const weft_kernel_args *args = run->arguments;
    job j;
    rectangle all;
    int failed = 0;
    if (is_done(&j, run, queue, &failed)) {
        return failed;
    }
    const weft_image *out = &j.images[0], *gradient = &j.images[1];
    j.g = weft_geometry_of(args->numbers, j.views[0].dtype, &j.images[2], out->extent[1], gradient->extent[1]);
    weft_gradient_meets(&j.g, 0, gradient, out, &all.first, &all.last);
    weft_gradient_meets(&j.g, 1, gradient, out, &all.left, &all.right);
    divide(&j, area_of(&all), j.g.size);
    failed = weft_cuda_start_images(run, -1, queue);
    bool any = weft_view_count(&j.views[0]) > 0 && weft_view_count(&j.views[1]) > 0 && weft_view_count(&j.views[2]) > 0;
    for (int64_t sample = 0, n; any && sample < out->extent[0] && failed == 0; sample += n) {
        n = rows_together(&j.views[0], sample, weft_least(j.samples, out->extent[0] - sample));
        n = rows_together(&j.views[1], sample, n);
        failed = spread_samples(&j, sample, n, &all);
    }
    return failed;
}

/* ---- the gradient of the weights ----------------------------------------------------------------------- */

/* Adds the products of the block, `features` features of the gradient from `feature` (local) on, and the columns `w`, of all
 * samples together. */
static int add_weights(const job *j, const weft_device_columns *w, int64_t feature, int64_t features)
{
    const weft_view *out = &j->views[0];
    const int64_t begin = j->images[0].offset[0] - j->images[1].offset[1], length = w->tap_step;
    int failed = 0;
    for (int64_t o = 0, n; o < features && failed == 0; o += n) {
        n = rows_together(out, feature + o - begin, features - o);
        weft_device_products p = { .gemm = { .dtype = j->g.type,
                                             .transpose_b = true,
                                             .m = n,
                                             .n = w->taps,
                                             .k = length,
                                             .lda = length,
                                             .ldb = length,
                                             .ldc = j->g.taps,
                                             .alpha = 1,
                                             .beta = 1 },
                                   .input_type = j->input_type,
                                   .a = j->block + (size_t)(o * length) * weft_dtype_size(j->input_type),
                                   .b = w->columns,
                                   .c = element(out, feature + o - begin, w->tap),
                                   .count = 1 };
        failed = weft_cuda_multiply(&p, j->queue);
    }
    return failed;
}

/* All features from `feature` on, at the positions of `w`. */
static int gather(const job *j, weft_device_columns *w, int64_t sample, int64_t feature, int64_t features, const rectangle *all)
{
    weft_device_columns block = columns_of(j, 1, sample, w->samples, feature, all);
    block.columns = j->block;
    block.taps = features;
    block.position = w->position;
    block.positions = block.column_step = w->positions;
    block.tap_step = w->samples * w->positions;
    int failed = weft_cuda_make_columns(&block, j->queue);
    w->column_step = w->positions;
    w->tap_step = block.tap_step;
    for (w->tap = 0; w->tap < j->g.taps && failed == 0; w->tap += j->taps) {
        w->taps = weft_least(j->taps, j->g.taps - w->tap);
        failed = weft_cuda_make_columns(w, j->queue);
        failed = failed != 0 ? failed : add_weights(j, w, feature, features);
    }
    return failed;
}

static int gather_samples(job *j, int64_t sample, int64_t samples, const rectangle *all)
{
    const weft_geometry *g = &j->g;
    const int64_t begin = j->images[0].offset[0] - j->images[1].offset[1], end = begin + j->images[0].extent[0];
    int failed = 0;
    for (j->group = 0; j->group < g->groups; j->group++) {
        const int64_t first = weft_most(begin, j->group * g->features), last = weft_least(end, (j->group + 1) * g->features);
        weft_device_columns w = taps_of(j, 2, sample, samples, all);
        for (w.position = 0; w.position < area_of(all); w.position += w.positions) {
            w.positions = weft_least(j->positions, area_of(all) - w.position);
            for (int64_t o = first; o < last && failed == 0; o += j->features) {
                failed = gather(j, &w, sample, o, weft_least(j->features, last - o), all);
            }
        }
    }
    return failed;
}

int weft_cuda_convolution_backward_weight(const weft_task_run *run, weft_cuda_queue *queue)
{
    const weft_kernel_args *args = run->arguments;
    job j;
    int failed = 0;
    if (is_done(&j, run, queue, &failed)) {
        return failed;
    }
    const weft_image *out = &j.images[0], *gradient = &j.images[1];
    const rectangle all = { gradient->offset[2], gradient->offset[2] + gradient->extent[2], gradient->offset[3],
                            gradient->offset[3] + gradient->extent[3] };
    j.g = weft_geometry_of(args->numbers, j.views[0].dtype, out, j.images[2].extent[1], gradient->extent[1]);
    divide(&j, area_of(&all), weft_dtype_size(j.input_type));
    failed = args->first ? weft_cuda_start_images(run, -1, queue) : 0;
    bool any = weft_view_count(&j.views[0]) > 0 && weft_view_count(&j.views[1]) > 0 && j.g.taps > 0;
    for (int64_t sample = 0, n; any && sample < gradient->extent[0] && failed == 0; sample += n) {
        n = rows_together(&j.views[1], sample, weft_least(j.samples, gradient->extent[0] - sample));
        n = rows_together(&j.views[2], sample, n);
        failed = gather_samples(&j, sample, n, &all);
    }
    return failed;
}
