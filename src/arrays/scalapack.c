/* Descriptors of ScaLAPACK's matrices: those of tensors, and tensors of those. */
#include <weft/scalapack.h>

#include <limits.h>

#include "arrays/import.h"
#include "tensor/state.h"

/* Entries of a descriptor. */
enum { KIND, CONTEXT, M, N, MB, NB, FIRST_ROW, FIRST_COLUMN, LEADING, DENSE = 1 };

/* ---- a tensor of a descriptor --------------------------------------------------------------------------- */

static bool check_entry(const char *function, const int descriptor[], int entry, int64_t least, int64_t most)
{
    if (descriptor[entry] < least || descriptor[entry] > most) {
        weft_fail(WEFT_ERR_INVALID, function, "descriptor[%d] is %d, expected %lld to %lld", entry, descriptor[entry],
                  (long long)least, (long long)most);
        return false;
    }
    return true;
}

/* False with the error kept. */
static bool check_descriptor(const char *function, const int descriptor[], const weft_mesh_impl *mesh)
{
    if (descriptor == NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "descriptor is NULL");
        return false;
    }
    if (mesh->ndim > 2) {
        weft_fail(WEFT_ERR_SHAPE, function, "mesh has %d dimensions, expected 1 or the 2 of a process grid", mesh->ndim);
        return false;
    }
    int64_t last_row = mesh->ndim < 2 ? 0 : mesh->shape[0] - 1, last_column = mesh->shape[mesh->ndim - 1] - 1;
    return check_entry(function, descriptor, KIND, DENSE, DENSE) && check_entry(function, descriptor, M, 0, INT_MAX) &&
           check_entry(function, descriptor, N, 0, INT_MAX) && check_entry(function, descriptor, MB, 1, INT_MAX) &&
           check_entry(function, descriptor, NB, 1, INT_MAX) &&
           check_entry(function, descriptor, FIRST_ROW, 0, last_row) &&
           check_entry(function, descriptor, FIRST_COLUMN, 0, last_column);
}

static weft_placement dealt(int dim, int block, int first)
{
    return (weft_placement){ .kind = WEFT_SHARD, .dim = dim, .cut = WEFT_CUT_CYCLIC, .block = block, .first = first };
}

/* Whether a column of each hosted rank's array has room for its rows. False with the error kept. */
static bool check_leading(const char *function, const int descriptor[], const weft_mesh_impl *mesh)
{
    weft_placement rows = dealt(1, descriptor[MB], descriptor[FIRST_ROW]);
    int64_t columns = mesh->shape[mesh->ndim - 1], grid_rows = mesh->ndim < 2 ? 1 : mesh->shape[0];
    for (int i = 0; i < weft_runtime.local_ranks; i++) {
        int64_t index = weft_mesh_index_of(mesh, weft_runtime.first_rank + i), offset, extent;
        if (index < 0) {
            continue;
        }
        weft_part_range(rows, descriptor[M], grid_rows, index / columns, &offset, &extent);
        if (!check_entry(function, descriptor, LEADING, weft_max_i64(1, extent), INT_MAX)) {
            return false;
        }
    }
    return true;
}

weft_tensor *weft_from_scalapack(weft_dtype dtype, const int descriptor[9], void *const locals[], weft_mesh *mesh, unsigned flags)
{
    static const char function[] = "weft_from_scalapack";
    const weft_mesh_impl *grid = weft_require_init(function) != WEFT_OK ? NULL : weft_check_mesh(function, mesh);
    int64_t *strides = grid == NULL ? NULL : malloc(2 * (size_t)weft_runtime.local_ranks * sizeof(strides[0]));
    if (strides == NULL) {
        if (grid != NULL) {
            weft_fail(WEFT_ERR_NOMEM, function, "no memory for %d strides", 2 * weft_runtime.local_ranks);
        }
        return NULL;
    }
    /* With WEFT_CHECK_RANKS the others learn of it. */
    bool right = check_descriptor(function, descriptor, grid) && check_leading(function, descriptor, grid);
    static const int none[9] = { [MB] = 1, [NB] = 1 };
    const int *d = right ? descriptor : none;
    const int64_t shape[] = { d[N], d[M] };
    const weft_placement placements[] = { dealt(1, d[MB], d[FIRST_ROW]), dealt(0, d[NB], d[FIRST_COLUMN]) };
    for (int i = 0; i < weft_runtime.local_ranks; i++) {
        strides[2 * i] = d[LEADING];
        strides[2 * i + 1] = 1;
    }
    weft_import import = { .function = function,
                           .dtype = dtype,
                           .ndim = 2,
                           .placements = grid->ndim == 2 ? placements : placements + 1,
                           .locals = locals,
                           .flags = flags,
                           .shape = shape,
                           .refused = !right,
                           .strides = strides };
    weft_tensor *tensor = weft_import_call(&import, mesh);
    free(strides);
    return tensor;
}

/* ---- the descriptor of a tensor -------------------------------------------------------------------------- */

/* How one dimension is cut; size 0: it is not, and any block is right. */
typedef struct blocks {
    int64_t size, first;
} blocks;

static bool is_in_blocks(weft_placement placement)
{
    return placement.kind == WEFT_SHARD && placement.period == 0 &&
           (placement.cut == WEFT_CUT_CHUNKS || placement.cut == WEFT_CUT_CYCLIC);
}

/* False: no blocks that are dealt over one mesh dimension. */
static bool find_blocks(const weft_layout *layout, int dim, blocks *found)
{
    int cuts = 0;
    bool in_blocks = true;
    *found = (blocks){ .size = 0 };
    for (int m = 0; m < layout->mesh->ndim; m++) {
        weft_placement placement = layout->placements[m];
        int64_t parts = layout->mesh->shape[m];
        if (placement.kind != WEFT_SHARD || placement.dim != dim || parts == 1) {
            continue;
        }
        cuts++;
        in_blocks &= is_in_blocks(placement);
        *found = placement.block > 0 ? (blocks){ placement.block, placement.first }
                                                  : (blocks){ weft_max_i64(1, weft_ceil_div(layout->shape[dim], parts)), 0 };
    }
    return in_blocks && cuts < 2;
}

static bool is_replicated(const weft_layout *layout)
{
    bool replicated = layout->has_partial;
    for (int m = 0; m < layout->mesh->ndim; m++) {
        replicated |= layout->placements[m].kind != WEFT_SHARD && layout->mesh->shape[m] > 1;
    }
    return replicated;
}

weft_status weft_scalapack_descriptor(const weft_tensor *handle, int local_rank, int context, int descriptor[9])
{
    static const char function[] = "weft_scalapack_descriptor";
    const weft_tensor_impl *tensor = weft_check_tensor(function, "tensor", handle);
    if (tensor == NULL) {
        return weft_latest_status();
    }
    const weft_layout *layout = tensor->layout; /* of a tensor without data, too */
    if (local_rank < 0 || local_rank >= weft_runtime.local_ranks || descriptor == NULL) {
        return weft_fail(WEFT_ERR_INVALID, function, "local_rank is %d, and descriptor %s NULL, expected 0 to %d, and an array",
                         local_rank, descriptor == NULL ? "is" : "is not", weft_runtime.local_ranks - 1);
    }
    if (layout->ndim != 2) {
        return weft_fail(WEFT_ERR_SHAPE, function, "tensor has %d dimension%s, expected 2", layout->ndim,
                         layout->ndim == 1 ? "" : "s");
    }
    blocks columns, rows;
    if (is_replicated(layout) || !find_blocks(layout, 0, &columns) || !find_blocks(layout, 1, &rows)) {
        char text[160];
        return weft_fail(WEFT_ERR_LAYOUT, function, "tensor is %s, expected blocks that are dealt, by one mesh dimension each",
                         weft_layout_format(layout, text, sizeof(text)));
    }
    /* Many of ScaLAPACK's functions want square blocks. */
    rows.size = rows.size > 0 ? rows.size : columns.size > 0 ? columns.size : weft_max_i64(1, layout->shape[1]);
    columns.size = columns.size > 0 ? columns.size : rows.size;
    weft_shard_info shard = weft_layout_shard(layout, weft_runtime.first_rank + local_rank);
    const int64_t numbers[] = { [KIND] = DENSE,
                                [CONTEXT] = context,
                                [M] = layout->shape[1],
                                [N] = layout->shape[0],
                                [MB] = rows.size,
                                [NB] = columns.size,
                                [FIRST_ROW] = rows.first,
                                [FIRST_COLUMN] = columns.first,
                                [LEADING] = weft_max_i64(1, shard.box.extent[1]) };
    for (int i = M; i <= LEADING; i++) {
        if (numbers[i] > INT_MAX) {
            return weft_fail(WEFT_ERR_INVALID, function, "descriptor[%d] would be %lld, above 2^31 - 1", i, (long long)numbers[i]);
        }
    }
    for (int i = KIND; i <= LEADING; i++) {
        descriptor[i] = (int)numbers[i];
    }
    return WEFT_OK;
}
