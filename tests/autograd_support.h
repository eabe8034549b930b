/* Shared by the tests of the tape. */
#ifndef WEFT_TESTS_AUTOGRAD_SUPPORT_H
#define WEFT_TESTS_AUTOGRAD_SUPPORT_H

#include "support.h"

/* All ranks of the world in a line. */
weft_mesh *line(void);
/* Ones in f64, rows x 3; a leaf. */
weft_tensor *leaf_of(weft_mesh *mesh, const weft_placement *placements, int64_t rows);
/* At most 64 elements, in f64. */
void assert_all(weft_tensor *tensor, double expected);
/* Starts the library with 4 ranks, or under mpirun (`count` > 1 arguments) with one for each process; runs the tests. */
#define RUN_ON_RANKS(count, tests) run_on_ranks(count, tests, sizeof(tests) / sizeof((tests)[0]))
int run_on_ranks(int count, const struct CMUnitTest tests[], size_t num_tests);

#endif
