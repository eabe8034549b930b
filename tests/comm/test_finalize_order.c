/* A program that ends MPI before weft: the world ends first, and nothing is lost or aborted. */
#include "support.h"

#include <mpi.h>

#include <weft/mpi.h>

enum { N = 1000 };

static void test_mpi_ends_first(void **state)
{
    (void)state;
    int provided = 0;
    assert_int_equal(MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided), MPI_SUCCESS);
    for (int world = 0; world < 2; world++) { /* the first ends as it should */
        assert_int_equal(weft_init_mpi(MPI_COMM_WORLD, NULL), WEFT_OK);
        weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ weft_world_size() }, NULL);
        const weft_placement rows = weft_shard(0), whole = weft_replicate();
        static double values[N];
        const weft_subarray mine = { .box.extent = { N }, .data = values };
        weft_tensor *ones = weft_full(WEFT_F64, 1, 1, (int64_t[]){ N }, mesh, &rows);
        weft_tensor *all = weft_redistribute(ones, mesh, &whole);
        assert_int_equal(weft_to_boxes(all, 1, &mine), WEFT_OK);
        assert_int_equal(world == 0 ? (int)weft_finalize() : MPI_Finalize(), 0);
        for (int i = 0; i < N; i++) {
            assert_true(values[i] == 1); /* what was submitted has been done */
            values[i] = 0;
        }
    }
    assert_int_equal(weft_finalize(), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "weft_finalize");
    assert_int_equal(weft_init(NULL), WEFT_ERR_UNSUPPORTED);
    assert_error(WEFT_ERR_UNSUPPORTED, "MPI has been finalised");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_mpi_ends_first) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
