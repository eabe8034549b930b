/* Products on the stand-in, whose cuBLAS adds in another order than the CPU's BLAS: equal bits of integers, floating
 * numbers within bounds. Without StarPU. */
#include "codelets/linear.h"
#include "view_cases.h"

#include <stdlib.h>

#include "codelets/cuda/blas_library.h"
#include "codelets/cuda/products.h"

enum { SIZE = 24 };
#define CASES share_of(150)

/* Types of C, and of A and B. */
static const weft_dtype types[][2] = { { WEFT_F64, WEFT_F64 }, { WEFT_F32, WEFT_F32 }, { WEFT_F32, WEFT_BF16 }, { WEFT_F32, WEFT_F16 },
                                       { WEFT_I64, WEFT_I64 }, { WEFT_I32, WEFT_I32 }, { WEFT_U8, WEFT_U8 } };

static int64_t any_size(void)
{
    return below(12) == 0 ? below(2) : 1 + below(SIZE);
}

static bool is_floating(weft_dtype type)
{
    return type <= WEFT_F16;
}

/* What two orders of a sum of k products of numbers up to 4 may differ by; rounded to 16 bits they may be neighbours. */
static double bound(weft_dtype type, int64_t k)
{
    double epsilon = type == WEFT_F64 ? 0x1p-52 : 0x1p-23, unit = type == WEFT_BF16 ? 0x1p-7 : type == WEFT_F16 ? 0x1p-10 : 0;
    return is_floating(type) ? unit + epsilon * 64 * (double)(k + 2) : 0;
}

static void compare_product(const char *name, int number, weft_dtype type, int64_t k)
{
    if (is_floating(type)) {
        compare_near(name, number, type, bound(type, k));
    } else {
        compare(name, number, type, 0);
    }
}

/* ---- one product --------------------------------------------------------------------------------------- */

static weft_gemm_args any_product(int i)
{
    const weft_dtype *type = types[i % 7];
    weft_gemm g = { .dtype = type[0], .transpose_a = below(2), .transpose_b = below(2), .m = any_size(), .n = any_size(), .k = any_size() };
    g.lda = (g.transpose_a ? g.m : g.k) + below(4);
    g.ldb = (g.transpose_b ? g.k : g.n) + below(4);
    g.ldc = g.n + below(4);
    g.lda = g.lda > 0 ? g.lda : 1;
    g.ldb = g.ldb > 0 ? g.ldb : 1;
    g.ldc = g.ldc > 0 ? g.ldc : 1;
    g.alpha = (double)(below(5) - 2);
    g.beta = below(2) == 0 ? 0 : (double)(below(5) - 2);
    weft_gemm_args args = { .base.dtype = type[0], .gemm = g, .input_type = type[1], .adds = below(3) == 0, .scaled = below(4) == 0 };
    if (type[0] != type[1] && below(2) == 0) { /* rounded: into C, which has no other addend then, or after it */
        args.rounds = below(2) == 0;
        args.base.dtype = args.rounds ? type[0] : type[1];
        args.gemm.beta = args.rounds || args.adds ? g.beta : 0;
        args.gemm.ldc = args.rounds && g.n > 0 ? g.n : g.ldc;
    }
    args.addend_row_stride = below(3) == 0 ? 0 : g.n + below(3);
    args.addend_column_stride = below(3) == 0 ? 0 : 1;
    return args;
}

static void run_product(const weft_gemm_args *args)
{
    const weft_gemm *g = &args->gemm;
    memory.calm = true;
    fill_at_random(0, args->base.dtype);
    for (int k = 1; k < 5; k++) {
        fill_at_random(k, args->input_type);
    }
    void *host[5], *device[5];
    int count = 0;
    for (int k = 0; k < 5; k++) {
        bool there = k == 0 || (k == 4 ? args->rounds : k == 3 ? args->adds : g->k > 0);
        size_t shift = (size_t)below(3) * weft_dtype_size(k == 0 ? args->base.dtype : args->input_type);
        host[count] = memory.host[k] + shift;
        device[count] = (char *)memory.device[k] + shift;
        count += there;
    }
    weft_task_run run = { .kernel = WEFT_KERNEL_matmul, .arguments = args, .num_operands = count };
    run.scalars[WEFT_GEMM_ALPHA] = 2;
    run.scalars[WEFT_GEMM_BETA] = (double)below(3);
    run_on_both(&run, host, device);
    compare_product("matmul", 0, args->base.dtype, g->k);
    if (args->rounds) {
        compare_product("matmul, rounded", 4, args->input_type, g->k);
    }
}

static void test_one_product(void **state)
{
    (void)state;
    for (int i = 0; i < 4 * CASES; i++) {
        weft_gemm_args args = any_product(i);
        run_product(&args);
    }
}

/* ---- a row added --------------------------------------------------------------------------------------- */

/* The linker's: what weft calls. */
static const char *withheld; /* a library that is not there */
void *__real_dlopen(const char *file, int flags);
void *__wrap_dlopen(const char *file, int flags);

void *__wrap_dlopen(const char *file, int flags)
{
    return withheld != NULL && strcmp(file, withheld) == 0 ? NULL : __real_dlopen(file, flags);
}

/* A queue of its own: the library is opened with the first product. */
static weft_cuda_queue begin_queue(bool fast)
{
    weft_cuda_queue before = memory.queue;
    memory.queue = (weft_cuda_queue){ .stream = memory.stream, .fast = fast };
    return before;
}

static void end_queue(weft_cuda_queue before)
{
    assert_int_equal(cudaStreamSynchronize(memory.stream), cudaSuccess);
    weft_cuda_queue_free(&memory.queue);
    memory.queue = before;
}

static weft_gemm_args any_product_with_row(int i)
{
    static const weft_dtype of_c[] = { WEFT_F32, WEFT_BF16, WEFT_F16, WEFT_F32, WEFT_F64 };
    static const weft_dtype of_inputs[] = { WEFT_F32, WEFT_BF16, WEFT_F16, WEFT_BF16, WEFT_F64 };
    weft_gemm g = { .dtype = of_c[i % 5] == WEFT_F64 ? WEFT_F64 : WEFT_F32, .transpose_a = below(2), .transpose_b = below(2),
                    .m = 1 + below(SIZE), .n = 1 + below(SIZE), .k = 1 + below(SIZE) };
    g.lda = (g.transpose_a ? g.m : g.k) + below(4);
    g.ldb = (g.transpose_b ? g.k : g.n) + below(4);
    g.ldc = g.n + below(4);
    return (weft_gemm_args){ .base.dtype = of_c[i % 5], .gemm = g, .input_type = of_inputs[i % 5], .adds = true, .scaled = true,
                             .addend_column_stride = 1 };
}

/* `shifted`: an operand that is not at a multiple of 16 bytes; -1: none. Returns the launches. */
static int64_t run_with_row(const weft_gemm_args *args, int shifted, double beta)
{
    memory.calm = true;
    void *host[4], *device[4];
    for (int k = 0; k < 4; k++) {
        weft_dtype type = k == 0 ? args->base.dtype : args->input_type;
        size_t shift = k == shifted ? weft_dtype_size(type) : 0;
        fill_at_random(k, type);
        host[k] = memory.host[k] + shift;
        device[k] = (char *)memory.device[k] + shift;
    }
    weft_task_run run = { .kernel = WEFT_KERNEL_matmul, .arguments = args, .num_operands = 4 };
    run.scalars[WEFT_GEMM_ALPHA] = 2;
    run.scalars[WEFT_GEMM_BETA] = beta;
    int64_t before = launches_so_far();
    run_on_both(&run, host, device);
    compare_product("matmul with a row", 0, args->base.dtype, args->gemm.k);
    return launches_so_far() - before;
}

/* The stand-in has no proposal for results of one column. */
static bool is_one_launch(const weft_gemm_args *args)
{
    return args->gemm.dtype == WEFT_F32 && args->base.dtype == args->input_type && args->gemm.n > 1;
}

static void expect_launches(int64_t launches, int64_t expected)
{
#ifdef WEFT_TEST_GPU
    (void)launches; /* libraries launch as many kernels as they like */
    (void)expected;
#else
    assert_int_equal(launches, expected);
#endif
}

/* How many of these products the library computes at least. */
static int64_t share_by_library(int64_t could)
{
#ifdef WEFT_TEST_GPU
    (void)could;
    return 0; /* a GPU's library need not have kernels for all */
#else
    return could;
#endif
}

/* Fast mode: one launch by cuBLASLt, else the row is copied to all rows of C first. More sizes than a queue keeps plans. */
static void test_rows(void **state)
{
    (void)state;
    weft_cuda_queue before = begin_queue(true);
    int64_t could = 0;
    for (int i = 0; i < 4 * CASES; i++) {
        weft_gemm_args args = any_product_with_row(i);
        expect_launches(run_with_row(&args, -1, 1), is_one_launch(&args) ? 1 : 2);
        if (i % 4 == 0) { /* the plan is there */
            expect_launches(run_with_row(&args, -1, 1), is_one_launch(&args) ? 1 : 2);
        }
        could += is_one_launch(&args);
        if (i % 3 == 0) {
            expect_launches(run_with_row(&args, (int)below(4), 1), 2);
            expect_launches(run_with_row(&args, -1, 0.5), 2);
            args.addend_row_stride = args.gemm.n;
            expect_launches(run_with_row(&args, -1, 1), 2);
        }
    }
    const int64_t runs = weft_cuda_count_rows_added(&memory.queue);
    assert_true(runs > 0 && runs >= share_by_library(could));
    end_queue(before);
}

#ifndef WEFT_TEST_GPU
/* A library that fails is not asked again for such a product, which the other way computes. */
static void test_rows_by_failing_library(void **state)
{
    (void)state;
    weft_cuda_queue before = begin_queue(true);
    weft_gemm_args args = any_product_with_row(0);
    args.gemm.n += 1;
    args.gemm.ldb += 1;
    args.gemm.ldc += 1;
    setenv("STAND_IN_FAILING_LT", "1", 1);
    assert_int_equal(run_with_row(&args, -1, 1), 2);
    unsetenv("STAND_IN_FAILING_LT");
    assert_int_equal(cudaGetLastError(), cudaSuccess);
    assert_int_equal(run_with_row(&args, -1, 1), 2);
    assert_int_equal(weft_cuda_count_rows_added(&memory.queue), 0);
    end_queue(before);
}
#endif

/* As a CPU does it, in its order; and where there is no cuBLASLt. */
static void test_rows_without_library(void **state)
{
    (void)state;
    for (int fast = 0; fast < 2; fast++) {
        weft_cuda_queue before = begin_queue(fast != 0);
        withheld = fast ? WEFT_LT_NAME : NULL;
        for (int i = 0; i < 10; i++) {
            weft_gemm_args args = any_product_with_row(i);
            expect_launches(run_with_row(&args, -1, 1), 2);
        }
        assert_int_equal(weft_cuda_count_rows_added(&memory.queue), 0);
        withheld = NULL;
        end_queue(before);
    }
}

/* ---- many products ------------------------------------------------------------------------------------- */

static void run_products(int i)
{
    view_case c;
    begin_case(&c, WEFT_KERNEL_bmm);
    memory.calm = true;
    int batch_dims = 1 + (int)below(3);
    bool vectors[] = { below(6) == 0, below(6) == 0 };
    int64_t m = vectors[0] ? 1 : 1 + below(9), n = vectors[1] ? 1 : 1 + below(9), k = below(12) == 0 ? 0 : 1 + below(SIZE);
    part output = any_part(batch_dims, batch_dims, 3);
    for (int d = 1; d < batch_dims; d++) {
        output = part_with(output, d, 1 + below(3));
    }
    part batch = output;
    if (!vectors[0]) {
        output.ndim++;
        output = part_with(output, output.ndim - 1, m);
    }
    if (!vectors[1]) {
        output.ndim++;
        output = part_with(output, output.ndim - 1, n);
    }
    int64_t transposes = (vectors[0] ? 0 : below(2)) + (vectors[1] ? 0 : 2 * below(2));
    c.args->numbers[0] = transposes;
    add_output(&c, types[i % 7][0], &output, false);
    for (int side = 0; side < 2; side++) {
        int64_t own = side == 0 ? m : n;
        bool rows_first = (side == 0) == ((transposes >> side & 1) == 0);
        /* At least one side has all of the batch. */
        int dims = side == 0 || vectors[0] ? batch_dims : (int)below(batch_dims + 1);
        part p = any_matrices(&batch, dims, rows_first ? own : k, rows_first ? k : own);
        part vector = { .ndim = 1, .shape = { k }, .extent = { k } };
        add_input(&c, types[i % 7][1], vectors[side] ? &vector : &p, false);
    }
    weft_task_run run = { .kernel = c.kernel, .arguments = c.args, .num_operands = c.num_panels };
    run_on_both(&run, c.host, c.device);
    compare_product("bmm", 0, types[i % 7][0], k);
}

static void test_many_products(void **state)
{
    (void)state;
    for (int i = 0; i < 4 * CASES; i++) {
        run_products(i);
    }
}

/* Products at equal distances are one call of cuBLAS: as many launches as the outputs have panels, at most. */
static void test_runs(void **state)
{
    (void)state;
    view_case c;
    begin_case(&c, WEFT_KERNEL_bmm);
    memory.calm = true;
    part batch = { .ndim = 1, .shape = { 40 }, .extent = { 40 } };
    part output = any_matrices(&batch, 1, 3, 5), a = output, b = { .ndim = 2, .shape = { 5, 5 }, .extent = { 5, 5 } };
    output.shape[0] = output.extent[0] = a.shape[0] = a.extent[0] = 40;
    add_output(&c, WEFT_F32, &output, true);
    add_input(&c, WEFT_F32, &a, true);
    add_input(&c, WEFT_F32, &b, true);
    int64_t launches = launches_so_far();
    run_case_near(&c, bound(WEFT_F32, 5));
#ifndef WEFT_TEST_GPU /* cuBLAS launches as many kernels as it likes */
    assert_int_equal(launches_so_far() - launches, 1);
#else
    (void)launches;
#endif
}

/* ---- precision and errors ------------------------------------------------------------------------------ */

/* 1 + 2^-20 is no number of TF32. */
static void test_single_precision(void **state)
{
    (void)state;
    const float a = 1 + 0x1p-20f, b = 1;
    weft_gemm_args args = { .base.dtype = WEFT_F32, .input_type = WEFT_F32,
                            .gemm = { .dtype = WEFT_F32, .m = 1, .n = 1, .k = 1, .lda = 1, .ldb = 1, .ldc = 1, .alpha = 1 } };
    weft_task_run run = { .kernel = WEFT_KERNEL_matmul, .arguments = &args, .num_operands = 3, .operands = memory.device };
    for (int tf32 = 0; tf32 < 2; tf32++) {
        weft_cuda_queue queue = { .stream = memory.stream, .tf32 = tf32 };
        float result;
        memcpy(memory.host[1], &a, sizeof(a));
        memcpy(memory.host[2], &b, sizeof(b));
        send_again(1);
        send_again(2);
        assert_int_equal(weft_cuda_matmul(&run, &queue), 0);
        assert_int_equal(cudaMemcpyAsync(&result, memory.device[0], sizeof(result), cudaMemcpyDeviceToHost, memory.stream), cudaSuccess);
#ifdef WEFT_TEST_GPU
        assert_true(result == a || (tf32 && result == 1)); /* cuBLAS may, and need not */
#else
        assert_true(result == (tf32 ? 1 : a));
#endif
        weft_cuda_queue_free(&queue);
    }
}

#ifndef WEFT_TEST_GPU
static void test_no_handle(void **state)
{
    (void)state;
    weft_gemm_args args = { .base.dtype = WEFT_F64, .input_type = WEFT_F64,
                            .gemm = { .dtype = WEFT_F64, .m = 1, .n = 1, .k = 1, .lda = 1, .ldb = 1, .ldc = 1, .alpha = 1 } };
    weft_task_run run = { .kernel = WEFT_KERNEL_matmul, .arguments = &args, .num_operands = 3, .operands = memory.device };
    weft_cuda_queue queue = { .stream = memory.stream };
    setenv("STAND_IN_NO_CUBLAS", "1", 1);
    int failed = weft_cuda_matmul(&run, &queue);
    unsetenv("STAND_IN_NO_CUBLAS");
    assert_string_equal(weft_cuda_error_name(failed), "CUBLAS_STATUS_ALLOC_FAILED");
    weft_cuda_queue_free(&queue);
    assert_string_equal(weft_cuda_error_name(cudaErrorIllegalAddress), "cudaErrorIllegalAddress");
    assert_string_equal(weft_cuda_error_name(WEFT_CUDA_CUBLAS + 12345), "an unknown status of cuBLAS");
}
#endif

static void test_no_library(void **state)
{
    (void)state;
    weft_gemm_args args = { .base.dtype = WEFT_F64, .input_type = WEFT_F64,
                            .gemm = { .dtype = WEFT_F64, .m = 1, .n = 1, .k = 1, .lda = 1, .ldb = 1, .ldc = 1, .alpha = 1 } };
    weft_task_run run = { .kernel = WEFT_KERNEL_matmul, .arguments = &args, .num_operands = 3, .operands = memory.device };
    weft_cuda_queue queue = { .stream = memory.stream };
    withheld = WEFT_BLAS_NAME;
    int failed = weft_cuda_matmul(&run, &queue);
    withheld = NULL;
    assert_int_equal(failed, WEFT_CUDA_NO_CUBLAS);
    assert_non_null(strstr(weft_cuda_error_name(failed), WEFT_BLAS_NAME));
    assert_int_equal(weft_cuda_matmul(&run, &queue), 0); /* the next product tries again */
    weft_cuda_queue_free(&queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_product),      cmocka_unit_test(test_rows),          cmocka_unit_test(test_rows_without_library),
        cmocka_unit_test(test_many_products), cmocka_unit_test(test_runs),
        cmocka_unit_test(test_single_precision),
#ifndef WEFT_TEST_GPU
        cmocka_unit_test(test_no_handle),
        cmocka_unit_test(test_rows_by_failing_library),
#endif
        cmocka_unit_test(test_no_library),
    };
    return cmocka_run_group_tests(tests, set_up_memory, tear_down_memory);
}
