#include "dispatch/cache.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/expansion.h"

typedef struct weft_dispatch {
    weft_map calls;                    /* weft_cached_call */
    weft_cached_call *newest, *oldest; /* by their last use */
    size_t task_bytes;                 /* of all lists that are kept */
    weft_rule_table rules;
    weft_map warned; /* operations that a warning was given of: a set */
    weft_forced_sharding forced;
    weft_expansions expansions;
} weft_dispatch_state;

/* At most so many entries, of 1.5 KB each, and so many bytes of task lists: a program whose attributes never
 * repeat (a window that slides over its data) would else fill the memory. */
enum { MAX_CALLS = 1 << 15, MAX_TASK_BYTES = 64 << 20 };

/* ---- the order of last use ----------------------------------------------------------------------------- */

static void unlink_entry(weft_dispatch_state *state, weft_cached_call *entry)
{
    *(entry->newer == NULL ? &state->newest : &entry->newer->older) = entry->older;
    *(entry->older == NULL ? &state->oldest : &entry->older->newer) = entry->newer;
    entry->newer = entry->older = NULL;
}

static void link_newest(weft_dispatch_state *state, weft_cached_call *entry)
{
    entry->older = state->newest;
    *(state->newest == NULL ? &state->oldest : &state->newest->newer) = entry;
    state->newest = entry;
}

static void drop_tasks(weft_dispatch_state *state, weft_cached_call *entry)
{
    if (entry->has_tasks) {
        weft_task_list_free(&entry->tasks);
        state->task_bytes -= entry->task_bytes;
        entry->has_tasks = false;
    }
}

/* The slot of an entry that is there. */
static weft_map_slot *slot_of(const weft_dispatch_state *state, const weft_cached_call *entry)
{
    weft_map_slot *slot = weft_map_first(&state->calls, entry->hash);
    while (slot->value != entry) {
        slot = weft_map_next(&state->calls, slot);
    }
    return slot;
}

static void free_entry(weft_cached_call *entry)
{
    if (entry != NULL) {
        free(entry->access_maps);
        free(entry);
    }
}

static void forget_call(weft_dispatch_state *state, weft_cached_call *entry)
{
    weft_map_remove(&state->calls, slot_of(state, entry));
    unlink_entry(state, entry);
    drop_tasks(state, entry);
    free_entry(entry);
}

/* ---- start and stop ------------------------------------------------------------------------------------ */

weft_status weft_dispatch_start(void)
{
    weft_dispatch_state *state = calloc(1, sizeof(*state));
    if (state == NULL) {
        return weft_fail(WEFT_ERR_NOMEM, "weft_init", "no memory for the dispatcher");
    }
    weft_runtime.dispatch = state;
    return WEFT_OK;
}

void weft_dispatch_stop(void)
{
    weft_dispatch_state *state = weft_runtime.dispatch;
    if (state == NULL) {
        return;
    }
    while (state->newest != NULL) {
        forget_call(state, state->newest);
    }
    weft_map_free(&state->calls);
    weft_rule_table_free(&state->rules);
    weft_map_free(&state->warned);
    weft_expansions_free(&state->expansions);
    free(state);
    weft_runtime.dispatch = NULL;
}

int64_t weft_dispatch_force(int64_t combination)
{
    weft_forced_sharding *forced = &weft_runtime.dispatch->forced;
    int64_t most = forced->most;
    *forced = (weft_forced_sharding){ .active = combination >= 0, .combination = combination };
    return most;
}

weft_expansions *weft_expansions_kept(void)
{
    return &weft_runtime.dispatch->expansions;
}

weft_forced_sharding *weft_forced(void)
{
    return &weft_runtime.dispatch->forced;
}

weft_rule_table *weft_rules(void)
{
    return &weft_runtime.dispatch->rules;
}

/* ---- calls --------------------------------------------------------------------------------------------- */

/* The layouts of the inputs are interned: their addresses stand for them. */
uint64_t weft_cache_hash(const weft_cache_key *key)
{
    const weft_call_layouts *call = &key->layouts;
    uint64_t hash = weft_hash_pointer(call->operation);
    for (int i = 0; i < call->num_inputs; i++) {
        const weft_access_map *map = key->access_map[i];
        hash = weft_hash_u64(hash ^ (uint64_t)(uintptr_t)call->inputs[i]);
        hash = map == NULL ? hash : weft_hash_bytes(map->turn, sizeof(map->turn), hash);
    }
    /* What lies beyond num_sizes and num_numbers is 0. */
    const weft_attributes *attributes = call->attributes;
    size_t used =
        offsetof(weft_attributes, sizes) + (size_t)attributes->num_sizes * sizeof(attributes->sizes[0]);
    hash = weft_hash_bytes(attributes, used, hash);
    return attributes->num_numbers == 0
               ? hash
               : weft_hash_bytes(attributes->numbers,
                                 (size_t)attributes->num_numbers * sizeof(attributes->numbers[0]), hash);
}

static bool same_maps(const weft_cached_call *entry, const weft_cache_key *key)
{
    const weft_access_map *kept = entry->access_maps;
    bool same = true;
    for (int i = 0; i < entry->num_inputs && same; i++) {
        bool mapped = entry->mapped >> i & 1;
        same = mapped == (key->access_map[i] != NULL) &&
               (!mapped || weft_access_map_equal(kept++, key->access_map[i]));
    }
    return same;
}

static bool entry_is(const weft_cached_call *entry, const weft_cache_key *key)
{
    const weft_call_layouts *call = &key->layouts;
    return entry->operation == call->operation && entry->num_inputs == call->num_inputs &&
           memcmp(entry->inputs, call->inputs, (size_t)call->num_inputs * sizeof(call->inputs[0])) == 0 &&
           memcmp(&entry->attributes, call->attributes, sizeof(entry->attributes)) == 0 &&
           same_maps(entry, key);
}

weft_cached_call *weft_cache_find(const weft_cache_key *key)
{
    weft_dispatch_state *state = weft_runtime.dispatch;
    weft_map_slot *slot = weft_map_first(&state->calls, key->hash);
    while (slot != NULL && !entry_is(slot->value, key)) {
        slot = weft_map_next(&state->calls, slot);
    }
    if (slot == NULL) {
        return NULL;
    }
    weft_cached_call *entry = slot->value;
    if (entry != state->newest) {
        unlink_entry(state, entry);
        link_newest(state, entry);
    }
    return entry;
}

/* False: no memory. */
static bool copy_maps(weft_cached_call *entry, const weft_cache_key *key)
{
    int count = 0;
    for (int i = 0; i < entry->num_inputs; i++) {
        entry->mapped |= key->access_map[i] != NULL ? 1u << i : 0;
        count += key->access_map[i] != NULL;
    }
    entry->access_maps = count == 0 ? NULL : malloc((size_t)count * sizeof(*entry->access_maps));
    if (count > 0 && entry->access_maps == NULL) {
        return false;
    }
    for (int i = 0, k = 0; i < entry->num_inputs; i++) {
        if (key->access_map[i] != NULL) {
            entry->access_maps[k++] = *key->access_map[i];
        }
    }
    return true;
}

weft_cached_call *weft_cache_add(const char *function, const weft_cache_key *key,
                                 const weft_sharding *sharding)
{
    weft_dispatch_state *state = weft_runtime.dispatch;
    const weft_call_layouts *call = &key->layouts;
    if (state->calls.count == MAX_CALLS) {
        forget_call(state, state->oldest);
    }
    weft_cached_call *entry = calloc(1, sizeof(*entry));
    if (entry != NULL) {
        entry->num_inputs = call->num_inputs;
    }
    if (entry == NULL || !copy_maps(entry, key) || !weft_map_add(&state->calls, key->hash, entry)) {
        free_entry(entry);
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for the layouts");
        return NULL;
    }
    entry->operation = call->operation;
    memcpy(entry->inputs, call->inputs, (size_t)call->num_inputs * sizeof(call->inputs[0]));
    entry->attributes = *call->attributes;
    entry->sharding = *sharding;
    entry->hash = key->hash;
    link_newest(state, entry);
    return entry;
}

bool weft_cache_wants_tasks(weft_cached_call *cached)
{
    return ++cached->uses >= 2 || weft_runtime.task_cache == WEFT_TASK_CACHE_CHECK;
}

void weft_cache_keep_tasks(weft_cached_call *cached, weft_task_list *tasks)
{
    weft_dispatch_state *state = weft_runtime.dispatch;
    size_t bytes = weft_task_list_bytes(tasks);
    if (bytes > MAX_TASK_BYTES) {
        return;
    }
    for (weft_cached_call *old = state->oldest; state->task_bytes + bytes > MAX_TASK_BYTES;
         old = old->newer) {
        drop_tasks(state, old);
    }
    cached->tasks = *tasks;
    cached->task_bytes = bytes;
    cached->has_tasks = true;
    state->task_bytes += bytes;
    *tasks = (weft_task_list){ .failed = false };
}

bool weft_cache_first_warning(const weft_operation *operation)
{
    weft_map *warned = &weft_runtime.dispatch->warned;
    return !weft_map_has_pointer(warned, operation) && weft_map_add_pointer(warned, operation);
}
