/* Convolutions with three spatial dimensions, by those with two: each position of the depth becomes a sample.
 *
 * A convolution takes the slices of x under the k weights of the depth as channels, c k of them. So each element of the
 * result is one sum, in one order for all layouts, rounded once, by the kernels that exist. A sum of k convolutions of
 * slices would need memory for one slice instead of k, but in the forward direction alone (gradients read all of them); it
 * would add k results, and those of 16 bits in WEFT_F32, so that no kernel of 16 bits could be used.
 *
 * A transposed convolution gives o k channels, the slices that its weights add at their places of the result's depth. The
 * reverse of the above, slices of a depth with zeros between its positions, would multiply stride times as much. */
#include <stdlib.h>

#include "ops/convolution_arguments.h"

/* Numbers of a call, each three of d, h and w. */
enum { NUMBER_STRIDE = 0, NUMBER_PADDING = 3, NUMBER_DILATION = 6, NUMBER_GROUPS = 9, NUMBER_NUMBERS = 10 };

/* ---- body ---------------------------------------------------------------------------------------------- */

/* Batch and depth as one dimension, of which the outer one may be sharded. That one is padded to a multiple of its shards, so that
 * each rank keeps its samples. */
typedef struct folding {
    const char *function;
    const int64_t *numbers;
    bool depth_first; /* depth is the outer one */
    int64_t taps;     /* of the depth */
    int64_t batch, depth; /* of the samples */
    int64_t padded_batch, padded_depth; /* with those that are cut off again */
} folding;

static int64_t round_up(int64_t size, int64_t factor)
{
    return (size + factor - 1) / factor * factor;
}

/* Two sharded dimensions do not fold into one. A depth sharded beside the batch is exchanged for a sharded height, which
 * convolutions with two spatial dimensions keep. */
static weft_tensor *keep_one_sharded(weft_tensor *x)
{
    const weft_layout *layout = weft_layout_of(x);
    weft_placement placements[WEFT_MAX_DIMS];
    if (weft_layout_parts(layout, 0) == 1 || weft_layout_parts(layout, 2) == 1) {
        return x;
    }
    for (int m = 0; m < layout->mesh->ndim; m++) {
        bool depth = layout->placements[m].kind == WEFT_SHARD && layout->placements[m].dim == 2;
        placements[m] = depth ? weft_shard(3) : layout->placements[m];
    }
    weft_placements_settle(layout->mesh, layout->shape, placements);
    return weft_redistribute(x, layout->mesh->handle, placements);
}

/* `depth`: of the samples. */
static folding folding_of(const weft_call *call, weft_tensor *x, int64_t depth)
{
    const weft_layout *layout = weft_layout_of(x);
    int64_t depth_shards = weft_layout_parts(layout, 2);
    return (folding){ .function = call->function,
                      .numbers = call->attributes.numbers,
                      .depth_first = depth_shards > 1,
                      .taps = weft_layout_of(call->inputs[1])->shape[2],
                      .batch = layout->shape[0],
                      .depth = depth,
                      .padded_batch = round_up(layout->shape[0], weft_layout_parts(layout, 0)),
                      .padded_depth = round_up(depth, depth_shards) };
}

/* ---- convolution --------------------------------------------------------------------------------------- */

/* [n, c, d, h, w] as [n, d, c, h, w], or [d, n, c, h, w]; and back. */
static weft_tensor *samples_first(const folding *f, weft_tensor *x)
{
    return weft_permute(x, 5, f->depth_first ? (const int[]){ 2, 0, 1, 3, 4 } : (const int[]){ 0, 2, 1, 3, 4 });
}

static weft_tensor *channels_before_depth(const folding *f, weft_tensor *y)
{
    return weft_permute(y, 5, f->depth_first ? (const int[]){ 1, 2, 0, 3, 4 } : (const int[]){ 0, 2, 1, 3, 4 });
}

/* Samples x at indices -shift .. size - shift - 1 of their depth, with zeros outside of x; a batch of `batch` samples, also with
 * zeros. */
static weft_tensor *shift_depth(const folding *f, weft_tensor *x, int64_t shift, int64_t size, int64_t batch)
{
    int depth = f->depth_first ? 0 : 1;
    int64_t before[5] = { 0 }, after[5] = { 0 }, given = weft_layout_of(x)->shape[depth];
    before[depth] = weft_max_i64(-given, weft_min_i64(shift, size));
    after[depth] = size - given - before[depth];
    after[1 - depth] = batch - weft_layout_of(x)->shape[1 - depth];
    return weft_pad(x, WEFT_PAD_CONSTANT, 0, 5, before, after);
}

/* The number of indices from which samples are taken, a stride apart. A sharded depth has whole strides, so that ranks keep
 * theirs. */
static int64_t spread_of(const folding *f)
{
    int64_t stride = f->numbers[NUMBER_STRIDE];
    return f->depth_first ? f->padded_depth * stride : (f->depth - 1) * stride + 1;
}

/* Samples' slices under a tap. */
static weft_tensor *slice_under(const folding *f, weft_tensor *x, int64_t tap)
{
    int64_t stride = f->numbers[NUMBER_STRIDE], size = spread_of(f);
    x = shift_depth(f, x, f->numbers[NUMBER_PADDING] - tap * f->numbers[NUMBER_DILATION], size, f->padded_batch);
    return x == NULL || stride == 1 ? x : weft_slice(x, f->depth_first ? 0 : 1, 0, size, stride);
}

/* The slices of samples under all taps, [n, d, c, taps, h, w]. */
static weft_tensor *slices_of(const folding *f, weft_tensor *x)
{
    weft_tensor **slices = calloc((size_t)f->taps, sizeof(weft_tensor *)), *stacked = NULL;
    if (slices == NULL) {
        weft_fail(WEFT_ERR_NOMEM, f->function, "no memory for %lld slices", (long long)f->taps);
        return NULL;
    }
    bool done = true;
    for (int64_t t = 0; t < f->taps && done; t++) {
        slices[t] = slice_under(f, x, t);
        done = slices[t] != NULL;
    }
    if (done) {
        stacked = f->taps == 1 ? slices[0] : weft_stack((int)f->taps, slices, 3);
    }
    free(slices);
    return stacked;
}

/* Zeros in added samples of the depth, whose shards keep their sizes. */
static weft_tensor *clear_added(const folding *f, weft_tensor *slices)
{
    const int64_t after[6] = { f->padded_depth - f->depth };
    if (slices == NULL || after[0] == 0) {
        return slices;
    }
    slices = weft_slice(slices, 0, 0, f->depth, 1);
    return slices == NULL ? NULL
                          : weft_pad(slices, WEFT_PAD_CONSTANT, 0, weft_layout_of(slices)->ndim, (const int64_t[6]){ 0 }, after);
}

/* `clears`: for a product in which added samples meet zeros, which infinite values of x would turn into NaN. */
static weft_tensor *fold(const folding *f, weft_tensor *x, bool clears)
{
    const int64_t *shape = weft_layout_of(x)->shape;
    int64_t folded[] = { f->padded_batch * f->padded_depth, shape[1] * f->taps, shape[3], shape[4] };
    x = samples_first(f, x);
    x = x == NULL ? NULL : slices_of(f, x);
    x = clears ? clear_added(f, x) : x;
    return x == NULL ? NULL : weft_reshape(x, 4, folded);
}

static weft_tensor *unfold(const folding *f, weft_tensor *y)
{
    const int64_t *shape = weft_layout_of(y)->shape;
    int64_t outer = f->depth_first ? f->padded_depth : f->padded_batch;
    int64_t inner = f->depth_first ? f->padded_batch : f->padded_depth;
    int64_t after[] = { f->batch - f->padded_batch, 0, f->depth - f->padded_depth, 0, 0 };
    y = weft_reshape(y, 5, (const int64_t[]){ outer, inner, shape[1], shape[2], shape[3] });
    y = y == NULL ? NULL : channels_before_depth(f, y);
    bool cut = after[0] < 0 || after[2] < 0;
    return y == NULL || !cut ? y : weft_pad(y, WEFT_PAD_CONSTANT, 0, 5, (const int64_t[5]){ 0 }, after);
}

/* The options of h and w. */
static weft_convolution flat_options(const int64_t numbers[])
{
    weft_convolution options = { .groups = numbers[NUMBER_GROUPS] };
    for (int d = 0; d < 2; d++) {
        options.stride[d] = numbers[NUMBER_STRIDE + 1 + d];
        options.padding[d] = numbers[NUMBER_PADDING + 1 + d];
        options.dilation[d] = numbers[NUMBER_DILATION + 1 + d];
    }
    return options;
}

/* [o, c k, i, j], the weights of the depth being further channels; of a transposed convolution [c, o k, i, j]. */
static weft_tensor *flat_weight(weft_tensor *weight)
{
    const int64_t *shape = weft_layout_of(weight)->shape;
    return weft_reshape(weight, 4, (const int64_t[]){ shape[0], shape[1] * shape[2], shape[3], shape[4] });
}

static bool expand_conv3d(const weft_call *call, weft_tensor *outputs[])
{
    const int64_t *numbers = call->attributes.numbers;
    weft_convolution options = flat_options(numbers);
    weft_tensor *bias = call->num_inputs > 2 ? call->inputs[2] : NULL;
    weft_tensor *x = keep_one_sharded(call->inputs[0]), *weight = flat_weight(call->inputs[1]);
    if (x == NULL || weight == NULL) {
        return false;
    }
    int64_t reach = numbers[NUMBER_DILATION] * (weft_layout_of(call->inputs[1])->shape[2] - 1);
    int64_t room = weft_layout_of(x)->shape[2] + 2 * numbers[NUMBER_PADDING] - reach - 1;
    folding f = folding_of(call, x, room / numbers[NUMBER_STRIDE] + 1);
    x = fold(&f, x, false);
    weft_tensor *y = x == NULL ? NULL : weft_conv2d(x, weight, bias, &options);
    outputs[0] = y == NULL ? NULL : unfold(&f, y);
    return outputs[0] != NULL;
}

/* ---- transposed ---------------------------------------------------------------------------------------- */

/* Without samples that were added, whose zeros times infinite weights would be added elsewhere: [n, d, o, taps, y, z], or [d, n, o,
 * taps, y, z]. */
static weft_tensor *slices_of_result(const folding *f, weft_tensor *y)
{
    const int64_t *shape = weft_layout_of(y)->shape;
    int64_t outer = f->depth_first ? f->padded_depth : f->padded_batch, inner = f->depth_first ? f->batch : f->depth;
    y = weft_reshape(y, 6, (const int64_t[]){ outer, inner, shape[1] / f->taps, f->taps, shape[2], shape[3] });
    return y == NULL ? NULL : weft_slice(y, 0, 0, f->depth_first ? f->depth : f->batch, 1);
}

/* The slice of a tap at its places of a depth of size `size`. */
static weft_tensor *slice_at_places(const folding *f, weft_tensor *slices, int64_t tap, int64_t size)
{
    int64_t stride = f->numbers[NUMBER_STRIDE], spread = f->depth_first ? f->depth * stride : (f->depth - 1) * stride + 1;
    weft_tensor *slice = weft_select(slices, 3, tap);
    if (slice != NULL && stride > 1) {
        slice = weft_slice_backward(slice, f->depth_first ? 0 : 1, spread, 0, spread, stride);
    }
    int64_t shift = tap * f->numbers[NUMBER_DILATION] - f->numbers[NUMBER_PADDING];
    return slice == NULL ? NULL : shift_depth(f, slice, shift, size, f->batch);
}

static weft_tensor *add_slices(const folding *f, weft_tensor *slices, int64_t size)
{
    weft_tensor *sum = slice_at_places(f, slices, 0, size);
    for (int64_t t = 1; t < f->taps && sum != NULL; t++) {
        weft_tensor *slice = slice_at_places(f, slices, t, size);
        sum = slice == NULL ? NULL : weft_add(sum, slice);
    }
    return sum;
}

/* In the type of the sums. Attributes' sizes: those of the result, d, h and w. */
static weft_tensor *transposed(const weft_call *call, weft_tensor *x, weft_tensor *weight)
{
    const int64_t *numbers = call->attributes.numbers, *sizes = call->attributes.sizes;
    const int64_t *image = weft_layout_of(x)->shape, *window = weft_layout_of(call->inputs[1])->shape;
    weft_convolution options = flat_options(numbers);
    int64_t more[2];
    for (int d = 0; d < 2; d++) {
        more[d] = sizes[1 + d] - (image[3 + d] - 1) * options.stride[d] + 2 * options.padding[d] -
                  options.dilation[d] * (window[3 + d] - 1) - 1;
    }
    folding f = folding_of(call, x, image[2]);
    int64_t folded[] = { f.padded_batch * f.padded_depth, image[1], image[3], image[4] };
    x = samples_first(&f, x);
    x = x == NULL ? NULL : shift_depth(&f, x, 0, f.padded_depth, f.padded_batch);
    x = x == NULL ? NULL : weft_reshape(x, 4, folded);
    weft_tensor *y = x == NULL ? NULL : weft_conv_transpose2d(x, weight, NULL, &options, more);
    y = y == NULL ? NULL : slices_of_result(&f, y);
    y = y == NULL ? NULL : add_slices(&f, y, sizes[0]);
    return y == NULL ? NULL : channels_before_depth(&f, y);
}

/* 16-bit types are multiplied and added in WEFT_F32, and rounded once. */
static bool expand_conv_transpose3d(const weft_call *call, weft_tensor *outputs[])
{
    weft_dtype type = weft_layout_of(call->inputs[0])->dtype, wide = weft_wide_type(type);
    weft_tensor *x = weft_to_type(call->inputs[0], wide), *weight = weft_to_type(call->inputs[1], wide);
    x = x == NULL ? NULL : keep_one_sharded(x);
    weight = weight == NULL ? NULL : flat_weight(weight);
    weft_tensor *y = x == NULL || weight == NULL ? NULL : transposed(call, x, weight);
    if (y != NULL && call->num_inputs > 2) {
        weft_tensor *bias = weft_reshape(call->inputs[2], 4, (const int64_t[]){ -1, 1, 1, 1 });
        y = bias == NULL ? NULL : weft_add(y, bias);
    }
    outputs[0] = y == NULL ? NULL : weft_to_type(y, type);
    return outputs[0] != NULL;
}

/* ---- gradients ----------------------------------------------------------------------------------------- */

static weft_convolution3d options_of(const weft_call *call)
{
    const int64_t *numbers = call->attributes.numbers;
    weft_convolution3d options = { .groups = numbers[NUMBER_GROUPS] };
    for (int d = 0; d < 3; d++) {
        options.stride[d] = numbers[NUMBER_STRIDE + d];
        options.padding[d] = numbers[NUMBER_PADDING + d];
        options.dilation[d] = numbers[NUMBER_DILATION + d];
    }
    return options;
}

/* Each of x, weight and result of a convolution from the two others: it is linear in both of its inputs. */
static weft_tensor *result_of(const weft_call *call, weft_tensor *x, weft_tensor *weight)
{
    weft_convolution3d options = options_of(call);
    return weft_conv3d(x, weight, NULL, &options);
}

static weft_tensor *x_of(const weft_call *call, weft_tensor *result, weft_tensor *weight, weft_tensor *like)
{
    weft_convolution3d options = options_of(call);
    const int64_t *made = weft_layout_of(result)->shape, *window = weft_layout_of(weight)->shape;
    const weft_layout *of = weft_layout_of(like);
    int64_t output_padding[3], count = 0;
    weft_count_checked(of->ndim, of->shape, &count);
    if (count == 0) { /* which a transposed convolution refuses to make */
        return weft_full(of->dtype, 0, of->ndim, of->shape, of->mesh->handle, NULL);
    }
    for (int d = 0; d < 3; d++) {
        int64_t reach = options.dilation[d] * (window[2 + d] - 1) - 2 * options.padding[d];
        output_padding[d] = of->shape[2 + d] - (made[2 + d] - 1) * options.stride[d] - reach - 1;
    }
    return weft_conv_transpose3d(result, weight, NULL, &options, output_padding);
}

/* The weights' gradient is the product of x's slices under the taps and the result, in the same samples. */
static weft_tensor *weight_of(const weft_call *call, weft_tensor *result, weft_tensor *x)
{
    const int64_t *made = weft_layout_of(result)->shape, *shape = weft_layout_of(call->inputs[1])->shape;
    weft_convolution options = flat_options(call->attributes.numbers);
    x = keep_one_sharded(x);
    if (x == NULL) {
        return NULL;
    }
    folding f = folding_of(call, x, made[2]);
    int64_t folded[] = { f.padded_batch * f.padded_depth, made[1], made[3], made[4] };
    x = fold(&f, x, true);
    result = x == NULL ? NULL : samples_first(&f, result);
    result = result == NULL ? NULL : shift_depth(&f, result, 0, f.padded_depth, f.padded_batch);
    result = result == NULL ? NULL : weft_reshape(result, 4, folded);
    const int64_t flat[] = { shape[0], shape[1] * shape[2], shape[3], shape[4] };
    weft_tensor *weight = result == NULL ? NULL : weft_conv2d_backward_weight(result, x, flat, &options);
    return weight == NULL ? NULL : weft_reshape(weight, 5, shape);
}

/* A transposed convolution is the gradient of x from a result: its x is that result. */
static bool give_gradients(const weft_gradient *of, bool transposes)
{
    const weft_call *call = of->call;
    weft_tensor *g = weft_gradient_of_output(of, 0), *x = call->inputs[0], *weight = call->inputs[1];
    bool done = true;
    if (weft_gradient_wanted(of, 0)) {
        done = weft_give_gradient(of, 0, transposes ? result_of(call, g, weight) : x_of(call, g, weight, x));
    }
    if (done && weft_gradient_wanted(of, 1)) {
        done = weft_give_gradient(of, 1, transposes ? weight_of(call, x, g) : weight_of(call, g, x));
    }
    if (done && call->num_inputs > 2 && weft_gradient_wanted(of, 2)) {
        done = weft_give_gradient(of, 2, weft_sum(g, WEFT_DIM(0) | WEFT_DIM(2) | WEFT_DIM(3) | WEFT_DIM(4), false));
    }
    return done;
}

static bool gradients_of_conv3d(const weft_gradient *of)
{
    return give_gradients(of, false);
}

static bool gradients_of_conv_transpose3d(const weft_gradient *of)
{
    return give_gradients(of, true);
}

/* ---- public -------------------------------------------------------------------------------------------- */

#define CONVOLUTION(name_)                                                                                             \
    {                                                                                                                  \
        .name = #name_,                                                                                                \
        .gradient = { .function = gradients_of_##name_, .reads = { WEFT_READS_INPUT(1), WEFT_READS_INPUT(0) } },        \
        .inputs = { { "x", WEFT_TYPES_FLOAT, true },                                                                   \
                    { "weight", WEFT_TYPES_FLOAT, true },                                                              \
                    { "bias", WEFT_TYPES_FLOAT, true } },                                                              \
        .expand = expand_##name_                                                                                       \
    }

static const weft_operation operation_conv3d = CONVOLUTION(conv3d);
static const weft_operation operation_conv_transpose3d = CONVOLUTION(conv_transpose3d);

/* The number of elements of all slices fits 64 bits. False with the error kept. */
static bool check_slices(const weft_convolution_arguments *c, const int64_t samples[5], int64_t depth)
{
    int64_t slices[] = { samples[0], depth, samples[1], c->weight[2], samples[3], samples[4] };
    return weft_check_shape(c->function, 6, slices);
}

static weft_call make_call(const weft_convolution_arguments *c, const weft_operation *operation, weft_tensor *x,
                           weft_tensor *weight, weft_tensor *bias)
{
    weft_call call = { .function = c->function,
                       .operation = operation,
                       .num_inputs = bias == NULL ? 2 : 3,
                       .inputs = { x, weight, bias },
                       .attributes = { .num_numbers = NUMBER_NUMBERS } };
    int64_t *numbers = call.attributes.numbers;
    for (int d = 0; d < 3; d++) {
        numbers[NUMBER_STRIDE + d] = c->options.stride[d];
        numbers[NUMBER_PADDING + d] = c->options.padding[d];
        numbers[NUMBER_DILATION + d] = c->options.dilation[d];
    }
    numbers[NUMBER_GROUPS] = c->options.groups;
    return call;
}

weft_tensor *weft_conv3d(weft_tensor *x, weft_tensor *weight, weft_tensor *bias, const weft_convolution3d *options)
{
    weft_convolution_arguments c = { .function = "weft_conv3d", .spatial = 3 };
    if (!weft_take_convolution_shape(&c, "x", x, c.x) || !weft_take_convolution_shape(&c, "weight", weight, c.weight) ||
        !weft_take_convolution3d_options(&c, options) || !weft_check_convolution(&c, false) ||
        !weft_check_convolution_bias(&c, bias, c.weight[0]) || !weft_check_shape(c.function, 5, c.result) ||
        !check_slices(&c, c.x, c.result[2])) {
        return NULL;
    }
    if (weft_convolves_complex(x)) {
        return weft_convolve_complex(&c, x, weight, bias, false, NULL);
    }
    weft_call call = make_call(&c, &operation_conv3d, x, weight, bias);
    return weft_dispatch(&call);
}

weft_tensor *weft_conv_transpose3d(weft_tensor *x, weft_tensor *weight, weft_tensor *bias, const weft_convolution3d *options,
                                   const int64_t output_padding[3])
{
    weft_convolution_arguments c = { .function = "weft_conv_transpose3d", .spatial = 3 };
    if (!weft_take_convolution_shape(&c, "x", x, c.result) || !weft_take_convolution_shape(&c, "weight", weight, c.weight) ||
        !weft_take_convolution3d_options(&c, options) || !weft_check_transposed(&c, output_padding) ||
        !weft_check_convolution_bias(&c, bias, c.x[1]) || !check_slices(&c, c.x, c.result[2])) {
        return NULL;
    }
    if (weft_convolves_complex(x)) {
        return weft_convolve_complex(&c, x, weight, bias, true, output_padding);
    }
    weft_call call = make_call(&c, &operation_conv_transpose3d, x, weight, bias);
    call.attributes.num_sizes = 3;
    for (int d = 0; d < 3; d++) {
        call.attributes.sizes[d] = c.x[2 + d];
    }
    return weft_dispatch(&call);
}

const weft_operation *const weft_convolution3d_operations[] = { &operation_conv3d, &operation_conv_transpose3d, NULL };
