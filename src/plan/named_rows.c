#include "plan/named_rows.h"

#include <stdlib.h>
#include <string.h>

/* One entry of the list. */
typedef struct entry {
    int64_t part, row, position;
} entry;

static int by_row(const void *a, const void *b)
{
    const entry *p = a, *q = b;
    if (p->part != q->part) {
        return p->part < q->part ? -1 : 1;
    }
    if (p->row != q->row) {
        return p->row < q->row ? -1 : 1;
    }
    return weft_compare_i64(p->position, q->position);
}

/* The entries, sorted; those of lists in order are so already. NULL: no memory. */
static entry *sorted_entries(weft_placement cut, int64_t size, int64_t parts, int64_t count, const int64_t indices[])
{
    entry *entries = malloc(((size_t)count + 1) * sizeof(*entries));
    bool sorted = true;
    for (int64_t i = 0; i < count && entries != NULL; i++) {
        int64_t together;
        entries[i].part = weft_part_at(cut, size, parts, indices[i], &entries[i].row, &together);
        entries[i].position = i;
        sorted = sorted && (i == 0 || by_row(&entries[i - 1], &entries[i]) < 0);
    }
    if (entries != NULL && !sorted) {
        qsort(entries, (size_t)count, sizeof(*entries), by_row);
    }
    return entries;
}

/* Entries [first, last) are those of one part. */
static int64_t first_place_of(const weft_named_rows *named, const entry entries[], int64_t first, int64_t last, int64_t part)
{
    bool once = named->begin[part + 1] - named->begin[part] == last - first;
    for (int64_t i = first; i < last && once; i++) {
        once = entries[i].position == entries[first].position + (i - first);
    }
    return once && last > first ? entries[first].position : -1;
}

static void fill(weft_named_rows *named, const entry entries[])
{
    int64_t next = 0, i = 0;
    for (int64_t part = 0; part < named->parts; part++) {
        int64_t first = i;
        named->begin[part] = next;
        for (; i < named->count && entries[i].part == part; i++) {
            if (i == first || entries[i].row != entries[i - 1].row) {
                named->rows[next++] = entries[i].row;
            }
            named->number[entries[i].position] = next - 1;
        }
        named->begin[part + 1] = next;
        named->first_place[part] = first_place_of(named, entries, first, i, part);
    }
}

bool weft_named_rows_find(weft_named_rows *named, weft_placement cut, int64_t size, int64_t parts, int64_t count,
                          const int64_t indices[])
{
    size_t num = (size_t)count + 1;
    *named = (weft_named_rows){ .parts = parts,
                                .count = count,
                                .begin = calloc((size_t)parts + 1, sizeof(int64_t)),
                                .rows = malloc(num * sizeof(int64_t)),
                                .number = malloc(num * sizeof(int64_t)),
                                .first_place = malloc((size_t)parts * sizeof(int64_t)) };
    entry *entries = sorted_entries(cut, size, parts, count, indices);
    bool done = named->begin != NULL && named->rows != NULL && named->number != NULL && named->first_place != NULL &&
                entries != NULL;
    if (done) {
        fill(named, entries);
    }
    free(entries);
    return done;
}

void weft_named_rows_free(weft_named_rows *named)
{
    free(named->begin);
    free(named->rows);
    free(named->number);
    free(named->first_place);
    *named = (weft_named_rows){ .parts = 0 };
}
