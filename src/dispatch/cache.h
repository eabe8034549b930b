/* The cache of calls: chosen layouts, task lists, and parsed rules; and the choice of layouts (choose.c). */
#ifndef WEFT_SRC_DISPATCH_CACHE_H
#define WEFT_SRC_DISPATCH_CACHE_H

#include "dispatch/dispatch.h"

/* Entry of a call: (operation, input layouts, access maps of inputs, attributes) -> layouts to work on,
 * and the task list for these. Which inputs are the same tensor is not in the key: lowerings cannot see
 * it, and the run of a list merges equal handles. */
typedef struct weft_cached_call {
    weft_lru_entry entry; /* must be the first member */
    const weft_operation *operation;
    int num_inputs;
    const weft_layout *inputs[WEFT_MAX_INPUTS];
    unsigned mapped;              /* bit i: input i has its own access map */
    weft_access_map *access_maps; /* in the order of the bits; NULL: none */
    weft_attributes attributes;
    weft_sharding sharding;
    uint64_t uses;        /* number of look-ups of the tasks */
    weft_task_list tasks; /* valid if has_tasks */
    bool has_tasks;
} weft_cached_call;

/* The key of a call. */
typedef struct weft_cache_key {
    weft_call_layouts layouts;
    const weft_access_map *const *access_map; /* one per input; NULL: no access map of its own */
    uint64_t hash;                            /* weft_cache_hash() */
} weft_cache_key;

uint64_t weft_cache_hash(const weft_cache_key *key);
/* Allocates nothing. NULL: not found. The entry is held. */
weft_cached_call *weft_cache_find(const weft_cache_key *key);
/* Adds an entry, cached if the budget allows. The entry is held. NULL with the error kept: no memory. */
weft_cached_call *weft_cache_add(const char *function, const weft_cache_key *key,
                                 const weft_sharding *sharding);
/* Releases an entry of the two functions above. May be NULL. */
void weft_cache_release(weft_cached_call *cached);
/* Whether to keep the list that is being built: from its second use on. */
bool weft_cache_wants_tasks(weft_cached_call *cached);
/* Takes over the list if it fits into the budget. */
void weft_cache_keep_tasks(weft_cached_call *cached, weft_task_list *tasks);

/* The cached expansions of composites (expansion.h). */
weft_map *weft_expansions_kept(void);

/* Set by weft_dispatch_force(). */
weft_forced_sharding *weft_forced(void);

weft_rule_table *weft_rules(void);

/* True once per operation: warnings are printed once. */
bool weft_cache_first_warning(const weft_operation *operation);

/* The sharding of a call with these inputs, from the cache or chosen and added to it; NULL with the error
 * kept. *guessed: see weft_gather_layouts(). The result is valid until *cached is released; if *cached is
 * NULL, it is in `own`. */
const weft_sharding *weft_obtain_layouts(const weft_call *call, weft_tensor_impl *const inputs[],
                                         weft_sharding *own, int *guessed, weft_cached_call **cached);

#endif
