/* The layouts that a recorded call could work on. */
#include <stdlib.h>
#include <string.h>

#include "dispatch/cache.h"
#include "graph/shard/shard.h"
#include "tensor/actions.h"

enum { MAX_CHOICES = 512 };

/* ---- units ----------------------------------------------------------------------------------------------- */

typedef struct listing {
    weft_shard_world *world;
    const weft_graph_trace *trace;
    const weft_graph_node *node;
    int number;
    weft_vec *units;
    const weft_layout **layouts; /* of all inputs and outputs of the node, while it is asked */
} listing;

static const weft_layout *layout_of(const weft_graph_trace *trace, int value)
{
    return value < 0 ? NULL : weft_trace_value(trace, value)->layout;
}

void weft_shard_units_free(weft_vec *units)
{
    for (size_t i = 0; i < units->count; i++) {
        weft_shard_unit *unit = (weft_shard_unit *)units->items + i;
        if (!unit->borrowed) {
            free(unit->slots);
            free(unit->layouts);
            free(unit->cost);
        }
    }
    weft_vec_free(units);
}

/* A unit with room for choices. NULL: no memory. */
static weft_shard_unit *add_unit(const listing *l, int num_inputs, int num_outputs, int max_choices)
{
    size_t slots = (size_t)(num_inputs + num_outputs);
    weft_shard_unit *unit = weft_vec_push(l->units, sizeof(*unit));
    if (unit == NULL) {
        return NULL;
    }
    *unit = (weft_shard_unit){ .node = l->number, .num_inputs = num_inputs, .num_outputs = num_outputs };
    unit->slots = malloc((slots + 1) * sizeof(int));
    unit->layouts = malloc((slots * (size_t)max_choices + 1) * sizeof(*unit->layouts));
    unit->cost = malloc((size_t)max_choices * sizeof(int64_t));
    return unit->slots == NULL || unit->layouts == NULL || unit->cost == NULL ? NULL : unit;
}

static void add_choice(weft_shard_unit *unit, const weft_layout *const layouts[], int64_t cost)
{
    size_t slots = (size_t)(unit->num_inputs + unit->num_outputs);
    memcpy(unit->layouts + (size_t)unit->num_choices * slots, layouts, slots * sizeof(*layouts));
    unit->cost[unit->num_choices++] = cost;
}

/* Whether an input that the call changes, or that it returns as it is, would have another layout in the output. */
static bool changes_layouts(const weft_graph_node *node, const weft_layout *const inputs[],
                            const weft_layout *const outputs[])
{
    bool changes = false;
    for (int i = 0; i < node->num_outputs; i++) {
        int same = weft_call_changes(node->call, i) ? i : weft_shard_returned_input(node, i);
        changes |= outputs[i] != NULL && same >= 0 && outputs[i] != inputs[same];
    }
    return changes;
}

/* Asks about the inputs in listing.layouts, and adds a choice where the call takes them. */
static void ask_choice(const listing *l, weft_shard_unit *unit)
{
    int64_t cost;
    const weft_layout **outputs = l->layouts + l->node->num_inputs;
    if (weft_shard_ask(l->world, l->node, l->layouts, outputs, &cost) &&
        !changes_layouts(l->node, l->layouts, outputs)) {
        add_choice(unit, l->layouts, cost);
    }
}

static void set_recorded(const listing *l)
{
    for (int i = 0; i < l->node->num_inputs + l->node->num_outputs; i++) {
        l->layouts[i] = layout_of(l->trace, l->node->inputs[i]);
    }
}

/* The layouts of the capture, whatever they cost. */
static void add_recorded(const listing *l, weft_shard_unit *unit)
{
    int64_t cost = 0;
    set_recorded(l);
    for (int i = 0; i < l->node->num_inputs; i++) {
        if (l->layouts[i] == NULL) {
            add_choice(unit, l->layouts, 0);
            return;
        }
    }
    if (!weft_shard_ask(l->world, l->node, l->layouts, l->layouts + l->node->num_inputs, &cost)) {
        cost = 0;
    }
    set_recorded(l);
    add_choice(unit, l->layouts, cost);
}

/* ---- operations with a rule ------------------------------------------------------------------------------ */

static bool has_rule(const weft_graph_node *node)
{
    const weft_operation *operation = node->call->operation;
    return operation->choose == NULL && (operation->write_rule != NULL || operation->rules[0] != NULL) &&
           node->num_inputs == node->call->num_inputs;
}

static bool is_whole(const weft_layout *const inputs[], int count, int mesh_dim)
{
    bool whole = inputs[0]->mesh->shape[mesh_dim] > 1;
    for (int i = 0; i < count; i++) {
        whole &= inputs[i]->placements[mesh_dim].kind == WEFT_REPLICATE;
    }
    return whole;
}

/* A composite's rule does not tell in which inputs it is linear, but its calls do: asks with a sum over ranks in place of each
 * input, along the mesh dimensions from `first` on that shard nothing. False: no memory. */
static bool add_sums(const listing *l, weft_shard_unit *unit, const weft_layout *const inputs[], int first)
{
    int count = l->node->num_inputs;
    for (int m = first; m < inputs[0]->mesh->ndim; m++) {
        for (int i = 0; i < count && is_whole(inputs, count, m) && unit->num_choices + 1 < MAX_CHOICES; i++) {
            const weft_layout *sums[WEFT_MAX_INPUTS];
            weft_placement placements[WEFT_MAX_DIMS];
            memcpy(sums, inputs, (size_t)count * sizeof(*inputs));
            memcpy(placements, inputs[i]->placements, sizeof(placements));
            placements[m] = weft_partial(WEFT_SUM);
            sums[i] = weft_layout_intern(weft_runtime.layouts, inputs[i]->mesh, placements, inputs[i]->ndim, inputs[i]->shape,
                                         inputs[i]->dtype);
            if (sums[i] == NULL) {
                return false;
            }
            memcpy(l->layouts, sums, (size_t)count * sizeof(*sums));
            int before = unit->num_choices;
            ask_choice(l, unit);
            const weft_layout *output = unit->num_choices > before ? l->layouts[count] : NULL;
            bool passes = output != NULL && output->placements[m].kind == WEFT_PARTIAL;
            unit->num_choices -= unit->num_choices > before && !passes;
            if (passes && !add_sums(l, unit, sums, m + 1)) {
                return false;
            }
        }
    }
    return true;
}

/* A wish (weft_attributes.wish) was for the layouts of the capture, which add_recorded() adds. */
static bool add_rule_choices(const listing *of, weft_shard_unit *unit)
{
    weft_call free_call = *of->node->call;
    weft_graph_node node = *of->node;
    listing without_wish = *of, *l = &without_wish;
    free_call.attributes.wish = 0;
    node.call = &free_call;
    l->node = &node;
    weft_sharding_world world = { .table = weft_runtime.layouts, .topology = &l->world->topology,
                                  .cost = &l->world->cost, .rules = weft_rules() };
    weft_call_layouts call = { .operation = l->node->call->operation, .num_inputs = l->node->num_inputs,
                               .attributes = &l->node->call->attributes };
    weft_vec choices = { 0 };
    char why[300];
    for (int i = 0; i < call.num_inputs; i++) {
        call.inputs[i] = layout_of(l->trace, l->node->inputs[i]);
    }
    weft_status status = weft_call_list_choices(&world, &call, &choices, why, sizeof(why));
    const weft_layout *const *inputs = choices.items;
    for (size_t c = 0; status == WEFT_OK && c < choices.count && unit->num_choices + 1 < MAX_CHOICES; c++) {
        memcpy(l->layouts, inputs + c * WEFT_MAX_INPUTS, (size_t)call.num_inputs * sizeof(*inputs));
        ask_choice(l, unit);
        if (call.operation->expand != NULL && !add_sums(l, unit, inputs + c * WEFT_MAX_INPUTS, 0)) {
            status = WEFT_ERR_NOMEM;
        }
    }
    weft_vec_free(&choices);
    return status != WEFT_ERR_NOMEM;
}

/* ---- other operations ------------------------------------------------------------------------------------ */

/* Inputs beside the first one: sharded as that is where they have as many rows, else whole. */
static weft_placement aligned(const weft_layout *first, const weft_layout *other, weft_placement placement)
{
    bool follows = placement.kind == WEFT_SHARD && placement.dim < other->ndim &&
                   other->shape[placement.dim] == first->shape[placement.dim];
    return follows ? placement : (weft_placement){ WEFT_REPLICATE, 0, WEFT_SUM };
}

static bool add_aligned_choices(const listing *l, weft_shard_unit *unit)
{
    weft_vec layouts = { 0 };
    const weft_layout *first = layout_of(l->trace, l->node->inputs[0]);
    bool done = weft_shard_list_layouts(first, false, &layouts);
    for (size_t c = 0; done && c < layouts.count && unit->num_choices + 1 < MAX_CHOICES; c++) {
        const weft_layout *of_first = ((const weft_layout **)layouts.items)[c];
        l->layouts[0] = of_first;
        for (int i = 1; i < l->node->num_inputs && done; i++) {
            const weft_layout *now = layout_of(l->trace, l->node->inputs[i]);
            weft_placement placements[WEFT_MAX_DIMS];
            for (int m = 0; m < first->mesh->ndim; m++) {
                placements[m] = aligned(first, now, of_first->placements[m]);
            }
            l->layouts[i] =
                weft_layout_intern(weft_runtime.layouts, first->mesh, placements, now->ndim, now->shape, now->dtype);
            done = l->layouts[i] != NULL;
        }
        if (done) {
            ask_choice(l, unit);
        }
    }
    weft_vec_free(&layouts);
    return done;
}

/* ---- redistributions ------------------------------------------------------------------------------------- */

static bool has_layout(const weft_vec *layouts, const weft_layout *layout)
{
    bool found = false;
    for (size_t i = 0; i < layouts->count; i++) {
        found |= ((const weft_layout **)layouts->items)[i] == layout;
    }
    return found;
}

/* The program's own are hints: the value passes in any layout, also in those of the capture. */
static bool add_moves(const listing *l, weft_shard_unit *unit)
{
    weft_vec layouts = { 0 };
    bool done = weft_shard_list_layouts(layout_of(l->trace, l->node->inputs[0]), true, &layouts);
    for (size_t i = 0; done && i < layouts.count; i++) {
        const weft_layout *layout = ((const weft_layout **)layouts.items)[i];
        add_choice(unit, (const weft_layout *[]){ layout, layout }, 0);
    }
    for (int i = 0; done && i < l->node->num_inputs + l->node->num_outputs; i++) {
        const weft_layout *layout = layout_of(l->trace, l->node->inputs[i]);
        if (layout != NULL && !has_layout(&layouts, layout)) {
            add_choice(unit, (const weft_layout *[]){ layout, layout }, 0);
        }
    }
    unit->is_move = true;
    weft_vec_free(&layouts);
    return done;
}

/* ---- calls on lists of tensors --------------------------------------------------------------------------- */

/* Groups of tensors that meet in one of the calls that a call consists of, but for single numbers. */
typedef struct grouping {
    int *leader; /* by number of a tensor: another one of its group */
    int count, most;
    bool out_of_room;
} grouping;

static int leader_of(const grouping *g, int number)
{
    while (g->leader[number] != number) {
        number = g->leader[number];
    }
    return number;
}

static int number_of(grouping *g, const weft_tensor *handle)
{
    weft_tensor_impl *tensor = weft_tensor_get(handle);
    if (tensor->number == 0) {
        if (g->count == g->most) {
            g->out_of_room = true;
            return 0;
        }
        tensor->number = g->count;
        g->leader[g->count] = g->count;
        g->count++;
    }
    return tensor->number;
}

static bool is_single(const weft_tensor *handle)
{
    const weft_layout *layout = weft_layout_of(handle);
    int64_t count = 1;
    for (int d = 0; d < layout->ndim; d++) {
        count *= layout->shape[d];
    }
    return count <= 1;
}

static void join(grouping *g, const weft_tensor *handle, int *first)
{
    int number = handle == NULL || is_single(handle) ? 0 : number_of(g, handle);
    if (number == 0) {
        return;
    }
    *first = *first == 0 ? number : *first;
    g->leader[leader_of(g, number)] = leader_of(g, *first);
}

static void observe(void *context, const weft_call *call, int num_outputs, weft_tensor *const outputs[])
{
    int first = 0;
    for (int i = 0; i < weft_call_num_tensors(call); i++) {
        join(context, weft_call_tensor(call, i), &first);
    }
    for (int i = 0; i < num_outputs; i++) {
        join(context, outputs[i], &first);
    }
}

/* One choice of a unit of a list: all its tensors lie alike, or (NULL) as they were recorded. False: no memory. */
static bool add_list_choice(const listing *l, weft_shard_unit *unit, const weft_layout *alike)
{
    double bytes = 0;
    for (int i = 0; i < unit->num_inputs + unit->num_outputs; i++) {
        const weft_layout *now = layout_of(l->trace, l->node->inputs[unit->slots[i]]);
        l->layouts[i] = alike == NULL ? now
                                      : weft_layout_intern(weft_runtime.layouts, now->mesh, alike->placements, now->ndim,
                                                           now->shape, now->dtype);
        if (l->layouts[i] == NULL && alike != NULL) {
            return false;
        }
        bytes += l->layouts[i] == NULL ? 0 : (double)weft_shard_bytes(l->layouts[i]);
    }
    double us = bytes / l->world->machine.copy_bytes_per_us * l->world->ranks_per_worker;
    add_choice(unit, l->layouts, (int64_t)(us * 1e6));
    return true;
}

/* Whether tensors can lie alike: they are on one mesh, and of one shape. `members`: slots. */
static bool are_alike(const listing *l, const int members[], int count)
{
    const weft_layout *first = layout_of(l->trace, l->node->inputs[members[0]]);
    bool alike = first != NULL;
    for (int i = 1; i < count && alike; i++) {
        const weft_layout *other = layout_of(l->trace, l->node->inputs[members[i]]);
        alike = other != NULL && other->ndim == first->ndim && other->mesh == first->mesh &&
                memcmp(other->shape, first->shape, (size_t)first->ndim * sizeof(first->shape[0])) == 0;
    }
    return alike;
}

/* A group whose tensors are of one shape is chosen together, any other stays as it was recorded; `members`: slots. The
 * layouts of the capture are a choice of both: also those with Partial, or with fewer rows than ranks. */
static bool add_group(const listing *l, const int members[], int num_inputs, int num_outputs)
{
    int count = num_inputs + num_outputs;
    weft_vec layouts = { 0 };
    bool done = !are_alike(l, members, count) ||
                weft_shard_list_layouts(layout_of(l->trace, l->node->inputs[members[0]]), false, &layouts);
    weft_shard_unit *unit = done ? add_unit(l, num_inputs, num_outputs, (int)layouts.count + 1) : NULL;
    done = unit != NULL;
    if (done) {
        memcpy(unit->slots, members, (size_t)count * sizeof(int));
    }
    for (size_t c = 0; done && c < layouts.count; c++) {
        done = add_list_choice(l, unit, ((const weft_layout **)layouts.items)[c]);
    }
    done = done && add_list_choice(l, unit, NULL);
    weft_vec_free(&layouts);
    return done;
}

/* Finds the groups by the call itself, in the layouts of the capture. False: it cannot be observed. */
static bool find_groups(const listing *l, grouping *g)
{
    const weft_graph_node *node = l->node;
    bool whole = true;
    for (int i = 0; i < g->count; i++) {
        g->leader[i] = i;
    }
    set_recorded(l);
    for (int i = 0; i < node->num_inputs; i++) {
        whole &= l->layouts[i] != NULL;
    }
    return whole && weft_shard_observe(node, l->layouts, l->layouts + node->num_inputs, observe, g) && !g->out_of_room;
}

/* The group whose first input is input i. False: no memory. */
static bool add_group_of(const listing *l, const grouping *g, int i, int members[], bool covered[])
{
    const weft_graph_node *node = l->node;
    int num_inputs = 0, num_members;
    for (int k = i; k < node->num_inputs; k++) {
        if (leader_of(g, k + 1) == leader_of(g, i + 1)) {
            members[num_inputs++] = k;
        }
    }
    num_members = num_inputs;
    /* An output lies as the input of the same number and shape of its group. */
    for (int o = 0; o < node->num_outputs; o++) {
        bool follows = o < node->num_inputs && node->outputs[o] >= 0 && leader_of(g, o + 1) == leader_of(g, i + 1);
        if (follows) {
            members[num_members++] = node->num_inputs + o;
        }
    }
    for (int k = 0; k < num_members; k++) {
        covered[members[k]] = true;
    }
    return add_group(l, members, num_inputs, num_members - num_inputs);
}

/* All other tensors stay as they were recorded. */
static bool add_rest(const listing *l, int members[], const bool covered[])
{
    int num_inputs = 0, num_members = 0;
    for (int k = 0; k < l->node->num_inputs + l->node->num_outputs; k++) {
        if (!covered[k]) {
            members[num_members++] = k;
            num_inputs += k < l->node->num_inputs;
        }
    }
    weft_shard_unit *unit = num_members == 0 ? NULL : add_unit(l, num_inputs, num_members - num_inputs, 1);
    if (unit != NULL) {
        memcpy(unit->slots, members, (size_t)num_members * sizeof(int));
    }
    return num_members == 0 || (unit != NULL && add_list_choice(l, unit, NULL));
}

static bool add_groups(const listing *l)
{
    const weft_graph_node *node = l->node;
    size_t count = (size_t)(node->num_inputs + node->num_outputs);
    int most = 64 * (int)count + 64;
    grouping g = { .leader = malloc((size_t)most * sizeof(int)), .count = node->num_inputs + 1, .most = most };
    int *members = malloc((count + 1) * sizeof(int));
    bool *covered = calloc(count + 1, sizeof(bool));
    bool done = g.leader != NULL && members != NULL && covered != NULL;
    bool seen = done && find_groups(l, &g);
    for (int i = 0; i < node->num_inputs && done && seen; i++) {
        done = covered[i] || add_group_of(l, &g, i, members, covered);
    }
    done = done && add_rest(l, members, covered);
    free(g.leader);
    free(members);
    free(covered);
    return done;
}

/* ---- all ------------------------------------------------------------------------------------------------- */

static bool on_one_mesh(const listing *l)
{
    const weft_mesh_impl *mesh = NULL;
    bool one = true;
    for (int i = 0; i < l->node->num_inputs; i++) {
        const weft_layout *layout = layout_of(l->trace, l->node->inputs[i]);
        one &= layout != NULL && (mesh == NULL || layout->mesh == mesh);
        mesh = layout != NULL ? layout->mesh : mesh;
    }
    const weft_call_details *details = l->node->call->details;
    return one && mesh != NULL && (details == NULL || details->layout == NULL || details->layout->mesh == mesh);
}

/* Whether another node is the same call on tensors of the same shapes, types and meshes. */
static bool is_like(const listing *l, const weft_graph_node *other)
{
    const weft_graph_node *node = l->node;
    bool like = node->num_inputs == other->num_inputs && node->num_outputs == other->num_outputs &&
                weft_node_is(node, other->call, NULL, 0);
    for (int i = 0; i < node->num_inputs + node->num_outputs && like; i++) {
        const weft_layout *a = layout_of(l->trace, node->inputs[i]), *b = layout_of(l->trace, other->inputs[i]);
        like = a == b; /* so that what was recorded is a choice of both */
        for (int k = 0; k < i && like; k++) {
            like = (node->inputs[k] == node->inputs[i]) == (other->inputs[k] == other->inputs[i]);
        }
    }
    return like;
}

/* Takes the choices of an earlier node. False: there is none. */
static bool borrow(const listing *l, bool *done)
{
    for (size_t i = 0; i < l->units->count; i++) {
        const weft_shard_unit *known = (const weft_shard_unit *)l->units->items + i;
        if (known->borrowed || known->node == l->number || !is_like(l, weft_trace_node(l->trace, (size_t)known->node))) {
            continue;
        }
        weft_shard_unit copy = *known;
        weft_shard_unit *unit = weft_vec_push(l->units, sizeof(*unit));
        *done = unit != NULL;
        copy.node = l->number;
        copy.borrowed = true;
        if (unit != NULL) {
            *unit = copy;
        }
        return true;
    }
    return false;
}

static bool add_choices(const listing *l, weft_shard_unit *unit)
{
    const weft_call *call = l->node->call;
    bool done = true;
    if (!on_one_mesh(l) || l->node->implicit) {
        add_recorded(l, unit);
    } else if (weft_call_does(call, WEFT_MOVES)) {
        done = add_moves(l, unit);
    } else {
        if (!weft_call_is_action(call) && has_rule(l->node)) {
            done = add_rule_choices(l, unit);
        } else if (!weft_call_is_action(call)) {
            done = add_aligned_choices(l, unit);
        }
        add_recorded(l, unit);
    }
    return done;
}

static bool list_units(const listing *l)
{
    const weft_graph_node *node = l->node;
    bool done = true, is_list = node->call->details != NULL && node->call->details->num_tensors > 0;
    if (is_list) {
        return add_groups(l);
    }
    if (borrow(l, &done)) {
        return done;
    }
    int count = node->num_inputs + node->num_outputs;
    weft_shard_unit *unit = add_unit(l, node->num_inputs, node->num_outputs, MAX_CHOICES);
    for (int i = 0; unit != NULL && i < count; i++) {
        unit->slots[i] = i;
    }
    return unit != NULL && add_choices(l, unit);
}

bool weft_shard_list_units(weft_shard_world *world, const weft_graph_trace *trace, int node, weft_vec *units)
{
    listing l = { .world = world, .trace = trace, .node = weft_trace_node(trace, (size_t)node), .number = node, .units = units };
    l.layouts = calloc((size_t)(l.node->num_inputs + l.node->num_outputs) + 1, sizeof(*l.layouts));
    bool done = l.layouts != NULL && list_units(&l);
    free(l.layouts);
    return done && !world->out_of_memory;
}
