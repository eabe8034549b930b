/* Part of test_graph_frozen.c. */
#ifndef WEFT_TESTS_FROZEN_CALLS_H
#define WEFT_TESTS_FROZEN_CALLS_H

#include "graph_support.h"

/* Puts each public function between two calls of a graph to be frozen: it is refused with a message that names the function, or
 * its replays do what a graph does that is not frozen. */
void test_every_function_inside_a_frozen_graph(void **state);

#endif
