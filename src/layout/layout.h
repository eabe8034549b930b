/* src/layout: where every element of a tensor lives. Shape arithmetic of meshes, placements, boxes of
 * shards, panels, interned layouts, parsing and printing. PURE: values in, values out; no StarPU, no MPI,
 * no threads, and no knowledge of the present process, so a laptop can examine a layout of 65,536 ranks. A
 * function that fails for a reason worth telling writes it to `why` (may be NULL): a text that names the
 * expected value. */
#ifndef WEFT_SRC_LAYOUT_H
#define WEFT_SRC_LAYOUT_H

#include <weft/mesh.h>
#include <weft/placement.h>

#include "base/base.h"
#include "base/text.h"

/* ---- boxes --------------------------------------------------------------------------------------------- */

/* Product of the extents; 1 for ndim 0. */
int64_t weft_box_count(int ndim, const weft_box *box);
/* False if they are disjoint: then *out has at least one extent of 0. `out` may alias an input. */
bool weft_box_intersect(int ndim, const weft_box *a, const weft_box *b, weft_box *out);
bool weft_box_equal(int ndim, const weft_box *a, const weft_box *b);
/* The whole index space of a shape. */
weft_box weft_box_whole(int ndim, const int64_t shape[]);

/* ---- meshes -------------------------------------------------------------------------------------------- */

/* The object that a program's weft_mesh handle names. */
typedef struct weft_mesh_impl {
    weft_mesh *handle; /* NULL: the library's own */
    int ndim;
    int64_t shape[WEFT_MAX_DIMS];
    int64_t num_ranks;
    char *names[WEFT_MAX_DIMS]; /* NULL: no name */
    int *ranks;                 /* row-major; NULL: 0 .. num_ranks - 1 */
    int *sorted;                /* with ranks: positions in `ranks`, by ascending rank (for the look-up) */
    bool ascending;             /* `ranks` is ascending */
    uint64_t digest;            /* of the ranks, in their order */
    const struct weft_mesh_impl *factored_from; /* the mesh that owns `ranks` and `sorted`; NULL: itself */
} weft_mesh_impl;

/* Copies its arguments. NULL with *status and why: wrong ndim, sizes, names or ranks, or no memory. ranks
 * NULL: the identity. world_size bounds the ranks. */
weft_mesh_impl *weft_mesh_new(int ndim, const int64_t shape[], const int ranks[], const char *const names[],
                              int64_t world_size, weft_status *status, char *why, size_t why_size);
/* The same ranks in the same order in another shape, of the same size. Borrows the mesh's look-up of ranks:
 * the mesh must outlive it. NULL: no memory. */
weft_mesh_impl *weft_mesh_factor(const weft_mesh_impl *mesh, int ndim, const int64_t shape[]);
void weft_mesh_delete(weft_mesh_impl *mesh);
bool weft_mesh_same(const weft_mesh_impl *a, const weft_mesh_impl *b); /* shape, ranks and names */

/* "2x2 (dp, tp) of ranks 0, 2, 1, 3": names and ranks only if it has them; always terminated; returns
 * text. */
char *weft_mesh_format(const weft_mesh_impl *mesh, char *text, size_t size);
int weft_mesh_rank_at(const weft_mesh_impl *mesh, int64_t index); /* rank at a row-major position */
int64_t weft_mesh_index_of(const weft_mesh_impl *mesh, int rank); /* row-major position of a rank, or -1 */
void weft_mesh_unravel(const weft_mesh_impl *mesh, int64_t index, int64_t coordinate[]);
int64_t weft_mesh_ravel(const weft_mesh_impl *mesh, const int64_t coordinate[]);

/* ---- placements ---------------------------------------------------------------------------------------- */

bool weft_placement_equal(weft_placement a, weft_placement b); /* ignores the fields that its kind ignores */
bool weft_same_cut(weft_placement a, weft_placement b); /* of two Shards, whatever their dimensions and levels */
bool weft_placements_equal(const weft_placement a[], const weft_placement b[], int n);

/* Copies `n` placements in canonical form: Shard dims made non-negative, unused fields zero; NULL `in` gives
 * Replicate. WEFT_ERR_LAYOUT with why when a kind, op or dim is out of range for a tensor of `ndim`. */
weft_status weft_placements_normalize(const weft_placement *in, int n, int ndim, weft_placement out[],
                                      char *why, size_t why_size);
/* weft_placements_parse(), with the reason of a failure. */
weft_status weft_placements_read(const char *text, int n, weft_placement out[], char *why, size_t why_size);
/* Adds "S0,R,P(sum)". */
void weft_placements_write(weft_text *text, const weft_placement *placements, int n);
/* The same for people: of a list of more than 16 sizes the first ones and the last, "S0{4,3, ... ,5}". */
void weft_placements_show(weft_text *text, const weft_placement *placements, int n);
/* "[S0,R,P(sum)]", for people; always terminated; returns text. */
char *weft_placements_text(const weft_placement *placements, int n, char *text, size_t size);
const char *weft_reduce_op_name(weft_reduce_op op);

/* WEFT_ERR_LAYOUT with why: sizes that are not those of the mesh dimension, of the tensor dimension, or of all of it. The
 * placements are normalized. */
weft_status weft_placements_check_sizes(const weft_mesh_impl *mesh, const weft_placement placements[], const int64_t shape[],
                                        char *why, size_t why_size);

/* ---- cuts (cut.c)
 *
 * A Shard cuts n rows into `parts` parts. If its listed sizes do not add up to n rows in so many parts, or chunks of its block do
 * not hold n rows, it cuts chunks of ceil(n / parts). This happens in layouts between two others, when a plan changes one mesh
 * dimension after the other.
 *
 * Rows are numbered in the order in which the parts store them: those of part 0 first. This is the order of the global indices
 * except where a cut is cyclic, zigzag or periodic (nesting.c). */

/* Whether a Shard cuts chunks of ceil(n / parts) rows. */
static inline bool weft_cut_is_chunks(weft_placement shard)
{
    return shard.cut == WEFT_CUT_CHUNKS && shard.block == 0 && shard.period == 0;
}
/* Chunks of a given size as the blocks that they are, also of more rows than these chunks hold. */
static inline weft_placement weft_cut_in_blocks(weft_placement shard)
{
    if (shard.cut == WEFT_CUT_CHUNKS && shard.block > 0) {
        shard.cut = WEFT_CUT_CYCLIC;
        shard.first = 0;
    }
    return shard;
}
/* Whether a part may be several runs of rows. */
bool weft_cut_has_runs(weft_placement shard);
/* Finds run number `run` of a part: where it begins among the n rows that are cut. Returns its length; 0: the part has no more. */
int64_t weft_part_run(weft_placement shard, int64_t n, int64_t parts, int64_t index, int64_t run, int64_t *begin);
/* The rows that part `index` stores. Empty chunks lie at n, other empty parts where they are listed. */
void weft_part_range(weft_placement shard, int64_t n, int64_t parts, int64_t index, int64_t *offset, int64_t *extent);
/* The part that has a row of those that are cut, 0 <= row < n; the row's number there; and how many rows from this one on, itself
 * included, follow each other there too. */
int64_t weft_part_at(weft_placement shard, int64_t n, int64_t parts, int64_t row, int64_t *number, int64_t *together);
/* The part that holds a row, 0 <= row < n, which are numbered as they are stored. */
int64_t weft_part_of_row(weft_placement shard, int64_t n, int64_t parts, int64_t row);
/* One of the parts with the most rows, and how many these are. */
int64_t weft_part_largest(weft_placement shard, int64_t n, int64_t parts, int64_t *rows);
/* How many of the parts first .. last have rows, where these two have. */
int64_t weft_parts_filled(weft_placement shard, int64_t n, int64_t parts, int64_t first, int64_t last);
/* Parts from `index` on that have as many rows as it: 1 or more, in cuts with runs perhaps not all of them. */
int64_t weft_parts_alike(weft_placement shard, int64_t n, int64_t parts, int64_t index);
/* The different numbers of rows that the parts of a dimension have, as far as it has been cut. */
typedef struct weft_extents {
    int count; /* -1: too many to tell */
    int64_t rows[16];
    bool cut; /* into more than one part */
} weft_extents;
/* Cuts all parts once more. */
void weft_extents_cut(weft_extents *extents, weft_placement shard, int64_t parts);
/* A Shard's canonical form where `rows` rows are cut that have not been cut before. */
weft_placement weft_cut_canonical(weft_placement shard, int64_t rows, int64_t parts);
/* The mesh dimensions in the order in which they cut a dimension that they share: by level, then from left to right. */
void weft_cut_order(int mesh_ndim, const weft_placement placements[], int order[]);
/* Cuts and levels in canonical form, in place: those that make the same parts of this shape are equal. Sizes that do not fit
 * become chunks: `placements` may come from another layout. Levels of a tensor dimension are 0, or, if its cuts are not from left
 * to right, their numbers in the order of cutting. */
void weft_placements_settle(const weft_mesh_impl *mesh, const int64_t shape[], weft_placement placements[]);
/* A list of sizes, never changed. */
struct weft_sizes {
    weft_sizes *next; /* in its bucket */
    uint64_t digest; /* equal for equal lists on all processes */
    int64_t count, total, largest; /* `largest`: the first part with the most rows */
    weft_placement equal;          /* the simplest cut with these parts; WEFT_CUT_SIZES: none */
    int64_t *begin;                /* count + 1: where each part begins */
    int64_t *filled;               /* count + 1: how many parts before each one have rows */
    int64_t sizes[];
};
/* The one list with these sizes. NULL: no memory, a negative one, none, or a sum beyond int64. */
const weft_sizes *weft_sizes_intern(int64_t count, const int64_t sizes[]);

/* ---- shapes -------------------------------------------------------------------------------------------- */

/* Whether a tensor can have it. WEFT_ERR_INVALID, WEFT_ERR_SHAPE with why. */
weft_status weft_shape_check(int ndim, const int64_t shape[], char *why, size_t why_size);

/* ---- layouts ------------------------------------------------------------------------------------------- */

/* mesh + placements + global shape + dtype: immutable and interned; equal layouts of one table are one
 * pointer. It lives until a sweep of the table does not meet it. */
typedef struct weft_layout {
    const weft_mesh_impl *mesh;
    weft_placement placements[WEFT_MAX_DIMS]; /* canonical, mesh->ndim of them */
    int order[WEFT_MAX_DIMS];                 /* weft_cut_order() of them */
    int ndim;
    int64_t shape[WEFT_MAX_DIMS];
    weft_dtype dtype;
    int64_t panel_rows; /* panels are cut at row numbers of the WHOLE dimension that are multiples of this; >= 1 */
    /* Rows at the beginning and at the end of each shard that are panels of their own: those of ghosted arrays. If there are any, so
     * are the rows beside them that other ranks' margins get, and the others are cut after so many panel_rows from the first of
     * them on. */
    int64_t margin_rows[2];
    bool wraps; /* the margins at the tensor's ends have rows of the other end */
    bool has_partial;
    bool has_runs; /* a cut is cyclic, zigzag or periodic: shards may not be boxes of global indices */
    uint64_t hash; /* for the table: includes the mesh's address */
    /* Equal on every process: a digest of type, shape and the mesh's shape, in the second one also of the
     * placements. Without the mesh's ranks; mesh->digest has them. The third one has no sizes and no cuts:
     * which kind a cut is depends on sizes (canonical placements). */
    uint64_t shape_digest, digest, sizeless_digest;
    uint64_t met; /* by the table's sweep of this number; no other thread reads it */
} weft_layout;

/* Parameters of panel heights, see weft_panel_rows(). weft_machine_panels() derives them from a machine's
 * figures. */
typedef struct weft_panel_policy {
    double byte_us;       /* time to move a byte, by the slower of copies and messages */
    double panel_us;      /* time of one more panel: a task and a message */
    int64_t min_bytes;    /* of a panel */
    int64_t min_rows;     /* of a panel, if the shard has four times as many */
    int64_t max_panels;   /* of a shard, about */
    int64_t target_bytes; /* > 0: instead of all but max_panels, a panel is at least about this large */
    int64_t forced_rows;  /* > 0: always this height */
    int64_t whole_bytes;  /* > 0: for devices, instead of all but min_bytes and max_panels: a shard of at most so many bytes is one
                             panel, a larger one has panels of at most so many */
    int64_t least_panels; /* with whole_bytes: of a shard that has min_bytes for each of them, so that devices can share it */
} weft_panel_policy;
/* That of the built-in machine. */
#define WEFT_PANEL_POLICY_DEFAULT                                                                            \
    {                                                                                                        \
        1.0 / 118.0, 5.0, 80000, 128, 64, 0, 0, 0, 0                                                             \
    }

typedef struct weft_layout_table weft_layout_table;
weft_layout_table *weft_layout_table_new(weft_panel_policy policy); /* NULL: no memory */
void weft_layout_table_delete(weft_layout_table *table);            /* and every layout and mesh in it */

/* The one layout with these values; placements must be normalized and the shape valid. Its own placements have canonical
 * cuts. NULL: no memory. No allocation if it exists. */
const weft_layout *weft_layout_intern(weft_layout_table *table, const weft_mesh_impl *mesh,
                                      const weft_placement *placements, int ndim, const int64_t shape[],
                                      weft_dtype dtype);

/* The same of a tensor whose shards have margins of rows: with panels of `panel_rows` rows between them. Rows of shards that are
 * not empty are at least those of both margins. */
typedef struct weft_margins {
    int64_t before, after, panel_rows;
    bool wraps;
} weft_margins;
const weft_layout *weft_layout_intern_margins(weft_layout_table *table, const weft_mesh_impl *mesh,
                                              const weft_placement *placements, int ndim, const int64_t shape[], weft_dtype dtype,
                                              const weft_margins *margins);

static inline bool weft_layout_has_margins(const weft_layout *layout)
{
    return layout->margin_rows[0] > 0 || layout->margin_rows[1] > 0;
}

/* ---- sweeps
 *
 * Layouts have no counts of those who hold them, which would cost at each use. Instead, once the table has many more than it
 * had, all holders are met, and the layouts that none of them holds are freed. */

/* Layouts that nothing holds may take so many bytes, about, until the table is full; 0 in a new table. */
void weft_layout_table_spare(weft_layout_table *table, int64_t bytes);
/* Whether a sweep is due. */
bool weft_layout_table_is_full(const weft_layout_table *table);
/* A holder has this layout (NULL: none): the sweep that is under way keeps it. */
void weft_layout_table_meet(weft_layout_table *table, const weft_layout *layout);
/* Ends a sweep: frees the layouts that were not met since the last one. */
void weft_layout_table_sweep(weft_layout_table *table);
size_t weft_layout_table_count(const weft_layout_table *table);

/* ---- meshes of the table ------------------------------------------------------------------------------- */

/* The one mesh of the table with the same ranks in this shape: see weft_mesh_factor(). It lives as long as
 * the table. NULL: no memory. */
const weft_mesh_impl *weft_layout_table_factor(weft_layout_table *table, const weft_mesh_impl *mesh, int ndim,
                                               const int64_t shape[]);

/* The box that a rank holds; an empty chunk keeps the extents of the other dimensions. False for a rank
 * outside the mesh: then all extents are 0 (ndim 0 has no extents). */
bool weft_layout_shard_box(const weft_layout *layout, int rank, weft_box *box);
/* The same for a mesh coordinate. An empty chunk keeps the extents of the other dimensions. */
void weft_layout_coordinate_box(const weft_layout *layout, const int64_t coordinate[], weft_box *box);
bool weft_layout_has_rank(const weft_layout *layout, int rank);
/* Whether a mesh dimension shards a tensor dimension. */
static inline bool weft_layout_shards(const weft_layout *layout, int mesh_dim, int dim)
{
    return layout->placements[mesh_dim].kind == WEFT_SHARD && layout->placements[mesh_dim].dim == dim;
}
/* Number of parts that the mesh dimensions cut a dimension into; 1: it is not sharded, or over one rank. */
int64_t weft_layout_parts(const weft_layout *layout, int dim);
/* Sets in_a[m] and in_b[m], for each layout, where mesh dimension m of more than one rank cuts a tensor dimension that the other
 * layout does not cut alike up to there; leaves the rest as it is. Both layouts have one mesh. */
void weft_layout_mark_changed_cuts(const weft_layout *a, const weft_layout *b, bool in_a[], bool in_b[]);

/* ---- rows in the order of parts (nesting.c)
 *
 * Where a cut is cyclic, zigzag or periodic, rows are numbered as they are stored: boxes of shards, panels and kernels have these numbers. */

/* Whether the rows of a dimension have the same numbers in both layouts: those of the global indices, or by the same cuts. */
bool weft_layouts_number_alike(const weft_layout *a, const weft_layout *b, int dim);
bool weft_layouts_number_all_alike(const weft_layout *a, const weft_layout *b); /* of all dimensions */
/* Consecutive global rows of a shard: `local` is the first one's number within the shard. */
typedef struct weft_run {
    int64_t begin, rows, local;
} weft_run;
/* The runs of the rank at a coordinate, ascending; `runs` is empty before. Takes time and memory for each of them. False: no
 * memory. */
bool weft_layout_runs(const weft_layout *layout, const int64_t coordinate[], int dim, weft_vec *runs);
/* Writes where a global row of dimension `dim` lies: the coordinates along the mesh dimensions that cut it. Returns how many rows from
 * this one on, itself included, follow each other there. */
int64_t weft_layout_place(const weft_layout *layout, int dim, int64_t row, int64_t coordinate[]);
/* Rows that two shards have in common: the first one's numbers within each, and how many such rows come before. */
typedef struct weft_common_run {
    int64_t source, target, rows, before;
} weft_common_run;
/* Appends the rows that two lists of runs have in common, ascending. False: no memory. */
bool weft_common_runs(const weft_vec *source, const weft_vec *target, weft_vec *common);
/* Counts them. */
int64_t weft_common_rows(const weft_vec *common);

/* A rank that holds as much as any. */
int weft_layout_largest_rank(const weft_layout *layout);
/* Whether the layout is, along a mesh dimension, as a normalized placement says: cuts that make the same parts are equal. */
bool weft_layout_lies_as(const weft_layout *layout, int mesh_dim, weft_placement wanted);
/* Elements that a rank holds; 0 outside the mesh. */
int64_t weft_layout_shard_count(const weft_layout *layout, int rank);

/* A rank's shard without its memory. */
typedef struct weft_shard_info {
    int rank;
    bool member; /* the rank is in the mesh */
    weft_box box;
    int64_t count;      /* elements; 0: empty, without panels */
    int64_t num_panels; /* cut as weft_panel_range(layout, &box, ...) says */
} weft_shard_info;
weft_shard_info weft_layout_shard(const weft_layout *layout, int rank);

/* Elements in one row (dimension 0) of a shard with this box; 1 for ndim 0. */
int64_t weft_row_elements(int ndim, const weft_box *box);

/* Panel height: a power of two (or forced_rows), a pure function of shape, dtype and placements, so that
 * every rank can compute every other rank's panels, and cuts of different heights nest. If moving the
 * largest shard takes W us and a panel costs o us, p panels end about W / p + p o after the longer of the
 * operations before and after it. So there are about sqrt(W / o) panels, within the policy's bounds. */
int64_t weft_panel_rows(const weft_panel_policy *policy, const weft_mesh_impl *mesh,
                        const weft_placement *placements, int ndim, const int64_t shape[], weft_dtype dtype);
/* Number of panels of a shard with this box: 0 if it is empty; 1 for a scalar. */
int64_t weft_panel_count(const weft_layout *layout, const weft_box *box);
/* Global rows [first, last) of panel `index` of a shard with this box. ndim 0: [0, 1). */
void weft_panel_range(const weft_layout *layout, const weft_box *box, int64_t index, int64_t *first,
                      int64_t *last);
/* The position of global row `row` among all rows, 0 to 1, as seen from a rank: its own even share of the
 * rows comes last, the rows after that share first. So a rank first computes rows that others wait for,
 * and ranks begin with different rows. ndim 0: 0. */
double weft_row_position(const weft_layout *layout, int rank, int64_t row);
/* Numbers of panels before and behind those of panel_rows, in a shard of a layout with margins. */
void weft_panel_margins(const weft_layout *layout, const weft_box *box, int *leading, int *trailing);
/* Whether the panel is a margin. */
bool weft_panel_is_margin(const weft_layout *layout, const weft_box *box, int64_t index);
/* The panel that holds global row `row` of the box. */
int64_t weft_panel_of_row(const weft_layout *layout, const weft_box *box, int64_t row);
/* Strides (elements) of a rank's shard, and bytes from the first row of a panel to the first element of `part`, a part of it. */
int64_t weft_panel_offset(const weft_layout *layout, int rank, int64_t panel, const weft_box *part, int64_t stride[]);

/* "f32[5, 3] [S0,R] on 2x2"; always terminated; returns text. */
char *weft_layout_format(const weft_layout *layout, char *text, size_t size);
/* The same with all of weft_mesh_format(). */
char *weft_layout_describe(const weft_layout *layout, char *text, size_t size);

#endif
