/* Tensors as boxes, for files of formats that store boxes (HDF5, Zarr): those that this process has to write, and those that it reads. */
#ifndef WEFT_SRC_IO_BOXES_H
#define WEFT_SRC_IO_BOXES_H

#include "io/check.h"
#include "io/outcome.h"

/* A box of a tensor in a file, and its memory, row-major. */
typedef struct weft_box_part {
    const char *name;
    const weft_layout *layout; /* type and shape of the whole */
    const int64_t *offset, *extent;
    void *memory;
} weft_box_part;

enum { WEFT_BOXES_LARGEST_ELEMENT = 16 }; /* bytes: WEFT_C128 */

/* No tensor has a floating type of 8 bits, which neither format has as both libraries of Python know it. False with the error kept. */
bool weft_boxes_check_types(const weft_file_call *call, const char *format);

/* The largest divisor of an extent that is at most `room`, unless it is less than half of that. 0: there is none. */
int64_t weft_box_divisor(int64_t extent, int64_t room);
/* A box of a tensor in row-major order consists of runs: their elements. *outer: the first dimensions, by which they differ. */
int64_t weft_box_run(const weft_layout *layout, const int64_t extent[], int *outer);
bool weft_box_part_is_empty(const weft_box_part *part);
/* The next index between `first` and `end`, the last dimension first. False: there is none. */
bool weft_box_step(int ndim, const int64_t first[], const int64_t end[], int64_t at[]);

/* Writes or reads parts of the file at a path; failures go to the outcome. Parts of one tensor follow each other. */
typedef void weft_boxes_step(const char *path, int num_parts, const weft_box_part parts[], weft_outcome *outcome);

/* A tensor of its own, so that it can be acquired; Replicate for Partial, and of boxes. In the innermost scope. NULL with the
 * error kept. */
weft_tensor_impl *weft_boxes_snapshot(const char *function, weft_tensor_impl *tensor);
/* Acquires what this process has of weft_tensor_write_items() of all tensors, writes it, releases it. */
void weft_boxes_write(const weft_file_call *call, const char *path, weft_tensor_impl *const tensors[], weft_boxes_step *write,
                      weft_outcome *outcome);
/* A whole weft_*_load(): every process reads the shards of its ranks, and no tensor changes unless all have read theirs. */
weft_status weft_boxes_load(const weft_file_call *call, weft_boxes_step *read);

#endif
