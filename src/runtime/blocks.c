#include "runtime/blocks.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    NUM_SHELVES = 5,
    SMALLEST = 256, /* bytes of the first shelf's blocks; those of each next one are twice as large */
};

/* Before each block. */
typedef struct header {
    struct header *next;
    struct shelf *shelf; /* where it goes back to; NULL: too large to be kept */
    max_align_t block[];
} header;

typedef struct shelf {
    _Atomic(header *) returned; /* any thread adds one, the taking thread takes all: no block is seen twice */
    header *mine;               /* the taking thread's own */
} shelf;

struct weft_blocks {
    shelf shelves[NUM_SHELVES];
};

weft_blocks *weft_blocks_new(void)
{
    return calloc(1, sizeof(weft_blocks));
}

static void free_all(header *first)
{
    while (first != NULL) {
        header *next = first->next;
        free(first);
        first = next;
    }
}

void weft_blocks_delete(weft_blocks *blocks)
{
    for (int i = 0; blocks != NULL && i < NUM_SHELVES; i++) {
        free_all(blocks->shelves[i].mine);
        free_all(atomic_load(&blocks->shelves[i].returned));
    }
    free(blocks);
}

static header *take_from(shelf *from)
{
    if (from->mine == NULL) {
        from->mine = atomic_exchange_explicit(&from->returned, NULL, memory_order_acquire);
    }
    header *first = from->mine;
    if (first != NULL) {
        from->mine = first->next;
    }
    return first;
}

void *weft_block_take(weft_blocks *blocks, size_t size)
{
    int number = 0;
    size_t room = SMALLEST;
    while (room < size && number < NUM_SHELVES) {
        room *= 2;
        number++;
    }
    shelf *from = number < NUM_SHELVES ? &blocks->shelves[number] : NULL;
    header *first = from == NULL ? NULL : take_from(from);
    if (first == NULL) {
        first = malloc(sizeof(*first) + (from == NULL ? size : room));
        if (first == NULL) {
            return NULL;
        }
        first->shelf = from;
    }
    return memset(first->block, 0, size);
}

void weft_block_give(void *block)
{
    if (block == NULL) {
        return;
    }
    header *first = (header *)(void *)((char *)block - offsetof(header, block));
    if (first->shelf == NULL) {
        free(first);
        return;
    }
    _Atomic(header *) *returned = &first->shelf->returned;
    first->next = atomic_load_explicit(returned, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(returned, &first->next, first, memory_order_release,
                                                  memory_order_relaxed)) {
    }
}
