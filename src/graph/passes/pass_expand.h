/* The pass before clusters are built: composites whose calls are known become these calls. Where the calls depend on scalars,
 * the body is for runs with the same scalars. */
#ifndef WEFT_SRC_GRAPH_PASSES_PASS_EXPAND_H
#define WEFT_SRC_GRAPH_PASSES_PASS_EXPAND_H

#include "graph/passes/body.h"

bool weft_pass_expand(weft_graph_body *body);

#endif
