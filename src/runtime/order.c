/* The order of uses of the program's memory through several buffers. */
#include <stdlib.h>

#include "runtime/pool.h"

/* The first of some buffers in order of memory that ends after `begin`. */
static int64_t first_after(int64_t count, weft_buffer *const buffers[], const char *begin)
{
    int64_t low = 0, high = count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if ((const char *)buffers[middle]->memory + buffers[middle]->cut.total > begin) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

/* Bytes of an added buffer that newer buffers share, the oldest of which has this number: one stretch of them. */
typedef struct stretch {
    const char *begin, *end;
    uint64_t oldest;
} stretch;

static stretch shared_bytes(const weft_buffer *a, const weft_buffer *b)
{
    const char *first = a->memory, *other = b->memory;
    const char *end = first + a->cut.total, *other_end = other + b->cut.total;
    return (stretch){ first > other ? first : other, end < other_end ? end : other_end, b->number };
}

static bool contains(const stretch *s, stretch part)
{
    return s->begin <= part.begin && part.end <= s->end;
}

/* Adds bytes of an older buffer, as far as they and the others are one stretch. */
static void widen(stretch *s, stretch by)
{
    if (s->begin == s->end) {
        *s = by;
    } else if (by.begin <= s->end && s->begin <= by.end && !contains(s, by)) {
        s->begin = by.begin < s->begin ? by.begin : s->begin;
        s->end = by.end > s->end ? by.end : s->end;
        s->oldest = by.oldest;
    }
}

bool weft_buffers_order(const weft_pool *pool, int64_t count, weft_buffer *const added[],
                        bool (*visit)(void *context, const weft_buffer *added, const weft_buffer *other), void *context)
{
    stretch *newer = calloc((size_t)count + 1, sizeof(*newer)); /* of ordered buffers; without memory: all are visited */
    bool going = true;
    for (const weft_buffer *other = weft_pool_newest(pool); other != NULL && going; other = other->all_next) { /* the newest first */
        const char *begin = other->memory, *end = begin + other->cut.total;
        for (int64_t i = other->borrowed ? first_after(count, added, begin) : count;
             i < count && (const char *)added[i]->memory < end && going; i++) {
            stretch shared = shared_bytes(added[i], other);
            /* Nothing has used it since the newer ones were ordered after it. */
            bool comes_before = newer != NULL && other->references <= 0 && contains(&newer[i], shared) &&
                                other->newest_at_end < newer[i].oldest;
            going = added[i] == other || comes_before || visit(context, added[i], other);
            if (newer != NULL && other->ordered) {
                widen(&newer[i], shared);
            }
        }
    }
    for (int64_t i = 0; i < count && going; i++) {
        added[i]->ordered = true;
    }
    free(newer);
    return going;
}
