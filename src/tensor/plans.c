/* Cached plans of redistributions, and their execution. */
#include <stdlib.h>

#include "tensor/regions.h"
#include "tensor/state.h"

/* ---- kept ---------------------------------------------------------------------------------------------- */

/* Plans are cached under the common budget (weft_runtime.call_cache), their task lists from the second run
 * on. Submitted tasks keep nothing of a list. */

static void drop_exchanges(weft_cached_plan *plan)
{
    for (int i = 0; i < plan->plan.num_stages; i++) {
        weft_exchange_free(plan->exchanges[i]);
        plan->exchanges[i] = NULL;
    }
}

static void destroy(weft_lru_entry *entry)
{
    weft_cached_plan *plan = (weft_cached_plan *)entry;
    drop_exchanges(plan);
    free(plan);
}

void weft_plan_release(weft_cached_plan *plan)
{
    if (plan != NULL) {
        weft_lru_release(&plan->entry);
    }
}

void weft_plans_free(weft_tensors *tensors)
{
    weft_lru_clear(&weft_runtime.call_cache);
    weft_map_free(&tensors->plans);
}

void weft_plans_meet_layouts(const weft_tensors *tensors)
{
    const weft_map *plans = &tensors->plans;
    for (weft_map_slot *slot = weft_map_each(plans, NULL); slot != NULL; slot = weft_map_each(plans, slot)) {
        const weft_cached_plan *cached = slot->value;
        weft_meet_layout(cached->access_map.cut);
        weft_meet_layout(cached->plan.from);
        weft_meet_layout(cached->plan.to);
        for (int i = 0; i < cached->plan.num_stages; i++) {
            weft_meet_layout(cached->plan.stages[i].from);
            weft_meet_layout(cached->plan.stages[i].to);
        }
    }
}

/* An access map is one stage. */
static weft_status plan_stages(weft_cached_plan *plan, const weft_layout *from, const weft_layout *to, char *why,
                               size_t why_size)
{
    if (plan->access_map.cut == NULL) {
        return weft_plan_make(weft_runtime.layouts, &weft_runtime.topology, &weft_runtime.cost, from, to, &plan->plan,
                              why, why_size);
    }
    plan->plan = (weft_plan){ .from = from, .to = to, .num_stages = 1, .algorithm = "access map" };
    plan->plan.predicted_us =
        weft_access_map_cost(&weft_runtime.topology, &weft_runtime.cost, from, &plan->access_map);
    plan->plan.stages[0] = (weft_stage){ .from = from, .to = to, .access_map = &plan->access_map, .scale = 1.0 };
    return WEFT_OK;
}

/* A new plan, held, not cached yet. */
static weft_cached_plan *plan_build(const char *function, const weft_layout *from, const weft_layout *to,
                                    const weft_access_map *access_map)
{
    weft_cached_plan *plan = calloc(1, sizeof(*plan));
    if (plan == NULL) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for a plan");
        return NULL;
    }
    plan->entry.destroy = destroy;
    weft_lru_hold(&plan->entry);
    if (access_map != NULL) {
        plan->access_map = *access_map;
    }
    char why[200] = "";
    weft_status status = plan_stages(plan, from, to, why, sizeof(why));
    if (status != WEFT_OK) {
        weft_fail(status, function, "%s", why);
        free(plan);
        return NULL;
    }
    return plan;
}

static bool same_map(const weft_cached_plan *plan, const weft_access_map *access_map)
{
    return access_map == NULL ? plan->access_map.cut == NULL : weft_access_map_equal(&plan->access_map, access_map);
}

weft_cached_plan *weft_plan_obtain(const char *function, const weft_layout *from, const weft_layout *to,
                                   const weft_access_map *access_map)
{
    weft_map *plans = &weft_runtime.tensors->plans;
    uint64_t hash = weft_hash_u64(from->hash ^ weft_hash_u64(to->hash));
    if (access_map != NULL) {
        hash = weft_hash_bytes(access_map->of, sizeof(access_map->of), hash);
        hash = weft_hash_bytes(access_map->turn, sizeof(access_map->turn), hash);
        hash = weft_hash_bytes(access_map->image, sizeof(access_map->image), hash);
    }
    for (weft_map_slot *slot = weft_map_first(plans, hash); slot != NULL; slot = weft_map_next(plans, slot)) {
        weft_cached_plan *known = slot->value;
        if (known->plan.from == from && known->plan.to == to && same_map(known, access_map)) {
            weft_runtime.counters.plan_hits++;
            weft_lru_hold(&known->entry);
            return known;
        }
    }
    weft_runtime.counters.plan_misses++;
    weft_cached_plan *plan = plan_build(function, from, to, access_map);
    if (plan != NULL) {
        weft_lru_keep(&weft_runtime.call_cache, plans, hash, &plan->entry, sizeof(*plan));
    }
    return plan;
}

bool weft_plan_check(const char *function, const weft_layout *from, const weft_layout *to)
{
    weft_cached_plan *plan = weft_plan_obtain(function, from, to, NULL);
    weft_plan_release(plan);
    return plan != NULL;
}

/* ---- this process's part ------------------------------------------------------------------------------- */

/* With WEFT_TASK_CACHE=check, for reused lists. False with the error kept. */
static bool check_again(const char *function, const weft_cached_plan *plan)
{
    bool right = true;
    bool checks = weft_runtime.task_cache == WEFT_TASK_CACHE_CHECK;
    for (int i = 0; i < plan->plan.num_stages && checks && right; i++) {
        right = weft_exchange_check_again(function, plan->exchanges[i]);
    }
    return right;
}

/* Builds all lists before the first is run. False with the error kept. */
static bool make_exchanges(const char *function, weft_cached_plan *plan)
{
    if (plan->plan.num_stages == 0 || plan->exchanges[0] != NULL) {
        return check_again(function, plan);
    }
    for (int i = 0; i < plan->plan.num_stages; i++) {
        plan->exchanges[i] = weft_exchange_new(function, &plan->plan.stages[i]);
        if (plan->exchanges[i] == NULL) {
            drop_exchanges(plan);
            return false;
        }
    }
    return true;
}

/* After a run that built them. */
static void keep_or_drop_exchanges(weft_cached_plan *plan)
{
    weft_task_cache cache = weft_runtime.task_cache;
    bool wanted = ++plan->uses >= 2 ? cache != WEFT_TASK_CACHE_OFF : cache == WEFT_TASK_CACHE_CHECK;
    size_t bytes = 0;
    for (int i = 0; i < plan->plan.num_stages; i++) {
        bytes += weft_exchange_bytes(plan->exchanges[i]);
    }
    if (!wanted || !weft_lru_grow(&plan->entry, bytes)) {
        drop_exchanges(plan);
    }
}

/* Runs all stages from `source` into `target`, which has the plan's last layout. */
static bool run_stages(const char *function, const weft_cached_plan *plan, weft_tensor_impl *source,
                       weft_tensor_impl *target, bool is_new)
{
    weft_tensor_impl *current = source;
    bool done = true;
    for (int i = 0; i < plan->plan.num_stages && done; i++) {
        bool last = i == plan->plan.num_stages - 1;
        weft_tensor_impl *next = last ? target : weft_tensor_new(function, plan->plan.stages[i].to);
        if (next != NULL && next->name == NULL && weft_runtime.trace != NULL) {
            weft_tensor_trace_moved(next, source);
        }
        done = next != NULL && weft_exchange_run(function, plan->exchanges[i], current, next, !last || is_new);
        current = next;
    }
    return done;
}

/* A scope of its own releases temporary tensors at once. */
bool weft_plan_run(const char *function, weft_cached_plan *plan, weft_tensor_impl *source, weft_tensor_impl *target,
                   bool is_new)
{
    if (weft_runtime.regions != NULL) {
        weft_print_move(function, &plan->plan);
    }
    bool kept = plan->exchanges[0] != NULL;
    if (!make_exchanges(function, plan)) {
        return false;
    }
    weft_runtime.counters.stages += (uint64_t)plan->plan.num_stages;
    weft_scope_begin();
    bool done = run_stages(function, plan, source, target, is_new);
    weft_scope_end_own();
    if (!kept) {
        keep_or_drop_exchanges(plan);
    }
    return done;
}

bool weft_plan_move(const char *function, const weft_access_map *access_map, weft_tensor_impl *source,
                    weft_tensor_impl *target)
{
    weft_cached_plan *plan = weft_plan_obtain(function, source->layout, target->layout, access_map);
    bool done = plan != NULL && weft_plan_run(function, plan, source, target, false);
    weft_plan_release(plan);
    return done;
}
