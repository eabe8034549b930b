/* Where the boxes of a call lie in the program's memory. */
#include <stdlib.h>
#include <string.h>

#include "arrays/boxes.h"

/* Chunks that follow each other become one region of at most so many bytes: registering one, and waiting for it, takes as long as
 * copying about a quarter of that. */
enum { MOST_JOINED = 1 << 18 };

/* The bytes from a chunk's first element to after its last one. */
typedef struct chunk_bytes {
    char *begin, *end;
    int64_t chunk;
} chunk_bytes;

static int by_address(const void *a, const void *b)
{
    const chunk_bytes *p = a, *q = b;
    int order = (p->begin > q->begin) - (p->begin < q->begin);
    return order != 0 ? order : weft_compare_i64(p->chunk, q->chunk);
}

/* The chunks of an own box; 0: it is empty, or in place. */
static int64_t count_chunks(const weft_box_plan *plan, int number)
{
    const weft_owned_box *owned = &plan->set.boxes[plan->first_own + number];
    int ndim = plan->set.ndim;
    if (plan->in_place[number] || weft_box_count(ndim, &owned->box) == 0) {
        return 0;
    }
    int64_t rows = weft_box_chunk(owned, ndim, weft_dtype_size(plan->layout->dtype));
    return ndim == 0 ? 1 : weft_ceil_div(owned->box.extent[owned->slowest], rows);
}

static chunk_bytes bytes_of(const weft_box_plan *plan, const weft_boxes *given, int number, int64_t k, int64_t chunk)
{
    const weft_owned_box *owned = &plan->set.boxes[plan->first_own + number];
    const int64_t *strides = plan->strides + (ptrdiff_t)number * plan->set.ndim;
    int64_t size = (int64_t)weft_dtype_size(plan->layout->dtype);
    chunk_bytes bytes = { .begin = given->items[number].data, .chunk = chunk };
    weft_box part = owned->box;
    if (plan->set.ndim > 0) {
        int64_t rows = weft_box_chunk(owned, plan->set.ndim, (size_t)size), first = k * rows;
        part.extent[owned->slowest] = weft_min_i64(rows, part.extent[owned->slowest] - first);
        bytes.begin += first > 0 ? first * strides[owned->slowest] * size : 0; /* the stride of a single index is arbitrary */
    }
    int dim;
    bytes.end = bytes.begin + weft_strides_span(plan->set.ndim, part.extent, strides, &dim) * size;
    return bytes;
}

/* Gives chunks, in order of memory, their regions. */
static void join_chunks(weft_box_places *places, const chunk_bytes all[])
{
    const char *end = NULL; /* of the last region */
    for (int64_t i = 0; i < places->num_chunks; i++) {
        bool follows = i > 0 && all[i].begin == end && all[i].end - places->regions[places->num_regions - 1].memory <= MOST_JOINED;
        if (i == 0 || (all[i].begin >= end && !follows)) {
            places->regions[places->num_regions++] = (weft_box_region){ .memory = all[i].begin };
            end = all[i].begin;
        }
        weft_box_region *region = &places->regions[places->num_regions - 1];
        end = all[i].end > end ? all[i].end : end;
        region->bytes = end - region->memory;
        places->of_chunk[all[i].chunk] = (weft_box_place){ places->num_regions - 1, all[i].begin - region->memory };
    }
}

bool weft_box_places_find(const weft_box_plan *plan, const weft_boxes *given, weft_box_places *places)
{
    *places = (weft_box_places){ .first = calloc((size_t)plan->num_own + 1, sizeof(*places->first)) };
    for (int i = 0; i < plan->num_own && places->first != NULL; i++) {
        places->first[i] = places->num_chunks;
        places->num_chunks += count_chunks(plan, i);
    }
    size_t num = (size_t)places->num_chunks + 1;
    chunk_bytes *all = malloc(num * sizeof(*all));
    places->of_chunk = malloc(num * sizeof(*places->of_chunk));
    places->regions = malloc(num * sizeof(*places->regions));
    bool done = places->first != NULL && all != NULL && places->of_chunk != NULL && places->regions != NULL;
    if (done) {
        for (int i = 0; i < plan->num_own; i++) {
            for (int64_t k = 0, count = count_chunks(plan, i); k < count; k++) {
                all[places->first[i] + k] = bytes_of(plan, given, i, k, places->first[i] + k);
            }
        }
        qsort(all, (size_t)places->num_chunks, sizeof(*all), by_address);
        join_chunks(places, all);
    }
    free(all);
    return done;
}

bool weft_box_places_equal(const weft_box_places *a, const weft_box_places *b)
{
    return a->num_chunks == b->num_chunks &&
           (a->num_chunks == 0 ||
            memcmp(a->of_chunk, b->of_chunk, (size_t)a->num_chunks * sizeof(*a->of_chunk)) == 0);
}

void weft_box_places_free(weft_box_places *places)
{
    free(places->first);
    free(places->of_chunk);
    free(places->regions);
    *places = (weft_box_places){ 0 };
}
