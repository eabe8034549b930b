/* Copies to the program's memory: required sizes, refusals. In one process, and over MPI. And tensors
 * described as text, without their values. And how much memory they take. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 6, CANARY = 0x5a };

static void start(void)
{
    WORLD(RANKS);
}

static void stop(void)
{
    assert_no_error();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

static bool untouched(const unsigned char *memory, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (memory[i] != CANARY) {
            return false;
        }
    }
    return true;
}

static unsigned char *canaries(size_t bytes)
{
    unsigned char *memory = malloc(bytes);
    assert_non_null(memory);
    return memset(memory, CANARY, bytes);
}

static void assert_refused(weft_status status, const char *function, size_t given, size_t needed)
{
    char text[160];
    assert_int_equal(status, WEFT_ERR_INVALID);
    snprintf(text, sizeof(text), "%s: bytes is %zu, but ", function, given);
    assert_non_null(strstr(weft_last_error(), text));
    snprintf(text, sizeof(text), "needs %zu bytes", needed);
    assert_error(WEFT_ERR_INVALID, text);
}

static weft_counters counters(void)
{
    weft_counters now;
    assert_int_equal(weft_get_counters(&now, sizeof(now)), WEFT_OK);
    return now;
}

static void check_whole(weft_tensor *tensor)
{
    size_t needed = weft_tensor_bytes(tensor);
    unsigned char *memory = canaries(needed + 8);
    uint64_t transfers = counters().transfers, tasks = counters().tasks;
    for (size_t given = 0; given < needed; given += 1 + needed / 5) {
        assert_refused(weft_to_host(tensor, memory, given), "weft_to_host", given, needed);
        assert_true(untouched(memory, needed + 8));
    }
    assert_true(counters().transfers == transfers && counters().tasks == tasks);
    assert_int_equal(weft_to_host(tensor, memory, needed), WEFT_OK);
    assert_true(needed == 0 || !untouched(memory, needed));
    assert_true(untouched(memory + needed, 8));
    assert_int_equal(weft_to_host(tensor, memory, needed + 8), WEFT_OK);
    assert_true(untouched(memory + needed, 8));
    free(memory);
}

static void check_local(weft_tensor *tensor, int local_rank)
{
    int64_t offset[WEFT_MAX_DIMS], extent[WEFT_MAX_DIMS];
    size_t needed = weft_local_bytes(tensor, local_rank);
    assert_int_equal(weft_local_box(tensor, local_rank, offset, extent), WEFT_OK);
    assert_int_equal(needed, shape_count(weft_tensor_ndim(tensor), extent) *
                                 (int64_t)weft_dtype_size(weft_tensor_dtype(tensor)));
    unsigned char *memory = canaries(needed + 8);
    if (needed > 0) {
        assert_refused(weft_local_to_host(tensor, local_rank, memory, needed - 1), "weft_local_to_host",
                       needed - 1, needed);
    }
    assert_true(untouched(memory, needed + 8));
    assert_int_equal(weft_local_to_host(tensor, local_rank, memory, needed), WEFT_OK);
    assert_true(needed == 0 || !untouched(memory, needed));
    assert_true(untouched(memory + needed, 8));
    free(memory);
}

/* Random tensors of all types. A call that is refused has moved nothing: all processes go on together. */
static void test_room(void **state)
{
    (void)state;
    start();
    prng random = prng_start(3);
    for (int i = 0; i < 60; i++) {
        weft_scope_begin();
        int64_t shape[3];
        int ndim = random_shape(&random, 3, 9, shape);
        weft_mesh *mesh = random_mesh(&random, RANKS);
        weft_placement placements[3];
        random_placements(&random, mesh, ndim, false, placements);
        random_cut_sizes(&random, mesh, ndim, shape, placements);
        weft_tensor *tensor = weft_ones((weft_dtype)(i % WEFT_DTYPE_COUNT), ndim, shape, mesh, placements);
        assert_int_equal(weft_tensor_bytes(tensor),
                         shape_count(ndim, shape) *
                             (int64_t)weft_dtype_size((weft_dtype)(i % WEFT_DTYPE_COUNT)));
        check_whole(tensor);
        for (int local = 0; local < weft_local_ranks() && ndim > 0; local++) {
            check_local(tensor, local);
        }
        weft_scope_end();
    }
    stop();
}

/* One element: other memory than that of a double would be too small. */
static void test_one_element(void **state)
{
    (void)state;
    start();
    weft_scope_begin();
    double value = 0;
    float narrow = 0;
    weft_tensor *wide =
        weft_full(WEFT_F64, 2.5, 0, NULL, weft_mesh_create(1, (int64_t[]){ RANKS }, NULL), NULL);
    assert_refused(weft_to_host(wide, &narrow, sizeof(narrow)), "weft_to_host", 4, 8);
    assert_refused(weft_local_to_host(wide, 0, &narrow, sizeof(narrow)), "weft_local_to_host", 4, 8);
    assert_true(narrow == 0);
    assert_int_equal(weft_local_to_host(wide, 0, &value, sizeof(value)), WEFT_OK);
    assert_true(value == 2.5);
    assert_int_equal(weft_tensor_item(weft_to_type(wide, WEFT_BOOL), &value), WEFT_OK);
    assert_true(value == 1);
    weft_scope_end();
    stop();
}

static void test_bytes_of_what_is_not_there(void **state)
{
    (void)state;
    assert_int_equal(weft_tensor_bytes(NULL), 0);
    assert_error(WEFT_ERR_STATE, "weft_tensor_bytes");
    start();
    int64_t shape[] = { 4 };
    weft_tensor *tensor =
        weft_zeros(WEFT_I32, 1, shape, weft_mesh_create(1, (int64_t[]){ RANKS }, NULL), NULL);
    assert_int_equal(weft_local_bytes(NULL, 0), 0);
    assert_error(WEFT_ERR_INVALID, "weft_local_bytes: tensor");
    assert_int_equal(weft_local_bytes(tensor, -1), 0);
    assert_error(WEFT_ERR_INVALID, "weft_local_bytes: local_rank is -1");
    assert_int_equal(weft_local_bytes(tensor, weft_local_ranks()), 0);
    assert_error(WEFT_ERR_INVALID, "weft_local_bytes: local_rank is");
    assert_int_equal(weft_local_bytes(tensor, 0), 16);
    weft_tensor_release(tensor);
    assert_int_equal(weft_tensor_bytes(tensor), 0);
    assert_error(WEFT_ERR_INVALID, "weft_tensor_bytes: tensor");
    stop();
}

/* A rank of a Partial tensor gives its addend. */
static void test_addends(void **state)
{
    (void)state;
    start();
    weft_scope_begin();
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ RANKS }, NULL);
    weft_placement rows = weft_shard(0);
    weft_tensor *ones = weft_ones(WEFT_F64, 1, (int64_t[]){ RANKS }, mesh, &rows), *sum = weft_sum(ones, WEFT_ALL_DIMS, false);
    assert_int_equal(weft_tensor_placements(sum)->kind, WEFT_PARTIAL);
    double value = 0;
    for (int i = 0; i < weft_local_ranks(); i++) {
        assert_int_equal(weft_local_to_host(sum, i, &value, sizeof(value)), WEFT_OK);
        assert_true(value == 1);
    }
    assert_int_equal(weft_to_host(sum, &value, sizeof(value)), WEFT_OK);
    assert_true(value == RANKS);
    weft_scope_end();
    stop();
}

/* ---- text ---------------------------------------------------------------------------------------------- */

static void assert_described(const weft_tensor *tensor, const char *expected)
{
    char text[256];
    assert_ptr_equal(weft_tensor_describe(tensor, text, sizeof(text)), text);
    assert_string_equal(text, expected);
}

static void test_description(void **state)
{
    (void)state;
    start();
    static const char *const names[] = { "dp", "tp" };
    weft_mesh *mesh = weft_mesh_create(2, (int64_t[]){ 2, 3 }, names);
    weft_mesh *other = weft_mesh_of_ranks(1, (int64_t[]){ 2 }, (int[]){ 4, 1 }, NULL);
    weft_placement placements[] = { weft_shard(-1), weft_partial(WEFT_MAX) };
    weft_tensor *plain = weft_zeros(WEFT_BF16, 0, NULL, other, NULL);
    weft_tensor *named = weft_empty(WEFT_F32, 2, (int64_t[]){ 8, 4 }, mesh, placements);
    weft_tensor_set_name(named, "weights");
    assert_described(plain, "bf16[] [R] on 2 of ranks 4, 1");
    assert_described(named, "weights: f32[8, 4] [S1,P(max)] on 2x3 (dp, tp)");
    char text[8];
    for (size_t size = 1; size <= sizeof(text); size++) {
        memset(text, 'x', sizeof(text));
        weft_tensor_describe(named, text, size);
        assert_int_equal(strlen(text), size - 1);
        assert_memory_equal(text, "weights", size - 1);
    }
    assert_string_equal(weft_tensor_describe(named, NULL, 10), "");
    assert_string_equal(weft_tensor_describe(named, text, 0), "");
    weft_tensor_release(plain);
    weft_tensor_release(named);
    stop();
}

/* It may be called while an error is examined, and must not change it. */
static void test_description_of_nothing(void **state)
{
    (void)state;
    char text[64];
    assert_non_null(strstr(weft_tensor_describe(NULL, text, sizeof(text)), "no tensor of this thread"));
    start();
    weft_tensor *tensor = weft_ones(WEFT_F32, 0, NULL, weft_mesh_create(1, (int64_t[]){ RANKS }, NULL), NULL);
    weft_tensor_release(tensor);
    assert_non_null(strstr(weft_tensor_describe(tensor, text, sizeof(text)), "not a live tensor"));
    assert_non_null(strstr(weft_tensor_describe(NULL, text, sizeof(text)), "not a live tensor"));
    assert_int_equal(weft_last_status(), WEFT_OK);
    stop();
    assert_non_null(strstr(weft_tensor_describe(tensor, text, sizeof(text)), "no tensor of this thread"));
    assert_int_equal(weft_last_status(), WEFT_OK);
}

/* The program holds the shard that a task waits for, and tasks wait for that one: a description does not. */
static void test_description_waits_for_nothing(void **state)
{
    (void)state;
    start();
    weft_scope_begin();
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ RANKS }, NULL);
    weft_tensor *a = weft_ones(WEFT_F32, 1, (int64_t[]){ 4 }, mesh, NULL);
    assert_non_null(weft_local_acquire(a, 0, WEFT_WRITE));
    weft_tensor *b = weft_add(a, a);
    assert_described(a, "f32[4] [R] on 6");
    assert_described(b, "f32[4] [R] on 6");
    assert_int_equal(weft_local_release(a, 0), WEFT_OK);
    assert_int_equal(weft_wait(), WEFT_OK);
    weft_scope_end();
    stop();
}

static weft_counters counted(void)
{
    weft_counters now;
    assert_int_equal(weft_get_counters(&now, sizeof(now)), WEFT_OK);
    return now;
}

/* Shards count, and count once if two tensors share them. */
static void test_memory_is_counted(void **state)
{
    enum { ROWS = 1024 * RANKS };
    (void)state;
    start();
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ RANKS }, NULL);
    const uint64_t shard = ROWS / RANKS * 8 * sizeof(double);
    weft_counters before = counted();
    weft_tensor *a = weft_zeros(WEFT_F64, 2, (int64_t[]){ ROWS, 8 }, mesh, (weft_placement[]){ weft_shard(0) });
    weft_tensor *same = weft_reshape(a, 1, (int64_t[]){ ROWS * 8 });
    weft_counters held = counted();
    assert_int_equal(held.tensor_bytes - before.tensor_bytes, (uint64_t)weft_local_ranks() * shard);
    assert_int_equal(held.tensor_bytes_peak, held.tensor_bytes);
    weft_tensor_release(a);
    assert_int_equal(counted().tensor_bytes, held.tensor_bytes); /* the other one has it */
    weft_tensor_release(same);
    weft_counters after = counted();
    assert_int_equal(after.tensor_bytes, before.tensor_bytes);
    assert_int_equal(after.tensor_bytes_peak, held.tensor_bytes_peak);
    stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_room),
        cmocka_unit_test(test_one_element),
        cmocka_unit_test(test_bytes_of_what_is_not_there),
        cmocka_unit_test(test_addends),
        cmocka_unit_test(test_description),
        cmocka_unit_test(test_description_of_nothing),
        cmocka_unit_test(test_description_waits_for_nothing),
        cmocka_unit_test(test_memory_is_counted),
    };
    return cmocka_run_group_tests_name("host memory", tests, NULL, NULL);
}
