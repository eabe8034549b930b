/* The operations of a transformer's training step, one at a time, at the sizes of a step: B batches of T positions, D wide,
 * F hidden, H heads of which each two share keys; operations on tensors of 64 MB, which no cache holds; products, and convolutions. For
 * bench/peers/operations.py, which asks for them beside PyTorch's:
 *
 *     echo matmul 20 4 | bench-training     prints 20 times in microseconds, on one line; each is that of 4 calls, which are
 *                                           submitted together, over 4 */
#include <string.h>

#include "bench.h"

#include "ops/backward.h"

enum { B = 8, T = 256, D = 512, F = 1408, KV_HEADS = 4, SHARING = 2, E = 64, CLASSES = 256, ROWS = B * T };
enum { LARGE_ROWS = 16384, LARGE_COLUMNS = 1024, HEADS = 16, LENGTH = 1024 }; /* of the large tensors */
enum { FACTOR_ROWS = 4096, FACTOR_COLUMNS = 1024 }; /* of the large product's left side */
enum { SAMPLES = 32, CHANNELS = 128, SIDE = 28, TAPS = 3 }; /* of images, and of their weights */

static weft_mesh *mesh;
static weft_tensor *x, *dx, *hidden, *dhidden, *up, *gate, *to_hidden, *from_hidden, *gain, *rstd;
static weft_tensor *q, *k, *v, *attended, *dattended, *log_sums, *by_position;
static weft_tensor *tokens, *table, *logits, *classes, *row_sums;
static weft_tensor *parameters[4], *gradients[4], *first[4], *second[4];
static weft_tensor *large, *larger, *half, *halves, *large_order, *large_gain, *large_bias, *large_first, *large_second;
static weft_tensor *left, *right, *left_half, *right_half;
static weft_tensor *images, *filters, *convolved;
static weft_tensor *long_q, *long_k, *long_v, *long_attended, *long_sums;

typedef struct operation {
    const char *name;
    void (*call)(void);
    bool is_large;
} operation;

#define CALL(name, ...)                                                                                      \
    static void call_##name(void)                                                                            \
    {                                                                                                        \
        __VA_ARGS__;                                                                                         \
    }

static weft_tensor *other;
static const weft_attention_options causal = { .causal = true };
static const weft_convolution same_size = { .padding = { TAPS / 2, TAPS / 2 } };

CALL(matmul, weft_matmul(x, to_hidden))
CALL(matmul_back, weft_matmul(hidden, from_hidden))
CALL(matmul_gradient_of_x, weft_matmul_ex(dhidden, false, to_hidden, true))
CALL(matmul_gradient_of_w, weft_matmul_ex(x, true, dhidden, false))
CALL(attention, weft_attention_with_log_sums(q, k, v, &causal, &other))
CALL(rms_norm, weft_rms_norm_with_statistics(x, gain, 1e-5, &other))
CALL(rms_norm_backward, weft_rms_norm_backward_with_statistics(dx, x, rstd, gain, &other))
CALL(add, weft_add(x, dx))
CALL(silu_mul, weft_mul(weft_silu(hidden), up))
CALL(silu_mul_backward, { /* silu(hidden) is kept, as by a tape */
    weft_mul(dhidden, gate);
    weft_silu_backward(weft_mul(dhidden, up), hidden);
})
CALL(rotary, weft_rotary(q, 10000, 0))
CALL(permute, weft_transpose(by_position, 1, 2))
CALL(embedding, weft_embedding(table, tokens))
CALL(embedding_backward, weft_embedding_backward(x, tokens, CLASSES))
CALL(cross_entropy, weft_cross_entropy_with_log_sums(logits, classes, NULL, &other))
CALL(cross_entropy_backward, weft_cross_entropy_backward_with_log_sums(NULL, logits, classes, row_sums, NULL))

static void call_attention_backward(void)
{
    weft_tensor *dk, *dv;
    weft_attention_backward_with_log_sums(dattended, q, k, v, attended, log_sums, &causal, &dk, &dv);
}

static void call_adamw(void)
{
    const weft_adam_options options = WEFT_ADAMW_DEFAULT;
    weft_adamw(4, parameters, gradients, first, second, 1, &options);
}

CALL(clip, weft_clip_grad_norm(4, gradients, 1, 2, NULL))

CALL(large_convolution, weft_conv2d(images, filters, NULL, &same_size))
CALL(large_convolution_gradient_of_x, weft_conv2d_backward_input(convolved, filters, weft_tensor_shape(images), &same_size))
CALL(large_convolution_gradient_of_w, weft_conv2d_backward_weight(convolved, images, weft_tensor_shape(filters), &same_size))
CALL(large_matmul, weft_matmul(left, right))
CALL(large_matmul_bf16, weft_matmul(left_half, right_half))
CALL(large_add, weft_add(large, larger))
CALL(large_mul, weft_mul(large, larger))
CALL(large_relu, weft_relu(large))
CALL(large_gelu, weft_gelu(large))
CALL(large_add_bf16, weft_add(half, halves))
CALL(large_gelu_bf16, weft_gelu(half))
CALL(large_sum_rows, weft_sum(large, 1, false))
CALL(large_sum_columns, weft_sum(large, 0, false))
CALL(large_cumsum, weft_cumsum(large, 1))
CALL(large_softmax, weft_softmax(large, 1))
CALL(large_layer_norm, weft_layer_norm(large, large_gain, large_bias, 1e-5))
CALL(large_transpose, weft_transpose(large, 0, 1))
CALL(large_embedding, weft_embedding(large, large_order))
CALL(large_attention, weft_attention_with_log_sums(long_q, long_k, long_v, NULL, &other))

static void call_large_adam(void)
{
    const weft_adam_options options = WEFT_ADAM_DEFAULT;
    weft_adam(1, &large, &larger, &large_first, &large_second, 1, &options);
}

static void call_large_attention_backward(void)
{
    weft_tensor *dk, *dv;
    weft_attention_backward_with_log_sums(long_attended, long_q, long_k, long_v, long_attended, long_sums, NULL, &dk, &dv);
}

#define OPERATION(name)                                                                                      \
    {                                                                                                        \
#name, call_##name, false                                                                            \
    }
#define LARGE(name)                                                                                          \
    {                                                                                                        \
        "large_" #name, call_large_##name, true                                                              \
    }
static const operation operations[] = {
    OPERATION(matmul),        OPERATION(matmul_back),       OPERATION(matmul_gradient_of_x), OPERATION(matmul_gradient_of_w),
    OPERATION(attention),     OPERATION(attention_backward), OPERATION(rms_norm),            OPERATION(rms_norm_backward),
    OPERATION(add),           OPERATION(silu_mul),          OPERATION(silu_mul_backward),    OPERATION(rotary),
    OPERATION(permute),       OPERATION(embedding),         OPERATION(embedding_backward),   OPERATION(cross_entropy),
    OPERATION(cross_entropy_backward), OPERATION(adamw),    OPERATION(clip),
    LARGE(add),               LARGE(mul),                   LARGE(relu),                     LARGE(gelu),
    LARGE(add_bf16),          LARGE(gelu_bf16),             LARGE(sum_rows),                 LARGE(sum_columns),
    LARGE(cumsum),            LARGE(softmax),               LARGE(layer_norm),               LARGE(transpose),
    LARGE(matmul),            LARGE(matmul_bf16),           LARGE(convolution),
    LARGE(convolution_gradient_of_x), LARGE(convolution_gradient_of_w),
    LARGE(embedding),         LARGE(adam),                  LARGE(attention),                LARGE(attention_backward),
};
enum { OPERATIONS = sizeof(operations) / sizeof(operations[0]) };

static weft_tensor *make(int ndim, const int64_t shape[])
{
    return weft_randn(WEFT_F32, ndim, shape, mesh, NULL);
}

#define MAKE(...) make(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t), (const int64_t[]){ __VA_ARGS__ })

static void make_tensors(void)
{
    int64_t one = 1, rows = ROWS;
    mesh = weft_mesh_create(1, &one, NULL);
    x = MAKE(ROWS, D);
    dx = MAKE(ROWS, D);
    hidden = MAKE(ROWS, F);
    dhidden = MAKE(ROWS, F);
    up = MAKE(ROWS, F);
    gate = weft_silu(hidden);
    to_hidden = MAKE(D, F);
    from_hidden = MAKE(F, D);
    gain = MAKE(D);
    weft_rms_norm_with_statistics(x, gain, 1e-5, &rstd);
    q = MAKE(B, KV_HEADS, SHARING, T, E);
    k = MAKE(B, KV_HEADS, 1, T, E);
    v = MAKE(B, KV_HEADS, 1, T, E);
    dattended = MAKE(B, KV_HEADS, SHARING, T, E);
    attended = weft_attention_with_log_sums(q, k, v, &causal, &log_sums);
    by_position = MAKE(B, T, KV_HEADS * SHARING, E);
    table = MAKE(CLASSES, D);
    logits = MAKE(ROWS, CLASSES);
    tokens = weft_randint(WEFT_I64, 0, CLASSES, 1, &rows, mesh, NULL);
    classes = weft_randint(WEFT_I64, 0, CLASSES, 1, &rows, mesh, NULL);
    weft_cross_entropy_with_log_sums(logits, classes, NULL, &row_sums);
    for (int i = 0; i < 4; i++) {
        parameters[i] = MAKE(D, F);
        gradients[i] = MAKE(D, F);
        first[i] = weft_zeros_like(parameters[i]);
        second[i] = weft_zeros_like(parameters[i]);
    }
    weft_wait();
    bench_check();
}

static void make_large_tensors(void)
{
    large = MAKE(LARGE_ROWS, LARGE_COLUMNS);
    larger = MAKE(LARGE_ROWS, LARGE_COLUMNS);
    half = weft_to_type(large, WEFT_BF16);
    halves = weft_to_type(larger, WEFT_BF16);
    large_order = weft_randperm(LARGE_ROWS, mesh, NULL);
    large_gain = MAKE(LARGE_COLUMNS);
    large_bias = MAKE(LARGE_COLUMNS);
    large_first = weft_zeros_like(large);
    large_second = weft_zeros_like(large);
    left = MAKE(FACTOR_ROWS, FACTOR_COLUMNS);
    right = MAKE(FACTOR_COLUMNS, FACTOR_COLUMNS);
    left_half = weft_to_type(left, WEFT_BF16);
    right_half = weft_to_type(right, WEFT_BF16);
    images = MAKE(SAMPLES, CHANNELS, SIDE, SIDE);
    filters = MAKE(CHANNELS, CHANNELS, TAPS, TAPS);
    convolved = MAKE(SAMPLES, CHANNELS, SIDE, SIDE);
    long_q = MAKE(HEADS, LENGTH, E);
    long_k = MAKE(HEADS, LENGTH, E);
    long_v = MAKE(HEADS, LENGTH, E);
    long_attended = weft_attention_with_log_sums(long_q, long_k, long_v, NULL, &long_sums);
    weft_wait();
    bench_check();
}

static void run(const operation *o, int repetitions, int calls)
{
    if (o->is_large && large == NULL) {
        make_large_tensors();
    }
    for (int i = 0; i < repetitions; i++) {
        double start = bench_now_us();
        for (int c = 0; c < calls; c++) {
            weft_scope_begin();
            o->call();
            weft_scope_end();
        }
        weft_wait();
        printf("%s%.1f", i == 0 ? "" : " ", (bench_now_us() - start) / calls);
        bench_check();
    }
    printf("\n");
    fflush(stdout);
}

int main(void)
{
    char name[64];
    int repetitions, calls, status = 0;
    if (weft_init(NULL) != WEFT_OK) {
        bench_check();
    }
    make_tensors();
    while (status == 0 && scanf("%63s %d %d", name, &repetitions, &calls) == 3) {
        int found = 0;
        while (found < OPERATIONS && strcmp(operations[found].name, name) != 0) {
            found++;
        }
        if (found < OPERATIONS) {
            run(&operations[found], repetitions, calls);
        } else {
            fprintf(stderr, "bench: there is no operation %s\n", name);
            status = 1;
        }
    }
    weft_finalize();
    return status;
}
