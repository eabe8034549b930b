/* Shards that the program reads and writes while tasks use them; views, references and scopes; errors of
 * tasks. */
#include "tensor_support.h"

#include <starpu.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "runtime/pool.h"
#include "runtime/runtime.h"

/* ---- access to shards ---------------------------------------------------------------------------------- */

static void test_acquire(void **state)
{
    (void)state;
    static const char *const heights[] = { "1", "3", "1000" };
    for (int h = 0; h < 3; h++) {
        setenv("WEFT_PANEL_ROWS", heights[h], 1);
        start(4);
        unsetenv("WEFT_PANEL_ROWS");
        int64_t shape[] = { 5, 3 }; /* on four ranks: 2, 2, 1, 0 rows */
        weft_placement split = weft_shard(0);
        weft_tensor *tensor = weft_zeros(WEFT_I64, 2, shape, line(4), &split);
        int64_t expected[15];
        for (int i = 0; i < 15; i++) {
            expected[i] = i * i;
        }
        for (int i = 0; i < weft_local_ranks(); i++) {
            int64_t offset[2], extent[2];
            weft_local_box(tensor, i, offset, extent);
            int64_t *shard = weft_local_acquire(tensor, i, WEFT_WRITE);
            assert_non_null(shard);
            assert_null(weft_local_acquire(tensor, i, WEFT_READ));
            assert_error(WEFT_ERR_STATE, "acquired");
            assert_int_equal(weft_local_to_host(tensor, i, expected, sizeof(expected)), WEFT_ERR_STATE);
            weft_clear_error();
            for (int64_t k = 0; k < extent[0] * extent[1]; k++) {
                shard[k] = expected[offset[0] * 3 + k];
            }
            assert_int_equal(weft_local_release(tensor, i), WEFT_OK);
        }
        assert_host_equal(tensor, sizeof(expected), expected, "written through pointers");
        stop();
    }
}

/* Tasks wait for a shard that the program holds. */
static void test_tasks_wait_for_the_program(void **state)
{
    (void)state;
    start(2);
    int64_t shape[] = { 2 };
    weft_placement split = weft_shard(0);
    weft_tensor *a = weft_zeros(WEFT_F64, 1, shape, line(2), &split);
    double *held[2];
    for (int i = 0; i < weft_local_ranks(); i++) {
        held[i] = weft_local_acquire(a, i, WEFT_READ_WRITE);
    }
    weft_tensor *doubled = weft_add(a, a); /* submitted, but cannot run */
    for (int i = 0; i < weft_local_ranks(); i++) {
        held[i][0] = 21;
        weft_local_release(a, i);
    }
    double expected[] = { 42, 42 };
    assert_host_equal(doubled, sizeof(expected), expected, "doubled");
    stop();
}

/* Waits for the program itself are refused; the library continues, and weft_finalize() releases the
 * shards. */
static void test_waiting_for_oneself(void **state)
{
    (void)state;
    start(2);
    int64_t shape[] = { 2 };
    double values[2];
    weft_tensor *a = weft_zeros(WEFT_F64, 1, shape, line(2), NULL);
    weft_local_acquire(a, 0, WEFT_READ_WRITE);
    weft_scale(a, 2);
    assert_int_equal(weft_wait(), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "weft_local_release");
    assert_int_equal(weft_to_host(a, values, sizeof(values)), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "acquired");
    stop();
}

/* Also waits through tasks and shared memory; no other waits. */
static void test_waiting_for_what_is_held(void **state)
{
    (void)state;
    start(4);
    weft_mesh *mesh = line(weft_world_size());
    int64_t shape[] = { 3 };
    double values[3], seven[] = { 7, 7, 7 };
    weft_tensor *a = weft_full(WEFT_F64, 3, 1, shape, mesh, NULL);
    weft_tensor *b = weft_full(WEFT_F64, 4, 1, shape, mesh, NULL);
    weft_tensor *c = weft_full(WEFT_F64, 5, 1, shape, mesh, NULL);
    weft_tensor_set_name(a, "parameters");
    double *held = weft_local_acquire(a, 0, WEFT_READ_WRITE);
    double *beside = weft_local_acquire(b, 0, WEFT_WRITE);
    assert_true(held != NULL && beside != NULL && held[2] == 3);
    weft_tensor *view = weft_reshape(a, 1, shape);
    assert_null(weft_local_acquire(view, 0, WEFT_READ));
    assert_error(WEFT_ERR_STATE, "weft_local_acquire: would wait for weft_local_release()");
    assert_int_equal(weft_local_release(b, 0), WEFT_OK);
    assert_int_equal(weft_local_to_host(b, 0, values, sizeof(values)), WEFT_OK);
    weft_tensor *sum = weft_add(a, b), *behind = weft_scale(sum, 2), *apart = weft_add(b, b);
    assert_null(weft_local_acquire(behind, 0, WEFT_READ));
    assert_error(WEFT_ERR_STATE, "local rank 0 of tensor parameters");
    assert_int_equal(weft_local_to_host(behind, 0, values, sizeof(values)), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "weft_local_to_host: would wait");
    assert_null(weft_local_acquire(b, 0, WEFT_WRITE)); /* a task that waits reads it first */
    assert_error(WEFT_ERR_STATE, "would wait");
    assert_non_null(weft_local_acquire(b, 0, WEFT_READ));
    assert_int_equal(weft_local_release(b, 0), WEFT_OK);
    assert_int_equal(weft_local_to_host(apart, 0, values, sizeof(values)), WEFT_OK);
    assert_int_equal(weft_local_to_host(c, 0, values, sizeof(values)), WEFT_OK);
    weft_tensor_release(behind); /* its memory is waited for, and used again */
    if (weft_num_processes() == 1) {
        assert_int_equal(weft_to_host(sum, values, sizeof(values)), WEFT_ERR_STATE);
        assert_error(WEFT_ERR_STATE, "weft_to_host: would wait");
        const double given[] = { 1, 2, 3 };
        weft_tensor *distributed = weft_distribute(WEFT_F64, 1, shape, given, mesh, NULL);
        assert_int_equal(weft_local_release(a, 0), WEFT_OK);
        assert_host_equal(distributed, sizeof(given), given, "distributed meanwhile");
    } else {
        assert_int_equal(weft_local_release(a, 0), WEFT_OK);
    }
    for (int i = 0; i < weft_local_ranks(); i++) {
        double *shard = weft_local_acquire(b, i, WEFT_WRITE);
        assert_non_null(shard);
        shard[0] = shard[1] = shard[2] = 0;
        assert_int_equal(weft_local_release(b, i), WEFT_OK);
    }
    assert_host_equal(sum, sizeof(seven), seven, "what waited");
    stop();
}

/* Any number of shards may be looked at, and written to, at once; and again. */
static void test_holding_many(void **state)
{
    (void)state;
    start(4);
    int64_t shape[] = { 8 };
    weft_placement split = weft_shard(0);
    weft_tensor *a = weft_ones(WEFT_F64, 1, shape, line(4), NULL), *view = weft_reshape(a, 1, shape);
    weft_tensor *part = weft_redistribute(a, line(4), &split);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < weft_local_ranks(); i++) {
            assert_non_null(weft_local_acquire(a, i, WEFT_READ));
            assert_non_null(weft_local_acquire(view, i, WEFT_READ));
            double *own = weft_local_acquire(part, i, WEFT_READ_WRITE);
            assert_non_null(own);
            own[0] += 1;
        }
        for (int i = 0; i < weft_local_ranks(); i++) {
            assert_int_equal(weft_local_release(part, i), WEFT_OK);
            assert_non_null(weft_local_acquire(part, i, WEFT_WRITE));
            assert_int_equal(weft_local_release(part, i), WEFT_OK);
            assert_int_equal(weft_local_release(a, i), WEFT_OK);
            assert_int_equal(weft_local_release(view, i), WEFT_OK);
        }
    }
    const double expected[] = { 4, 1, 4, 1, 4, 1, 4, 1 };
    assert_host_equal(part, sizeof(expected), expected, "counted");
    stop();
}

/* ---- errors of tasks ----------------------------------------------------------------------------------- */

/* A task of the process that hosts rank 0 fails, and has by the time this returns. */
static void fail_late(void)
{
    int64_t shape[] = { 4 };
    double probabilities[] = { 2, 0.5, 0.5, 0.5 };
    weft_placement split = weft_shard(0);
    weft_tensor *p = weft_distribute(WEFT_F64, 1, shape, probabilities, line(4), &split);
    assert_no_error();
    assert_non_null(weft_bernoulli(p));
    starpu_task_wait_for_all();
}

/* A task's error is reported once: by the next call that blocks and returns a status, or returns a pointer
 * to a shard. Calls that return tensors, which must do the same on all processes, do not report it. */
static void test_late_errors_are_told_once(void **state)
{
    (void)state;
    start(4);
    bool fails = weft_first_rank() == 0;
    int64_t shape[] = { 4 };
    double given[] = { 1, 2, 3, 4 }, values[4];
    void *locals[] = { given, given, given, given };
    fail_late();
    weft_tensor *a = weft_distribute(WEFT_F64, 1, shape, given, line(4), NULL);
    weft_tensor *b = weft_from_local(WEFT_F64, 1, shape, locals, line(4), NULL, WEFT_CHECK_RANKS | WEFT_COPY);
    assert_true(a != NULL && b != NULL);
    assert_no_error();
    assert_int_equal(weft_wait(), fails ? WEFT_ERR_INVALID : WEFT_OK);
    assert_int_equal(weft_last_status(), fails ? WEFT_ERR_INVALID : WEFT_OK);
    weft_clear_error();
    assert_int_equal(weft_wait(), WEFT_OK);
    fail_late();
    for (int i = 0; i < weft_local_ranks(); i++) {
        bool told = fails && i == 0;
        assert_int_equal(weft_local_acquire(a, i, WEFT_READ) == NULL, told);
        assert_int_equal(weft_last_status(), told ? WEFT_ERR_INVALID : WEFT_OK);
        weft_clear_error();
        assert_int_equal(weft_local_release(a, i), told ? WEFT_ERR_STATE : WEFT_OK);
        weft_clear_error();
    }
    assert_int_equal(weft_wait(), WEFT_OK);
    fail_late();
    assert_int_equal(weft_to_host(b, values, sizeof(values)), fails ? WEFT_ERR_INVALID : WEFT_OK);
    weft_clear_error();
    assert_memory_equal(values, given, sizeof(given));
    stop();
}

/* A shard that gets memory of its own while the program looks at the old one. */
static void test_write_while_held(void **state)
{
    (void)state;
    start(4);
    int64_t shape[] = { 8, 3 };
    weft_placement split = weft_shard(0);
    weft_tensor *whole = weft_full(WEFT_F64, 1, 2, shape, line(4), NULL);
    weft_tensor *slice = weft_redistribute(whole, line(4), &split); /* shares the memory */
    const double *held[4];
    for (int i = 0; i < weft_local_ranks(); i++) {
        held[i] = weft_local_acquire(whole, i, WEFT_READ);
    }
    weft_add_inplace(whole, whole, 2);
    for (int i = 0; i < weft_local_ranks(); i++) {
        for (int k = 0; k < 24; k++) {
            assert_true(held[i][k] == 1);
        }
        assert_int_equal(weft_local_release(whole, i), WEFT_OK);
    }
    assert_all(whole, 24, 3);
    assert_all(slice, 24, 1);
    stop();
}

/* ---- views have values of their own -------------------------------------------------------------------- */

static void test_views(void **state)
{
    (void)state;
    start(4);
    int64_t shape[] = { 8, 3 };
    weft_placement split = weft_shard(0);
    for (int write_view = 0; write_view < 2; write_view++) {
        weft_scope_begin();
        weft_tensor *whole = weft_full(WEFT_F64, 1, 2, shape, line(4), NULL);
        weft_counters before, after;
        weft_get_counters(&before, sizeof(before));
        weft_tensor *slice = weft_redistribute(whole, line(4), &split);
        weft_get_counters(&after, sizeof(after));
        assert_int_equal(before.tasks, after.tasks); /* the memory is there already */
        assert_int_equal(before.buffers_created + before.buffers_reused,
                         after.buffers_created + after.buffers_reused);
        write_all(write_view ? slice : whole, 2);
        assert_all(slice, 24, write_view ? 2 : 1);
        assert_all(whole, 24, write_view ? 1 : 2);
        /* And by a task. */
        weft_tensor *again = weft_redistribute(whole, line(4), &split);
        weft_add_inplace(write_view ? again : whole, write_view ? again : whole, 1);
        assert_all(again, 24, write_view ? 2 : 2);
        assert_all(whole, 24, write_view ? 1 : 4);
        weft_scope_end();
    }
    stop();
}

static void test_same_layout_is_the_same_tensor(void **state)
{
    (void)state;
    start(4);
    int64_t shape[] = { 8, 3 };
    weft_placement split = weft_shard(0), negative = weft_shard(-2);
    weft_tensor *tensor = weft_full(WEFT_F64, 1, 2, shape, line(4), &split);
    assert_ptr_equal(weft_redistribute(tensor, line(4), &negative), tensor);
    weft_tensor_release(tensor);
    assert_all(tensor, 24, 1); /* the second reference is left */
    weft_tensor_release(tensor);
    assert_no_error();
    weft_tensor_release(tensor);
    assert_error(WEFT_ERR_INVALID, "tensor");
    stop();
}

/* ---- references ---------------------------------------------------------------------------------------- */

static void test_scopes(void **state)
{
    (void)state;
    start(2);
    int64_t shape[] = { 4 };
    weft_mesh_push(line(2));
    weft_scope_begin();
    weft_tensor *outer = weft_ones(WEFT_F64, 1, shape, NULL, NULL);
    weft_scope_begin();
    weft_tensor *inner = weft_ones(WEFT_F64, 1, shape, NULL, NULL);
    weft_tensor *kept = weft_ones(WEFT_F64, 1, shape, NULL, NULL);
    weft_tensor *retained = weft_ones(WEFT_F64, 1, shape, NULL, NULL);
    assert_ptr_equal(weft_scope_keep(kept), kept);
    weft_tensor_retain(retained);
    assert_null(weft_scope_keep(outer));
    assert_error(WEFT_ERR_STATE, "innermost");
    weft_tensor_release(inner);
    assert_error(WEFT_ERR_STATE, "scope");
    weft_scope_end();
    assert_int_equal(weft_tensor_ndim(inner), 0);
    assert_error(WEFT_ERR_INVALID, "weft_tensor_ndim");
    assert_int_equal(weft_tensor_ndim(kept), 1);
    weft_scope_keep(kept); /* from the outermost scope: to the caller */
    weft_scope_end();
    assert_int_equal(weft_tensor_ndim(outer), 0);
    weft_clear_error();
    double expected[] = { 1, 1, 1, 1 };
    assert_host_equal(kept, sizeof(expected), expected, "kept");
    assert_host_equal(retained, sizeof(expected), expected, "retained");
    weft_tensor_release(kept);
    weft_tensor_release(retained);
    assert_no_error();
    assert_int_equal(weft_tensor_ndim(kept) + weft_tensor_ndim(retained), 0);
    weft_clear_error();
    stop();
}

/* Released at once, while every task is still to run: results are right, and memory goes round. */
static void test_release_while_pending(void **state)
{
    (void)state;
    start(4);
    int64_t shape[] = { 64, 64 };
    weft_placement rows = weft_shard(0), columns = weft_shard(1);
    weft_mesh *mesh = line(4);
    weft_tensor *total = weft_zeros(WEFT_F64, 2, shape, mesh, &rows);
    for (int i = 1; i <= 100; i++) {
        weft_scope_begin();
        weft_tensor *part = weft_full(WEFT_F64, i, 2, shape, mesh, &columns);
        weft_add_inplace(total, weft_scale(part, 2), 1);
        weft_scope_end();
    }
    assert_all(total, 64 * 64, 2 * 5050);
    weft_counters counters;
    weft_get_counters(&counters, sizeof(counters));
    assert_in_range(counters.buffers_created, 1, 40);
    assert_true(counters.buffers_reused > 150); /* a process may host one rank of the four */
    stop();
}

/* With next to no room for free buffers they are deleted, and nothing else changes. */
static void test_small_pool(void **state)
{
    (void)state;
    WORLD(4, .pool_bytes = 5000);
    weft_placement rows = weft_shard(0);
    weft_mesh *mesh = line(4);
    for (int64_t n = 1; n < 120; n++) {
        weft_scope_begin();
        weft_tensor *tensor = weft_full(WEFT_F64, (double)n, 1, &n, mesh, &rows);
        assert_all(weft_redistribute(tensor, mesh, NULL), n, (double)n);
        weft_scope_end();
    }
    stop();
}

/* A scope that could not be opened is closed like the others, and takes nothing from those around it. */
static void test_scopes_without_memory(void **state)
{
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* they take address space as they like */
#endif
    start(1);
    if (weft_num_processes() > 1) { /* it breaks a world of several */
        stop();
        return;
    }
    int64_t shape[] = { 2 };
    weft_scope_begin();
    weft_tensor *a = weft_ones(WEFT_F64, 1, shape, line(1), NULL);
    assert_int_equal(weft_wait(), WEFT_OK);
    struct rlimit before, tight;
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_true(file != NULL && fscanf(file, "%ld", &pages) == 1);
    fclose(file);
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    tight = before;
    tight.rlim_cur = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + ((rlim_t)16 << 20);
    assert_int_equal(setrlimit(RLIMIT_AS, &tight), 0);
    int64_t opened = 0;
    while (weft_last_status() == WEFT_OK && opened < INT64_C(1) << 24) {
        weft_scope_begin();
        opened++;
    }
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_error(WEFT_ERR_NOMEM, "weft_scope_begin");
    weft_scope_begin(); /* there is memory again, but it lies in the one that there was none for */
    weft_clear_error();
    weft_tensor *inside = weft_scale(a, 2);
    assert_ptr_equal(weft_scope_keep(inside), inside);
    for (int64_t i = 0; i < opened + 1; i++) {
        weft_scope_end();
    }
    const double ones[] = { 1, 1 };
    assert_host_equal(a, sizeof(ones), ones, "of the scope around");
    assert_int_equal(weft_tensor_ndim(inside), 0); /* gone with the innermost that was opened */
    assert_error(WEFT_ERR_INVALID, "not a live tensor");
    weft_scope_end();
    weft_scope_end();
    assert_error(WEFT_ERR_STATE, "no scope is open");
    stop();
}

/* ---- the full tensor on one process --------------------------------------------------------------------- */

enum { ROUNDS = 24, MOST = 9 * 9 };

/* In any layout, also the Partial one of a sum: a tensor of at most MOST elements. */
static weft_tensor *any_tensor(prng *random)
{
    int64_t shape[2] = { 1 + (int64_t)prng_below(random, 9), 1 + (int64_t)prng_below(random, 9) };
    double values[MOST];
    for (int i = 0; i < MOST; i++) {
        values[i] = i + 1;
    }
    weft_mesh *mesh = random_mesh(random, weft_world_size());
    weft_placement placements[WEFT_MAX_DIMS];
    random_placements(random, mesh, 2, false, placements);
    weft_tensor *tensor = weft_distribute(WEFT_F64, 2, shape, values, mesh, placements);
    return prng_below(random, 2) ? tensor : weft_sum(tensor, (int)prng_below(random, 2), false);
}

static void test_full_on_one_process(void **state)
{
    (void)state;
    start(6);
    prng random = prng_start(70);
    for (int round = 0; round < ROUNDS; round++) {
        double expected[MOST], found[MOST];
        weft_scope_begin();
        weft_tensor *tensor = any_tensor(&random);
        size_t bytes = weft_tensor_bytes(tensor);
        int process = (int)prng_below(&random, (uint64_t)weft_num_processes());
        bool receives = process == weft_process_index();
        assert_int_equal(weft_to_host(tensor, expected, bytes), WEFT_OK);
        memset(found, 0, sizeof(found));
        assert_int_equal(weft_to_host_on(tensor, process, receives ? found : NULL, receives ? bytes : 0), WEFT_OK);
        assert_no_error();
        if (receives) {
            assert_memory_equal(found, expected, bytes);
        }
        weft_scope_end();
    }
    stop();
}

/* The other processes have no memory for it. */
static void test_others_keep_their_shards(void **state)
{
    (void)state;
    enum { ELEMENTS = 6000 };
    static double values[ELEMENTS];
    start(6);
    weft_placement split = weft_shard(0);
    weft_tensor *tensor = weft_ones(WEFT_F64, 1, (const int64_t[]){ ELEMENTS }, line(weft_world_size()), &split);
    int64_t used, own, last = weft_num_processes() - 1;
    assert_int_equal(weft_wait(), WEFT_OK);
    int64_t before = weft_pool_bytes_in_use(weft_runtime.pool);
    weft_pool_peak(weft_runtime.pool, &used, &own);
    assert_int_equal(weft_to_host_on(tensor, (int)last, values, sizeof(values)), WEFT_OK);
    assert_int_equal(weft_wait(), WEFT_OK);
    weft_pool_peak(weft_runtime.pool, &used, &own);
    bool receives = weft_process_index() == last;
    assert_int_equal(used - before, receives ? (int64_t)sizeof(values) : 0);
    assert_true(values[ELEMENTS - 1] == receives);
    assert_int_equal(weft_to_host_on(tensor, (int)last + 1, values, sizeof(values)), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "process is ");
    assert_int_equal(weft_to_host_on(tensor, -1, values, sizeof(values)), WEFT_ERR_INVALID);
    weft_clear_error();
    if (weft_num_processes() == 1) {
        assert_int_equal(weft_to_host_on(tensor, 0, values, sizeof(values) - 1), WEFT_ERR_INVALID);
        assert_error(WEFT_ERR_INVALID, "bytes is ");
        assert_int_equal(weft_to_host_on(tensor, 0, NULL, sizeof(values)), WEFT_ERR_INVALID);
        assert_error(WEFT_ERR_INVALID, "global is NULL");
    }
    assert_int_equal(weft_to_host_on(NULL, 0, values, sizeof(values)), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "tensor is NULL");
    weft_tensor_release(tensor);
    stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_acquire),
        cmocka_unit_test(test_tasks_wait_for_the_program),
        cmocka_unit_test(test_waiting_for_oneself),
        cmocka_unit_test(test_waiting_for_what_is_held),
        cmocka_unit_test(test_holding_many),
        cmocka_unit_test(test_late_errors_are_told_once),
        cmocka_unit_test(test_write_while_held),
        cmocka_unit_test(test_views),
        cmocka_unit_test(test_same_layout_is_the_same_tensor),
        cmocka_unit_test(test_scopes),
        cmocka_unit_test(test_release_while_pending),
        cmocka_unit_test(test_small_pool),
        cmocka_unit_test(test_scopes_without_memory),
        cmocka_unit_test(test_full_on_one_process),
        cmocka_unit_test(test_others_keep_their_shards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
