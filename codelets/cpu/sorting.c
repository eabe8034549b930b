/* Sorting: values become integers with the same order, which are sorted by radix. */
#include "codelets/sorting.h"

#include <stdlib.h>
#include <string.h>

#include "codelets/convert.h"
#include "codelets/cpu/lines.h"
#include "codelets/cpu/vectors.h"
#include "codelets/sort_keys.h"

enum { BLOCK = 512, FEW = 48 }; /* up to FEW values: insertion sort */

typedef struct entry {
    uint64_t key;
    int64_t place;
} entry;

/* ---- keys ---------------------------------------------------------------------------------------------- */

/* Keys of line (outer, j). `flip`: all ones for descending order. */
static void load_keys(const weft_lines *in, int64_t outer, int64_t j, uint64_t flip, entry entries[])
{
    weft_dtype type = in->view->dtype;
    bool whole = type >= WEFT_I64;
    for (int64_t k = 0, together; k < in->length; k += together) {
        const char *from = weft_line_at(in, outer, k, &together);
        for (int64_t first = 0, n; first < together; first += n) {
            union {
                double f64[BLOCK];
                int64_t i64[BLOCK];
            } block;
            n = together - first < BLOCK ? together - first : BLOCK;
            weft_load(whole ? WEFT_I64 : WEFT_F64, &block, type,
                      from + (size_t)(first * in->inner + j) * weft_dtype_size(type), in->inner, n);
            weft_flip_order(type, block.i64, n);
            for (int64_t i = 0; i < n; i++) {
                uint64_t key = whole ? weft_sort_key_of_whole(block.i64[i]) : weft_sort_key_of_real(block.f64[i]);
                entries[k + first + i] = (entry){ key ^ flip, k + first + i };
            }
        }
    }
}

/* ---- sorting: all of these keep the order of equal keys ------------------------------------------------ */

static void insertion_sort(entry entries[], int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        entry moved = entries[i];
        int64_t at = i;
        for (; at > 0 && entries[at - 1].key > moved.key; at--) {
            entries[at] = entries[at - 1];
        }
        entries[at] = moved;
    }
}

/* Radix sort by bytes, lowest first; bytes equal in all keys are skipped. Returns the array with the
 * result, `entries` or `other`. */
static entry *radix_sort(entry *entries, entry *other, int64_t n)
{
    int64_t counts[8][256] = { { 0 } };
    for (int64_t i = 0; i < n; i++) {
        for (int byte = 0; byte < 8; byte++) {
            counts[byte][entries[i].key >> 8 * byte & 255]++;
        }
    }
    for (int byte = 0; byte < 8; byte++) {
        int64_t *starts = counts[byte], next = 0;
        if (starts[entries[0].key >> 8 * byte & 255] == n) {
            continue;
        }
        for (int value = 0; value < 256; value++) {
            int64_t count = starts[value];
            starts[value] = next;
            next += count;
        }
        for (int64_t i = 0; i < n; i++) {
            other[starts[entries[i].key >> 8 * byte & 255]++] = entries[i];
        }
        entry *sorted = other;
        other = entries;
        entries = sorted;
    }
    return entries;
}

static bool comes_before(entry a, entry b)
{
    return a.key < b.key || (a.key == b.key && a.place < b.place);
}

/* Heap with the last entry of the order on top. */
static void sift_down(entry heap[], int64_t n, int64_t at)
{
    for (int64_t child = 2 * at + 1; child < n; child = 2 * at + 1) {
        child += child + 1 < n && comes_before(heap[child], heap[child + 1]);
        if (!comes_before(heap[at], heap[child])) {
            return;
        }
        entry below = heap[child];
        heap[child] = heap[at];
        heap[at] = below;
        at = child;
    }
}

/* Moves the first `wanted` entries of the order to the front, sorted. */
static void select_first(entry entries[], int64_t n, int64_t wanted)
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
        entry last = entries[0];
        entries[0] = entries[left];
        entries[left] = last;
        sift_down(entries, left, 0);
    }
}

/* `other`: room for equally many. Returns the first `wanted` sorted entries. */
static entry *sort_entries(entry *entries, entry *other, int64_t n, int64_t wanted)
{
    if (n <= FEW) {
        insertion_sort(entries, n);
        return entries;
    }
    if (wanted <= n / 16) { /* comparing with the heap's top costs less than passes over all bytes */
        select_first(entries, n, wanted);
        return entries;
    }
    return radix_sort(entries, other, n);
}

/* ---- the kernel ---------------------------------------------------------------------------------------- */

static void store_places(const weft_lines *out, int64_t outer, int64_t j, const entry sorted[])
{
    for (int64_t k = 0, together; k < out->length; k += together) {
        int64_t *to = weft_line_at(out, outer, k, &together);
        for (int64_t i = 0; i < together; i++) {
            to[i * out->inner + j] = sorted[k + i].place;
        }
    }
}

static void store_values(const weft_lines *out, const weft_lines *in, int64_t outer, int64_t j,
                         const entry sorted[])
{
    size_t size = weft_dtype_size(in->view->dtype);
    for (int64_t k = 0, together; k < out->length; k += together) {
        char *to = weft_line_at(out, outer, k, &together);
        for (int64_t i = 0; i < together; i++) {
            int64_t behind;
            const char *from = weft_line_at(in, outer, sorted[k + i].place, &behind);
            memcpy(to + (size_t)(i * out->inner + j) * size, from + (size_t)j * size, size);
        }
    }
}

/* Sorts lines; either output may be NULL. */
static void sort_lines(const weft_kernel_call *call, const weft_view *values, const weft_view *places)
{
    int dim = (int)call->numbers[0];
    weft_lines in = weft_lines_of(&call->inputs[0], dim), out = weft_lines_of(values != NULL ? values : places, dim);
    uint64_t flip = call->numbers[1] != 0 ? UINT64_MAX : 0;
    entry *entries = malloc((2 * (size_t)in.length + 1) * sizeof(*entries));
    if (entries == NULL) {
        weft_kernel_lacks_memory(call, WEFT_PROBLEM_SORT, in.length);
        return;
    }
    for (int64_t outer = 0; outer < out.outer; outer++) {
        for (int64_t j = 0; j < out.inner; j++) {
            load_keys(&in, outer, j, flip, entries);
            const entry *sorted = sort_entries(entries, entries + in.length, in.length, out.length);
            if (values != NULL) {
                store_values(&out, &in, outer, j, sorted);
            }
            if (places != NULL) {
                weft_lines to = weft_lines_of(places, dim);
                store_places(&to, outer, j, sorted);
            }
        }
    }
    free(entries);
}

void weft_kernel_order(const weft_kernel_call *call)
{
    sort_lines(call, NULL, &call->output);
}

void weft_kernel_sort(const weft_kernel_call *call)
{
    sort_lines(call, &call->outputs[0], call->num_outputs > 1 ? &call->outputs[1] : NULL);
}
