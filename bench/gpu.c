/* One CUDA device: weft's calls relative to CUDA's own, alternating.
 *
 *   add       bytes read and written by weft_add() each microsecond, relative to a copy within the device's memory
 *   matmul    operations of weft_matmul() in single precision, relative to cublasSgemm()
 *   overlap   additions while another tensor is copied to main memory: 1: the shorter one costs no time, 0: one after the
 *             other
 *
 * Says so where there is no device. cuBLAS is loaded when this runs. */
#include <dlfcn.h>

#include <cuda_runtime_api.h>

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

static void start_cuda(cuda_side *cuda)
{
    must((int)cudaMalloc((void **)&cuda->a, bytes), "cudaMalloc()");
    must((int)cudaMalloc((void **)&cuda->b, bytes), "cudaMalloc()");
    must((int)cudaMalloc((void **)&cuda->c, bytes), "cudaMalloc()");
    must((int)cudaMemset(cuda->a, 0, bytes), "cudaMemset()");
    must((int)cudaMemset(cuda->b, 0, bytes), "cudaMemset()");
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
    weft_scope_open();
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
    weft_scope_close();
    bench_check();
    return us;
}

static void measure_add(const cuda_side *cuda, weft_tensor *a, weft_tensor *b)
{
    double ours[BENCH_REPETITIONS], plain[BENCH_REPETITIONS];
    weft_us(weft_add, a, b, 2, NULL, NULL); /* a and b are in device memory then */
    for (int i = 0; i < BENCH_REPETITIONS; i++) {
        ours[i] = weft_us(weft_add, a, b, CHAIN, NULL, NULL) / CHAIN / 3; /* reads two, writes one */
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
    weft_tensor *a = weft_rand(WEFT_F32, 2, square, NULL, NULL), *b = weft_rand(WEFT_F32, 2, square, NULL, NULL);
    weft_us(weft_matmul, a, b, 2, NULL, NULL);
    for (int i = 0; i < BENCH_REPETITIONS; i++) {
        ours[i] = weft_us(weft_matmul, a, b, 1, NULL, NULL);
        plain[i] = cuda->sgemm == NULL ? 0 : product_us(cuda);
    }
    double us = bench_median(ours, BENCH_REPETITIONS), own = bench_median(plain, BENCH_REPETITIONS);
    printf("{\"bench\": \"gpu\", \"case\": \"matmul\", \"gflop_s\": %.0f, \"cublas_gflop_s\": %.0f, \"fraction_of_cublas\": %.3f}\n",
           operations / us * 1e-3, own > 0 ? operations / own * 1e-3 : 0.0, own / us);
}

static void measure_overlap(weft_tensor *a, weft_tensor *b)
{
    double calls[BENCH_REPETITIONS], copies[BENCH_REPETITIONS], both[BENCH_REPETITIONS];
    float *host = malloc(bytes);
    for (int i = 0; i < BENCH_REPETITIONS && host != NULL; i++) {
        for (int part = 0; part < 3; part++) {
            weft_scope_open();
            weft_tensor *other = weft_add(a, b); /* not in main memory yet */
            double us = weft_us(weft_add, a, b, part == 1 ? 0 : 4 * CHAIN, other, part == 0 ? NULL : host);
            *(part == 0 ? &calls[i] : part == 1 ? &copies[i] : &both[i]) = us;
            weft_scope_close();
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

int main(void)
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
    start_cuda(&cuda); /* before StarPU takes the memory */
    weft_init(&config);
    bench_check();
    weft_mesh_push(weft_mesh_create(1, (int64_t[]){ 1 }, NULL));
    weft_tensor *a = weft_rand(WEFT_F32, 2, shape, NULL, NULL), *b = weft_rand(WEFT_F32, 2, shape, NULL, NULL);
    measure_add(&cuda, a, b);
    measure_product(&cuda);
    measure_overlap(a, b);
    weft_finalize();
    return 0;
}
