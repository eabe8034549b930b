#include "dispatch/cache.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef struct weft_dispatch {
    weft_cached_call **buckets;
    size_t num_buckets; /* a power of two */
    size_t count;
    weft_cached_call *newest, *oldest; /* by their last use */
    size_t task_bytes;                 /* of all lists that are kept */
    weft_ptrset rules;                 /* text -> weft_rule *, parsed */
    weft_ptrset warned;                /* operations that a warning was given of */
    weft_forced_sharding forced;
} weft_dispatch_state;

/* At most so many entries, of 1.5 KB each, and so many bytes of task lists: a program whose attributes never
 * repeat (a window that slides over its data) would else fill the memory. */
enum { FIRST_BUCKETS = 256, MAX_CALLS = 1 << 15, MAX_TASK_BYTES = 64 << 20 };

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

static void forget_call(weft_dispatch_state *state, weft_cached_call *entry)
{
    weft_cached_call **link = &state->buckets[entry->hash & (state->num_buckets - 1)];
    while (*link != entry) {
        link = &(*link)->next;
    }
    *link = entry->next;
    unlink_entry(state, entry);
    drop_tasks(state, entry);
    free(entry);
    state->count--;
}

/* ---- start and stop ------------------------------------------------------------------------------------ */

weft_status weft_dispatch_start(void)
{
    weft_dispatch_state *state = calloc(1, sizeof(*state));
    if (state != NULL) {
        state->num_buckets = FIRST_BUCKETS;
        state->buckets = calloc(state->num_buckets, sizeof(weft_cached_call *));
    }
    if (state == NULL || state->buckets == NULL) {
        free(state);
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
    free(state->buckets);
    for (size_t i = 0; i < state->rules.capacity; i++) {
        if (state->rules.keys[i] != NULL) {
            free(state->rules.values[i]);
        }
    }
    weft_ptrset_free(&state->rules);
    weft_ptrset_free(&state->warned);
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

weft_forced_sharding *weft_forced(void)
{
    return &weft_runtime.dispatch->forced;
}

/* The layouts of the inputs are interned: their addresses stand for them. */
uint64_t weft_cache_hash(const weft_call *call, const weft_layout *const inputs[])
{
    uint64_t hash = weft_hash_u64((uint64_t)(uintptr_t)call->operation);
    for (int i = 0; i < call->num_inputs; i++) {
        hash = weft_hash_u64(hash ^ (uint64_t)(uintptr_t)inputs[i]);
    }
    /* What lies beyond num_sizes and num_numbers is 0. */
    const weft_attributes *attributes = &call->attributes;
    size_t used =
        offsetof(weft_attributes, sizes) + (size_t)attributes->num_sizes * sizeof(attributes->sizes[0]);
    hash = weft_hash_bytes(attributes, used, hash);
    return attributes->num_numbers == 0
               ? hash
               : weft_hash_bytes(attributes->numbers,
                                 (size_t)attributes->num_numbers * sizeof(attributes->numbers[0]), hash);
}

static bool entry_is(const weft_cached_call *entry, const weft_call *call, const weft_layout *const inputs[])
{
    return entry->operation == call->operation && entry->num_inputs == call->num_inputs &&
           memcmp(entry->inputs, inputs, (size_t)call->num_inputs * sizeof(inputs[0])) == 0 &&
           memcmp(&entry->attributes, &call->attributes, sizeof(call->attributes)) == 0;
}

weft_cached_call *weft_cache_find(const weft_call *call, const weft_layout *const inputs[], uint64_t hash)
{
    weft_dispatch_state *state = weft_runtime.dispatch;
    weft_cached_call *entry = state->buckets[hash & (state->num_buckets - 1)];
    while (entry != NULL && !(entry->hash == hash && entry_is(entry, call, inputs))) {
        entry = entry->next;
    }
    if (entry != NULL && entry != state->newest) {
        unlink_entry(state, entry);
        link_newest(state, entry);
    }
    return entry;
}

/* Twice as many buckets; without memory for them the chains grow longer instead. */
static void cache_grow(weft_dispatch_state *state)
{
    size_t num_buckets = 2 * state->num_buckets;
    weft_cached_call **buckets = calloc(num_buckets, sizeof(*buckets));
    if (buckets == NULL) {
        return;
    }
    for (weft_cached_call *entry = state->newest; entry != NULL; entry = entry->older) {
        weft_cached_call **bucket = &buckets[entry->hash & (num_buckets - 1)];
        entry->next = *bucket;
        *bucket = entry;
    }
    free(state->buckets);
    state->buckets = buckets;
    state->num_buckets = num_buckets;
}

weft_cached_call *weft_cache_add(const weft_call *call, const weft_layout *const inputs[], uint64_t hash,
                                 const weft_sharding *sharding)
{
    weft_dispatch_state *state = weft_runtime.dispatch;
    weft_cached_call *entry = calloc(1, sizeof(*entry));
    if (entry == NULL) {
        weft_fail(WEFT_ERR_NOMEM, call->function, "no memory for the layouts");
        return NULL;
    }
    entry->operation = call->operation;
    entry->num_inputs = call->num_inputs;
    memcpy(entry->inputs, inputs, (size_t)call->num_inputs * sizeof(inputs[0]));
    entry->attributes = call->attributes;
    entry->sharding = *sharding;
    entry->hash = hash;
    if (state->count == MAX_CALLS) {
        forget_call(state, state->oldest);
    }
    if (++state->count > state->num_buckets) {
        cache_grow(state);
    }
    weft_cached_call **bucket = &state->buckets[hash & (state->num_buckets - 1)];
    entry->next = *bucket;
    *bucket = entry;
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
    for (weft_cached_call *old = state->oldest; state->task_bytes + bytes > MAX_TASK_BYTES; old = old->newer) {
        drop_tasks(state, old);
    }
    cached->tasks = *tasks;
    cached->task_bytes = bytes;
    cached->has_tasks = true;
    state->task_bytes += bytes;
    *tasks = (weft_task_list){ .failed = false };
}

const weft_rule *weft_cached_rule(const weft_call *call)
{
    weft_dispatch_state *state = weft_runtime.dispatch;
    const char *text = call->operation->rules[call->attributes.rule];
    weft_rule *rule = weft_ptrset_get(&state->rules, text);
    if (rule != NULL) {
        return rule;
    }
    rule = malloc(sizeof(*rule));
    char why[200];
    if (rule == NULL) {
        weft_fail(WEFT_ERR_NOMEM, call->function, "no memory for a rule");
    } else if (weft_rule_parse(text, rule, why, sizeof(why)) != WEFT_OK) {
        weft_fail(WEFT_ERR_INVALID, call->function, "%s", why);
    } else if (rule->num_inputs != call->num_inputs) {
        weft_fail(WEFT_ERR_INVALID, call->function, "rule \"%s\" is not one of %d inputs", text,
                  call->num_inputs);
    } else if (!weft_ptrset_add(&state->rules, text, rule)) {
        weft_fail(WEFT_ERR_NOMEM, call->function, "no memory for a rule");
    } else {
        return rule;
    }
    free(rule);
    return NULL;
}

bool weft_cache_first_warning(const weft_operation *operation)
{
    weft_ptrset *warned = &weft_runtime.dispatch->warned;
    return !weft_ptrset_has(warned, operation) &&
           weft_ptrset_add(warned, operation, (void *)(uintptr_t)operation);
}
