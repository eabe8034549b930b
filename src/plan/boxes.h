/* Boxes of the global index space that processes have, beside a layout: whether they cover a tensor, and which parts
 * travel between them and the layout's shards. PURE: each process computes the same from the boxes of all. */
#ifndef WEFT_SRC_PLAN_BOXES_H
#define WEFT_SRC_PLAN_BOXES_H

#include "plan/plan.h"

/* One box of a process, with the facts about its memory that both sides of a transfer need. */
typedef struct weft_owned_box {
    int process, number; /* in the process's list */
    weft_box box;
    int slowest;     /* the dimension with the largest stride: the box's memory is cut into chunks along it */
    bool contiguous; /* row-major without gaps */
} weft_owned_box;

/* The boxes of all processes, ordered by process and number. */
typedef struct weft_box_set {
    int ndim;
    int64_t count;
    weft_owned_box *boxes;
} weft_box_set;

/* No index in it: some extent is 0. */
bool weft_box_is_empty(int ndim, const weft_box *box);

/* ---- memory of one box --------------------------------------------------------------------------------- */

/* Whether the memory at these strides (in elements) is row-major without gaps. Strides of dimensions of size 1, and of
 * empty boxes, are arbitrary. */
bool weft_strides_are_row_major(int ndim, const int64_t extent[], const int64_t strides[]);
/* Elements from the first to after the last one; 0: empty. -1: a stride is not positive, the dimensions interleave, or
 * the number is too large; *dim is then the dimension. */
int64_t weft_strides_span(int ndim, const int64_t extent[], const int64_t strides[], int *dim);
/* The dimension with the largest stride among those of more than one index; 0: none. */
int weft_strides_slowest(int ndim, const int64_t extent[], const int64_t strides[]);
/* Indices of dimension `slowest` in one chunk of the box; chunks begin at multiples of it from the box's offset. */
int64_t weft_box_chunk(const weft_owned_box *owned, int ndim, size_t element_size);

/* ---- coverage ------------------------------------------------------------------------------------------ */

typedef enum weft_box_fault_kind { WEFT_BOXES_RIGHT, WEFT_BOXES_GAP, WEFT_BOXES_OVERLAP, WEFT_BOXES_NOMEM } weft_box_fault_kind;

typedef struct weft_box_fault {
    weft_box_fault_kind kind;
    weft_box where;        /* indices that no box has, or that two have */
    int64_t first, second; /* of an overlap: positions in the set */
} weft_box_fault;

/* Whether each index of the shape is in exactly one box. Boxes lie inside the shape. */
weft_box_fault weft_box_set_check(const weft_box_set *set, const int64_t shape[]);

/* ---- transfers ----------------------------------------------------------------------------------------- */

typedef struct weft_box_transfer {
    int64_t box; /* position in the set */
    int rank;
    weft_box part; /* not empty */
} weft_box_transfer;

/* The rank whose shard is exactly this contiguous box, hosted by its process; -1: none. A shard that others replicate
 * has none. */
int weft_box_own_shard(const weft_owned_box *owned, const weft_layout *layout, const weft_topology *topology);

/* Appends the transfers (weft_box_transfer) with an end at `process`, by box and rank. into_tensor: from the boxes to
 * every rank's shard; else from the shards to the boxes, each element from one replica: one at the box's process if
 * there is one. The layout has no Partial. False: no memory. */
bool weft_box_transfers(const weft_box_set *set, const weft_layout *layout, const weft_topology *topology,
                        bool into_tensor, int process, weft_vec *transfers);

#endif
