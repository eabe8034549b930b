/* A call allocates before it submits: whichever allocation fails, either nothing of its list was
 * submitted, or the call succeeds. */
#include "support.h"

#include <stdlib.h>
#include <string.h>

#include "comm/comm.h"
#include "failing_memory.h"
#include "runtime/task_memory.h"
#include "tensor/state.h"

/* ---- in front of what allocates and submits (--wrap) --------------------------------------------------- */

static _Thread_local bool watched; /* the submitting thread */
static bool in_list, submitted;    /* a list is being bound or submitted; something of it was submitted */
static int64_t countdown;          /* allocations until one fails; 0: none does */
static int64_t failed, late, lists;
static bool failed_late; /* the last failure was between two submissions of a list */

bool allocation_fails(void)
{
    if (!watched) {
        return false;
    }
    if (countdown == 0 || --countdown > 0) {
        return false;
    }
    failed++;
    failed_late = in_list && submitted;
    late += failed_late;
    return true;
}

/* A list is bound: its tasks get their memory. Single tasks do not come here. */
weft_task_block *__real_weft_task_prepare(int num_operands, size_t arguments_size);
weft_task_block *__wrap_weft_task_prepare(int num_operands, size_t arguments_size);

weft_task_block *__wrap_weft_task_prepare(int num_operands, size_t arguments_size)
{
    lists += !in_list;
    in_list = true;
    return __real_weft_task_prepare(num_operands, arguments_size);
}

int __real_starpu_task_submit(struct starpu_task *task);
int __wrap_starpu_task_submit(struct starpu_task *task);

int __wrap_starpu_task_submit(struct starpu_task *task)
{
    submitted = in_list;
    return __real_starpu_task_submit(task);
}

/* The last that is done with a list. */
void __real_weft_room_give_back(weft_room *room);
void __wrap_weft_room_give_back(weft_room *room);

void __wrap_weft_room_give_back(weft_room *room)
{
    in_list = submitted = false;
    __real_weft_room_give_back(room);
}

/* ---- calls --------------------------------------------------------------------------------------------- */

enum { ROWS = 40, COLUMNS = 6, MAX_BYTES = 8192 };

typedef struct world {
    weft_mesh *mesh;
    weft_tensor *rows, *columns, *whole, *addends, *batch;
} world;

static weft_tensor *random_tensor(const world *w, int64_t rows, int64_t columns, weft_placement where)
{
    return weft_randn(WEFT_F32, 2, (int64_t[]){ rows, columns }, w->mesh, &where);
}

static weft_tensor *multiply(const world *w)
{
    return weft_matmul_ex(w->rows, true, w->rows, false); /* Partial: addends of all ranks */
}

static weft_tensor *move_and_multiply(const world *w)
{
    return weft_matmul(w->columns, w->whole);
}

static weft_tensor *reduce(const world *w)
{
    return weft_redistribute(w->addends, NULL, (weft_placement[]){ weft_replicate() });
}

static weft_tensor *normalise(const world *w)
{
    return weft_softmax(w->columns, 1); /* composed, with redistributions between */
}

static weft_tensor *sort_rows(const world *w)
{
    return weft_argsort(w->rows, 0, false); /* one task with the panels of all rows */
}

static weft_tensor *attend(const world *w)
{
    return weft_attention(w->batch, w->batch, w->batch, NULL);
}

static weft_tensor *flip(const world *w)
{
    return weft_flip(w->rows, 1, (int[]){ 0 });
}

static weft_tensor *(*const calls[])(const world *w) = { multiply,  move_and_multiply, reduce,
                                                         normalise, sort_rows,         attend,
                                                         flip };

static void begin_world(world *w, const char *task_cache)
{
    setenv("WEFT_PANEL_ROWS", "1", 1);
    setenv("WEFT_TASK_CACHE", task_cache, 1);
    WORLD(4, .workers = 1);
    w->mesh = weft_mesh_create(1, (int64_t[]){ 4 }, NULL);
    w->rows = random_tensor(w, ROWS, COLUMNS, weft_shard(0));
    w->columns = random_tensor(w, ROWS, COLUMNS, weft_shard(1));
    w->whole = random_tensor(w, COLUMNS, COLUMNS, weft_replicate());
    w->addends = multiply(w);
    w->batch = weft_randn(WEFT_F32, 3, (int64_t[]){ 2, 12, 4 }, w->mesh, (weft_placement[]){ weft_shard(1) });
    assert_non_null(w->addends);
    weft_wait();
    assert_no_error();
}

static void values_of(weft_tensor *tensor, char *bytes, size_t size)
{
    memset(bytes, 0, size);
    assert_int_equal(weft_to_host(tensor, bytes, size), WEFT_OK);
}

static uint64_t bytes_of_tensors(void)
{
    weft_counters counters;
    weft_wait();
    assert_int_equal(weft_get_counters(&counters, sizeof(counters)), WEFT_OK);
    return counters.tensor_bytes;
}

/* The call with allocation number `number` failing; returns whether there was such an allocation. Without a scope the result is the
 * caller's, and a call that fails leaves nothing. */
static bool call_with_failure(const world *w, size_t call, int64_t number, bool scoped, const char *expected, size_t size)
{
    char found[MAX_BYTES];
    uint64_t bytes = bytes_of_tensors();
    if (scoped) {
        weft_scope_begin();
    }
    int64_t before = failed;
    countdown = number;
    failed_late = false;
    weft_tensor *result = calls[call](w);
    countdown = 0;
    bool had = failed > before;
    assert_false(in_list || submitted);
    if (result == NULL) {
        assert_true(had && !failed_late);
        assert_int_equal(weft_last_status(), WEFT_ERR_NOMEM);
        weft_clear_error();
    } else {
        values_of(result, found, size);
        assert_memory_equal(found, expected, size);
    }
    if (scoped) {
        weft_scope_end();
    } else if (result != NULL) {
        weft_tensor_release(result);
    }
    assert_int_equal(bytes_of_tensors(), bytes);
    assert_no_error();
    return had;
}

static void test_memory_comes_first(void **state)
{
    (void)state;
    static const char *const caches[] = { "on", "off" };
    watched = true;
    for (int c = 0; c < 2; c++) {
        world w;
        begin_world(&w, caches[c]);
        for (size_t call = 0; call < sizeof(calls) / sizeof(calls[0]); call++) {
            char expected[MAX_BYTES];
            weft_scope_begin();
            weft_tensor *result = calls[call](&w);
            assert_non_null(result);
            size_t size = (size_t)weft_tensor_bytes(result);
            assert_true(size <= sizeof(expected));
            values_of(result, expected, size);
            weft_scope_end();
            for (int scoped = 0; scoped < 2; scoped++) {
                for (int64_t number = 1; call_with_failure(&w, call, number, scoped, expected, size);) {
                    number++;
                }
            }
        }
        assert_no_error();
        assert_int_equal(weft_finalize(), WEFT_OK);
    }
    /* Tasks that the ready queue cannot hold in order wait without one (sched/policy.c). */
    print_message("# %d lists, %d allocations failed, %d of them between two tasks of a list\n", (int)lists,
                  (int)failed, (int)late);
    assert_true(failed > 50 && lists > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_comes_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
