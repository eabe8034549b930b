/* The kernels for CUDA, compiled for the stand-in, against those for CPUs: equal bits, for each kernel, type of
 * arithmetic, types of operands and strides. Without StarPU. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <cuda_runtime_api.h>

#include "codelets/cuda/kernels.h"
#include "codelets/elementwise.h"
#include "codelets/half.h"
#include "prng.h"
#include "stand_in.h"

enum { MOST = 1 << 16, OPERANDS = 1 + WEFT_MAX_ELEMENTWISE_INPUTS };

static void *device[OPERANDS];
static unsigned char host[OPERANDS][MOST], got[MOST];
static cudaStream_t stream;

static int set_up(void **state)
{
    (void)state;
    assert_int_equal(cudaSetDevice(1), cudaSuccess);
    assert_int_equal(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    for (int k = 0; k < OPERANDS; k++) {
        assert_int_equal(cudaMalloc(&device[k], MOST), cudaSuccess);
    }
    return 0;
}

/* ---- cases --------------------------------------------------------------------------------------------- */

static prng random_state;

static int64_t below(int64_t n)
{
    return prng_below(&random_state, n);
}

static double any_number(void)
{
    static const double special[] = { 0, -0.0, 1, -1, 0.5, NAN, INFINITY, -INFINITY, 3e38, -1e-40, 1e300, 2147483648.5, -9.3e18 };
    return below(4) == 0 ? special[below((int64_t)(sizeof(special) / sizeof(special[0])))] : (double)below(4001) / 64 - 31;
}

static void fill_at_random(weft_dtype dtype, unsigned char *memory)
{
    size_t size = weft_dtype_size(dtype);
    for (size_t i = 0; i + size <= MOST; i += size) {
        double number = any_number();
        float narrow = (float)number;
        uint64_t bits = below(8) == 0 ? prng_next(&random_state) : (uint64_t)(below(21) - 10);
        uint16_t half = dtype == WEFT_BF16 ? weft_f32_to_bf16(narrow) : weft_f32_to_f16(narrow);
        uint8_t truth = (uint8_t)below(2);
        const void *value = dtype == WEFT_F64    ? (const void *)&number
                            : dtype == WEFT_F32  ? (const void *)&narrow
                            : dtype == WEFT_BOOL ? (const void *)&truth
                            : size == 2          ? (const void *)&half
                                                 : (const void *)&bits; /* little-endian */
        memcpy(memory + i, value, size);
    }
}

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

/* What inputs may have in common; truth values are computed as integers. */
static weft_dtype any_common(weft_dtype arithmetic)
{
    weft_dtype type;
    do {
        type = (weft_dtype)below(WEFT_DTYPE_COUNT);
    } while (weft_arithmetic_type(type) != arithmetic || type == WEFT_BOOL);
    return type;
}

static weft_elementwise_args any_arguments(const weft_kernel_info *info, weft_dtype arithmetic)
{
    weft_elementwise_args args = { .base.dtype = arithmetic, .common = any_common(arithmetic), .ndim = (int)below(5) };
    bool plain = below(3) == 0;
    for (int d = 0; d < args.ndim; d++) {
        args.extent[d] = below(12) == 0 ? below(2) : 1 + below(args.ndim == 1 ? 700 : 7);
    }
    args.types[0] = below(2) == 0 ? (info->truth ? WEFT_BOOL : arithmetic) : (weft_dtype)below(WEFT_DTYPE_COUNT);
    any_strides(&args, false, args.stride[0]);
    for (int k = 1; k <= info->num_inputs; k++) {
        args.types[k] = plain ? arithmetic : (weft_dtype)below(WEFT_DTYPE_COUNT);
        args.converted |= weft_conversion_matters(args.types[k], args.common) ? 1u << k : 0;
        any_strides(&args, true, args.stride[k]);
    }
    return args;
}

/* ---- comparison ---------------------------------------------------------------------------------------- */

static bool is_nan(weft_dtype dtype, const unsigned char *at)
{
    double f64;
    float f32;
    uint16_t half;
    switch (dtype) {
    case WEFT_F64:
        memcpy(&f64, at, sizeof(f64));
        return f64 != f64;
    case WEFT_F32:
        memcpy(&f32, at, sizeof(f32));
        return f32 != f32;
    case WEFT_BF16:
    case WEFT_F16:
        memcpy(&half, at, sizeof(half));
        f32 = dtype == WEFT_BF16 ? weft_bf16_to_f32(half) : weft_f16_to_f32(half);
        return f32 != f32;
    default:
        return false;
    }
}

/* All of the memory, so that a write beside the box is seen too. Which NaN it is does not matter. */
static void compare(const weft_kernel_info *info, weft_dtype dtype, size_t shift)
{
    size_t size = weft_dtype_size(dtype);
    for (size_t i = shift * size; i + size <= MOST; i += size) {
        if (memcmp(host[0] + i, got + i, size) != 0 && !(is_nan(dtype, host[0] + i) && is_nan(dtype, got + i))) {
            fail_msg("%s: element %zu of type %s differs", info->name, i / size, weft_dtype_name(dtype));
        }
    }
}

static void run_case(weft_kernel_id kernel, weft_dtype arithmetic)
{
    const weft_kernel_info *info = &weft_kernel_infos[kernel];
    weft_elementwise_args args = any_arguments(info, arithmetic);
    int count = 1 + info->num_inputs;
    bool in_place = below(4) == 0;
    if (in_place) {
        args.types[1] = args.types[0];
        memcpy(args.stride[1], args.stride[0], sizeof(args.stride[0]));
        args.converted = (args.converted & ~2u) | (weft_conversion_matters(args.types[1], args.common) ? 2u : 0);
    }
    size_t shift = (size_t)below(3); /* operands begin anywhere */
    void *on_host[OPERANDS], *on_device[OPERANDS];
    for (int k = 0; k < count; k++) {
        int memory = in_place && k == 1 ? 0 : k;
        size_t offset = shift * weft_dtype_size(args.types[k]);
        if (memory == k) {
            fill_at_random(args.types[k], host[k]);
            assert_int_equal(cudaMemcpyAsync(device[k], host[k], MOST, cudaMemcpyHostToDevice, stream), cudaSuccess);
        }
        on_host[k] = host[memory] + offset;
        on_device[k] = (char *)device[memory] + offset;
    }
    weft_kernel_error error = { .status = WEFT_OK };
    weft_task_run run = { .kernel = kernel, .cpu = &weft_cpu_kernels[kernel], .arguments = &args, .function = "test",
                          .error = &error, .num_operands = count, .operands = on_device };
    for (int i = 0; i < WEFT_MAX_SCALARS; i++) {
        run.scalars[i] = any_number();
    }
    assert_int_equal(weft_cuda_kernels[kernel](&run, stream), cudaSuccess);
    assert_int_equal(cudaMemcpyAsync(got, device[0], MOST, cudaMemcpyDeviceToHost, stream), cudaSuccess);
    assert_int_equal(cudaStreamSynchronize(stream), cudaSuccess);
    run.operands = on_host;
    weft_cpu_elementwise(&run);
    compare(info, args.types[0], shift);
}

static void test_elementwise(void **state)
{
    (void)state;
    enum { CASES = 6 };
    random_state = prng_start(20);
    int64_t launches = stand_in_device_counts(1).launches, cases = 0;
    for (weft_kernel_id kernel = WEFT_KERNEL_ELEMENTWISE; kernel < WEFT_KERNEL_COUNT; kernel++) {
        static const weft_dtype arithmetics[] = { WEFT_F64, WEFT_F32, WEFT_I64 };
        for (int t = 0; t < (weft_kernel_infos[kernel].integers ? 3 : 2); t++) {
            for (int i = 0; i < CASES; i++, cases++) {
                run_case(kernel, arithmetics[t]);
            }
        }
    }
    /* Boxes without elements are not launched. */
    launches = stand_in_device_counts(1).launches - launches;
    assert_true(launches > cases / 2 && launches <= cases);
    assert_int_equal(stand_in_device_counts(0).launches, 0);
}

/* ---- the stand-in itself ------------------------------------------------------------------------------- */

static void test_wrong_pointers(void **state)
{
    (void)state;
    static char here[64];
    assert_int_equal(cudaMemcpy(here, here, 8, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    assert_int_equal(cudaMemcpy(device[0], device[1], 8, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    assert_int_equal(cudaMemcpy((char *)device[0] + MOST - 4, here, 8, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    assert_int_equal(cudaFree(here), cudaErrorInvalidValue);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidValue);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
}

static void test_wrong_stream(void **state)
{
    (void)state;
    weft_elementwise_args args = { .base.dtype = WEFT_F64, .common = WEFT_F64, .types = { WEFT_F64, WEFT_F64, WEFT_F64 } };
    weft_task_run run = { .kernel = WEFT_KERNEL_add, .arguments = &args, .num_operands = 3, .operands = device };
    assert_int_equal(cudaSetDevice(0), cudaSuccess); /* the stream is device 1's */
    assert_int_equal(weft_cuda_kernels[WEFT_KERNEL_add](&run, stream), cudaErrorInvalidResourceHandle);
    assert_int_equal(cudaSetDevice(1), cudaSuccess);
}

/* Last: the device is lost afterwards. */
static void test_kernel_with_host_pointer(void **state)
{
    (void)state;
    weft_elementwise_args args = { .base.dtype = WEFT_F64, .common = WEFT_F64, .types = { WEFT_F64, WEFT_F64, WEFT_F64 } };
    void *made_later;
    assert_int_equal(cudaHostAlloc(&made_later, 64 << 20, 0), cudaSuccess);
    void *operands[] = { device[0], made_later, device[2] };
    weft_task_run run = { .kernel = WEFT_KERNEL_add, .arguments = &args, .num_operands = 3, .operands = operands };
    assert_int_equal(weft_cuda_kernels[WEFT_KERNEL_add](&run, stream), cudaSuccess);
    assert_int_equal(cudaStreamSynchronize(stream), cudaErrorIllegalAddress);
    assert_int_equal(cudaMemset(device[0], 0, 8), cudaErrorIllegalAddress);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elementwise),
        cmocka_unit_test(test_wrong_pointers),
        cmocka_unit_test(test_wrong_stream),
        cmocka_unit_test(test_kernel_with_host_pointer),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
