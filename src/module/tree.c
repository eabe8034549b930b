/* The tree: modules, their names and paths. */
#include <stdlib.h>
#include <string.h>

#include "module/module.h"

weft_module_impl *weft_check_module(const char *function, const char *argument, const weft_module *module)
{
    if (weft_require_init(function) != WEFT_OK) {
        return NULL;
    }
    if (module == NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "%s is NULL", argument);
        return NULL;
    }
    weft_module_impl *alive = weft_handle_get(&weft_runtime.handles.modules, module);
    if (alive == NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "%s (%p) is not a module: freed, or none", argument,
                  (const void *)module);
    }
    return alive;
}

weft_module_impl *weft_module_next(const weft_module_impl *top, const weft_module_impl *at)
{
    if (at->children.count > 0) {
        return weft_module_child_at(at, 0);
    }
    for (; at != top; at = at->parent) {
        if (at->index + 1 < at->parent->children.count) {
            return weft_module_child_at(at->parent, at->index + 1);
        }
    }
    return NULL;
}

weft_module_impl *weft_module_root(const weft_module_impl *module)
{
    while (module->parent != NULL) {
        module = module->parent;
    }
    return (weft_module_impl *)module;
}

const char *weft_module_path_from(const weft_module_impl *top, const char *path)
{
    size_t length = strlen(top->path);
    const char *rest = path + length;
    return length > 0 && rest[0] == '.' ? rest + 1 : rest;
}

const char *weft_path_end(const char *path)
{
    enum { MOST = 200 };
    size_t length = strlen(path);
    return length > MOST ? path + length - MOST : path;
}

const char *weft_module_label(const weft_module_impl *module)
{
    return module->path[0] == '\0' ? "the root" : weft_path_end(module->path);
}

/* ---- life ------------------------------------------------------------------------------------------------ */

static void delete_slot(weft_module_slot *slot)
{
    weft_module_hold(slot, NULL);
    free(slot->name);
    free(slot->path);
    free(slot);
}

/* The module alone, without its children. */
static void delete_module(weft_module_impl *module)
{
    weft_handle_remove(&weft_runtime.handles.modules, module->handle);
    for (size_t i = 0; i < module->slots.count; i++) {
        delete_slot(weft_module_slot_at(module, i));
    }
    for (int when = 0; when < 2; when++) {
        weft_module_hooks_cut(module, (weft_module_when)when, 0);
        weft_vec_free(&module->hooks[when]);
    }
    weft_vec_free(&module->slots);
    weft_vec_free(&module->children);
    free(module->type);
    free(module->name);
    free(module->path);
    free(module);
}

/* Children before their parents, the last ones first. */
static void delete_tree(weft_module_impl *top)
{
    for (weft_module_impl *at = top;;) {
        while (at->children.count > 0) {
            at = weft_module_child_at(at, at->children.count - 1);
        }
        weft_module_impl *parent = at->parent;
        bool done = at == top;
        delete_module(at);
        if (done) {
            return;
        }
        parent->children.count--;
        at = parent;
    }
}

weft_module *weft_module_create(const char *type)
{
    static const char function[] = "weft_module_create";
    if (weft_require_init(function) != WEFT_OK) {
        return NULL;
    }
    if (type == NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "type is NULL");
        return NULL;
    }
    weft_module_impl *module = calloc(1, sizeof(*module));
    if (module != NULL) {
        module->type = strdup(type);
        module->path = strdup("");
        module->handle = weft_handle_add(&weft_runtime.handles.modules, WEFT_HANDLE_MODULE, module);
    }
    if (module == NULL || module->type == NULL || module->path == NULL || module->handle == NULL) {
        if (module != NULL) {
            delete_module(module);
        }
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for a module");
        return NULL;
    }
    return module->handle;
}

/* False with the error kept: a forward pass or a distribution of a part of the tree is under way. */
static bool check_idle(const char *function, const weft_module_impl *top)
{
    for (const weft_module_impl *at = top; at != NULL; at = weft_module_next(top, at)) {
        if (at->running > 0) {
            weft_fail(WEFT_ERR_STATE, function, "called from within a forward pass or a distribution of %s",
                      weft_module_label(at));
            return false;
        }
    }
    return true;
}

weft_status weft_module_destroy(weft_module *handle)
{
    static const char function[] = "weft_module_destroy";
    weft_module_impl *module = weft_check_module(function, "module", handle);
    if (module == NULL) {
        return weft_latest_status();
    }
    if (module->parent != NULL) {
        return weft_fail(WEFT_ERR_STATE, function, "%s is a child: free the root of its tree", weft_path_end(module->path));
    }
    if (!check_idle(function, module)) {
        return weft_latest_status();
    }
    delete_tree(module);
    return WEFT_OK;
}

void weft_modules_stop(void)
{
    const weft_vec *slots = &weft_runtime.handles.modules.slots;
    for (size_t i = 0; i < slots->count; i++) {
        weft_module_impl *module = ((weft_handle_slot *)slots->items)[i].object;
        if (module != NULL) {
            delete_tree(weft_module_root(module));
        }
    }
}

/* ---- names and paths ------------------------------------------------------------------------------------- */

/* "above.name"; NULL: no memory. */
static char *join(const char *above, const char *name)
{
    size_t first = strlen(above), second = strlen(name);
    char *path = malloc(first + second + 2);
    if (path != NULL) {
        memcpy(path, above, first);
        path[first] = '.';
        memcpy(path + first + (first > 0), name, second + 1);
    }
    return path;
}

static void replace_path(char **path, char *with)
{
    free(*path);
    *path = with;
}

/* The paths of all below a module, for a path of its own; all or none. False: no memory. Room for them first, so that
 * nothing is changed without memory. */
static bool set_paths(weft_module_impl *top, const char *path)
{
    weft_vec paths = { 0 };
    size_t cut = strlen(top->path);
    bool done = true;
    for (weft_module_impl *at = top; at != NULL && done; at = weft_module_next(top, at)) {
        for (size_t i = 0; i <= at->slots.count && done; i++) {
            const char *former = i == 0 ? at->path : weft_module_slot_at(at, i - 1)->path;
            char **made = weft_vec_push(&paths, sizeof(*made));
            const char *rest = former + cut + (cut > 0 && former[cut] == '.');
            char *joined = made == NULL ? NULL : rest[0] == '\0' ? strdup(path) : join(path, rest);
            if (made != NULL) {
                *made = joined;
            }
            done = joined != NULL;
        }
    }
    char **made = paths.items;
    size_t next = 0;
    for (weft_module_impl *at = top; at != NULL && done; at = weft_module_next(top, at)) {
        replace_path(&at->path, made[next++]);
        for (size_t i = 0; i < at->slots.count; i++) {
            replace_path(&weft_module_slot_at(at, i)->path, made[next++]);
        }
    }
    for (size_t i = 0; i < paths.count && !done; i++) {
        free(made[i]);
    }
    weft_vec_free(&paths);
    return done;
}

/* A child or a slot with this name (`length` characters); both NULL: none. */
typedef struct named {
    weft_module_impl *child;
    weft_module_slot *slot;
} named;

static bool is_name(const char *own, const char *name, size_t length)
{
    return strncmp(own, name, length) == 0 && own[length] == '\0';
}

static named find_name(const weft_module_impl *module, const char *name, size_t length)
{
    named found = { NULL, NULL };
    for (size_t i = 0; i < module->slots.count && found.slot == NULL; i++) {
        weft_module_slot *slot = weft_module_slot_at(module, i);
        found.slot = is_name(slot->name, name, length) ? slot : NULL;
    }
    for (size_t i = 0; i < module->children.count && found.child == NULL; i++) {
        weft_module_impl *child = weft_module_child_at(module, i);
        found.child = is_name(child->name, name, length) ? child : NULL;
    }
    return found;
}

/* The child or slot of a path; "": the module itself. */
static named find_path(const weft_module_impl *module, const char *path)
{
    named found = { (weft_module_impl *)module, NULL };
    while (path[0] != '\0' && found.child != NULL) {
        size_t length = strcspn(path, ".");
        found = find_name(found.child, path, length);
        path += length;
        if (path[0] == '.') {
            path++;
            found.slot = NULL; /* nothing is below a slot */
            if (path[0] == '\0') {
                found.child = NULL;
            }
        }
    }
    return path[0] == '\0' ? found : (named){ NULL, NULL };
}

/* False with the error kept. */
static bool check_new_name(const char *function, const weft_module_impl *module, const char *name)
{
    if (name == NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "name is NULL");
        return false;
    }
    if (name[0] == '\0' || strchr(name, '.') != NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "name is \"%s\", expected one without '.', not empty", weft_path_end(name));
        return false;
    }
    named found = find_name(module, name, strlen(name));
    if (found.child != NULL || found.slot != NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "%s has a %s with the name \"%s\" already", weft_module_label(module),
                  found.child != NULL ? "child" : found.slot->is_parameter ? "parameter" : "buffer", name);
        return false;
    }
    return true;
}

weft_module_slot *weft_module_find_slot(const char *function, const weft_module_impl *module, const char *path)
{
    if (path == NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "path is NULL");
        return NULL;
    }
    weft_module_slot *slot = find_path(module, path).slot;
    if (slot == NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "%s has no parameter or buffer \"%s\"", weft_module_label(module), weft_path_end(path));
    }
    return slot;
}

weft_module *weft_module_child(const weft_module *handle, const char *path)
{
    static const char function[] = "weft_module_child";
    const weft_module_impl *module = weft_check_module(function, "module", handle);
    if (module == NULL) {
        return NULL;
    }
    if (path == NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "path is NULL");
        return NULL;
    }
    const weft_module_impl *child = find_path(module, path).child;
    if (child == NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "%s has no child \"%s\"", weft_module_label(module), weft_path_end(path));
        return NULL;
    }
    return child->handle;
}

/* ---- growth ---------------------------------------------------------------------------------------------- */

/* Whether `child` can go below `module`. False with the error kept. */
static bool check_child(const char *function, const weft_module_impl *module, const weft_module_impl *child)
{
    if (child->parent != NULL) {
        weft_fail(WEFT_ERR_STATE, function, "child is \"%s\" of another module already", weft_path_end(child->path));
        return false;
    }
    if (weft_module_root(module) == child) {
        weft_fail(WEFT_ERR_INVALID, function, "child is the root of the tree that it would become a part of");
        return false;
    }
    return check_idle(function, child);
}

/* False with the error kept: no memory. */
static bool name_tensors(const weft_module_impl *top)
{
    bool done = true;
    weft_slot_walk walk = { top, top, 0 };
    for (weft_module_slot *slot; done && (slot = weft_slot_next(&walk)) != NULL;) {
        done = weft_module_name_tensor(slot, top);
    }
    return done;
}

/* The module has a new part, which functions of graphs that listed the tree have not seen. */
static void note_new_part(const char *function, const weft_module_impl *module)
{
    bool was_used = false;
    for (const weft_module_impl *at = module; at != NULL; at = at->parent) {
        was_used |= at->was_used;
    }
    weft_note_change(function, was_used);
}

weft_status weft_module_add_child(weft_module *handle, const char *name, weft_module *child_handle)
{
    static const char function[] = "weft_module_add_child";
    weft_module_impl *module = weft_check_module(function, "module", handle);
    weft_module_impl *child = module == NULL ? NULL : weft_check_module(function, "child", child_handle);
    if (child == NULL || !check_new_name(function, module, name) || !check_child(function, module, child)) {
        return weft_latest_status();
    }
    char *own = strdup(name), *path = join(module->path, name);
    bool room = own != NULL && path != NULL &&
                weft_vec_reserve(&module->children, module->children.count + 1, sizeof(weft_module_impl *));
    if (!room || !set_paths(child, path)) {
        free(own);
        free(path);
        return weft_fail(WEFT_ERR_NOMEM, function, "no memory for \"%s\"", name);
    }
    free(path);
    note_new_part(function, module);
    child->name = own;
    child->parent = module;
    child->index = module->children.count;
    *(weft_module_impl **)weft_vec_push(&module->children, sizeof(child)) = child;
    return name_tensors(child) ? WEFT_OK : weft_latest_status();
}

/* A new slot without a tensor. NULL with the error kept. */
static weft_module_slot *add_slot(const char *function, weft_module_impl *module, const char *name, bool is_parameter)
{
    weft_module_slot *slot = calloc(1, sizeof(*slot)), **place = NULL;
    if (slot != NULL) {
        slot->name = strdup(name);
        slot->path = join(module->path, name);
        slot->is_parameter = is_parameter;
        bool right = slot->name != NULL && slot->path != NULL;
        place = right ? weft_vec_push(&module->slots, sizeof(*place)) : NULL;
    }
    if (place == NULL) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for \"%s\"", name);
        if (slot != NULL) {
            delete_slot(slot);
        }
        return NULL;
    }
    *place = slot;
    return slot;
}

static weft_status add_tensor(const char *function, weft_module *handle, const char *name, bool is_parameter,
                              weft_tensor *tensor)
{
    weft_module_impl *module = weft_check_module(function, "module", handle);
    if (module == NULL || !check_new_name(function, module, name) ||
        (tensor != NULL && !weft_module_check_tensor(function, name, is_parameter, tensor))) {
        return weft_latest_status();
    }
    note_new_part(function, module);
    weft_module_slot *slot = add_slot(function, module, name, is_parameter);
    if (slot == NULL || tensor == NULL) {
        return slot == NULL ? weft_latest_status() : WEFT_OK;
    }
    if (!weft_module_fill(function, slot, tensor)) {
        delete_slot(slot);
        module->slots.count--;
        return weft_latest_status();
    }
    return weft_module_name_tensor(slot, module) ? WEFT_OK : weft_latest_status();
}

weft_status weft_module_add_parameter(weft_module *module, const char *name, weft_tensor *tensor)
{
    return add_tensor("weft_module_add_parameter", module, name, true, tensor);
}

weft_status weft_module_add_buffer(weft_module *module, const char *name, weft_tensor *tensor)
{
    return add_tensor("weft_module_add_buffer", module, name, false, tensor);
}
