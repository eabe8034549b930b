/* Public functions on meshes and placements: argument checks, the registry of live meshes, the stack. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "runtime/runtime.h"
#include "runtime/thread.h"

weft_mesh_impl *weft_mesh_obtain(const char *function, int ndim, const int64_t shape[], const int ranks[],
                                 const char *const names[])
{
    if (weft_require_init(function) != WEFT_OK) {
        return NULL;
    }
    weft_status status = WEFT_OK;
    char why[200] = "";
    weft_mesh_impl *mesh =
        weft_mesh_new(ndim, shape, ranks, names, weft_runtime.topology.num_ranks, &status, why, sizeof(why));
    if (mesh == NULL) {
        weft_fail(status, function, "%s", why);
        return NULL;
    }
    weft_mesh_impl **meshes = weft_runtime.meshes.items;
    for (size_t i = 0; i < weft_runtime.meshes.count; i++) {
        if (weft_mesh_same(meshes[i], mesh)) {
            weft_mesh_delete(mesh);
            return meshes[i];
        }
    }
    weft_mesh_impl **slot = weft_vec_push(&weft_runtime.meshes, sizeof(*slot));
    mesh->handle =
        slot == NULL ? NULL : weft_handle_add(&weft_runtime.handles.meshes, WEFT_HANDLE_MESH, mesh);
    if (mesh->handle == NULL) {
        weft_runtime.meshes.count -= slot != NULL;
        weft_mesh_delete(mesh);
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for a mesh");
        return NULL;
    }
    *slot = mesh;
    return mesh;
}

weft_mesh_impl *weft_host_mesh(void)
{
    int64_t size = weft_runtime.num_processes;
    static const char *const name[] = { "process" };
    return weft_mesh_obtain("weft_host_mesh", 1, &size, weft_runtime.first_rank_of, name);
}

weft_mesh *weft_mesh_create(int ndim, const int64_t shape[], const char *const names[])
{
    return weft_mesh_handle(weft_mesh_obtain("weft_mesh_create", ndim, shape, NULL, names));
}

weft_mesh *weft_mesh_of_ranks(int ndim, const int64_t shape[], const int ranks[], const char *const names[])
{
    if (weft_require_init("weft_mesh_of_ranks") != WEFT_OK) {
        return NULL;
    }
    if (ranks == NULL) {
        weft_fail(WEFT_ERR_INVALID, "weft_mesh_of_ranks", "ranks is NULL");
        return NULL;
    }
    return weft_mesh_handle(weft_mesh_obtain("weft_mesh_of_ranks", ndim, shape, ranks, names));
}

int weft_mesh_ndim(const weft_mesh *handle)
{
    const weft_mesh_impl *mesh = weft_check_mesh("weft_mesh_ndim", handle);
    return mesh == NULL ? 0 : mesh->ndim;
}

int64_t weft_mesh_size(const weft_mesh *handle, int dim)
{
    const weft_mesh_impl *mesh = weft_check_mesh("weft_mesh_size", handle);
    dim = mesh == NULL ? -1 : weft_check_dim("weft_mesh_size", "dim", dim, mesh->ndim);
    return dim < 0 ? 0 : mesh->shape[dim];
}

const char *weft_mesh_dim_name(const weft_mesh *handle, int dim)
{
    const weft_mesh_impl *mesh = weft_check_mesh("weft_mesh_dim_name", handle);
    dim = mesh == NULL ? -1 : weft_check_dim("weft_mesh_dim_name", "dim", dim, mesh->ndim);
    return dim < 0 ? NULL : mesh->names[dim];
}

int64_t weft_mesh_num_ranks(const weft_mesh *handle)
{
    const weft_mesh_impl *mesh = weft_check_mesh("weft_mesh_num_ranks", handle);
    return mesh == NULL ? 0 : mesh->num_ranks;
}

weft_status weft_mesh_ranks(const weft_mesh *handle, int ranks[])
{
    static const char function[] = "weft_mesh_ranks";
    const weft_mesh_impl *mesh = weft_check_mesh(function, handle);
    if (mesh == NULL || ranks == NULL) {
        return mesh == NULL ? weft_latest_status() : weft_fail(WEFT_ERR_INVALID, function, "ranks is NULL");
    }
    for (int64_t i = 0; i < mesh->num_ranks; i++) {
        ranks[i] = weft_mesh_rank_at(mesh, i);
    }
    return WEFT_OK;
}

weft_status weft_mesh_names(const weft_mesh *handle, const char *names[])
{
    static const char function[] = "weft_mesh_names";
    const weft_mesh_impl *mesh = weft_check_mesh(function, handle);
    if (mesh == NULL || names == NULL) {
        return mesh == NULL ? weft_latest_status() : weft_fail(WEFT_ERR_INVALID, function, "names is NULL");
    }
    for (int d = 0; d < mesh->ndim; d++) {
        names[d] = mesh->names[d];
    }
    return WEFT_OK;
}

int weft_mesh_coordinate(const weft_mesh *handle, int rank, int64_t coordinate[])
{
    const weft_mesh_impl *mesh = weft_check_mesh("weft_mesh_coordinate", handle);
    if (mesh == NULL) {
        return 0;
    }
    if (coordinate == NULL) {
        weft_fail(WEFT_ERR_INVALID, "weft_mesh_coordinate", "coordinate is NULL");
        return 0;
    }
    if (rank < 0 || rank >= weft_runtime.topology.num_ranks) {
        weft_fail(WEFT_ERR_INVALID, "weft_mesh_coordinate", "rank is %d, expected 0 to %d", rank,
                  weft_runtime.topology.num_ranks - 1);
        return 0;
    }
    int64_t index = weft_mesh_index_of(mesh, rank);
    if (index < 0) {
        return 0;
    }
    weft_mesh_unravel(mesh, index, coordinate);
    return 1;
}

weft_status weft_mesh_push(weft_mesh *handle)
{
    weft_status status = weft_require_init("weft_mesh_push");
    if (status != WEFT_OK) {
        return status;
    }
    if (handle == NULL) {
        return weft_fail(WEFT_ERR_INVALID, "weft_mesh_push", "mesh is NULL");
    }
    weft_mesh_impl *mesh = weft_check_mesh("weft_mesh_push", handle);
    if (mesh == NULL) {
        return weft_latest_status();
    }
    weft_mesh_impl **slot = weft_vec_push(&weft_runtime.mesh_stack, sizeof(*slot));
    if (slot == NULL) {
        return weft_fail(WEFT_ERR_NOMEM, "weft_mesh_push", "no memory for the mesh stack");
    }
    *slot = mesh;
    return WEFT_OK;
}

weft_status weft_mesh_pop(void)
{
    weft_status status = weft_require_init("weft_mesh_pop");
    if (status != WEFT_OK) {
        return status;
    }
    if (weft_runtime.mesh_stack.count == 0) {
        return weft_fail(WEFT_ERR_STATE, "weft_mesh_pop", "the mesh stack is empty");
    }
    weft_runtime.mesh_stack.count--;
    return WEFT_OK;
}

weft_mesh *weft_mesh_current(void)
{
    if (weft_thread_none() || weft_require_init("weft_mesh_current") != WEFT_OK) {
        return NULL;
    }
    return weft_mesh_handle(weft_mesh_stack_top());
}

weft_status weft_placements_parse(const char *text, int n, weft_placement out[])
{
    char why[200] = "";
    weft_status status = weft_placements_read(text, n, out, why, sizeof(why));
    return status == WEFT_OK ? WEFT_OK : weft_fail(status, "weft_placements_parse", "%s", why);
}

static bool check_placement(const char *function, int index, weft_placement p)
{
    bool cut = (int)p.cut >= WEFT_CUT_CHUNKS && p.cut <= WEFT_CUT_ZIGZAG && (p.cut != WEFT_CUT_SIZES || p.sizes != NULL) &&
               (p.cut != WEFT_CUT_CYCLIC || (p.block > 0 && p.first >= 0));
    bool right = p.kind == WEFT_REPLICATE || (p.kind == WEFT_SHARD && cut && p.level >= 0 && p.period >= 0) ||
                 (p.kind == WEFT_PARTIAL && (int)p.op >= WEFT_SUM && p.op <= WEFT_MAX);
    if (!right) {
        weft_fail(WEFT_ERR_LAYOUT, function, "placements[%d] has kind %d, op %d, cut %d, %s sizes, level %d and period %lld, which are no placement", index,
                  (int)p.kind, (int)p.op, (int)p.cut, p.sizes == NULL ? "no" : "some", p.level, (long long)p.period);
    }
    return right;
}

weft_status weft_placements_format(const weft_placement *placements, int n, char *text, size_t size)
{
    static const char function[] = "weft_placements_format";
    if (text == NULL || n < 0 || n > WEFT_MAX_DIMS) {
        return text == NULL ? weft_fail(WEFT_ERR_INVALID, function, "text is NULL")
                            : weft_fail(WEFT_ERR_INVALID, function, "n is %d, expected 0 to %d", n, WEFT_MAX_DIMS);
    }
    weft_placement given[WEFT_MAX_DIMS];
    for (int m = 0; m < n; m++) {
        given[m] = placements == NULL ? weft_replicate() : placements[m];
        if (!check_placement(function, m, given[m])) {
            return WEFT_ERR_LAYOUT;
        }
    }
    weft_text written = weft_text_growing();
    weft_text_add(&written, "%s", ""); /* of no placements, too */
    weft_placements_write(&written, given, n);
    weft_status status = WEFT_OK;
    if (written.failed) {
        status = weft_fail(WEFT_ERR_NOMEM, function, "no memory for a text");
    } else if (written.length >= size) {
        status = weft_fail(WEFT_ERR_INVALID, function, "size is %zu, and the text has %zu characters", size, written.length);
    } else {
        memcpy(text, written.characters, written.length + 1);
    }
    weft_text_free(&written);
    return status;
}

weft_status weft_shard_box(weft_mesh *handle, const weft_placement *placements, int ndim,
                           const int64_t shape[], int rank, int64_t offset[], int64_t extent[])
{
    static const char function[] = "weft_shard_box";
    const weft_mesh_impl *mesh = weft_check_mesh(function, handle);
    if (mesh == NULL || !weft_check_shape(function, ndim, shape)) {
        return weft_latest_status();
    }
    if (ndim > 0 && (offset == NULL || extent == NULL)) {
        return weft_fail(WEFT_ERR_INVALID, function, "%s is NULL", offset == NULL ? "offset" : "extent");
    }
    if (rank < 0 || rank >= weft_runtime.topology.num_ranks) {
        return weft_fail(WEFT_ERR_INVALID, function, "rank is %d, expected 0 to %d", rank,
                         weft_runtime.topology.num_ranks - 1);
    }
    weft_layout layout = { .mesh = mesh, .ndim = ndim }; /* by itself: no tensor will have it */
    if (!weft_check_placements(function, mesh, placements, ndim, layout.placements)) {
        return weft_latest_status();
    }
    if (ndim > 0) {
        memcpy(layout.shape, shape, (size_t)ndim * sizeof(int64_t));
    }
    char why[200];
    weft_status status = weft_placements_check_sizes(mesh, layout.placements, layout.shape, why, sizeof(why));
    if (status != WEFT_OK) {
        return weft_fail(status, function, "placements: %s", why);
    }
    weft_placements_settle(mesh, layout.shape, layout.placements);
    for (int m = 0; m < mesh->ndim; m++) {
        layout.has_runs = layout.has_runs || weft_cut_has_runs(layout.placements[m]);
    }
    if (!weft_check_boxes(function, "placements", &layout)) {
        return weft_latest_status();
    }
    weft_cut_order(mesh->ndim, layout.placements, layout.order);
    weft_box box;
    weft_layout_shard_box(&layout, rank, &box);
    if (ndim > 0) {
        memcpy(offset, box.offset, (size_t)ndim * sizeof(int64_t));
        memcpy(extent, box.extent, (size_t)ndim * sizeof(int64_t));
    }
    return WEFT_OK;
}
