/* The stand-in's barriers and shuffles: kernels with them are right, and one whose barrier was removed is found. */
#include "barrier_kernels.h"
#include "device_support.h"

enum { BLOCKS = 20, COUNT = BLOCKS * BARRIER_THREADS };

static const double *values(void)
{
    return (const double *)(const void *)memory.host[1];
}

static const double *results(void)
{
    assert_int_equal(cudaMemcpyAsync(memory.host[0], memory.device[0], COUNT * sizeof(double), cudaMemcpyDeviceToHost,
                                     memory.stream),
                     cudaSuccess);
    assert_int_equal(cudaStreamSynchronize(memory.stream), cudaSuccess);
    return (const double *)(const void *)memory.host[0];
}

static int count_wrong(bool has_barrier)
{
    fill_at_random(1, WEFT_F64);
    assert_int_equal(barrier_reverse(has_barrier, memory.device[0], memory.device[1], BLOCKS, memory.stream), cudaSuccess);
    const double *got = results();
    int wrong = 0;
    for (int i = 0; i < COUNT; i++) {
        int begin = i - i % BARRIER_THREADS;
        wrong += got[i] != values()[begin + BARRIER_THREADS - 1 - i % BARRIER_THREADS];
    }
    return wrong;
}

static void test_barrier(void **state)
{
    (void)state;
    memory.calm = true;
    for (int i = 0; i < 10; i++) {
        assert_int_equal(count_wrong(true), 0);
    }
}

static void test_removed_barrier(void **state)
{
    (void)state;
    memory.calm = true;
    assert_true(count_wrong(false) > BLOCKS);
}

static void test_shuffles(void **state)
{
    (void)state;
    memory.calm = true;
    fill_at_random(1, WEFT_F64);
    assert_int_equal(barrier_sum(memory.device[0], memory.device[1], BLOCKS, memory.stream), cudaSuccess);
    const double *got = results();
    for (int i = 0; i < COUNT; i += 32) {
        double sum = 0;
        for (int lane = 0; lane < 32; lane++) {
            sum += values()[i + lane]; /* multiples of 1 / 512: exact */
        }
        assert_true(got[i] == sum);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_barrier),
        cmocka_unit_test(test_removed_barrier),
        cmocka_unit_test(test_shuffles),
    };
    return cmocka_run_group_tests(tests, set_up_memory, tear_down_memory);
}
