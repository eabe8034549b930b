/* Tensors of the program's own shards, on their way: what weft_from_local() and the like were given. */
#ifndef WEFT_SRC_TENSOR_IMPORT_H
#define WEFT_SRC_TENSOR_IMPORT_H

#include "tensor/tensor.h"

typedef struct weft_import {
    const char *function;
    weft_dtype dtype;
    int ndim;
    const weft_mesh_impl *mesh;
    const weft_placement *placements; /* as given */
    void *const *locals;
    unsigned flags;
    const int64_t *shape;        /* of the whole tensor */
    const int64_t *even_shape;   /* or of every shard */
    bool asks;                   /* or it follows from the local_shapes of all ranks */
    const int64_t *local_shapes; /* ndim sizes for each hosted rank; NULL: not given */
    const int64_t *strides;      /* ndim strides in elements for each hosted rank; NULL: row-major */
    /* Found by checks and comparison: */
    weft_placement canonical[WEFT_MAX_DIMS];
    int64_t whole[WEFT_MAX_DIMS]; /* the whole tensor's shape; not of one that asks */
    const weft_layout *layout;    /* NULL: not known yet */
} weft_import;

/* BLOCKS: all processes tell each other what they were given, and come to the same end: the layout is in
 * import->layout, or false with the error kept. `right`: this process's arguments are; else its error is kept already,
 * and the others get its status. What tasks of this process report meanwhile concerns other calls, and must not part it
 * from the others: it stays where it is. */
bool weft_import_compare(weft_import *import, bool right);

#endif
