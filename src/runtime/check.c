/* Argument checks of all public functions, with their messages. */
#include "codelets/complex.h"
#include "runtime/runtime.h"

#include <string.h>

bool weft_check_shape(const char *function, int ndim, const int64_t shape[])
{
    char why[160];
    weft_status status = weft_shape_check(ndim, shape, why, sizeof(why));
    if (status != WEFT_OK) {
        weft_fail(status, function, "%s", why);
    }
    return status == WEFT_OK;
}

bool weft_check_dtype(const char *function, weft_dtype dtype)
{
    if ((int)dtype < 0 || (int)dtype >= WEFT_DTYPE_COUNT) {
        weft_fail(WEFT_ERR_DTYPE, function, "dtype is %d, which is no weft_dtype", (int)dtype);
        return false;
    }
    return true;
}

weft_mesh_impl *weft_check_mesh(const char *function, const weft_mesh *mesh)
{
    if (weft_require_init(function) != WEFT_OK) {
        return NULL;
    }
    if (mesh == NULL) {
        weft_mesh_impl *top = weft_mesh_stack_top();
        if (top == NULL) {
            weft_fail(WEFT_ERR_MESH, function,
                      "mesh is NULL and the mesh stack is empty: weft_mesh_push() one");
        }
        return top;
    }
    weft_mesh_impl *alive = weft_handle_get(&weft_runtime.handles.meshes, mesh);
    if (alive == NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "mesh %p is not a mesh of this weft_init()",
                  (const void *)mesh);
    }
    return alive;
}

int weft_check_dim(const char *function, const char *argument, int dim, int ndim)
{
    int positive = dim < 0 ? dim + ndim : dim;
    if (positive < 0 || positive >= ndim) {
        weft_fail(WEFT_ERR_INVALID, function, "%s is %d, expected %d to %d", argument, dim, -ndim, ndim - 1);
        return -1;
    }
    return positive;
}

bool weft_check_placements(const char *function, const weft_mesh_impl *mesh, const weft_placement *placements,
                           int ndim, weft_placement canonical[])
{
    char why[200];
    weft_status status = weft_placements_normalize(placements, mesh->ndim, ndim, canonical, why, sizeof(why));
    if (status != WEFT_OK) {
        weft_fail(status, function, "placements: %s", why);
    }
    return status == WEFT_OK;
}

const weft_layout *weft_check_layout(const char *function, const weft_mesh_impl *mesh,
                                     const weft_placement *placements, int ndim, const int64_t shape[],
                                     weft_dtype dtype)
{
    weft_placement canonical[WEFT_MAX_DIMS];
    if (!weft_check_placements(function, mesh, placements, ndim, canonical)) {
        return NULL;
    }
    for (int m = 0; m < mesh->ndim; m++) {
        const bool ordered = canonical[m].kind == WEFT_PARTIAL && (canonical[m].op == WEFT_MIN || canonical[m].op == WEFT_MAX);
        if (ordered && weft_dtype_is_complex(dtype)) {
            weft_fail(WEFT_ERR_LAYOUT, function, "placements: entry %d is Partial(%s) of %s, but complex numbers have no order", m,
                      canonical[m].op == WEFT_MIN ? "min" : "max", weft_dtype_name(dtype));
            return NULL;
        }
        if (canonical[m].kind == WEFT_PARTIAL && weft_dtype_is_stored(dtype)) {
            weft_fail(WEFT_ERR_LAYOUT, function, "placements: entry %d is Partial, but %s has no arithmetic", m, weft_dtype_name(dtype));
            return NULL;
        }
    }
    char why[200];
    weft_status status = weft_placements_check_sizes(mesh, canonical, shape, why, sizeof(why));
    if (status != WEFT_OK) {
        weft_fail(status, function, "placements: %s", why);
        return NULL;
    }
    const weft_layout *layout = weft_layout_intern(weft_runtime.layouts, mesh, canonical, ndim, shape, dtype);
    if (layout == NULL) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for a layout");
    }
    return layout;
}

bool weft_check_boxes(const char *function, const char *argument, const weft_layout *layout)
{
    char text[80];
    if (layout->has_runs) {
        weft_fail(WEFT_ERR_LAYOUT, function, "%s is %s: its shards are several runs of rows, and no boxes", argument,
                  weft_placements_text(layout->placements, layout->mesh->ndim, text, sizeof(text)));
    }
    return !layout->has_runs;
}

const weft_layout *weft_layout_of_boxes(const char *function, const weft_layout *layout)
{
    weft_placement placements[WEFT_MAX_DIMS];
    if (!layout->has_runs) {
        return layout;
    }
    for (int m = 0; m < layout->mesh->ndim; m++) {
        weft_placement p = layout->placements[m];
        placements[m] = weft_cut_has_runs(p) ? weft_shard(p.dim) : p;
    }
    weft_placements_settle(layout->mesh, layout->shape, placements);
    return weft_check_layout(function, layout->mesh, placements, layout->ndim, layout->shape, layout->dtype);
}

bool weft_give_struct(const char *function, const char *argument, void *given, size_t size, const void *own, size_t own_size)
{
    if (given == NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "%s is NULL", argument);
        return false;
    }
    if (size < sizeof(int) || size > 2 * own_size + 4096) {
        weft_fail(WEFT_ERR_INVALID, function, "size is %zu, expected sizeof(*%s), %zu in this version of weft", size, argument,
                  own_size);
        return false;
    }
    memcpy(given, own, size < own_size ? size : own_size);
    if (size > own_size) {
        memset((char *)given + own_size, 0, size - own_size);
    }
    return true;
}

bool weft_check_options(const char *function, void *own, size_t own_size, const void *given, size_t given_size,
                        size_t first)
{
    size_t size = given_size == 0 ? first : given_size;
    if (size < first || size > 2 * own_size + 4096) {
        weft_fail(WEFT_ERR_INVALID, function, "size is %zu in the options, expected 0 or %zu", given_size, own_size);
        return false;
    }
    for (size_t i = own_size; i < size; i++) {
        if (((const unsigned char *)given)[i] != 0) {
            weft_fail(WEFT_ERR_UNSUPPORTED, function,
                      "the options have a field that is set at byte %zu, and this version of weft knows %zu bytes", i,
                      own_size);
            return false;
        }
    }
    memset(own, 0, own_size);
    memcpy(own, given, size < own_size ? size : own_size);
    return true;
}
