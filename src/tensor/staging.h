/* Staging buffers of a list: temporaries for addends of other processes. Above a limit they are reused:
 * StarPU orders the next use after the reduction that reads the buffer, and until then nothing is received
 * into it. */
#ifndef WEFT_SRC_TENSOR_STAGING_H
#define WEFT_SRC_TENSOR_STAGING_H

#include "tasks/tasks.h"

/* Buffers of one size, in the order of their last use. */
typedef struct weft_staging_ring {
    weft_vec slots; /* weft_slot */
    size_t oldest;  /* index of the one used longest ago */
} weft_staging_ring;

/* State while a list is built; zero-initialise. */
typedef struct weft_staging {
    weft_staging_ring rings[63]; /* [i]: buffers of 2^i bytes */
    int64_t bytes;               /* total */
    bool grows;                  /* buffers are not reused: all are received into at once */
    weft_vec read; /* bool, by temporary from `first` on: the task that reads its next contents is there */
    size_t first;  /* the list's temporaries before these buffers */
} weft_staging;

/* A temporary of at least so many bytes: a new one, or, above the limit and unless it grows, the one of its size that was read
 * first. Without memory the list has failed. */
weft_slot weft_staging_obtain(weft_staging *staging, weft_task_list *list, int64_t bytes);
/* A task that reads the slot (a staging buffer or not) has been added. */
void weft_staging_was_read(weft_staging *staging, weft_slot slot);
void weft_staging_free(weft_staging *staging);

#endif
