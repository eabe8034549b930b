/* Order of additions in operations: a function of layouts alone. Each is run in the same forced
 * combinations of strategies in two worlds: one of this process alone, and that of the test, whose ranks
 * may be spread over several processes. Every rank must get the same bits in both, and replicas in each.
 * Large cancelling numbers make other orders visible. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "forced_calls.h"
#include "ops/backward.h"
#include "values.h"

enum { CASES = 12, WAYS = 3 };

/* ---- what is called ------------------------------------------------------------------------------------ */

static void draw_one(plan *p)
{
    int64_t shape[] = { 1 + below(12), 1 + below(9), 1 + below(5) };
    int ndim = 1 + (int)below(3);
    add_input(p, p->dtype, ndim, shape);
    p->dim = (int)below(ndim);
}

/* Numbers that may be exponents. */
static void draw_small(plan *p)
{
    draw_one(p);
    p->large = 1;
}

static void draw_small_like(plan *p)
{
    draw_small(p);
    add_input(p, p->dtype, p->inputs[0].ndim, p->inputs[0].shape);
}

static void draw_two(plan *p)
{
    draw_one(p);
    add_input(p, p->dtype, p->inputs[0].ndim, p->inputs[0].shape);
}

static void draw_product(plan *p)
{
    int64_t m = 1 + below(7), n = 1 + below(7), k = 1 + below(12);
    p->first = below(2);
    p->second = below(2);
    add_input(p, p->dtype, 2, p->first ? (int64_t[]){ k, m } : (int64_t[]){ m, k });
    add_input(p, p->dtype, 2, p->second ? (int64_t[]){ n, k } : (int64_t[]){ k, n });
}

static void draw_convolution(plan *p)
{
    int64_t x[] = { 1 + below(5), 1 + below(4), 3 + below(9) }, weight[] = { 1 + below(4), x[1], 3 };
    int64_t y[] = { x[0], weight[0], x[2] - 2 };
    add_input(p, p->dtype, 3, x);
    add_input(p, p->dtype, 3, weight);
    add_input(p, p->dtype, 3, y);
}

/* Images, and gradients of windows of three elements with padding. */
static void draw_image(plan *p)
{
    int64_t shape[] = { 1 + below(5), 1 + below(12) };
    add_input(p, p->dtype, 2, shape);
    add_input(p, p->dtype, 2, shape);
}

/* A gradient of rows, and where they go. */
static void draw_rows(plan *p)
{
    int64_t shape[] = { 1 + below(12), 1 + below(5) };
    p->size = 1 + below(7);
    add_input(p, p->dtype, 2, shape);
    add_indices(p, WEFT_I64, 1, shape, p->size);
}

static void draw_addition(plan *p)
{
    int64_t shape[] = { 1 + below(7), 1 + below(5) }, n = 1 + below(12);
    add_input(p, p->dtype, 2, shape);
    add_indices(p, WEFT_I64, 1, &n, shape[0]);
    add_input(p, p->dtype, 2, (int64_t[]){ n, shape[1] });
}

static void draw_classes(plan *p)
{
    int64_t shape[] = { 1 + below(12), 1 + below(6) };
    add_input(p, p->dtype, 2, shape);
    add_indices(p, WEFT_I64, 1, shape, shape[1]);
    p->large = 1;
}

static void draw_norm(plan *p)
{
    int64_t shape[] = { 1 + below(12), 1 + below(6) };
    add_input(p, p->dtype, 2, shape);
    add_input(p, p->dtype, 2, shape);
    add_input(p, p->dtype, 1, shape + 1);
    p->large = 1;
}

static void draw_attention(plan *p)
{
    int64_t s = 1 + below(6), t = 1 + below(9), e = 1 + below(4);
    add_input(p, p->dtype, 3, (int64_t[]){ 2, s, e });
    add_input(p, p->dtype, 3, (int64_t[]){ 2, t, e });
    add_input(p, p->dtype, 3, (int64_t[]){ 2, t, 3 });
    p->first = below(2);
    p->large = 1;
}

CALL(sum, weft_sum(in[0], p->dim, false))
CALL(mean, weft_mean(in[0], p->dim, true))
CALL(prod, weft_prod(in[0], p->dim, false))
CALL(norm, weft_norm(in[0], 2, p->dim, false))
CALL(norm_all, weft_norm(in[0], 1, WEFT_ALL_DIMS, false))
CALL(variance, weft_var(in[0], p->dim, 0, false))
CALL(sum_all, weft_sum(in[0], WEFT_ALL_DIMS, false))
CALL(mean_all, weft_mean(in[0], WEFT_ALL_DIMS, false))
CALL(cumsum, weft_cumsum(in[0], p->dim))
CALL(add, weft_add(in[0], in[1]))
CALL(dot, weft_dot(weft_flatten(in[0], 0, -1), weft_flatten(in[1], 0, -1)))
CALL(matmul, weft_matmul_ex(in[0], p->first, in[1], p->second))
CALL(conv, weft_conv1d(in[0], in[1], NULL, NULL))
CALL(conv_input, weft_conv1d_backward_input(in[2], in[1], p->inputs[0].shape, NULL))
CALL(conv_transpose, weft_conv_transpose1d(in[2], in[1], NULL, NULL, NULL))
CALL(conv_weight, weft_conv1d_backward_weight(in[2], in[0], p->inputs[1].shape, NULL))

/* w as the depth, beside images of one element. */
static weft_tensor *deep(weft_tensor *a)
{
    return weft_unsqueeze(weft_unsqueeze(a, -1), -1);
}
CALL(conv3d, weft_conv3d(deep(in[0]), deep(in[1]), NULL, NULL))
CALL(conv_transpose3d, weft_conv_transpose3d(deep(in[2]), deep(in[1]), NULL, NULL, NULL))
static const weft_pooling three = { .kernel = { 3 }, .stride = { 1 }, .padding = { 1 } };
CALL(avg_pool, weft_avg_pool(in[0], 1, &three))

/* `largest`: of weft_max_pool(). */
static weft_tensor *pooling_gradient(weft_tensor *const in[], bool largest)
{
    weft_tensor *a = weft_detach(in[0]), *gradient = NULL;
    weft_set_requires_grad(a, true);
    weft_tensor *result = largest ? weft_max_pool(a, 1, &three, NULL) : weft_avg_pool(a, 1, &three);
    return weft_gradients(1, &result, &in[1], 1, &a, false, &gradient) == WEFT_OK ? gradient : NULL;
}
CALL(avg_pool_backward, pooling_gradient(in, false))
CALL(max_pool_backward, pooling_gradient(in, true))
CALL(embedding_backward, weft_embedding_backward(in[0], in[1], p->size))
CALL(scatter_mean, weft_scatter_reduce(weft_cumsum(in[0], 0), 0, weft_expand(weft_unsqueeze(in[1], 1), 2, p->inputs[2].shape), in[2], WEFT_AVG, true))
CALL(segment_sum, weft_segment_sum(in[2], in[1], p->inputs[0].shape[0]))
CALL(index_add, weft_index_add(in[0], 0, in[1], in[2]))
CALL(softmax, weft_softmax(in[0], p->dim))
CALL(softmax_backward, weft_softmax_backward(in[0], in[1], p->dim))
CALL(cross_entropy, weft_cross_entropy(in[0], in[1], NULL))
CALL(cross_entropy_backward, weft_cross_entropy_backward(NULL, in[0], in[1]))
CALL(mse, weft_mse(in[0], in[1], WEFT_LOSS_MEAN))
CALL(layer_norm, weft_layer_norm(in[0], in[2], in[2], 1e-5))

/* `which`: of a, the gain or the bias. */
static weft_tensor *norm_gradient(weft_tensor *const in[], int which)
{
    weft_tensor *all[3] = { NULL };
    all[0] = weft_layer_norm_backward(in[1], in[0], in[2], 1e-5, &all[1], &all[2]);
    return all[which];
}
CALL(layer_norm_backward, norm_gradient(in, 0))
CALL(layer_norm_gain, norm_gradient(in, 1))
CALL(layer_norm_bias, norm_gradient(in, 2))

CALL(attention_q, attention_gradient(p, in, 0))
CALL(attention_k, attention_gradient(p, in, 1))
CALL(attention_v, attention_gradient(p, in, 2))

/* The gradients scaled by the norm of both. */
static weft_tensor *call_clip(const plan *p, weft_tensor *const in[])
{
    (void)p;
    weft_tensor *both[] = { weft_scale(in[0], 1), weft_scale(in[1], 1) };
    return weft_clip_grad_norm(2, both, 1, 2, NULL) == WEFT_OK ? both[1] : NULL;
}

static const program programs[] = {
    { THIS_ROW, "sum", draw_one, call_sum },
    { THIS_ROW, "mean", draw_one, call_mean },
    { THIS_ROW, "prod", draw_small, call_prod },
    { THIS_ROW, "norm", draw_one, call_norm },
    { THIS_ROW, "norm_all", draw_one, call_norm_all },
    { THIS_ROW, "variance", draw_one, call_variance },
    { THIS_ROW, "sum_all", draw_one, call_sum_all },
    { THIS_ROW, "mean_all", draw_one, call_mean_all },
    { THIS_ROW, "cumsum", draw_one, call_cumsum },
    { THIS_ROW, "add", draw_two, call_add },
    { THIS_ROW, "dot", draw_two, call_dot },
    { THIS_ROW, "matmul", draw_product, call_matmul },
    { THIS_ROW, "conv1d", draw_convolution, call_conv },
    { THIS_ROW, "conv1d_backward_input", draw_convolution, call_conv_input },
    { THIS_ROW, "conv_transpose1d", draw_convolution, call_conv_transpose },
    { THIS_ROW, "conv1d_backward_weight", draw_convolution, call_conv_weight },
    { THIS_ROW, "conv3d", draw_convolution, call_conv3d },
    { THIS_ROW, "conv_transpose3d", draw_convolution, call_conv_transpose3d },
    { THIS_ROW, "avg_pool", draw_image, call_avg_pool },
    { THIS_ROW, "avg_pool_backward", draw_image, call_avg_pool_backward },
    { THIS_ROW, "max_pool_backward", draw_image, call_max_pool_backward },
    { THIS_ROW, "embedding_backward", draw_rows, call_embedding_backward },
    { THIS_ROW, "index_add", draw_addition, call_index_add },
    { THIS_ROW, "scatter_reduce", draw_addition, call_scatter_mean },
    { THIS_ROW, "segment_sum", draw_addition, call_segment_sum },
    { THIS_ROW, "softmax", draw_small, call_softmax },
    { THIS_ROW, "softmax_backward", draw_small_like, call_softmax_backward },
    { THIS_ROW, "cross_entropy", draw_classes, call_cross_entropy },
    { THIS_ROW, "cross_entropy_backward", draw_classes, call_cross_entropy_backward },
    { THIS_ROW, "mse", draw_two, call_mse },
    { THIS_ROW, "layer_norm", draw_norm, call_layer_norm },
    { THIS_ROW, "layer_norm_backward of a", draw_norm, call_layer_norm_backward },
    { THIS_ROW, "layer_norm_backward of the gain", draw_norm, call_layer_norm_gain },
    { THIS_ROW, "layer_norm_backward of the bias", draw_norm, call_layer_norm_bias },
    { THIS_ROW, "attention", draw_attention, call_attention },
    { THIS_ROW, "attention_backward of q", draw_attention, call_attention_q },
    { THIS_ROW, "attention_backward of k", draw_attention, call_attention_k },
    { THIS_ROW, "attention_backward of v", draw_attention, call_attention_v },
    { THIS_ROW, "clip_grad_norm", draw_two, call_clip },
};
enum { NUM_PROGRAMS = sizeof(programs) / sizeof(programs[0]) };

/* ---- what ranks have got ------------------------------------------------------------------------------- */

/* A result of the first world: its shards' bytes, by rank. */
typedef struct record {
    size_t size[MAX_RANKS];
    char *bytes[MAX_RANKS];
} record;

static record records[NUM_PROGRAMS * CASES * WAYS];
static int num_records, next_record;
static bool recording;

static bool keep(const hosted_shard *found, const void *unused, char *text, size_t size)
{
    record *r = &records[num_records];
    size_t bytes = *(const size_t *)unused * (size_t)found->count;
    (void)text;
    (void)size;
    r->size[found->rank] = bytes;
    r->bytes[found->rank] = malloc(bytes + 1);
    memcpy(r->bytes[found->rank], found->values, bytes);
    return true;
}

static bool is_kept(const hosted_shard *found, const void *element_size, char *text, size_t size)
{
    const record *r = &records[next_record];
    size_t bytes = *(const size_t *)element_size * (size_t)found->count;
    if (r->size[found->rank] != bytes) {
        snprintf(text, size, "%d bytes, and in one process %d", (int)bytes, (int)r->size[found->rank]);
        return false;
    }
    snprintf(text, size, "other bits than in one process");
    return memcmp(r->bytes[found->rank], found->values, bytes) == 0;
}

static void compare(weft_tensor *result, const char *what)
{
    size_t element_size = weft_dtype_size(weft_tensor_dtype(result));
    if (recording) {
        assert_shards(result, keep, &element_size, what);
        num_records++;
    } else {
        assert_true(next_record < num_records);
        assert_shards(result, is_kept, &element_size, what);
        next_record++;
    }
}

static void forget(void)
{
    for (int i = 0; i < num_records; i++) {
        for (int rank = 0; rank < MAX_RANKS; rank++) {
            free(records[i].bytes[rank]);
        }
    }
    memset(records, 0, sizeof(records));
    num_records = next_record = 0;
}

/* ---- cases --------------------------------------------------------------------------------------------- */

typedef struct input {
    weft_mesh *mesh;
    weft_placement placements[3];
    int ndim;
    const int64_t *shape;
    int64_t limit;
    weft_dtype dtype;
    double large;
    uint64_t salt;
} input;

/* Of an element at a mesh coordinate: replicas have one value, addends each their own. Indices are not
 * Partial. */
static double value_of(const input *x, const int64_t coordinate[], int64_t element)
{
    prng random = { x->salt + (uint64_t)element * 1000003u };
    for (int m = 0; m < weft_mesh_ndim(x->mesh); m++) {
        bool partial = x->placements[m].kind == WEFT_PARTIAL;
        random.state = random.state * 31 + (partial ? (uint64_t)coordinate[m] + 1 : 0);
    }
    if (x->limit > 0) {
        return (double)prng_below(&random, x->limit);
    }
    const double factors[] = { 1, 1, x->large, -x->large };
    double factor = factors[prng_below(&random, 4)];
    return factor * ((double)prng_below(&random, 6001) / 1000.0 - 3.0);
}

static void write_values(const hosted_shard *shard, const void *context)
{
    const input *x = context;
    for (int64_t i = 0; i < shard->count; i++) {
        int64_t element = shard_element(shard, x->ndim, x->shape, i);
        double value = value_of(x, shard->coordinate, element);
        float narrow = (float)value;
        if (x->dtype == WEFT_BF16) { /* the upper half of it */
            uint32_t bits;
            memcpy(&bits, &narrow, sizeof(bits));
            ((uint16_t *)shard->values)[i] = (uint16_t)(bits >> 16);
        } else {
            write_as(x->dtype, shard->values, i, value);
        }
    }
}

static weft_tensor *make_input(const plan *p, weft_mesh *mesh, int i, char *text, size_t size)
{
    input x = { .mesh = mesh, .large = p->large, .salt = prng_next(&source) };
    x.ndim = p->inputs[i].ndim;
    x.shape = p->inputs[i].shape;
    x.limit = p->inputs[i].limit;
    x.dtype = p->inputs[i].dtype;
    random_placements(&source, mesh, x.ndim, x.limit == 0, x.placements);
    random_cut_sizes(&source, mesh, x.ndim, x.shape, x.placements);
    weft_tensor *tensor = make_of_shards(x.dtype, x.ndim, x.shape, mesh, x.placements, write_values, &x);
    snprintf(text, size, " %s", describe(mesh, x.placements, x.ndim, x.shape));
    return tensor;
}

/* The call in one way. Returns how many there are. */
static int64_t run_once(const program *run, const plan *p, weft_tensor *const in[], int64_t combination,
                        const char *what)
{
    int64_t combinations;
    weft_tensor *result = call_forced(run, p, in, combination, &combinations);
    if (result == NULL) {
        return combinations;
    }
    weft_tensor *reduced = without_partial(result);
    assert_no_error();
    compare(reduced, what);
    return combinations;
}

static void run_case(const program *run)
{
    static const weft_dtype types[] = { WEFT_F32, WEFT_F64, WEFT_BF16 };
    static const double large[] = { 1e8, 1e16, 1024 };
    int type = (int)below(3);
    plan p = { .dtype = types[type], .large = large[type] };
    run->draw(&p);
    weft_mesh *mesh = any_mesh();
    weft_tensor *in[MAX_OPERANDS];
    char what[900];
    size_t used =
        (size_t)snprintf(what, sizeof(what), "%s:%d: %s", run->place.file, run->place.line, run->name);
    for (int i = 0; i < p.num_inputs; i++) {
        in[i] = make_input(&p, mesh, i, what + used, sizeof(what) - used);
        used += strlen(what + used);
    }
    int64_t combinations = 1;
    for (int way = 0; way < WAYS; way++) {
        snprintf(what + used, sizeof(what) - used, ", way %d", way);
        combinations = run_once(run, &p, in, way == 0 || combinations == 0 ? 0 : below(combinations), what);
    }
    /* The dispatcher's choice may differ between the worlds. */
    weft_tensor *chosen = run->call(&p, in);
    assert_no_error();
    assert_shards(chosen, NULL, NULL, what);
}

/* `workers`: 0 for as many as there are. */
static void run_world(weft_world world, int workers, const char *panel_rows, uint64_t seed)
{
    unsetenv("WEFT_PANEL_ROWS");
    if (panel_rows != NULL) {
        setenv("WEFT_PANEL_ROWS", panel_rows, 1);
    }
    weft_config config = WEFT_CONFIG_DEFAULT;
    config.world = world;
    config.ranks = MAX_RANKS;
    config.workers = workers;
    assert_int_equal(weft_init(&config), WEFT_OK);
    source = prng_start(seed);
    for (int i = 0; i < NUM_PROGRAMS * share_of(CASES); i++) {
        weft_scope_begin();
        run_case(&programs[i % NUM_PROGRAMS]);
        weft_scope_end();
    }
    assert_int_equal(weft_finalize(), WEFT_OK);
    unsetenv("WEFT_PANEL_ROWS");
}

static void run_both(const char *panel_rows, uint64_t seed)
{
    forget();
    recording = true;
    run_world(WEFT_WORLD_SELF, 1, panel_rows, seed);
    recording = false;
    run_world(WEFT_WORLD_AUTO, 0, panel_rows, seed);
    assert_int_equal(next_record, num_records);
    if (seed == 1) {
        print_message("# %d results\n", num_records);
    }
    forget();
}

static void test_panels_by_default(void **state)
{
    (void)state;
    run_both(NULL, 1);
}

static void test_panels_of_one_row(void **state)
{
    (void)state;
    run_both("1", 2);
}

static void test_panels_of_four_rows(void **state)
{
    (void)state;
    run_both("4", 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_panels_by_default),
        cmocka_unit_test(test_panels_of_one_row),
        cmocka_unit_test(test_panels_of_four_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
