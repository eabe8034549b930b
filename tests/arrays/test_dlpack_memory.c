/* Memory that runs out while tensors are exchanged by DLPack: whichever allocation fails, the call succeeds, or it returns
 * NULL with WEFT_ERR_NOMEM and the managed tensors stay whose they were. */
#include "managed.h"

#include <stdlib.h>
#include <string.h>

#include "failing_memory.h"

enum { RANKS = 4, N = 8 };

static _Thread_local bool watched; /* the submitting thread */
static int64_t countdown;          /* allocations until one fails; 0: none does */
static bool failed;

bool allocation_fails(void)
{
    if (!watched || countdown == 0 || --countdown > 0) {
        return false;
    }
    failed = true;
    return true;
}

static void fail_after(int64_t allocations)
{
    failed = false;
    countdown = allocations;
    watched = true;
}

static void fail_no_more(void)
{
    watched = false;
    countdown = 0;
}

static void expect_no_memory(void)
{
    assert_true(failed);
    assert_error(WEFT_ERR_NOMEM, "dlpack");
}

static void test_import(void **state)
{
    (void)state;
    const weft_placement layouts[] = { weft_shard(0), weft_replicate() };
    const double values[N] = { 3, 1, 4, 1, 5, 9, 2, 6 };
    weft_mesh *line = weft_mesh_create(1, (int64_t[]){ RANKS }, NULL);
    for (unsigned flags = 0; flags < 8; flags++) {
        const weft_placement *layout = &layouts[flags / 4];
        bool through = false; /* no allocation is left that could fail */
        for (int64_t number = 1; !through; number++) {
            int deleted[RANKS] = { 0 };
            producer *producers[RANKS];
            struct DLManagedTensorVersioned *locals[RANKS];
            int64_t own = flags < 4 ? N / RANKS : N;
            for (int i = 0; i < weft_local_ranks(); i++) {
                int first = flags < 4 ? (int)own * (weft_first_rank() + i) : 0;
                producers[i] = produce(WEFT_F64, 1, &own, values + first, PLAIN, &deleted[i]);
                locals[i] = &producers[i]->versioned;
            }
            fail_after(number);
            weft_tensor *x = weft_from_dlpack(WEFT_F64, 1, (int64_t[]){ N }, locals, line, layout, flags % 4);
            fail_no_more();
            through = !failed;
            if (x != NULL) {
                double found[N];
                assert_int_equal(weft_to_host(x, found, sizeof(found)), WEFT_OK);
                assert_memory_equal(found, values, sizeof(found));
                weft_tensor_release(x);
            } else {
                expect_no_memory();
            }
            assert_int_equal(weft_wait(), WEFT_OK);
            for (int i = 0; i < weft_local_ranks(); i++) {
                assert_int_equal(deleted[i], x != NULL);
                if (x == NULL) {
                    end_producer(producers[i]);
                }
            }
        }
    }
}

static void test_export(void **state)
{
    (void)state;
    const weft_placement by_rows = weft_shard(0);
    weft_mesh *line = weft_mesh_create(1, (int64_t[]){ RANKS }, NULL);
    weft_tensor *x = weft_ones(WEFT_F64, 1, (int64_t[]){ N }, line, &by_rows);
    for (unsigned flags = 0; flags <= WEFT_COPY; flags++) {
        bool through = false;
        for (int64_t number = 1; !through; number++) {
            fail_after(number);
            struct DLManagedTensorVersioned *managed = weft_to_dlpack(x, 0, flags);
            fail_no_more();
            through = !failed;
            if (managed == NULL) {
                expect_no_memory();
            } else {
                assert_true(((double *)managed->tensor.data)[1] == 1);
                managed->deleter(managed);
            }
            assert_int_equal(weft_wait(), WEFT_OK);
        }
    }
    /* Nothing is shared any more: a write takes no other memory. */
    const void *before = weft_local_acquire(x, 0, WEFT_READ);
    assert_int_equal(weft_local_release(x, 0), WEFT_OK);
    assert_ptr_equal(weft_local_acquire(x, 0, WEFT_READ_WRITE), before);
    assert_int_equal(weft_local_release(x, 0), WEFT_OK);
    weft_tensor_release(x);
}

static int start(void **state)
{
    (void)state;
    weft_config config = { .ranks = RANKS };
    return weft_init(&config) == WEFT_OK ? 0 : -1;
}

static int stop(void **state)
{
    (void)state;
    assert_no_error();
    return weft_finalize() == WEFT_OK ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_import, start, stop),
        cmocka_unit_test_setup_teardown(test_export, start, stop),
    };
    return cmocka_run_group_tests_name("DLPack without memory", tests, NULL, NULL);
}
