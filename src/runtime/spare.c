#define _DEFAULT_SOURCE /* madvise() */
#include "runtime/spare.h"

#include <starpu.h>
#include <string.h>
#include <sys/mman.h>

/* Smaller memory is left to StarPU and the C library. */
enum { LEAST_BYTES = 1 << 16 };

enum { HUGE_PAGE = 2 << 20 };

/* Four classes for each power of two, so that at most a fifth of the memory is more than was asked for. */
static int class_of(int64_t bytes, int64_t *rounded)
{
    int power = 0;
    while (bytes > (int64_t)LEAST_BYTES << power) {
        power++;
    }
    const int64_t most = (int64_t)LEAST_BYTES << power, step = most / 8;
    const int64_t steps = power == 0 ? 8 : weft_ceil_div(bytes, step); /* 5 to 8 */
    *rounded = steps * step;
    return power * 4 + (int)(steps - 5);
}

void *weft_spare_allocate(weft_spares *spares, int64_t bytes)
{
    void *memory = NULL;
    int64_t rounded = bytes;
    if (bytes > INT64_C(1) << 60) { /* beyond the classes, and any memory */
        return NULL;
    }
    if (bytes >= LEAST_BYTES) {
        void **first = &spares->first[class_of(bytes, &rounded)];
        memory = *first;
        if (memory != NULL) {
            memcpy(first, memory, sizeof(void *));
            spares->bytes -= rounded;
            return memory;
        }
    }
    if (starpu_malloc_flags(&memory, (size_t)rounded, STARPU_MALLOC_PINNED) == 0) {
        return memory;
    }
    weft_spares_clear(spares);
    return starpu_malloc_flags(&memory, (size_t)rounded, STARPU_MALLOC_PINNED) == 0 ? memory : NULL;
}

void weft_spare_free(weft_spares *spares, void *memory, int64_t bytes, int64_t most)
{
    int64_t rounded = bytes;
    if (bytes >= LEAST_BYTES) {
        void **first = &spares->first[class_of(bytes, &rounded)];
        if (spares->bytes + rounded <= most) {
            memcpy(memory, first, sizeof(void *));
            *first = memory;
            spares->bytes += rounded;
            return;
        }
    }
    starpu_free_flags(memory, (size_t)rounded, STARPU_MALLOC_PINNED);
}

/* The rounded bytes of a class. */
static int64_t bytes_of(int number)
{
    return (5 + number % 4) * (((int64_t)LEAST_BYTES << number / 4) / 8);
}

void weft_spares_clear(weft_spares *spares)
{
    for (int i = 0; i < WEFT_SPARE_CLASSES; i++) {
        while (spares->first[i] != NULL) {
            void *memory = spares->first[i];
            memcpy(&spares->first[i], memory, sizeof(void *));
            starpu_free_flags(memory, (size_t)bytes_of(i), STARPU_MALLOC_PINNED);
        }
    }
    spares->bytes = 0;
}

void weft_use_huge_pages(char *memory, int64_t bytes)
{
#ifdef MADV_HUGEPAGE
    const uintptr_t mask = HUGE_PAGE - 1;
    size_t before = (size_t)(-(uintptr_t)memory & mask), whole = ((size_t)bytes - before) & ~(size_t)mask;
    if (bytes >= 2 * HUGE_PAGE) {
        madvise(memory + before, whole, MADV_HUGEPAGE); /* a hint: it may fail */
    }
#else
    (void)memory, (void)bytes;
#endif
}
