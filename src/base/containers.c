#include <stdlib.h>
#include <string.h>

#include "base/base.h"

/* ---- growable arrays ----------------------------------------------------------------------------------- */

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

void weft_vec_free(weft_vec *vec)
{
    free(vec->items);
    *vec = (weft_vec){ 0 };
}

/* ---- sets of pointers: open addressing, linear probing, capacity a power of two at least twice `used` -- */

static const char removed_mark;
#define REMOVED ((const void *)&removed_mark)

/* Where the key is, or where it would be put. */
static size_t find_slot(const weft_ptrset *set, const void *key)
{
    size_t mask = set->capacity - 1;
    size_t reusable = set->capacity;
    size_t slot = weft_hash_u64((uint64_t)(uintptr_t)key) & mask;
    while (set->keys[slot] != NULL && set->keys[slot] != key) {
        if (set->keys[slot] == REMOVED && reusable == set->capacity) {
            reusable = slot;
        }
        slot = (slot + 1) & mask;
    }
    return set->keys[slot] == key || reusable == set->capacity ? slot : reusable;
}

static bool grow(weft_ptrset *set)
{
    weft_ptrset larger = { .capacity = 16 };
    while (larger.capacity < 4 * (set->count + 1)) {
        larger.capacity *= 2;
    }
    larger.keys = calloc(larger.capacity, sizeof(*larger.keys));
    larger.values = calloc(larger.capacity, sizeof(*larger.values));
    if (larger.keys == NULL || larger.values == NULL) {
        weft_ptrset_free(&larger);
        return false;
    }
    for (size_t i = 0; i < set->capacity; i++) {
        if (set->keys[i] != NULL && set->keys[i] != REMOVED) {
            size_t slot = find_slot(&larger, set->keys[i]);
            larger.keys[slot] = set->keys[i];
            larger.values[slot] = set->values[i];
            larger.count++;
        }
    }
    larger.used = larger.count;
    weft_ptrset_free(set);
    *set = larger;
    return true;
}

bool weft_ptrset_add(weft_ptrset *set, const void *key, void *value)
{
    if (2 * (set->used + 1) > set->capacity && !grow(set)) {
        return false;
    }
    size_t slot = find_slot(set, key);
    if (set->keys[slot] != key) {
        set->used += set->keys[slot] == NULL;
        set->count++;
        set->keys[slot] = key;
    }
    set->values[slot] = value;
    return true;
}

bool weft_ptrset_has(const weft_ptrset *set, const void *key)
{
    return key != NULL && set->capacity > 0 && set->keys[find_slot(set, key)] == key;
}

void *weft_ptrset_get(const weft_ptrset *set, const void *key)
{
    return weft_ptrset_has(set, key) ? set->values[find_slot(set, key)] : NULL;
}

bool weft_ptrset_remove(weft_ptrset *set, const void *key)
{
    if (!weft_ptrset_has(set, key)) {
        return false;
    }
    size_t slot = find_slot(set, key);
    set->keys[slot] = REMOVED;
    set->values[slot] = NULL;
    set->count--;
    return true;
}

void weft_ptrset_free(weft_ptrset *set)
{
    free(set->keys);
    free(set->values);
    *set = (weft_ptrset){ 0 };
}
