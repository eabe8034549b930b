/* Staging buffers of a list: temporaries for addends of other processes. They are used again when there are
 * enough: StarPU orders the next use after the reduction that reads the buffer, and until then nothing is
 * received into it. */
#ifndef WEFT_SRC_TENSOR_STAGING_H
#define WEFT_SRC_TENSOR_STAGING_H

#include "tasks/tasks.h"

/* Buffers of one size, in the order in which they are used. */
typedef struct weft_staging_ring {
    weft_vec slots; /* weft_slot */
    size_t oldest;  /* index of the one that was used first */
} weft_staging_ring;

/* While a list is built. Zero-initialise it. */
typedef struct weft_staging {
    weft_staging_ring rings[63]; /* those of 2^i bytes */
    int64_t bytes;               /* of all of them */
    weft_vec read; /* bool, by the temporary's number: the task that reads what comes next is there already */
} weft_staging;

/* A temporary for so many bytes: a new one, or, where there are enough, the one of its size that was read
 * first. Where memory is exhausted the list has failed. */
weft_slot weft_staging_obtain(weft_staging *staging, weft_task_list *list, int64_t bytes);
/* A task that reads the slot, a staging buffer or not, has been added. */
void weft_staging_was_read(weft_staging *staging, weft_slot slot);
void weft_staging_free(weft_staging *staging);

#endif
