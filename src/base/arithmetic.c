#include "base/base.h"

bool weft_mul_checked(int64_t a, int64_t b, int64_t *out)
{
    if (a != 0 && b > INT64_MAX / a) {
        return false;
    }
    *out = a * b;
    return true;
}

bool weft_add_checked(int64_t a, int64_t b, int64_t *out)
{
    if (b > INT64_MAX - a) {
        return false;
    }
    *out = a + b;
    return true;
}

bool weft_count_checked(int ndim, const int64_t shape[], int64_t *out)
{
    int64_t count = 1;
    for (int d = 0; d < ndim; d++) {
        if (!weft_mul_checked(count, shape[d], &count)) {
            return false;
        }
    }
    *out = count;
    return true;
}

uint64_t weft_hash_u64(uint64_t x)
{
    x ^= x >> 33;
    x *= UINT64_C(0xff51afd7ed558ccd);
    x ^= x >> 33;
    x *= UINT64_C(0xc4ceb9fe1a85ec53);
    return x ^ (x >> 33);
}

uint64_t weft_hash_bytes(const void *data, size_t size, uint64_t seed)
{
    const unsigned char *bytes = data;
    uint64_t hash = weft_hash_u64(seed + UINT64_C(0x9e3779b97f4a7c15) + size);
    while (size > 0) {
        size_t take = size < 8 ? size : 8;
        uint64_t word = 0;
        for (size_t i = 0; i < take; i++) {
            word |= (uint64_t)bytes[i] << (8 * i);
        }
        hash = weft_hash_u64(hash ^ word) + UINT64_C(0x9e3779b97f4a7c15);
        bytes += take;
        size -= take;
    }
    return hash;
}
