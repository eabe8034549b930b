/* Which free buffer is used again. */
#include "runtime/pool.h"

/* Where tasks run in another order than they are submitted: so many free buffers that are newer stay free. Measured: docs/performance.md;
 * with 2 to 64 predicted times are the same. And of WEFT_REUSE_OLD: those of two steps. */
enum { NEWER_BUFFERS_LEFT = 4, BUFFERS_OF_STEPS = 2 };

weft_buffer *weft_reuse_choose(weft_reuse reuse, weft_buffer *newest)
{
    int left = reuse == WEFT_REUSE_NEWEST ? 0 : reuse == WEFT_REUSE_OLD ? BUFFERS_OF_STEPS : NEWER_BUFFERS_LEFT;
    for (; left > 0 && newest->next != NULL; left--) {
        newest = newest->next;
    }
    return left > 0 && reuse == WEFT_REUSE_OLD ? NULL : newest;
}
