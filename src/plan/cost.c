/* What a stage costs: latency once, an overhead per message, and bytes, on the slowest rank. */
#include "plan/relay.h"
#include "plan/replica.h"
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

/* Chunks of coordinate 0 are the largest, those of the last one the most uneven: one of the two is the slowest rank, or
 * close to it. */
static double cost_of_direct(const weft_stage *stage, const weft_topology *topology,
                             const weft_cost_model *cost)
{
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

/* ---- relays -------------------------------------------------------------------------------------------- */

/* What one stage moves when nothing is relayed, on its busiest ranks. */
typedef struct load {
    weft_relay_shape shape;
    double bytes_in, bytes_out, messages_in, messages_out;
    double held;  /* bytes of the destination shard */
    double panel; /* bytes of one panel of it */
} load;

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

/* Doublings from 1 until there are that many. */
static int doublings(int64_t count)
{
    int steps = 0;
    for (int64_t reached = 1; reached < count; reached *= 2) {
        steps++;
    }
    return steps;
}

static double panel_bytes(const weft_layout *layout, double shard_bytes)
{
    weft_box box;
    weft_layout_shard_box(layout, weft_mesh_rank_at(layout->mesh, 0), &box);
    int64_t panels = weft_panel_count(layout, &box);
    return shard_bytes / (double)weft_max_i64(1, panels);
}

static load load_of(const weft_stage *stage, const weft_topology *topology)
{
    const weft_mesh *meshes[] = { stage->from->mesh, stage->to->mesh };
    load l = { .shape = weft_relay_shape_of(stage, topology) };
    for (int k = 0; k < (meshes[0] == meshes[1] ? 2 : 4); k++) {
        const weft_mesh *mesh = meshes[k / 2];
        weft_totals t =
            weft_stage_totals(stage, weft_mesh_rank_at(mesh, k % 2 == 0 ? 0 : mesh->num_ranks - 1));
        l.bytes_in = larger(l.bytes_in, (double)t.bytes_in);
        l.bytes_out = larger(l.bytes_out, (double)t.bytes_out);
        l.messages_in = larger(l.messages_in, (double)t.messages_in);
        l.messages_out = larger(l.messages_out, (double)t.messages_out);
    }
    l.held = (double)weft_layout_shard_count(stage->to, weft_mesh_rank_at(stage->to->mesh, 0)) *
             (double)weft_dtype_size(stage->to->dtype);
    l.panel = smaller(l.bytes_in, panel_bytes(stage->to, l.held));
    return l;
}

/* The time of one message that `times` others follow, one after the other. */
static double steps(double times, double latency, double message, double byte, double messages, double bytes)
{
    return times * (latency + messages * message + bytes * byte);
}

/* A panel through the whole chain, and the other panels behind it. */
static double cost_of_chain(const load *l, const weft_cost_model *c)
{
    double remote = (double)l->shape.processes, local = (double)(l->shape.ranks - l->shape.processes);
    double panels = l->bytes_in > 0 ? l->bytes_in / l->panel : 0;
    double bytes = larger(l->bytes_in, l->bytes_out / (double)l->shape.ranks);
    return steps(remote, c->remote_latency_us, c->remote_message_us, c->remote_byte_us, 1, l->panel) +
           steps(local, c->local_latency_us, c->local_message_us, c->local_byte_us, 1, l->panel) +
           larger(l->messages_in, panels) * c->remote_message_us + (bytes - l->panel) * c->remote_byte_us;
}

/* As many steps as it takes to double one to all: between processes, then within them. */
static double cost_of_tree(const load *l, const weft_cost_model *c)
{
    double remote = doublings(l->shape.processes + 1);
    double local = doublings(weft_ceil_div(l->shape.ranks, l->shape.processes));
    double bytes = larger(l->bytes_in, l->bytes_out / (double)l->shape.ranks);
    return steps(remote, c->remote_latency_us, c->remote_message_us, c->remote_byte_us, l->messages_in,
                 bytes) +
           steps(local, c->local_latency_us, c->local_message_us, c->local_byte_us, l->messages_in,
                 l->bytes_in);
}

/* Directly to one rank of each process; the last panel goes on from there. */
static double cost_of_once(const load *l, const weft_cost_model *c)
{
    double share = (double)l->shape.processes / (double)l->shape.ranks;
    return steps(1, c->remote_latency_us, c->remote_message_us, c->remote_byte_us,
                 larger(l->messages_in, l->messages_out * share), larger(l->bytes_in, l->bytes_out * share)) +
           steps(1, c->local_latency_us, c->local_message_us, c->local_byte_us, l->messages_in, l->panel);
}

/* Unlike what weft_stage_cost() says of it: ranks of one process that want the same share its link. */
static double cost_of_copies(const load *l, const weft_cost_model *c)
{
    double sharing = (double)weft_ceil_div(l->shape.ranks, l->shape.processes);
    return steps(1, c->remote_latency_us, c->remote_message_us, c->remote_byte_us,
                 larger(l->messages_in * sharing, l->messages_out),
                 larger(l->bytes_in * sharing, l->bytes_out));
}

static double cost_of_algorithm(const load *l, const weft_cost_model *c, weft_algorithm algorithm)
{
    switch (algorithm) {
    case WEFT_CHAIN:
        return cost_of_chain(l, c);
    case WEFT_TREE:
        return cost_of_tree(l, c);
    case WEFT_ONCE:
        return cost_of_once(l, c);
    default:
        return cost_of_copies(l, c);
    }
}

/* Whether there is a rank to relay for: in one process nobody waits for a link. With replicas on another mesh of which
 * some are nearer than those whose turn it is, they are nearer than relays as well. */
static bool may_relay(const weft_stage *stage, const weft_topology *topology)
{
    bool same_mesh = stage->from->mesh == stage->to->mesh;
    return !stays_in_process(stage, topology, 0) && (same_mesh || weft_roles_of(stage, topology).aligned);
}

weft_algorithm weft_stage_choose_algorithm(const weft_stage *stage, const weft_topology *topology,
                                           const weft_cost_model *cost)
{
    if (stage->reduces || weft_relay_shape_of(stage, topology).ranks < 2) {
        return WEFT_DIRECT;
    }
    if (cost->algorithm != WEFT_ALGORITHM_AUTO) {
        return cost->algorithm;
    }
    if (!may_relay(stage, topology)) {
        return WEFT_DIRECT;
    }
    load l = load_of(stage, topology);
    weft_algorithm best = WEFT_DIRECT;
    double least = cost_of_copies(&l, cost);
    for (weft_algorithm a = WEFT_CHAIN; a <= WEFT_ONCE && l.bytes_in > 0; a++) {
        double us = cost_of_algorithm(&l, cost, a);
        if (us < least) {
            least = us;
            best = a;
        }
    }
    return best;
}

double weft_stage_cost(const weft_stage *stage, const weft_topology *topology, const weft_cost_model *cost)
{
    double direct = cost_of_direct(stage, topology, cost);
    if (stage->algorithm == WEFT_DIRECT || stays_in_process(stage, topology, 0)) {
        return direct;
    }
    load l = load_of(stage, topology);
    return l.held * cost->local_byte_us +
           (l.bytes_in > 0 ? cost_of_algorithm(&l, cost, stage->algorithm) : 0);
}

const char *weft_algorithm_name(weft_algorithm algorithm)
{
    static const char *const names[] = { "direct", "chain", "tree", "once", "auto" };
    return names[algorithm];
}
