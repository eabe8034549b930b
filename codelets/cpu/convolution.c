/* Convolutions: oneDNN's where these are faster, else im2col and matrix products. */
#include "codelets/convolution_geometry.h"

#include <stdlib.h>
#include <string.h>

#include "codelets/cpu/clones.h"
#include "codelets/cpu/onednn_convolution.h"
#include "codelets/cpu/vectors.h"
#include "codelets/convert.h"
#include "codelets/linear.h"

typedef weft_image image;
typedef weft_geometry geometry;

/* Rows of `width` per block of columns: about 512 KB. */
static int64_t rows_at_a_time(const geometry *g, int64_t width, int64_t rows)
{
    int64_t row = weft_most(1, g->taps * width) * (int64_t)g->size;
    return weft_least(weft_most(1, rows), weft_most(1, (512 << 10) / row));
}

/* ---- parts of tensors ---------------------------------------------------------------------------------- */

/* Address of the element (sample, channel, h, w), by local index; it may lie outside. */
static char *element(const image *m, int64_t sample, int64_t channel, int64_t h, int64_t w)
{
    int64_t place = (channel * m->room[2] + h) * m->room[3] + w;
    return (char *)weft_view_row(m->view, sample, NULL) + place * (int64_t)weft_dtype_size(m->view->dtype);
}

/* All elements of a part, contiguous in the type of the arithmetic: in place, or copied to *memory, which
 * the caller frees. NULL: no memory, or no elements. */
static const void *contiguous(const geometry *g, const weft_view *view, void **memory)
{
    int64_t rows = weft_view_rows(view), together;
    *memory = NULL;
    if (weft_view_count(view) == 0) {
        return NULL;
    }
    const void *first = weft_view_row(view, 0, &together);
    if (together >= rows && view->dtype == g->type) {
        return first;
    }
    char *target = *memory = malloc((size_t)weft_view_count(view) * g->size);
    for (int64_t row = 0; target != NULL && row < rows; row += together) {
        const void *from = weft_view_row(view, row, &together);
        weft_load(g->type, target, view->dtype, from, 1, together * view->row_elements);
        target += (size_t)(together * view->row_elements) * g->size;
    }
    return *memory;
}

/* A block of output indices: rows [first, last), columns [left, right), global. */
typedef struct block {
    int64_t first, last, left, right;
} block;

static int64_t block_count(const block *b)
{
    return (b->last - b->first) * (b->right - b->left);
}

/* columns[tap][row, column]: the elements under the tap, 0 outside the image. */
static void make_columns(const geometry *g, const image *x, int64_t sample, int64_t group, const block *b,
                         char *columns)
{
    int64_t width = b->right - b->left;
    for (int64_t tap = 0; tap < g->taps; tap++) {
        int64_t j = tap % g->kernel[1], i = tap / g->kernel[1] % g->kernel[0];
        int64_t channel = group * g->channels + tap / g->kernel[1] / g->kernel[0], left, right;
        weft_tap_meets(g, 1, j, 0, x->shape[3], b->left, b->right, &left, &right);
        for (int64_t y = b->first; y < b->last; y++, columns += (size_t)width * g->size) {
            int64_t h = y * g->stride[0] + weft_tap_place(g, 0, i), w = left * g->stride[1] + weft_tap_place(g, 1, j);
            if (h < 0 || h >= x->shape[2] || left == right) {
                memset(columns, 0, (size_t)width * g->size);
                continue;
            }
            memset(columns, 0, (size_t)(left - b->left) * g->size);
            weft_load(g->type, columns + (size_t)(left - b->left) * g->size, x->view->dtype,
                      element(x, sample, channel, h - x->offset[2], w - x->offset[3]), g->stride[1],
                      right - left);
            memset(columns + (size_t)(right - b->left) * g->size, 0, (size_t)(b->right - right) * g->size);
        }
    }
}

#define ADD_RUN(T)                                                                                           \
    WEFT_CLONES static void add_run_##T(T *target, int64_t step, const T *source, int64_t n)                 \
    {                                                                                                        \
        for (int64_t i = 0; i < n; i++) { /* vectorised */                                                   \
            target[i * step] += source[i];                                                                   \
        }                                                                                                    \
    }
ADD_RUN(float)
ADD_RUN(double)

/* The transpose: adds columns to the elements under the taps, in the image's part. */
static void add_columns(const geometry *g, const image *x, int64_t sample, int64_t group, const block *b,
                        const char *columns)
{
    int64_t width = b->right - b->left;
    for (int64_t tap = 0; tap < g->taps; tap++) {
        int64_t j = tap % g->kernel[1], i = tap / g->kernel[1] % g->kernel[0];
        int64_t channel = group * g->channels + tap / g->kernel[1] / g->kernel[0], left, right;
        weft_tap_meets(g, 1, j, x->offset[3], x->offset[3] + x->extent[3], b->left, b->right, &left, &right);
        for (int64_t y = b->first; y < b->last; y++, columns += (size_t)width * g->size) {
            int64_t h = y * g->stride[0] + weft_tap_place(g, 0, i) - x->offset[2];
            int64_t w = left * g->stride[1] + weft_tap_place(g, 1, j) - x->offset[3];
            if (h < 0 || h >= x->extent[2] || left == right) {
                continue;
            }
            void *target = element(x, sample, channel, h, w);
            const char *source = columns + (size_t)(left - b->left) * g->size;
            if (g->type == WEFT_F64) {
                add_run_double(target, g->stride[1], (const double *)source, right - left);
            } else {
                add_run_float(target, g->stride[1], (const float *)source, right - left);
            }
        }
    }
}

/* ---- forward ------------------------------------------------------------------------------------------- */

/* Sets every element of the sample to the bias, or 0. */
static void start_sample(const geometry *g, const image *out, int64_t sample, const char *bias)
{
    int64_t count = out->extent[2] * out->extent[3];
    for (int64_t o = 0; o < out->extent[1]; o++) {
        char *target = element(out, sample, o, 0, 0);
        if (bias == NULL) {
            memset(target, 0, (size_t)count * g->size);
        } else { /* the source is used in place */
            weft_load(g->type, target, g->type, bias + (size_t)o * g->size, 0, count);
        }
    }
}

static void convolve_block(const geometry *g, const image *out, int64_t sample, int64_t group, const block *b,
                           const void *weight, const void *columns)
{
    weft_gemm gemm = { .dtype = g->type,
                       .m = g->features,
                       .n = block_count(b),
                       .k = g->taps,
                       .lda = weft_most(1, g->taps),
                       .ldb = block_count(b),
                       .ldc = out->extent[2] * out->extent[3],
                       .alpha = 1,
                       .beta = 1 };
    weft_multiply(&gemm, (const char *)weight + (size_t)(group * g->features * g->taps) * g->size, columns,
                  element(out, sample, group * g->features, b->first - out->offset[2], 0));
}

static void convolve(const geometry *g, const image *x, const image *out, const void *weight,
                     const char *bias, char *columns, int64_t rows)
{
    int64_t end = out->offset[2] + out->extent[2];
    for (int64_t sample = 0; sample < out->extent[0]; sample++) {
        start_sample(g, out, sample, bias);
        for (int64_t group = 0; group < g->groups && g->taps > 0; group++) {
            block b = { .left = out->offset[3], .right = out->offset[3] + out->extent[3] };
            for (b.first = out->offset[2]; b.first < end; b.first = b.last) {
                b.last = weft_least(end, b.first + rows);
                make_columns(g, x, sample, group, &b, columns);
                convolve_block(g, out, sample, group, &b, weight, columns);
            }
        }
    }
}

void weft_kernel_convolution(const weft_kernel_call *call)
{
    image x = weft_image_of(&call->inputs[0]), w = weft_image_of(&call->inputs[1]), out = weft_image_of(&call->output);
    geometry g = weft_geometry_of(call->numbers, call->output.dtype, &w, x.extent[1], out.extent[1]);
    bool adds = call->numbers[WEFT_CONVOLUTION_ADDS] != 0;
    int64_t rows = rows_at_a_time(&g, out.extent[3], out.extent[2]);
    void *weight_memory, *bias_memory = NULL;
    const void *weight = contiguous(&g, w.view, &weight_memory),
               *bias = adds ? contiguous(&g, &call->inputs[2], &bias_memory) : NULL;
    const weft_convolution_task task = {
        .geometry = &g, .x = &x, .y = &out, .groups = g.groups, .weight = weight, .bias = (const float *)bias
    };
    if ((weight == NULL && weft_view_count(w.view) > 0) || (adds && bias == NULL)) {
        weft_kernel_lacks_memory(call, WEFT_PROBLEM_COLUMNS, 0);
    } else if (!weft_onednn_convolve(&task)) {
        char *columns = malloc((size_t)(g.taps * rows * out.extent[3]) * g.size + 1);
        if (columns == NULL) {
            weft_kernel_lacks_memory(call, WEFT_PROBLEM_COLUMNS, 0);
        } else {
            convolve(&g, &x, &out, weight, (const char *)bias, columns, rows);
        }
        free(columns);
    }
    free(bias_memory);
    free(weight_memory);
}

/* ---- the gradient of the input ------------------------------------------------------------------------- */

/* The gradient's block of one group, [features][rows, columns], in the type of the arithmetic. */
static void load_gradient(const geometry *g, const image *gradient, int64_t sample, int64_t first_feature,
                          int64_t features, const block *b, char *target)
{
    int64_t width = b->right - b->left;
    for (int64_t o = 0; o < features; o++) {
        for (int64_t y = b->first; y < b->last; y++, target += (size_t)width * g->size) {
            weft_load(g->type, target, gradient->view->dtype,
                      element(gradient, sample, first_feature + o, y - gradient->offset[2],
                              b->left - gradient->offset[3]),
                      1, width);
        }
    }
}

static void spread(const geometry *g, const image *gradient, const image *out, const void *weight,
                   char *columns, char *block_memory, int64_t rows)
{
    block all;
    weft_gradient_meets(g, 0, gradient, out, &all.first, &all.last);
    weft_gradient_meets(g, 1, gradient, out, &all.left, &all.right);
    for (int64_t sample = 0; sample < out->extent[0]; sample++) {
        for (int64_t group = 0; group < g->groups; group++) {
            block b = all;
            for (b.first = all.first; b.first < all.last; b.first = b.last) {
                b.last = weft_least(all.last, b.first + rows);
                load_gradient(g, gradient, sample, group * g->features, g->features, &b, block_memory);
                weft_gemm gemm = { .dtype = g->type,
                                   .transpose_a = true,
                                   .m = g->taps,
                                   .n = block_count(&b),
                                   .k = g->features,
                                   .lda = weft_most(1, g->taps),
                                   .ldb = block_count(&b),
                                   .ldc = block_count(&b),
                                   .alpha = 1 };
                weft_multiply(&gemm, (const char *)weight + (size_t)(group * g->features * g->taps) * g->size,
                              block_memory, columns);
                add_columns(g, out, sample, group, &b, columns);
            }
        }
    }
}

void weft_kernel_convolution_backward_input(const weft_kernel_call *call)
{
    image gradient = weft_image_of(&call->inputs[0]), w = weft_image_of(&call->inputs[1]),
          out = weft_image_of(&call->output);
    geometry g = weft_geometry_of(call->numbers, call->output.dtype, &w, out.extent[1], gradient.extent[1]);
    int64_t rows = rows_at_a_time(&g, gradient.room[3], gradient.room[2]);
    void *weight_memory;
    const void *weight = contiguous(&g, w.view, &weight_memory);
    size_t row_bytes = (size_t)(rows * gradient.room[3]) * g.size, column_bytes = (size_t)g.taps * row_bytes;
    bool any = weft_view_count(gradient.view) > 0 && weight != NULL;
    const weft_convolution_task task = { .geometry = &g, .x = &out, .y = &gradient, .groups = g.groups, .weight = weight };
    weft_view_set_to_zero(&call->output);
    if (weight == NULL && weft_view_count(w.view) > 0) {
        weft_kernel_lacks_memory(call, WEFT_PROBLEM_COLUMNS, 0);
    } else if (any && !weft_onednn_convolve_backward_input(&task)) {
        char *memory = malloc(column_bytes + (size_t)g.features * row_bytes + 1);
        weft_view_set_to_zero(&call->output);
        if (memory == NULL) {
            weft_kernel_lacks_memory(call, WEFT_PROBLEM_COLUMNS, 0);
        } else {
            spread(&g, &gradient, &out, weight, memory, memory + column_bytes, rows);
        }
        free(memory);
    }
    free(weight_memory);
}

/* ---- the gradient of the weights ----------------------------------------------------------------------- */

/* The output's features and taps: [first, last) by local index in the gradient's part. */
static void gather_group(const geometry *g, const image *gradient, const image *x, const image *out,
                         int64_t sample, int64_t group, int64_t rows, char *columns, char *block_memory)
{
    int64_t begin = out->offset[0] - gradient->offset[1], end = begin + out->extent[0];
    int64_t first = weft_most(begin, group * g->features), last = weft_least(end, (group + 1) * g->features);
    int64_t bottom = gradient->offset[2] + gradient->extent[2];
    block b = { .left = gradient->offset[3], .right = gradient->offset[3] + gradient->extent[3] };
    if (first >= last) {
        return;
    }
    for (b.first = gradient->offset[2]; b.first < bottom; b.first = b.last) {
        b.last = weft_least(bottom, b.first + rows);
        make_columns(g, x, sample, group, &b, columns);
        for (int64_t o = first, together; o < last; o += together) {
            char *target = weft_view_row(out->view, o - begin, &together);
            together = weft_least(together, last - o);
            load_gradient(g, gradient, sample, o, together, &b, block_memory);
            weft_gemm gemm = { .dtype = g->type,
                               .transpose_b = true,
                               .m = together,
                               .n = g->taps,
                               .k = block_count(&b),
                               .lda = block_count(&b),
                               .ldb = block_count(&b),
                               .ldc = weft_most(1, g->taps),
                               .alpha = 1,
                               .beta = 1 };
            weft_multiply(&gemm, block_memory, columns, target);
        }
    }
}

/* By oneDNN, which makes the sums of whole groups, and does not add to what is there: false if products do all of it. */
static bool gather_at_once(const geometry *g, const image *gradient, const image *x, const image *out)
{
    int64_t begin = out->offset[0] - gradient->offset[1], features = out->extent[0], count = features * g->taps;
    if (g->type != WEFT_F32 || (g->groups > 1 && (begin % g->features != 0 || features % g->features != 0))) {
        return false;
    }
    geometry own = *g;
    own.features = g->groups > 1 ? g->features : features;
    float *sums = malloc((size_t)count * sizeof *sums + 1);
    const weft_convolution_task task = { .geometry = &own,
                                         .x = x,
                                         .y = gradient,
                                         .first_channel = g->groups > 1 ? begin / g->features * g->channels : 0,
                                         .first_feature = begin,
                                         .groups = g->groups > 1 ? features / g->features : 1,
                                         .sums = sums };
    bool done = sums != NULL && weft_onednn_convolve_backward_weight(&task);
    for (int64_t row = 0, together; done && row < features; row += together) {
        void *target = weft_view_row(out->view, row, &together);
        together = weft_least(together, features - row);
        add_run_float(target, 1, sums + row * g->taps, together * g->taps);
    }
    free(sums);
    return done;
}

void weft_kernel_convolution_backward_weight(const weft_kernel_call *call)
{
    image gradient = weft_image_of(&call->inputs[0]), x = weft_image_of(&call->inputs[1]),
          out = weft_image_of(&call->output);
    geometry g = weft_geometry_of(call->numbers, call->output.dtype, &out, x.extent[1], gradient.extent[1]);
    int64_t rows = rows_at_a_time(&g, gradient.room[3], gradient.room[2]);
    size_t row_bytes = (size_t)(rows * gradient.room[3]) * g.size, column_bytes = (size_t)g.taps * row_bytes;
    bool any = weft_view_count(gradient.view) > 0 && g.taps > 0;
    if (call->first) {
        weft_view_set_to_zero(&call->output);
    }
    if (!any || gather_at_once(&g, &gradient, &x, &out)) {
        return;
    }
    char *memory = malloc(column_bytes + (size_t)g.features * row_bytes + 1);
    if (memory == NULL) {
        weft_kernel_lacks_memory(call, WEFT_PROBLEM_COLUMNS, 0);
        return;
    }
    for (int64_t sample = 0; sample < gradient.extent[0]; sample++) {
        for (int64_t group = 0; group < g.groups; group++) {
            gather_group(&g, &gradient, &x, &out, sample, group, rows, memory, memory + column_bytes);
        }
    }
    free(memory);
}
