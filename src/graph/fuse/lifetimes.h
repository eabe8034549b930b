/* Lifetimes of a trace's values: the memory that they take at once, and which of them take over memory of others. */
#ifndef WEFT_SRC_GRAPH_FUSE_LIFETIMES_H
#define WEFT_SRC_GRAPH_FUSE_LIFETIMES_H

#include "graph/fuse/cluster.h"

/* The most bytes that values made by the trace take at once, executed in its order with these clusters (NULL: none), on the
 * ranks of this process; without memory that calls use within themselves. takes[] (NULL: all get memory of their own), by
 * value: the value whose memory it takes over, which no call needs any more; -1, which all are before: none. -1: no memory. */
int64_t weft_trace_peak(const weft_graph_trace *trace, const bool is_promised[], const weft_clusters *clusters, int takes[]);

#endif
