/* Problems of choice, and their solution within a bound on memory. */
#include "sharding/assign.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sharding/elimination.h"
#include "sharding/integer.h"

enum { DEFAULT_ENTRIES = 1 << 20, MAX_ROUNDS = 24, PATIENCE = 4 };
static const double DEFAULT_WORK = 2e9;

/* ---- the problem ----------------------------------------------------------------------------------------- */

weft_assign *weft_assign_new(void)
{
    return calloc(1, sizeof(weft_assign));
}

void weft_assign_free(weft_assign *problem)
{
    if (problem == NULL) {
        return;
    }
    for (size_t v = 0; v < problem->variables.count; v++) {
        free(weft_assign_variable_at(problem, (int)v)->cost);
        weft_vec_free(&weft_assign_variable_at(problem, (int)v)->pairs);
    }
    for (weft_map_slot *slot = weft_map_each(&problem->tables, NULL); slot != NULL;
         slot = weft_map_each(&problem->tables, slot)) {
        free(slot->value);
    }
    weft_vec_free(&problem->variables);
    weft_vec_free(&problem->pairs);
    weft_map_free(&problem->tables);
    free(problem);
}

int weft_assign_add_variable(weft_assign *problem, int num_choices, const int64_t cost[], const int64_t memory[])
{
    size_t count = (size_t)num_choices;
    int64_t *numbers = malloc(2 * count * sizeof(int64_t));
    weft_assign_variable *added = numbers == NULL ? NULL : weft_vec_push(&problem->variables, sizeof(*added));
    if (added == NULL) {
        free(numbers);
        return -1;
    }
    *added = (weft_assign_variable){ .num_choices = num_choices, .cost = numbers };
    memcpy(numbers, cost, count * sizeof(int64_t));
    if (memory != NULL) {
        added->memory = numbers + count;
        memcpy(added->memory, memory, count * sizeof(int64_t));
    }
    return (int)problem->variables.count - 1;
}

/* The one table with these costs. NULL: no memory. */
static const weft_pair_table *intern_table(weft_assign *problem, size_t rows, size_t columns, const int64_t cost[])
{
    size_t bytes = rows * columns * sizeof(int64_t);
    uint64_t hash = weft_hash_bytes(cost, bytes, rows);
    for (weft_map_slot *slot = weft_map_first(&problem->tables, hash); slot != NULL;
         slot = weft_map_next(&problem->tables, slot)) {
        const weft_pair_table *known = slot->value;
        if (known->rows == rows && known->columns == columns && memcmp(known->cost, cost, bytes) == 0) {
            return known;
        }
    }
    weft_pair_table *new = malloc(sizeof(*new) + bytes);
    if (new == NULL || !weft_map_add(&problem->tables, hash, new)) {
        free(new);
        return NULL;
    }
    *new = (weft_pair_table){ .hash = hash, .rows = rows, .columns = columns };
    memcpy(new->cost, cost, bytes);
    return new;
}

bool weft_assign_add_pair(weft_assign *problem, int u, int v, const int64_t cost[])
{
    weft_assign_variable *first = weft_assign_variable_at(problem, u), *second = weft_assign_variable_at(problem, v);
    const weft_pair_table *table =
        intern_table(problem, (size_t)first->num_choices, (size_t)second->num_choices, cost);
    weft_assign_pair *pair = table == NULL ? NULL : weft_vec_push(&problem->pairs, sizeof(*pair));
    int *of_first = pair == NULL ? NULL : weft_vec_push(&first->pairs, sizeof(int));
    int *of_second = of_first == NULL ? NULL : weft_vec_push(&second->pairs, sizeof(int));
    if (of_second == NULL) {
        return false;
    }
    *pair = (weft_assign_pair){ u, v, table };
    *of_first = *of_second = (int)problem->pairs.count - 1;
    return true;
}

int64_t weft_assign_cost(const weft_assign *problem, const int choices[])
{
    int64_t sum = 0;
    for (size_t v = 0; v < problem->variables.count; v++) {
        sum = weft_assign_add(sum, weft_assign_variable_at(problem, (int)v)->cost[choices[v]]);
    }
    for (size_t i = 0; i < problem->pairs.count; i++) {
        const weft_assign_pair *pair = weft_assign_pair_at(problem, (int)i);
        size_t at = (size_t)choices[pair->u] * pair->table->columns + (size_t)choices[pair->v];
        sum = weft_assign_add(sum, pair->table->cost[at]);
    }
    return sum;
}

int64_t weft_assign_memory(const weft_assign *problem, const int choices[])
{
    int64_t sum = 0;
    for (size_t v = 0; v < problem->variables.count; v++) {
        const weft_assign_variable *variable = weft_assign_variable_at(problem, (int)v);
        sum += variable->memory == NULL ? 0 : variable->memory[choices[v]];
    }
    return sum;
}

/* The part of the cost that depends on one variable. */
static int64_t cost_around(const weft_assign *problem, const int choices[], int v, int choice)
{
    const weft_assign_variable *variable = weft_assign_variable_at(problem, v);
    int64_t sum = variable->cost[choice];
    for (size_t i = 0; i < variable->pairs.count; i++) {
        const weft_assign_pair *pair = weft_assign_pair_at(problem, ((const int *)variable->pairs.items)[i]);
        size_t row = (size_t)(pair->u == v ? choice : choices[pair->u]);
        size_t column = (size_t)(pair->v == v ? choice : choices[pair->v]);
        sum = weft_assign_add(sum, pair->table->cost[row * pair->table->columns + column]);
    }
    return sum;
}

int64_t weft_assign_change(const weft_assign *problem, const int choices[], int variable, int choice)
{
    int64_t other = cost_around(problem, choices, variable, choice);
    return other >= WEFT_ASSIGN_IMPOSSIBLE ? other : other - cost_around(problem, choices, variable, choices[variable]);
}

/* Variables that are given other choices one after the other. */
typedef struct chain {
    const weft_assign *problem;
    int *choices;
    bool *changed;
    int *order; /* of the changes */
    int count;
} chain;

static int64_t pair_cost(const weft_assign_pair *pair, int v, int choice, int other)
{
    size_t row = (size_t)(pair->u == v ? choice : other), column = (size_t)(pair->u == v ? other : choice);
    return pair->table->cost[row * pair->table->columns + column];
}

/* The choice of v that goes with the changed variables, breaks fewest pairs with others, and then costs least. -1: none. */
static int best_with_changed(const chain *c, int v)
{
    const weft_assign_variable *variable = weft_assign_variable_at(c->problem, v);
    int best = -1, fewest = 0;
    int64_t least = 0;
    for (int i = 0; i < variable->num_choices; i++) {
        int64_t sum = variable->cost[i];
        int broken = 0;
        for (size_t n = 0; n < variable->pairs.count && sum < WEFT_ASSIGN_IMPOSSIBLE; n++) {
            const weft_assign_pair *pair = weft_assign_pair_at(c->problem, ((const int *)variable->pairs.items)[n]);
            int w = pair->u == v ? pair->v : pair->u;
            int64_t cost = pair_cost(pair, v, i, c->choices[w]);
            bool breaks = cost >= WEFT_ASSIGN_IMPOSSIBLE && !c->changed[w];
            broken += breaks;
            sum = weft_assign_add(sum, breaks ? 0 : cost);
        }
        if (sum < WEFT_ASSIGN_IMPOSSIBLE && (best < 0 || broken < fewest || (broken == fewest && sum < least))) {
            best = i;
            fewest = broken;
            least = sum;
        }
    }
    return best;
}

static void change(chain *c, int v, int choice)
{
    c->choices[v] = choice;
    c->changed[v] = true;
    c->order[c->count++] = v;
}

/* Changes the variables that do not go with the changed ones, until all go together. False: they cannot. */
static bool follow(chain *c)
{
    for (int at = 0; at < c->count; at++) {
        int v = c->order[at];
        const weft_assign_variable *variable = weft_assign_variable_at(c->problem, v);
        for (size_t n = 0; n < variable->pairs.count; n++) {
            const weft_assign_pair *pair = weft_assign_pair_at(c->problem, ((const int *)variable->pairs.items)[n]);
            int w = pair->u == v ? pair->v : pair->u;
            if (pair_cost(pair, v, c->choices[v], c->choices[w]) < WEFT_ASSIGN_IMPOSSIBLE) {
                continue;
            }
            int choice = c->changed[w] ? -1 : best_with_changed(c, w);
            if (choice < 0) {
                return false;
            }
            change(c, w, choice);
        }
    }
    return true;
}

int64_t weft_assign_change_tied(const weft_assign *problem, const int choices[], int variable, int choice)
{
    size_t count = problem->variables.count;
    int *numbers = malloc((2 * count + 1) * sizeof(int));
    bool *changed = calloc(count + 1, sizeof(bool));
    int64_t cost = WEFT_ASSIGN_IMPOSSIBLE;
    if (numbers != NULL && changed != NULL) {
        chain c = { .problem = problem, .choices = numbers, .changed = changed, .order = numbers + count };
        memcpy(numbers, choices, count * sizeof(int));
        change(&c, variable, choice);
        cost = follow(&c) ? weft_assign_cost(problem, numbers) : cost;
    }
    free(numbers);
    free(changed);
    return cost >= WEFT_ASSIGN_IMPOSSIBLE ? cost : cost - weft_assign_cost(problem, choices);
}

/* ---- one price ------------------------------------------------------------------------------------------- */

typedef struct solver {
    const weft_assign *problem;
    const weft_assign_options *options;
    size_t count;       /* variables */
    weft_assignment *result;
    int *best;          /* the best choices within the bound, of cost result->cost */
    int *scratch;       /* choices of an elimination */
    int *start;         /* possible choices; present ones where tables would be too large */
    int64_t *kept;
    int branches;
    double work; /* of all eliminations */
    bool out_of_memory;
} solver;

static bool is_bounded(const solver *s)
{
    return s->options->max_memory >= 0;
}

/* Takes the choices if they are the best so far within the bound. */
static bool take(const solver *s, const int choices[])
{
    int64_t cost = weft_assign_cost(s->problem, choices), memory = weft_assign_memory(s->problem, choices);
    if ((is_bounded(s) && memory > s->options->max_memory) || cost >= s->result->cost) {
        return false;
    }
    s->result->cost = cost;
    s->result->memory = memory;
    memcpy(s->best, choices, s->count * sizeof(int));
    return true;
}

static void note(solver *s, const weft_elimination_result *found)
{
    s->result->tables += found->tables;
    s->result->reused += found->reused;
    s->work += found->work;
    s->result->widest = found->widest > s->result->widest ? found->widest : s->result->widest;
}

static double work_left(const solver *s)
{
    return s->options->max_work - s->work;
}

/* One elimination; its choices are in s->scratch. False: no memory. */
static bool eliminate(solver *s, const weft_elimination_options *options, weft_elimination_result *found)
{
    bool done = weft_assign_eliminate(s->problem, options, s->scratch, found);
    note(s, found);
    s->out_of_memory |= !done;
    return done;
}

/* The least priced cost, exactly or, where tables are too large, by improving s->start. */
static bool minimise(solver *s, double price, bool memory_alone, const int fixed[], weft_elimination_result *found)
{
    /* Half of the work that is left goes into the exact way, and a quarter into each round. */
    weft_elimination_options options = { .price = price, .memory_alone = memory_alone, .fixed = fixed,
                                         .max_entries = s->options->max_entries, .max_work = work_left(s) / 2 };
    if (!eliminate(s, &options, found) || !found->too_large) {
        return !s->out_of_memory;
    }
    options.start = s->start;
    options.kept = s->kept;
    int64_t least = WEFT_ASSIGN_IMPOSSIBLE;
    for (int round = 0, patience = 0; round < MAX_ROUNDS && patience < PATIENCE && (round == 0 || work_left(s) > 0); round++) {
        options.max_work = work_left(s) / 4;
        if (!eliminate(s, &options, found)) {
            return false;
        }
        patience = found->cost < least ? 0 : patience + 1;
        if (found->cost < WEFT_ASSIGN_IMPOSSIBLE) {
            least = found->cost < least ? found->cost : least;
            memcpy(s->start, s->scratch, s->count * sizeof(int));
            take(s, s->scratch);
        }
        if (!found->too_large) {
            return true;
        }
    }
    found->cost = least;
    found->too_large = true;
    memcpy(s->scratch, s->start, s->count * sizeof(int));
    return true;
}

/* ---- a bound on memory ----------------------------------------------------------------------------------- */

/* Bounds from the two choices that a price cannot tell apart. */
typedef struct bounds {
    int64_t least;     /* no choices within the memory cost less */
    int variable;      /* the two choose differently here; -1: nowhere */
} bounds;

static int first_difference(const solver *s, const int a[], const int b[])
{
    for (size_t v = 0; v < s->count; v++) {
        if (a[v] != b[v]) {
            return (int)v;
        }
    }
    return -1;
}

/* The dual bound: the priced cost of the least choices, less the price of the memory that there is. Prices round each
 * variable's cost by half a unit. */
static int64_t dual(const solver *s, int64_t priced, double price)
{
    double least = (double)priced - price * (double)s->options->max_memory - (double)s->count;
    return least < 0 ? 0 : (int64_t)least;
}

/* Seeks the price at which memory comes to its bound. `over`: choices of price 0, of too much memory. False: no memory. */
static bool seek_price(solver *s, const int fixed[], int over[], bounds *b)
{
    enum { STEPS = 40 };
    int *under = malloc(s->count * sizeof(int));
    weft_elimination_result found;
    bool has_under = false;
    int64_t cost_over = weft_assign_cost(s->problem, over), memory_over = weft_assign_memory(s->problem, over);
    int64_t cost_under = 0, memory_under = 0;
    bool done = under != NULL && minimise(s, 0, true, fixed, &found);
    if (done && found.cost < WEFT_ASSIGN_IMPOSSIBLE && found.cost <= s->options->max_memory) {
        memcpy(under, s->scratch, s->count * sizeof(int));
        take(s, under);
        has_under = true;
    }
    b->least = has_under || !done ? b->least : WEFT_ASSIGN_IMPOSSIBLE; /* no choices lie within the bound */
    for (int i = 0; has_under && done && i < STEPS; i++) {
        cost_under = weft_assign_cost(s->problem, under);
        memory_under = weft_assign_memory(s->problem, under);
        if (memory_under >= memory_over || cost_under <= cost_over) {
            break;
        }
        double price = (double)(cost_under - cost_over) / (double)(memory_over - memory_under);
        done = minimise(s, price, false, fixed, &found);
        if (!done || found.too_large) {
            break;
        }
        int64_t least = dual(s, found.cost, price);
        b->least = least > b->least ? least : b->least;
        int64_t cost = weft_assign_cost(s->problem, s->scratch), memory = weft_assign_memory(s->problem, s->scratch);
        take(s, s->scratch);
        if ((memory == memory_over && cost == cost_over) || (memory == memory_under && cost == cost_under)) {
            break;
        }
        bool within = memory <= s->options->max_memory;
        memcpy(within ? under : over, s->scratch, s->count * sizeof(int));
        cost_over = within ? cost_over : cost;
        memory_over = within ? memory_over : memory;
    }
    b->variable = has_under ? first_difference(s, under, over) : -1;
    free(under);
    s->out_of_memory |= under == NULL;
    return done && !s->out_of_memory;
}

/* Finds the least cost within the bound where some variables are fixed. Returns a lower bound of it; what is within the
 * bound has been taken. */
static int64_t branch(solver *s, int fixed[])
{
    weft_elimination_result found;
    bounds b = { .least = 0, .variable = -1 };
    if (!minimise(s, 0, false, fixed, &found)) {
        return 0;
    }
    if (found.cost >= WEFT_ASSIGN_IMPOSSIBLE && !found.too_large) {
        return WEFT_ASSIGN_IMPOSSIBLE;
    }
    b.least = found.too_large ? 0 : found.cost;
    if (b.least >= s->result->cost || take(s, s->scratch) ||
        weft_assign_memory(s->problem, s->scratch) <= s->options->max_memory) {
        return b.least;
    }
    int *over = malloc(s->count * sizeof(int));
    if (over == NULL) {
        s->out_of_memory = true;
        return 0;
    }
    memcpy(over, s->scratch, s->count * sizeof(int));
    bool done = seek_price(s, fixed, over, &b);
    free(over);
    if (!done || b.least >= s->result->cost || b.variable < 0 || found.too_large || s->branches >= WEFT_ASSIGN_BRANCHES || work_left(s) <= 0) {
        return b.least;
    }
    int64_t least = WEFT_ASSIGN_IMPOSSIBLE;
    int v = b.variable, count = weft_assign_variable_at(s->problem, v)->num_choices;
    for (int i = 0; i < count && !s->out_of_memory; i++) {
        fixed[v] = i;
        s->branches++;
        int64_t part = branch(s, fixed);
        least = part < least ? part : least;
    }
    fixed[v] = -1;
    return least > b.least ? least : b.least;
}

/* ---- all ------------------------------------------------------------------------------------------------- */

/* Of what is not proved: as an integer program. */
static void solve_as_integers(solver *s)
{
    weft_integer_end end = weft_integer_solve(s->problem, s->options->max_memory, s->scratch);
    if (end != WEFT_INTEGER_NONE) {
        take(s, s->scratch);
    }
    if (end == WEFT_INTEGER_PROVED) {
        s->result->least_cost = s->result->cost;
    }
}

static weft_status solve(solver *s, int fixed[], char *why, size_t why_size)
{
    weft_elimination_result found;
    weft_assignment *result = s->result;
    for (size_t v = 0; v < s->count; v++) {
        s->start[v] = s->options->start != NULL ? s->options->start[v] : 0;
    }
    if (is_bounded(s)) {
        if (!minimise(s, 0, true, fixed, &found)) {
            return WEFT_ERR_NOMEM;
        }
        result->least_memory = found.cost;
        if (found.cost < WEFT_ASSIGN_IMPOSSIBLE && found.cost > s->options->max_memory) {
            snprintf(why, why_size, "%lld bytes are not enough: the least possible are %lld",
                     (long long)s->options->max_memory, (long long)found.cost);
            return WEFT_ERR_INVALID;
        }
        result->least_cost = branch(s, fixed);
    } else if (minimise(s, 0, false, fixed, &found)) {
        take(s, found.cost < WEFT_ASSIGN_IMPOSSIBLE ? s->scratch : s->start);
        result->least_cost = found.too_large ? 0 : found.cost;
    }
    if (s->out_of_memory) {
        return WEFT_ERR_NOMEM;
    }
    if (result->least_cost < result->cost) {
        solve_as_integers(s);
    }
    if (result->cost >= WEFT_ASSIGN_IMPOSSIBLE) {
        snprintf(why, why_size, "no choices fit together");
        return WEFT_ERR_INVALID;
    }
    result->least_cost = result->least_cost < result->cost ? result->least_cost : result->cost;
    result->proved = result->least_cost >= result->cost;
    return WEFT_OK;
}

weft_status weft_assign_solve(const weft_assign *problem, const weft_assign_options *options, int choices[],
                              weft_assignment *result, char *why, size_t why_size)
{
    size_t count = problem->variables.count;
    weft_assign_options own = *options;
    own.max_entries = own.max_entries == 0 ? DEFAULT_ENTRIES : own.max_entries;
    own.max_work = own.max_work == 0 ? DEFAULT_WORK : own.max_work;
    *result = (weft_assignment){ .cost = WEFT_ASSIGN_IMPOSSIBLE };
    int *numbers = calloc(3 * count + 1, sizeof(int));
    int64_t *kept = calloc(count + 1, sizeof(int64_t));
    weft_status status = WEFT_ERR_NOMEM;
    if (numbers != NULL && kept != NULL) {
        solver s = { .problem = problem, .options = &own, .count = count, .result = result, .best = choices,
                     .scratch = numbers, .start = numbers + count, .kept = kept };
        int *fixed = numbers + 2 * count;
        for (size_t v = 0; v < count; v++) {
            fixed[v] = -1;
        }
        status = solve(&s, fixed, why, why_size);
    }
    free(numbers);
    free(kept);
    return status;
}
