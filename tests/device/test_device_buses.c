/* Starts StarPU on stand-in devices, which measures their buses if it does not know this number of them yet, and keeps the
 * figures: other tests with as many devices find them. */
#include "support.h"

#include <starpu.h>

#include "runtime/runtime.h"

static void test_start(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(weft_init(NULL), WEFT_OK);
        assert_true(weft_runtime.device_bytes > 0);
        unsigned node = starpu_worker_get_memory_node((unsigned)starpu_worker_get_by_type(STARPU_CUDA_WORKER, 0));
        assert_true(starpu_transfer_bandwidth(STARPU_MAIN_RAM, node) > 0 && starpu_transfer_bandwidth(node, STARPU_MAIN_RAM) > 0);
        assert_int_equal(weft_finalize(), WEFT_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_start) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
