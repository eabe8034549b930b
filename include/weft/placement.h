/** \file
 * Placements: how a tensor is laid out along one dimension of a mesh.
 *
 * A tensor has one placement per mesh dimension. A Shard cuts a dimension of n rows into p parts, one for each
 * coordinate of the mesh dimension, in one of these ways (weft_cut_kind):
 *
 *   text         cut                 parts of 10 rows over 4 ranks
 *   S0           WEFT_CUT_CHUNKS     3, 3, 3, 1   chunks of ceil(n / p) rows, as torch.chunk cuts; the last ones are smaller or empty
 *   S0=          WEFT_CUT_BALANCED   3, 3, 2, 2   n / p rows, and one more in each of the first n % p: what most MPI programs do
 *   S0{5,0,4,1}  WEFT_CUT_SIZES      5, 0, 4, 1   as listed
 *   S0*2         WEFT_CUT_CYCLIC     4, 2, 2, 2   blocks of 2 rows, dealt in turn: the first part has rows 0, 1, 8 and 9 (ScaLAPACK)
 *   S0*2+1       the same            2, 4, 2, 2   and part 1 gets the first block
 *   S0z          WEFT_CUT_ZIGZAG     2, 2, 2, 4   chunks c and 2p - 1 - c of 2p: equal work where row i works with rows 0 .. i
 *   S0%5         a period            4, 4, 2, 0   the cut (chunks) is that of 5 rows, and repeats: the first part has rows 0, 1, 5, 6
 *
 * A period may follow any of the cuts: S0z%8, S0{1,2,2,0}%5. A tensor of shape [2, 5] with the layout S1 becomes S0%5 when its
 * dimensions are made one (weft_flatten()), and nothing moves.
 *
 * A part of a cyclic, zigzag or periodic cut is several runs of rows. A shard's memory has the runs one after the other, in the
 * order of the global index: one dense block.
 *
 * If several mesh dimensions shard one tensor dimension, each splits the parts of the previous one: those of a lower level
 * come first, and those of one level from left to right. For example, five rows with [Shard(0), Shard(0)] on a 2x2 mesh
 * become 2, 1, 1, 1. With [S0@1,S0], whose first placement has level 1, the second mesh dimension cuts first: rows 0 and 1
 * lie at coordinate (0, 0), row 2 at (1, 0), row 3 at (0, 1) and row 4 at (1, 1). This is how PyTorch shards the parameters
 * of a tensor-parallel module fully: gathering along the first mesh dimension leaves S0 of the second one where it is.
 * Listed sizes are those of the whole dimension (of the period, if they repeat), so without a period they are possible only for
 * the mesh dimension that cuts it first.
 *
 * Layouts with the same parts are equal, and their placements the simplest ones that say them, if each part is consecutive rows in
 * the order of the ranks: S0= of 8 rows over 4 ranks is S0, [S0@7,R] is [S0,R], S0{6,4,0,0} is S0*6 (one block for each part). But a
 * block of more rows than there are keeps its size, and a period that is longer than the dimension may stay.
 *
 * Linear operations compute with the addends of a Partial tensor, and their result is Partial (docs/operations.md,
 * "Partial that passes"). Infinities and NaN make a difference: infinity times a Partial tensor (weft_mul(),
 * weft_scale(), weft_matmul(), ...) is NaN wherever one of its addends is 0, even if the value is not 0. If factors
 * may be infinite, weft_redistribute() the Partial tensor first. */
#ifndef WEFT_PLACEMENT_H
#define WEFT_PLACEMENT_H

#include <weft/base.h>

WEFT_BEGIN_DECLS

typedef enum weft_placement_kind {
    WEFT_REPLICATE = 0, /**< every rank along the mesh dimension holds the same values */
    WEFT_SHARD,         /**< each rank holds a part of tensor dimension `dim` */
    WEFT_PARTIAL        /**< each rank holds an addend; the value is their reduction with `op` */
} weft_placement_kind;

/**
 * Reductions of a Partial placement. WEFT_AVG is the sum multiplied by 1 / the size of the mesh dimension.
 *
 * The order of a reduction depends only on the layouts. Timing, the number of processes and the choice between
 * replicas do not change a bit, and replicas of the result are equal bit for bit if those of the addends are.
 *
 * Addends are reduced one after another, in the row-major order of their coordinates along the mesh dimensions that
 * are reduced. If there are several such dimensions, they are taken in runs, the last dimensions first. A run ends
 * where the reduction changes (sums and averages count as the same), and before it would have more than 64 addends.
 * Its results are the addends of the next run. A dimension of more than 64 ranks is reduced as n1 x n2, with factors
 * as close to each other as possible (docs/plan.md, "Factored meshes"). The result of each step is rounded to the
 * type. WEFT_BF16 and WEFT_F16 are reduced in single precision and rounded after every seven addends.
 */
typedef enum weft_reduce_op { WEFT_SUM = 0, WEFT_AVG, WEFT_PROD, WEFT_MIN, WEFT_MAX } weft_reduce_op;

/** How a Shard cuts its dimension; see above. */
typedef enum weft_cut_kind {
    WEFT_CUT_CHUNKS = 0,
    WEFT_CUT_BALANCED,
    WEFT_CUT_SIZES,
    WEFT_CUT_CYCLIC,
    WEFT_CUT_ZIGZAG
} weft_cut_kind;

/** A list of the sizes of parts, made by weft_shard_sizes() or from a text. Equal lists are one; they are kept until the program ends. */
typedef struct weft_sizes weft_sizes;

/** The functions below make placements. If you fill one in yourself, begin with zeros: `weft_placement p = { .kind = WEFT_SHARD };`. */
typedef struct weft_placement {
    weft_placement_kind kind;
    int dim;                 /**< for WEFT_SHARD: the tensor dimension (negative counts from the end); otherwise ignored */
    weft_reduce_op op;       /**< for WEFT_PARTIAL; otherwise ignored */
    weft_cut_kind cut;       /**< for WEFT_SHARD; otherwise ignored */
    const weft_sizes *sizes; /**< for WEFT_CUT_SIZES; otherwise ignored */
    int level;               /**< for WEFT_SHARD: at least 0; the lowest cuts first */
    int first;               /**< for WEFT_CUT_CYCLIC: the coordinate that gets the first block; otherwise ignored */
    int64_t block;           /**< for WEFT_CUT_CYCLIC: rows of a block, at least 1. For WEFT_CUT_CHUNKS: rows of a chunk, if not
                                  ceil(n / p); a cyclic cut with one block for each part is said so. Otherwise ignored */
    int64_t period;          /**< for WEFT_SHARD: rows after which the cut begins again; 0: it does not */
} weft_placement;

/** A box of a global index space: the indices i with offset[d] <= i[d] < offset[d] + extent[d]. Only the first ndim
 * entries are read. */
typedef struct weft_box {
    int64_t offset[WEFT_MAX_DIMS];
    int64_t extent[WEFT_MAX_DIMS];
} weft_box;

/** Make a placement: Shard(dim), where a negative dim counts from the end; Replicate; Partial(op). The arguments are
 * checked when you use the placement. */
WEFT_API weft_placement weft_shard(int dim);
/** Shard(dim) in parts that differ by at most one row, the larger ones first. */
WEFT_API weft_placement weft_shard_balanced(int dim);
/**
 * Shard(dim) in parts of the given sizes: sizes[c] rows for coordinate c of the mesh dimension. An owner of all n rows is
 * { 0, n, 0, 0 }.
 *
 * \param parts  as many as the mesh dimension has ranks
 * \param sizes  rows; copied. Each at least 0; their sum is the size of the tensor dimension
 */
WEFT_API weft_placement weft_shard_sizes(int dim, int parts, const int64_t sizes[]);
/**
 * The sizes of a WEFT_CUT_SIZES placement.
 *
 * \param sizes  receives the list, which stays valid until the program ends; NULL for other placements. May be NULL
 * \return their number; 0 for other placements
 */
WEFT_API int weft_placement_sizes(weft_placement placement, const int64_t **sizes);
WEFT_API weft_placement weft_replicate(void);
WEFT_API weft_placement weft_partial(weft_reduce_op op);

/**
 * Parses exactly `n` placements separated by commas: "S0,R", "S(0),P(sum)", "S(-1),P", "R", "S0=", "S1{3,0,5}",
 * "S0*64+1", "S0z", "S0%10", "S0@1". White space is ignored, letters may be upper or lower case, and P alone means P(sum).
 *
 * \param out  receives n placements; unchanged on error
 * \return WEFT_ERR_INVALID if `text` or `out` is NULL, n is not in 0..WEFT_MAX_DIMS, or the text does not have
 *         exactly n placements.
 */
WEFT_API weft_status weft_placements_parse(const char *text, int n, weft_placement out[]);

/**
 * Writes `n` placements in the form that weft_placements_parse() reads: "S0,R,P(max)".
 *
 * \param placements  NULL: Replicate, n times
 * \param size        bytes at `text`, including the terminating 0
 * \return WEFT_ERR_INVALID if `text` is NULL, n is not in 0..WEFT_MAX_DIMS, or the text does not fit; WEFT_ERR_LAYOUT
 *         if a placement is not valid. Nothing is written then.
 */
WEFT_API weft_status weft_placements_format(const weft_placement *placements, int n, char *text, size_t size);

WEFT_END_DECLS

#endif
