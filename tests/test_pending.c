/* Back-pressure: programs that submit and never wait, in one process and in several, of which one is slow, or
 * holds a shard that tasks wait for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/pending.h"
#include "runtime/runtime.h"
#include "support.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 }; /* keeps memory that was freed */
#else
enum { SANITIZED = 0 };
#endif

static weft_mesh *mesh;

static void start(int64_t most, int ranks)
{
    weft_config config = WEFT_CONFIG_DEFAULT;
    config.max_pending_tasks = most;
    config.ranks = ranks;
    assert_int_equal(weft_init(&config), WEFT_OK);
    int64_t size = weft_world_size();
    mesh = weft_mesh_create(1, &size, NULL);
    assert_no_error();
}

static void stop(void)
{
    assert_no_error();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

static weft_tensor *full(int64_t rows, double value, const char *text)
{
    weft_placement placement;
    weft_placements_parse(text, 1, &placement);
    weft_tensor *tensor = weft_full(WEFT_F64, 1, &rows, value, mesh, &placement);
    assert_no_error();
    return tensor;
}

static long long pending_now(void)
{
    return atomic_load(&weft_runtime.pending->count);
}

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000 }, NULL);
}

/* scalars[0]: milliseconds. In place: what comes after it waits. */
static void doze(const weft_kernel_call *call)
{
    sleep_ms((long)call->scalars[0]);
}

static void let_doze(weft_tensor *tensor, double ms)
{
    const weft_operation *operation = weft_operation_register(
        &(weft_operation_description){ .name = "doze",
                                       .rule = "A->A",
                                       .inputs = { { "a", WEFT_TYPE_BIT(WEFT_F64), false } },
                                       .in_place = true,
                                       .kernel = doze });
    weft_apply_options options = { .num_scalars = 1, .scalars = { ms } };
    assert_non_null(weft_apply(operation, 1, &tensor, &options));
}

static void check_values(weft_tensor *tensor, int64_t rows, double expected)
{
    double *host = malloc((size_t)rows * sizeof(double));
    assert_int_equal(weft_to_host(tensor, host, (size_t)rows * sizeof(double)), WEFT_OK);
    for (int64_t i = 0; i < rows; i++) {
        assert_true(host[i] == expected);
    }
    free(host);
}

static int64_t resident_mb(void)
{
    long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file != NULL) {
        if (fscanf(file, "%ld %ld", &pages, &resident) != 2) {
            resident = 0;
        }
        fclose(file);
    }
    return (int64_t)resident * sysconf(_SC_PAGESIZE) >> 20;
}

/* ---- one process --------------------------------------------------------------------------------------- */

/* Tasks behind one that takes a while. Without a limit they take 0.8 GB. */
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

/* What StarPU remembers of tasks that read what nobody writes: 96 bytes for three operands. */
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
    let_doze(x, 300);
    int calls = 0, waits = 0;
    for (; calls < 10 * MOST; calls++) {
        bool waits_now = pending_now() >= MOST;
        weft_add_inplace(x, one, 1);
        assert_true(!waits_now || pending_now() <= MOST / 2 + 1);
        waits += waits_now;
    }
    /* Each time half of the limit is submitted, at least. */
    assert_in_range(waits, 0, calls / (MOST / 2));
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
        weft_scope_open();
        full(rows, 1, "R");
        weft_scope_close();
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

/* What changes several tensors changes all of them or none. */
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
    weft_scope_open();
    MAKE(sum, weft_sum_all(x));
    MAKE(mean, weft_scale(sum, 1.0 / (double)rows));
    MAKE(zeros, weft_scale(x, 0));
    MAKE(means, weft_add(zeros, mean));
    MAKE(next, weft_add_scalar(means, 1));
    if (next != NULL) {
        weft_scope_keep(next);
    }
    weft_scope_close();
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
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    int process = rank == NULL ? 0 : atoi(rank);
    int64_t most = process == 0 ? 1 : process == 1 ? -1 : 50;
    start(most, 0);
    weft_tensor *x = full(ROWS, 0, "S0");
    assert_int_equal(go(&x, ROWS, STEPS, most < 0 ? 1000000 : most), STEPS);
    check_values(x, ROWS, STEPS);
    weft_tensor_release(x);
    stop();
}

/* Where a call is refused on one process, the others wait for it: the program lets go and makes it again. */
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
    enum { MOST = 50, ROWS = 8, TIMEOUT_S = 3 };
    weft_config config = WEFT_CONFIG_DEFAULT;
    config.max_pending_tasks = MOST;
    config.timeout_s = TIMEOUT_S;
    assert_int_equal(weft_init(&config), WEFT_OK);
    int64_t size = weft_world_size();
    mesh = weft_mesh_create(1, &size, NULL);
    weft_tensor *x = full(ROWS, 0, "S0");
    if (is_last()) {
        sleep_ms(TIMEOUT_S * 1200);
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
    const struct CMUnitTest alone[] = {
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
    const struct CMUnitTest together[] = {
        cmocka_unit_test(test_one_process_is_slow),
        cmocka_unit_test(test_receiver_is_slow),
        cmocka_unit_test(test_limits_differ),
        cmocka_unit_test(test_shard_held_on_one_process),
        cmocka_unit_test(test_shards_held_everywhere),
        cmocka_unit_test(test_broken_world_ends_the_wait),
    };
    const char *processes = getenv("OMPI_COMM_WORLD_SIZE");
    return processes == NULL || atoi(processes) == 1 ? cmocka_run_group_tests(alone, NULL, NULL)
                                                     : cmocka_run_group_tests(together, NULL, NULL);
}
