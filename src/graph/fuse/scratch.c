/* Scratch memory of a task: the first gap between blocks in use that is large enough. */
#include "graph/fuse/scratch.h"

#include <string.h>

enum { ALIGNMENT = 64 };

typedef struct block {
    int64_t offset, bytes;
    int last_use;
} block;

int64_t weft_scratch_allocate(weft_scratch *scratch, int64_t bytes, int last_use)
{
    int64_t at = 0;
    size_t place = 0, count = scratch->blocks.count;
    bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    block *blocks = scratch->blocks.items;
    while (place < count && blocks[place].offset - at < bytes) {
        at = blocks[place].offset + blocks[place].bytes;
        place++;
    }
    if (weft_vec_push(&scratch->blocks, sizeof(block)) == NULL) {
        return -1;
    }
    blocks = scratch->blocks.items;
    memmove(blocks + place + 1, blocks + place, (count - place) * sizeof(block));
    blocks[place] = (block){ at, bytes, last_use };
    scratch->bytes = weft_max_i64(scratch->bytes, at + bytes);
    return at;
}

void weft_scratch_prolong(weft_scratch *scratch, int64_t offset, int last_use)
{
    block *blocks = scratch->blocks.items;
    for (size_t i = 0; i < scratch->blocks.count; i++) {
        if (blocks[i].offset == offset && blocks[i].bytes > 0) {
            blocks[i].last_use = last_use;
        }
    }
}

void weft_scratch_release(weft_scratch *scratch, int node)
{
    size_t kept = 0;
    block *blocks = scratch->blocks.items;
    for (size_t i = 0; i < scratch->blocks.count; i++) {
        if (blocks[i].last_use > node) {
            blocks[kept++] = blocks[i];
        }
    }
    scratch->blocks.count = kept;
}

void weft_scratch_free(weft_scratch *scratch)
{
    weft_vec_free(&scratch->blocks);
}
