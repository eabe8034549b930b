/* One CUDA device: weft's calls relative to CUDA's own, alternating.
 *
 *   add       bytes read and written by weft_add() each microsecond, relative to a copy within the device's memory
 *   matmul    operations of weft_matmul() in single precision, relative to cublasSgemm()
 *   others    fractions of the same copy's rate, or operations each microsecond: bench/peers/gpu.py times the same in PyTorch
 *   overlap   additions while another tensor is copied to main memory: 1: the shorter one costs no time, 0: one after the
 *             other
 *
 * Says so where there is no device. cuBLAS is loaded when this runs. */
#include <dlfcn.h>

#include <cuda_runtime_api.h>
#include <stdint.h>
#include <string.h>

#include "bench.h"
#include "codelets/cuda/kernels.h"

enum { ROWS = 8192, SIZE = 4096, CHAIN = 8 };

static const int64_t shape[] = { ROWS, ROWS };
static const size_t bytes = (size_t)ROWS * ROWS * sizeof(float);

static void must(int failed, const char *what)
{
    if (failed != 0) {
        fprintf(stderr, "bench: %s fails with %d\n", what, failed);
        exit(1);
    }
}

/* ---- CUDA's own ------------------------------------------------------------------------------------------ */

typedef int (*sgemm_function)(void *handle, int transpose_a, int transpose_b, int m, int n, int k, const float *alpha,
                              const float *a, int lda, const float *b, int ldb, const float *beta, float *c, int ldc);

typedef struct cuda_side {
    float *a, *b, *c;
    void *handle;
    sgemm_function sgemm; /* NULL: there is no cuBLAS */
} cuda_side;

/* Between 0 and 1, by xorshift (Marsaglia 2003): zeros would be multiplied faster than a program's numbers. */
static void fill_with_numbers(float *device)
{
    float *host = malloc(bytes);
    uint64_t state = 88172645463325252u;
    must(host == NULL, "malloc()");
    for (size_t i = 0; i < bytes / sizeof(float); i++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        host[i] = (float)(state >> 40) * 0x1p-24f;
    }
    must((int)cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice), "cudaMemcpy()");
    free(host);
}

static void start_cuda(cuda_side *cuda)
{
    must((int)cudaMalloc((void **)&cuda->a, bytes), "cudaMalloc()");
    must((int)cudaMalloc((void **)&cuda->b, bytes), "cudaMalloc()");
    must((int)cudaMalloc((void **)&cuda->c, bytes), "cudaMalloc()");
    fill_with_numbers(cuda->a);
    fill_with_numbers(cuda->b);
    void *library = dlopen("libcublas.so", RTLD_NOW);
    int (*create)(void **) = NULL;
    if (library != NULL) {
        *(void **)&create = dlsym(library, "cublasCreate_v2");
        *(void **)&cuda->sgemm = dlsym(library, "cublasSgemm_v2");
    }
    if (create == NULL || cuda->sgemm == NULL || create(&cuda->handle) != 0) {
        cuda->sgemm = NULL;
    }
}

static double copy_us(const cuda_side *cuda)
{
    must((int)cudaDeviceSynchronize(), "cudaDeviceSynchronize()");
    double start = bench_now_us();
    must((int)cudaMemcpyAsync(cuda->b, cuda->a, bytes, cudaMemcpyDeviceToDevice, NULL), "cudaMemcpyAsync()");
    must((int)cudaDeviceSynchronize(), "cudaDeviceSynchronize()");
    return bench_now_us() - start;
}

static double product_us(const cuda_side *cuda)
{
    const float one = 1, zero = 0;
    must((int)cudaDeviceSynchronize(), "cudaDeviceSynchronize()");
    double start = bench_now_us();
    must(cuda->sgemm(cuda->handle, 0, 0, SIZE, SIZE, SIZE, &one, cuda->a, SIZE, cuda->b, SIZE, &zero, cuda->c, SIZE), "cublasSgemm()");
    must((int)cudaDeviceSynchronize(), "cudaDeviceSynchronize()");
    return bench_now_us() - start;
}

/* ---- weft's ---------------------------------------------------------------------------------------------- */

typedef weft_tensor *(*binary_call)(weft_tensor *a, weft_tensor *b);

/* `times` calls, and, if `host` is given, a copy of another tensor to main memory. */
static double weft_us(binary_call call, weft_tensor *a, weft_tensor *b, int times, weft_tensor *other, float *host)
{
    weft_scope_begin();
    weft_wait();
    double start = bench_now_us();
    for (int i = 0; i < times; i++) {
        call(a, b);
    }
    if (host != NULL) {
        weft_to_host(other, host, bytes);
    }
    weft_wait();
    double us = bench_now_us() - start;
    weft_scope_end();
    bench_check();
    return us;
}

static void measure_add(const cuda_side *cuda, weft_tensor *x, weft_tensor *y)
{
    double ours[BENCH_REPETITIONS], plain[BENCH_REPETITIONS];
    weft_us(weft_add, x, y, 2, NULL, NULL); /* both are in device memory then */
    for (int i = 0; i < BENCH_REPETITIONS; i++) {
        ours[i] = weft_us(weft_add, x, y, CHAIN, NULL, NULL) / CHAIN / 3; /* reads two, writes one */
        plain[i] = copy_us(cuda) / 2;
    }
    double us = bench_median(ours, BENCH_REPETITIONS), copy = bench_median(plain, BENCH_REPETITIONS);
    printf("{\"bench\": \"gpu\", \"case\": \"add\", \"gb_s\": %.1f, \"copy_gb_s\": %.1f, \"fraction_of_copy\": %.3f}\n",
           (double)bytes / us * 1e-3, (double)bytes / copy * 1e-3, copy / us);
}

static void measure_product(const cuda_side *cuda)
{
    const int64_t square[] = { SIZE, SIZE };
    double ours[BENCH_REPETITIONS], plain[BENCH_REPETITIONS], operations = 2.0 * SIZE * SIZE * SIZE;
    weft_tensor *x = weft_rand(WEFT_F32, 2, square, NULL, NULL), *y = weft_rand(WEFT_F32, 2, square, NULL, NULL);
    weft_us(weft_matmul, x, y, 2, NULL, NULL);
    for (int i = 0; i < BENCH_REPETITIONS; i++) {
        ours[i] = weft_us(weft_matmul, x, y, 1, NULL, NULL);
        plain[i] = cuda->sgemm == NULL ? 0 : product_us(cuda);
    }
    double us = bench_median(ours, BENCH_REPETITIONS), own = bench_median(plain, BENCH_REPETITIONS);
    printf("{\"bench\": \"gpu\", \"case\": \"matmul\", \"gflop_s\": %.0f, \"cublas_gflop_s\": %.0f, \"fraction_of_cublas\": %.3f}\n",
           operations / us * 1e-3, own > 0 ? operations / own * 1e-3 : 0.0, own / us);
}

/* ---- other operations ------------------------------------------------------------------------------------ */

enum { HEADS = 16, LENGTH = 2048, WIDTH = 64, IMAGES = 32, CHANNELS = 128, PIXELS = 56 };

static weft_tensor *a, *b, *gain, *half_a, *half_b, *half_gain, *column, *images, *filters, *half_images,
    *half_filters, *heads, *half_heads, *moments[2];

#define CALL(name, expression)                                                                               \
    static weft_tensor *call_##name(void)                                                                    \
    {                                                                                                        \
        return expression;                                                                                   \
    }
CALL(exp, weft_exp(a))
CALL(gelu, weft_gelu(a))
CALL(add_half, weft_add(half_a, half_b))
CALL(mul_vector, weft_mul(a, gain))
CALL(sum_rows, weft_sum(a, 1, false))
CALL(sum_columns, weft_sum(a, 0, false))
CALL(sum_all, weft_sum(a, WEFT_ALL_DIMS, false))
CALL(softmax, weft_softmax(a, 1))
CALL(layer_norm, weft_layer_norm(a, gain, gain, 1e-5))
CALL(rms_norm, weft_rms_norm(a, gain, 1e-5))
CALL(cross_entropy, weft_cross_entropy(a, column, NULL))
CALL(cumsum, weft_cumsum(a, 1))
CALL(cumsum_columns, weft_cumsum(a, 0))
CALL(transpose, weft_transpose(a, 0, 1))
CALL(embedding, weft_embedding(a, column))
CALL(sort, weft_sort(a, 1, false, NULL))
CALL(histogram, weft_histogram(a, 1000, 0, 1))
CALL(matmul_half, weft_matmul(half_a, half_b))
CALL(linear_half, weft_linear(half_a, half_b, half_gain))
CALL(attention, weft_attention(heads, heads, heads, NULL))
CALL(attention_half, weft_attention(half_heads, half_heads, half_heads, NULL))

static weft_tensor *convolve(weft_tensor *x, weft_tensor *weight)
{
    weft_convolution options;
    weft_convolution_init(&options);
    options.padding[0] = options.padding[1] = 1;
    return weft_conv2d(x, weight, NULL, &options);
}

CALL(conv2d, convolve(images, filters))
CALL(conv2d_half, convolve(half_images, half_filters))

static weft_tensor *call_adam(void)
{
    const weft_adam_options options = WEFT_ADAM_DEFAULT;
    weft_adam(1, &a, &b, &moments[0], &moments[1], 1, &options);
    return a;
}

static const double attention_operations = 4.0 * HEADS * LENGTH * LENGTH * WIDTH;
static const double convolution_operations = 2.0 * IMAGES * PIXELS * PIXELS * CHANNELS * CHANNELS * 9;

static const struct {
    const char *name;
    weft_tensor *(*call)(void);
    double tensors;    /* read and written, of single precision */
    double operations; /* of products */
} operations[] = {
    { "exp", call_exp, 2, 0 },
    { "gelu", call_gelu, 2, 0 },
    { "add bf16", call_add_half, 1.5, 0 },
    { "mul, a vector along the columns", call_mul_vector, 2, 0 },
    { "sum of rows", call_sum_rows, 1, 0 },
    { "sum of columns", call_sum_columns, 1, 0 },
    { "sum", call_sum_all, 1, 0 },
    { "softmax", call_softmax, 2, 0 },
    { "layer_norm", call_layer_norm, 2, 0 },
    { "rms_norm", call_rms_norm, 2, 0 },
    { "cross_entropy", call_cross_entropy, 1, 0 },
    { "cumsum along rows", call_cumsum, 2, 0 },
    { "cumsum along columns", call_cumsum_columns, 2, 0 },
    { "transpose", call_transpose, 2, 0 },
    { "embedding", call_embedding, 2, 0 },
    { "adam", call_adam, 7, 0 },
    { "sort", call_sort, 2, 0 },
    { "histogram", call_histogram, 1, 0 },
    { "matmul bf16", call_matmul_half, 1.5, 2.0 * ROWS * ROWS * ROWS },
    { "linear bf16", call_linear_half, 1.5, 2.0 * ROWS * ROWS * ROWS },
    { "attention", call_attention, 0, attention_operations },
    { "attention bf16", call_attention_half, 0, attention_operations },
    { "conv2d", call_conv2d, 0, convolution_operations },
    { "conv2d bf16", call_conv2d_half, 0, convolution_operations },
};

static void make_operands(void)
{
    const int64_t of_heads[] = { 1, HEADS, LENGTH, WIDTH }, of_images[] = { IMAGES, CHANNELS, PIXELS, PIXELS };
    const int64_t of_filters[] = { CHANNELS, CHANNELS, 3, 3 };
    gain = weft_rand(WEFT_F32, 1, shape, NULL, NULL);
    half_a = weft_rand(WEFT_BF16, 2, shape, NULL, NULL);
    half_b = weft_rand(WEFT_BF16, 2, shape, NULL, NULL);
    half_gain = weft_rand(WEFT_BF16, 1, shape, NULL, NULL);
    column = weft_randint(WEFT_I64, 0, ROWS, 1, shape, NULL, NULL);
    heads = weft_randn(WEFT_F32, 4, of_heads, NULL, NULL);
    half_heads = weft_randn(WEFT_BF16, 4, of_heads, NULL, NULL);
    images = weft_rand(WEFT_F32, 4, of_images, NULL, NULL);
    filters = weft_rand(WEFT_F32, 4, of_filters, NULL, NULL);
    half_images = weft_rand(WEFT_BF16, 4, of_images, NULL, NULL);
    half_filters = weft_rand(WEFT_BF16, 4, of_filters, NULL, NULL);
    moments[0] = weft_zeros(WEFT_F32, 2, shape, NULL, NULL);
    moments[1] = weft_zeros(WEFT_F32, 2, shape, NULL, NULL);
    bench_check();
}

static double calls_us(weft_tensor *(*call)(void), int times)
{
    weft_scope_begin();
    weft_wait();
    double start = bench_now_us();
    for (int i = 0; i < times; i++) {
        call();
    }
    weft_wait();
    double us = bench_now_us() - start;
    weft_scope_end();
    bench_check();
    return us / times;
}

/* Operations that take long run less often. `only`: the name of one; NULL: all. */
static void measure_operations(const cuda_side *cuda, const char *only)
{
    make_operands();
    for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++) {
        if (only != NULL && strcmp(only, operations[i].name) != 0) {
            continue;
        }
        double ours[BENCH_REPETITIONS], plain[BENCH_REPETITIONS], first = calls_us(operations[i].call, 1);
        int times = first > 1e5 ? 1 : CHAIN, repetitions = first > 1e5 ? 1 : BENCH_REPETITIONS;
        for (int r = 0; r < repetitions; r++) {
            ours[r] = calls_us(operations[i].call, times);
            plain[r] = copy_us(cuda) / 2;
        }
        double us = bench_median(ours, (size_t)repetitions), copy = bench_median(plain, (size_t)repetitions);
        printf("{\"bench\": \"gpu\", \"case\": \"%s\", \"us\": %.0f", operations[i].name, us);
        if (operations[i].operations > 0) {
            printf(", \"gflop_s\": %.0f}\n", operations[i].operations / us * 1e-3);
        } else {
            printf(", \"fraction_of_copy\": %.3f}\n", copy * operations[i].tensors / us);
        }
        fflush(stdout);
    }
}

static void measure_overlap(void)
{
    double calls[BENCH_REPETITIONS], copies[BENCH_REPETITIONS], both[BENCH_REPETITIONS];
    float *host = malloc(bytes);
    for (int i = 0; i < BENCH_REPETITIONS && host != NULL; i++) {
        for (int part = 0; part < 3; part++) {
            weft_scope_begin();
            weft_tensor *other = weft_add(a, b); /* not in main memory yet */
            double us = weft_us(weft_add, a, b, part == 1 ? 0 : 4 * CHAIN, other, part == 0 ? NULL : host);
            *(part == 0 ? &calls[i] : part == 1 ? &copies[i] : &both[i]) = us;
            weft_scope_end();
        }
    }
    if (host != NULL) {
        double x = bench_median(calls, BENCH_REPETITIONS), y = bench_median(copies, BENCH_REPETITIONS);
        double z = bench_median(both, BENCH_REPETITIONS);
        printf("{\"bench\": \"gpu\", \"case\": \"overlap\", \"calls_ms\": %.2f, \"copy_ms\": %.2f, \"both_ms\": %.2f, \"overlap\": %.3f}\n",
               x * 1e-3, y * 1e-3, z * 1e-3, (x + y - z) / (x < y ? x : y));
    }
    free(host);
}

/* argument: the name of one of the operations, alone */
int main(int argc, char *argv[])
{
    if (weft_cuda_count_devices() <= 0) {
        printf("{\"bench\": \"gpu\", \"skipped\": \"there is no CUDA device\"}\n");
        return 0;
    }
    setenv("WEFT_DEVICES", "1", 0);
    weft_config config = WEFT_CONFIG_DEFAULT;
    config.world = WEFT_WORLD_SELF;
    config.ranks = 1;
    cuda_side cuda = { .sgemm = NULL };
    weft_init(&config);
    bench_check();
    start_cuda(&cuda); /* after weft_init(): StarPU resets a device when it measures its bus */
    weft_mesh_push(weft_mesh_create(1, (int64_t[]){ 1 }, NULL));
    a = weft_rand(WEFT_F32, 2, shape, NULL, NULL);
    b = weft_rand(WEFT_F32, 2, shape, NULL, NULL);
    if (argc < 2) {
        measure_add(&cuda, a, b);
        measure_product(&cuda);
        measure_overlap();
    }
    measure_operations(&cuda, argc > 1 ? argv[1] : NULL);
    weft_finalize();
    return 0;
}
