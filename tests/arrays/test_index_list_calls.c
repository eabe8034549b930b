/* Index lists: gradients, graphs, errors. */
#include "index_list_scene.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 23 };

/* Each part names the last row, twice, and those of its own number: in a world of all ranks. */
static scene simple_scene(void)
{
    scene s = { .parts = weft_world_size(), .size = ROWS, .placements = { weft_shard(0) } };
    s.mesh = weft_mesh_create(1, &s.parts, NULL);
    for (int64_t part = 0; part < s.parts; part++) {
        const int64_t named[] = { ROWS - 1, part, ROWS - 1, 2 * part, part };
        s.counts[part] = 5;
        s.first[part] = s.total;
        s.total += 5;
        memcpy(s.indices[part], named, sizeof(named));
    }
    scene_create(&s);
    assert_no_error();
    return s;
}

static int64_t times_named(const scene *s, int64_t index)
{
    int64_t times = 0;
    for (int64_t row = 0; row < s->total; row++) {
        times += scene_index_of(s, row) == index;
    }
    return times;
}

/* Row i is a * i + b. */
static dense line_of(double a, double b)
{
    dense d = { .dtype = WEFT_F64, .ndim = 1, .shape = { ROWS } };
    d.values = calloc(ROWS, sizeof(double));
    for (int i = 0; i < ROWS; i++) {
        ((double *)d.values)[i] = a * i + b;
    }
    return d;
}

static weft_tensor *tensor_of(const scene *s, const dense *d)
{
    weft_tensor *x = make_of_shards(d->dtype, d->ndim, d->shape, s->mesh, s->placements, write_dense, d);
    assert_no_error();
    return x;
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

/* L = sum of c[i] (sum over the rows that name i of x[i]^2), so dL/dx[i] = 2 c[i] x[i] n[i]; and of the sum of these, 2 c[i] n[i]. */
static void gradients(void **state)
{
    (void)state;
    WORLD(4);
    scene s = simple_scene();
    dense x = line_of(1, 2), c = line_of(3, -4), first = line_of(0, 0), second = line_of(0, 0);
    for (int i = 0; i < ROWS; i++) {
        double times = (double)times_named(&s, i);
        ((double *)first.values)[i] = 2 * ((double *)c.values)[i] * ((double *)x.values)[i] * times;
        ((double *)second.values)[i] = 2 * ((double *)c.values)[i] * times;
    }
    weft_tensor *leaf = tensor_of(&s, &x), *weights = tensor_of(&s, &c);
    weft_set_requires_grad(leaf, true);
    weft_tensor *sums = weft_index_list_scatter_add(s.list, weft_square(weft_index_list_gather(s.list, leaf)));
    weft_tensor *loss = weft_sum(weft_mul(sums, weights), WEFT_ALL_DIMS, false);
    assert_int_equal(weft_backward(loss, &(weft_backward_options){ .create_graph = true }), WEFT_OK);
    weft_tensor *gradient = weft_grad(leaf);
    weft_tensor *total = weft_sum(gradient, WEFT_ALL_DIMS, false);
    assert_shards(weft_redistribute(gradient, s.mesh, s.placements), is_dense, &first, "the gradient");
    weft_zero_grad(1, &leaf);
    assert_int_equal(weft_backward(total, NULL), WEFT_OK);
    assert_no_error();
    assert_shards(weft_redistribute(weft_grad(leaf), s.mesh, s.placements), is_dense, &second, "the second gradient");
    /* A list that is gone. */
    loss = weft_sum(weft_index_list_gather(s.list, leaf), WEFT_ALL_DIMS, false);
    assert_int_equal(weft_index_list_destroy(s.list), WEFT_OK);
    assert_int_equal(weft_backward(loss, NULL), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "the index list has been destroyed");
    free(x.values);
    free(c.values);
    free(first.values);
    free(second.values);
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* ---- graphs ------------------------------------------------------------------------------------------------------ */

static weft_status sums_of_rows(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    const scene *s = context;
    weft_tensor *rows = weft_scale(weft_index_list_gather(s->list, inputs[0]), scalars[0]);
    outputs[0] = weft_index_list_scatter_add(s->list, rows);
    return outputs[0] == NULL ? weft_last_status() : WEFT_OK;
}

static void graphs(void **state)
{
    (void)state;
    WORLD(4);
    scene s = simple_scene();
    weft_graph *graph = weft_graph_create("rows", sums_of_rows, &s, 1, 1, 1);
    assert_int_equal(weft_graph_freeze(graph, true), WEFT_OK);
    dense x = line_of(1, 2), expected = line_of(0, 0);
    weft_tensor *input = tensor_of(&s, &x), *output = NULL;
    double factor = 1;
    for (int run = 0; run < 6; run++, factor += 1) {
        for (int i = 0; i < ROWS; i++) {
            ((double *)expected.values)[i] = factor * ((double *)x.values)[i] * (double)times_named(&s, i);
        }
        assert_int_equal(weft_graph_call(graph, &input, &factor, &output), WEFT_OK);
        assert_shards(output, is_dense, &expected, "the graph's sums");
    }
    weft_graph_info info;
    weft_graph_get_info(graph, &info, sizeof(info));
    assert_true(info.frozen);
    weft_prediction prediction;
    assert_int_equal(weft_graph_predict(graph, NULL, &prediction, sizeof(prediction)), WEFT_ERR_UNSUPPORTED);
    assert_error(WEFT_ERR_UNSUPPORTED, "a prediction does not know which rows");
    assert_int_not_equal(weft_graph_save(graph, "/dev/null"), WEFT_OK);
    weft_clear_error();
    assert_int_equal(weft_index_list_destroy(s.list), WEFT_OK);
    assert_int_equal(weft_graph_call(graph, &input, &factor, &output), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "it has been destroyed");
    weft_graph_destroy(graph);
    free(x.values);
    free(expected.values);
    assert_int_equal(weft_finalize(), WEFT_OK);
}

enum { WIDTH = 64, SHARDED_RUNS = 3 };

/* Products before and after the list's calls, which could be made on other layouts. */
static weft_status products_of_rows(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)scalars;
    const scene *s = context;
    weft_tensor *wide = weft_redistribute(weft_matmul(inputs[0], inputs[1]), NULL, s->placements);
    weft_tensor *named = weft_add(weft_index_list_gather(s->list, wide), weft_index_list_gather(s->list, inputs[0]));
    weft_tensor *rows = weft_matmul(named, inputs[1]);
    outputs[0] = weft_matmul(weft_index_list_scatter_add(s->list, rows), inputs[1]);
    return outputs[0] == NULL ? weft_last_status() : WEFT_OK;
}

/* weft_graph_shard() chooses other layouts for the calls around a list's. */
static void graphs_on_other_layouts(void **state)
{
    (void)state;
    WORLD(4);
    scene s = simple_scene();
    double x[ROWS * WIDTH], w[WIDTH * WIDTH] = { 0 }, first[ROWS * WIDTH], found[ROWS * WIDTH];
    for (int i = 0; i < ROWS * WIDTH; i++) {
        x[i] = i % 7 - 3;
    }
    for (int i = 0; i < WIDTH; i++) {
        w[i * WIDTH + (i * 5 + 1) % WIDTH] = i % 3 + 1;
    }
    for (int sharded = 0; sharded < 4; sharded++) {
        const weft_placement cut[] = { sharded % 2 == 0 ? weft_replicate() : weft_shard(1) };
        weft_tensor *inputs[] = { weft_distribute(WEFT_F64, 2, (int64_t[]){ ROWS, WIDTH }, x, s.mesh, cut),
                                  weft_distribute(WEFT_F64, 2, (int64_t[]){ WIDTH, WIDTH }, w, s.mesh, cut) };
        weft_tensor *output;
        weft_graph *graph = weft_graph_create("products", products_of_rows, &s, 2, 0, 1);
        for (int run = 0; run < SHARDED_RUNS; run++) {
            assert_int_equal(weft_graph_call(graph, inputs, NULL, &output), WEFT_OK);
            const weft_graph_shard_options options = { .num_movable = sharded < 2 ? 0 : 2, .movable = inputs };
            if (run == 0) {
                assert_int_equal(weft_graph_shard(graph, &options), WEFT_OK);
            }
            assert_int_equal(weft_to_host(output, sharded + run == 0 ? first : found, sizeof(found)), WEFT_OK);
            assert_true(sharded + run == 0 || memcmp(first, found, sizeof(found)) == 0);
            if (run == 0 && sharded >= 2) {
                for (int i = 0; i < 2; i++) {
                    weft_placement placements[WEFT_MAX_DIMS];
                    assert_int_equal(weft_graph_get_placements(graph, inputs[i], placements), WEFT_OK);
                    inputs[i] = weft_redistribute(inputs[i], NULL, placements);
                }
            }
        }
        weft_graph_destroy(graph);
    }
    assert_int_equal(weft_finalize(), WEFT_OK);
}

static weft_status make_list(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)scalars;
    scene_create(context);
    outputs[0] = inputs[0];
    return weft_last_status();
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */

static void expect_none(scene *s, weft_status status, const char *text)
{
    scene_create(s);
    assert_null(s->list);
    assert_error(status, text);
}

static void wrong_lists(void **state)
{
    (void)state;
    WORLD(4);
    scene s = simple_scene();
    s.indices[s.parts - 1][3] = ROWS;
    char text[100];
    snprintf(text, sizeof(text), "indices of rank %d: entry 3 is 23, expected 0 to 22", (int)s.parts - 1);
    expect_none(&s, WEFT_ERR_INVALID, text);
    s.indices[s.parts - 1][3] = -1;
    expect_none(&s, WEFT_ERR_INVALID, "entry 3 is -1");
    s.indices[s.parts - 1][3] = 0;
    s.placements[0] = weft_replicate();
    expect_none(&s, WEFT_ERR_LAYOUT, "placements has no Shard of dimension 0");
    s.placements[0] = weft_partial(WEFT_SUM);
    expect_none(&s, WEFT_ERR_LAYOUT, "placements[0] is Partial");
    s.placements[0] = weft_shard(0);
    s.counts[0] = -1;
    scene_create(&s);
    assert_null(s.list);
    assert_error(WEFT_ERR_INVALID, weft_process_index() == 0 ? "counts[0], -1, is negative" : "gave wrong arguments");
    s.counts[0] = 5;
    assert_null(weft_index_list_create(ROWS, s.mesh, s.placements, NULL, NULL));
    assert_error(WEFT_ERR_INVALID, "counts is NULL");
    assert_null(weft_index_list_create(ROWS, s.mesh, s.placements, (const int64_t[]){ 1, 1, 1, 1 }, NULL));
    assert_error(WEFT_ERR_INVALID, "counts[0], 1, is more than 0, and indices is NULL");
    weft_graph *graph = weft_graph_create("list", make_list, &s, 1, 0, 1);
    weft_tensor *scalar = weft_zeros(WEFT_F64, 0, NULL, s.mesh, NULL), *output;
    assert_int_equal(weft_graph_call(graph, &scalar, NULL, &output), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "make the list before");
    assert_int_equal(weft_finalize(), WEFT_OK);
}

static void wrong_tensors(void **state)
{
    (void)state;
    WORLD(4);
    scene s = simple_scene();
    int64_t rows = ROWS + 1, shape[] = { s.parts, 1 };
    assert_null(weft_index_list_gather(s.list, weft_zeros(WEFT_F32, 1, &rows, s.mesh, s.placements)));
    assert_error(WEFT_ERR_SHAPE, "x has 24 rows, expected 23, as the list has in its size");
    assert_null(weft_index_list_scatter_add(s.list, weft_zeros(WEFT_F32, 1, &rows, s.mesh, s.placements)));
    assert_error(WEFT_ERR_SHAPE, "values has 24 rows, expected");
    assert_null(weft_index_list_gather(s.list, weft_zeros(WEFT_F32, 0, NULL, s.mesh, NULL)));
    assert_error(WEFT_ERR_SHAPE, "x has 1 rows");
    rows = ROWS;
    assert_null(weft_index_list_gather(s.list, weft_zeros(WEFT_F32, 1, &rows, weft_mesh_create(2, shape, NULL), NULL)));
    assert_error(WEFT_ERR_MESH, "x is on mesh");
    assert_null(weft_index_list_gather(NULL, NULL));
    assert_error(WEFT_ERR_INVALID, "list is NULL");
    weft_index_list *stale = s.list;
    assert_int_equal(weft_index_list_destroy(s.list), WEFT_OK);
    assert_int_equal(weft_index_list_destroy(stale), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "it has been destroyed");
    assert_int_equal(weft_index_list_count(stale), -1);
    assert_error(WEFT_ERR_INVALID, "it has been destroyed");
    scene_create(&s); /* left to weft_finalize() */
    stale = s.list;
    assert_int_equal(weft_finalize(), WEFT_OK);
    WORLD(4);
    assert_int_equal(weft_index_list_count(stale), -1);
    assert_error(WEFT_ERR_INVALID, "it has been destroyed");
    assert_int_equal(weft_finalize(), WEFT_OK);
}

static void sizes_that_differ(void **state)
{
    (void)state;
    WORLD(4);
    scene s = simple_scene();
    s.size += weft_process_index();
    if (weft_num_processes() > 1) {
        scene_create(&s);
        assert_null(s.list);
        assert_error(WEFT_ERR_MISMATCH, "process 1 gave other arguments");
    }
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* A strict region sees that the rows would be moved first. */
static void strict_regions(void **state)
{
    (void)state;
    WORLD(4);
    scene s = simple_scene();
    int64_t rows = ROWS, sizes[MAX_RANKS] = { 0 };
    sizes[s.parts - 1] = rows;
    weft_tensor *x = weft_zeros(WEFT_F32, 1, &rows, s.mesh, (weft_placement[]){ weft_shard_sizes(0, (int)s.parts, sizes) });
    assert_int_equal(weft_region_begin("strict", WEFT_REGION_STRICT), WEFT_OK);
    assert_null(weft_index_list_gather(s.list, x));
    assert_error(WEFT_ERR_LAYOUT, "in the strict region \"strict\" x would be moved");
    weft_region_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* Ranks of one part name different indices. */
static void lines_that_differ(void **state)
{
    (void)state;
    WORLD(4);
    int64_t shape[] = { 1, weft_world_size() }, counts[MAX_RANKS] = { 0 }, indices[MAX_RANKS];
    const weft_placement placements[] = { weft_shard(0), weft_replicate() };
    for (int i = 0; i < weft_local_ranks(); i++) {
        counts[i] = weft_first_rank() + i == 0 ? 0 : 1;
        indices[i] = 1;
    }
    assert_null(weft_index_list_create(ROWS, weft_mesh_create(2, shape, NULL), placements, counts, indices));
    assert_error(WEFT_ERR_INVALID, "ranks 0 and 1 name different indices");
    assert_int_equal(weft_finalize(), WEFT_OK);
}

static void no_list_without_ranks(void **state)
{
    (void)state;
    if (over_processes()) {
        skip();
    }
    FAKE_WORLD(4);
    int64_t ranks = 4, counts = 0;
    const weft_placement placements[] = { weft_shard(0) };
    assert_null(weft_index_list_create(ROWS, weft_mesh_create(1, &ranks, NULL), placements, &counts, NULL));
    assert_error(WEFT_ERR_UNSUPPORTED, "a fake world");
    assert_int_equal(weft_finalize(), WEFT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients),
        cmocka_unit_test(graphs),
        cmocka_unit_test(graphs_on_other_layouts),
        cmocka_unit_test(wrong_lists),
        cmocka_unit_test(wrong_tensors),
        cmocka_unit_test(lines_that_differ),
        cmocka_unit_test(sizes_that_differ),
        cmocka_unit_test(strict_regions),
        cmocka_unit_test(no_list_without_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
