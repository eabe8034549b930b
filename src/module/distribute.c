/* Distribution of a tree over a mesh: by a partition function; what it leaves becomes Replicate. */
#include <stdlib.h>
#include <string.h>

#include <weft/autograd.h>

#include "call/context.h"
#include "module/module.h"
#include "tensor/state.h"

/* ---- one slot -------------------------------------------------------------------------------------------- */

static const char *kind_of(const weft_module_slot *slot)
{
    return slot->is_parameter ? "parameter" : "buffer";
}

/* The program's placements for a slot's tensor, in canonical form; no Partial. A status with the error kept. */
static weft_status check_placements(const char *function, const weft_module_slot *slot, const weft_mesh_impl *mesh,
                                    const weft_placement *placements, weft_placement canonical[])
{
    char why[200];
    const weft_layout *layout = slot->tensor->layout;
    weft_status status = weft_placements_normalize(placements, mesh->ndim, layout->ndim, canonical, why, sizeof(why));
    if (status == WEFT_OK) {
        status = weft_placements_check_sizes(mesh, canonical, layout->shape, why, sizeof(why));
    }
    if (status != WEFT_OK) {
        return weft_fail(status, function, "%s \"%s\": placements: %s", kind_of(slot), weft_path_end(slot->path), why);
    }
    for (int d = 0; d < mesh->ndim; d++) {
        if (canonical[d].kind == WEFT_PARTIAL) {
            return weft_fail(WEFT_ERR_LAYOUT, function, "%s \"%s\": placements[%d] is Partial", kind_of(slot),
                             weft_path_end(slot->path), d);
        }
    }
    return WEFT_OK;
}

/* The use of a tensor in all slots that it is in. NULL: none. */
static void use_everywhere(const weft_module_impl *module, const weft_tensor_impl *tensor, const weft_placement *use)
{
    const weft_module_impl *root = weft_module_root(module);
    weft_slot_walk walk = { root, root, 0 };
    for (weft_module_slot *slot; (slot = weft_slot_next(&walk)) != NULL;) {
        if (slot->tensor == tensor) {
            slot->settled = true;
            slot->has_use = use != NULL;
            if (use != NULL) {
                memcpy(slot->use, use, sizeof(slot->use));
            }
        }
    }
}

/* The same values in another layout: a constant, or a leaf if the tensor is one. NULL with the error kept. */
static weft_tensor *redistribute_leaf(const char *function, weft_tensor *tensor, const weft_mesh_impl *mesh,
                                      const weft_placement *placements)
{
    weft_no_grad_begin();
    weft_tensor *made = weft_redistribute(tensor, mesh->handle, placements);
    weft_no_grad_end();
    bool done = made != NULL && weft_module_own_memory(function, weft_tensor_get(made)) &&
                (!weft_is_leaf(tensor) || weft_set_requires_grad(made, true) == WEFT_OK);
    return done ? made : NULL;
}

/* The new tensor takes the former one's place in all slots. */
static weft_status replace_everywhere(const weft_module_impl *module, weft_module_slot *slot, weft_tensor *tensor)
{
    weft_tensor_impl *former = slot->tensor, *made = weft_tensor_get(tensor);
    if (made == former) {
        return WEFT_OK;
    }
    weft_status status = weft_tensor_set_name(tensor, weft_tensor_label(former));
    if (status == WEFT_OK) {
        former->references++; /* the slots may hold its last ones */
        weft_module_hold_everywhere(module, former, made);
        weft_tensor_unreference(former);
    }
    return status;
}

weft_status weft_module_place_slot(const char *function, const weft_module_impl *module, weft_module_slot *slot,
                                   const weft_mesh_impl *mesh, const weft_placement *placements)
{
    weft_placement canonical[WEFT_MAX_DIMS];
    if (slot->tensor == NULL) {
        slot->settled = true;
        return WEFT_OK;
    }
    weft_status status = check_placements(function, slot, mesh, placements, canonical);
    status = status == WEFT_OK ? weft_scope_begin() : status;
    if (status != WEFT_OK) {
        return status;
    }
    weft_tensor *made = redistribute_leaf(function, slot->tensor->handle, mesh, canonical);
    if (made == NULL) {
        status = weft_latest_status();
        weft_fail(status, function, "%s \"%s\" cannot be redistributed", kind_of(slot), weft_path_end(slot->path));
    } else {
        status = replace_everywhere(module, slot, made);
    }
    weft_scope_end_own();
    if (status == WEFT_OK) {
        use_everywhere(module, slot->tensor, NULL);
    }
    return status;
}

weft_status weft_module_use_slot(const char *function, const weft_module_impl *module, weft_module_slot *slot,
                                 const weft_placement *placements)
{
    if (slot->tensor == NULL) {
        return WEFT_OK;
    }
    weft_placement canonical[WEFT_MAX_DIMS] = { { WEFT_REPLICATE, 0, WEFT_SUM } };
    const weft_mesh_impl *mesh = slot->tensor->layout->mesh;
    weft_status status =
        placements == NULL ? WEFT_OK : check_placements(function, slot, mesh, placements, canonical);
    if (status != WEFT_OK) {
        return status;
    }
    weft_tensor *tensor = slot->tensor->handle;
    status = weft_is_leaf(tensor) ? weft_set_regather(tensor, placements != NULL) : WEFT_OK;
    if (status == WEFT_OK) {
        weft_note_change(function, slot->was_used);
        use_everywhere(module, slot->tensor, placements == NULL ? NULL : canonical);
    }
    return status;
}

weft_status weft_module_place(weft_module *handle, const char *path, weft_mesh *mesh_handle,
                              const weft_placement *placements)
{
    static const char function[] = "weft_module_place";
    weft_deferral_note(function);
    const weft_module_impl *module = weft_check_module(function, "module", handle);
    weft_module_slot *slot = module == NULL ? NULL : weft_module_find_slot(function, module, path);
    const weft_mesh_impl *mesh = slot == NULL ? NULL : weft_check_mesh(function, mesh_handle);
    return mesh == NULL ? weft_latest_status() : weft_module_place_slot(function, module, slot, mesh, placements);
}

weft_status weft_module_set_use(weft_module *handle, const char *path, const weft_placement *placements)
{
    static const char function[] = "weft_module_set_use";
    weft_deferral_note(function);
    const weft_module_impl *module = weft_check_module(function, "module", handle);
    weft_module_slot *slot = module == NULL ? NULL : weft_module_find_slot(function, module, path);
    return slot == NULL ? weft_latest_status() : weft_module_use_slot(function, module, slot, placements);
}

/* ---- the state before, for a distribution that fails ----------------------------------------------------- */

/* What a distribution changes of a slot and of a module: the program's functions may distribute parts, and add hooks. */
typedef struct weft_saved_slot {
    weft_module_slot *slot, former; /* former.tensor with a reference */
} weft_saved_slot;

typedef struct weft_saved_module {
    weft_module_impl *module;
    weft_mesh *mesh;
    size_t num_hooks[2];
} weft_saved_module;

typedef struct weft_saved_tree {
    weft_vec slots;   /* weft_saved_slot */
    weft_vec modules; /* weft_saved_module */
} weft_saved_tree;

static bool tree_copy(weft_saved_tree *saved, const weft_module_impl *root)
{
    for (const weft_module_impl *at = root; at != NULL; at = weft_module_next(root, at)) {
        weft_saved_module *module = weft_vec_push(&saved->modules, sizeof(*module));
        if (module == NULL) {
            return false;
        }
        *module = (weft_saved_module){ (weft_module_impl *)at, at->mesh, { at->hooks[0].count, at->hooks[1].count } };
    }
    weft_slot_walk walk = { root, root, 0 };
    for (weft_module_slot *slot; (slot = weft_slot_next(&walk)) != NULL;) {
        weft_saved_slot *one = weft_vec_push(&saved->slots, sizeof(*one));
        if (one == NULL) {
            return false;
        }
        one->slot = slot;
        one->former = *slot;
        one->former.tensor = NULL;
        one->former.was_used = false; /* a copy, which no function sees */
        weft_module_hold(&one->former, slot->tensor);
    }
    return true;
}

/* All of the root's tree: tied parameters may be outside of what is changed. To be ended also after an error. */
static weft_status tree_save(const char *function, weft_saved_tree *saved, const weft_module_impl *module)
{
    return tree_copy(saved, weft_module_root(module))
               ? WEFT_OK
               : weft_fail(WEFT_ERR_NOMEM, function, "no memory for the state before");
}

static void tree_restore(const weft_saved_tree *saved)
{
    for (size_t i = 0; i < saved->slots.count; i++) {
        const weft_saved_slot *one = &((const weft_saved_slot *)saved->slots.items)[i];
        weft_module_hold(one->slot, one->former.tensor);
        one->slot->settled = one->former.settled;
        one->slot->has_use = one->former.has_use;
        memcpy(one->slot->use, one->former.use, sizeof(one->former.use));
    }
    for (size_t i = 0; i < saved->modules.count; i++) {
        const weft_saved_module *one = &((const weft_saved_module *)saved->modules.items)[i];
        one->module->mesh = one->mesh;
        weft_module_hooks_cut(one->module, WEFT_BEFORE_FORWARD, one->num_hooks[WEFT_BEFORE_FORWARD]);
        weft_module_hooks_cut(one->module, WEFT_AFTER_FORWARD, one->num_hooks[WEFT_AFTER_FORWARD]);
    }
}

static void tree_saved_free(weft_saved_tree *saved)
{
    for (size_t i = 0; i < saved->slots.count; i++) {
        weft_module_hold(&((weft_saved_slot *)saved->slots.items)[i].former, NULL);
    }
    weft_vec_free(&saved->slots);
    weft_vec_free(&saved->modules);
}

/* ---- memory for what has none ---------------------------------------------------------------------------- */

/* An empty tensor in a slot's layout takes the place of one without data. A status with the error kept. */
static weft_status materialize_slot(const char *function, const weft_module_impl *module, weft_module_slot *slot)
{
    const weft_layout *layout = slot->tensor->layout;
    weft_status status = weft_scope_begin();
    if (status != WEFT_OK) {
        return status;
    }
    bool leaf = weft_is_leaf(slot->tensor->handle);
    weft_tensor *made = weft_empty(layout->dtype, layout->ndim, layout->shape, layout->mesh->handle, layout->placements);
    status = made == NULL ? weft_latest_status() : leaf ? weft_set_requires_grad(made, true) : WEFT_OK;
    status = status == WEFT_OK && leaf && slot->has_use ? weft_set_regather(made, true) : status;
    status = status == WEFT_OK ? replace_everywhere(module, slot, made) : status;
    if (status != WEFT_OK) {
        weft_fail(status, function, "%s \"%s\" gets no memory", kind_of(slot), weft_path_end(slot->path));
    }
    weft_scope_end_own();
    return status;
}

weft_status weft_module_materialize(weft_module *handle)
{
    static const char function[] = "weft_module_materialize";
    weft_deferral_note(function);
    const weft_module_impl *module = weft_check_module(function, "module", handle);
    weft_saved_tree saved = { 0 };
    if (module == NULL) {
        return weft_latest_status();
    }
    weft_status status = tree_save(function, &saved, module);
    weft_slot_walk walk = { module, module, 0 };
    for (weft_module_slot *slot; status == WEFT_OK && (slot = weft_slot_next(&walk)) != NULL;) {
        status = slot->tensor != NULL && weft_tensor_is_layout_alone(slot->tensor) ? materialize_slot(function, module, slot) : WEFT_OK;
    }
    if (status != WEFT_OK) {
        tree_restore(&saved);
    }
    tree_saved_free(&saved);
    return status;
}

/* ---- the tree -------------------------------------------------------------------------------------------- */

static weft_status call_partition(const char *function, const weft_module_impl *top, const weft_mesh_impl *mesh,
                                  weft_partition_function partition, void *context)
{
    weft_status status = WEFT_OK;
    for (const weft_module_impl *at = top; at != NULL && status == WEFT_OK; at = weft_module_next(top, at)) {
        const weft_context outer = weft_context_enter(weft_context_in_program());
        status = partition(weft_module_path_from(top, at->path), at->handle, mesh->handle, context);
        weft_context_leave(outer);
        if (status != WEFT_OK) {
            weft_fail(status, function, "the partition function has failed for %s", weft_module_label(at));
        }
    }
    return status;
}

static weft_status replicate_others(const char *function, const weft_module_impl *top, const weft_mesh_impl *mesh)
{
    weft_status status = WEFT_OK;
    weft_slot_walk walk = { top, top, 0 };
    for (weft_module_slot *slot; status == WEFT_OK && (slot = weft_slot_next(&walk)) != NULL;) {
        status = slot->settled ? WEFT_OK : weft_module_place_slot(function, top, slot, mesh, NULL);
    }
    return status;
}

static weft_status add_functions(const char *function, weft_module_impl *module, weft_module_function input,
                                 weft_module_function output, void *context)
{
    bool done =
        (input == NULL || weft_module_hook_add(function, module, WEFT_BEFORE_FORWARD, input, context, NULL)) &&
        (output == NULL || weft_module_hook_add(function, module, WEFT_AFTER_FORWARD, output, context, NULL));
    return done ? WEFT_OK : weft_latest_status();
}

static void set_mesh(weft_module_impl *top, const weft_mesh_impl *mesh)
{
    for (weft_module_impl *at = top; at != NULL; at = weft_module_next(top, at)) {
        at->mesh = at->mesh == NULL ? mesh->handle : at->mesh;
    }
}

/* False with the error kept. */
static bool check_undistributed(const char *function, const weft_module_impl *module)
{
    const char *why = module->mesh != NULL      ? "has been distributed already"
                      : module->distributing    ? "is being distributed"
                      : module->running > 0     ? "is in a forward pass"
                                                : NULL;
    if (why != NULL) {
        weft_fail(WEFT_ERR_STATE, function, "%s %s", weft_module_label(module), why);
    }
    return why == NULL;
}

weft_status weft_module_distribute(const char *function, weft_module_impl *module, const weft_mesh_impl *mesh,
                                   weft_partition_function partition, weft_module_function input,
                                   weft_module_function output, void *context)
{
    if (!check_undistributed(function, module)) {
        return weft_latest_status();
    }
    weft_saved_tree saved = { 0 };
    weft_status status = tree_save(function, &saved, module);
    module->distributing = true;
    module->running++;
    if (status == WEFT_OK && partition != NULL) {
        status = call_partition(function, module, mesh, partition, context);
    }
    status = status == WEFT_OK ? replicate_others(function, module, mesh) : status;
    status = status == WEFT_OK ? add_functions(function, module, input, output, context) : status;
    module->running--;
    module->distributing = false;
    if (status == WEFT_OK) {
        set_mesh(module, mesh);
    } else {
        tree_restore(&saved);
    }
    tree_saved_free(&saved);
    /* The memory of whole parameters: it is the largest that the program had, and too large for what follows. */
    weft_pool_trim(weft_runtime.pool);
    return status;
}

weft_status weft_distribute_module(weft_module *handle, weft_mesh *mesh_handle, weft_partition_function partition,
                                   weft_module_function input, weft_module_function output, void *context)
{
    static const char function[] = "weft_distribute_module";
    weft_module_impl *module = weft_check_module(function, "module", handle);
    const weft_mesh_impl *mesh = module == NULL ? NULL : weft_check_mesh(function, mesh_handle);
    return mesh == NULL ? weft_latest_status()
                        : weft_module_distribute(function, module, mesh, partition, input, output, context);
}
