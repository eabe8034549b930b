/* Boxes of processes beside a layout, without a runtime: coverage and transfers against dense arrays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plan/boxes.h"
#include "plan_support.h"
#include "prng.h"

enum { MAX_BOXES = 300, MAX_CELLS = 4096 };

static weft_owned_box boxes[MAX_BOXES];

static void add_box(weft_box_set *set, prng *random, const weft_box *box)
{
    weft_owned_box *owned = &set->boxes[set->count++];
    *owned = (weft_owned_box){ .process = (int)prng_below(random, 5), .contiguous = prng_below(random, 2) };
    memcpy(&owned->box, box, sizeof(*box));
}

static void divide(weft_box_set *set, prng *random, weft_box box, int depth)
{
    int dim = set->ndim == 0 ? 0 : (int)prng_below(random, (uint64_t)set->ndim);
    if (depth == 0 || set->ndim == 0 || box.extent[dim] < 2) {
        add_box(set, random, &box);
        return;
    }
    weft_box rest = box;
    box.extent[dim] = 1 + (int64_t)prng_below(random, (uint64_t)box.extent[dim] - 1);
    rest.offset[dim] += box.extent[dim];
    rest.extent[dim] -= box.extent[dim];
    divide(set, random, box, depth - 1);
    divide(set, random, rest, depth - 1);
}

/* Adds 1 to each cell of the box; cells are row-major. */
static void count_cells(int ndim, const int64_t shape[], const weft_box *box, int cells[])
{
    int64_t count = weft_box_count(ndim, box);
    for (int64_t e = 0; e < count; e++) {
        int64_t rest = e, cell = 0, step = 1;
        for (int d = ndim - 1; d >= 0; d--) {
            cell += (box->offset[d] + rest % box->extent[d]) * step;
            rest /= box->extent[d];
            step *= shape[d];
        }
        cells[cell]++;
    }
}

static int64_t random_whole(prng *random, int *ndim, int64_t shape[])
{
    int64_t count = 1;
    *ndim = (int)prng_below(random, 5);
    for (int d = 0; d < *ndim; d++) {
        shape[d] = prng_below(random, 12) == 0 ? 0 : 1 + (int64_t)prng_below(random, 7);
        count *= shape[d];
    }
    return count;
}

/* Cuts of the whole are right; a box moved, left out, or given twice is found where the dense count says. */
static void coverage_is_the_dense_count(void **state)
{
    (void)state;
    prng random = prng_start(1);
    int gaps = 0, overlaps = 0;
    for (int round = 0; round < 5000; round++) {
        weft_box_set set = { .boxes = boxes };
        int64_t shape[WEFT_MAX_DIMS] = { 0 }, cells = random_whole(&random, &set.ndim, shape);
        weft_box whole = weft_box_whole(set.ndim, shape);
        divide(&set, &random, whole, (int)prng_below(&random, 7));
        weft_box *changed = &boxes[prng_below(&random, (uint64_t)set.count)].box;
        uint64_t change = prng_below(&random, 4);
        int dim = set.ndim == 0 ? 0 : (int)prng_below(&random, (uint64_t)set.ndim);
        if (change == 1 && set.ndim > 0 && changed->extent[dim] > 0) {
            changed->extent[dim]--;
        } else if (change == 2) {
            add_box(&set, &random, changed);
        } else if (change == 3 && set.ndim > 0 && changed->offset[dim] > 0) {
            changed->offset[dim]--;
        }
        static int counts[MAX_CELLS];
        memset(counts, 0, sizeof(counts));
        for (int64_t i = 0; i < set.count; i++) {
            count_cells(set.ndim, shape, &boxes[i].box, counts);
        }
        bool gap = false, overlap = false;
        for (int64_t i = 0; i < cells; i++) {
            gap = gap || counts[i] == 0;
            overlap = overlap || counts[i] > 1;
        }
        weft_box_fault fault = weft_box_set_check(&set, shape);
        assert_int_equal(fault.kind == WEFT_BOXES_RIGHT, !gap && !overlap);
        if (fault.kind != WEFT_BOXES_RIGHT) { /* each index that is named has the fault */
            static int named[MAX_CELLS];
            memset(named, 0, sizeof(named));
            count_cells(set.ndim, shape, &fault.where, named);
            for (int64_t i = 0; i < cells; i++) {
                assert_true(named[i] == 0 || (fault.kind == WEFT_BOXES_GAP ? counts[i] == 0 : counts[i] > 1));
            }
            gaps += fault.kind == WEFT_BOXES_GAP;
            overlaps += fault.kind == WEFT_BOXES_OVERLAP;
            assert_true(weft_box_count(set.ndim, &fault.where) > 0);
            assert_true(fault.kind == WEFT_BOXES_GAP || fault.first != fault.second);
        }
    }
    assert_true(gaps > 200 && overlaps > 200);
}

static void strides_of_memory(void **state)
{
    (void)state;
    const int64_t extent[] = { 3, 4, 5 }, rows[] = { 20, 5, 1 }, columns[] = { 1, 3, 12 }, gaps[] = { 100, 10, 2 },
                  same[] = { 5, 5, 1 }, negative[] = { -20, 5, 1 }, zero[] = { 20, 0, 1 }, large[] = { INT64_MAX / 4, 5, 1 };
    int dim = -1;
    assert_int_equal(weft_strides_span(3, extent, rows, &dim), 60);
    assert_int_equal(weft_strides_span(3, extent, columns, &dim), 60);
    assert_int_equal(weft_strides_span(3, extent, gaps, &dim), 200 + 30 + 8 + 1);
    assert_int_equal(weft_strides_span(3, extent, same, &dim), -1);
    assert_int_equal(weft_strides_span(3, extent, negative, &dim), -1);
    assert_int_equal(dim, 0);
    assert_int_equal(weft_strides_span(3, extent, zero, &dim), -1);
    assert_int_equal(dim, 1);
    assert_int_equal(weft_strides_span(3, extent, large, &dim), -1);
    assert_int_equal(weft_strides_span(3, (const int64_t[]){ 3, 0, 5 }, negative, &dim), 0);
    assert_int_equal(weft_strides_span(3, (const int64_t[]){ 1, 4, 5 }, negative, &dim), 20);
    assert_int_equal(weft_strides_span(0, NULL, NULL, &dim), 1);
    assert_true(weft_strides_are_row_major(3, extent, rows) && !weft_strides_are_row_major(3, extent, columns));
    assert_int_equal(weft_strides_slowest(3, extent, rows), 0);
    assert_int_equal(weft_strides_slowest(3, extent, columns), 2);
}

/* Each element of every shard comes from one box; each element of every box from one shard; and both ends list the
 * same transfers. */
static void transfers_are_complete(void **state)
{
    (void)state;
    enum { PROCESSES = 5, RANKS = 11 };
    const int first_rank[] = { 0, 2, 3, 3 + 4, 10, RANKS };
    const weft_topology topology = { RANKS, PROCESSES, first_rank };
    prng random = prng_start(2);
    weft_layout_table *table = weft_layout_table_new((weft_panel_policy)WEFT_PANEL_POLICY_DEFAULT);
    enum { ROUNDS = 600 };
    static weft_mesh_impl *meshes[ROUNDS]; /* layouts are known by their mesh's address */
    for (int round = 0; round < ROUNDS; round++) {
        weft_box_set set = { .boxes = boxes };
        int64_t shape[WEFT_MAX_DIMS] = { 0 }, cells = random_whole(&random, &set.ndim, shape);
        divide(&set, &random, weft_box_whole(set.ndim, shape), (int)prng_below(&random, 5));
        const int64_t sizes[] = { 1 + (int64_t)prng_below(&random, 3), 1 + (int64_t)prng_below(&random, 3) };
        int ranks[9];
        for (int i = 0; i < 9; i++) {
            ranks[i] = (int)((i * 4 + round) % RANKS);
        }
        weft_status status;
        const weft_mesh_impl *mesh = meshes[round] = weft_mesh_new(2, sizes, ranks, NULL, RANKS, &status, NULL, 0);
        weft_placement placements[2] = { weft_replicate(), weft_replicate() };
        for (int m = 0; m < 2 && set.ndim > 0; m++) {
            bool shards = prng_below(&random, 3) > 0;
            placements[m] = shards ? weft_shard((int)prng_below(&random, (uint64_t)set.ndim)) : weft_replicate();
        }
        const weft_layout *layout = weft_layout_intern(table, mesh, placements, set.ndim, shape, WEFT_F64);
        bool into_tensor = prng_below(&random, 2);
        weft_vec at[PROCESSES] = { { 0 } };
        size_t total = 0, remote = 0;
        for (int p = 0; p < PROCESSES; p++) {
            assert_true(weft_box_transfers(&set, layout, &topology, into_tensor, p, &at[p]));
            total += at[p].count;
        }
        static int counts[RANKS + MAX_BOXES][MAX_CELLS];
        memset(counts, 0, sizeof(counts));
        for (int p = 0; p < PROCESSES; p++) {
            const weft_box_transfer *all = at[p].items;
            for (size_t i = 0; i < at[p].count; i++) {
                int at_box = boxes[all[i].box].process, at_rank = weft_topology_process_of(&topology, all[i].rank);
                assert_true(at_box == p || at_rank == p);
                remote += at_box != at_rank;
                if ((into_tensor ? at_rank : at_box) == p) {
                    count_cells(set.ndim, shape, &all[i].part, counts[into_tensor ? all[i].rank : RANKS + all[i].box]);
                }
            }
            weft_vec_free(&at[p]);
        }
        assert_int_equal(remote % 2, 0); /* at both ends */
        assert_true(remote <= total);
        for (int t = 0; t < RANKS + (int)set.count; t++) {
            static int expected[MAX_CELLS];
            weft_box box = { .extent = { 0 } };
            bool wanted = into_tensor ? t < RANKS && weft_layout_shard_box(layout, t, &box) : t >= RANKS;
            memset(expected, 0, sizeof(expected));
            if (wanted) {
                count_cells(set.ndim, shape, into_tensor ? &box : &boxes[t - RANKS].box, expected);
            }
            assert_memory_equal(expected, counts[t], (size_t)cells * sizeof(int));
        }
    }
    weft_layout_table_delete(table);
    for (int round = 0; round < ROUNDS; round++) {
        weft_mesh_delete(meshes[round]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(coverage_is_the_dense_count),
        cmocka_unit_test(strides_of_memory),
        cmocka_unit_test(transfers_are_complete),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
