/* Task lists that are kept: which calls make none any more, and how many bytes they take. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>

#include "dispatch/cache.h"

/* Lists that are made, by operations and redistributions: linked in front of weft_task_list_finish() (--wrap). */
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
    weft_config config = WEFT_CONFIG_DEFAULT;
    config.ranks = ranks;
    config.workers = 1;
    setenv("WEFT_PANEL_ROWS", panel_rows, 1);
    assert_int_equal(weft_init(&config), WEFT_OK);
}

static void stop(void)
{
    assert_no_error();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* ---- calls that are made again ------------------------------------------------------------------------- */

/* Attention and its gradients where the sequence is sharded: blocks go round, which each step sees through
 * access maps of its own. */
static void attend(weft_mesh *mesh, int64_t rows)
{
    const weft_placement sharded[] = { weft_shard(1) };
    const int64_t shape[] = { 2, rows, 4 };
    weft_scope_open();
    weft_tensor *q = weft_randn(WEFT_F32, 3, shape, mesh, sharded);
    weft_tensor *k = weft_randn(WEFT_F32, 3, shape, mesh, sharded);
    weft_tensor *v = weft_randn(WEFT_F32, 3, shape, mesh, sharded);
    weft_tensor *output = weft_attention(q, k, v, NULL), *gradient_k, *gradient_v;
    assert_non_null(output);
    assert_non_null(weft_attention_backward(output, q, k, v, output, NULL, &gradient_k, &gradient_v));
    weft_scope_close();
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
    weft_scope_open();
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
    weft_redistribute(weft_cross_entropy(z, next), NULL, everywhere);
    weft_tensor *g = weft_cross_entropy_backward(NULL, z, next);
    weft_add_inplace(b2, weft_sum(g, 0, false), -0.1);
    weft_add_inplace(w2, weft_matmul_ex(a, true, g, false), -0.1);
    g = weft_gelu_backward(weft_matmul_ex(g, false, w2, true), h);
    weft_add_inplace(b1, weft_sum(g, 0, false), -0.1);
    weft_add_inplace(w1, weft_matmul_ex(x, true, g, false), -0.1);
    g = weft_reshape(weft_matmul_ex(g, false, w1, true), 3, (int64_t[]){ -1, CONTEXT, EMBED });
    weft_add_inplace(table, weft_embedding_backward(g, context, VOCABULARY), -0.1);
    weft_scope_close();
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
    assert_in_range(usual.bytes / usual.lists, 1, 1500);
    assert_in_range(single.bytes / single.tasks, 1, 125);
}

/* 64 x 64 panels of one row: 4,096 tasks of a product; and kernels on views, which have long arguments. */
static void test_bytes_of_single_rows(void **state)
{
    (void)state;
    start(1, "1");
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ 1 }, NULL);
    const weft_placement everywhere[] = { weft_replicate() };
    const int64_t square[] = { 64, 64 }, other[] = { 65, 64 }, row[] = { 64 };
    for (int i = 0; i < 2; i++) {
        weft_scope_open();
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
        weft_slice_step(c, 0, 0, 65, 2);
        weft_attention(weft_reshape(a, 3, (int64_t[]){ 64, 8, 8 }),
                       weft_reshape(b, 3, (int64_t[]){ 64, 8, 8 }),
                       weft_reshape(b, 3, (int64_t[]){ 64, 8, 8 }), NULL);
        weft_scope_close();
        weft_wait();
    }
    print_message(
        "# panels of one row: %zu lists of %zu tasks with %zu operands, %zu bytes: %zu a task, and at "
        "most %.0f for each task and operand of a list\n",
        kept.lists, kept.tasks, kept.operands, kept.bytes, kept.bytes / kept.tasks, kept.most);
    stop();
    assert_true(kept.tasks > 2 * 4096);
    assert_in_range(kept.bytes / kept.tasks, 1, 110);
    assert_true(kept.most < 70);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rings_are_kept),
        cmocka_unit_test(test_bytes_of_char_lm),
        cmocka_unit_test(test_bytes_of_single_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
