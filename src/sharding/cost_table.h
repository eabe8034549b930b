/* Tables of costs by the choices of several variables, and the least sums of tables over one variable. Equal tables are
 * one, and equal sums are computed once. PURE. */
#ifndef WEFT_SRC_SHARDING_COST_TABLE_H
#define WEFT_SRC_SHARDING_COST_TABLE_H

#include "sharding/elimination.h"

enum { WEFT_MAX_AXES = 24, WEFT_MAX_FACTORS = 64 };

/* Row-major. */
typedef struct weft_cost_table {
    uint64_t hash;
    int ndim;
    int shape[WEFT_MAX_AXES];
    size_t count;
    int64_t cost[];
} weft_cost_table;

/* The least sum of some tables over the choices of a variable that all of them have. */
typedef struct weft_sum_step {
    uint64_t hash;
    int num_factors, num_axes;
    const weft_cost_table *tables[WEFT_MAX_FACTORS];
    /* [f][i]: the axis of the result that axis i of table f is; -1: the variable */
    signed char axis[WEFT_MAX_FACTORS][WEFT_MAX_AXES];
    const weft_cost_table *result; /* less `least`, its least entry */
    int64_t least;
    uint16_t *best; /* the variable's choice, by entry of the result */
} weft_sum_step;

/* Zero-initialise. */
typedef struct weft_table_store {
    weft_map tables; /* weft_cost_table, by content */
    weft_map steps;  /* weft_sum_step, by its tables */
    size_t computed, reused, widest; /* sums; entries of the largest */
    double work; /* entries that these sums have read */
    bool out_of_memory;
} weft_table_store;

void weft_table_store_free(weft_table_store *store);
/* Room for a table, to be filled and interned. NULL: no memory. */
weft_cost_table *weft_table_new(weft_table_store *store, int ndim, const int shape[]);
/* The table itself, or its equal; takes it over. NULL: no memory. */
const weft_cost_table *weft_table_intern(weft_table_store *store, weft_cost_table *new);
/* The step, whose tables and axes are set, or its equal of before; takes it over. `count`: choices of the variable;
 * shape[]: of the result. NULL: no memory. */
const weft_sum_step *weft_sum_out(weft_table_store *store, weft_sum_step *step, int count, const int shape[]);

#endif
