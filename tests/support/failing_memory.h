/* Allocations that fail: for tests linked with --wrap=malloc, --wrap=calloc and --wrap=realloc. */
#ifndef WEFT_TESTS_FAILING_MEMORY_H
#define WEFT_TESTS_FAILING_MEMORY_H

#include <stdbool.h>

/* Defined by the test. Asked before each allocation, on any thread: whether it returns NULL. */
bool allocation_fails(void);

#endif
