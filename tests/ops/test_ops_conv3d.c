/* Convolutions with three spatial dimensions on random shapes, meshes and placements against plain loops, with panels of several
 * heights; in one process that hosts all ranks, or in several. And what moves. WEFT_TEST_CASES says how many cases of each. */
#include "operand.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "ops/backward.h"

/* A transposed convolution has its result in x. */
typedef struct convolution_case {
    weft_convolution3d options;
    int64_t more[3]; /* output padding of the transposed one */
    int64_t x[5], weight[5], result[5];
} convolution_case;

static convolution_case any_convolution(void)
{
    convolution_case c = { .options.groups = below(2) ? 1 : 1 + below(3) };
    int64_t channels = below(8) == 0 ? 0 : 1 + below(3), features = below(8) == 0 ? 0 : 1 + below(3);
    c.x[0] = c.result[0] = below(6);
    c.x[1] = c.options.groups * channels;
    c.weight[0] = c.result[1] = c.options.groups * features;
    c.weight[1] = channels;
    for (int d = 0; d < 3; d++) {
        c.options.stride[d] = 1 + below(3);
        c.options.padding[d] = below(3);
        c.options.dilation[d] = 1 + below(2);
        c.weight[2 + d] = 1 + below(3);
        int64_t least = c.options.dilation[d] * (c.weight[2 + d] - 1) + 1 - 2 * c.options.padding[d];
        c.x[2 + d] = (least > 1 ? least : 1) + below(6);
        c.result[2 + d] = (c.x[2 + d] - least) / c.options.stride[d] + 1;
        c.more[d] = (c.x[2 + d] - least) % c.options.stride[d];
    }
    return c;
}

/* One product of an element of x, one of the weights, and one of the result. */
typedef void (*visit_function)(void *context, int64_t x, int64_t weight, int64_t result);

/* The element of an image under a tap; -1: none. */
static int64_t element_under(const convolution_case *c, int64_t result, int64_t tap)
{
    int64_t element = 0, unit = 1;
    for (int d = 2; d >= 0; d--) {
        int64_t place = result % c->result[2 + d] * c->options.stride[d] +
                        tap % c->weight[2 + d] * c->options.dilation[d] - c->options.padding[d];
        if (place < 0 || place >= c->x[2 + d]) {
            return -1;
        }
        element += place * unit;
        unit *= c->x[2 + d];
        result /= c->result[2 + d];
        tap /= c->weight[2 + d];
    }
    return element;
}

static void visit_products(const convolution_case *c, visit_function visit, void *context)
{
    int64_t image = shape_count(3, c->x + 2), taps = shape_count(3, c->weight + 2), results = shape_count(3, c->result + 2);
    int64_t features = c->weight[0] / c->options.groups;
    for (int64_t at = 0; at < shape_count(5, c->result); at++) {
        int64_t o = at / results % c->result[1], n = at / results / c->result[1];
        for (int64_t k = 0; k < c->weight[1] * taps; k++) {
            int64_t channel = k / taps + o / features * c->weight[1], element = element_under(c, at % results, k % taps);
            if (element >= 0) {
                visit(context, (n * c->x[1] + channel) * image + element, o * c->weight[1] * taps + k, at);
            }
        }
    }
}

typedef struct convolved {
    const double *input, *weight;
    double *expected;
} convolved;

static void add_result(void *context, int64_t x, int64_t weight, int64_t result)
{
    const convolved *c = context;
    c->expected[result] += c->input[x] * c->weight[weight];
}

static void add_transposed(void *context, int64_t x, int64_t weight, int64_t result)
{
    const convolved *c = context;
    c->expected[x] += c->input[result] * c->weight[weight];
}

static const char *describe_convolution(const convolution_case *c, const operand *x, const operand *weight)
{
    static char text[800];
    const weft_convolution3d *o = &c->options;
    snprintf(text, sizeof(text), "%s and %s, stride %dx%dx%d, padding %dx%dx%d, dilation %dx%dx%d, groups %d, %s",
             describe_operand(x), describe_operand(weight), (int)o->stride[0], (int)o->stride[1], (int)o->stride[2],
             (int)o->padding[0], (int)o->padding[1], (int)o->padding[2], (int)o->dilation[0], (int)o->dilation[1],
             (int)o->dilation[2], (int)o->groups, weft_dtype_name(x->dtype));
    return text;
}

static void one_convolution(bool transposed)
{
    convolution_case c = any_convolution();
    weft_mesh *mesh = any_mesh();
    weft_dtype type = any_float_type();
    const int64_t *shape_in = transposed ? c.result : c.x, *shape = transposed ? c.x : c.result;
    bool biased = below(2);
    operand x = make_narrow(mesh, type, 5, shape_in, WHOLE), weight = make_narrow(mesh, type, 5, c.weight, WHOLE),
            bias = make_narrow(mesh, type, 1, &shape[1], WHOLE);
    int64_t count = shape_count(5, shape), image = shape_count(3, shape + 2);
    double *expected = malloc(((size_t)count + 1) * sizeof(double));
    for (int64_t i = 0; i < count; i++) {
        expected[i] = biased ? bias.dense[i / image % shape[1]] : 0;
    }
    visit_products(&c, transposed ? add_transposed : add_result, &(convolved){ x.dense, weight.dense, expected });
    weft_tensor *own_bias = biased ? bias.tensor : NULL;
    weft_tensor *result = transposed ? weft_conv_transpose3d(x.tensor, weight.tensor, own_bias, &c.options, c.more)
                                     : weft_conv3d(x.tensor, weight.tensor, own_bias, &c.options);
    check_narrow(result, type, 5, shape, expected, x.exact && weight.exact && bias.exact ? 0 : 128, 500,
                 describe_convolution(&c, &x, &weight));
    free(expected);
    release(&x);
    release(&weight);
    release(&bias);
}

static void case_conv3d(void)
{
    one_convolution(false);
}

static void case_conv_transpose3d(void)
{
    one_convolution(true);
}

static const family families[] = {
    { "conv3d", case_conv3d },
    { "conv_transpose3d", case_conv_transpose3d },
};

static const suite operations = { families, sizeof(families) / sizeof(families[0]), 40, 1, NULL };

/* ---- what moves ---------------------------------------------------------------------------------------- */

enum { CHANNELS = 4, DEPTH = 8, HEIGHT = 8, WIDTH = 3, SLICE = CHANNELS * HEIGHT * WIDTH * 4, ANY = -1 };

/* Placements of x and the weights on a mesh [ranks] or [ranks, ranks], and of the result; dim -1: Replicate. */
typedef struct movement {
    const char *text;
    int64_t batch, ranks;
    int mesh_dims, x[2], weight[2], result[2];
    int64_t moved, moved_transposed; /* bytes at most; ANY */
} movement;

/* Along a sharded depth a slice goes to each of two neighbours, over three borders. */
static const movement movements[] = {
    { "even batch", 8, 4, 1, { 0 }, { -1 }, { 0 }, 0, 0 },
    { "uneven batch", 7, 4, 1, { 0 }, { -1 }, { 0 }, 0, 0 },
    { "batch with ranks that have nothing", 3, 4, 1, { 0 }, { -1 }, { 0 }, 0, 0 },
    { "features", 2, 4, 1, { -1 }, { 0 }, { 1 }, 0, ANY },
    { "depth", 2, 4, 1, { 2 }, { -1 }, { 2 }, 2 * 3 * 2 * SLICE, 2 * 3 * 2 * SLICE },
    { "height", 2, 4, 1, { 3 }, { -1 }, { 3 }, ANY, ANY },
    { "batch and height", 4, 2, 2, { 0, 3 }, { -1, -1 }, { 0, 3 }, ANY, ANY },
    { "batch and depth", 4, 2, 2, { 0, 2 }, { -1, -1 }, { 0, 3 }, ANY, ANY },
    { "batch and features", 5, 2, 2, { 0, -1 }, { -1, 0 }, { 0, 1 }, 0, ANY },
};

static void place(weft_placement placements[2], const int dims[2])
{
    for (int m = 0; m < 2; m++) {
        placements[m] = dims[m] < 0 ? weft_replicate() : weft_shard(dims[m]);
    }
}

static uint64_t bytes_moved(void)
{
    weft_counters counters;
    weft_get_counters(&counters, sizeof(counters));
    return counters.bytes_moved;
}

static void check_movement(const movement *m, bool transposed)
{
    int64_t ranks[] = { m->ranks, m->ranks }, shape[] = { m->batch, CHANNELS, DEPTH, HEIGHT, WIDTH };
    weft_placement x_at[2], weight_at[2];
    place(x_at, m->x);
    place(weight_at, m->weight);
    weft_mesh *mesh = weft_mesh_create(m->mesh_dims, ranks, NULL);
    weft_tensor *x = weft_ones(WEFT_F32, 5, shape, mesh, x_at);
    weft_tensor *weight = weft_ones(WEFT_F32, 5, (int64_t[]){ CHANNELS, CHANNELS, 3, 3, 3 }, mesh, weight_at);
    const weft_convolution3d options = { .padding = { 1, 1, 1 } };
    uint64_t before = bytes_moved();
    weft_tensor *y = transposed ? weft_conv_transpose3d(x, weight, NULL, &options, NULL) : weft_conv3d(x, weight, NULL, &options);
    int64_t most = transposed ? m->moved_transposed : m->moved, moved = (int64_t)(bytes_moved() - before);
    assert_no_error();
    if (most != ANY && moved > most) {
        fail_msg("%s: %lld bytes move, expected at most %lld", m->text, (long long)moved, (long long)most);
    }
    for (int d = 0; d < m->mesh_dims && !transposed; d++) {
        weft_placement found = weft_tensor_placements(y)[d];
        if ((m->result[d] < 0 ? found.kind != WEFT_REPLICATE : found.kind != WEFT_SHARD || found.dim != m->result[d])) {
            fail_msg("%s: the result is placed otherwise in mesh dimension %d", m->text, d);
        }
    }
    /* Of 3 taps in each dimension, 3 size - 2 meet the image. */
    double sum = 0, terms = (double)m->batch * CHANNELS * CHANNELS * (3 * DEPTH - 2) * (3 * HEIGHT - 2) * (3 * WIDTH - 2);
    assert_int_equal(weft_to_host(weft_sum(weft_to_type(y, WEFT_F64), WEFT_ALL_DIMS, false), &sum, sizeof(sum)), WEFT_OK);
    assert_true(sum == terms);
}

static void test_movement(void **state)
{
    (void)state;
    WORLD(MAX_RANKS);
    for (size_t i = 0; i < sizeof(movements) / sizeof(movements[0]); i++) {
        check_movement(&movements[i], false);
        check_movement(&movements[i], true);
    }
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* A sharded batch: x's gradient moves nothing, and the weights' is reduced beside it. */
static void test_gradients_of_batch(void **state)
{
    (void)state;
    WORLD(MAX_RANKS);
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ 4 }, NULL);
    weft_placement by_batch[] = { weft_shard(0) };
    weft_tensor *x = weft_ones(WEFT_F32, 5, (int64_t[]){ 6, 2, 5, 4, 3 }, mesh, by_batch);
    weft_tensor *weight = weft_ones(WEFT_F32, 5, (int64_t[]){ 3, 2, 2, 2, 2 }, mesh, NULL);
    weft_set_requires_grad(x, true);
    for (int inputs = 1; inputs <= 2; inputs++) {
        weft_set_requires_grad(weight, inputs == 2);
        uint64_t before = bytes_moved();
        weft_tensor *y = weft_conv3d(x, weight, NULL, &(weft_convolution3d){ .stride = { 2, 1, 1 } });
        weft_tensor *ones = weft_ones_like(y), *all[] = { x, weight }, *gradients[2];
        assert_int_equal(weft_gradients(1, &y, &ones, inputs, all, false, gradients), WEFT_OK);
        assert_no_error();
        uint64_t reduced = inputs == 1 ? 0 : 3 * 4 * weft_tensor_bytes(weight);
        assert_true(bytes_moved() - before <= reduced);
        assert_int_equal(weft_tensor_placements(gradients[0])[0].kind, WEFT_SHARD);
    }
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* One infinite value of x, with the depth on one rank or on two, where a sample is added: weights that do not meet the value have a
 * finite gradient. */
static void test_infinite_values(void **state)
{
    (void)state;
    WORLD(MAX_RANKS);
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ 2 }, NULL);
    const double values[] = { 1, 2, 3, INFINITY, 4 };
    for (int sharded = 0; sharded < 2; sharded++) {
        weft_placement placement[] = { sharded ? weft_shard(2) : weft_replicate() };
        weft_tensor *x = weft_distribute(WEFT_F64, 5, (int64_t[]){ 1, 1, 5, 1, 1 }, values, mesh, placement);
        weft_tensor *weight = weft_ones(WEFT_F64, 5, (int64_t[]){ 1, 1, 3, 1, 1 }, mesh, NULL), *gradient;
        weft_set_requires_grad(weight, true);
        weft_tensor *y = weft_conv3d(x, weight, NULL, NULL), *ones = weft_ones(WEFT_F64, 5, (int64_t[]){ 1, 1, 3, 1, 1 }, mesh, placement);
        assert_int_equal(weft_gradients(1, &y, &ones, 1, &weight, false, &gradient), WEFT_OK);
        double found[3];
        assert_int_equal(weft_to_host(gradient, found, sizeof(found)), WEFT_OK);
        assert_true(found[0] == 6 && isinf(found[1]) && isinf(found[2]));
    }
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* Strides far beyond the depth, and an image without rows, whose result has some of padding alone. */
static void test_extreme_sizes(void **state)
{
    (void)state;
    WORLD(MAX_RANKS);
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ 2 }, NULL);
    const weft_convolution3d far = { .stride = { INT32_MAX, 1, 1 } }, padded = { .padding = { 0, 1, 0 } };
    double sum = 0;
    weft_tensor *x = weft_ones(WEFT_F64, 5, (int64_t[]){ 2, 1, 8, 1, 1 }, mesh, (weft_placement[]){ weft_shard(0) });
    weft_tensor *y = weft_conv3d(x, weft_ones(WEFT_F64, 5, (int64_t[]){ 1, 1, 3, 1, 1 }, mesh, NULL), NULL, &far);
    assert_int_equal(weft_to_host(weft_sum(y, WEFT_ALL_DIMS, false), &sum, sizeof(sum)), WEFT_OK);
    assert_true(sum == 6);
    weft_tensor *none = weft_zeros(WEFT_F64, 5, (int64_t[]){ 1, 1, 1, 0, 1 }, mesh, NULL), *gradient;
    weft_set_requires_grad(none, true);
    y = weft_conv3d(none, weft_ones(WEFT_F64, 5, (int64_t[]){ 1, 1, 1, 1, 1 }, mesh, NULL), NULL, &padded);
    weft_tensor *ones = weft_ones_like(y);
    assert_int_equal(weft_gradients(1, &y, &ones, 1, &none, false, &gradient), WEFT_OK);
    assert_int_equal(weft_tensor_shape(gradient)[3], 0);
    assert_no_error();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* Rows sharded over four ranks, three taps with padding 1: what moves is a row from each neighbour, to the
 * result and to the gradients. */
static void test_halo_of_two_dimensions(void **state)
{
    (void)state;
    unsetenv("WEFT_PANEL_ROWS");
    WORLD(MAX_RANKS);
    enum { N = 2, IMAGES = 3, H = 18, W = 5 };
    int64_t four[] = { 4 }, shape[] = { N, IMAGES, H, W }, shape_weight[] = { 6, IMAGES, 3, 3 };
    weft_mesh *mesh = weft_mesh_create(1, four, NULL);
    weft_placement by_rows[] = { weft_shard(2) };
    weft_convolution options = { .padding = { 1, 1 } };
    weft_tensor *x = weft_ones(WEFT_F32, 4, shape, mesh, by_rows),
                *weight = weft_ones(WEFT_F32, 4, shape_weight, mesh, NULL);
    weft_counters counters[3];
    weft_get_counters(&counters[0], sizeof(counters[0]));
    weft_tensor *y = weft_conv2d(x, weight, NULL, &options);
    weft_get_counters(&counters[1], sizeof(counters[1]));
    weft_tensor *dx = weft_conv2d_backward_input(y, weight, shape, &options);
    weft_get_counters(&counters[2], sizeof(counters[2]));
    assert_no_error();
    assert_int_equal(weft_tensor_placements(y)[0].kind, WEFT_SHARD);
    assert_int_equal(weft_tensor_placements(y)[0].dim, 2);
    assert_int_equal(weft_tensor_placements(dx)[0].dim, 2);
    uint64_t rows = weft_num_processes() == 1 ? 6 : 0; /* else only part of them is received here */
    uint64_t row = N * IMAGES * W * sizeof(float),
             forward = counters[1].bytes_moved - counters[0].bytes_moved,
             backward = counters[2].bytes_moved - counters[1].bytes_moved;
    assert_true(rows == 0 || forward == rows * row);
    assert_true(rows == 0 || backward == rows * 2 * row);
    assert_true(forward <= 6 * row && backward <= 12 * row);
    weft_tensor *dweight = weft_conv2d_backward_weight(y, x, shape_weight, &options);
    assert_no_error();
    assert_int_equal(weft_tensor_placements(dweight)[0].kind, WEFT_PARTIAL);
    double sum = 0;
    assert_int_equal(
        weft_to_host(weft_to_type(weft_sum(y, WEFT_ALL_DIMS, false), WEFT_F64), &sum, sizeof(sum)), WEFT_OK);
    /* Of 3 x 3 taps, 3 H - 2 times 3 W - 2 meet the image. */
    assert_true(sum == (double)(N * 6 * IMAGES * (3 * H - 2) * (3 * W - 2)));
    assert_int_equal(weft_finalize(), WEFT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_infinite_values),
        cmocka_unit_test(test_extreme_sizes),
        cmocka_unit_test(test_movement),
        cmocka_unit_test(test_halo_of_two_dimensions),
        cmocka_unit_test(test_gradients_of_batch),
    };
    return run_suite(&operations, tests, sizeof(tests) / sizeof(tests[0]));
}
