/* Sorting: values become integers with the same order, which are sorted by radix. */
#include "codelets/sorting.h"

#include <stdlib.h>
#include <string.h>

#include "codelets/cpu/lines.h"
#include "codelets/cpu/radix.h"
#include "codelets/cpu/vectors.h"

/* Keys of line (outer, j). `flip`: all ones for descending order. */
static void load_keys(const weft_lines *in, int64_t outer, int64_t j, uint64_t flip, weft_sort_entry entries[])
{
    weft_dtype type = in->view->dtype;
    for (int64_t k = 0, together; k < in->length; k += together) {
        const char *from = weft_line_at(in, outer, k, &together);
        for (int64_t first = 0, n; first < together; first += n) {
            uint64_t keys[WEFT_SORT_BLOCK];
            n = together - first < WEFT_SORT_BLOCK ? together - first : WEFT_SORT_BLOCK;
            weft_sort_keys(type, from + (size_t)(first * in->inner + j) * weft_dtype_size(type), in->inner, n, flip, keys);
            for (int64_t i = 0; i < n; i++) {
                entries[k + first + i] = (weft_sort_entry){ keys[i], k + first + i };
            }
        }
    }
}

/* ---- the kernel ---------------------------------------------------------------------------------------- */

static void store_places(const weft_lines *out, int64_t outer, int64_t j, const weft_sort_entry sorted[])
{
    for (int64_t k = 0, together; k < out->length; k += together) {
        int64_t *to = weft_line_at(out, outer, k, &together);
        for (int64_t i = 0; i < together; i++) {
            to[i * out->inner + j] = sorted[k + i].place;
        }
    }
}

static void store_values(const weft_lines *out, const weft_lines *in, int64_t outer, int64_t j,
                         const weft_sort_entry sorted[])
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
    weft_sort_entry *entries = malloc((2 * (size_t)in.length + 1) * sizeof(*entries));
    if (entries == NULL) {
        weft_kernel_lacks_memory(call, WEFT_PROBLEM_SORT, in.length);
        return;
    }
    for (int64_t outer = 0; outer < out.outer; outer++) {
        for (int64_t j = 0; j < out.inner; j++) {
            load_keys(&in, outer, j, flip, entries);
            const weft_sort_entry *sorted = weft_first_entries(entries, entries + in.length, in.length, out.length);
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
