/* The hash map: pointers under 64-bit hashes, open addressing. The caller compares values: a look-up walks
 * the values of one hash, and allocates nothing.
 *
 *     for (weft_map_slot *slot = weft_map_first(&map, hash); slot != NULL; slot = weft_map_next(&map, slot)) {
 *         const thing *found = slot->value;
 *         if (is_wanted(found)) { ... }
 *     }
 *
 * A slot is valid, and its value may be replaced, until the next insertion or removal. PURE. */
#ifndef WEFT_SRC_BASE_MAP_H
#define WEFT_SRC_BASE_MAP_H

#include "base/base.h"

typedef struct weft_map_slot {
    uint64_t hash;
    void *value; /* NULL: free slot */
} weft_map_slot;

/* Linear probing; at most half of the slots are taken, unless memory is exhausted, and one is always free.
 * Zero-initialise. */
typedef struct weft_map {
    weft_map_slot *slots;
    size_t count, capacity; /* capacity: 0 or a power of two */
} weft_map;

static inline weft_map_slot *weft_map_probe(const weft_map *map, uint64_t hash, size_t at)
{
    for (size_t mask = map->capacity - 1;; at++) {
        weft_map_slot *slot = &map->slots[at & mask];
        if (slot->value == NULL) {
            return NULL;
        }
        if (slot->hash == hash) {
            return slot;
        }
    }
}

/* The first value of a hash; the next value of the same hash. NULL: none. */
static inline weft_map_slot *weft_map_first(const weft_map *map, uint64_t hash)
{
    return map->capacity == 0 ? NULL : weft_map_probe(map, hash, (size_t)hash);
}

static inline weft_map_slot *weft_map_next(const weft_map *map, const weft_map_slot *slot)
{
    return weft_map_probe(map, slot->hash, (size_t)(slot - map->slots) + 1);
}

/* Adds a value (not NULL), also if the hash has others. False: no memory. */
bool weft_map_add(weft_map *map, uint64_t hash, void *value);
/* Reserves room: insertions up to `count` values in all allocate nothing. False: no memory. */
bool weft_map_reserve(weft_map *map, size_t count);
void weft_map_remove(weft_map *map, weft_map_slot *slot);
/* Iteration in no particular order: NULL gives the first taken slot; NULL is returned after the last. */
weft_map_slot *weft_map_each(const weft_map *map, const weft_map_slot *slot);
/* Frees the slots; values are the caller's. */
void weft_map_free(weft_map *map);

/* The map's own copy of a text, of which it has one. NULL: no memory. */
const char *weft_map_intern(weft_map *map, const char *text);
/* Frees the slots and the texts. */
void weft_map_free_texts(weft_map *map);

static inline uint64_t weft_hash_pointer(const void *pointer)
{
    return weft_hash_u64((uint64_t)(uintptr_t)pointer);
}

/* A map as a set of pointers, each its own key. NULL is never a member, even if added. */
weft_map_slot *weft_map_find_pointer(const weft_map *set, const void *pointer);
bool weft_map_add_pointer(weft_map *set, const void *pointer);    /* false: no memory */
bool weft_map_remove_pointer(weft_map *set, const void *pointer); /* false: not a member */

static inline bool weft_map_has_pointer(const weft_map *set, const void *pointer)
{
    return set->count > 0 && weft_map_find_pointer(set, pointer) != NULL;
}

#endif
