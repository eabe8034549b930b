/* Messages of both transports: a group of NCCL's whose peer waits for a message through MPI. That message is of a panel that a task of
 * ours has yet to compute, and the task waits for the device, which is busy with the group. Groups begin after the messages that were
 * submitted before them have left the device, or both processes would wait for ever. On two processes. */
#include "comm/comm.h"
#include "support.h"

#include <time.h>

#include "runtime/runtime.h"
#include "stand_in.h"

enum { SIDE = 64, STEPS = 4 };

static void check_all(weft_tensor *tensor, double upper, double lower)
{
    static double values[2 * SIDE * SIDE];
    assert_int_equal(weft_to_host(tensor, values, sizeof(values)), WEFT_OK);
    for (int i = 0; i < 2 * SIDE * SIDE; i++) {
        assert_true(values[i] == (i < SIDE * SIDE ? upper : lower));
    }
}

/* Process 0 has the upper rows of the joined tensor, all of `early`, and process 1 those of `late`, half of which process 0 computes. */
static void test_group_waits_for_the_message_before_it(void **state)
{
    (void)state;
    assert_int_equal(weft_init(NULL), WEFT_OK);
    assert_int_equal(weft_mesh_push(weft_mesh_create(1, (int64_t[]){ 2 }, NULL)), WEFT_OK);
    weft_placement rows = weft_shard(0), columns = weft_shard(1);
    weft_tensor *early = weft_ones(WEFT_F64, 2, (int64_t[]){ SIDE, SIDE }, NULL, &rows), *first = weft_ones_like(early), *late = first;
    assert_int_equal(weft_wait(), WEFT_OK);
    const int64_t before = stand_in_counted_calls().mallocs;
    double *held = weft_process_index() == 0 ? weft_local_acquire(first, 0, WEFT_WRITE) : NULL;
    for (int i = 0; i < STEPS; i++) { /* each in memory of its own, which the device has to allocate */
        late = weft_scale(late, 2);
    }
    weft_tensor *joined = weft_cat(2, (weft_tensor *[]){ early, late }, 0), *turned = weft_redistribute(joined, NULL, &columns);
    assert_non_null(turned);
    nanosleep(&(struct timespec){ 0, 300000000 }, NULL);
    if (held != NULL) {
        for (int i = 0; i < SIDE / 2 * SIDE; i++) {
            held[i] = 1;
        }
        assert_int_equal(weft_local_release(first, 0), WEFT_OK);
    }
    check_all(turned, 1, 1 << STEPS);
    assert_true(stand_in_counted_calls().mallocs > before);
    assert_no_error();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_group_waits_for_the_message_before_it) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
