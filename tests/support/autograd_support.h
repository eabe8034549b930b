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

#endif
