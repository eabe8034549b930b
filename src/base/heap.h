/* A binary heap in a weft_vec, of elements of `size` bytes. */
#ifndef WEFT_BASE_HEAP_H
#define WEFT_BASE_HEAP_H

#include "base/base.h"

/* Which of two comes out first; `context` is what both functions were given. */
typedef bool (*weft_first_function)(const void *context, const void *a, const void *b);

/* Copies the element. False: no memory. */
bool weft_heap_push(weft_vec *heap, size_t size, const void *element, weft_first_function first, const void *context);
/* Moves the first element to `element`. The heap is not empty. */
void weft_heap_pop(weft_vec *heap, size_t size, void *element, weft_first_function first, const void *context);

#endif
