/* WEFT_STRIDES: tensors on memory whose rows have gaps. */
#include "managed.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS = 11, COLUMNS = 5, DEPTH = 3, GAP = 2, MOST = 8 };

static weft_mesh *mesh;
static const int64_t shape[] = { ROWS, COLUMNS, DEPTH };
static weft_placement by_rows[1];
static double *arrays[MOST]; /* of hosted ranks: [rows, COLUMNS + GAP, DEPTH + 2 * GAP], of which the tensor has the first columns */
static int64_t offset[MOST][3], extent[MOST][3], strides[MOST][3];

static int begin(void **state)
{
    (void)state;
    WORLD(4);
    mesh = weft_mesh_create(1, (int64_t[]){ weft_world_size() }, NULL);
    by_rows[0] = weft_shard_balanced(0);
    weft_scope_begin();
    for (int i = 0; i < weft_local_ranks(); i++) {
        assert_int_equal(weft_shard_box(mesh, by_rows, 3, shape, weft_first_rank() + i, offset[i], extent[i]), WEFT_OK);
        const int64_t own[] = { (COLUMNS + GAP) * (DEPTH + 2 * GAP), DEPTH + 2 * GAP, 1 };
        memcpy(strides[i], own, sizeof(own));
        arrays[i] = calloc((size_t)(extent[i][0] * own[0]) + 1, sizeof(double));
    }
    return 0;
}

static int end(void **state)
{
    weft_scope_end();
    assert_int_equal(weft_wait(), WEFT_OK);
    int status = world_stop(state);
    for (int i = 0; i < MOST; i++) {
        free(arrays[i]);
        arrays[i] = NULL;
    }
    return status;
}

static double value_of(int64_t row, int64_t column, int64_t depth)
{
    return (double)(100 * row + 10 * column + depth + 1);
}

static void store(void)
{
    for (int i = 0; i < weft_local_ranks(); i++) {
        for (int64_t e = 0; e < extent[i][0] * strides[i][0]; e++) {
            int64_t row = e / strides[i][0], column = e % strides[i][0] / strides[i][1], depth = e % strides[i][1];
            arrays[i][e] = column < COLUMNS && depth < DEPTH ? value_of(offset[i][0] + row, column, depth) : -7;
        }
    }
}

/* The memory has the values, times a factor, and its gaps are as they were. */
static void assert_memory(double factor)
{
    assert_int_equal(weft_wait(), WEFT_OK);
    for (int i = 0; i < weft_local_ranks(); i++) {
        for (int64_t e = 0; e < extent[i][0] * strides[i][0]; e++) {
            int64_t row = e / strides[i][0], column = e % strides[i][0] / strides[i][1], depth = e % strides[i][1];
            bool inside = column < COLUMNS && depth < DEPTH;
            assert_true(arrays[i][e] == (inside ? factor * value_of(offset[i][0] + row, column, depth) : -7));
        }
    }
}

static void assert_values(weft_tensor *tensor, double factor)
{
    double values[ROWS][COLUMNS][DEPTH];
    assert_int_equal(weft_to_host(tensor, values, sizeof(values)), WEFT_OK);
    for (int64_t e = 0; e < ROWS * COLUMNS * DEPTH; e++) {
        int64_t row = e / (COLUMNS * DEPTH), column = e / DEPTH % COLUMNS, depth = e % DEPTH;
        assert_true(values[row][column][depth] == factor * value_of(row, column, depth));
    }
}

static weft_tensor *from_strides(unsigned flags)
{
    const weft_from_local_options options = { .shape = shape, .strides = strides[0], .flags = flags };
    return weft_from_local_ex(WEFT_F64, 3, (void *const *)arrays, mesh, by_rows, &options);
}

/* Triples the elements, by their strides. */
static void triple(const weft_kernel_call *call)
{
    const weft_view *out = &call->output;
    for (int64_t i = 0; i < weft_view_rows(out); i++) {
        double *row = weft_view_row(out, i, NULL);
        for (int64_t c = 0; c < out->extent[1] * out->extent[2]; c++) {
            row[c / out->extent[2] * out->strides[1] + c % out->extent[2] * out->strides[2]] *= 3;
        }
    }
}

static void values_and_changes(void **state)
{
    (void)state;
    store();
    weft_tensor *x = from_strides(WEFT_STRIDES);
    assert_no_error();
    assert_values(x, 1);
    assert_values(weft_add(x, x), 2);
    weft_scale_inplace(x, 2);
    assert_values(x, 2);
    assert_memory(2);
    const weft_operation *operation = weft_operation_register(&(weft_operation_description){
        .name = "triple", .rule = "abc->abc", .inputs = { { "x", WEFT_TYPE_BIT(WEFT_F64), false } }, .outputs[0].in_place = true,
        .kernel = triple, .takes_strides = true });
    weft_counters before, after;
    weft_get_counters(&before, sizeof(before));
    assert_ptr_equal(weft_apply(operation, 1, &x, NULL), x);
    weft_get_counters(&after, sizeof(after));
    assert_int_equal(after.views_copied, before.views_copied);
    assert_memory(6);
    assert_values(x, 6);
    if (weft_local_ranks() > 0 && extent[0][0] > 0) {
        assert_null(weft_local_acquire(x, 0, WEFT_READ));
        assert_error(WEFT_ERR_UNSUPPORTED, "lies in ghosted arrays");
    }
    assert_int_equal(weft_halo_exchange(x), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "tensor has gaps, and no ghosts");
}

/* A halo of an operation ends at the tensor's borders, as those of other tensors. */
static void sum_of_rows(const weft_kernel_call *call)
{
    const weft_view *out = &call->output, *in = &call->inputs[0];
    for (int64_t i = 0; i < weft_view_rows(out); i++) {
        const int64_t row = out->offset[0] + i;
        double *to = weft_view_row(out, i, NULL);
        for (int64_t c = 0; c < out->row_elements; c++) {
            to[c] = 0;
            for (int64_t k = row - 1; k <= row + 1; k++) {
                to[c] += k < 0 || k >= in->shape[0] ? 0 : ((const double *)weft_view_row(in, k - in->offset[0], NULL))[c];
            }
        }
    }
}

static void halos_are_those_of_a_copy(void **state)
{
    (void)state;
    store();
    weft_tensor *x = from_strides(WEFT_STRIDES), *copy = from_strides(WEFT_COPY);
    const weft_operation *operation = weft_operation_register(&(weft_operation_description){
        .name = "rows", .rule = "a~[b][c]->a[b][c]", .inputs = { { "x", WEFT_TYPE_BIT(WEFT_F64), false } },
        .halos = { { .letter = 'a', .before = 1, .after = 1 } }, .kernel = sum_of_rows, .takes_strides = true });
    weft_tensor *sums[] = { weft_apply(operation, 1, &x, NULL), weft_apply(operation, 1, &copy, NULL) };
    double values[2][ROWS * COLUMNS * DEPTH];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(weft_to_host(sums[i], values[i], sizeof(values[i])), WEFT_OK);
    }
    assert_memory_equal(values[0], values[1], sizeof(values[0]));
}

/* Without gaps it is as without the flag. */
static void dense_memory(void **state)
{
    (void)state;
    for (int i = 0; i < weft_local_ranks(); i++) {
        const int64_t own[] = { COLUMNS * DEPTH, DEPTH, 1 };
        memcpy(strides[i], own, sizeof(own));
        for (int64_t e = 0; e < extent[i][0] * own[0]; e++) {
            arrays[i][e] = value_of(offset[i][0] + e / own[0], e / DEPTH % COLUMNS, e % DEPTH);
        }
    }
    weft_tensor *x = from_strides(WEFT_STRIDES);
    assert_values(x, 1);
    for (int i = 0; i < weft_local_ranks(); i++) {
        if (extent[i][0] > 0) {
            assert_ptr_equal(weft_local_acquire(x, i, WEFT_READ), arrays[i]);
            assert_int_equal(weft_local_release(x, i), WEFT_OK);
        }
    }
}

static void wrong_strides(void **state)
{
    (void)state;
    store();
    assert_null(from_strides(WEFT_STRIDES | WEFT_COPY));
    assert_error(WEFT_ERR_INVALID, "WEFT_STRIDES goes with no other flag");
    assert_null(from_strides(0));
    assert_error(WEFT_ERR_INVALID, "are not row-major");
    const int last = weft_local_ranks() - 1;
    bool wrong = weft_process_index() == weft_num_processes() - 1;
    if (wrong) {
        strides[last][2] = 2;
    }
    assert_null(from_strides(WEFT_STRIDES)); /* on all processes */
    assert_error(WEFT_ERR_INVALID, wrong ? "are not row-major with gaps" : "");
    if (weft_world_size() > 1) {
        strides[last][2] = 1;
        strides[last][1] += wrong;
        strides[last][0] = strides[last][1] * (COLUMNS + GAP);
        assert_null(from_strides(WEFT_STRIDES));
        assert_error(WEFT_ERR_MISMATCH, "");
    }
}

/* The deleter comes after the last task; the gaps stay. */
static void managed_memory(void **state)
{
    (void)state;
    const int64_t wide[] = { ROWS, 2 * COLUMNS };
    int deleted[MOST] = { 0 };
    producer *producers[MOST];
    struct DLManagedTensorVersioned *given[MOST];
    for (int i = 0; i < weft_local_ranks(); i++) {
        double values[ROWS * 2 * COLUMNS];
        const int64_t own[] = { extent[i][0], 2 * COLUMNS };
        for (int64_t e = 0; e < own[0] * own[1]; e++) {
            values[e] = (double)(e + own[1] * offset[i][0]);
        }
        producers[i] = produce(WEFT_F64, 2, own, values, PLAIN, &deleted[i]);
        producers[i]->shape[1] = COLUMNS; /* the left half */
        producers[i]->strides[0] = 2 * COLUMNS;
        producers[i]->strides[1] = 1;
        producers[i]->versioned.tensor.strides = producers[i]->strides;
        given[i] = &producers[i]->versioned;
    }
    weft_tensor *x = weft_from_dlpack(WEFT_F64, 2, (int64_t[]){ ROWS, COLUMNS }, given, mesh, by_rows, WEFT_STRIDES);
    assert_no_error();
    weft_add_inplace(x, x, 1);
    double values[ROWS][COLUMNS];
    assert_int_equal(weft_to_host(x, values, sizeof(values)), WEFT_OK);
    for (int e = 0; e < ROWS * COLUMNS; e++) {
        assert_true(values[e / COLUMNS][e % COLUMNS] == 2.0 * (double)(e / COLUMNS * wide[1] + e % COLUMNS));
    }
    assert_int_equal(weft_wait(), WEFT_OK);
    for (int i = 0; i < weft_local_ranks(); i++) {
        const double *memory = (const double *)(void *)producers[i]->memory;
        for (int64_t e = 0; e < extent[i][0] * wide[1]; e++) {
            double now = (double)(e + wide[1] * offset[i][0]);
            assert_true(memory[e] == (e % wide[1] < COLUMNS ? 2 * now : now));
        }
        assert_int_equal(deleted[i], extent[i][0] == 0);
    }
    weft_scope_end();
    weft_scope_begin();
    assert_int_equal(weft_wait(), WEFT_OK);
    for (int i = 0; i < weft_local_ranks(); i++) {
        assert_int_equal(deleted[i], 1);
    }
}

int main(void)
{
#define ROW(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        ROW(values_and_changes), ROW(halos_are_those_of_a_copy), ROW(dense_memory), ROW(wrong_strides), ROW(managed_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
