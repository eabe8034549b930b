/* Random words and numbers made of them: for the C compiler and for nvcc. */
#ifndef WEFT_CODELETS_RANDOM_WORDS_H
#define WEFT_CODELETS_RANDOM_WORDS_H

#include <math.h>

#include <weft/kernel.h>

#include "codelets/half.h"

enum { WEFT_RANDOM_WORDS = 4 }; /* of a block */

/* Block number `block` of a state. */
WEFT_INLINE void weft_random_block(uint64_t seed, uint64_t offset, uint64_t block, uint32_t out[WEFT_RANDOM_WORDS])
{
    const weft_random_state state = { seed, offset };
    weft_random_words(&state, block, out);
}

/* Two words as a number in [0, 1). */
WEFT_INLINE double weft_unit_of_words(const uint32_t words[2])
{
    uint64_t bits = (uint64_t)words[1] << 32 | words[0];
    return (double)(bits >> 11) * 0x1p-53;
}

/* The next smaller 16-bit number of either type, as bits. */
WEFT_INLINE uint16_t weft_half_below(uint16_t half)
{
    return half == 0 ? 0x8001u : (uint16_t)(half & 0x8000u ? half + 1 : half - 1);
}

WEFT_INLINE uint16_t weft_f16_rounded_down(float value)
{
    uint16_t half = weft_f32_to_f16(value);
    return weft_f16_to_f32(half) > value ? weft_half_below(half) : half;
}

WEFT_INLINE uint16_t weft_bf16_rounded_down(float value)
{
    uint16_t half = weft_f32_to_bf16(value);
    return weft_bf16_to_f32(half) > value ? weft_half_below(half) : half;
}

WEFT_INLINE float weft_f32_rounded_down(double value)
{
    float rounded = (float)value;
    return (double)rounded > value ? nextafterf(rounded, -INFINITY) : rounded;
}

/* The upper 64 bits of a product. */
WEFT_INLINE uint64_t weft_high_product(uint64_t a, uint64_t b)
{
    uint64_t a0 = (uint32_t)a, a1 = a >> 32, b0 = (uint32_t)b, b1 = b >> 32;
    uint64_t middle = a1 * b0 + (a0 * b0 >> 32), other = a0 * b1 + (uint32_t)middle;
    return a1 * b1 + (middle >> 32) + (other >> 32);
}

/* A permutation of 0 .. 2^bits - 1 computed per element: a Feistel network, whose rounds add a random
 * function of one half of the bits to the other half. */
enum { WEFT_NETWORK_ROUNDS = 12, WEFT_NETWORK_MIN_BITS = 8 };

typedef struct weft_network {
    int right_bits;
    uint64_t left_mask, right_mask;
    uint64_t keys[WEFT_NETWORK_ROUNDS];
} weft_network;

/* The domain is at least twice the number of elements: values outside are skipped, which also makes even
 * and odd permutations equally probable. */
WEFT_INLINE weft_network weft_network_of(uint64_t seed, uint64_t offset, uint64_t n)
{
    int bits = WEFT_NETWORK_MIN_BITS;
    while (bits < 63 && (UINT64_C(1) << bits) < 2 * n) {
        bits++;
    }
    weft_network net;
    net.right_bits = bits / 2;
    net.right_mask = (UINT64_C(1) << net.right_bits) - 1;
    net.left_mask = (UINT64_C(1) << (bits - net.right_bits)) - 1;
    for (int i = 0; i < WEFT_NETWORK_ROUNDS; i += 2) {
        uint32_t words[WEFT_RANDOM_WORDS];
        weft_random_block(seed, offset, (uint64_t)i / 2, words);
        net.keys[i] = (uint64_t)words[1] << 32 | words[0];
        net.keys[i + 1] = (uint64_t)words[3] << 32 | words[2];
    }
    return net;
}

/* 64-bit mixing: two rounds of shift and odd factor. */
WEFT_INLINE uint64_t weft_mix(uint64_t x)
{
    x = (x ^ x >> 32) * UINT64_C(0xD2511F5309A2B4C5);
    x = (x ^ x >> 29) * UINT64_C(0x9E3779B97F4A7C15);
    return x ^ x >> 32;
}

WEFT_INLINE uint64_t weft_permuted(const weft_network *net, uint64_t x)
{
    uint64_t left = x >> net->right_bits, right = x & net->right_mask;
    for (int i = 0; i < WEFT_NETWORK_ROUNDS; i += 2) {
        left ^= weft_mix(right ^ net->keys[i]) & net->left_mask;
        right ^= weft_mix(left ^ net->keys[i + 1]) & net->right_mask;
    }
    return left << net->right_bits | right;
}

#endif
