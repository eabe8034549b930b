/* The choice of layouts for a call. */
#include "dispatch/cache.h"
#include "dispatch/inputs.h"

/* The sharding of a call that is not in the cache. False with the error kept. */
static bool find_sharding(const weft_call *call, const weft_call_layouts *layouts, weft_sharding *sharding)
{
    weft_sharding_world world = {
        .table = weft_runtime.layouts,
        .topology = &weft_runtime.topology,
        .cost = &weft_runtime.cost,
        .rules = weft_rules(),
        .forced = weft_forced(),
    };
    char why[400] = "";
    weft_status status = weft_call_check_inputs(layouts, why, sizeof(why));
    if (status == WEFT_OK) {
        status = weft_call_shard(&world, layouts, sharding, why, sizeof(why));
    }
    if (status != WEFT_OK) {
        weft_fail(status, call->function, "%s", why[0] != '\0' ? why : "no memory for the layouts");
    }
    return status == WEFT_OK;
}

const weft_sharding *weft_obtain_layouts(const weft_call *call, weft_tensor_impl *const tensors[],
                                         weft_sharding *own, int *guessed, weft_cached_call **cached)
{
    weft_cache_key key; /* only num_inputs of its inputs are written */
    key.access_map = call->access_map;
    key.layouts.operation = call->operation;
    key.layouts.num_inputs = call->num_inputs;
    key.layouts.attributes = &call->attributes;
    *cached = NULL;
    if (!weft_gather_layouts(call, tensors, key.layouts.inputs, guessed)) {
        return NULL;
    }
    bool forced = weft_forced()->active;
    key.hash = weft_cache_hash(&key);
    *cached = forced ? NULL : weft_cache_find(&key);
    if (*cached != NULL) {
        weft_runtime.counters.dispatch_hits++;
        return &(*cached)->sharding;
    }
    weft_runtime.counters.dispatch_misses++;
    if (!find_sharding(call, &key.layouts, own)) {
        return NULL;
    }
    if (forced) {
        return own;
    }
    *cached = weft_cache_add(call->function, &key, own);
    return *cached == NULL ? NULL : &(*cached)->sharding;
}
