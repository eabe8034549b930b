/* Shared by the benchmarks of captured graphs. */
#ifndef WEFT_BENCH_GRAPH_RUNS_H
#define WEFT_BENCH_GRAPH_RUNS_H

#include <weft/weft.h>

/* So many elementwise calls, one after the other: x plus `factor` times `by`, times `by`. */
weft_tensor *chain_of(weft_tensor *x, weft_tensor *by, int calls, double factor);

/* Microseconds of `runs` calls of the graph, or of its function where `graph` is NULL, to the end of their tasks;
 * *submission: until the calls have returned. */
double time_runs(int runs, weft_graph *graph, weft_graph_function function, weft_tensor *const inputs[], double *submission);

#endif
