/* Keys of values, and sorting of keys and of keys with places: for the kernels that sort. */
#ifndef WEFT_CODELETS_CPU_RADIX_H
#define WEFT_CODELETS_CPU_RADIX_H

#include <weft/base.h>

enum { WEFT_SORT_BLOCK = 512, WEFT_SORT_FEW = 48 }; /* up to so many entries: insertion sort */

typedef struct weft_sort_entry {
    uint64_t key;
    int64_t place;
} weft_sort_entry;

/* Whether values of a type become keys as whole numbers. */
bool weft_sorts_whole(weft_dtype type);
/* The keys of n <= WEFT_SORT_BLOCK values, `stride` elements apart (codelets/sort_keys.h). `flip`: all ones for descending order. */
void weft_sort_keys(weft_dtype type, const void *from, int64_t stride, int64_t n, uint64_t flip, uint64_t keys[]);
/* The values with these keys, one after the other; NaN and -0 do not come back. */
void weft_values_of_keys(weft_dtype type, void *to, int64_t n, uint64_t flip, const uint64_t keys[]);

/* Sort by keys; entries with equal keys keep their order. `other`: room for equally many. Return the array with the result,
 * one of the two. */
weft_sort_entry *weft_sort_entries(weft_sort_entry *entries, weft_sort_entry *other, int64_t n);
/* The first `wanted` entries of the order. */
weft_sort_entry *weft_first_entries(weft_sort_entry *entries, weft_sort_entry *other, int64_t n, int64_t wanted);
uint64_t *weft_sort_bare_keys(uint64_t *keys, uint64_t *other, int64_t n);

#endif
