#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "layout/layout.h"

/* ---- the table ----------------------------------------------------------------------------------------- */

struct weft_layout_table {
    weft_panel_policy policy;
    weft_map layouts; /* weft_layout */
    weft_vec factored; /* weft_mesh_impl * */
    size_t spare, full; /* numbers of layouts: that nothing holds, and at which a sweep is due */
    uint64_t sweep;     /* number of the one under way */
    size_t met;         /* by it: as many as there are holders */
};

weft_layout_table *weft_layout_table_new(weft_panel_policy policy)
{
    weft_layout_table *table = calloc(1, sizeof(*table));
    if (table != NULL) {
        table->policy = policy;
        table->sweep = 1;
    }
    return table;
}

void weft_layout_table_delete(weft_layout_table *table)
{
    if (table == NULL) {
        return;
    }
    const weft_map *layouts = &table->layouts;
    for (weft_map_slot *slot = weft_map_each(layouts, NULL); slot != NULL; slot = weft_map_each(layouts, slot)) {
        free(slot->value);
    }
    weft_map_free(&table->layouts);
    weft_mesh_impl **factored = table->factored.items;
    for (size_t i = 0; i < table->factored.count; i++) {
        weft_mesh_delete(factored[i]);
    }
    weft_vec_free(&table->factored);
    free(table);
}

/* ---- factored meshes ---------------------------------------------------------------------------------- */

const weft_mesh_impl *weft_layout_table_factor(weft_layout_table *table, const weft_mesh_impl *mesh, int ndim,
                                               const int64_t shape[])
{
    weft_mesh_impl **factored = table->factored.items;
    for (size_t i = 0; i < table->factored.count; i++) {
        if (factored[i]->factored_from == mesh && factored[i]->ndim == ndim &&
            memcmp(factored[i]->shape, shape, (size_t)ndim * sizeof(*shape)) == 0) {
            return factored[i];
        }
    }
    weft_mesh_impl *added = weft_mesh_factor(mesh, ndim, shape);
    weft_mesh_impl **slot = added == NULL ? NULL : weft_vec_push(&table->factored, sizeof(weft_mesh_impl *));
    if (slot == NULL) {
        weft_mesh_delete(added);
        return NULL;
    }
    return *slot = added;
}

static uint64_t word_of(weft_placement p)
{
    return (uint64_t)p.kind << 32 | (uint64_t)p.dim << 8 | (uint64_t)p.op | (uint64_t)p.cut << 40 | (uint64_t)p.level << 48;
}

/* 0: there are none. */
static uint64_t details_of(weft_placement p)
{
    uint64_t details = p.sizes != NULL ? p.sizes->digest : p.block > 0 ? weft_digest_add((uint64_t)p.first, (uint64_t)p.block) : 0;
    return p.period > 0 ? weft_digest_add(details, (uint64_t)p.period) : details;
}

static uint64_t hash_of(const weft_mesh_impl *mesh, const weft_placement *placements, int ndim,
                        const int64_t shape[], weft_dtype dtype, const weft_margins *margins)
{
    uint64_t hash = weft_hash_u64((uint64_t)(uintptr_t)mesh + (uint64_t)dtype * 31 + (uint64_t)ndim);
    for (int m = 0; m < mesh->ndim; m++) {
        weft_placement p = placements[m];
        hash = weft_hash_u64(hash ^ word_of(p) ^ details_of(p));
    }
    for (int d = 0; d < ndim; d++) {
        hash = weft_hash_u64(hash ^ (uint64_t)shape[d]);
    }
    if (margins != NULL) {
        hash = weft_hash_u64(hash ^ (uint64_t)margins->before ^ (uint64_t)margins->after << 32 ^ (uint64_t)margins->wraps << 31);
    }
    return hash;
}

static void make_digests(weft_layout *layout)
{
    const weft_mesh_impl *mesh = layout->mesh;
    uint64_t digest =
        weft_digest_add((uint64_t)layout->dtype, (uint64_t)layout->ndim << 8 | (uint64_t)mesh->ndim);
    uint64_t sizeless = digest;
    for (int d = 0; d < layout->ndim; d++) {
        digest = weft_digest_add(digest, (uint64_t)layout->shape[d]);
    }
    for (int m = 0; m < mesh->ndim; m++) {
        digest = weft_digest_add(digest, (uint64_t)mesh->shape[m]);
        sizeless = weft_digest_add(sizeless, (uint64_t)mesh->shape[m]);
    }
    layout->shape_digest = digest;
    for (int m = 0; m < mesh->ndim; m++) {
        weft_placement p = layout->placements[m];
        digest = weft_digest_add(digest, word_of(p));
        sizeless = weft_digest_add(sizeless, (uint64_t)p.kind << 32 | (uint64_t)p.dim << 8 | (uint64_t)p.op);
        digest = details_of(p) == 0 ? digest : weft_digest_add(digest, details_of(p));
    }
    for (int side = 0; side < 2; side++) {
        uint64_t margin = (uint64_t)layout->margin_rows[side] << 1 | (uint64_t)side;
        digest = layout->margin_rows[side] == 0 ? digest : weft_digest_add(digest, margin);
    }
    layout->digest = digest;
    layout->sizeless_digest = sizeless;
}

static bool is_layout(const weft_layout *layout, const weft_mesh_impl *mesh, const weft_placement *placements,
                      int ndim, const int64_t shape[], weft_dtype dtype, const weft_margins *margins)
{
    if (layout->mesh != mesh || layout->ndim != ndim || layout->dtype != dtype) {
        return false;
    }
    if (margins == NULL ? weft_layout_has_margins(layout)
                        : layout->margin_rows[0] != margins->before || layout->margin_rows[1] != margins->after ||
                              layout->panel_rows != margins->panel_rows || layout->wraps != margins->wraps) {
        return false;
    }
    for (int d = 0; d < ndim; d++) {
        if (layout->shape[d] != shape[d]) {
            return false;
        }
    }
    return weft_placements_equal(layout->placements, placements, mesh->ndim);
}

static weft_layout *layout_new(const weft_layout_table *table, const weft_mesh_impl *mesh,
                               const weft_placement *placements, int ndim, const int64_t shape[],
                               weft_dtype dtype, const weft_margins *margins, uint64_t hash)
{
    weft_layout *layout = calloc(1, sizeof(*layout));
    if (layout == NULL) {
        return NULL;
    }
    layout->mesh = mesh;
    layout->ndim = ndim;
    layout->dtype = dtype;
    layout->hash = hash;
    for (int d = 0; d < ndim; d++) {
        layout->shape[d] = shape[d];
    }
    for (int m = 0; m < mesh->ndim; m++) {
        layout->placements[m] = placements[m];
        layout->has_partial = layout->has_partial || placements[m].kind == WEFT_PARTIAL;
        layout->has_runs = layout->has_runs || weft_cut_has_runs(placements[m]);
    }
    weft_cut_order(mesh->ndim, placements, layout->order);
    if (margins != NULL) {
        layout->margin_rows[0] = margins->before;
        layout->margin_rows[1] = margins->after;
        layout->wraps = margins->wraps;
    }
    make_digests(layout);
    layout->panel_rows =
        margins != NULL ? margins->panel_rows : weft_panel_rows(&table->policy, mesh, placements, ndim, shape, dtype);
    return layout;
}

/* Chunks of one level alone. */
static bool are_settled(const weft_mesh_impl *mesh, const weft_placement placements[])
{
    bool settled = true;
    for (int m = 0; m < mesh->ndim; m++) {
        weft_placement p = placements[m];
        settled = settled && (p.kind != WEFT_SHARD || (weft_cut_is_chunks(p) && p.level == 0));
    }
    return settled;
}

/* margins NULL: none. */
static const weft_layout *intern(weft_layout_table *table, const weft_mesh_impl *mesh, const weft_placement *placements, int ndim,
                                 const int64_t shape[], weft_dtype dtype, const weft_margins *margins)
{
    weft_placement settled[WEFT_MAX_DIMS];
    if (!are_settled(mesh, placements)) {
        memcpy(settled, placements, (size_t)mesh->ndim * sizeof(*settled));
        weft_placements_settle(mesh, shape, settled);
        placements = settled;
    }
    uint64_t hash = hash_of(mesh, placements, ndim, shape, dtype, margins);
    weft_map_slot *slot = weft_map_first(&table->layouts, hash);
    for (; slot != NULL; slot = weft_map_next(&table->layouts, slot)) {
        if (is_layout(slot->value, mesh, placements, ndim, shape, dtype, margins)) {
            return slot->value;
        }
    }
    weft_layout *layout = layout_new(table, mesh, placements, ndim, shape, dtype, margins, hash);
    if (layout != NULL && !weft_map_add(&table->layouts, hash, layout)) {
        free(layout);
        return NULL;
    }
    return layout;
}

const weft_layout *weft_layout_intern(weft_layout_table *table, const weft_mesh_impl *mesh,
                                      const weft_placement *placements, int ndim, const int64_t shape[],
                                      weft_dtype dtype)
{
    return intern(table, mesh, placements, ndim, shape, dtype, NULL);
}

const weft_layout *weft_layout_intern_margins(weft_layout_table *table, const weft_mesh_impl *mesh,
                                              const weft_placement *placements, int ndim, const int64_t shape[], weft_dtype dtype,
                                              const weft_margins *margins)
{
    const bool any = margins->before > 0 || margins->after > 0;
    return intern(table, mesh, placements, ndim, shape, dtype, any ? margins : NULL);
}

/* ---- sweeps -------------------------------------------------------------------------------------------- */

void weft_layout_table_spare(weft_layout_table *table, int64_t bytes)
{
    table->spare = (size_t)bytes / (sizeof(weft_layout) + 4 * sizeof(weft_map_slot));
    table->full = table->layouts.count + table->spare;
}

bool weft_layout_table_is_full(const weft_layout_table *table)
{
    return table->layouts.count > table->full;
}

void weft_layout_table_meet(weft_layout_table *table, const weft_layout *layout)
{
    if (layout != NULL) {
        ((weft_layout *)(uintptr_t)layout)->met = table->sweep;
        table->met++;
    }
}

/* The next sweep is due when there are about as many new layouts as this one has met holders, so that sweeps take a fixed
 * time for each layout. */
void weft_layout_table_sweep(weft_layout_table *table)
{
    weft_map *layouts = &table->layouts;
    for (size_t i = 0; i < layouts->capacity; i++) {
        weft_layout *layout;
        while ((layout = layouts->slots[i].value) != NULL && layout->met != table->sweep) {
            weft_map_remove(layouts, &layouts->slots[i]); /* which may bring another one here */
            free(layout);
        }
    }
    table->full = layouts->count + table->spare + table->met;
    table->met = 0;
    table->sweep++;
}

size_t weft_layout_table_count(const weft_layout_table *table)
{
    return table->layouts.count;
}

/* ---- shapes -------------------------------------------------------------------------------------------- */

weft_status weft_shape_check(int ndim, const int64_t shape[], char *why, size_t why_size)
{
    if (ndim < 0 || ndim > WEFT_MAX_DIMS) {
        snprintf(why, why_size, "ndim is %d, expected 0 to %d", ndim, WEFT_MAX_DIMS);
        return WEFT_ERR_INVALID;
    }
    if (ndim > 0 && shape == NULL) {
        snprintf(why, why_size, "shape is NULL with ndim %d", ndim);
        return WEFT_ERR_INVALID;
    }
    for (int d = 0; d < ndim; d++) {
        if (shape[d] < 0) {
            snprintf(why, why_size, "shape[%d] is %lld, expected at least 0", d, (long long)shape[d]);
            return WEFT_ERR_SHAPE;
        }
    }
    /* Zero sizes do not excuse the others: a Shard of such a tensor still multiplies them. */
    int64_t count = 8;
    for (int d = 0; d < ndim; d++) {
        if (!weft_mul_checked(count, weft_max_i64(shape[d], 1), &count)) {
            snprintf(why, why_size, "the size of the shape in bytes overflows int64");
            return WEFT_ERR_SHAPE;
        }
    }
    return WEFT_OK;
}

/* ---- boxes of ranks ------------------------------------------------------------------------------------ */

void weft_layout_coordinate_box(const weft_layout *layout, const int64_t coordinate[], weft_box *box)
{
    for (int d = 0; d < layout->ndim; d++) {
        box->offset[d] = 0;
        box->extent[d] = layout->shape[d];
    }
    for (int i = 0; i < layout->mesh->ndim; i++) {
        int m = layout->order[i];
        if (layout->placements[m].kind == WEFT_SHARD) {
            int d = layout->placements[m].dim;
            int64_t offset, extent;
            weft_part_range(layout->placements[m], box->extent[d], layout->mesh->shape[m], coordinate[m], &offset, &extent);
            box->offset[d] += offset;
            box->extent[d] = extent;
        }
    }
}

bool weft_layout_shard_box(const weft_layout *layout, int rank, weft_box *box)
{
    int64_t index = weft_mesh_index_of(layout->mesh, rank);
    if (index < 0) {
        for (int d = 0; d < layout->ndim; d++) {
            box->offset[d] = box->extent[d] = 0;
        }
        return false;
    }
    int64_t coordinate[WEFT_MAX_DIMS];
    weft_mesh_unravel(layout->mesh, index, coordinate);
    weft_layout_coordinate_box(layout, coordinate, box);
    return true;
}

bool weft_layout_has_rank(const weft_layout *layout, int rank)
{
    return weft_mesh_index_of(layout->mesh, rank) >= 0;
}

int64_t weft_layout_parts(const weft_layout *layout, int dim)
{
    int64_t parts = 1;
    for (int m = 0; m < layout->mesh->ndim; m++) {
        parts *= weft_layout_shards(layout, m, dim) ? layout->mesh->shape[m] : 1;
    }
    return parts;
}

int weft_layout_largest_rank(const weft_layout *layout)
{
    const weft_mesh_impl *mesh = layout->mesh;
    int64_t rows[WEFT_MAX_DIMS], coordinate[WEFT_MAX_DIMS];
    memcpy(rows, layout->shape, sizeof(rows));
    for (int i = 0; i < mesh->ndim; i++) {
        int m = layout->order[i];
        weft_placement p = layout->placements[m];
        coordinate[m] = p.kind == WEFT_SHARD ? weft_part_largest(p, rows[p.dim], mesh->shape[m], &rows[p.dim]) : 0;
    }
    return weft_mesh_rank_at(mesh, weft_mesh_ravel(mesh, coordinate));
}

bool weft_layout_lies_as(const weft_layout *layout, int mesh_dim, weft_placement wanted)
{
    weft_placement placements[WEFT_MAX_DIMS];
    memcpy(placements, layout->placements, sizeof(placements));
    placements[mesh_dim] = wanted;
    weft_placements_settle(layout->mesh, layout->shape, placements);
    return weft_placement_equal(placements[mesh_dim], layout->placements[mesh_dim]);
}

int64_t weft_layout_shard_count(const weft_layout *layout, int rank)
{
    weft_box box;
    return weft_layout_shard_box(layout, rank, &box) ? weft_box_count(layout->ndim, &box) : 0;
}

/* ---- printing ------------------------------------------------------------------------------------------ */

/* All but the mesh. */
static weft_text begin_format(const weft_layout *layout, char *buffer, size_t size)
{
    weft_text text = weft_text_in(buffer, size);
    weft_text_add(&text, "%s[", weft_dtype_name(layout->dtype));
    weft_text_add_sizes(&text, layout->ndim, layout->shape, ", ");
    weft_text_add(&text, "] [");
    weft_placements_show(&text, layout->placements, layout->mesh->ndim);
    weft_text_add(&text, "] on ");
    return text;
}

char *weft_layout_format(const weft_layout *layout, char *buffer, size_t size)
{
    weft_text text = begin_format(layout, buffer, size);
    weft_text_add_sizes(&text, layout->mesh->ndim, layout->mesh->shape, "x");
    return buffer;
}

char *weft_layout_describe(const weft_layout *layout, char *buffer, size_t size)
{
    char mesh[256];
    weft_text text = begin_format(layout, buffer, size);
    weft_text_add(&text, "%s", weft_mesh_format(layout->mesh, mesh, sizeof(mesh)));
    return buffer;
}
