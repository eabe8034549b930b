/* A process without further threads: pthread_create() is replaced by one that fails on request. The start
 * is an error on all processes, which can start again when threads are available. */
#define _GNU_SOURCE /* RTLD_NEXT */
#include "support.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "comm/launcher.h"
#include "runtime/runtime.h"

/* ---- pthread_create() ---------------------------------------------------------------------------------- */

enum { NO_LIMIT = 1 << 20 };

static struct {
    atomic_int alive, limit; /* threads at a time */
    atomic_int calls, fails; /* the number of the call that fails; 0: none */
} threads = { .limit = NO_LIMIT };

typedef struct beginning {
    void *(*routine)(void *);
    void *argument;
} beginning;

static void count_down(void *argument)
{
    (void)argument;
    threads.alive--;
}

static void *run(void *argument)
{
    beginning b = *(beginning *)argument;
    void *result;
    free(argument);
    pthread_cleanup_push(count_down, NULL);
    result = b.routine(b.argument);
    pthread_cleanup_pop(1);
    return result;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*routine)(void *),
                   void *argument)
{
    static int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (create == NULL) {
        void *found = dlsym(RTLD_NEXT, "pthread_create");
        memcpy(&create, &found, sizeof(found));
    }
    bool fails = ++threads.calls == threads.fails || threads.alive >= threads.limit;
    beginning *b = fails ? NULL : malloc(sizeof(*b));
    if (b == NULL) {
        return EAGAIN;
    }
    *b = (beginning){ routine, argument };
    threads.alive++;
    int error = create(thread, attributes, run, b);
    if (error != 0) {
        threads.alive--;
        free(b);
    }
    return error;
}

/* ---- support ------------------------------------------------------------------------------------------- */

enum { WORKERS = 3 };
static int last_process; /* how many processes there are, less one */

static weft_status start(void)
{
    weft_config config = { .workers = WORKERS, .timeout_s = 60 };
    return weft_init(&config);
}

static void assert_starts(void)
{
    assert_int_equal(start(), WEFT_OK);
    assert_no_error();
    double sum = 0;
    int64_t ranks = weft_world_size();
    weft_placement rows = weft_shard(0);
    weft_tensor *ones = weft_ones(WEFT_F64, 2, (int64_t[]){ 4, 3 }, weft_mesh_create(1, &ranks, NULL), &rows);
    assert_int_equal(weft_tensor_item(weft_sum(ones, WEFT_ALL_DIMS, false), &sum), WEFT_OK);
    assert_true(sum == 12);
    assert_int_equal(weft_finalize(), WEFT_OK);
}

static int process;

static int set_up(void **state)
{
    (void)state;
    assert_int_equal(start(), WEFT_OK); /* MPI has its threads now */
    process = weft_process_index();
    last_process = weft_num_processes() - 1;
    return weft_finalize() == WEFT_OK ? 0 : -1;
}

/* ---- tests --------------------------------------------------------------------------------------------- */

/* StarPU ends a program that it gets no thread for. */
static void test_too_few_for_workers(void **state)
{
    (void)state;
    assert_starts();
    int others = threads.alive;
    for (int left = 0; left <= WORKERS; left++) {
        threads.limit = process == last_process ? others + left : NO_LIMIT;
        assert_int_equal(start(), WEFT_ERR_NOMEM);
        assert_error(WEFT_ERR_NOMEM, "no threads for 3 workers and for messages");
        threads.limit = NO_LIMIT;
        assert_int_equal(threads.alive, others);
        assert_starts();
    }
}

/* The last one that is made, where there were enough before. */
static void test_none_for_messages(void **state)
{
    (void)state;
    threads.calls = 0;
    assert_int_equal(start(), WEFT_OK);
    int calls = threads.calls;
    assert_int_equal(weft_finalize(), WEFT_OK);
    threads.calls = 0;
    threads.fails = process == last_process ? calls : 0;
    weft_status status = start();
    if (process == last_process) {
        assert_int_equal(status, WEFT_ERR_NOMEM);
        assert_error(WEFT_ERR_NOMEM, "no thread for messages");
        return;
    }
    /* The others have started, and hear of it then. */
    if (status == WEFT_OK) {
        double sum = 0;
        int64_t ranks = weft_world_size();
        weft_placement rows = weft_shard(0);
        weft_tensor *ones =
            weft_ones(WEFT_F64, 2, (int64_t[]){ 4, 3 }, weft_mesh_create(1, &ranks, NULL), &rows);
        assert_int_not_equal(weft_tensor_item(weft_sum(ones, WEFT_ALL_DIMS, false), &sum), WEFT_OK);
        assert_true(sum == 0);
        weft_finalize();
    }
    char who[64];
    snprintf(who, sizeof(who), "process %d gave up", last_process);
    assert_error(WEFT_ERR_NOMEM, who);
}

int main(void)
{
    const struct CMUnitTest alone_tests[] = { cmocka_unit_test(test_too_few_for_workers) };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_too_few_for_workers),
        cmocka_unit_test(test_none_for_messages), /* the last: the world is broken */
    };
    bool alone = !weft_launched_for_mpi(); /* there are no messages */
    return alone ? cmocka_run_group_tests(alone_tests, set_up, NULL)
                 : cmocka_run_group_tests(tests, set_up, NULL);
}
