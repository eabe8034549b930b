/** \file
 * Placements: how a tensor lies along one dimension of a mesh.
 *
 * A tensor has one placement per mesh dimension. Uneven and nested sharding follow torch.chunk: a dimension
 * of n rows over p ranks is cut into chunks of ceil(n / p) rows, the last ones smaller or empty. Several mesh
 * dimensions that shard one tensor dimension split it left to right, each splitting the chunks of the former.
 * Five rows with [Shard(0), Shard(0)] on a 2x2 mesh: 2, 1, 1, 1.
 *
 * Linear operations compute with the addends of a Partial tensor, and their result is Partial
 * (docs/operations.md, "Partial that passes"). Infinities and NaN make a difference: infinity times a Partial
 * tensor (weft_mul(), weft_scale(), weft_matmul(), ...) is NaN wherever one of its addends is 0, even if the
 * value is not. If factors may be infinite, weft_redistribute() the Partial tensor first. */
#ifndef WEFT_PLACEMENT_H
#define WEFT_PLACEMENT_H

#include <weft/base.h>

WEFT_BEGIN_DECLS

typedef enum weft_placement_kind {
    WEFT_REPLICATE = 0, /**< every rank along the mesh dimension holds the same values */
    WEFT_SHARD,         /**< each rank holds a chunk of tensor dimension `dim` */
    WEFT_PARTIAL        /**< each rank holds an addend: the value is their reduction with `op` */
} weft_placement_kind;

/**
 * Reductions of a Partial placement. WEFT_AVG is the sum multiplied by 1 / the size of the mesh dimension.
 *
 * The order of a reduction follows from the layouts alone. Timing, the number of processes and the choice
 * between replicas change no bit, and replicas of the result are equal bit for bit where those of the
 * addends are. Addends are reduced one after another, in the row-major order of their coordinates along the
 * mesh dimensions that are reduced. Several such dimensions are taken in runs, the last dimensions first: a
 * run ends where the reduction changes (sums and averages are one) and before it would have more than 64
 * addends; its results are the addends of the next run. A dimension of more than 64 ranks is reduced as n1
 * x n2, with factors as near to each other as there are (docs/plan.md, "Factored meshes"). The result of each
 * step is rounded to the type; WEFT_BF16 and WEFT_F16 are reduced in single precision and rounded after
 * every seven addends.
 */
typedef enum weft_reduce_op { WEFT_SUM = 0, WEFT_AVG, WEFT_PROD, WEFT_MIN, WEFT_MAX } weft_reduce_op;

typedef struct weft_placement {
    weft_placement_kind kind;
    int dim;           /**< of WEFT_SHARD: the tensor dimension, negative counts from the end; else ignored */
    weft_reduce_op op; /**< of WEFT_PARTIAL; else ignored */
} weft_placement;

/** A box of a global index space: the indices i with offset[d] <= i[d] < offset[d] + extent[d]. Entries from the
 * tensor's ndim on are not read. */
typedef struct weft_box {
    int64_t offset[WEFT_MAX_DIMS];
    int64_t extent[WEFT_MAX_DIMS];
} weft_box;

/** Placements: Shard(dim), where a negative dim counts from the end; Replicate; Partial(op). Arguments are
 * checked where the placement is used. */
WEFT_API weft_placement weft_shard(int dim);
WEFT_API weft_placement weft_replicate(void);
WEFT_API weft_placement weft_partial(weft_reduce_op op);

/**
 * Reads exactly `n` placements separated by commas: "S0,R", "S(0),P(sum)", "S(-1),P", "R". White space is
 * ignored; letters may be of either case; P alone is P(sum).
 * \param out  n placements; untouched on error.
 * \return WEFT_ERR_INVALID when `text` or `out` is NULL, n is not in 0..WEFT_MAX_DIMS, or the text does not
 *         hold exactly n placements.
 */
WEFT_API weft_status weft_placements_parse(const char *text, int n, weft_placement out[]);

/**
 * Writes `n` placements as weft_placements_parse() reads them: "S0,R,P(max)".
 * \param placements  NULL: Replicate, n times
 * \param size        bytes at `text`, the terminating 0 included
 * \return WEFT_ERR_INVALID when `text` is NULL, n is not in 0..WEFT_MAX_DIMS, or the text does not fit;
 *         WEFT_ERR_LAYOUT for a placement that is none. Nothing is written then.
 */
WEFT_API weft_status weft_placements_format(const weft_placement *placements, int n, char *text, size_t size);

WEFT_END_DECLS

#endif
