#ifndef WEFT_SRC_GRAPH_LIFETIMES_H
#define WEFT_SRC_GRAPH_LIFETIMES_H

#include "graph/cluster.h"

/* The most bytes that values made by the trace take at once, executed in its order with these clusters (NULL: none), on the
 * ranks of this process; without memory that calls use within themselves. -1: no memory. */
int64_t weft_trace_peak(const weft_graph_trace *trace, const bool is_promised[], const weft_clusters *clusters);

#endif
