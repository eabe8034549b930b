/* Sorting of a line that several ranks hold parts of: what a rank does with its own part. Values are ordered by their keys
 * (codelets/sort_keys.h), stable, NaN last; descending order has the complements of the keys. */
#ifndef WEFT_CODELETS_SORTED_PARTS_H
#define WEFT_CODELETS_SORTED_PARTS_H

#include <weft/base.h>

typedef struct weft_sorted_part {
    weft_dtype dtype;
    bool descending;
    int64_t count;        /* of values */
    const void *values;
    int64_t step;         /* from value to value, in elements */
    int64_t first;        /* the index of the first value in the whole line */
    void *sorted;         /* the result: the values, bit for bit */
    int64_t *indices;     /* and their indices in the whole line; NULL: not wanted */
    int64_t sorted_step;  /* from element to element of both results */
} weft_sorted_part;

/* Sorts a part; the result has the first `wanted` values of the order. False: no memory. */
bool weft_sort_part(const weft_sorted_part *p, int64_t wanted);
/* The same in room[], of weft_sort_room(p->count) bytes. */
void weft_sort_part_in(const weft_sorted_part *p, int64_t wanted, void *room);
size_t weft_sort_room(int64_t count);
/* Merges sorted runs, of which number i has the values from starts[i] to starts[i + 1] - 1: equal values in the order of the runs.
 * given[]: the values' indices; NULL if p->indices is. `first` is not read. False: no memory. */
bool weft_merge_runs(const weft_sorted_part *p, int64_t num_runs, const int64_t starts[], const int64_t given[]);
/* How many values of a sorted part, p->values, have smaller keys: at least `low`, at most `high`. */
int64_t weft_keys_below(const weft_sorted_part *p, uint64_t key, int64_t low, int64_t high);

#endif
