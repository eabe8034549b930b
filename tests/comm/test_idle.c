/* Workers without tasks sleep, tasks wake as many as can run them, and weft_pause() keeps all asleep. Counts workers and
 * tasks, never time. */
#include "support.h"

#include <stdatomic.h>
#include <starpu.h>
#include <stdlib.h>
#include <time.h>

#include "runtime/pending.h"
#include "runtime/runtime.h"
#include "sched/sched.h"

enum { WORKERS = 3, LIMIT = 64, ROWS = 2 * WORKERS, GIVES_UP_S = 30 };

static void rest(long us)
{
    nanosleep(&(struct timespec){ 0, us * 1000 }, NULL);
}

/* ---- kernels ------------------------------------------------------------------------------------------- */

static atomic_int executed, gathered, gave_up;

static void copy(const weft_kernel_call *call)
{
    *(double *)weft_view_row(&call->output, 0, NULL) = *(const double *)weft_view_row(&call->inputs[0], 0, NULL);
    atomic_fetch_add(&executed, 1);
}

/* Ends when WORKERS tasks have begun: each needs a worker that is awake. */
static void gather(const weft_kernel_call *call)
{
    const time_t begin = time(NULL);
    atomic_fetch_add(&gathered, 1);
    while (atomic_load(&gathered) % WORKERS != 0 && atomic_load(&gave_up) == 0) {
        rest(20);
        if (time(NULL) - begin > GIVES_UP_S) {
            atomic_store(&gave_up, 1);
        }
    }
    copy(call);
}

static const weft_operation *of_rows(const char *name, weft_kernel kernel)
{
    const weft_operation *operation = weft_operation_register(&(weft_operation_description){
        .name = name, .rule = "a->a", .inputs = { { "a", WEFT_TYPE_BIT(WEFT_F64), false } }, .kernel = kernel });
    assert_non_null(operation);
    return operation;
}

/* ---- the world ----------------------------------------------------------------------------------------- */

static const weft_operation *copies, *gathers;
static weft_mesh *mesh;
static prng randomness;

static int start(void **state)
{
    (void)state;
    const weft_config config = { .workers = WORKERS, .max_pending_tasks = LIMIT };
    setenv("WEFT_PANEL_ROWS", "1", 1);
    if (weft_init(&config) != WEFT_OK) {
        return -1;
    }
    const int64_t size = weft_world_size();
    mesh = weft_mesh_create(1, &size, NULL);
    copies = of_rows("copies", copy);
    gathers = of_rows("gathers", gather);
    randomness = prng_start(7);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    return weft_finalize() == WEFT_OK ? 0 : -1;
}

/* Whether all have slept at one moment. A look of their own interrupts sleep now and then, so a second look here could miss it. */
static bool all_sleep(void)
{
    const time_t begin = time(NULL);
    while (weft_sched_asleep() < (int)starpu_cpu_worker_get_count()) {
        if (time(NULL) - begin > GIVES_UP_S) {
            return false;
        }
        rest(200);
    }
    return true;
}

static weft_tensor *rows_of(int64_t rows)
{
    const int64_t shape[] = { rows * weft_world_size() };
    const weft_placement by_rows[] = { weft_shard(0) };
    weft_tensor *a = weft_ones(WEFT_F64, 1, shape, mesh, by_rows);
    assert_non_null(a);
    return a;
}

static weft_tensor *apply(const weft_operation *operation, weft_tensor *a)
{
    weft_tensor *out = weft_apply(operation, 1, (weft_tensor *const[]){ a }, NULL);
    assert_non_null(out);
    return out;
}

static void assert_sum(weft_tensor *a, double expected)
{
    double sum = 0;
    assert_int_equal(weft_tensor_item(weft_sum(a, WEFT_ALL_DIMS, false), &sum), WEFT_OK);
    assert_true(sum == expected);
}

/* ---- sleep --------------------------------------------------------------------------------------------- */

static void test_all_sleep_after_the_last_task(void **state)
{
    (void)state;
    assert_int_equal(starpu_cpu_worker_get_count(), WORKERS);
    for (int i = 0; i < 3; i++) {
        weft_scope_begin();
        assert_sum(apply(copies, rows_of(ROWS)), ROWS * weft_world_size());
        weft_scope_end();
        assert_int_equal(weft_wait(), WEFT_OK);
        assert_true(all_sleep());
    }
}

/* Tasks come while all sleep, while some fall asleep, and while all look: as many workers wake as there are tasks. */
static void test_as_many_wake_as_there_are_tasks(void **state)
{
    (void)state;
    for (int round = 0; round < 300; round++) {
        weft_scope_begin();
        weft_tensor *a = rows_of(WORKERS);
        assert_int_equal(weft_wait(), WEFT_OK);
        if (round % 30 == 0) {
            assert_true(all_sleep());
        } else {
            rest((long)prng_below(&randomness, round % 3 == 0 ? 200 : 3000));
        }
        weft_tensor *b = apply(gathers, a);
        assert_int_equal(weft_wait(), WEFT_OK);
        assert_int_equal(gave_up, 0);
        assert_sum(b, WORKERS * weft_world_size());
        weft_scope_end();
    }
    assert_int_equal(weft_sched_missed(), 0);
}

/* A chain keeps one worker awake, whose next task comes from itself, and bursts beside it wake others. */
static void test_chains_and_bursts(void **state)
{
    (void)state;
    for (int round = 0; round < 100; round++) {
        weft_scope_begin();
        weft_tensor *chain = rows_of(1);
        for (int i = 0; i < 10; i++) {
            chain = apply(copies, chain);
            if (prng_below(&randomness, 8) == 0) {
                apply(copies, rows_of(ROWS));
                rest((long)prng_below(&randomness, 2500));
            }
        }
        assert_sum(chain, weft_world_size());
        weft_scope_end();
    }
    assert_int_equal(weft_sched_missed(), 0);
}

/* ---- pause --------------------------------------------------------------------------------------------- */

static void test_no_task_begins_in_a_pause(void **state)
{
    (void)state;
    for (int round = 0; round < 20; round++) {
        weft_scope_begin();
        weft_tensor *a = rows_of(ROWS);
        assert_int_equal(weft_wait(), WEFT_OK);
        if (round % 2 == 0) {
            rest((long)prng_below(&randomness, 2000));
        }
        int before = executed;
        assert_int_equal(weft_pause(), WEFT_OK);
        assert_int_equal(weft_pause(), WEFT_OK);
        weft_tensor *b = apply(copies, a);
        assert_true(all_sleep());
        assert_int_equal(executed, before);
        assert_true(atomic_load(&weft_runtime.pending->count) >= ROWS);
        assert_int_equal(weft_resume(), WEFT_OK);
        assert_int_equal(weft_resume(), WEFT_OK);
        assert_sum(b, ROWS * weft_world_size());
        assert_int_equal(executed, before + ROWS);
        weft_scope_end();
    }
}

/* Tasks under way end, and the others wait. */
static void test_a_pause_between_tasks(void **state)
{
    (void)state;
    for (int round = 0; round < 50; round++) {
        weft_scope_begin();
        weft_tensor *a = rows_of(ROWS);
        for (int i = 0; i < 5; i++) {
            a = apply(copies, a);
        }
        weft_pause();
        assert_true(all_sleep());
        int before = executed;
        rest((long)prng_below(&randomness, 500));
        assert_int_equal(executed, before);
        weft_resume();
        assert_sum(a, ROWS * weft_world_size());
        weft_scope_end();
    }
}

/* Whatever waits resumes. */
static void test_waits_end_a_pause(void **state)
{
    (void)state;
    for (int round = 0; round < 10; round++) {
        weft_scope_begin();
        weft_tensor *a = rows_of(ROWS);
        weft_pause();
        weft_tensor *b = apply(copies, a);
        assert_int_equal(weft_wait(), WEFT_OK);
        weft_pause();
        b = apply(copies, b);
        assert_sum(b, ROWS * weft_world_size());
        weft_pause();
        b = apply(copies, b);
        const double *values = weft_local_acquire(b, 0, WEFT_READ);
        assert_non_null(values);
        assert_true(values[0] == 1 && values[ROWS - 1] == 1);
        assert_int_equal(weft_local_release(b, 0), WEFT_OK);
        weft_pause();
        for (int i = 0; i < LIMIT; i++) { /* more tasks than may be pending */
            b = apply(copies, b);
        }
        assert_sum(b, ROWS * weft_world_size());
        weft_pause();
        weft_scope_end();
    }
    assert_int_equal(weft_wait(), WEFT_OK);
}

/* The other processes wait for the tasks of the last one, which has no task for them before it resumes. */
static void test_others_wait_for_a_process_that_pauses(void **state)
{
    (void)state;
    for (int round = 0; round < 10; round++) {
        bool pauses = weft_process_index() == weft_num_processes() - 1;
        weft_scope_begin();
        weft_tensor *a = rows_of(ROWS);
        if (pauses) {
            weft_pause();
        }
        weft_tensor *whole = weft_redistribute(apply(copies, a), NULL, NULL);
        if (pauses) {
            assert_true(all_sleep());
            weft_resume();
        }
        assert_sum(whole, ROWS * weft_world_size());
        weft_scope_end();
    }
}

static void test_finalize_in_a_pause(void **state)
{
    (void)state;
    apply(copies, rows_of(ROWS));
    assert_int_equal(weft_pause(), WEFT_OK);
}

static void test_needs_weft(void **state)
{
    (void)state;
    assert_int_equal(weft_pause(), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "weft_pause");
    assert_int_equal(weft_resume(), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "weft_resume");
}

int main(void)
{
    const struct CMUnitTest outside[] = { cmocka_unit_test(test_needs_weft) };
    const struct CMUnitTest tests[] = {
#ifdef STARPU_NON_BLOCKING_DRIVERS /* else StarPU lets them sleep, and does not count */
        cmocka_unit_test(test_all_sleep_after_the_last_task),
        cmocka_unit_test(test_no_task_begins_in_a_pause),
        cmocka_unit_test(test_a_pause_between_tasks),
        cmocka_unit_test(test_others_wait_for_a_process_that_pauses),
#endif
        cmocka_unit_test(test_as_many_wake_as_there_are_tasks),
        cmocka_unit_test(test_chains_and_bursts),
        cmocka_unit_test(test_waits_end_a_pause),
        cmocka_unit_test(test_finalize_in_a_pause),
    };
    int failed = cmocka_run_group_tests(outside, NULL, NULL);
    return failed + cmocka_run_group_tests(tests, start, stop);
}
