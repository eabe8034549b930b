/* The order in which ready tasks run. Without this pass it is that of the calls. Here the calls are scheduled from the end of the
 * body backwards, on one worker and one link, each as late as it can be; those with the longest way to the end, through tasks,
 * messages and calls that need the worker or the link meanwhile, then come first. So the gradient of a weight waits while the
 * chain of the backward pass goes on, but not longer than its own messages can wait. Both orders are tried on the worker and the
 * link, and the calls' own order stays where the other one does not gain.
 *
 * Nothing but priorities changes: the order of submission, of messages, and of additions stays. Priorities decide among tasks
 * that are ready, so that no order of them can deadlock, and processes need not have the same one. In one process nothing waits for
 * messages, and all stays as it is. */
#include "graph/passes/order.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "call/interposer.h"
#include "graph/shard/shard.h"

/* The other order must be faster by so much, in the schedules tried here. */
static const double LEAST_GAIN = 0.01;

/* Of larger bodies the calls' own order stays: a schedule takes up to the square of the number of items. */
enum { MAX_ITEMS = 1 << 13 };

/* Calls that are executed together: a cluster, or one by itself. First its messages, then its tasks. */
typedef struct item {
    int first, last; /* nodes */
    double messages_us, tasks_us;
    double before_us; /* the longest path from the beginning of the body to it */
    double us;        /* in a schedule: when it has ended */
    int waits;        /* for so many others, while these are not scheduled */
    int place;        /* among all items; less: first */
} item;

/* By item: those that depend on it, or that it depends on: edges[first[i]], ... up to first[i + 1]. */
typedef struct neighbours {
    int *first, *edges;
} neighbours;

typedef struct ordering {
    weft_graph_body *body;
    weft_shard_world world;
    item *items;
    int count;
    int *maker;  /* by value: the item that makes it; -1: an input */
    int *newest; /* by value: the newest of its reads; -1: none */
    weft_vec reads; /* one_read */
    weft_vec pairs; /* item_pair: dependencies */
    neighbours before, behind;
    int *ready; /* room for the items that are ready, of two resources */
} ordering;

typedef struct one_read {
    int item;
    int older; /* another one of the same value; -1: none */
} one_read;

typedef struct item_pair {
    int from, to;
} item_pair;

/* ---- costs ----------------------------------------------------------------------------------------------- */

static bool is_finite(int64_t cost)
{
    return cost < WEFT_ASSIGN_IMPOSSIBLE;
}

/* Redistributions of one value each: picoseconds. */
static int64_t cost_of_moves(ordering *o, const weft_graph_node *node)
{
    int64_t sum = 0;
    for (int i = 0; i < node->num_outputs && i < node->num_inputs; i++) {
        bool known = node->inputs[i] >= 0 && node->outputs[i] >= 0;
        const weft_layout *from = known ? weft_trace_layout(o->body->trace, node->inputs[i]) : NULL;
        const weft_layout *to = known ? weft_trace_layout(o->body->trace, node->outputs[i]) : NULL;
        known = known && from->mesh == to->mesh && from->dtype == to->dtype;
        int64_t cost = known ? weft_shard_move_cost(&o->world, from, to) : 0;
        sum += is_finite(cost) ? cost : 0;
    }
    return sum;
}

/* False: no memory. */
static bool add_costs(ordering *o, const weft_graph_node *node, item *own)
{
    size_t tensors = (size_t)(node->num_inputs + node->num_outputs) + 1;
    const weft_layout **layouts = calloc(tensors, sizeof(*layouts));
    int64_t all = 0, moves = 0;
    bool whole = layouts != NULL && !weft_call_is_action(node->call) && node->call->details == NULL;
    for (int i = 0; i < node->num_inputs && whole; i++) {
        whole = node->inputs[i] >= 0;
        layouts[i] = whole ? weft_trace_layout(o->body->trace, node->inputs[i]) : NULL;
    }
    o->world.asked = 0;
    if (whole && weft_shard_ask(&o->world, node, layouts, layouts + node->num_inputs, &all)) {
        moves = o->world.asked;
    } else {
        all = moves = cost_of_moves(o, node);
    }
    own->messages_us += (double)moves * 1e-6;
    own->tasks_us += (double)(all - moves) * 1e-6;
    free(layouts);
    return layouts != NULL;
}

/* False: no memory. */
static bool find_items(ordering *o)
{
    const weft_graph_trace *trace = o->body->trace;
    const weft_vec *clusters = o->body->clusters == NULL ? NULL : &o->body->clusters->clusters;
    size_t next = 0;
    bool done = true;
    for (int n = 0; n < (int)trace->nodes.count && done; o->count++) {
        const weft_cluster *cluster =
            clusters != NULL && next < clusters->count ? ((weft_cluster **)clusters->items)[next] : NULL;
        bool begins = cluster != NULL && cluster->first == n;
        item *own = &o->items[o->count];
        *own = (item){ .first = n, .last = begins ? cluster->last : n };
        next += begins;
        for (; n <= own->last && done; n++) {
            done = add_costs(o, weft_trace_node(trace, (size_t)n), own);
        }
    }
    return done;
}

/* ---- dependencies ---------------------------------------------------------------------------------------- */

/* False: no memory. */
static bool add_pair(ordering *o, int from, int to)
{
    if (from < 0 || from == to) {
        return true;
    }
    item_pair *pair = weft_vec_push(&o->pairs, sizeof(*pair));
    if (pair != NULL) {
        *pair = (item_pair){ from, to };
        const item *before = &o->items[from];
        o->items[to].before_us = fmax(o->items[to].before_us, before->before_us + before->messages_us + before->tasks_us);
    }
    return pair != NULL;
}

/* A call that changes a value comes after all that read it. */
static bool add_readers(ordering *o, int value, int number)
{
    bool done = true;
    for (int i = o->newest[value]; i >= 0 && done; i = ((one_read *)o->reads.items)[i].older) {
        done = add_pair(o, ((one_read *)o->reads.items)[i].item, number);
    }
    return done;
}

static bool add_read(ordering *o, int value, int number)
{
    one_read *read = weft_vec_push(&o->reads, sizeof(*read));
    if (read != NULL) {
        *read = (one_read){ number, o->newest[value] };
        o->newest[value] = (int)o->reads.count - 1;
    }
    return read != NULL;
}

static bool add_dependencies(ordering *o, const weft_graph_node *node, int number)
{
    bool done = true;
    for (int i = 0; i < node->num_inputs && done; i++) {
        int value = node->inputs[i];
        if (value >= 0) {
            bool changes = i < node->num_outputs && weft_call_changes(node->call, i);
            done = add_pair(o, o->maker[value], number) && (!changes || add_readers(o, value, number)) &&
                   add_read(o, value, number);
        }
    }
    for (int i = 0; i < node->num_outputs; i++) {
        if (node->outputs[i] >= 0) {
            o->maker[node->outputs[i]] = number;
        }
    }
    return done;
}

/* The pairs by one of their items. False: no memory. */
static bool list_neighbours(const ordering *o, bool behind, neighbours *list)
{
    const item_pair *pairs = o->pairs.items;
    size_t count = (size_t)o->count;
    list->first = calloc(count + 2, sizeof(int));
    list->edges = malloc((o->pairs.count + 1) * sizeof(int));
    if (list->first == NULL || list->edges == NULL) {
        return false;
    }
    for (size_t i = 0; i < o->pairs.count; i++) {
        list->first[(behind ? pairs[i].from : pairs[i].to) + 2]++;
    }
    for (size_t i = 0; i < count; i++) {
        list->first[i + 2] += list->first[i + 1];
    }
    for (size_t i = 0; i < o->pairs.count; i++) {
        int own = behind ? pairs[i].from : pairs[i].to;
        list->edges[list->first[own + 1]++] = behind ? pairs[i].to : pairs[i].from;
    }
    return true;
}

/* False: no memory. */
static bool find_dependencies(ordering *o)
{
    bool done = true;
    for (int i = 0; i < o->count && done; i++) {
        for (int n = o->items[i].first; n <= o->items[i].last && done; n++) {
            done = add_dependencies(o, weft_trace_node(o->body->trace, (size_t)n), i);
        }
    }
    return done && list_neighbours(o, false, &o->before) && list_neighbours(o, true, &o->behind);
}

/* ---- schedules ------------------------------------------------------------------------------------------- */

/* The worker, or the link. */
typedef struct resource {
    double free_us;
    int *ready; /* items */
    int count;
    double next_us; /* when its next item can begin */
} resource;

/* A schedule that is being made. Backward: the beginning is the end of the body. */
typedef struct scheduling {
    ordering *o;
    bool backward;
    resource worker, link;
    double end_us;
} scheduling;

/* The order of items that can begin at the same time. */
static bool goes_first(const scheduling *s, bool tasks, int a, int b)
{
    const item *one = &s->o->items[a], *other = &s->o->items[b];
    if (s->backward) {
        return one->before_us != other->before_us ? one->before_us > other->before_us : a > b;
    }
    return tasks ? one->place < other->place : a < b; /* messages go in the order of the calls */
}

/* The position of the next item among those that are ready; sets next_us. */
static int find_next(const scheduling *s, resource *r)
{
    int best = 0;
    r->next_us = HUGE_VAL;
    for (int i = 0; i < r->count; i++) {
        double us = fmax(s->o->items[r->ready[i]].us, r->free_us);
        if (us < r->next_us || (us == r->next_us && goes_first(s, r == &s->worker, r->ready[i], r->ready[best]))) {
            best = i;
            r->next_us = us;
        }
    }
    return best;
}

static void make_ready(scheduling *s, int number)
{
    bool messages = !s->backward && s->o->items[number].messages_us > 0;
    resource *r = messages ? &s->link : &s->worker;
    r->ready[r->count++] = number;
}

/* The item has ended; those that waited for it may begin. */
static void end_item(scheduling *s, int number)
{
    const neighbours *next = s->backward ? &s->o->before : &s->o->behind;
    double us = s->o->items[number].us;
    s->end_us = fmax(s->end_us, us);
    for (int e = next->first[number]; e < next->first[number + 1]; e++) {
        item *own = &s->o->items[next->edges[e]];
        own->us = fmax(own->us, us);
        if (--own->waits == 0) {
            make_ready(s, next->edges[e]);
        }
    }
}

static void take_turn(scheduling *s, resource *r, int position)
{
    int number = r->ready[position];
    item *own = &s->o->items[number];
    bool tasks = r == &s->worker;
    double us = tasks ? own->tasks_us : own->messages_us;
    r->ready[position] = r->ready[--r->count];
    own->us = us > 0 ? fmax(own->us, r->free_us) + us : own->us;
    r->free_us = us > 0 ? own->us : r->free_us;
    bool goes_on = s->backward ? tasks && own->messages_us > 0 : !tasks;
    resource *other = tasks ? &s->link : &s->worker;
    if (goes_on) {
        other->ready[other->count++] = number;
    } else {
        end_item(s, number);
    }
}

/* The time of all items, each as early as it can be, or backward. */
static double schedule(ordering *o, bool backward)
{
    scheduling s = { .o = o, .backward = backward, .worker.ready = o->ready, .link.ready = o->ready + o->count };
    const neighbours *waits_for = backward ? &o->behind : &o->before;
    for (int i = 0; i < o->count; i++) {
        o->items[i].us = 0;
        o->items[i].waits = waits_for->first[i + 1] - waits_for->first[i];
        if (o->items[i].waits == 0) {
            make_ready(&s, i);
        }
    }
    while (s.worker.count + s.link.count > 0) {
        int task = find_next(&s, &s.worker), message = find_next(&s, &s.link);
        bool tasks = s.worker.next_us <= s.link.next_us;
        take_turn(&s, tasks ? &s.worker : &s.link, tasks ? task : message);
    }
    return s.end_us;
}

/* ---- places ---------------------------------------------------------------------------------------------- */

static int compare_items(const void *a, const void *b)
{
    const item *one = *(item *const *)a, *other = *(item *const *)b;
    if (one->us != other->us) {
        return one->us > other->us ? -1 : 1;
    }
    return one->first < other->first ? -1 : one->first > other->first;
}

/* By a backward schedule. False: no memory. */
static bool find_places(ordering *o)
{
    item **sorted = malloc(((size_t)o->count + 1) * sizeof(*sorted));
    for (int i = 0; i < o->count && sorted != NULL; i++) {
        sorted[i] = &o->items[i];
    }
    if (sorted != NULL) {
        qsort(sorted, (size_t)o->count, sizeof(*sorted), compare_items);
    }
    for (int i = 0; i < o->count && sorted != NULL; i++) {
        sorted[i]->place = i;
    }
    free(sorted);
    return sorted != NULL;
}

/* For tests: any order is right, also where each process has another one. */
static void shuffle(ordering *o)
{
    for (int i = o->count; i-- > 1;) {
        int other = (int)(weft_hash_u64(weft_runtime.cluster_seed + (uint64_t)i) % (uint64_t)(i + 1)), place = o->items[i].place;
        o->items[i].place = o->items[other].place;
        o->items[other].place = place;
    }
}

/* False: no memory. */
static bool choose_places(ordering *o)
{
    for (int i = 0; i < o->count; i++) {
        o->items[i].place = i;
    }
    double as_called = schedule(o, false);
    schedule(o, true);
    if (!find_places(o)) {
        return false;
    }
    double other = schedule(o, false);
    if (other > (1 - LEAST_GAIN) * as_called && weft_runtime.cluster_seed == 0) {
        return true;
    }
    if (weft_runtime.cluster_seed != 0) {
        shuffle(o);
    }
    o->body->places = calloc(o->body->trace->nodes.count + 1, sizeof(*o->body->places));
    for (int i = 0; i < o->count && o->body->places != NULL; i++) {
        o->body->places[o->items[i].first] = (uint32_t)o->items[i].place;
    }
    o->body->num_places = (uint32_t)o->count;
    return o->body->places != NULL;
}

static void free_all(ordering *o)
{
    weft_shard_world_free(&o->world);
    weft_vec_free(&o->reads);
    weft_vec_free(&o->pairs);
    free(o->before.first);
    free(o->before.edges);
    free(o->behind.first);
    free(o->behind.edges);
    free(o->items);
    free(o->maker);
    free(o->ready);
}

/* By the machine's figures. Ranks of one process share its workers. */
static weft_shard_world world_of_here(void)
{
    double workers = weft_runtime.world == WEFT_WORLD_FAKE ? 1 : (double)starpu_cpu_worker_get_count();
    return (weft_shard_world){ .machine = weft_runtime.machine,
                               .topology = weft_runtime.topology,
                               .cost = weft_runtime.cost,
                               .ranks_per_worker = weft_runtime.local_ranks / fmax(workers, 1) };
}

bool weft_pass_order(weft_graph_body *body)
{
    body->is_ordered = weft_num_processes() > 1;
    if (!body->is_ordered) {
        return true;
    }
    size_t nodes = body->trace->nodes.count + 1, values = body->trace->values.count + 1;
    ordering o = { .body = body, .world = world_of_here() };
    o.items = calloc(nodes, sizeof(*o.items));
    o.maker = malloc(2 * values * sizeof(int));
    o.ready = malloc(2 * nodes * sizeof(int));
    bool done = o.items != NULL && o.maker != NULL && o.ready != NULL;
    if (done) {
        memset(o.maker, -1, 2 * values * sizeof(int));
        o.newest = o.maker + values;
        done = find_items(&o) && find_dependencies(&o) && !o.world.out_of_memory && (o.count > MAX_ITEMS || choose_places(&o));
    }
    free_all(&o);
    return done;
}
