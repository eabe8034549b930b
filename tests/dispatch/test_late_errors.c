/* Errors in tasks are reported once per call, however many tasks fail, also if some run after the report,
 * and also if the result has no elements. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "operand.h"
#include "ops/backward.h"
#include "runtime/runtime.h"

enum { RANKS = 8, ROWS = 6, COLUMNS = 3, INDICES = 9 };

static weft_mesh *mesh;

static int start(void **state)
{
    (void)state;
    start_world("WEFT_PANEL_ROWS", "1");
    mesh = weft_mesh_create(1, (int64_t[]){ RANKS }, NULL);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    return weft_finalize() == WEFT_OK ? 0 : -1;
}

/* ---- calls with indices of which one is out of range --------------------------------------------------- */

static weft_tensor *zeros(int64_t rows, int64_t columns, const char *placement)
{
    weft_placement p;
    assert_int_equal(weft_placements_parse(placement, 1, &p), WEFT_OK);
    return weft_zeros(WEFT_F32, 2, (int64_t[]){ rows, columns }, mesh, &p);
}

/* [INDICES], or, as wide as a table, [INDICES, COLUMNS]. */
static weft_tensor *indices(int ndim, int64_t bad, const char *placement)
{
    int64_t values[INDICES * COLUMNS] = { 0 };
    values[INDICES - 2] = bad;
    weft_placement p;
    assert_int_equal(weft_placements_parse(placement, 1, &p), WEFT_OK);
    return weft_distribute(WEFT_I64, ndim, (int64_t[]){ INDICES, COLUMNS }, values, mesh, &p);
}

/* Each takes a table, or what else there is to look up in, with this placement. */
static weft_tensor *call_embedding(const char *table, weft_tensor *line)
{
    return weft_embedding(zeros(ROWS, COLUMNS, table), line);
}

static weft_tensor *call_embedding_backward(const char *gradient, weft_tensor *line)
{
    return weft_embedding_backward(zeros(INDICES, COLUMNS, gradient), line, ROWS);
}

static weft_tensor *call_index_select(const char *table, weft_tensor *line)
{
    return weft_index_select(zeros(ROWS, COLUMNS, table), 0, line);
}

static weft_tensor *call_gather(const char *table, weft_tensor *line)
{
    return weft_gather(zeros(ROWS, 1, table), 0, weft_unsqueeze(line, 1));
}

static weft_tensor *call_scatter_add(const char *table, weft_tensor *line)
{
    return weft_scatter_add(zeros(ROWS, 1, table), 0, weft_unsqueeze(line, 1), zeros(INDICES, 1, "R"));
}

static weft_tensor *call_index_add(const char *table, weft_tensor *line)
{
    return weft_index_add_inplace(zeros(ROWS, COLUMNS, table), 0, line, zeros(INDICES, COLUMNS, "R"));
}

static weft_tensor *call_index_put(const char *table, weft_tensor *line)
{
    return weft_index_put(zeros(ROWS, COLUMNS, table), 1, &line, zeros(INDICES, COLUMNS, "R"), false);
}

static weft_tensor *call_one_hot(const char *table, weft_tensor *line)
{
    (void)table;
    return weft_one_hot(line, ROWS);
}

static weft_tensor *call_cross_entropy(const char *logits, weft_tensor *line)
{
    return weft_cross_entropy(zeros(INDICES, ROWS, logits), line, NULL);
}

static weft_tensor *call_cross_entropy_backward(const char *logits, weft_tensor *line)
{
    return weft_cross_entropy_backward(NULL, zeros(INDICES, ROWS, logits), line);
}

static weft_tensor *call_nll(const char *logits, weft_tensor *line)
{
    return weft_nll(zeros(INDICES, ROWS, logits), line, -100, WEFT_LOSS_MEAN);
}

static weft_tensor *call_bernoulli(const char *table, weft_tensor *line)
{
    (void)table;
    return weft_bernoulli(weft_to_type(line, WEFT_F32));
}

static const struct {
    row_place place;
    const char *name;
    weft_tensor *(*call)(const char *table, weft_tensor *line);
    bool shares; /* ranks share the work even where all have everything */
} calls[] = {
    { THIS_ROW, "embedding", call_embedding, false },
    { THIS_ROW, "embedding_backward", call_embedding_backward, false },
    { THIS_ROW, "index_select", call_index_select, false },
    { THIS_ROW, "gather", call_gather, false },
    { THIS_ROW, "scatter_add", call_scatter_add, false },
    { THIS_ROW, "index_add_inplace", call_index_add, false },
    { THIS_ROW, "index_put", call_index_put, false },
    { THIS_ROW, "one_hot", call_one_hot, false },
    { THIS_ROW, "cross_entropy", call_cross_entropy, true },
    { THIS_ROW, "cross_entropy_backward", call_cross_entropy_backward, false },
    { THIS_ROW, "nll", call_nll, true },
    { THIS_ROW, "bernoulli", call_bernoulli, false },
};
enum { CALLS = sizeof(calls) / sizeof(calls[0]) };

/* ---- once ---------------------------------------------------------------------------------------------- */

static void check_status(weft_status got, weft_status expected, int call, const char *table, const char *when)
{
    if (got != expected) {
        fail_msg("%s with a table %s, %s: %s", calls[call].name, table, when, weft_status_string(got));
    }
    weft_clear_error();
}

/* The last rank's tasks meet it too, after it has been told. */
static void test_once(void **state)
{
    (void)state;
    for (int call = 0; call < CALLS; call++) {
        enter_row(calls[call].place, __func__);
        if (calls[call].shares) {
            continue;
        }
        weft_scope_begin();
        weft_tensor *line = indices(1, ROWS, "R");
        float host[INDICES * ROWS * 2];
        assert_int_equal(weft_wait(), WEFT_OK);
        assert_non_null(weft_local_acquire(line, RANKS - 1, WEFT_READ_WRITE));
        weft_tensor *result = calls[call].call("R", line);
        assert_no_error();
        check_status(weft_to_host(result, host, sizeof(host)), WEFT_ERR_INVALID, call, "R",
                     "when one rank has met it");
        assert_int_equal(weft_local_release(line, RANKS - 1), WEFT_OK);
        check_status(weft_wait(), WEFT_OK, call, "R", "when the last one has met it");
        weft_scope_end();
    }
    leave_rows();
}

/* Each call is reported separately, also if tables and indices are sharded. Twice each. */
enum { ROUNDS = 12 };

static void test_each_call(void **state)
{
    (void)state;
    static const char *const placements[] = { "R", "S0", "S1" };
    for (int call = 0; call < CALLS; call++) {
        enter_row(calls[call].place, __func__);
        for (int i = 0; i < ROUNDS; i++) {
            const char *table = placements[i % 3];
            weft_scope_begin();
            assert_non_null(calls[call].call(table, indices(1, ROWS, i % 2 == 0 ? "R" : "S0")));
            check_status(weft_wait(), WEFT_ERR_INVALID, call, table, "each time");
            check_status(weft_wait(), WEFT_OK, call, table, "a second time");
            weft_scope_end();
        }
    }
    leave_rows();
}

/* ---- tasks of one operation that fail at once ------------------------------------------------------------- */

enum { FAILING = 2, OPERATIONS = 40, WIDTH = 1 << 20 }; /* WIDTH: messages that take time to write */

typedef struct failing {
    pthread_t thread;
    int missed; /* operations after whose error there was none to collect */
} failing;

static pthread_barrier_t together;

static void *fail_together(void *argument)
{
    failing *f = argument;
    for (uint64_t i = 0; i < OPERATIONS; i++) {
        char message[100];
        pthread_barrier_wait(&together);
        weft_fail_later(UINT64_MAX - i, WEFT_ERR_INVALID, "test_at_once", "task of operation %*d", WIDTH, (int)i);
        f->missed += weft_error_peek(message, sizeof(message)) != WEFT_ERR_INVALID;
        if (pthread_barrier_wait(&together) == PTHREAD_BARRIER_SERIAL_THREAD) {
            weft_error_collect();
            weft_clear_error();
        }
    }
    return NULL;
}

/* The error can be collected as soon as any of the tasks has ended, whichever was first. */
static void test_at_once(void **state)
{
    (void)state;
    failing threads[FAILING] = { 0 };
    assert_int_equal(pthread_barrier_init(&together, NULL, FAILING), 0);
    for (int i = 0; i < FAILING; i++) {
        assert_int_equal(pthread_create(&threads[i].thread, NULL, fail_together, &threads[i]), 0);
    }
    int missed = 0;
    for (int i = 0; i < FAILING; i++) {
        pthread_join(threads[i].thread, NULL);
        missed += threads[i].missed;
    }
    pthread_barrier_destroy(&together);
    assert_int_equal(missed, 0);
    assert_int_equal(weft_wait(), WEFT_OK);
}

/* ---- results without elements -------------------------------------------------------------------------- */

static void check_found(weft_tensor *result, const char *message)
{
    assert_no_error();
    assert_non_null(result);
    assert_int_equal(weft_wait(), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, message);
    assert_int_equal(weft_wait(), WEFT_OK);
}

static void check_fine(weft_tensor *result)
{
    assert_no_error();
    assert_non_null(result);
    assert_int_equal(weft_wait(), WEFT_OK);
}

static void test_empty_results(void **state)
{
    (void)state;
    static const char *const placements[] = { "R", "S0", "S1" };
    for (int i = 0; i < 3; i++) {
        const char *p = placements[i], *where = i == 0 ? "R" : "S0";
        weft_scope_begin();
        weft_tensor *none = zeros(0, COLUMNS, p), *narrow = zeros(ROWS, 0, p);
        weft_tensor *added = zeros(INDICES, COLUMNS, p), *none_added = zeros(INDICES, 0, p);
        weft_tensor *line = indices(1, 4, where), *table = indices(2, 4, where),
                    *bad = indices(1, ROWS, where);
        check_found(weft_index_add(none, 0, line, added), "weft_index_add: indices has ");
        check_found(weft_index_add_inplace(none, 0, line, added), "weft_index_add_inplace: indices has ");
        check_found(weft_index_add(narrow, 0, bad, none_added), "indices has 6, expected 0 to 5");
        check_found(weft_scatter_add(none, 0, table, added), "weft_scatter_add: indices has");
        check_found(weft_scatter_add_inplace(none, 0, table, added), "weft_scatter_add_inplace: indices has");
        check_found(weft_index_select(none, 0, line), "weft_index_select: indices has");
        check_found(weft_index_select(narrow, 0, bad), "weft_index_select: indices has 6");
        check_found(weft_gather(none, 0, table), "weft_gather: indices has");
        check_found(weft_one_hot(line, 0), "weft_one_hot: indices has");
        check_found(weft_embedding(none, line), "weft_embedding: indices has");
        check_found(weft_embedding(narrow, bad), "weft_embedding: indices has 6");
        check_found(weft_embedding_backward(added, line, 0), "weft_embedding_backward: indices has");
        check_found(weft_embedding_backward(none_added, bad, ROWS), "weft_embedding_backward: indices has 6");
        /* What is in range, and no indices at all. */
        check_fine(weft_index_add(narrow, 0, line, none_added));
        check_fine(weft_index_select(narrow, 0, line));
        check_fine(weft_embedding(narrow, line));
        check_fine(weft_embedding_backward(none_added, line, ROWS));
        weft_tensor *no_indices = weft_slice(line, 0, 0, 0, 1);
        check_fine(weft_index_add(none, 0, no_indices, zeros(0, COLUMNS, p)));
        check_fine(weft_index_select(none, 0, no_indices));
        check_fine(weft_one_hot(no_indices, 0));
        check_fine(weft_embedding(none, no_indices));
        weft_scope_end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_once, start, stop),
        cmocka_unit_test_setup_teardown(test_each_call, start, stop),
        cmocka_unit_test_setup_teardown(test_at_once, start, stop),
        cmocka_unit_test_setup_teardown(test_empty_results, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
