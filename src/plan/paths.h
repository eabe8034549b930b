/* The cheapest way between two layouts by way of others. */
#ifndef WEFT_SRC_PLAN_PATHS_H
#define WEFT_SRC_PLAN_PATHS_H

#include "plan/moves.h"

/* The stages of the least time between two layouts of one mesh, which number rows alike and have the same Partial placements. Layouts
 * on the way are the copies and chunks of all tensor dimensions, or, where these are very many, of those that the two ends cut. *found:
 * there is one that takes less than `most_us`. False: no memory. */
bool weft_find_path(const weft_planner *planner, const weft_layout *from, const weft_layout *to, double most_us, weft_chain *chain,
                    bool *found);

#endif
