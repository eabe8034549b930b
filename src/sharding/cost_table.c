/* Tables of costs, and sums over one of their variables. */
#include "sharding/cost_table.h"

#include <stdlib.h>
#include <string.h>

/* ---- tables ---------------------------------------------------------------------------------------------- */

weft_cost_table *weft_table_new(weft_table_store *store, int ndim, const int shape[])
{
    size_t count = 1;
    for (int i = 0; i < ndim; i++) {
        count *= (size_t)shape[i];
    }
    weft_cost_table *new = malloc(sizeof(*new) + count * sizeof(int64_t));
    if (new == NULL) {
        store->out_of_memory = true;
        return NULL;
    }
    new->ndim = ndim;
    new->count = count;
    memcpy(new->shape, shape, (size_t)ndim * sizeof(int));
    return new;
}

const weft_cost_table *weft_table_intern(weft_table_store *store, weft_cost_table *new)
{
    if (new == NULL) {
        return NULL;
    }
    new->hash = weft_hash_bytes(new->cost, new->count * sizeof(int64_t),
                                weft_hash_bytes(new->shape, (size_t)new->ndim * sizeof(int), (uint64_t)new->ndim));
    for (weft_map_slot *slot = weft_map_first(&store->tables, new->hash); slot != NULL; slot = weft_map_next(&store->tables, slot)) {
        const weft_cost_table *known = slot->value;
        if (known->ndim == new->ndim && memcmp(known->shape, new->shape, (size_t)new->ndim * sizeof(int)) == 0 &&
            memcmp(known->cost, new->cost, new->count * sizeof(int64_t)) == 0) {
            free(new);
            return known;
        }
    }
    if (!weft_map_add(&store->tables, new->hash, new)) {
        free(new);
        store->out_of_memory = true;
        return NULL;
    }
    return new;
}

/* ---- a step ---------------------------------------------------------------------------------------------- */

/* Entries of a factor from one index of an axis to the next. */
typedef struct walk {
    const int64_t *cost;
    size_t strides[WEFT_MAX_AXES], own; /* by axis of the result; of the variable */
    size_t at;
} walk;

static void begin_walk(const weft_sum_step *s, int number, walk *w)
{
    const weft_cost_table *of = s->tables[number];
    size_t stride = 1;
    *w = (walk){ .cost = of->cost };
    for (int i = of->ndim; i-- > 0;) {
        int axis = s->axis[number][i];
        *(axis < 0 ? &w->own : &w->strides[axis]) = stride;
        stride *= (size_t)of->shape[i];
    }
}

/* The least sum over the variable's choices where the walks are. */
static int64_t least_sum(const weft_sum_step *s, const walk walks[], int count, uint16_t *best)
{
    int64_t least = WEFT_ASSIGN_IMPOSSIBLE;
    *best = 0;
    for (int x = 0; x < count; x++) {
        int64_t sum = 0;
        for (int f = 0; f < s->num_factors && sum < least; f++) {
            sum = weft_assign_add(sum, walks[f].cost[walks[f].at + (size_t)x * walks[f].own]);
        }
        if (sum < least) {
            least = sum;
            *best = (uint16_t)x;
        }
    }
    return least;
}

/* Moves the walks to the next entry of the result. */
static void advance(const weft_sum_step *s, walk walks[], int index[], const int shape[])
{
    for (int axis = s->num_axes; axis-- > 0;) {
        bool carry = ++index[axis] == shape[axis];
        for (int f = 0; f < s->num_factors; f++) {
            walks[f].at += walks[f].strides[axis];
            walks[f].at -= carry ? walks[f].strides[axis] * (size_t)shape[axis] : 0;
        }
        if (!carry) {
            return;
        }
        index[axis] = 0;
    }
}

static bool compute(weft_table_store *store, weft_sum_step *s, int count, const int shape[])
{
    walk walks[WEFT_MAX_FACTORS];
    int index[WEFT_MAX_AXES] = { 0 };
    weft_cost_table *result = weft_table_new(store, s->num_axes, shape);
    s->best = result == NULL ? NULL : malloc(result->count * sizeof(*s->best));
    if (s->best == NULL) {
        free(result);
        store->out_of_memory = true;
        return false;
    }
    for (int f = 0; f < s->num_factors; f++) {
        begin_walk(s, f, &walks[f]);
    }
    s->least = WEFT_ASSIGN_IMPOSSIBLE;
    for (size_t i = 0; i < result->count; i++) {
        result->cost[i] = least_sum(s, walks, count, &s->best[i]);
        s->least = result->cost[i] < s->least ? result->cost[i] : s->least;
        advance(s, walks, index, shape);
    }
    for (size_t i = 0; i < result->count && s->least < WEFT_ASSIGN_IMPOSSIBLE; i++) {
        result->cost[i] -= result->cost[i] < WEFT_ASSIGN_IMPOSSIBLE ? s->least : 0;
    }
    store->widest = result->count > store->widest ? result->count : store->widest;
    store->computed++;
    store->work += (double)result->count * count * s->num_factors;
    s->result = weft_table_intern(store, result);
    return s->result != NULL;
}

static bool same_step(const weft_sum_step *a, const weft_sum_step *b)
{
    bool same = a->num_factors == b->num_factors && a->num_axes == b->num_axes;
    for (int f = 0; f < a->num_factors && same; f++) {
        same = a->tables[f] == b->tables[f] && memcmp(a->axis[f], b->axis[f], (size_t)a->tables[f]->ndim) == 0;
    }
    return same;
}

static void hash_step(weft_sum_step *s)
{
    s->hash = (uint64_t)s->num_axes;
    for (int f = 0; f < s->num_factors; f++) {
        s->hash = weft_hash_bytes(s->axis[f], (size_t)s->tables[f]->ndim, s->hash ^ s->tables[f]->hash);
    }
}

const weft_sum_step *weft_sum_out(weft_table_store *store, weft_sum_step *s, int count, const int shape[])
{
    hash_step(s);
    for (weft_map_slot *slot = weft_map_first(&store->steps, s->hash); slot != NULL; slot = weft_map_next(&store->steps, slot)) {
        if (same_step(slot->value, s)) {
            store->reused++;
            free(s);
            return slot->value;
        }
    }
    if (!compute(store, s, count, shape) || !weft_map_add(&store->steps, s->hash, s)) {
        free(s->best);
        free(s);
        store->out_of_memory = true;
        return NULL;
    }
    return s;
}

void weft_table_store_free(weft_table_store *store)
{
    for (weft_map_slot *slot = weft_map_each(&store->steps, NULL); slot != NULL; slot = weft_map_each(&store->steps, slot)) {
        free(((weft_sum_step *)slot->value)->best);
        free(slot->value);
    }
    for (weft_map_slot *slot = weft_map_each(&store->tables, NULL); slot != NULL; slot = weft_map_each(&store->tables, slot)) {
        free(slot->value);
    }
    weft_map_free(&store->steps);
    weft_map_free(&store->tables);
}
