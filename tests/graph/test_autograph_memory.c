/* Repeated calls without memory (WEFT_AUTOGRAPH=1): whichever allocation fails, an error is kept, or all values are right; the next
 * steps are right, and nothing is left over. */
#include <stdlib.h>

#include "call/deferral.h"
#include "failing_memory.h"
#include "graph_support.h"
#include "tensor/tensor.h"

static _Thread_local int64_t countdown; /* allocations of the library by this thread until one fails; 0: none does */
static int64_t failed;

bool allocation_fails(void)
{
    bool now = countdown > 0 && --countdown == 0;
    failed += now;
    return now;
}

enum { STEPS = 3, ROUNDS = 12 };

/* So many steps from x on. NULL with the error kept. */
static weft_tensor *run_steps(weft_tensor *x, int steps)
{
    for (int i = 0; i < steps && x != NULL; i++) {
        weft_tensor *y = weft_add(weft_scale(x, 0.5), weft_redistribute(weft_sum(x, 0, true), NULL, NULL));
        y = weft_tanh(weft_mul(y, weft_sub(y, x)));
        x = weft_scale_inplace(weft_add(y, weft_relu(x)), 0.25);
    }
    return x;
}

static weft_counters counters(void)
{
    weft_counters now;
    assert_int_equal(weft_get_counters(&now, sizeof(now)), WEFT_OK);
    return now;
}

/* One round in which an allocation may fail. */
static void run_round(weft_tensor *x, weft_tensor *expected)
{
    weft_scope_begin();
    failed = 0;
    weft_tensor *y = run_steps(x, STEPS);
    weft_status status = weft_wait();
    int64_t left = countdown;
    countdown = 0;
    if (weft_last_status() == WEFT_OK) {
        assert_int_equal(status, WEFT_OK);
        assert_same_shards(y, expected, "steps");
    } else {
        assert_true(failed > 0);
        assert_int_equal(weft_last_status(), WEFT_ERR_NOMEM);
        weft_clear_error();
        if (y != NULL && weft_tensor_get(y)->fake) { /* no data: what needs it fails */
            assert_null(weft_add(y, x));
            assert_int_equal(weft_last_status(), WEFT_ERR_NOMEM);
            weft_clear_error();
        }
    }
    weft_scope_end();
    countdown = left;
}

/* Calls of these sizes are found, recorded and replayed, and one allocation fails. Whether there was one. */
static bool run_without(int64_t rows, int64_t which)
{
    const weft_placement sharded = weft_shard(0);
    weft_scope_begin();
    weft_tensor *x = numbers(1, rows, &sharded);
    weft_deferral *implicit = weft_deferral_set_implicit(NULL);
    weft_tensor *expected = run_steps(x, STEPS);
    weft_deferral_set_implicit(implicit);
    int64_t all = 0;
    countdown = which;
    for (int i = 0; i < ROUNDS; i++) {
        run_round(x, expected);
        all += failed;
    }
    countdown = 0;
    weft_scope_end();
    return all > 0;
}

static void test_each_allocation(void **state)
{
    (void)state;
    weft_counters before = counters();
    int64_t which = 1, rows = 1;
    while (run_without(rows++, which)) {
        which += 1 + which / 16;
    }
    weft_counters after = counters();
    print_message("# %d allocations, %d windows of %d calls\n", (int)which, (int)(after.windows_replayed - before.windows_replayed),
                  (int)(after.window_calls - before.window_calls));
    assert_true(which > 40 && after.windows_replayed > before.windows_replayed);
    assert_int_equal(after.tensor_bytes, before.tensor_bytes);
    assert_no_error();
}

/* Steps that change a tensor from before them. False: a call has said that it failed. */
static bool change_steps(weft_tensor *x, int steps)
{
    bool done = true;
    for (int i = 0; i < steps; i++) {
        weft_scope_begin();
        weft_tensor *y = weft_scale(weft_tanh(weft_mul(weft_add_scalar(x, 0.5), x)), 0.25);
        done &= y != NULL && weft_copy_inplace(x, y) != NULL;
        weft_scope_end();
    }
    return done;
}

/* Where x was changed by fewer calls than the program has made, a call or weft_wait() returns a failure; once. */
static bool change_without(int64_t rows, int64_t which, int *reports)
{
    weft_scope_begin();
    weft_tensor *x = numbers(2, rows, NULL), *expected = weft_scale(x, 1);
    failed = 0;
    countdown = which;
    for (int i = 0; i < ROUNDS; i++) {
        bool done = change_steps(x, STEPS);
        done = weft_wait() == WEFT_OK && done;
        int64_t left = countdown;
        countdown = 0;
        weft_deferral *implicit = weft_deferral_set_implicit(NULL);
        assert_true(change_steps(expected, STEPS));
        if (done) {
            assert_same_shards(x, expected, "a tensor that is changed in place");
        } else {
            assert_true(failed > 0);
            assert_int_equal(weft_last_status(), WEFT_ERR_NOMEM);
            weft_clear_error();
            *reports += 1;
            assert_non_null(weft_copy_inplace(x, expected));
        }
        weft_deferral_set_implicit(implicit);
        assert_int_equal(weft_wait(), WEFT_OK);
        countdown = left;
    }
    countdown = 0;
    weft_scope_end();
    return failed > 0;
}

static void test_each_change(void **state)
{
    (void)state;
    weft_counters before = counters();
    int64_t which = 1, rows = 1000;
    int reports = 0;
    while (change_without(rows++, which, &reports)) {
        which += 1 + which / 16;
    }
    weft_counters after = counters();
    print_message("# %d allocations, %d failures, %d windows\n", (int)which, reports,
                  (int)(after.windows_replayed - before.windows_replayed));
    assert_true(which > 40 && reports > 10 && after.windows_replayed > before.windows_replayed);
    assert_int_equal(after.tensor_bytes, before.tensor_bytes);
    assert_no_error();
}

int main(void)
{
    setenv("WEFT_AUTOGRAPH", "1", 1);
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_each_allocation), cmocka_unit_test(test_each_change) };
    return RUN_ON_RANKS(tests);
}
