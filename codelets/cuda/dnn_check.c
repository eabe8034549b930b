/* Checks cuDNN's gradients of attention before they are used. Versions of cuDNN accept a graph and then compute something else than
 * it says, and no documentation tells which. So a queue computes a small case before its first gradients of a type, and compares it
 * with the host. */
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codelets/attention.h"
#include "codelets/cuda/dnn_check.h"
#include "codelets/cuda/products.h"
#include "codelets/half.h"

enum { ROWS = 128, WIDTH = 64, MATRIX = ROWS * WIDTH };
enum { Q, K, V, GRADIENT, INPUTS };

/* All of one head: rows see the keys up to their own. */
typedef struct small_case {
    uint16_t narrow[INPUTS][MATRIX];
    float statistics[ROWS * WEFT_ATTENTION_STATISTICS];
    float found[3][MATRIX]; /* gradients of q, k, v */
    double wide[INPUTS][MATRIX], expected[3][MATRIX];
} small_case;

static void fill_inputs(small_case *c, int64_t type)
{
    uint32_t state = 1;
    for (int n = 0; n < INPUTS; n++) {
        for (int i = 0; i < MATRIX; i++) {
            state = state * 1664525 + 1013904223;
            const double value = (double)((int)(state >> 24) - 128) / 64; /* -2 to 2, 8 bits */
            c->narrow[n][i] = type == WEFT_BF16 ? weft_f32_to_bf16((float)value) : weft_f32_to_f16((float)value);
            c->wide[n][i] = type == WEFT_BF16 ? (double)weft_bf16_to_f32(c->narrow[n][i]) : (double)weft_f16_to_f32(c->narrow[n][i]);
        }
    }
}

static double dot(const double *a, const double *b)
{
    double sum = 0;
    for (int i = 0; i < WIDTH; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

static void add_to(double *sums, double factor, const double *row)
{
    for (int i = 0; i < WIDTH; i++) {
        sums[i] += factor * row[i];
    }
}

/* Computes the statistics of one row, and adds its part of the gradients. */
static void differentiate_row(small_case *c, int row, double scale)
{
    double weights[ROWS], slopes[ROWS], sum = 0, product = 0;
    const double *q = c->wide[Q] + row * WIDTH, *gradient = c->wide[GRADIENT] + row * WIDTH;
    for (int key = 0; key <= row; key++) {
        weights[key] = exp(scale * dot(q, c->wide[K] + key * WIDTH));
        slopes[key] = dot(gradient, c->wide[V] + key * WIDTH);
        sum += weights[key];
        product += weights[key] * slopes[key];
    }
    product /= sum;
    c->statistics[row * WEFT_ATTENTION_STATISTICS + WEFT_ATTENTION_LOG_SUM] = (float)log(sum);
    c->statistics[row * WEFT_ATTENTION_STATISTICS + WEFT_ATTENTION_PRODUCT] = (float)product;
    for (int key = 0; key <= row; key++) {
        const double weight = weights[key] / sum, slope = weight * (slopes[key] - product) * scale;
        add_to(c->expected[0] + row * WIDTH, slope, c->wide[K] + key * WIDTH);
        add_to(c->expected[1] + key * WIDTH, slope, q);
        add_to(c->expected[2] + key * WIDTH, weight, gradient);
    }
}

/* The errors of 16-bit weights and slopes are some 2^-8 of the largest values; what is wrong is off by much more. */
static bool is_right(const small_case *c)
{
    for (int n = 0; n < 3; n++) {
        double largest = 0, error = 0;
        for (int i = 0; i < MATRIX; i++) {
            largest = fmax(largest, fabs(c->expected[n][i]));
            const double difference = fabs(c->found[n][i] - c->expected[n][i]);
            error = difference <= error ? error : difference; /* NaN stays */
        }
        if (!(error <= largest / 32)) {
            return false;
        }
    }
    return true;
}

/* In scratch memory: this queue's tasks follow each other. */
static bool run(small_case *c, int64_t type, double scale, weft_cuda_queue *queue, weft_dnn_compute compute)
{
    const size_t narrow = sizeof(c->narrow), statistics = sizeof(c->statistics), found = sizeof(c->found);
    void *scratch;
    size_t bytes;
    if (weft_cuda_scratch(queue, &scratch, &bytes) != 0 || bytes < narrow + statistics + found) {
        return false;
    }
    char *inputs = scratch;
    float *rows = (float *)(void *)(inputs + narrow), *results = (float *)(void *)(inputs + narrow + statistics);
    const weft_dnn_gradients g = { .sizes = { .type = type, .groups = 1, .shared = 1, .rows = ROWS, .keys = ROWS, .depth = WIDTH,
                                              .width = WIDTH, .q_step = MATRIX, .k_step = MATRIX, .v_step = MATRIX, .result_step = MATRIX,
                                              .row_step = ROWS * WEFT_ATTENTION_STATISTICS, .causal = true },
                                   .scale = scale,
                                   .q = inputs + Q * sizeof(c->narrow[0]),
                                   .k = inputs + K * sizeof(c->narrow[0]),
                                   .v = inputs + V * sizeof(c->narrow[0]),
                                   .gradient = inputs + GRADIENT * sizeof(c->narrow[0]),
                                   .statistics = rows,
                                   .of_q = results,
                                   .of_k = results + MATRIX,
                                   .of_v = results + 2 * MATRIX,
                                   .of_q_step = MATRIX,
                                   .of_k_step = MATRIX,
                                   .of_k_row = WIDTH,
                                   .of_v_step = MATRIX,
                                   .of_v_row = WIDTH };
    cudaStream_t stream = (cudaStream_t)queue->stream;
    return cudaMemcpyAsync(inputs, c->narrow, narrow, cudaMemcpyHostToDevice, stream) == cudaSuccess &&
           cudaMemcpyAsync(rows, c->statistics, statistics, cudaMemcpyHostToDevice, stream) == cudaSuccess && compute(&g, queue) &&
           cudaMemcpyAsync(c->found, results, found, cudaMemcpyDeviceToHost, stream) == cudaSuccess &&
           cudaStreamSynchronize(stream) == cudaSuccess;
}

static bool is_silent(void)
{
    const char *text = getenv("WEFT_SILENT");
    return text != NULL && strcmp(text, "0") != 0;
}

bool weft_dnn_check_gradients(int64_t type, weft_cuda_queue *queue, weft_dnn_compute compute)
{
    const double scale = 0.125;
    small_case *c = calloc(1, sizeof(*c));
    if (c == NULL) {
        return false;
    }
    fill_inputs(c, type);
    for (int row = 0; row < ROWS; row++) {
        differentiate_row(c, row, scale);
    }
    const bool ran = run(c, type, scale, queue, compute), right = ran && is_right(c);
    if (!ran) {
        cudaGetLastError(); /* else the next launch would have it */
    } else if (!right && !is_silent()) {
        fprintf(stderr, "weft: this version of cuDNN computes other gradients of attention in %s than it should: weft's own kernels are used\n",
                type == WEFT_BF16 ? "bf16" : "f16");
    }
    free(c);
    return right;
}
