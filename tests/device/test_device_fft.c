/* Fourier transforms by cuFFT's stand-in, beside the CPU's kernel: within the bounds of both, of all kinds, cut and filled up, weighted,
 * along any dimension, in panels; with little scratch memory, and with work areas that the queue's does not hold. Without StarPU. */
#include "codelets/cuda/fourier.h"
#include "codelets/cuda/products.h"
#include "codelets/fft.h"
#include "view_cases.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CASES share_of(80)

static weft_dtype part_of(weft_dtype type)
{
    return type == WEFT_C64 || type == WEFT_F32 ? WEFT_F32 : WEFT_F64;
}

/* With small numbers. */
static void fill(int k, weft_dtype type)
{
    memory.calm = true;
    fill_at_random(k, type);
}

/* How far results may be off, relative to the largest one: the norm of the error is bounded, in units of each part's last bit. */
static double share_for(weft_dtype type, int64_t n)
{
    const double epsilon = part_of(type) == WEFT_F32 ? 0x1p-24 : 0x1p-53;
    return 80 * epsilon * (log2((double)n) + 1) * sqrt((double)n);
}

static void run_transform(bool columns, int64_t n)
{
    view_case c;
    begin_case(&c, WEFT_KERNEL_fft);
    part of = any_part(columns ? 2 : 1, 4, 4);
    const int dim = columns ? (int)below(of.ndim - 1) : of.ndim - 1;
    const weft_fft_kind kind = (weft_fft_kind)below(4);
    const bool real = kind == WEFT_FFT_REAL_KIND, half = kind == WEFT_FFT_HALF_KIND, single = below(2) == 0;
    const weft_dtype complex = single ? WEFT_C64 : WEFT_C128, numbers = single ? WEFT_F32 : WEFT_F64;
    const int64_t given = below(3) > 0 ? (half ? n / 2 + 1 : n) : 1 + below(2 * n);
    c.args->numbers[WEFT_FFT_DIM] = dim;
    c.args->numbers[WEFT_FFT_KIND] = kind;
    c.args->numbers[WEFT_FFT_SIZE] = n;
    c.args->numbers[WEFT_FFT_WEIGHTED] = (real || half) && below(2) == 0;
    c.args->numbers[WEFT_FFT_LINE] = 0;
    c.args->numbers[WEFT_FFT_STEP] = 0;
    c.scalars[WEFT_FFT_SCALE] = below(2) == 0 ? 1 : 1 / (double)n;
    const part out = part_with(of, dim, real ? n / 2 + 1 : n), in = part_with(of, dim, given);
    const bool whole = below(2) == 0;
    const weft_dtype result = half ? numbers : complex, values = real || (!half && below(4) == 0) ? numbers : complex;
    add_output(&c, result, &out, whole);
    fill(0, result);
    add_input(&c, values, &in, whole);
    fill(1, values);
    weft_task_run run = { .kernel = c.kernel, .arguments = c.args, .num_operands = c.num_panels };
    assert_true(weft_fourier_serves(&run));
    run_call(&c);
    compare_near("fft", 0, numbers, share_for(result, n));
}

static void test_sizes(void **state)
{
    (void)state;
    static const int64_t sizes[] = { 1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 31 };
    assert_true(weft_fourier_is_there());
    for (int i = 0; i < 4 * CASES; i++) {
        run_transform(i % 2 == 0, sizes[below(sizeof(sizes) / sizeof(sizes[0]))]);
    }
    assert_true(weft_fourier_count_plans(&memory.queue) > 0);
}

/* A plan is made once for lines of a kind. */
static void test_plans_are_kept(void **state)
{
    (void)state;
    view_case c;
    part of = { .ndim = 2, .shape = { 3, 8 }, .extent = { 3, 8 } };
    int64_t before = 0;
    for (int i = 0; i < 3; i++) {
        begin_case(&c, WEFT_KERNEL_fft);
        memset(c.args->numbers, 0, sizeof(c.args->numbers));
        c.args->numbers[WEFT_FFT_DIM] = 1;
        c.args->numbers[WEFT_FFT_SIZE] = 8;
        c.scalars[WEFT_FFT_SCALE] = 1;
        add_output(&c, WEFT_C128, &of, true);
        fill(0, WEFT_C128);
        add_input(&c, WEFT_C128, &of, true);
        fill(1, WEFT_C128);
        run_call(&c);
        compare_near("fft", 0, WEFT_F64, share_for(WEFT_C128, 8));
        const int64_t made = weft_fourier_count_plans(&memory.queue);
        assert_true(i == 0 || made == before);
        before = made;
    }
    c.args->numbers[WEFT_FFT_KIND] = WEFT_FFT_COSINE_KIND;
    weft_task_run run = { .kernel = c.kernel, .arguments = c.args, .num_operands = c.num_panels };
    assert_false(weft_fourier_serves(&run));
    c.args->numbers[WEFT_FFT_KIND] = WEFT_FFT_FORWARD_KIND;
    c.args->numbers[WEFT_FFT_LINE] = 64;
    assert_false(weft_fourier_serves(&run));
}

#ifndef WEFT_TEST_GPU
/* Work areas larger than the queue's workspace, in memory that grows. */
static void test_large_work_areas(void **state)
{
    (void)state;
    weft_fourier_free(&memory.queue);
    for (int i = 0; i < 3; i++) {
        char bytes[32];
        void *scratch;
        size_t size;
        assert_int_equal(weft_cuda_scratch(&memory.queue, &scratch, &size), 0);
        snprintf(bytes, sizeof(bytes), "%zu", size << i);
        setenv("STAND_IN_FFT_BYTES", bytes, 1);
        run_transform(i % 2 == 0, 9 + i);
    }
    unsetenv("STAND_IN_FFT_BYTES");
    weft_fourier_free(&memory.queue);
}

/* Scratch memory for a line or two, and for none. */
static void test_little_scratch(void **state)
{
    (void)state;
    const size_t bytes = memory.queue.workspace_bytes;
    for (int i = 0; i < CASES; i++) {
        memory.queue.workspace_bytes = i % 2 == 0 ? 1024 : 512;
        run_transform(below(2) == 0, 16 + below(10));
        memory.queue.workspace_bytes = bytes;
    }
    weft_fourier_free(&memory.queue);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_plans_are_kept),
#ifndef WEFT_TEST_GPU
        cmocka_unit_test(test_large_work_areas),
        cmocka_unit_test(test_little_scratch),
#endif
    };
    return cmocka_run_group_tests(tests, set_up_memory, tear_down_memory);
}
