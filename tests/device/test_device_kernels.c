/* The kernels for CUDA, compiled for the stand-in, against those for CPUs: equal bits, for each kernel, type of
 * arithmetic, types of operands and strides. Without StarPU. */
#include "codelets/elementwise.h"
#include "device_support.h"

enum { OPERANDS = 1 + WEFT_MAX_ELEMENTWISE_INPUTS };

/* ---- cases --------------------------------------------------------------------------------------------- */

/* Strides of a box whose dimensions lie in any order, with gaps, and where an input is repeated 0. */
static void any_strides(const weft_elementwise_args *args, bool repeats, int64_t stride[])
{
    bool used[WEFT_MAX_DIMS] = { false };
    int64_t step = 1 + (below(4) == 0);
    bool sorted = below(2) == 0;
    for (int i = 0; i < args->ndim; i++) {
        int d = args->ndim - 1 - i;
        while (!sorted && used[d = (int)below(args->ndim)]) {
        }
        used[d] = true;
        bool repeated = repeats && below(4) == 0;
        stride[d] = repeated ? 0 : step;
        step *= repeated || args->extent[d] == 0 ? 1 : args->extent[d];
        step += below(5) == 0;
    }
}

/* A type that inputs may have in common. */
static weft_dtype any_common(weft_dtype arithmetic)
{
    weft_dtype type;
    do {
        type = (weft_dtype)below(REAL_TYPES);
    } while (weft_arithmetic_type(type) != arithmetic);
    return type;
}

static weft_elementwise_args any_arguments(const weft_kernel_info *info, weft_dtype arithmetic)
{
    weft_elementwise_args args = { .base.dtype = arithmetic, .common = any_common(arithmetic), .ndim = (int)below(5) };
    bool plain = below(3) == 0;
    for (int d = 0; d < args.ndim; d++) {
        args.extent[d] = below(12) == 0 ? below(2) : 1 + below(args.ndim == 1 ? 700 : 7);
    }
    args.types[0] = below(2) == 0 ? (info->truth ? WEFT_BOOL : arithmetic) : (weft_dtype)below(REAL_TYPES);
    any_strides(&args, false, args.stride[0]);
    for (int k = 1; k <= info->num_inputs; k++) {
        args.types[k] = plain ? arithmetic : (weft_dtype)below(REAL_TYPES);
        args.converted |= weft_conversion_matters(args.types[k], args.common) ? 1u << k : 0;
        any_strides(&args, true, args.stride[k]);
    }
    return args;
}

/* shift[k]: elements before operand k in its memory. */
static void run_case(weft_kernel_id kernel, const weft_elementwise_args *args, bool in_place, const int64_t shift[])
{
    const weft_kernel_info *info = &weft_kernel_infos[kernel];
    int count = 1 + info->num_inputs;
    void *on_host[OPERANDS], *on_device[OPERANDS];
    for (int k = 0; k < count; k++) {
        int number = in_place && k == 1 ? 0 : k;
        size_t offset = (size_t)shift[number] * weft_dtype_size(args->types[k]);
        if (number == k) {
            fill_at_random(k, args->types[k]);
        }
        on_host[k] = memory.host[number] + offset;
        on_device[k] = (char *)memory.device[number] + offset;
    }
    weft_task_run run = { .kernel = kernel, .arguments = args, .num_operands = count };
    for (int i = 0; i < WEFT_MAX_SCALARS; i++) {
        run.scalars[i] = any_number();
    }
    run_on_both(&run, on_host, on_device);
    memory.arithmetic = args->base.dtype;
    compare(info->name, 0, args->types[0], 0);
}

/* Input 0 is the output's memory. */
static void put_in_place(weft_elementwise_args *args)
{
    args->types[1] = args->types[0];
    memcpy(args->stride[1], args->stride[0], sizeof(args->stride[0]));
    args->converted = (args->converted & ~2u) | (weft_conversion_matters(args->types[1], args->common) ? 2u : 0);
}

static void any_case(weft_kernel_id kernel, weft_dtype arithmetic)
{
    weft_elementwise_args args = any_arguments(&weft_kernel_infos[kernel], arithmetic);
    bool in_place = below(4) == 0;
    if (in_place) {
        put_in_place(&args);
    }
    int64_t same = below(3), shift[OPERANDS] = { same, same, same, same };
    run_case(kernel, &args, in_place, shift);
}

/* ---- vectors ------------------------------------------------------------------------------------------- */

/* Contiguous rows, or rows with gaps after which they are aligned or not; an input may be one row, a value for each row, or
 * one value. */
static void dense_strides(const weft_elementwise_args *args, bool repeats, int64_t stride[])
{
    enum { ROWS = 4, ONE_ROW = ROWS, ONE_OF_EACH, ONE }; /* forms below ROWS are alike */
    static const int64_t gaps[] = { 0, 0, 0, 1, 3, 4, 16 };
    int64_t form = below(repeats ? ONE + 1 : ROWS), length = 1;
    const int last = args->ndim - 1;
    for (int d = last; d >= 0; d--) {
        bool repeated = form == ONE || (form == ONE_ROW && d < last) || (form == ONE_OF_EACH && d == last);
        stride[d] = repeated ? 0 : length;
        length *= repeated ? 1 : args->extent[d];
        length += d == last && form < ROWS ? gaps[below(7)] : 0;
    }
}

/* What vectors of 16 bytes are for: rows whose elements follow each other, of any lengths, at addresses of any alignment. */
static void dense_case(weft_kernel_id kernel, weft_dtype arithmetic)
{
    const weft_kernel_info *info = &weft_kernel_infos[kernel];
    weft_elementwise_args args = { .base.dtype = arithmetic, .common = any_common(arithmetic), .ndim = 1 + (int)below(3) };
    for (int d = 0; d < args.ndim; d++) {
        args.extent[d] = 1 + below(d < args.ndim - 1 ? 5 : args.ndim == 1 ? 900 : 70);
    }
    const bool aligned = below(2) == 0, in_place = below(4) == 0, plain = below(3) > 0;
    args.extent[args.ndim - 1] = aligned ? (args.extent[args.ndim - 1] + 15) / 16 * 16 : args.extent[args.ndim - 1];
    const weft_dtype type = any_common(arithmetic);
    int64_t shift[OPERANDS];
    for (int k = 0; k <= info->num_inputs; k++) {
        args.types[k] = !plain ? (weft_dtype)below(REAL_TYPES) : k == 0 && info->truth ? WEFT_BOOL : type;
        args.converted |= k > 0 && weft_conversion_matters(args.types[k], args.common) ? 1u << k : 0;
        dense_strides(&args, k > 0, args.stride[k]);
        shift[k] = aligned ? 16 * below(4) : below(17);
    }
    if (in_place) {
        put_in_place(&args);
    }
    run_case(kernel, &args, in_place, shift);
}

/* All elementwise kernels, `cases` times each. */
static int64_t for_each_kernel(void (*run)(weft_kernel_id kernel, weft_dtype arithmetic), int cases)
{
    static const weft_dtype arithmetics[] = { WEFT_F64, WEFT_F32, WEFT_I64 };
    int64_t done = 0;
    for (weft_kernel_id kernel = WEFT_KERNEL_ELEMENTWISE; kernel < WEFT_KERNEL_COUNT; kernel++) {
        for (int t = weft_kernel_infos[kernel].floats ? 0 : 2; t < (weft_kernel_infos[kernel].integers ? 3 : 2); t++) {
            for (int i = 0; i < cases; i++, done++) {
                run(kernel, arithmetics[t]);
            }
        }
    }
    return done;
}

static void test_elementwise(void **state)
{
    (void)state;
    int64_t launches = launches_so_far(), cases = for_each_kernel(any_case, share_of(6));
    /* Boxes without elements are not launched. */
    launches = launches_so_far() - launches;
    assert_true(launches > cases / 2 && launches <= cases);
#ifndef WEFT_TEST_GPU
    assert_int_equal(stand_in_device_counts(0).launches, 0);
#endif
}

static void test_vectors(void **state)
{
    (void)state;
    int64_t launches = launches_so_far(), cases = for_each_kernel(dense_case, share_of(8));
    assert_int_equal(launches_so_far() - launches, cases);
}

#ifndef WEFT_TEST_GPU
/* ---- the stand-in itself ------------------------------------------------------------------------------- */

static void test_wrong_pointers(void **state)
{
    (void)state;
    static char here[64];
    assert_int_equal(cudaMemcpy(here, here, 8, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    assert_int_equal(cudaMemcpy(memory.device[0], memory.device[1], 8, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    assert_int_equal(cudaMemcpy((char *)memory.device[0] + MEMORY_BYTES - 4, here, 8, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    assert_int_equal(cudaFree(here), cudaErrorInvalidValue);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidValue);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
}

static void test_wrong_stream(void **state)
{
    (void)state;
    weft_elementwise_args args = { .base.dtype = WEFT_F64, .common = WEFT_F64, .types = { WEFT_F64, WEFT_F64, WEFT_F64 } };
    weft_task_run run = { .kernel = WEFT_KERNEL_add, .arguments = &args, .num_operands = 3, .operands = memory.device };
    assert_int_equal(cudaSetDevice(0), cudaSuccess); /* the stream is device 1's */
    assert_int_equal(weft_cuda_kernels[WEFT_KERNEL_add](&run, &memory.queue), cudaErrorInvalidResourceHandle);
    assert_int_equal(cudaSetDevice(1), cudaSuccess);
}

/* Last: the device is lost afterwards. */
static void test_kernel_with_host_pointer(void **state)
{
    (void)state;
    weft_elementwise_args args = { .base.dtype = WEFT_F64, .common = WEFT_F64, .types = { WEFT_F64, WEFT_F64, WEFT_F64 } };
    void *made_later;
    assert_int_equal(cudaHostAlloc(&made_later, 64 << 20, 0), cudaSuccess);
    void *operands[] = { memory.device[0], made_later, memory.device[2] };
    weft_task_run run = { .kernel = WEFT_KERNEL_add, .arguments = &args, .num_operands = 3, .operands = operands };
    assert_int_equal(weft_cuda_kernels[WEFT_KERNEL_add](&run, &memory.queue), cudaSuccess);
    assert_int_equal(cudaStreamSynchronize(memory.stream), cudaErrorIllegalAddress);
    assert_int_equal(cudaMemset(memory.device[0], 0, 8), cudaErrorIllegalAddress);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elementwise),
        cmocka_unit_test(test_vectors),
#ifndef WEFT_TEST_GPU
        cmocka_unit_test(test_wrong_pointers),
        cmocka_unit_test(test_wrong_stream),
        cmocka_unit_test(test_kernel_with_host_pointer),
#endif
    };
#ifdef WEFT_TEST_GPU
    return cmocka_run_group_tests(tests, set_up_memory, tear_down_memory);
#else
    return cmocka_run_group_tests(tests, set_up_memory, NULL); /* the device is lost */
#endif
}
