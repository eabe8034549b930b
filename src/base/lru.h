/* Memory of former work, under one budget of bytes: what was used least recently goes first. An entry is the first
 * field of a structure of its owner's, and is found through the owner's map (base/map.h), whose value it is:
 *
 *     for (weft_map_slot *slot = weft_map_first(&map, hash); slot != NULL; slot = weft_map_next(&map, slot)) {
 *         thing *found = slot->value;
 *         if (is_wanted(found)) { weft_lru_hold(&found->entry); ... weft_lru_release(&found->entry); }
 *     }
 *
 * Entries that are held may leave the budget, and are destroyed when the last holder releases them: the bytes that
 * are kept never exceed the budget, and nothing in use goes. PURE. */
#ifndef WEFT_SRC_BASE_LRU_H
#define WEFT_SRC_BASE_LRU_H

#include "base/map.h"

typedef struct weft_lru_entry {
    struct weft_lru *lru; /* that keeps it; NULL: none */
    struct weft_lru_entry *newer, *older;
    weft_map *map;  /* it is found there by its hash */
    uint64_t hash;
    size_t bytes;   /* of the owner's structure and all that belongs to it alone */
    unsigned holds; /* those who use it at present */
    void (*destroy)(struct weft_lru_entry *entry); /* set by the owner */
} weft_lru_entry;

/* Zero-initialise it, and set the budget. */
typedef struct weft_lru {
    weft_lru_entry *newest, *oldest; /* by their last use */
    size_t bytes; /* of all entries that are kept, with what each takes in its map */
    size_t budget;
} weft_lru;

/* Bytes for each entry beside its own: a map has between two and four slots for each value. */
enum { WEFT_LRU_ENTRY_BYTES = 4 * sizeof(weft_map_slot) };

/* Keeps a new entry of `bytes`, which the caller holds, and adds it to the map; others go where it takes that.
 * False: it is larger than the budget, or there is no memory, and it is the holders' alone. */
bool weft_lru_keep(weft_lru *lru, weft_map *map, uint64_t hash, weft_lru_entry *entry, size_t bytes);
/* An entry that is held takes so many bytes more. False: it is not kept, or would not fit; nothing has changed. */
bool weft_lru_grow(weft_lru_entry *entry, size_t bytes);

/* A use: the entry becomes the newest one, and lives until weft_lru_release(). */
void weft_lru_hold(weft_lru_entry *entry);
void weft_lru_release(weft_lru_entry *entry);

/* Keeps nothing any more. */
void weft_lru_clear(weft_lru *lru);

#endif
