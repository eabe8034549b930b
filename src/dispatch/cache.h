/* What the dispatcher remembers: layouts chosen before, the tasks that calls became, and rules that are parsed;
 * and how it comes to layouts (choose.c). */
#ifndef WEFT_SRC_DISPATCH_CACHE_H
#define WEFT_SRC_DISPATCH_CACHE_H

#include "dispatch/dispatch.h"

struct weft_expansions; /* dispatch/expansion.h */

/* What is remembered of a call: (operation, input layouts, the inputs' own access maps, attributes) -> the
 * layouts to work on, and the tasks on these. Which inputs are one tensor is no part of it: a lowering is not
 * told, and running a list joins what is one handle. */
typedef struct weft_cached_call {
    const weft_operation *operation;
    int num_inputs;
    const weft_layout *inputs[WEFT_MAX_INPUTS];
    unsigned mapped;              /* bit i: input i has an access map of its own */
    weft_access_map *access_maps; /* of these, in their order; NULL: none */
    weft_attributes attributes;
    uint64_t hash;
    weft_sharding sharding;
    uint64_t uses;        /* how often its tasks were asked for */
    weft_task_list tasks; /* where has_tasks */
    bool has_tasks;
    size_t task_bytes;
    struct weft_cached_call *newer, *older; /* by their last use */
} weft_cached_call;

/* A call as the cache sees it. */
typedef struct weft_cache_key {
    weft_call_layouts layouts;
    const weft_access_map *const *access_map; /* of each input; those are NULL that have none of their own */
    uint64_t hash;                            /* weft_cache_hash() */
} weft_cache_key;

uint64_t weft_cache_hash(const weft_cache_key *key);
/* No allocation. NULL when it is not there. Entries are valid until the next one is added. */
weft_cached_call *weft_cache_find(const weft_cache_key *key);
/* NULL with the error kept: no memory. Where there are too many entries, the least recently used goes. */
weft_cached_call *weft_cache_add(const char *function, const weft_cache_key *key,
                                 const weft_sharding *sharding);
/* Whether a list that is built now is worth keeping: from its second use on. */
bool weft_cache_wants_tasks(weft_cached_call *cached);
/* Takes the list over, where it fits into the budget; drops those that were used least recently. */
void weft_cache_keep_tasks(weft_cached_call *cached, weft_task_list *tasks);

/* The expansions of composites that are kept. */
struct weft_expansions *weft_expansions_kept(void);

/* What weft_dispatch_force() has set. */
weft_forced_sharding *weft_forced(void);

weft_rule_table *weft_rules(void);

/* True the first time that it is asked for an operation: warnings are given once. */
bool weft_cache_first_warning(const weft_operation *operation);

/* For a call with these inputs: from the cache, or chosen and added to it, valid until the next call; NULL
 * with the error kept. *guessed: see weft_gather_layouts(). `own`: room for what is not kept; then *cached is
 * NULL. */
const weft_sharding *weft_obtain_layouts(const weft_call *call, weft_tensor_impl *const inputs[],
                                         weft_sharding *own, int *guessed, weft_cached_call **cached);

#endif
