/* Gradients of convolutions' weights, whose tasks make several panels of the output from one piece of the samples: panels of
 * uneven heights, sums in groups, shards of samples and of features, against plain loops; and how many tasks there are. */
#include "operand.h"

#include <stdio.h>
#include <stdlib.h>

#include "ops/backward.h"

enum { TAPS = 3, PANEL_ROWS = 3 };

/* Samples in panels of PANEL_ROWS are the pieces; features in panels of PANEL_ROWS are the output's. */
typedef struct shape_case {
    const char *text;
    int64_t samples, channels, features, groups, side;
    uint64_t tasks; /* of f32, on one rank */
} shape_case;

static const shape_case cases[] = {
    { "9 pieces in 8 groups, all of 7 panels together", 25, 4, 20, 1, 8, 9 + 7 },
    { "5 pieces in 5 groups, 3 and 4 of 7 panels", 14, 4, 20, 1, 8, 5 * 2 + 7 },
    { "2 pieces in 2 groups, each 2 of 8 panels", 6, 4, 24, 1, 8, 2 * 4 + 8 },
    { "8 pieces in 8, 8 and 6 groups, 2, 2 and 3 of 7 panels", 24, 4, 20, 1, 2, 8 * 3 + 7 },
    { "2 pieces, weights larger than samples: one group, each panel alone", 6, 40, 20, 1, 2, 2 * 7 },
    { "1 piece, each panel alone", 3, 4, 20, 1, 8, 7 },
    { "groups of channels: all panels together", 25, 4, 20, 2, 8, 9 + 7 },
    { "groups of channels, 5 pieces", 14, 4, 20, 2, 8, 5 + 7 },
    { "features of one channel each", 25, 20, 20, 20, 8, 9 + 7 },
    { "one panel", 25, 4, 3, 1, 8, 9 + 1 },
    { "for oneDNN, where it is", 25, 32, 40, 1, 12, 9 + 14 },
    { "for oneDNN, in groups of channels", 14, 32, 40, 2, 12, 5 + 14 },
};

enum { CASES = sizeof(cases) / sizeof(cases[0]) };

static double *expected_gradient(const shape_case *c, const double *gradient, const double *x)
{
    int64_t side = c->side, own = c->channels / c->groups, features = c->features / c->groups;
    double *sums = calloc((size_t)(c->features * own * TAPS * TAPS), sizeof *sums);
    assert_non_null(sums);
    for (int64_t at = 0; at < c->samples * c->features * side * side; at++) {
        int64_t z = at % side, y = at / side % side, o = at / side / side % c->features, n = at / side / side / c->features;
        for (int64_t tap = 0; tap < own * TAPS * TAPS; tap++) {
            int64_t h = y + tap / TAPS % TAPS - 1, w = z + tap % TAPS - 1, channel = o / features * own + tap / TAPS / TAPS;
            if (h >= 0 && h < side && w >= 0 && w < side) {
                sums[o * own * TAPS * TAPS + tap] += gradient[at] * x[((n * c->channels + channel) * side + h) * side + w];
            }
        }
    }
    return sums;
}

/* Shards of the gradient and of x along a mesh dimension; -1: Replicate. */
typedef struct layout_case {
    int gradient[2], x[2];
} layout_case;

static const layout_case layouts[] = {
    { { 0, -1 }, { 0, -1 } },  /* samples */
    { { 1, -1 }, { -1, -1 } }, /* features */
    { { 0, 1 }, { 0, -1 } },   /* both */
    { { -1, 0 }, { 1, 0 } },   /* channels, samples */
    { { 2, 0 }, { 2, 0 } },    /* rows of the image: a halo */
};

enum { LAYOUTS = sizeof(layouts) / sizeof(layouts[0]) };

static weft_tensor *placed(weft_tensor *x, weft_mesh *mesh, const int dims[2])
{
    const weft_placement placements[2] = { dims[0] < 0 ? weft_replicate() : weft_shard(dims[0]),
                                           dims[1] < 0 ? weft_replicate() : weft_shard(dims[1]) };
    return weft_redistribute(x, mesh, placements);
}

static uint64_t tasks_of(void)
{
    weft_counters counters;
    weft_get_counters(&counters, sizeof(counters));
    return counters.tasks;
}

typedef struct arguments {
    operand gradient, x;
    int64_t shape[4];
    weft_convolution options;
} arguments;

static arguments make_arguments(const shape_case *c, weft_mesh *mesh, weft_dtype type, value_kind kind)
{
    arguments a = { .shape = { c->features, c->channels / c->groups, TAPS, TAPS },
                    .options = { .padding = { 1, 1 }, .groups = c->groups } };
    const int64_t of_gradient[] = { c->samples, c->features, c->side, c->side },
                  of_x[] = { c->samples, c->channels, c->side, c->side };
    a.gradient = make_narrow(mesh, type, 4, of_gradient, kind);
    a.x = make_narrow(mesh, type, 4, of_x, kind);
    return a;
}

static void free_arguments(arguments *a)
{
    release(&a->gradient);
    release(&a->x);
}

/* `layout`: NULL: any. */
static void check_case(const shape_case *c, weft_mesh *mesh, weft_dtype type, const layout_case *layout)
{
    weft_scope_begin();
    arguments a = make_arguments(c, mesh, type, WHOLE);
    double *expected = expected_gradient(c, a.gradient.dense, a.x.dense);
    weft_tensor *gradient = layout == NULL ? a.gradient.tensor : placed(a.gradient.tensor, mesh, layout->gradient),
                *x = layout == NULL ? a.x.tensor : placed(a.x.tensor, mesh, layout->x);
    uint64_t before = tasks_of();
    weft_tensor *result = weft_conv2d_backward_weight(gradient, x, a.shape, &a.options);
    uint64_t tasks = tasks_of() - before;
    bool counts = type == WEFT_F32 && layout != NULL && weft_mesh_num_ranks(mesh) == 1 && weft_num_processes() == 1;
    if (counts && tasks != c->tasks) {
        fail_msg("%s: %d tasks, expected %d", c->text, (int)tasks, (int)c->tasks);
    }
    check_narrow(result, type, 4, a.shape, expected, a.gradient.exact && a.x.exact ? 0 : 4096, 1e5, c->text);
    free(expected);
    free_arguments(&a);
    weft_scope_end();
}

static void start(uint64_t seed)
{
    char rows[8];
    snprintf(rows, sizeof rows, "%d", PANEL_ROWS);
    start_world("WEFT_PANEL_ROWS", rows);
    source = prng_start(seed);
}

static void stop(void)
{
    assert_int_equal(weft_finalize(), WEFT_OK);
    unsetenv("WEFT_PANEL_ROWS");
}

static void on_one_rank(void **state)
{
    (void)state;
    static const weft_dtype types[] = { WEFT_F32, WEFT_BF16, WEFT_F64, WEFT_F16 };
    start(1);
    weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ 1 }, NULL);
    const layout_case whole = { { -1 }, { -1 } };
    for (int i = 0; i < CASES; i++) {
        for (int t = 0; t < 4; t++) {
            check_case(&cases[i], mesh, types[t], &whole);
        }
    }
    stop();
}

static void in_shards(void **state)
{
    (void)state;
    static const weft_dtype types[] = { WEFT_F32, WEFT_BF16 };
    start(2);
    weft_mesh *meshes[] = { weft_mesh_create(2, (const int64_t[]){ 2, 2 }, NULL), weft_mesh_create(2, (const int64_t[]){ 3, 2 }, NULL) };
    for (int i = 0; i < CASES; i++) {
        for (int k = 0; k < LAYOUTS; k++) {
            check_case(&cases[i], meshes[k % 2], types[(i + k) % 2], &layouts[k]);
        }
        check_case(&cases[i], any_mesh(), types[i % 2], NULL);
    }
    stop();
}

/* Reals, twice: the order of additions is a function of layouts. */
static void repeated(void **state)
{
    (void)state;
    start(3);
    weft_mesh *mesh = weft_mesh_create(2, (const int64_t[]){ 2, 2 }, NULL);
    for (int i = 0; i < CASES; i++) {
        weft_scope_begin();
        arguments a = make_arguments(&cases[i], mesh, WEFT_F32, REAL);
        weft_tensor *results[2];
        for (int k = 0; k < 2; k++) {
            results[k] = weft_conv2d_backward_weight(a.gradient.tensor, a.x.tensor, a.shape, &a.options);
        }
        check_repeats(results[0], results[1]);
        free_arguments(&a);
        weft_scope_end();
    }
    stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_one_rank),
        cmocka_unit_test(in_shards),
        cmocka_unit_test(repeated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
