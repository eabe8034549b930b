/* Shared by the tests of tensors. */
#ifndef WEFT_TESTS_TENSOR_SUPPORT_H
#define WEFT_TESTS_TENSOR_SUPPORT_H

#include "support.h"

/* Starts and ends the library, with this number of ranks; stop() asserts that no error is kept. */
void start(int ranks);
void stop(void);
/* The mesh of the first ranks, in one dimension. */
weft_mesh *line(int64_t ranks);

void assert_host_equal(weft_tensor *tensor, size_t bytes, const void *expected, const char *what);
/* Asserts that all elements of a WEFT_F64 tensor are this. */
void assert_all(weft_tensor *tensor, int64_t count, double value);
/* Writes to the hosted shards of a WEFT_F64 matrix, through pointers. */
void write_all(weft_tensor *tensor, double value);

#endif
