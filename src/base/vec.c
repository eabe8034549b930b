/* Growable arrays. */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

bool weft_vec_reserve(weft_vec *vec, size_t count, size_t size)
{
    if (count <= vec->capacity) {
        return true;
    }
    size_t capacity = vec->capacity < 4 ? 8 : 2 * vec->capacity;
    capacity = capacity < count ? count : capacity;
    if (size != 0 && capacity > SIZE_MAX / size) {
        return false;
    }
    void *items = realloc(vec->items, capacity * size);
    if (items == NULL) {
        return false;
    }
    vec->items = items;
    vec->capacity = capacity;
    return true;
}

void *weft_vec_push(weft_vec *vec, size_t size)
{
    if (!weft_vec_reserve(vec, vec->count + 1, size)) {
        return NULL;
    }
    void *item = (char *)vec->items + vec->count * size;
    vec->count++;
    return memset(item, 0, size);
}

void weft_vec_trim(weft_vec *vec, size_t size)
{
    void *items = vec->count == 0 ? NULL : realloc(vec->items, vec->count * size);
    if (items != NULL) {
        vec->items = items;
        vec->capacity = vec->count;
    }
}

void weft_vec_free(weft_vec *vec)
{
    free(vec->items);
    *vec = (weft_vec){ 0 };
}
