/* Reports of failures that the program does not query, and of resources that it leaves open. A file
 * captures the library's standard error. In one process, and over MPI. */
#include "support.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ops/backward.h"

enum { RANKS = 4 };

/* ---- standard error ------------------------------------------------------------------------------------ */

static int terminal = -1;
static FILE *caught;

static void catch_errors(void)
{
    fflush(stderr);
    caught = tmpfile();
    terminal = dup(STDERR_FILENO);
    assert_true(caught != NULL && terminal >= 0);
    assert_true(dup2(fileno(caught), STDERR_FILENO) >= 0);
}

/* Text written since catch_errors(). */
static const char *let_go(void)
{
    static char text[1 << 14];
    fflush(stderr);
    assert_true(dup2(terminal, STDERR_FILENO) >= 0);
    close(terminal);
    rewind(caught);
    text[fread(text, 1, sizeof(text) - 1, caught)] = '\0';
    fclose(caught);
    return text;
}

static int count(const char *text, const char *part)
{
    int found = 0;
    for (const char *at = strstr(text, part); at != NULL; at = strstr(at + 1, part)) {
        found++;
    }
    return found;
}

static void assert_says(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("\"%s\" is not in what was written:\n%s", part, text);
    }
}

/* ---- worlds -------------------------------------------------------------------------------------------- */

static weft_mesh *mesh;
static weft_tensor *a, *wrong; /* which cannot be added */

static void start(void)
{
    WORLD(RANKS);
    mesh = weft_mesh_create(1, (int64_t[]){ RANKS }, NULL);
    a = weft_ones(WEFT_F32, 1, (int64_t[]){ 4 }, mesh, NULL);
    wrong = weft_ones(WEFT_F32, 1, (int64_t[]){ 5 }, mesh, NULL);
}

static void start_with(const char *variable, const char *value)
{
    setenv(variable, value, 1);
    start();
    unsetenv(variable);
}

static void release(void)
{
    weft_tensor_release(a);
    weft_tensor_release(wrong);
}

/* Text written by weft_finalize(). */
static const char *stop(weft_status expected)
{
    catch_errors();
    weft_status status = weft_finalize();
    const char *text = let_go();
    assert_int_equal(status, expected);
    return text;
}

/* ---- weft_finalize() ----------------------------------------------------------------------------------- */

static void test_nothing_failed(void **state)
{
    (void)state;
    start();
    weft_add(a, a);
    assert_string_equal(stop(WEFT_OK), "");
}

/* A program that continues after errors, prints undefined values, and ends well. */
static void test_nobody_looks(void **state)
{
    (void)state;
    float values[4] = { 0 };
    start();
    weft_to_host(weft_relu(weft_add(a, wrong)), values, sizeof(values));
    const char *text = stop(WEFT_OK);
    assert_says(text, "3 calls failed, and the program did not ask");
    assert_says(text, "the first was: weft_add: ");
    assert_int_equal(count(text, "\n"), 1);
    if (weft_num_processes() > 1) {
        assert_says(text, "weft: process ");
    }
    weft_clear_error();
    /* The next world knows nothing of it. */
    start();
    assert_string_equal(stop(WEFT_OK), "");
}

static void fail_once(void)
{
    assert_null(weft_add(a, wrong));
}

/* Each query counts, for earlier failures only. */
static void test_somebody_looks(void **state)
{
    (void)state;
    for (int way = 0; way < 3; way++) {
        start();
        fail_once();
        fail_once();
        if (way == 0) {
            weft_last_status();
        } else if (way == 1) {
            weft_last_error();
        } else {
            weft_clear_error();
        }
        assert_string_equal(stop(WEFT_OK), "");
        start();
        weft_clear_error();
        fail_once();
        weft_last_status();
        assert_null(weft_matmul(a, NULL));
        const char *text = stop(WEFT_OK);
        assert_says(text, "1 call failed, and the program did not ask");
        assert_says(text, "it was: weft_matmul: b is NULL");
        weft_clear_error();
    }
}

/* A status may be dropped. */
static void test_status_that_is_dropped(void **state)
{
    (void)state;
    start();
    weft_wait();
    assert_int_equal(weft_mesh_pop(), WEFT_ERR_STATE);
    assert_says(stop(WEFT_OK), "it was: weft_mesh_pop: the mesh stack is empty");
    weft_clear_error();
}

/* One call counts once, also a composite. */
static void test_one_call_is_counted_once(void **state)
{
    (void)state;
    start();
    weft_placement split = weft_shard(1);
    weft_tensor *rows = weft_ones(WEFT_F32, 2, (int64_t[]){ 3, 8 }, mesh, &split),
                *integers = weft_ones(WEFT_I64, 2, (int64_t[]){ 3, 8 }, mesh, &split);
    assert_null(weft_softmax(integers, 1));
    assert_null(weft_softmax_backward(rows, wrong, 1));
    assert_null(weft_layer_norm(rows, a, NULL, 1e-5));
    assert_null(weft_cross_entropy(rows, a, NULL));
    assert_says(stop(WEFT_OK), "4 calls failed, and");
    weft_clear_error();
}

/* An error of a task, which the next blocking call would report. */
static void test_error_of_a_task(void **state)
{
    (void)state;
    for (int looks = 0; looks < 2; looks++) {
        start();
        weft_tensor *far = weft_full(WEFT_I64, 17, 1, (int64_t[]){ 2 }, mesh, NULL);
        weft_index_select(a, 0, far);
        weft_status status = looks ? weft_wait() : WEFT_OK;
        assert_int_equal(status, looks ? WEFT_ERR_INVALID : WEFT_OK);
        if (looks) {
            assert_non_null(strstr(weft_last_error(), "weft_index_select"));
            assert_string_equal(stop(WEFT_OK), "");
        } else {
            const char *text = stop(WEFT_ERR_INVALID);
            assert_says(text, "1 call failed, and the program did not ask");
            assert_says(text, "it was: weft_index_select: ");
        }
        weft_clear_error();
    }
}

static void *call_elsewhere(void *unused)
{
    (void)unused;
    weft_add(a, a);
    weft_add(a, a);
    return NULL;
}

/* Their errors are theirs: the thread that calls weft cannot see them. */
static void test_other_threads(void **state)
{
    (void)state;
    pthread_t thread;
    start();
    assert_int_equal(pthread_create(&thread, NULL, call_elsewhere, NULL), 0);
    pthread_join(thread, NULL);
    assert_int_equal(weft_last_status(), WEFT_OK);
    const char *text = stop(WEFT_OK);
    assert_says(text, "2 calls failed before weft_init(), on other threads or in deleters");
    assert_says(text, "the first was: weft_add: called from another thread");
}

static void test_silent(void **state)
{
    (void)state;
    start_with("WEFT_SILENT", "1");
    fail_once();
    assert_string_equal(stop(WEFT_OK), "");
    weft_clear_error();
    start();
    assert_string_equal(stop(WEFT_OK), "");
}

/* ---- what is left over --------------------------------------------------------------------------------- */

static void test_left_over(void **state)
{
    (void)state;
    start_with("WEFT_CHECK", "1");
    release();
    weft_scope_begin();
    weft_ones(WEFT_F32, 0, NULL, mesh, NULL);
    weft_scope_end();
    assert_string_equal(stop(WEFT_OK), "");

    start_with("WEFT_CHECK", "1");
    weft_tensor_set_name(wrong, "odd");
    weft_scope_begin();
    weft_ones(WEFT_F32, 0, NULL, mesh, NULL);
    assert_non_null(weft_local_acquire(a, 0, WEFT_READ));
    const char *text = stop(WEFT_OK);
    assert_says(text,
                "left over: 1 shard without weft_local_release(), 2 tensors without weft_tensor_release() "
                "(the last is odd: f32[5] [R] on 4), 1 scope without weft_scope_end()\n");
    assert_int_equal(count(text, "\n"), 1);

    start(); /* not asked for */
    weft_scope_begin();
    assert_string_equal(stop(WEFT_OK), "");
}

/* ---- WEFT_ON_ERROR ------------------------------------------------------------------------------------- */

static void test_print(void **state)
{
    (void)state;
    setenv("WEFT_ON_ERROR", "print", 1);
    start();
    catch_errors();
    fail_once();
    weft_relu(NULL);
    weft_index_select(a, 0, weft_full(WEFT_I64, 17, 1, (int64_t[]){ 2 }, mesh, NULL));
    weft_wait();
    weft_status status = weft_last_status();
    const char *text = let_go();
    assert_int_equal(status, WEFT_ERR_SHAPE);
    assert_int_equal(count(text, "weft_add: "), 1);
    assert_says(text, "weft_relu: a is NULL\n");
    assert_int_equal(count(text, "weft_index_select: "), 1);
    assert_int_equal(count(text, "\n"), 3);
    weft_clear_error();
    fail_once();
    assert_string_equal(stop(WEFT_OK), ""); /* it was shown */
    weft_clear_error();
    catch_errors();
    assert_int_equal(weft_world_size(), 0);
    assert_null(weft_add(NULL, NULL)); /* without a world too */
    assert_says(let_go(), "weft: weft_add: weft_init() has not been called\n");
    weft_clear_error();
    unsetenv("WEFT_ON_ERROR");
}

static void test_wrong_value(void **state)
{
    (void)state;
    setenv("WEFT_ON_ERROR", "stop", 1);
    assert_int_equal(weft_init(NULL), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "WEFT_ON_ERROR is \"stop\", expected print or abort");
    unsetenv("WEFT_ON_ERROR");
}

static void test_abort(void **state)
{
    (void)state;
    catch_errors();
    pid_t child = fork();
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
        setenv("WEFT_WORLD", "self", 1);
        setenv("WEFT_ON_ERROR", "abort", 1);
        weft_config config = { .ranks = RANKS };
        if (weft_init(&config) == WEFT_OK) {
            weft_mesh_pop();
        }
        _exit(1);
    }
    int status = 0;
    pid_t ended = waitpid(child, &status, 0);
    const char *text = let_go();
    assert_true(child > 0 && ended == child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_says(text, "weft: weft_mesh_pop: the mesh stack is empty\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_failed),
        cmocka_unit_test(test_nobody_looks),
        cmocka_unit_test(test_somebody_looks),
        cmocka_unit_test(test_status_that_is_dropped),
        cmocka_unit_test(test_one_call_is_counted_once),
        cmocka_unit_test(test_error_of_a_task),
        cmocka_unit_test(test_other_threads),
        cmocka_unit_test(test_silent),
        cmocka_unit_test(test_left_over),
        cmocka_unit_test(test_print),
        cmocka_unit_test(test_wrong_value),
    };
    const struct CMUnitTest alone[] = { cmocka_unit_test(test_abort) };
    /* First, while this process has one thread; not where MPI knows it. */
    int failed =
        over_processes() ? 0 : cmocka_run_group_tests_name("failures that end the process", alone, NULL, NULL);
    return failed + cmocka_run_group_tests_name("failures", tests, NULL, NULL);
}
