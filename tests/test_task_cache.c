/* Task lists that are kept: which calls make none any more, and how many bytes they take. */
#include "support.h"

#include <stdlib.h>

#include "tasks/tasks.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rings_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
