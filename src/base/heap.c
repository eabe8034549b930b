#include "base/heap.h"

#include <string.h>

enum { MAX_ELEMENT = 64 };

static char *element_at(const weft_vec *heap, size_t size, size_t i)
{
    return (char *)heap->items + i * size;
}

static void swap(const weft_vec *heap, size_t size, size_t i, size_t k)
{
    char kept[MAX_ELEMENT];
    memcpy(kept, element_at(heap, size, i), size);
    memcpy(element_at(heap, size, i), element_at(heap, size, k), size);
    memcpy(element_at(heap, size, k), kept, size);
}

bool weft_heap_push(weft_vec *heap, size_t size, const void *element, weft_first_function first, const void *context)
{
    void *added = weft_vec_push(heap, size);
    if (added == NULL) {
        return false;
    }
    memcpy(added, element, size);
    for (size_t i = heap->count - 1; i > 0; i = (i - 1) / 2) {
        if (!first(context, element_at(heap, size, i), element_at(heap, size, (i - 1) / 2))) {
            break;
        }
        swap(heap, size, i, (i - 1) / 2);
    }
    return true;
}

void weft_heap_pop(weft_vec *heap, size_t size, void *element, weft_first_function first, const void *context)
{
    memcpy(element, heap->items, size);
    heap->count--;
    memmove(heap->items, element_at(heap, size, heap->count), size);
    for (size_t i = 0, child; (child = 2 * i + 1) < heap->count; i = child) {
        if (child + 1 < heap->count && first(context, element_at(heap, size, child + 1), element_at(heap, size, child))) {
            child++;
        }
        if (!first(context, element_at(heap, size, child), element_at(heap, size, i))) {
            break;
        }
        swap(heap, size, i, child);
    }
}
