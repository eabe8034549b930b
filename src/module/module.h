/* src/module: trees of named parameters, forward functions with hooks, distribution over a mesh, parallel styles. Made of
 * public calls of the levels below: a module submits no task of its own. */
#ifndef WEFT_SRC_MODULE_H
#define WEFT_SRC_MODULE_H

#include <weft/module.h>

#include "call/deferral.h"
#include "tensor/tensor.h"

/* A named tensor of a module: a parameter or a buffer. */
typedef struct weft_module_slot {
    char *name;
    char *path;               /* from the root */
    weft_tensor_impl *tensor; /* with a reference of the slot's; NULL: empty */
    bool is_parameter;
    bool settled; /* its layout was chosen for a mesh: what distributes leaves it */
    bool has_use; /* weft_module_use() brings it to `use` */
    bool was_used; /* the function of a graph has asked for it (weft_note_change) */
    weft_placement use[WEFT_MAX_DIMS];
} weft_module_slot;

typedef struct weft_module_hook {
    weft_module_function function;
    void *context;
    void *owned; /* freed with the hook */
} weft_module_hook;

/* The object behind a weft_module handle. */
typedef struct weft_module_impl {
    weft_module *handle;
    char *type;
    char *name; /* NULL: a root */
    char *path; /* from the root */
    struct weft_module_impl *parent;
    size_t index;      /* among the parent's children */
    weft_vec slots;    /* weft_module_slot *, in the order of addition */
    weft_vec children; /* weft_module_impl *, in the order of addition */
    weft_forward_function forward;
    void *context;
    weft_vec hooks[2]; /* weft_module_hook, by weft_module_when */
    weft_mesh *mesh;   /* NULL: not distributed */
    bool distributing; /* within weft_distribute_module() of this module */
    int running;       /* depth of forward passes and distributions of it */
    bool was_used;     /* the function of a graph has called it (weft_note_change) */
} weft_module_impl;

/* ---- the tree (tree.c) ----------------------------------------------------------------------------------- */

/* The object of a handle; NULL with the error kept. `argument` is its name in messages. */
weft_module_impl *weft_check_module(const char *function, const char *argument, const weft_module *module);

static inline weft_module_slot *weft_module_slot_at(const weft_module_impl *module, size_t i)
{
    return ((weft_module_slot **)module->slots.items)[i];
}

static inline weft_module_impl *weft_module_child_at(const weft_module_impl *module, size_t i)
{
    return ((weft_module_impl **)module->children.items)[i];
}

static inline weft_module_hook *weft_module_hooks_of(const weft_module_impl *module, weft_module_when when)
{
    return module->hooks[when].items;
}

/* The module after `at` in the tree below `top`, parents first; NULL: none. */
weft_module_impl *weft_module_next(const weft_module_impl *top, const weft_module_impl *at);
weft_module_impl *weft_module_root(const weft_module_impl *module);
/* The path from `top` of something below it, of which this is the path from the root. */
const char *weft_module_path_from(const weft_module_impl *top, const char *path);
/* A path for messages: the end of a long one, so that the reason has room. */
const char *weft_path_end(const char *path);
/* The path of a module for messages: "the root" for "". */
const char *weft_module_label(const weft_module_impl *module);
/* The slot of a path; NULL with the error kept. */
weft_module_slot *weft_module_find_slot(const char *function, const weft_module_impl *module, const char *path);

/* ---- slots (slots.c) ------------------------------------------------------------------------------------- */

/* A walk through all slots below a module, in the order of weft_module_parameters():
 *
 *     weft_slot_walk walk = { top, top, 0 };
 *     for (weft_module_slot *slot; (slot = weft_slot_next(&walk)) != NULL;) */
typedef struct weft_slot_walk {
    const weft_module_impl *top, *at;
    size_t next; /* slot of `at` */
} weft_slot_walk;

/* NULL: there are no more. */
weft_module_slot *weft_slot_next(weft_slot_walk *walk);

/* Puts a tensor (NULL: none) into a slot, which takes a reference and gives up that of the former tensor. */
void weft_module_hold(weft_module_slot *slot, weft_tensor_impl *tensor);
/* The same for a tensor of the program's, that becomes a leaf in a parameter's slot, unless the former one was none; if it
 * was computed from leaves, its values. False with the error kept. */
bool weft_module_fill(const char *function, weft_module_slot *slot, weft_tensor *tensor);
/* A view of a part of a larger buffer, as which Replicate becomes Shard, gets memory of its own: it would keep all of that.
 * False with the error kept. */
bool weft_module_own_memory(const char *function, weft_tensor_impl *tensor);
/* weft_module_hold() in all slots of the root's tree that hold `former`. */
void weft_module_hold_everywhere(const weft_module_impl *module, weft_tensor_impl *former, weft_tensor_impl *tensor);
/* Names a slot's tensor, if there is one, by the path of its first slot in the tree. False with the error kept. */
bool weft_module_name_tensor(const weft_module_slot *slot, const weft_module_impl *module);
/* Whether a tensor can go into a slot. False with the error kept. */
bool weft_module_check_tensor(const char *function, const char *path, bool is_parameter, const weft_tensor *tensor);

/* ---- hooks (forward.c) ----------------------------------------------------------------------------------- */

/* Adds a hook; `owned` is freed with it. False with the error kept: `owned` is the caller's. */
bool weft_module_hook_add(const char *function, weft_module_impl *module, weft_module_when when,
                          weft_module_function hook, void *context, void *owned);
/* Removes all hooks but the first `count`. */
void weft_module_hooks_cut(weft_module_impl *module, weft_module_when when, size_t count);

/* ---- distribution (distribute.c) ------------------------------------------------------------------------- */

/* weft_module_place() for a checked slot and mesh. A status with the error kept, which names the slot. */
weft_status weft_module_place_slot(const char *function, const weft_module_impl *module, weft_module_slot *slot,
                                   const weft_mesh_impl *mesh, const weft_placement *placements);
weft_status weft_module_use_slot(const char *function, const weft_module_impl *module, weft_module_slot *slot,
                                 const weft_placement *placements);
/* weft_distribute_module(), in the name of `function`. */
weft_status weft_module_distribute(const char *function, weft_module_impl *module, const weft_mesh_impl *mesh,
                                   weft_partition_function partition, weft_module_function input,
                                   weft_module_function output, void *context);

/* ---- names (pattern.c) ----------------------------------------------------------------------------------- */

/* Whether a pattern of weft_parallel.modules stands for a path. */
bool weft_path_matches(const char *pattern, const char *path);

/* ---- stop ------------------------------------------------------------------------------------------------ */

/* Frees all modules, at the end of a world. */
void weft_modules_stop(void);

#endif
