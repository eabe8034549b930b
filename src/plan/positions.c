#include "plan/positions.h"

void weft_stage_exchanges(const weft_stage *stage, bool along[])
{
    const weft_layout *from = stage->from, *to = stage->to;
    for (int m = 0; m < from->mesh->ndim; m++) {
        weft_placement before = from->placements[m], after = to->placements[m];
        bool mapped = stage->access_map != NULL && ((before.kind == WEFT_SHARD && stage->access_map->has[before.dim]) ||
                                                    (after.kind == WEFT_SHARD && stage->access_map->has[after.dim]));
        along[m] = mapped || before.kind != after.kind || (before.kind == WEFT_PARTIAL && before.op != after.op);
    }
    weft_layout_mark_changed_cuts(from, to, along, along);
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
    if (p->kinds[m] < WEFT_POSITION_KINDS) {
        p->coordinates[m][p->kinds[m]++] = coordinate;
    }
}

/* The rows that mesh dimension m cuts, where all dimensions that cut before it are at their largest parts. */
static int64_t rows_before(const weft_layout *layout, int m)
{
    int dim = layout->placements[m].dim;
    int64_t rows = layout->shape[dim];
    for (int i = 0; layout->order[i] != m; i++) {
        int outer = layout->order[i];
        if (weft_layout_shards(layout, outer, dim)) {
            weft_part_largest(layout->placements[outer], rows, layout->mesh->shape[outer], &rows);
        }
    }
    return rows;
}

/* A coordinate at which a rank holds as much as anywhere: 0, but where sizes are listed. */
static int64_t largest_coordinate(const weft_layout *layout, int m)
{
    weft_placement p = layout->placements[m];
    int64_t rows;
    return p.kind == WEFT_SHARD ? weft_part_largest(p, rows_before(layout, m), layout->mesh->shape[m], &rows) : 0;
}

/* The ends of the first runs of parts that are alike: of chunks, the last whole one and the last one that has elements. Of
 * listed sizes all, as far as there is room. */
static void add_parts(weft_positions *p, const weft_layout *layout, int m)
{
    weft_placement shard = layout->placements[m];
    if (layout->mesh != p->mesh || shard.kind != WEFT_SHARD) {
        return;
    }
    int64_t rows = rows_before(layout, m), parts = p->mesh->shape[m];
    if (rows > 0) {
        int64_t end = weft_parts_alike(shard, rows, parts, 0);
        add(p, m, end - 1);
        if (end < parts) {
            add(p, m, end + weft_parts_alike(shard, rows, parts, end) - 1);
        }
        for (int64_t c = 0; c < parts && c < WEFT_POSITION_KINDS && shard.cut == WEFT_CUT_SIZES; c++) {
            add(p, m, c);
        }
    }
}

static void add_all(weft_positions *p, const weft_stage *stage, bool corners)
{
    bool same_mesh = stage->from->mesh == stage->to->mesh, along[WEFT_MAX_DIMS];
    p->count = 1;
    if (same_mesh) {
        weft_stage_exchanges(stage, along);
    }
    for (int m = 0; m < p->mesh->ndim; m++) {
        bool matters = !same_mesh || along[m];
        p->kinds[m] = 0;
        add(p, m, stage->from->mesh == p->mesh ? largest_coordinate(stage->from, m) : 0);
        if (matters) {
            add(p, m, stage->to->mesh == p->mesh ? largest_coordinate(stage->to, m) : 0);
            add(p, m, 0);
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
