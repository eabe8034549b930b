/* Transfers between a tensor's shards and boxes of the program's memory (<weft/boxes.h>).
 *
 * A BOX PLAN is kept from call to call: the boxes of all processes, found right, and this process's task list. Plans are
 * kept and dropped in the order of the calls alone, so that all processes have the same ones.
 *
 * For the run of a list the program's memory is borrowed. Boxes are cut into chunks (weft_box_chunk()); chunks whose bytes
 * interleave, as those of blocks of one column-major array do, are one REGION: a shard of one panel in an unregistered tensor.
 * Regions have no bytes in common. Where one has some in common with memory borrowed before, of former calls or of tensors in
 * place, an empty task on both StarPU handles orders what follows after what went before. */
#ifndef WEFT_SRC_ARRAYS_BOXES_H
#define WEFT_SRC_ARRAYS_BOXES_H

#include <weft/boxes.h>

#include "arrays/arrays.h"
#include "plan/boxes.h"
#include "tensor/exchange.h"

/* A chunk lies in this region, from this byte of it on. */
typedef struct weft_box_place {
    int64_t region, offset;
} weft_box_place;

/* Memory of the program whose chunks share a StarPU handle. */
typedef struct weft_box_region {
    char *memory;
    int64_t bytes;
} weft_box_region;

/* Places of all chunks of a call's own boxes (boxes_memory.c). A box that is empty or in place has no chunks. */
typedef struct weft_box_places {
    int64_t num_chunks, num_regions;
    int64_t *first;           /* by own box: its first chunk */
    weft_box_place *of_chunk;
    weft_box_region *regions; /* in order of memory */
} weft_box_places;

typedef struct weft_box_plan {
    bool into_tensor;
    const weft_layout *layout; /* between its shards and the boxes: without Partial, into_tensor without replicas either */
    weft_box_set set;          /* of all processes */
    int64_t first_own;         /* position of this process's first box */
    int num_own;
    bool any_in_place; /* into_tensor: some shard of some process is a box */
    bool ambiguous;    /* some process had the same boxes in another plan of this layout, and cannot tell the two apart */
    uint64_t last_use; /* the same number on all processes, and another in each plan */
    /* This process's list; NULL: none yet. It depends on what follows, but not on where regions begin. */
    weft_exchange *exchange;
    int64_t *strides; /* num_own * ndim */
    bool *in_place;   /* by own box: the shard's memory is the box's */
    weft_box_places places;
} weft_box_plan;

/* A process's boxes as the program gave them. */
typedef struct weft_boxes {
    const char *function;
    int count;
    const weft_subarray *items;
} weft_boxes;

/* The strides of a box: the program's, or row-major. */
void weft_subarray_strides(const weft_subarray *of, int ndim, int64_t strides[]);

/* Where the boxes lie, by the plan's strides and boxes in place. False: no memory. */
bool weft_box_places_find(const weft_box_plan *plan, const weft_boxes *given, weft_box_places *places);
/* Whether chunks lie at the same places of the same regions, wherever these begin. */
bool weft_box_places_equal(const weft_box_places *a, const weft_box_places *b);
void weft_box_places_free(weft_box_places *places);

/* Builds this process's list (boxes_lower.c). False: no memory. */
bool weft_box_plan_lower(const weft_box_plan *plan, weft_exchange *exchange);

/* Submits the transfers of a plan (boxes_run.c). A new tensor of the plan's layout, owned by the innermost scope; NULL with the
 * error kept. */
weft_tensor_impl *weft_box_plan_import(weft_box_plan *plan, const weft_boxes *given);
/* The same out of a tensor of the plan's layout. False with the error kept. */
bool weft_box_plan_export(weft_box_plan *plan, const weft_boxes *given, weft_tensor_impl *tensor);

/* The plan of this call, found by its boxes or agreed between all processes (boxes_agree.c); NULL with the error kept.
 * `layout` NULL: wrong arguments of this process, the error is kept. `right`: the pointers are right too. */
weft_box_plan *weft_box_plan_obtain(const weft_boxes *given, const weft_layout *layout, bool into_tensor, bool right);

static inline bool weft_boxes_are_fixed(void)
{
    return weft_runtime.arrays->fixed_boxes > 0;
}

#endif
