/* Processes compare their arguments for a tensor of their own shards: types, placements, and all shard
 * sizes if these determine the tensor's shape. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arrays/arrays.h"
#include "arrays/import.h"
#include "comm/check_spmd.h"
#include "tensor/state.h"

/* Message of a process: status, fingerprint, WEFT_MAX_DIMS sizes for each hosted rank, with room for the
 * largest number of ranks that any process hosts. */
enum { STATUS = WEFT_NUMBERS_STATUS, FINGERPRINT = WEFT_NUMBERS_FINGERPRINT, SIZES };

static uint64_t fingerprint(const weft_import *import)
{
    const weft_mesh_impl *mesh = import->mesh;
    uint64_t hash = weft_hash_bytes(mesh->shape, (size_t)mesh->ndim * sizeof(mesh->shape[0]),
                                    (uint64_t)import->given * 16 + (uint64_t)import->ndim);
    for (int m = 0; m < mesh->ndim; m++) {
        weft_placement p = import->canonical[m];
        int64_t words[] = { (int64_t)p.kind, p.dim, (int64_t)p.op, (int64_t)p.cut, p.level, p.block, p.first, p.period,
                            p.sizes == NULL ? 0 : (int64_t)p.sizes->digest };
        hash = weft_hash_bytes(words, sizeof(words), hash);
    }
    return import->asks ? hash
                        : weft_hash_bytes(import->whole, (size_t)import->ndim * sizeof(import->whole[0]), hash + 1);
}

static void describe(const weft_import *import, bool right, int64_t mine[])
{
    mine[STATUS] = right ? WEFT_OK : weft_latest_status();
    if (!right) {
        return;
    }
    mine[FINGERPRINT] = (int64_t)fingerprint(import);
    for (int i = 0; i < weft_runtime.local_ranks && import->local_shapes != NULL; i++) {
        memcpy(mine + SIZES + i * WEFT_MAX_DIMS, import->local_shapes + (ptrdiff_t)i * import->ndim,
               (size_t)import->ndim * sizeof(*mine));
    }
}

/* ---- the same answer on every process ------------------------------------------------------------------ */

/* The sizes given for a rank. */
static const int64_t *sizes_of(int count, const int64_t all[], int rank)
{
    int process = weft_process_of(rank);
    int place = rank - weft_runtime.first_rank_of[process];
    return all + (ptrdiff_t)process * count + SIZES + place * WEFT_MAX_DIMS;
}

/* The size of a dimension: the sum along the mesh dimensions that shard it, at coordinate 0 of the others. */
static int64_t whole_size(const weft_import *import, int count, const int64_t all[], int dim)
{
    const weft_mesh_impl *mesh = import->mesh;
    int64_t size = 0;
    for (int64_t i = 0; i < mesh->num_ranks; i++) {
        int64_t coordinate[WEFT_MAX_DIMS];
        weft_mesh_unravel(mesh, i, coordinate);
        bool counts = true;
        for (int m = 0; m < mesh->ndim; m++) {
            weft_placement p = import->canonical[m];
            counts &= coordinate[m] == 0 || (p.kind == WEFT_SHARD && p.dim == dim);
        }
        size = counts ? weft_add_saturated(size, sizes_of(count, all, weft_mesh_rank_at(mesh, i))[dim]) : size;
    }
    return size;
}

char *weft_sizes_text(int ndim, const int64_t sizes[], char *text, size_t size)
{
    weft_text written = weft_text_in(text, size);
    weft_text_add(&written, "[");
    weft_text_add_sizes(&written, ndim, sizes, ", ");
    weft_text_add(&written, "]");
    return text;
}

/* A rank's sizes must be those of its shard in the layout; for an empty shard any sizes without elements. */
static bool fits(const weft_import *import, const weft_layout *layout, int rank, const int64_t sizes[])
{
    weft_shard_info held = weft_layout_shard(layout, rank);
    int64_t given = 1;
    for (int d = 0; d < import->ndim; d++) {
        given = weft_mul_saturated(given, sizes[d]);
    }
    bool same = held.count == 0 && given == 0;
    if (!same) {
        same = memcmp(held.box.extent, sizes, (size_t)import->ndim * sizeof(*sizes)) == 0;
    }
    if (!same) {
        char text[256], own[128], expected[128];
        weft_fail(WEFT_ERR_SHAPE, import->function,
                  "rank %d gave a shard of %s, but of %s it holds %s; weft_shard_balanced() and weft_shard_sizes() cut otherwise, weft_from_boxes() takes anything", rank,
                  weft_sizes_text(import->ndim, sizes, own, sizeof(own)), weft_layout_format(layout, text, sizeof(text)),
                  weft_sizes_text(import->ndim, held.box.extent, expected, sizeof(expected)));
    }
    return same;
}

static bool find_layout(weft_import *import, int count, const int64_t all[])
{
    int64_t shape[WEFT_MAX_DIMS] = { 0 };
    for (int d = 0; d < import->ndim; d++) {
        shape[d] = whole_size(import, count, all, d);
    }
    if (!weft_check_shape(import->function, import->ndim, shape)) {
        return false;
    }
    const weft_layout *layout = weft_check_layout(import->function, import->mesh, import->canonical, import->ndim,
                                                  shape, import->dtype);
    bool right = layout != NULL;
    for (int64_t i = 0; i < import->mesh->num_ranks && right; i++) {
        int rank = weft_mesh_rank_at(import->mesh, i);
        right = fits(import, layout, rank, sizes_of(count, all, rank));
    }
    import->layout = layout;
    return right;
}

bool weft_import_compare(weft_import *import, bool right)
{
    int count = SIZES + weft_most_local_ranks() * WEFT_MAX_DIMS;
    int64_t *mine = calloc((size_t)count, sizeof(*mine));
    int64_t *all = calloc((size_t)count * (size_t)weft_runtime.num_processes, sizeof(*all));
    bool same = mine != NULL && all != NULL;
    if (!same) {
        weft_fail(WEFT_ERR_NOMEM, import->function, "no memory to compare the arguments of all processes");
    } else {
        describe(import, right, mine);
        same = weft_numbers_gather(import->function, count, mine, all) && weft_numbers_agree(import->function, count, all, right) &&
               (!import->asks || find_layout(import, count, all));
    }
    free(mine);
    free(all);
    return same;
}
