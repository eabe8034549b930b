#include "plan/transfers.h"

#include <stdlib.h>

bool weft_transfers_reserve(weft_transfers *moves, size_t more)
{
    size_t capacity = moves->count + more;
    if (capacity <= moves->capacity) {
        return true;
    }
    weft_transfer *items = capacity > SIZE_MAX / sizeof(*items) ? NULL : realloc(moves->items, capacity * sizeof(*items));
    if (items == NULL) {
        return false;
    }
    moves->items = items;
    moves->capacity = capacity;
    return true;
}

bool weft_transfers_reserve_one(weft_transfers *moves)
{
    return moves->count < moves->capacity || weft_transfers_reserve(moves, moves->count < 8 ? 16 : moves->count);
}

void weft_transfers_free(weft_transfers *moves)
{
    free(moves->items);
    *moves = (weft_transfers){ 0 };
}
