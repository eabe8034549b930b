/* The time of calls and redistributions, by the machine's figures. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "call/context.h"
#include "call/interposer.h"
#include "dispatch/cache.h"
#include "dispatch/inputs.h"
#include "graph/shard/shard.h"
#include "tensor/actions.h"

/* ---- redistributions ------------------------------------------------------------------------------------- */

typedef struct known_move {
    const weft_layout *from, *to;
    int64_t cost;
} known_move;

void weft_shard_world_free(weft_shard_world *world)
{
    const weft_map *moves = &world->moves;
    for (weft_map_slot *slot = weft_map_each(moves, NULL); slot != NULL; slot = weft_map_each(moves, slot)) {
        free(slot->value);
    }
    weft_map_free(&world->moves);
}

static int64_t picoseconds(double us)
{
    return (int64_t)llround(fmin(us, 1e11) * 1e6);
}

static void add_asked(weft_shard_world *world, int64_t cost)
{
    world->asked = weft_min_i64(world->asked + cost, WEFT_ASSIGN_IMPOSSIBLE);
}

int64_t weft_shard_move_cost(weft_shard_world *world, const weft_layout *from, const weft_layout *to)
{
    if (from == to) {
        return 0;
    }
    uint64_t hash = weft_hash_pointer(from) ^ weft_hash_u64(weft_hash_pointer(to));
    for (weft_map_slot *slot = weft_map_first(&world->moves, hash); slot != NULL;
         slot = weft_map_next(&world->moves, slot)) {
        const known_move *known = slot->value;
        if (known->from == from && known->to == to) {
            add_asked(world, known->cost);
            return known->cost;
        }
    }
    double us = weft_plan_estimate(weft_runtime.layouts, &world->topology, &world->cost, from, to);
    known_move *new = malloc(sizeof(*new));
    int64_t cost = us < 0 ? WEFT_ASSIGN_IMPOSSIBLE : picoseconds(us);
    add_asked(world, cost);
    if (new == NULL || !weft_map_add(&world->moves, hash, new)) {
        free(new);
        world->out_of_memory = true;
        return cost;
    }
    *new = (known_move){ from, to, cost };
    return cost;
}

static int64_t shard_elements(const weft_layout *layout)
{
    return weft_layout_shard_count(layout, weft_layout_largest_rank(layout));
}

int64_t weft_shard_bytes(const weft_layout *layout)
{
    return shard_elements(layout) * (int64_t)weft_dtype_size(layout->dtype);
}

/* ---- tasks ----------------------------------------------------------------------------------------------- */

/* Two products, of each row with each key. The gradients take five. */
static double attention_flops(const weft_call_layouts *call, const weft_sharding *sharding)
{
    double elements = 0, rows = 0;
    for (int i = 0; i < call->num_inputs; i++) {
        const weft_layout *layout = sharding->inputs[i];
        weft_box box;
        weft_layout_shard_box(layout, weft_layout_largest_rank(layout), &box);
        elements = fmax(elements, (double)shard_elements(layout));
        rows = layout->ndim >= 2 ? fmax(rows, (double)box.extent[layout->ndim - 2]) : rows;
    }
    return (strstr(call->operation->name, "backward") != NULL ? 10 : 4) * elements * rows;
}

/* Flops of an operation with a rule: two for each point of its loop nest. */
static double flops_of(const weft_call_layouts *call, const weft_sharding *sharding)
{
    const weft_operation *operation = call->operation;
    weft_sharding_world world = { .table = weft_runtime.layouts, .rules = weft_rules() };
    weft_binding binding;
    char why[200];
    if (strncmp(operation->name, "attention", strlen("attention")) == 0) {
        return attention_flops(call, sharding);
    }
    if (operation->choose != NULL || weft_call_bind(&world, call, &binding, why, sizeof(why)) != WEFT_OK) {
        return 0;
    }
    return 2 * weft_binding_work(&binding, sharding->inputs, sharding->outputs);
}

/* The longer of moving the bytes and computing; nothing where the output can share an input's memory. */
static double task_us(const weft_shard_world *world, const weft_call_layouts *call, const weft_sharding *sharding)
{
    const weft_machine *machine = &world->machine;
    double bytes = 0;
    if (call->operation->views) {
        return 0;
    }
    for (int i = 0; i < call->num_inputs; i++) {
        bytes += (double)weft_shard_bytes(sharding->inputs[i]);
    }
    for (int o = 0; o < sharding->num_outputs; o++) {
        bytes += (double)weft_shard_bytes(sharding->outputs[o]);
    }
    double us = fmax(bytes / machine->copy_bytes_per_us, flops_of(call, sharding) / machine->product_flops_per_us);
    return (us + machine->task_us) * world->ranks_per_worker;
}

/* ---- calls ----------------------------------------------------------------------------------------------- */

/* Receives the steps of a call. */
typedef struct asking {
    weft_steps steps; /* must be the first member */
    weft_shard_world *world; /* NULL: nothing is summed */
    int64_t cost;
    weft_shard_observer *observer;
    void *context;
} asking;

static void add_cost(asking *a, int64_t cost)
{
    a->cost = a->cost + cost < WEFT_ASSIGN_IMPOSSIBLE ? a->cost + cost : WEFT_ASSIGN_IMPOSSIBLE;
}

static void add_access_cost(asking *a, const weft_layout *from, const weft_access_map *map)
{
    add_cost(a, picoseconds(weft_access_map_cost(&a->world->topology, &a->world->cost, from, map)));
}

/* An operation: its redistributions, then its tasks. */
static bool add_operation(asking *a, const weft_call *call)
{
    weft_tensor_impl *inputs[WEFT_MAX_INPUTS];
    weft_call_layouts layouts;
    weft_sharding own;
    weft_cached_call *cached;
    int guessed;
    for (int i = 0; i < call->num_inputs; i++) {
        inputs[i] = weft_tensor_get(call->inputs[i]);
    }
    weft_call_get_layouts(call, &layouts);
    const weft_sharding *sharding = weft_obtain_layouts(call, inputs, &own, &guessed, &cached);
    for (int i = 0; sharding != NULL && i < call->num_inputs; i++) {
        weft_access_map map = { .cut = NULL };
        bool again = false;
        for (int k = 0; k < i; k++) {
            again |= call->inputs[k] == call->inputs[i] && sharding->inputs[k] == sharding->inputs[i];
        }
        add_cost(a, again ? 0 : weft_shard_move_cost(a->world, layouts.inputs[i], sharding->inputs[i]));
        if (sharding->has_access_maps && weft_find_access(call, sharding, i, &map) && map.cut != NULL) {
            add_access_cost(a, sharding->inputs[i], &map);
        }
    }
    if (sharding != NULL) {
        add_cost(a, picoseconds(task_us(a->world, &layouts, sharding)));
    }
    weft_cache_release(cached);
    return sharding != NULL;
}

static bool add_step(weft_steps *self, const weft_call *call, int num_outputs, weft_tensor *const outputs[])
{
    asking *a = (asking *)self;
    if (a->observer != NULL) {
        a->observer(a->context, call, num_outputs, outputs);
    }
    if (a->world == NULL) {
        return true;
    }
    if (!weft_call_is_action(call)) {
        return add_operation(a, call);
    }
    if (weft_call_does(call, WEFT_MOVES)) {
        add_cost(a, weft_shard_move_cost(a->world, weft_layout_of(call->inputs[0]), call->details->layout));
    } else if (call->access_map[0] != NULL) {
        add_access_cost(a, weft_layout_of(call->inputs[0]), call->access_map[0]);
    }
    return true;
}

/* Tensors without data in place of the inputs; equal inputs stay equal. False with the error kept. */
static bool make_inputs(const weft_graph_node *node, const weft_layout *const layouts[], weft_tensor *handles[])
{
    for (int i = 0; i < node->num_inputs; i++) {
        handles[i] = NULL;
        for (int k = 0; k < i && handles[i] == NULL; k++) {
            handles[i] = node->inputs[k] == node->inputs[i] && layouts[k] == layouts[i] ? handles[k] : NULL;
        }
        if (handles[i] == NULL) {
            handles[i] = weft_tensor_handle(weft_tensor_fake(node->call->function, layouts[i]));
        }
        if (handles[i] == NULL) {
            return false;
        }
        weft_tensor_get(handles[i])->number = i + 1;
    }
    return true;
}

static bool invoke(asking *a, const weft_graph_node *node, const weft_layout *const inputs[], const weft_layout *outputs[],
                   weft_tensor *handles[])
{
    weft_tensor **results = handles + node->num_inputs;
    weft_own_call own;
    if (!make_inputs(node, inputs, handles)) {
        return false;
    }
    const weft_context outer = weft_context_enter(weft_context_collecting(&a->steps));
    bool done = weft_invoke(weft_call_on(&own, node->call, handles), results) == WEFT_OK;
    weft_context_leave(outer);
    for (int i = 0; i < node->num_outputs && done; i++) {
        outputs[i] = results[i] == NULL || node->outputs[i] < 0 ? NULL : weft_layout_of(results[i]);
    }
    return done;
}

/* Within no region of the program's, and without a trace of refusals. */
static bool ask(asking *a, const weft_graph_node *node, const weft_layout *const inputs[], const weft_layout *outputs[])
{
    bool clean = weft_last_status() == WEFT_OK, done = false;
    weft_random_state *random = weft_random_in_use(), drawn = *random;
    weft_tensor **handles = calloc((size_t)(node->num_inputs + node->num_outputs) + 1, sizeof(*handles));
    if (handles == NULL || !weft_scope_begin_unrecorded()) {
        free(handles);
        return false;
    }
    const weft_context outer = weft_context_enter(weft_context_unobserved());
    done = invoke(a, node, inputs, outputs, handles);
    weft_context_leave(outer);
    *random = drawn;
    weft_scope_end_keeping(0, NULL, NULL, NULL);
    free(handles);
    if (clean) {
        weft_clear_error();
    }
    return done;
}

bool weft_shard_ask(weft_shard_world *world, const weft_graph_node *node, const weft_layout *const inputs[],
                    const weft_layout *outputs[], int64_t *cost)
{
    asking a = { .steps = { .inherited = ~0u, .add = add_step }, .world = world };
    bool done = ask(&a, node, inputs, outputs) && a.cost < WEFT_ASSIGN_IMPOSSIBLE;
    *cost = a.cost;
    return done;
}

bool weft_shard_observe(const weft_graph_node *node, const weft_layout *const inputs[], const weft_layout *outputs[],
                        weft_shard_observer *observer, void *context)
{
    asking a = { .steps = { .inherited = ~0u, .add = add_step }, .observer = observer, .context = context };
    return ask(&a, node, inputs, outputs);
}
