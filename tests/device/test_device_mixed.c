/* Processes of which some have a device and others none, or two share one: right numbers, through MPI; and where NCCL is
 * asked for, all are told why not. nccl_main.c gives each its devices. */
#include "support.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"
#include "stand_in.h"

enum { ROWS = 60, INNER = 24, COLUMNS = 50 };

static double a[ROWS * INNER], b[INNER * COLUMNS], product[ROWS * COLUMNS], got[ROWS * COLUMNS];

static bool shares_device(void)
{
    return strcmp(getenv("STAND_IN_DEVICES"), "1") == 0;
}

/* One process asks for NCCL. */
static void test_nccl_is_refused(void **state)
{
    (void)state;
    bool asks = strcmp(getenv("OMPI_COMM_WORLD_RANK"), "1") == 0;
    if (asks) {
        setenv("WEFT_NCCL", "1", 1);
    }
    assert_int_equal(weft_init(NULL), WEFT_ERR_UNSUPPORTED);
    assert_error(WEFT_ERR_UNSUPPORTED, shares_device() ? "WEFT_NCCL is 1, but NCCL cannot be used: processes 0 and 1 share a device"
                                                       : "WEFT_NCCL is 1, but NCCL cannot be used: process 1: no CUDA device");
    unsetenv("WEFT_NCCL");
}

static void fill_in(void)
{
    prng rolls = prng_start(3);
    for (int i = 0; i < ROWS * INNER; i++) {
        a[i] = (double)prng_below(&rolls, 100);
    }
    for (int i = 0; i < INNER * COLUMNS; i++) {
        b[i] = (double)prng_below(&rolls, 100);
    }
    for (int i = 0; i < ROWS; i++) {
        for (int j = 0; j < COLUMNS; j++) {
            product[i * COLUMNS + j] = 1;
            for (int k = 0; k < INNER; k++) {
                product[i * COLUMNS + j] += a[i * INNER + k] * b[k * COLUMNS + j];
            }
        }
    }
}

/* Processes with and without devices cut shards alike. */
static void assert_equal_heights(void)
{
    const weft_panel_policy *mine = &weft_runtime.panels;
    int64_t own[3] = { mine->whole_bytes, mine->least_panels, mine->min_bytes }, least[3], most[3];
    MPI_Allreduce(own, least, 3, MPI_INT64_T, MPI_MIN, MPI_COMM_WORLD);
    MPI_Allreduce(own, most, 3, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
    assert_memory_equal(least, most, sizeof(least));
    assert_int_equal(own[0] > 0, strcmp(getenv("WEFT_BITS"), "fast") == 0);
}

/* Whole numbers, so that sums have the same bits in any order. */
static void test_products_of_all_layouts(void **state)
{
    (void)state;
    static const char *const layouts[] = { "S0", "S1", "R" };
    fill_in();
    if (weft_init(NULL) != WEFT_OK) {
        fail_msg("%s", weft_last_error());
    }
    bool device = strcmp(getenv("WEFT_DEVICES"), "1") == 0;
    assert_int_equal(weft_runtime.device_bytes > 0, device);
    assert_equal_heights();
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ weft_world_size() }, NULL);
    weft_mesh_push(mesh);
    for (int i = 0; i < 27; i++) {
        weft_placement from, with, to;
        weft_placements_parse(layouts[i / 9], 1, &from);
        weft_placements_parse(layouts[i / 3 % 3], 1, &with);
        weft_placements_parse(layouts[i % 3], 1, &to);
        weft_scope_begin();
        weft_tensor *x = weft_distribute(WEFT_F64, 2, (int64_t[]){ ROWS, INNER }, a, mesh, &from);
        weft_tensor *y = weft_distribute(WEFT_F64, 2, (int64_t[]){ INNER, COLUMNS }, b, mesh, &with);
        weft_tensor *z = weft_redistribute(weft_add_scalar(weft_matmul(x, y), 1), mesh, &to);
        assert_int_equal(weft_to_host(z, got, sizeof(got)), WEFT_OK);
        weft_scope_end();
        assert_memory_equal(got, product, sizeof(got));
    }
    assert_no_error();
    assert_int_equal(weft_finalize(), WEFT_OK);
    int64_t launches = 0;
    for (int d = 0; d < STAND_IN_MAX_DEVICES; d++) {
        launches += stand_in_device_counts(d).launches;
    }
    assert_int_equal(launches > 0, device);
}

/* MPI is the test's own: it can be started once, and weft twice. */
int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nccl_is_refused),
        cmocka_unit_test(test_products_of_all_layouts),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    MPI_Finalize();
    return failed;
}
