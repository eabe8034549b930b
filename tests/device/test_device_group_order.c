/* Groups that become ready in another order on one process than on the other: they begin in the order of the calls all the
 * same. With ready_order.c they do not, and the stand-in of NCCL finds that. On two processes; argument: "ready" if it is
 * linked with that. */
#include "support.h"

#include <string.h>
#include <time.h>

#include "runtime/runtime.h"

static bool in_ready_order;

static weft_tensor *rows_of_ones(int64_t rows)
{
    weft_placement by_rows = weft_shard(0);
    return weft_ones(WEFT_F64, 2, (int64_t[]){ rows, 32 }, NULL, &by_rows);
}

static weft_tensor *by_columns(weft_tensor *tensor)
{
    weft_placement columns = weft_shard(1);
    return weft_redistribute(tensor, NULL, &columns);
}

/* Process 0's rows are twos. */
static void check_values(weft_tensor *tensor, int64_t rows)
{
    const double *values = weft_local_acquire(tensor, 0, WEFT_READ);
    assert_non_null(values);
    for (int64_t i = 0; i < rows * 16; i++) {
        assert_true(values[i] == (i < rows * 8 ? 2.0 : 1.0));
    }
    assert_int_equal(weft_local_release(tensor, 0), WEFT_OK);
}

static void check_failure(void)
{
    weft_status status = weft_wait();
    if (status != WEFT_ERR_COMM || strstr(weft_last_error(), "NCCL has failed") == NULL) {
        fail_msg("status %d: %s", (int)status, weft_last_error());
    }
}

/* The first one's source is held by the program of process 0. */
static void test_second_is_ready_first(void **state)
{
    (void)state;
    enum { LARGE = 64, SMALL = 16 };
    assert_int_equal(weft_init(NULL), WEFT_OK);
    assert_int_equal(weft_mesh_push(weft_mesh_create(1, (int64_t[]){ 2 }, NULL)), WEFT_OK);
    weft_tensor *large = rows_of_ones(LARGE), *small = rows_of_ones(SMALL);
    assert_int_equal(weft_wait(), WEFT_OK);
    double *held = weft_process_index() == 0 ? weft_local_acquire(large, 0, WEFT_WRITE) : NULL;
    weft_tensor *first = by_columns(large), *second = by_columns(small);
    nanosleep(&(struct timespec){ 0, 300000000 }, NULL);
    if (held != NULL) {
        for (int i = 0; i < LARGE / 2 * 32; i++) {
            held[i] = 2;
        }
        assert_int_equal(weft_local_release(large, 0), WEFT_OK);
    }
    if (in_ready_order) {
        check_failure();
    } else {
        check_values(first, LARGE);
        assert_non_null(second);
        assert_no_error();
    }
    weft_status status = weft_finalize();
    assert_int_equal(status == WEFT_OK, !in_ready_order);
}

int main(int argc, char **argv)
{
    in_ready_order = argc > 1 && strcmp(argv[1], "ready") == 0;
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_second_is_ready_first) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
