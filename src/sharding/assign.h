/* The choice of layouts for many calls at once, as a problem of numbers: variables with a few choices each, costs of
 * choices, costs of pairs of choices, memory of choices. PURE; the same on every process.
 *
 * The least sum of costs is found by eliminating one variable after the other: the tables that mention the variable are
 * replaced by one table over their other variables, which has the least sum over the variable's choices. The order
 * keeps these tables small (min-fill), so a chain of blocks costs as much as its widest block. Tables are compared by
 * content, less their least entry, so a block that repeats is eliminated once (elimination.h). Costs are integers: equal
 * is equal.
 *
 * A bound on the sum of memory is met by a price: memory is added to the costs, times a factor. Each factor gives a
 * lower bound of the least cost, and a choice within the bound an upper one; where they differ, the choices of a variable
 * are tried one by one (branch and bound), at most WEFT_ASSIGN_BRANCHES times.
 *
 * Where a table would have more than `max_entries`, or the tables have taken too much work, a variable keeps its present choice for a while, and the others are
 * improved: the result is then not proved to be the least. Where the library is built with GLPK, that solves such a
 * problem as an integer program, if it is not too large (integer.h). */
#ifndef WEFT_SRC_SHARDING_ASSIGN_H
#define WEFT_SRC_SHARDING_ASSIGN_H

#include "base/map.h"

/* Impossible. Sums of costs stay below. */
#define WEFT_ASSIGN_IMPOSSIBLE (INT64_MAX / 4)

enum { WEFT_ASSIGN_BRANCHES = 4000 };

typedef struct weft_assign weft_assign;

/* NULL: no memory. */
weft_assign *weft_assign_new(void);
void weft_assign_free(weft_assign *problem);
/* Returns the variable's number: 0, 1, ...; negative: no memory. cost[], memory[]: of its choices, not negative; `memory` may
 * be NULL (none). At least one choice, at most UINT16_MAX. */
int weft_assign_add_variable(weft_assign *problem, int num_choices, const int64_t cost[], const int64_t memory[]);
/* cost[i * choices of v + k]: of choice i of u and choice k of v, not negative; u != v. Copied, once for equal tables. False:
 * no memory. */
bool weft_assign_add_pair(weft_assign *problem, int u, int v, const int64_t cost[]);

typedef struct weft_assign_options {
    int64_t max_memory;   /* negative: any */
    size_t max_entries;   /* of a table; 0: 1 << 20 */
    double max_work;      /* entries of tables that eliminations read, beside small ones; 0: 2e9, seconds */
    const int *start;     /* possible choices, to be improved where a table would be too large; NULL: the first of each */
} weft_assign_options;

typedef struct weft_assignment {
    int64_t cost, memory;  /* sums */
    int64_t least_cost;    /* no choices within the bound cost less; `cost` if proved */
    int64_t least_memory;  /* of any possible choices; of `max_memory` >= 0 alone */
    bool proved;           /* no other choices cost less */
    size_t tables, reused; /* computed by eliminations, and found again */
    size_t widest;         /* entries of the largest table */
} weft_assignment;

/* choices[]: of each variable. WEFT_ERR_INVALID with why: no choices fit together, or none lie within max_memory;
 * WEFT_ERR_NOMEM. */
weft_status weft_assign_solve(const weft_assign *problem, const weft_assign_options *options, int choices[],
                              weft_assignment *result, char *why, size_t why_size);

/* The cost of given choices; WEFT_ASSIGN_IMPOSSIBLE: impossible. And their memory. */
int64_t weft_assign_cost(const weft_assign *problem, const int choices[]);
int64_t weft_assign_memory(const weft_assign *problem, const int choices[]);
/* The change of the cost if one variable alone had another choice; WEFT_ASSIGN_IMPOSSIBLE: that is impossible. */
int64_t weft_assign_change(const weft_assign *problem, const int choices[], int variable, int choice);
/* The same where variables that cannot stay as they are follow it, each with the choice that is best for it then: not always the
 * least change. */
int64_t weft_assign_change_tied(const weft_assign *problem, const int choices[], int variable, int choice);

#endif
