/* Cached entries under one budget of bytes, the least recently used first out. An entry is the first
 * member of its owner's structure, which is the value in the owner's map (base/map.h):
 *
 *     for (weft_map_slot *slot = weft_map_first(&map, hash); slot != NULL; slot = weft_map_next(&map, slot)) {
 *         thing *found = slot->value;
 *         if (is_wanted(found)) { weft_lru_hold(&found->entry); ... weft_lru_release(&found->entry); }
 *     }
 *
 * Held entries may be evicted, and are destroyed by the last release: the bytes of cached entries never
 * exceed the budget, and no entry in use is destroyed. PURE. */
#ifndef WEFT_SRC_BASE_LRU_H
#define WEFT_SRC_BASE_LRU_H

#include "base/map.h"

typedef struct weft_lru_entry {
    struct weft_lru *lru; /* the cache that has it; NULL: none */
    struct weft_lru_entry *newer, *older;
    weft_map *map;  /* has it under its hash */
    uint64_t hash;
    size_t bytes;   /* of the owner's structure and its own memory */
    unsigned holds; /* users at present */
    void (*destroy)(struct weft_lru_entry *entry); /* set by the owner */
} weft_lru_entry;

/* Zero-initialise, and set the budget. */
typedef struct weft_lru {
    weft_lru_entry *newest, *oldest; /* by last use */
    size_t bytes; /* of all cached entries, with their slots in maps */
    size_t budget;
} weft_lru;

/* Bytes per entry beside its own: a map has between two and four slots for each value. */
enum { WEFT_LRU_ENTRY_BYTES = 4 * sizeof(weft_map_slot) };

/* Caches a new entry of `bytes`, which the caller holds, and adds it to the map; evicts others if
 * necessary. False: larger than the budget, or no memory; the entry belongs to its holders. */
bool weft_lru_keep(weft_lru *lru, weft_map *map, uint64_t hash, weft_lru_entry *entry, size_t bytes);
/* Adds bytes to a held entry. False, and nothing changed: not cached, or it would not fit. */
bool weft_lru_grow(weft_lru_entry *entry, size_t bytes);

/* Marks a use: the entry becomes the newest one, and lives until weft_lru_release(). */
void weft_lru_hold(weft_lru_entry *entry);
void weft_lru_release(weft_lru_entry *entry);

/* Evicts everything. */
void weft_lru_clear(weft_lru *lru);

#endif
