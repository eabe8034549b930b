#include <string.h>

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

/* Little-endian: one load of 8 bytes on such machines. */
static inline uint64_t word_of(const unsigned char bytes[], size_t size)
{
    uint64_t word = 0;
    for (size_t i = 0; i < size; i++) {
        word |= (uint64_t)bytes[i] << (8 * i);
    }
    return word;
}

uint64_t weft_digest_text(uint64_t digest, const char *text)
{
    const unsigned char *bytes = (const unsigned char *)text;
    size_t size = strlen(text);
    digest = weft_digest_add(digest, size);
    for (; size >= 8; bytes += 8, size -= 8) {
        digest = weft_digest_add(digest, word_of(bytes, 8));
    }
    return size > 0 ? weft_digest_add(digest, word_of(bytes, size)) : digest;
}

uint64_t weft_hash_bytes(const void *data, size_t size, uint64_t seed)
{
    const unsigned char *bytes = data;
    uint64_t hash = weft_hash_u64(seed + UINT64_C(0x9e3779b97f4a7c15) + size);
    for (; size >= 8; bytes += 8, size -= 8) {
        hash = weft_hash_u64(hash ^ word_of(bytes, 8)) + UINT64_C(0x9e3779b97f4a7c15);
    }
    if (size > 0) {
        hash = weft_hash_u64(hash ^ word_of(bytes, size)) + UINT64_C(0x9e3779b97f4a7c15);
    }
    return hash;
}
