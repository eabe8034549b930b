/* The tensors of modules: references, names, walking the tree. */
#include <weft/autograd.h>

#include "autograd/tape.h"
#include "base/map.h"
#include "module/module.h"
#include "sharding/types.h"
#include "tensor/state.h"

weft_module_slot *weft_slot_next(weft_slot_walk *walk)
{
    while (walk->at != NULL && walk->next == walk->at->slots.count) {
        walk->at = weft_module_next(walk->top, walk->at);
        walk->next = 0;
    }
    return walk->at == NULL ? NULL : weft_module_slot_at(walk->at, walk->next++);
}

void weft_module_hold(weft_module_slot *slot, weft_tensor_impl *tensor)
{
    weft_tensor_impl *former = slot->tensor;
    if (tensor != NULL) {
        tensor->references++;
        tensor->replaced = false;
    }
    slot->tensor = tensor;
    if (former != tensor) {
        weft_note_change("weft_module_set_tensor", slot->was_used || (former != NULL && former->graph_run != 0));
    }
    if (former != NULL) {
        weft_tensor_unreference(former);
    }
}

void weft_module_hold_everywhere(const weft_module_impl *module, weft_tensor_impl *former, weft_tensor_impl *tensor)
{
    const weft_module_impl *root = weft_module_root(module);
    weft_slot_walk walk = { root, root, 0 };
    for (weft_module_slot *slot; (slot = weft_slot_next(&walk)) != NULL;) {
        if (slot->tensor == former) {
            weft_module_hold(slot, tensor);
        }
    }
}

/* The first slot of a tree that holds a tensor. */
static const weft_module_slot *first_slot_of(const weft_module_impl *root, const weft_tensor_impl *tensor)
{
    weft_slot_walk walk = { root, root, 0 };
    const weft_module_slot *slot = weft_slot_next(&walk);
    while (slot != NULL && slot->tensor != tensor) {
        slot = weft_slot_next(&walk);
    }
    return slot;
}

bool weft_module_name_tensor(const weft_module_slot *slot, const weft_module_impl *module)
{
    if (slot->tensor == NULL) {
        return true;
    }
    const weft_module_slot *first = first_slot_of(weft_module_root(module), slot->tensor);
    return weft_tensor_set_name(slot->tensor->handle, first->path) == WEFT_OK;
}

bool weft_module_check_tensor(const char *function, const char *path, bool is_parameter, const weft_tensor *tensor)
{
    const weft_tensor_impl *given = weft_check_tensor(function, "tensor", tensor);
    if (given == NULL) {
        return false;
    }
    if (is_parameter && !weft_dtype_has_gradient(given->layout->dtype)) {
        weft_fail(WEFT_ERR_DTYPE, function, "tensor is of type %s, but parameters (\"%s\") are floating; buffers are of any type",
                  weft_dtype_name(given->layout->dtype), weft_path_end(path));
        return false;
    }
    return true;
}

bool weft_module_own_memory(const char *function, weft_tensor_impl *tensor)
{
    bool is_part = false;
    for (int i = 0; i < tensor->num_shards; i++) {
        const weft_local_shard *shard = &tensor->shards[i];
        int64_t bytes = shard->count * (int64_t)weft_dtype_size(tensor->layout->dtype);
        is_part = is_part || (shard->count > 0 && shard->buffer->cut.total > bytes);
    }
    return !is_part || weft_tensor_make_writable(function, tensor, true);
}

/* Whether the placements in which a tensor is used are some for another one too. */
static bool fits_use(const weft_tensor_impl *former, const weft_tensor_impl *tensor)
{
    return former != NULL && former->layout->mesh == tensor->layout->mesh &&
           former->layout->ndim == tensor->layout->ndim;
}

bool weft_module_fill(const char *function, weft_module_slot *slot, weft_tensor *tensor)
{
    bool becomes_leaf = slot->is_parameter && (slot->tensor == NULL || weft_is_leaf(slot->tensor->handle));
    bool computed = weft_requires_grad(tensor) && !weft_is_leaf(tensor);
    if (weft_scope_begin() != WEFT_OK) {
        return false;
    }
    weft_tensor *own = slot->is_parameter && computed ? weft_detach(tensor) : tensor;
    bool done = own != NULL && weft_module_own_memory(function, weft_tensor_get(own)) &&
                (!becomes_leaf || weft_set_requires_grad(own, true) == WEFT_OK);
    if (done) {
        slot->has_use = slot->has_use && fits_use(slot->tensor, weft_tensor_get(own));
        weft_module_hold(slot, weft_tensor_get(own));
    }
    weft_scope_end_own();
    return done && (!slot->has_use || !weft_is_leaf(own) || weft_set_regather(own, true) == WEFT_OK);
}

/* The slot of a public function's arguments; NULL with the error kept. */
static weft_module_slot *check_slot(const char *function, const weft_module *handle, const char *path)
{
    const weft_module_impl *module = weft_check_module(function, "module", handle);
    return module == NULL ? NULL : weft_module_find_slot(function, module, path);
}

/* Within the function of a graph: its calls depend on the slot. */
static void note_use(weft_module_slot *slot)
{
    slot->was_used |= weft_runtime.context.deferral != NULL;
}

/* The tensor of a slot that must be a parameter's, or a buffer's. */
static weft_tensor *tensor_at(const char *function, const weft_module *module, const char *path, bool is_parameter)
{
    weft_module_slot *slot = check_slot(function, module, path);
    if (slot != NULL && slot->is_parameter != is_parameter) {
        weft_fail(WEFT_ERR_INVALID, function, "\"%s\" is a %s", weft_path_end(slot->path), is_parameter ? "buffer" : "parameter");
        return NULL;
    }
    if (slot != NULL) {
        note_use(slot);
    }
    return slot == NULL ? NULL : weft_tensor_handle(slot->tensor);
}

weft_tensor *weft_module_parameter(const weft_module *module, const char *path)
{
    return tensor_at("weft_module_parameter", module, path, true);
}

weft_tensor *weft_module_buffer(const weft_module *module, const char *path)
{
    return tensor_at("weft_module_buffer", module, path, false);
}

weft_tensor *weft_module_use(weft_module *module, const char *path)
{
    weft_module_slot *slot = check_slot("weft_module_use", module, path);
    if (slot != NULL) {
        note_use(slot);
    }
    weft_tensor *tensor = slot == NULL ? NULL : weft_tensor_handle(slot->tensor);
    return tensor == NULL || !slot->has_use ? tensor : weft_gather_for_use("weft_module_use", tensor, slot->use);
}

/* The slot's former tensor is marked, unless another slot holds it too: a frozen graph that still uses it is to say so. False with
 * the error kept. */
/* Whether a slot of any module holds the tensor. */
static bool is_held(const weft_tensor_impl *tensor)
{
    const weft_vec *slots = &weft_runtime.handles.modules.slots;
    bool found = false;
    for (size_t i = 0; i < slots->count && !found; i++) {
        const weft_module_impl *module = ((const weft_handle_slot *)slots->items)[i].object;
        found = module != NULL && module->parent == NULL && first_slot_of(module, tensor) != NULL;
    }
    return found;
}

static bool replace(const char *function, weft_module_slot *slot, weft_tensor *tensor)
{
    weft_tensor_impl *former = slot->tensor;
    if (former != NULL) {
        former->references++;
    }
    bool done = true;
    if (tensor == NULL) {
        weft_module_hold(slot, NULL);
    } else {
        done = weft_module_fill(function, slot, tensor);
    }
    if (former != NULL) {
        former->replaced = done && !is_held(former);
        weft_tensor_unreference(former);
    }
    return done;
}

weft_status weft_module_set_tensor(weft_module *handle, const char *path, weft_tensor *tensor)
{
    static const char function[] = "weft_module_set_tensor";
    const weft_module_impl *module = weft_check_module(function, "module", handle);
    weft_module_slot *slot = module == NULL ? NULL : weft_module_find_slot(function, module, path);
    if (slot == NULL ||
        (tensor != NULL && !weft_module_check_tensor(function, slot->path, slot->is_parameter, tensor))) {
        return weft_latest_status();
    }
    if (!replace(function, slot, tensor)) {
        return weft_latest_status();
    }
    for (; module != NULL; module = module->parent) {
        slot->settled = slot->settled || module->distributing;
    }
    return weft_module_name_tensor(slot, weft_check_module(function, "module", handle)) ? WEFT_OK : weft_latest_status();
}

/* ---- lists ----------------------------------------------------------------------------------------------- */

/* Arguments of the functions that list the tree. */
typedef struct weft_listing {
    const char *function;
    int max, count;
    const char **names;
    void **items; /* handles */
} weft_listing;

/* Within the function of a graph: its calls depend on the tree below the module. */
static void note_listing(const weft_module *handle)
{
    weft_module_impl *module = weft_handle_get(&weft_runtime.handles.modules, handle);
    module->was_used |= weft_runtime.context.deferral != NULL;
}

static void list_add(weft_listing *list, const char *name, void *item)
{
    if (list->count < list->max) {
        list->items[list->count] = item;
        if (list->names != NULL) {
            list->names[list->count] = name;
        }
    }
    list->count++;
}

/* The module to be listed; NULL with the error kept. */
static const weft_module_impl *check_listing(const weft_listing *list, const weft_module *handle, const char *items_name)
{
    const weft_module_impl *module = weft_check_module(list->function, "module", handle);
    if (module != NULL && list->max < 0) {
        weft_fail(WEFT_ERR_INVALID, list->function, "max is %d", list->max);
        return NULL;
    }
    if (module != NULL && list->max > 0 && list->items == NULL) {
        weft_fail(WEFT_ERR_INVALID, list->function, "%s is NULL", items_name);
        return NULL;
    }
    return module;
}

/* Lists the tensors of parameters or of buffers, each once. \return their number; 0 with the error kept. */
static int list_tensors(weft_listing *list, const weft_module *handle, const char *items_name, bool parameters)
{
    const weft_module_impl *top = check_listing(list, handle, items_name);
    if (top != NULL) {
        note_listing(handle);
    }
    weft_map listed = { 0 };
    bool room = true;
    weft_slot_walk walk = { top, top, 0 };
    for (weft_module_slot *slot; (slot = weft_slot_next(&walk)) != NULL;) {
        note_use(slot);
        bool new = slot->tensor != NULL && slot->is_parameter == parameters &&
                   !weft_map_has_pointer(&listed, slot->tensor);
        if (new) {
            room = weft_map_add_pointer(&listed, slot->tensor) && room;
            list_add(list, weft_module_path_from(top, slot->path), slot->tensor->handle);
        }
    }
    weft_map_free(&listed);
    if (!room) {
        weft_fail(WEFT_ERR_NOMEM, list->function, "no memory for a list");
    }
    return room ? list->count : 0;
}

int weft_module_parameters(const weft_module *module, int max, const char *names[], weft_tensor *parameters[])
{
    weft_listing list = { "weft_module_parameters", max, 0, names, (void **)parameters };
    return list_tensors(&list, module, "parameters", true);
}

int weft_module_buffers(const weft_module *module, int max, const char *names[], weft_tensor *buffers[])
{
    weft_listing list = { "weft_module_buffers", max, 0, names, (void **)buffers };
    return list_tensors(&list, module, "buffers", false);
}

int weft_module_modules(const weft_module *module, int max, const char *names[], weft_module *modules[])
{
    weft_listing list = { "weft_module_modules", max, 0, names, (void **)modules };
    const weft_module_impl *top = check_listing(&list, module, "modules");
    if (top != NULL) {
        note_listing(module);
    }
    for (const weft_module_impl *at = top; at != NULL; at = weft_module_next(top, at)) {
        list_add(&list, weft_module_path_from(top, at->path), at->handle);
    }
    return list.count;
}

const char *weft_module_type(const weft_module *handle)
{
    const weft_module_impl *module = weft_check_module("weft_module_type", "module", handle);
    return module == NULL ? NULL : module->type;
}

const char *weft_module_name(const weft_module *handle)
{
    const weft_module_impl *module = weft_check_module("weft_module_name", "module", handle);
    return module == NULL ? NULL : module->path;
}

weft_mesh *weft_module_mesh(const weft_module *handle)
{
    const weft_module_impl *module = weft_check_module("weft_module_mesh", "module", handle);
    return module == NULL ? NULL : module->mesh;
}
