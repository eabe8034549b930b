/* Ghosted tensors in other functions of the library: each gets the values of the arrays, and changes them there. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROWS = 9, COLUMNS = 4, MOST = 8 };

static weft_mesh *mesh;
static const int64_t shape[] = { ROWS, COLUMNS };
static weft_placement by_rows[1];
static double *arrays[MOST]; /* of hosted ranks, with a row of ghosts before and after the part */
static weft_tensor *ghosted;

/* The element is 10 * row + column + 1. */
static double value_of(int64_t element)
{
    return (double)(10 * (element / COLUMNS) + element % COLUMNS + 1);
}

static void box_of(int local, int64_t offset[], int64_t extent[])
{
    assert_int_equal(weft_shard_box(mesh, by_rows, 2, shape, weft_first_rank() + local, offset, extent), WEFT_OK);
}

static int begin(void **state)
{
    (void)state;
    WORLD(4);
    mesh = weft_mesh_create(1, (int64_t[]){ weft_world_size() }, NULL);
    by_rows[0] = weft_shard_balanced(0);
    weft_scope_begin();
    for (int i = 0; i < weft_local_ranks(); i++) {
        int64_t offset[2], extent[2];
        box_of(i, offset, extent);
        arrays[i] = calloc((size_t)((extent[0] + 2) * COLUMNS), sizeof(double));
        for (int64_t e = 0; e < extent[0] * COLUMNS; e++) {
            arrays[i][COLUMNS + e] = value_of(offset[0] * COLUMNS + e);
        }
    }
    const weft_ghosts around = { .before = { 1 }, .after = { 1 } };
    ghosted = weft_from_ghosted(WEFT_F64, 2, shape, (void *const *)arrays, &around, mesh, by_rows);
    assert_no_error();
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

/* The tensor's elements are value_of() times a factor. */
static void assert_values(weft_tensor *tensor, double factor)
{
    double values[ROWS * COLUMNS];
    assert_int_equal(weft_to_host(tensor, values, sizeof(values)), WEFT_OK);
    for (int e = 0; e < ROWS * COLUMNS; e++) {
        assert_true(values[e] == factor * value_of(e));
    }
}

/* So are the arrays. */
static void assert_arrays(double factor)
{
    assert_int_equal(weft_wait(), WEFT_OK);
    for (int i = 0; i < weft_local_ranks(); i++) {
        int64_t offset[2], extent[2];
        box_of(i, offset, extent);
        for (int64_t e = 0; e < extent[0] * COLUMNS; e++) {
            assert_true(arrays[i][COLUMNS + e] == factor * value_of(offset[0] * COLUMNS + e));
        }
    }
}

static void views_and_copies_have_its_values(void **state)
{
    (void)state;
    assert_values(weft_detach(ghosted), 1);
    assert_values(weft_add(weft_zeros_like(ghosted), ghosted), 1);
    assert_values(weft_redistribute(ghosted, mesh, NULL), 1);
    assert_values(weft_reshape(weft_reshape(ghosted, 1, (int64_t[]){ ROWS * COLUMNS }), 2, shape), 1);
    weft_tensor *copy = weft_detach(ghosted);
    weft_scale_inplace(ghosted, 2);
    assert_values(ghosted, 2);
    assert_values(copy, 1);
    assert_arrays(2);
}

static void loads_reach_the_arrays(void **state)
{
    (void)state;
    char path[200];
    const char *folder = getenv("TMPDIR");
    snprintf(path, sizeof(path), "%s/ghosted-%d.safetensors", folder == NULL ? "/tmp" : folder, weft_num_processes());
    const char *const names[] = { "field" };
    weft_tensor *triple = weft_scale(ghosted, 3);
    assert_int_equal(weft_checkpoint_save(path, 1, names, &triple, NULL), WEFT_OK);
    assert_values(ghosted, 1);
    assert_int_equal(weft_checkpoint_load(path, 1, names, &ghosted), WEFT_OK);
    assert_values(ghosted, 3);
    assert_arrays(3);
    if (weft_process_index() == 0) {
        unlink(path);
    }
}

static void gradients_read_its_values(void **state)
{
    (void)state;
    weft_tensor *w = weft_ones(WEFT_F64, 2, shape, mesh, by_rows);
    weft_set_requires_grad(w, true);
    weft_tensor *product = weft_mul(w, ghosted);
    assert_int_equal(weft_backward(product, &(weft_backward_options){ .output_gradient = weft_full_like(product, 1) }), WEFT_OK);
    assert_values(weft_grad(w), 1);
    weft_zero_grad(1, &w);
    assert_int_equal(weft_backward(weft_scale(w, 2), &(weft_backward_options){ .output_gradient = ghosted }), WEFT_OK); /* as the output's gradient */
    assert_values(weft_grad(w), 2);
    weft_mul_inplace(ghosted, w);
    assert_int_equal(weft_halo_exchange(ghosted), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "computed from leaves");
    weft_tensor *leaf = weft_from_ghosted(WEFT_F64 | WEFT_WITH_GRAD, 2, shape, (void *const *)arrays, &(weft_ghosts){ .before = { 1 }, .after = { 1 } }, mesh, by_rows);
    assert_true(weft_requires_grad(leaf));
}

/* Another tensor of the same memory is a copy; writing boxes there is refused, on all processes. */
static void memory_is_one_tensors(void **state)
{
    (void)state;
    int64_t offset[2] = { 0 }, extent[2] = { 0 };
    weft_subarray boxes[MOST];
    for (int i = 0; i < weft_local_ranks(); i++) {
        box_of(i, offset, extent);
        boxes[i] = (weft_subarray){ .box = { .offset = { offset[0], 0 }, .extent = { extent[0], COLUMNS } }, .data = arrays[i] + COLUMNS };
    }
    weft_tensor *other = weft_from_boxes(WEFT_F64, 2, shape, weft_local_ranks(), boxes, mesh, by_rows);
    assert_values(other, 1);
    weft_scale_inplace(other, 5);
    assert_values(ghosted, 1);
    assert_arrays(1);
    bool writes = weft_process_index() == weft_num_processes() - 1;
    assert_int_equal(weft_to_boxes(other, writes ? weft_local_ranks() : 0, boxes), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, writes ? "boxes[0] lies in the arrays of a ghosted tensor" : "");
    assert_arrays(1);
    assert_values(ghosted, 1);
}

/* A kernel that adds the row before and the row after. */
static void add_rows(const weft_kernel_call *call)
{
    const weft_view *out = &call->output, *in = &call->inputs[0];
    for (int64_t i = 0; i < weft_view_rows(out); i++) {
        int64_t row = out->offset[0] + i - in->offset[0];
        for (int64_t c = 0; c < out->extent[1]; c++) {
            ((double *)weft_view_row(out, i, NULL))[c * out->strides[1]] =
                ((double *)weft_view_row(in, row - 1, NULL))[c * in->strides[1]] + ((double *)weft_view_row(in, row + 1, NULL))[c * in->strides[1]];
        }
    }
}

static void fills_are_counted_and_refused_in_strict_regions(void **state)
{
    (void)state;
    const weft_operation *sum = weft_operation_register(&(weft_operation_description){ .name = "add_rows",
                                                                                       .rule = "a~b->ab",
                                                                                       .inputs = { { "x", WEFT_TYPE_BIT(WEFT_F64), false } },
                                                                                       .halos = { { .letter = 'a', .before = 1, .after = 1 } },
                                                                                       .kernel = add_rows,
                                                                                       .takes_strides = true });
    weft_counters before, after;
    assert_int_equal(weft_region_begin("strict", WEFT_REGION_STRICT), WEFT_OK);
    weft_tensor *refused = weft_apply(sum, 1, &ghosted, NULL);
    assert_int_equal(weft_region_end(), WEFT_OK);
    if (weft_world_size() > 1) {
        assert_null(refused);
        assert_error(WEFT_ERR_LAYOUT, "in the strict region");
    }
    weft_get_counters(&before, sizeof(before));
    weft_halo_exchange(ghosted);
    weft_get_counters(&after, sizeof(after));
    assert_int_equal(after.stages - before.stages, weft_world_size() > 1);
    assert_int_equal(weft_region_begin("strict", WEFT_REGION_STRICT), WEFT_OK);
    assert_non_null(weft_apply(sum, 1, &ghosted, NULL)); /* nothing moves */
    assert_int_equal(weft_region_end(), WEFT_OK);
}

int main(void)
{
#define ROW(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        ROW(views_and_copies_have_its_values), ROW(loads_reach_the_arrays),
        ROW(gradients_read_its_values),        ROW(memory_is_one_tensors),
        ROW(fills_are_counted_and_refused_in_strict_regions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
