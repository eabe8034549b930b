/* Kernels on views on the stand-in against those for CPUs: equal bits for all types, parts and panels. Without StarPU. */
#include "codelets/optimizers.h"
#include "codelets/random.h"
#include "view_cases.h"

#define CASES share_of(60)

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
        part of = any_part(0, 4, below(3) == 0 ? 6 : 3);
        int dim = of.ndim == 0 ? 0 : (int)below(of.ndim);
        of = of.ndim == 0 ? of : part_with(of, dim, 1 + below(below(4) == 0 ? 150 : 20));
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

/* More panels than fit into a launch's argument: their table is copied on the stream, many calls at once. */
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

/* Probabilities, some of them wrong. */
static void fill_with_chances(int k, weft_dtype type, bool wrong)
{
    memory.calm = true;
    fill_at_random(k, type);
    for (size_t i = 0; i < MEMORY_BYTES / sizeof(double) && type == WEFT_F64; i++) {
        double p = wrong && below(40) == 0 ? any_number() : (double)below(257) / 256;
        memcpy(memory.host[k] + i * sizeof(p), &p, sizeof(p));
    }
    for (size_t i = 0; i < MEMORY_BYTES / sizeof(float) && type == WEFT_F32; i++) {
        float p = wrong && below(40) == 0 ? (float)any_number() : (float)below(257) / 256;
        memcpy(memory.host[k] + i * sizeof(p), &p, sizeof(p));
    }
    send_again(k);
}

static void test_random(void **state)
{
    (void)state;
    static const weft_kernel_id kernels[] = { WEFT_KERNEL_uniform, WEFT_KERNEL_normal, WEFT_KERNEL_randint, WEFT_KERNEL_randperm,
                                              WEFT_KERNEL_bernoulli_scalar, WEFT_KERNEL_bernoulli };
    static const weft_dtype whole[] = { WEFT_I64, WEFT_I32, WEFT_U8, WEFT_BOOL };
    int invalid = 0;
    for (int i = 0; i < 6 * CASES; i++) {
        view_case c;
        begin_case(&c, kernels[i % 6]);
        part of = any_part(0, 4, 5);
        for (int s = 0; s < 4; s++) {
            c.scalars[s] = (double)(uint32_t)prng_next(&memory.random);
        }
        double *own = c.scalars + WEFT_RANDOM_OWN;
        own[0] = (double)below(1000) / 1000;
        switch (c.kernel) {
        case WEFT_KERNEL_uniform:
        case WEFT_KERNEL_normal:
            own[1] = below(4) == 0 ? own[0] : own[0] + (double)below(100);
            add_output(&c, any_float(), &of, false);
            break;
        case WEFT_KERNEL_randint:
            weft_random_pack(own, prng_next(&memory.random));
            weft_random_pack(own + 2, below(3) == 0 ? prng_next(&memory.random) : (uint64_t)below(1000));
            add_output(&c, whole[below(4)], &of, false);
            break;
        case WEFT_KERNEL_randperm:
            of = any_part(1, 1, 700);
            add_output(&c, WEFT_I64, &of, false);
            break;
        case WEFT_KERNEL_bernoulli_scalar:
            add_output(&c, (weft_dtype)below(REAL_TYPES), &of, false);
            break;
        default:
            add_output(&c, (weft_dtype)below(REAL_TYPES), &of, false);
            fill_with_chances(add_input(&c, below(2) == 0 ? WEFT_F64 : WEFT_F32, &of, false),
                              c.args->operands[1].dtype, below(3) == 0);
            break;
        }
        run_case(&c);
        invalid += memory.queue.pending != NULL && memory.queue.pending->error.status != WEFT_OK;
    }
    assert_true(invalid > 0);
}

static void test_optimizers(void **state)
{
    (void)state;
    for (int i = 0; i < 4 * CASES; i++) {
        bool adam = i % 2 == 0, equal = below(2) == 0, whole = below(2) == 0;
        view_case c;
        begin_case(&c, adam ? WEFT_KERNEL_adam : WEFT_KERNEL_sgd_momentum);
        part of = any_part(0, 4, 6);
        weft_dtype type = any_float();
        for (int o = 0; o < (adam ? 3 : 2); o++) {
            add_output(&c, equal ? type : any_float(), &of, whole);
        }
        add_input(&c, equal ? type : any_float(), &of, whole);
        c.scalars[adam ? (int)WEFT_ADAM_DECAY : (int)WEFT_SGD_DECAY] *= (double)below(2);
        c.args->numbers[0] = below(2);
        run_case(&c);
    }
}

static void test_rows_of_optimizers(void **state)
{
    (void)state;
    static const int states[] = {
#define WEFT_OPTIMIZER(name, states, ...) states,
#include "codelets/optimizers.inc"
#undef WEFT_OPTIMIZER
    };
    for (int i = 0; i < CASES * WEFT_NUM_OPTIMIZER_ROWS; i++) {
        const int row = i % WEFT_NUM_OPTIMIZER_ROWS;
        bool equal = below(2) == 0, whole = below(2) == 0;
        view_case c;
        begin_case(&c, WEFT_KERNEL_optimizer);
        part of = any_part(0, 4, 6);
        weft_dtype type = any_float();
        for (int o = 0; o <= states[row]; o++) {
            add_output(&c, equal ? type : any_float(), &of, whole);
        }
        add_input(&c, equal ? type : any_float(), &of, whole);
        c.scalars[WEFT_ROW_DECAY] *= (double)below(2);
        c.args->numbers[0] = row;
        c.args->numbers[1] = below(2);
        run_case(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_softmax),
        cmocka_unit_test(test_sums_of_lines),
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_optimizers),
        cmocka_unit_test(test_rows_of_optimizers),
    };
    return cmocka_run_group_tests(tests, set_up_memory, tear_down_memory);
}
