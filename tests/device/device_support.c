#include "device_support.h"

#include <float.h>

#include "codelets/half.h"
#include "codelets/same_bits.h"

test_memory memory;

/* ---- the device ---------------------------------------------------------------------------------------- */

#ifdef WEFT_TEST_GPU
static int64_t launches;

/* Functions that nvcc's code calls to launch a kernel, by the linker's --wrap: since CUDA 13 the second one. */
cudaError_t __real_cudaLaunchKernel(const void *kernel, dim3 blocks, dim3 threads, void **arguments, size_t bytes, cudaStream_t stream);
cudaError_t __wrap_cudaLaunchKernel(const void *kernel, dim3 blocks, dim3 threads, void **arguments, size_t bytes, cudaStream_t stream);
#if CUDART_VERSION >= 13000
cudaError_t __real___cudaLaunchKernel(cudaKernel_t kernel, dim3 blocks, dim3 threads, void **arguments, size_t bytes, cudaStream_t stream);
cudaError_t __wrap___cudaLaunchKernel(cudaKernel_t kernel, dim3 blocks, dim3 threads, void **arguments, size_t bytes, cudaStream_t stream);

cudaError_t __wrap_cudaLaunchKernel(const void *kernel, dim3 blocks, dim3 threads, void **arguments, size_t bytes, cudaStream_t stream)
{
    launches++;
    return __real_cudaLaunchKernel(kernel, blocks, threads, arguments, bytes, stream);
}

cudaError_t __wrap___cudaLaunchKernel(cudaKernel_t kernel, dim3 blocks, dim3 threads, void **arguments, size_t bytes, cudaStream_t stream)
{
    launches++;
    return __real___cudaLaunchKernel(kernel, blocks, threads, arguments, bytes, stream);
}
#endif

int64_t launches_so_far(void)
{
    return launches;
}

/* Also those that may run on devices alone, as the planner of tasks knows nothing of the order of sums: additions in the CPU's order,
 * of weft's own exponentials at most. */
bool runs_exactly(weft_kernel_id kernel)
{
    static const weft_kernel_id in_order[] = {
        WEFT_KERNEL_sum, WEFT_KERNEL_prod, WEFT_KERNEL_sum_abs, WEFT_KERNEL_sum_square, WEFT_KERNEL_sum_square_difference,
        WEFT_KERNEL_sum_square_scaled,
        WEFT_KERNEL_softmax, WEFT_KERNEL_softmax_backward, WEFT_KERNEL_log_softmax_backward, WEFT_KERNEL_sum_exp, WEFT_KERNEL_sum_product,
        WEFT_KERNEL_norm, WEFT_KERNEL_norm_backward, WEFT_KERNEL_norm_sums, WEFT_KERNEL_norm_gain_backward, WEFT_KERNEL_cumsum,
        WEFT_KERNEL_cumprod, WEFT_KERNEL_embedding_backward, WEFT_KERNEL_pick, WEFT_KERNEL_count_targets, WEFT_KERNEL_sum_square_distance,
    };
    bool listed = weft_kernel_has_same_bits(&weft_kernel_infos[kernel]);
    for (size_t i = 0; i < sizeof(in_order) / sizeof(in_order[0]); i++) {
        listed = listed || kernel == in_order[i];
    }
    return listed;
}
#else
int64_t launches_so_far(void)
{
    return stand_in_device_counts(TEST_DEVICE).launches;
}

bool runs_exactly(weft_kernel_id kernel)
{
    (void)kernel;
    return true;
}
#endif

int set_up_memory(void **state)
{
    (void)state;
    memory.random = prng_start(20);
    assert_int_equal(cudaSetDevice(TEST_DEVICE), cudaSuccess);
    assert_int_equal(cudaStreamCreateWithFlags(&memory.stream, cudaStreamNonBlocking), cudaSuccess);
    memory.queue = (weft_cuda_queue){ .stream = memory.stream };
    resize_memory(MEMORY_BYTES);
    return 0;
}

int tear_down_memory(void **state)
{
    (void)state;
    weft_cuda_queue_free(&memory.queue);
    for (int k = 0; k < NUM_MEMORIES; k++) {
        assert_int_equal(cudaFree(memory.device[k]), cudaSuccess);
    }
    assert_int_equal(cudaStreamDestroy(memory.stream), cudaSuccess);
    return 0;
}

void resize_memory(size_t bytes)
{
    memory.bytes = bytes;
    for (int k = 0; k < NUM_MEMORIES; k++) {
        assert_int_equal(cudaFree(memory.device[k]), cudaSuccess); /* at first: NULL */
        assert_int_equal(cudaMalloc(&memory.device[k], bytes), cudaSuccess);
    }
}

int64_t below(int64_t n)
{
    return prng_below(&memory.random, n);
}

double any_number(void)
{
    static const double special[] = { 0, -0.0, 1, -1, 0.5, NAN, INFINITY, -INFINITY, 3e38, -1e-40, 1e300, 2147483648.5, -9.3e18 };
    if (memory.calm) {
        return (double)below(4001) / 512 - 4;
    }
    return below(4) == 0 ? special[below((int64_t)(sizeof(special) / sizeof(special[0])))] : (double)below(4001) / 64 - 31;
}

void fill_at_random(int k, weft_dtype dtype)
{
    dtype = dtype == WEFT_C64 ? WEFT_F32 : dtype == WEFT_C128 ? WEFT_F64 : dtype; /* both parts of complex numbers */
    size_t size = weft_dtype_size(dtype);
    for (size_t i = 0; i + size <= memory.bytes; i += size) {
        double number = any_number();
        float narrow = (float)number;
        uint64_t bits = below(8) == 0 ? prng_next(&memory.random) : (uint64_t)(below(21) - 10);
        uint16_t half = dtype == WEFT_BF16 ? weft_f32_to_bf16(narrow) : weft_f32_to_f16(narrow);
        uint8_t truth = (uint8_t)below(2);
        const void *value = dtype == WEFT_F64    ? (const void *)&number
                            : dtype == WEFT_F32  ? (const void *)&narrow
                            : dtype == WEFT_BOOL ? (const void *)&truth
                            : size == 2          ? (const void *)&half
                                                 : (const void *)&bits; /* little-endian */
        memcpy(memory.host[k] + i, value, size);
    }
    assert_int_equal(cudaMemcpyAsync(memory.device[k], memory.host[k], memory.bytes, cudaMemcpyHostToDevice,
                                     memory.stream),
                     cudaSuccess);
}

static void compare_errors(const char *name, const weft_kernel_error *expected)
{
    if (memory.queue.pending == NULL) {
        assert_int_equal(expected->status, WEFT_OK);
        return;
    }
    assert_int_equal(cudaStreamSynchronize(memory.stream), cudaSuccess);
    const weft_kernel_error *got = &memory.queue.pending->error;
    bool same = got->status == expected->status &&
                (got->status == WEFT_OK ||
                 (got->problem == expected->problem && got->input == expected->input && got->value == expected->value &&
                  got->bound == expected->bound &&
                  (got->number == expected->number || (got->number != got->number && expected->number != expected->number))));
    if (!same) {
        fail_msg("%s: error %d, input %d, value %lld, %g; expected %d, %d, %lld, %g", name, (int)got->status, got->input,
                 (long long)got->value, got->number, (int)expected->status, expected->input, (long long)expected->value,
                 expected->number);
    }
}

void run_on_both(const weft_task_run *run, void *host[], void *device[])
{
    weft_kernel_error error = { .status = WEFT_OK };
    weft_task_run own = *run;
    own.cpu = &weft_cpu_kernels[run->kernel];
    own.function = "test";
    own.error = &error;
    own.operands = device;
    memory.queue.pending = NULL;
    assert_int_equal(weft_cuda_kernels[run->kernel](&own, &memory.queue), cudaSuccess);
    own.operands = host;
    own.cpu->run(&own);
    compare_errors(weft_kernel_infos[run->kernel].name, &error);
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

double number_at(weft_dtype dtype, const unsigned char *at)
{
    double f64;
    float f32;
    uint16_t half;
    switch (dtype) {
    case WEFT_F64:
        memcpy(&f64, at, sizeof(f64));
        return f64;
    case WEFT_F32:
        memcpy(&f32, at, sizeof(f32));
        return (double)f32;
    default:
        memcpy(&half, at, sizeof(half));
        return (double)(dtype == WEFT_BF16 ? weft_bf16_to_f32(half) : weft_f16_to_f32(half));
    }
}

void set_number_at(weft_dtype dtype, unsigned char *at, double number)
{
    const float narrow = (float)number;
    const uint16_t half = dtype == WEFT_BF16 ? weft_f32_to_bf16(narrow) : weft_f32_to_f16(narrow);
    memcpy(at, dtype == WEFT_F64 ? (const void *)&number : dtype == WEFT_F32 ? (const void *)&narrow : (const void *)&half,
           weft_dtype_size(dtype));
}

const unsigned char *fetch_memory(int k)
{
    static unsigned char got[MOST_MEMORY_BYTES];
    assert_int_equal(cudaMemcpyAsync(got, memory.device[k], memory.bytes, cudaMemcpyDeviceToHost, memory.stream), cudaSuccess);
    assert_int_equal(cudaStreamSynchronize(memory.stream), cudaSuccess);
    return got;
}

void compare_near(const char *name, int k, weft_dtype dtype, double share)
{
    const unsigned char *got = fetch_memory(k), *expected = memory.host[k];
    size_t size = weft_dtype_size(dtype);
    double largest = 0;
    for (size_t i = 0; i + size <= memory.bytes; i += size) {
        double b = fabs(number_at(dtype, expected + i));
        largest = b > largest && b <= DBL_MAX ? b : largest;
    }
    for (size_t i = 0; i + size <= memory.bytes; i += size) {
        double a = number_at(dtype, got + i), b = number_at(dtype, expected + i);
        if (memcmp(expected + i, got + i, size) != 0 && !(a != a && b != b) && !(fabs(a - b) <= share * largest)) {
            fail_msg("%s: element %zu of type %s is %.9g, expected %.9g within %.3g", name, i / size, weft_dtype_name(dtype), a, b,
                     share * largest);
        }
    }
}

void compare_within(const char *name, int k, weft_dtype dtype, double relative, double absolute)
{
    const unsigned char *got = fetch_memory(k), *expected = memory.host[k];
    size_t size = weft_dtype_size(dtype);
    for (size_t i = 0; i + size <= memory.bytes; i += size) {
        double a = number_at(dtype, got + i), b = number_at(dtype, expected + i), bound = relative * fabs(b) + absolute;
        if (memcmp(expected + i, got + i, size) != 0 && !(a != a && b != b) && !(fabs(a) <= DBL_MAX && fabs(b) <= DBL_MAX && fabs(a - b) <= bound)) {
            fail_msg("%s: element %zu of type %s is %.9g, expected %.9g within %.3g", name, i / size, weft_dtype_name(dtype), a, b, bound);
        }
    }
}

static double value_of(weft_dtype dtype, const unsigned char *at)
{
    int64_t wide = 0;
    int32_t narrow;
    switch (dtype) {
    case WEFT_I64:
        memcpy(&wide, at, sizeof(wide));
        return (double)wide;
    case WEFT_I32:
        memcpy(&narrow, at, sizeof(narrow));
        return narrow;
    case WEFT_U8:
    case WEFT_BOOL:
        return *at;
    default:
        return number_at(dtype, at);
    }
}

static void compare_exactly(const char *name, int k, weft_dtype dtype, size_t shift)
{
    const unsigned char *got = fetch_memory(k), *expected = memory.host[k];
    size_t size = weft_dtype_size(dtype);
    for (size_t i = shift; i + size <= memory.bytes; i += size) {
        if (memcmp(expected + i, got + i, size) != 0 && !(is_nan(dtype, expected + i) && is_nan(dtype, got + i))) {
            fail_msg("%s: element %zu of type %s differs: %.17g, expected %.17g", name, i / size, weft_dtype_name(dtype),
                     value_of(dtype, got + i), value_of(dtype, expected + i));
        }
    }
}

#ifdef WEFT_TEST_GPU
static bool exact_by_name(const char *name)
{
    for (weft_kernel_id kernel = 0; kernel < WEFT_KERNEL_COUNT; kernel++) {
        if (weft_kernel_infos[kernel].name != NULL && strcmp(weft_kernel_infos[kernel].name, name) == 0) {
            return runs_exactly(kernel);
        }
    }
    return true;
}

/* Functions of CUDA's have errors of some units in the last place; a rounding of 16 bits, or to an integer, may fall differently. */
static double units(weft_dtype dtype)
{
    return dtype == WEFT_F64 ? 0x1p-44 : dtype == WEFT_F32 ? 0x1p-20 : dtype == WEFT_BF16 ? 0x1p-7 : dtype == WEFT_F16 ? 0x1p-10 : 0;
}

void compare(const char *name, int k, weft_dtype dtype, size_t shift)
{
    if (exact_by_name(name)) {
        compare_exactly(name, k, dtype, shift);
        return;
    }
    const unsigned char *got = fetch_memory(k), *expected = memory.host[k];
    size_t size = weft_dtype_size(dtype), differ = 0, far = 0, worst = 0;
    /* Angles up to 1,079, whose frequencies are off by two units of 2^-52: 2^-40; two numbers of up to some units are multiplied by
     * their cosines, and may cancel. */
    const bool angles = strcmp(name, "rotary") == 0;
    double most = 0;
    for (size_t i = shift; i + size <= memory.bytes; i += size) {
        double a = value_of(dtype, got + i), b = value_of(dtype, expected + i);
        if (memcmp(expected + i, got + i, size) == 0 || (a != a && b != b)) {
            continue;
        }
        differ++;
        double error = a == b ? 0 : fabs(a - b) / fmax(fabs(b), 1);
        const double of_type = fmax(units(dtype), angles ? 0x1p-37 : units(memory.arithmetic));
        const double bound = units(dtype) == 0 ? of_type + 1.5 / fmax(fabs(b), 1) : of_type;
        far += !(error <= bound);
        if (!(error <= most)) {
            most = error;
            worst = i / size;
        }
    }
    if (differ > 0) {
        printf("# %s, %s: %zu elements differ, the most by %.3g of itself or 1 (element %zu: %.17g, on a CPU %.17g)%s\n", name,
               weft_dtype_name(dtype), differ, most, worst, value_of(dtype, got + worst * size), value_of(dtype, expected + worst * size),
               far > 0 ? ": TOO MUCH" : "");
    }
    assert_int_equal(far, 0);
}
#else
void compare(const char *name, int k, weft_dtype dtype, size_t shift)
{
    compare_exactly(name, k, dtype, shift);
}
#endif
