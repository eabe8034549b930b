/* Kernels on views on the stand-in against those for CPUs: equal bits for all types, parts and panels. Without StarPU. */
#include "view_cases.h"

enum { CASES = 60 };

static weft_dtype any_float(void)
{
    return (weft_dtype)below(WEFT_F16 + 1);
}

static void test_softmax(void **state)
{
    (void)state;
    for (int i = 0; i < 4 * CASES; i++) {
        view_case c;
        begin_case(&c, (weft_kernel_id)(WEFT_KERNEL_softmax + i % 4));
        part of = any_part(1, 4, below(3) == 0 ? 6 : 3);
        int dim = (int)below(of.ndim);
        of = part_with(of, dim, 1 + below(below(4) == 0 ? 150 : 20));
        c.args->numbers[0] = dim;
        weft_dtype type = any_float();
        add_output(&c, type, &of, false);
        add_input(&c, type, &of, false);
        if (c.kernel == WEFT_KERNEL_softmax_backward || c.kernel == WEFT_KERNEL_log_softmax_backward) {
            add_input(&c, type, &of, false);
        }
        run_case(&c);
    }
}

static void test_sums_of_lines(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * CASES; i++) {
        view_case c;
        begin_case(&c, i % 2 == 0 ? WEFT_KERNEL_sum_exp : WEFT_KERNEL_sum_product);
        part of = any_part(1, 4, 4);
        int dim = (int)below(of.ndim);
        of.extent[dim] = below(8) == 0 ? 0 : below(below(8) == 0 ? 600 : 40);
        of.shape[dim] = of.offset[dim] + of.extent[dim];
        part result = part_with(of, dim, 1);
        c.args->numbers[0] = dim;
        add_output(&c, WEFT_F64, &result, false);
        add_input(&c, any_float(), &of, false);
        if (i % 2 == 0) {
            add_input(&c, WEFT_F64, &result, false);
        } else if (below(2) == 0) {
            add_input(&c, any_float(), &of, false);
        }
        run_case(&c);
    }
}

/* More panels than fit into a launch's argument: their table is copied behind the stream, many calls at once. */
static void test_tables(void **state)
{
    (void)state;
    for (int i = 0; i < CASES; i++) {
        view_case c;
        begin_case(&c, WEFT_KERNEL_softmax);
        part of = { .ndim = 2, .shape = { 200, 3 }, .extent = { 200, 3 } };
        c.args->numbers[0] = 1;
        c.panel_rows = 1 + below(3);
        add_output(&c, WEFT_F32, &of, true);
        add_input(&c, WEFT_F32, &of, false);
        assert_true(c.num_panels > WEFT_DEVICE_PANELS);
        run_case(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_softmax),
        cmocka_unit_test(test_sums_of_lines),
        cmocka_unit_test(test_tables),
    };
    return cmocka_run_group_tests(tests, set_up_memory, tear_down_memory);
}
