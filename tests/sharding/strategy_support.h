/* Shared by the tests of strategies: a rule with shapes, a mesh and layouts, without StarPU. */
#ifndef WEFT_TESTS_STRATEGY_SUPPORT_H
#define WEFT_TESTS_STRATEGY_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "prng.h"
#include "rows.h"
#include "sharding/strategy.h"

/* From the generator of a test's random numbers: 0 .. n - 1. */
int random_below(int n);
/* A group's setup. */
int seed_random(void **state);

typedef struct problem {
    weft_rule rule;
    weft_linearity linear;
    int ndim[WEFT_MAX_INPUTS];
    int64_t shape[WEFT_MAX_INPUTS][WEFT_MAX_DIMS];
    weft_binding binding;
    weft_mesh_impl *mesh;
    weft_layout_table *table;
    weft_topology topology;
    weft_cost_model cost;
    weft_search search;
    bool in_place; /* output 0 is */
} problem;

/* A mesh of the ranks from 0 on, all on one process. Asserts that the rule can be read. */
void problem_open(problem *p, const char *rule, int mesh_ndim, const int64_t mesh_shape[]);
void problem_close(problem *p);
void set_shape(problem *p, int input, int ndim, const int64_t shape[]);
/* Once the shapes are set. Asserts that they fit the rule. */
void problem_bind(problem *p, weft_attributes attributes);
/* The canonical layout of an input by a text such as "S0,R". */
const weft_layout *layout_of(problem *p, int input, const char *placements);
/* weft_strategy_search() with outputs in WEFT_F32, all linear in the same way. */
weft_status search_problem(const problem *p, const weft_linearity *linear, const weft_layout *const inputs[],
                           weft_sharding *sharding, char *why, size_t why_size);
int list_strategies(const problem *p, int mesh_dim, weft_strategy strategies[WEFT_MAX_STRATEGIES]);
void assert_placements(const weft_layout *layout, const char *expected);

#endif
