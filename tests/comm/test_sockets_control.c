/* The control table of the sockets, in processes that sockets_main.c forks: calls are compared with WEFT_CHECK=1, and a
 * world that breaks breaks everywhere. */
#include "support.h"

#include <stdlib.h>

static weft_tensor *make_ones(int64_t rows)
{
    const weft_placement cut = weft_shard(0);
    return weft_ones(WEFT_F32, 1, &rows, NULL, &cut);
}

static void start_checked(void)
{
    setenv("WEFT_CHECK", "1", 1);
    assert_int_equal(weft_init(NULL), WEFT_OK);
    int64_t ranks = weft_world_size();
    weft_mesh_push(weft_mesh_create(1, &ranks, NULL));
    assert_no_error();
}

static void test_calls_agree(void **state)
{
    (void)state;
    enum { ROWS = 10 };
    start_checked();
    assert_true(weft_num_processes() > 1);
    weft_scope_begin();
    float sum = 0;
    assert_int_equal(weft_to_host(weft_sum(make_ones(ROWS), WEFT_ALL_DIMS, false), &sum, sizeof(sum)),
                     WEFT_OK);
    assert_true(sum == ROWS);
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* The last: the sockets serve no world after one that broke. */
static void test_calls_differ(void **state)
{
    (void)state;
    start_checked();
    weft_scope_begin();
    assert_null(make_ones(10 + weft_process_index()));
    assert_error(WEFT_ERR_MISMATCH, "f32[11]");
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_ERR_MISMATCH);
    weft_clear_error();
    assert_int_equal(weft_init(NULL), WEFT_ERR_COMM);
    weft_clear_error();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls_agree),
        cmocka_unit_test(test_calls_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
