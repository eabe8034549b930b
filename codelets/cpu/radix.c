/* Radix sort by bytes, lowest first, where bytes that are equal in all keys are skipped; and a heap for the first few of many. */
#include "codelets/cpu/radix.h"

#include <string.h>

#include "codelets/convert.h"
#include "codelets/cpu/vectors.h"
#include "codelets/sort_keys.h"

enum { BYTES = 8, VALUES = 256 };

/* ---- keys ---------------------------------------------------------------------------------------------- */

typedef union block {
    double f64[WEFT_SORT_BLOCK];
    int64_t i64[WEFT_SORT_BLOCK];
} block;

bool weft_sorts_whole(weft_dtype type)
{
    return type >= WEFT_I64;
}

void weft_sort_keys(weft_dtype type, const void *from, int64_t stride, int64_t n, uint64_t flip, uint64_t keys[])
{
    block values;
    const bool whole = weft_sorts_whole(type);
    weft_load(whole ? WEFT_I64 : WEFT_F64, &values, type, from, stride, n);
    weft_flip_order(type, values.i64, n);
    for (int64_t i = 0; i < n && whole; i++) { /* not vectorised */
        keys[i] = weft_sort_key_of_whole(values.i64[i]) ^ flip;
    }
    for (int64_t i = 0; i < n && !whole; i++) { /* not vectorised */
        keys[i] = weft_sort_key_of_real(values.f64[i]) ^ flip;
    }
}

void weft_values_of_keys(weft_dtype type, void *to, int64_t n, uint64_t flip, const uint64_t keys[])
{
    const bool whole = weft_sorts_whole(type);
    block values;
    for (int64_t first = 0, count; first < n; first += count) {
        count = n - first < WEFT_SORT_BLOCK ? n - first : WEFT_SORT_BLOCK;
        for (int64_t i = 0; i < count && whole; i++) { /* not vectorised */
            values.i64[i] = weft_whole_of_sort_key(keys[first + i] ^ flip);
        }
        for (int64_t i = 0; i < count && !whole; i++) { /* not vectorised */
            values.f64[i] = weft_real_of_sort_key(keys[first + i] ^ flip);
        }
        weft_flip_order(type, values.i64, count);
        weft_store(type, (char *)to + (size_t)first * weft_dtype_size(type), 1, whole ? WEFT_I64 : WEFT_F64, &values, count);
    }
}

/* ---- passes -------------------------------------------------------------------------------------------- */

/* From how many keys have each value of a byte, to where the first of them goes. False: all have the same, and nothing moves. */
static bool find_starts(int64_t counts[VALUES], uint64_t any_key, int byte, int64_t n)
{
    if (counts[any_key >> 8 * byte & 255] == n) {
        return false;
    }
    int64_t next = 0;
    for (int value = 0; value < VALUES; value++) { /* not vectorised */
        int64_t count = counts[value];
        counts[value] = next;
        next += count;
    }
    return true;
}

static void insertion_sort(weft_sort_entry entries[], int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        weft_sort_entry moved = entries[i];
        int64_t at = i;
        for (; at > 0 && entries[at - 1].key > moved.key; at--) {
            entries[at] = entries[at - 1];
        }
        entries[at] = moved;
    }
}

weft_sort_entry *weft_sort_entries(weft_sort_entry *entries, weft_sort_entry *other, int64_t n)
{
    if (n <= WEFT_SORT_FEW) {
        insertion_sort(entries, n);
        return entries;
    }
    int64_t counts[BYTES][VALUES] = { { 0 } };
    for (int64_t i = 0; i < n; i++) {
        for (int byte = 0; byte < BYTES; byte++) {
            counts[byte][entries[i].key >> 8 * byte & 255]++;
        }
    }
    for (int byte = 0; byte < BYTES; byte++) {
        int64_t *starts = counts[byte];
        if (!find_starts(starts, entries[0].key, byte, n)) {
            continue;
        }
        for (int64_t i = 0; i < n; i++) { /* not vectorised */
            other[starts[entries[i].key >> 8 * byte & 255]++] = entries[i];
        }
        weft_sort_entry *sorted = other;
        other = entries;
        entries = sorted;
    }
    return entries;
}

uint64_t *weft_sort_bare_keys(uint64_t *keys, uint64_t *other, int64_t n)
{
    int64_t counts[BYTES][VALUES] = { { 0 } };
    for (int64_t i = 0; i < n; i++) {
        for (int byte = 0; byte < BYTES; byte++) {
            counts[byte][keys[i] >> 8 * byte & 255]++;
        }
    }
    for (int byte = 0; byte < BYTES && n > 0; byte++) {
        int64_t *starts = counts[byte];
        if (!find_starts(starts, keys[0], byte, n)) {
            continue;
        }
        for (int64_t i = 0; i < n; i++) { /* not vectorised */
            other[starts[keys[i] >> 8 * byte & 255]++] = keys[i];
        }
        uint64_t *sorted = other;
        other = keys;
        keys = sorted;
    }
    return keys;
}

/* ---- the first ones -------------------------------------------------------------------------------------- */

static bool comes_before(weft_sort_entry a, weft_sort_entry b)
{
    return a.key < b.key || (a.key == b.key && a.place < b.place);
}

/* Heap with the last weft_sort_entry of the order on top. */
static void sift_down(weft_sort_entry heap[], int64_t n, int64_t at)
{
    for (int64_t child = 2 * at + 1; child < n; child = 2 * at + 1) {
        child += child + 1 < n && comes_before(heap[child], heap[child + 1]);
        if (!comes_before(heap[at], heap[child])) {
            return;
        }
        weft_sort_entry below = heap[child];
        heap[child] = heap[at];
        heap[at] = below;
        at = child;
    }
}

/* Moves the first `wanted` entries of the order to the front, sorted. */
static void select_first(weft_sort_entry entries[], int64_t n, int64_t wanted)
{
    for (int64_t at = wanted / 2 - 1; at >= 0; at--) {
        sift_down(entries, wanted, at);
    }
    for (int64_t i = wanted; i < n; i++) {
        if (comes_before(entries[i], entries[0])) {
            entries[0] = entries[i];
            sift_down(entries, wanted, 0);
        }
    }
    for (int64_t left = wanted - 1; left > 0; left--) {
        weft_sort_entry last = entries[0];
        entries[0] = entries[left];
        entries[left] = last;
        sift_down(entries, left, 0);
    }
}

weft_sort_entry *weft_first_entries(weft_sort_entry *entries, weft_sort_entry *other, int64_t n, int64_t wanted)
{
    if (n > WEFT_SORT_FEW && wanted <= n / 16) { /* comparing with the heap's top costs less than passes over all bytes */
        select_first(entries, n, wanted);
        return entries;
    }
    return weft_sort_entries(entries, other, n);
}
