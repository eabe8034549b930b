/* One elimination of all variables of a problem (assign.h). PURE. */
#ifndef WEFT_SRC_SHARDING_ELIMINATION_H
#define WEFT_SRC_SHARDING_ELIMINATION_H

#include "sharding/assign.h"

typedef struct weft_assign_variable {
    int num_choices;
    int64_t *cost, *memory;
    weft_vec pairs; /* int: numbers of its pairs */
} weft_assign_variable;

/* Rows: choices of u; columns: of v. Equal tables are one. */
typedef struct weft_pair_table {
    uint64_t hash;
    size_t rows, columns;
    int64_t cost[];
} weft_pair_table;

typedef struct weft_assign_pair {
    int u, v;
    const weft_pair_table *table;
} weft_assign_pair;

struct weft_assign {
    weft_vec variables; /* weft_assign_variable */
    weft_vec pairs;     /* weft_assign_pair */
    weft_map tables;    /* weft_pair_table, by content */
};

static inline weft_assign_variable *weft_assign_variable_at(const weft_assign *problem, int number)
{
    return (weft_assign_variable *)problem->variables.items + number;
}

static inline const weft_assign_pair *weft_assign_pair_at(const weft_assign *problem, int number)
{
    return (const weft_assign_pair *)problem->pairs.items + number;
}

static inline int64_t weft_assign_add(int64_t a, int64_t b)
{
    return a + b < WEFT_ASSIGN_IMPOSSIBLE ? a + b : WEFT_ASSIGN_IMPOSSIBLE;
}

typedef struct weft_elimination_options {
    double price;       /* of a unit of memory, added to the costs; each choice's is rounded */
    bool memory_alone;  /* the costs are the memory: what is possible stays so */
    const int *fixed;   /* by variable: its only choice, or -1; NULL: none */
    size_t max_entries; /* of a table */
    double max_work;    /* entries of tables that are read; a table of few is always made */
    /* Where a table would be larger, or take too much work, a variable keeps this choice. NULL: nothing is found then. */
    const int *start;
    int64_t *kept; /* with `start`, by variable: how often it has kept its choice; those that did least go first */
} weft_elimination_options;

typedef struct weft_elimination_result {
    int64_t cost;   /* as priced; WEFT_ASSIGN_IMPOSSIBLE: none is possible */
    bool too_large; /* a table would have been; with `start`: a variable has kept its choice */
    size_t tables, reused, widest; /* as in weft_assignment */
    double work;    /* entries of tables that were read */
} weft_elimination_result;

/* The cost of a choice at a price. */
int64_t weft_priced_cost(const weft_assign_variable *variable, const weft_elimination_options *options, int choice);

/* choices[]: written where some are possible. False: no memory. */
bool weft_assign_eliminate(const weft_assign *problem, const weft_elimination_options *options, int choices[],
                           weft_elimination_result *result);

/* Marks choices that cannot be better than another one of the same variable, whatever the others are: some least choices
 * are without them. is_out[v][choice]; those that are out count for nothing. False: no memory (dominance.c). */
bool weft_assign_find_dominated(const weft_assign *problem, const weft_elimination_options *options, bool **is_out);

#endif
