/* The cost of a stage: one latency, an overhead per message, and bytes, on the slowest rank. */
#include "plan/broadcast_tree.h"
#include "plan/positions.h"
#include "plan/replica.h"
#include "plan/traffic.h"

/* Whether one process hosts all ranks that exchange data with the rank at this position of the mesh. On a
 * mesh that lists ranks in no order, only the corners are tested. */
static bool stays_in_process(const weft_stage *stage, const weft_topology *topology, int64_t index)
{
    const weft_mesh_impl *mesh = stage->from->mesh;
    if (topology->num_processes == 1 || mesh != stage->to->mesh) {
        return topology->num_processes == 1;
    }
    if (topology->num_processes == topology->num_ranks) {
        return false; /* or it exchanges nothing */
    }
    int64_t low[WEFT_MAX_DIMS], high[WEFT_MAX_DIMS];
    weft_mesh_unravel(mesh, index, low);
    weft_mesh_unravel(mesh, index, high);
    bool along[WEFT_MAX_DIMS];
    weft_stage_exchanges(stage, along);
    for (int m = 0; m < mesh->ndim; m++) {
        if (along[m]) {
            low[m] = 0;
            high[m] = mesh->shape[m] - 1;
        }
    }
    int first = weft_mesh_rank_at(mesh, weft_mesh_ravel(mesh, low));
    int last = weft_mesh_rank_at(mesh, weft_mesh_ravel(mesh, high));
    return weft_topology_process_of(topology, first) == weft_topology_process_of(topology, last);
}

/* Traffic of a direct stage. */
typedef struct load {
    double bytes_in, bytes_out, messages_in, messages_out; /* of the busiest rank */
    double direct_us;                                      /* of the slowest rank */
} load;

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static double held_bytes(const weft_layout *layout, int rank)
{
    return (double)weft_layout_shard_count(layout, rank) * (double)weft_dtype_size(layout->dtype);
}

static double cost_of_rank(const weft_cost_model *cost, const weft_traffic *traffic, bool local)
{
    int64_t messages = weft_max_i64(traffic->messages_in, traffic->messages_out);
    int64_t bytes = weft_max_i64(traffic->bytes_in, traffic->bytes_out);
    /* A rank copies what stays on it, and reads all addends of what it reduces. */
    double us = (double)traffic->held * cost->local_byte_us;
    if (messages > 0) {
        us += local ? cost->local_latency_us : cost->remote_latency_us;
        us += (double)messages * (local ? cost->local_message_us : cost->remote_message_us);
        us += (double)bytes * (local ? cost->local_byte_us : cost->remote_byte_us);
    }
    return us;
}

/* As busy as this rank of the mesh, too. */
static void add_load(const weft_stage *stage, const weft_topology *topology, const weft_cost_model *cost,
                     const weft_mesh_impl *mesh, int64_t index, load *l)
{
    int rank = weft_mesh_rank_at(mesh, index);
    weft_traffic t = weft_stage_traffic(stage, rank);
    l->bytes_in = larger(l->bytes_in, (double)t.bytes_in);
    l->bytes_out = larger(l->bytes_out, (double)t.bytes_out);
    l->messages_in = larger(l->messages_in, (double)t.messages_in);
    l->messages_out = larger(l->messages_out, (double)t.messages_out);
    bool local = stays_in_process(stage, topology, index);
    l->direct_us = larger(l->direct_us, cost_of_rank(cost, &t, local));
}

static load load_of(const weft_stage *stage, const weft_topology *topology, const weft_cost_model *cost)
{
    const weft_mesh_impl *meshes[] = { stage->from->mesh, stage->to->mesh };
    load l = { 0 };
    for (int k = 0; k < (meshes[0] == meshes[1] ? 1 : 2); k++) {
        weft_positions positions = weft_stage_positions(stage, meshes[k]);
        for (int64_t i = 0; i < positions.count; i++) {
            add_load(stage, topology, cost, meshes[k], weft_position_index(&positions, i), &l);
        }
    }
    return l;
}

/* ---- broadcast trees ----------------------------------------------------------------------------------- */

/* Parameters of a broadcast tree's cost. */
typedef struct broadcast_cost {
    load load;
    weft_broadcast_shape shape;
    double held;  /* bytes of the destination shard */
    double panel; /* bytes of one of its panels that move */
} broadcast_cost;

/* Number of doublings of 1 until it is at least `count`. */
static int doublings(int64_t count)
{
    int steps = 0;
    for (int64_t reached = 1; reached < count; reached *= 2) {
        steps++;
    }
    return steps;
}

static broadcast_cost tree_of(const weft_stage *stage, const weft_topology *topology, const load *l)
{
    int rank = weft_layout_largest_rank(stage->to);
    weft_box box;
    weft_layout_shard_box(stage->to, rank, &box);
    double panels = (double)weft_max_i64(1, weft_panel_count(stage->to, &box));
    broadcast_cost r = { *l, weft_broadcast_shape_of(stage, topology), held_bytes(stage->to, rank), 0 };
    r.panel = r.held / panels < l->bytes_in ? r.held / panels : l->bytes_in;
    return r;
}

/* The time of one message that `times` messages follow, one after the other. */
static double steps(double times, double latency, double message, double byte, double messages, double bytes)
{
    return times * (latency + messages * message + bytes * byte);
}

/* One panel through the whole chain, and the other panels after it. */
static double cost_of_chain(const broadcast_cost *r, const weft_cost_model *c)
{
    double remote = (double)r->shape.processes, local = (double)(r->shape.ranks - r->shape.processes);
    double panels = r->load.bytes_in > 0 ? r->load.bytes_in / r->panel : 0;
    double bytes = larger(r->load.bytes_in, r->load.bytes_out / (double)r->shape.ranks);
    return steps(remote, c->remote_latency_us, c->remote_message_us, c->remote_byte_us, 1, r->panel) +
           steps(local, c->local_latency_us, c->local_message_us, c->local_byte_us, 1, r->panel) +
           larger(r->load.messages_in, panels) * c->remote_message_us +
           (bytes - r->panel) * c->remote_byte_us;
}

/* log2 steps: first between processes, then within them. */
static double cost_of_tree(const broadcast_cost *r, const weft_cost_model *c)
{
    double remote = doublings(r->shape.processes + 1);
    double local = doublings(weft_ceil_div(r->shape.ranks, r->shape.processes));
    double bytes = larger(r->load.bytes_in, r->load.bytes_out / (double)r->shape.ranks);
    return steps(remote, c->remote_latency_us, c->remote_message_us, c->remote_byte_us, r->load.messages_in,
                 bytes) +
           steps(local, c->local_latency_us, c->local_message_us, c->local_byte_us, r->load.messages_in,
                 r->load.bytes_in);
}

/* Directly to one rank of each process; the last panel is forwarded from there. */
static double cost_of_once(const broadcast_cost *r, const weft_cost_model *c)
{
    double share = (double)r->shape.processes / (double)r->shape.ranks;
    return steps(1, c->remote_latency_us, c->remote_message_us, c->remote_byte_us,
                 larger(r->load.messages_in, r->load.messages_out * share),
                 larger(r->load.bytes_in, r->load.bytes_out * share)) +
           steps(r->shape.ranks > r->shape.processes, c->local_latency_us, c->local_message_us, c->local_byte_us,
                 r->load.messages_in, r->panel);
}

/* Unlike in weft_stage_cost(), ranks of one process that want the same box share its link. */
static double cost_of_copies(const broadcast_cost *r, const weft_cost_model *c)
{
    double sharing = (double)weft_ceil_div(r->shape.ranks, r->shape.processes);
    return steps(1, c->remote_latency_us, c->remote_message_us, c->remote_byte_us,
                 larger(r->load.messages_in * sharing, r->load.messages_out),
                 larger(r->load.bytes_in * sharing, r->load.bytes_out));
}

static double cost_of_algorithm(const broadcast_cost *r, const weft_cost_model *c, weft_algorithm algorithm)
{
    switch (algorithm) {
    case WEFT_CHAIN:
        return cost_of_chain(r, c);
    case WEFT_TREE:
        return cost_of_tree(r, c);
    case WEFT_ONCE:
        return cost_of_once(r, c);
    default:
        return cost_of_copies(r, c);
    }
}

static double cost_broadcast_tree(const broadcast_cost *r, const weft_cost_model *cost, weft_algorithm algorithm)
{
    double us = r->held * cost->local_byte_us;
    return r->load.bytes_in > 0 ? us + cost_of_algorithm(r, cost, algorithm) : us;
}

/* Whether forwarding can be cheaper than copies from the source. Inside one process there is no link to
 * wait for. A rank that sends no more than others receive needs no help, unless several ranks after its
 * link want the same box. On another mesh, replicas other than the one whose turn it is may be nearer;
 * then they are nearer than a tree too. */
static bool may_broadcast(const weft_stage *stage, const weft_topology *topology, const load *l)
{
    bool same_mesh = stage->from->mesh == stage->to->mesh;
    bool busy = l->bytes_out > l->bytes_in || l->messages_out > l->messages_in;
    return l->bytes_in > 0 && (busy || topology->num_processes < topology->num_ranks) &&
           !stays_in_process(stage, topology, 0) && (same_mesh || weft_roles_of(stage, topology).aligned);
}

static weft_algorithm cheapest(const broadcast_cost *r, const weft_cost_model *cost)
{
    weft_algorithm best = WEFT_DIRECT;
    double least = cost_of_copies(r, cost);
    for (weft_algorithm a = WEFT_CHAIN; a <= WEFT_ONCE; a++) {
        double us = cost_of_algorithm(r, cost, a);
        if (us < least) {
            least = us;
            best = a;
        }
    }
    return best;
}

double weft_stage_choose(weft_stage *stage, const weft_topology *topology, const weft_cost_model *cost, weft_stage_load *busiest)
{
    load l = load_of(stage, topology, cost);
    *busiest = (weft_stage_load){ l.bytes_in, larger(l.messages_in, l.messages_out) };
    stage->algorithm = WEFT_DIRECT;
    bool prescribed = cost->algorithm != WEFT_ALGORITHM_AUTO;
    if (stage->reduces || weft_stage_renumbers(stage) || !(prescribed || may_broadcast(stage, topology, &l))) {
        return l.direct_us;
    }
    broadcast_cost r = tree_of(stage, topology, &l);
    if (r.shape.ranks > 1) {
        stage->algorithm = prescribed ? cost->algorithm : cheapest(&r, cost);
    }
    bool is_tree = stage->algorithm != WEFT_DIRECT && !stays_in_process(stage, topology, 0);
    return is_tree ? cost_broadcast_tree(&r, cost, stage->algorithm) : l.direct_us;
}

double weft_stage_cost(const weft_stage *stage, const weft_topology *topology, const weft_cost_model *cost)
{
    load l = load_of(stage, topology, cost);
    if (stage->algorithm == WEFT_DIRECT || stays_in_process(stage, topology, 0)) {
        return l.direct_us;
    }
    broadcast_cost r = tree_of(stage, topology, &l);
    return cost_broadcast_tree(&r, cost, stage->algorithm);
}

/* The busiest rank depends on where the access maps lie, so several ranks are tested. */
double weft_access_map_cost(const weft_topology *topology, const weft_cost_model *cost,
                            const weft_layout *from, const weft_access_map *access_map)
{
    enum { MAX_LOOKED_AT = 16 };
    weft_stage stage = { .from = from, .to = access_map->cut, .access_map = access_map, .scale = 1.0 };
    int64_t ranks = from->mesh->num_ranks, looked_at = weft_min_i64(ranks, MAX_LOOKED_AT);
    double us = 0;
    for (int64_t i = 0; i < looked_at; i++) {
        int64_t index = looked_at == 1 ? 0 : i * (ranks - 1) / (looked_at - 1);
        int rank = weft_mesh_rank_at(from->mesh, index);
        weft_traffic t = weft_access_map_traffic(&stage, rank);
        us = larger(us, cost_of_rank(cost, &t, stays_in_process(&stage, topology, index)));
    }
    return us;
}

const char *weft_algorithm_name(weft_algorithm algorithm)
{
    static const char *const names[] = { "direct", "chain", "tree", "once", "auto" };
    return names[algorithm];
}
