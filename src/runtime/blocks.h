/* Blocks of memory for the arguments of tasks. The submitting thread takes them; whoever runs a task gives them
 * back. malloc() and free() would do the same more slowly: memory that one thread allocates and others free
 * makes all of them wait for the lock of one arena. */
#ifndef WEFT_SRC_RUNTIME_BLOCKS_H
#define WEFT_SRC_RUNTIME_BLOCKS_H

#include <stddef.h>

typedef struct weft_blocks weft_blocks;

/* NULL: no memory. */
weft_blocks *weft_blocks_new(void);
/* Every block has been given back. NULL is nothing. */
void weft_blocks_delete(weft_blocks *blocks);

/* A block of `size` bytes, zeroed and aligned for any type; NULL: no memory. By the submitting thread alone. */
void *weft_block_take(weft_blocks *blocks, size_t size);
/* By any thread. Kept for the next one of about that size. NULL is nothing. */
void weft_block_give(void *block);

#endif
