#include "plan/factor_mesh.h"

#include <string.h>

/* ---- meshes -------------------------------------------------------------------------------------------- */

/* n = *a * *b with 2 <= *a <= *b and *a as large as possible; false for primes. */
static bool split(int64_t n, int64_t *a, int64_t *b)
{
    *a = 0;
    for (int64_t factor = 2; factor * factor <= n; factor++) {
        *a = n % factor == 0 ? factor : *a;
    }
    *b = *a == 0 ? 0 : n / *a;
    return *a != 0;
}

/* The factors of one dimension. */
typedef struct factors {
    int count;
    int64_t items[WEFT_MAX_DIMS];
} factors;

/* One round: each factor above the limit is split in two, while *room > 0, the number of dimensions that the mesh may still gain. */
static void split_factors(factors *f, int64_t above, int *room)
{
    factors finer = { 0 };
    for (int i = 0; i < f->count; i++) {
        int64_t a, b;
        if (*room > 0 && f->items[i] > above && split(f->items[i], &a, &b)) {
            finer.items[finer.count++] = a;
            finer.items[finer.count++] = b;
            (*room)--;
        } else {
            finer.items[finer.count++] = f->items[i];
        }
    }
    *f = finer;
}

bool weft_factor_mesh(weft_layout_table *table, const weft_mesh_impl *mesh, const bool marked[],
                      int64_t above, int rounds, weft_factored_mesh *out)
{
    factors dims[WEFT_MAX_DIMS];
    for (int m = 0; m < mesh->ndim; m++) {
        dims[m] = (factors){ 1, { mesh->shape[m] } };
    }
    int room = WEFT_MAX_DIMS - mesh->ndim;
    for (int round = 0; round < rounds; round++) {
        for (int m = 0; m < mesh->ndim; m++) {
            if (marked[m]) {
                split_factors(&dims[m], above, &room);
            }
        }
    }
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = 0;
    *out = (weft_factored_mesh){ .coarse = mesh };
    for (int m = 0; m < mesh->ndim; m++) {
        out->first[m] = ndim;
        memcpy(shape + ndim, dims[m].items, (size_t)dims[m].count * sizeof(shape[0]));
        ndim += dims[m].count;
    }
    out->first[mesh->ndim] = ndim;
    out->fine = ndim == mesh->ndim ? mesh : weft_layout_table_factor(table, mesh, ndim, shape);
    return out->fine != NULL;
}

/* ---- layouts ------------------------------------------------------------------------------------------- */

void weft_factored_placements(const weft_factored_mesh *factored, const weft_layout *layout,
                              weft_placement placements[])
{
    for (int m = 0; m < factored->coarse->ndim; m++) {
        for (int k = factored->first[m]; k < factored->first[m + 1]; k++) {
            placements[k] = layout->placements[m];
        }
    }
}

/* Whether nested chunks, one factor after the other, are the chunks of the product of all factors. */
static bool chunks_alike(int64_t rows, const int64_t sizes[], int count)
{
    if (rows <= 1 || count == 1) {
        return true;
    }
    int64_t inner = 1;
    for (int i = 1; i < count; i++) {
        inner *= sizes[i];
    }
    int64_t outer_chunk = weft_ceil_div(rows, sizes[0]), chunk = weft_ceil_div(rows, sizes[0] * inner);
    int64_t rest = rows % outer_chunk; /* rows of the last non-empty outer chunk if it is not full, else 0 */
    if (outer_chunk != inner * chunk || (rest > 1 && weft_ceil_div(rest, inner) != chunk)) {
        return false;
    }
    return chunks_alike(outer_chunk, sizes + 1, count - 1) && chunks_alike(rest, sizes + 1, count - 1);
}

/* The same for `rows` of one tensor dimension, from place i of the layout's order on. A factored mesh dimension can only be cut into
 * equal chunks; other cuts give other boxes. */
static bool cuts_alike(const weft_factored_mesh *factored, const weft_layout *layout, int dim, int i, int64_t rows)
{
    while (i < layout->mesh->ndim && !weft_layout_shards(layout, layout->order[i], dim)) {
        i++;
    }
    if (i == layout->mesh->ndim) {
        return true;
    }
    int m = layout->order[i];
    weft_placement shard = layout->placements[m];
    int begin = factored->first[m], end = factored->first[m + 1];
    bool alike = end - begin == 1 ||
                 (weft_cut_is_chunks(shard) &&
                  chunks_alike(rows, factored->fine->shape + begin, end - begin));
    int64_t parts = layout->mesh->shape[m];
    for (int64_t c = 0; c < parts && alike; c += weft_parts_alike(shard, rows, parts, c)) {
        int64_t offset, extent;
        weft_part_range(shard, rows, parts, c, &offset, &extent);
        alike = cuts_alike(factored, layout, dim, i + 1, extent);
    }
    return alike;
}

bool weft_factored_is_exact(const weft_factored_mesh *factored, const weft_layout *layout)
{
    for (int d = 0; d < layout->ndim; d++) {
        if (!cuts_alike(factored, layout, d, 0, layout->shape[d])) {
            return false;
        }
    }
    return true;
}
