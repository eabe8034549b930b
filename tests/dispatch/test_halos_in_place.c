/* Operations with a halo along the first dimension, on arrays of the program: results are those of a plain loop, and where
 * shards begin at borders of panels a kernel reads a rank's own rows where the program has them. */
#include "operand.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 8, STEPS = 3, MOST_ROWS = 64 };

/* The arrays of the hosted ranks. */
typedef struct arrays {
    int ranks;
    int64_t first[MOST_RANKS], rows[MOST_RANKS], column[MOST_RANKS], columns[MOST_RANKS];
    double *memory[MOST_RANKS];
} arrays;

static const weft_operation *op_sum, *op_step;
static arrays sources;
static atomic_long rows_in_place, rows_elsewhere;

/* Where the program has a row of a part. */
static void count_place(const weft_view *view, int64_t row, const void *found)
{
    bool in_place = false;
    for (int r = 0; r < sources.ranks; r++) {
        int64_t i = row - sources.first[r];
        in_place = in_place || (i >= 0 && i < sources.rows[r] && sources.column[r] == view->offset[1] &&
                                found == &sources.memory[r][i * sources.columns[r]]);
    }
    atomic_fetch_add(in_place ? &rows_in_place : &rows_elsewhere, 1);
}

static double weighted(const weft_kernel_call *call, int64_t row, int64_t c)
{
    const weft_view *in = &call->inputs[0];
    double sum = 0;
    for (int64_t d = -call->numbers[0]; d <= call->numbers[1]; d++) {
        int64_t i = row + d - in->offset[0];
        if (call->numbers[2] != 0 || (row + d >= 0 && row + d < in->shape[0])) {
            if (i < 0 || i >= in->extent[0]) {
                weft_kernel_fail(call, WEFT_ERR_INTERNAL, "row %lld is not there", (long long)(row + d));
                return 0;
            }
            const double *values = weft_view_row(in, i, NULL);
            sum += (double)(5 + d) * values[c];
        }
    }
    return sum;
}

/* "h~w->hw", and "hw,h~w->hw" in place: numbers[0] rows before and numbers[1] rows afterwards; numbers[2]: periodic. */
static void sum_kernel(const weft_kernel_call *call)
{
    const weft_view *in = &call->inputs[0], *out = &call->output;
    for (int64_t i = 0; i < weft_view_rows(out); i++) {
        int64_t row = out->offset[0] + i;
        double *to = weft_view_row(out, i, NULL);
        count_place(in, row, weft_view_row(in, row - in->offset[0], NULL));
        for (int64_t c = 0; c < out->extent[1]; c++) {
            to[c] = weighted(call, row, c);
        }
    }
}

static void by_numbers(weft_halo *halo, const int64_t numbers[])
{
    halo->before = numbers[0];
    halo->after = numbers[1];
    halo->periodic = numbers[2] != 0;
}

static void start(const char *panel_rows)
{
    const weft_operation_input f64 = { "a", WEFT_TYPE_BIT(WEFT_F64), false };
    start_world(panel_rows == NULL ? NULL : "WEFT_PANEL_ROWS", panel_rows);
    unsetenv("WEFT_PANEL_ROWS");
    op_sum = weft_operation_register(&(weft_operation_description){ .name = "sum",
                                                                    .rule = "h~w->hw",
                                                                    .inputs = { f64 },
                                                                    .halos = { { .letter = 'h' } },
                                                                    .halo = by_numbers,
                                                                    .kernel = sum_kernel });
    op_step = weft_operation_register(&(weft_operation_description){ .name = "step",
                                                                     .rule = "hw,h~w->hw",
                                                                     .inputs = { f64, f64 },
                                                                     .outputs[0].in_place = true,
                                                                     .halos = { { .input = 1, .letter = 'h' } },
                                                                     .halo = by_numbers,
                                                                     .kernel = sum_kernel });
    assert_no_error();
}

/* ---- one trial ------------------------------------------------------------------------------------------- */

typedef struct trial {
    int64_t shape[2], numbers[3];
    weft_mesh *mesh;
    int ndim;
    weft_placement placements[2];
} trial;

static double value_at(int64_t row, int64_t column)
{
    return (double)((row * 7 + column * 3) % 11 - 5);
}

/* Small whole numbers: exact in any order. */
static void plain_steps(const trial *t, int steps, double *values)
{
    double former[MOST_ROWS * 4];
    for (int64_t i = 0; i < t->shape[0] * t->shape[1]; i++) {
        values[i] = value_at(i / t->shape[1], i % t->shape[1]);
    }
    for (int step = 0; step < steps; step++) {
        memcpy(former, values, sizeof(former));
        for (int64_t i = 0; i < t->shape[0] * t->shape[1]; i++) {
            values[i] = 0;
            for (int64_t d = -t->numbers[0]; d <= t->numbers[1]; d++) {
                int64_t row = i / t->shape[1] + d;
                row = t->numbers[2] ? (row + t->shape[0]) % t->shape[0] : row;
                values[i] += row < 0 || row >= t->shape[0] ? 0 : (double)(5 + d) * former[row * t->shape[1] + i % t->shape[1]];
            }
        }
    }
}

static weft_tensor *tensor_of(const trial *t, arrays *a)
{
    void *pointers[MOST_RANKS];
    a->ranks = weft_local_ranks();
    for (int r = 0; r < weft_local_ranks(); r++) {
        int64_t offset[2], extent[2];
        weft_shard_box(t->mesh, t->placements, 2, t->shape, weft_first_rank() + r, offset, extent);
        a->first[r] = offset[0];
        a->rows[r] = extent[0];
        a->column[r] = offset[1];
        a->columns[r] = extent[1];
        pointers[r] = a->memory[r] = calloc((size_t)(extent[0] * extent[1]) + 1, sizeof(double));
        for (int64_t i = 0; i < extent[0] * extent[1]; i++) {
            a->memory[r][i] = value_at(offset[0] + i / extent[1], offset[1] + i % extent[1]);
        }
    }
    return weft_from_local(WEFT_F64, 2, t->shape, pointers, t->mesh, t->placements, 0);
}

static void arrays_free(arrays *a)
{
    for (int r = 0; r < weft_local_ranks(); r++) {
        free(a->memory[r]);
    }
}

static void assert_values(const trial *t, weft_tensor *tensor, int steps)
{
    double expected[MOST_ROWS * 4], found[MOST_ROWS * 4];
    plain_steps(t, steps, expected);
    assert_non_null(tensor);
    assert_int_equal(weft_to_host(tensor, found, sizeof(found)), WEFT_OK);
    assert_memory_equal(found, expected, (size_t)(t->shape[0] * t->shape[1]) * sizeof(double));
}

static weft_apply_options options_of(const trial *t)
{
    weft_apply_options options = { .num_numbers = 3, .numbers = { t->numbers[0], t->numbers[1], t->numbers[2] } };
    return options;
}

static weft_status step_of_graph(void *context, weft_tensor *const in[], const double scalars[], weft_tensor *out[])
{
    (void)scalars;
    weft_apply_options options = options_of(context);
    weft_tensor *once = weft_apply(op_sum, 1, in, &options);
    out[0] = weft_apply(op_sum, 1, &once, &options);
    return weft_last_status();
}

/* New tensors, with lists that are new and with kept ones; also captured. Returns the number of rows that were copied. */
static long sum_and_count(trial *t)
{
    weft_apply_options options = options_of(t);
    weft_scope_begin();
    weft_tensor *a = tensor_of(t, &sources);
    atomic_store(&rows_elsewhere, 0);
    for (int i = 0; i < 3; i++) {
        assert_values(t, weft_apply(op_sum, 1, &a, &options), 1);
    }
    long elsewhere = atomic_load(&rows_elsewhere);
    weft_graph *graph = weft_graph_create("steps", step_of_graph, t, 1, 0, 1);
    for (int i = 0; i < 3; i++) {
        weft_tensor *twice = NULL;
        assert_int_equal(weft_graph_call(graph, &a, NULL, &twice), WEFT_OK);
        assert_values(t, twice, 2);
    }
    weft_graph_destroy(graph);
    assert_values(t, a, 0);
    weft_scope_end();
    assert_int_equal(weft_wait(), WEFT_OK);
    arrays_free(&sources);
    return elsewhere;
}

/* Two arrays that take turns: each step waits for the readers of the array that it writes. */
static void step_in_place(const trial *t)
{
    arrays other = { 0 };
    weft_scope_begin();
    weft_apply_options options = options_of(t);
    weft_tensor *pair[2] = { tensor_of(t, &other), tensor_of(t, &sources) };
    for (int i = 0; i < STEPS; i++) {
        assert_non_null(weft_apply(op_step, 2, pair, &options));
        weft_tensor *former = pair[0];
        pair[0] = pair[1];
        pair[1] = former;
    }
    assert_values(t, pair[1], STEPS);
    /* One tensor that is both: the values before the call. */
    weft_tensor *both[2] = { pair[1], pair[1] };
    assert_non_null(weft_apply(op_step, 2, both, &options));
    assert_values(t, pair[1], STEPS + 1);
    /* Another tensor on the same memory keeps its values. */
    weft_tensor *saved = weft_slice(pair[1], 0, 0, t->shape[0], 1);
    weft_tensor *shared[2] = { pair[1], saved };
    assert_non_null(weft_apply(op_step, 2, shared, &options));
    assert_values(t, saved, STEPS + 1);
    assert_values(t, pair[1], STEPS + 2);
    weft_scope_end();
    assert_int_equal(weft_wait(), WEFT_OK);
    arrays_free(&sources);
    arrays_free(&other);
}

/* Shards of so many rows but for the last ones. */
static trial make_trial(int64_t part)
{
    int64_t ranks = weft_world_size();
    trial t = { .shape = { 0, 1 + below(4) }, .numbers = { below(4), below(4), below(2) }, .ndim = 1 };
    bool two = ranks % 2 == 0 && below(2) == 0;
    int64_t sizes[] = { two ? ranks / 2 : ranks, 2 };
    t.ndim = two ? 2 : 1;
    t.mesh = weft_mesh_create(t.ndim, sizes, NULL);
    t.placements[0] = weft_shard(0);
    t.placements[1] = below(3) == 0 ? weft_replicate() : weft_shard((int)below(2));
    t.shape[0] = part * sizes[0] - (below(2) == 0 ? below(part + 1) : 0);
    t.shape[0] = t.shape[0] < 1 ? 1 : t.shape[0];
    for (int k = 0; k < 2 && t.numbers[2]; k++) {
        t.numbers[k] = t.numbers[k] < t.shape[0] ? t.numbers[k] : t.shape[0];
    }
    return t;
}

static void run_trials(const char *panel_rows)
{
    start(panel_rows);
    int64_t height = panel_rows == NULL ? 0 : atoll(panel_rows);
    int cases = cases_to_run(12);
    for (int i = 0; i < cases; i++) {
        weft_scope_begin();
        int64_t part = 1 + below(6);
        trial t = make_trial(part);
        long copied = sum_and_count(&t);
        bool by_one = t.ndim == 1 && weft_world_size() > 1 && (!t.numbers[2] || t.shape[0] % weft_world_size() == 0);
        int64_t rows = (t.shape[0] + weft_world_size() - 1) / weft_world_size();
        if (by_one && t.numbers[0] < 2 && t.numbers[1] < 2 && (height == 0 || rows % height == 0)) {
            assert_int_equal(copied, 0);
        }
        step_in_place(&t);
        weft_scope_end();
    }
    assert_int_equal(weft_finalize(), WEFT_OK);
}

static void test_whole_shards(void **state)
{
    (void)state;
    run_trials(NULL);
}

static void test_panels_of_one_row(void **state)
{
    (void)state;
    run_trials("1");
}

static void test_panels_of_two_rows(void **state)
{
    (void)state;
    run_trials("2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_shards),
        cmocka_unit_test(test_panels_of_one_row),
        cmocka_unit_test(test_panels_of_two_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
