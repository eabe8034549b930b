/* Boxes that are shards: tensors in the program's memory, several of one memory, and what is written there. */
#include "support.h"

enum { MAX_RANKS = 8 };

/* The shards of the hosted ranks, as boxes. */
static int own_shards(int64_t rows, int64_t columns, weft_subarray boxes[], double *memory)
{
    weft_placement by_rows = weft_shard(0);
    for (int i = 0; i < weft_local_ranks(); i++) {
        weft_shard_box(NULL, &by_rows, 2, (const int64_t[]){ rows, columns }, weft_first_rank() + i, boxes[i].box.offset,
                       boxes[i].box.extent);
        boxes[i].data = memory + boxes[i].box.offset[0] * columns;
    }
    return weft_local_ranks();
}

static void steps_in_place(void **state)
{
    (void)state;
    enum { ROWS = 40, COLUMNS = 30 };
    start_with_panels(MAX_RANKS, NULL);
    int64_t ranks = weft_world_size();
    weft_mesh_push(weft_mesh_create(1, &ranks, NULL));
    weft_placement rows = weft_shard(0);
    static double memory[ROWS * COLUMNS], other[ROWS * COLUMNS];
    weft_subarray boxes[MAX_RANKS] = { 0 }, others[MAX_RANKS] = { 0 };
    int num = own_shards(ROWS, COLUMNS, boxes, memory);
    own_shards(ROWS, COLUMNS, others, other);
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        memory[i] = 1;
    }
    const int64_t shape[] = { ROWS, COLUMNS };
    weft_scope_begin();
    weft_tensor *a = weft_from_boxes(WEFT_F64, 2, shape, num, boxes, NULL, &rows);
    assert_no_error();
    for (int i = 0; i < num; i++) { /* no copy */
        void *memory_of_shard = weft_local_acquire(a, i, WEFT_READ);
        assert_ptr_equal(memory_of_shard, boxes[i].data);
        weft_local_release(a, i);
    }
    for (int step = 0; step < 3; step++) {
        weft_scale_inplace(a, 2);
    }
    weft_counters before, after;
    assert_int_equal(weft_to_boxes(a, num, boxes), WEFT_OK);
    weft_fixed_boxes_begin();
    weft_get_counters(&before, sizeof(before));
    assert_int_equal(weft_to_boxes(a, num, boxes), WEFT_OK);
    weft_get_counters(&after, sizeof(after));
    weft_fixed_boxes_end();
    assert_int_equal(after.tasks, before.tasks); /* they lie there */
    weft_wait();
    assert_true(memory[boxes[0].box.offset[0] * COLUMNS] == 8);
    /* The tensor keeps its values where others are written to its memory. */
    assert_int_equal(weft_to_boxes(weft_add_scalar(a, 1), num, boxes), WEFT_OK);
    assert_int_equal(weft_to_boxes(a, num, others), WEFT_OK);
    weft_scope_end();
    assert_int_equal(weft_wait(), WEFT_OK);
    assert_no_error();
    for (int i = 0; i < num; i++) {
        for (int64_t e = 0; e < boxes[i].box.extent[0] * COLUMNS; e++) {
            assert_true(((double *)boxes[i].data)[e] == 9 && ((double *)others[i].data)[e] == 8);
        }
    }
    weft_mesh_pop();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* Several tensors are made of one memory: the first lies there, the others are copies. weft writes there after it has read for all of them. */
static void tensors_of_one_memory(void **state)
{
    (void)state;
    enum { ROWS = 40, COLUMNS = 30, COUNT = ROWS * COLUMNS };
    start_with_panels(MAX_RANKS, "3");
    int64_t ranks = weft_world_size();
    weft_mesh_push(weft_mesh_create(1, &ranks, NULL));
    static double memory[COUNT], other[COUNT];
    weft_subarray boxes[MAX_RANKS] = { 0 }, others[MAX_RANKS] = { 0 };
    int num = own_shards(ROWS, COLUMNS, boxes, memory);
    own_shards(ROWS, COLUMNS, others, other);
    const int64_t shape[] = { ROWS, COLUMNS };
    const weft_placement by_rows = weft_shard(0), by_columns = weft_shard(1);
    for (int variant = 0; variant < 12; variant++) {
        const weft_placement *second = variant % 3 == 0 ? NULL : variant % 3 == 1 ? &by_rows : &by_columns;
        for (int i = 0; i < COUNT; i++) {
            memory[i] = i;
        }
        weft_scope_begin();
        weft_tensor *first = weft_from_boxes(WEFT_F64, 2, shape, num, boxes, NULL, &by_rows);
        const bool ends = variant / 3 % 2 == 1;
        weft_scope_begin();
        weft_tensor *copy = weft_from_boxes(WEFT_F64, 2, shape, num, boxes, NULL, second);
        weft_tensor *kept = weft_scope_keep(ends ? weft_add_scalar(copy, 0) : copy);
        weft_scope_end();
        const double factor = ends ? 1 : 2;
        weft_scale_inplace(first, factor); /* what lies in the memory, and not the copy */
        weft_tensor *seven = weft_full(WEFT_F64, 7, 2, shape, NULL, variant < 6 ? &by_columns : &by_rows);
        assert_int_equal(weft_to_boxes(first, num, others), WEFT_OK);
        assert_int_equal(weft_to_boxes(seven, num, boxes), WEFT_OK);
        assert_int_equal(weft_wait(), WEFT_OK);
        for (int i = 0; i < num; i++) {
            int64_t start = boxes[i].box.offset[0] * COLUMNS, count = boxes[i].box.extent[0] * COLUMNS;
            for (int64_t e = start; e < start + count; e++) {
                assert_true(memory[e] == 7 && other[e] == factor * (double)e);
            }
        }
        assert_int_equal(weft_to_boxes(kept, num, others), WEFT_OK);
        assert_int_equal(weft_wait(), WEFT_OK);
        for (int i = 0; i < num; i++) {
            int64_t start = boxes[i].box.offset[0] * COLUMNS, count = boxes[i].box.extent[0] * COLUMNS;
            for (int64_t e = start; e < start + count; e++) {
                assert_true(other[e] == (double)e);
            }
        }
        weft_scope_end();
    }
    assert_no_error();
    weft_mesh_pop();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_in_place),
        cmocka_unit_test(tensors_of_one_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
