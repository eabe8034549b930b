/* src/layout: the panels of a shard, and their heights by the policy and the cost model. */
#include "plan_support.h"

#include <math.h>

/* ---- panels -------------------------------------------------------------------------------------------- */

static bool is_power_of_two(int64_t x)
{
    return x > 0 && (x & (x - 1)) == 0;
}

static void check_panels(const weft_layout *layout, const weft_box *box)
{
    int64_t count = weft_panel_count(layout, box);
    if (weft_box_count(layout->ndim, box) == 0) {
        assert_int_equal(count, 0);
        return;
    }
    int64_t begin = layout->ndim == 0 ? 0 : box->offset[0],
            end = layout->ndim == 0 ? 1 : begin + box->extent[0];
    int64_t at = begin;
    assert_true(count >= 1);
    for (int64_t i = 0; i < count; i++) {
        int64_t first, last;
        weft_panel_range(layout, box, i, &first, &last);
        assert_int_equal(first, at);
        assert_true(last > first);
        assert_true(last - first <= layout->panel_rows);
        assert_true(i == 0 || first % layout->panel_rows == 0);
        assert_true(i == count - 1 || last % layout->panel_rows == 0);
        for (int64_t row = first; row < last; row++) {
            assert_int_equal(weft_panel_of_row(layout, box, row), i);
        }
        at = last;
    }
    assert_int_equal(at, end);
}

static void panels_tile_shards_at_global_multiples(void **state)
{
    (void)state;
    prng random = prng_start(15);
    for (int i = 0; i < 3000; i++) {
        weft_panel_policy policy = {
            .target_bytes = 1 + prng_below(&random, 200),
            .max_panels = 1 + prng_below(&random, 9),
            .forced_rows = prng_below(&random, 3) == 0 ? 1 + prng_below(&random, 7) : 0,
        };
        weft_layout_table *table = weft_layout_table_new(policy);
        weft_mesh_impl *mesh;
        const weft_layout *layout = random_layout(&random, table, &mesh);
        assert_true(policy.forced_rows > 0 ? layout->panel_rows == policy.forced_rows
                                           : is_power_of_two(layout->panel_rows));
        for (int64_t index = 0; index < mesh->num_ranks; index++) {
            weft_box box = reference_box(layout, index);
            check_panels(layout, &box);
        }
        weft_mesh_delete(mesh);
        weft_layout_table_delete(table);
    }
}

/* A panel is about the target or larger, and a shard has about max_panels at most: one more where its
 * first row is no multiple of the height. */
static void panel_heights_follow_the_policy(void **state)
{
    (void)state;
    prng random = prng_start(16);
    for (int i = 0; i < 3000; i++) {
        weft_panel_policy policy = { .target_bytes = 1 + prng_below(&random, 400),
                                     .max_panels = 1 + prng_below(&random, 9) };
        weft_layout_table *table = weft_layout_table_new(policy);
        weft_mesh_impl *mesh;
        const weft_layout *layout = random_layout(&random, table, &mesh);
        weft_box largest = reference_box(layout, 0);
        for (int64_t index = 1; index < mesh->num_ranks; index++) {
            weft_box box = reference_box(layout, index);
            for (int d = 0; d < layout->ndim; d++) {
                largest.extent[d] = weft_max_i64(largest.extent[d], box.extent[d]);
            }
        }
        int64_t bytes = weft_box_count(layout->ndim, &largest) * (int64_t)weft_dtype_size(layout->dtype);
        for (int64_t index = 0; index < mesh->num_ranks && bytes > 0; index++) {
            weft_box box = reference_box(layout, index);
            int64_t count = weft_panel_count(layout, &box);
            assert_true(count <= policy.max_panels + 1);
            if (bytes <= policy.target_bytes) {
                assert_true(count <= 1);
            }
            if (count > 2) {
                int64_t row_bytes = weft_box_count(layout->ndim, &box) / box.extent[0] *
                                    (int64_t)weft_dtype_size(layout->dtype);
                int64_t most = bytes / largest.extent[0];
                assert_true(layout->panel_rows * weft_max_i64(row_bytes, most) >= policy.target_bytes);
            }
        }
        weft_mesh_delete(mesh);
        weft_layout_table_delete(table);
    }
}

static void panel_heights_by_default(void **state)
{
    (void)state;
    weft_layout_table *table = weft_layout_table_new((weft_panel_policy)WEFT_PANEL_POLICY_DEFAULT);
    weft_mesh_impl *mesh = mesh_of(1, (int64_t[]){ 2 }, NULL);
    weft_box box;
    /* 64 MiB in each of two shards: as many panels as there may be. */
    const weft_layout *layout = layout_of(table, mesh, "S0", 2, (int64_t[]){ 8192, 4096 }, WEFT_F32);
    weft_layout_shard_box(layout, 1, &box);
    assert_int_equal(weft_panel_count(layout, &box), 32);
    assert_int_equal(layout->panel_rows, 128);
    /* 4 KiB: one. */
    layout = layout_of(table, mesh, "S0", 2, (int64_t[]){ 64, 32 }, WEFT_F32);
    weft_layout_shard_box(layout, 1, &box);
    assert_int_equal(weft_panel_count(layout, &box), 1);
    weft_mesh_delete(mesh);
    weft_layout_table_delete(table);
}

/* ---- heights from the cost model ----------------------------------------------------------------------- */

static weft_panel_policy random_policy(prng *random)
{
    return (weft_panel_policy){ .byte_us = 1.0 / (double)(1 + prng_below(random, 5000)),
                                .panel_us = 0.5 + (double)prng_below(random, 40),
                                .min_bytes = 1 + prng_below(random, 200000),
                                .min_rows = 1 << prng_below(random, 8),
                                .max_panels = 2 + prng_below(random, 63) };
}

/* Of a tensor of so many rows on one rank. */
static int64_t height_of(const weft_panel_policy *policy, int64_t rows, int64_t columns)
{
    weft_mesh_impl *mesh = mesh_of(1, (int64_t[]){ 1 }, NULL);
    weft_placement whole = weft_replicate();
    int64_t height = weft_panel_rows(policy, mesh, &whole, 2, (int64_t[]){ rows, columns }, WEFT_F32);
    weft_mesh_delete(mesh);
    return height;
}

static void heights_are_powers_of_two_within_bounds(void **state)
{
    (void)state;
    prng random = prng_start(17);
    for (int i = 0; i < 3000; i++) {
        weft_panel_policy policy = random_policy(&random);
        int64_t rows = prng_below(&random, 20000), columns = 1 + prng_below(&random, 3000);
        int64_t height = height_of(&policy, rows, columns);
        assert_true(is_power_of_two(height));
        if (height < rows) {
            assert_true(weft_ceil_div(rows, height) <= policy.max_panels);
            assert_true(height * columns * 4 >= policy.min_bytes);
            assert_true(height >= policy.min_rows || height >= rows / 4);
            /* not much higher than what some bound asks for */
            double panels = sqrt((double)(rows * columns * 4) * policy.byte_us / policy.panel_us);
            double lower = (double)height / 2 - 1;
            assert_true(lower <= (double)rows / (panels > 1 ? panels : 1) ||
                        lower <= (double)policy.min_rows ||
                        lower * (double)columns * 4 <= (double)policy.min_bytes ||
                        lower <= (double)rows / (double)policy.max_panels + 1);
        }
    }
}

/* Slower links and cheaper panels make for lower panels; larger shards never do. */
static void heights_are_monotone(void **state)
{
    (void)state;
    prng random = prng_start(18);
    for (int i = 0; i < 3000; i++) {
        weft_panel_policy policy = random_policy(&random), slower = policy, dearer = policy;
        slower.byte_us *= 1 + (double)prng_below(&random, 10);
        dearer.panel_us *= 1 + (double)prng_below(&random, 10);
        int64_t rows = 2 + prng_below(&random, 20000), columns = 1 + prng_below(&random, 3000);
        int64_t height = height_of(&policy, rows, columns);
        assert_true(height_of(&slower, rows, columns) <= height);
        assert_true(height_of(&dearer, rows, columns) >= height);
        int64_t more = height_of(&policy, rows + prng_below(&random, 20000), columns);
        assert_true(height > rows || more >= height);
    }
}

/* Whole shards for devices up to a size, then panels of at most that size; and a part for each device of a rank, if it is large
 * enough. */
static void heights_for_devices(void **state)
{
    (void)state;
    prng random = prng_start(19);
    int whole = 0, shared = 0, cut = 0, limited = 0;
    for (int i = 0; i < 3000; i++) {
        weft_panel_policy policy = random_policy(&random);
        policy.whole_bytes = 1 + prng_below(&random, 20000000);
        policy.least_panels = 1 + prng_below(&random, 4);
        int64_t rows = 2 + prng_below(&random, 20000), columns = 1 + prng_below(&random, 3000);
        int64_t height = height_of(&policy, rows, columns), bytes = rows * columns * 4, panels = weft_ceil_div(rows, height);
        assert_true(is_power_of_two(height));
        assert_true(panels <= policy.max_panels);
        int64_t least = weft_min_i64(weft_min_i64(policy.least_panels, policy.max_panels), weft_max_i64(1, bytes / policy.min_bytes));
        /* Heights are powers of two: the last panel may have fewer rows, or none be left for it. */
        assert_true(panels >= weft_min_i64(least, rows) || weft_ceil_div(rows, height / 2) > policy.max_panels);
        if (bytes <= policy.whole_bytes && least == 1) {
            assert_int_equal(panels, 1);
            whole++;
        } else if (bytes <= policy.whole_bytes) {
            assert_true(panels < 2 * policy.least_panels + 2);
            shared++;
        } else if (height * columns * 4 <= policy.whole_bytes) {
            assert_true(panels > 1);
            cut++;
        } else {
            assert_true(height == 1 || weft_ceil_div(rows, height / 2) > policy.max_panels);
            limited++;
        }
        policy.target_bytes = 1 + prng_below(&random, 100000); /* WEFT_PANEL_BYTES */
        weft_panel_policy prescribed = policy;
        prescribed.whole_bytes = prescribed.least_panels = 0;
        assert_int_equal(height_of(&policy, rows, columns), height_of(&prescribed, rows, columns));
    }
    assert_true(whole > 100 && shared > 100 && cut > 100 && limited > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(panels_tile_shards_at_global_multiples),
        cmocka_unit_test(panel_heights_follow_the_policy),
        cmocka_unit_test(panel_heights_by_default),
        cmocka_unit_test(heights_are_powers_of_two_within_bounds),
        cmocka_unit_test(heights_are_monotone),
        cmocka_unit_test(heights_for_devices),
    };
    return cmocka_run_group_tests_name("panels", tests, NULL, NULL);
}
