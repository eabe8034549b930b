/* Shared by the tests of checkpoints: files, and tensors whose values follow from their place. */
#ifndef WEFT_TESTS_CHECKPOINT_SUPPORT_H
#define WEFT_TESTS_CHECKPOINT_SUPPORT_H

#include "support.h"

/* A path in a folder for temporary files, the same on all processes of mpirun, other ones in other tests. */
const char *checkpoint_path(void);
/* Removes the file and what a save leaves beside it. Every process may call it. */
void checkpoint_remove(void);

/* The bytes of a file, to be freed. */
char *read_bytes(const char *path, int64_t *count);
void write_bytes(const char *path, const char *bytes, int64_t count);

/* `number`: of a tensor. Values of its elements by their row-major number, in any type: small integers, which all
 * types hold (WEFT_BOOL: 0 and 1). */
int64_t element_value(int number, int64_t i, weft_dtype dtype);
/* A tensor of these values, in this layout; addends of a Partial one add up to them. */
weft_tensor *make_numbered(int number, weft_dtype dtype, int ndim, const int64_t shape[], weft_mesh *mesh,
                           const weft_placement placements[]);
/* Whether a tensor has them, on every rank; fails the test where it has not. */
void assert_numbered(weft_tensor *tensor, int number);

#endif
