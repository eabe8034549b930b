/* Layouts of inputs and outputs, which parallel styles bring tensors to before and after a forward function. */
#include "module/layouts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "-", with blanks around it. */
static bool is_dash(const char *token)
{
    static const char blanks[] = " \t\n";
    const char *at = token + strspn(token, blanks);
    return at[0] == '-' && at[1 + strspn(at + 1, blanks)] == '\0';
}

/* Reads one placement: not Partial. False with the reason. */
static bool read_token(const char *begin, size_t length, weft_placement *out, bool *keeps, char *why, size_t why_size)
{
    char *token = malloc(length + 1);
    if (token == NULL) {
        snprintf(why, why_size, "no memory for a text");
        return false;
    }
    memcpy(token, begin, length);
    token[length] = '\0';
    *keeps = is_dash(token);
    bool read = *keeps || weft_placements_read(token, 1, out, why, why_size) == WEFT_OK;
    if (read && !*keeps && out->kind == WEFT_PARTIAL) {
        snprintf(why, why_size, "\"%s\" is Partial", token);
        read = false;
    }
    free(token);
    return read;
}

/* The characters before the comma that ends a placement: commas in braces do not. */
static size_t token_length(const char *text)
{
    size_t length = strcspn(text, ",{");
    if (text[length] == '{') {
        length += strcspn(text + length, "}");
        length += strcspn(text + length, ",");
    }
    return length;
}

bool weft_wanted_read(const char *text, weft_wanted *wanted, char *why, size_t why_size)
{
    *wanted = (weft_wanted){ .from_text = true };
    for (const char *at = text; wanted->count < WEFT_MAX_WANTED; at++) {
        size_t length = token_length(at);
        int i = wanted->count++;
        if (!read_token(at, length, &wanted->placements[i], &wanted->keeps[i], why, why_size)) {
            return false;
        }
        at += length;
        if (at[0] == '\0') {
            return true;
        }
    }
    snprintf(why, why_size, "\"%s\" has more than %d placements", text, WEFT_MAX_WANTED);
    return false;
}

/* The placement that tensor number `i` is brought to; false: as it is. */
static bool placement_for(const weft_wanted *wanted, int i, int ndim, weft_placement *out)
{
    if (wanted->from_text) {
        bool listed = i < wanted->count && !wanted->keeps[i];
        *out = listed ? wanted->placements[i] : weft_replicate();
        return listed;
    }
    int dim = wanted->placements[0].dim;
    bool has_dim = wanted->placements[0].kind != WEFT_SHARD || (dim < ndim && dim >= -ndim);
    *out = wanted->placements[0];
    return wanted->count > 0 && has_dim;
}

/* A tensor's own sizes may not fit any more, after another cut; those that the plan lists have to. */
static void settle_own(const weft_mesh_impl *mesh, const weft_layout *from, const bool brought[], weft_placement placements[])
{
    weft_placement settled[WEFT_MAX_DIMS];
    memcpy(settled, placements, (size_t)mesh->ndim * sizeof(*settled));
    weft_placements_settle(mesh, from->shape, settled);
    for (int d = 0; d < mesh->ndim; d++) {
        placements[d] = brought[d] ? placements[d] : settled[d];
    }
}

/* The layout that a tensor is brought to. \return whether it is another one than its own; *status with the error kept. */
static bool target_of(const weft_module_impl *module, const weft_module_layouts *layouts, const weft_mesh_impl *mesh,
                      int number, const weft_tensor_impl *tensor, weft_placement target[], weft_status *status)
{
    const weft_layout *from = tensor->layout;
    bool changes = from->mesh != mesh, brought[WEFT_MAX_DIMS];
    for (int d = 0; d < mesh->ndim; d++) {
        weft_placement wanted;
        bool brings = placement_for(&layouts->wanted[d], number, from->ndim, &wanted);
        target[d] = brings ? wanted : from->mesh == mesh ? from->placements[d] : weft_replicate();
        brought[d] = brings;
        changes = changes || brings;
    }
    char why[200];
    weft_placement canonical[WEFT_MAX_DIMS];
    *status = weft_placements_normalize(target, mesh->ndim, from->ndim, canonical, why, sizeof(why));
    if (*status == WEFT_OK) {
        settle_own(mesh, from, brought, canonical);
        *status = weft_placements_check_sizes(mesh, canonical, from->shape, why, sizeof(why));
    }
    if (*status != WEFT_OK) {
        weft_fail(*status, "weft_module_forward", "%s: %s[%d]: %s", weft_module_label(module), layouts->what, number, why);
        return false;
    }
    memcpy(target, canonical, (size_t)mesh->ndim * sizeof(*target));
    return changes && !(from->mesh == mesh && weft_placements_equal(canonical, from->placements, mesh->ndim));
}

weft_status weft_module_bring(weft_module *handle, weft_mesh *mesh_handle, int num_tensors, weft_tensor *tensors[],
                              void *context)
{
    const weft_module_layouts *layouts = context;
    const weft_module_impl *module = weft_check_module("weft_module_forward", "module", handle);
    const weft_mesh_impl *mesh = layouts->mesh;
    (void)mesh_handle;
    for (int i = 0; i < num_tensors; i++) {
        weft_placement target[WEFT_MAX_DIMS];
        weft_status status;
        if (target_of(module, layouts, mesh, i, weft_tensor_get(tensors[i]), target, &status)) {
            tensors[i] = weft_redistribute(tensors[i], mesh->handle, target);
            status = tensors[i] == NULL ? weft_latest_status() : WEFT_OK;
        }
        if (status != WEFT_OK) {
            return status;
        }
    }
    return WEFT_OK;
}
