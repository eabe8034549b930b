/* Arguments of weft_from_local() and relatives until the tensor exists. */
#ifndef WEFT_SRC_ARRAYS_IMPORT_H
#define WEFT_SRC_ARRAYS_IMPORT_H

#include "tensor/tensor.h"

typedef struct weft_managed weft_managed;

typedef struct weft_import {
    const char *function;
    weft_dtype dtype; /* argument; from weft_import_call() on without WEFT_WITH_GRAD, which `given` may have */
    weft_dtype given;
    int ndim;
    const weft_mesh_impl *mesh;
    const weft_placement *placements; /* argument */
    void *const *locals;
    unsigned flags;
    const int64_t *shape;        /* of the whole tensor */
    const int64_t *even_shape;   /* or the shape of every shard */
    bool asks;                   /* or computed from the local_shapes of all ranks */
    const int64_t *local_shapes; /* ndim sizes for each hosted rank; NULL: not given */
    const int64_t *strides;      /* ndim strides in elements for each hosted rank; NULL: row-major */
    bool refused;                /* other arguments are wrong: the error is kept */
    /* Managed tensors, in which locals and strides are found; NULL: none (dlpack.h). */
    const weft_managed *managed;
    int *nodes; /* memory nodes of the locals, one for each hosted rank; NULL: no devices compute */
    /* Found by checks and comparison: */
    weft_placement canonical[WEFT_MAX_DIMS];
    int64_t whole[WEFT_MAX_DIMS]; /* the whole tensor's shape, also if the argument is NULL */
    const weft_layout *layout;    /* NULL: unknown yet */
} weft_import;

/* The tensor of these arguments; NULL with the error kept. */
weft_tensor *weft_import_call(weft_import *import, const weft_mesh *mesh);

/* Notes the memory node of a hosted rank's memory, which is that of a device, after the device's work: -1, if the process does not compute there. `number`: the
 * device, in words. False with the error kept. */
bool weft_import_lend(const weft_import *import, int local_rank, int node, const char *number);

/* Checks the managed tensor of a hosted rank against the layout, and fills in its memory and strides. False with the error
 * kept. */
bool weft_managed_check(const weft_import *import, int local_rank);
/* Whether some managed tensor is flagged so. */
bool weft_managed_any_read_only(const weft_import *import);
/* The tensor's shards take over the managed tensors; those of which they have a copy are deleted at once. */
void weft_managed_take(const weft_import *import, weft_tensor_impl *tensor);

/* Checks this process's arguments. False with the error kept. Afterwards the layout is known, unless it needs the other processes'
 * sizes. */
bool weft_import_check(weft_import *import);
/* The tensor of a call with WEFT_STRIDES (strided.c). NULL with the error kept. */
weft_tensor *weft_import_strided(weft_import *import);

/* "[4, 3]", for messages. Returns `text`. */
char *weft_sizes_text(int ndim, const int64_t sizes[], char *text, size_t size);

/* BLOCKS: all processes compare their arguments, with the same result on each: the layout in
 * import->layout, or false with the error kept. `right`: this process's arguments are valid; else its
 * error is kept already, and the others get its status. Errors of tasks, which concern other calls, are
 * neither collected nor compared here. */
bool weft_import_compare(weft_import *import, bool right);

#endif
