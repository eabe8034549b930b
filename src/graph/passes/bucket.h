/* Buckets: small redistributions of one kind that travel together. Each rank copies its shards one after the other into a
 * FLAT tensor, which is redistributed as one, and each rank's part of the result is taken apart again.
 *
 * All tensors of a bucket have one mesh, one element type and equal placements before and after. A mesh dimension may
 * reduce (Partial to Replicate or Shard), gather (Shard to Replicate), or stay. The flat tensor has a dimension for each
 * mesh dimension that shards before or after, and one along which the tensors follow each other:
 *
 *     [P] -> [R]    f32[1, 640]  [P] -> [R]      the tensors of each rank
 *     [P] -> [S]    f32[4, 160]  [P] -> [S0]     row r: what rank r gets
 *     [S] -> [R]    f32[4, 160]  [S0] -> [R]     row r: what rank r has
 *
 * Elements are added in the same order as by themselves, since that follows from the mesh alone (docs/plan.md): results
 * are equal bit for bit. */
#ifndef WEFT_SRC_GRAPH_PASSES_BUCKET_H
#define WEFT_SRC_GRAPH_PASSES_BUCKET_H

#include <stdatomic.h>

#include "tasks/region.h"
#include "tensor/actions.h"

enum {
    WEFT_BUCKET_MEMBER_BYTES = 32 << 10, /* of a tensor on a rank, at most: a larger one is worth its own message */
    WEFT_BUCKET_BYTES = 256 << 10        /* of a bucket: the next one is filled while this one is under way */
};

/* Bytes between a panel of a tensor and a panel of the flat tensor: operands of the task. */
typedef struct weft_bucket_copy {
    int operand, flat;
    int64_t flat_offset;
    weft_region region; /* of the tensor's panel */
} weft_bucket_copy;

/* The copies of one hosted rank. Operands of the task: all panels of the tensors, in their order, and those of the flat
 * tensor. */
typedef struct weft_bucket_part {
    weft_vec copies; /* weft_bucket_copy */
    int num_operands, first_flat;
    int64_t *flat_bytes; /* of each panel of the flat tensor */
} weft_bucket_part;

typedef struct weft_bucket {
    atomic_int references; /* of the body, and of submitted tasks */
    int num_tensors;
    const weft_layout **from, **to; /* of each tensor */
    int64_t *offsets;               /* of each tensor in a row of the flat tensor: elements */
    const weft_layout *flat_from, *flat_to;
    bool views; /* the results are views of the flat one */
    int num_shards;
    weft_bucket_part *packs, *unpacks; /* by hosted rank */
} weft_bucket;

/* Whether a redistribution is a small one that may be in a bucket; whether two may be in one. Equal on all processes. */
bool weft_bucket_takes(const weft_layout *from, const weft_layout *to);
bool weft_bucket_takes_both(const weft_layout *from, const weft_layout *to, const weft_layout *other_from,
                            const weft_layout *other_to);
/* Bytes of a tensor on a rank, before or after, whichever are more. */
int64_t weft_bucket_bytes(const weft_layout *from, const weft_layout *to);

/* NULL: no memory. */
weft_bucket *weft_bucket_new(int num_tensors, const weft_layout *const from[], const weft_layout *const to[]);
/* May be NULL. */
void weft_bucket_release(weft_bucket *bucket);
/* weft_meet_layout() for all of its layouts. */
void weft_bucket_meet_layouts(const weft_bucket *bucket);
/* A further reference, for one more run of the kernel of a task with these arguments (predictions). */
void weft_bucket_hold(const void *arguments);

/* The call: its tensors are details->tensors, its bucket details->memory (bucket_run.c). */
extern const weft_operation weft_action_bucket;

#endif
