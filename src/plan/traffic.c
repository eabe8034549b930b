#include "plan/traffic.h"

#include "plan/common_parts.h"
#include "plan/replica.h"
#include "plan/shard_intervals.h"

/* A rank on both sides of a move. */
typedef struct place {
    bool sends, receives;                               /* it is on the mesh of the source, of the target */
    int64_t there[WEFT_MAX_DIMS], here[WEFT_MAX_DIMS]; /* its coordinates on them */
    weft_box held, wanted;
    bool meets;          /* it would move a part to itself */
    int64_t own, needed; /* bytes of that, and of all it wants */
} place;

static place place_of(const weft_layout *from, const weft_layout *to, int rank)
{
    place p = { 0 };
    int64_t source = weft_mesh_index_of(from->mesh, rank), target = weft_mesh_index_of(to->mesh, rank);
    weft_box common;
    p.sends = source >= 0;
    p.receives = target >= 0;
    if (p.sends) {
        weft_mesh_unravel(from->mesh, source, p.there);
        weft_layout_coordinate_box(from, p.there, &p.held);
    }
    if (p.receives) {
        weft_mesh_unravel(to->mesh, target, p.here);
        weft_layout_coordinate_box(to, p.here, &p.wanted);
        p.needed = weft_box_count(to->ndim, &p.wanted) * (int64_t)weft_dtype_size(to->dtype);
    }
    if (p.sends && p.receives) {
        bool out_of_memory = false; /* then the estimate is worse */
        if (weft_layouts_number_all_alike(from, to)) {
            p.meets = weft_box_intersect(from->ndim, &p.held, &p.wanted, &common);
        } else {
            weft_common_box(from, p.there, to, p.here, &common, &out_of_memory);
            p.meets = weft_box_count(from->ndim, &common) > 0;
        }
        p.own = p.meets ? weft_box_count(from->ndim, &common) * (int64_t)weft_dtype_size(from->dtype) : 0;
    }
    return p;
}

int64_t weft_missing_bytes(const weft_layout *from, const weft_layout *to, int rank)
{
    place p = place_of(from, to, rank);
    return p.needed - p.own;
}

/* The same of a dimension of which the box has `rows` rows under other numbers: as if these were spread over all parts. */
static weft_coverage covered_elsewhere(const weft_layout *layout, int dim, int64_t rows, const weft_fixed *fixed)
{
    weft_coverage all = { 1, rows };
    for (int m = 0; m < layout->mesh->ndim; m++) {
        if (weft_layout_shards(layout, m, dim)) {
            bool any = fixed->coordinate[m] < 0;
            all.count *= any ? layout->mesh->shape[m] : 1;
            all.length = any ? all.length : weft_ceil_div(all.length, layout->mesh->shape[m]);
        }
    }
    all.count = weft_min_i64(all.count, all.length);
    return all;
}

/* Parts of `layout` that intersect the box of a shard of `other`, and their elements, over all coordinates that are not fixed. */
static weft_coverage covered(const weft_layout *layout, const weft_layout *other, const weft_box *box, const weft_fixed *fixed)
{
    weft_coverage all = { 1, 1 };
    for (int d = 0; d < layout->ndim; d++) {
        int64_t begin = box->offset[d];
        weft_coverage one = weft_layouts_number_alike(layout, other, d)
                                ? weft_shard_intervals_measure(layout, d, begin, begin + box->extent[d], fixed)
                                : covered_elsewhere(layout, d, box->extent[d], fixed);
        all.count = weft_mul_saturated(all.count, one.count);
        all.length = weft_mul_saturated(all.length, one.length);
    }
    return all;
}

static void add_incoming(const weft_stage *stage, const place *p, weft_traffic *traffic)
{
    int64_t addends = 1;
    for (int m = 0; stage->reduces && m < stage->from->mesh->ndim; m++) {
        bool partial = stage->from->placements[m].kind == WEFT_PARTIAL;
        bool keeps = stage->from->mesh == stage->to->mesh && stage->to->placements[m].kind == WEFT_PARTIAL;
        addends *= partial && !keeps ? stage->from->mesh->shape[m] : 1;
    }
    weft_fixed none = weft_fixed_none();
    weft_coverage in = covered(stage->from, stage->to, &p->wanted, &none);
    int64_t size = (int64_t)weft_dtype_size(stage->from->dtype);
    traffic->messages_in = weft_sub_saturated(weft_mul_saturated(in.count, addends), p->meets);
    traffic->bytes_in =
        weft_sub_saturated(weft_mul_saturated(weft_mul_saturated(in.length, addends), size), p->own);
}

static void add_outgoing(const weft_stage *stage, const place *p, weft_traffic *traffic)
{
    const weft_layout *from = stage->from, *to = stage->to;
    bool same_mesh = from->mesh == to->mesh;
    weft_fixed fixed = weft_fixed_none();
    int64_t copies = 1, replicas = 1;
    for (int m = 0; m < from->mesh->ndim; m++) {
        bool keeps = same_mesh && to->placements[m].kind == WEFT_PARTIAL;
        bool replicates = from->placements[m].kind == WEFT_REPLICATE;
        replicas *= replicates ? from->mesh->shape[m] : 1;
        if (same_mesh && (keeps || replicates)) {
            fixed.coordinate[m] = p->there[m];
        }
    }
    for (int m = 0; m < to->mesh->ndim; m++) {
        copies *= to->placements[m].kind != WEFT_SHARD && fixed.coordinate[m] < 0 ? to->mesh->shape[m] : 1;
    }
    weft_coverage out = covered(to, from, &p->held, &fixed);
    int64_t shared = same_mesh ? 1 : replicas; /* replicas share the targets */
    int64_t size = (int64_t)weft_dtype_size(from->dtype);
    int64_t messages = weft_mul_saturated(out.count, copies);
    int64_t bytes = weft_mul_saturated(weft_mul_saturated(out.length, copies), size);
    bool fits = messages < INT64_MAX && bytes < INT64_MAX;
    traffic->messages_out = fits ? weft_max_i64(0, weft_ceil_div(messages, shared) - p->meets) : INT64_MAX;
    traffic->bytes_out =
        fits ? weft_max_i64(0, weft_ceil_div(out.length * copies, shared) * size - p->own) : INT64_MAX;
}

/* The traffic of one image. */
static weft_traffic image_traffic(const weft_stage *stage, const int64_t coordinate[])
{
    weft_traffic traffic = { 0 };
    weft_box wanted, own;
    weft_stage_wanted(stage, coordinate, &wanted);
    weft_layout_coordinate_box(stage->from, coordinate, &own);
    int ndim = stage->from->ndim;
    if (weft_box_count(ndim, &wanted) == 0) {
        return traffic;
    }
    weft_fixed none = weft_fixed_none();
    weft_coverage in = covered(stage->from, stage->from, &wanted, &none);
    bool meets = weft_box_intersect(ndim, &wanted, &own, &own);
    traffic.messages_in = in.count - meets;
    traffic.bytes_in =
        (in.length - (meets ? weft_box_count(ndim, &own) : 0)) * (int64_t)weft_dtype_size(stage->from->dtype);
    return traffic;
}

weft_traffic weft_access_map_traffic(const weft_stage *stage, int rank)
{
    weft_traffic all = { 0 };
    int64_t coordinate[WEFT_MAX_DIMS];
    weft_access_map map = *stage->access_map;
    weft_stage of_image = *stage;
    of_image.access_map = &map;
    weft_mesh_unravel(stage->from->mesh, weft_mesh_index_of(stage->from->mesh, rank), coordinate);
    all.held = weft_layout_shard_count(stage->to, rank) * (int64_t)weft_dtype_size(stage->to->dtype);
    weft_access_map_first_image(&map);
    do {
        weft_traffic one = image_traffic(&of_image, coordinate);
        all.messages_in = weft_add_saturated(all.messages_in, one.messages_in);
        all.bytes_in = weft_add_saturated(all.bytes_in, one.bytes_in);
    } while (weft_access_map_next_image(&map));
    return all;
}

weft_traffic weft_stage_traffic(const weft_stage *stage, int rank)
{
    weft_traffic traffic = { 0 };
    const place p = place_of(stage->from, stage->to, rank);
    traffic.held = p.needed;
    if (p.receives) {
        add_incoming(stage, &p, &traffic);
    }
    if (p.sends) {
        add_outgoing(stage, &p, &traffic);
    }
    return traffic;
}

bool weft_stage_traffic_exact(const weft_stage *stage, const weft_topology *topology)
{
    weft_roles roles = weft_roles_of(stage, topology);
    return stage->algorithm == WEFT_DIRECT && !weft_stage_renumbers(stage) && (roles.num_replicas == 1 || (roles.same_mesh && roles.aligned));
}
