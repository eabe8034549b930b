/* Local regions. A function of the test gets the shards of each rank, as
 * tasks, and its results are tensors. */
#include "support.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "local_constant.h"

enum { RANKS = 4, ROWS = 11, COLUMNS = 6 };

static weft_mesh *mesh;
static const int64_t shape[] = { ROWS, COLUMNS };
static const weft_placement rows[] = { { WEFT_SHARD, 0, WEFT_SUM }, { WEFT_REPLICATE, 0, WEFT_SUM } };
static const weft_placement blocks[] = { { WEFT_SHARD, 0, WEFT_SUM }, { WEFT_SHARD, 1, WEFT_SUM } };
static const weft_placement sums[] = { { WEFT_PARTIAL, 0, WEFT_SUM }, { WEFT_REPLICATE, 0, WEFT_SUM } };

static int start_with(const char *panel_rows, int64_t max_pending)
{
    setenv("WEFT_PANEL_ROWS", panel_rows, 1);
    WORLD(RANKS, .max_pending_tasks = max_pending);
    unsetenv("WEFT_PANEL_ROWS");
    mesh = weft_mesh_create(2, (const int64_t[]){ 2, 2 }, NULL);
    return 0;
}

static int start(void **state)
{
    (void)state;
    return start_with("2", 0);
}

/* Element (i, j) is 100 i + j. */
static weft_tensor *numbered(const weft_placement *placements)
{
    double values[ROWS * COLUMNS];
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        values[i] = 100 * (i / COLUMNS) + i % COLUMNS;
    }
    weft_tensor *tensor = weft_distribute(WEFT_F64, 2, shape, values, mesh, placements);
    assert_no_error();
    return tensor;
}

static void expect_values(weft_tensor *tensor, int64_t count, double (*value)(int64_t i))
{
    double *values = malloc((size_t)count * sizeof(*values));
    assert_shards(tensor, NULL, NULL, "a result of a local region");
    assert_int_equal(weft_to_host(tensor, values, (size_t)count * sizeof(*values)), WEFT_OK);
    assert_no_error();
    for (int64_t i = 0; i < count; i++) {
        assert_true(values[i] == value(i));
    }
    free(values);
}

static weft_local_output output_of(weft_dtype dtype, int ndim, const int64_t *of,
                                   const weft_placement *placements)
{
    return (weft_local_output){ .dtype = dtype, .ndim = ndim, .shape = of, .placements = placements };
}

/* ---- one input, one output ----------------------------------------------------------------------------- */

/* y = 2 x + the element's global row. */
static void double_and_add_row(const weft_local_call *call)
{
    const weft_local_tensor *x = &call->inputs[0], *y = &call->outputs[0];
    for (int64_t i = 0; i < y->count; i++) {
        int64_t row = y->offset[0] + i / y->extent[1];
        ((double *)y->data)[i] = 2 * ((const double *)x->data)[i] + (double)row;
    }
}

static double doubled(int64_t i)
{
    return (double)(2 * (100 * (i / COLUMNS) + i % COLUMNS) + i / COLUMNS);
}

static void a13_shards_as_tasks(void **state)
{
    (void)state;
    const weft_placement *const layouts[] = { NULL, rows, blocks };
    for (int i = 0; i < 3; i++) {
        weft_scope_begin();
        weft_tensor *x = numbered(layouts[i]), *y = NULL;
        weft_local_output like_x = output_of(WEFT_F64, 2, shape, layouts[i]);
        assert_int_equal(weft_local_map(double_and_add_row, 1, &x, 1, &like_x, NULL, &y), WEFT_OK);
        expect_values(y, ROWS * COLUMNS, doubled);
        weft_scope_end();
    }
}

/* Rows of a view: its panels lie in another tensor's. */
static void a13_views(void **state)
{
    (void)state;
    const int64_t fewer[] = { ROWS, COLUMNS / 2 };
    weft_scope_begin();
    weft_tensor *x = numbered(NULL), *y = NULL;
    weft_tensor *part = weft_reshape(weft_slice(x, 0, 3, 9, 1), 2, (const int64_t[]){ 12, COLUMNS / 2 });
    weft_tensor *view = weft_slice(part, 0, 1, 12, 1);
    weft_local_output like = output_of(WEFT_F64, 2, fewer, NULL);
    double expected[ROWS * COLUMNS / 2], values[ROWS * COLUMNS / 2];
    assert_int_equal(weft_local_map(double_and_add_row, 1, &view, 1, &like, NULL, &y), WEFT_OK);
    assert_int_equal(weft_to_host(view, expected, sizeof(expected)), WEFT_OK);
    assert_int_equal(weft_to_host(y, values, sizeof(values)), WEFT_OK);
    for (int i = 0; i < ROWS * COLUMNS / 2; i++) {
        assert_true(values[i] == 2 * expected[i] + i / (COLUMNS / 2));
    }
    weft_scope_end();
}

/* ---- several inputs and outputs ------------------------------------------------------------------------ */

/* Of a and b, which are cut alike: the sum of their rows' products (a part of it), how many rows are there,
 * and the elements of a that are above a bound. */
static void three_results(const weft_local_call *call)
{
    const weft_local_tensor *a = &call->inputs[0], *b = &call->inputs[1];
    const double *bound = call->inputs[2].data;
    double *sum = call->outputs[0].data;
    uint8_t *above = call->outputs[2].data;
    sum[0] = 0;
    for (int64_t i = 0; i < a->count; i++) {
        sum[0] += ((const double *)a->data)[i] * ((const double *)b->data)[i];
        above[i] = ((const double *)a->data)[i] > bound[0];
    }
    ((int64_t *)call->outputs[1].data)[0] = a->extent[0];
}

static void a13_several_inputs_and_outputs(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_tensor *x = numbered(rows), *bound = weft_full(WEFT_F64, 450, 0, NULL, mesh, NULL), *results[3];
    weft_tensor *const inputs[] = { x, x, bound };
    const weft_local_output outputs[] = { output_of(WEFT_F64, 0, NULL, sums),
                                          output_of(WEFT_I64, 0, NULL, sums),
                                          output_of(WEFT_BOOL, 2, shape, rows) };
    assert_int_equal(weft_local_map(three_results, 3, inputs, 3, outputs, NULL, results), WEFT_OK);
    double sum = 0, count = 0, expected = 0;
    uint8_t above[ROWS * COLUMNS];
    assert_int_equal(weft_tensor_placements(results[0])[0].kind, WEFT_PARTIAL);
    assert_int_equal(weft_tensor_item(results[0], &sum), WEFT_OK);
    assert_int_equal(weft_tensor_item(results[1], &count), WEFT_OK);
    assert_int_equal(weft_to_host(results[2], above, sizeof(above)), WEFT_OK);
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        double value = 100 * (i / COLUMNS) + i % COLUMNS;
        expected += value * value;
        assert_int_equal(above[i], value > 450);
    }
    assert_true(sum == expected && count == ROWS);
    assert_shards(results[2], NULL, NULL, "truth values");
    weft_scope_end();
}

static void write_rank(const weft_local_call *call)
{
    for (int64_t i = 0; i < call->outputs[0].count; i++) {
        ((double *)call->outputs[0].data)[i] = call->rank;
    }
}

/* Without inputs; a shard that is empty has no task. */
static void a13_no_inputs(void **state)
{
    (void)state;
    const int64_t line[] = { 3 };
    const weft_placement parts[] = { weft_shard(0), weft_shard(0) };
    weft_local_output output = output_of(WEFT_F64, 1, line, parts);
    weft_local_map_options options = { .mesh = mesh };
    weft_counters before, after;
    double values[3];
    weft_tensor *ranks;
    weft_get_counters(&before, sizeof(before));
    assert_int_equal(weft_local_map(write_rank, 0, NULL, 1, &output, &options, &ranks), WEFT_OK);
    weft_get_counters(&after, sizeof(after));
    int holders = 0;
    for (int i = 0; i < weft_local_ranks(); i++) {
        holders += weft_local_bytes(ranks, i) > 0;
    }
    assert_int_equal(after.tasks - before.tasks, holders);
    assert_int_equal(weft_to_host(ranks, values, sizeof(values)), WEFT_OK);
    assert_true(values[0] == 0 && values[1] == 1 && values[2] == 2);
    weft_tensor_release(ranks);
    assert_no_error();
}

/* ---- placements and meshes ----------------------------------------------------------------------------- */

/* Inputs are brought to in_placements, from other meshes too; those without an entry stay as they are. */
static void a13_in_placements(void **state)
{
    (void)state;
    int64_t four = 4;
    weft_mesh *line = weft_mesh_create(1, &four, NULL);
    const weft_placement columns[] = { weft_shard(1) };
    weft_scope_begin();
    weft_tensor *elsewhere = weft_redistribute(numbered(NULL), line, columns), *bound, *results[3];
    bound = weft_full(WEFT_F64, 450, 0, NULL, mesh, NULL);
    weft_tensor *const inputs[] = { elsewhere, numbered(blocks), bound };
    const weft_placement *const placements[] = { rows, rows, NULL };
    const weft_local_map_options options = { .mesh = mesh, .in_placements = placements };
    const weft_local_output outputs[] = { output_of(WEFT_F64, 0, NULL, sums),
                                          output_of(WEFT_I64, 0, NULL, sums),
                                          output_of(WEFT_BOOL, 2, shape, rows) };
    assert_int_equal(weft_local_map(three_results, 3, inputs, 3, outputs, &options, results), WEFT_OK);
    double count = 0;
    assert_int_equal(weft_tensor_item(results[1], &count), WEFT_OK);
    assert_true(count == ROWS);
    assert_ptr_equal(weft_tensor_mesh(results[2]), mesh);
    assert_shards(results[2], NULL, NULL, "truth values");
    /* Without an entry an input of another mesh is refused. */
    assert_int_equal(weft_local_map(three_results, 3, inputs, 3, outputs, NULL, results), WEFT_ERR_MESH);
    assert_error(WEFT_ERR_MESH, "inputs[1] is on mesh 2x2 and the region on mesh 4: give its in_placements");
    weft_scope_end();
}

/* Ranks outside make the same calls, and get empty outputs of the right type. */
static void a13_ranks_outside(void **state)
{
    (void)state;
    const int last[] = { RANKS - 1 };
    const int64_t one = 1;
    weft_mesh *few = weft_mesh_of_ranks(1, &one, last, NULL);
    weft_local_output output = output_of(WEFT_F64, 2, shape, NULL);
    weft_local_map_options options = { .mesh = few };
    weft_scope_begin();
    weft_tensor *result;
    assert_int_equal(weft_local_map(write_rank, 0, NULL, 1, &output, &options, &result), WEFT_OK);
    for (int i = 0; i < weft_local_ranks(); i++) {
        bool member = weft_first_rank() + i == RANKS - 1;
        assert_int_equal(weft_local_bytes(result, i), member ? sizeof(double) * ROWS * COLUMNS : 0);
    }
    assert_int_equal(weft_tensor_dtype(result), WEFT_F64);
    double values[ROWS * COLUMNS];
    assert_int_equal(weft_to_host(result, values, sizeof(values)), WEFT_OK);
    assert_true(values[0] == RANKS - 1 && values[ROWS * COLUMNS - 1] == RANKS - 1);
    weft_scope_end();
}

/* ---- nothing waits ------------------------------------------------------------------------------------- */

static atomic_int calls;

static void count_calls(const weft_local_call *call)
{
    double_and_add_row(call);
    atomic_fetch_add(&calls, 1);
}

/* The call returns while the program holds its input, and the function has not run: it runs after the
 * release. */
static void a13_returns_while_inputs_are_pending(void **state)
{
    (void)state;
    atomic_store(&calls, 0);
    weft_scope_begin();
    weft_tensor *x = numbered(blocks), *y = NULL;
    weft_local_output like_x = output_of(WEFT_F64, 2, shape, blocks);
    for (int i = 0; i < weft_local_ranks(); i++) {
        assert_non_null(weft_local_acquire(x, i, WEFT_READ_WRITE));
    }
    assert_int_equal(weft_local_map(count_calls, 1, &x, 1, &like_x, NULL, &y), WEFT_OK);
    assert_int_equal(atomic_load(&calls), 0);
    /* And what depends on its output is submitted too. */
    weft_tensor *sum = weft_sum(weft_redistribute(y, NULL, rows), WEFT_ALL_DIMS, false);
    assert_int_equal(atomic_load(&calls), 0);
    assert_no_error();
    for (int i = 0; i < weft_local_ranks(); i++) {
        assert_int_equal(weft_local_release(x, i), WEFT_OK);
    }
    double total = 0, expected = 0;
    assert_int_equal(weft_tensor_item(sum, &total), WEFT_OK);
    assert_int_equal(atomic_load(&calls), weft_local_ranks());
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        expected += doubled(i);
    }
    assert_true(total == expected);
    expect_values(y, ROWS * COLUMNS, doubled);
    weft_scope_end();
}

static void add_one(const weft_local_call *call)
{
    for (int64_t i = 0; i < call->outputs[0].count; i++) {
        ((double *)call->outputs[0].data)[i] = ((const double *)call->inputs[0].data)[i] + 1;
    }
}

static double one_thousand(int64_t i)
{
    (void)i;
    return 1000;
}

/* A long chain with redistributions in between, when few tasks may be pending. */
static void a13_under_back_pressure(void **state)
{
    (void)state;
    assert_int_equal(start_with("1", 16), 0);
    weft_tensor *x = weft_zeros(WEFT_F64, 2, shape, mesh, rows);
    for (int i = 0; i < 1000; i++) {
        const weft_placement *const wanted[] = { i % 2 ? rows : blocks };
        const weft_local_map_options options = { .in_placements = wanted };
        weft_local_output output = output_of(WEFT_F64, 2, shape, wanted[0]);
        weft_tensor *next = NULL;
        assert_int_equal(weft_local_map(add_one, 1, &x, 1, &output, &options, &next), WEFT_OK);
        weft_tensor_release(x);
        x = next;
    }
    expect_values(x, ROWS * COLUMNS, one_thousand);
    weft_tensor_release(x);
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* ---- context and errors -------------------------------------------------------------------------------- */

/* Copied, or handed on. */
static void a13_context(void **state)
{
    (void)state;
    constant short_lived = { 1000 }, lasting = { 7 };
    weft_tensor *gate = weft_zeros(WEFT_F64, 0, NULL, mesh, NULL), *copied, *handed_on;
    weft_local_output output = output_of(WEFT_F64, 2, shape, rows);
    weft_local_map_options options = { .context = &short_lived, .context_size = sizeof(short_lived) };
    weft_tensor *const inputs[] = { gate };
    for (int i = 0; i < weft_local_ranks(); i++) {
        assert_non_null(weft_local_acquire(gate, i, WEFT_WRITE)); /* no task runs before the release */
    }
    assert_int_equal(weft_local_map(write_constant, 1, inputs, 1, &output, &options, &copied), WEFT_OK);
    options = (weft_local_map_options){ .context = &lasting };
    assert_int_equal(weft_local_map(write_constant, 1, inputs, 1, &output, &options, &handed_on), WEFT_OK);
    short_lived.value = -1;
    lasting.value = 1000;
    for (int i = 0; i < weft_local_ranks(); i++) {
        assert_int_equal(weft_local_release(gate, i), WEFT_OK);
    }
    expect_values(copied, ROWS * COLUMNS, one_thousand);
    expect_values(handed_on, ROWS * COLUMNS, one_thousand);
    weft_tensor_release(gate);
    weft_tensor_release(copied);
    weft_tensor_release(handed_on);
}

static atomic_int refused;

/* A value that cannot be used, and a call that a task must not make. */
static void fail_and_call(const weft_local_call *call)
{
    write_rank(call);
    if (weft_zeros(WEFT_F64, 0, NULL, NULL, NULL) == NULL && weft_last_status() == WEFT_ERR_STATE) {
        atomic_fetch_add(&refused, 1);
    }
    weft_clear_error();
    weft_kernel_fail(call, WEFT_ERR_INVALID, "rank %d has no value", call->rank);
}

static void a13_function_fails(void **state)
{
    (void)state;
    atomic_store(&refused, 0);
    weft_local_output output = output_of(WEFT_F64, 2, shape, rows);
    weft_local_map_options options = { .mesh = mesh, .name = "my region" };
    weft_tensor *result;
    assert_int_equal(weft_local_map(fail_and_call, 0, NULL, 1, &output, &options, &result), WEFT_OK);
    weft_tensor_release(result);
    assert_int_equal(weft_wait(), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "my region: rank ");
    assert_int_equal(atomic_load(&refused), weft_local_ranks());
    assert_int_equal(weft_wait(), WEFT_OK); /* told once */
}

/* Every argument; nothing is submitted, and the outputs are NULL. */
static void a13_refuses(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_tensor *x = numbered(rows), *y;
    weft_tensor *const nothing[] = { NULL };
    const int64_t negative[] = { -1, 2 };
    const weft_placement third[] = { weft_shard(2), weft_replicate() };
    const weft_placement *const bad_in[] = { third }, *const to_partial[] = { sums };
    const weft_local_output good = output_of(WEFT_F64, 2, shape, rows);
    const weft_local_output bad_type = output_of((weft_dtype)99, 2, shape, rows),
                            bad_shape = output_of(WEFT_F64, 2, negative, rows),
                            bad_ndim = output_of(WEFT_F64, 9, shape, rows),
                            bad_layout = output_of(WEFT_F64, 2, shape, third);
    const weft_local_map_options no_mesh = { .mesh = (weft_mesh *)&y },
                                 bad_placements = { .in_placements = bad_in },
                                 partial = { .in_placements = to_partial },
                                 gradients = { .grad_placements = bad_in },
                                 no_context = { .context_size = 8 },
                                 huge_context = { .context = &y, .context_size = (size_t)-1 };
    const struct {
        row_place place;
        weft_local_function function;
        int num_inputs;
        weft_tensor *const *inputs;
        int num_outputs;
        const weft_local_output *outputs;
        const weft_local_map_options *options;
        weft_status status;
        const char *text;
    } table[] = {
        { THIS_ROW, NULL, 1, &x, 1, &good, NULL, WEFT_ERR_INVALID, "function is NULL" },
        { THIS_ROW, add_one, -1, &x, 1, &good, NULL, WEFT_ERR_INVALID, "num_inputs is -1" },
        { THIS_ROW, add_one, 1, &x, 0, &good, NULL, WEFT_ERR_INVALID, "num_outputs is 0" },
        { THIS_ROW, add_one, 1, NULL, 1, &good, NULL, WEFT_ERR_INVALID, "inputs is NULL" },
        { THIS_ROW, add_one, 1, nothing, 1, &good, NULL, WEFT_ERR_INVALID, "inputs[0] is NULL" },
        { THIS_ROW, add_one, 1, &x, 1, NULL, NULL, WEFT_ERR_INVALID, "descriptions is NULL" },
        { THIS_ROW, add_one, 1, &x, 1, &bad_type, NULL, WEFT_ERR_DTYPE, "descriptions[0]: dtype is 99" },
        { THIS_ROW, add_one, 1, &x, 1, &bad_shape, NULL, WEFT_ERR_SHAPE, "descriptions[0]: shape[0] is -1" },
        { THIS_ROW, add_one, 1, &x, 1, &bad_ndim, NULL, WEFT_ERR_INVALID, "descriptions[0]: ndim is 9" },
        { THIS_ROW, add_one, 1, &x, 1, &bad_layout, NULL, WEFT_ERR_LAYOUT, "descriptions[0]: placements" },
        { THIS_ROW, add_one, 1, &x, 1, &good, &no_mesh, WEFT_ERR_INVALID, "is not a mesh" },
        { THIS_ROW, add_one, 0, NULL, 1, &good, NULL, WEFT_ERR_MESH, "mesh stack is empty" },
        { THIS_ROW, add_one, 1, &x, 1, &good, &bad_placements, WEFT_ERR_LAYOUT,
          "options.in_placements[0]: placements" },
        { THIS_ROW, add_one, 1, &x, 1, &good, &partial, WEFT_ERR_LAYOUT, "weft_local_map" },
        { THIS_ROW, add_one, 1, &x, 1, &good, &gradients, WEFT_ERR_INVALID, "options.grad_placements" },
        { THIS_ROW, add_one, 1, &x, 1, &good, &no_context, WEFT_ERR_INVALID, "options.context is NULL" },
        { THIS_ROW, add_one, 1, &x, 1, &good, &huge_context, WEFT_ERR_INVALID, "options.context_size is" },
    };
    weft_counters before, after;
    weft_get_counters(&before, sizeof(before));
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        enter_row(table[i].place, __func__);
        y = x;
        assert_int_equal(weft_local_map(table[i].function, table[i].num_inputs, table[i].inputs,
                                        table[i].num_outputs, table[i].outputs, table[i].options, &y),
                         table[i].status);
        assert_error(table[i].status, table[i].text);
        assert_true(y == (table[i].num_outputs > 0 ? NULL : x));
    }
    leave_rows();
    assert_int_equal(weft_local_map(add_one, 1, &x, 1, &good, NULL, NULL), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "outputs is NULL");
    weft_get_counters(&after, sizeof(after));
    assert_int_equal(after.tasks, before.tasks);
    assert_int_equal(after.buffers_created, before.buffers_created);
    weft_scope_end();
}

/* ---- any layout ---------------------------------------------------------------------------------------- */

/* A local region on random in_placements gives weft_add()'s result for tensors of random layouts. */
static void add_locals(const weft_local_call *call)
{
    for (int64_t i = 0; i < call->outputs[0].count; i++) {
        ((double *)call->outputs[0].data)[i] =
            ((const double *)call->inputs[0].data)[i] + ((const double *)call->inputs[1].data)[i];
    }
}

static void a13_random_layouts(void **state)
{
    (void)state;
    prng source = prng_start(17);
    for (int round = 0; round < 60; round++) {
        int64_t sizes[WEFT_MAX_DIMS];
        weft_placement of_a[3], of_b[3], wanted[3];
        int ndim = random_shape(&source, 3, 7, sizes);
        weft_mesh *mesh_a = random_mesh(&source, RANKS), *mesh_b = random_mesh(&source, RANKS),
                  *region = random_mesh(&source, RANKS);
        random_placements(&source, mesh_a, ndim, false, of_a);
        random_placements(&source, mesh_b, ndim, false, of_b);
        random_placements(&source, region, ndim, false, wanted);
        weft_scope_begin();
        weft_tensor *const inputs[] = { weft_rand(WEFT_F64, ndim, sizes, mesh_a, of_a),
                                        weft_rand(WEFT_F64, ndim, sizes, mesh_b, of_b) };
        const weft_placement *const in_placements[] = { wanted, wanted };
        const weft_local_map_options options = { .mesh = region, .in_placements = in_placements };
        weft_local_output output = output_of(WEFT_F64, ndim, sizes, wanted);
        weft_tensor *sum = NULL;
        assert_int_equal(weft_local_map(add_locals, 2, inputs, 1, &output, &options, &sum), WEFT_OK);
        assert_same_shards(sum,
                           weft_redistribute(weft_add(weft_redistribute(inputs[0], region, NULL),
                                                      weft_redistribute(inputs[1], region, NULL)),
                                             region, wanted),
                           describe(region, wanted, ndim, sizes));
        weft_scope_end();
    }
    assert_no_error();
}

int main(void)
{
#define ROW(test) cmocka_unit_test_setup_teardown(test, start, world_stop)
    const struct CMUnitTest tests[] = {
        ROW(a13_shards_as_tasks),
        ROW(a13_views),
        ROW(a13_several_inputs_and_outputs),
        ROW(a13_no_inputs),
        ROW(a13_in_placements),
        ROW(a13_ranks_outside),
        ROW(a13_returns_while_inputs_are_pending),
        cmocka_unit_test(a13_under_back_pressure),
        ROW(a13_context),
        ROW(a13_function_fails),
        ROW(a13_refuses),
        ROW(a13_random_layouts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
