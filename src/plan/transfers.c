/* Lists of transfers. For a long one (9 MB for 65,536 transfers) page faults cost more than the work: 4 ms
 * instead of 1 ms. So it asks for huge pages, where the system has them. */
#define _DEFAULT_SOURCE /* madvise() */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "plan/transfers.h"

enum { HUGE_PAGE = 2 << 20 };

static void *allocate(size_t bytes)
{
#ifdef MADV_HUGEPAGE
    void *memory = NULL;
    if (bytes >= HUGE_PAGE) {
        if (posix_memalign(&memory, HUGE_PAGE, bytes) != 0) {
            return NULL;
        }
        madvise(memory, bytes, MADV_HUGEPAGE); /* a hint: it may fail */
        return memory;
    }
#endif
    return malloc(bytes);
}

bool weft_transfers_reserve(weft_transfers *moves, size_t more)
{
    size_t capacity = moves->count + more;
    if (capacity <= moves->capacity) {
        return true;
    }
    weft_transfer *items = capacity > SIZE_MAX / sizeof(*items) ? NULL : allocate(capacity * sizeof(*items));
    if (items == NULL) {
        return false;
    }
    if (moves->count > 0) {
        memcpy(items, moves->items, moves->count * sizeof(*items));
    }
    free(moves->items);
    moves->items = items;
    moves->capacity = capacity;
    return true;
}

bool weft_transfers_reserve_one(weft_transfers *moves)
{
    return moves->count < moves->capacity ||
           weft_transfers_reserve(moves, moves->count < 8 ? 16 : moves->count);
}

void weft_transfers_free(weft_transfers *moves)
{
    free(moves->items);
    *moves = (weft_transfers){ 0 };
}
