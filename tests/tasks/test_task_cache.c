/* Kept data of calls: which calls make no task lists any more, how many bytes lists take, what goes first. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/cache.h"
#include "ops/backward.h"
#include "tensor/state.h"

/* Lists that are made: linked in front of weft_task_list_finish() (--wrap). */
bool __real_weft_task_list_finish(weft_task_list *list);
bool __wrap_weft_task_list_finish(weft_task_list *list);

static int64_t lists_made;

bool __wrap_weft_task_list_finish(weft_task_list *list)
{
    lists_made++;
    return __real_weft_task_list_finish(list);
}

static void start(int ranks, const char *panel_rows)
{
    setenv("WEFT_PANEL_ROWS", panel_rows, 1);
    WORLD(ranks, .workers = 1);
}

static void stop(void)
{
    assert_no_error();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* ---- calls that are made again ------------------------------------------------------------------------- */

/* Attention and its gradients with a sharded sequence: blocks move around a ring, with an access map per
 * step. */
static void attend(weft_mesh *mesh, int64_t rows)
{
    const weft_placement sharded[] = { weft_shard(1) };
    const int64_t shape[] = { 2, rows, 4 };
    weft_scope_begin();
    weft_tensor *q = weft_randn(WEFT_F32, 3, shape, mesh, sharded);
    weft_tensor *k = weft_randn(WEFT_F32, 3, shape, mesh, sharded);
    weft_tensor *v = weft_randn(WEFT_F32, 3, shape, mesh, sharded);
    weft_tensor *output = weft_attention(q, k, v, NULL), *gradient_k, *gradient_v;
    assert_non_null(output);
    assert_non_null(weft_attention_backward(output, q, k, v, output, NULL, &gradient_k, &gradient_v));
    weft_scope_end();
    weft_wait();
}

static void test_rings_are_kept(void **state)
{
    (void)state;
    start(4, "3");
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ 4 }, NULL);
    int64_t made[4];
    for (int i = 0; i < 4; i++) {
        lists_made = 0;
        attend(mesh, 20);
        made[i] = lists_made;
    }
    print_message("# lists made by four calls: %d, %d, %d, %d\n", (int)made[0], (int)made[1], (int)made[2],
                  (int)made[3]);
    assert_true(made[0] > 12); /* four steps forward, and thrice as many back */
    assert_int_equal(made[2], 0);
    assert_int_equal(made[3], 0);
    lists_made = 0;
    attend(mesh, 24);
    assert_true(lists_made > 12);
    stop();
}

/* ---- bytes --------------------------------------------------------------------------------------------- */

typedef struct tally {
    size_t lists, tasks, operands, bytes;
    double most; /* bytes for each task and each operand of one list, of lists of 32 tasks and more */
} tally;

static tally kept;

/* Bytes for each task that its list takes, with its share of everything, where panels have one row. */
static const struct {
    const char *operation;
    size_t most;
} limits[] = {
    { "matmul", 92 },     { "norm", 230 },
    { "softmax", 155 },   { "softmax_backward", 210 },
    { "permute", 265 },   { "sum", 165 },
    { "slice", 125 },     { "cross_entropy_backward", 210 },
    { "embedding", 155 }, { "embedding_backward", 93 },
    { "attention", 260 },
};
static bool checks_limits;
static size_t limits_checked;

static void check_limit(const char *operation, size_t tasks, size_t bytes)
{
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(limits); i++) {
        if (strcmp(limits[i].operation, operation) == 0) {
            assert_in_range(bytes / tasks, 40, limits[i].most);
            limits_checked++;
        }
    }
}

/* Lists that the dispatcher keeps: linked in front of weft_cache_keep_tasks() (--wrap). */
void __real_weft_cache_keep_tasks(weft_cached_call *cached, weft_task_list *tasks);
void __wrap_weft_cache_keep_tasks(weft_cached_call *cached, weft_task_list *tasks);

void __wrap_weft_cache_keep_tasks(weft_cached_call *cached, weft_task_list *tasks)
{
    size_t bytes = weft_task_list_bytes(tasks), count = tasks->tasks.count;
    kept.lists++;
    kept.tasks += count;
    kept.bytes += bytes;
    kept.operands += tasks->operands.count;
    double each = (double)bytes / (double)(count + tasks->operands.count + 1);
    kept.most = count >= 32 && each > kept.most ? each : kept.most;
    if (checks_limits) {
        check_limit(cached->operation->name, count, bytes);
    }
    if (getenv("WEFT_TEST_VERBOSE") != NULL) {
        printf("%-24s %6zu tasks %9zu bytes, %zu a task\n", cached->operation->name, count, bytes,
               count == 0 ? 0 : bytes / count);
    }
    __real_weft_cache_keep_tasks(cached, tasks);
}

/* A step of examples/char_lm.c on (dp 2, tp 2): its calls, with its layouts. */
static void train(weft_mesh *mesh, int64_t batch)
{
    enum { VOCABULARY = 96, EMBED = 16, CONTEXT = 8, HIDDEN = 64 };
    const weft_placement everywhere[] = { weft_replicate(), weft_replicate() };
    const weft_placement rows[] = { weft_shard(0), weft_replicate() };
    const weft_placement columns_on_tp[] = { weft_replicate(), weft_shard(1) };
    const weft_placement rows_on_tp[] = { weft_replicate(), weft_shard(0) };
    weft_scope_begin();
    weft_tensor *context = weft_zeros(WEFT_I64, 2, (int64_t[]){ batch, CONTEXT }, mesh, rows);
    weft_tensor *next = weft_zeros(WEFT_I64, 1, (int64_t[]){ batch }, mesh, rows);
    weft_tensor *table = weft_randn(WEFT_F32, 2, (int64_t[]){ VOCABULARY, EMBED }, mesh, everywhere);
    weft_tensor *w1 = weft_randn(WEFT_F32, 2, (int64_t[]){ CONTEXT * EMBED, HIDDEN }, mesh, columns_on_tp);
    weft_tensor *b1 = weft_zeros(WEFT_F32, 1, (int64_t[]){ HIDDEN }, mesh, rows_on_tp);
    weft_tensor *w2 = weft_randn(WEFT_F32, 2, (int64_t[]){ HIDDEN, VOCABULARY }, mesh, rows_on_tp);
    weft_tensor *b2 = weft_zeros(WEFT_F32, 1, (int64_t[]){ VOCABULARY }, mesh, everywhere);
    weft_tensor *x = weft_reshape(weft_embedding(table, context), 2, (int64_t[]){ -1, CONTEXT * EMBED });
    weft_tensor *h = weft_add(weft_matmul(x, w1), b1), *a = weft_gelu(h);
    weft_tensor *z = weft_add(weft_redistribute(weft_matmul(a, w2), NULL, rows), b2);
    weft_redistribute(weft_cross_entropy(z, next, NULL), NULL, everywhere);
    weft_tensor *g = weft_cross_entropy_backward(NULL, z, next);
    weft_add_inplace(b2, weft_sum(g, 0, false), -0.1);
    weft_add_inplace(w2, weft_matmul_ex(a, true, g, false), -0.1);
    g = weft_gelu_backward(weft_matmul_ex(g, false, w2, true), h);
    weft_add_inplace(b1, weft_sum(g, 0, false), -0.1);
    weft_add_inplace(w1, weft_matmul_ex(x, true, g, false), -0.1);
    g = weft_reshape(weft_matmul_ex(g, false, w1, true), 3, (int64_t[]){ -1, CONTEXT, EMBED });
    weft_add_inplace(table, weft_embedding_backward(g, context, VOCABULARY), -0.1);
    weft_scope_end();
    weft_wait();
    assert_no_error();
}

static tally train_twice(const char *panel_rows, int64_t batch)
{
    start(4, panel_rows);
    weft_mesh *mesh = weft_mesh_create(2, (int64_t[]){ 2, 2 }, NULL);
    kept = (tally){ 0 };
    train(mesh, batch);
    train(mesh, batch);
    stop();
    print_message("# char_lm, panels of %s rows: %zu lists of %zu tasks, %zu bytes: %zu a list, %zu a task\n",
                  panel_rows, kept.lists, kept.tasks, kept.bytes, kept.bytes / kept.lists,
                  kept.bytes / kept.tasks);
    return kept;
}

static void test_bytes_of_char_lm(void **state)
{
    (void)state;
    tally usual = train_twice("128", 256), single = train_twice("1", 64);
    assert_in_range(usual.lists, 15, 40);
    assert_in_range(usual.bytes / usual.lists, 1, 1200);
    assert_in_range(single.bytes / single.tasks, 1, 97);
}

/* 64 x 64 panels of one row: 4,096 tasks of a product; and kernels on views, which have long arguments. */
static void test_bytes_of_single_rows(void **state)
{
    (void)state;
    start(1, "1");
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ 1 }, NULL);
    const weft_placement everywhere[] = { weft_replicate() };
    const int64_t square[] = { 64, 64 }, other[] = { 65, 64 }, row[] = { 64 };
    checks_limits = true;
    for (int i = 0; i < 2; i++) {
        weft_scope_begin();
        weft_tensor *a = weft_randn(WEFT_F32, 2, square, mesh, everywhere);
        weft_tensor *b = weft_randn(WEFT_F32, 2, square, mesh, everywhere);
        weft_tensor *c = weft_randn(WEFT_F32, 2, other, mesh, everywhere);
        weft_tensor *gain = weft_randn(WEFT_F32, 1, row, mesh, everywhere);
        weft_tensor *rows = weft_zeros(WEFT_I64, 1, row, mesh, everywhere);
        kept = i == 0 ? (tally){ 0 } : kept;
        weft_matmul(a, b);
        weft_matmul_ex(a, true, b, true);
        weft_layer_norm(a, gain, gain, 1e-5);
        weft_softmax(a, 1);
        weft_softmax_backward(a, b, 1);
        weft_transpose(a, 0, 1);
        weft_sum(a, 0, false);
        weft_embedding(a, rows);
        weft_embedding_backward(a, rows, 64);
        weft_cross_entropy_backward(NULL, a, rows);
        weft_slice(c, 0, 0, 65, 2);
        weft_attention(weft_reshape(a, 3, (int64_t[]){ 64, 8, 8 }),
                       weft_reshape(b, 3, (int64_t[]){ 64, 8, 8 }),
                       weft_reshape(b, 3, (int64_t[]){ 64, 8, 8 }), NULL);
        weft_scope_end();
        weft_wait();
    }
    print_message(
        "# panels of one row: %zu lists of %zu tasks with %zu operands, %zu bytes: %zu a task, and at "
        "most %.0f for each task and operand of a list\n",
        kept.lists, kept.tasks, kept.operands, kept.bytes, kept.bytes / kept.tasks, kept.most);
    checks_limits = false;
    stop();
    assert_int_equal(limits_checked, WEFT_ARRAY_SIZE(limits) + 1); /* two products */
    assert_true(kept.tasks > 2 * 4096);
    assert_in_range(kept.bytes / kept.tasks, 1, 95);
    assert_true(kept.most < 60);
}

/* ---- the budget ---------------------------------------------------------------------------------------- */

static size_t bytes_of_call(const weft_cached_call *call)
{
    return sizeof(*call) + (call->has_tasks ? weft_task_list_bytes(&call->tasks) - sizeof(call->tasks) : 0);
}

/* Recomputes the bytes of the cache from its entries. */
static void check_budget(const weft_lru *cache, const weft_map *calls)
{
    assert_true(cache->bytes <= cache->budget);
    size_t bytes = 0;
    for (const weft_lru_entry *entry = cache->newest; entry != NULL; entry = entry->older) {
        size_t own =
            entry->map == calls ? bytes_of_call((const weft_cached_call *)entry) : sizeof(weft_cached_plan);
        assert_true(entry->map == calls ? entry->bytes == own + WEFT_LRU_ENTRY_BYTES : entry->bytes > own);
        assert_int_equal(entry->holds, 0);
        bytes += entry->bytes;
    }
    assert_int_equal(bytes, cache->bytes);
}

/* A call and a redistribution; whether their layouts, plans and lists were there. */
static void call_with(weft_mesh *mesh, int64_t rows, int times, uint64_t *dispatch_misses,
                      uint64_t *plan_misses)
{
    const weft_placement sharded[] = { weft_shard(0) }, everywhere[] = { weft_replicate() };
    weft_counters before, after;
    weft_get_counters(&before, sizeof(before));
    weft_scope_begin();
    weft_tensor *x = weft_empty(WEFT_F32, 2, (int64_t[]){ rows, 1 }, mesh, sharded);
    for (int i = 0; i < times; i++) {
        weft_redistribute(weft_neg(x), mesh, everywhere);
    }
    weft_scope_end();
    weft_get_counters(&after, sizeof(after));
    *dispatch_misses = after.dispatch_misses - before.dispatch_misses;
    *plan_misses = after.plan_misses - before.plan_misses;
}

/* 10,000 layouts, each used twice at once, and one of them time and again. */
static void test_budget(void **state)
{
    (void)state;
    enum { LAYOUTS = 10000, BUDGET = 1 << 20, OFTEN = 50 };
    setenv("WEFT_PANEL_ROWS", "1024", 1);
    WORLD(2, .workers = 1, .cache_bytes = BUDGET);
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ 2 }, NULL);
    const weft_lru *cache = &weft_runtime.call_cache;
    uint64_t misses, plan_misses;
    size_t most = 0;
    call_with(mesh, 1, 1, &misses, &plan_misses);
    const weft_map *calls =
        cache->newest->map == &weft_runtime.tensors->plans ? cache->oldest->map : cache->newest->map;
    for (int64_t i = 1; i <= LAYOUTS; i++) {
        call_with(mesh, 1 + i, 2, &misses, &plan_misses);
        assert_int_equal(misses, 1);
        assert_int_equal(plan_misses, 1);
        assert_true(cache->bytes <= BUDGET);
        most = cache->bytes > most ? cache->bytes : most;
        if (i % OFTEN == 0) { /* it stays, however many come */
            check_budget(cache, calls);
            call_with(mesh, 1, 1, &misses, &plan_misses);
            assert_int_equal(misses, 0);
            assert_int_equal(plan_misses, 0);
        }
    }
    assert_true(most > BUDGET - 16384);
    /* From newest to oldest: present up to the first missing one. */
    size_t kept_layouts = 0;
    for (int64_t i = LAYOUTS; i > 0; i--, kept_layouts++) {
        call_with(mesh, 1 + i, 1, &misses, &plan_misses);
        if (misses > 0) {
            break;
        }
    }
    assert_in_range(kept_layouts, 2 * OFTEN, LAYOUTS / 4);
    print_message("# of %d layouts in %d bytes %zu were kept\n", LAYOUTS, BUDGET, kept_layouts);
    for (int64_t i = 1; i < 20; i++) {
        call_with(mesh, 1 + i, 1, &misses, &plan_misses);
        assert_int_equal(misses, 1);
    }
    stop();
}

/* A list is worth keeping when it is used again: the third call makes none. */
static void test_second_use(void **state)
{
    (void)state;
    start(2, "1024");
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ 2 }, NULL);
    uint64_t misses[2];
    static const int64_t expected[] = { 2, 2, 0, 0 };
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(expected); i++) {
        lists_made = 0;
        size_t before = weft_runtime.call_cache.bytes;
        call_with(mesh, 100, 1, &misses[0], &misses[1]);
        assert_int_equal(lists_made, expected[i]);
        assert_int_equal(misses[0] + misses[1], i == 0 ? 2 : 0);
        assert_int_equal(weft_runtime.call_cache.bytes > before, i < 2);
    }
    stop();
}

/* Without a budget all is made anew, and nothing is lost or left. */
static void test_no_budget(void **state)
{
    (void)state;
    setenv("WEFT_CACHE_BYTES", "0", 1);
    start(2, "1024");
    unsetenv("WEFT_CACHE_BYTES");
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ 2 }, NULL);
    uint64_t misses, plan_misses;
    call_with(mesh, 100, 5, &misses, &plan_misses);
    assert_int_equal(misses, 5);
    assert_int_equal(plan_misses, 5);
    assert_int_equal(weft_runtime.call_cache.bytes, 0);
    stop();
}

/* ---- modes --------------------------------------------------------------------------------------------- */

static uint64_t add_values(uint64_t hash, weft_tensor *tensor)
{
    static float values[4096];
    assert_no_error();
    assert_int_equal(weft_to_host(tensor, values, sizeof(values)), WEFT_OK);
    return weft_hash_bytes(values, (size_t)weft_tensor_num_elements(tensor) * sizeof(values[0]), hash);
}

/* Three times the same calls on random values: kernels, composites, access maps, redistributions. */
static uint64_t bits_of_calls(const char *mode, int64_t cache_bytes)
{
    setenv("WEFT_TASK_CACHE", mode, 1);
    setenv("WEFT_PANEL_ROWS", "3", 1);
    WORLD(4, .workers = 1, .seed = 5, .cache_bytes = cache_bytes);
    weft_mesh *mesh = weft_mesh_create(2, (int64_t[]){ 2, 2 }, NULL);
    const weft_placement rows[] = { weft_shard(0), weft_replicate() },
                         columns[] = { weft_shard(0), weft_shard(1) };
    const int64_t square[] = { 16, 16 }, sequence[] = { 2, 14, 4 };
    uint64_t hash = 0;
    for (int i = 0; i < 3; i++) {
        weft_scope_begin();
        weft_tensor *a = weft_randn(WEFT_F32, 2, square, mesh, rows),
                    *b = weft_randn(WEFT_F32, 2, square, mesh, columns);
        weft_tensor *gain = weft_randn(WEFT_F32, 1, square, mesh, NULL);
        weft_tensor *q = weft_randn(WEFT_F32, 3, sequence, mesh, columns), *dk, *dv;
        weft_tensor *attended = weft_attention(q, q, q, NULL);
        hash = add_values(hash, weft_matmul(a, b));
        hash = add_values(hash, weft_softmax(b, 1));
        hash = add_values(hash, weft_layer_norm(b, gain, gain, 1e-5));
        hash = add_values(hash, weft_cumsum(weft_roll(b, 3, 1), 0));
        hash = add_values(hash, weft_redistribute(weft_sum(b, 0, false), mesh, NULL));
        hash = add_values(hash, attended);
        hash = add_values(hash, weft_attention_backward(attended, q, q, q, attended, NULL, &dk, &dv));
        hash = add_values(add_values(hash, dk), dv);
        weft_add_inplace(a, b, -0.5);
        hash = add_values(hash, a);
        weft_scope_end();
    }
    size_t bytes = weft_runtime.call_cache.bytes;
    assert_true(bytes <= weft_runtime.call_cache.budget);
    assert_true((bytes > 0) == (cache_bytes != 1));
    stop();
    setenv("WEFT_TASK_CACHE", "on", 1);
    return hash;
}

static void test_modes_give_the_same_bits(void **state)
{
    (void)state;
    uint64_t expected = bits_of_calls("on", 0);
    assert_true(bits_of_calls("off", 0) == expected);
    assert_true(bits_of_calls("check", 0) == expected);
    for (int64_t bytes = 1; bytes < 1 << 20;
         bytes = 4 * bytes + 4096) { /* what is used goes before it is used again */
        assert_true(bits_of_calls("on", bytes) == expected);
        assert_true(bits_of_calls("check", bytes) == expected);
    }
}

int main(void)
{
    setenv("WEFT_TASK_CACHE", "on", 1); /* this is about what is kept */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_second_use),
        cmocka_unit_test(test_no_budget),
        cmocka_unit_test(test_modes_give_the_same_bits),
        /* First: under MALLOC_PERTURB_ each realloc() fills what the others leave free. */
        cmocka_unit_test(test_budget),
        cmocka_unit_test(test_rings_are_kept),
        cmocka_unit_test(test_bytes_of_char_lm),
        cmocka_unit_test(test_bytes_of_single_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
