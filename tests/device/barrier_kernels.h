/* Kernels of the stand-in's own test: values are doubles, BARRIER_THREADS for each block. */
#ifndef WEFT_TESTS_BARRIER_KERNELS_H
#define WEFT_TESTS_BARRIER_KERNELS_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { BARRIER_THREADS = 64 };

int barrier_reverse(bool has_barrier, void *target, const void *source, unsigned blocks, void *stream);
int barrier_sum(void *target, const void *source, unsigned blocks, void *stream);

#ifdef __cplusplus
}
#endif

#endif
