/* Parallel styles: the partition function and the layouts that a plan stands for. */
#include <stdio.h>
#include <stdlib.h>

#include "module/layouts.h"

/* ---- styles ---------------------------------------------------------------------------------------------- */

/* Placement of a parameter by its style; that of WEFT_PARALLEL_FULLY_SHARDED depends on the other entries. */
static weft_placement parameter_placement(weft_parallel_style style, int ndim)
{
    switch (style) {
    case WEFT_PARALLEL_COLUMNS:
        return ndim > 0 ? weft_shard(ndim - 1) : weft_replicate();
    case WEFT_PARALLEL_ROWS:
        return ndim > 1 ? weft_shard(ndim - 2) : weft_replicate();
    case WEFT_PARALLEL_EMBEDDING:
        return ndim > 0 ? weft_shard(0) : weft_replicate();
    case WEFT_PARALLEL_LAYOUTS:
    case WEFT_PARALLEL_SEQUENCE:
    case WEFT_PARALLEL_DATA:
    case WEFT_PARALLEL_FULLY_SHARDED:
        break;
    }
    return weft_replicate();
}

/* One placement for all. */
static weft_wanted all(weft_placement placement)
{
    return (weft_wanted){ .count = 1, .placements = { placement } };
}

static weft_wanted style_inputs(weft_parallel_style style, bool is_root)
{
    switch (style) {
    case WEFT_PARALLEL_COLUMNS:
    case WEFT_PARALLEL_EMBEDDING:
        return all(weft_replicate());
    case WEFT_PARALLEL_ROWS:
        return all(weft_shard(-1));
    case WEFT_PARALLEL_SEQUENCE:
        return all(weft_shard(1));
    case WEFT_PARALLEL_DATA:
    case WEFT_PARALLEL_FULLY_SHARDED:
        return is_root ? all(weft_shard(0)) : (weft_wanted){ 0 };
    case WEFT_PARALLEL_LAYOUTS:
        break;
    }
    return (weft_wanted){ 0 };
}

static weft_wanted style_outputs(weft_parallel_style style)
{
    switch (style) {
    case WEFT_PARALLEL_ROWS:
    case WEFT_PARALLEL_EMBEDDING:
        return all(weft_replicate());
    case WEFT_PARALLEL_SEQUENCE:
        return all(weft_shard(1));
    case WEFT_PARALLEL_LAYOUTS:
    case WEFT_PARALLEL_COLUMNS:
    case WEFT_PARALLEL_DATA:
    case WEFT_PARALLEL_FULLY_SHARDED:
        break;
    }
    return (weft_wanted){ 0 };
}

/* ---- a plan, checked ------------------------------------------------------------------------------------- */

typedef struct weft_plan_entry {
    const char *modules;
    weft_parallel_style style;
    int mesh_dim;
    weft_wanted inputs, outputs; /* from_text: given */
    bool has_parameters;
    weft_placement parameters; /* given */
} weft_plan_entry;

/* Context of the partition function. */
typedef struct weft_parallel_plan {
    const char *function;
    const weft_module_impl *top;
    const weft_mesh_impl *mesh;
    int count;
    weft_plan_entry *entries;
} weft_parallel_plan;

/* The mesh dimension of an entry; -1 with the error kept. */
static int find_mesh_dim(const char *function, int number, const weft_mesh_impl *mesh, const char *name)
{
    char argument[40];
    snprintf(argument, sizeof(argument), "plan[%d].mesh_dim", number);
    return name == NULL && mesh->ndim == 1 ? 0 : weft_check_mesh_name(function, argument, mesh, name);
}

/* False with the error kept. */
static bool check_pattern(const char *function, int number, const weft_module_impl *top, const char *pattern)
{
    if (pattern == NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "plan[%d].modules is NULL", number);
        return false;
    }
    for (const weft_module_impl *at = top; at != NULL; at = weft_module_next(top, at)) {
        if (weft_path_matches(pattern, weft_module_path_from(top, at->path))) {
            return true;
        }
    }
    weft_fail(WEFT_ERR_INVALID, function, "plan[%d].modules is \"%s\", which no module matches", number, weft_path_end(pattern));
    return false;
}

/* Reads the placements that an entry gives (text NULL: none). False with the error kept. */
static bool read_wanted(const char *function, int number, const char *member, const char *text, weft_wanted *wanted)
{
    char why[200];
    if (text != NULL && !weft_wanted_read(text, wanted, why, sizeof(why))) {
        weft_fail(WEFT_ERR_INVALID, function, "plan[%d].%s: %s", number, member, why);
        return false;
    }
    return true;
}

static bool read_parameters(const char *function, int number, const char *text, weft_plan_entry *entry)
{
    weft_wanted wanted = { 0 };
    if (!read_wanted(function, number, "parameters", text, &wanted)) {
        return false;
    }
    if (text != NULL && (wanted.count != 1 || wanted.keeps[0])) {
        weft_fail(WEFT_ERR_INVALID, function, "plan[%d].parameters is \"%s\", expected one placement", number, text);
        return false;
    }
    entry->has_parameters = text != NULL;
    entry->parameters = wanted.placements[0];
    return true;
}

/* False with the error kept. */
static bool read_entry(const weft_parallel_plan *plan, int number, const weft_parallel *given, weft_plan_entry *entry)
{
    const char *function = plan->function;
    *entry = (weft_plan_entry){ .modules = given->modules, .style = given->style };
    if ((int)given->style < WEFT_PARALLEL_LAYOUTS || given->style > WEFT_PARALLEL_FULLY_SHARDED) {
        weft_fail(WEFT_ERR_INVALID, function, "plan[%d].style is %d, which is no weft_parallel_style", number,
                  (int)given->style);
        return false;
    }
    entry->mesh_dim = find_mesh_dim(function, number, plan->mesh, given->mesh_dim);
    return entry->mesh_dim >= 0 && check_pattern(function, number, plan->top, given->modules) &&
           read_wanted(function, number, "inputs", given->inputs, &entry->inputs) &&
           read_wanted(function, number, "outputs", given->outputs, &entry->outputs) &&
           read_parameters(function, number, given->parameters, entry);
}

/* The first entry for a module along a mesh dimension; NULL: none. */
static const weft_plan_entry *entry_for(const weft_parallel_plan *plan, const char *path, int mesh_dim)
{
    for (int i = 0; i < plan->count; i++) {
        const weft_plan_entry *entry = &plan->entries[i];
        if (entry->mesh_dim == mesh_dim && weft_path_matches(entry->modules, path)) {
            return entry;
        }
    }
    return NULL;
}

/* ---- parameters ------------------------------------------------------------------------------------------ */

/* A level after those of all placements that shard a tensor dimension; 0: none does. */
static int level_after(const weft_placement placements[], int count, int dim)
{
    int level = 0;
    for (int d = 0; d < count; d++) {
        bool shards = placements[d].kind == WEFT_SHARD && placements[d].dim == dim;
        level = shards && placements[d].level >= level ? placements[d].level + 1 : level;
    }
    return level;
}

/* The placement of a fully sharded parameter along a mesh dimension of `ranks` ranks, beside those of the others: on the
 * first dimension that these do not shard and that has an element for each rank; else on the largest one, whose parts it cuts
 * once more, so that gathering it leaves them where they are. */
static weft_placement fully_sharded_placement(const weft_layout *layout, const weft_placement others[], int count,
                                              int64_t ranks)
{
    int largest = 0;
    for (int dim = 0; dim < layout->ndim; dim++) {
        if (level_after(others, count, dim) == 0 && layout->shape[dim] >= ranks) {
            return weft_shard(dim);
        }
        largest = layout->shape[dim] > layout->shape[largest] ? dim : largest;
    }
    return layout->ndim == 0 ? weft_replicate()
                             : (weft_placement){ .kind = WEFT_SHARD, .dim = largest, .level = level_after(others, count, largest) };
}

/* Brings a parameter to its layout. A status with the error kept. */
static weft_status place_parameter(const weft_parallel_plan *plan, const weft_plan_entry *const entries[],
                                   const weft_module_impl *module, weft_module_slot *slot)
{
    const weft_layout *layout = slot->tensor->layout;
    weft_placement placements[WEFT_MAX_DIMS] = { 0 }, use[WEFT_MAX_DIMS];
    int ndim = plan->mesh->ndim;
    bool gathers = false;
    for (int d = 0; d < ndim; d++) {
        placements[d] = entries[d] == NULL             ? weft_replicate()
                        : entries[d]->has_parameters ? entries[d]->parameters
                                                     : parameter_placement(entries[d]->style, layout->ndim);
        if (placements[d].kind == WEFT_SHARD && layout->ndim == 0) {
            placements[d] = weft_replicate();
        } else if (placements[d].kind == WEFT_SHARD && placements[d].dim < 0) {
            placements[d].dim += layout->ndim;
        }
    }
    for (int d = 0; d < ndim; d++) {
        bool fully = entries[d] != NULL && entries[d]->style == WEFT_PARALLEL_FULLY_SHARDED;
        if (fully && !entries[d]->has_parameters) {
            placements[d] = fully_sharded_placement(layout, placements, ndim, plan->mesh->shape[d]);
        }
        use[d] = fully ? weft_replicate() : placements[d];
        gathers = gathers || (fully && placements[d].kind == WEFT_SHARD);
    }
    weft_status status = weft_module_place_slot(plan->function, module, slot, plan->mesh, placements);
    return status == WEFT_OK && gathers ? weft_module_use_slot(plan->function, module, slot, use) : status;
}

static weft_status place_parameters(const weft_parallel_plan *plan, const weft_plan_entry *const entries[],
                                    const weft_module_impl *module)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < module->slots.count && status == WEFT_OK; i++) {
        weft_module_slot *slot = weft_module_slot_at(module, i);
        if (slot->is_parameter && slot->tensor != NULL && !slot->settled) {
            status = place_parameter(plan, entries, module, slot);
        }
    }
    return status;
}

/* ---- inputs and outputs ---------------------------------------------------------------------------------- */

static bool brings_any(const weft_module_layouts *layouts)
{
    int count = 0;
    for (int d = 0; d < layouts->mesh->ndim; d++) {
        count += layouts->wanted[d].count;
    }
    return count > 0;
}

/* Adds a hook for the inputs or outputs, where an entry has a layout for them. A status with the error kept. */
static weft_status add_layouts(const weft_parallel_plan *plan, const weft_plan_entry *const entries[],
                               weft_module_impl *module, weft_module_when when)
{
    bool before = when == WEFT_BEFORE_FORWARD;
    weft_module_layouts layouts = { .mesh = plan->mesh, .what = before ? "inputs" : "outputs" };
    for (int d = 0; d < plan->mesh->ndim; d++) {
        const weft_plan_entry *entry = entries[d];
        const weft_wanted *given = entry == NULL ? NULL : before ? &entry->inputs : &entry->outputs;
        if (given != NULL) {
            layouts.wanted[d] = given->from_text ? *given
                                : before         ? style_inputs(entry->style, module == plan->top)
                                                 : style_outputs(entry->style);
        }
    }
    if (!brings_any(&layouts)) {
        return WEFT_OK;
    }
    weft_module_layouts *own = malloc(sizeof(*own));
    if (own == NULL) {
        return weft_fail(WEFT_ERR_NOMEM, plan->function, "no memory for layouts");
    }
    *own = layouts;
    if (!weft_module_hook_add(plan->function, module, when, weft_module_bring, own, own)) {
        free(own);
        return weft_latest_status();
    }
    return WEFT_OK;
}

/* ---- the public function --------------------------------------------------------------------------------- */

/* Partition function of a plan. */
static weft_status partition_by_plan(const char *path, weft_module *handle, weft_mesh *mesh, void *context)
{
    const weft_parallel_plan *plan = context;
    weft_module_impl *module = weft_check_module(plan->function, "module", handle);
    const weft_plan_entry *entries[WEFT_MAX_DIMS] = { NULL };
    (void)mesh;
    for (int d = 0; d < plan->mesh->ndim; d++) {
        entries[d] = entry_for(plan, path, d);
    }
    weft_status status = place_parameters(plan, entries, module);
    status = status == WEFT_OK ? add_layouts(plan, entries, module, WEFT_BEFORE_FORWARD) : status;
    return status == WEFT_OK ? add_layouts(plan, entries, module, WEFT_AFTER_FORWARD) : status;
}

weft_status weft_parallelize(weft_module *handle, weft_mesh *mesh_handle, int num_entries, const weft_parallel plan[])
{
    static const char function[] = "weft_parallelize";
    weft_module_impl *module = weft_check_module(function, "module", handle);
    const weft_mesh_impl *mesh = module == NULL ? NULL : weft_check_mesh(function, mesh_handle);
    if (mesh == NULL) {
        return weft_latest_status();
    }
    if (num_entries < 0 || (num_entries > 0 && plan == NULL)) {
        return num_entries < 0 ? weft_fail(WEFT_ERR_INVALID, function, "num_entries is %d", num_entries)
                               : weft_fail(WEFT_ERR_INVALID, function, "plan is NULL");
    }
    weft_parallel_plan checked = { function, module, mesh, num_entries, NULL };
    checked.entries = calloc((size_t)num_entries + 1, sizeof(*checked.entries));
    if (checked.entries == NULL) {
        return weft_fail(WEFT_ERR_NOMEM, function, "no memory for %d entries", num_entries);
    }
    bool right = true;
    for (int i = 0; i < num_entries && right; i++) {
        right = read_entry(&checked, i, &plan[i], &checked.entries[i]);
    }
    weft_status status = right ? weft_module_distribute(function, module, mesh, partition_by_plan, NULL, NULL, &checked)
                               : weft_latest_status();
    free(checked.entries);
    return status;
}
