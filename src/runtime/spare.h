/* Memory of deleted buffers, by size class, for new buffers of other sizes: the system has made its pages already, which takes
 * most of the time of a new buffer. For memory of starpu_malloc_flags(). */
#ifndef WEFT_SRC_RUNTIME_SPARE_H
#define WEFT_SRC_RUNTIME_SPARE_H

#include "base/base.h"

enum { WEFT_SPARE_CLASSES = 4 * 48 };

/* Zero-initialise. */
typedef struct weft_spares {
    void *first[WEFT_SPARE_CLASSES]; /* each begins with the address of the next one */
    int64_t bytes;
} weft_spares;

/* Memory of at least so many bytes (> 0), uninitialised. NULL: no memory. */
void *weft_spare_allocate(weft_spares *spares, int64_t bytes);
/* Takes back memory of so many bytes; it is freed where more than `most` bytes would be kept. */
void weft_spare_free(weft_spares *spares, void *memory, int64_t bytes, int64_t most);
/* Frees all that is kept. */
void weft_spares_clear(weft_spares *spares);

/* Asks for huge pages inside the memory, where the system has them. A pass over 64 MB takes a quarter less time than with
 * 16,384 small pages (docs/performance.md). */
void weft_use_huge_pages(char *memory, int64_t bytes);

#endif
