/* Copies of boxes into one slot, as tasks of as many sources as a task takes. PURE. */
#ifndef WEFT_SRC_TASKS_COPIES_H
#define WEFT_SRC_TASKS_COPIES_H

#include "codelets/copy.h"
#include "tasks/tasks.h"

typedef struct weft_copies {
    weft_task_list *list;
    weft_dtype dtype;
    size_t element_size;
    bool streams; /* see weft_cpu_copy_box() */
    weft_slot target;
    weft_slot_access access; /* of the next task; WEFT_SLOT_WRITE where the copies fill the slot */
    double position;         /* of the open task */
    weft_copy_args *args;    /* of the open task; NULL: none is open */
    int count;               /* its sources */
} weft_copies;

/* Copies a box that begins `source_offset` bytes after the source's first row to `target_offset` bytes after the target's.
 * False: no memory, and the list has failed. */
bool weft_copies_add(weft_copies *c, int64_t target_offset, weft_slot source, int64_t source_offset, const weft_strided_box *box);
/* Ends the open task, if there is one. False as above. */
bool weft_copies_end(weft_copies *c);

/* A box with the strides (elements) of both ends. */
static inline weft_strided_box weft_strided_box_of(int ndim, const int64_t extent[], const int64_t source_stride[],
                                                   const int64_t target_stride[])
{
    weft_strided_box box = { .ndim = ndim };
    memcpy(box.extent, extent, (size_t)ndim * sizeof(int64_t));
    memcpy(box.source_stride, source_stride, (size_t)ndim * sizeof(int64_t));
    memcpy(box.target_stride, target_stride, (size_t)ndim * sizeof(int64_t));
    return box;
}

#endif
