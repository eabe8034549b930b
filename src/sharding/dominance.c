/* Choices that another choice of the same variable beats in all cases. */
#include <stdlib.h>

#include "sharding/elimination.h"

typedef struct dominance {
    const weft_assign *problem;
    const weft_elimination_options *options;
    bool **is_out;
} dominance;

/* The least difference of a pair's cost between choices `a` and `b` of v, over the choices of the other variable. */
static int64_t least_difference(const dominance *d, const weft_assign_pair *pair, int v, int a, int b)
{
    bool first = pair->u == v;
    const weft_pair_table *table = pair->table;
    const bool *other_out = d->is_out[first ? pair->v : pair->u];
    size_t count = first ? table->columns : table->rows, step = first ? 1 : table->columns;
    const int64_t *of_a = table->cost + (first ? (size_t)a * table->columns : (size_t)a);
    const int64_t *of_b = table->cost + (first ? (size_t)b * table->columns : (size_t)b);
    int64_t least = WEFT_ASSIGN_IMPOSSIBLE;
    for (size_t i = 0; i < count; i++) {
        int64_t cost_a = of_a[i * step], cost_b = of_b[i * step];
        if (other_out[i] || cost_a >= WEFT_ASSIGN_IMPOSSIBLE) {
            continue;
        }
        if (cost_b >= WEFT_ASSIGN_IMPOSSIBLE) {
            return -WEFT_ASSIGN_IMPOSSIBLE;
        }
        int64_t difference = d->options->memory_alone ? 0 : cost_a - cost_b;
        least = difference < least ? difference : least;
    }
    return least;
}

/* Whether choice `b` of v costs at most as much as `a` with any choices of the others. */
static bool dominates(const dominance *d, int v, int b, int a)
{
    const weft_assign_variable *variable = weft_assign_variable_at(d->problem, v);
    int64_t cost_a = weft_priced_cost(variable, d->options, a), cost_b = weft_priced_cost(variable, d->options, b);
    int64_t sum = cost_a - cost_b;
    for (size_t i = 0; i < variable->pairs.count && sum > -WEFT_ASSIGN_IMPOSSIBLE; i++) {
        int64_t least = least_difference(d, weft_assign_pair_at(d->problem, ((int *)variable->pairs.items)[i]), v, a, b);
        if (least <= -WEFT_ASSIGN_IMPOSSIBLE) {
            return false;
        }
        sum = weft_assign_add(sum, least);
    }
    return sum >= 0;
}

/* Choices that stay whatever they cost. */
static bool is_protected(const dominance *d, int v, int choice)
{
    return d->options->start != NULL && d->options->start[v] == choice;
}

static bool mark(const dominance *d, int v)
{
    int count = weft_assign_variable_at(d->problem, v)->num_choices;
    bool *out = d->is_out[v], any = false;
    for (int a = count - 1; a >= 0; a--) {
        for (int b = 0; b < count && !out[a] && !is_protected(d, v, a); b++) {
            if (b != a && !out[b] && dominates(d, v, b, a)) {
                out[a] = true;
                any = true;
            }
        }
    }
    return any;
}

bool weft_assign_find_dominated(const weft_assign *problem, const weft_elimination_options *options, bool **is_out)
{
    enum { MAX_ROUNDS = 8 };
    const dominance d = { problem, options, is_out };
    int count = (int)problem->variables.count;
    bool *changed = malloc((size_t)count + 1), any = true;
    if (changed == NULL) {
        return false;
    }
    for (int v = 0; v < count; v++) {
        changed[v] = true;
    }
    for (int round = 0; round < MAX_ROUNDS && any; round++) {
        any = false;
        for (int v = 0; v < count; v++) {
            if (!changed[v]) {
                continue;
            }
            changed[v] = false;
            if (!mark(&d, v)) {
                continue;
            }
            any = true;
            const weft_assign_variable *variable = weft_assign_variable_at(problem, v);
            for (size_t i = 0; i < variable->pairs.count; i++) {
                const weft_assign_pair *pair = weft_assign_pair_at(problem, ((int *)variable->pairs.items)[i]);
                changed[pair->u == v ? pair->v : pair->u] = true;
            }
        }
    }
    free(changed);
    return true;
}
