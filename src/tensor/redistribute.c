/* From one layout to another: a view if the values are in memory already, else a plan (plans.c). */
#include <stdlib.h>
#include <string.h>

#include "comm/check_spmd.h"
#include "tensor/actions.h"
#include "tensor/explained.h"
#include "tensor/memory.h"
#include "tensor/regions.h"
#include "tensor/run.h"
#include "tensor/state.h"

/* ---- views --------------------------------------------------------------------------------------------- */

/* Whether Replicate became Shard along each mesh dimension where the layouts differ, and no cut changed; `alone`: or the mesh
 * dimension has one rank, which has all values, summed up or not. */
static bool only_slices(const weft_layout *from, const weft_layout *to, bool alone)
{
    bool lost[WEFT_MAX_DIMS] = { false }, gained[WEFT_MAX_DIMS];
    bool slices = from->mesh == to->mesh && weft_layouts_number_all_alike(from, to);
    if (slices) {
        weft_layout_mark_changed_cuts(from, to, lost, gained);
    }
    for (int m = 0; slices && m < from->mesh->ndim; m++) {
        weft_placement before = from->placements[m], after = to->placements[m];
        bool stays = before.kind == WEFT_PARTIAL || after.kind == WEFT_PARTIAL ? weft_placement_equal(before, after) : !lost[m];
        slices = stays || (alone && from->mesh->shape[m] == 1);
    }
    return slices;
}

/* Whether EVERY rank finds its part of `to` in its part of `from`. Must be the same on every process: one that took a view would
 * not send what another one waits for. */
bool weft_is_local_slice(const weft_layout *from, const weft_layout *to)
{
    return only_slices(from, to, true);
}

bool weft_check_redistribution(const char *function, const weft_layout *from, const weft_layout *to)
{
    return only_slices(from, to, false) || weft_plan_check(function, from, to);
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

/* ---- as a public call and for the levels above -------------------------------------------------------- */

weft_tensor_impl *weft_tensor_to_layout(const char *function, weft_tensor_impl *tensor,
                                        const weft_layout *layout)
{
    if (tensor->layout == layout) {
        return weft_tensor_share(tensor);
    }
    if (weft_is_local_slice(tensor->layout, layout)) {
        if (!weft_check_redistribution(function, tensor->layout, layout)) {
            return NULL; /* along one rank, too, nothing becomes Partial */
        }
        weft_tensor_impl *view = slice_view(function, tensor, layout);
        if (view != NULL) {
            return view;
        }
    }
    weft_cached_plan *plan = weft_plan_obtain(function, tensor->layout, layout, NULL);
    weft_tensor_impl *target = plan == NULL ? NULL : weft_tensor_new(function, layout);
    bool done = target != NULL && weft_plan_run(function, plan, tensor, target, true);
    weft_plan_release(plan);
    return done ? target : weft_tensor_discard(target);
}

const weft_layout *weft_access_layout(const char *function, const weft_layout *from, const weft_access_map *access_map)
{
    int64_t shape[WEFT_MAX_DIMS];
    weft_placement placements[WEFT_MAX_DIMS];
    weft_access_map_shape(access_map, from, shape);
    if (!weft_check_shape(function, from->ndim, shape)) {
        return NULL;
    }
    for (int m = 0; m < from->mesh->ndim; m++) {
        placements[m] = from->placements[m];
        if (placements[m].kind == WEFT_SHARD && access_map->has[placements[m].dim]) {
            placements[m] = weft_shard(placements[m].dim); /* the parts of a mapped dimension are of one size */
        }
    }
    const weft_layout *to = weft_layout_intern(weft_runtime.layouts, from->mesh, placements, from->ndim, shape, from->dtype);
    if (to == NULL) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for a layout");
    }
    return to;
}

/* One stage for each image of periodic dimensions. */
weft_tensor_impl *weft_tensor_access(const char *function, weft_tensor_impl *tensor,
                                     const weft_access_map *access_map)
{
    const weft_layout *from = tensor->layout, *to = weft_access_layout(function, from, access_map);
    weft_tensor_impl *target = to == NULL ? NULL : weft_tensor_new(function, to);
    weft_access_map map = *access_map;
    bool done = target != NULL, is_new = true;
    weft_access_map_first_image(&map);
    do {
        weft_cached_plan *plan = done ? weft_plan_obtain(function, from, to, &map) : NULL;
        done = plan != NULL && weft_plan_run(function, plan, tensor, target, is_new);
        weft_plan_release(plan);
        is_new = false;
    } while (done && weft_access_map_next_image(&map));
    return done ? target : weft_tensor_discard(target);
}

static weft_status perform_access(const weft_call *call, weft_tensor *outputs[])
{
    weft_tensor_impl *tensor = weft_tensor_get(call->inputs[0]);
    if (weft_runtime.explained != NULL) {
        weft_explain_access(tensor->layout, call->access_map[0]);
    }
    outputs[0] = weft_tensor_handle(weft_tensor_access(call->function, tensor, call->access_map[0]));
    return outputs[0] == NULL ? weft_latest_status() : WEFT_OK;
}

const weft_operation weft_action_access = {
    .name = "access", .perform = perform_access, .num_outputs = 1, .effects = WEFT_MAKES
};

bool weft_tensor_place(const char *function, weft_tensor_impl *target, weft_tensor_impl *tensor,
                       const weft_access_map *access_map)
{
    return weft_plan_move(function, access_map, tensor, target);
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

/* Through a tensor of its own: a group needs all its panels at once, and those of the target may share memory with the
 * source's. */
static bool copy_by_groups(const char *function, weft_tensor_impl *target, weft_tensor_impl *source)
{
    weft_scope_begin();
    weft_tensor_impl *moved = weft_tensor_to_layout(function, source, target->layout);
    bool done = moved != NULL && copy_panels(target, moved);
    weft_scope_end_own();
    return done;
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
    bool groups = weft_runtime.comm != NULL && weft_comm_has_groups(weft_runtime.comm);
    if (groups && !weft_is_local_slice(source->layout, target->layout)) {
        return copy_by_groups(function, target, source);
    }
    return weft_plan_move(function, NULL, source, target);
}

/* ---- calls ------------------------------------------------------------------------------------------- */

static weft_status perform_to_layout(const weft_call *call, weft_tensor *outputs[])
{
    if (weft_layout_of(call->inputs[0]) != call->details->layout &&
        !weft_check_memory(call->function, "tensor", 1, &call->details->layout)) {
        return weft_latest_status();
    }
    if (weft_runtime.explained != NULL) {
        weft_explain_move(call->function, weft_layout_of(call->inputs[0]), call->details->layout);
    }
    outputs[0] = weft_tensor_handle(
        weft_tensor_to_layout(call->function, weft_tensor_get(call->inputs[0]), call->details->layout));
    return outputs[0] == NULL ? weft_latest_status() : WEFT_OK;
}

const weft_operation weft_action_to_layout = {
    .name = "to_layout",
    .perform = perform_to_layout,
    .num_outputs = 1,
    .effects = WEFT_MAKES | WEFT_MOVES,
};

static weft_status perform_redistribute(const weft_call *call, weft_tensor *outputs[])
{
    const weft_layout *layouts[] = { weft_layout_of(call->inputs[0]), call->details->layout };
    weft_call_signature signature = { .function = call->function, .num_layouts = 2, .layouts = layouts };
    return weft_check_spmd(&signature) ? perform_to_layout(call, outputs) : weft_latest_status();
}

const weft_operation weft_action_redistribute = {
    .name = "redistribute",
    .perform = perform_redistribute,
    .num_outputs = 1,
    .effects = WEFT_MAKES | WEFT_MOVES,
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
                                             .operation = &weft_action_redistribute,
                                             .num_inputs = 1,
                                             .inputs = { handle },
                                             .details = &(weft_call_details){ .layout = to } });
}
