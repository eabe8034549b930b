/* Back-pressure in one process: a program that submits without waiting, or holds a shard that tasks wait
 * for. */
#include "pending_support.h"

#include <stdlib.h>

/* ---- one process --------------------------------------------------------------------------------------- */

/* Tasks after one that takes a while. Without a limit they take 0.8 GB. */
static void test_memory_is_bounded(void **state)
{
    (void)state;
    enum { CALLS = SANITIZED ? 20000 : 150000, RANKS = 2, MAX_MB = 150 };
    start(0, RANKS);
    weft_tensor *x = full(RANKS, 0, "S0"), *one = full(RANKS, 1, "S0");
    assert_int_equal(weft_wait(), WEFT_OK);
    int64_t before = resident_mb(), most = weft_runtime.pending->most, largest = 0;
    assert_true(most > 0);
    let_doze(x, 1000);
    for (int i = 0; i < CALLS; i++) {
        weft_add_inplace(x, one, 1);
        int64_t now = pending_now();
        assert_true(now < most + RANKS);
        if (i % 10000 == 0 && resident_mb() > largest) {
            largest = resident_mb();
        }
    }
    check_values(x, RANKS, CALLS);
    if (!SANITIZED && largest - before > MAX_MB) {
        fail_msg("took %lld MB, at most %d expected", (long long)(largest - before), MAX_MB);
    }
    weft_tensor_release(x);
    weft_tensor_release(one);
    stop();
}

/* StarPU's memory of readers: 96 bytes for three operands. */
static void test_reading_takes_no_memory(void **state)
{
    (void)state;
    enum { CALLS = SANITIZED ? 10000 : 400000, MAX_MB = 22 };
    start(100, 1);
    weft_tensor *a = full(1, 1, "R"), *b = full(1, 2, "R"), *c = weft_gt(a, b), *last = NULL;
    int64_t before = 0;
    for (int i = 0; i < CALLS; i++) {
        if (last != NULL) {
            weft_tensor_release(last);
        }
        last = weft_where(c, a, b);
        if (i == 1000) {
            before = resident_mb();
        }
    }
    int64_t took = resident_mb() - before;
    check_values(last, 1, 2);
    if (!SANITIZED && took > MAX_MB) {
        fail_msg("took %lld MB, at most %d expected", (long long)took, MAX_MB);
    }
    weft_tensor_release(a);
    weft_tensor_release(b);
    weft_tensor_release(c);
    weft_tensor_release(last);
    stop();
}

static void test_waits_until_half(void **state)
{
    (void)state;
    enum { MOST = 1000 };
    start(MOST, 1);
    weft_tensor *x = full(1, 0, "R"), *one = full(1, 1, "R");
    weft_wait(); /* a task that ends later would be missing in the number that is awaited */
    let_await_pending(x, MOST);
    int calls = 0, waits = 0;
    for (; calls < 10 * MOST; calls++) {
        bool waits_now = pending_now() >= MOST;
        weft_add_inplace(x, one, 1);
        assert_true(!waits_now || pending_now() <= MOST / 2 + 1);
        waits += waits_now;
    }
    /* Each time half of the limit is submitted, at least. */
    assert_in_range(waits, 1, calls / (MOST / 2));
    check_values(x, 1, calls);
    weft_tensor_release(x);
    weft_tensor_release(one);
    stop();
}

static void test_no_limit(void **state)
{
    (void)state;
    start(-1, 1);
    assert_int_equal(weft_runtime.pending->most, 0);
    stop();
    setenv("WEFT_MAX_PENDING_TASKS", "-1", 1);
    start(0, 1);
    assert_int_equal(weft_runtime.pending->most, 0);
    stop();
    start(7, 1); /* the program wins */
    assert_int_equal(weft_runtime.pending->most, 7);
    stop();
    setenv("WEFT_MAX_PENDING_TASKS", "-2", 1);
    assert_int_equal(weft_init(NULL), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "WEFT_MAX_PENDING_TASKS is \"-2\"");
    unsetenv("WEFT_MAX_PENDING_TASKS");
}

/* ---- bytes --------------------------------------------------------------------------------------------- */

static void start_with_pool(int64_t pool_bytes)
{
    weft_config config = WEFT_CONFIG_DEFAULT;
    config.pool_bytes = pool_bytes;
    assert_int_equal(weft_init(&config), WEFT_OK);
    mesh = weft_mesh_create(1, (int64_t[]){ 1 }, NULL);
    assert_no_error();
}

/* Each panel is a handle of StarPU, which takes more than its 8 bytes. */
static void test_pool_counts_handles(void **state)
{
    (void)state;
    enum { POOL_MB = 128, LEAST = 500, MOST = SANITIZED ? 600 : 1100, SLACK_MB = 96 };
    setenv("WEFT_PANEL_ROWS", "1", 1);
    start_with_pool((int64_t)POOL_MB << 20);
    unsetenv("WEFT_PANEL_ROWS");
    weft_tensor *first = full(MOST, 1, "R");
    assert_int_equal(weft_wait(), WEFT_OK);
    int64_t before = resident_mb(), largest = 0;
    for (int64_t rows = LEAST; rows < MOST; rows++) { /* no two of one size: none is used again */
        weft_scope_begin();
        full(rows, 1, "R");
        weft_scope_end();
        largest = resident_mb() > largest ? resident_mb() : largest;
    }
    check_values(first, MOST, 1);
    if (!SANITIZED && largest - before > POOL_MB + SLACK_MB) {
        fail_msg("took %lld MB, the pool has %d", (long long)(largest - before), POOL_MB);
    }
    weft_tensor_release(first);
    stop();
}

enum { LARGE = 1 << 20, LARGE_MB = LARGE * 8 >> 20 };

static weft_tensor *copied(void)
{
    static double *values;
    values = values == NULL ? calloc(LARGE, sizeof(double)) : values;
    int64_t rows = LARGE;
    void *locals[] = { values };
    return weft_from_local(WEFT_F64, 1, &rows, locals, mesh, NULL, WEFT_COPY);
}

/* Few tasks, each of which keeps much memory. */
static void test_large_buffers_wait(void **state)
{
    (void)state;
    enum { POOL_MB = 64, CALLS = 60, MAX_MB = POOL_MB + 64 + 8 * LARGE_MB };
    start_with_pool((int64_t)POOL_MB << 20);
    weft_tensor *x = full(LARGE, 1, "R");
    assert_int_equal(weft_wait(), WEFT_OK);
    int64_t before = resident_mb(), largest = 0;
    let_doze(x, 500);
    for (int i = 0; i < CALLS; i++) {
        weft_tensor *copy = copied();
        weft_add_inplace(x, copy, 1);
        weft_tensor_release(copy);
        assert_no_error();
        largest = resident_mb() > largest ? resident_mb() : largest;
    }
    check_values(x, LARGE, 1);
    if (!SANITIZED && largest - before > MAX_MB) {
        fail_msg("took %lld MB, at most %d expected", (long long)(largest - before), MAX_MB);
    }
    weft_tensor_release(x);
    stop();
}

/* ---- with shards that the program holds ---------------------------------------------------------------- */

/* Adds in place until a call is refused; returns how many were not. */
static int add_until_refused(weft_tensor *x, weft_tensor *one, int at_most)
{
    int calls = 0;
    while (calls < at_most && weft_add_inplace(x, one, 1) != NULL) {
        calls++;
    }
    return calls;
}

static void test_refuses_what_waits_for_the_program(void **state)
{
    (void)state;
    enum { MOST = 100 };
    start(MOST, 1);
    weft_tensor *x = full(1, 0, "R"), *one = full(1, 1, "R"), *other = full(1, 5, "R");
    weft_tensor_set_name(x, "weights");
    assert_non_null(weft_local_acquire(x, 0, WEFT_READ));
    int calls = add_until_refused(x, one, 10 * MOST);
    assert_int_equal(calls, MOST);
    assert_error(WEFT_ERR_STATE, "100 tasks wait for weft_local_release()");
    uint64_t tasks = weft_runtime.counters.tasks;
    /* Whatever it is that is called, and nothing has happened. */
    weft_random_state before, after;
    weft_random_state_get(NULL, &before);
    assert_null(weft_add(other, other));
    assert_error(WEFT_ERR_STATE, "tensor weights");
    assert_null(weft_rand_like(other));
    assert_error(WEFT_ERR_STATE, "weft_rand_like: ");
    weft_tensor *mask = other;
    assert_null(weft_dropout(other, 0.5, true, &mask));
    assert_null(mask);
    assert_error(WEFT_ERR_STATE, "weft_dropout: ");
    weft_tensor *pieces[] = { other };
    assert_int_equal(weft_split(other, 1, (int64_t[]){ 1 }, 0, pieces), WEFT_ERR_STATE);
    assert_null(pieces[0]);
    assert_error(WEFT_ERR_STATE, "weft_split: ");
    /* Arguments are looked at first. */
    assert_null(weft_sum(other, 5, false));
    assert_error(WEFT_ERR_INVALID, "weft_sum: ");
    weft_random_state_get(NULL, &after);
    assert_int_equal(after.offset, before.offset);
    assert_int_equal(weft_runtime.counters.tasks, tasks);
    assert_int_equal(weft_local_release(x, 0), WEFT_OK);
    assert_non_null(weft_add_inplace(x, one, 1));
    check_values(x, 1, MOST + 1);
    check_values(other, 1, 5);
    weft_tensor_release(x);
    weft_tensor_release(one);
    weft_tensor_release(other);
    stop();
}

/* Calls that change several tensors change all of them or none. */
static void test_composites_are_refused_whole(void **state)
{
    (void)state;
    enum { MOST = 10 };
    weft_adam_options options = { .learning_rate = 0.5, .beta1 = 0.5, .beta2 = 0.5, .epsilon = 1 };
    for (int room = 0; room < 4; room++) {
        start(MOST, 1);
        weft_tensor *x = full(1, 0, "R"), *one = full(1, 1, "R");
        weft_tensor *p[2], *g[2], *m[2], *v[2];
        for (int i = 0; i < 2; i++) {
            p[i] = full(1, 1, "R");
            g[i] = full(1, 1, "R");
            m[i] = full(1, 0, "R");
            v[i] = full(1, 0, "R");
        }
        assert_non_null(weft_local_acquire(x, 0, WEFT_READ));
        assert_int_equal(add_until_refused(x, one, MOST - room), MOST - room);
        weft_add_inplace(p[0], x, 0); /* now Adam's tasks wait, too */
        weft_status status = weft_adam(2, p, g, m, v, 1, &options);
        assert_int_equal(status, room > 1 ? WEFT_OK : WEFT_ERR_STATE);
        weft_clear_error();
        assert_int_equal(weft_local_release(x, 0), WEFT_OK);
        double stepped = 1 - 0.5 / (1 + 1);
        for (int i = 0; i < 2; i++) {
            check_values(p[i], 1, room > 1 ? stepped : 1);
            check_values(m[i], 1, room > 1 ? 0.5 : 0);
            check_values(v[i], 1, room > 1 ? 0.5 : 0);
        }
        assert_int_equal(weft_finalize(), WEFT_OK);
    }
}

static void test_refuses_bytes_that_wait_for_the_program(void **state)
{
    (void)state;
    enum { POOL_MB = 64, AT_MOST = 20 };
    start_with_pool((int64_t)POOL_MB << 20);
    weft_tensor *x = full(LARGE, 0, "R"), *one = full(LARGE, 1, "R");
    assert_non_null(weft_local_acquire(x, 0, WEFT_READ));
    weft_add_inplace(x, one, 1);
    int calls = 0;
    weft_tensor *copy;
    while (calls < AT_MOST && (copy = copied()) != NULL) {
        assert_non_null(weft_add_inplace(copy, x, 1));
        weft_tensor_release(copy);
        calls++;
    }
    assert_int_equal(calls, POOL_MB / LARGE_MB);
    assert_error(WEFT_ERR_STATE, "bytes of released tensors wait for weft_local_release()");
    assert_int_equal(weft_local_release(x, 0), WEFT_OK);
    check_values(x, LARGE, 1);
    weft_tensor_release(x);
    weft_tensor_release(one);
    stop();
}

/* A shard that is held keeps nobody waiting who does not write to it. */
static void test_waits_beside_what_is_held(void **state)
{
    (void)state;
    enum { MOST = 100, WAITING = 60, CALLS = 5000 };
    start(MOST, 1);
    weft_tensor *x = full(1, 0, "R"), *one = full(1, 1, "R"), *y = full(1, 0, "R");
    assert_non_null(weft_local_acquire(x, 0, WEFT_READ));
    assert_int_equal(add_until_refused(y, one, CALLS), CALLS);
    assert_no_error();
    assert_int_equal(add_until_refused(x, one, WAITING), WAITING);
    assert_int_equal(add_until_refused(y, one, CALLS), CALLS);
    assert_no_error();
    assert_int_equal(add_until_refused(x, one, MOST), MOST - WAITING);
    assert_error(WEFT_ERR_STATE, "weft_add_inplace: 100 tasks");
    assert_int_equal(weft_local_release(x, 0), WEFT_OK);
    check_values(x, 1, MOST);
    check_values(y, 1, 2 * CALLS);
    weft_tensor_release(x);
    weft_tensor_release(one);
    weft_tensor_release(y);
    stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_is_bounded),
        cmocka_unit_test(test_reading_takes_no_memory),
        cmocka_unit_test(test_waits_until_half),
        cmocka_unit_test(test_no_limit),
        cmocka_unit_test(test_refuses_what_waits_for_the_program),
        cmocka_unit_test(test_composites_are_refused_whole),
        cmocka_unit_test(test_pool_counts_handles),
        cmocka_unit_test(test_large_buffers_wait),
        cmocka_unit_test(test_refuses_bytes_that_wait_for_the_program),
        cmocka_unit_test(test_waits_beside_what_is_held),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
