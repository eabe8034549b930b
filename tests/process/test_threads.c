/* Calls from other threads, tasks and children of fork(), which must not call weft. Each is refused, does
 * not hang and changes nothing; the program continues, as do the other processes.
 *
 * Arguments: the public headers. */
#include "support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "every_call.h"

static int num_headers;
static char **headers;

/* ---- a world, and what calls are given ----------------------------------------------------------------- */

static call_arguments things;

static void start(weft_world world)
{
    weft_config config = { .world = world };
    assert_int_equal(weft_init(&config), WEFT_OK);
    assert_no_error();
}

static void call_in_kernel(const weft_kernel_call *call);

static void make_things(void)
{
    int64_t ranks = weft_world_size();
    const int64_t shape[] = { 2, 2 };
    things.mesh = weft_mesh_create(1, &ranks, NULL);
    things.tensor = weft_ones(WEFT_F32, 2, shape, things.mesh, NULL);
    things.indices = weft_zeros(WEFT_I64, 1, shape, things.mesh, NULL);
    things.truth = weft_zeros(WEFT_BOOL, 2, shape, things.mesh, NULL);
    things.operation =
        weft_operation_register(&(weft_operation_description){ .name = "calls",
                                                               .rule = "ab->ab",
                                                               .inputs = { { "a", WEFT_TYPES_FLOAT, false } },
                                                               .kernel = call_in_kernel });
    assert_no_error();
}

static void assert_library_works(void)
{
    double sum = 0;
    weft_scope_begin();
    weft_placement rows = weft_shard(0);
    weft_tensor *ones = weft_ones(WEFT_F64, 2, (int64_t[]){ 4, 3 }, things.mesh, &rows);
    assert_int_equal(weft_to_host(weft_sum(weft_add(ones, ones), WEFT_ALL_DIMS, false), &sum, sizeof(sum)), WEFT_OK);
    assert_true(sum == 24);
    assert_int_equal(weft_to_host(weft_sum(things.tensor, WEFT_ALL_DIMS, false), &sum, sizeof(sum)), WEFT_OK);
    weft_scope_end();
    assert_no_error();
}

/* ---- one place from which everything is called --------------------------------------------------------- */

typedef struct visit {
    const char *needle; /* in every message */
    int calls;
    char wrong[400]; /* the first call that was not refused as it should */
} visit;

/* These tell 0 or NULL before weft_init(), and keep no error. */
static bool may_be_quiet(const char *function)
{
    static const char *const names[] = { "weft_world_size",    "weft_first_rank",    "weft_local_ranks",
                                         "weft_num_processes", "weft_process_index", "weft_mesh_current",
                                         "weft_implicit_replication" };
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(names); i++) {
        if (strcmp(names[i], function) == 0) {
            return true;
        }
    }
    return false;
}

static void check_call(row_place row, const char *function, void *argument)
{
    visit *v = argument;
    bool quiet = strcmp(v->needle, "has not been called") == 0 && may_be_quiet(function) &&
                 weft_last_status() == WEFT_OK;
    bool refused = weft_last_status() == WEFT_ERR_STATE && strstr(weft_last_error(), v->needle) != NULL;
    if (!quiet && !refused && v->wrong[0] == '\0') {
        snprintf(v->wrong, sizeof(v->wrong), "%s:%d: %s(): %s, \"%.300s\"", row.file, row.line, function,
                 weft_status_string(weft_last_status()), weft_last_error());
    }
    v->calls++;
    weft_clear_error();
}

static void assert_refused(const visit *v)
{
    if (v->wrong[0] != '\0' || v->calls < 250) {
        fail_msg("%d calls; the first that was not refused: %s", v->calls, v->wrong);
    }
}

static void *call_in_thread(void *argument)
{
    call_everything(&things, check_call, argument);
    return NULL;
}

static visit from_kernel = { .needle = "from a task" };
static atomic_int kernels;

static void call_in_kernel(const weft_kernel_call *call)
{
    (void)call;
    if (atomic_fetch_add(&kernels, 1) == 0) { /* of several ranks' kernels, one */
        call_everything(&things, check_call, &from_kernel);
    }
}

/* In a child, which then ends as a program does; its status says whether all was refused. */
static void call_in_child(void)
{
    visit v = { .needle = "fork" };
    call_everything(&things, check_call, &v);
    bool refused = v.wrong[0] == '\0' && v.calls > 250;
    if (!refused) {
        fprintf(stderr, "child: %s\n", v.wrong);
    }
    refused = refused && weft_init(NULL) == WEFT_ERR_STATE && strstr(weft_last_error(), "fork") != NULL;
    weft_clear_error();
    weft_print_pending(stderr);
    exit(refused && weft_last_status() == WEFT_ERR_STATE ? 0 : 5);
}

static bool is_child;

/* Asked by LeakSanitizer. In a child of fork() it takes for leaks what only threads that were left behind refer to. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return is_child;
}

static int run_child(void (*body)(void))
{
    fflush(stdout);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        is_child = true;
        body();
        exit(6);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* ---- tests --------------------------------------------------------------------------------------------- */

static void test_every_function_is_tried(void **state)
{
    (void)state;
    assert_everything_is_called(num_headers, headers);
}

static void test_before_the_start(void **state)
{
    (void)state;
    visit v = { .needle = "has not been called" };
    call_everything(&(call_arguments){ 0 }, check_call, &v);
    assert_refused(&v);
}

/* Nothing is submitted by calls that are refused, and nothing is lost. */
static void test_another_thread(void **state)
{
    (void)state;
    weft_counters before, after;
    assert_int_equal(weft_get_counters(&before, sizeof(before)), WEFT_OK);
    visit v = { .needle = "another thread" };
    if (weft_process_index() == 0) { /* the others must not notice */
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, call_in_thread, &v), 0);
        pthread_join(thread, NULL);
        assert_refused(&v);
    }
    assert_no_error();
    assert_int_equal(weft_get_counters(&after, sizeof(after)), WEFT_OK);
    assert_memory_equal(&before, &after, sizeof(before));
    assert_library_works();
}

static void test_a_kernel(void **state)
{
    (void)state;
    atomic_store(&kernels, 0);
    from_kernel.calls = 0;
    weft_tensor *result = weft_apply(things.operation, 1, (weft_tensor *const[]){ things.tensor }, NULL);
    assert_int_equal(weft_wait(), WEFT_OK);
    assert_no_error();
    assert_refused(&from_kernel);
    weft_tensor_release(result);
    assert_library_works();
}

/* The child's exit must not end resources of the parent: MPI, for one. */
static void test_a_child(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        if (weft_process_index() == weft_num_processes() - 1) {
            assert_int_equal(run_child(call_in_child), 0);
        }
        assert_library_works();
    }
}

typedef struct thread_errors {
    bool clean, own, cleared;
} thread_errors;

static void *make_error(void *argument)
{
    thread_errors *seen = argument;
    seen->clean = weft_last_status() == WEFT_OK && weft_last_error()[0] == '\0';
    seen->own = weft_wait() == WEFT_ERR_STATE && strstr(weft_last_error(), "weft_wait: ") != NULL;
    weft_clear_error();
    seen->cleared = weft_last_status() == WEFT_OK;
    weft_wait();
    return NULL;
}

static void test_errors_are_the_threads_own(void **state)
{
    (void)state;
    thread_errors seen = { 0 };
    assert_null(weft_mesh_create(0, NULL, NULL));
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, make_error, &seen), 0);
    pthread_join(thread, NULL);
    assert_true(seen.clean && seen.own && seen.cleared);
    assert_error(WEFT_ERR_INVALID, "weft_mesh_create");
    assert_library_works();
}

/* ---- whole lives --------------------------------------------------------------------------------------- */

/* Status 0 when a whole life goes well. */
static int live(void)
{
    weft_config config = { .world = WEFT_WORLD_SELF, .ranks = 2 };
    double sum = 0;
    if (weft_init(&config) != WEFT_OK) {
        return 1;
    }
    int64_t ranks = weft_world_size();
    weft_placement rows = weft_shard(0);
    weft_mesh *mesh = weft_mesh_create(1, &ranks, NULL);
    weft_tensor *ones = weft_ones(WEFT_F64, 2, (int64_t[]){ 4, 3 }, mesh, &rows);
    bool right = weft_to_host(weft_sum(ones, WEFT_ALL_DIMS, false), &sum, sizeof(sum)) == WEFT_OK && sum == 12;
    return weft_finalize() == WEFT_OK && right ? 0 : 2;
}

static void live_and_exit(void)
{
    exit(live());
}

static void *live_in_thread(void *argument)
{
    *(int *)argument = live();
    return NULL;
}

/* Where weft does not run a child may start it, and so may any thread. */
static void test_lives_of_others(void **state)
{
    (void)state;
    assert_int_equal(run_child(live_and_exit), 0);
    for (int i = 0; i < 2; i++) {
        int result = -1;
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, live_in_thread, &result), 0);
        pthread_join(thread, NULL);
        assert_int_equal(result, 0);
        assert_int_equal(live(), 0);
        assert_int_equal(run_child(live_and_exit), 0);
    }
}

enum { RACERS = 4 };
static pthread_barrier_t line;

static void *race(void *argument)
{
    int *won = argument;
    weft_config config = { .world = WEFT_WORLD_SELF };
    pthread_barrier_wait(&line);
    *won = weft_init(&config) == WEFT_OK ? 1 : weft_last_status() == WEFT_ERR_STATE ? 0 : -1;
    pthread_barrier_wait(&line);
    if (*won == 1 && weft_finalize() != WEFT_OK) {
        *won = -1;
    }
    return NULL;
}

static void test_one_of_several_starts(void **state)
{
    (void)state;
    for (int round = 0; round < 3; round++) {
        int won[RACERS] = { 0 }, winners = 0;
        pthread_t threads[RACERS];
        assert_int_equal(pthread_barrier_init(&line, NULL, RACERS), 0);
        for (int i = 0; i < RACERS; i++) {
            assert_int_equal(pthread_create(&threads[i], NULL, race, &won[i]), 0);
        }
        for (int i = 0; i < RACERS; i++) {
            pthread_join(threads[i], NULL);
            assert_in_range(won[i], 0, 1);
            winners += won[i];
        }
        pthread_barrier_destroy(&line);
        assert_int_equal(winners, 1);
    }
}

/* ---- the groups ---------------------------------------------------------------------------------------- */

static int start_plain(void **state)
{
    (void)state;
    start(WEFT_WORLD_AUTO);
    make_things();
    return 0;
}

static int start_checked(void **state)
{
    setenv("WEFT_CHECK", "1", 1);
    return start_plain(state);
}

static int stop(void **state)
{
    (void)state;
    unsetenv("WEFT_CHECK");
    return weft_finalize() == WEFT_OK ? 0 : -1;
}

int main(int argc, char *argv[])
{
    const struct CMUnitTest apart[] = {
        cmocka_unit_test(test_every_function_is_tried),
        cmocka_unit_test(test_before_the_start),
        cmocka_unit_test(test_lives_of_others),
        cmocka_unit_test(test_one_of_several_starts),
    };
    const struct CMUnitTest inside[] = {
        cmocka_unit_test(test_another_thread),
        cmocka_unit_test(test_a_kernel),
        cmocka_unit_test(test_a_child),
        cmocka_unit_test(test_errors_are_the_threads_own),
    };
    num_headers = argc - 1;
    headers = argv + 1;
    return cmocka_run_group_tests_name("apart", apart, NULL, NULL) +
           cmocka_run_group_tests_name("inside", inside, start_plain, stop) +
           cmocka_run_group_tests_name("inside, compared", inside, start_checked, stop);
}
