/* Structs that the library fills in, and reads, of programs that were compiled with another version of weft: no byte outside the
 * given size is touched, and members that are not known become 0. */
#include "support.h"

#include <stdalign.h>
#include <stddef.h>
#include <string.h>

enum { ROOM = 4096, MARK = 0x5a };

static alignas(max_align_t) unsigned char room[ROOM];

/* The bytes from `first` on have their mark, which the library must not have changed. */
static void check_marks(size_t first)
{
    for (size_t i = first; i < ROOM; i++) {
        assert_int_equal(room[i], MARK);
    }
}

static void mark_all(void)
{
    memset(room, MARK, ROOM);
}

static weft_tensor *some_tensor(void)
{
    return weft_ones(WEFT_F64, 2, (int64_t[]){ 4, 3 }, NULL, (weft_placement[]){ weft_shard(0) });
}

static weft_status fill_counters(size_t size)
{
    return weft_get_counters((weft_counters *)room, size);
}

static weft_status fill_layout(size_t size)
{
    weft_tensor_shard shards[8];
    weft_tensor *tensor = some_tensor();
    weft_status status = weft_tensor_flatten(tensor, shards, (weft_tensor_layout *)room, size);
    for (int i = 0; i < weft_local_ranks() && status == WEFT_OK; i++) {
        weft_tensor_release(shards[i].tensor);
    }
    weft_tensor_release(tensor);
    return status;
}

static weft_status identity(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context, (void)scalars;
    outputs[0] = weft_neg(inputs[0]);
    return weft_last_status();
}

static weft_status fill_graph(size_t size)
{
    weft_graph *graph = weft_graph_create("neg", identity, NULL, 1, 0, 1);
    weft_tensor *tensor = some_tensor(), *output = NULL;
    assert_int_equal(weft_graph_call(graph, &tensor, NULL, &output), WEFT_OK);
    weft_status status = weft_graph_get_info(graph, (weft_graph_info *)room, size);
    weft_tensor_release(output);
    weft_tensor_release(tensor);
    weft_graph_destroy(graph);
    return status;
}

static const struct {
    const char *name;
    weft_status (*fill)(size_t size);
    size_t size;
} fillers[] = {
    { "counters", fill_counters, sizeof(weft_counters) },
    { "layout", fill_layout, sizeof(weft_tensor_layout) },
    { "graph info", fill_graph, sizeof(weft_graph_info) },
};
enum { FILLERS = sizeof(fillers) / sizeof(fillers[0]) };

static void start(void)
{
    WORLD(2);
    weft_mesh_push(weft_mesh_create(1, (int64_t[]){ 2 }, NULL));
}

static void test_smaller_structs(void **state)
{
    (void)state;
    start();
    for (int i = 0; i < FILLERS; i++) {
        unsigned char whole[ROOM];
        mark_all();
        assert_int_equal(fillers[i].fill(fillers[i].size), WEFT_OK);
        check_marks(fillers[i].size);
        memcpy(whole, room, ROOM);
        mark_all();
        assert_int_equal(fillers[i].fill(16), WEFT_OK);
        check_marks(16);
        /* Numbers of calls count on. */
        assert_true(i == 0 || memcmp(whole, room, i == 1 ? 16 : 8) == 0);
    }
    world_stop(NULL);
}

static void test_larger_structs(void **state)
{
    (void)state;
    start();
    for (int i = 0; i < FILLERS; i++) {
        size_t larger = fillers[i].size + 40;
        mark_all();
        assert_int_equal(fillers[i].fill(larger), WEFT_OK);
        check_marks(larger);
        for (size_t at = fillers[i].size; at < larger; at++) {
            assert_int_equal(room[at], 0);
        }
    }
    world_stop(NULL);
}

static void test_no_such_sizes(void **state)
{
    (void)state;
    start();
    for (int i = 0; i < FILLERS; i++) {
        const size_t sizes[] = { 0, 1, 1 << 20 };
        for (int k = 0; k < 3; k++) {
            mark_all();
            assert_int_equal(fillers[i].fill(sizes[k]), WEFT_ERR_INVALID);
            assert_non_null(strstr(weft_last_error(), "expected sizeof("));
            weft_clear_error();
            check_marks(0);
        }
    }
    world_stop(NULL);
}

/* A layout of a program that knows no `requires_grad`: what lies after it is not read. */
static void test_older_layout(void **state)
{
    (void)state;
    start();
    weft_tensor_shard shards[8];
    weft_tensor *tensor = some_tensor();
    mark_all();
    size_t older = offsetof(weft_tensor_layout, requires_grad);
    assert_int_equal(weft_tensor_flatten(tensor, shards, (weft_tensor_layout *)room, older), WEFT_OK);
    weft_tensor *again = weft_tensor_unflatten(shards, (const weft_tensor_layout *)room, older);
    assert_non_null(again);
    assert_false(weft_requires_grad(again));
    bool equal = false;
    assert_int_equal(weft_equal(tensor, again, &equal), WEFT_OK);
    assert_true(equal);
    weft_tensor_release(again);
    for (int i = 0; i < weft_local_ranks(); i++) {
        weft_tensor_release(shards[i].tensor);
    }
    weft_tensor_release(tensor);
    world_stop(NULL);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(test_smaller_structs),
        cmocka_unit_test(test_larger_structs),
        cmocka_unit_test(test_no_such_sizes),
        cmocka_unit_test(test_older_layout),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
