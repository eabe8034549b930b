/* Meshes derived from a mesh: a subset of dimensions, joined dimensions, a split dimension. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"

/* ---- some dimensions ----------------------------------------------------------------------------------- */

int weft_check_mesh_name(const char *function, const char *argument, const weft_mesh_impl *mesh, const char *name)
{
    if (name == NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "%s is NULL", argument);
        return -1;
    }
    for (int d = 0; d < mesh->ndim; d++) {
        if (mesh->names[d] != NULL && strcmp(mesh->names[d], name) == 0) {
            return d;
        }
    }
    char text[160];
    weft_fail(WEFT_ERR_INVALID, function, "%s is \"%s\", which no dimension of the mesh %s has", argument, name,
              weft_mesh_format(mesh, text, sizeof(text)));
    return -1;
}

/* The sub-mesh along some dimensions, in this order, through a mesh index. NULL with the error kept. */
static weft_mesh *submesh_through(const char *function, const weft_mesh_impl *mesh, int64_t index, int ndim,
                                  const int dims[])
{
    int64_t shape[WEFT_MAX_DIMS], coordinate[WEFT_MAX_DIMS], count = 1;
    const char *names[WEFT_MAX_DIMS];
    weft_mesh_unravel(mesh, index, coordinate);
    for (int d = 0; d < ndim; d++) {
        shape[d] = mesh->shape[dims[d]];
        names[d] = mesh->names[dims[d]];
        count *= shape[d];
    }
    int *ranks = malloc((size_t)count * sizeof(*ranks));
    if (ranks == NULL) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for %lld ranks", (long long)count);
        return NULL;
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t rest = i;
        for (int d = ndim - 1; d >= 0; d--) {
            coordinate[dims[d]] = rest % shape[d];
            rest /= shape[d];
        }
        ranks[i] = weft_mesh_rank_at(mesh, weft_mesh_ravel(mesh, coordinate));
    }
    weft_mesh_impl *found = weft_mesh_obtain(function, ndim, shape, ranks, names);
    free(ranks);
    return weft_mesh_handle(found);
}

/* The mesh index through which weft_mesh_slice() goes; -1 with the error kept. */
static int64_t slice_origin(const weft_mesh_impl *mesh, int dim)
{
    int64_t origin = -1;
    int64_t first[WEFT_MAX_DIMS] = { 0 };
    for (int i = 0; i < weft_runtime.local_ranks; i++) {
        int64_t index = weft_mesh_index_of(mesh, weft_runtime.first_rank + i);
        if (index < 0) {
            continue;
        }
        int64_t coordinate[WEFT_MAX_DIMS];
        weft_mesh_unravel(mesh, index, coordinate);
        if (origin < 0) {
            origin = index;
            memcpy(first, coordinate, sizeof(first));
            continue;
        }
        for (int d = 0; d < mesh->ndim && weft_runtime.num_processes > 1; d++) {
            if (d != dim && coordinate[d] != first[d]) {
                weft_fail(WEFT_ERR_MESH, "weft_mesh_slice",
                          "this process hosts ranks on several lines of the mesh");
                return -1;
            }
        }
    }
    if (weft_runtime.num_processes == 1) {
        return 0;
    }
    if (origin < 0) {
        weft_fail(WEFT_ERR_MESH, "weft_mesh_slice", "this process hosts no rank of the mesh");
    }
    return origin;
}

weft_mesh *weft_mesh_slice(weft_mesh *handle, const char *name)
{
    static const char function[] = "weft_mesh_slice";
    const weft_mesh_impl *mesh = weft_check_mesh(function, handle);
    int dim = mesh == NULL ? -1 : weft_check_mesh_name(function, "name", mesh, name);
    int64_t origin = dim < 0 ? -1 : slice_origin(mesh, dim);
    return origin < 0 ? NULL : submesh_through(function, mesh, origin, 1, &dim);
}

/* False with the error kept. */
static bool check_names(const char *function, const weft_mesh_impl *mesh, int count, const char *const names[],
                        int dims[])
{
    if (count < 1 || count > mesh->ndim) {
        weft_fail(WEFT_ERR_INVALID, function, "num_names is %d, expected 1 to %d", count, mesh->ndim);
        return false;
    }
    if (names == NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "names is NULL");
        return false;
    }
    for (int i = 0; i < count; i++) {
        char argument[32];
        snprintf(argument, sizeof(argument), "names[%d]", i);
        dims[i] = weft_check_mesh_name(function, argument, mesh, names[i]);
        for (int j = 0; j < i && dims[i] >= 0; j++) {
            if (dims[j] == dims[i]) {
                weft_fail(WEFT_ERR_INVALID, function, "names[%d] and names[%d] are both \"%s\"", j, i, names[i]);
                return false;
            }
        }
        if (dims[i] < 0) {
            return false;
        }
    }
    return true;
}

weft_mesh *weft_mesh_submesh(weft_mesh *handle, int num_names, const char *const names[], int rank)
{
    static const char function[] = "weft_mesh_submesh";
    const weft_mesh_impl *mesh = weft_check_mesh(function, handle);
    int dims[WEFT_MAX_DIMS];
    if (mesh == NULL || !check_names(function, mesh, num_names, names, dims)) {
        return NULL;
    }
    if (rank < 0 || rank >= weft_runtime.topology.num_ranks) {
        weft_fail(WEFT_ERR_INVALID, function, "rank is %d, expected 0 to %d", rank,
                  weft_runtime.topology.num_ranks - 1);
        return NULL;
    }
    int64_t index = weft_mesh_index_of(mesh, rank);
    if (index < 0) {
        char text[160];
        weft_fail(WEFT_ERR_MESH, function, "rank %d is not in the mesh %s", rank,
                  weft_mesh_format(mesh, text, sizeof(text)));
        return NULL;
    }
    return submesh_through(function, mesh, index, num_names, dims);
}

/* ---- joined and split ---------------------------------------------------------------------------------- */

weft_mesh *weft_mesh_flatten(weft_mesh *handle, int first, int last, const char *name)
{
    static const char function[] = "weft_mesh_flatten";
    const weft_mesh_impl *mesh = weft_check_mesh(function, handle);
    if (mesh == NULL) {
        return NULL;
    }
    first = weft_check_dim(function, "first", first, mesh->ndim);
    last = first < 0 ? -1 : weft_check_dim(function, "last", last, mesh->ndim);
    if (first < 0 || last < 0) {
        return NULL;
    }
    if (last < first) {
        weft_fail(WEFT_ERR_INVALID, function, "last (%d) is before first (%d)", last, first);
        return NULL;
    }
    int64_t shape[WEFT_MAX_DIMS];
    const char *names[WEFT_MAX_DIMS];
    int ndim = 0;
    for (int d = 0; d < mesh->ndim; d++) {
        if (d > first && d <= last) {
            shape[ndim - 1] *= mesh->shape[d];
            continue;
        }
        shape[ndim] = mesh->shape[d];
        names[ndim++] = d == first ? name : mesh->names[d];
    }
    return weft_mesh_handle(weft_mesh_obtain(function, ndim, shape, mesh->ranks, names));
}

/* Whether the product of the sizes is the dimension's. False with the error kept. */
static bool check_sizes(const char *function, const weft_mesh_impl *mesh, int dim, int num_sizes,
                        const int64_t sizes[])
{
    int most = WEFT_MAX_DIMS - mesh->ndim + 1;
    if (num_sizes < 1 || num_sizes > most) {
        weft_fail(WEFT_ERR_INVALID, function, "num_sizes is %d, expected 1 to %d for a mesh of %d dimensions",
                  num_sizes, most, mesh->ndim);
        return false;
    }
    if (sizes == NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "sizes is NULL");
        return false;
    }
    int64_t count = 1;
    for (int i = 0; i < num_sizes; i++) {
        if (sizes[i] < 1) {
            weft_fail(WEFT_ERR_INVALID, function, "sizes[%d] is %lld, expected at least 1", i, (long long)sizes[i]);
            return false;
        }
        count = weft_mul_saturated(count, sizes[i]);
    }
    if (count != mesh->shape[dim]) {
        weft_fail(WEFT_ERR_SHAPE, function, "sizes has the product %lld, but dimension %d has the size %lld",
                  (long long)count, dim, (long long)mesh->shape[dim]);
        return false;
    }
    return true;
}

weft_mesh *weft_mesh_unflatten(weft_mesh *handle, int dim, int num_sizes, const int64_t sizes[],
                               const char *const names[])
{
    static const char function[] = "weft_mesh_unflatten";
    const weft_mesh_impl *mesh = weft_check_mesh(function, handle);
    dim = mesh == NULL ? -1 : weft_check_dim(function, "dim", dim, mesh->ndim);
    if (dim < 0 || !check_sizes(function, mesh, dim, num_sizes, sizes)) {
        return NULL;
    }
    int64_t shape[WEFT_MAX_DIMS];
    const char *all_names[WEFT_MAX_DIMS];
    int ndim = 0;
    for (int d = 0; d < mesh->ndim; d++) {
        for (int i = 0; i < (d == dim ? num_sizes : 1); i++) {
            shape[ndim] = d == dim ? sizes[i] : mesh->shape[d];
            all_names[ndim++] = d != dim ? mesh->names[d] : names == NULL ? NULL : names[i];
        }
    }
    return weft_mesh_handle(weft_mesh_obtain(function, ndim, shape, mesh->ranks, all_names));
}
