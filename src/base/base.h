/* src/base: used by every level. Status and type names (weft/base.h), checked arithmetic, growable arrays,
 * hashes; map.h: the hash map; lru.h: a budget for kept data; text.h: the text builder; handles.h; disk.h: files.
 * Pure C: no threads, no StarPU, no MPI. */
#ifndef WEFT_SRC_BASE_H
#define WEFT_SRC_BASE_H

#include <weft/base.h>

#define WEFT_ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#if defined(__GNUC__)
#define WEFT_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define WEFT_PRINTF(text, first)
#endif

static inline int64_t weft_min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t weft_max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Below, at or above 0, as qsort() wants it. */
static inline int weft_compare_i64(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

/* ceil(a / b) for a >= 0, b > 0 */
static inline int64_t weft_ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

/* Rounded towards minus infinity; b > 0. */
static inline int64_t weft_floor_div_i64(int64_t a, int64_t b)
{
    return a >= 0 ? a / b : -((b - 1 - a) / b);
}

/* As malloc() aligns: up to a multiple of 16 bytes. */
static inline size_t weft_aligned(size_t bytes)
{
    return (bytes + 15) / 16 * 16;
}

/* Products and sums of non-negative sizes. False: overflow, *out is unchanged. */
bool weft_mul_checked(int64_t a, int64_t b, int64_t *out);
bool weft_add_checked(int64_t a, int64_t b, int64_t *out);
/* Operands are not negative; INT64_MAX on overflow, and from operands of INT64_MAX. */
static inline int64_t weft_mul_saturated(int64_t a, int64_t b)
{
    int64_t product;
    return weft_mul_checked(a, b, &product) ? product : INT64_MAX;
}

static inline int64_t weft_add_saturated(int64_t a, int64_t b)
{
    return b > INT64_MAX - a ? INT64_MAX : a + b;
}

static inline int64_t weft_sub_saturated(int64_t a, int64_t b)
{
    return a == INT64_MAX ? a : a - b;
}
/* \} */
/* Number of elements of a shape, 1 for ndim 0. False on overflow. */
bool weft_count_checked(int ndim, const int64_t shape[], int64_t *out);

/* A growable array: `items` points to `count` elements of the type that the user casts to.
 * Zero-initialise. */
typedef struct weft_vec {
    void *items;
    size_t count;
    size_t capacity;
} weft_vec;

/* Appends a zeroed element of `size` bytes and returns its address; NULL: no memory. Addresses of all
 * elements may change. */
void *weft_vec_push(weft_vec *vec, size_t size);
/* Makes room for `count` elements in all. False: no memory. */
bool weft_vec_reserve(weft_vec *vec, size_t count, size_t size);
/* Frees unused room. */
void weft_vec_trim(weft_vec *vec, size_t size);
void weft_vec_free(weft_vec *vec);

/* 64-bit mixing (the finaliser of MurmurHash3 by A. Appleby) and the hash of a block of bytes built on it. */
uint64_t weft_hash_u64(uint64_t x);
uint64_t weft_hash_bytes(const void *data, size_t size, uint64_t seed);
/* Extends a digest: one multiplication per word, the same on every machine. */
static inline uint64_t weft_digest_add(uint64_t so_far, uint64_t word)
{
    so_far = (so_far ^ word) * UINT64_C(0x9e3779b97f4a7c15) + UINT64_C(0xd1b54a32d192ed03);
    return so_far ^ (so_far >> 32);
}
/* Extends a digest by a text. */
uint64_t weft_digest_text(uint64_t so_far, const char *text);

#endif
