/* The library frees a layout when nothing holds it, so that a program that makes new shapes for ever does not grow; and keeps one
 * that a tensor, the tape, a graph or a cache holds. */
#include "support.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layout/layout.h"
#include "runtime/runtime.h"
#include "arrays/boxes.h"

enum { BUDGET = 1 << 20, POOL = 1 << 20, MOST_BYTES = 14 << 20, MOST_LAYOUTS = 20000 };

static weft_mesh *mesh;
static const weft_placement sharded[] = { { .kind = WEFT_SHARD, .dim = 0 } };

/* cache_bytes 0: nothing is kept, and caches hold no layout for others. */
static void start(int64_t cache_bytes)
{
    setenv("WEFT_CACHE_BYTES", cache_bytes == 0 ? "0" : "", 1);
    WORLD(2, .workers = 1, .cache_bytes = cache_bytes, .pool_bytes = POOL);
    mesh = weft_mesh_create(1, (int64_t[]){ weft_world_size() }, NULL);
}

static void stop(void)
{
    assert_no_error();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* Another shape for each number, of few elements. */
static void shape_of(int64_t number, int64_t shape[])
{
    enum { SIDE = 64 };
    shape[0] = 2 + number % SIDE;
    shape[1] = 1 + number / SIDE % SIDE;
    shape[2] = 1 + number / SIDE / SIDE;
}

static weft_tensor *make(int64_t number)
{
    int64_t shape[3];
    shape_of(number, shape);
    return weft_empty(WEFT_F32, 3, shape, mesh, sharded);
}

static int64_t bytes_held(void)
{
    weft_wait();
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 33)
    return (int64_t)mallinfo2().uordblks;
#else
    return 0;
#endif
}

/* ---- programs that go on making new shapes --------------------------------------------------------------- */

/* One step of such a program. */
typedef void step_function(int64_t number);

static void make_shapes(int64_t number)
{
    int64_t shape[3];
    shape_of(number, shape);
    weft_tensor *tensor = weft_fake(WEFT_F32, 3, shape, mesh, sharded);
    assert_memory_equal(weft_tensor_shape(tensor), shape, sizeof(shape));
    assert_int_equal(weft_tensor_release(tensor), WEFT_OK);
}

static void make_and_add(int64_t number)
{
    weft_scope_begin();
    weft_tensor *tensor = make(number);
    weft_add(tensor, tensor);
    weft_scope_end();
}

static void sum_products_of(bool have_data, int64_t number)
{
    weft_tensor *(*make_one)(weft_dtype, int, const int64_t[], weft_mesh *, const weft_placement *) = have_data ? weft_ones : weft_fake;
    const int64_t a[] = { 2, 1 + number }, b[] = { 1 + number, 3 };
    weft_scope_begin();
    weft_einsum("ij,jk->ki", 2,
                (weft_tensor *[]){ make_one(WEFT_F32, 2, a, mesh, sharded), make_one(WEFT_F32, 2, b, mesh, sharded) });
    weft_scope_end();
}

static void sum_products(int64_t number)
{
    sum_products_of(false, number);
}

static void sum_products_of_data(int64_t number)
{
    sum_products_of(true, number);
}

static void redistribute(int64_t number)
{
    const weft_placement columns[] = { weft_shard(1) };
    weft_scope_begin();
    weft_redistribute(weft_redistribute(make(number), mesh, columns), mesh, NULL);
    weft_scope_end();
}

static void differentiate(int64_t number)
{
    weft_scope_begin();
    weft_tensor *leaf = weft_ones(WEFT_F32, 1, (int64_t[]){ 1 + number }, mesh, sharded);
    weft_set_requires_grad(leaf, true);
    weft_tensor *loss = weft_sum(weft_mul(leaf, weft_exp(leaf)), 0, false);
    assert_int_equal(weft_backward(loss, NULL), WEFT_OK);
    assert_non_null(weft_grad(leaf));
    weft_scope_end();
}

static weft_status call_some(void *context, weft_tensor *const inputs[], const double scalars[],
                             weft_tensor *outputs[])
{
    (void)context;
    (void)scalars;
    weft_tensor *x = weft_softmax(weft_mul(inputs[0], inputs[0]), 0);
    outputs[0] = weft_sum(weft_redistribute(x, mesh, NULL), 0, false);
    return outputs[0] == NULL ? WEFT_ERR_STATE : WEFT_OK;
}

static void capture(int64_t number)
{
    weft_scope_begin();
    weft_graph *graph = weft_graph_create("sums", call_some, NULL, 1, 0, 1);
    weft_tensor *x = weft_ones(WEFT_F32, 1, (int64_t[]){ 1 + number }, mesh, sharded);
    for (int i = 0; i < 3; i++) {
        weft_tensor *sum;
        assert_int_equal(weft_graph_call(graph, &x, NULL, &sum), WEFT_OK);
    }
    assert_int_equal(weft_graph_destroy(graph), WEFT_OK);
    weft_scope_end();
}

static void ask_for_boxes(int64_t number)
{
    int64_t shape[3], offset[3], extent[3];
    shape_of(number, shape);
    assert_int_equal(weft_shard_box(mesh, sharded, 3, shape, 0, offset, extent), WEFT_OK);
}

/* Bytes that the second part of the steps has added. WEFT_TEST_STEP: one step in so many. */
static void go_on(const char *what, int64_t steps, step_function *step)
{
    const char *part = getenv("WEFT_TEST_STEP");
    steps = part == NULL ? share_of((int)steps) : steps / atoi(part);
    start(BUDGET);
    if (getenv("WEFT_TEST_NO_SWEEPS") != NULL) {
        weft_layout_table_spare(weft_runtime.layouts, INT64_MAX / 2);
    }
    int64_t first = steps / 2, before = 0;
    for (int64_t i = 0; i < steps; i++) {
        if (i == first) {
            before = bytes_held();
        }
        step(i);
    }
    int64_t more = bytes_held() - before;
    size_t layouts = weft_layout_table_count(weft_runtime.layouts);
    print_message("# %s: %zu layouts, %lld bytes more by %lld steps\n", what, layouts, (long long)more,
                  (long long)(steps - first));
    if (getenv("WEFT_TEST_NO_SWEEPS") == NULL) {
        assert_true(layouts < MOST_LAYOUTS);
        assert_true(more < MOST_BYTES);
    }
    stop();
}

static void test_growth(void **state)
{
    (void)state;
    go_on("shapes", 200000, make_shapes);
    go_on("sums of tensors", 40000, make_and_add);
    go_on("einsum without data", 20000, sum_products);
    go_on("einsum", 4000, sum_products_of_data);
    go_on("redistributions", 10000, redistribute);
    go_on("backward passes", 4000, differentiate);
    go_on("graphs", 2000, capture);
    go_on("boxes", 200000, ask_for_boxes);
}

/* ---- what holds layouts ---------------------------------------------------------------------------------- */

/* Frees layouts that nothing holds, and has their memory taken by others. */
static void sweep(void)
{
    enum { OTHERS = 2000 };
    weft_runtime.sweep_layouts();
    weft_scope_begin();
    for (int64_t i = 0; i < OTHERS; i++) {
        assert_non_null(weft_fake(WEFT_U8, 2, (int64_t[]){ 1000 + i, 7 }, mesh, sharded));
    }
    weft_scope_end();
}

static void double_it(const weft_local_call *call)
{
    const weft_local_tensor *x = &call->inputs[0], *y = &call->outputs[0];
    for (int64_t i = 0; i < x->count; i++) {
        ((float *)y->data)[i] = 2 * ((const float *)x->data)[i];
    }
}

static void double_gradient(const weft_local_call *call)
{
    const weft_local_tensor *g = &call->inputs[1], *y = &call->outputs[0];
    for (int64_t i = 0; i < g->count; i++) {
        ((float *)y->data)[i] = 2 * ((const float *)g->data)[i];
    }
}

static double item(weft_tensor *tensor)
{
    float value = 0;
    assert_int_equal(weft_to_host(tensor, &value, sizeof(value)), WEFT_OK);
    return (double)value;
}

/* The program's tensors. */
static void test_tensors(void **state)
{
    (void)state;
    start(BUDGET);
    enum { TENSORS = 100 };
    weft_tensor *tensors[TENSORS];
    const int64_t *shapes[TENSORS];
    const weft_placement *placements[TENSORS];
    for (int64_t i = 0; i < TENSORS; i++) {
        tensors[i] = make(i);
        shapes[i] = weft_tensor_shape(tensors[i]);
        placements[i] = weft_tensor_placements(tensors[i]);
    }
    for (int64_t i = 0; i < 20000; i++) {
        make_shapes(TENSORS + i);
    }
    sweep();
    assert_true(weft_layout_table_count(weft_runtime.layouts) >= TENSORS);
    for (int64_t i = 0; i < TENSORS; i++) {
        int64_t shape[3];
        shape_of(i, shape);
        assert_ptr_equal(weft_tensor_shape(tensors[i]), shapes[i]);
        assert_memory_equal(shapes[i], shape, sizeof(shape));
        assert_int_equal(placements[i][0].kind, WEFT_SHARD);
        weft_tensor_release(tensors[i]);
    }
    weft_runtime.sweep_layouts();
    assert_int_equal(weft_layout_table_count(weft_runtime.layouts), 0);
    stop();
}

/* A recorded call, with layouts among its numbers, whose tensors the program has released. */
static void use_tape(int64_t cache_bytes)
{
    start(cache_bytes);
    const int64_t shape[] = { 6 }, wide[] = { 4, 6 };
    weft_tensor *leaf = weft_ones(WEFT_F32, 1, shape, mesh, sharded), *doubled = NULL;
    weft_set_requires_grad(leaf, true);
    weft_scope_begin();
    weft_tensor *rows = weft_add(leaf, weft_zeros(WEFT_F32, 2, wide, mesh, sharded));
    const weft_local_output like = { WEFT_F32, 2, wide, sharded };
    weft_local_map_options options = WEFT_LOCAL_MAP_OPTIONS_DEFAULT;
    options.gradient = double_gradient;
    assert_int_equal(weft_local_map(double_it, 1, &rows, 1, &like, &options, &doubled), WEFT_OK);
    weft_tensor *half = weft_redistribute(weft_slice(doubled, 0, 0, 2, 1), mesh, NULL);
    weft_tensor *loss = weft_scope_keep(weft_sum(weft_mul(half, half), WEFT_ALL_DIMS, false));
    weft_scope_end();
    sweep();
    assert_int_equal(weft_backward(loss, NULL), WEFT_OK);
    sweep();
    assert_true(item(weft_sum(weft_grad(leaf), WEFT_ALL_DIMS, false)) == 96); /* d/dx 4 x^2 = 8 x, in two rows of six */
    weft_tensor_release(loss);
    weft_tensor_release(leaf);
    stop();
}

static void test_tape(void **state)
{
    (void)state;
    use_tape(BUDGET);
    use_tape(0);
}

/* Traces, and the bodies that are executed in their place. */
static void use_graph(int64_t cache_bytes)
{
    start(cache_bytes);
    weft_graph *graph = weft_graph_create("sums", call_some, NULL, 1, 0, 1);
    assert_int_equal(weft_graph_freeze(graph, true), WEFT_OK);
    for (int i = 0; i < 6; i++) {
        weft_scope_begin();
        weft_tensor *sum = NULL, *x = weft_ones(WEFT_F32, 1, (int64_t[]){ 8 }, mesh, sharded);
        assert_int_equal(weft_graph_call(graph, &x, NULL, &sum), WEFT_OK);
        assert_true(item(sum) == 1);
        weft_scope_end();
        sweep();
    }
    assert_int_equal(weft_graph_destroy(graph), WEFT_OK);
    stop();
}

static void test_graphs(void **state)
{
    (void)state;
    use_graph(BUDGET);
    use_graph(0);
}

/* A plan of boxes, on which all processes have agreed, keeps its layout. */
static void test_boxes(void **state)
{
    (void)state;
    start(0);
    float values[6] = { 0 };
    const weft_subarray box = { .box.extent = { 2, 3 }, .data = values };
    for (int i = 0; i < 3; i++) {
        weft_tensor *x = weft_from_boxes(WEFT_F32, 2, (int64_t[]){ 2, 3 }, 1, &box, mesh, sharded);
        assert_non_null(x);
        weft_tensor_release(x);
        sweep();
        assert_int_equal(weft_runtime.arrays->box_plans.count, 1);
        weft_runtime.sweep_layouts();
        assert_true(weft_layout_table_count(weft_runtime.layouts) >= 1); /* the plan's */
    }
    stop();
}

enum { WITHIN = 5000 };

/* Functions that the library calls sweep nothing: what it is doing is on the stack. */
static weft_status release_some(void *context, weft_tensor *const inputs[], const double scalars[],
                                weft_tensor *outputs[])
{
    (void)context;
    (void)scalars;
    size_t before = weft_layout_table_count(weft_runtime.layouts);
    for (int64_t i = 0; i < WITHIN; i++) {
        make_and_add(i);
    }
    assert_true(weft_layout_table_count(weft_runtime.layouts) >= before + WITHIN);
    outputs[0] = weft_neg(inputs[0]);
    return WEFT_OK;
}

static void test_within_calls(void **state)
{
    (void)state;
    start(BUDGET);
    weft_graph *graph = weft_graph_create("releases", release_some, NULL, 1, 0, 1);
    weft_tensor *x = weft_ones(WEFT_F32, 1, (int64_t[]){ 8 }, mesh, sharded), *y = NULL;
    assert_int_equal(weft_graph_call(graph, &x, NULL, &y), WEFT_OK);
    assert_int_equal(weft_graph_destroy(graph), WEFT_OK);
    weft_tensor_release(x);
    weft_tensor_release(y);
    assert_true(weft_layout_table_count(weft_runtime.layouts) < WITHIN / 2);
    stop();
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_growth), cmocka_unit_test(test_tensors),      cmocka_unit_test(test_tape),
    cmocka_unit_test(test_graphs),
    cmocka_unit_test(test_boxes), cmocka_unit_test(test_within_calls),
};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}
