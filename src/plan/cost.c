/* What a stage costs: latency once, an overhead per message, and bytes, on the slowest rank. */
#include "plan/totals.h"

/* Whether ranks exchange with others along mesh dimension m: where its placement changes, and where it
 * shards a tensor dimension that a change further left cuts anew. Called for m from 0 on; cut[d] gathers
 * which tensor dimensions those are. */
static bool exchanges_along(const weft_stage *stage, int m, bool cut[])
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

/* Whether the ranks that exchange with the one at this place of the mesh are hosted by one process. Of a
 * mesh whose ranks are in no order, the corners speak for the others. */
static bool stays_in_process(const weft_stage *stage, const weft_topology *topology, int64_t index)
{
    const weft_mesh *mesh = stage->from->mesh;
    if (topology->num_processes == 1 || mesh != stage->to->mesh) {
        return topology->num_processes == 1;
    }
    int64_t low[WEFT_MAX_DIMS], high[WEFT_MAX_DIMS];
    weft_mesh_unravel(mesh, index, low);
    weft_mesh_unravel(mesh, index, high);
    bool cut[WEFT_MAX_DIMS] = { false };
    for (int m = 0; m < mesh->ndim; m++) {
        if (exchanges_along(stage, m, cut)) {
            low[m] = 0;
            high[m] = mesh->shape[m] - 1;
        }
    }
    int first = weft_mesh_rank_at(mesh, weft_mesh_ravel(mesh, low));
    int last = weft_mesh_rank_at(mesh, weft_mesh_ravel(mesh, high));
    return weft_topology_process_of(topology, first) == weft_topology_process_of(topology, last);
}

static double cost_of_rank(const weft_stage *stage, const weft_cost_model *cost, int rank, bool local)
{
    weft_totals totals = weft_stage_totals(stage, rank);
    int64_t messages = weft_max_i64(totals.messages_in, totals.messages_out);
    int64_t bytes = weft_max_i64(totals.bytes_in, totals.bytes_out);
    /* What stays on a rank is copied, and what is reduced is read. */
    int64_t held = weft_layout_shard_count(stage->to, rank) * (int64_t)weft_dtype_size(stage->to->dtype);
    double us = (double)held * cost->local_byte_us;
    if (messages > 0) {
        us += local ? cost->local_latency_us : cost->remote_latency_us;
        us += (double)messages * (local ? cost->local_message_us : cost->remote_message_us);
        us += (double)bytes * (local ? cost->local_byte_us : cost->remote_byte_us);
    }
    return us;
}

double weft_stage_cost(const weft_stage *stage, const weft_topology *topology, const weft_cost_model *cost)
{
    /* Chunks of coordinate 0 are the largest, those of the last one the most uneven: one of the two is the
     * slowest rank, or close to it. */
    const weft_mesh *meshes[] = { stage->from->mesh, stage->to->mesh };
    double worst = 0;
    for (int k = 0; k < (meshes[0] == meshes[1] ? 2 : 4); k++) {
        const weft_mesh *mesh = meshes[k / 2];
        int64_t index = k % 2 == 0 ? 0 : mesh->num_ranks - 1;
        bool local = stays_in_process(stage, topology, index);
        double us = cost_of_rank(stage, cost, weft_mesh_rank_at(mesh, index), local);
        worst = us > worst ? us : worst;
    }
    return worst;
}
