#include "sharding/integer.h"

#if !WEFT_HAVE_GLPK

bool weft_integer_is_there(void)
{
    return false;
}

weft_integer_end weft_integer_solve(const weft_assign *problem, int64_t max_memory, int choices[])
{
    (void)problem, (void)max_memory, (void)choices;
    return WEFT_INTEGER_NONE;
}

#else

#include <glpk.h>
#include <stdlib.h>
#include <string.h>

#include "sharding/elimination.h"

/* The program of Alpa and AutoParallel: x[v, i] is 1 where variable v has choice i; y[p, i, k] is 1 where pair p has
 * choices i and k. Each variable has one choice, and the y of a pair add up, by row and by column, to the x of its variables. With
 * whole x the y are whole too, so only the x are declared so. */

/* Seconds: 27,000 columns with 6,000 rows took 11,000 pivots and 4 s. A pivot looks at all columns, so that their product is
 * bounded: small programs may take many pivots. */
enum { MAX_COLUMNS = 30000, MAX_PIVOTS = 30000, MAX_WORK = 400000000, MAX_NODES = 2000 };

typedef struct program {
    const weft_assign *problem;
    glp_prob *lp;
    bool **is_out;    /* by variable and choice: of no use (dominance.c) */
    int *first_x;     /* by variable: column of its first choice; choices that are out have none */
    int *index;       /* of one row */
    double *value;
    double unit;      /* of the costs: the largest is about a million */
    int nodes;
} program;

bool weft_integer_is_there(void)
{
    return true;
}

static int num_variables(const program *p)
{
    return (int)p->problem->variables.count;
}

static int num_choices(const program *p, int v)
{
    return weft_assign_variable_at(p->problem, v)->num_choices;
}

/* The column of a choice; 0: it is out. */
static int column_of(const program *p, int v, int choice)
{
    int column = p->first_x[v];
    for (int i = 0; i < choice; i++) {
        column += !p->is_out[v][i];
    }
    return p->is_out[v][choice] ? 0 : column;
}

static int64_t pair_cost(const weft_assign_pair *pair, int i, int k)
{
    return pair->table->cost[(size_t)i * pair->table->columns + (size_t)k];
}

/* Choices, and pairs of choices, that are possible; the largest cost. */
static int64_t count_columns(const program *p, int64_t *largest)
{
    int64_t count = 0;
    *largest = 1;
    for (int v = 0; v < num_variables(p); v++) {
        for (int i = 0; i < num_choices(p, v); i++) {
            int64_t cost = weft_assign_variable_at(p->problem, v)->cost[i];
            count += !p->is_out[v][i];
            *largest = cost < WEFT_ASSIGN_IMPOSSIBLE && cost > *largest ? cost : *largest;
        }
    }
    for (size_t n = 0; n < p->problem->pairs.count; n++) {
        const weft_assign_pair *pair = weft_assign_pair_at(p->problem, (int)n);
        for (int i = 0; i < num_choices(p, pair->u); i++) {
            for (int k = 0; k < num_choices(p, pair->v) && !p->is_out[pair->u][i]; k++) {
                int64_t cost = pair_cost(pair, i, k);
                bool possible = !p->is_out[pair->v][k] && cost < WEFT_ASSIGN_IMPOSSIBLE;
                count += possible;
                *largest = possible && cost > *largest ? cost : *largest;
            }
        }
    }
    return count;
}

/* ---- rows and columns ------------------------------------------------------------------------------------ */

static void add_choices(program *p, int v)
{
    const weft_assign_variable *variable = weft_assign_variable_at(p->problem, v);
    int row = glp_add_rows(p->lp, 1), length = 0;
    p->first_x[v] = glp_get_num_cols(p->lp) + 1;
    for (int i = 0; i < variable->num_choices; i++) {
        if (p->is_out[v][i]) {
            continue;
        }
        int column = glp_add_cols(p->lp, 1);
        glp_set_col_kind(p->lp, column, GLP_BV);
        if (variable->cost[i] >= WEFT_ASSIGN_IMPOSSIBLE) {
            glp_set_col_bnds(p->lp, column, GLP_FX, 0, 0);
        } else {
            glp_set_obj_coef(p->lp, column, (double)variable->cost[i] / p->unit);
        }
        p->index[++length] = column;
        p->value[length] = 1;
    }
    glp_set_row_bnds(p->lp, row, GLP_FX, 1, 1);
    glp_set_mat_row(p->lp, row, length, p->index, p->value);
}

/* The y of a choice of one side of a pair add up to its x. y[i * columns of the pair + k]: the program's column; 0: impossible. */
static void add_sum(program *p, const weft_assign_pair *pair, const int *y, bool of_first, int choice)
{
    int v = of_first ? pair->u : pair->v, count = num_choices(p, of_first ? pair->v : pair->u), length = 0;
    size_t columns = pair->table->columns;
    if (p->is_out[v][choice]) {
        return;
    }
    p->index[++length] = column_of(p, v, choice);
    p->value[length] = -1;
    for (int i = 0; i < count; i++) {
        int column = of_first ? y[(size_t)choice * columns + (size_t)i] : y[(size_t)i * columns + (size_t)choice];
        if (column > 0) {
            p->index[++length] = column;
            p->value[length] = 1;
        }
    }
    int row = glp_add_rows(p->lp, 1);
    glp_set_row_bnds(p->lp, row, GLP_FX, 0, 0);
    glp_set_mat_row(p->lp, row, length, p->index, p->value);
}

/* False: no memory. */
static bool add_pair(program *p, const weft_assign_pair *pair)
{
    int rows = num_choices(p, pair->u), columns = num_choices(p, pair->v);
    int *y = calloc((size_t)rows * (size_t)columns, sizeof(int));
    for (int i = 0; y != NULL && i < rows; i++) {
        for (int k = 0; k < columns; k++) {
            int64_t cost = pair_cost(pair, i, k);
            if (p->is_out[pair->u][i] || p->is_out[pair->v][k] || cost >= WEFT_ASSIGN_IMPOSSIBLE) {
                continue;
            }
            int column = glp_add_cols(p->lp, 1);
            glp_set_col_bnds(p->lp, column, GLP_LO, 0, 0);
            glp_set_obj_coef(p->lp, column, (double)cost / p->unit);
            y[i * columns + k] = column;
        }
    }
    for (int i = 0; y != NULL && i < rows; i++) {
        add_sum(p, pair, y, true, i);
    }
    for (int k = 0; y != NULL && k < columns; k++) {
        add_sum(p, pair, y, false, k);
    }
    free(y);
    return y != NULL;
}

static void add_bound(program *p, int64_t max_memory)
{
    int row = glp_add_rows(p->lp, 1), length = 0;
    double scale = max_memory > 0 ? (double)max_memory : 1;
    for (int v = 0; v < num_variables(p); v++) {
        const int64_t *memory = weft_assign_variable_at(p->problem, v)->memory;
        for (int i = 0; memory != NULL && i < num_choices(p, v); i++) {
            if (memory[i] > 0 && !p->is_out[v][i]) {
                p->index[++length] = column_of(p, v, i);
                p->value[length] = (double)memory[i] / scale;
            }
        }
    }
    glp_set_row_bnds(p->lp, row, GLP_UP, 0, (double)max_memory / scale);
    glp_set_mat_row(p->lp, row, length, p->index, p->value);
}

/* ---- solving --------------------------------------------------------------------------------------------- */

static int max_pivots(glp_prob *lp)
{
    int columns = glp_get_num_cols(lp), pivots = MAX_WORK / (columns > 0 ? columns : 1);
    return pivots < MAX_PIVOTS ? pivots : MAX_PIVOTS;
}

static void count_nodes(glp_tree *tree, void *context)
{
    program *p = context;
    p->nodes += glp_ios_reason(tree) == GLP_ISELECT;
    if (p->nodes > MAX_NODES || glp_get_it_cnt(p->lp) > max_pivots(p->lp)) {
        glp_ios_terminate(tree);
    }
}

static void read_choices(const program *p, int choices[])
{
    for (int v = 0; v < num_variables(p); v++) {
        double most = -1;
        for (int i = 0; i < num_choices(p, v); i++) {
            double value = p->is_out[v][i] ? -1 : glp_mip_col_val(p->lp, column_of(p, v, i));
            choices[v] = value > most ? i : choices[v];
            most = value > most ? value : most;
        }
    }
}

static weft_integer_end optimise(program *p, int choices[])
{
    glp_smcp simplex;
    glp_iocp search;
    glp_init_smcp(&simplex);
    simplex.it_lim = max_pivots(p->lp);
    simplex.presolve = GLP_OFF;
    if (glp_simplex(p->lp, &simplex) != 0 || glp_get_status(p->lp) != GLP_OPT) {
        return WEFT_INTEGER_NONE;
    }
    glp_init_iocp(&search);
    search.cb_func = count_nodes;
    search.cb_info = p;
    int code = glp_intopt(p->lp, &search), status = glp_mip_status(p->lp);
    if (status != GLP_OPT && status != GLP_FEAS) {
        return WEFT_INTEGER_NONE;
    }
    read_choices(p, choices);
    return code == 0 && status == GLP_OPT ? WEFT_INTEGER_PROVED : WEFT_INTEGER_FOUND;
}

/* False: no memory, or too large. */
static bool build(program *p, int64_t max_memory)
{
    int64_t largest, count = count_columns(p, &largest);
    p->unit = (double)largest / 1e6;
    p->index = malloc(((size_t)MAX_COLUMNS + 1) * sizeof(int));
    p->value = malloc(((size_t)MAX_COLUMNS + 1) * sizeof(double));
    if (count > MAX_COLUMNS || p->index == NULL || p->value == NULL) {
        return false;
    }
    for (int v = 0; v < num_variables(p); v++) {
        add_choices(p, v);
    }
    bool done = true;
    for (size_t n = 0; n < p->problem->pairs.count && done; n++) {
        done = add_pair(p, weft_assign_pair_at(p->problem, (int)n));
    }
    if (max_memory >= 0) {
        add_bound(p, max_memory);
    }
    return done;
}

/* None is out where memory is bounded: a cheaper choice may need more. False: no memory. */
static bool find_out(program *p, int64_t max_memory, bool flags[])
{
    const weft_elimination_options options = { .price = 0 };
    for (int v = 0; v < num_variables(p); v++) {
        p->is_out[v] = flags;
        flags += num_choices(p, v);
    }
    return max_memory >= 0 || weft_assign_find_dominated(p->problem, &options, p->is_out);
}

weft_integer_end weft_integer_solve(const weft_assign *problem, int64_t max_memory, int choices[])
{
    program p = { .problem = problem };
    size_t total = 1;
    for (int v = 0; v < num_variables(&p); v++) {
        total += (size_t)num_choices(&p, v);
    }
    bool *flags = calloc(total, sizeof(bool));
    int *found = malloc((problem->variables.count + 1) * sizeof(int));
    p.is_out = malloc((problem->variables.count + 1) * sizeof(*p.is_out));
    p.first_x = calloc(problem->variables.count + 1, sizeof(int));
    weft_integer_end end = WEFT_INTEGER_NONE;
    if (flags != NULL && found != NULL && p.is_out != NULL && p.first_x != NULL && find_out(&p, max_memory, flags)) {
        int printed = glp_term_out(GLP_OFF);
        p.lp = glp_create_prob();
        glp_set_obj_dir(p.lp, GLP_MIN);
        end = build(&p, max_memory) ? optimise(&p, found) : WEFT_INTEGER_NONE;
        glp_delete_prob(p.lp);
        glp_term_out(printed);
    }
    if (end != WEFT_INTEGER_NONE) {
        memcpy(choices, found, problem->variables.count * sizeof(int));
    }
    free(p.first_x);
    free(p.is_out);
    free(p.index);
    free(p.value);
    free(flags);
    free(found);
    return end;
}

#endif
