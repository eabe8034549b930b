/* The order in which a body's tasks run. */
#ifndef WEFT_SRC_GRAPH_PASSES_ORDER_H
#define WEFT_SRC_GRAPH_PASSES_ORDER_H

#include "graph/fuse/cluster.h"
#include "graph/passes/body.h"

/* Finds body->places, over its clusters, if another order than that of the calls is faster by the machine's figures. False: no memory. */
bool weft_pass_order(weft_graph_body *body);

#endif
