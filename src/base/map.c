#include "base/map.h"

#include <stdlib.h>
#include <string.h>

/* Inserts; a free slot exists. */
static void put(weft_map *map, uint64_t hash, void *value)
{
    size_t mask = map->capacity - 1, at = (size_t)hash & mask;
    while (map->slots[at].value != NULL) {
        at = (at + 1) & mask;
    }
    map->slots[at] = (weft_map_slot){ hash, value };
    map->count++;
}

bool weft_map_reserve(weft_map *map, size_t count)
{
    size_t capacity = map->capacity == 0 ? 16 : map->capacity;
    while (capacity / 2 < count) {
        capacity *= 2;
    }
    if (capacity == map->capacity) {
        return true;
    }
    weft_map larger = { .slots = calloc(capacity, sizeof(*larger.slots)), .capacity = capacity };
    if (larger.slots == NULL) {
        return false;
    }
    for (weft_map_slot *slot = weft_map_each(map, NULL); slot != NULL; slot = weft_map_each(map, slot)) {
        put(&larger, slot->hash, slot->value);
    }
    free(map->slots);
    *map = larger;
    return true;
}

bool weft_map_add(weft_map *map, uint64_t hash, void *value)
{
    bool half_full = 2 * (map->count + 1) > map->capacity;
    if (half_full && !weft_map_reserve(map, map->count + 1) && map->count + 1 >= map->capacity) {
        return false;
    }
    put(map, hash, value);
    return true;
}

/* Backward-shift deletion: values that the gap would hide move up, so no tombstones are needed. */
void weft_map_remove(weft_map *map, weft_map_slot *slot)
{
    size_t mask = map->capacity - 1, gap = (size_t)(slot - map->slots);
    for (size_t at = (gap + 1) & mask; map->slots[at].value != NULL; at = (at + 1) & mask) {
        size_t home = (size_t)map->slots[at].hash & mask;
        if (((at - home) & mask) >= ((at - gap) & mask)) {
            map->slots[gap] = map->slots[at];
            gap = at;
        }
    }
    map->slots[gap] = (weft_map_slot){ 0, NULL };
    map->count--;
}

weft_map_slot *weft_map_each(const weft_map *map, const weft_map_slot *slot)
{
    for (size_t at = slot == NULL ? 0 : (size_t)(slot - map->slots) + 1; at < map->capacity; at++) {
        if (map->slots[at].value != NULL) {
            return &map->slots[at];
        }
    }
    return NULL;
}

void weft_map_free(weft_map *map)
{
    free(map->slots);
    *map = (weft_map){ NULL, 0, 0 };
}

weft_map_slot *weft_map_find_pointer(const weft_map *set, const void *pointer)
{
    weft_map_slot *slot = weft_map_first(set, weft_hash_pointer(pointer));
    while (slot != NULL && slot->value != pointer) {
        slot = weft_map_next(set, slot);
    }
    return slot;
}

bool weft_map_add_pointer(weft_map *set, const void *pointer)
{
    return pointer == NULL || weft_map_has_pointer(set, pointer) ||
           weft_map_add(set, weft_hash_pointer(pointer), (void *)(uintptr_t)pointer);
}

bool weft_map_remove_pointer(weft_map *set, const void *pointer)
{
    weft_map_slot *slot = set->count == 0 ? NULL : weft_map_find_pointer(set, pointer);
    if (slot != NULL) {
        weft_map_remove(set, slot);
    }
    return slot != NULL;
}

const char *weft_map_intern(weft_map *map, const char *text)
{
    uint64_t hash = weft_hash_bytes(text, strlen(text), 0);
    for (weft_map_slot *slot = weft_map_first(map, hash); slot != NULL; slot = weft_map_next(map, slot)) {
        if (strcmp(slot->value, text) == 0) {
            return slot->value;
        }
    }
    char *added = strdup(text);
    if (added == NULL || !weft_map_add(map, hash, added)) {
        free(added);
        return NULL;
    }
    return added;
}

void weft_map_free_texts(weft_map *map)
{
    for (weft_map_slot *slot = weft_map_each(map, NULL); slot != NULL; slot = weft_map_each(map, slot)) {
        free(slot->value);
    }
    weft_map_free(map);
}
