/* Memory of tasks: a call that hits the cache does not call malloc(), and blocks are reused. Counts weft's
 * own calls of malloc() (-Wl,--wrap); StarPU's, in a library of its own, are not counted. */
#include "support.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/task_memory.h"
#include "tensor/run.h"

static int64_t allocations;
static _Thread_local bool submits; /* kernels may take memory for themselves, on workers */

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);

void *__wrap_malloc(size_t size)
{
    allocations += submits;
    return __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    allocations += submits;
    return __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
    allocations += submits;
    return __real_realloc(memory, size);
}

static weft_tensor *x, *y, *weights, *indices;

#define CALL(name, expression)                                                                               \
    static void call_##name(void)                                                                            \
    {                                                                                                        \
        expression;                                                                                          \
    }
CALL(add, weft_add(x, y))
CALL(scale, weft_scale(x, 2))
CALL(add_inplace, weft_add_inplace(x, y, 0.5))
CALL(matmul, weft_matmul(x, weights))
CALL(sum_rows, weft_sum(x, 1, false))
CALL(sum_columns, weft_sum(x, 0, false))
CALL(softmax, weft_softmax(x, 1))
CALL(embedding, weft_embedding(weights, indices))
CALL(cumsum, weft_cumsum(x, 1))
CALL(to_type, weft_to_type(x, WEFT_BF16))
CALL(gather, weft_redistribute(x, NULL, (weft_placement[]){ weft_replicate() }))
CALL(transpose, weft_redistribute(x, NULL, (weft_placement[]){ weft_shard(1) }))

typedef struct call {
    const char *name;
    void (*make)(void);
} call;

static const call calls[] = { { "add", call_add },
                              { "scale", call_scale },
                              { "add_inplace", call_add_inplace },
                              { "matmul", call_matmul },
                              { "sum of rows", call_sum_rows },
                              { "sum of columns", call_sum_columns },
                              { "softmax", call_softmax },
                              { "embedding", call_embedding },
                              { "cumsum", call_cumsum },
                              { "to_type", call_to_type },
                              { "from rows to all", call_gather },
                              { "from rows to columns", call_transpose } };

/* `together`: none of their tasks runs before the last call. */
static void make_calls(const call *c, int count, bool together)
{
    if (together) {
        starpu_pause();
    }
    for (int i = 0; i < count; i++) {
        weft_scope_begin();
        c->make();
        weft_scope_end();
    }
    if (together) {
        starpu_resume();
    }
    assert_int_equal(weft_wait(), WEFT_OK);
}

enum { CALLS = 40 };

/* With a tape: one allocation for each call on the leaf `weights`, none for others. */
static void count_recorded(int ranks)
{
    static const char *const on_weights[] = { "matmul", "embedding" };
    assert_int_equal(weft_set_requires_grad(weights, true), WEFT_OK);
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        bool recorded = strcmp(calls[i].name, on_weights[0]) == 0 || strcmp(calls[i].name, on_weights[1]) == 0;
        make_calls(&calls[i], 3, false);
        make_calls(&calls[i], CALLS, true);
        allocations = 0;
        make_calls(&calls[i], CALLS, false);
        if (allocations != (recorded ? CALLS : 0)) {
            fail_msg("%s on %d ranks, with a tape: %lld allocations in %d calls", calls[i].name, ranks,
                     (long long)allocations, CALLS);
        }
    }
    assert_int_equal(weft_set_requires_grad(weights, false), WEFT_OK);
}

static void count_allocations(int ranks)
{
    WORLD(ranks, .world = WEFT_WORLD_SELF);
    int64_t size = ranks;
    assert_int_equal(weft_mesh_push(weft_mesh_create(1, &size, NULL)), WEFT_OK);
    weft_placement rows = weft_shard(0), columns = weft_shard(1), whole = weft_replicate();
    weft_scope_begin();
    x = weft_ones(WEFT_F32, 2, (int64_t[]){ 4 * ranks, 8 }, NULL, &rows);
    y = weft_ones(WEFT_F32, 2, (int64_t[]){ 4 * ranks, 8 }, NULL, &rows);
    weights = weft_ones(WEFT_F32, 2, (int64_t[]){ 8, 8 }, NULL, &whole);
    indices = weft_zeros(WEFT_I64, 1, (int64_t[]){ 4 * ranks }, NULL, &rows);
    /* On one rank no plan has these layouts, and where each call frees those that are not in use, they would be made anew. */
    weft_empty(WEFT_F32, 2, (int64_t[]){ 4 * ranks, 8 }, NULL, &whole);
    weft_empty(WEFT_F32, 2, (int64_t[]){ 4 * ranks, 8 }, NULL, &columns);
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        make_calls(&calls[i], 3,
                   false); /* choices, task lists, plans, which are kept from their second use on */
        make_calls(&calls[i], CALLS, true); /* as many tasks pending as there may be below */
        allocations = 0;
        make_calls(&calls[i], CALLS, false);
        if (allocations > 0) {
            fail_msg("%s on %d ranks: %lld allocations in %d calls", calls[i].name, ranks,
                     (long long)allocations, CALLS);
        }
    }
    count_recorded(ranks);
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

static void test_no_allocations(void **state)
{
    (void)state;
    count_allocations(1);
    count_allocations(2);
}

/* ---- blocks -------------------------------------------------------------------------------------------- */

static void start(void)
{
    WORLD(1, .world = WEFT_WORLD_SELF);
}

static void test_blocks_are_used_again(void **state)
{
    (void)state;
    start();
    weft_task_memory *memory = weft_runtime.task_memory;
    static const size_t sizes[] = { 1, 256, 257, 3000, 65536, 65537, 1 << 20 };
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        weft_task_block *block = weft_task_obtain(memory, sizes[i]);
        assert_non_null(block);
        assert_int_equal((uintptr_t)block->bytes % 16, 0);
        assert_int_equal(block->starpu.destroy, 0);
        assert_int_equal(block->starpu.detach, 0);
        memset(block->bytes, 255, sizes[i]);
        weft_task_give_back(memory, block);
        if (sizes[i] <= 65536) {
            allocations = 0;
            weft_task_block *again = weft_task_obtain(memory, sizes[i]);
            assert_ptr_equal(again, block);
            assert_int_equal(allocations, 0);
            weft_task_give_back(memory, again);
        }
    }
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* Two blocks at once are two; all that are given back are found again, the last one first. */
static void test_many_blocks(void **state)
{
    (void)state;
    enum { BLOCKS = 2000 };
    static weft_task_block *blocks[BLOCKS];
    start();
    weft_task_memory *memory = weft_runtime.task_memory;
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = weft_task_obtain(memory, 500);
        assert_non_null(blocks[i]);
        memset(blocks[i]->bytes, i % 256, 500);
    }
    for (int i = 0; i < BLOCKS; i++) {
        assert_int_equal((unsigned char)blocks[i]->bytes[499], i % 256);
        weft_task_give_back(memory, blocks[i]);
    }
    allocations = 0;
    for (int i = BLOCKS; i-- > 0;) {
        assert_ptr_equal(weft_task_obtain(memory, 500), blocks[i]);
    }
    assert_int_equal(allocations, 0);
    for (int i = 0; i < BLOCKS; i++) {
        weft_task_give_back(memory, blocks[i]);
    }
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* More tasks than blocks are kept, with operands in more handles than a StarPU task has by itself. */
static void test_tasks_of_all_sizes(void **state)
{
    (void)state;
    enum { ROWS = 64, TASKS = 300 };
    assert_int_equal(setenv("WEFT_PANEL_ROWS", "1", 1), 0);
    start();
    assert_int_equal(unsetenv("WEFT_PANEL_ROWS"), 0);
    int64_t size = 1;
    assert_int_equal(weft_mesh_push(weft_mesh_create(1, &size, NULL)), WEFT_OK);
    weft_placement whole = weft_replicate();
    weft_scope_begin();
    weft_tensor *a = weft_ones(WEFT_F64, 2, (int64_t[]){ ROWS, 3 }, NULL, &whole), *last = NULL;
    for (int i = 0; i < TASKS; i++) {
        weft_scope_begin();
        last = weft_softmax(weft_scale(a, (double)i), 0); /* all panels in one task */
        if (i + 1 < TASKS) {
            weft_scope_end();
        }
    }
    double values[ROWS * 3];
    assert_int_equal(weft_to_host(last, values, sizeof(values)), WEFT_OK);
    for (int i = 0; i < ROWS * 3; i++) {
        assert_true(values[i] == 1.0 / ROWS);
    }
    weft_scope_end();
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

int main(void)
{
    setenv("WEFT_TASK_CACHE", "on", 1); /* this is about what is kept */
    submits = true;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_allocations),
        cmocka_unit_test(test_blocks_are_used_again),
        cmocka_unit_test(test_many_blocks),
        cmocka_unit_test(test_tasks_of_all_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
