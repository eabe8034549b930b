/* The random numbers of all tests: the same on every process and every machine. */
#ifndef WEFT_TESTS_PRNG_H
#define WEFT_TESTS_PRNG_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "mpirun.h"

/* The first of weft_dtype; the others are complex. */
enum { REAL_TYPES = 8 };

/* splitmix64 (Steele, Lea and Flood: Fast Splittable Pseudorandom Number Generators, 2014). */
typedef struct prng {
    uint64_t state;
} prng;

static inline uint64_t prng_next(prng *random)
{
    uint64_t z = random->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* 0 .. n - 1 */
static inline int64_t prng_below(prng *random, int64_t n)
{
    return (int64_t)(prng_next(random) % (uint64_t)n);
}

/* Seeded by WEFT_TEST_SEED, else by `seed`; the first process prints which. */
static inline prng prng_start(uint64_t seed)
{
    const char *text = getenv("WEFT_TEST_SEED");
    if (text != NULL) {
        seed = strtoull(text, NULL, 0);
    }
    if (mpirun_process() <= 0) {
        printf("# WEFT_TEST_SEED=%" PRIu64 "\n", seed);
    }
    return (prng){ seed };
}

/* WEFT_TEST_SHARE, which script/test sets: of random cases one in so many is run. */
static inline int test_share(void)
{
    const char *text = getenv("WEFT_TEST_SHARE");
    return text == NULL || atoi(text) < 1 ? 1 : atoi(text);
}

static inline int share_of(int all)
{
    return all <= test_share() ? 1 : all / test_share();
}

/* WEFT_TEST_CASES, or a share of `usual`. */
static inline int cases_to_run(int usual)
{
    const char *text = getenv("WEFT_TEST_CASES");
    return text != NULL && *text != '\0' ? atoi(text) : share_of(usual);
}

#endif
