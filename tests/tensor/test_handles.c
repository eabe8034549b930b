/* Handles of released objects, and values that never were handles: refused, whatever has been made since. */
#include "support.h"

#include <stdlib.h>

static void start(void)
{
    WORLD(2, .world = WEFT_WORLD_SELF);
}

static void stop(void)
{
    assert_int_equal(weft_finalize(), WEFT_OK);
}

static weft_mesh *line(void)
{
    return weft_mesh_create(1, (int64_t[]){ 2 }, NULL);
}

static weft_tensor *make(double value)
{
    return weft_full(WEFT_F32, value, 1, (int64_t[]){ 4 }, line(),
                     &(weft_placement){ WEFT_SHARD, 0, WEFT_SUM });
}

/* By functions that look, change, compute and release. */
static void assert_refused(weft_tensor *tensor, weft_tensor *alive)
{
    weft_clear_error();
    assert_int_equal(weft_tensor_ndim(tensor), 0);
    assert_error(WEFT_ERR_INVALID, "not a live tensor");
    assert_null(weft_fill_inplace(tensor, 9));
    assert_error(WEFT_ERR_INVALID, "not a live tensor");
    assert_null(weft_add(alive, tensor));
    assert_error(WEFT_ERR_INVALID, "not a live tensor");
    assert_null(weft_redistribute(tensor, NULL, NULL));
    assert_error(WEFT_ERR_INVALID, "not a live tensor");
    weft_tensor_retain(tensor);
    assert_error(WEFT_ERR_INVALID, "not a live tensor");
    weft_tensor_release(tensor);
    assert_error(WEFT_ERR_INVALID, "not a live tensor");
}

static void assert_values(weft_tensor *tensor, float value)
{
    float values[4];
    assert_int_equal(weft_to_host(tensor, values, sizeof(values)), WEFT_OK);
    for (int i = 0; i < 4; i++) {
        assert_true(values[i] == value);
    }
}

/* Each new tensor may have the memory of the one before. */
static void test_released(void **state)
{
    (void)state;
    enum { CYCLES = 1000000, LOOKED_AT = 1000 };
    start();
    weft_tensor **past = malloc(CYCLES * sizeof(*past)), *alive = make(7);
    assert_non_null(past);
    for (int i = 0; i < CYCLES; i++) {
        past[i] = weft_empty(WEFT_F32, 1, (int64_t[]){ 4 }, line(), NULL);
        weft_tensor_release(past[i]);
        assert_no_error();
        if (i % (CYCLES / LOOKED_AT) == 0) {
            weft_tensor *next = make(1);
            assert_refused(past[i], alive);
            assert_values(next, 1);
            weft_tensor_release(next);
        }
    }
    for (int i = 0; i < CYCLES; i++) {
        weft_clear_error();
        assert_int_equal(weft_tensor_size(past[i], 0), 0);
        assert_int_equal(weft_last_status(), WEFT_ERR_INVALID);
    }
    weft_clear_error();
    assert_values(alive, 7);
    free(past);
    stop();
}

/* The second release does not free newer tensors. */
static void test_released_twice(void **state)
{
    (void)state;
    start();
    weft_tensor *first = make(1);
    weft_tensor_release(first);
    weft_tensor *second = make(2);
    weft_tensor_release(first);
    assert_error(WEFT_ERR_INVALID, "not a live tensor");
    assert_values(second, 2);
    weft_scope_begin();
    weft_tensor *inside = weft_scale(second, 2);
    weft_scope_end();
    weft_scope_begin();
    weft_tensor *later = weft_scale(second, 3);
    assert_refused(inside, second);
    assert_values(later, 6);
    weft_scope_end();
    stop();
}

static void no_kernel(const weft_kernel_call *call)
{
    (void)call;
}

static const weft_operation *operation(const char *name)
{
    return weft_operation_register(&(weft_operation_description){
        .name = name, .rule = "A->A", .inputs = { { "a", WEFT_TYPES_FLOAT, false } }, .kernel = no_kernel });
}

/* Worlds one after another that do the same: what one has made is nothing to the next. */
static void test_of_a_former_world(void **state)
{
    (void)state;
    enum { WORLDS = 4 };
    weft_tensor *tensors[WORLDS];
    weft_mesh *meshes[WORLDS];
    const weft_operation *operations[WORLDS];
    for (int world = 0; world < WORLDS; world++) {
        start();
        tensors[world] = make(world);
        meshes[world] = line();
        operations[world] = operation("nothing");
        assert_no_error();
        for (int former = 0; former < world; former++) {
            assert_refused(tensors[former], tensors[world]);
            assert_int_equal(weft_mesh_ndim(meshes[former]), 0);
            assert_error(WEFT_ERR_INVALID, "not a mesh of this weft_init()");
            assert_int_equal(weft_mesh_push(meshes[former]), WEFT_ERR_INVALID);
            weft_clear_error();
            assert_null(weft_apply(operations[former], 1, &tensors[world], NULL));
            assert_error(WEFT_ERR_INVALID, "is not one of weft_operation_register()");
        }
        assert_values(tensors[world], (float)world);
        assert_int_equal(weft_mesh_ndim(meshes[world]), 1);
        assert_non_null(weft_apply(operations[world], 1, &tensors[world], NULL));
        assert_no_error();
        stop();
        assert_int_equal(weft_tensor_ndim(tensors[world]), 0);
        assert_error(WEFT_ERR_STATE, "weft_init() has not been called");
    }
}

/* Numbers, addresses of memory that there is, and handles of another kind. */
static void test_what_never_was_one(void **state)
{
    (void)state;
    start();
    weft_tensor *alive = make(3);
    void *heap = malloc(4096);
    assert_non_null(heap);
    assert_refused((weft_tensor *)(void *)line(), alive);
    assert_refused((weft_tensor *)heap, alive);
    assert_refused((weft_tensor *)(void *)&alive, alive);
    for (int i = 1; i < 300; i++) {
        assert_refused((weft_tensor *)((char *)heap + i), alive);
        assert_refused((weft_tensor *)(uintptr_t)i, alive);
        assert_refused((weft_tensor *)(uintptr_t)-i, alive);
        assert_refused((weft_tensor *)(((uintptr_t)1 << 63) + (uintptr_t)i), alive);
        /* Beside one that is alive, in its kind and in its generation. */
        assert_refused((weft_tensor *)((uintptr_t)alive ^ (uintptr_t)(i & 15 ? i & 15 : 1)), alive);
        assert_refused((weft_tensor *)((uintptr_t)alive + ((uintptr_t)i << 32)), alive);
    }
    assert_int_equal(weft_mesh_ndim((weft_mesh *)(void *)alive), 0);
    assert_error(WEFT_ERR_INVALID, "not a mesh");
    assert_null(weft_apply((const weft_operation *)(const void *)alive, 1, &alive, NULL));
    assert_error(WEFT_ERR_INVALID, "operation");
    free(heap);
    assert_values(alive, 3);
    stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_released),
        cmocka_unit_test(test_released_twice),
        cmocka_unit_test(test_of_a_former_world),
        cmocka_unit_test(test_what_never_was_one),
    };
    return cmocka_run_group_tests_name("handles", tests, NULL, NULL);
}
