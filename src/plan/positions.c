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

/* The largest part, and the ends of the first runs of parts that are alike: of chunks, the last whole one and the last one that
 * has elements. All dimensions further left are at their largest parts. */
static void add_parts(weft_positions *p, const weft_layout *layout, int m)
{
    weft_placement shard = layout->placements[m];
    if (layout->mesh != p->mesh || shard.kind != WEFT_SHARD) {
        return;
    }
    int64_t rows = layout->shape[shard.dim], parts = p->mesh->shape[m], most;
    for (int left = 0; left < m; left++) {
        if (layout->placements[left].kind == WEFT_SHARD && layout->placements[left].dim == shard.dim) {
            weft_part_largest(layout->placements[left], rows, p->mesh->shape[left], &rows);
        }
    }
    if (rows > 0) {
        int64_t end = weft_parts_alike(shard, rows, parts, 0);
        add(p, m, end - 1);
        if (end < parts) {
            add(p, m, end + weft_parts_alike(shard, rows, parts, end) - 1);
        }
        add(p, m, weft_part_largest(shard, rows, parts, &most));
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
            add_parts(p, stage->from, m);
            add_parts(p, stage->to, m);
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
