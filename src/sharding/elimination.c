/* Elimination of all variables, each in turn. */
#include "sharding/cost_table.h"
#include "sharding/elimination.h"

#include <stdlib.h>
#include <string.h>

/* A table on certain variables. */
typedef struct factor {
    const weft_cost_table *table;
    int variables[WEFT_MAX_AXES];
} factor;

/* An eliminated variable. */
typedef struct record {
    int variable;
    int scope[WEFT_MAX_AXES];
    const weft_sum_step *step; /* NULL: it keeps `choice` */
    int choice;
} record;

/* A variable in work. */
typedef struct state {
    int count;       /* choices that are left */
    uint16_t *items; /* these */
    weft_vec factors; /* int: numbers of live factors */
    bool gone;
    bool stale;      /* `fill` and `size` are to be computed */
    double fill, size;
} state;

typedef struct eliminator {
    const weft_assign *problem;
    const weft_elimination_options *options;
    weft_elimination_result *result;
    int num_variables;
    state *states;
    size_t words;       /* of a row of `near` */
    uint64_t *near;     /* bit rows: variables that share a factor */
    weft_vec factors;   /* factor */
    weft_vec records;   /* record */
    weft_table_store store;
    int64_t constant;
} eliminator;

int64_t weft_priced_cost(const weft_assign_variable *variable, const weft_elimination_options *options, int choice)
{
    int64_t cost = variable->cost[choice];
    if (cost >= WEFT_ASSIGN_IMPOSSIBLE) {
        return WEFT_ASSIGN_IMPOSSIBLE;
    }
    int64_t memory = variable->memory == NULL ? 0 : variable->memory[choice];
    return options->memory_alone ? memory : weft_assign_add(cost, (int64_t)((double)memory * options->price + 0.5));
}

/* ---- factors --------------------------------------------------------------------------------------------- */

static bool are_near(const eliminator *e, int u, int v)
{
    return e->near[(size_t)u * e->words + (size_t)v / 64] >> (v % 64) & 1;
}

static void set_near(const eliminator *e, int u, int v)
{
    e->near[(size_t)u * e->words + (size_t)v / 64] |= (uint64_t)1 << (v % 64);
}

static bool add_factor(eliminator *e, const weft_cost_table *of, const int variables[])
{
    factor *added = of == NULL ? NULL : weft_vec_push(&e->factors, sizeof(*added));
    bool done = added != NULL;
    if (done) {
        added->table = of;
        memcpy(added->variables, variables, (size_t)of->ndim * sizeof(int));
    }
    for (int i = 0; done && i < of->ndim; i++) {
        int *number = weft_vec_push(&e->states[variables[i]].factors, sizeof(int));
        done = number != NULL;
        if (done) {
            *number = (int)e->factors.count - 1;
        }
        for (int k = 0; done && k < of->ndim; k++) {
            if (k != i) {
                set_near(e, variables[i], variables[k]);
            }
        }
    }
    e->store.out_of_memory |= !done;
    return done;
}

/* Takes a factor away from its variables, but for `except`. */
static void drop_factor(const eliminator *e, int number, int except)
{
    const factor *f = (const factor *)e->factors.items + number;
    for (int i = 0; i < f->table->ndim; i++) {
        weft_vec *numbers = &e->states[f->variables[i]].factors;
        int *items = numbers->items;
        for (size_t k = 0; f->variables[i] != except && k < numbers->count; k++) {
            if (items[k] == number) {
                memmove(items + k, items + k + 1, (numbers->count - k - 1) * sizeof(int));
                numbers->count--;
                break;
            }
        }
    }
}

static bool add_variable_factor(eliminator *e, int v)
{
    const state *s = &e->states[v];
    weft_cost_table *costs = weft_table_new(&e->store, 1, &s->count);
    for (int i = 0; costs != NULL && i < s->count; i++) {
        costs->cost[i] = weft_priced_cost(weft_assign_variable_at(e->problem, v), e->options, s->items[i]);
    }
    return add_factor(e, weft_table_intern(&e->store, costs), &v);
}

static bool add_pair_factor(eliminator *e, const weft_assign_pair *pair)
{
    const state *rows = &e->states[pair->u], *columns = &e->states[pair->v];
    weft_cost_table *costs = weft_table_new(&e->store, 2, (int[]){ rows->count, columns->count });
    for (int i = 0; costs != NULL && i < rows->count; i++) {
        for (int k = 0; k < columns->count; k++) {
            int64_t cost = pair->table->cost[rows->items[i] * pair->table->columns + columns->items[k]];
            bool free_of_charge = e->options->memory_alone && cost < WEFT_ASSIGN_IMPOSSIBLE;
            costs->cost[i * columns->count + k] = free_of_charge ? 0 : cost;
        }
    }
    return add_factor(e, weft_table_intern(&e->store, costs), (int[]){ pair->u, pair->v });
}

/* ---- the order ------------------------------------------------------------------------------------------- */

/* The variables beside v that are left, in the order of their numbers; at most WEFT_MAX_AXES + 1 are written. */
static int list_near(const eliminator *e, int v, int near[WEFT_MAX_AXES + 1])
{
    int count = 0;
    for (size_t w = 0; w < e->words; w++) {
        for (uint64_t bits = e->near[(size_t)v * e->words + w]; bits != 0 && count <= WEFT_MAX_AXES; bits &= bits - 1) {
            int u = (int)(w * 64) + __builtin_ctzll(bits);
            if (!e->states[u].gone) {
                near[count++] = u;
            }
        }
    }
    return count;
}

/* Entries of the table that its elimination gives, and of the pairs that it makes neighbours. */
static void assess(const eliminator *e, int v)
{
    int near[WEFT_MAX_AXES + 1], count = list_near(e, v, near);
    state *s = &e->states[v];
    s->fill = 0;
    s->size = 1;
    for (int i = 0; i < count; i++) {
        s->size *= e->states[near[i]].count;
        for (int k = 0; k < i; k++) {
            s->fill += are_near(e, near[i], near[k]) ? 0 : (double)e->states[near[i]].count * e->states[near[k]].count;
        }
    }
    if (count > WEFT_MAX_AXES || s->factors.count > WEFT_MAX_FACTORS) {
        s->size = 1e300;
    }
    s->stale = false;
}

static void make_stale(const eliminator *e, int v)
{
    for (int u = 0; u < e->num_variables; u++) {
        e->states[u].stale |= u == v || are_near(e, v, u);
    }
}

/* The next variable: least fill, then least size, of those whose table is not too large; else that with the least size.
 * -1: none is left. */
static int choose_next(const eliminator *e)
{
    int best = -1;
    double limit = (double)e->options->max_entries;
    for (int v = 0; v < e->num_variables; v++) {
        const state *s = &e->states[v];
        if (s->gone) {
            continue;
        }
        if (s->stale) {
            assess(e, v);
        }
        const state *b = best < 0 ? NULL : &e->states[best];
        bool fits = s->size <= limit, best_fits = b != NULL && b->size <= limit;
        bool better = b == NULL            ? true
                      : fits != best_fits ? fits
                      : !fits             ? s->size < b->size
                                           : s->fill < b->fill || (s->fill == b->fill && s->size < b->size);
        best = better ? v : best;
    }
    return best;
}

/* ---- elimination ----------------------------------------------------------------------------------------- */

static bool push_record(eliminator *e, int v, const int scope[], const weft_sum_step *done)
{
    record *added = weft_vec_push(&e->records, sizeof(*added));
    if (added == NULL) {
        e->store.out_of_memory = true;
        return false;
    }
    *added = (record){ .variable = v, .step = done };
    if (done != NULL) {
        memcpy(added->scope, scope, (size_t)done->num_axes * sizeof(int));
    }
    return true;
}

static weft_sum_step *describe_step(eliminator *e, int v, const int near[], int count)
{
    const weft_vec *numbers = &e->states[v].factors;
    weft_sum_step *s = calloc(1, sizeof(*s));
    if (s == NULL) {
        e->store.out_of_memory = true;
        return NULL;
    }
    s->num_axes = count;
    s->num_factors = (int)numbers->count;
    for (int f = 0; f < s->num_factors; f++) {
        const factor *of = (const factor *)e->factors.items + ((const int *)numbers->items)[f];
        s->tables[f] = of->table;
        for (int i = 0; i < of->table->ndim; i++) {
            int axis = -1;
            for (int k = 0; k < count; k++) {
                axis = near[k] == of->variables[i] ? k : axis;
            }
            s->axis[f][i] = (signed char)axis;
        }
    }
    return s;
}

/* False: no memory. */
static bool eliminate(eliminator *e, int v)
{
    int near[WEFT_MAX_AXES + 1], shape[WEFT_MAX_AXES], count = list_near(e, v, near);
    for (int i = 0; i < count; i++) {
        shape[i] = e->states[near[i]].count;
    }
    weft_sum_step *described = describe_step(e, v, near, count);
    const weft_sum_step *done = described == NULL ? NULL : weft_sum_out(&e->store, described, e->states[v].count, shape);
    if (done == NULL || !push_record(e, v, near, done)) {
        return false;
    }
    e->constant = weft_assign_add(e->constant, done->least);
    for (size_t i = 0; i < e->states[v].factors.count; i++) {
        drop_factor(e, ((const int *)e->states[v].factors.items)[i], v);
    }
    make_stale(e, v);
    e->states[v].gone = true;
    bool added = count == 0 || add_factor(e, done->result, near);
    for (int i = 0; i < count && added; i++) {
        make_stale(e, near[i]);
    }
    return added;
}

/* The factor where `v` has its choice number `choice`. */
static const weft_cost_table *cut(eliminator *e, const factor *of, int v, int choice, int variables[])
{
    int shape[WEFT_MAX_AXES], ndim = 0;
    size_t inner = 1, size = 1; /* entries after the variable's axis; its choices */
    for (int i = 0; i < of->table->ndim; i++) {
        if (of->variables[i] == v) {
            size = (size_t)of->table->shape[i];
            inner = 1;
        } else {
            variables[ndim] = of->variables[i];
            shape[ndim++] = of->table->shape[i];
            inner *= (size_t)of->table->shape[i];
        }
    }
    weft_cost_table *result = weft_table_new(&e->store, ndim, shape);
    for (size_t i = 0; result != NULL && i < result->count; i++) {
        result->cost[i] = of->table->cost[(i / inner * size + (size_t)choice) * inner + i % inner];
    }
    return weft_table_intern(&e->store, result);
}

static int number_of(const state *s, int choice)
{
    int number = 0;
    while (number + 1 < s->count && s->items[number] != choice) {
        number++;
    }
    return number;
}

/* The variable keeps its choice of `start`. False: no memory. */
static bool keep_choice(eliminator *e, int v)
{
    state *s = &e->states[v];
    int choice = number_of(s, e->options->start[v]);
    weft_vec numbers = s->factors;
    s->factors = (weft_vec){ 0 };
    make_stale(e, v);
    s->gone = true;
    e->options->kept[v]++;
    bool done = push_record(e, v, NULL, NULL);
    if (done) {
        ((record *)e->records.items)[e->records.count - 1].choice = choice;
    }
    for (size_t i = 0; i < numbers.count && done; i++) {
        int number = ((const int *)numbers.items)[i], variables[WEFT_MAX_AXES];
        factor of = ((const factor *)e->factors.items)[number];
        const weft_cost_table *left = cut(e, &of, v, choice, variables);
        done = left != NULL;
        if (done && left->ndim == 0) {
            e->constant = weft_assign_add(e->constant, left->cost[0]);
        } else if (done) {
            drop_factor(e, number, v);
            done = add_factor(e, left, variables);
        }
    }
    weft_vec_free(&numbers);
    return done;
}

/* Which variable is to keep its choice so that v's table gets smaller: one that has done so least often, with many
 * neighbours and choices. */
static int choose_kept(const eliminator *e, int v)
{
    int near[WEFT_MAX_AXES + 1], count = list_near(e, v, near), best = v;
    for (int i = 0; i < count; i++) {
        int u = near[i], unused[WEFT_MAX_AXES + 1];
        int64_t kept = e->options->kept[u], least = e->options->kept[best];
        double weight = (double)e->states[u].count * list_near(e, u, unused);
        double weight_best = (double)e->states[best].count * list_near(e, best, unused);
        bool widens = e->states[best].count == 1 && e->states[u].count > 1;
        best = widens || (e->states[u].count > 1 && (kept < least || (kept == least && weight > weight_best))) ? u : best;
    }
    return best;
}

/* Whether v's table may be made. */
static bool fits(const eliminator *e, int v)
{
    enum { LITTLE = 1 << 16 };
    const state *s = &e->states[v];
    double work = s->size * s->count * (double)s->factors.count;
    return s->size <= (double)e->options->max_entries && (work <= LITTLE || e->store.work + work <= e->options->max_work);
}

static bool eliminate_all(eliminator *e)
{
    bool done = true;
    for (int v = choose_next(e); done && v >= 0 && e->constant < WEFT_ASSIGN_IMPOSSIBLE; v = choose_next(e)) {
        if (fits(e, v)) {
            done = eliminate(e, v);
            continue;
        }
        e->result->too_large = true;
        if (e->options->start == NULL) {
            return true;
        }
        done = keep_choice(e, choose_kept(e, v));
    }
    return done;
}

/* From the last eliminated variable to the first. */
static void read_choices(const eliminator *e, int choices[])
{
    const record *records = e->records.items;
    int *numbers = choices;
    for (size_t i = e->records.count; i-- > 0;) {
        const record *r = &records[i];
        size_t at = 0;
        for (int k = 0; r->step != NULL && k < r->step->num_axes; k++) {
            at = at * (size_t)e->states[r->scope[k]].count + (size_t)numbers[r->scope[k]];
        }
        numbers[r->variable] = r->step == NULL ? r->choice : r->step->best[at];
    }
    for (int v = 0; v < e->num_variables; v++) {
        choices[v] = e->states[v].items[numbers[v]];
    }
}

/* ---- beginning and end ----------------------------------------------------------------------------------- */

static void free_all(eliminator *e)
{
    for (int v = 0; e->states != NULL && v < e->num_variables; v++) {
        free(e->states[v].items);
        weft_vec_free(&e->states[v].factors);
    }
    weft_table_store_free(&e->store);
    weft_vec_free(&e->factors);
    weft_vec_free(&e->records);
    free(e->states);
    free(e->near);
}

/* The choices that come into question. */
static bool list_choices(eliminator *e)
{
    int n = e->num_variables;
    size_t total = 0;
    for (int v = 0; v < n; v++) {
        total += (size_t)weft_assign_variable_at(e->problem, v)->num_choices;
    }
    bool **is_out = malloc(((size_t)n + 1) * sizeof(*is_out)), *flags = calloc(total + 1, sizeof(bool));
    bool done = is_out != NULL && flags != NULL;
    for (int v = 0, at = 0; v < n && done; v++) {
        const weft_assign_variable *variable = weft_assign_variable_at(e->problem, v);
        is_out[v] = flags + at;
        for (int i = 0; i < variable->num_choices; i++) {
            bool fixed = e->options->fixed != NULL && e->options->fixed[v] >= 0;
            is_out[v][i] = fixed && e->options->fixed[v] != i;
        }
        at += variable->num_choices;
    }
    done = done && weft_assign_find_dominated(e->problem, e->options, is_out);
    for (int v = 0; v < n && done; v++) {
        state *s = &e->states[v];
        int count = weft_assign_variable_at(e->problem, v)->num_choices;
        s->stale = true;
        s->items = malloc((size_t)count * sizeof(*s->items));
        done = s->items != NULL;
        for (int i = 0; i < count && done; i++) {
            if (!is_out[v][i]) {
                s->items[s->count++] = (uint16_t)i;
            }
        }
    }
    free(flags);
    free(is_out);
    e->store.out_of_memory |= !done;
    return done;
}

static bool begin(eliminator *e)
{
    int n = e->num_variables;
    e->words = ((size_t)n + 63) / 64;
    e->states = calloc((size_t)n + 1, sizeof(*e->states));
    e->near = calloc((size_t)n * e->words + 1, sizeof(*e->near));
    bool done = e->states != NULL && e->near != NULL && list_choices(e);
    for (int v = 0; v < n && done; v++) {
        done = add_variable_factor(e, v);
    }
    for (size_t i = 0; i < e->problem->pairs.count && done; i++) {
        done = add_pair_factor(e, weft_assign_pair_at(e->problem, (int)i));
    }
    return done;
}

bool weft_assign_eliminate(const weft_assign *problem, const weft_elimination_options *options, int choices[],
                           weft_elimination_result *result)
{
    *result = (weft_elimination_result){ .cost = WEFT_ASSIGN_IMPOSSIBLE };
    eliminator e = { .problem = problem, .options = options, .result = result,
                     .num_variables = (int)problem->variables.count };
    bool done = begin(&e) && eliminate_all(&e);
    bool found = done && e.constant < WEFT_ASSIGN_IMPOSSIBLE && (!result->too_large || options->start != NULL);
    if (found) {
        result->cost = e.constant;
        read_choices(&e, choices);
    }
    result->tables = e.store.computed;
    result->reused = e.store.reused;
    result->widest = e.store.widest;
    result->work = e.store.work;
    free_all(&e);
    return done;
}
