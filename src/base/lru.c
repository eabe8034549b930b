#include "base/lru.h"

static void unlink_entry(weft_lru *lru, weft_lru_entry *entry)
{
    *(entry->newer == NULL ? &lru->newest : &entry->newer->older) = entry->older;
    *(entry->older == NULL ? &lru->oldest : &entry->older->newer) = entry->newer;
    entry->newer = entry->older = NULL;
}

static void link_newest(weft_lru *lru, weft_lru_entry *entry)
{
    entry->older = lru->newest;
    *(lru->newest == NULL ? &lru->oldest : &lru->newest->newer) = entry;
    lru->newest = entry;
}

static void forget(weft_lru_entry *entry)
{
    weft_lru *lru = entry->lru;
    weft_map_slot *slot = weft_map_first(entry->map, entry->hash);
    while (slot->value != entry) {
        slot = weft_map_next(entry->map, slot);
    }
    weft_map_remove(entry->map, slot);
    unlink_entry(lru, entry);
    lru->bytes -= entry->bytes;
    entry->lru = NULL;
    if (entry->holds == 0) {
        entry->destroy(entry);
    }
}

/* Evicts the oldest entries but `kept` until there is room. False, and none evicted: it would not suffice. */
static bool make_room(weft_lru *lru, size_t bytes, const weft_lru_entry *kept)
{
    size_t stays = kept == NULL ? 0 : kept->bytes;
    if (bytes > lru->budget || stays > lru->budget - bytes) {
        return false;
    }
    for (weft_lru_entry *oldest = lru->oldest; lru->bytes > lru->budget - bytes;) {
        weft_lru_entry *next = oldest->newer;
        if (oldest != kept) {
            forget(oldest);
        }
        oldest = next;
    }
    return true;
}

bool weft_lru_keep(weft_lru *lru, weft_map *map, uint64_t hash, weft_lru_entry *entry, size_t bytes)
{
    bytes += WEFT_LRU_ENTRY_BYTES;
    if (!make_room(lru, bytes, NULL) || !weft_map_add(map, hash, entry)) {
        return false;
    }
    entry->lru = lru;
    entry->map = map;
    entry->hash = hash;
    entry->bytes = bytes;
    lru->bytes += bytes;
    link_newest(lru, entry);
    return true;
}

bool weft_lru_grow(weft_lru_entry *entry, size_t bytes)
{
    weft_lru *lru = entry->lru;
    if (lru == NULL || !make_room(lru, bytes, entry)) {
        return false;
    }
    entry->bytes += bytes;
    lru->bytes += bytes;
    return true;
}

void weft_lru_hold(weft_lru_entry *entry)
{
    weft_lru *lru = entry->lru;
    entry->holds++;
    if (lru != NULL && entry != lru->newest) {
        unlink_entry(lru, entry);
        link_newest(lru, entry);
    }
}

void weft_lru_release(weft_lru_entry *entry)
{
    if (--entry->holds == 0 && entry->lru == NULL) {
        entry->destroy(entry);
    }
}

void weft_lru_clear(weft_lru *lru)
{
    while (lru->oldest != NULL) {
        forget(lru->oldest);
    }
}
