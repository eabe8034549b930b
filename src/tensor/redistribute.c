/* From one layout to another: a view if the values are in memory already, else the plan's stages. */
#include <stdlib.h>
#include <string.h>

#include "comm/check_spmd.h"
#include "tensor/actions.h"
#include "tensor/regions.h"
#include "tensor/run.h"
#include "tensor/state.h"

/* ---- cached plans -------------------------------------------------------------------------------------- */

/* Limits the memory of plans in programs whose shapes or slices never repeat. Above the limit all are
 * dropped, which costs each plan in use one miss. Submitted tasks keep nothing of a plan. (Layouts stay:
 * caches compare them by address, and they are small.) */

static void plan_free(weft_cached_plan *cached)
{
    for (int i = 0; i < cached->plan.num_stages; i++) {
        weft_exchange_free(cached->exchanges[i]);
    }
    free(cached);
}

void weft_plans_free(weft_tensors *tensors)
{
    const weft_map *plans = &tensors->plans;
    for (weft_map_slot *slot = weft_map_each(plans, NULL); slot != NULL; slot = weft_map_each(plans, slot)) {
        plan_free(slot->value);
    }
    weft_map_free(&tensors->plans);
    tensors->plan_bytes = 0;
}

/* An access map is one stage. */
static weft_status plan_stages(weft_cached_plan *cached, const weft_layout *from, const weft_layout *to,
                               char *why, size_t why_size)
{
    if (cached->access_map.cut == NULL) {
        return weft_plan_make(weft_runtime.layouts, &weft_runtime.topology, &weft_runtime.cost, from, to,
                              &cached->plan, why, why_size);
    }
    cached->plan = (weft_plan){ .from = from, .to = to, .num_stages = 1, .algorithm = "windows" };
    cached->plan.stages[0] =
        (weft_stage){ .from = from, .to = to, .access_map = &cached->access_map, .scale = 1.0 };
    return WEFT_OK;
}

static weft_cached_plan *plan_build(const char *function, const weft_layout *from, const weft_layout *to,
                                    const weft_access_map *access_map)
{
    weft_cached_plan *cached = calloc(1, sizeof(*cached));
    if (cached == NULL) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for a plan");
        return NULL;
    }
    cached->bytes = sizeof(*cached);
    if (access_map != NULL) {
        cached->access_map = *access_map;
    }
    char why[200] = "";
    weft_status status = plan_stages(cached, from, to, why, sizeof(why));
    if (status != WEFT_OK) {
        weft_fail(status, function, "%s", why);
        free(cached);
        return NULL;
    }
    for (int i = 0; i < cached->plan.num_stages; i++) {
        cached->exchanges[i] = weft_exchange_new(function, &cached->plan.stages[i]);
        if (cached->exchanges[i] == NULL) {
            plan_free(cached);
            return NULL;
        }
        cached->bytes += weft_exchange_bytes(cached->exchanges[i]);
    }
    return cached;
}

static bool same_map(const weft_cached_plan *cached, const weft_access_map *access_map)
{
    return access_map == NULL ? cached->access_map.cut == NULL
                              : weft_access_map_equal(&cached->access_map, access_map);
}

/* WEFT_TASK_CACHE=check. False with the error kept. */
static bool check_again(const char *function, const weft_cached_plan *cached)
{
    bool right = true;
    bool checks = weft_runtime.task_cache == WEFT_TASK_CACHE_CHECK;
    for (int i = 0; i < cached->plan.num_stages && checks && right; i++) {
        right = weft_exchange_check_again(function, cached->exchanges[i]);
    }
    return right;
}

static weft_cached_plan *obtain(const char *function, const weft_layout *from, const weft_layout *to,
                                const weft_access_map *access_map)
{
    weft_tensors *tensors = weft_runtime.tensors;
    uint64_t hash = weft_hash_u64(from->hash ^ weft_hash_u64(to->hash));
    if (access_map != NULL) {
        hash = weft_hash_bytes(access_map->of, sizeof(access_map->of), hash);
        hash = weft_hash_bytes(access_map->turn, sizeof(access_map->turn), hash);
    }
    weft_map_slot *slot = weft_map_first(&tensors->plans, hash);
    for (; slot != NULL; slot = weft_map_next(&tensors->plans, slot)) {
        weft_cached_plan *known = slot->value;
        if (known->plan.from == from && known->plan.to == to && same_map(known, access_map)) {
            weft_runtime.counters.plan_hits++;
            return check_again(function, known) ? known : NULL;
        }
    }
    weft_runtime.counters.plan_misses++;
    weft_cached_plan *cached = plan_build(function, from, to, access_map);
    if (cached == NULL) {
        return NULL;
    }
    if (tensors->plan_bytes + cached->bytes > tensors->max_plan_bytes) {
        weft_plans_free(tensors);
    }
    if (!weft_map_add(&tensors->plans, hash, cached)) {
        plan_free(cached);
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for a plan");
        return NULL;
    }
    tensors->plan_bytes += cached->bytes;
    return cached;
}

weft_cached_plan *weft_plan_obtain(const char *function, const weft_layout *from, const weft_layout *to)
{
    return obtain(function, from, to, NULL);
}

/* ---- views --------------------------------------------------------------------------------------------- */

/* Whether a mesh dimension after `m` shards tensor dimension `d`: it splits the parts of `m`, so that a
 * new shard along `m` changes its parts. */
static bool sharded_after(const weft_layout *layout, int m, int d)
{
    for (int later = m + 1; later < layout->mesh->ndim; later++) {
        if (layout->placements[later].kind == WEFT_SHARD && layout->placements[later].dim == d) {
            return true;
        }
    }
    return false;
}

/* Whether EVERY rank finds its part of `to` in its part of `from`: Replicate became Shard, nothing else
 * changed. Must be the same on every process: one that took a view would not send what another one waits
 * for. */
bool weft_is_local_slice(const weft_layout *from, const weft_layout *to)
{
    if (from->mesh != to->mesh) {
        return false;
    }
    for (int m = 0; m < from->mesh->ndim; m++) {
        weft_placement before = from->placements[m], after = to->placements[m];
        bool slices =
            before.kind == WEFT_REPLICATE && after.kind == WEFT_SHARD && !sharded_after(from, m, after.dim);
        if (!slices && !weft_placement_equal(before, after)) {
            return false;
        }
    }
    return true;
}

bool weft_check_redistribution(const char *function, const weft_layout *from, const weft_layout *to)
{
    return weft_is_local_slice(from, to) || weft_plan_obtain(function, from, to) != NULL;
}

/* Elements from the first of `outer` to the first of `inner` if inner is contiguous in it; else -1. */
static int64_t contiguous_offset(int ndim, const weft_box *outer, const weft_box *inner)
{
    int64_t offset = 0, step = 1;
    bool partial = false; /* an inner dimension is not taken whole */
    for (int d = ndim - 1; d >= 0; d--) {
        int64_t start = inner->offset[d] - outer->offset[d];
        if (start < 0 || start + inner->extent[d] > outer->extent[d] || (partial && inner->extent[d] > 1)) {
            return -1;
        }
        partial = partial || inner->extent[d] != outer->extent[d];
        offset += start * step;
        step *= outer->extent[d];
    }
    return offset;
}

/* The tensor in `layout` on the same memory; NULL with no error kept: impossible. */
static weft_tensor_impl *slice_view(const char *function, weft_tensor_impl *tensor, const weft_layout *layout)
{
    weft_tensor_impl *view = weft_tensor_allocate(function, layout);
    for (int i = 0; view != NULL && i < view->num_shards; i++) {
        const weft_local_shard *source = &tensor->shards[i];
        weft_local_shard *shard = &view->shards[i];
        if (shard->count == 0) {
            continue;
        }
        int64_t offset = source->count == 0 ? -1 : contiguous_offset(layout->ndim, &source->box, &shard->box);
        int64_t bytes = offset * (int64_t)weft_dtype_size(layout->dtype);
        if (offset < 0 || !weft_shard_may_be_viewed(source) ||
            !weft_shard_view(layout, shard, tensor, source, bytes)) {
            weft_tensor_delete(view);
            return NULL;
        }
    }
    if (view != NULL && !weft_tensor_register(function, view)) {
        weft_tensor_delete(view);
        return NULL;
    }
    return view;
}

/* ---- executing a plan ---------------------------------------------------------------------------------- */

/* Runs all stages from `source` into `target`, which has the plan's last layout. */
static bool run_stages(const char *function, const weft_cached_plan *cached, weft_tensor_impl *source,
                       weft_tensor_impl *target)
{
    weft_tensor_impl *current = source;
    bool done = true;
    for (int i = 0; i < cached->plan.num_stages && done; i++) {
        bool last = i == cached->plan.num_stages - 1;
        weft_tensor_impl *next = last ? target : weft_tensor_new(function, cached->plan.stages[i].to);
        if (next != NULL && next->name == NULL && weft_runtime.trace != NULL) {
            weft_tensor_trace_moved(next, source);
        }
        done = next != NULL && weft_exchange_run(function, cached->exchanges[i], current, next);
        current = next;
    }
    return done;
}

/* A scope of its own releases temporary tensors at once. */
bool weft_plan_run(const char *function, const weft_cached_plan *cached, weft_tensor_impl *source,
                   weft_tensor_impl *target)
{
    if (weft_runtime.regions != NULL) {
        weft_print_move(function, &cached->plan);
    }
    weft_runtime.counters.stages += (uint64_t)cached->plan.num_stages;
    weft_scope_open();
    bool done = run_stages(function, cached, source, target);
    weft_scope_close();
    return done;
}

weft_tensor_impl *weft_tensor_to_layout(const char *function, weft_tensor_impl *tensor,
                                        const weft_layout *layout)
{
    if (tensor->layout == layout) {
        return weft_tensor_share(tensor);
    }
    if (weft_is_local_slice(tensor->layout, layout)) {
        weft_tensor_impl *view = slice_view(function, tensor, layout);
        if (view != NULL) {
            return view;
        }
    }
    weft_cached_plan *cached = weft_plan_obtain(function, tensor->layout, layout);
    weft_tensor_impl *target = cached == NULL ? NULL : weft_tensor_new(function, layout);
    if (target == NULL || !weft_plan_run(function, cached, tensor, target)) {
        return NULL;
    }
    return target;
}

weft_tensor_impl *weft_tensor_access(const char *function, weft_tensor_impl *tensor,
                                     const weft_access_map *access_map)
{
    const weft_layout *from = tensor->layout;
    int64_t shape[WEFT_MAX_DIMS];
    for (int d = 0; d < from->ndim; d++) {
        shape[d] = access_map->has[d] ? weft_access_map_largest(access_map, d) : from->shape[d];
        if (access_map->has[d] && !weft_mul_checked(shape[d], weft_layout_parts(from, d), &shape[d])) {
            shape[d] = INT64_MAX; /* refused below */
        }
    }
    if (!weft_check_shape(function, from->ndim, shape)) {
        return NULL;
    }
    const weft_layout *to = weft_layout_intern(weft_runtime.layouts, from->mesh, from->placements, from->ndim,
                                               shape, from->dtype);
    if (to == NULL) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for a layout");
        return NULL;
    }
    weft_cached_plan *cached = obtain(function, from, to, access_map);
    weft_tensor_impl *target = cached == NULL ? NULL : weft_tensor_new(function, to);
    return target != NULL && weft_plan_run(function, cached, tensor, target) ? target : NULL;
}

bool weft_tensor_place(const char *function, weft_tensor_impl *target, weft_tensor_impl *tensor,
                       const weft_access_map *access_map)
{
    weft_cached_plan *cached = obtain(function, tensor->layout, target->layout, access_map);
    return cached != NULL && weft_plan_run(function, cached, tensor, target);
}

static bool copy_panels(weft_tensor_impl *target, const weft_tensor_impl *source)
{
    for (int i = 0; i < target->num_shards; i++) {
        const weft_local_shard *to = &target->shards[i], *from = &source->shards[i];
        for (int panel = 0; panel < (int)to->num_panels; panel++) {
            weft_cut cut = weft_shard_cut(target->layout, to);
            int64_t bytes = weft_cut_end(&cut, panel) - weft_cut_start(&cut, panel);
            if (!weft_task_copy_panel(&to->panels[panel], &from->panels[panel], bytes)) {
                return false;
            }
        }
    }
    return true;
}

bool weft_tensor_copy_into(const char *function, weft_tensor_impl *target, weft_tensor_impl *source)
{
    if (target == source) {
        return true;
    }
    if (!weft_tensor_make_writable(function, target, false)) {
        return false;
    }
    if (target->layout == source->layout) {
        return copy_panels(target, source);
    }
    weft_cached_plan *cached = weft_plan_obtain(function, source->layout, target->layout);
    return cached != NULL && weft_plan_run(function, cached, source, target);
}

/* ---- calls ------------------------------------------------------------------------------------------- */

static weft_status perform_to_layout(const weft_call *call, weft_tensor *outputs[])
{
    outputs[0] = weft_tensor_handle(
        weft_tensor_to_layout(call->function, weft_tensor_get(call->inputs[0]), call->details->layout));
    return outputs[0] == NULL ? weft_latest_status() : WEFT_OK;
}

const weft_action weft_action_to_layout = {
    .name = "to_layout",
    .perform = perform_to_layout,
    .num_outputs = 1,
    .makes = true,
    .moves = true,
};

static weft_status perform_redistribute(const weft_call *call, weft_tensor *outputs[])
{
    const weft_layout *layouts[] = { weft_layout_of(call->inputs[0]), call->details->layout };
    weft_call_signature signature = { .function = call->function, .num_layouts = 2, .layouts = layouts };
    return weft_check_spmd(&signature) ? perform_to_layout(call, outputs) : weft_latest_status();
}

static const weft_action action_redistribute = {
    .name = "redistribute",
    .perform = perform_redistribute,
    .num_outputs = 1,
    .makes = true,
    .moves = true,
};

weft_tensor *weft_redistribute(weft_tensor *handle, weft_mesh *target, const weft_placement *placements)
{
    static const char function[] = "weft_redistribute";
    weft_tensor_impl *tensor = weft_check_tensor(function, "tensor", handle);
    const weft_layout *from = tensor == NULL ? NULL : tensor->layout;
    const weft_mesh_impl *mesh = from == NULL     ? NULL
                                 : target == NULL ? from->mesh
                                                  : weft_check_mesh(function, target);
    const weft_layout *to =
        mesh == NULL ? NULL
                     : weft_check_layout(function, mesh, placements, from->ndim, from->shape, from->dtype);
    if (to == NULL) {
        const weft_layout *layouts[] = { from, to };
        weft_check_spmd(&(weft_call_signature){
            .function = function, .failed = true, .num_layouts = 2, .layouts = layouts });
        return NULL;
    }
    return weft_act_for_tensor(&(weft_call){ .function = function,
                                             .action = &action_redistribute,
                                             .num_inputs = 1,
                                             .inputs = { handle },
                                             .details = &(weft_call_details){ .layout = to } });
}
