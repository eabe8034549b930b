/* Chains of stages, and the cheapest one that moves and does not reduce. */
#ifndef WEFT_SRC_PLAN_MOVES_H
#define WEFT_SRC_PLAN_MOVES_H

#include "plan/factor_mesh.h"
#include "plan/plan.h"

typedef struct weft_planner {
    weft_layout_table *table;
    const weft_topology *topology;
    const weft_cost_model *cost;
    bool estimates; /* by no other layouts: weft_plan_estimate() */
} weft_planner;

/* A candidate: a list of stages. */
typedef struct weft_chain {
    int num_stages;
    weft_stage stages[WEFT_MAX_STAGES];
    double us;
    double bytes; /* into the busiest rank of each stage */
    double messages; /* of the busiest rank in one stage, at most */
    const char *algorithm;
    bool slices; /* of weft_find_path(): it begins without a message */
} weft_chain;

void weft_chain_add(const weft_planner *p, weft_chain *c, weft_stage stage);
void weft_chain_add_move(const weft_planner *p, weft_chain *c, const weft_layout *from, const weft_layout *to); /* if they differ */
void weft_chain_append(weft_chain *c, const weft_chain *more);
/* Whether `c` is to be taken instead of `best`. */
bool weft_chain_is_better(const weft_chain *c, const weft_chain *best);

/* A tensor's layout on another mesh; NULL: no memory. */
const weft_layout *weft_layout_on_mesh(const weft_planner *p, const weft_layout *like, const weft_mesh_impl *mesh,
                                       const weft_placement *placements);

/* A move on a mesh that may be factored. If a rank's box is another one on the factored mesh, the layout
 * itself is the end, and only the layouts in between are on the factored mesh. */
typedef struct weft_route {
    const weft_layout *from, *to;
    const weft_mesh_impl *mesh;
    weft_placement first[WEFT_MAX_DIMS], last[WEFT_MAX_DIMS]; /* on that mesh */
} weft_route;

/* The route between two layouts of one mesh on its factored mesh. False, with *possible true: no memory. A Partial that stays needs one
 * mesh from end to end. */
bool weft_route_factor(const weft_planner *p, const weft_factored_mesh *factored, const weft_layout *from, const weft_layout *to,
                       weft_route *r, bool *possible);

/* The cheapest chain between layouts without a Partial that is reduced; another one where all take `most_us` or more. False: no
 * memory. */
bool weft_best_move(const weft_planner *p, const weft_layout *from, const weft_layout *to, double most_us, weft_chain *best);

#endif
