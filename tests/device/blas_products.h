/* Products of the libraries that stand for cuBLAS and cuBLASLt, in the devices' process. Column-major matrices; sums are in double
 * precision, rounded once. */
#ifndef WEFT_TESTS_BLAS_PRODUCTS_H
#define WEFT_TESTS_BLAS_PRODUCTS_H

#include <cuda_runtime_api.h>

#include <cmath>
#include <cstring>

#include "codelets/half.h"
#include "stand_in.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace
{

struct matrix {
    const void *data;
    cudaDataType type;
    int64_t stride, step; /* from column to column, from product to product */
};

struct products {
    bool transpose_a, transpose_b, tf32;
    int64_t m, n, k, count;
    double alpha, beta;
    matrix a, b, c;
    matrix bias; /* a number for each row of C; no data: 0 */
};

double value_at(const matrix &of, int64_t place)
{
    switch (of.type) {
    case CUDA_R_64F:
        return static_cast<const double *>(of.data)[place];
    case CUDA_R_32F:
        return static_cast<const float *>(of.data)[place];
    case CUDA_R_16BF:
        return weft_bf16_to_f32(static_cast<const uint16_t *>(of.data)[place]);
    default:
        return weft_f16_to_f32(static_cast<const uint16_t *>(of.data)[place]);
    }
}

/* 10 bits behind the first one, rounded to nearest even. */
double to_tf32(double value)
{
    uint32_t bits = weft_bits_of_float(static_cast<float>(value));
    bits = std::isfinite(value) ? (bits + 0xfffu + (bits >> 13 & 1u)) & ~0x1fffu : bits;
    return weft_float_of_bits(bits);
}

double operand(const products &p, const matrix &of, int64_t number, int64_t row, int64_t column)
{
    double value = value_at(of, number * of.step + column * of.stride + row);
    return p.tf32 && of.type == CUDA_R_32F ? to_tf32(value) : value;
}

/* A stand_in_runner: all threads at once. */
void run_products(void (*)(void), const void *argument, unsigned, unsigned, stand_in_order)
{
    products p;
    std::memcpy(static_cast<void *>(&p), argument, sizeof(p));
    for (int64_t number = 0; number < p.count; number++) {
        for (int64_t j = 0; j < p.n; j++) {
            for (int64_t i = 0; i < p.m; i++) {
                double sum = 0;
                for (int64_t l = 0; l < p.k; l++) {
                    sum += operand(p, p.a, number, p.transpose_a ? l : i, p.transpose_a ? i : l) *
                           operand(p, p.b, number, p.transpose_b ? j : l, p.transpose_b ? l : j);
                }
                int64_t place = number * p.c.step + j * p.c.stride + i;
                double value = p.alpha * sum + (p.beta == 0 ? 0 : p.beta * value_at(p.c, place)) +
                               (p.bias.data == nullptr ? 0 : value_at(p.bias, i));
                if (p.c.type == CUDA_R_64F) {
                    static_cast<double *>(const_cast<void *>(p.c.data))[place] = value;
                } else if (p.c.type == CUDA_R_32F) {
                    static_cast<float *>(const_cast<void *>(p.c.data))[place] = static_cast<float>(value);
                } else {
                    float rounded = static_cast<float>(value);
                    static_cast<uint16_t *>(const_cast<void *>(p.c.data))[place] =
                        p.c.type == CUDA_R_16BF ? weft_f32_to_bf16(rounded) : weft_f32_to_f16(rounded);
                }
            }
        }
    }
}

void all_products()
{
}

}

#endif
