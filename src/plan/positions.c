#include "plan/positions.h"

bool weft_stage_exchanges_along(const weft_stage *stage, int m, bool cut[])
{
    const weft_placement both[] = { stage->from->placements[m], stage->to->placements[m] };
    bool exchanges = !weft_placement_equal(both[0], both[1]);
    for (int i = 0; i < 2; i++) {
        exchanges = exchanges || (both[i].kind == WEFT_SHARD && cut[both[i].dim]);
    }
    for (int i = 0; i < 2; i++) {
        if (exchanges && both[i].kind == WEFT_SHARD) {
            cut[both[i].dim] = true;
        }
    }
    return exchanges;
}

/* Of more positions, only the corners of the mesh are looked at. */
static const int64_t MANY = 64;

static void add(weft_positions *p, int m, int64_t coordinate)
{
    for (int i = 0; i < p->kinds[m]; i++) {
        if (p->coordinates[m][i] == coordinate) {
            return;
        }
    }
    p->coordinates[m][p->kinds[m]++] = coordinate;
}

/* The last whole chunk and the last one that has elements, where all dimensions further left are at coordinate 0. */
static void add_chunks(weft_positions *p, const weft_layout *layout, int m)
{
    weft_placement placement = layout->placements[m];
    if (layout->mesh != p->mesh || placement.kind != WEFT_SHARD) {
        return;
    }
    int64_t extent = layout->shape[placement.dim];
    for (int left = 0; left < m; left++) {
        bool cuts = layout->placements[left].kind == WEFT_SHARD && layout->placements[left].dim == placement.dim;
        extent = cuts ? weft_ceil_div(extent, p->mesh->shape[left]) : extent;
    }
    if (extent > 0) {
        int64_t chunk = weft_ceil_div(extent, p->mesh->shape[m]);
        add(p, m, extent / chunk - 1);
        add(p, m, weft_ceil_div(extent, chunk) - 1);
    }
}

static void add_all(weft_positions *p, const weft_stage *stage, bool corners)
{
    bool same_mesh = stage->from->mesh == stage->to->mesh, cut[WEFT_MAX_DIMS] = { false };
    p->count = 1;
    for (int m = 0; m < p->mesh->ndim; m++) {
        bool matters = !same_mesh || weft_stage_exchanges_along(stage, m, cut);
        p->kinds[m] = 0;
        add(p, m, 0);
        if (matters) {
            add(p, m, p->mesh->shape[m] - 1);
        }
        if (matters && !corners) {
            add_chunks(p, stage->from, m);
            add_chunks(p, stage->to, m);
        }
        p->count *= p->kinds[m];
    }
}

weft_positions weft_stage_positions(const weft_stage *stage, const weft_mesh_impl *mesh)
{
    weft_positions p = { .mesh = mesh };
    add_all(&p, stage, false);
    if (p.count > MANY) {
        add_all(&p, stage, true);
    }
    return p;
}

int64_t weft_position_index(const weft_positions *p, int64_t i)
{
    int64_t coordinate[WEFT_MAX_DIMS];
    for (int m = 0; m < p->mesh->ndim; m++) {
        coordinate[m] = p->coordinates[m][i % p->kinds[m]];
        i /= p->kinds[m];
    }
    return weft_mesh_ravel(p->mesh, coordinate);
}
