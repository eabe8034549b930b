/* Sorting a rank's part of a line, and merging sorted runs of it: see codelets/sorted_parts.h. */
#include "codelets/sorted_parts.h"

#include <stdlib.h>
#include <string.h>

#include "codelets/cpu/radix.h"
#include "codelets/sort_keys.h"

static uint64_t flip_of(const weft_sorted_part *p)
{
    return p->descending ? UINT64_MAX : 0;
}

static const char *value_at(const weft_sorted_part *p, int64_t i)
{
    return (const char *)p->values + (size_t)(i * p->step) * weft_dtype_size(p->dtype);
}

/* ---- keys alone ---------------------------------------------------------------------------------------- */

/* Writes the keys. False: some do not tell the bits of their values, -0 or NaN. */
static bool load_bare_keys(const weft_sorted_part *p, uint64_t keys[])
{
    const bool whole = weft_sorts_whole(p->dtype);
    const uint64_t zero = weft_sort_key_of_real(0) ^ flip_of(p), nan = UINT64_MAX ^ flip_of(p);
    bool ambiguous = false;
    for (int64_t first = 0, n; first < p->count && !ambiguous; first += n) {
        n = p->count - first < WEFT_SORT_BLOCK ? p->count - first : WEFT_SORT_BLOCK;
        weft_sort_keys(p->dtype, value_at(p, first), p->step, n, flip_of(p), keys + first);
        for (int64_t i = first; i < first + n && !whole; i++) { /* not vectorised */
            ambiguous |= keys[i] == zero || keys[i] == nan;
        }
    }
    return !ambiguous;
}

/* False: the keys do not suffice. */
static bool sort_bare(const weft_sorted_part *p, int64_t wanted)
{
    uint64_t *keys = malloc((2 * (size_t)p->count + 1) * sizeof(*keys));
    bool done = keys != NULL && load_bare_keys(p, keys);
    if (done) {
        weft_values_of_keys(p->dtype, p->sorted, wanted, flip_of(p), weft_sort_bare_keys(keys, keys + p->count, p->count));
    }
    free(keys);
    return done;
}

/* ---- keys with places ---------------------------------------------------------------------------------- */

static void load_entries(const weft_sorted_part *p, weft_sort_entry entries[])
{
    for (int64_t first = 0, n; first < p->count; first += n) {
        uint64_t keys[WEFT_SORT_BLOCK];
        n = p->count - first < WEFT_SORT_BLOCK ? p->count - first : WEFT_SORT_BLOCK;
        weft_sort_keys(p->dtype, value_at(p, first), p->step, n, flip_of(p), keys);
        for (int64_t i = 0; i < n; i++) {
            entries[first + i] = (weft_sort_entry){ keys[i], first + i };
        }
    }
}

/* given[]: the index of the value at a place; NULL: it is p->first and the place. */
static void store(const weft_sorted_part *p, int64_t n, const weft_sort_entry sorted[], const int64_t given[])
{
    const size_t size = weft_dtype_size(p->dtype);
    char *to = p->sorted;
    for (int64_t i = 0; i < n && size == 8; i++) { /* not vectorised */
        memcpy(to + 8 * i * p->sorted_step, (const char *)p->values + 8 * sorted[i].place * p->step, 8);
    }
    for (int64_t i = 0; i < n && size != 8; i++) { /* not vectorised */
        memcpy(to + (size_t)(i * p->sorted_step) * size, value_at(p, sorted[i].place), size);
    }
    for (int64_t i = 0; i < n && p->indices != NULL; i++) { /* not vectorised */
        p->indices[i * p->sorted_step] = given != NULL ? given[sorted[i].place] : p->first + sorted[i].place;
    }
}

size_t weft_sort_room(int64_t count)
{
    return (2 * (size_t)count + 1) * sizeof(weft_sort_entry);
}

void weft_sort_part_in(const weft_sorted_part *p, int64_t wanted, void *room)
{
    weft_sort_entry *entries = room;
    load_entries(p, entries);
    store(p, wanted, weft_first_entries(entries, entries + p->count, p->count, wanted), NULL);
}

bool weft_sort_part(const weft_sorted_part *p, int64_t wanted)
{
    if (p->indices == NULL && p->sorted_step == 1 && wanted > p->count / 16 && p->count > WEFT_SORT_FEW && sort_bare(p, wanted)) {
        return true;
    }
    void *room = malloc(weft_sort_room(p->count));
    if (room != NULL) {
        weft_sort_part_in(p, wanted, room);
    }
    free(room);
    return room != NULL;
}

/* ---- runs ---------------------------------------------------------------------------------------------- */

/* Merges entries begin .. middle - 1 with middle .. end - 1. */
static void merge_two(const weft_sort_entry from[], weft_sort_entry to[], int64_t begin, int64_t middle, int64_t end)
{
    int64_t left = begin, right = middle, at = begin;
    while (left < middle && right < end) {
        const bool second = from[right].key < from[left].key;
        to[at++] = from[second ? right : left];
        right += second;
        left += !second;
    }
    memcpy(to + at, from + left, (size_t)(middle - left) * sizeof(*to));
    memcpy(to + at + middle - left, from + right, (size_t)(end - right) * sizeof(*to));
}

/* Merges runs that follow each other, two at a time, until there is one. Returns the array with it. */
static weft_sort_entry *merge_all(weft_sort_entry *entries, weft_sort_entry *other, int64_t num_runs, const int64_t starts[])
{
    for (int64_t step = 1; step < num_runs; step *= 2) {
        for (int64_t run = 0; run < num_runs; run += 2 * step) {
            const int64_t middle = run + step < num_runs ? run + step : num_runs;
            const int64_t end = middle + step < num_runs ? middle + step : num_runs;
            merge_two(entries, other, starts[run], starts[middle], starts[end]);
        }
        weft_sort_entry *merged = other;
        other = entries;
        entries = merged;
    }
    return entries;
}

bool weft_merge_runs(const weft_sorted_part *p, int64_t num_runs, const int64_t starts[], const int64_t given[])
{
    weft_sort_entry *entries = malloc(weft_sort_room(p->count));
    if (entries == NULL) {
        return false;
    }
    load_entries(p, entries);
    store(p, p->count, merge_all(entries, entries + p->count, num_runs, starts), given);
    free(entries);
    return true;
}

int64_t weft_keys_below(const weft_sorted_part *p, uint64_t key, int64_t low, int64_t high)
{
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        uint64_t at;
        weft_sort_keys(p->dtype, value_at(p, middle), 1, 1, flip_of(p), &at);
        low = at < key ? middle + 1 : low;
        high = at < key ? high : middle;
    }
    return low;
}
