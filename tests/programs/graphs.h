/* Random programs in captured graphs: pieces of a program are functions of graphs, which run again and again. */
#ifndef WEFT_TESTS_GRAPHS_H
#define WEFT_TESTS_GRAPHS_H

#include "run.h"

/* Runs it without graphs; twice in graphs; with other values and numbers, and with other steps, in the same graphs;
 * and once more as it was. All that can be read must be bit for bit as without graphs, and the second run captures
 * nothing. Programs without gradients are compared with their reference in graphs too. A difference is printed, and
 * ends the process with RUN_FAILED. Then the same in graphs that are frozen, whose inputs are all that their calls take: some
 * of them are given up (weft_graph_donate()). Passes change from run to run. At last layouts are chosen for graphs after each run
 * (weft_graph_shard()), and the next run is compared with the reference. */
void run_in_graphs(const program *p, tally *counts);
/* Runs it again and again in a world with WEFT_AUTOGRAPH=1, with other values and steps too: all that can be read must be bit for
 * bit as where no call is deferred. */
void run_repeated(const program *p, tally *counts);

#endif
