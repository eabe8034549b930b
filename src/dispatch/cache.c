#include "dispatch/cache.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/expansion.h"

typedef struct weft_dispatch {
    weft_map calls;      /* weft_cached_call */
    weft_map expansions; /* weft_expansion */
    weft_rule_table rules;
    weft_map warned; /* set: operations that have had their warning */
    weft_forced_sharding forced;
    const weft_joining *joining; /* NULL: not yet */
} weft_dispatch_state;

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
    weft_lru_clear(&weft_runtime.call_cache);
    weft_map_free(&state->calls);
    weft_map_free(&state->expansions);
    weft_rule_table_free(&state->rules);
    weft_map_free(&state->warned);
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

weft_map *weft_expansions_kept(void)
{
    return &weft_runtime.dispatch->expansions;
}

void weft_expansions_join_by(const weft_joining *joining)
{
    weft_runtime.dispatch->joining = joining;
}

const weft_joining *weft_expansions_joining(void)
{
    return weft_runtime.dispatch->joining;
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

/* Input layouts are interned, so their addresses are hashed. */
uint64_t weft_cache_hash(const weft_cache_key *key)
{
    const weft_call_layouts *call = &key->layouts;
    uint64_t hash = weft_hash_pointer(call->operation);
    for (int i = 0; i < call->num_inputs; i++) {
        const weft_access_map *map = key->access_map[i];
        hash = weft_hash_u64(hash ^ (uint64_t)(uintptr_t)call->inputs[i]);
        hash = map == NULL ? hash : weft_hash_bytes(map->turn, sizeof(map->turn), hash);
    }
    /* Members after num_sizes and num_numbers are 0. */
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
    const weft_map *calls = &weft_runtime.dispatch->calls;
    weft_map_slot *slot = weft_map_first(calls, key->hash);
    while (slot != NULL && !entry_is(slot->value, key)) {
        slot = weft_map_next(calls, slot);
    }
    if (slot == NULL) {
        return NULL;
    }
    weft_cached_call *found = slot->value;
    weft_lru_hold(&found->entry);
    return found;
}

void weft_cache_release(weft_cached_call *cached)
{
    if (cached != NULL) {
        weft_lru_release(&cached->entry);
    }
}

static void destroy(weft_lru_entry *entry)
{
    weft_cached_call *cached = (weft_cached_call *)entry;
    weft_task_list_free(&cached->tasks);
    free(cached->access_maps);
    free(cached);
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
    const weft_call_layouts *call = &key->layouts;
    weft_cached_call *added = calloc(1, sizeof(*added));
    if (added != NULL) {
        added->num_inputs = call->num_inputs;
    }
    if (added == NULL || !copy_maps(added, key)) {
        free(added);
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for the layouts");
        return NULL;
    }
    added->operation = call->operation;
    memcpy(added->inputs, call->inputs, (size_t)call->num_inputs * sizeof(call->inputs[0]));
    added->attributes = *call->attributes;
    added->sharding = *sharding;
    added->entry.destroy = destroy;
    size_t num_maps = 0;
    for (int i = 0; i < call->num_inputs; i++) {
        num_maps += key->access_map[i] != NULL;
    }
    weft_lru_hold(&added->entry);
    weft_lru_keep(&weft_runtime.call_cache, &weft_runtime.dispatch->calls, key->hash, &added->entry,
                  sizeof(*added) + num_maps * sizeof(*added->access_maps));
    return added;
}

static void meet_layouts(const weft_cached_call *cached)
{
    int num_maps = 0;
    for (int i = 0; i < cached->num_inputs; i++) {
        weft_meet_layout(cached->inputs[i]);
        weft_meet_layout(cached->sharding.inputs[i]);
        num_maps += (int)(cached->mapped >> i & 1);
    }
    for (int i = 0; i < num_maps; i++) {
        weft_meet_layout(cached->access_maps[i].cut);
    }
    for (int i = 0; i < cached->sharding.num_outputs; i++) {
        weft_meet_layout(cached->sharding.outputs[i]);
    }
}

void weft_dispatch_meet_layouts(void)
{
    const weft_map *calls = &weft_runtime.dispatch->calls, *expansions = &weft_runtime.dispatch->expansions;
    for (weft_map_slot *slot = weft_map_each(calls, NULL); slot != NULL; slot = weft_map_each(calls, slot)) {
        meet_layouts(slot->value);
    }
    for (weft_map_slot *slot = weft_map_each(expansions, NULL); slot != NULL; slot = weft_map_each(expansions, slot)) {
        weft_expansion_meet_layouts(slot->value);
    }
}

bool weft_cache_wants_tasks(weft_cached_call *cached)
{
    return ++cached->uses >= 2 || weft_runtime.task_cache == WEFT_TASK_CACHE_CHECK;
}

void weft_cache_keep_tasks(weft_cached_call *cached, weft_task_list *tasks)
{
    /* The structure itself is counted in the entry. */
    if (weft_lru_grow(&cached->entry, weft_task_list_bytes(tasks) - sizeof(*tasks))) {
        cached->tasks = *tasks;
        cached->has_tasks = true;
        *tasks = (weft_task_list){ .failed = false };
    }
}

bool weft_cache_first_warning(const weft_operation *operation)
{
    weft_map *warned = &weft_runtime.dispatch->warned;
    return !weft_map_has_pointer(warned, operation) && weft_map_add_pointer(warned, operation);
}
