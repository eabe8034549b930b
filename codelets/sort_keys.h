/* Values as integers with the same order: for the C compiler and for nvcc. */
#ifndef WEFT_CODELETS_SORT_KEYS_H
#define WEFT_CODELETS_SORT_KEYS_H

#include "codelets/functions.h"

/* NaN is larger than all other values; both zeros are equal. */
WEFT_INLINE uint64_t weft_sort_key_of_real(double x)
{
    const uint64_t sign = UINT64_C(1) << 63;
    if (x != x) {
        return UINT64_MAX;
    }
    const uint64_t bits = weft_bits_of_double(x + 0.0); /* -0 becomes +0 */
    return bits & sign ? ~bits : bits | sign;
}

/* The same order, for values in single precision. */
WEFT_INLINE uint32_t weft_sort_key_of_float(float x)
{
    const uint32_t sign = UINT32_C(1) << 31;
    if (x != x) {
        return UINT32_MAX;
    }
    const uint32_t bits = weft_bits_of_float(x + 0.0f);
    return bits & sign ? ~bits : bits | sign;
}

WEFT_INLINE uint64_t weft_sort_key_of_whole(int64_t x)
{
    return (uint64_t)x ^ UINT64_C(1) << 63;
}

/* The values with these keys; +0 and a NaN for those that have one key. */
WEFT_INLINE double weft_real_of_sort_key(uint64_t key)
{
    const uint64_t sign = UINT64_C(1) << 63;
    return weft_double_of_bits(key & sign ? key ^ sign : ~key);
}

WEFT_INLINE int64_t weft_whole_of_sort_key(uint64_t key)
{
    return (int64_t)(key ^ UINT64_C(1) << 63);
}

#endif
