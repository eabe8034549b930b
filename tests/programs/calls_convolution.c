/* Convolutions: products.h. All are one loop nest; they differ in which array is the sum. */
#include "sums.h"

#include "ops/backward.h"

CALLS(conv2d, out[0] = weft_conv2d(in[0], in[1], in[2],
                                   &(weft_convolution){ 0, { whole[0], whole[1] },
                                                        { whole[2], whole[3] },
                                                        { whole[4], whole[5] },
                                                        whole[6] }))
CALLS(conv1d, out[0] = weft_conv1d(in[0], in[1], in[2],
                                   &(weft_convolution){ 0, { whole[0], whole[1] },
                                                        { whole[2], whole[3] },
                                                        { whole[4], whole[5] },
                                                        whole[6] }))
CALLS(conv2d_backward_input, out[0] = weft_conv2d_backward_input(in[0], in[1], shape,
                                                                 &(weft_convolution){ 0, { whole[0], whole[1] },
                                                                                      { whole[2], whole[3] },
                                                                                      { whole[4], whole[5] },
                                                                                      whole[6] }))
CALLS(conv1d_backward_input, out[0] = weft_conv1d_backward_input(in[0], in[1], shape,
                                                                 &(weft_convolution){ 0, { whole[0], whole[1] },
                                                                                      { whole[2], whole[3] },
                                                                                      { whole[4], whole[5] },
                                                                                      whole[6] }))
CALLS(conv2d_backward_weight,
      out[0] = weft_conv2d_backward_weight(in[0], in[1], shape,
                                           &(weft_convolution){ 0, { whole[0], whole[1] },
                                                                { whole[2], whole[3] },
                                                                { whole[4], whole[5] },
                                                                whole[6] }))
CALLS(conv1d_backward_weight,
      out[0] = weft_conv1d_backward_weight(in[0], in[1], shape,
                                           &(weft_convolution){ 0, { whole[0], whole[1] },
                                                                { whole[2], whole[3] },
                                                                { whole[4], whole[5] },
                                                                whole[6] }))

CALLS(conv_transpose2d, out[0] = weft_conv_transpose2d(in[0], in[1], in[2],
                                                       &(weft_convolution){ 0, { whole[0], whole[1] },
                                                                            { whole[2], whole[3] },
                                                                            { whole[4], whole[5] },
                                                                            whole[6] },
                                                       (int64_t[]){ whole[7], whole[8] }))
CALLS(conv_transpose1d, out[0] = weft_conv_transpose1d(in[0], in[1], in[2],
                                                       &(weft_convolution){ 0, { whole[0], whole[1] },
                                                                            { whole[2], whole[3] },
                                                                            { whole[4], whole[5] },
                                                                            whole[6] },
                                                       (int64_t[]){ whole[7] }))
CALLS(conv_transpose3d, out[0] = weft_conv_transpose3d(in[0], in[1], in[2],
                                                       &(weft_convolution3d){ 0, { whole[0], whole[1], whole[2] },
                                                                              { whole[3], whole[4], whole[5] },
                                                                              { whole[6], whole[7], whole[8] },
                                                                              whole[9] },
                                                       (int64_t[]){ whole[10], whole[11], whole[12] }))
CALLS(conv3d, out[0] = weft_conv3d(in[0], in[1], in[2],
                                   &(weft_convolution3d){ 0, { whole[0], whole[1], whole[2] },
                                                          { whole[3], whole[4], whole[5] },
                                                          { whole[6], whole[7], whole[8] },
                                                          whole[9] }))

/* The array that a row computes. */
typedef enum wanted { RESULT, OF_INPUT, OF_WEIGHT } wanted;
typedef struct convolution {
    int spatial; /* dimensions: 1 to 3 */
    wanted wanted;
} convolution;

static const convolution details_conv3d = { 3, RESULT }, details_conv2d = { 2, RESULT }, details_conv1d = { 1, RESULT };
static const convolution details_conv2d_backward_input = { 2, OF_INPUT },
                         details_conv1d_backward_input = { 1, OF_INPUT };
static const convolution details_conv2d_backward_weight = { 2, OF_WEIGHT },
                         details_conv1d_backward_weight = { 1, OF_WEIGHT };

/* Sizes of the loop nest, with three spatial dimensions; missing ones are the first and have size 1. */
typedef struct loops {
    int64_t n, c, o;
    int64_t input[3], taps[3], result[3];
    int64_t stride[3], padding[3], dilation[3], groups;
} loops;

/* A step's whole numbers: strides, paddings and dilations, so many of each, then groups. */
static int options_of(int spatial)
{
    return spatial == 3 ? 3 : 2;
}

static int64_t size_of_result(int64_t size, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation)
{
    int64_t room = size + 2 * padding - dilation * (kernel - 1) - 1;
    return room < 0 ? -1 : room / stride + 1;
}

/* From the shapes of input and weight; false: they do not fit. */
static bool find_loops(const int64_t wholes[], int spatial, const int64_t input[], const int64_t weight[],
                       loops *l)
{
    int each = options_of(spatial);
    *l = (loops){ .n = input[0], .c = input[1], .o = weight[0], .groups = wholes[3 * each] == 0 ? 1 : wholes[3 * each] };
    bool fits = l->groups > 0 && l->c % l->groups == 0 && l->o % l->groups == 0 && weight[1] == l->c / l->groups;
    for (int d = 0; d < 3; d++) {
        int from = d - (3 - spatial);
        l->input[d] = from < 0 ? 1 : input[2 + from];
        l->taps[d] = from < 0 ? 1 : weight[2 + from];
        l->stride[d] = from < 0 || wholes[from] == 0 ? 1 : wholes[from];
        l->padding[d] = from < 0 ? 0 : wholes[each + from];
        l->dilation[d] = from < 0 || wholes[2 * each + from] == 0 ? 1 : wholes[2 * each + from];
        l->result[d] = size_of_result(l->input[d], l->taps[d], l->stride[d], l->padding[d], l->dilation[d]);
        fits &= l->taps[d] > 0 && l->result[d] >= 0;
    }
    return fits;
}

static int64_t positions(const int64_t sizes[3])
{
    return sizes[0] * sizes[1] * sizes[2];
}

/* The index of the input's element under a tap in an image of it; -1: none. */
static int64_t place_under(const loops *l, int64_t result, int64_t tap)
{
    int64_t place = 0, unit = 1;
    for (int d = 2; d >= 0; d--) {
        int64_t i = result % l->result[d] * l->stride[d] - l->padding[d] + tap % l->taps[d] * l->dilation[d];
        if (i < 0 || i >= l->input[d]) {
            return -1;
        }
        place += i * unit;
        unit *= l->input[d];
        result /= l->result[d];
        tap /= l->taps[d];
    }
    return place;
}

/* Adds each product to the sum that it belongs to. */
static void add_products(const loops *l, sums *sum, const dense *a, const dense *b, wanted of)
{
    int64_t own = l->c / l->groups, features = l->o / l->groups;
    int64_t image = positions(l->input), taps = positions(l->taps), results = positions(l->result);
    for (int64_t at = 0; at < l->n * l->o * results; at++) {
        int64_t o = at / results % l->o, n = at / results / l->o;
        for (int64_t k = 0; k < own * taps; k++) {
            int64_t c = k / taps + o / features * own, place = place_under(l, at % results, k % taps);
            bool inside = place >= 0;
            if (!inside && of == OF_INPUT) {
                continue;
            }
            int64_t in_x = (n * l->c + c) * image + place, in_weight = o * own * taps + k;
            int64_t to = of == RESULT ? at : of == OF_INPUT ? in_x : in_weight;
            int64_t in_a = of == RESULT ? in_x : at, in_b = of == OF_WEIGHT ? in_x : in_weight;
            if (!inside) { /* a zero that is padded: of what is infinite it may make NaN, or nothing */
                sum->unsure[to] |= !isfinite(of == RESULT ? b->at[in_b].real : a->at[in_a].real);
                continue;
            }
            sum->values[to] += a->at[in_a].real * b->at[in_b].real;
            sum->masses[to] += mass_at(a, in_a) * mass_at(b, in_b);
            sum->counts[to]++;
        }
    }
}

/* The result's shape, with the spatial dimensions that there are. */
static void shape_of_result(const loops *l, int spatial, int64_t shape[])
{
    shape[0] = l->n;
    shape[1] = l->o;
    for (int d = 0; d < spatial; d++) {
        shape[2 + d] = l->result[3 - spatial + d];
    }
}

static bool convolved(scene *s)
{
    const convolution *c = s->step->operation->details;
    const dense *a = s->in[0], *b = s->in[1], *bias = c->wanted == RESULT ? s->in[2] : NULL;
    int ndim = c->spatial + 2;
    if (a == NULL || b == NULL || a->ndim != ndim || b->ndim != ndim || !is_floating(a->dtype) ||
        a->dtype != b->dtype || s->step->num_wholes < 3 * options_of(c->spatial) + 1 || (c->wanted != RESULT && s->step->ndim != ndim)) {
        return false;
    }
    const int64_t *given = s->step->shape;
    const int64_t *input = c->wanted == RESULT ? a->shape : c->wanted == OF_INPUT ? given : b->shape;
    const int64_t *weight = c->wanted == OF_WEIGHT ? given : b->shape;
    loops l;
    if (!find_loops(s->step->wholes, c->spatial, input, weight, &l)) {
        return false;
    }
    int64_t result[5];
    shape_of_result(&l, c->spatial, result);
    for (int d = 0; d < ndim && c->wanted != RESULT; d++) {
        if (a->shape[d] != result[d]) {
            return false;
        }
    }
    if (bias != NULL && (bias->ndim != 1 || bias->shape[0] != l.o || bias->dtype != a->dtype)) {
        return false;
    }
    dense *out = scene_output(s, 0, a->dtype, ndim, c->wanted == RESULT ? result : given);
    sums sum = sums_new(s, out->count);
    add_products(&l, &sum, a, b, c->wanted);
    double unit = dense_unit(a) * dense_unit(b);
    for (int64_t i = 0; bias != NULL && i < out->count; i++) {
        add_to_sum(&sum, out, i, bias, i / positions(l.result) % l.o);
    }
    finish_sums(s, &sum, out, bias == NULL ? unit : fmin(unit, dense_unit(bias)));
    distrust_infinite(s, out);
    return true;
}

/* ---- transposed ---------------------------------------------------------------------------------------- */

static const int details_conv_transpose3d = 3, details_conv_transpose2d = 2, details_conv_transpose1d = 1;
/* Behind the numbers of a convolution: output padding. */
static int numbers_of_transposed(int spatial)
{
    return 4 * options_of(spatial) + 1;
}

/* The shape of the convolution's input, from that of its result. False: they do not fit. */
static bool find_input(const int64_t wholes[], int spatial, const int64_t result[], const int64_t weight[], int64_t input[])
{
    int each = options_of(spatial);
    int64_t groups = wholes[3 * each] == 0 ? 1 : wholes[3 * each];
    bool right = groups > 0 && weight[0] == result[1];
    input[0] = result[0];
    input[1] = weight[1] * groups;
    for (int d = 0; d < spatial; d++) {
        int64_t stride = wholes[d] == 0 ? 1 : wholes[d], dilation = wholes[2 * each + d] == 0 ? 1 : wholes[2 * each + d];
        int64_t more = wholes[3 * each + 1 + d];
        input[2 + d] = (result[2 + d] - 1) * stride - 2 * wholes[each + d] + dilation * (weight[2 + d] - 1) + 1 + more;
        right &= more >= 0 && more < stride && result[2 + d] > 0 && input[2 + d] > 0;
    }
    return right;
}

static bool transposed(scene *s)
{
    int spatial = *(const int *)s->step->operation->details, ndim = spatial + 2;
    const dense *x = s->in[0], *weight = s->in[1], *bias = s->in[2];
    int64_t input[5];
    loops l;
    if (x == NULL || weight == NULL || x->ndim != ndim || weight->ndim != ndim || !is_floating(x->dtype) ||
        x->dtype != weight->dtype || s->step->num_wholes < numbers_of_transposed(spatial) ||
        !find_input(s->step->wholes, spatial, x->shape, weight->shape, input) ||
        !find_loops(s->step->wholes, spatial, input, weight->shape, &l) ||
        (bias != NULL && (bias->ndim != 1 || bias->shape[0] != input[1] || bias->dtype != x->dtype))) {
        return false;
    }
    dense *out = scene_output(s, 0, x->dtype, ndim, input);
    sums sum = sums_new(s, out->count);
    add_products(&l, &sum, x, weight, OF_INPUT);
    double unit = dense_unit(x) * dense_unit(weight);
    for (int64_t i = 0; bias != NULL && i < out->count; i++) {
        add_to_sum(&sum, out, i, bias, i / positions(l.input) % l.c);
    }
    finish_sums(s, &sum, out, bias == NULL ? unit : fmin(unit, dense_unit(bias)));
    distrust_infinite(s, out);
    return true;
}

/* ---- making -------------------------------------------------------------------------------------------- */

/* Options and shapes that fit together. */
static void any_convolution(maker *m, step *s, int spatial, int64_t input[], int64_t weight[])
{
    int64_t groups = one_in(m, 3) ? 2 : 1;
    int each = options_of(spatial);
    s->num_wholes = 3 * each + 1;
    for (int d = 0; d < each; d++) {
        s->wholes[d] = between(m, one_in(m, 3) ? 0 : 1, 2);
        s->wholes[each + d] = below(m, 3);
        s->wholes[2 * each + d] = between(m, one_in(m, 3) ? 0 : 1, 2);
    }
    s->wholes[3 * each] = groups == 1 ? below(m, 2) : groups;
    input[0] = one_in(m, 20) ? 0 : between(m, 1, 3);
    input[1] = groups * between(m, 1, 2);
    weight[0] = groups * between(m, 1, 2);
    weight[1] = input[1] / groups;
    for (int d = 0; d < spatial; d++) {
        weight[2 + d] = between(m, 1, 3);
        input[2 + d] = between(m, 1, spatial == 1 ? 12 : spatial == 2 ? 6 : 4);
    }
}

static bool make_convolution(maker *m, step *s)
{
    const convolution *c = s->operation->details;
    int64_t input[5], weight[5], result[5];
    loops l;
    step made = step_of(s->operation, 2, NO_VALUE, NO_VALUE);
    any_convolution(m, &made, c->spatial, input, weight);
    if (!find_loops(made.wholes, c->spatial, input, weight, &l)) {
        return false;
    }
    int ndim = c->spatial + 2;
    shape_of_result(&l, c->spatial, result);
    const int64_t *of_a = c->wanted == RESULT ? input : result,
                  *of_b = c->wanted == OF_WEIGHT ? input : weight;
    int a = choose_value(m, &(wish){ .types = FLOATS, .mesh = -1, .least = ndim, .shape = of_a });
    if (a == NO_VALUE) {
        return false;
    }
    unsigned types = BIT(value_of(m, a)->dtype);
    made.inputs[0] = a;
    made.inputs[1] = choose_like(m, a, types, ndim, of_b);
    if (c->wanted == RESULT) {
        made.num_inputs = 3;
        made.inputs[2] = one_in(m, 2) ? NO_VALUE : choose_like(m, a, types, 1, weight);
    } else {
        made.ndim = ndim;
        for (int d = 0; d < ndim; d++) {
            made.shape[d] = c->wanted == OF_INPUT ? input[d] : weight[d];
        }
    }
    *s = made;
    return s->inputs[1] != NO_VALUE;
}

static bool make_transposed(maker *m, step *s)
{
    int spatial = *(const int *)s->operation->details, ndim = spatial + 2;
    int each = options_of(spatial);
    int64_t result[5], weight[5], input[5];
    step made = step_of(s->operation, 3, NO_VALUE, NO_VALUE, NO_VALUE);
    any_convolution(m, &made, spatial, result, weight);
    weight[0] = result[1];
    weight[1] = between(m, 1, 2);
    made.num_wholes = numbers_of_transposed(spatial);
    for (int d = 0; d < each; d++) {
        made.wholes[3 * each + 1 + d] = below(m, made.wholes[d] == 0 ? 1 : made.wholes[d]);
    }
    for (int d = 0; d < spatial; d++) {
        result[2 + d] = between(m, 1, spatial == 3 ? 3 : 4);
    }
    int a = find_input(made.wholes, spatial, result, weight, input)
                ? choose_value(m, &(wish){ .types = FLOATS, .mesh = -1, .least = ndim, .shape = result })
                : NO_VALUE;
    if (a == NO_VALUE) {
        return false;
    }
    unsigned types = BIT(value_of(m, a)->dtype);
    made.inputs[0] = a;
    made.inputs[1] = choose_like(m, a, types, ndim, weight);
    made.inputs[2] = one_in(m, 2) ? NO_VALUE : choose_like(m, a, types, 1, &input[1]);
    *s = made;
    return s->inputs[1] != NO_VALUE;
}

#define CONVOLUTION(name_)                                                                                   \
    ROW(name_, make_convolution, convolved, .details = &details_##name_, .flags = MAY_BE_PARTIAL, .weight = 5)

const operation convolution_calls[] = {
    CONVOLUTION(conv3d),
    CONVOLUTION(conv2d),
    CONVOLUTION(conv1d),
    CONVOLUTION(conv2d_backward_input),
    CONVOLUTION(conv1d_backward_input),
    CONVOLUTION(conv2d_backward_weight),
    CONVOLUTION(conv1d_backward_weight),
    ROW(conv_transpose3d, make_transposed, transposed, .details = &details_conv_transpose3d, .flags = MAY_BE_PARTIAL, .weight = 5),
    ROW(conv_transpose2d, make_transposed, transposed, .details = &details_conv_transpose2d, .flags = MAY_BE_PARTIAL, .weight = 5),
    ROW(conv_transpose1d, make_transposed, transposed, .details = &details_conv_transpose1d, .flags = MAY_BE_PARTIAL, .weight = 5),
    { .name = NULL },
};
