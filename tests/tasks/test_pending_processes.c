/* Back-pressure in several processes, of which one is slow, or holds a shard that tasks wait for. */
#include "pending_support.h"

#include <stdlib.h>

#include "mpirun.h"

/* ---- several processes --------------------------------------------------------------------------------- */

static bool is_last(void)
{
    return weft_process_index() == weft_num_processes() - 1;
}

static weft_tensor *held; /* by the program, on this process */
static int refusals;

/* After a call has failed: it was refused, or the world is broken. True: to be made again. */
static bool again(void)
{
    if (weft_is_broken()) {
        return false;
    }
    assert_error(WEFT_ERR_STATE, "tasks wait for weft_local_release()");
    refusals++;
    assert_non_null(held);
    assert_int_equal(weft_local_release(held, 0), WEFT_OK);
    held = NULL;
    return true;
}

#define MAKE(tensor, call)                                                                                   \
    do {                                                                                                     \
        (tensor) = (call);                                                                                   \
    } while ((tensor) == NULL && again())

/* Each element becomes the mean of all, plus one; `rows`: a power of two, for exact results. NULL: the world
 * is broken. */
static weft_tensor *step(weft_tensor *x, int64_t rows)
{
    weft_tensor *sum, *mean, *zeros, *means, *next;
    weft_scope_begin();
    MAKE(sum, weft_sum(x, WEFT_ALL_DIMS, false));
    MAKE(mean, weft_scale(sum, 1.0 / (double)rows));
    MAKE(zeros, weft_scale(x, 0));
    MAKE(means, weft_add(zeros, mean));
    MAKE(next, weft_add_scalar(means, 1));
    if (next != NULL) {
        weft_scope_keep(next);
    }
    weft_scope_end();
    return next;
}

/* Returns how many steps were done: all, unless the world breaks. */
static int go(weft_tensor **x, int64_t rows, int steps, int64_t most)
{
    enum { OF_ONE_CALL = 50 };
    for (int done = 0; done < steps; done++) {
        weft_tensor *next = step(*x, rows);
        if (next == NULL) {
            return done;
        }
        weft_tensor_release(*x);
        *x = next;
        assert_true(pending_now() < most + OF_ONE_CALL);
    }
    return steps;
}

static void test_one_process_is_slow(void **state)
{
    (void)state;
    enum { MOST = 200, STEPS = 1500, ROWS = 8 };
    start(MOST, 0);
    weft_tensor *x = full(ROWS, 0, "S0");
    for (int round = 0; round < 3; round++) {
        if (is_last()) {
            sleep_ms(400);
        }
        assert_int_equal(go(&x, ROWS, STEPS, MOST), STEPS);
    }
    check_values(x, ROWS, 3 * STEPS);
    weft_tensor_release(x);
    stop();
}

/* Process 0 only sends, to one that does not come to its calls for a while. */
static void test_receiver_is_slow(void **state)
{
    (void)state;
    enum { CALLS = 40000, ROWS = 400, MAX_MB = 100 };
    start(0, 0);
    weft_mesh *source = weft_mesh_of_ranks(1, (int64_t[]){ 1 }, (int[]){ 0 }, NULL);
    weft_mesh *target = weft_mesh_of_ranks(1, (int64_t[]){ 1 }, (int[]){ 1 }, NULL);
    mesh = source;
    weft_tensor *x = full(ROWS, 1, "R"), *late = full(ROWS, 2, "R"), *came = NULL;
    assert_int_equal(weft_wait(), WEFT_OK);
    int64_t before = resident_mb(), largest = 0;
    let_doze(late, 1500);
    weft_tensor *awaited = weft_redistribute(late, target, NULL); /* so that messages are looked for */
    if (weft_process_index() == 1) {
        sleep_ms(1000);
    }
    for (int i = 0; i < CALLS; i++) {
        if (came != NULL) {
            weft_tensor_release(came);
        }
        came = weft_redistribute(x, target, NULL);
        if (i % 1000 == 0 && resident_mb() > largest) {
            largest = resident_mb();
        }
    }
    check_values(came, ROWS, 1);
    check_values(awaited, ROWS, 2);
    if (!SANITIZED && largest - before > MAX_MB) {
        fail_msg("took %lld MB, at most %d expected", (long long)(largest - before), MAX_MB);
    }
    weft_tensor_release(x);
    weft_tensor_release(late);
    weft_tensor_release(came);
    weft_tensor_release(awaited);
    stop();
}

/* The limit is each process's own affair. */
static void test_limits_differ(void **state)
{
    (void)state;
    enum { STEPS = 1000, ROWS = 4 };
    int process = mpirun_process() < 0 ? 0 : mpirun_process();
    int64_t most = process == 0 ? 1 : process == 1 ? -1 : 50;
    start(most, 0);
    weft_tensor *x = full(ROWS, 0, "S0");
    assert_int_equal(go(&x, ROWS, STEPS, most < 0 ? 1000000 : most), STEPS);
    check_values(x, ROWS, STEPS);
    weft_tensor_release(x);
    stop();
}

/* If a call is refused on one process, the others wait for it: the program releases its shard and repeats
 * the call. */
static void run_with_held_shards(bool everywhere)
{
    enum { MOST = 150, STEPS = 400, ROWS = 8 };
    start(MOST, 0);
    weft_tensor *x = full(ROWS, 0, "S0"), *one = full(ROWS, 1, "S0");
    bool holds = everywhere || weft_process_index() == 0;
    if (holds) {
        assert_non_null(weft_local_acquire(x, 0, WEFT_READ));
        held = x;
    }
    refusals = 0;
    assert_non_null(weft_add_inplace(x, one, 1)); /* waits where it is held */
    weft_tensor *y = weft_scale(x, 1);
    assert_int_equal(go(&y, ROWS, STEPS, MOST), STEPS);
    assert_int_equal(refusals, holds);
    check_values(y, ROWS, STEPS + 1);
    check_values(x, ROWS, 1);
    weft_tensor_release(x);
    weft_tensor_release(y);
    weft_tensor_release(one);
    stop();
}

static void test_shard_held_on_one_process(void **state)
{
    (void)state;
    run_with_held_shards(false);
}

static void test_shards_held_everywhere(void **state)
{
    (void)state;
    run_with_held_shards(true);
}

/* Comes last: the world does not recover. One process leaves the others waiting, in back-pressure. */
static void test_broken_world_ends_the_wait(void **state)
{
    (void)state;
    enum { MOST = 50, ROWS = 8, TIMEOUT_S = 2 };
    weft_config config = WEFT_CONFIG_DEFAULT;
    config.max_pending_tasks = MOST;
    config.timeout_s = TIMEOUT_S;
    start_configured(&config);
    weft_tensor *x = full(ROWS, 0, "S0");
    if (is_last()) {
        sleep_ms(TIMEOUT_S * 3000); /* the others have long been waiting by then */
        while (go(&x, ROWS, 1, MOST) == 1) { /* hears of it when it takes part again */
            sleep_ms(20);
        }
    } else {
        int done = go(&x, ROWS, 1000000, MOST);
        assert_in_range(done, 0, 1000);
        assert_true(weft_last_status() == WEFT_ERR_TIMEOUT || weft_last_status() == WEFT_ERR_COMM);
    }
    assert_int_not_equal(weft_finalize(), WEFT_OK);
    weft_clear_error();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_process_is_slow),
        cmocka_unit_test(test_receiver_is_slow),
        cmocka_unit_test(test_limits_differ),
        cmocka_unit_test(test_shard_held_on_one_process),
        cmocka_unit_test(test_shards_held_everywhere),
        cmocka_unit_test(test_broken_world_ends_the_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
