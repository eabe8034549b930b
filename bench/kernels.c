/* Operations on one rank, relative to the machine with the same number of workers:
 *
 *   fraction_of_memory   bytes that an operation must read and write, per second, relative to memcpy()
 *                        between buffers of that size (which reads and writes each byte).
 *   fraction_of_peak     arithmetic of products per second, relative to one large cblas_sgemm() on one
 *                        thread, times the workers. Attention: the necessary products, two of s x t scores,
 *                        and five for the gradients (eight are computed: scores are recomputed).
 *
 * Tensors of 64 MB, so that no cache holds them; output buffers are reused from the last repetition. */
#include <cblas.h>
#include <pthread.h>
#include <starpu.h>
#include <string.h>

#include "bench.h"

#include "ops/backward.h"

enum { ROWS = 16384, COLUMNS = 1024, SIDE = 1024, MAX_WORKERS = 64 };

static weft_tensor *a, *b, *gain, *bias, *left, *right;
static weft_tensor *half_a, *half_b; /* of 16 bits: half the bytes */
static weft_tensor *classes, *order; /* per row: a column, and another row */
static weft_tensor *first, *second;  /* Adam's moments */
static weft_mesh *mesh;

typedef struct operation {
    const char *name;
    weft_tensor *(*call)(void);
    double reads, writes; /* in tensors of ROWS x COLUMNS, single precision */
} operation;

#define CALL(name, expression)                                                                               \
    static weft_tensor *call_##name(void)                                                                    \
    {                                                                                                        \
        return expression;                                                                                   \
    }
CALL(add, weft_add(a, b))
CALL(mul_column, weft_mul(a, gain))
CALL(scale, weft_scale(a, 2))
CALL(relu, weft_relu(a))
CALL(exp, weft_exp(a))
CALL(gelu, weft_gelu(a))
CALL(tanh, weft_tanh(a))
CALL(add_in_place, weft_add_inplace(a, b, 1e-9))
CALL(sum_rows, weft_sum(a, 1, false))
CALL(sum_columns, weft_sum(a, 0, false))
CALL(softmax, weft_softmax(a, 1))
CALL(layer_norm, weft_layer_norm(a, gain, bias, 1e-5))
CALL(transpose, weft_transpose(a, 0, 1))
CALL(transpose_half, weft_transpose(half_a, 0, 1))
CALL(cumsum, weft_cumsum(a, 1))
CALL(cumsum_columns, weft_cumsum(a, 0))
CALL(log_softmax, weft_log_softmax(a, 1))
CALL(softmax_backward, weft_softmax_backward(a, b, 1))
CALL(rms_norm, weft_rms_norm(a, gain, 1e-5))
CALL(cross_entropy, weft_cross_entropy(a, classes, NULL))
CALL(embedding, weft_embedding(a, order))
CALL(add_half, weft_add(half_a, half_b))
CALL(gelu_half, weft_gelu(half_a))

static weft_tensor *call_adam(void)
{
    const weft_adam_options options = WEFT_ADAM_DEFAULT;
    weft_adam(1, &a, &b, &first, &second, 1, &options);
    return a;
}

static const operation operations[] = {
    { "add", call_add, 2, 1 },
    { "mul, a vector along the columns", call_mul_column, 1, 1 },
    { "scale", call_scale, 1, 1 },
    { "relu", call_relu, 1, 1 },
    { "exp", call_exp, 1, 1 },
    { "gelu", call_gelu, 1, 1 },
    { "tanh", call_tanh, 1, 1 },
    { "add_", call_add_in_place, 2, 1 },
    { "sum of rows", call_sum_rows, 1, 0 },
    { "sum of columns", call_sum_columns, 1, 0 },
    { "softmax", call_softmax, 1, 1 },
    { "layer_norm", call_layer_norm, 1, 1 },
    { "transpose", call_transpose, 1, 1 },
    { "transpose, bf16", call_transpose_half, 0.5, 0.5 },
    { "cumsum along rows", call_cumsum, 1, 1 },
    { "cumsum along columns", call_cumsum_columns, 1, 1 },
    { "log_softmax", call_log_softmax, 1, 1 },
    { "softmax_backward", call_softmax_backward, 2, 1 },
    { "rms_norm", call_rms_norm, 1, 1 },
    { "cross_entropy", call_cross_entropy, 1, 0 },
    { "embedding", call_embedding, 1, 1 },
    { "add, bf16", call_add_half, 1, 0.5 },
    { "gelu, bf16", call_gelu_half, 0.5, 0.5 },
    { "adam", call_adam, 4, 3 },
};

static double run(weft_tensor *(*call)(void))
{
    weft_scope_begin();
    double start = bench_now_us();
    weft_tensor *result = call();
    weft_wait();
    double us = bench_now_us() - start;
    bench_check();
    (void)result;
    weft_scope_end();
    return us;
}

/* ---- what the machine can do --------------------------------------------------------------------------- */

typedef struct part {
    char *target;
    const char *source;
    size_t bytes;
} part;

static void *copy(void *argument)
{
    const part *p = argument;
    memcpy(p->target, p->source, p->bytes);
    return NULL;
}

static double run_memcpy(char *target, const char *source, size_t bytes, int threads)
{
    pthread_t ids[MAX_WORKERS];
    part parts[MAX_WORKERS];
    size_t each = bytes / (size_t)threads;
    double start = bench_now_us();
    for (int i = 0; i < threads; i++) {
        parts[i] = (part){ target + (size_t)i * each, source + (size_t)i * each, each };
        pthread_create(&ids[i], NULL, copy, &parts[i]);
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(ids[i], NULL);
    }
    return bench_now_us() - start;
}

static double run_sgemm(float *c)
{
    static float x[SIDE * SIDE], y[SIDE * SIDE];
    double start = bench_now_us();
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, SIDE, SIDE, SIDE, 1, x, SIDE, y, SIDE, 0, c, SIDE);
    return bench_now_us() - start;
}

/* ---- measuring ----------------------------------------------------------------------------------------- */

static void measure_memory(const operation *o, int workers)
{
    size_t bytes = (size_t)ROWS * COLUMNS * sizeof(float);
    char *target = malloc(bytes), *source = malloc(bytes);
    if (target == NULL || source == NULL) {
        fprintf(stderr, "bench: no memory\n");
        exit(1);
    }
    memset(target, 1, bytes);
    memset(source, 2, bytes);
    run(o->call);
    double ours[BENCH_REPETITIONS], plain[BENCH_REPETITIONS];
    for (int i = 0; i < BENCH_REPETITIONS; i++) {
        ours[i] = run(o->call);
        plain[i] = run_memcpy(target, source, bytes, workers);
    }
    double us = bench_median(ours, BENCH_REPETITIONS), copy_us = bench_median(plain, BENCH_REPETITIONS);
    double moved = (double)bytes * (o->reads + o->writes);
    printf("{\"bench\": \"kernels\", \"case\": \"%s\", \"ms\": %.2f, \"gb_per_s\": %.1f, "
           "\"fraction_of_memory\": %.3f}\n",
           o->name, us * 1e-3, moved / us * 1e-3, moved / us / (2 * (double)bytes / copy_us));
    fflush(stdout);
    free(target);
    free(source);
}

/* `products`: number of products of SIDE x SIDE x SIDE. */
static void measure_peak(const char *name, weft_tensor *(*call)(void), double products, int workers)
{
    static float c[SIDE * SIDE];
    double ours[BENCH_REPETITIONS], plain[BENCH_REPETITIONS];
    run(call);
    for (int i = 0; i < BENCH_REPETITIONS; i++) {
        ours[i] = run(call);
        plain[i] = run_sgemm(c);
    }
    double flops = 2.0 * SIDE * SIDE * SIDE, us = bench_median(ours, BENCH_REPETITIONS);
    double peak = flops / bench_median(plain, BENCH_REPETITIONS) * workers;
    printf("{\"bench\": \"kernels\", \"case\": \"%s\", \"ms\": %.2f, \"gflop_per_s\": %.1f, "
           "\"fraction_of_peak\": %.3f}\n",
           name, us * 1e-3, products * flops / us * 1e-3, products * flops / us / peak);
    fflush(stdout);
}

CALL(product, weft_matmul(left, right))

static void measure_product(const char *name, weft_dtype type, int workers)
{
    int64_t shape[] = { 4 * SIDE, SIDE }, square[] = { SIDE, SIDE };
    weft_scope_begin();
    left = weft_to_type(weft_randn(WEFT_F32, 2, shape, mesh, NULL), type);
    right = weft_to_type(weft_randn(WEFT_F32, 2, square, mesh, NULL), type);
    weft_wait();
    measure_peak(name, call_product, 4, workers);
    weft_scope_end();
}

enum { HEADS = 16, LENGTH = 1024, DEPTH = 64 };

static weft_tensor *q, *k, *v, *attended, *gradient_k, *gradient_v;

CALL(attention, weft_attention(q, k, v, NULL))
CALL(attention_backward, weft_attention_backward(attended, q, k, v, attended, NULL, &gradient_k, &gradient_v))

static void measure_attention(int workers)
{
    int64_t shape[] = { HEADS, LENGTH, DEPTH };
    double product = (double)HEADS * LENGTH * LENGTH * DEPTH / ((double)SIDE * SIDE * SIDE);
    weft_scope_begin();
    q = weft_randn(WEFT_F32, 3, shape, mesh, NULL);
    k = weft_randn(WEFT_F32, 3, shape, mesh, NULL);
    v = weft_randn(WEFT_F32, 3, shape, mesh, NULL);
    attended = weft_attention(q, k, v, NULL);
    weft_wait();
    measure_peak("attention f32, 16 x 1024 x 64", call_attention, 2 * product, workers);
    measure_peak("attention_backward f32, 16 x 1024 x 64", call_attention_backward, 5 * product, workers);
    weft_scope_end();
}

int main(void)
{
    if (weft_init(NULL) != WEFT_OK) {
        bench_check();
    }
    int workers = (int)starpu_cpu_worker_get_count();
    int64_t one = 1, shape[] = { ROWS, COLUMNS };
    mesh = weft_mesh_create(1, &one, NULL);
    a = weft_randn(WEFT_F32, 2, shape, mesh, NULL);
    b = weft_randn(WEFT_F32, 2, shape, mesh, NULL);
    gain = weft_ones(WEFT_F32, 1, shape + 1, mesh, NULL);
    bias = weft_zeros(WEFT_F32, 1, shape + 1, mesh, NULL);
    half_a = weft_to_type(a, WEFT_BF16);
    half_b = weft_to_type(b, WEFT_BF16);
    classes = weft_randint(WEFT_I64, 0, COLUMNS, 1, shape, mesh, NULL);
    order = weft_randperm(ROWS, mesh, NULL);
    first = weft_zeros_like(a);
    second = weft_zeros_like(a);
    weft_wait();
    for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++) {
        measure_memory(&operations[i], workers);
    }
    measure_product("matmul f32, 4096 x 1024 x 1024", WEFT_F32, workers);
    measure_product("matmul bf16, 4096 x 1024 x 1024", WEFT_BF16, workers);
    measure_attention(workers);
    weft_finalize();
    return 0;
}
